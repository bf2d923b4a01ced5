"""Positions on grids and of boxes. `posenc.positions` is their public home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import (
    Array,
    arange,
    astype,
    concrete,
    device_of,
    dtype_name,
    dtype_named,
    is_array,
    library,
    namespace,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.calls import numpy_rules
from posenc._core.errors import bad_argument
from posenc._core.positions.counting import real_tokens

AXES = {1: ("position",), 2: ("row", "column"), 3: ("time", "row", "column")}  # by their number
Normalise = Literal["none", "unit", "centred", "reference"]


@numpy_rules
def grid(
    sizes: Mapping[str, int] | Sequence[int],
    *,
    axes: Sequence[str] | None = None,
    order: Literal["row_major", "column_major"] = "row_major",
    start: float = 0,
    normalise: Normalise = "none",
    ends: Literal["cells", "points"] = "cells",
    reference: Sequence[float] | float | None = None,
    scale: Sequence[float] | float = 1,
    block: int = 1,
    prefix: int = 0,
    dtype: Any = None,
    xp: Any = np,
    device: Any = None,
) -> Array:
    """Positions of the tokens of a grid of any number of axes, flattened into a sequence.

        none        i + start
        unit        (i + start) / span
        centred     2 (i + start) / span - 1
        reference   (i + start) / (size / reference)

    with i = 0, …, size - 1 along an axis, and in the end divided by `scale`. The span is the size;
    with `ends="points"` it is size - 1, so that the first and the last point are the ends.

    Parameters
    ----------
    sizes : mapping of str to int, or sequence of int
        Tokens along each axis, the slowest axis of a row-major sequence first: `{"h": 5, "w": 7}`.
    axes : sequence of str, optional
        The order of coordinates in the result, names of `sizes`; the order of `sizes` by default.
        Give `axes=spec.axes`, and height and width cannot be confused.
    order : {"row_major", "column_major"}
        Whether tokens run along the last axis first (row after row), or along the first.
    start : float
        The first coordinate: 1 for code that counts from one, 0.5 for the centres of pixels.
    normalise : {"none", "unit", "centred", "reference"}
        The rule.
    ends : {"cells", "points"}
        Whether the span of an axis is its cells or the distance between its end points.
    reference : float or sequence of float, optional
        With `normalise="reference"`, the sizes that this grid is stretched to, in the order of
        `sizes`: positions of another resolution, as a model was trained with.
    scale : float or sequence of float
        What coordinates are divided by, one number or one for each of `sizes`.
    block : int
        Along the last two axes of `sizes`, tokens run through blocks of so many rows and columns,
        block after block: patches that are merged later stand together.
    prefix : int
        Tokens before the grid, such as a class token. All their coordinates are -1: a spec with
        `pad=-1` gives them rows of zeros.
    dtype : dtype or str, optional
        float32 (default) or float64; coordinates that are integers stay so unless it is given.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array
        (prefix + tokens, axes): integers when nothing divides them, else `dtype`.

    Raises
    ------
    ArgumentError
        If a size, name or number does not fit.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.grid({"h": 2, "w": 3}, axes=("w", "h"))
    array([[0, 0],
           [1, 0],
           [2, 0],
           [0, 1],
           [1, 1],
           [2, 1]])
    >>> posenc.positions.grid([2, 1], start=0.5, normalise="centred")
    array([[-0.5,  0. ],
           [ 0.5,  0. ]], dtype=float32)
    """
    caller = "positions.grid"
    xp = library(xp)
    names, lengths = _names(sizes, caller)
    count = len(lengths)
    scales = _for_each(scale, count, f"{caller}: scale")
    if (reference is not None) != (normalise == "reference"):
        raise bad_argument(
            f"{caller}: reference", "none, unless normalise='reference'", repr(reference)
        )
    references = _for_each(1 if reference is None else reference, count, f"{caller}: reference")
    whole = normalise == "none" and _is_whole(start) and all(s == 1 for s in scales)
    if prefix and not whole:
        raise bad_argument(
            f"{caller}: prefix",
            "0 unless coordinates count",
            prefix,
            "A class token has no coordinate there; put its row in front yourself.",
        )
    if block != 1:
        _check_block(block, lengths, order, caller)
    lines = []
    for size, ref, divisor in zip(lengths, references, scales, strict=True):
        line = arange(size, xp=xp, device=device)
        if whole and dtype is None:
            lines.append(line + int(start))
            continue
        real = dtype_named("float32" if dtype is None else dtype, xp, caller)
        line = xp.astype(line, real) + start
        span = size if ends == "cells" else size - 1 + (size == 1)
        if normalise == "unit":
            line = line / span
        elif normalise == "centred":
            line = (line * 2 - span) / span
        elif normalise == "reference":
            line = line / (size / ref)
        lines.append(line if divisor == 1 else line / divisor)
    columns = _product(lines, order, xp)
    if block != 1:
        columns = [_in_blocks(column, lengths, block, xp) for column in columns]
    if axes is not None:
        columns = [columns[place] for place in _places(axes, names, caller)]
    tokens = xp.stack(columns, axis=-1)
    if prefix:
        tokens = xp.concat(
            [xp.zeros((prefix, count), dtype=tokens.dtype, device=device) - 1, tokens], axis=0
        )
    return tokens


def _names(sizes: Any, caller: str) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    names = tuple(sizes) if isinstance(sizes, Mapping) else None
    try:
        lengths = tuple(sizes.values() if isinstance(sizes, Mapping) else sizes)
    except TypeError:
        raise bad_argument(
            f"{caller}: sizes", "one size for each axis, such as {'h': 5, 'w': 7}", repr(sizes)
        ) from None
    # Symbolic sizes are no ints, and must not become such.
    if not lengths or any(isinstance(n, (bool, float, str)) or n < 0 for n in lengths):
        raise bad_argument(f"{caller}: sizes", "at least one size, each of 0 or more", sizes)
    return names, lengths


def _for_each(value: Any, count: int, caller: str) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,) * count
    if len(values) != count or any(not v > 0 for v in values):
        raise bad_argument(caller, f"a positive number, or {count} of them", repr(value))
    return values


def _is_whole(start: float) -> bool:
    return not isinstance(start, float) or start.is_integer()


def _places(axes: Sequence[str], names: tuple[str, ...] | None, caller: str) -> list[int]:
    if names is None:
        raise bad_argument(
            f"{caller}: axes",
            "sizes with names",
            "a sequence",
            "Give sizes by name: {'h': 5, 'w': 7}.",
        )
    if sorted(axes) != sorted(names):
        raise bad_argument(f"{caller}: axes", f"the names {names}", tuple(axes))
    return [names.index(name) for name in axes]


def _check_block(block: Any, lengths: tuple[Any, ...], order: str, caller: str) -> None:
    whole = isinstance(block, int) and not isinstance(block, bool) and block > 0
    fits = whole and len(lengths) > 1 and order == "row_major"
    if not fits or any(size % block for size in lengths[-2:]):
        raise bad_argument(
            f"{caller}: block",
            "a whole number that divides the last two sizes, in row-major order",
            f"{block!r} for sizes {lengths}",
        )


def _in_blocks(column: Array, lengths: tuple[Any, ...], block: int, xp: Any) -> Array:
    """A coordinate of row-major tokens, block after block."""
    rows, columns = lengths[-2:]
    cells = xp.reshape(column, (-1, rows // block, block, columns // block, block))
    return xp.reshape(xp.permute_dims(cells, (0, 1, 3, 2, 4)), (-1,))


def _product(lines: list[Array], order: str, xp: Any) -> list[Array]:
    """Each line repeated over the grid of all of them, flattened."""
    # The slowest axis of the sequence comes first in memory.
    slowest = lines if order == "row_major" else lines[::-1]
    extent = tuple(line.shape[0] for line in slowest)
    columns = []
    for place, line in enumerate(slowest):
        thin = tuple(size if place == axis else 1 for axis, size in enumerate(extent))
        columns.append(xp.reshape(xp.broadcast_to(xp.reshape(line, thin), extent), (-1,)))
    return columns if order == "row_major" else columns[::-1]


@numpy_rules
def from_grid_mask(
    mask: Array,
    *,
    start: float = 1,
    normalise: Literal["none", "unit"] = "none",
    margin: float = 1e-6,
    axes: int = 2,
    dtype: Any = None,
) -> Array:
    """Positions of the cells of padded grids: each counts the real cells up to it, along each axis.

        none   position[..., a] = n - 1 + start,  n the cumulative sum of the mask along axis a
        unit   that, divided by (the last n along the axis + margin)

    Parameters
    ----------
    mask : array of bool or integers
        (..., h, w) for two axes; true or 1 for real cells.
    start : float
        The coordinate of the first real cell; 0.5 for code that counts cells from one half, as
        Deformable DETR does.
    normalise : {"none", "unit"}
        The rule; a factor such as 2 pi belongs in the ladder of the spec, as `first`.
    margin : float
        What keeps the division from failing where nothing is real.
    axes : int
        Axes of the grid: the last ones of the mask.
    dtype : dtype or str, optional
        float32 (default) or float64, of coordinates that are no integers.

    Returns
    -------
    array
        (..., cells, axes), cells row after row, coordinates in the order of the axes of the mask.
        Integers, or `dtype` where they are divided or start between two.

    Raises
    ------
    ArgumentError
        If the mask has fewer axes, or holds anything but 0 and 1.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_grid_mask([[1, 1, 0], [1, 1, 0]])
    array([[1, 1],
           [1, 2],
           [0, 2],
           [2, 1],
           [2, 2],
           [0, 2]])
    """
    caller = "positions.from_grid_mask"
    mask = mask if is_array(mask) else np.asarray(mask)
    if axes < 1 or len(mask.shape) < axes:
        raise bad_argument(
            caller, f"a mask of at least {max(axes, 1)} axes", f"shape {tuple(mask.shape)}"
        )
    real, xp = real_tokens(mask, caller)
    integer = arange(1, xp=xp, device=device_of(mask)).dtype
    lead = tuple(mask.shape)[: len(mask.shape) - axes]
    columns = []
    for axis in range(-axes, 0):
        count = xp.cumulative_sum(xp.astype(real, integer), axis=axis)
        if normalise == "none" and _is_whole(start):
            columns.append(xp.reshape(count + (int(start) - 1), (*lead, -1)))
            continue
        count = xp.astype(count, dtype_named("float32" if dtype is None else dtype, xp, caller))
        line = count if start == 1 else count + (start - 1)
        if normalise == "unit":
            # The last entry along the axis, with the axis kept.
            last = [slice(None)] * len(count.shape)
            last[axis] = slice(-1, None)
            line = line / (count[tuple(last)] + margin)
        columns.append(xp.reshape(line, (*lead, -1)))
    return xp.stack(columns, axis=-1)


@numpy_rules
def boxes(
    corners: Array,
    *,
    form: Literal["centre", "corners", "corners_and_size"] = "centre",
    size: tuple[float, float] | None = None,
) -> Array:
    """Coordinates of boxes from their corners.

        centre            (x, y, w, h)              x, y the centre
        corners           (x0, y0, x1, y1)
        corners_and_size  (x0, y0, x1, y1, w, h)

    Parameters
    ----------
    corners : array
        (..., 4): x0, y0, x1, y1, left and top before right and bottom.
    form : {"centre", "corners", "corners_and_size"}
        The coordinates wanted.
    size : tuple of float, optional
        Width and height of the image, which coordinates are then divided by.

    Returns
    -------
    array
        (..., 4) or (..., 6). Integers for integer corners, unless a centre or a size needs
        float32; floats keep their dtype.

    Raises
    ------
    ArgumentError
        If the last axis is not of length 4, or a box ends before it begins.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.boxes([[10, 20, 30, 60]], form="corners_and_size")
    array([[10, 20, 30, 60, 20, 40]])
    """
    caller = "positions.boxes"
    corners = corners if is_array(corners) else np.asarray(corners)
    xp = namespace(corners, caller)
    if not corners.shape or corners.shape[-1] != 4:
        raise bad_argument(
            f"{caller}: corners", "shape (..., 4): x0, y0, x1, y1", f"shape {tuple(corners.shape)}"
        )
    numbers = concrete(corners)
    if numbers is not None and (numbers[..., 2:] < numbers[..., :2]).any():
        raise bad_argument(
            caller,
            "boxes that end after they begin",
            "others",
            "Corners are x0, y0, x1, y1 with x0 <= x1 and y0 <= y1.",
        )
    if dtype_name(corners.dtype).startswith(("int", "uint")):
        whole = size is None and form != "centre"
        corners = integers(corners, xp=xp, device=device_of(corners), caller=caller)
        corners = corners if whole else astype(corners, xp.float32, xp)
    x0, y0, x1, y1 = (corners[..., k] for k in range(4))
    if size is not None:
        width, height = size
        x0, x1, y0, y1 = x0 / width, x1 / width, y0 / height, y1 / height
    w, h = x1 - x0, y1 - y0
    return (
        xp.stack([(x0 + x1) / 2, (y0 + y1) / 2, w, h], axis=-1)
        if form == "centre"
        else xp.stack([x0, y0, x1, y1, *([w, h] if form == "corners_and_size" else [])], axis=-1)
    )
