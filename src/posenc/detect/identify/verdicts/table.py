"""The verdict on an array that may be a table of positions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import MOST_ENTRIES, Array
from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit import words
from posenc.detect.fit.ladders import MARGIN
from posenc.detect.fit.tables.bands import fit_bands
from posenc.detect.fit.tables.layout import circle_tolerance, layouts
from posenc.detect.fit.tables.table import TableFit, fit_table, residual_of
from posenc.detect.fit.tolerances import ROUNDING, dtype_of
from posenc.detect.identify.result import Finding, finding_of
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional import table as build

# Half a unit of the last place at 1.0. Frequencies and phases of published code are float32.
EPS = {dtype: max(unit, 2.0**-24) for dtype, unit in ROUNDING.items()}
GLANCE = 32  # rows that tell whether more are worth reading
WIDE = 1024  # channels, of which one without a partner weighs little
GLANCED = 2**17  # numbers of these rows, where two times the least number of rows are not more
LIKENESSES = (0.003, 0.02, 0.08, 0.3)  # noise to look through for the nearest convention
SAMPLE = 512  # rows and columns that the measures of learned tables look at
APART = 10.0  # bits by which a start must be plainer than its rivals
FAR = 12.0  # bits to write a start beyond those that people choose
LEAST_ROWS = 4
BOTH = (
    "if these are cosines or sines of a rotation, both tell it together: "
    "posenc.identify({'cos': cos, 'sin': sin})"
)


def looks_sinusoidal(array: Array) -> bool:
    """Whether the first rows may be those of a sinusoidal table, in one of its shapes."""
    for shape in _shapes(array.shape):
        rows, width, turned = shape
        # Channels come first in convolutions too, and these are many: their names must say more.
        if (
            rows < LEAST_ROWS
            or width < 4
            or (turned and (array.shape[0] != 1 or array.size > MOST_ENTRIES))
            or (width >= WIDE and not turned
                and _off_circles(_rows(array, shape, LEAST_ROWS), array))
        ):  # fmt: skip
            continue
        values = _rows(array, shape, min(rows, max(2 * LEAST_ROWS, min(GLANCE, GLANCED // width))))
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            continue
        moving = values[:, np.ptp(values, axis=0) > 0]
        # Columns of an identity or of bits lie on circles too, but move in steps.
        least = min(values.size, 64) // 4
        start = values.reshape(-1)[:4096]  # nearly always enough
        if not moving.size or (len(np.unique(start)) < least and len(np.unique(values)) < least):
            continue
        eps = EPS[dtype_of(values, array.dtype)]
        present = values.any(axis=1)
        width = np.flatnonzero(values.any(axis=0))[-1] + 1
        if present.sum() >= 3 and next(layouts(values[present, :width], eps), None):
            return True
    return False


def _off_circles(rows: np.ndarray, array: Array) -> bool:
    """Whether the sums of squares of rows differ more than those of pairs on circles can."""
    sums = np.square(rows, dtype=np.float64).sum(axis=1)
    sums = sums[sums > 0]  # rows of zeros are reserved
    most = 0.01 + 2 * circle_tolerance(EPS[dtype_of(rows, array.dtype)])
    return len(sums) > 1 and bool(np.ptp(sums) > most * sums.max())


def _shapes(shape: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """(rows, width, whether channels come first) as which an array may be read."""
    kept = [n for n in shape if n != 1]
    last = [(math.prod(kept[:-1]), kept[-1], False)] if len(kept) > 1 else []
    # Channels before a grid.
    return last + ([(math.prod(kept[1:]), kept[0], True)] if len(kept) in (3, 4) else [])


def _rows(array: Array, shape: tuple[int, int, bool], count: int) -> np.ndarray:
    rows, width, turned = shape
    return (
        np.asarray(array.read().reshape(width, rows).T[:count])
        if turned
        else np.asarray(array.read(0, count * width).reshape(count, width))
    )


def judge_table(array: Array, *, named: bool) -> Finding | None:
    """What a table is; None where neither its name nor its numbers make it one of positions."""
    for shape in _shapes(array.shape):
        rows, width, turned = shape
        if rows < 2 or width < 2 or width > MOST_ENTRIES or (turned and array.size > MOST_ENTRIES):
            continue
        values = _rows(array, shape, min(rows, max(MOST_ENTRIES // width, 1)))
        if not np.isfinite(values).all():
            return finding_of(
                array, kind="table", verdict="unclear", remarks=("it holds NaN or infinity",)
            )
        eps = EPS[dtype_of(values, array.dtype)]
        fits = fit_table(values, eps=eps)
        # None, or several placements.
        fits = fit_bands(values, eps=eps) or fits if len(fits) != 1 else fits
        if fits:
            return _judged(array, shape, values[: fits[0].placement.rows], fits)
    return _likeness(array) if named else None


def _judged(
    array: Array,
    shape: tuple[int, int, bool],
    values: np.ndarray,
    fits: tuple[TableFit, ...],
) -> Finding:
    dtype = dtype_of(values, array.dtype)
    best = fits[0]
    remarks = list(best.remarks)
    measures = {
        "residual": best.residual,
        "tolerance": best.tolerance,
        "evidence": round(best.evidence, 1),
        "description": round(best.description, 1),
    }
    if EPS[dtype] > EPS.get(array.dtype, 1.0):
        remarks.append(words.say("widened", dtype))
    doubts = _doubts(fits)[:1]
    remarks += doubts
    verdict = "unclear" if doubts else "claimed"
    placement = best.placement
    done = len(values)
    while verdict == "claimed" and done < shape[0]:
        end = min(shape[0], done + len(values))
        off = residual_of(
            array.read(done * shape[1], end * shape[1]).reshape(-1, shape[1]),
            best.spec,
            placement,
            EPS[dtype],
            begin=done,
        )
        if off is None:
            verdict = "close"
            remarks.append(f"rows from {done} on are others")
        else:
            measures["residual"] = max(measures["residual"], off.worst)
            done = end
    if verdict == "claimed" and done > len(values):
        placement = placement._replace(
            sizes=((done - placement.prefix) // max(placement.strides), *placement.sizes[1:])
        )
    return finding_of(
        array,
        kind="table",
        verdict=verdict,
        spec=best.spec,
        placement=placement,
        measures=measures,
        remarks=tuple(remarks),
    )


def _doubts(fits: tuple[TableFit, ...]) -> list[str]:
    """Why the best of some fits is no claim."""
    best = fits[0]
    elsewhere = (
        fit
        for fit in fits[1:]
        if fit.placement.step != best.placement.step or _first_of(fit) != _first_of(best)
    )
    rival = next(elsewhere, best)
    near = rival is not best and rival.description < best.description + APART
    reasons = {
        f"fewer than {MARGIN:g} bits speak for it": best.margin < MARGIN,
        "among as many positions some would have its first row by chance": _by_chance(best),
        f"another placement fits as well: {rival.placement.words()}": near,
    }
    return [reason for reason, holds in reasons.items() if holds]


def _by_chance(fit: TableFit) -> bool:
    """Whether a far start is all that explains the phases of a few pairs.

    Rows tell frequencies, however many there are; of the start the phases alone tell.
    """
    spec: Any = fit.spec
    written = 1 + math.log2(1 + max(map(abs, _first_of(fit))))
    bits = spec.pairs * math.log2(math.pi / max(fit.residual, EPS["float32"]))
    return written > FAR and bits < written + MARGIN


def _first_of(fit: TableFit) -> tuple[float, ...]:
    """The coordinates of the first row."""
    shift = getattr(getattr(fit.spec, "arrangement", None), "start", 0)
    return tuple(start + shift for start in fit.placement.starts)


# --- tables that no rule rebuilds -----------------------------------------------------------------


def _likeness(array: Array) -> Finding:
    """The nearest convention of a table that is called one, or what its numbers are like."""
    shape = _shapes(array.shape)
    if not shape or shape[0][0] < LEAST_ROWS or shape[0][1] < 4:
        return finding_of(array, kind="table", verdict="unclear")
    rows, width, _ = shape[0]
    values = np.asarray(
        _rows(array, shape[0], min(rows, SAMPLE, max(MOST_ENTRIES // width, 1))), dtype=np.float64
    )
    if not values.any():
        return finding_of(
            array, kind="table", verdict="unclear", remarks=("all its entries are 0",)
        )
    eps = EPS[dtype_of(values, array.dtype)]
    for noise in LIKENESSES:
        fits = fit_table(values, eps=eps, noise=noise)
        if fits and fits[0].margin >= MARGIN:
            return _close(
                array, _rows(array, shape[0], min(rows, max(MOST_ENTRIES // width, 1))), fits[0]
            )
    name, off = _nearest(values)
    of_pairs = np.ptp(values[0]) == 0 and np.abs(values).max() <= 1 + eps
    measures = {**measures_of(values), "nearest_residual": off}
    return finding_of(
        array,
        kind="table",
        verdict="unknown",
        measures=measures,
        remarks=(
            (
                f"the nearest common sinusoid, {name}, differs by {100 * off:.0f} % of the "
                "table's size"
            ),
            *[BOTH] * bool(of_pairs and values[0, 0] in (0, 1)),
        ),
    )


def _close(array: Array, values: np.ndarray, fit: TableFit) -> Finding:
    """The convention of the first rows, and how far all rows are from it."""
    positions = fit.placement.positions(0, len(values))
    off = np.asarray(build(fit.spec, positions, dtype="float64")) - values
    rms = float(np.sqrt((off**2).mean() / (values**2).mean()))
    row, column = np.unravel_index(int(np.abs(off).argmax()), off.shape)
    most = f"most in row {row}, column {column}"
    return finding_of(
        array,
        kind="table",
        verdict="close",
        spec=fit.spec,
        placement=fit.placement,
        measures={"residual": fit.residual, "relative_rms": rms},
        remarks=(f"it differs by {100 * rms:.2g} % of its size, {most}", *fit.remarks),
    )


def measures_of(values: np.ndarray) -> dict[str, float]:
    """What learned tables look like."""
    part = values[:SAMPLE, :SAMPLE]
    norms = np.linalg.norm(part, axis=1, keepdims=True)
    unit = part / np.where(norms > 0, norms, 1)
    near, mean = float((unit[1:] * unit[:-1]).sum(axis=1).mean()), unit.mean(axis=0)
    # The squares of the singular values, by the cheaper of two ways.
    share = np.maximum(
        np.linalg.eigvalsh(part @ part.T if len(part) < part.shape[1] else part.T @ part), 0
    )
    share = share[share > 0] / share.sum()
    return {
        "smoothness": near - float(mean @ mean),
        "effective_rank": math.exp(float(-(share * np.log(share)).sum())),
    }


def _nearest(values: np.ndarray) -> tuple[str, float]:
    """The nearest of four common sinusoids, and how much of the table it leaves unexplained."""
    rows, width = len(values), values.shape[1] // 2 * 2
    values = values[:, :width]
    norm = float(np.linalg.norm(values))
    orders: tuple[Any, ...] = ("interleaved", "sin_cos")
    along: dict[str, float] = {}
    for order, denominator in itertools.product(orders, ("d/2", "n-1")):
        rebuilt = np.asarray(
            build(
                Sinusoidal(width, order=order, ladder=Ladder(denominator=denominator)),
                rows,
                dtype="float64",
            )
        )
        share = abs(float((rebuilt * values).sum())) / (float(np.linalg.norm(rebuilt)) * norm)
        along[f"{order} with denominator {denominator}"] = share
    name = max(along, key=along.__getitem__)
    return name, math.sqrt(max(0.0, 1 - along[name] ** 2))
