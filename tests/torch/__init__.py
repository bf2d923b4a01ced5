"""Tests of what needs torch and a model that runs."""
