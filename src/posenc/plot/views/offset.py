"""Offset: what two rows have in common, by their distance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from posenc._core.errors import bad_spec
from posenc.functional import frequencies
from posenc.plot.columns import (
    QUARTER,
    TURN,
    ColumnWaves,
    Params,
    Table,
    TableSource,
    check_word,
    matrix,
    settled,
    source,
)
from posenc.plot.panels.grammar import Chart, banded, logarithmic, values
from posenc.plot.panels.text import brief, number, plural, present, spread, whole
from posenc.plot.raster import span
from posenc.plot.response import gain
from posenc.plot.rows import require
from posenc.plot.views.waves import GOLDEN

NAMES = {"dot": "dot product", "cosine": "cosine"}
Band = Literal["none", "positions", "offsets"]
AXES = ("linear", "log", "both")
FEW = 4  # distances that need no logarithmic axis
ANCHORS = 64  # positions from which offsets of a table without waves are measured
PROBED = 256  # rows whose products tell how far a table is from knowing offsets alone
LOOKED_AT = 16  # offsets under a pixel, where there are more
MOST_PRODUCTS = 1 << 27
BLOCK = 1 << 19
BANDS = {
    "none": "",
    "positions": "band: least to largest over positions",
    "offsets": "band: least to largest under a pixel",
}


@dataclass(frozen=True)
class Offset:
    """Products of two rows by their distance."""

    offsets: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kind: str
    axis: str
    band: Band
    defect: float
    rises: float | None
    first_rise: int | None
    title: str
    caption: tuple[str, ...]
    log: Offset | None = None  # the same on the other axis


def data(
    spec: Any,
    offsets: int | tuple[int, int] = 512,
    *,
    kind: str = "dot",
    axis: str = "linear",
    pixels: int = 1024,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
) -> Offset:
    """The dot product or cosine of two rows against their distance."""
    check_word("plot offset: kind", kind, tuple(NAMES))
    check_word("plot offset: axis", axis, AXES)
    table = source(spec, params=params, length=length, grid=grid, caller="offset")
    start, stop = span(offsets, "offsets")
    if axis == "both":
        more: dict[str, Any] = {"params": params, "length": length, "grid": grid, "pixels": pixels}
        return replace(
            data(spec, offsets, kind=kind, **more),
            log=data(spec, offsets, kind=kind, axis="log", **more) if stop > FEW else None,
        )
    require(start >= 0, " offset: offsets", "distances of at least 0", start)
    end = table.end
    if end is not None:
        require(
            start < end,
            " offset: offsets",
            f"less than {end}",
            f"{start} in a table of {plural(end, 'position')}",
        )
        stop = min(stop, end)
    pairs = whole_pairs(table.waves)
    shown = _shown(start, stop, axis, pixels)
    low, high, mean, band = (
        _of_pairs(
            pairs,
            shown,
            1 / len(pairs) if kind == "cosine" else table.waves.amplitude**2,
            stop,
            axis,
        )
        if pairs is not None and table.waves is not None
        else _of_rows(table, shown, kind)
    )
    consecutive = axis == "linear" and band == "none"
    up = np.diff(mean) > 1e-12 * max(float(np.abs(mean).max()), 1e-300)
    offset = Offset(
        offsets=shown,
        mean=mean,
        low=low,
        high=high,
        kind=kind,
        axis=axis,
        band=band,
        defect=defect(table, kind),
        rises=float(up.mean()) if consecutive and len(up) else None,
        first_rise=int(shown[:-1][up][0]) if consecutive and up.any() else None,
        title=brief(table.spec),
        caption=(),
    )
    return replace(offset, caption=_caption(offset, table))


def whole_pairs(waves: ColumnWaves | None) -> np.ndarray | None:
    """The steps of the pairs, None where a sine has no cosine of its frequency.

    Where each has one, products of rows depend on the distance alone.
    """
    if waves is None or (waves.pair < 0).all():
        return None
    order = np.argsort(waves.pair, kind="stable")
    order = order[waves.pair[order] >= 0]
    sines, cosines = (order[waves.function[order] == function] for function in (0, 1))
    if not np.array_equal(waves.pair[sines], waves.pair[cosines]):
        return None
    same = (waves.step[sines] == waves.step[cosines]).all()
    return (
        waves.step[sines]
        if same and (waves.origin[cosines] - waves.origin[sines] == QUARTER).all()
        else None
    )


def products(
    steps: np.ndarray, offsets: np.ndarray, per_pixel: np.ndarray | None = None
) -> np.ndarray:
    """The sum over pairs of cos(frequency * offset), from exact phases: (n,) float64.

    Where a pixel stands for several offsets, each term by the gain of its wave.
    """
    with np.errstate(divide="ignore"):
        wavelength = 2 * np.pi / np.abs(steps * TURN)
    values = np.empty(len(offsets))
    size = max(1, BLOCK // max(len(steps), 1))
    for begin in range(0, len(offsets), size):
        terms = np.cos((offsets[begin : begin + size, None] * steps) * TURN)
        if per_pixel is not None:
            covered = per_pixel[begin : begin + size, None]
            terms *= np.where(covered <= 1, 1.0, gain(wavelength / covered))
        values[begin : begin + size] = terms.sum(axis=1)
    return values


def _shown(start: int, stop: int, scale: str, pixels: int) -> np.ndarray:
    if scale == "log":
        low = max(start, 1)
        require(stop - 1 > low, " offset: offsets", "more than 2 for log", stop)
        return np.unique(
            np.rint(np.exp(np.linspace(np.log(low), np.log(stop - 1), pixels)))
            .astype(np.int64)
            .clip(low, stop - 1)
        )
    return (
        np.arange(start, stop, dtype=np.int64)
        if stop - start <= 4 * pixels
        else start
        + np.floor((np.arange(pixels) + 0.5) * ((stop - start) / pixels)).astype(np.int64)
    )


def _of_pairs(
    steps: np.ndarray, shown: np.ndarray, factor: float, stop: int, scale: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Band]:
    """Exact products; where a pixel stands for many offsets, some evenly spread ones of them."""
    gaps = np.diff(shown, append=stop)
    if gaps.max() == 1:
        mean = products(steps, shown) * factor
        return mean, mean, mean, "none"
    several = LOOKED_AT if len(shown) * LOOKED_AT * len(steps) <= MOST_PRODUCTS else 2
    parts = np.floor(((np.arange(several)[:, None] * GOLDEN) % 1.0) * gaps).astype(np.int64) + shown
    values = products(steps, parts.reshape(-1)).reshape(parts.shape) * factor
    # Each wave by what a pixel may show of it: means of a few offsets would beat.
    first, last, between = float(shown[0]), float(shown[-1]), max(len(shown) - 1, 1)
    covered = (
        shown * (last / first) ** (1 / between) - shown
        if scale == "log"
        else np.full(len(shown), (last - first) / between)
    )
    mean = products(steps, shown, covered) * factor
    low, high = np.minimum(values.min(axis=0), mean), np.maximum(values.max(axis=0), mean)
    return low, high, mean, "offsets"


def _of_rows(
    table: TableSource, shown: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Band]:
    """Over positions evenly apart that have a partner at each distance."""
    low, high, mean = (np.full(len(shown), np.nan) for _ in range(3))
    end = table.end if table.end is not None else int(shown.max()) + 4 * ANCHORS
    for place, offset in enumerate(shown.tolist()):
        room = end - offset
        anchors = np.unique(np.linspace(0, room - 1, min(ANCHORS, room)).astype(np.int64))
        a, b = sized(table.rows(anchors), kind), sized(table.rows(anchors + offset), kind)
        values = np.einsum("ij,ij->i", a, b)
        low[place], high[place], mean[place] = values.min(), values.max(), values.mean()
    return low, high, mean, "positions"


def sized(rows: np.ndarray, kind: str) -> np.ndarray:
    """Rows as they are multiplied: of length 1 for the cosine."""
    if kind == "dot":
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms == 0, 1, norms)


def defect(table: TableSource, kind: str = "dot") -> float:
    """How far products of rows are from depending on the distance alone, as one number.

        defect = sqrt(sum over p, q of (s[p, q] - mean of s at that distance)**2
                      / sum over p, q of (s[p, q] - mean of s)**2)

    0 for a table of whole pairs, whose products know the distance alone; 1 where the distance
    explains nothing. Taken over the first 256 positions.
    """
    count = 0 if whole_pairs(table.waves) is not None else min(table.end or PROBED, PROBED)
    if count < 2:
        return 0.0
    rows = sized(table.rows(np.arange(count)), kind)
    s = rows @ rows.T
    left = sum(
        float(((diagonal - diagonal.mean()) ** 2).sum())
        for diagonal in (np.diagonal(s, k) for k in range(-count + 1, count))
    )
    total = float(((s - s.mean()) ** 2).sum())
    return float(np.sqrt(left / total)) if total > 0 else 0.0


def _caption(offset: Offset, table: TableSource) -> tuple[str, ...]:
    explained = f"{number(100 * (1 - offset.defect**2), 3)} % of the variance of products."
    first = (
        f"Shift-invariance defect {number(offset.defect, 2)}: the distance explains {explained}",
        f"Band: the least to the largest over at most {ANCHORS} positions; line: their mean.",
    )
    if offset.defect == 0 and offset.band != "positions":
        first = ("The product depends on the distance alone, at every position.", "")
    return present(
        *first,
        "Line: each wave as far as a pixel can show it. Band: the least to the largest of "
        f"{LOOKED_AT} offsets under each pixel."
        if offset.band == "offsets" and offset.axis == "linear"
        else "",
        f"It first rises at distance {whole(offset.first_rise or 0)}; "
        f"{number(100 * (offset.rises or 0), 2)} % of the steps go up."
        if (offset.first_rise is not None and offset.rises is not None)
        else "",
        "Rows are the sines and cosines that turn the pairs." if table.turns else "",
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return matrix(
        "offset",
        data.offsets,
        ("mean", "low", "high"),
        np.stack([data.mean, data.low, data.high], axis=1),
    )


# --- panels --------------------------------------------------------------------------------------


def panels(data: Offset, label: str = "") -> tuple[Chart, ...]:
    """The curve with its band, which its title names."""
    name = NAMES[data.kind]
    low, high = spread(min(float(data.low.min()), 0.0), float(data.high.max()))
    low = low if data.low.min() < 0 else 0.0
    first, last = float(data.offsets[0]), float(data.offsets[-1])
    x = (
        logarithmic("distance, positions (log)", max(first, 1.0), max(last, 2.0))
        if data.axis == "log"
        else values("distance, positions", min(first, last - 1), max(last, 1.0), most=8)
    )
    band = BANDS[data.band]
    return (
        Chart(
            id="offset",
            title=f"{name}; {band}" if band else f"{name} of two rows",
            x=x,
            y=values("", low, high),
            series=(banded(label, data.offsets.astype(np.float64), data, band=bool(band)),),
            caption=" ".join(data.caption),
            place="half",
            height=230,
            label=f"The {name} of two rows against their distance",
        ),
        *(() if data.log is None else panels(data.log, label)),
    )


# --- what remains of the scores of a rotation -----------------------------------------------------


FARTHEST = 131_072
EACH = 64  # distances that are computed for a point of the curves


@dataclass(frozen=True)
class RotaryDecay:
    """Scores by distance, over the expected score of a key that is the query, at distance 0."""

    distances: np.ndarray
    same: np.ndarray
    same_spread: np.ndarray
    other_spread: float
    bound: np.ndarray
    trained: int | None
    declared: int | None


def decay(
    spec: Any,
    *,
    farthest: int = FARTHEST,
    points: int = 96,
    length: int | None = None,
    declared: int | None = None,
) -> RotaryDecay:
    """What remains of a score at a distance.

        q = k = x, x ~ N(0, 1):   mean  sum cos(m f_i) / P     spread  sqrt(sum cos(m f_i)^2) / P
        q, k independent:         mean  0                      spread  1 / sqrt(2 P)
        worst case:               sum |S_i| / (P (P + 1) / 2)  S_i = sum of e^(i m f_j), j <= i

    for P pairs of frequencies f. The last is the factor that bounds a score in Su et al. 2021,
    arXiv:2104.09864, section 3.4.3; it says how large a score can be, not how large one is.
    """
    require(
        farthest >= 2 and points >= 2,
        " decay",
        "a distance and points from 2",
        f"{farthest} and {points}",
    )
    if spec.kind == "rotary" and spec.sided:
        raise bad_spec(
            "plot decay", "a rotation that turns queries and keys alike", type(spec).__name__
        )
    own = next((s for s in getattr(spec, "scalings", ()) if s.stretches), None)
    f = np.abs(frequencies(settled(spec, length or farthest)))
    pairs = len(f)
    curves = []
    for first, end in itertools.pairwise(
        np.unique(np.rint(np.geomspace(1, farthest + 1, points + 1)).astype(np.int64)).tolist()
    ):
        waves = np.exp(
            1j * np.unique(np.linspace(first, end - 1, EACH).astype(np.int64))[:, None] * f
        )
        same = waves.real.mean(axis=1)
        spread = (waves.real**2).sum(axis=1) / pairs**2
        sums = np.abs(waves.cumsum(axis=1)).sum(axis=1) / (pairs * (pairs + 1) / 2)
        total = np.sqrt(spread.mean() + same.var())
        curves.append(((first + end - 1) / 2, same.mean(), total, sums.mean()))
    at, mean, total, bound = np.array(curves).T
    return RotaryDecay(
        at,
        mean,
        total,
        float((2 * pairs) ** -0.5),
        bound,
        getattr(own, "original_length", None),
        declared,
    )
