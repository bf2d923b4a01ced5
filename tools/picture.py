"""Draw a table as it is: each number a whole square of pixels of one colour, nothing smoothed.

python tools/picture.py out/table.png --dim 128 --length 128
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import posenc

__all__ = ["draw", "draw_table"]

DPI = 100
MARGINS = {"left": 62, "right": 104, "bottom": 52, "top": 34}  # pixels, for labels and colour bar


def draw_table(spec: Any, length: int, path: Path, *, cell: int = 4, title: str = "") -> Path:
    """Write a PNG of rows 0 to length - 1, `cell` x `cell` pixels to a number."""
    values = posenc.table(spec, length, params=posenc.init(spec))
    return draw(values, path, cell=cell, title=title, labels=("position", "dimension"))


def draw(
    values: np.ndarray, path: Path, *, labels: tuple[str, str], cell: int = 4, title: str = ""
) -> Path:
    """Write a PNG of a matrix, `cell` x `cell` pixels to a number."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = float(np.abs(values).max())
    height, width = (cell * n for n in values.shape)
    across = MARGINS["left"] + width + MARGINS["right"]
    down = MARGINS["bottom"] + height + MARGINS["top"]
    with mpl.rc_context({"font.size": 9, "axes.linewidth": 0.6}):
        figure = Figure(figsize=(across / DPI, down / DPI), dpi=DPI, facecolor="white")
        FigureCanvasAgg(figure)

        def place(left: int, right: int) -> Any:
            box = (left / across, MARGINS["bottom"] / down, (right - left) / across, height / down)
            return figure.add_axes(box)

        axes = place(MARGINS["left"], MARGINS["left"] + width)
        # A colour map with white at 0: the sign is a hue, the size its depth.
        image = axes.imshow(
            values, cmap="RdBu_r", vmin=-size, vmax=size, interpolation="nearest", aspect="auto"
        )
        axes.set(xlabel=labels[1], ylabel=labels[0], title=title)
        bar_left = MARGINS["left"] + width + 16
        figure.colorbar(image, cax=place(bar_left, bar_left + 12), label="value")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The version of matplotlib would change the bytes of an equal picture.
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--base", type=float, default=10_000)
    parser.add_argument("--cell", type=int, default=4, help="pixels to a number")
    asked = parser.parse_args()
    spec = posenc.Sinusoidal(asked.dim, base=asked.base)
    title = f"Sinusoidal({asked.dim}, base={asked.base:g})"
    print(draw_table(spec, asked.length, asked.path, cell=asked.cell, title=title))


if __name__ == "__main__":
    main()
