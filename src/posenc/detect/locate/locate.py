"""`posenc.locate`: from numbers back to the position they belong to."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from posenc import functional
from posenc._core.arrays.array import dtype_name, is_array, is_torch
from posenc._core.calls import checked_call
from posenc._core.errors import ArgumentError, PosencError, SpecError, bad_argument, refuse
from posenc._core.spec.spec import Spec
from posenc.detect.locate import from_rotated_pair, from_values, from_vector, vector_problem
from posenc.detect.locate.arcs import read_value
from posenc.detect.locate.result import FARTHEST, Fit, Location, Sibling, scale_of
from posenc.detect.locate.sentences import of_values, of_vector
from posenc.encodings.api import RotarySpec, TableSpec
from posenc.encodings.table.column_phases import columns_of, inner, phases_of, sinusoids
from posenc.encodings.table.learned import Learned

CONVENTIONS = ("siblings", "stated")
FEW = 16  # numbers of a vector that may be digits as printed


@checked_call
def locate(
    spec: Spec,
    x: Any,
    *,
    at: int | None = None,
    before: Any = None,
    params: Mapping[str, Any] | None = None,
    within: tuple[float, float] | None = None,
    conventions: Literal["siblings", "stated"] = "siblings",
) -> Location:
    """The position that numbers come from.

        x = PE(p)      x = embedding_scale * before + PE(p)      x = R(p) before

    No position is tried after another. A value with its digits is an interval of sines, so an arc
    of phases, and Euclid's algorithm finds the multiples of a step that fall into an arc. A vector
    is inverted from its slowest pair to its fastest, whatever its dtype and under noise. Where the
    stated convention does not explain the numbers, or explains them by accident, its siblings are
    tried too: other exponents, orders and scales, dimensions counted from 1, digits that were cut.

    Parameters
    ----------
    spec : Spec
        A sinusoidal or learned table, or a rotation.
    x : array, number, str, or mapping of int to number or str
        A row (dim,) of floating numbers, of any array library; or one value at the dimension `at`;
        or values by dimension. Values count by their digits: give them as text, "0.50" is known
        better than "0.5".
    at : int, optional
        The dimension of a single value, counted from 0.
    before : array, optional
        What stood there before the encoding acted: the embedding that a table was added to, or the
        query or key that was turned. Rotations need it.
    params : mapping, optional
        The parameters of a learned table.
    within : tuple of two numbers, optional
        The least and the largest position. By default 0 to 2**31 - 1 for values, the same with
        both signs for vectors, and one wavelength of the slowest pair for real coordinates.
    conventions : {"siblings", "stated"}
        Whether to try conventions beside the stated one, its siblings.

    Returns
    -------
    Location
        `position`, `positions`, `residual` and `convention` of the best fit; all of `fits` in the
        order of how unlikely they are by chance; `str()` tells it in sentences.

    Raises
    ------
    ArgumentError
        If the encoding cannot be inverted, with the reason, or the arguments do not fit it.

    Examples
    --------
    >>> import posenc
    >>> pe = posenc.Sinusoidal(512)
    >>> posenc.locate(pe, posenc.table(pe, [123_456_789])[0]).position
    123456789
    >>> found = posenc.locate(posenc.Sinusoidal(5120), "0.488814", at=1088)
    >>> found.position, found.convention
    (7, ('the exponent is i/d', 'the digits are cut, not rounded'))
    >>> found.as_stated.positions[0]
    929505
    """
    _check(spec, conventions)
    if isinstance(x, Mapping) or at is not None:
        todo = "Give a whole vector beside `before` or `params`."
        refuse(
            (before is not None, _named(spec), "values alone", "before", todo),
            (params is not None, _named(spec), "values alone", "params", todo),
        )
        return _of_values(spec, x, at, within, conventions)
    sample = _sample(x, "x")
    if isinstance(spec, RotarySpec):
        return _of_turned(spec, sample, before, within, conventions)
    assert isinstance(spec, TableSpec), "`_check` has seen to it"  # noqa: S101 - for mypy
    location = _of_vector(
        spec, sample, before=before, params=params, within=within, conventions=conventions
    )
    few = sample.values.size <= FEW and before is None and params is None
    if location.best is None and few and np.any(sample.values):
        digits = {i: repr(value) for i, value in enumerate(sample.values.tolist())}
        with contextlib.suppress(PosencError):  # numbers that were rounded as they were printed
            printed = _of_values(spec, digits, None, within, "stated")
            location = location if printed.best is None else printed
    return location


def _named(spec: Any) -> str:
    """The call in messages."""
    return f"locate({type(spec).__name__})"


def _check(spec: Any, conventions: str) -> None:
    name = (spec if isinstance(spec, type) else type(spec)).__name__
    refuse(
        (
            not isinstance(spec, Spec),
            "locate",
            "a spec first, as in locate(posenc.Sinusoidal(512), row)",
            name,
        )
    )
    caller, table = _named(spec), inner(spec)
    rotary = isinstance(spec, RotarySpec)
    refuse(
        (conventions not in CONVENTIONS, f"{caller}: conventions", " or ".join(CONVENTIONS),
         conventions),
        (rotary and spec.quarters, "locate: spec", "a rotation that turns queries and keys alike",
         name,
         "Keys turn as those of posenc.RoPE with the same fields: locate one of them with it."),
        (rotary and spec.needs_length, caller, "frequencies that are settled", "an open length",
         "Fix it: `spec.at(length)`."),
    )  # fmt: skip
    angles = (rotary and hasattr(spec, "matrix")) or sinusoids(table)
    todo = {
        "bias": "A bias knows the distance of a query and a key; no number of it has a position.",
        "relative": "It knows distances of queries and keys; no number of it has a position.",
        "rotary": "Its pairs mix the axes, so no coordinate can be found by itself.",
    }.get(spec.kind, "Nothing is known of how its rows follow from positions.")
    refuse((not (angles or isinstance(table, Learned)), caller,
            "an encoding whose rows can be inverted", spec.kind, todo))  # fmt: skip


# --- values ---------------------------------------------------------------------------------------


def _of_values(
    spec: Any,
    x: Any,
    at: int | None,
    within: tuple[float, float] | None,
    conventions: str,
) -> Location:
    caller, table = _named(spec), inner(spec)
    several = isinstance(x, Mapping)
    raw: Mapping[Any, Any] = x if several else {at: x}
    refuse(
        (several and at is not None, f"{caller}: at", "`at` beside a single value only", at),
        (not raw, caller, "at least one value", "none"),
        (isinstance(spec, RotarySpec), caller, "two vectors", "single values",
         "Give a whole query or key, and what it was before: before=."),
    )  # fmt: skip
    values = {}
    for dimension, value in raw.items():
        whole = isinstance(dimension, (int, np.integer)) and not isinstance(dimension, bool)
        inside = whole and 0 <= dimension < table.dim
        refuse((not inside, caller, f"dimensions from 0 to {table.dim - 1}", repr(dimension)))
        values[int(dimension)] = read_value(value, f"{caller}: value at {dimension}")
    refuse(
        (isinstance(table, Learned), caller, "a whole vector", "single values",
         "A learned table is known by its rows: give a whole one, and params=."),
        (table.coordinates == "real", caller, "integer positions",
         "single values, which fit infinitely many real coordinates", "Give a whole vector."),
    )  # fmt: skip
    phases_of(table)
    refuse(*(
        (columns_of(table).pair[dimension] < 0, caller, "a dimension that holds a sine or cosine",
         f"{dimension}, which is zero in every row")
        for dimension in values
    ))  # fmt: skip
    low, high = _range(within, (0, FARTHEST), caller, whole=True)
    fits, tried = from_values.search(table, values, int(low), int(high), conventions)
    location = Location(fits, table, (low, high), tried)
    return replace(location, story=tuple(of_values(location, values)))


def _range(
    within: Any, default: tuple[float, float], caller: str, *, whole: bool
) -> tuple[float, float]:
    try:
        low, high = default if within is None else within
        fine = low <= high and math.isfinite(low) and math.isfinite(high)
    except (TypeError, ValueError):
        fine = False
    where, ends = f"{caller}: within", "two numbers, the least and the largest position"
    refuse(
        (not fine, where, ends, repr(within)),
        (fine and within is not None and max(abs(low), abs(high)) > 2**40, where,
         "positions up to 2**40", repr(within)),
    )  # fmt: skip
    return (math.ceil(low), math.floor(high)) if whole else (low, high)


# --- vectors --------------------------------------------------------------------------------------


def _sample(x: Any, name: str) -> vector_problem.Sample:
    """A vector as float64, with the dtype that rounded it."""
    caller = f"locate: {name}"
    refuse((isinstance(x, str), caller, "an array", "a text",
            "A single value needs its dimension: at=."))  # fmt: skip
    dtype = dtype_name(x.dtype) if is_array(x) else "float64"
    x = x.detach().cpu().double().numpy() if is_torch(x) else x
    try:
        values = np.asarray(x).astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise bad_argument(caller, "an array of numbers", type(x).__name__) from None
    refuse(
        (dtype not in vector_problem.FLOOR, caller, " or ".join(vector_problem.FLOOR), dtype),
        (values.ndim != 1 or not values.size, caller, "one vector (dim,)",
         f"shape {values.shape}", "Locate one vector at a time."),
        (not np.isfinite(values).all(), caller, "finite numbers", "NaN or infinity"),
    )  # fmt: skip
    return vector_problem.Sample(
        values, dtype, float(np.abs(values).max()), _narrowest(values, dtype)
    )


def _of_vector(
    spec: TableSpec,
    sample: vector_problem.Sample,
    *,
    before: Any,
    params: Mapping[str, Any] | None,
    within: tuple[float, float] | None,
    conventions: str,
) -> Location:
    caller, table = _named(spec), inner(spec)
    width = sample.values.size
    if width == spec.width and spec.width != spec.dim:  # what is appended stands last
        sample = sample._replace(values=sample.values[spec.dim :])
        width -= spec.dim
    elif before is not None:
        other = _sample(before, "before").values
        refuse((other.size != width, f"{caller}: before", f"as wide as x, {width}", other.size))
        sample = sample._replace(values=sample.values - spec.embedding_scale * other)
    refuse((width != table.dim, f"{caller}: x", f"a vector of width {table.dim}", width))
    scale = scale_of(table, params)
    if isinstance(table, Learned):
        if params is None:
            raise bad_argument(caller, "the parameters of the table", None,
                               "`params=` holds the rows that are compared.")  # fmt: skip
        fits = from_vector.nearest_rows(table, sample, params)
        location = Location(fits, spec, (0, max(table.limits) - 1), 1)
        return replace(location, story=tuple(of_vector(location)))
    # The size of what was rounded counts in units of the table.
    sample = sample._replace(size=sample.size / (abs(scale) or 1.0))
    ranges = _ranges(table, within, caller)
    if not np.any(sample.values):
        return _of_zeros(table, ranges)
    if sample.narrow is not None and not from_vector.explains(table, sample, ranges):
        sample = sample._replace(dtype=sample.narrow)
    fits, tried = from_vector.search(table, sample, ranges, params=params, conventions=conventions)
    location = Location(fits, table, ranges[0], tried)
    model = vector_problem.known_of(table, Sibling(()), params)
    spread = None if model is None else vector_problem.measure(model, sample.values).spread
    return replace(location, story=(*of_vector(location, spread), *_odd_one_out(location, sample)))


def _odd_one_out(location: Location, sample: vector_problem.Sample) -> tuple[str, ...]:
    """The entry that alone is far off, as a misprint is."""
    best = location.best
    if (
        best is None
        or len(best.positions) != 1
        or sample.values.size < 8
        or not isinstance(best.spec, TableSpec)
        or best.spec.shapes
    ):
        return ()
    row = np.asarray(functional.table(best.spec, [best.positions[0]], dtype="float64"))[0]
    off = np.abs(sample.values - row)
    worst = int(off.argmax())
    if off[worst] < max(6 * np.sqrt(np.mean(np.delete(off, worst) ** 2)), 2 * sample.tolerance):
        return ()
    value, there = sample.values[worst], row[worst]
    return (f"One entry stands out: {value:.6g} at dimension {worst}, where it has {there:.6g}.",)


def _narrowest(values: np.ndarray, dtype: str) -> str | None:
    """What numbers were, if they were half precision before they were stored."""
    if dtype not in ("float32", "float64"):
        return None
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
        half = np.array_equal(single.astype(np.float16).astype(np.float32), single)
    brief = not np.any(single.view(np.uint32) & 0xFFFF)
    names = [name for name, holds in (("bfloat16", brief), ("float16", half)) if holds]
    return names[0] if names and np.array_equal(single, values) else None


def _of_zeros(table: Any, ranges: Mapping[int, tuple[float, float]]) -> Location:
    """The row of padding, where the table has one."""
    pad = getattr(getattr(table, "arrangement", None), "pad", None)
    if pad is None:
        return Location(
            (), table, ranges[0], 1,
            ("No such position: all entries are zero, and no row of the table is.",),
        )  # fmt: skip
    place = pad - table.arrangement.start
    return Location(
        (Fit((), table, (place,), "all", 0.0, 0.0, 1000.0),), table, ranges[0], 1,
        (f"Position {place}: it is padding.",),
    )  # fmt: skip


def _ranges(
    table: Any, within: tuple[float, float] | None, caller: str
) -> dict[int, tuple[float, float]]:
    """The range of each axis."""
    axes = range(len(table.axes))
    if table.coordinates != "real":
        return dict.fromkeys(axes, _range(within, (-FARTHEST, FARTHEST), caller, whole=True))
    phases, waves = phases_of(table), functional.wavelengths(table)
    finite = [waves[(phases.axis == axis) & np.isfinite(waves)] for axis in axes]
    reaches = [float(own.max()) / 2 if own.size else 1.0 for own in finite]
    return {
        axis: _range(within, (-reach, reach), caller, whole=False)
        for axis, reach in enumerate(reaches)
    }


def _of_turned(
    spec: RotarySpec,
    sample: vector_problem.Sample,
    before: Any,
    within: tuple[float, float] | None,
    conventions: str,
) -> Location:
    caller = _named(spec)
    refuse((before is None, caller, "`before` and `x`", "x alone",
            "An angle shows only beside what was turned: give the query or key as before=."),
    )  # fmt: skip
    other = _sample(before, "before")
    from_rotated_pair.check_pair(spec, other.values, sample.values)
    typical = float(np.sqrt(np.mean(other.values**2)))
    coarse = max(
        (each.narrow or each.dtype for each in (sample, other)),
        key=vector_problem.FLOOR.__getitem__,
    )
    # Rounding is a part of the size of the numbers, and an angle is one of them over its modulus.
    unit = vector_problem.Sample(
        sample.values / typical, coarse, max(sample.size, typical) / typical
    )
    limits = _range(within, (-FARTHEST, FARTHEST), caller, whole=spec.coordinates != "real")
    ranges = dict.fromkeys(range(len(spec.axes)), limits)
    try:
        fits, tried = from_rotated_pair.search(
            spec, unit, other.values / typical, ranges, conventions
        )
    except SpecError as error:
        raise ArgumentError(str(error)) from error
    location = Location(fits, spec, limits, tried)
    return replace(location, story=tuple(of_vector(location)))
