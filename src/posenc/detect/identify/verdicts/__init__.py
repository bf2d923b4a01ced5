"""Verdicts on arrays, by their shape."""
