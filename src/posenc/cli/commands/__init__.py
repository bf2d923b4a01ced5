"""The commands, a file each; those of the detective stand in `detective`."""
