"""The one sampler: an implementation, held against what is expected in calls of every kind."""

from __future__ import annotations

import bisect
import functools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.errors import PosencError, bad_argument
from posenc._core.io.files import rounded
from posenc._core.spec.spec import Spec
from posenc.detect.subject import plan
from posenc.detect.subject.code import OtherShape
from posenc.detect.subject.discovery import said
from posenc.detect.subject.reach import (
    UNIT,
    Reach,
    Tally,
    coarse_of,
    of_spec,
    ratio_of,
    rounding_of,
)
from posenc.detect.subject.smallest import Survey, smallest

SEED = 20
ENDS = tuple(2**k for k in range(17, 3, -1))
ENOUGH = 3  # calls that differ, after which only near positions are asked


def survey(
    subject: Any, expected: Any, *, end: int = 2**20, seconds: float = 10, seed: int = SEED,
    allowed: Any = None, gaps: bool = False,
) -> Survey:  # fmt: skip
    """`Subject.survey`; `allowed` is what arithmetic explains; `gaps`: NaN is like NaN."""
    if isinstance(expected, Spec):
        expected = of_spec(expected, subject.kind)
    if not callable(expected):
        raise bad_argument("survey: expected", "a spec or a function", repr(expected))
    return Bench(subject, expected, allowed, np.random.default_rng(seed), gaps).held(end, seconds)


def differs(subject: Any, expected: Any, allowed: Any, places: np.ndarray) -> bool:
    """Whether an implementation differs from what is expected in one call."""
    bench = Bench(subject, expected, allowed, np.random.default_rng(SEED))
    return bench.fails(bench._on_axes(plan.Call("", places[None])))


