"""Which one change of a spec explains the numbers of a rotation.

A factor, a frequency and a position that is miscounted leave different traces in them, so each is
looked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.io.files import rounded
from posenc._core.numeric.ladder import Ladder
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import value_of, variants, words
from posenc.detect.fit import tolerances, turns, words as sentences
from posenc.detect.fit.frequencies import SINGLE, departures, fit_frequencies, tolerance_of
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling import Llama3, YaRN

WHOLE = 1e-3  # by which a width that is worked out may miss a whole number
ESTIMATED = 1e-6  # relative error of frequencies that are followed from angles
FIRST = 512  # a sequence short enough for every model
FARTHEST_SHIFT = 64
FARTHEST_COUNT = 2**17  # positions that are looked for among all others
# A field, what it is on both sides, and the spec or the numbers of unit size that it makes.
Candidate = tuple[str, str, str, RotarySpec | np.ndarray | None]


def why(
    spec: RotarySpec,
    calls: Sequence[turns.PairTurns],
    others: Sequence[tuple[str, RotarySpec]] = (),
) -> list[Difference]:
    """The fields in which numbers differ from a spec; what explains the others comes first.

    The calls are a near sequence and farther ones; `others` is what other layers of the same model
    have, by name, as layers are mistaken for each other.
    """
    rows: list[Difference] = []
    for seen in calls:
        wanted = turns.expected(spec, seen)
        if seen.values.shape != wanted.shape:
            width = 2 * seen.values.shape[-1]
            rows.append(Difference("dim", str(spec.dim), sentences.share(width, spec.dim)))
            candidate = turns.attempt(spec.replace, dim=width)
            if candidate is None or candidate.pairs != width // 2:
                break
            spec, wanted = candidate, turns.expected(candidate, seen)
        absent = ~np.isfinite(seen.values).all(axis=1)
        if absent.any():
            first = int(seen.first[absent].min())
            rows.append(
                Difference("numbers", "finite", f"NaN or infinite, first at position {first}")
            )
            break
        off, wrong = turns.off_by(spec, seen, wanted)
        if not wrong.any():
            continue
        size = turns.told(off, seen.first)
        dtype, rounding = _precision(seen.rows(slice(FIRST))), tolerances.ROUNDING
        if seen.sized and dtype in tolerances.HALVES and rounding[dtype] > rounding[seen.dtype]:
            # Cosines of less than float32 are one matter, what is computed with them another.
            coarse = [one._replace(dtype=dtype) for one in calls]
            row = Difference(
                "dtype", f"cos and sin in {seen.dtype}", f"in {dtype}", size[0], 0, size[2]
            )
            more = why(spec, coarse, others)
            # Cosines of angles have their dtype.
            follows = any(one.b == f"angles in {dtype}" for one in more)
            return [*rows, *more, *[row] * (not follows)]
        turned = seen._replace(values=turns.unit_of(seen.values))
        off, wrong = turns.off_by(spec, turned, turns.unit_of(wanted))
        explained: RotarySpec | None = spec
        fresh = []
        if wrong.any():
            names, explained = _named(spec, turned, wrong, others)
            fresh.append(Difference(*names, *turns.told(off, seen.first)))
        # Nothing is computed anew where the spec itself explains the angles.
        fresh += _factor(
            explained or spec,
            seen,
            wanted if explained is spec else turns.expected(explained or spec, seen),
        )
        fresh = fresh or [Difference("dtype", f"{seen.dtype} or better", "rounded further", *size)]
        rows += [row for row in fresh if row.field not in {earlier.field for earlier in rows}]
        if explained is None:
            break
        spec = explained
    return rows


def _precision(seen: turns.PairTurns) -> str:
    """The dtype that factors had, up to what float32 leaves where vectors were turned by them."""
    sizes = np.abs([seen.values.real, seen.values.imag]).ravel()
    return tolerances.seen(seen.values, seen.rotated * 8 * SINGLE / np.maximum(sizes, SINGLE))


def _factor(spec: RotarySpec, seen: turns.PairTurns, wanted: np.ndarray) -> list[Difference]:
    """Another factor on cosines and sines, and what it is."""
    sizes, room = np.abs(seen.values), 8 * tolerances.ROUNDING[seen.dtype] + 1e-6
    off = np.abs(sizes - np.abs(wanted)).max(axis=1)
    ours, theirs = float(np.abs(wanted).max()), float(np.median(sizes))
    if not seen.sized or np.all(off <= room * ours):
        return []
    declared = math.prod(
        s.attention_factor() for s in getattr(spec.at(seen.length), "scalings", ())
    )
    factors = (
        (1.0, "left out"),
        (declared, "the scaling's own, not the one that is stated"),
        (ours * ours, "applied twice"),
        (ours * declared, "that of the scaling times the one that is stated"),
        (math.sqrt(ours), "its root"),
    )
    texts = (f"{theirs:.6g}: {name}" for value, name in factors
             if abs(theirs / value - 1) <= room and abs(value / ours - 1) > room)  # fmt: skip
    vary = sizes.std() > room * theirs or abs(theirs / ours - 1) <= room
    other = f"{sizes.min():.6g} to {sizes.max():.6g}" if vary else f"{theirs:.6g}"
    names = "magnitude.attention_factor", f"{ours:.6g}", next(texts, other)
    return [Difference(*names, *turns.told(off, seen.first))]


# --- frequencies and positions --------------------------------------------------------------------


def _named(
    spec: RotarySpec,
    seen: turns.PairTurns,
    wrong: np.ndarray,
    others: Sequence[tuple[str, RotarySpec]],
) -> tuple[tuple[str, str, str], RotarySpec | None]:
    """The one change under which a spec gives these numbers, and the spec with it, if it is one."""
    # Those that are wrong first, and those that are right after them.
    sides = wrong, ~wrong & (wrong.cumsum() > 0)
    chosen = sum((side & (side.cumsum() <= 8) for side in sides), np.isin(seen.first, turns.NEAR))
    chosen[[0, -1]] = True
    some = seen.rows(chosen)
    room = turns.allowed(spec, some, 1.0)
    for field, ours, theirs, candidate in _candidates(spec, some, others):
        # A pair may turn as fast as any.
        near = room.max(axis=1, keepdims=True) if field == "frequencies" else room
        if candidate is not None and turns.same_turns(some, candidate, near):
            return (field, ours, theirs), candidate if isinstance(candidate, RotarySpec) else None
    ours_, theirs_ = turns.frequencies_of(spec, seen.length), turns.estimated(some)
    if received := _counted(spec, seen.rows(wrong)):
        return ("positions", "position p", received), None
    some_of_them = wrong.mean() <= 0.5 or len(wrong) > FIRST or bool(seen.order)
    if some_of_them or seen.positions.ndim > 1:
        text = (
            f"others, that no one change explains, at {wrong.sum():,} of {wrong.size:,} positions"
            f"{seen.order and ', '}{seen.order}"
        )
        ours = f"the angles of position {int(seen.first[wrong].min())}"
        return ("positions" if some_of_them else "frequencies", ours, text), None
    moved = np.abs(theirs_ - ours_) > 1e-6 * np.abs(ours_) + 1e-7
    pair = int(np.flatnonzero(moved)[0]) if moved.any() else 0
    text = f"{theirs_[pair]:.6g}" if moved.any() else "no one change explains them"
    return ("frequencies", f"{ours_[pair]:.6g} in pair {pair}", text), None


def _candidates(
    spec: RotarySpec, seen: turns.PairTurns, others: Sequence[tuple[str, RotarySpec]]
) -> Iterator[Candidate]:
    yield from (("layers", "its own encoding", sentences.say("layer", n), s) for n, s in others)
    for name, other in others:
        if isinstance(spec, RoPE) and isinstance(other, RoPE) and other.scaling != spec.scaling:
            text = sentences.say("scaling", words(other.scaling), name)
            candidate = turns.attempt(spec.replace, scaling=other.scaling)
            yield "scaling", value_of(spec, "scaling"), text, candidate
    plain = seen.positions.ndim == 1
    if plain:
        frequencies = turns.frequencies_of(spec, seen.length)
        start = getattr(getattr(spec, "arrangement", None), "start", 0)
        yield "positions", "position p", sentences.say("constant"), np.ones_like(seen.values)
        near = sorted(range(-FARTHEST_SHIFT, FARTHEST_SHIFT + 1), key=abs)[1:]
        for shift in (*near, -int(seen.first.min())):
            moved = (seen.positions + shift + start)[:, None] * frequencies
            text = sentences.say("begun") if shift not in near else sentences.offset(shift)
            yield "positions", "position p", text, np.exp(1j * moved)
        exchanged = 1j * turns.unit_of(turns.expected(spec, seen)).conj()
        yield "frequencies", "cos and sin", sentences.say("sine"), exchanged
        for dtype in tolerances.HALVES:
            single, half = (sentences.say("rounding", each) for each in ("float32", dtype))
            rates, places = (rounded(each, dtype) for each in (frequencies, seen.first))
            coarse = np.exp(1j * (places + start)[:, None] * frequencies)
            yield "positions", "position p", sentences.say("held", dtype), coarse
            yield "dtype", single, half, np.exp(1j * seen.first[:, None] * rates)
            for angles in (seen.first[:, None] * frequencies, places[:, None] * rates):
                turned = np.exp(1j * rounded(angles, dtype))
                yield "dtype", "angles in float32", f"angles in {dtype}", turned
    yield from (
        (field, value_of(spec, field), text, other) for field, text, other in variants(spec)
        if isinstance(other, RotarySpec) and (other.pairs, other.axes) == (spec.pairs, spec.axes)
    )  # fmt: skip
    if plain:
        theirs = turns.estimated(seen)
        far = (turns.allowed(spec, seen, 1.0) / np.maximum(seen.first, 1)[:, None]).min(axis=0)
        doubt = ESTIMATED + far / np.maximum(np.maximum(np.abs(theirs), np.abs(frequencies)), far)
        if (
            departed := departures(theirs, frequencies, dtype="float32", doubt=doubt)
        ) is not None and departed.others:
            ours = f"{frequencies[departed.others[0]]:.6g} in pair {departed.others[0]}"
            lines = np.exp(1j * seen.first[:, None] * theirs)
            yield "frequencies", ours, "; ".join(departed.sentences()), lines
    if isinstance(spec, RoPE) and plain:
        yield from _fitted(spec, theirs, doubt)
        yield from (
            (field, ours, text, np.exp(1j * seen.first[:, None] * other))
            for field, ours, text, other in _ladders(spec)
        )


def _counted(spec: RotarySpec, wrong: turns.PairTurns) -> str:
    """Where positions are counted otherwise: rounded, wrapped, or held at a last one."""
    received = []
    if wrong.positions.ndim > 1 or not isinstance(spec, RoPE):
        return ""
    for position, row in zip(wrong.first[:4].tolist(), wrong.values, strict=False):
        other = _position(spec, position, row, wrong) if position <= FARTHEST_COUNT else None
        if other is None:
            return ""
        received.append(f"{position} is taken for {other}")
    more = len(wrong.first) - len(received)
    return "; ".join(received) + (f"; and so at {more:,} others" if more else "")


def _position(
    spec: RotarySpec, position: int, row: np.ndarray, seen: turns.PairTurns
) -> int | None:
    """The position whose angles these are, of those not much farther."""
    frequencies = turns.frequencies_of(spec, seen.length)
    best, least = 0, math.inf
    for begin in range(0, position + FARTHEST_SHIFT + 1, 2**15):
        places = np.arange(begin, min(begin + 2**15, position + FARTHEST_SHIFT + 1))
        off = np.abs(np.exp(1j * places[:, None] * frequencies) - row).max(axis=1)
        if off.min() < least:
            best, least = int(places[off.argmin()]), float(off.min())
    there = seen._replace(positions=np.array([best]), values=row[None])
    room = turns.allowed(spec, there, 1.0)
    return best if turns.same_turns(there, np.exp(1j * best * frequencies)[None], room) else None


# --- frequencies that no field gives, but code had ------------------------------------------------


def _fitted(spec: RoPE, theirs: np.ndarray, doubt: np.ndarray) -> Iterator[Candidate]:
    """Another base, width or rule, as their frequencies tell it."""
    if spec.ladder.spacing != "geometric" or isinstance(spec.base, tuple):
        return
    for fit in fit_frequencies(theirs, tolerance_of(theirs, SINGLE) + doubt, lists=False)[:1]:
        for scaling in dict.fromkeys((spec.scaling, (), fit.scaling)):
            changes: dict[str, Any] = {"base": fit.base, "scaling": scaling}
            changes |= {"ladder": fit.ladder} if fit.ladder != Ladder() else {}
            yield _changed(spec, turns.attempt(spec.replace, **changes), fit.base)


def _changed(spec: Any, other: RoPE | None, base: float) -> Candidate:
    """The field by which another encoding is told from this one, the base or width first."""
    both = other is not None and other.scaling != spec.scaling
    own, tail = (f", with the scaling {words(one.scaling)}" * both for one in (spec, other or spec))
    width = 0.0 if base <= 1 else spec.dim * math.log(spec.base) / math.log(base)
    if abs(width - round(width)) < WHOLE and round(width) not in (0, spec.dim):
        return "dim", str(spec.dim), f"frequencies of a width of {round(width)}{tail}", other
    if base != spec.base:
        return "base", words(spec.base) + own, sentences.say("base", words(base), tail), other
    field = "ladder" if other is not None and other.ladder != spec.ladder else "scaling"
    return field, value_of(spec, field), value_of(other, field), other


def _ladders(spec: RoPE) -> Iterator[tuple[str, str, str, np.ndarray]]:
    plain = functional.frequencies(spec.replace(scaling=()))
    for scaling in spec.scalings:
        if isinstance(scaling, YaRN) and not isinstance(spec.base, tuple):
            yield from _swapped(spec.dim, spec.base, plain, scaling)
        if isinstance(scaling, Llama3):
            yield from _by_wavelength(plain, scaling)


def _swapped(
    dim: int, base: float, plain: np.ndarray, scaling: YaRN
) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp between bounds that stand the wrong way round."""
    low, high = (
        dim * math.log(scaling.original_length / (2 * math.pi * beta)) / (2 * math.log(base))
        for beta in (scaling.beta_slow, scaling.beta_fast)
    )
    for ends in ((math.floor(low), math.ceil(high)), (low, high)):
        first, last = max(ends[0], 0), min(ends[1], dim - 1)
        if first != last:
            t = np.clip((np.arange(plain.size) - first) / (last - first), 0, 1)
            ours = f"{words(scaling.beta_fast)}, and beta_slow {words(scaling.beta_slow)}"
            yield "scaling.beta_fast", ours, "both swapped", plain * (1 - t + t / scaling.factor)


def _by_wavelength(
    plain: np.ndarray, scaling: Llama3
) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp of Llama 3 linear in the wavelength, where it is linear in the turns."""
    with np.errstate(divide="ignore"):
        waves = 2 * math.pi / plain / scaling.original_length
    long, short = 1 / scaling.low_freq_factor, 1 / scaling.high_freq_factor
    if long > short:
        t = np.clip((waves - short) / (long - short), 0, 1)
        ramps = ("a ramp in turns", "a ramp in wavelengths")
        # Code had it the wrong way round too, between its ends.
        for share in (t, np.where((t > 0) & (t < 1), 1 - t, t)):
            yield "scaling", *ramps, plain / (1 - share + share * scaling.factor)
            yield "scaling", *ramps, plain * (1 - share + share / scaling.factor)
