"""Measurements that are kept: each script appends rows to `results/`, one JSON object a line."""
