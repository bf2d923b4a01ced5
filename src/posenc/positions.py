"""Positions of tokens: counted, offset, left-padded, packed, on grids, of boxes; and their masks.

A padded or packed batch needs positions and a mask that fit each other: `from_mask` goes with
`padding_mask`, `packed` with `packed_mask`.

Whatever counts is an integer. Only what is divided (normalised grids, boxes) is real, for the specs
that take real positions.

Each builder is a pure function of its arguments, on NumPy, torch, JAX and array-api-strict.
"""

from typing import TYPE_CHECKING

from posenc._core.foreign import taught
from posenc._core.positions.counting import arange, descending, from_mask, offset, padding_mask
from posenc._core.positions.grid import boxes, from_grid_mask, grid
from posenc._core.positions.packing import packed, packed_mask, randomised, segments
from posenc._core.positions.sequences import multimodal, shard, variable
from posenc._core.positions.serving import delta, following, from_token_types, paged, path, tree

__all__ = [
    "arange",
    "boxes",
    "delta",
    "descending",
    "following",
    "from_grid_mask",
    "from_mask",
    "from_token_types",
    "grid",
    "multimodal",
    "offset",
    "packed",
    "packed_mask",
    "padding_mask",
    "paged",
    "path",
    "randomised",
    "segments",
    "shard",
    "tree",
    "variable",
]

# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:
    __getattr__ = taught("posenc.positions", __all__)
