"""What a sinusoidal spec says of itself, in float64 NumPy: frequencies, shifts, its order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from posenc._core.arrays.array import dtype_name, library
from posenc._core.arrays.coordinates import on_host
from posenc._core.calls import checked_call
from posenc._core.errors import SpecError, bad_argument, bad_spec
from posenc._core.grouping import grouped
from posenc._core.numeric.resolution import first_collision
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.column_phases import FUNCTIONS, columns_of, sinusoids
from posenc.encodings.table.fourier import Fourier
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional._table import table
from posenc.functional.arguments.common import name_of
from posenc.functional.arguments.tokens import with_axes


@compile_time
@checked_call
def frequencies(spec: Spec) -> np.ndarray:
    """The frequency of each pair, in radians per position.

        f[j] = first * base ** (-j / denominator)

    Parameters
    ----------
    spec : Spec
        An encoding with sinusoidal phases.

    Returns
    -------
    numpy.ndarray
        (pairs,), float64, each rounded once from 50 digits; 0 for pairs that do not turn. Where
        pairs mix axes, (axes, pairs).

    Raises
    ------
    SpecError
        If the encoding has no frequencies.

    Examples
    --------
    >>> import posenc
    >>> posenc.frequencies(posenc.Sinusoidal(6, base=1000)).round(3)
    array([1.  , 0.1 , 0.01])
    """
    exact = _sinusoidal(spec, "frequencies").matrix.frequencies()
    return np.array(exact, dtype=object).astype(np.float64)


@compile_time
@checked_call
def wavelengths(spec: Spec) -> np.ndarray:
    """The wavelength of each pair, in positions: 2 pi / frequency.

    Parameters
    ----------
    spec : Spec
        An encoding with sinusoidal phases.

    Returns
    -------
    numpy.ndarray
        (pairs,), float64; infinite for pairs that do not turn. Where pairs mix axes, the distance
        between crests, straight across them.

    Raises
    ------
    SpecError
        If the encoding has no frequencies.

    Examples
    --------
    The slowest pair of width d does not reach 2 pi base, as is often said, but its power (d-2)/d:

    >>> import posenc
    >>> posenc.wavelengths(posenc.Sinusoidal(4)).round(2)
    array([  6.28, 628.32])
    """
    f = frequencies(spec)
    with np.errstate(divide="ignore"):
        return 2 * math.pi / (np.abs(f) if f.ndim == 1 else np.hypot.reduce(f, axis=0))


@compile_time
@checked_call
def resolution(spec: Sinusoidal, dtype: Any = "float32", *, limit: int = 2**22) -> Any:
    """The first two positions whose rows are the same numbers in a dtype.

    Two rows are indistinguishable when every entry rounds to the same value. Positions p and q can
    only be so when their distance turns every pair by almost whole turns, so distances are sieved
    with integer phases first, and only the few that pass are compared row by row.

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table of one axis.
    dtype : {"float32", "float16", "bfloat16", "float64"}
        The dtype that rows are rounded to.
    limit : int
        Positions 0 to limit - 1 are searched.

    Returns
    -------
    tuple of int, or None
        (p, q) with p < q, the pair of smallest q, or None where every
        row below the limit is distinct.

    Raises
    ------
    SpecError
        If the spec has several axes or is no sinusoidal table.
    ArgumentError
        If the limit is not between 2 and 2**31.

    Examples
    --------
    >>> import posenc
    >>> posenc.resolution(posenc.Sinusoidal(512), "bfloat16") is None
    True
    """
    spec = _sinusoidal(spec, "resolution")
    if not isinstance(spec, Sinusoidal) or len(spec.axes) != 1 or spec.phase != "exact":
        raise bad_spec("resolution", "a sinusoidal table of one axis with exact phases", repr(spec))
    if spec.ladder.cos_shift:
        raise bad_spec(
            "resolution",
            "a cosine of the same frequency for each sine",
            f"cos_shift={spec.ladder.cos_shift}",
        )
    name = dtype if isinstance(dtype, str) else dtype_name(dtype)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 2 <= limit <= 2**31:
        raise bad_argument("resolution: limit", "from 2 to 2**31", limit)
    return first_collision(
        lambda p: table(spec, p, dtype="float64"),
        spec.arrays["step"][0, : spec.dim // 2],
        name,
        limit,
        spec.magnitude.table(spec.dim),
    )


def _sinusoidal(spec: Any, verb: str) -> Any:
    if not isinstance(spec, Spec):
        raise bad_argument(
            verb,
            "a spec such as posenc.Sinusoidal(512)",
            name_of(spec),
            'A plan has one for each layer: plan["attention"].spec.'
            if hasattr(spec, "layers")
            else "",
        )
    if not hasattr(spec, "matrix"):
        raise bad_spec(verb, "an encoding with sinusoidal phases", name_of(spec))
    return spec


@compile_time
@checked_call
def shift(spec: Sinusoidal, k: int | Sequence[int]) -> np.ndarray:
    """The linear operator that moves every row of a table by `k` positions.

        PE(p + k) = S(k) PE(p)   for every p

    S is block-diagonal up to the order of the channels: each pair is turned by its frequency times
    k. Vaswani et al. (2017) chose sinusoids for this property.

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table whose sines all have their cosines.
    k : int, or sequence of int
        The shift; one number per axis for specs of several axes.

    Returns
    -------
    numpy.ndarray
        (dim, dim), float64.

    Raises
    ------
    SpecError
        If a sine of the table has no cosine (an odd width that is not zero-padded): no linear
        operator exists then.

    Examples
    --------
    >>> import posenc
    >>> pe = posenc.Sinusoidal(8)
    >>> moved = posenc.shift(pe, 3) @ posenc.table(pe, [40], dtype="float64")[0]
    >>> bool(abs(moved - posenc.table(pe, [43], dtype="float64")[0]).max() < 1e-14)
    True
    """
    spec = _whole(spec, "shift")
    cos, sin = _angles(spec, k, "shift: k")
    if cos.ndim != 1:
        raise bad_argument("shift: k", "one shift for the whole table", f"shape {np.shape(k)}")
    sines, cosines = _channels(spec)
    moved = np.zeros((spec.dim, spec.dim))
    moved[sines, sines] = cos
    moved[sines, cosines] = sin
    moved[cosines, sines] = -sin
    moved[cosines, cosines] = cos
    return moved


@compile_time
@checked_call
def similarity(spec: Sinusoidal, offsets: Any) -> np.ndarray:
    """The dot product of two rows as a function of their distance.

        PE(p) . PE(p + k) = table_scale ** 2 * sum_j cos(f[j] k)

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table whose sines all have their cosines.
    offsets : int or array of integers
        The distances k, of shape (...); (..., axes) for specs of several axes.

    Returns
    -------
    numpy.ndarray
        (...), float64, summed without loss.

    Raises
    ------
    SpecError
        If a sine has no cosine: the product then depends on the position as well.
    DTypeError
        If the offsets are not integers.

    Examples
    --------
    >>> import posenc
    >>> posenc.similarity(posenc.Sinusoidal(64), [0, 1, 10]).round(3)
    array([32.   , 30.917, 21.052])
    """
    spec = _whole(spec, "similarity")
    cos, _ = _angles(spec, offsets, "similarity: offsets")
    flat = cos.reshape(-1, cos.shape[-1])
    sums = np.array([math.fsum(row) for row in flat.tolist()]).reshape(cos.shape[:-1])
    return sums * spec.magnitude.table(spec.dim) ** 2


def _whole(spec: Any, verb: str) -> Sinusoidal:
    if not isinstance(spec, Sinusoidal):
        raise bad_argument(verb, "a sinusoidal table", name_of(spec))
    if not spec.whole:
        raise bad_spec(
            verb,
            "a cosine of the same frequency for each sine",
            f"dim={spec.dim} with odd={spec.odd!r} and cos_shift={spec.ladder.cos_shift}",
            "Use an even dim, or odd='zero_pad'.",
        )
    return spec


def _angles(spec: Sinusoidal, k: Any, caller: str) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of k times the frequencies, float64, whatever the start and phase."""
    xp = library(np)
    plain = spec.replace(phase="exact", arrangement=spec.arrangement.replace(start=0, pad=None))
    rows = with_axes(plain.axes, on_host(k, caller), f"{caller}: positions")
    both: tuple[np.ndarray, np.ndarray] = plain.matrix.cos_sin(
        rows, plain.arrays, dtype=xp.float64, xp=xp
    )
    return both


