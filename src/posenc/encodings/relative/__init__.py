"""Positions that meet the content of queries and keys; one paper, one file."""
