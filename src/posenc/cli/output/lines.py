"""Lines for people: as wide as the screen at most; a pipe gets them whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from posenc._core.errors import bad_data, printed

# Lines that people copy, and so stay whole: JSON, options of a shell, Python, a single word.
COPIED = re.compile(r" *(?:[\[{]|--|>>>|\.\.\.|\S+$)")
# The same within a sentence: code, quoted names and paths, JSON, what is to be installed.
WHOLE = re.compile(
    r"`[^`]+`|(?<!\w)'[^']+'(?!\w)|\"[^\"]+\"(?!\w)|\{[^{}]+\}|pip install(?: -\S+)* \S+"
)
# Where the text of a line begins: after the last gap between two columns, or its number in a list.
GAP = re.compile(r"\S {2,}(?=\S)|^ *\d+\. (?=\S)")
FIXED_SPACE = "\0"


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
    width = width_of_lines(err=err)
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
    width = width_of_lines()
    for title, rows in sections.items():
        indent = "  " if title else ""
        longest = max(columns_of(name) + 2 * bool(name) for name, _ in rows)
        print_lines(filter(None, (title,)))
        for name, text in rows:
            line = clean(f"{indent}{name:<{longest}}{text}")
            click.echo("\n".join(wrapped(line, width, len(indent) + longest)))
        if title and title != list(sections)[-1]:
            click.echo()


def error_text(message: str) -> str:
    """An error as standard error shows it: what does not fit a line goes on below, indented."""
    width = width_of_lines(err=True)
    lines = printed(message).split("\n")
    return "\n".join(part for line in lines for part in wrapped(line, width, 2))


def width_of_lines(*, err: bool = False) -> int | None:
    """Columns of the terminal, or of the variable COLUMNS; None for a pipe without it."""
    is_set = os.environ.get("COLUMNS", "").isdigit()
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if is_set or (stream and stream.isatty()) else None


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
    # What is copied out of a sentence keeps its spaces, and is longer than the line if it must.
    joined = WHOLE.sub(lambda part: part[0].replace(" ", FIXED_SPACE), line)
    parts = textwrap.wrap(
        joined,
        width,
        subsequent_indent=" " * (indent if indent <= width * 0.6 else 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(FIXED_SPACE, " ") for part in parts]


def clean(text: str) -> str:
    """The text without characters that move the cursor or cannot be printed."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def columns_of(text: str) -> int:
    """Columns that a text takes on a screen: two for wide characters, none for combining ones."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)
