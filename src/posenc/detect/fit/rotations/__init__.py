"""Rotations: pairs, angles and encodings behind linear maps and recordings."""
