"""A warning where keys in half precision are moved in steps that they cannot follow."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from posenc._core.array import concrete, dtype_name, is_compiling
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["warn_of_small_moves"]

# Half a unit in the last place of 1, which is also the angle below which a pair stays where it is.
HALF_UNIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
# 8,192 positions in moves of this many leave an error of 0.06 in bfloat16, in moves of 16 one of
# 0.24, of 1 a key that has nothing to do with what it was.
FAR = 64


def warn_of_small_moves(spec: RotarySpec, k: Any, old: Any, new: Any, caller: str) -> None:
    """Warn if a move turns some pairs by less than the dtype of the keys can hold."""
    least = HALF_UNIT.get(dtype_name(k.dtype))
    if least is None or is_compiling():
        return
    before, after = concrete(old), concrete(new)
    if before is None or after is None or not before.size or not after.size:
        return
    moves = (after - before).reshape(-1, before.shape[-1])
    move = moves[np.abs(moves).sum(axis=-1).argmax()]
    if not 0 < np.abs(move).max() < FAR:
        return
    if "step" in spec.arrays and move.dtype.kind == "i":
        angles = move.astype(np.int64) @ spec.arrays["step"] * (2 * math.pi * 2.0**-64)
    elif "slope" in spec.arrays:
        angles = move @ spec.arrays["slope"]
    else:
        return
    lost = int(((np.abs(angles) > 0) & (np.abs(angles) < least)).sum())
    if lost:
        warnings.warn(
            f"{caller}: a move by {np.abs(move).max()} in {dtype_name(k.dtype)} turns {lost} of "
            f"{spec.pairs} pairs by less than half a unit in the last place: they stay where they "
            "are, and moves one after the other add up what is lost. Move keys seldom and far, or "
            "keep them in float32, or keep them unrotated and rotate them when they are read.",
            UserWarning,
            stacklevel=4,
        )
