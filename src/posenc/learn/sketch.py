"""Small pictures of questions: rows of numbers, as SVG for a page and as blocks for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from posenc._core.errors import DataError, mismatch

MOST = 64  # points of a row: as many as a line of a terminal has room for
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, GAP, LEFT = 480, 56, 14, 64


class Sketch(NamedTuple):
    """Rows of numbers, drawn one above the other on one scale.

    Parameters
    ----------
    title : str
        What is drawn, and over what.
    rows : tuple of (str, tuple of float)
        The label of each row, and its numbers.

    Examples
    --------
    >>> from posenc.learn import question
    >>> picture = question("rope", "which-score").picture
    >>> [label for label, values in picture.rows]
    ['A', 'B', 'C']
    """

    title: str
    rows: tuple[tuple[str, tuple[float, ...]], ...]


def sketch_of(title: str, rows: Mapping[str, Sequence[float]], caller: str) -> Sketch:
    """The picture of rows that were computed."""
    picture = Sketch(title, tuple((k, tuple(map(float, v))) for k, v in rows.items()))
    if not picture.rows or any(not 2 <= len(values) <= MOST for _, values in picture.rows):
        raise DataError(
            mismatch(caller, f"rows of 2 to {MOST} numbers", [len(v) for _, v in picture.rows])
        )
    return picture


def svg(picture: Sketch) -> str:
    """The picture as SVG in the colour of the text around it, on a line of its own."""
    height = len(picture.rows) * (HEIGHT + GAP)
    shapes = []
    for row, (label, heights) in enumerate(_scaled(picture)):
        top = row * (HEIGHT + GAP) + GAP / 2
        step = (WIDTH - LEFT) / (len(heights) - 1)
        points = " ".join(
            f"{LEFT + i * step:.1f},{top + HEIGHT * (1 - y):.1f}" for i, y in enumerate(heights)
        )
        shapes.append(
            f'<text x="0" y="{top + HEIGHT / 2 + 5:.0f}" fill="currentColor">{escape(label)}</text>'
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        )
    return (
        f'<svg viewBox="0 -4 {WIDTH + 4} {height + 8}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(picture.title)}" font-size="15">{"".join(shapes)}</svg>'
    )


def blocks(picture: Sketch) -> str:
    """The picture as a line of block characters for each row."""
    wide = max(len(label) for label, _ in picture.rows)
    lines = [picture.title]
    for label, heights in _scaled(picture):
        marks = "".join(BLOCKS[min(int(y * len(BLOCKS)), len(BLOCKS) - 1)] for y in heights)
        lines.append(f"{label.ljust(wide)}  {marks}")
    return "\n".join(lines)


def _scaled(picture: Sketch) -> Iterator[tuple[str, list[float]]]:
    """The rows between 0 and 1, all on one scale."""
    every = [value for _, values in picture.rows for value in values]
    low, span = min(every), (max(every) - min(every)) or 1.0
    for label, values in picture.rows:
        yield label, [(value - low) / span for value in values]
