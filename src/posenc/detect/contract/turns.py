"""What a rotation does, seen in numbers, and which one change of a spec explains the numbers.

Whatever a side answers (frequencies, cosines and sines, rotated vectors) becomes one complex number
for each position and pair, cos + i sin with its factor. A factor, a pairing, a frequency and a
position that is miscounted leave different traces there, so each is looked for by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc._core.spec import Spec
from posenc.detect.contract.fields import variants, words
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling import Llama3, YaRN

__all__ = ["NEAR", "Finding", "Seen", "of_frequencies", "of_rotations", "probes", "why"]

# A sequence short enough for every model, and single positions beyond.
NEAR = np.array([0, 1, 2, 3, 5, 17, 64, 255, 257, 511])
UNIT = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SLACK = 4.0  # on the rounding of a ladder in float32, which scalings add to
SEEN = 1e-3  # a difference that is called one where it begins
FARTHEST_SHIFT = 64


class Finding(NamedTuple):
    """A field, what it is on the side of the spec and on the other, and how large the effect is."""

    field: str
    ours: str
    theirs: str
    size: float = math.nan
    position: int | None = None
    what: str = "cos and sin"


class Seen(NamedTuple):
    """Complex factors of pairs at positions."""

    positions: np.ndarray  # (P,) or (P, axes)
    values: np.ndarray  # (P, pairs)
    length: int  # of the sequence they were asked in
    unit: float = UNIT["float32"]  # what the answers were rounded to
    sized: bool = True  # whether the sizes of the values mean anything

    @property
    def first(self) -> np.ndarray:
        """One coordinate of each position."""
        return self.positions if self.positions.ndim == 1 else self.positions.max(axis=-1)


def expected(spec: RotarySpec, seen: Seen) -> np.ndarray:
    """What the spec has there, in float64."""
    fixed = spec.at(seen.length)
    cos, sin = functional.cos_sin(fixed, seen.positions, dtype="float64")
    return np.asarray(cos) + 1j * np.asarray(sin)


def allowed(wanted: np.ndarray, frequencies: np.ndarray, seen: Seen) -> np.ndarray:
    """How far code that computes angles in float32 may be off: (P, pairs)."""
    u, size = UNIT["float32"], np.abs(wanted)
    turning = np.where(frequencies > 0, frequencies, 1.0)
    reach = np.abs(seen.first[:, None] * frequencies) * (4 + np.abs(np.log(turning)))
    return SLACK * u * (reach + 2) * size + 4 * seen.unit * size


# --- from what a side answers ---------------------------------------------------------------------


def of_frequencies(frequencies: np.ndarray, length: int) -> Seen:
    """What these frequencies, in radians per position, do at near positions."""
    return Seen(NEAR, np.exp(1j * NEAR[:, None] * frequencies), length, sized=False)


def probes(width: int, positions: int) -> np.ndarray:
    """Four inputs, (4, 1, 1, positions, width), exact in every dtype, alike at every position."""
    rows = np.random.default_rng(0).integers(-8, 9, (4, width)) / 8
    return np.broadcast_to(rows[:, None, None, None], (4, 1, 1, positions, width)).copy()


def of_rotations(
    spec: RotarySpec, x: np.ndarray, y: np.ndarray
) -> tuple[RotarySpec, np.ndarray, float]:
    """The pairing and width under which vectors were turned, the factors, and what is left over.

    Parameters
    ----------
    spec : RotarySpec
        Tried first.
    x, y : ndarray
        (4, positions, channels), before and after.

    Returns
    -------
    tuple
        The spec with the pairing and width that fit, (positions, pairs), and the largest residual.
    """
    best: tuple[RotarySpec, np.ndarray, float] | None = None
    for candidate in _pairings(spec, x.shape[-1]):
        factors, left = _fit(candidate, x, y)
        if best is None or left < best[2] / 4:
            best = candidate, factors, left
        if left < 1e-5:
            break
    assert best is not None  # noqa: S101 - the spec itself was tried
    return best


def _pairings(spec: RotarySpec, width: int) -> Iterator[RotarySpec]:
    yield spec
    channels = spec.channels
    sizes = [
        spec.dim,
        *(d for d in (width, width // 2, width // 4) if d != spec.dim and d % 2 == 0),
    ]
    orders = sorted(("half", "interleaved"), key=lambda word: word != channels.order)
    parts = sorted(("leading", "trailing"), key=lambda word: word != channels.part)
    outputs = sorted(("same", "half"), key=lambda word: word != channels.output)
    for dim, order, part, output in itertools.product(sizes, orders, parts, outputs):
        changes = {"order": order, "part": part, "output": output, "blocks": ()}
        made = _attempt(spec, pairing=channels.replace(**changes), dim=dim)
        if made is not None:
            yield made


def _fit(spec: RotarySpec, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    width = x.shape[-1]
    if spec.dim > width or y.shape != x.shape:
        return np.full((x.shape[1], spec.pairs), np.nan + 0j), math.inf
    channels = spec.channels
    begin = 0 if channels.part == "leading" else width - spec.dim
    first, second = begin + np.array(channels.channels(spec.dim)).T
    into, and_into = first, second
    if channels.output == "half":
        into = begin + np.arange(spec.pairs)
        and_into = into + spec.pairs
    a, b, u, v = x[..., first], x[..., second], y[..., into], y[..., and_into]
    size = np.sum(a * a + b * b, axis=0)
    c, s = np.sum(a * u + b * v, axis=0) / size, np.sum(a * v - b * u, axis=0) / size
    left = max(
        float(np.max(np.abs(u - (a * c - b * s)))), float(np.max(np.abs(v - (b * c + a * s))))
    )
    rest = np.setdiff1d(np.arange(width), np.r_[first, second])
    if rest.size:
        left = max(left, float(np.max(np.abs(y[..., rest] - x[..., rest]))))
    sign = 1 if channels.direction == "forward" else -1
    return c + 1j * sign * s, left if math.isfinite(left) else math.inf


# --- which change explains them -------------------------------------------------------------------


def why(
    spec: RotarySpec, seen: Sequence[Seen], others: Sequence[tuple[str, RotarySpec]] = ()
) -> list[Finding]:
    """The fields in which numbers differ from a spec; none where they are those of the spec.

    Parameters
    ----------
    spec : RotarySpec
        What they are held against.
    seen : sequence of Seen
        A near sequence, and farther positions, each in a call of its own.
    others : sequence of (str, RotarySpec)
        What other layers of the same model have, by name: layers are mistaken for each other.

    Returns
    -------
    list of Finding
        What explains the others first.
    """
    near = seen[0]
    wanted = expected(spec, near)
    if near.values.shape != wanted.shape:
        pairs = near.values.shape[-1]
        told = Finding("dim", str(spec.dim), f"{2 * pairs} channels that turn")
        made = _attempt(spec, dim=2 * pairs)
        return [told, *([] if made is None or made.pairs != pairs else why(made, seen, others))]
    if not np.all(np.isfinite(near.values)):
        where = int(near.first[~np.all(np.isfinite(near.values), axis=1)][0])
        return [Finding("numbers", "finite", f"NaN or infinite, first at position {where}")]
    found: list[Finding] = []
    whole = _one(spec, near, wanted)
    if whole is not None and near.unit == UNIT["float32"]:
        for dtype in ("bfloat16", "float16"):
            if near.sized and _rounded(near.values, UNIT[dtype]):
                # Cosines of less than float32 are one matter, what is computed with them another.
                coarse = [one._replace(unit=UNIT[dtype]) for one in seen]
                off = float(np.abs(near.values - wanted).max())
                told = Finding("dtype", "cos and sin in float32", f"in {dtype}", off, 0)
                return [*why(spec, coarse, others), told]
    if whole is not None:
        turned, explained = near._replace(values=_unit(near.values)), spec
        if _one(spec, turned, _unit(wanted)) is not None:
            name, explained = _named(spec, turned, others) or (_unnamed(spec, turned), spec)
            found.append(name)
        factor = _factor(explained, near, expected(explained, near))
        if factor is not None:
            found.append(factor)
        if not found:
            found.append(Finding("dtype", "float32 or better", "rounded further", *whole))
        return found
    for far in seen[1:]:
        if not np.all(np.isfinite(far.values)):
            return [Finding("numbers", "finite", f"NaN or infinite at {int(far.first[0])}")]
        late = _one(spec, far, expected(spec, far))
        if late is not None:
            return [_far(spec, far, late)]
    return []


def _rounded(values: np.ndarray, unit: float) -> bool:
    """Whether numbers have no more digits than a dtype of half precision."""
    mantissa, _ = np.frexp(np.r_[values.real.ravel(), values.imag.ravel()])
    # Below its smallest normal number float16 has fewer digits still.
    return bool(np.all(mantissa / unit % 1 == 0))


def _unit(values: np.ndarray) -> np.ndarray:
    size = np.abs(values)
    return values / np.where(size > 0, size, 1.0)


def _frequencies(spec: RotarySpec, length: int) -> np.ndarray:
    try:
        found = functional.frequencies(spec.at(length))
    except PosencError:
        return np.zeros(spec.pairs)
    return found if found.ndim == 1 else np.abs(found).sum(axis=0)


def _one(spec: RotarySpec, seen: Seen, wanted: np.ndarray) -> tuple[float, int] | None:
    """The largest difference and where one begins, if there is one."""
    values = seen.values if seen.sized else _unit(seen.values) * np.abs(wanted)
    off = np.abs(values - wanted)
    if np.all(off <= allowed(wanted, _frequencies(spec, seen.length), seen)):
        return None
    worst = off.max(axis=1)
    begins = seen.first[worst > min(SEEN, worst.max() / 2)]
    return float(worst.max()), int(begins[0])


def _factor(spec: RotarySpec, seen: Seen, wanted: np.ndarray) -> Finding | None:
    if not seen.sized:
        return None
    sizes, ours = np.abs(seen.values), float(np.abs(wanted).max())
    theirs = float(np.median(sizes))
    room = 8 * seen.unit + 1e-6
    if abs(theirs / ours - 1) <= room:
        return None
    fixed = spec.at(seen.length)
    declared = math.prod(s.attention_factor() for s in getattr(fixed, "scalings", ()))
    said = f"{theirs:.6g}"
    for value, name in (
        (1.0, "left out"),
        (declared, "the scaling's own, not the one that is stated"),
        (ours * ours, "applied twice"),
        (ours * declared, "that of the scaling times the one that is stated"),
        (math.sqrt(ours), "its root"),
    ):
        if abs(theirs / value - 1) <= room and abs(value / ours - 1) > room:
            said = f"{said}: {name}"
            break
    else:
        if sizes.std() > room * theirs:
            said = f"{sizes.min():.6g} to {sizes.max():.6g}"
    return Finding("magnitude.attention_factor", f"{ours:.6g}", said, abs(theirs - ours), 0)


def _matches(spec: RotarySpec, seen: Seen, frequencies: np.ndarray | None = None) -> bool:
    if frequencies is None:
        try:
            wanted = _unit(expected(spec, seen))
        except PosencError:  # positions that it does not have
            return False
        frequencies = _frequencies(spec, seen.length)
    else:
        wanted = np.exp(1j * seen.first[:, None] * frequencies)
    if wanted.shape != seen.values.shape:
        return False
    off = np.abs(seen.values - wanted)
    return bool(np.all(off <= allowed(wanted, frequencies, seen)))


def _named(
    spec: RotarySpec, seen: Seen, others: Sequence[tuple[str, RotarySpec]]
) -> tuple[Finding, RotarySpec] | None:
    """The one change under which a spec gives these numbers, and the spec with it."""
    off = _one(spec, seen, _unit(expected(spec, seen))) or (0.0, 0)
    for name, other in others:
        if other.pairs == spec.pairs and other.axes == spec.axes and _matches(other, seen):
            return Finding("layers", "its own encoding", f"that of {name}", *off), other
    for name, other in others:
        if isinstance(spec, RoPE) and isinstance(other, RoPE) and other.scaling != spec.scaling:
            made = _attempt(spec, scaling=other.scaling)
            if made is not None and _matches(made, seen):
                told = (_value(spec, "scaling"), f"{words(other.scaling)}, as in {name}")
                return Finding("scaling", *told, *off), made
    if seen.positions.ndim == 1:
        shifted = _shifted(spec, seen)
        if shifted:
            return Finding("positions", "position p", shifted, *off), spec
    for field, said, changed in (*variants(spec), *_rebuilt(spec, seen)):
        if _same_shape(changed, spec) and _matches(changed, seen):
            return Finding(field, _value(spec, field), said, *off), changed
    if isinstance(spec, RoPE) and seen.positions.ndim == 1:
        for field, ours, said, frequencies in _ladders(spec, seen):
            if _matches(spec, seen, frequencies):
                return Finding(field, ours, said, *off), spec
        counted = _counted(spec, seen)
        if counted:
            return Finding("positions", "position p", counted, *off), spec
    return None


def _same_shape(made: Spec, spec: RotarySpec) -> TypeGuard[RotarySpec]:
    return isinstance(made, RotarySpec) and (made.pairs, made.axes) == (spec.pairs, spec.axes)


def _attempt(spec: RotarySpec, **changes: Any) -> RotarySpec | None:
    try:
        return spec.replace(**changes)
    except PosencError:
        return None


def _value(spec: Any, field: str) -> str:
    value = spec
    for name in field.split("."):
        value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        value = getattr(value, name, value)
    return words(value)


def _ladders(spec: RoPE, seen: Seen) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Frequencies that no spec has, but code did."""
    ours = _frequencies(spec, seen.length)
    for dtype, bits in (("bfloat16", 8), ("float16", 11)):
        mantissa, exponent = np.frexp(ours)
        rounded = np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)
        yield "dtype", "frequencies in float32", f"frequencies in {dtype}", rounded
    for scaling in spec.scalings:
        if isinstance(scaling, YaRN):
            yield from _swapped(spec, scaling)
        if isinstance(scaling, Llama3):
            yield from _by_wavelength(spec, scaling)


