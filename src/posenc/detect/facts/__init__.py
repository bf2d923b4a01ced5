"""A model -> what is known of it, each fact with its source, and which of these exclude others."""
