"""What the command line says: encodings, positions, files."""
