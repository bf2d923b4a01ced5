"""The second place in attention: numbers added to the scores, from positions alone."""
