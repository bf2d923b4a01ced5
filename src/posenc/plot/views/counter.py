"""Counter: the bits of a position, above the waves that turn as fast."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.spec.spec import Spec
from posenc.plot import palette
from posenc.plot.columns import ColumnWaves, Params, Table, matrix, source
from posenc.plot.panels.grammar import Strip, Strips, float32
from posenc.plot.panels.text import Described, brief, number, present, signed, whole
from posenc.plot.raster import span
from posenc.plot.rows import pictures_of, refuse, require

MOST_POSITIONS = 4096
NEAR = 0.5  # octaves between the period of a bit and the wavelength of its partner
FINE = 8  # points of a wave to a position
SHOWN = "a table of sines and cosines, or a rotation"
BIT = 0.55  # of the colours: a bit that is set, beside one that is not


@dataclass(frozen=True)
class Partner:
    """The wave that goes with a bit."""

    bit: int
    period: int
    pair: int | None
    wavelength: float
    why: str


@dataclass(frozen=True)
class Counter(Described):
    """The bits of positions and the waves that go with them."""

    bits: np.ndarray
    partners: tuple[Partner, ...]
    places: np.ndarray
    waves: np.ndarray
    right: int
    positions: tuple[int, int]
    at: int | None
    digits: str
    row: np.ndarray | None


def data(
    spec: Any,
    positions: int | tuple[int, int] | None = None,
    *,
    at: int | None = None,
    bits: int | None = None,
    params: Params = None,
    length: int | None = None,
) -> Counter:
    """The bits of positions above the waves with the nearest wavelengths.

    Periods 2 and 4 have no partner: the shortest wavelength of the usual ladder is 2 pi.
    """
    if isinstance(spec, Spec) and "counter" not in pictures_of(spec):
        refuse("counter", spec, SHOWN)
    table = source(spec, params=params, length=length, caller="counter")
    if table.waves is None:
        refuse("counter", table.spec, SHOWN)
    require(0 <= (at or 0) < 2**62, " counter: at", "a position of at least 0", at)
    start, stop = _range(positions, at)
    count = max(1, max(stop - 1, at or 0).bit_length()) if bits is None else bits
    require(1 <= count <= 62, " counter: bits", "1 to 62", bits)
    index = np.arange(start, stop, dtype=np.int64)
    order = np.arange(count - 1, -1, -1)
    partners = tuple(_partner(table.waves, int(b)) for b in order)
    places = start + np.arange((stop - start - 1) * FINE + 1) / FINE
    whole = np.floor(places - start).astype(np.int64) + start
    waves = np.array([_sine(table.waves, p.pair, whole, places - whole) for p in partners])
    digits = "" if at is None else f"{at:0{count}b}"
    set_bits = (index >> order[:, None]) & 1
    right = sum(_tells(p, index, bits) for p, bits in zip(partners, set_bits, strict=True))
    return Counter(
        bits=set_bits,
        partners=partners,
        places=places,
        waves=waves,
        right=right,
        positions=(start, stop),
        at=at,
        digits=digits,
        row=None if at is None else table.rows(np.array([at]))[0],
        title=brief(table.spec),
        caption=_caption(partners, right, at, digits),
    )


def _range(positions: int | tuple[int, int] | None, at: int | None) -> tuple[int, int]:
    if positions is None:
        positions = 256 if at is None else (0, 32) if at < 32 else (at - 16, at + 16)
    start, stop = span(positions, "positions")
    fits, most = start >= 0 and stop - start <= MOST_POSITIONS, f"at most {MOST_POSITIONS:,}"
    require(fits, " counter: positions", f"{most} positions, from 0 on", f"{start} to {stop}")
    return start, stop


def _sine(waves: ColumnWaves, pair: int | None, whole: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The sine of a pair, or its cosine where it has no sine; no numbers without a pair."""
    if pair is None:
        return np.full(len(whole), np.nan)
    columns = np.flatnonzero(waves.pair == pair)
    best = columns[np.argsort(waves.function[columns], kind="stable")][:1]
    return waves.at(whole, part, best)[:, 0] / (waves.amplitude or 1.0)


