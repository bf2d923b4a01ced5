"""What is asked of keys that are rotated already and shall move."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from posenc._core.arrays.array import concrete, dtype_name
from posenc._core.errors import SpecError, mismatch
from posenc._core.tracing import is_compiling
from posenc.encodings.rotary.base import RotarySpec
from posenc.kernels.plans import FAR

# Half a unit in the last place of 1, which is also the angle below which a pair stays where it is.
HALF_UNIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}


def check_alike(spec: RotarySpec, target: RotarySpec, caller: str) -> None:
    """Raise `SpecError` unless both turn the same pairs."""
    one, other = ((type(s), s.dim, s.channels, s.axes) for s in (spec, target))
    if one != other:
        todo = "Other pairs cannot be reached by turning."
        raise SpecError(
            mismatch(caller, "two specs of one width, pairing and axes", repr(target), todo)
        )


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
