"""What the commands of the study share: their options, the bar, and packages that are absent."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from posenc._core.errors import ArgumentError, DependencyError, PosencError, mismatch, suggest
from posenc.cli.api import grouped

if TYPE_CHECKING:
    from posenc_study.cell import Cell
    from posenc_study.grid import Narrowing
    from posenc_study.results.records import Record

F = TypeVar("F", bound=Callable[..., Any])

EVERY = 20.0  # seconds between lines, where there is no screen for a bar


def need(*packages: str) -> None:
    """Raise, and say what to install, unless some packages are there."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        extra = "[cluster]" if "distributed" in absent else ""
        todo = f"Install them: pip install {shlex.quote(f'posenc-study{extra}')}"
        raise DependencyError(mismatch("posenc study", ", ".join(packages), "none of it", todo))


def _file_name(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """A path that names a file; an empty name would be the current folder."""
    if not path.name:
        raise click.BadParameter("expected the name of a file, got none", context, parameter)
    return path


def store_option(command: F) -> F:
    """Add `--store`."""
    option = click.option(
        "--store",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path("study.sqlite"),
        callback=_file_name,
        show_default=True,
        help="The SQLite file of the results.",
    )
    return option(command)


class NarrowingChoice(NamedTuple):
    """What the command line says about a part of the grid."""

    tasks: str | None = None
    encodings: str | None = None
    seeds: str | None = None
    lengths: str | None = None
    settings: Sequence[str] = ()


narrowing_options = grouped(
    NarrowingChoice,
    "choice",
    click.option("--tasks", metavar="NAMES", help="Some tasks: order,copy."),
    click.option("--encodings", metavar="NAMES", help="Encodings, by name or as JSON: none,rope."),
    click.option("--seeds", metavar="N|LIST", help="The first N, or a list: 0,3,5 or 4:8."),
    click.option("--lengths", metavar="LIST", help="Tested lengths, in trained ones: 1,1.5,2."),
    click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="A hyper-parameter of the tasks: steps=100. May be given again.",
    ),
)


def narrowed(choice: NarrowingChoice) -> Narrowing:
    """The options as a `Narrowing`; what is wrong with one is told with its name."""
    from posenc_study.grid import Narrowing, factors_of, seeds_of

    with _named("--seeds"):
        seeds = seeds_of(choice.seeds) if choice.seeds is not None else ()
    with _named("--lengths"):
        factors = factors_of(choice.lengths) if choice.lengths is not None else ()
    pairs = dict(_setting(text) for text in choice.settings)
    return Narrowing(_names(choice.tasks), _names(choice.encodings), seeds, factors, pairs)


def _names(text: str | None) -> tuple[str, ...]:
    # Commas inside the JSON of a spec part no names.
    parts = re.findall(r"(?:[^,{}]|\{(?:[^{}]|\{[^{}]*\})*\})+", text or "")
    return tuple(part.strip() for part in parts if part.strip())


def _setting(text: str) -> tuple[str, Any]:
    from posenc_study.tasks.base import COMMON

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set {text!r}: write NAME=VALUE, such as steps=100.")
    if name == "data":
        raise click.UsageError("--set data: name the file itself with --data.")
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return name, kind(value)
    if name in COMMON and not isinstance(COMMON[name], str):
        raise click.UsageError(f"--set {text!r}: {value!r} is no number. {suggest(name, COMMON)}")
    return name, value


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Names that nobody knows are mistakes of the command line; files that lie are not."""
    try:
        yield
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def _named(option: str) -> Iterator[None]:
    try:
        yield
    except PosencError as error:
        raise click.UsageError(f"{option}: {error}") from error


# --- progress -------------------------------------------------------------------------------------


@contextlib.contextmanager
def bar(cells: Sequence[Cell], cost: Callable[[Cell], float]) -> Iterator[Callable[..., None]]:
    """A bar with the time that is left, on standard error; lines, where that is no screen."""
    total = sum(map(cost, cells))
    if sys.stderr.isatty():
        label = f"{len(cells)} cells"
        with click.progressbar(
            length=max(1, round(total * 10)), label=label, file=sys.stderr, item_show_func=_shown
        ) as shown:
            yield lambda record: shown.update(max(1, round(cost(record.cell) * 10)), record)
        return
    begun = last = time.monotonic()
    done, count = 0.0, 0

    def line(record: Record) -> None:
        nonlocal last, done, count
        done, count, now = done + cost(record.cell), count + 1, time.monotonic()
        if now - last < EVERY and count < len(cells):
            return
        last = now
        left = duration((now - begun) * (total - done) / done)
        click.echo(f"{count} of {len(cells)} cells, about {left} left", err=True)

    yield line


def _shown(record: Record | None) -> str:
    return "" if record is None else str(record.cell)


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
