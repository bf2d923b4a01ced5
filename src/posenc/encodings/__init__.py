"""The taxonomy of the field: four kinds of encodings, one paper per file."""
