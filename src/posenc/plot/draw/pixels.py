"""Pixels of the device in axes, as they are computed: nothing resamples them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.plot import palette


def drawable(axes: Any) -> Any:
    """The axes that a caller gave; `ArgumentError` if they are none, such as positions."""
    if not hasattr(axes, "get_window_extent") or not hasattr(axes, "figure"):
        received = f"{axes!r}" if isinstance(axes, int | str) else type(axes).__name__
        todo = "All else goes by its name, such as positions=."
        raise ArgumentError(mismatch("plot: ax", "axes of matplotlib", received[:80], todo))
    if getattr(axes, "name", "rectilinear") != "rectilinear":
        raise ArgumentError(mismatch("plot: ax", "axes at right angles", f"{axes.name} axes"))
    return axes


def device(axes: Any) -> tuple[int, int]:
    """Rows and columns of the device in axes, at the resolution of their figure."""
    box = drawable(axes).get_window_extent()
    return whole(box.height), whole(box.width)


def whole(pixels: float) -> int:
    """A whole number of pixels: half of one is one more, whatever was lost on the way."""
    return max(1, math.floor(pixels + 0.5 + 1e-6))


def fill(axes: Any, paint: Callable[[int, int], np.ndarray]) -> None:
    """Fill the box of axes, whatever their limits, with pixels of the device, never resampled.

    `paint` gives for rows and columns of the device the colours, (rows, columns, 3) uint8.
    """
    from matplotlib.artist import Artist

    class Pixels(Artist):
        """What `paint` gives, at the size that the device has when it is drawn."""

        def draw(self, renderer: Any) -> None:
            box = axes.bbox
            fine = renderer.get_image_magnification()
            rows, columns = whole(box.height * fine), whole(box.width * fine)
            rgb = paint(rows, columns)
            opaque = np.full((*rgb.shape[:2], 1), 255, dtype=np.uint8)
            # Devices count rows from the bottom.
            rgba = np.ascontiguousarray(np.concatenate([rgb, opaque], axis=2)[::-1])
            gc = renderer.new_gc()
            renderer.draw_image(gc, round(box.x0), round(box.y0), rgba)
            gc.restore()

    artist = Pixels()
    artist.set_figure(axes.figure)
    # Above the ticks, whose ends would reach into the outermost pixels.
    axes.set_axisbelow(True)
    artist.set_zorder(0.6)
    axes.add_artist(artist)
    artist.set_clip_on(False)


def spread(indices: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Cells as pixels, each cell as often as it takes; more cells than pixels are thinned."""
    down = np.arange(rows) * indices.shape[0] // rows
    across = np.arange(columns) * indices.shape[1] // columns
    return indices[down[:, None], across]


def hatched(rgb: np.ndarray, absent: np.ndarray, theme: palette.Theme) -> np.ndarray:
    """Colours with diagonal lines where there is no number."""
    if not absent.any():
        return rgb
    down, across = np.indices(absent.shape)
    line = absent & ((down + across) % 7 < 1)
    colour = tuple(int(theme.muted[i : i + 2], 16) for i in (1, 3, 5))
    rgb = rgb.copy()
    rgb[line] = colour
    return rgb
