"""Files: how far they are trusted, the formats of arrays in them, and how results are written."""
