"""Positions of tokens: counted, offset, left-padded, packed, on grids, of boxes.

Whatever counts is an integer. Only what is divided (normalised grids, boxes) is real, for the specs
that take real positions.

Each builder is a pure function of its arguments, on NumPy, torch, JAX and array-api-strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc._core.array import arange as _arange
from posenc._core.array import (
    concrete,
    device_of,
    integers,
    is_array,
    is_foreign,
    is_symbolic,
    library,
    limits,
    namespace,
    numpy_rules,
)
from posenc._core.errors import ArgumentError, PositionError, explain
from posenc._core.grid import boxes, descending, from_grid_mask, grid
from posenc._core.sequences import multimodal, shard

__all__ = [
    "arange",
    "boxes",
    "descending",
    "from_grid_mask",
    "from_mask",
    "grid",
    "multimodal",
    "offset",
    "packed",
    "randomised",
    "shard",
]

Array = Any


def arange(length: int, *, start: int = 0, xp: Any = np, device: Any = None) -> Array:
    """Positions start, start + 1, … of one sequence.

    Parameters
    ----------
    length : int
        Number of tokens.
    start : int
        Position of the first.
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
    return offset(length, start, xp=xp, device=device)


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
        raise ArgumentError(explain("positions", "a length of at least 0", repr(length)))
    if is_foreign(offsets):
        xp, device = namespace(offsets, "positions: offset"), device_of(offsets)
    else:
        xp = library(xp)
    if isinstance(offsets, int) and not isinstance(offsets, bool):
        low, high = limits(xp)
        # Comparing a symbolic length would put a bound on it into the graph. No array is longer
        # than 2**48, and where integers are short (JAX) lengths are always known.
        room = max(length, 1) - 1 if high < 2**48 else 2**48
        if offsets < low or offsets > high - room:
            want = f"an offset from {low} to {high - room}"
            raise PositionError(explain("positions", want, offsets))
        return _arange(length, xp=xp, device=device) + offsets
    if is_symbolic(offsets):
        return _arange(length, xp=xp, device=device) + offsets
    first = integers(offsets, xp=xp, device=device, who="positions: offset")
    if len(first.shape) > 1:
        got = f"shape {tuple(first.shape)}"
        raise ArgumentError(explain("positions: offset", "one number, or one per row", got))
    count = _arange(length, xp=xp, device=device)
    return _sum(first, count, length)


def _sum(first: Array, count: Array, length: int) -> Array:
    known = concrete(first)
    if known is not None and known.size and length:
        limit = int(np.iinfo(known.dtype).max)
        last = int(known.max()) + length - 1
        if last > limit:
            raise PositionError(explain("positions", f"positions up to {limit}", last))
    return first + count if len(first.shape) == 0 else first[:, None] + count


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
    mask = mask if is_array(mask) else np.asarray(mask)
    xp = namespace(mask, "positions.from_mask")
    if len(mask.shape) == 0:
        want = "a mask of shape (..., seq)"
        raise ArgumentError(explain("positions.from_mask", want, "a scalar"))
    values = concrete(mask)
    if values is not None and not np.isin(values, (0, 1)).all():
        todo = "An additive mask (0 and -inf) becomes one by `mask == 0`."
        raise ArgumentError(explain("positions.from_mask", "a mask of 0 and 1", "others", todo))
    real = mask if xp.isdtype(mask.dtype, "bool") else mask != 0
    zero = _arange(1, xp=xp, device=device_of(mask))[0]
    counted = xp.cumulative_sum(xp.astype(real, zero.dtype), axis=-1) - 1
    return xp.where(real, counted, zero + pad)


