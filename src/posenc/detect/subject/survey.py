"""The one sampler: an implementation, held against what is expected in calls of every kind."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from posenc import functional
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.spec.spec import Spec
from posenc.detect.subject.discovery import Found, said
from posenc.detect.subject.reach import Reach
from posenc.detect.subject.smallest import SmallestCall, smallest
from posenc.encodings.rotary.base import RotarySpec

SEED = 20
DENSE = 2**12  # every position up to it is asked for
ENDS = (2**17, 2**16, 2**15, 2**14, 2**13, 2**12, 2**11, 2**10, 2**9, 2**8, 2**7, 2**6, 2**5, 2**4)
EDGES = sorted(
    {n + d for n in (2, 4, *(2**k for k in range(3, 13))) for d in (-1, 0, 1)} | {5, 100}
)
DRAWN = 60
STRETCHES, RUN = 64, 128  # far runs of positions
SCATTERED, EACH = 16, 512  # calls of far positions that jump
ENOUGH = 3  # calls that differ, after which only near positions are asked
DTYPES = ("float64", "float16", "bfloat16", "float32")
UNIT = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
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


@dataclass(frozen=True)
class Survey:
    """What an implementation was found to do beside what is expected.

    Parameters
    ----------
    difference : float
        Where it is largest for its tolerance.
    tolerance : float
        What arithmetic in the dtype of the call explains there.
    reach : Reach
        What was asked.
    call : SmallestCall or None
        The smallest call that shows a difference.

    Examples
    --------
    >>> import posenc
    >>> subject = posenc.ask({"inv_freq": posenc.frequencies(posenc.RoPE(8, pairing="half"))})
    >>> subject.survey(posenc.RoPE(8, pairing="half"), end=5000).agrees
    True
    """

    difference: float
    tolerance: float
    reach: Reach
    call: SmallestCall | None = None

    @property
    def agrees(self) -> bool:
        """Whether no difference is more than arithmetic explains, as far as `reach` says."""
        return self.call is None and self.difference <= self.tolerance

    def __str__(self) -> str:
        lines = self.reach.lines()
        return "\n".join(lines if self.call is None else [str(self.call), *lines])


def survey(
    subject: Any, expected: Any, *, end: int = 2**20, seconds: float = 10, seed: int = SEED,
    allowed: Any = None,
) -> Survey:  # fmt: skip
    """`Subject.survey`; `allowed` (x, y, positions, dtype) is what arithmetic explains."""
    if isinstance(expected, Spec):
        expected = of_spec(expected, subject.kind)
    if not callable(expected):
        raise ArgumentError(mismatch("survey: expected", "a spec or a function", repr(expected)))
    bench = Bench(subject, expected, allowed, np.random.default_rng(seed))
    return bench.held(end, seconds)


def differs(subject: Any, expected: Any, allowed: Any, places: np.ndarray) -> bool:
    """Whether an implementation differs from what is expected in one call."""
    bench = Bench(subject, expected, allowed, np.random.default_rng(SEED))
    return bench.fails(bench._on_axes(Call("", places[None])))


def of_spec(spec: Any, kind: str) -> Callable[..., Any]:
    """What a spec answers to the question of a kind, in float64."""
    if kind == "bias":
        return lambda q, k: functional.bias(spec, q, k, dtype="float64")
    if isinstance(spec, RotarySpec) and kind != "table":
        if kind == "rotary":
            return lambda x, p: functional.rotate(spec, x, positions=p[:, None])
        fixed = spec.at(1) if spec.needs_length else spec
        return lambda p: functional.cos_sin(fixed, p, dtype="float64")
    return lambda p: functional.table(spec, p, dtype="float64")


class Tally:
    """Differences so far, and at which positions."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # ratio, difference, tolerance
        self.places: list[np.ndarray] = []  # (2, tokens): positions, and ratios there

    def add(self, off: np.ndarray, room: np.ndarray, places: np.ndarray, axes: Any) -> float:
        """Note differences at positions, which remain where `axes` are left out; the ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(off > 0, off / room, 0.0)
        at = np.unravel_index(int(np.argmax(each)), off.shape)
        if each[at] >= self.worst[0]:
            self.worst = float(each[at]), float(off[at]), float(room[at])
        worst = each.max(axis=axes).ravel()
        if worst.shape != places.shape:
            worst = np.full(places.shape, each.max())
        self.places.append(np.stack([places, worst]))
        return float(each[at])

    def asked(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions that were asked, ascending, and whether they agree."""
        places, ratios = np.concatenate(self.places or [np.zeros((2, 0))], axis=1)
        each, index = np.unique(places, return_inverse=True)
        worst = np.zeros(len(each))
        np.maximum.at(worst, index, ratios)
        return each, worst <= 1

    def reach(self) -> Reach:
        """Which positions agree."""
        places, agree = self.asked()
        differs = None if agree.all() else float(places[~agree][0])
        alike = places if differs is None else places[places < differs]
        gaps = np.flatnonzero(np.diff(alike) != 1)
        dense = alike[gaps[0]] if len(gaps) else alike.max(initial=0)
        position = float(alike[-1]) if len(alike) else None
        return Reach(position, differs, len(alike), dense=int(dense))


