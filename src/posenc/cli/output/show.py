"""What the commands print for people: aligned strips of numbers, elided in the middle."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import numpy as np

from posenc.cli.output.lines import clean, columns_of, wrapped

if TYPE_CHECKING:
    from posenc.cli.options.places import PositionSequence

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 16
NAME_WIDTH = 12
MOST_ROWS = 40


def fit(text: str, width: int) -> str:
    """The text in exactly `width` columns, cut with an ellipsis or filled with spaces."""
    text = clean(text)
    if columns_of(text) > width:
        while columns_of(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - columns_of(text))


def elide(count: int, most: int) -> list[int | None]:
    """Indices 0 to count - 1, at most `most` of them, None where the middle is left out."""
    if count <= most:
        return list(range(count))
    head = (most + 1) // 2
    return [*range(head), None, *range(count - (most - head), count)]


def shade(value: float, largest: float) -> str:
    """The bar of a value, lowest at -largest, highest at +largest."""
    if not math.isfinite(value):
        return "?"
    part = (value / largest + 1) / 2 if largest else 0.5
    return BARS[min(len(BARS) - 1, int(part * len(BARS)))]


class AlignedRows:
    """Rows of numbers under one heading, aligned with those of other headings."""

    def __init__(self, names: Sequence[str] | None, places: PositionSequence, width: int) -> None:
        self.rows = elide(len(places), MOST_ROWS)
        self.names = names
        self.count = len(places)
        self.labels = {i: places.label(i) for i in self.rows if i is not None}
        widths = (columns_of(clean(name)) for name in names or ())
        self.name_width = 0 if names is None else min(NAME_WIDTH, max([5, *widths]))
        self.place_width = max([3, *map(len, self.labels.values())])
        self.width = width

    def block(self, heading: str, row: Callable[[int], np.ndarray], dim: int) -> Iterator[str]:
        """The lines of a block; `row(i)` gives the `dim` numbers of row i."""
        shown = {i: np.asarray(row(i), dtype=np.float64) for i in self.rows if i is not None}
        flat = np.concatenate([*shown.values(), np.zeros(1)])
        largest = float(np.max(np.abs(flat[np.isfinite(flat)])))
        number = max([5, *(len(_number(v)) for values in shown.values() for v in values)])
        bars = elide(dim, MOST_BARS)
        taken = self.name_width + bool(self.name_width) + self.place_width
        room = (self.width - taken - 2 - len(bars)) // (number + 1)
        picked = elide(dim, dim if room >= dim else max(2, room - 1))

        def line(name: str, place: str, text: Callable[[int], str]) -> str:
            front = [fit(name, self.name_width)] if self.names is not None else []
            cells = (" …" if c is None else text(c).rjust(number) for c in picked)
            return " ".join([*front, place.rjust(self.place_width), *cells])

        yield from wrapped(heading, self.width)
        yield click.style(line("token", "pos", str), dim=True)
        for i in self.rows:
            if i is None:
                yield f"… {self.count - len(shown)} more rows (all of them with --json or -o)"
                continue
            texts = {c: _number(shown[i][c]) for c in picked if c is not None}
            shades = ("…" if c is None else shade(float(shown[i][c]), largest) for c in bars)
            name = self.names[i] if self.names is not None else ""
            yield f"{line(name, self.labels[i], texts.__getitem__)}  {''.join(shades)}"
        yield click.style(f"{BARS[0]} {-largest:.3g} to {BARS[-1]} {largest:.3g}", dim=True)


def _number(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 1000 else f"{value:.3g}"
    return "0.00" if text == "-0.00" else text


@contextlib.contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], object]]:
    """A progress bar on standard error, where that is a screen."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
