"""Tables: encodings that are added to the embeddings."""
