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
from posenc._core.array import concrete, device_of, is_array, library, namespace, numpy_rules
from posenc._core.boxes import boxes, descending
from posenc._core.coordinates import integers
from posenc._core.counting import arange, from_mask, offset
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.grid import from_grid_mask, grid
from posenc._core.sequences import multimodal, shard, variable
from posenc._core.serving import delta, following, from_token_types, paged, path, tree

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
    "paged",
    "path",
    "randomised",
    "shard",
    "tree",
    "variable",
]

Array = Any


@numpy_rules
def packed(cu_seqlens: Array, total: int | None = None, *, tail: int | None = None) -> Array:
    """Positions within each of several sequences packed into one row.

    Parameters
    ----------
    cu_seqlens : array of integers
        (sequences + 1,), the cumulative lengths: sequence i is tokens cu_seqlens[i] to
        cu_seqlens[i + 1]. Empty sequences are allowed.
    total : int, optional
        Number of tokens; needed where values are not known (under `jax.jit`).
    tail : int, optional
        The position of padding behind the last sequence; by default it counts on.

    Returns
    -------
    array of integers
        (total,), each token's distance from the start of its sequence. Tokens past the last
        sequence count from its end, as a sequence of their own, or stand at `tail`.

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
    caller = "positions.packed"
    xp = namespace(cu_seqlens, caller) if is_array(cu_seqlens) else library(np)
    device = device_of(cu_seqlens)
    ends = integers(cu_seqlens, xp=xp, device=device, caller=f"{caller}: cu_seqlens")
    if len(ends.shape) != 1 or ends.shape[0] == 0:
        received = f"shape {tuple(ends.shape)}"
        raise ArgumentError(mismatch(f"{caller}: cu_seqlens", "shape (sequences + 1,)", received))
    last = concrete(ends)
    if last is not None:
        if last[0] != 0 or (np.diff(last) < 0).any():
            raise ArgumentError(mismatch(caller, "cumulative lengths from 0, never falling", last))
        if total is not None and total < int(last[-1]):
            raise ArgumentError(mismatch(f"{caller}: total", f"at least {last[-1]}", total))
        total = int(last[-1]) if total is None else total
    if total is None:
        todo = "Pass it: the length of the packed row."
        raise ArgumentError(mismatch(f"{caller}: total", "a number under tracing", None, todo))
    token = _arange(total, xp=xp, device=device)
    sequence = xp.searchsorted(ends, token, side="right") - 1
    places = token - xp.take(ends, sequence, axis=0)
    return places if tail is None else xp.where(token < ends[-1], places, places * 0 + tail)


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
            expected = "an integer of at least 0"
            raise ArgumentError(mismatch(f"positions.randomised: {name}", expected, repr(value)))
    if length > maximum:
        expected = f"a length of at most {maximum}, the number of positions"
        raise ArgumentError(mismatch("positions.randomised", expected, length))
    if seed >= 2**64:
        raise ArgumentError(mismatch("positions.randomised", "a seed below 2**64", seed))
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
        expected = "step and sample below 2**32"
        raise ArgumentError(mismatch("positions.randomised", expected, (step, sample)))
    return step << 32 | sample


def _below(limit: int, words: Iterator[int], bits: Any) -> int:
    """A number below `limit`, each equally likely: words that would favour some are dropped."""
    fair = 2**64 - 2**64 % limit
    while True:
        word = next(words, None)
        word = bits.random_raw() if word is None else word
        if word < fair:
            return int(word) % limit
