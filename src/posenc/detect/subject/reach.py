"""How far an implementation was looked at: what was asked, and nothing beyond it.

Differences at positions are counted up; what arithmetic explains of one is rounding in a dtype, and
of angles in float32.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc._core.io.files import rounded
from posenc.detect.subject.plan import Call
from posenc.encodings.rotary.base import RotarySpec


@dataclass(frozen=True)
class Reach:
    """How far an implementation was looked at.

    Parameters
    ----------
    position : float or None
        The farthest position up to which all that were asked for agree; of a bias the largest
        distance. None where none does.
    differs : float or None
        The nearest position that does not agree.
    positions : int
        How many agree.
    dense : int
        The position up to which every one was asked.
    stretch : int
        One position of each stretch of so many was asked beyond that.
    heads, batch, length : int
        The most heads, rows of a batch and positions of one call.
    lengths : tuple of int
        Every length of a sequence that was asked.
    drawn : int
        How many of these were drawn at random.
    planned : int
        How many lengths were to be asked.
    dtypes : tuple of str
        What inputs were handed over in.
    kinds : tuple of str
        What else calls had: repeated positions, rows that differ, strides, …
    refused : tuple of str
        What was refused, and why.
    largest : float
        The largest number that was handed over.
    calls : int
        All calls, the ones that were refused included.
    seconds : float
        What they took.
    late : bool
        Whether time ended them.
    against : str
        What it was held against, where that is neither a spec nor a rule.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half")
    >>> found = posenc.infer_spec(lambda x, p: posenc.rotate(rope, x, positions=p), dim=64)
    >>> found.reach.position, found.reach.heads
    (1048576, 33)
    """

    position: float | None = None
    differs: float | None = None
    positions: int = 0
    dense: int = 0
    stretch: int = 0
    heads: int = 0
    batch: int = 0
    length: int = 0
    lengths: tuple[int, ...] = ()
    drawn: int = 0
    planned: int = 0
    dtypes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    largest: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    late: bool = False
    against: str = ""

    def lines(self) -> list[str]:
        """The same for people; the seconds, which differ from run to run, are left out."""
        return [
            *filter(None, [self._positions(), self._lengths(), self._calls()]),
            *(f"refused: {what}" for what in self.refused),
        ]

    def words(self) -> str:
        """The lines as one."""
        return "; ".join(self.lines())

    def _positions(self) -> str:
        if self.position is None:
            return "" if self.differs is None else f"differs at position {self.differs:,.12g}"
        asked = (
            f"{_to(self.positions, 'position')} asked"
            + (f": each to {self.dense:,}" if self.dense else "")
            + (f", then one in every {self.stretch:,}" if self.stretch else "")
        )
        agrees = f"agrees with {self.against} to" if self.against else "agrees to"
        to = f"{agrees} position {self.position:,.12g} ({asked})"
        if self.positions == 1:
            to = f"{agrees.removesuffix(' to')} at position {self.position:,.12g} alone"
        return to + ("" if self.differs is None else f", differs at position {self.differs:,.12g}")

    def _lengths(self) -> str:
        if not self.lengths:
            return f"lengths to {self.length:,}" if self.length else ""
        late = f"of the {self.planned} planned lengths were tried before time ran out, from"
        asked = f"{len(self.lengths)} {late if self.late else 'lengths from'}"
        return (
            f"{asked} {min(self.lengths):,} to {max(self.lengths):,}: edges, and {self.drawn} "
            "drawn at random"
        )

    def _calls(self) -> str:
        parts = [
            _to(self.heads, "head"), _to(self.batch, "row"), *self.kinds, ", ".join(self.dtypes),
            f"|x| to {self.largest:,.0f}" if self.largest else "",
            f"{self.calls} calls" if self.calls else "",
        ]  # fmt: skip
        text = "; ".join(filter(None, parts))
        return text and f"asked with {text}"


def _to(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' if count > 1 else ''}" if count else ""


def listed(places: Sequence[int]) -> str:
    """Positions in few words: a run by its ends, others one by one."""
    if len(places) == 1:
        return f"one token at position {places[0]:,}"
    spot = (
        f"{places[0]:,} to {places[-1]:,}"
        if {b - a for a, b in itertools.pairwise(places)} == {1} and len(places) > 3
        else ", ".join(f"{p:,}" for p in places[:8]) + ", …" * (len(places) > 8)
    )
    return f"{len(places):,} tokens at positions {spot}"


# --- differences at positions ---------------------------------------------------------------------


class Tally:
    """Differences so far, and at which positions."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # ratio, difference, tolerance
        self.places: list[np.ndarray] = []  # (2, tokens): positions, and ratios there

    def add(self, off: np.ndarray, room: np.ndarray, places: np.ndarray, axes: Any) -> float:
        """Note differences at positions, which remain where `axes` are left out; the ratio."""
        each = ratios(off, room)
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
        differs = None if agree.all() else _plain(places[~agree][0])
        alike = places if differs is None else places[places < differs]
        gaps = np.flatnonzero(np.diff(alike) != 1)
        return Reach(
            _plain(alike[-1]) if len(alike) else None, differs, len(alike),
            dense=int(alike[gaps[0]] if len(gaps) else alike.max(initial=0)),
        )  # fmt: skip