def _partner(waves: ColumnWaves, bit: int) -> Partner:
    period = 2 ** (bit + 1)
    turning = np.flatnonzero(np.isfinite(waves.wavelength) & (waves.pair >= 0))
    if not len(turning):
        return Partner(bit, period, None, math.inf, "no pair turns")
    lengths = waves.wavelength[turning]
    octaves = np.abs(np.log2(lengths / period))
    best = int(octaves.argmin())
    nearest = float(lengths[best])
    if octaves.min() <= NEAR:
        return Partner(bit, period, int(waves.pair[turning[best]]), nearest, "")
    # The nearest of wavelengths that are all shorter is the longest.
    which = (
        "shortest" if period < lengths.min() else "longest" if period > lengths.max() else "nearest"
    )
    return Partner(bit, period, None, nearest, f"the {which} wavelength is {number(nearest)}")


def _tells(partner: Partner, index: np.ndarray, bits: np.ndarray) -> bool:
    """Whether a bit is set in the second half of each turn of its partner, and not in the first."""
    if partner.pair is None:
        return False
    halves = np.floor(2 * (index / partner.wavelength) + 1e-9).astype(np.int64)  # wavelengths round
    return bool((halves % 2 == bits).all())


def _caption(
    partners: tuple[Partner, ...], right: int, at: int | None, digits: str
) -> tuple[str, ...]:
    without = [str(p.period) for p in partners[::-1] if p.pair is None]
    word = "Period" if len(without) == 1 else "Periods"
    half = "set exactly in the second half of each turn of their pair"
    return present(
        f"{at} is {digits} in binary." if at is not None else "",
        f"{word} {', '.join(without)}: no wave within half an octave." if without else "",
        f"{right} of {len(partners)} bits are {half}." if right else "",
        "A bit jumps and a wave glides: neighbours differ in a wave by little.",
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return matrix(
        "position", range(*data.positions), (f"bit{p.bit}" for p in data.partners), data.bits.T
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: Counter) -> tuple[Strips, ...]:
    """Bits and waves, and the row of the position that is looked at."""
    strips = Strips(
        "counter",
        "bars: the bit is 1; curves: the wave that turns as fast"
        if data.at is None
        else f"position {whole(data.at or 0)} in binary: {data.digits}",
        tuple(_strips(data)),
        "diverging",
        columns=tuple(map(whole, range(*data.positions))),
        caption=" ".join(data.caption),
        first=data.positions[0],
        label="position",
    )
    return (strips,) if data.row is None else (strips, _row(data, data.row))


def _strips(data: Counter) -> Iterator[Strip]:
    first, last = data.positions
    at = None if data.at is None or not first <= data.at < last else data.at - first
    for bits, wave, partner in zip(data.bits, data.waves, data.partners, strict=True):
        yield Strip(
            f"bit {partner.bit}",
            palette.indices(bits * BIT),
            tuple(map(str, bits.tolist())),
            key="p",
            at=at,
        )
        # Without a partner the wave is no number anywhere.
        label = f"period {whole(partner.period)}"
        label += (
            f": {partner.why}"
            if partner.pair is None
            else f", pair {partner.pair}: {number(partner.wavelength)}"
        )
        yield Strip(label, palette.indices(wave[::FINE][: len(bits)]), at=at, curve=float32(wave))


def _row(data: Counter, row: np.ndarray) -> Strips:
    """The row of the position, with its numbers."""
    limit = max(palette.largest(row), 1.0)
    return Strips(
        "row",
        "its row: one number for each dimension",
        (
            Strip(
                f"row {whole(data.at or 0)}",
                palette.indices(row, limit),
                tuple(signed(float(value), 2) for value in row),
            ),
        ),
        "diverging",
        number(-limit),
        "+" + number(limit),
        columns=tuple(map(whole, range(len(row)))),
        label="dimension",
    )
