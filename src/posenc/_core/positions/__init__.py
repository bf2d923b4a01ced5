"""Positions: counted, on grids, of mixed sequences and of what serving does."""
