"""Rows of results: in memory, in a store, as CSV, with where they come from."""
