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
OF_HEADS = ("heads", "axes of one size", "fewer heads of keys")  # how many there are is the point
# Where tokens stand is the point: code that counts them itself never sees it.
OF_PLACES = ("repeated positions", "steps of two", "jumps", "falling positions", "rows that differ")
PLAIN = ("first", "heads", "dtype", "length", "dense", "scattered")  # told by their numbers
APART = np.array([[2, 5, 5, 1], [0, 1, 2, 3]])  # rows that differ, with a position twice
# Three rows, as a number of axes may be.
LEFT_PADDED = np.array([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [0, 0, 1, 2, 3, 4]])
HEADS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 33)
ONE, WIDE = (1.0,), (1.0, 8192.0)  # the second has squares beyond float16, and no sums
LARGE = (1.0, 1024.0, 2.0**-16, 2.0**20)  # of the rows of a batch


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
    after: str = ""  # the dtype of an equal call before, of an instance that was asked nothing
    groups: int = 1  # heads of queries for each head of keys
    earlier: Any = None  # another call, made before

    @property
    def length(self) -> int:
        """Of its sequence; of a bias that of its keys."""
        return int((self.rows if self.keys is None else self.keys).shape[1])


class Schedule:
    """The calls of one survey."""

    def __init__(self, subject: Any, rng: np.random.Generator) -> None:
        self.subject, self.rng, self.form = subject, rng, subject._found.form

    def calls(self, end: int) -> list[Call]:
        """The calls, what is most often wrong first."""
        if self.subject.kind == "bias":
            return self._of_bias(end)
        few = np.arange(min(17, end))
        others = few[None, :6], APART % end, few[None, :1] + min(9, end - 1)
        return [
            *(c if self.form.way in ("positions", "tables") or c.kind not in OF_PLACES
              else c._replace(kind="scattered") for c in self._near(end, few)),
            *(self._of_tokens(end, few) if self.subject.kind == "rotary" else ()),
            *(Call("other forms", rows, form=form) for form in self.subject.forms()
              for rows in others),
            *self._far(end),
            *self._of_lengths(end),
            *self._last(end),
        ]  # fmt: skip

    def _near(self, end: int, few: np.ndarray) -> list[Call]:
        near = min(end, 300)
        rows = self.rng.integers(0, near, (33, 1)) + np.arange(5)
        return [
            Call("first", np.stack([few, few]), heads=3, sizes=LARGE[:2]),
            Call("one token", self.rng.integers(1, end, (1, 1))),
            Call("repeated positions", LEFT_PADDED),
            Call("repeated positions", np.array([[min(7, end - 1)] * 3])),
            Call("repeated positions", self.rng.integers(0, end, (1, 1)).repeat(5, axis=1)),
            Call("steps of two", np.arange(0, near, 2)[None, :17]),
            Call("jumps", self.rng.permutation(near)[None, :9]),
            # Of one length, sum, first and last, which a cache may take for one sequence.
            Call("jumps", few[None, [0, *few[-2:0:-1], -1]], earlier=Call("", few[None])),
            Call("falling positions", np.arange(min(near, 40))[None, ::-1]),
            Call("rows that differ", np.minimum(rows[:4], end - 1), heads=2, sizes=LARGE),
            Call("rows that differ", np.minimum(rows[:, :3], end - 1)),
        ]

    def _of_tokens(self, end: int, few: np.ndarray) -> list[Call]:
        """Heads, memory, widths and dtypes of what is turned."""
        two = np.stack([few, few])
        keyed = "key" in dict(self.form.roles).values() and {*self.form.layout} & {*"hf"}
        grouped, anew = keyed and self.form.way != "counted", self.subject._anew is not None
        odd = (two + 1001) % end  # no number of half precision
        low, high = sorted((min(end // 2, 3000), min(end, 60_000)))
        start = int(self.rng.integers(low, high))
        far = np.arange(start, min(start + 9, end))[None]
        last = np.arange(max(end - 9, 0), end)[None]
        return [
            *(Call("heads", few[None], heads=n) for n in HEADS),
            Call("axes of one size", np.stack([few[:5]] * len(few[:5])), heads=len(few[:5])),
            Call("equal tokens", two, heads=2, plain=True),
            Call("tokens of zeros", two, sizes=(1.0, 0.0)),
            Call("strides", two, heads=3, strided=True),
            Call("wider heads", few[None], heads=2, wide=2),
            *[Call("fewer heads of keys", few[None], heads=4, groups=2)] * bool(grouped),
            *[Call("half precision first", odd, heads=3, after="bfloat16")] * anew,
            *(Call("dtype", rows, heads=heads, dtype=dtype, sizes=sizes)
              for rows, heads, sizes in ((two, 3, WIDE), (far, 1, ONE), (last, 1, ONE))
              for dtype in DTYPES),
        ]  # fmt: skip

    def _far(self, end: int) -> list[Call]:
        calls = [
            Call(
                "dense", np.arange(min(end, DENSE + 1) if self.form.way != "length" else end)[None]
            )
        ]
        if end > DENSE + RUN and self.form.way in ("positions", "tables"):
            calls += [
                Call("scattered", rows)
                for rows in (
                    self._scattered(end)[None, :EACH],
                    *self._scattered(end).reshape(-1, 1, EACH),
                )
            ]
        if end > DENSE + RUN and self.form.way in ("positions", "tables", "offset"):
            starts = [
                int(self.rng.uniform(low, high))
                for low, high in itertools.pairwise(np.linspace(DENSE, end - RUN, STRETCHES + 1))
            ]
            starts += [2**k - RUN // 2 for k in range(13, 31) if 2**k + RUN <= end]
            calls += [Call("far runs", np.arange(start, start + RUN)[None]) for start in starts]
        return calls

    def _scattered(self, end: int) -> np.ndarray:
        """One position in each stretch of as many beyond those that are all asked."""
        stretch = stretch_of(end)
        begins = np.arange(DENSE + 1, end, stretch)
        return self.rng.permutation(
            np.resize(
                np.minimum(begins + self.rng.integers(0, stretch, len(begins)), end - 1),
                SCATTERED * EACH,
            )
        )

    def _of_lengths(self, end: int) -> Iterator[Call]:
        # As many short ones as long ones.
        drawn = np.exp(self.rng.uniform(np.log(6), np.log(max(min(DENSE, end), 7)), 4 * DRAWN))
        drawn = np.setdiff1d(drawn.astype(np.int64) * (end > 6), [0, *EDGES])
        lengths = [n for n in EDGES if n <= end] + self.rng.permutation(drawn)[:DRAWN].tolist()
        return (Call("length", np.arange(n)[None]) for n in lengths)

    def _last(self, end: int) -> list[Call]:
        """A step after long sequences, and where stored rows end, of many heads."""
        ends = 2 ** np.arange(4, 31)[:, None] - [1, 0]
        rows = self.rng.permutation(np.r_[ends[ends < end], self.rng.integers(0, end, 64)])
        return [
            Call("one token", np.array([[end - 1]])),
            Call(
                "ends of tables",
                rows[None],
                heads=33 if self.subject.kind == "rotary" and self.form.way != "counted" else 1,
            ),
        ]

    def _of_bias(self, end: int) -> list[Call]:
        line = np.arange(min(end, 64))[None]
        packed = np.r_[0:5, 0:4, 0:7][None]
        mixed = self.rng.permutation(min(end, 400))[None]
        far = self.rng.integers(0, end, (1, 200))
        lengths = [
            np.arange(n)[None]
            for n in [
                *(n for n in EDGES if n <= end),
                *self.rng.integers(6, min(end, DENSE), 20).tolist(),
            ]
        ]
        return [
            Call("first", line[:, :17], keys=line[:, :17]),
            *(Call("unequal lengths", line[:, -queries:], keys=line)  # after a cache of other keys
              for queries in (1, 2, 3, 4, 5, 7, 8, 16, 33)),
            Call("more queries than keys", line[:, :9], keys=line[:, :4]),
            Call("packed", packed, keys=packed),
            Call("jumps", mixed[:, :13], keys=mixed[:, 5:29]),
            Call("repeated positions", np.array([[3, 3, 3]]), keys=np.array([[0, 0, 3, 5]])),
            Call("far", far[:, :40], keys=far[:, 30:]),
            Call("far", np.array([[end - 1]]), keys=np.arange(end)[None]),
            *(Call("length", keys if keys.size < 66 else keys[:, -3:], keys=keys)
              for keys in lengths),
        ]  # fmt: skip


def stretch_of(end: int) -> int:
    """Of how many positions beyond those that are all asked one is."""
    return math.ceil((end - DENSE - 1) / (SCATTERED * EACH))
