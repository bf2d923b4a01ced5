"""Queries and keys that another program wrote to files, before they turn and after."""
