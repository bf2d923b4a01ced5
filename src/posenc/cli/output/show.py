"""What the commands print for people: aligned strips of numbers, elided in the middle."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from posenc._core.errors import bad_data

if TYPE_CHECKING:
    from posenc.cli.options.places import PositionSequence

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 16
NAME_WIDTH = 12
MOST_ROWS = 40
# Lines that people copy, and so stay whole: JSON, options of a shell, Python, a single word.
COPIED = re.compile(r" *(?:[\[{]|--|>>>|\.\.\.|\S+$)")
GAP = re.compile(r"\S {2,}(?=\S)")  # between two columns


def print_json(value: Any) -> None:
    """One JSON document on standard output; finite numbers only, ASCII only."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        raise bad_data(
            "--json",
            "finite numbers",
            "NaN or infinity",
            "Write the numbers to a file: -o OUT.",
        ) from None
    click.echo(text)


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Lines for people, each without what moves the cursor, as wide as the screen at most."""
    width = width_of_lines()
    for line in lines:
        for part in wrapped(clean(line), width):
            click.echo(part, err=err)


def print_answer(json_: bool, facts: Callable[[], Any], lines: Iterable[str]) -> None:
    """An answer: its facts as JSON where that was asked for, else its lines for people."""
    if json_:
        print_json(facts())
    else:
        print_lines(lines)


def print_definitions(sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Names and what they are, in columns, under the title of each section that has one."""
    width = width_of_lines() or 100
    for title, rows in sections.items():
        indent = "  " if title else ""
        longest = max(columns_of(name) + 2 * bool(name) for name, _ in rows)
        print_lines(filter(None, (title,)))
        for name, text in rows:
            line = clean(f"{indent}{name:<{longest}}{text}")
            click.echo("\n".join(wrapped(line, width, len(indent) + longest)))
        if title and title != list(sections)[-1]:
            click.echo()


def width_of_lines() -> int | None:
    """Columns of the terminal, or of the variable COLUMNS; None for a pipe without it."""
    is_set = os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if is_set or sys.stdout.isatty() else None


def width_of_screen() -> int:
    """Columns of the terminal; 80 where there is none."""
    return width_of_lines() or 80


def wrapped(line: str, width: int | None, indent: int | None = None) -> list[str]:
    """The line in parts of at most `width` columns, indented to where its text begins."""
    if width is None or len(line) <= width or COPIED.match(line):
        return [line]
    if indent is None:
        starts = [gap.end() for gap in GAP.finditer(line) if gap.end() <= width * 0.6]
        indent = max(starts, default=len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (indent if indent <= width * 0.6 else 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def clean(text: str) -> str:
    """The text without characters that move the cursor or cannot be printed."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def columns_of(text: str) -> int:
    """Columns that a text takes on a screen: two for wide characters, none for combining ones."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


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
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
