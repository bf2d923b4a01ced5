"""Parameters of learned encodings: the first ones, and tables of another size.

A table is interpolated, or gets a tail that leaves its rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from posenc._core.arrays.array import (
    astype,
    carried,
    compute_dtype,
    device_of,
    library,
    namespace,
)
from posenc._core.arrays.resample import METHODS, Method, resample
from posenc._core.calls import checked_call, numpy_rules
from posenc._core.errors import ArgumentError, bad_argument, bad_spec
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.encodings.bias.offset_table import OffsetTable
from posenc.encodings.bias.window import WindowTable
from posenc.encodings.relative.decomposed import Decomposed
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.concatenated import Concatenated
from posenc.encodings.table.learned import Learned
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional.arguments.common import Array, name_of, parameters


@compile_time
@checked_call
def init(spec: Spec, seed: int = 0) -> dict[str, np.ndarray]:
    """The first parameters of a learned encoding.

    The fields of the spec say how they begin. Each parameter draws from a stream of its own, so the
    result depends on the spec and the seed alone.

    Parameters
    ----------
    spec : Spec
        An encoding of any kind.
    seed : int
        At least 0. Two tables of one model, such as those of encoder and decoder, need two seeds.

    Returns
    -------
    dict of numpy.ndarray
        float32 arrays by name; empty for encodings that learn nothing.

    Raises
    ------
    ArgumentError
        If the seed is no integer of at least 0, or `spec` is none.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.Learned(4, length=8), seed=1)["weight"].shape
    (8, 4)
    >>> posenc.init(posenc.Sinusoidal(4))
    {}
    """
    if not isinstance(spec, Spec):
        raise bad_argument("init", "a spec such as posenc.Learned(...)", name_of(spec))
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise bad_argument("init: seed", "an integer of at least 0", repr(seed))
    return {
        name: spec.initial(name, np.random.default_rng([place, int(seed)]))
        for place, name in enumerate(spec.parameters())
    }


S = TypeVar("S", bound=Spec)
How = Literal["interpolate", "tile", "sinusoidal"]
HOW = get_args(How)


@numpy_rules
def resize(
    spec: S,
    params: Mapping[str, Array],
    length: int | tuple[int, ...],
    *,
    method: Method = "cubic_antialias",
    how: How = "interpolate",
) -> tuple[S, dict[str, Array]]:
    """A learned table for another length, grid or window.

        interpolate  weight'[i] = sum over t of  k(t, i) * weight[t]
        tile         PE'(p) = PE(p mod length)
        sinusoidal   PE'(p) = a * sin_cos(p)       p >= length

    Interpolation moves every row. The other two keep the rows that are there, bit for bit, and add
    new ones as a beginning to train from: the old ones again, or the sinusoid of Vaswani et al.
    (2017), to which a gives the root mean square of the old rows.

    Each axis is resampled in turn: the rows of positions of a table, or the offsets of a bias or of
    a relative encoding, 2 n - 1 of them for a length n where both directions have entries. Reserved
    rows and prefix rows (`start`, `prefix`) and the entries of a class token stay as they are, and
    at the same length every number does, bit for bit.

    Parameters
    ----------
    spec : Learned, WindowTable, OffsetTable or Decomposed
        The spec of the parameters; also a `Concatenated` of the first.
    params : mapping of str to array
        Its parameters, of any library.
    length : int or tuple of int
        The new usable length, in the form of `spec.length`: (rows, columns) for a grid; or the new
        `spec.window` or `spec.size`.
    method : str
        `cubic_antialias` is what timm's `resample_abs_pos_embed` does unless told otherwise;
        `cubic` is the bicubic interpolation of ViT, DeiT and DINOv2 in transformers, and of windows
        in timm; `linear_antialias` that of images of any size in SigLIP 2. `linear` interpolates a
        sequence, the offsets of BEiT in transformers, and those of decomposed encodings (SAM,
        ViTDet, MViTv2). `linear_corners` and `cubic_corners` keep the first and last rows in place.
    how : {"interpolate", "tile", "sinusoidal"}
        Where the rows come from. The last two are for tables of one axis, or with a table for each,
        and for lengths of at least the old one.

    Returns
    -------
    tuple
        The new spec, and new parameters in the dtype, library and device of the given ones. The
        arithmetic is float32 (float64 for float64), and gradients flow through it.

    Raises
    ------
    ArgumentError
        If the length is not positive, has another number of axes or is too short, a word is
        unknown, a method is named and nothing is interpolated, or the parameters are not those of
        the spec.
    SpecError
        If the spec has no table to interpolate, or its pad row stands among the rows.

    References
    ----------
    Keys, "Cubic convolution interpolation for digital image processing", 1981.

    Examples
    --------
    A class token and 14 x 14 patches become a class token and 8 x 20 patches:

    >>> import posenc
    >>> spec = posenc.Learned(6, length=(14, 14), lookup=posenc.Lookup(prefix=1))
    >>> spec, params = posenc.resize(spec, posenc.init(spec), (8, 20))
    >>> params["weight"].shape, spec.length
    ((161, 6), (8, 20))

    A window of 7 x 7 becomes one of 12 x 12:

    >>> spec = posenc.WindowTable(4, window=(7, 7))
    >>> spec, params = posenc.resize(spec, posenc.init(spec), (12, 12), method="cubic")
    >>> params["weight"].shape, spec.window
    ((529, 4), (12, 12))

    A table of 512 positions becomes one of 4,096, whose first 512 are the old ones:

    >>> spec = posenc.Learned(6, length=512, start=2, pad=1)
    >>> longer, params = posenc.resize(spec, posenc.init(spec), 4096, how="tile")
    >>> params["weight"].shape
    (4098, 6)
    """
    if how != "interpolate" and method != METHODS[0]:
        raise ArgumentError(f"resize: method is of interpolation, and how={how!r} does none.")
    layout = _offsets_of(spec) if how == "interpolate" else None
    if layout is not None:
        size = _lengths(length, len(layout.size))
        tables = _resized(layout, _learned_arrays(spec, params), size, method)
        return spec.replace(**{layout.field: size}), tables
    learned, rebuilt = _learned(spec)
    if how == "interpolate" and learned.pad is not None and learned.pad >= learned.start:
        raise bad_spec(
            "resize",
            "a pad row before `start`, which interpolation leaves alone",
            f"pad={learned.pad}, start={learned.start}",
        )
    by_axis = learned.lookup.rule != "grid" and len(learned.lengths) <= len(learned.axes)
    if how != "interpolate" and not by_axis:
        raise bad_spec(
            "resize",
            "a table for each axis, as rows of a grid would change their places",
            f"length={learned.length}",
            "Leave out `how`.",
        )
    lengths = _lengths(length, len(learned.lengths))
    new = learned.replace(length=lengths[0] if len(lengths) == 1 else lengths)
    arrays = _learned_arrays(spec, params)
    for name, (old, now, kept) in _sides(learned, new).items():
        arrays[name] = (
            _interpolated(arrays[name], old, now, method, first=kept)
            if how == "interpolate"  # prefix rows are positions too, where rows are left alone
            else _lengthened(arrays[name], old[0], now[0], min(kept, learned.start), how)
        )
    return rebuilt(new), arrays


def _lengthened(weight: Array, old: int, now: int, kept: int, how: How) -> Array:
    """Rows for more positions, its own unchanged bit for bit."""
    xp = namespace(weight, "resize")
    have, expected = weight.shape[0] - kept, now - old + weight.shape[0] - kept
    if expected < have:
        raise bad_argument("resize: length", f"at least {old}", now)
    if how == "tile":
        row = carried(kept + np.arange(have, expected) % have, xp, device_of(weight))
        tail = xp.take(weight, row, axis=0)
    else:
        tail = _sinusoid(weight, kept, expected, xp)
    return xp.concat([weight, tail], axis=0)


def _learned(spec: Any) -> tuple[Learned, Any]:
    """The learned table of a spec, and how to put another into its place."""
    if isinstance(spec, Concatenated) and isinstance(spec.table, Learned):
        return spec.table, lambda table: spec.replace(table=table)
    if not isinstance(spec, Learned):
        raise bad_spec(
            "resize",
            "a learned table",
            name_of(spec),
            "Others are computed at any position." if isinstance(spec, TableSpec) else "",
        )
    return spec, lambda table: table


def _lengths(length: Any, count: int) -> tuple[int, ...]:
    lengths = tuple(length) if isinstance(length, (tuple, list)) else (length,)
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in lengths)
    if len(lengths) != count or not whole or min(lengths) < 1:
        raise bad_argument(
            "resize: length",
            "one positive number" if count == 1 else f"{count} positive numbers",
            length,
        )
    return lengths


def _learned_arrays(spec: Spec, params: Mapping[str, Array]) -> dict[str, Array]:
    if not isinstance(params, Mapping) or not params:
        raise bad_argument(
            "resize: params",
            "the arrays of the spec",
            params,
            "`posenc.init(spec, seed)` makes initial params.",
        )
    first = next(iter(params.values()))
    xp = namespace(first, "resize: params")
    return parameters(spec, params, xp=xp, device=device_of(first), caller="resize")


def _sides(old: Learned, new: Learned) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Of each table: its sides before and after, and how many rows before them are no position."""
    if old.lookup.shared:
        return {"weight": (old.lengths, new.lengths, old.start + old.lookup.prefix)}
    return {
        name: ((a,), (b,), old.start)
        for name, a, b in zip(old.lookup.names(), old.lengths, new.lengths, strict=True)
    }


