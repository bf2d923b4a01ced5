"""Ladders, tables and bands fitted to numbers."""
