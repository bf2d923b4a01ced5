"""Rotations of queries and keys: the second kind of encoding."""
