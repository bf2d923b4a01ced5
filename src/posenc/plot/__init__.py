"""Pictures of encodings."""
