"""Positions of what serving does: drafts, decode steps, pages, prompts with pictures.

`posenc.positions` is their public home.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import (
    Array,
    concrete,
    device_of,
    is_array,
    library,
    namespace,
)
from posenc._core.arrays.coordinates import integers, on_host
from posenc._core.calls import checked_call, numpy_rules
from posenc._core.errors import bad_argument, bad_position
from posenc._core.positions.counting import offset
from posenc._core.positions.sequences import multimodal


def _real(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Which tokens are no padding."""
    values = concrete(mask) if is_array(mask) else mask
    return np.ones(shape, dtype=bool) if mask is None else np.asarray(values) != 0


@numpy_rules
def tree(parents: Any, *, start: Any = 0) -> Array:
    """Positions of a tree of draft tokens: each stands one behind its parent.

        position = start + depth

    Parameters
    ----------
    parents : array of integers
        (nodes,): the place of each node's parent before it, -1 for a root.
    start : int or array of integers
        Position of the roots, the tokens already in the KV cache; one for each row of a batch.

    Returns
    -------
    array of integers
        (nodes,), or (rows, nodes). Branches of one depth share a position; which nodes a token sees
        is a matter of the mask.

    Raises
    ------
    ArgumentError
        If a parent does not stand before its node.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.tree([-1, 0, 0, 1, 2], start=10)
    array([10, 11, 11, 12, 12])
    """
    nodes = on_host(parents, "positions.tree: parents")
    depth = np.zeros(len(nodes), dtype=np.int64)
    for node, parent in enumerate(nodes):
        if not -1 <= parent < node:
            raise bad_argument(
                "positions.tree: parents",
                f"a place from -1 to {node - 1} for node {node}",
                int(parent),
            )
        depth[node] = depth[parent] + 1 if parent >= 0 else 0
    beside = next((a for a in (start, parents) if is_array(a)), None)
    xp = library(np) if beside is None else namespace(beside, "positions.tree")
    return offset(1, start, xp=xp, device=device_of(beside)) + integers(
        depth, xp=xp, device=device_of(beside), caller="positions.tree"
    )


@checked_call
def path(parents: Any, node: int) -> np.ndarray:
    """The nodes from the root to a node, which stay when a draft is accepted up to it.

    Parameters
    ----------
    parents : array of integers
        As in `tree`.
    node : int
        The last accepted node; -1 for none.

    Returns
    -------
    numpy.ndarray
        (accepted,) rising places. What a cache keeps are those of the prompt and, behind it, these.

    Raises
    ------
    ArgumentError
        If there is no such node.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.path([-1, 0, 0, 1, 2], 4)
    array([0, 2, 4])
    """
    nodes = on_host(parents, "positions.path: parents")
    tree(nodes)
    if not -1 <= node < len(nodes):
        raise bad_argument("positions.path: node", f"from -1 to {len(nodes) - 1}", node)
    places = []
    while node >= 0:
        places.append(int(node))
        node = int(nodes[node])
    return np.array(places[::-1], dtype=np.int64)


@numpy_rules
def following(length: Any, count: int = 1, *, delta: Any = 0, axes: int = 1) -> Array:
    """Positions of the next tokens behind a cache, on one axis or alike on several.

        position = length + delta + 0, 1, …

    Parameters
    ----------
    length : int or array of integers
        Tokens in the cache: one number, or one per row. After a rejected draft those that stay.
    count : int
        Number of tokens.
    delta : int or array of integers
        What models keep as `rope_deltas` (M-RoPE): the next position less the number of tokens, one
        number or one per row, as the function `delta` gives it.
    axes : int
        Axes of a position.

    Returns
    -------
    array of integers
        (count,) or (rows, count); with a trailing axis where there are several.

    Raises
    ------
    ArgumentError
        If shapes do not fit.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.following(20, 2, delta=-3, axes=3)
    array([[17, 17, 17],
           [18, 18, 18]])
    """
    delta, length = (np.asarray(a) if isinstance(a, list) else a for a in (delta, length))
    if is_array(delta) and len(delta.shape) == 2 and delta.shape[1] == 1:
        delta = delta[:, 0]
    if axes < 1:
        raise bad_argument("positions.following: axes", "at least 1", axes)
    flat = offset(count, length + delta)
    return (
        flat
        if axes == 1
        else namespace(flat, "positions.following").broadcast_to(
            flat[..., None], (*flat.shape, axes)
        )
    )


