"""Frequencies, phases and buckets: the numbers behind every encoding."""
