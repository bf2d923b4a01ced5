"""The commands of the detective, a file each."""
