"""Positions of mixed and of sharded sequences, each beside a twin by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
from posenc import positions
from tests.backends import Backend, each_backend

GRID = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
LAYOUT = st.lists(st.integers(0, 5) | GRID, max_size=6)


def twin(layout: Any, start: int, after: str) -> list[tuple[int, int, int]]:
    """Token by token, with a counter."""
    ids: list[tuple[int, int, int]] = []
    coming = start
    for part in layout:
        if isinstance(part, int):
            for _ in range(part):
                ids.append((coming, coming, coming))
                coming += 1
            continue
        frames, rows, columns = part
        times = range(frames) if isinstance(frames, int) else frames
        largest = coming
        for time in times:
            for row in range(rows):
                for column in range(columns):
                    ids.append((coming + time, coming + row, coming + column))
                    seen = (row, column) if after == "space" else (time, row, column)
                    largest = max(largest, coming + max(seen))
        coming = largest + 1
    return ids


@given(layout=LAYOUT, start=st.integers(0, 10**6), after=st.sampled_from(["largest", "space"]))
def test_mixed_sequences(layout: Any, start: int, after: Any) -> None:
    got = positions.multimodal(layout, start=start, after=after)
    assert got.dtype == np.int64
    assert got.shape == (len(got), 3)
    assert [tuple(row) for row in got.tolist()] == twin(layout, start, after)


@each_backend
def test_times_of_frames_on_every_library(backend: Backend) -> None:
    layout = [2, ([0, 25, 50], 2, 3), 1]
    got = backend.numpy(positions.multimodal(layout, xp=backend.xp()))
    assert got.tolist() == [list(row) for row in twin(layout, 0, "largest")]


@given(
    world=st.integers(1, 8),
    size=st.integers(0, 9),
    layout=st.sampled_from(["contiguous", "head_tail", "zigzag"]),
)
def test_shards(world: int, size: int, layout: Any) -> None:
    length = 2 * world * size
    pieces = world if layout == "contiguous" else 2 * world
    width = length // pieces
    owner = list(range(world)) if layout == "contiguous" else [*range(world), *range(world)[::-1]]
    want: list[list[int]] = [[] for _ in range(world)]
    for token in range(length):
        want[owner[token // width]].append(token)
    got = [
        positions.shard(length, world=world, rank=r, layout=layout).tolist() for r in range(world)
    ]
    assert got == want
    assert sorted(token for tokens in got for token in tokens) == list(range(length))
    if layout == "head_tail":  # every rank does the same share of causal attention
        assert len({sum(t + 1 for t in shard) for shard in got}) <= 1


@each_backend
def test_shards_on_every_library(backend: Backend) -> None:
    got = positions.shard(12, world=3, rank=1, layout="head_tail", xp=backend.xp())
    assert backend.numpy(got).tolist() == [2, 3, 8, 9]


def test_turning_a_shard_is_a_shard_of_the_turned() -> None:
    spec, x = posenc.RoPE(8, pairing="half"), np.random.default_rng(0).normal(size=(12, 8))
    for layout in ("contiguous", "head_tail"):
        for rank in range(3):
            ids = positions.shard(12, world=3, rank=rank, layout=layout)  # type: ignore[arg-type]
            assert (posenc.rotate(spec, x[ids], positions=ids) == posenc.rotate(spec, x)[ids]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: positions.shard(10, world=4, rank=0), "multiple of 4"),
        (lambda: positions.shard(8, world=4, rank=4), "from 0 to 3"),
        (lambda: positions.shard(12, world=4, rank=0, layout="head_tail"), "multiple of 8"),
        (lambda: positions.shard(8, world=4, rank=0, layout="spiral"), "head_tail"),
        (lambda: positions.multimodal([(1, 2)]), r"three of a grid.*, got \(1, 2\)\. An image is"),
        (
            lambda: positions.multimodal([(1, 0, 2)]),
            "^positions.multimodal: layout.*three of a grid",
        ),
        (lambda: positions.multimodal([(0, 2, 2)]), r"three of a grid.*, got \(0, 2, 2\)\."),
        (lambda: positions.multimodal([("ab", 2, 2)]), "frames or their times.*'ab'"),
        (lambda: positions.multimodal([([[0, 1]], 2, 2)]), "frames or their times"),
        (lambda: positions.multimodal([([0, np.nan], 2, 2)]), "frames or their times"),
        (
            lambda: positions.multimodal([-1]),
            "a number of tokens.*, got -1.*n tokens of text are n",
        ),
        (lambda: positions.multimodal([1.5]), "a number of tokens"),
        (lambda: positions.multimodal(None), "layout: expected a list, got None. An image is"),
        (lambda: positions.multimodal([2, 10**12]), "at most 16,777,216 tokens, got 10{12}"),
        (lambda: positions.multimodal([1], after=["time"]), "'largest' or 'space'"),
        (lambda: positions.multimodal([1], after="time"), "'largest' or 'space'"),
    ],
)
def test_layouts_that_cannot_be(call: Any, message: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=message):
        call()
