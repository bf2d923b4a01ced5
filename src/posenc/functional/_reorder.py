"""From one convention of a table to another, where that is a matter of order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from posenc._core.arrays.array import library
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.tracing import compile_time
from posenc.encodings.table.base import TableSpec, columns
from posenc.encodings.table.fourier import Fourier
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.encodings.table.timestep import Timestep
from posenc.functional.arguments.common import name_of


@compile_time
def reorder(source: TableSpec, target: TableSpec) -> np.ndarray:
    """The channels of one convention in the order of another.

        table(target)[..., c] = table(source)[..., reorder(source, target)[c]]

    Two tables hold the same numbers when they have the same sines and cosines of the same axes:
    interleaved and halves, sines or cosines first, height or width first. Tables with different
    frequencies do not, and no order of channels helps; the error says how far apart they are.
    Weights that read the table are converted by the same numbers: `w[:, reorder(source, target)]`.

    Parameters
    ----------
    source, target : TableSpec
        Sinusoidal tables, Fourier features or timesteps, of the same width.

    Returns
    -------
    numpy.ndarray
        (dim,), int64, a permutation.

    Raises
    ------
    SpecError
        If the tables hold different numbers.

    Examples
    --------
    >>> import posenc
    >>> halves = posenc.Sinusoidal(6, order="sin_cos")
    >>> posenc.reorder(posenc.Sinusoidal(6), halves)
    array([0, 2, 4, 1, 3, 5])
    """
    for spec in (source, target):
        if not isinstance(spec, (Sinusoidal, Fourier, Timestep)):
            expected = "two sinusoidal tables"
            raise ArgumentError(mismatch("reorder", expected, name_of(spec)))
    if source.dim != target.dim:
        received = f"{source.dim} and {target.dim}"
        raise SpecError(mismatch("reorder", "two tables of one width", received))
    _same_rows(source, target)
    channels: dict[Hashable, list[int]] = {}
    for channel, label in enumerate(_labels(source)):
        channels.setdefault(label, []).append(channel)
    order = []
    for channel, label in enumerate(_labels(target)):
        if not channels.get(label):
            raise SpecError(_explained(source, target, channel))
        order.append(channels[label].pop(0))
    return np.array(order, dtype=np.int64)


def _same_rows(source: Any, target: Any) -> None:
    """Raise unless rows, scales and the arithmetic are the same."""
    pairs = (
        ("axes", sorted(source.axes), sorted(target.axes)),
        ("phase", source.phase, target.phase),
        ("start", _start(source), _start(target)),
        ("scale", _scale(source), _scale(target)),
    )
    for what, a, b in pairs:
        if a != b:
            raise SpecError(mismatch("reorder", f"the same {what} in both tables", f"{a} and {b}"))


def _start(spec: Any) -> Any:
    arrangement = getattr(spec, "arrangement", None)
    return None if arrangement is None else (arrangement.start, arrangement.pad)


def _scale(spec: Any) -> float:
    return spec.magnitude.table(spec.dim) if isinstance(spec, Sinusoidal) else 1.0


def _labels(spec: Any) -> list[Hashable]:
    """What each channel holds: its function, and the frequency along each axis by name."""
    matrix, pairs = spec.matrix, spec.pairs
    numbers = np.arange(pairs, dtype=np.int64)
    xp = library(np)
    width = spec.dim - (spec.raw_width if isinstance(spec, Fourier) else 0)
    order, sizes = spec.order, _sizes(spec)
    lone = isinstance(spec, Sinusoidal) and spec.odd == "sin_extra"
    # Each sine carries an even number, each cosine an odd one; 0 stands for columns of zeros.
    placed = columns(2 * numbers + 3, 2 * numbers + 2, order, width, sizes, lone_sine=lone, xp=xp)
    sines, cosines = _frequencies(matrix, spec), _frequencies(matrix, spec, cosine=True)
    labels: list[Hashable] = []
    for number in placed.tolist():
        if number == 0:
            labels.append("zero")
            continue
        pair, function = divmod(number - 2, 2)
        labels.append(("cos", *cosines[pair]) if function else ("sin", *sines[pair]))
    if isinstance(spec, Fourier) and spec.raw != "none":
        raw: list[Hashable] = [("raw", name) for name in spec.axes]
        labels = raw + labels if spec.raw == "first" else labels + raw
    return labels


def _sizes(spec: Any) -> tuple[int, ...]:
    if isinstance(spec, Fourier):
        return spec.sizes()
    return spec.arrangement.blocks(spec.pairs) if isinstance(spec, Sinusoidal) else (spec.pairs,)


def _frequencies(matrix: Any, spec: Any, *, cosine: bool = False) -> list[tuple[Any, ...]]:
    """For each pair, its (axis, frequency) entries that are not zero, by name of axis."""
    if hasattr(matrix, "arrangement"):
        values = matrix.frequencies(cosine=cosine)
        axis = matrix.arrangement.layout(spec.pairs).axis
        # Beyond float64 two ladders of the same meaning may differ by their rounding.
        return [((spec.axes[a], float(f)),) for a, f in zip(axis, values, strict=True)]
    rows = matrix.frequencies()
    return [
        tuple(sorted((name, float(row[j])) for name, row in zip(spec.axes, rows, strict=True)))
        for j in range(spec.pairs)
    ]


def _explained(source: Any, target: Any, channel: int) -> str:
    wanted = _labels(target)[channel]
    head = "reorder: expected tables of the same sines and cosines"
    todo = "Compute the other table anew: no order of channels turns one into the other."
    if isinstance(wanted, tuple) and wanted[0] in ("sin", "cos"):
        name, frequency = wanted[1][0], wanted[1][1]
        rest = [x[1][1] for x in _labels(source) if isinstance(x, tuple) and x[1][0] == name]
        if rest:
            nearest = min(rest, key=lambda f: abs(f - frequency))
            return (
                f"{head}, got channel {channel} of the target at {frequency:.6g} radians per "
                f"{name}, where the source has {nearest:.6g} at the nearest. {todo}"
            )
    return f"{head}, got {wanted!r} in the target alone. {todo}"
