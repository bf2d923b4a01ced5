"""Positions of sequences that mix text with images, or lie on several machines.

`posenc.positions` is their public home.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import Array, arange, library
from posenc._core.arrays.coordinates import integers
from posenc._core.calls import checked_call, numpy_rules
from posenc._core.errors import bad_argument
from posenc._core.positions.counting import is_count
from posenc._core.positions.scene import ScenePart, View, sized

_AFTER = {"largest": "", "space": "next + max(rows, columns)"}


@numpy_rules
def multimodal(
    layout: Sequence[int | tuple[Any, int, int]],
    *,
    start: int = 0,
    after: Literal["largest", "space"] = "largest",
    xp: Any = np,
    device: Any = None,
) -> Array:
    """Coordinates (t, h, w) of a sequence of text, images and videos (M-RoPE).

        text    t = h = w = next, next + 1, …
        grid    t = next + time of the frame,  h = next + row,  w = next + column

    where `next` is one more than the largest coordinate so far (Wang et al. 2024,
    arXiv:2409.12191).
    Text alone counts as with one axis. Some code leaves the times out: `after="space"` continues
    past the rows and columns of a grid alone, so that a long video overlaps the text behind it.

    Parameters
    ----------
    layout : sequence
        In the order of the tokens: a number n stands for n tokens of text, a tuple (frames, rows,
        columns) for the tokens of an image (1 frame) or video, frame after frame and row after row.
        `frames` is their number, or a sequence of their integer times. Rows and columns count
        tokens, so patches that were merged count once.
    start : int
        Coordinate of the first token.
    after : {"largest", "space"}
        What the first token behind a grid follows: its largest coordinate, or that of its rows and
        columns.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array of integers
        (tokens, 3), axes last. Decoding goes on at one more than the largest entry, which after an
        image is less than the number of tokens. What has axes first, as `position_ids` (3, batch,
        seq) of transformers, is carried over by `np.moveaxis(position_ids, 0, -1)`.

    Raises
    ------
    ArgumentError
        If an entry of the layout is no count and no grid.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.multimodal([2, (1, 2, 2), 1])
    array([[0, 0, 0],
           [1, 1, 1],
           [2, 2, 2],
           [2, 2, 3],
           [2, 3, 2],
           [2, 3, 3],
           [4, 4, 4]])
    """
    caller = "positions.multimodal"
    kinds = (
        ScenePart("text", ("next + i",) * 3),
        ScenePart("grid", ("next + t", "next + h", "next + w"), after=_AFTER[after]),
    )
    todo = "An image is (1, rows, columns), n tokens of text are n."
    if not np.iterable(layout):
        raise bad_argument(f"{caller}: layout", "a list", repr(layout)[:80], todo)
    pieces = [
        sized(kinds[isinstance(entry, (tuple, list))], entry, f"{caller}: layout", todo)
        for entry in layout
    ]
    view = View(pieces, {})
    view.next = int(integers(start, xp=np, caller=f"{caller}: start"))
    return integers(
        np.concatenate([np.zeros((0, 3), dtype=np.int64), *map(view.place, pieces)]),
        xp=library(xp),
        device=device,
        caller=caller,
    )


@checked_call
def variable(layout: Sequence[int | tuple[int]], *, unit: str | int | Fraction) -> np.ndarray:
    """Positions of which visual tokens take a part each (V2PE, Ge et al. 2024, arXiv:2412.09616).

        text     one position behind the token before it, rounded up to a whole one
        visual   one unit behind the token before it

    Parameters
    ----------
    layout : sequence
        In the order of the tokens: a number n stands for n tokens of text, a tuple (n,) for n
        visual tokens.
    unit : str, int or Fraction
        What a visual token takes, 1 / n: "1/16" is a stride of 16 for tiles of 256 tokens.

    Returns
    -------
    numpy.ndarray
        (tokens,) integers that count units, for a spec with `scaling.Unit(unit)`.

    Raises
    ------
    ArgumentError
        If the unit is no 1 / n, or an entry of the layout is no count.

    Examples
    --------
    >>> import posenc
    >>> positions = posenc.positions.variable([2, (5,), 1], unit="1/4")
    >>> positions
    array([ 0,  4,  5,  6,  7,  8,  9, 16])
    >>> quarters = posenc.scaling.Unit("1/4")
    >>> cos, sin = posenc.cos_sin(posenc.RoPE(4, pairing="half", scaling=quarters), positions)
    >>> bool(abs(sin[5, 0] - np.sin(8 / 4)) < 1e-7)
    True
    """
    caller = "positions.variable"
    part = Fraction(unit) if re.fullmatch(r"1(/[1-9]\d{0,8})?", str(unit)) else None
    if part is None:
        raise bad_argument(f"{caller}: unit", "1 / n, such as '1/16'", repr(unit))
    whole, last, pieces = part.denominator, -part.denominator, [np.zeros(0, dtype=np.int64)]
    for entry in layout:
        visual = isinstance(entry, (tuple, list)) and len(entry) == 1
        count: Any = entry[0] if visual else entry  # type: ignore[index]
        if not is_count(count):
            raise bad_argument(
                f"{caller}: layout", "n tokens of text, or (n,) visual tokens", repr(entry)
            )
        step = 1 if visual else whole
        begin = last if visual else -(-last // whole) * whole
        pieces.append(begin + step * np.arange(1, int(count) + 1, dtype=np.int64))
        last = begin + step * int(count)
    return np.concatenate(pieces)


@numpy_rules
def shard(
    length: int,
    *,
    world: int,
    rank: int,
    layout: Literal["contiguous", "head_tail", "zigzag", "striped"] = "contiguous",
    xp: Any = np,
    device: Any = None,
) -> Array:
    """Positions of the tokens that one rank of a context-parallel group holds.

        contiguous   one piece of the sequence for each rank, in order
        head_tail    twice as many pieces; rank r holds pieces r and 2 world - 1 - r
        zigzag       another name of head_tail
        striped      token i on rank i modulo world

    The later ones balance causal attention, as each rank has as many early tokens as late ones.

    Parameters
    ----------
    length : int
        Tokens of the whole sequence, a multiple of the number of pieces.
    world, rank : int
        Size of the group, and a place in it from 0.
    layout : {"contiguous", "head_tail", "zigzag", "striped"}
        The rule.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array of integers
        (length / world,), also the indices that take the shard out of the whole sequence.

    Raises
    ------
    ArgumentError
        If the length does not divide, or the rank is not below the size of the group.

    Examples
    --------
    >>> import posenc
    >>> [posenc.positions.shard(8, world=2, rank=r, layout="head_tail").tolist() for r in (0, 1)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    caller = "positions.shard"
    if not 0 <= rank < world:
        raise bad_argument(f"{caller}: rank", f"from 0 to {world - 1}", rank)
    pieces = world if layout in ("contiguous", "striped") else 2 * world
    if length < 0 or length % pieces:
        raise bad_argument(
            f"{caller}: length", f"a multiple of {pieces}", length, "Pad the sequence first."
        )
    size = length // pieces
    xp = library(xp)
    if layout == "striped":
        return arange(size, xp=xp, device=device) * world + rank
    first = arange(size, xp=xp, device=device) + rank * size
    behind = (pieces - 1 - 2 * rank) * size
    return first if layout == "contiguous" else xp.concat([first, first + behind])
