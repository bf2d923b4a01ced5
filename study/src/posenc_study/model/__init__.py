"""A small Transformer, the sizes it has, and the encodings in it."""