def _rebuilt(spec: RotarySpec, seen: Seen) -> Iterator[tuple[str, str, RotarySpec]]:
    """Another base or width, worked out from the second pair, which most scalings leave alone."""
    if not isinstance(spec, RoPE) or seen.positions.ndim > 1 or spec.ladder.spacing != "geometric":
        return
    theirs = _estimated(seen)
    turning = np.flatnonzero((theirs > 0) & (np.arange(theirs.size) > 0) & (theirs < 1))
    if not turning.size:
        return
    j = int(turning[0])
    width = -2 * j * math.log(spec.base) / math.log(theirs[j])
    base = theirs[j] ** (-spec.dim / (2 * j))
    for scaling in dict.fromkeys((spec.scaling, ())):
        tail = "" if scaling == spec.scaling else ", without the scaling"
        if abs(width - round(width)) < 1e-3 and round(width) > 0:
            ladder = spec.ladder.replace(denominator=round(width) / 2)
            said = f"frequencies of a width of {round(width)}{tail}"
            yield "dim", said, spec.replace(ladder=ladder, scaling=scaling)
        for digits in (1, 2, 3, 4, 6, 9):
            rounded = float(f"{base:.{digits - 1}e}")
            if 1 < rounded < 1e15:
                yield "base", f"{words(rounded)}{tail}", spec.replace(base=rounded, scaling=scaling)