def _channels(spec: Sinusoidal) -> tuple[np.ndarray, np.ndarray]:
    """The channel of each pair's sine and of its cosine."""
    pair, function = columns_of(spec)
    sines, cosines = (np.flatnonzero((pair >= 0) & (function == kind)) for kind in (0, 1))
    return sines[np.argsort(pair[sines])], cosines[np.argsort(pair[cosines])]


@compile_time
@checked_call
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
        if not sinusoids(spec):
            raise bad_argument("reorder", "two sinusoidal tables", name_of(spec))
    if source.dim != target.dim:
        raise bad_spec("reorder", "two tables of one width", f"{source.dim} and {target.dim}")
    for what, a, b in (
        ("axes", sorted(source.axes), sorted(target.axes)),
        ("phase", getattr(source, "phase", ""), getattr(target, "phase", "")),
        ("start", _start(source), _start(target)),
        ("scale", _scale(source), _scale(target)),
    ):
        if a != b:
            raise bad_spec("reorder", f"the same {what} in both tables", f"{a} and {b}")
    channels = grouped((label, channel) for channel, label in enumerate(_labels(source)))
    order = []
    for channel, label in enumerate(_labels(target)):
        if not channels.get(label):
            raise SpecError(_explained(source, target, channel))
        order.append(channels[label].pop(0))
    return np.array(order, dtype=np.int64)


def _start(spec: Any) -> Any:
    arrangement = getattr(spec, "arrangement", None)
    return None if arrangement is None else (arrangement.start, arrangement.pad)


def _scale(spec: Any) -> float:
    return spec.magnitude.table(spec.dim) if isinstance(spec, Sinusoidal) else 1.0


def _labels(spec: Any) -> list[Hashable]:
    """What each channel holds: its function, and the frequency along each axis by name."""
    both = _frequencies(spec), _frequencies(spec, cosine=True)
    labels: list[Hashable] = [
        "zero" if pair < 0 else (FUNCTIONS[function], *both[function][pair])
        for pair, function in zip(*(array.tolist() for array in columns_of(spec)), strict=True)
    ]
    if isinstance(spec, Fourier) and spec.raw != "none":
        first = 0 if spec.raw == "first" else len(labels) - spec.raw_width
        labels[first : first + spec.raw_width] = [("raw", name) for name in spec.axes]
    return labels


def _frequencies(spec: Any, *, cosine: bool = False) -> list[tuple[Any, ...]]:
    """For each pair, its (axis, frequency) entries that are not zero, by name of axis."""
    matrix = spec.matrix
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
