"""The pictures, a file each."""