class Bench:
    """What was compared so far."""

    def __init__(
        self, subject: Any, expected: Callable[..., Any], allowed: Any, rng: np.random.Generator,
        gaps: bool = False,
    ) -> None:  # fmt: skip
        self.began = time.monotonic()
        self.subject, self.expected, self.rng = subject, expected, rng
        self.heads = getattr(expected, "heads", 0)  # where each turns in its own way
        self.tally, self.before = Tally(), subject.calls
        self.output: tuple[int, np.ndarray, np.ndarray] | None = None  # the worst of the last call
        self.written = False  # whether the last call changed its positions
        self.agreed = ""  # when the first call was answered as expected, and then no more
        self.spent = np.zeros(2)  # seconds and tokens of large calls
        self.until = math.inf
        self.limit = plan.DENSE + 2  # positions of a sequence that shorter ones begin
        self.lines: list[np.ndarray] | None = None
        self.asked: list[plan.Call] = []
        self.refused: dict[str, str] = {}
        self.wrong: list[plan.Call] = []
        signs = rng.choice([-1.0, 1.0], (4, 33, plan.DENSE + 2, 1))
        self.signs = signs * rng.uniform(0.5, 1.0, signs.shape)
        wide = subject.dim * 2
        self.mixed = rng.choice([-1.0, 1.0], wide) * rng.uniform(0.7, 1.0, wide)
        self.coarse = coarse_of(subject, self.x(plan.Call("", np.arange(9)[None])))
        self.gaps = gaps
        self.allowed = rounding_of(subject, expected) if allowed is None else self._by(allowed)
        if self.coarse != "float64":
            fine, unit = self.allowed, 8 * UNIT[self.coarse]
            self.allowed = lambda call, wanted: (
                fine(call, wanted) + unit * np.abs(wanted).max(axis=-1, keepdims=True)
            )

    def _by(
        self, allowed: Callable[..., np.ndarray]
    ) -> Callable[[plan.Call, np.ndarray], np.ndarray]:
        """What somebody allows for inputs, outputs, positions and a dtype."""

        def room(call: plan.Call, wanted: np.ndarray) -> np.ndarray:
            x = rounded(self.x(call), call.dtype)
            x = x[:, :: call.groups] if x.shape[1] != wanted.shape[1] else x  # of keys
            return allowed(x, wanted, call.rows, call.dtype)

        return room

    # --- the calls --------------------------------------------------------------------------------

    def held(self, end: int, seconds: float) -> Survey:
        """All calls, or as many as there is time for."""
        self.until = self.began + seconds
        end = self._end(end + 1)
        self.limit = min(end, self.limit)
        calls = [self._on_axes(call) for call in plan.Schedule(self.subject, self.rng).calls(end)]
        if self.heads:
            calls = [c._replace(heads=self.heads) for c in calls if c.kind not in plan.OF_HEADS]
        planned = len({c.length for c in calls if c.kind == "length"})
        looks = [self._in_time(call) for call in calls
                 if len(self.wrong) <= ENOUGH or call.kind == "dense"]  # fmt: skip
        first = self.wrong[0] if self.wrong else calls[0]
        self.look(calls[0]._replace(kind="the first call again"))
        if first is not calls[0] and self.wrong[-1].kind == "the first call again":
            pair = self.after_another(first)
            earlier = first.length if pair.earlier is None else pair.earlier.length
            self.agreed = f"it agreed before calls of {earlier:,} and {first.length:,} tokens"
        self._at_first()
        wrong = sorted(self.wrong, key=lambda c: (c.earlier is not None, c.rows.size, c.heads))
        call_ = smallest(self, wrong[0]) if wrong else None
        reach = replace(
            self._reach(end, planned), late=not all(looks), seconds=time.monotonic() - self.began,
            calls=self.subject.calls - self.before,
        )  # fmt: skip
        return Survey(*self.tally.worst[1:], reach, call_)

    def _in_time(self, call: plan.Call) -> bool:
        """Make a call if there is time for it, by those so far."""
        start, form = time.monotonic(), self.subject._found.form
        # How many rows it makes the code compute.
        counts = self.subject.kind != "bias" and (
            form.way in ("length", "counted", "tables") or form.code.tables is not None
        )
        size = max(call.rows.size, int(call.rows.max()) + 1 if counts else call.length)
        if start + self.spent[0] * size / max(self.spent[1], 1) > self.until:
            return False
        self.look(call)
        if size > 256:
            self.spent += (time.monotonic() - start, size)
        return True

    def _at_first(self) -> None:
        """The very first answer, by which the form was found."""
        first = self.subject._found.first
        if self.subject.kind != "rotary" or first is None or self.subject._unit != 1:
            return
        asked, y = first
        wanted = np.asarray(self.expected(rounded(asked.x, asked.dtype), asked.rows))
        call = plan.Call("the first call of all", asked.rows, heads=asked.x.shape[1])
        self.written = False
        off, room = self._apart(call, [y], [wanted])
        if self.tally.add(off, room, *self._places(call, off)) > 1:
            self.wrong.append(call)

    def _on_axes(self, call: plan.Call) -> plan.Call:
        """The call with coordinates that differ on several axes."""
        if self.subject._axes == 1 or call.rows.ndim == 3:
            return call
        turned_ = [np.roll(call.rows, k, axis=1) for k in range(self.subject._axes)]
        return call._replace(rows=np.stack(turned_, axis=-1))

    def _end(self, end: int) -> int:
        """One more than the farthest position that is not refused."""
        why = ""
        most = min(end, ENDS[0]) if self.subject.kind == "bias" else end
        ends = [(last, last - 2) for last in (most, *(n for n in ENDS if n < most))]
        # Code without positions answers for sequences from 0 on; by chance for as many as channels.
        form = self.subject._found.form  # whose rows from 0 on may be those of a table that ends
        counts = self.subject.kind not in ("rotary", "bias") and form.way == "length"
        too_many = most + 1
        for last, first in (*ends, *((n, 0) for n in (self.limit, 1000, 300, 60) if n < most)):
            if (error := self._failure(first, last)) is None:
                between = range(last + 1, too_many if why and self.subject.kind != "bias" else last)
                key = functools.partial(self._stops, last - first)
                end = last + bisect.bisect_left(between, True, key=key)
                self.refused |= {"end": f"{why}; asked to {end - 1:,}"} if why else {}
                return end
            why, too_many = why or f"positions to {last - 1:,} ({said(error)})", last
            if isinstance(error, OtherShape) and not (counts or form.code.tables):
                break  # of more tokens it may be a square, which memory cannot hold
        self.refused["end"] = why
        return ENDS[-1]

    def _stops(self, tokens: int, last: int) -> bool:
        """Whether so many tokens before a position, or the last alone, are refused."""
        # One row of a table serves several tokens.
        return any(self._failure(n, last) is not None for n in (max(last - tokens, 0), last - 1))

    def _failure(self, first: int, last: int) -> Exception | None:
        """What a call of positions raises; None where it is answered."""
        try:
            line = np.arange(first, last)[None]
            self._answer(self._on_axes(plan.Call("", line, keys=line)))
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            return error
        return None

    # --- one call ---------------------------------------------------------------------------------

    def x(self, call: plan.Call) -> np.ndarray:
        """Inputs (batch, heads, seq, channels), the first of them alike in calls of any size."""
        batch, seq = call.rows.shape[:2]
        shape = batch, self.heads or call.heads, seq, self.subject.dim * call.wide
        if call.plain:
            return np.ones(shape)
        if call.kind == "smaller":  # numbers that a program can draw, too
            x = np.random.default_rng(0).normal(size=shape)
        else:
            sizes = zip(shape[:3], self.signs.shape, strict=False)
            x = self.signs[np.ix_(*(np.arange(count) % drawn for count, drawn in sizes))]
            x = x * self.mixed[: shape[-1]]
        return rounded(x * np.resize(call.sizes, batch)[:, None, None, None], "float32")

    def _answer(self, call: plan.Call) -> Any:
        """What it answers, as a list of arrays."""
        subject = self.subject
        if call.form is not None or call.after:
            subject = replace(subject, _found=call.form or subject.fresh()._found)
        if call.earlier is not None:
            self._answer_of(subject, call.earlier)
        self.written = subject._counter.written = False
        out = self._answer_of(subject, call)
        self.written = subject._counter.written
        return out

    def _answer_of(self, subject: Any, call: plan.Call) -> Any:
        if subject.kind != "rotary":
            ask = {"bias": subject.bias, "table": subject.rows}.get(subject.kind, subject.cos_sin)
            return self._in_one(ask, call)
        x, rows = self.x(call), call.rows
        if call.after:
            subject.both(x, rows, dtype=call.after)
        return subject.both(x, rows, dtype=call.dtype, strided=call.strided,
                            groups=call.groups)  # fmt: skip

    def _in_one(self, ask: Callable[..., Any], call: plan.Call) -> list[np.ndarray]:
        """What is answered to a question of positions, cosines beside sines."""
        biased, plain = self.subject.kind == "bias", self.subject.kind in ("bias", "table")
        out = ask(call.rows[0], call.keys[0]) if biased else ask(call.rows)  # type: ignore[index]
        return [np.asarray(out) if plain else np.concatenate(out, axis=-1)]

    def _wanted(self, call: plan.Call) -> list[np.ndarray]:
        rotary = self.subject.kind == "rotary"
        return self._turned(call) if rotary else self._in_one(self.expected, call)

    def _turned(self, call: plan.Call) -> list[np.ndarray]:
        """Queries, and keys of half their size."""
        if (
            call.kind in ("length", "dense")
            and call.rows.shape[1] <= self.limit
            and not call.rows[0, 0].any()
            and not call.plain
            and call.rows.ndim == 2
            # What is expected of a sequence may depend on its length.
            and not getattr(self.expected, "of_length", False)
        ):
            # Every shorter sequence begins the one of all positions.
            if self.lines is None:
                self.lines = self._turned(plan.Call("", np.arange(self.limit)[None]))
            return [line[:, :, : call.rows.shape[1]] for line in self.lines]
        dim, x = self.subject.dim, rounded(rounded(self.x(call), call.dtype), self.coarse)
        wanted = np.asarray(self.expected(x[..., :dim], call.rows))
        keys = getattr(self.expected, "keys", None)
        other = wanted if keys is None else np.asarray(keys(x[..., :dim], call.rows))
        turned = [np.concatenate([each, x[..., dim:]], axis=-1) for each in (wanted, other)]
        return [turned[0], turned[1][:, :: call.groups] * 0.5]

    def differences(self, call: plan.Call) -> tuple[np.ndarray, np.ndarray]:
        """Differences and what arithmetic explains, of the worst output."""
        return self._apart(call, self._numbers(call), self._wanted(call))

    def _expected(self, call: plan.Call) -> list[np.ndarray] | None:
        """What is expected; None, and noted, where a spec has no such call: it is not refused."""
        try:
            return self._wanted(call)
        except PosencError as why:
            self.refused.setdefault(
                "expected", f"{call.kind} (what is expected refuses it: {said(why)})"
            )
            return None

    def _numbers(self, call: plan.Call) -> Any:
        """What it answers; whatever other people's code raises comes out."""
        try:
            return self._answer(call)
        except OtherShape:
            shaped = self.subject.kind in ("rotary", "bias") and any(
                one.rows.shape[1] > 1 for one in self.asked
            )
            if call.kind == "wider heads" or not shaped:
                raise  # in no call, or by chance alone, does it answer as asked
            return [np.zeros(0)]

    def _apart(
        self, call: plan.Call, outs: list[np.ndarray], wants: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        best: tuple[np.ndarray, np.ndarray] | None = None
        for place, (out, wanted) in enumerate(zip(outs, wants, strict=False)):
            if out.shape != wanted.shape or self.written:
                self.output = place, out, wanted
                return np.array([[np.inf]]), np.array([[0.0]])
            with np.errstate(invalid="ignore"):
                alike = (out == wanted) | (self.gaps & np.isnan(out) & np.isnan(wanted))
                alike |= np.isinf(out) & (out == rounded(wanted, call.dtype))
                off = np.where(alike, 0.0, np.abs(out - wanted))
            off = np.where(np.isnan(off), np.inf, off)
            room = np.broadcast_to(self.allowed(call, wanted), off.shape)
            if best is None or ratio_of(off, room) > ratio_of(*best):
                best = off, room
                self.output = place, out, wanted
        assert best is not None  # noqa: S101 - there is an output
        return best

    def after_another(self, call: plan.Call) -> plan.Call:
        """The call, after the one that came before it in the survey."""
        place = next((i for i, one in enumerate(self.asked) if one.rows is call.rows), 0)
        return call._replace(earlier=self.asked[place - 1]) if place else call

    def fails(self, call: plan.Call) -> bool:
        """Whether a call differs by more than arithmetic explains; not where it is refused."""
        if time.monotonic() > self.until or (wants := self._expected(call)) is None:
            return False
        try:
            outs = self._numbers(call)
        except Exception:  # noqa: BLE001 - whatever other people's code raises
            return False
        return ratio_of(*self._apart(call, outs, wants)) > 1

    def look(self, call: plan.Call) -> None:
        """Make a call, compare it, and note it; of too many tokens in parts."""
        if (wants := self._expected(call)) is None:
            return
        try:
            outs = self._numbers(call)
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            self._refusal(call, error)
            for rows in self._parts(call):
                self.look(call._replace(rows=rows))
            return
        off, room = self._apart(call, outs, wants)
        if call.kind == "wider heads" and ratio_of(off, room) > 1 and self._narrow(call):
            self.refused.setdefault(
                call.kind, "wider heads: the code turns other channels of them than the spec does"
            )
            return
        self.asked.append(call)
        if self.tally.add(off, room, *self._places(call, off)) > 1:
            self.wrong.append(call)

    def _parts(self, call: plan.Call) -> list[np.ndarray]:
        """The halves of a call that may have had too many tokens."""
        placed = self.subject._found.form.way in ("positions", "tables", "offset")
        many = call.kind in ("dense", "scattered") and call.rows.shape[1] > plan.RUN
        late = time.monotonic() > self.until
        return np.array_split(call.rows, 2, axis=1) if placed and many and not late else []

    def _narrow(self, call: plan.Call) -> bool:
        """Whether a wider head is turned as one of another width, or as two heads."""
        dim = self.subject.dim
        out, wanted, x = self._answer(call)[0], self._wanted(call)[0], self.x(call)
        second = np.asarray(self.expected(x[..., dim:], call.rows))
        return bool(
            np.abs(out - wanted)[..., :dim].max() > 1e-2
            or np.abs(out[..., dim:] - second).max() < 1e-2
        )

    def _refusal(self, call: plan.Call, error: Exception) -> None:
        key = {"dtype": call.dtype, "dense": "length"}.get(call.kind, call.kind)
        name = f"length {call.length:,}" if key == "length" else key
        self.refused.setdefault(key, f"{name} ({said(error)})")

    def _places(self, call: plan.Call, off: np.ndarray) -> tuple[np.ndarray, Any]:
        """The position of each token, of a bias the distance; and the axes that are no tokens."""
        if self.subject.kind == "bias":
            return np.abs(call.rows[0][:, None] - call.keys[0][None]).ravel(), (0,)  # type: ignore[index]
        rows = call.rows if call.rows.ndim == 2 else np.abs(call.rows).max(axis=-1)
        return rows.ravel(), (1, 3) if off.ndim == 4 else (-1,)

    # --- what is said -----------------------------------------------------------------------------

    def _reach(self, end: int, planned: int) -> Reach:
        """What was asked, by the calls themselves."""
        reach, calls = self.tally.reach(), self.asked
        lengths = tuple(sorted({call.length for call in calls}))
        stretch, places = plan.stretch_of(end), self.tally.asked()[0]
        met = np.unique((places[places > plan.DENSE] - plan.DENSE - 1) // max(stretch, 1)).size
        many = plan.DENSE <= reach.dense < end - 1 and met * stretch >= end - plan.DENSE - 1
        turned = calls if self.subject.kind == "rotary" else []
        return replace(
            reach, stretch=stretch if many and reach.differs is None else 0, lengths=lengths,
            batch=max((len(call.rows) for call in calls), default=0),
            heads=max((call.heads for call in turned), default=0), length=max(lengths, default=0),
            drawn=len([n for n in lengths if n not in plan.EDGES]),
            planned=max(planned, len(lengths)), refused=tuple(self.refused.values()),
            dtypes=tuple(dict.fromkeys(call.dtype for call in turned)),
            kinds=tuple(dict.fromkeys(c.kind for c in calls if c.kind not in plan.PLAIN)),
            largest=max((s for c in turned for s in c.sizes[: len(c.rows)]), default=0.0),
        )  # fmt: skip
