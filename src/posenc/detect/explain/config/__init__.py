"""Views of a config: its keys, its parts, and the modelling file beside it."""
