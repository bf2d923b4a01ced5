"""Table: what each position looks like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Unpack

import numpy as np

from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc.detect.locate import Arc, arcs_of, hits
from posenc.encodings.table.column_phases import inner
from posenc.plot import palette
from posenc.plot.columns import TURN, ColumnWaves, Params, Table, TableSource, matrix, source
from posenc.plot.panels.grammar import Axis, Heatmap, Mark, cells
from posenc.plot.panels.text import Described, brief, number, plural, present
from posenc.plot.raster import Tile, TilePixels, arranged, placed, tile_of
from posenc.plot.rows import require

CYCLE = 1 << 64
MOST_COUNTED = 1 << 24  # numbers of a table without waves that are looked through
NEAR = 0.005  # values that agree to two digits
AGAIN = 5
LATER = 0.005  # the same for a pair: the distance of two points of the unit circle
COLUMNS = {
    "stored": "dimension",
    "interleaved": "dimension, sine and cosine in turn",
    "sin_cos": "dimension, sines before cosines",
    "cos_sin": "dimension, cosines before sines",
}


@dataclass(frozen=True)
class TableView(Described):
    """The picture of a table."""

    tile: Tile
    source: TableSource


@dataclass(frozen=True)
class TableCell:
    """One number of a table and where it comes from."""

    position: int
    dim: int
    value: float
    pair: int | None
    function: str | None
    frequency: float | None
    wavelength: float | None
    angle: float | None
    turns: float | None
    turned: float | None
    formula: str
    same: int | None
    same_pair: int | None
    among: int
    again: tuple[int, ...] = ()


def data(
    spec: Any,
    positions: int | tuple[int, int] | None = None,
    *,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **pixels: Unpack[TilePixels],
) -> TableView:
    """The table in at most `rows` x `columns` pixels; see `posenc.plot.raster.tile`."""
    table = source(spec, params=params, length=length, grid=grid)
    tile = tile_of(table, positions, **pixels)
    return TableView(tile, table, title=brief(table.spec), caption=tile.caption)


def cell(
    table: TableSource, position: int, dim: int, positions: int | tuple[int, int] | None = None
) -> TableCell:
    """One number with its formula, and how often it comes again."""
    require(0 <= dim < table.width, ": dim", f"0 to {table.width - 1}", dim)
    start, stop = placed(table, positions)
    value = float(table.values(np.array([position]), np.array([dim]))[0, 0])
    waves = table.waves
    if waves is None or waves.pair[dim] < 0:
        few = (stop - start) * table.width <= MOST_COUNTED
        same = table.values(np.arange(start, stop), np.array([dim])) if few else None
        return TableCell(
            position,
            dim,
            value,
            *(None,) * 7,
            "0" if waves is not None else f"entry {dim} of row {position}",
            None if same is None else int((np.abs(same - value) <= NEAR).sum()),
            None,
            stop - start,
        )
    function = ("sin", "cos")[int(waves.function[dim])]
    frequency, step = float(waves.frequency[dim]), int(waves.step[dim])
    size, first = abs(waves.amplitude), step * _start(table)
    moved, here = position + _start(table), step * position + first
    around, near = Decimal(value / waves.amplitude), Decimal(NEAR / size)
    wide = round(2 * math.asin(min(LATER / size / 2, 1.0)) / TURN)
    return TableCell(
        position=position,
        dim=dim,
        value=value,
        pair=int(waves.pair[dim]),
        function=function,
        frequency=frequency,
        wavelength=float(waves.wavelength[dim]),
        angle=moved * frequency,
        turns=moved * frequency / (2 * math.pi),
        turned=((here + CYCLE // 2) % CYCLE - CYCLE // 2) * TURN,
        formula=_formula(inner(table.spec), waves, dim, function, moved),
        same=_hits(step, first, arcs_of(function, around - near, around + near, stop), start, stop),
        same_pair=_hits(step, first, ((here - wide, 2 * wide),), start, stop),
        among=stop - start,
        # The nearest other positions whose phase is as near.
        again=tuple(
            islice(
                (
                    position + k
                    for k in hits(
                        step % CYCLE,
                        ((-wide % CYCLE, 2 * wide),),
                        start - position,
                        stop - 1 - position,
                    )
                    if k
                ),
                AGAIN,
            )
        ),
    )


def _start(table: TableSource) -> int:
    arrangement = getattr(
        getattr(table.spec, "matrix", None) or getattr(inner(table.spec), "matrix", None),
        "arrangement",
        None,
    )
    return 0 if arrangement is None else int(arrangement.start)


def _formula(spec: Any, waves: ColumnWaves, dim: int, function: str, moved: int) -> str:
    """The formula as papers print it where the ladder is theirs, else with the frequency."""
    front = "" if waves.amplitude == 1 else f"{number(waves.amplitude)} × "
    # Frequencies are base ** (-2i/d) and nothing else acts on them.
    return (
        f"{front}{function}({moved} / {spec.base:g}^({2 * int(waves.pair[dim])}/{spec.dim}))"
        if (
            getattr(spec, "ladder", None) == Ladder()
            and isinstance(spec.base, float)
            and not getattr(spec, "scalings", ())
            and getattr(spec, "arrangement", Arrangement()).rule == "single"
        )
        else f"{front}{function}({moved} × {float(waves.frequency[dim]):.6g})"
    )


def _hits(step: int, first: int, arcs: tuple[Arc, ...], start: int, stop: int) -> int:
    """How many positions of a range have a phase in one of some arcs, in closed form."""
    count, many = 0, stop - start
    for begin, length in arcs:
        if length >= CYCLE - 1:
            return many
        # floor((x - a) / M) - floor((x - b - 1) / M) is 1 where x lies from a to b modulo M.
        shift = step * start + first - begin
        count += _floors(many, step, shift) - _floors(many, step, shift - length - 1)
    return count


def _floors(n: int, a: int, b: int, m: int = CYCLE) -> int:
    """The sum of floor((a i + b) / m) for i = 0 to n - 1, by Euclid's algorithm."""
    total = 0
    while True:
        total += (n - 1) * n // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            return total
        n, b, m, a = top // m, top % m, a, m


