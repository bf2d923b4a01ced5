"""Positions from boxes, and offsets counted down."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import (
    Array,
    arange,
    astype,
    concrete,
    device_of,
    dtype_name,
    is_array,
    library,
    namespace,
    numpy_rules,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.errors import bad_argument, one_of


@numpy_rules
def descending(
    first: int, last: int, *, clip: int | None = None, xp: Any = np, device: Any = None
) -> Array:
    """Signed offsets first, first - 1, …, last: the rows of tables for relative attention.

    A layer that looks at keys from `first` tokens back to `-last` tokens ahead reads a table of
    these rows: L-1 down to -(L-1) for both directions, keys-1 down to 0 for the past alone.

    Parameters
    ----------
    first, last : int
        The ends, both included; `first >= last - 1`, where equality gives no rows.
    clip : int, optional
        Offsets beyond this size are cut to it.
    xp : module
        `numpy`, `torch`, `jax.numpy` or another array-API module.
    device : device, optional
        Where the array goes.

    Returns
    -------
    array of integers
        (first - last + 1,).

    Raises
    ------
    ArgumentError
        If the offsets rise, or the clip is negative.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.descending(2, -2)
    array([ 2,  1,  0, -1, -2])
    """
    caller = "positions.descending"
    if isinstance(first, (bool, float, str)) or isinstance(last, (bool, float, str)):
        raise bad_argument(caller, "two integers", f"{first!r} and {last!r}")
    if first < last - 1:
        raise bad_argument(caller, "a first offset above the last", f"{first} and {last}")
    if clip is not None and clip < 0:
        raise bad_argument(f"{caller}: clip", "a distance of at least 0", clip)
    xp = library(xp)
    offsets = first - arange(first - last + 1, xp=xp, device=device)
    return offsets if clip is None else xp.clip(offsets, -clip, clip)


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
    one_of(form, ("centre", "corners", "corners_and_size"), f"{caller}: form")
    corners = corners if is_array(corners) else np.asarray(corners)
    xp = namespace(corners, caller)
    if not corners.shape or corners.shape[-1] != 4:
        raise bad_argument(
            f"{caller}: corners", "shape (..., 4): x0, y0, x1, y1", f"shape {tuple(corners.shape)}"
        )
    numbers = concrete(corners)
    if numbers is not None and (numbers[..., 2:] < numbers[..., :2]).any():
        todo = "Corners are x0, y0, x1, y1 with x0 <= x1 and y0 <= y1."
        raise bad_argument(caller, "boxes that end after they begin", "others", todo)
    if dtype_name(corners.dtype).startswith(("int", "uint")):
        whole = size is None and form != "centre"
        corners = integers(corners, xp=xp, device=device_of(corners), caller=caller)
        corners = corners if whole else astype(corners, xp.float32, xp)
    x0, y0, x1, y1 = (corners[..., k] for k in range(4))
    if size is not None:
        width, height = size
        x0, x1, y0, y1 = x0 / width, x1 / width, y0 / height, y1 / height
    w, h = x1 - x0, y1 - y0
    if form == "centre":
        return xp.stack([(x0 + x1) / 2, (y0 + y1) / 2, w, h], axis=-1)
    return xp.stack([x0, y0, x1, y1, *([w, h] if form == "corners_and_size" else [])], axis=-1)
