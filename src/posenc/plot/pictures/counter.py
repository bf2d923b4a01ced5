"""Counter: the bits of positions, each above the wave that turns as fast."""

from __future__ import annotations

from collections.abc import Iterator

from posenc.plot import palette
from posenc.plot.panels.axes import float32
from posenc.plot.panels.grammar import Strip, Strips
from posenc.plot.panels.text import number, signed, thin, whole
from posenc.plot.views.counter import FINE, Counter

BIT = 0.55  # of the colours: a bit that is set, beside one that is not


def panels(data: Counter) -> tuple[Strips, ...]:
    """Bits and waves, and the row of the position that is looked at."""
    first, last = data.positions
    heading = "bits of positions, each above its wave"
    if data.at is not None:
        heading = f"position {whole(data.at)} in binary: {data.digits}"
    strips = Strips(
        "counter",
        heading,
        tuple(_strips(data)),
        "diverging",
        columns=tuple(map(whole, range(first, last))),
        caption=thin(" ".join(data.caption)),
        first=first,
        label="position",
    )
    return (strips,) if data.row is None else (strips, _row(data))


def _strips(data: Counter) -> Iterator[Strip]:
    first, last = data.positions
    inside = data.at is not None and first <= data.at < last
    at = data.at - first if inside and data.at is not None else None
    for bits, wave, partner in zip(data.bits, data.waves, data.partners, strict=True):
        name = f"bit {partner.bit}"
        tile = palette.indices(bits * BIT)
        yield Strip(name, tile, tuple(map(str, bits.tolist())), key="p", at=at)
        # Without a partner the wave is no number anywhere.
        partly = f", pair {partner.pair}: {number(partner.wavelength)}"
        label = f"period {whole(partner.period)}"
        label += f": {partner.why}" if partner.pair is None else partly
        tile = palette.indices(wave[::FINE][: len(bits)])
        yield Strip(label, tile, at=at, curve=float32(wave))


def _row(data: Counter) -> Strips:
    """The row of the position, with its numbers."""
    assert data.row is not None, "the caller has looked"  # noqa: S101 - for the type checker
    limit = max(palette.largest(data.row), 1.0)
    numbers = tuple(signed(float(value), 2) for value in data.row)
    row = Strip(f"row {whole(data.at or 0)}", palette.indices(data.row, limit), numbers)
    columns = tuple(map(whole, range(len(data.row))))
    return Strips(
        "row",
        "its row: one number for each dimension",
        (row,),
        "diverging",
        number(-limit),
        "+" + number(limit),
        columns=columns,
        label="dimension",
    )