def _swapped(spec: RoPE, scaling: YaRN) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp between bounds that stand the wrong way round."""
    index = np.arange(spec.pairs)
    plain = spec.base ** (-2 * index / spec.dim)

    def bound(turns: float) -> float:
        length = scaling.original_length / (2 * math.pi * turns)
        return spec.dim * math.log(length) / (2 * math.log(spec.base))

    for whole in (True, False):
        low, high = bound(scaling.beta_slow), bound(scaling.beta_fast)
        if whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, spec.dim - 1)
        if low == high:
            continue
        t = np.clip((index - low) / (high - low), 0, 1)
        ours = f"{words(scaling.beta_fast)}, and beta_slow {words(scaling.beta_slow)}"
        yield "scaling.beta_fast", ours, "both swapped", plain * (1 - t + t / scaling.factor)


def _by_wavelength(spec: RoPE, scaling: Llama3) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp of Llama 3 linear in the wavelength, where it is linear in the turns."""
    plain = functional.frequencies(spec.replace(scaling=()))
    with np.errstate(divide="ignore"):
        waves = 2 * math.pi / plain / scaling.original_length
    long, short = 1 / scaling.low_freq_factor, 1 / scaling.high_freq_factor
    if long > short:
        t = np.clip((waves - short) / (long - short), 0, 1)
        told = ("a ramp in turns", "a ramp in wavelengths")
        for divided in (1 / (1 - t + t * scaling.factor), 1 - t + t / scaling.factor):
            yield "scaling", *told, plain * divided


