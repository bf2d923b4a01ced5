"""Pixels of the device in axes, as they are computed: nothing resamples them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.errors import bad_argument
from posenc.plot import palette
from posenc.plot.rows import require


def drawable(axes: Any) -> Any:
    """The axes that a caller gave; `ArgumentError` if they are none, such as positions."""
    if not hasattr(axes, "get_window_extent") or not hasattr(axes, "figure"):
        raise bad_argument(
            "plot: ax",
            "axes of matplotlib",
            (f"{axes!r}" if isinstance(axes, int | str) else type(axes).__name__)[:80],
            "All else goes by its name, such as positions=.",
        )
    kind = getattr(axes, "name", "rectilinear")
    require(kind == "rectilinear", ": ax", "axes at right angles", f"{kind} axes")
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
            box, fine = axes.bbox, renderer.get_image_magnification()
            rgb = paint(whole(box.height * fine), whole(box.width * fine))
            opaque = np.full((*rgb.shape[:2], 1), 255, dtype=np.uint8)
            # Devices count rows from the bottom.
            gc = renderer.new_gc()
            renderer.draw_image(
                gc,
                round(box.x0),
                round(box.y0),
                np.ascontiguousarray(np.concatenate([rgb, opaque], axis=2)[::-1]),
            )
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
    return indices[
        (np.arange(rows) * indices.shape[0] // rows)[:, None],
        np.arange(columns) * indices.shape[1] // columns,
    ]


def hatched(rgb: np.ndarray, absent: np.ndarray, theme: palette.Theme) -> np.ndarray:
    """Colours with diagonal lines where there is no number."""
    if not absent.any():
        return rgb
    down, across = np.indices(absent.shape)
    return np.where((absent & ((down + across) % 7 < 1))[..., None], palette.rgb(theme.muted), rgb)
