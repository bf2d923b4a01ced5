"""Tests of the facts of a model."""