class Offsets(NamedTuple):
    """How a spec keeps what it learned of offsets."""

    field: str  # of the spec, its size
    size: tuple[int, ...]
    twice: bool  # whether both directions have entries: 2 n - 1 of them, or n
    along: int | None  # the axis of the offsets in the table; None: a table for each axis
    kept: int = 0  # entries at the end that stand for no offset

    def lengths(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Entries along each axis for a size."""
        return tuple(2 * n - 1 for n in size) if self.twice else size


def _offsets_of(spec: Any) -> Offsets | None:
    """The layout of the tables of a spec, or None where it has none of offsets on a grid."""
    if isinstance(spec, WindowTable):
        kept = 3 if spec.extra == "class_token" else 0
        return Offsets("window", spec.window, twice=True, along=0, kept=kept)
    if isinstance(spec, OffsetTable):
        return Offsets("size", spec.size, twice=False, along=1)
    if isinstance(spec, Decomposed):
        return Offsets("size", spec.size, twice=True, along=None)
    return None


def _resized(
    layout: Offsets, params: dict[str, Array], size: tuple[int, ...], method: Method
) -> dict[str, Array]:
    """The tables for another size."""
    old, new = layout.lengths(layout.size), layout.lengths(size)
    if layout.along is None:
        # A table for each axis, in the order of the axes: rows of offsets by channels.
        return {
            name: _interpolated(params[name], (a,), (b,), method)
            for name, a, b in zip(params, old, new, strict=True)
        }
    tables = {}
    for name, table in params.items():
        xp = namespace(table, "resize")
        rows = table if layout.along == 0 else xp.matrix_transpose(table)
        rows = _interpolated(rows, old, new, method, last=layout.kept)
        tables[name] = rows if layout.along == 0 else xp.matrix_transpose(rows)
    return tables


def _interpolated(
    rows: Array,
    old: tuple[int, ...],
    new: tuple[int, ...],
    method: Method,
    *,
    first: int = 0,
    last: int = 0,
) -> Array:
    """Rows that are a flattened grid, but for the first or the last ones, which are kept."""
    xp = namespace(rows, "resize")
    end, width = rows.shape[0] - last, rows.shape[1]
    grid = astype(rows[first:end, :], compute_dtype(rows.dtype, xp), xp)
    grid = xp.reshape(grid, (*old, width))
    for axis in reversed(range(len(old))):
        grid = resample(grid, axis, new[axis], method, xp=xp)
    grid = astype(xp.reshape(grid, (-1, width)), rows.dtype, xp)
    kept = [rows[:first, :], grid, rows[end:, :]]
    return xp.concat(kept, axis=0) if first or last else grid


def _sinusoid(weight: Array, kept: int, expected: int, xp: Any) -> Array:
    """Sinusoids for the positions past the table, as large as its rows are on the whole."""
    inner = compute_dtype(weight.dtype, xp)
    have, width = weight.shape[0] - kept, weight.shape[-1]
    rows = astype(weight[kept:, :], inner, xp)
    tail = carried(_unit_rows(width, have, expected), xp, device_of(weight))
    return astype(astype(tail, inner, xp) * xp.sqrt(xp.mean(rows * rows)), weight.dtype, xp)


@compile_time
@checked_call
def _unit_rows(width: int, first: int, end: int) -> np.ndarray:
    """Rows of sinusoids whose root mean square is 1, float64."""
    plain, numpy = Sinusoidal(width), library(np)
    positions = np.arange(first, end, dtype=np.int64)[:, None]
    rows: np.ndarray = plain.rows(positions, plain.arrays, dtype=numpy.float64, xp=numpy)
    size = math.sqrt(float(np.square(rows).mean())) if rows.size else 1.0
    return rows / size
