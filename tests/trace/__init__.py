"""Tests of the trace: which layer of a model that runs turns wrongly."""