def _plain(place: np.floating) -> float:
    """A position, as an integer where it is one."""
    return int(place) if place == int(place) else float(place)


def ratios(off: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Differences for what is allowed, which is nothing beside NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(off > 0, np.nan_to_num(off / room, nan=np.inf), 0.0)


def ratio_of(off: np.ndarray, room: np.ndarray) -> float:
    """The largest difference for what is allowed."""
    return float(ratios(off, room).max(initial=0.0))


def of_spec(spec: Any, kind: str, params: Any = None) -> Callable[..., Any]:
    """What a spec answers to the question of a kind, in float64, with its first parameters."""
    how: Any = {"params": params or functional.init(spec), "dtype": "float64"}
    if kind == "bias":
        return lambda q, k: functional.bias(spec, q, k, **how)
    if isinstance(spec, RotarySpec) and kind != "table":
        if kind == "rotary":
            return lambda x, p: functional.rotate(
                spec, x, positions=p[:, None], params=how["params"]
            )
        fixed = spec.at(1) if spec.needs_length else spec
        return lambda p: functional.cos_sin(fixed, p, **how)
    return lambda p: functional.table(spec, p, **how)


# --- what arithmetic explains ---------------------------------------------------------------------


AT_PLACES = 2.0**-13  # of float32 angles there, of up to some hundred turns
UNIT = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def _of_bias(
    expected: Callable[..., Any],
) -> Callable[[Call, np.ndarray], np.ndarray]:
    """The rounding of a bias in float32, and of its angles, which grows with the distance."""

    def room(call: Call, wanted: np.ndarray) -> np.ndarray:
        size, drift = np.where(np.isfinite(wanted), np.abs(wanted), 0.0), 0.0
        q, k = call.rows[0], call.keys[0]  # type: ignore[index]
        with contextlib.suppress(PosencError):  # where it ends
            near = [expected(q, k + step) for step in range(4)]
            drift = np.abs(np.diff(np.nan_to_num(near, posinf=0, neginf=0), axis=0)).max(axis=0)
        return np.asarray(2.0**-20 * size + 2.0**-21 + np.abs(q[:, None] - k) * drift * 2.0**-22)

    return room


def rounding_of(
    subject: Any, expected: Callable[..., Any]
) -> Callable[[Call, np.ndarray], np.ndarray]:
    """Rounding in the dtype, and of angles in float32, for each channel by its own speed."""
    if subject.kind == "bias":
        return _of_bias(expected)
    if getattr(expected, "places", None) is not None:
        return lambda call, wanted: np.asarray(
            np.maximum(np.abs(wanted).max(axis=-1, keepdims=True), 1.0)
            * (AT_PLACES + 8 * UNIT[call.dtype])
        )
    speed = _speeds(subject, expected)
    drift = speed * 2.0**-24 * (4 + 2 * np.abs(np.log(np.where(speed > 0, speed, 1.0))))

    def room(call: Call, wanted: np.ndarray) -> np.ndarray:
        rows = call.rows if call.rows.ndim == 2 else np.abs(call.rows).sum(axis=-1)
        rows = rows[:, None] if wanted.ndim == 4 else rows
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0.0)).max(axis=-1, keepdims=True)
        size = size if subject.kind == "rotary" else np.maximum(size, 1.0)
        rates = np.zeros(wanted.shape[-1])
        rates[: len(drift)] = drift[: len(rates)]
        return np.asarray(size * (1.5 * rows[..., None] * rates + 8 * UNIT[call.dtype]))

    return room


def _speeds(subject: Any, expected: Callable[..., Any]) -> np.ndarray:
    """Radians per position of each channel: y(p - 1) + y(p + 1) is 2 cos(speed) y(p)."""
    if subject._axes > 1:
        return np.ones(2 * subject.dim)  # no pair turns faster
    starts = 3 * np.arange(8)[:, None] if subject.kind != "rotary" else np.zeros((8, 1), int)
    rows = starts + np.arange(3)
    if subject.kind == "rotary":
        shape = 8, getattr(expected, "heads", 0) or 1, 1, subject.dim
        x = np.random.default_rng(1).normal(size=shape).repeat(3, axis=2)
        y = np.asarray(expected(x, rows))[:, 0]
    else:
        try:
            each = [expected(row[None]) for row in rows]
        except PosencError:  # it ends before: no rows of angles do
            return np.zeros(2 * subject.dim)
        y = np.concatenate([a if subject.kind == "table" else np.concatenate(a, -1) for a in each])
    sums = (y[:, 1] * (y[:, 0] + y[:, 2])).sum(axis=0)
    return np.asarray(
        np.arccos(np.clip(sums / np.maximum((2 * y[:, 1] ** 2).sum(axis=0), 1e-300), -1, 1))
    )


def coarse_of(subject: Any, x: np.ndarray) -> str:
    """The dtype that code rounds its input to, whatever that is handed over in."""
    line = np.arange(x.shape[2])
    for dtype in ("bfloat16", "float16") if subject.kind == "rotary" else ():
        try:
            each = [subject.both(y, line)[0] for y in (x, rounded(x, dtype))]
        except Exception:  # noqa: BLE001 - whatever other people's code raises
            break
        if np.array_equal(*each):
            return dtype
    return "float64"
