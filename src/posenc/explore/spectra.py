"""What a learned table looks like beside sinusoids: spectrum, components, nearest waves."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from posenc._core.errors import PosencError
from posenc.explore.state.catalogue import held
from posenc.explore.state.entry import Chosen
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Datum,
    Heading,
    Mark,
    Series,
    cells,
    float32,
    logarithmic,
    values,
)
from posenc.plot.panels.text import number, plural, present, spread, whole

MOST_ROWS = 2048
PADDING = 8, 4  # of the transform, for tables up to `SHORT` rows and longer ones
SHORT = 1024
BLOCK = 32  # positions
WIDE = 256  # columns at a time
CONTROL = 64  # columns whose rows are shuffled


@dataclass(frozen=True)
class Nearest:
    """The sinusoid nearest to each column, by least squares: c + a cos(ω p) + b sin(ω p)."""

    fits: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    count: int

    @property
    def wavelengths(self) -> np.ndarray:
        """(columns,) in positions, from 2 to twice the rows; NaN of constant columns."""
        return np.where(self.variances > 0, 2 * np.pi / self.fits[0], np.nan)

    @property
    def shares(self) -> np.ndarray:
        """(columns,) which part of the column's variance is explained, from 0 to 1."""
        return np.where(self.variances > 0, self.fits[3], 0.0) / np.maximum(self.variances, 1e-300)

    @property
    def explained(self) -> float:
        """The share of the variance of all columns together."""
        return float((self.shares * self.variances).sum() / (self.variances.sum() or 1.0))

    def curve(self, column: int) -> np.ndarray:
        """(rows,) the sinusoid nearest to a column."""
        frequency, a, b, _ = self.fits[:, column] * (self.variances[column] > 0)
        angles = frequency * np.arange(self.count)
        wave = a * np.cos(angles) + b * np.sin(angles)
        return np.asarray(wave - wave.mean() + self.means[column])


@dataclass(frozen=True)
class LearnedRows:
    """A table and what it is made of."""

    rows: np.ndarray
    wavelengths: np.ndarray
    power: np.ndarray
    components: np.ndarray
    nearest: Nearest
    by_chance: float