def _estimated(seen: Seen) -> np.ndarray:
    """Radians per position, from ever farther positions."""
    values, positions = _unit(seen.values), seen.first
    phases = np.angle(values * np.conj(values[0]))
    found, sure = phases[1] / max(positions[1] - positions[0], 1), np.ones(phases.shape[1], bool)
    for place, phase in zip(positions[2:] - positions[0], phases[2:], strict=True):
        left = np.angle(np.exp(1j * (phase - found * place)))
        sure &= np.abs(left) < 0.5
        found = np.where(sure, found + left / place, found)
    return found


def _shifted(spec: RotarySpec, seen: Seen) -> str:
    frequencies = _frequencies(spec, seen.length)
    for shift in sorted(range(-FARTHEST_SHIFT, FARTHEST_SHIFT + 1), key=abs):
        moved = seen._replace(positions=seen.positions + shift)
        wanted = np.exp(1j * moved.positions[:, None] * frequencies)
        start = np.exp(1j * getattr(getattr(spec, "arrangement", None), "start", 0) * frequencies)
        if shift and np.all(
            np.abs(seen.values - wanted * start) <= allowed(wanted, frequencies, moved)
        ):
            return f"position p {'+' if shift > 0 else '-'} {abs(shift)}"
    return ""


def _counted(spec: RotarySpec, seen: Seen) -> str:
    """Where positions are counted otherwise: rounded, wrapped, or held at a last one."""
    got = [
        _position(spec, int(p), row, seen) for p, row in zip(seen.first, seen.values, strict=True)
    ]
    if any(g is None for g in got):
        return ""
    wrong = [(int(p), g) for p, g in zip(seen.first, got, strict=True) if g != p]
    return "; ".join(f"{p} is taken for {g}" for p, g in wrong[:4])