@checked_call
def delta(positions: Any, mask: Any = None) -> np.ndarray:
    """The next position less the number of tokens: `rope_deltas` of models with M-RoPE.

    Parameters
    ----------
    positions : array of integers
        (batch, seq, axes), or (seq, axes).
    mask : array of bool or integers, optional
        (batch, seq): true or 1 for real tokens.

    Returns
    -------
    numpy.ndarray
        (batch, 1).

    Raises
    ------
    ArgumentError
        If a row has no token.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.delta(posenc.positions.multimodal([2, (1, 2, 2), 1]))
    array([[-2]])
    """
    values = on_host(positions, "positions.delta: positions")
    values = values.reshape(-1, *values.shape[-2:])
    real = _real(mask, values.shape[:2])
    if real.shape != values.shape[:2] or not real.any(axis=1).all():
        raise bad_argument(
            "positions.delta: mask",
            f"a real token in each row, shape {values.shape[:2]}",
            real.shape,
        )
    largest = np.where(real, values.max(axis=-1), np.iinfo(np.int64).min).max(axis=1)
    result: np.ndarray = (largest + 1 - real.sum(axis=1))[:, None]
    return result


@numpy_rules
def from_token_types(
    token_types: Any,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    *,
    merge: int = 2,
    video: Literal["frames", "whole"] = "frames",
    interval: Any = 1,
    mask: Any = None,
) -> Array:
    """Coordinates (t, h, w) of prompts with pictures, from what processors of transformers give.

    Parameters
    ----------
    token_types : array of integers
        (batch, seq), `mm_token_type_ids`: 0 for text, 1 for images, 2 for videos.
    image_grid_thw, video_grid_thw : array of integers, optional
        (images, 3) and (videos, 3): frames, rows and columns of patches, in the order of the batch.
    merge : int
        Patches along each side that become one token, `spatial_merge_size`.
    video : {"frames", "whole"}
        Whether a video comes frame by frame, with text between (Qwen3-VL, GLM-4V), or in one piece
        (Qwen2-VL, Qwen2.5-VL).
    interval : float or sequence of float
        Of whole videos: steps of time between frames, for each video; floored after it is
        multiplied by the frame, in float32, as Qwen2.5-VL does. Its class takes
        `tokens_per_second` times the seconds of a grid.
    mask : array of bool or integers, optional
        (batch, seq), true or 1 for real tokens; padding stands at 0.

    Returns
    -------
    array of integers
        (batch, seq, 3), on the host's library for lists, else that of `token_types`. Text goes on
        behind the rows and columns of a picture, whatever its times.

    Raises
    ------
    ArgumentError
        If grids and tokens do not fit each other.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_token_types([[0, 1, 1, 0]], [[1, 2, 4]])[0].tolist()
    [[0, 0, 0], [1, 1, 1], [1, 1, 2], [3, 3, 3]]
    """
    caller = "positions.from_token_types"
    types = on_host(token_types, f"{caller}: token_types")
    if types.ndim != 2:
        raise bad_argument(f"{caller}: token_types", "(batch, seq)", types.shape)
    real = _real(mask, types.shape)
    if real.shape != types.shape:
        raise bad_argument(f"{caller}: mask", f"shape {types.shape}", real.shape)
    grids = {1: _grids(image_grid_thw, merge, caller), 2: []}
    for number, (frames, rows, columns) in enumerate(_grids(video_grid_thw, merge, caller)):
        step = np.float32(interval[number] if np.ndim(interval) else interval)
        times = np.floor(np.arange(frames, dtype=np.float32) * step).astype(np.int64)
        pieces = [(1, rows, columns)] * frames if video == "frames" else [(times, rows, columns)]
        grids[2] += pieces
    coming = {kind: iter(pieces) for kind, pieces in grids.items()}
    result = np.zeros((*types.shape, 3), dtype=np.int64)
    for row, (kinds, where) in enumerate(zip(types, real, strict=True)):
        layout: list[Any] = []
        for kind, group in itertools.groupby(kinds[where].tolist()):
            count = len(list(group))
            if kind == 0:
                layout.append(count)
                continue
            grid = next(coming.get(kind, iter(())), None)
            size = 0 if grid is None else np.size(grid[0]) * grid[1] * grid[2]
            size = size * grid[0] if grid is not None and isinstance(grid[0], int) else size
            if grid is None or size != count:
                raise bad_argument(
                    caller,
                    f"a grid of {count} tokens for those of type {kind} in row {row}",
                    "none" if grid is None else f"one of {size}",
                )
            layout.append(grid)
        result[row, where] = multimodal(layout, after="space")
    left = {kind: len(list(rest)) for kind, rest in coming.items()}
    if any(left.values()):
        raise bad_argument(
            caller,
            "tokens for each grid",
            f"{left[1]} images and {left[2]} videos or frames without tokens",
        )
    return integers(
        result,
        xp=namespace(token_types, caller) if is_array(token_types) else library(np),
        device=device_of(token_types),
        caller=caller,
    )