def analysis(rows: np.ndarray) -> LearnedRows:
    """Take a table apart."""
    rows = np.asarray(rows, dtype=np.float64)
    count, columns = rows.shape
    power = np.zeros(count // 2)
    gram = np.zeros((min(count, columns),) * 2)
    for block in _blocks(columns) if count < columns else (slice(None),):
        centred = rows[:, block] - rows[:, block].mean(axis=0)
        power += (np.abs(np.fft.rfft(centred, axis=0)[1:]) ** 2).sum(axis=1)
        gram += centred @ centred.T if count < columns else centred.T @ centred
    components = np.clip(np.linalg.eigvalsh(gram)[::-1], 0.0, None)
    return LearnedRows(
        rows,
        count / np.arange(1, len(power) + 1),
        power / (float(power.sum()) or 1.0),
        np.cumsum(components) / (float(components.sum()) or 1.0),
        nearest(rows),
        nearest(
            np.random.default_rng(0).permutation(
                rows[:, np.unique(np.linspace(0, columns - 1, CONTROL).astype(int))], axis=0
            )
        ).explained,
    )


def _blocks(columns: int) -> list[slice]:
    return [slice(start, start + WIDE) for start in range(0, columns, WIDE)]


def nearest(rows: np.ndarray) -> Nearest:
    """The sinusoid nearest to each column: the best of a grid, and of ever finer ones around it."""
    means = rows.mean(axis=0)
    parts = [_nearest(rows[:, block] - means[block]) for block in _blocks(rows.shape[1])]
    squares = np.concatenate([variances for _, variances in parts])
    return Nearest(
        np.concatenate([fit for fit, _ in parts], axis=1),
        means,
        np.where(
            squares > np.finfo(np.float64).eps * (means**2 * len(rows) + 1e-300), squares, 0.0
        ),
        len(rows),
    )


def _nearest(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fits of some columns without their means, and the sums of their squares."""
    count = len(centred)
    size = PADDING[count > SHORT] * count
    lowest = size // (2 * count)  # twice as long as the table
    products = np.fft.rfft(centred, size, axis=0)[lowest:].conj()
    a, b = _factors(products, 2 * np.pi * np.arange(lowest, size // 2 + 1)[:, None] / size, count)
    bins = lowest + np.argmax(a * products.real + b * products.imag, axis=0).astype(np.float64)
    fit = _fit(centred, 2 * np.pi * bins / size)
    for width in (1.0, 0.25, 0.06, 0.015):
        for step in np.linspace(-width, width, 9):
            other = _fit(centred, 2 * np.pi * np.clip(bins + step, lowest, size / 2) / size)
            fit = np.where(other[3] > fit[3], other, fit)
        bins = fit[0] * size / (2 * np.pi)
    return fit, (centred**2).sum(axis=0)


def _fit(centred: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Least squares of each column on a constant and one frequency.

    Returns (4, columns): frequency, factors of its cosine and sine, and the squares explained.
    """
    count = len(centred)
    # Positions in blocks, so that few angles are needed: p = BLOCK q + r.
    padded = np.zeros((-(-count // BLOCK), BLOCK, centred.shape[1]))
    padded.reshape(-1, centred.shape[1])[:count] = centred
    inner = np.exp(1j * np.arange(BLOCK)[:, None] * frequencies)
    outer = np.exp(1j * BLOCK * np.arange(len(padded))[:, None] * frequencies)
    parts = np.einsum("qrd,rd->qd", padded, inner.real), np.einsum("qrd,rd->qd", padded, inner.imag)
    product = ((parts[0] + 1j * parts[1]) * outer).sum(axis=0)
    a, b = _factors(product, frequencies, count)
    return np.stack([frequencies, a, b, a * product.real + b * product.imag])


def _factors(
    products: np.ndarray, frequencies: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of cosine and sine, beside a constant, from the products with them."""
    cos, sin = _sums(frequencies, count) / count
    cos2, sin2 = _sums(2 * frequencies, count)
    cc = (count + cos2) / 2 - count * cos**2
    ss = (count - cos2) / 2 - count * sin**2
    cs = sin2 / 2 - count * cos * sin
    alone = cc * ss - cs**2 <= 1e-9 * cc**2  # at a wavelength of 2 the sine is 0 everywhere
    determinant = np.where(alone, cc, cc * ss - cs**2)
    a = np.where(alone, products.real, products.real * ss - products.imag * cs) / determinant
    return a, np.where(alone, 0.0, products.imag * cc - products.real * cs) / determinant


def _sums(frequencies: np.ndarray, count: int) -> np.ndarray:
    """(2, columns): the sums of cosines and sines over the positions 0 to count - 1."""
    half = np.sin(frequencies / 2)
    turned = np.abs(half) < 1e-12  # whole turns
    size = np.where(turned, count, np.sin(count * frequencies / 2) / np.where(turned, 1.0, half))
    middle = (count - 1) * frequencies / 2
    size = np.where(turned, count * np.cos(middle), size)
    return np.stack([size * np.cos(middle), np.where(turned, 0.0, size * np.sin(middle))])


# --- panels ---------------------------------------------------------------------------------------


FEWEST = 8  # rows


@functools.lru_cache(maxsize=8)
def analysed(chosen: Chosen, rows: tuple[int, int]) -> LearnedRows:
    """Some rows of an encoding, taken apart."""
    first, last = rows
    if last - first < FEWEST:
        count = plural(last - first, "row")
        raise PosencError(f"{chosen.label} has {count} here, and takes {FEWEST} to be taken apart.")
    return analysis(held(chosen, last).rows(np.arange(first, min(last, first + MOST_ROWS))))


def panels(data: LearnedRows, first: int, p: int, j: int) -> tuple[Chart, ...]:
    """The column of the cursor and its nearest sinusoid, their shares, spectrum and components."""
    own = float(data.nearest.wavelengths[j])
    return (
        _column(data, first, p, j, own),
        _shares(data, j),
        _spectrum(data, own),
        _components(data),
    )


def _column(data: LearnedRows, first: int, p: int, j: int, own: float) -> Chart:
    rows, near = data.rows[:, j], data.nearest.curve(j)
    places, inside = first + np.arange(len(rows)) + 0.5, 0 <= p - first < len(rows)
    return Chart(
        id="nearest-sinusoid",
        title=f"dimension {j} and its nearest sinusoid",
        x=cells("position", first, first + len(rows), key="p", at=p if inside else None),
        y=values(
            "", *spread(float(min(rows.min(), near.min())), float(max(rows.max(), near.max())))
        ),
        series=(
            Series("the table", places, float32(rows)),
            Series(
                f"wavelength {number(own)}" if np.isfinite(own) else "constant",
                places,
                float32(near),
                1,
            ),
        ),
        marks=(Mark("point", p + 0.5, to=float(rows[p - first]), style="point"),) if inside else (),
        place="half",
        height=150,
        label=f"Dimension {j} over the positions, and its nearest sinusoid",
    )


def _shares(data: LearnedRows, j: int) -> Chart:
    x, y = data.nearest.wavelengths, 100 * data.nearest.shares
    known = np.isfinite(x)
    order = np.argsort(x[known])
    return Chart(
        id="nearest",
        title="% of each dimension that one sinusoid explains",
        x=logarithmic("wavelength, positions (log)", 1.9, 2.2 * len(data.rows)),
        y=values("", 0.0, 100.0),
        series=(Series("a dimension", x[known][order], float32(y[known][order]), draw="points"),),
        marks=(Mark("point", float(x[j]), to=float(y[j]), style="point"),) if known[j] else (),
        caption="Wavelengths from 2 positions to twice the table. Very slow ones stand for any "
        "gentle bend." + (f" In red: dimension {j}." if known[j] else ""),
        place="half",
        height=190,
        label="Share of variance that one sinusoid explains, for each dimension",
    )


def _spectrum(data: LearnedRows, own: float) -> Chart:
    x, y = data.wavelengths[::-1], 100 * data.power[::-1]
    return Chart(
        id="spectrum",
        title="spectrum: % of variance at each wavelength",
        x=logarithmic("wavelength, positions (log)", 1.9, 1.1 * len(data.rows)),
        y=values("", 0.0, float(y.max()) * 1.05 or 1.0),
        series=(Series("share", x, float32(y)),),
        marks=(Mark("x", own, "the dimension's"),) if 2 <= own <= x[-1] else (),
        caption="All dimensions together.",
        place="half",
        height=150,
        label="Power at each wavelength",
    )


def _components(data: LearnedRows) -> Chart:
    y, ninety = 100 * data.components, _ninety(data)
    return Chart(
        id="components",
        title="% of variance in the first components",
        x=logarithmic("principal components (log)", 0.9, 1.1 * len(y)),
        y=values("", 0.0, 105.0),
        series=(Series("share", np.arange(len(y)) + 1.0, float32(y)),),
        marks=(Mark("x", float(ninety), f"90 %: {whole(ninety)}"),),
        place="half",
        height=130,
        label="Cumulated share of variance of the principal components",
    )


def _ninety(data: LearnedRows) -> int:
    return int(np.searchsorted(data.components, 0.9) + 1)


def facts(data: LearnedRows, j: int) -> tuple[Block, ...]:
    """How much of a dimension and of the table one sinusoid explains."""
    own, share = float(data.nearest.wavelengths[j]), float(data.nearest.shares[j])
    return present(
        Heading("What it is made of"),
        Datum("Nearest sinusoid", f"{number(own)} positions") if np.isfinite(own) else None,
        Datum("How much it explains", f"{number(100 * share, 3)} %"),
        Datum("One sinusoid a dimension", f"{number(100 * data.nearest.explained, 3)} %"),
        Datum("Rows shuffled", f"{number(100 * data.by_chance, 3)} %"),
        Datum("Components for 90 %", whole(_ninety(data))),
    )