@numpy_rules
def packed(cu_seqlens: Array, total: int | None = None) -> Array:
    """Positions within each of several sequences packed into one row.

    Parameters
    ----------
    cu_seqlens : array of integers
        (sequences + 1,), the cumulative lengths: sequence i is tokens cu_seqlens[i] to
        cu_seqlens[i + 1]. Empty sequences are allowed.
    total : int, optional
        Number of tokens; needed where values are not known (under `jax.jit`).

    Returns
    -------
    array of integers
        (total,), each token's distance from the start of its sequence. Tokens past the last
        sequence count on from its end, as a sequence of their own.

    Raises
    ------
    ArgumentError
        If the lengths do not start at 0, fall, or contradict `total`.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.packed([0, 3, 5])
    array([0, 1, 2, 0, 1])
    """
    who = "positions.packed"
    xp = namespace(cu_seqlens, who) if is_array(cu_seqlens) else library(np)
    device = device_of(cu_seqlens)
    ends = integers(cu_seqlens, xp=xp, device=device, who=f"{who}: cu_seqlens")
    if len(ends.shape) != 1 or ends.shape[0] == 0:
        got = f"shape {tuple(ends.shape)}"
        raise ArgumentError(explain(f"{who}: cu_seqlens", "shape (sequences + 1,)", got))
    known = concrete(ends)
    if known is not None:
        if known[0] != 0 or (np.diff(known) < 0).any():
            raise ArgumentError(explain(who, "cumulative lengths from 0, never falling", known))
        if total is not None and total < int(known[-1]):
            raise ArgumentError(explain(f"{who}: total", f"at least {known[-1]}", total))
        total = int(known[-1]) if total is None else total
    if total is None:
        todo = "Pass it: the length of the packed row."
        raise ArgumentError(explain(f"{who}: total", "a number under tracing", None, todo))
    token = _arange(total, xp=xp, device=device)
    sequence = xp.searchsorted(ends, token, side="right") - 1
    return token - xp.take(ends, sequence, axis=0)


def randomised(seed: int, step: int, sample: int, length: int, *, maximum: int) -> np.ndarray:
    """Randomised positions (Ruoss et al. 2023, arXiv:2305.16843).

        sorted subset of {0, …, maximum - 1} of `length` positions, each subset equally likely

    Training at positions drawn from a range longer than any sequence prepares a model for longer
    sequences. The draw is a function of its arguments alone: every rank, every recomputation and
    every restart gets the same one, and no global state is read or moved.

    Parameters
    ----------
    seed, step, sample : int
        What the draw is keyed by: the run, the training step and the number of the sequence in it.
        Each at least 0.
    length : int
        Number of tokens.
    maximum : int
        Positions lie below it.

    Returns
    -------
    numpy.ndarray
        (length,) int64, rising, without repetition. On the host, as it is data like the tokens.

    Raises
    ------
    ArgumentError
        If a key is negative or no integer, or more positions are asked for than there are.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.randomised(0, 7, 3, 5, maximum=100)
    array([18, 19, 22, 27, 29])
    """
    named = {"seed": seed, "step": step, "sample": sample, "length": length, "maximum": maximum}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            want = "an integer of at least 0"
            raise ArgumentError(explain(f"positions.randomised: {name}", want, repr(value)))
    if length > maximum:
        want = f"a length of at most {maximum}, the number of positions"
        raise ArgumentError(explain("positions.randomised", want, length))
    if seed >= 2**64:
        raise ArgumentError(explain("positions.randomised", "a seed below 2**64", seed))
    # Floyd's algorithm, written out: the draw must not change with a library's way of sampling.
    key = np.array([int(seed), _mixed(int(step), int(sample))], dtype=np.uint64)
    bits = np.random.Philox(key=key)
    words = iter(bits.random_raw(2 * int(length) + 8).tolist())
    chosen: set[int] = set()
    for top in range(int(maximum) - int(length), int(maximum)):
        drawn = _below(top + 1, words, bits)
        chosen.add(top if drawn in chosen else drawn)
    return np.array(sorted(chosen), dtype=np.int64)


def _mixed(step: int, sample: int) -> int:
    """One word of two counters below 2**32, which are kept apart."""
    if step >= 2**32 or sample >= 2**32:
        want = "step and sample below 2**32"
        raise ArgumentError(explain("positions.randomised", want, (step, sample)))
    return step << 32 | sample


def _below(limit: int, words: Iterator[int], bits: Any) -> int:
    """A number below `limit`, each equally likely: words that would favour some are dropped."""
    fair = 2**64 - 2**64 % limit
    while True:
        word = next(words, None)
        word = bits.random_raw() if word is None else word
        if word < fair:
            return int(word) % limit
