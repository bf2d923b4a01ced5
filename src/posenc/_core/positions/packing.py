"""Positions of sequences that are packed into one row, their masks, and randomised ones.

`posenc.positions` is their public home.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import (
    Array,
    arange as _arange,
    concrete,
    device_of,
    is_array,
    library,
    namespace,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.calls import checked_call, numpy_rules
from posenc._core.errors import bad_argument


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
    ends, token, sequence, xp = _sequences(cu_seqlens, total, "positions.packed")
    places = token - xp.take(ends, sequence, axis=0)
    return places if tail is None else xp.where(token < ends[-1], places, places * 0 + tail)


@numpy_rules
def segments(cu_seqlens: Array, total: int | None = None) -> Array:
    """The number of each token's sequence in a packed row: segment ids.

    Parameters
    ----------
    cu_seqlens : array of integers
        (sequences + 1,), the cumulative lengths, as for `packed`.
    total : int, optional
        Number of tokens; needed where values are not known (under `jax.jit`).

    Returns
    -------
    array of integers
        (total,), from 0. Tokens past the last sequence have the number of a further one.

    Raises
    ------
    ArgumentError
        If the lengths do not start at 0, fall, or contradict `total`.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.segments([0, 3, 5])
    array([0, 0, 0, 1, 1])
    """
    return _sequences(cu_seqlens, total, "positions.segments")[2]


@numpy_rules
def packed_mask(
    cu_seqlens: Array,
    total: int | None = None,
    *,
    direction: Literal["causal", "bidirectional"] = "causal",
) -> Array:
    """Where a query sees a key in a row of packed sequences: the block-diagonal mask.

        mask[i, j] = segments[i] == segments[j],   and j <= i if causal

    It belongs to the positions of `packed`. `posenc.torch.packed_mask_mod` is the same for
    FlexAttention, which stores no (total, total) array.

    Parameters
    ----------
    cu_seqlens : array of integers
        (sequences + 1,), the cumulative lengths, as for `packed`.
    total : int, optional
        Number of tokens; needed where values are not known (under `jax.jit`).
    direction : {"causal", "bidirectional"}
        Whether a query sees the keys after it.

    Returns
    -------
    array of bool
        (total, total), true where query i sees key j.

    Raises
    ------
    ArgumentError
        If the lengths do not start at 0, fall, or contradict `total`.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.packed_mask([0, 2, 3]).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    caller = "positions.packed_mask"
    _, token, sequence, _ = _sequences(cu_seqlens, total, caller)
    own = sequence[:, None] == sequence[None, :]
    return own & (token[None, :] <= token[:, None]) if direction == "causal" else own


def _sequences(
    cu_seqlens: Array, total: int | None, caller: str
) -> tuple[Array, Array, Array, Any]:
    """The ends of packed sequences, all tokens, the sequence of each, and the array library."""
    xp = namespace(cu_seqlens, caller) if is_array(cu_seqlens) else library(np)
    device = device_of(cu_seqlens)
    ends = integers(cu_seqlens, xp=xp, device=device, caller=f"{caller}: cu_seqlens")
    if len(ends.shape) != 1 or ends.shape[0] == 0:
        raise bad_argument(
            f"{caller}: cu_seqlens", "shape (sequences + 1,)", f"shape {tuple(ends.shape)}"
        )
    last = concrete(ends)
    if last is not None:
        if last[0] != 0 or (np.diff(last) < 0).any():
            raise bad_argument(caller, "cumulative lengths from 0, never falling", last)
        if total is not None and total < int(last[-1]):
            raise bad_argument(f"{caller}: total", f"at least {last[-1]}", total)
        total = int(last[-1]) if total is None else total
    if total is None:
        raise bad_argument(
            f"{caller}: total",
            "a number under tracing",
            None,
            "Pass it: the length of the packed row.",
        )
    token = _arange(total, xp=xp, device=device)
    return ends, token, xp.searchsorted(ends, token, side="right") - 1, xp


@checked_call
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
            raise bad_argument(
                f"positions.randomised: {name}", "an integer of at least 0", repr(value)
            )
    if length > maximum:
        raise bad_argument(
            "positions.randomised",
            f"a length of at most {maximum}, the number of positions",
            length,
        )
    if seed >= 2**64:
        raise bad_argument("positions.randomised", "a seed below 2**64", seed)
    if step >= 2**32 or sample >= 2**32:  # one word has both of them apart
        raise bad_argument(
            "positions.randomised", "step and sample below 2**32", (int(step), int(sample))
        )
    # Floyd's algorithm, written out: the draw must not change with a library's way of sampling.
    bits = np.random.Philox(
        key=np.array([int(seed), int(step) << 32 | int(sample)], dtype=np.uint64)
    )
    words = itertools.chain(
        bits.random_raw(2 * int(length) + 8).tolist(), iter(bits.random_raw, None)
    )
    chosen: set[int] = set()
    for top in range(int(maximum) - int(length), int(maximum)):
        number = _below(top + 1, words)
        chosen.add(top if number in chosen else number)
    return np.array(sorted(chosen), dtype=np.int64)


def _below(limit: int, words: Iterator[int]) -> int:
    """A number below `limit`, each equally likely: words that would favour some are dropped."""
    fair, word = 2**64 - 2**64 % limit, next(words)
    while word >= fair:
        word = next(words)
    return word % limit
