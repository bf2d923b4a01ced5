"""Positions that are counted: from a start, from offsets, down, past padding.

`posenc.positions` is their public home.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import (
    Array,
    arange as _arange,
    concrete,
    device_of,
    is_array,
    is_foreign,
    is_symbolic,
    library,
    limits,
    namespace,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.calls import checked_call, numpy_rules
from posenc._core.errors import bad_argument, bad_position

Affine = float | tuple[float, ...]  # a number for all axes, or for each


@checked_call
def arange(
    length: int,
    *,
    start: int = 0,
    single: int | None = None,
    xp: Any = np,
    device: Any = None,
) -> Array:
    """Positions start, start + 1, … of one sequence.

    Parameters
    ----------
    length : int
        Number of tokens.
    start : int
        Position of the first.
    single : int, optional
        Position of a token that is alone: -1 for the time of a still picture, which has a row of
        zeros in a table with `pad=-1`, beside films whose frames count from 0.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes, in the words of that library.

    Returns
    -------
    array of integers
        (length,).

    Raises
    ------
    ArgumentError
        If the length is negative.
    PositionError
        If the last position does not fit the integers of the library.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.arange(3, start=10)
    array([10, 11, 12])
    """
    return offset(
        length, single if single is not None and length == 1 else start, xp=xp, device=device
    )


@numpy_rules
def offset(length: int, offsets: Any, *, xp: Any = np, device: Any = None) -> Array:
    """Positions of sequences that go on at an offset, such as the tokens already in a KV cache.

    Parameters
    ----------
    length : int
        Number of tokens.
    offsets : int or array of int
        Position of the first token: one number, or one per row.
    xp : module
        The library of the result where `offsets` is no array of one.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array of integers
        (length,), or (rows, length) for offsets of shape (rows,).

    Raises
    ------
    ArgumentError
        If the length is negative or the offsets have more than one axis.
    DTypeError
        If the offsets are not integers.
    PositionError
        If the last position does not fit the integers of the library.

    Notes
    -----
    JAX without `jax_enable_x64` has positions of 32 bits. What can be looked at is refused beyond
    2**31 - 1; an offset that `jit` traces cannot be, and where offset and length pass 2**31
    together, positions wrap to negative ones, as JAX's integers do.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.offset(3, [0, 7])
    array([[0, 1, 2],
           [7, 8, 9]])
    """
    # A symbolic length is no int and must not become one: `int(length)` would fix it in the graph.
    if isinstance(length, (bool, float, str)) or length < 0:
        raise bad_argument("positions", "a length of at least 0", repr(length))
    own = is_foreign(offsets)
    xp = namespace(offsets, "positions: offset") if own else library(xp)
    device = device_of(offsets) if own else device
    plain = isinstance(offsets, int) and not isinstance(offsets, bool)
    if plain:
        low, high = limits(xp)
        # Comparing a symbolic length would put a bound on it into the graph. No array is longer
        # than 2**48, and where integers are short (JAX) lengths are always known.
        room = max(length, 1) - 1 if high < 2**48 else 2**48
        if offsets < low or offsets > high - room:
            raise bad_position("positions", f"an offset from {low} to {high - room}", offsets)
    if plain or is_symbolic(offsets):
        return _arange(length, xp=xp, device=device) + offsets
    first = integers(offsets, xp=xp, device=device, caller="positions: offset")
    if len(first.shape) > 1:
        raise bad_argument(
            "positions: offset", "one number, or one per row", f"shape {tuple(first.shape)}"
        )
    count, values = _arange(length, xp=xp, device=device), concrete(first)
    if values is not None and values.size and length:
        limit, last = int(np.iinfo(values.dtype).max), int(values.max()) + length - 1
        if last > limit:
            raise bad_position("positions", f"positions up to {limit}", last)
    return first + count if len(first.shape) == 0 else first[:, None] + count


@numpy_rules
def descending(
    first: int, last: int, *, clip: int | None = None, xp: Any = np, device: Any = None
) -> Array:
    """Signed offsets first, first - 1, …, last: the rows of tables for relative attention.

    A layer that looks at keys from `first` tokens back to `-last` tokens ahead reads a table of
    these rows: L-1 down to -(L-1) for both directions, keys-1 down to 0 for the past alone.

    Parameters
    ----------
    first, last : int
        The ends, both included; `first >= last - 1`, where equality gives no rows.
    clip : int, optional
        Offsets beyond this size are cut to it.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array of integers
        (first - last + 1,).

    Raises
    ------
    ArgumentError
        If the offsets rise, or the clip is negative.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.descending(2, -2)
    array([ 2,  1,  0, -1, -2])
    """
    caller = "positions.descending"
    if isinstance(first, (bool, float, str)) or isinstance(last, (bool, float, str)):
        raise bad_argument(caller, "two integers", f"{first!r} and {last!r}")
    if first < last - 1:
        raise bad_argument(caller, "a first offset above the last", f"{first} and {last}")
    if clip is not None and clip < 0:
        raise bad_argument(f"{caller}: clip", "a distance of at least 0", clip)
    xp = library(xp)
    offsets = first - _arange(first - last + 1, xp=xp, device=device)
    return offsets if clip is None else xp.clip(offsets, -clip, clip)


@numpy_rules
def from_mask(mask: Array, *, pad: int = 0) -> Array:
    """Positions of the real tokens of padded rows: each counts the real tokens before it.

        positions = cumsum(mask) - 1   where mask, else `pad`

    With left padding the first real token of each row stands at position 0, so a padded row and the
    same row without padding get the same encodings. fairseq-like tables count in the same way from
    `padding_idx + 1`; their spec has `start=padding_idx + 1, pad=padding_idx`, and `pad=-1` here
    sends the padding to that row of zeros.

    Parameters
    ----------
    mask : array of bool or integers
        (..., seq); true or 1 for real tokens.
    pad : int
        Position given to padding.

    Returns
    -------
    array of integers
        (..., seq).

    Raises
    ------
    ArgumentError
        If the mask holds anything but 0 and 1.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_mask([[0, 0, 1, 1], [1, 1, 1, 1]])
    array([[0, 0, 0, 1],
           [0, 1, 2, 3]])
    """
    real, xp = real_tokens(mask, "positions.from_mask")
    zero = _arange(1, xp=xp, device=device_of(real))[0]
    return xp.where(real, xp.cumulative_sum(xp.astype(real, zero.dtype), axis=-1) - 1, zero + pad)


@numpy_rules
def padding_mask(
    mask: Array,
    *,
    queries: int | None = None,
    direction: Literal["causal", "bidirectional"] = "causal",
) -> Array:
    """Where a query sees a key in padded rows.

        seen[b, 0, i, j] = mask[b, j], and j <= i if causal;   or i == j

    It belongs to the positions of `from_mask`. No query is without a key, so no softmax gives NaN:
    padding sees itself, and what it gives is for nobody to read.

    Parameters
    ----------
    mask : array of bool or integers
        (batch, seq); true or 1 for real tokens, those in the KV cache included.
    queries : int, optional
        The last so many tokens are the queries, as in a decoding step; all of them by default.
    direction : {"causal", "bidirectional"}
        Whether a query sees the keys after it.

    Returns
    -------
    array of bool
        (batch, 1, queries, seq), true where a query sees a key, for every head.

    Raises
    ------
    ArgumentError
        If the mask holds anything but 0 and 1, has not two axes, or is shorter than the queries.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.padding_mask([[0, 1, 1]])[0, 0].astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 1, 1]])
    """
    caller = "positions.padding_mask"
    real, xp = real_tokens(mask, caller)
    if len(real.shape) != 2:
        raise bad_argument(caller, "a mask of shape (batch, seq)", f"shape {tuple(real.shape)}")
    keys = real.shape[1]
    rows = keys if queries is None else queries
    if isinstance(rows, (bool, float)) or not 0 <= rows <= keys:
        raise bad_argument(
            f"{caller}: queries",
            f"from 0 to {keys}",
            queries,
            "The mask counts the tokens in the KV cache too.",
        )
    j = _arange(keys, xp=xp, device=device_of(real))
    i = j[keys - rows :][:, None]
    seen = real[:, None, None, :] & (j <= i) if direction == "causal" else real[:, None, None, :]
    return seen | (i == j)


def real_tokens(mask: Array, caller: str) -> tuple[Array, Any]:
    """A mask of 0 and 1 as booleans, and its library."""
    mask = mask if is_array(mask) else np.asarray(mask)
    xp = namespace(mask, caller)
    if len(mask.shape) == 0:
        raise bad_argument(caller, "a mask of shape (..., seq)", "a scalar")
    values = concrete(mask)
    if values is not None and not np.isin(values, (0, 1)).all():
        raise bad_argument(
            caller,
            "a mask of 0 and 1",
            "others",
            "An additive mask (0 and -inf) becomes one by `mask == 0`.",
        )
    return mask if xp.isdtype(mask.dtype, "bool") else mask != 0, xp


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, not below 0."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(value >= 0)


def moved(rows: np.ndarray, axes: tuple[str, ...], scale: Affine, shift: Affine) -> np.ndarray:
    """Positions (..., axes) times a scale, and a shift added."""
    expected = f"a number, or one for each of the axes {axes}"
    for name, numbers in (("scale", scale), ("shift", shift)):
        shape, kind = np.shape(numbers), np.asarray(numbers).dtype.kind
        if kind not in "iuf" or shape not in ((), (len(axes),)) or not np.isfinite(numbers).all():
            raise bad_argument(f"SceneRule.build: {name}", expected, repr(numbers)[:80])
    return rows * np.asarray(scale) + np.asarray(shift)
