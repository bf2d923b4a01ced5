"""Headers of GGUF files, read into plans."""