def _position(spec: RotarySpec, position: int, row: np.ndarray, seen: Seen) -> int | None:
    """The position whose angles these are, of those not much farther."""
    frequencies = _frequencies(spec, seen.length)
    best, least = None, math.inf
    for begin in range(0, position + FARTHEST_SHIFT + 1, 2**15):
        places = np.arange(begin, min(begin + 2**15, position + FARTHEST_SHIFT + 1))
        off = np.abs(np.exp(1j * places[:, None] * frequencies) - row).max(axis=1)
        if off.min() < least:
            best, least = int(places[off.argmin()]), float(off.min())
    one = seen._replace(positions=np.array([best]))
    room = allowed(np.ones((1, frequencies.size)), frequencies, one).max()
    return best if best is not None and least <= room else None


def _unnamed(spec: RotarySpec, seen: Seen) -> Finding:
    off = _one(spec, seen, _unit(expected(spec, seen))) or (math.nan, None)
    if seen.positions.ndim > 1:
        return Finding("frequencies", "the plan's", "others, that no one change explains", *off)
    ours, theirs = _frequencies(spec, seen.length), _estimated(seen)
    moved = np.abs(theirs - ours) > 1e-6 * np.abs(ours) + 1e-7
    pair = int(np.flatnonzero(moved)[0]) if moved.any() else 0
    said = f"{theirs[pair]:.6g}" if moved.any() else "no one change explains them"
    return Finding("frequencies", f"{ours[pair]:.6g} in pair {pair}", said, *off)


def _far(spec: RotarySpec, far: Seen, off: tuple[float, int]) -> Finding:
    position = int(far.first[0])
    got = None
    if far.positions.ndim == 1 and position <= 2**18:
        got = _position(spec, position, _unit(far.values)[0], far)
    if got is not None:
        return Finding("positions", f"position {position}", f"taken for {got}", *off)
    turned = far._replace(values=_unit(far.values))
    for field, said, changed in variants(spec):
        if _same_shape(changed, spec) and _matches(changed, turned):
            return Finding(field, _value(spec, field), said, *off)
    return Finding("positions", f"the angles of position {position}", "other angles", *off)
