"""Draw a table as it is: each number a whole square of pixels of one colour, nothing smoothed.

python tools/pages/picture.py out/table.png --dim 128 --length 128
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import posenc
from posenc.plot import palette
from posenc.plot.draw.layout import Room
from posenc.plot.draw.look import framed
from posenc.plot.draw.paper import paint
from posenc.plot.draw.sheet import Sheet
from posenc.plot.panels.grammar import Heatmap, cells
from posenc.plot.panels.text import brief, number
from posenc.plot.rows import PictureRow


def draw_table(spec: Any, length: int, path: Path, *, cell: int = 4, title: str = "") -> Path:
    """Write a PNG of rows 0 to length - 1, `cell` x `cell` pixels to a number."""
    values = posenc.table(spec, length, params=posenc.init(spec))
    labels = ("position", "dimension")
    return draw(values, path, cell=cell, title=title or brief(spec), labels=labels)


def draw(
    values: np.ndarray, path: Path, *, labels: tuple[str, str], cell: int = 4, title: str = ""
) -> Path:
    """Write a PNG of a matrix, `cell` x `cell` pixels to a number."""
    limit = float(np.abs(values).max()) or 1.0
    rows, columns = values.shape
    high, wide = cell * rows, cell * columns
    about = f"{rows} × {columns} numbers, a square of pixels each"
    row = PictureRow("matrix", "", question=title)
    sheet = Sheet(None, framed({}), row, SimpleNamespace(title=about, caption=()))
    matrix = Heatmap(
        id="matrix",
        title="",
        tile=palette.indices(np.asarray(values, float), limit),
        lut="diverging",
        x=cells(labels[1], 0, columns),
        y=cells(labels[0], 0, rows),
        low=number(-limit),
        high=number(limit),
    )
    paint(sheet, [matrix], Room(wide, (wide, high)))
    path.parent.mkdir(parents=True, exist_ok=True)
    made = sheet.picture("matrix", values, {"labels": labels, "cell": cell})
    return made.save(path, existing="replace")


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
