"""Which calls a survey makes: what is most often wrong first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.subject.discovery import Found

DENSE = 2**12  # every position up to it is asked for
EDGES = sorted(
    {n + d for n in (2, 4, *(2**k for k in range(3, 13))) for d in (-1, 0, 1)} | {5, 100}
)
DRAWN = 60
STRETCHES, RUN = 64, 128  # far runs of positions
SCATTERED, EACH = 16, 512  # calls of far positions that jump
DTYPES = ("float64", "float16", "bfloat16", "float32")
LARGE = (1.0, 1024.0, 2.0**-16)  # of the rows of a batch


class Call(NamedTuple):
    """One call: where tokens stand, and what else is particular of it."""

    kind: str
    rows: np.ndarray  # (batch, seq), or queries of a bias
    heads: int = 1
    dtype: str = "float32"
    strided: bool = False
    sizes: tuple[float, ...] = (1.0,)
    keys: np.ndarray | None = None
    form: Found | None = None
    wide: int = 1  # times the width of a head
    plain: bool = False  # x of ones


class Schedule:
    """The calls of one survey."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        self.subject, self.rng = subject, rng

    def calls(self, end: int) -> Iterator[Call]:
        """The calls, what is most often wrong first."""
        if self.subject.kind == "bias":
            yield from self._of_bias(end)
            return
        way = self.subject._found.form.way
        few = np.arange(min(17, end))
        yield Call("first", np.stack([few, few]), heads=3, sizes=LARGE[:2])
        yield Call("one token", self.rng.integers(1, end, (1, 1)))
        yield Call("repeated positions", np.array([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]))
        yield Call("repeated positions", np.array([[min(7, end - 1)] * 3]))
        near = min(end, 300)
        yield Call("jumps", self.rng.permutation(near)[None, :9])
        yield Call("falling positions", np.arange(min(near, 40))[None, ::-1])
        rows = self.rng.integers(0, near, (3, 1)) + np.arange(5)
        yield Call("rows that differ", np.minimum(rows, end - 1), heads=2, sizes=LARGE)
        if self.subject.kind == "rotary":
            yield from (Call("heads", few[None], heads=n) for n in (1, 2, 8, 33))
            yield Call("strides", np.stack([few, few]), heads=3, strided=True)
            yield Call("wider heads", few[None], heads=2, wide=2)
            for dtype in DTYPES:
                yield Call("dtype", np.stack([few + 3, few + 1]) % end, heads=3, dtype=dtype)
            low, high = sorted((min(end // 2, 3000), min(end, 60_000)))
            start = int(self.rng.integers(low, high))
            for dtype in DTYPES:
                yield Call("dtype", np.arange(start, min(start + 9, end))[None], dtype=dtype)
        for choice in self.subject.forms():
            yield Call("other forms", few[None, :6], form=choice)
            yield Call("other forms", np.array([[2, 5, 5, 1]]) % end, form=choice)
            yield Call("other forms", few[None, :1] + min(9, end - 1), form=choice)
        yield from self._far(end, way)
        yield from self._of_lengths(end)
        yield Call("one token", np.array([[end - 1]]))  # a step after long sequences
        if self.subject.kind == "rotary":
            yield Call("heads", self.rng.integers(0, end, (1, 64)), heads=33)

    def _far(self, end: int, way: str) -> Iterator[Call]:
        last = min(end, DENSE + 1) if way != "length" else end
        yield Call("dense", np.arange(last)[None])
        if end <= DENSE + RUN:
            return
        if way in ("positions", "tables"):
            yield Call("scattered", self._scattered(end)[None, :EACH])
            for rows in self._scattered(end).reshape(-1, EACH):
                yield Call("scattered", rows[None])
        if way in ("positions", "tables", "offset"):
            edges = np.linspace(DENSE, end - RUN, STRETCHES + 1)
            for low, high in itertools.pairwise(edges):
                start = int(self.rng.uniform(low, high))
                yield Call("far runs", np.arange(start, start + RUN)[None])

    def _scattered(self, end: int) -> np.ndarray:
        """One position in each stretch of as many beyond those that are all asked."""
        stretch = math.ceil((end - DENSE - 1) / (SCATTERED * EACH))
        begins = np.arange(DENSE + 1, end, stretch)
        drawn = np.minimum(begins + self.rng.integers(0, stretch, len(begins)), end - 1)
        drawn = np.r_[drawn, drawn[: SCATTERED * EACH - len(drawn)]]
        return self.rng.permutation(np.resize(drawn, SCATTERED * EACH))

    def _of_lengths(self, end: int) -> Iterator[Call]:
        edges = [n for n in EDGES if n <= end]
        # As many short ones as long ones.
        drawn = np.exp(self.rng.uniform(np.log(6), np.log(max(min(DENSE, end), 7)), 4 * DRAWN))
        drawn = np.setdiff1d(drawn.astype(np.int64) * (end > 6), [0, *EDGES])
        drawn = self.rng.permutation(drawn)[:DRAWN]
        for n in dict.fromkeys([*edges, *(n for n in drawn.tolist() if n)]):
            yield Call("length", np.arange(n)[None])

    def _of_bias(self, end: int) -> Iterator[Call]:
        line = np.arange(min(end, 64))
        yield Call("first", line[None, :17], keys=line[None, :17])
        for queries in (1, 2, 5, 16):  # a cache of earlier keys
            yield Call("unequal lengths", line[None, -queries:], keys=line[None])
        packed = np.r_[0:5, 0:4, 0:7]
        yield Call("packed", packed[None], keys=packed[None])
        mixed = self.rng.permutation(min(end, 400))
        yield Call("jumps", mixed[None, :13], keys=mixed[None, 5:29])
        yield Call("repeated positions", np.array([[3, 3, 3]]), keys=np.array([[0, 0, 3, 5]]))
        far = self.rng.integers(0, end, (1, 200))
        yield Call("far", far[:, :40], keys=far[:, 30:])
        yield Call("far", np.array([[end - 1]]), keys=np.arange(end)[None])
        for n in [n for n in EDGES if n <= end] + self.rng.integers(
            6, min(end, DENSE), 20
        ).tolist():
            keys = np.arange(n)[None]
            yield Call("length", keys if n < 66 else keys[:, -3:], keys=keys)
