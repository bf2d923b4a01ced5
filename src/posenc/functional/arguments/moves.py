"""The turn between two positions, or two rotations, of keys that are rotated already."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from posenc._core.arrays.array import compute_dtype, concrete, constants, dtype_name
from posenc._core.errors import SpecError, mismatch
from posenc._core.numeric.phase import cos_sin as phase_cos_sin
from posenc._core.spec.spec import texts_of
from posenc._core.tracing import compile_time, is_compiling
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.pairing import turn
from posenc.functional.arguments.common import Array
from posenc.kernels.reference import turned_by

# Half a unit in the last place of 1, which is also the angle below which a pair stays where it is.
HALF_UNIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
# 8,192 positions in moves of this many leave an error of 0.06 in bfloat16, in moves of 16 one of
# 0.24, of 1 a key that has nothing to do with what it was.
FAR = 64


def check_alike(spec: RotarySpec, target: RotarySpec, caller: str) -> None:
    """Raise `SpecError` unless both turn the same pairs."""
    one, other = ((type(s), s.dim, s.channels, s.axes) for s in (spec, target))
    if one != other:
        todo = "Other pairs cannot be reached by turning."
        raise SpecError(
            mismatch(caller, "two specs of one width, pairing and axes", repr(target), todo)
        )


class PhaseDifference:
    """Constants of the angle between two rotations: one more set of axes, with steps negated."""

    def __init__(self, old: RotarySpec, new: RotarySpec) -> None:
        self.arrays = {"step": np.concatenate([new.arrays["step"], -old.arrays["step"]])}
        origins = [spec.arrays.get("origin") for spec in (old, new)]
        if any(origin is not None for origin in origins):
            before, after = (np.zeros(old.pairs, np.int64) if o is None else o for o in origins)
            self.arrays["origin"] = after - before
        self.texts = texts_of(self.arrays)
        self.device_arrays: dict[Any, Any] = {}


@compile_time
@functools.lru_cache(maxsize=64)
def difference(old: RotarySpec, new: RotarySpec) -> PhaseDifference:
    """The constants of two rotations that have integer phases."""
    return PhaseDifference(old, new)


def moved(
    spec: RotarySpec, target: RotarySpec, k: Array, old: Array, new: Array, *, xp: Any
) -> Array:
    """Keys turned from where `spec` put them to where `target` does, rounded once."""
    inner = compute_dtype(k.dtype, xp)
    cos, sin = _cos_sin(spec, target, old, new, inner=inner, xp=xp)
    before = spec.sizes(old, "key", constants(spec, old, xp=xp), dtype=inner, xp=xp)
    after = target.sizes(new, "key", constants(target, new, xp=xp), dtype=inner, xp=xp)
    target.check_positions(new, dtype_name(k.dtype))
    ratio = after / before
    if not isinstance(ratio, float) or ratio != 1:
        cos, sin = cos * ratio, sin * ratio
    by_angle = functools.partial(turn, cos=cos, sin=sin, pairing=spec.channels, xp=xp)
    return turned_by(k, by_angle, spec.channels, dim=spec.dim, inner=inner, xp=xp)


def _cos_sin(
    spec: RotarySpec, target: RotarySpec, old: Array, new: Array, *, inner: Any, xp: Any
) -> tuple[Array, Array]:
    """Cosine and sine of the new angle less the old one."""
    whole = not xp.isdtype(old.dtype, "real floating") and not xp.isdtype(
        new.dtype, "real floating"
    )
    if whole and "step" in spec.arrays and "step" in target.arrays:
        shape = tuple(b if a == 1 else a for a, b in zip(old.shape, new.shape, strict=True))
        both = xp.concat([xp.broadcast_to(new, shape), xp.broadcast_to(old, shape)], axis=-1)
        values = constants(difference(spec, target), both, xp=xp)
        return phase_cos_sin(both, values["step"], values.get("origin"), dtype=inner, xp=xp)
    c0, s0 = spec.cos_sin(old, constants(spec, old, xp=xp), dtype=inner, xp=xp)
    c1, s1 = target.cos_sin(new, constants(target, new, xp=xp), dtype=inner, xp=xp)
    return c1 * c0 + s1 * s0, s1 * c0 - c1 * s0


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
