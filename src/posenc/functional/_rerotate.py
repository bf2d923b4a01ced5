"""Keys that are rotated already, moved to other positions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from posenc._core.array import compute_dtype, constants, dtype_name, is_divided, numpy_rules
from posenc._core.errors import SpecError, mismatch
from posenc._core.phase import cos_sin as phase_cos_sin
from posenc._core.spec import texts_of
from posenc._core.tracing import compile_time
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.pairing import turn
from posenc.functional._drift import warn_of_small_moves
from posenc.functional._lengths import at_length
from posenc.functional._rotation import checked, require_plain
from posenc.functional.arguments import X, name_of
from posenc.functional.tokens import token_positions
from posenc.kernels.reference import turned_by

__all__ = ["rerotate"]

Array = Any


@numpy_rules
def rerotate(
    spec: RotarySpec,
    k: X,
    old_positions: Any,
    new_positions: Any,
    new_spec: RotarySpec | None = None,
    *,
    seq_dim: int = -2,
) -> X:
    """Move keys that are rotated already to other positions, or to another base or scaling.

        k' = R'(new) R(old)^-1 k

    The two phases are subtracted as integers, so the angle is exact however far keys move; each
    move rounds once, to the dtype of the keys. `n` moves differ from one by at most n roundings.

    In half precision that is much where moves are small: a pair that turns by less than half a
    unit in the last place (0.002 in bfloat16, 0.0002 in float16) stays where it was. A thousand
    moves by one position leave an error of half the key in bfloat16 and of 0.07 in float16, one
    move by a thousand 0.002 and 0.0003 (width 128, base 10000). So move keys seldom and far, or
    keep them in float32.

    Parameters
    ----------
    spec : RotarySpec
        What the keys were rotated by; with a length-dependent scaling, `spec.at(length)`.
    k : array
        (..., seq, channels), keys as cached.
    old_positions, new_positions : array of integers
        (seq,), (batch, seq) or the leading shape of `k`.
    new_spec : RotarySpec, optional
        What they shall be rotated by; `spec` by default.
    seq_dim : int
        The axis of `k` that holds the sequence.

    Returns
    -------
    array
        As `k`, in its dtype.

    Raises
    ------
    SpecError
        If the two specs do not turn the same pairs.

    Warns
    -----
    UserWarning
        If keys in half precision move by fewer than 64 positions and some pairs cannot follow.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope, k = posenc.RoPE(4, pairing="half"), np.ones((3, 4))
    >>> cached = posenc.rotate(rope, k, positions=[7, 8, 9])
    >>> moved = posenc.rerotate(rope, cached, [7, 8, 9], [0, 1, 2])
    >>> bool(abs(moved - posenc.rotate(rope, k, positions=[0, 1, 2])).max() < 1e-15)
    True
    """
    caller = f"rerotate({name_of(spec)})"
    if is_divided(k, old_positions, new_positions):
        return _divided_move(
            spec, k, old_positions, new_positions, target=new_spec, seq_dim=seq_dim
        )
    target = spec if new_spec is None else new_spec
    (spec, _), (target, _) = (at_length(each, None, "rerotate") for each in (spec, target))
    alike = spec.dim == target.dim and spec.channels == target.channels and spec.axes == target.axes
    if not alike or type(spec) is not type(target):
        todo = "Other pairs cannot be reached by turning."
        raise SpecError(
            mismatch(caller, "two specs of one width, pairing and axes", repr(target), todo)
        )
    require_plain(spec, caller)
    if spec.channels.output == "half" and spec.channels.order != "half":
        todo = "Rotate the keys from scratch."
        raise SpecError(mismatch(caller, "keys in the order of the weights", "output='half'", todo))
    xp, dtype = checked(spec, k, caller)
    inner = compute_dtype(dtype, xp)
    old = token_positions(spec, k, old_positions, None, seq_dim=seq_dim, xp=xp, caller=caller)
    new = token_positions(target, k, new_positions, None, seq_dim=seq_dim, xp=xp, caller=caller)
    if target == spec:
        warn_of_small_moves(spec, k, old, new, caller)
    cos, sin = _difference(spec, target, old, new, inner=inner, xp=xp)
    before = spec.sizes(old, "key", constants(spec, old, xp=xp), dtype=inner, xp=xp)
    after = target.sizes(new, "key", constants(target, new, xp=xp), dtype=inner, xp=xp)
    target.check_positions(new, dtype_name(dtype))
    ratio = after / before
    if not isinstance(ratio, float) or ratio != 1:
        cos, sin = cos * ratio, sin * ratio
    by_angle = functools.partial(turn, cos=cos, sin=sin, pairing=spec.channels, xp=xp)
    return turned_by(k, by_angle, spec.channels, dim=spec.dim, inner=inner, xp=xp)


class _Difference:
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
def _difference_constants(old: RotarySpec, new: RotarySpec) -> _Difference:
    return _Difference(old, new)


def _difference(
    spec: RotarySpec, target: RotarySpec, old: Array, new: Array, *, inner: Any, xp: Any
) -> tuple[Array, Array]:
    """Cosine and sine of the new angle less the old one."""
    whole = not xp.isdtype(old.dtype, "real floating") and not xp.isdtype(
        new.dtype, "real floating"
    )
    if whole and "step" in spec.arrays and "step" in target.arrays:
        shape = tuple(b if a == 1 else a for a, b in zip(old.shape, new.shape, strict=True))
        both = xp.concat([xp.broadcast_to(new, shape), xp.broadcast_to(old, shape)], axis=-1)
        values = constants(_difference_constants(spec, target), both, xp=xp)
        return phase_cos_sin(both, values["step"], values.get("origin"), dtype=inner, xp=xp)
    c0, s0 = spec.cos_sin(old, constants(spec, old, xp=xp), dtype=inner, xp=xp)
    c1, s1 = target.cos_sin(new, constants(target, new, xp=xp), dtype=inner, xp=xp)
    return c1 * c0 + s1 * s0, s1 * c0 - c1 * s0


def _divided_move(
    spec: RotarySpec, k: Array, old: Any, new: Any, *, target: RotarySpec | None, seq_dim: int
) -> Array:
    from posenc.functional import _divided

    caller = f"rerotate({name_of(spec)})"
    tokens, refused = _divided.of_tokens(k, seq_dim, old, caller)
    last = 1 if len(spec.axes) > 1 else 0

    def moved(k: Array, old: Any, new: Any) -> Array:
        return rerotate(spec, k, old, new, target, seq_dim=seq_dim)

    parts = {
        "k": _divided.Part(k, tokens, leads=True),
        "old": _divided.of_positions(old, tokens, last, k),
        "new": _divided.of_positions(new, tokens, last, k),
    }
    return _divided.apply(moved, parts, tokens, caller, refused)