def _grids(grids: Any, merge: int, caller: str) -> list[Any]:
    """(frames, rows, columns) in tokens."""
    if grids is None:
        return []
    values = on_host(grids, f"{caller}: grid_thw")
    if values.ndim != 2 or values.shape[1] != 3 or (values[:, 1:] % merge).any():
        raise bad_argument(
            f"{caller}: grid_thw",
            f"(pictures, 3), rows and columns that {merge} divides",
            values.tolist(),
        )
    return [(int(t), int(h) // merge, int(w) // merge) for t, h, w in values]


@checked_call
def paged(pages: Any, size: int, *, length: int, pool: int) -> np.ndarray:
    """The position that each slot of a paged KV cache holds of one sequence.

        slot = pages[p // size] * size + p % size     for each position p

    Parameters
    ----------
    pages : array of integers
        (used,), the block table: the page of each `size` positions, in order. What stands behind
        those that the length uses is not looked at, as engines pad rows with -1 or 0.
    size : int
        Slots in a page.
    length : int
        Tokens of the sequence.
    pool : int
        Pages in all.

    Returns
    -------
    numpy.ndarray
        (pool, size); -1 where a slot is not of this sequence.

    Raises
    ------
    ArgumentError
        If used pages repeat, or are too few for the length.
    PositionError
        If a used page is outside of the pool.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.paged([2, 0], 2, length=3, pool=3)
    array([[ 2, -1],
           [-1, -1],
           [ 0,  1]])
    """
    table = on_host(pages, "positions.paged: pages")
    used = -(-length // size) if size > 0 else -1
    table = table[: max(used, 0)] if table.ndim == 1 else table
    if table.ndim != 1 or used != len(table) or len({*table.tolist()}) != len(table):
        raise bad_argument(
            "positions.paged: pages",
            f"at least {used} pages, each once, for {length} tokens",
            table.tolist(),
        )
    if len(table) and not 0 <= table.min() <= table.max() < pool:
        raise bad_position("positions.paged: pages", f"pages from 0 to {pool - 1}", table.tolist())
    result = np.full((pool, size), -1, dtype=np.int64)
    position = np.arange(length)
    result[table[position // max(size, 1)], position % max(size, 1)] = position
    return result
