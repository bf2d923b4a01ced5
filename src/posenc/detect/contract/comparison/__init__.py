"""Two sides compared, and the field in which they differ."""
