"""The turn by cosines and sines that are at hand."""

from __future__ import annotations

import functools
from typing import Any, Literal

from posenc._core.arrays.array import (
    astype,
    compute_dtype,
    is_divided,
    namespace,
    numpy_rules,
    result_dtype,
)
from posenc._core.errors import ArgumentError, mismatch
from posenc.encodings.rotary.pairing import PAIRINGS, Order, Pairing, turn
from posenc.functional.arguments.common import Array, X, wrong_shape
from posenc.functional.arguments.tokens import align, place_of
from posenc.kernels.reference import turned_by


@numpy_rules
def apply_rotary(
    x: X,
    cos: Array,
    sin: Array,
    *,
    pairing: Pairing | Order,
    width: Literal["half", "full"] = "half",
    seq_dim: int = -2,
    inplace: bool = False,
) -> X:
    """Turn by cosines and sines that are at hand.

        a' = a cos - b sin,   b' = b cos + a sin      for each pair (a, b) of channels

    Parameters
    ----------
    x : array
        (..., seq, channels), floating. Channels beyond the rotated width pass through.
    cos, sin : array
        (seq, pairs), (batch, seq, pairs) or the leading shape of `x` and pairs, as
        `posenc.cos_sin` gives them.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    width : {"half", "full"}
        Whether cos and sin have an entry for each pair, or for each channel as some models have it.
    seq_dim : int
        The axis of `x` that holds the sequence.
    inplace : bool
        Whether to write over `x`.

    Returns
    -------
    array
        As `x`, in its dtype; the arithmetic is float32 or better.

    Raises
    ------
    ArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope, q = posenc.RoPE(4, pairing="half"), np.ones((1, 8, 3, 4), "float32")
    >>> cos, sin = posenc.cos_sin(rope, 3)
    >>> bool((posenc.apply_rotary(q, cos, sin, pairing="half") == posenc.rotate(rope, q)).all())
    True
    """
    caller = "apply_rotary"
    if isinstance(pairing, str):
        pairing = PAIRINGS.get(pairing) or Pairing(pairing)
    if not isinstance(pairing, Pairing):
        expected = '"half", "interleaved" or a posenc.Pairing'
        raise ArgumentError(mismatch(f"{caller}: pairing", expected, repr(pairing)))
    if is_divided(x, cos, sin):
        from posenc.functional.arguments.divided import on_tokens

        options: dict[str, Any] = {"pairing": pairing, "width": width, "inplace": inplace}
        local = functools.partial(apply_rotary, **options, seq_dim=seq_dim)
        places = {"cos": cos, "sin": sin}
        return on_tokens(local, ("x", x), seq_dim, places, caller, last=1, inplace=inplace)
    xp = namespace(x, f"{caller}: x")
    dtype = result_dtype(x, caller)
    inner = compute_dtype(dtype, xp)
    if tuple(cos.shape) != tuple(sin.shape):
        received = f"{tuple(cos.shape)} and {tuple(sin.shape)}"
        raise ArgumentError(mismatch(caller, "cos and sin of one shape", received))
    if width == "full":
        cos, sin = _half_width(cos, pairing), _half_width(sin, pairing)
    dim = 2 * cos.shape[-1]
    if len(x.shape) < 2 or dim > x.shape[-1]:
        todo = "Where cos and sin have an entry for each channel, say width='full'."
        expected = f"x with at least {dim} channels, two for each of the {dim // 2} pairs"
        raise wrong_shape(caller, expected, x, todo)
    lead, place = tuple(x.shape[:-1]), place_of(tuple(x.shape), seq_dim, caller)
    aligned = align(tuple(cos.shape[:-1]), lead, place, lead[place])
    if aligned is None:
        rows = f"{lead[place]}, {dim // 2}"
        raise wrong_shape(caller, f"cos of shape ({rows}) or (batch, {rows})", cos)
    cos = astype(xp.reshape(cos, (*aligned, dim // 2)), inner, xp)
    sin = astype(xp.reshape(sin, (*aligned, dim // 2)), inner, xp)
    by_angle = functools.partial(turn, cos=cos, sin=sin, pairing=pairing, xp=xp)
    asker = caller if inplace else None
    return turned_by(x, by_angle, pairing, dim=dim, inner=inner, xp=xp, inplace=asker)


def _half_width(full: Array, pairing: Pairing) -> Array:
    """The entry of each pair, from arrays with an entry for each channel."""
    if pairing.blocks:
        expected = "half-width cos and sin for a pairing of several blocks"
        raise ArgumentError(mismatch("apply_rotary: width", expected, "full"))
    if pairing.order == "half":
        return full[..., : full.shape[-1] // 2]
    return full[..., 0::2]