class Bench:
    """What was compared so far."""

    def __init__(
        self, subject: Any, expected: Callable[..., Any], allowed: Any, rng: np.random.Generator
    ) -> None:
        self.subject, self.expected, self.rng = subject, expected, rng
        self.tally, self.before = Tally(), subject.calls
        self.output: tuple[int, np.ndarray, np.ndarray] | None = None  # the worst of the last call
        self.pace = 0.0  # seconds for each token
        self.done: dict[str, None] = {}
        # Whether what is expected of a sequence depends on its length.
        self.of_length = bool(getattr(expected, "of_length", False))
        self.lines: list[np.ndarray] | None = None
        self.lengths: dict[int, None] = {}
        self.kinds: dict[str, None] = {}
        self.dtypes: dict[str, None] = {}
        self.refused: dict[str, str] = {}
        self.wrong: list[Call] = []
        self.most = [0, 0, 0]  # rows, heads, tokens
        self.largest = 0.0
        dim = subject.dim
        signs = rng.choice([-1.0, 1.0], (3, 33, DENSE + 2, 1))
        self.signs = signs * rng.uniform(0.5, 1.0, signs.shape)
        self.mixed = rng.choice([-1.0, 1.0], dim * 2) * rng.uniform(0.7, 1.0, dim * 2)
        self.coarse = self._coarse()
        self.allowed = self._rounding() if allowed is None else lambda call, want: allowed(
            rounded(self.x(call), call.dtype), want, call.rows, call.dtype)  # fmt: skip

    # --- the calls --------------------------------------------------------------------------------

    def held(self, end: int, seconds: float) -> Survey:
        """All calls, or as many as there is time for."""
        began = time.monotonic()
        end = self._end(end + 1)
        plan = [self._on_axes(call) for call in self._plan(end)]
        planned = len({c.rows.shape[1] for c in plan if c.kind == "length"})
        late = False
        for call in plan:
            if len(self.wrong) > ENOUGH and call.kind != "dense":
                continue
            late = time.monotonic() - began > seconds
            if late or time.monotonic() - began + self._cost(call) > seconds:
                late = True
                continue
            start = time.monotonic()
            self.look(call)
            size = max(call.rows.size, self._reaches(call))
            if size > 256:
                self.pace = max(self.pace, (time.monotonic() - start) / size)
        self.look(plan[0]._replace(kind="the first call again"))
        self._at_first()
        call_ = self._smallest()
        spent = time.monotonic() - began
        return Survey(
            *self.tally.worst[1:],
            self._reach(
                end, planned=planned, late=late, calls=self.subject.calls - self.before, spent=spent
            ),
            call_,
        )

    def _reaches(self, call: Call) -> int:
        """How many rows a call makes the code compute."""
        form = self.subject._found.form
        counts = form.way in ("length", "counted", "tables") or form.code.tables is not None
        return int(call.rows.max()) + 1 if counts else call.rows.size

    def _cost(self, call: Call) -> float:
        """The seconds that a call will take, by the slowest one so far."""
        return self.pace * max(call.rows.size, self._reaches(call))

    def _at_first(self) -> None:
        """The very first answer, by which the form was found."""
        if self.subject.kind != "rotary" or self.subject._found.first is None:
            return
        asked, y = self.subject._found.first
        want = np.asarray(self.expected(rounded(asked.x, asked.dtype), asked.rows))
        call = Call("the first call of all", asked.rows, heads=asked.x.shape[1])
        if (
            self.tally.add(np.abs(y - want), self.allowed(call, want), asked.rows.ravel(), (1, 3))
            > 1
        ):
            self.wrong.append(call)

    def _on_axes(self, call: Call) -> Call:
        """The call with coordinates that differ on several axes."""
        if self.subject._axes == 1 or call.rows.ndim == 3:
            return call
        turned_ = [np.roll(call.rows, k, axis=1) for k in range(self.subject._axes)]
        return call._replace(rows=np.stack(turned_, axis=-1))

    def _end(self, end: int) -> int:
        """One more than the farthest position that is not refused."""
        if self.subject.kind == "bias":
            ends = [min(end, 2**17), *(n for n in ENDS if n < end)]
        else:
            ends = [end, *(n for n in ENDS if n < end)]
        why = ""
        for last in ends:
            try:
                one = Call("", np.array([[0, last - 1]]), keys=np.array([[0, last - 1]]))
                self._answer(self._on_axes(one))
            except Exception as error:  # noqa: BLE001 - whatever other people's code raises
                why = why or f"positions to {last - 1:,} ({said(error)})"
                continue
            if why:
                self.refused["end"] = f"{why}; asked to {last - 1:,}"
            return last
        self.refused["end"] = why
        return 16

    def _plan(self, end: int) -> Iterator[Call]:
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
        for found in self.subject.forms():
            yield Call("other forms", few[None, :6], form=found)
            yield Call("other forms", np.array([[2, 5, 5, 1]]) % end, form=found)
            yield Call("other forms", few[None, :1] + min(9, end - 1), form=found)
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
        drawn = np.exp(self.rng.uniform(np.log(6), np.log(max(min(DENSE, end), 7)), DRAWN))
        drawn = drawn.astype(np.int64) * (end > 6)
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

    # --- one call ---------------------------------------------------------------------------------

    def x(self, call: Call) -> np.ndarray:
        """Inputs (batch, heads, seq, channels), the first of them alike in calls of any size."""
        batch, seq = call.rows.shape[:2]
        dim = self.subject.dim * call.wide
        if call.plain:
            return np.ones((batch, call.heads, seq, dim))
        if call.kind == "smaller":  # numbers that a program can draw, too
            x = np.random.default_rng(0).normal(size=(batch, call.heads, seq, dim))
            sizes_ = np.resize(call.sizes, batch)[:, None, None, None]
            return np.asarray((x * sizes_).astype(np.float32).astype(np.float64))
        signs = self.signs[:batch, : call.heads][:, :, np.arange(seq) % (DENSE + 2)]
        sizes = np.resize(call.sizes, batch)[:, None, None, None]
        return np.asarray((signs * self.mixed[:dim] * sizes).astype(np.float32).astype(np.float64))

    def _answer(self, call: Call) -> Any:
        """What it answers, as a list of arrays."""
        subject, rows = self.subject, call.rows
        if subject.kind == "rotary":
            return subject.both(self.x(call), rows, dtype=call.dtype, strided=call.strided,
                                form=call.form)  # fmt: skip
        if subject.kind == "bias":
            return [subject.bias(rows[0], call.keys[0])]  # type: ignore[index]
        if subject.kind == "table":
            return [subject.rows(rows)]
        return [np.concatenate(subject.cos_sin(rows), axis=-1)]

    def _wanted(self, call: Call) -> list[np.ndarray]:
        kind, rows = self.subject.kind, call.rows
        if kind == "rotary":
            return self._turned(call)
        if kind == "bias":
            return [np.asarray(self.expected(rows[0], call.keys[0]))]  # type: ignore[index]
        if kind == "table":
            return [np.asarray(self.expected(rows))]
        return [np.concatenate(self.expected(rows), axis=-1)]

    def _turned(self, call: Call) -> list[np.ndarray]:
        """Queries, and keys of half their size."""
        short = call.kind in ("length", "dense") and call.rows.shape[1] <= DENSE + 2
        if short and not call.plain and call.rows.ndim == 2 and not self.of_length:
            return [line[:, :, : call.rows.shape[1]] for line in self._line()]
        dim, x = self.subject.dim, rounded(rounded(self.x(call), call.dtype), self.coarse)
        want = np.asarray(self.expected(x[..., :dim], call.rows))
        keys = getattr(self.expected, "keys", None)
        other = want if keys is None else np.asarray(keys(x[..., :dim], call.rows))
        return [np.concatenate([each, x[..., dim:]], axis=-1) * size
                for each, size in ((want, 1.0), (other, 0.5))]  # fmt: skip

    def _line(self) -> list[np.ndarray]:
        """What becomes of a sequence, which every shorter one begins with."""
        if self.lines is None:
            self.lines = self._turned(Call("", np.arange(DENSE + 2)[None]))
        return self.lines

    def differences(self, call: Call) -> tuple[np.ndarray, np.ndarray]:
        """Differences and what arithmetic explains, of the worst output."""
        outs, wants = self._answer(call), self._wanted(call)
        best: tuple[np.ndarray, np.ndarray] | None = None
        for place, (out, want) in enumerate(zip(outs, wants, strict=False)):
            if out.shape != want.shape:
                return np.array([[np.inf]]), np.array([[0.0]])
            with np.errstate(invalid="ignore"):
                off = np.where(out == want, 0.0, np.abs(out - want))
            off = np.where(np.isnan(off), np.inf, off)
            room = np.broadcast_to(self.allowed(call, want), off.shape)
            if best is None or _ratio(off, room) > _ratio(*best):
                best = off, room
                self.output = place, out, want
        assert best is not None  # noqa: S101 - there is an output
        return best

    def fails(self, call: Call) -> bool:
        """Whether a call differs by more than arithmetic explains; not where it is refused."""
        try:
            return _ratio(*self.differences(call)) > 1
        except Exception:  # noqa: BLE001 - whatever other people's code raises
            return False

    def look(self, call: Call) -> None:
        """Make a call, compare it, and note it."""
        try:
            off, room = self.differences(call)
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            self._refusal(call, error)
            return
        if call.kind == "wider heads" and _ratio(off, room) > 1 and self._narrow(call):
            self.refused.setdefault(call.kind, "wider heads (it turns them otherwise)")
            return
        self._note(call)
        if self.tally.add(off, room, *self._places(call, off)) > 1:
            self.wrong.append(call)

    def _narrow(self, call: Call) -> bool:
        """Whether a wider head is turned as one of another width, or as two heads."""
        dim = self.subject.dim
        out, want, x = self._answer(call)[0], self._wanted(call)[0], self.x(call)
        second = np.asarray(self.expected(x[..., dim:], call.rows))
        return bool(
            np.abs(out - want)[..., :dim].max() > 1e-2
            or np.abs(out[..., dim:] - second).max() < 1e-2
        )

    def _refusal(self, call: Call, error: Exception) -> None:
        name = call.dtype if call.kind == "dtype" else call.kind
        name = f"length {call.rows.shape[1]:,}" if call.kind == "length" else name
        key = call.kind if call.kind == "length" else name
        self.refused.setdefault(key, f"{name} ({said(error)})")

    def _note(self, call: Call) -> None:
        batch, seq = call.rows.shape[:2]
        self.done[call.kind] = None
        self.most = [max(a, b) for a, b in zip(self.most, (batch, call.heads, seq), strict=True)]
        self.lengths[seq] = None
        if self.subject.kind == "rotary":
            self.dtypes[call.dtype] = None
            self.largest = max(self.largest, *map(abs, call.sizes))
        if call.kind not in ("first", "heads", "dtype", "length", "dense", "scattered"):
            self.kinds[call.kind] = None

    def _places(self, call: Call, off: np.ndarray) -> tuple[np.ndarray, Any]:
        """The position of each token, of a bias the distance; and the axes that are no tokens."""
        if self.subject.kind == "bias":
            keys: Any = call.keys
            return np.abs(call.rows[0][:, None] - keys[0][None]).ravel(), (0,)
        rows = call.rows if call.rows.ndim == 2 else np.abs(call.rows).max(axis=-1)
        return rows.ravel(), (1, 3) if off.ndim == 4 else (-1,)

    # --- what is explained ------------------------------------------------------------------------

    def _rounding(self) -> Callable[[Call, np.ndarray], np.ndarray]:
        """Rounding in the dtype, and of angles in float32, for each channel by its own speed."""
        if self.subject.kind == "bias":
            return lambda _, want: (
                2.0**-20 * np.where(np.isfinite(want), np.abs(want), 0.0) + 2.0**-23
            )
        speed = self._speeds()
        slow = np.where(speed > 0, speed, 1.0)
        drift = speed * 2.0**-24 * (4 + 2 * np.abs(np.log(slow)))

        def room(call: Call, want: np.ndarray) -> np.ndarray:
            rows = call.rows if call.rows.ndim == 2 else np.abs(call.rows).sum(axis=-1)
            rows = rows[:, None] if want.ndim == 4 else rows
            size = np.abs(np.where(np.isfinite(want), want, 0.0)).max(axis=-1, keepdims=True)
            size = size if self.subject.kind == "rotary" else np.maximum(size, 1.0)
            rates = np.zeros(want.shape[-1])
            rates[: len(drift)] = drift[: len(rates)]
            return np.asarray(
                size
                * (1.5 * rows[..., None] * rates + 8 * max(UNIT[call.dtype], UNIT[self.coarse]))
            )

        return room

    def _coarse(self) -> str:
        """The dtype that the code rounds its input to, whatever that is handed over in."""
        if self.subject.kind != "rotary":
            return "float64"
        x = self.x(Call("", np.arange(9)[None]))
        for dtype in ("bfloat16", "float16"):
            try:
                each = [self.subject.both(y, np.arange(9))[0] for y in (x, rounded(x, dtype))]
            except Exception:  # noqa: BLE001 - whatever other people's code raises
                break
            if np.array_equal(*each):
                return dtype
        return "float64"

    def _speeds(self) -> np.ndarray:
        """Radians per position of each channel: y(p - 1) + y(p + 1) is 2 cos(speed) y(p)."""
        line = np.arange(3)[None]
        if self.subject.kind == "rotary":
            x = np.random.default_rng(1).normal(size=(8, 1, 1, self.subject.dim)).repeat(3, axis=2)
            y = np.asarray(self.expected(x, np.repeat(line, 8, axis=0)))[:, 0]
        else:
            starts = np.arange(0, 24, 3)[:, None] + line
            each = [self._wanted(Call("", row[None]))[0][0] for row in starts]
            y = np.stack(each)
        sums = (y[:, 1] * (y[:, 0] + y[:, 2])).sum(axis=0)
        squares = np.maximum((2 * y[:, 1] ** 2).sum(axis=0), 1e-300)
        return np.asarray(np.arccos(np.clip(sums / squares, -1, 1)))

    # --- what is said -----------------------------------------------------------------------------

    def _smallest(self) -> SmallestCall | None:
        if not self.wrong:
            return None
        least = min(self.wrong, key=lambda call: (call.rows.size, call.heads))
        return smallest(self, least)

    def _reach(self, end: int, *, planned: int, late: bool, calls: int, spent: float) -> Reach:
        reach = self.tally.reach()
        many = reach.differs is None and "scattered" in self.done
        stretch = math.ceil((end - DENSE - 1) / (SCATTERED * EACH)) if many else 0
        lengths = tuple(sorted(self.lengths))
        return replace(
            reach, stretch=stretch, batch=self.most[0], heads=self.most[1], length=self.most[2],
            lengths=lengths, drawn=len([n for n in lengths if n not in EDGES]),
            planned=max(planned, len(lengths)), dtypes=tuple(self.dtypes), kinds=tuple(self.kinds),
            refused=tuple(self.refused.values()), largest=self.largest, calls=calls,
            seconds=spent, late=late,
        )  # fmt: skip


def _ratio(off: np.ndarray, room: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(off > 0, off / room, 0.0).max(initial=0.0))


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """What is left of numbers in a dtype."""
    if dtype == "bfloat16":
        bits = x.astype(np.float32).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    return x.astype(dtype).astype(np.float64)