def words_of(entry: TableCell) -> tuple[str, ...]:
    """The cell in sentences."""
    turns = entry.wavelength is not None and math.isfinite(entry.wavelength)
    place = f"Position {entry.position}, dimension {entry.dim}"
    return present(
        f"{place}: {entry.formula} = {entry.value:.6f}.",
        f"Its wavelength is {number(entry.wavelength or 0)} positions." if turns else "",
        f"The same value to two digits at {entry.same} of {plural(entry.among, 'position')}."
        if entry.same is not None
        else "",
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    tile = data.tile
    return matrix("position", tile.places, (f"c{c}" for c in tile.columns), tile.values)


# --- panels ---------------------------------------------------------------------------------------


def panels(data: TableView) -> tuple[Heatmap]:
    """The table in pixels."""
    return (heatmap(data.tile, arranged(data.source, data.tile.order)),)


def heatmap(picture: Tile, drawn: np.ndarray, indices: np.ndarray | None = None) -> Heatmap:
    """A tile, whose columns stand in the order `drawn`."""
    first, last = picture.dims
    scale = (last - first) / picture.values.shape[1]
    limit = picture.limit
    return Heatmap(
        id="table",
        title="sampled: an illusion" if picture.method == "sample" else "",
        tile=palette.indices(picture.values, limit) if indices is None else indices,
        lut="diverging",
        x=across(drawn, picture.dims, picture.order),
        y=cells("position", *picture.positions, key="p"),
        low=number(-limit),
        high="+" + number(limit),
        caption=" ".join(picture.caption),
        lines=tuple(
            Mark("x", first + at * scale, "2 px per wave" if n == 0 else "")
            for n, at in enumerate(picture.boundaries)
        ),
        values=picture.values,
        limit=limit,
    )


def across(drawn: np.ndarray, dims: tuple[int, int], order: str = "sin_cos") -> Axis:
    """The axis of dimensions, in the order in which they are drawn."""
    return (
        cells(COLUMNS["stored"], *dims, key="j")
        if (drawn == np.arange(len(drawn))).all()
        else cells(
            COLUMNS[order], *dims, key="j", to=drawn[slice(*dims)].astype(np.int32), names=drawn
        )
    )
