"""Which one change of a spec explains the numbers of a rotation.

A factor, a frequency and a position that is miscounted leave different traces in them, so each is
looked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.spec import Spec
from posenc.detect.contract.fields import value_of, variants, words
from posenc.detect.contract.ladders import ladders, rebuilt
from posenc.detect.contract.seen import (
    SEEN,
    UNIT,
    Finding,
    Seen,
    allowed,
    attempt,
    estimated,
    expected,
    frequencies_of,
    unit_of,
)
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

__all__ = ["why"]

FARTHEST_SHIFT = 64


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
        made = attempt(spec, dim=2 * pairs)
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
        turned, explained = near._replace(values=unit_of(near.values)), spec
        if _one(spec, turned, unit_of(wanted)) is not None:
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


def _one(spec: RotarySpec, seen: Seen, wanted: np.ndarray) -> tuple[float, int] | None:
    """The largest difference and where one begins, if there is one."""
    values = seen.values if seen.sized else unit_of(seen.values) * np.abs(wanted)
    off = np.abs(values - wanted)
    if np.all(off <= allowed(wanted, frequencies_of(spec, seen.length), seen)):
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
            wanted = unit_of(expected(spec, seen))
        except PosencError:  # positions that it does not have
            return False
        frequencies = frequencies_of(spec, seen.length)
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
    off = _one(spec, seen, unit_of(expected(spec, seen))) or (0.0, 0)
    for name, other in others:
        if other.pairs == spec.pairs and other.axes == spec.axes and _matches(other, seen):
            return Finding("layers", "its own encoding", f"that of {name}", *off), other
    for name, other in others:
        if isinstance(spec, RoPE) and isinstance(other, RoPE) and other.scaling != spec.scaling:
            made = attempt(spec, scaling=other.scaling)
            if made is not None and _matches(made, seen):
                told = (value_of(spec, "scaling"), f"{words(other.scaling)}, as in {name}")
                return Finding("scaling", *told, *off), made
    if seen.positions.ndim == 1:
        shifted = _shifted(spec, seen)
        if shifted:
            return Finding("positions", "position p", shifted, *off), spec
    for field, said, changed in (*variants(spec), *rebuilt(spec, seen)):
        if _same_shape(changed, spec) and _matches(changed, seen):
            return Finding(field, value_of(spec, field), said, *off), changed
    if isinstance(spec, RoPE) and seen.positions.ndim == 1:
        for field, ours, said, frequencies in ladders(spec, seen):
            if _matches(spec, seen, frequencies):
                return Finding(field, ours, said, *off), spec
        counted = _counted(spec, seen)
        if counted:
            return Finding("positions", "position p", counted, *off), spec
    return None


def _same_shape(made: Spec, spec: RotarySpec) -> TypeGuard[RotarySpec]:
    return isinstance(made, RotarySpec) and (made.pairs, made.axes) == (spec.pairs, spec.axes)


def _shifted(spec: RotarySpec, seen: Seen) -> str:
    frequencies = frequencies_of(spec, seen.length)
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
    received = [
        _position(spec, int(p), row, seen) for p, row in zip(seen.first, seen.values, strict=True)
    ]
    if any(g is None for g in received):
        return ""
    wrong = [(int(p), g) for p, g in zip(seen.first, received, strict=True) if g != p]
    return "; ".join(f"{p} is taken for {g}" for p, g in wrong[:4])


def _position(spec: RotarySpec, position: int, row: np.ndarray, seen: Seen) -> int | None:
    """The position whose angles these are, of those not much farther."""
    frequencies = frequencies_of(spec, seen.length)
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
    off = _one(spec, seen, unit_of(expected(spec, seen))) or (math.nan, None)
    if seen.positions.ndim > 1:
        return Finding("frequencies", "the plan's", "others, that no one change explains", *off)
    ours, theirs = frequencies_of(spec, seen.length), estimated(seen)
    moved = np.abs(theirs - ours) > 1e-6 * np.abs(ours) + 1e-7
    pair = int(np.flatnonzero(moved)[0]) if moved.any() else 0
    said = f"{theirs[pair]:.6g}" if moved.any() else "no one change explains them"
    return Finding("frequencies", f"{ours[pair]:.6g} in pair {pair}", said, *off)


def _far(spec: RotarySpec, far: Seen, off: tuple[float, int]) -> Finding:
    position = int(far.first[0])
    received = None
    if far.positions.ndim == 1 and position <= 2**18:
        received = _position(spec, position, unit_of(far.values)[0], far)
    if received is not None:
        return Finding("positions", f"position {position}", f"taken for {received}", *off)
    turned = far._replace(values=unit_of(far.values))
    for field, said, changed in variants(spec):
        if _same_shape(changed, spec) and _matches(changed, turned):
            return Finding(field, value_of(spec, field), said, *off)
    return Finding("positions", f"the angles of position {position}", "other angles", *off)
