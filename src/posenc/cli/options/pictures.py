"""What the command line says about the encoding of a picture, and where the picture goes."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from posenc._core.errors import ArgumentError, SpecError
from posenc._core.io import outputs
from posenc._core.numeric.counts import whole
from posenc.cli.options.arrays import ParameterChoice, learnt_from
from posenc.cli.options.common import (
    Count,
    InputFile,
    OutputChoice,
    RenamedOption,
    WholeNumber,
    WordChoice,
    force_option,
    refuse,
    with_options,
)
from posenc.cli.options.encodings import (
    FIELDS,
    LARGEST_DIM,
    OPTIONS as NAMED,
    EncodingChoice,
    fields_of,
    spec_from,
)
from posenc.cli.options.places import grid_sides
from posenc.cli.output.lines import print_json, print_lines
from posenc.plot.draw.picture import FORMATS
from posenc.plot.palette import THEMES
from posenc.plot.rows import PICTURES, PictureOption, PictureRow, pictures_of

F = TypeVar("F", bound=Callable[..., Any])

DIM = 128  # where an encoding needs a size and none is given


@dataclasses.dataclass(frozen=True)
class SpecWords(EncodingChoice):
    """What the command line says about one encoding, which may be a table in a file."""

    table: str | None = None
    tensor: str | None = None
    params: str | None = None
    init_seed: int | None = None


class PlotSubject(NamedTuple):
    """An encoding, what it has learned, and where that came from."""

    spec: Any
    params: Mapping[str, Any] | None
    origin: str


OPTIONS: dict[str, dict[str, Any]] = {
    **NAMED,
    "table": {
        "type": InputFile(),
        "metavar": "FILE",
        "help": "A table of numbers: .npy, .npz, .safetensors, …",
    },
    "tensor": {"metavar": "NAME", "help": "Which one of that file."},
    "params": {
        "type": InputFile(),
        "metavar": "FILE",
        "help": "The parameters of a learned encoding.",
    },
    "init_seed": {"metavar": "N", "type": click.IntRange(0), "help": "Begin it untrained."},
}


# The options that name an encoding, and the same for another one, B, which is as the first but for
# what they say.
FLAGS = {name: name.replace("_", "-") for name in OPTIONS}
spec_words = with_options(
    *(click.option(f"--{FLAGS[name]}", **settings) for name, settings in OPTIONS.items())
)
other_spec_words = with_options(
    *(
        click.option(f"--b-{FLAGS[name]}", **{**settings, "help": f"The --{FLAGS[name]} of B."})
        for name, settings in OPTIONS.items()
    )
)


def usage(call: Callable[[], Any]) -> Any:
    """The result of a call whose mistakes are those of the command line."""
    try:
        return call()
    except (ArgumentError, SpecError) as error:
        raise click.UsageError(str(error)) from error


def chosen(words: SpecWords, picture: str) -> PlotSubject:
    """The encoding that the options name."""
    refuse(
        words.tensor is not None and words.table is None, "--tensor names an array of a --table."
    )
    if words.table is not None and (words.encoding, words.preset, words.spec) == (None,) * 3:
        return _from_file(words)
    spec = spec_from(words, DIM, _example(words, picture))
    named = words.init_seed is not None or words.params is not None
    if not (named or picture in pictures_of(spec) or picture == "compare"):
        return PlotSubject(spec, None, "")  # the picture itself says what it shows
    refuse(
        not named and bool(getattr(spec, "shapes", None)),
        f"{type(spec).__name__} learns {', '.join(getattr(spec, 'shapes', ()))}: give them with "
        "--params FILE, or begin untrained with --init-seed N.",
    )
    learnt = learnt_from(ParameterChoice(words.params, words.init_seed), spec)
    return PlotSubject(spec, learnt.values, learnt.origin)


def _from_file(words: SpecWords) -> PlotSubject:
    from posenc.plot.export import read_table

    for name in (*FIELDS, "params", "init_seed"):
        refuse(getattr(words, name) is not None, f"--{FLAGS[name]}: the --table says everything.")
    spec, params, origin = usage(lambda: read_table(str(words.table), words.tensor))
    return PlotSubject(spec, params, origin)


def _example(words: SpecWords, picture: str) -> dict[str, Any]:
    """The encoding that a picture shows unasked, of a kind that has the fields that are given."""
    example = dict(PICTURES[picture if picture in PICTURES else "table"].example)
    if fields_of(words) and "ladder" in example:  # which is of one width and one base
        example = dict(PICTURES["table"].example)
    if words.pairing is not None and example["type"] != "RoPE":
        example = {"type": "RoPE", "dim": DIM}
    refuse(
        words.heads is not None
        and "heads" not in example
        and (words.encoding or words.preset or words.spec) is None,
        "--heads: say which --encoding has heads.",
    )
    return example


def ranged(text: str, option: str) -> int | tuple[int, int]:
    """`1000`, `128k`, or `FROM:TO` with the end left out."""
    ends = [whole(end.replace(",", "")) for end in text.split(":")]
    refuse(len(ends) > 2 or None in ends, f"{option} {text[:50]!r}: write a number, or FROM:TO.")
    return ends[0] if len(ends) == 1 else (ends[0], ends[1])  # type: ignore[return-value]


def stretch_of(text: str, option: str) -> tuple[int, int]:
    """`FROM:TO`. One number would be one position elsewhere, and is no stretch to draw."""
    span = ranged(text, option)
    if isinstance(span, int):
        raise click.UsageError(
            f"{option} {text}: one number names one of them, and a picture shows a stretch: write "
            f"FROM:TO, or for the first {span} {option} 0:{span}."
        )
    return span


def whole_numbers(text: str, option: str) -> list[int]:
    """`0,1,5-7` as a list; `FROM:TO` in it has its end left out."""
    numbers: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:\s*([-:])\s*(\d{1,9}))?\s*", part)
        if not ends:
            raise click.UsageError(f"{option} {text[:50]!r}: write numbers such as 0,1,5-7 or 0:8.")
        first, last = int(ends[1]), int(ends[3] or ends[1]) - (ends[2] == ":")
        refuse(
            not 0 <= last - first < LARGEST_DIM,
            f"{option} {part!r}: at most {LARGEST_DIM:,} numbers, rising.",
        )
        numbers += range(first, last + 1)
    return numbers


def sides(text: str, spec: Any) -> tuple[int, ...]:
    """The sides of a grid, in the order of the axes of a spec."""
    axes = getattr(spec, "axes", ("position",))
    try:
        named = grid_sides(text, axes)
    except click.BadParameter as error:
        raise click.UsageError(f"--grid: {error.message}") from error
    return tuple(named[axis] for axis in axes)


# --- the options of a row -------------------------------------------------------------------------


# How click reads an option, and what its help shows in the place of its value.
TYPES = {
    "count": Count(1),
    "integer": WholeNumber(),
    "float": click.FLOAT,
    "pixels": click.IntRange(1, 16384),
}
METAVARS = {
    "stretch": "FROM:TO",
    "range": "N|FROM:TO",
    "list": "0,1,5-7",
    "two": "M,N",
    "grid": "HxW",
    "names": "A,B,…",
}
READERS = {"range": ranged, "stretch": stretch_of, "list": whole_numbers}


def row_option(option: PictureOption) -> Callable[[F], F]:
    """An argument of a picture as an option of its command."""
    return click.option(
        option.flag,
        cls=RenamedOption,
        old=option.old,
        help=option.help,
        metavar=METAVARS.get(option.reads),
        type=WordChoice(option.words) if option.words else TYPES.get(option.reads),
        is_flag=option.reads == "flag" or None,
        hidden=option.reads == "stranger",
    )


def arguments_of(
    row: PictureRow, options: dict[str, Any], *specs: Any, view: str = ""
) -> dict[str, Any]:
    """The arguments of a picture of some specs that were given, taken out of the options."""
    # What click calls it: an encoding may have a field of the argument's name.
    texts = [(option, options.pop(option.name or option.argument)) for option in row.options]
    given = {one.argument: _read(one, text, *specs[:1]) for one, text in texts if text is not None}
    reads = any(getattr(spec, "needs_length", False) for spec in specs)
    extent = PICTURES[view or row.name].extent
    if not reads and "length" in given and extent != "offsets" and extent not in given:
        given[extent] = given.pop("length")  # its older spelling
    return given


def _read(option: PictureOption, text: Any, spec: Any = None) -> Any:
    refuse(option.reads == "stranger", f"{option.flag}: {option.help}")
    if option.reads == "grid":
        return sides(text, spec)
    if option.reads == "names":
        return tuple(name.strip() for name in text.split(","))
    if option.reads == "two":
        numbers = [whole(number) for number in text.split(",")]
        refuse(
            len(numbers) != 2 or None in numbers,
            f"{option.flag}: write two whole numbers, such as 40,8.",
        )
        return tuple(numbers)
    return READERS[option.reads](text, option.flag) if option.reads in READERS else text


def words_of(options: dict[str, Any]) -> SpecWords:
    """Take what names the encoding out of the options."""
    return SpecWords(**{name: options.pop(name) for name in SpecWords.__match_args__})


# --- where a picture goes: its file, its numbers, and its caption on the screen -------------------

# The look and the files of a picture.
output_options = with_options(
    click.option("--width", type=click.IntRange(1, 16384), help="Pixels of a panel, at most."),
    click.option(
        "--size", metavar="3.3in", help="The whole picture on paper: 84mm, 3.3in x 2.2in."
    ),
    click.option("-o", "--output", metavar="OUT", help="A .png, .svg or .pdf file."),
    click.option(
        "--numbers",
        "data",
        cls=RenamedOption,
        old=("--data",),
        metavar="OUT",
        help="The numbers drawn: a .npz or .csv file.",
    ),
    force_option("outputs that exist"),
    click.option("--theme", type=WordChoice(THEMES), help="[default: light]"),
    click.option(
        "--scale", type=click.FloatRange(0.25, 8), help="Device pixels to a pixel. [default: 1]"
    ),
    click.option("--dpi", type=float, help="Pixels to an inch. [default: 72; with --size 300]"),
    click.option("--title", metavar="TEXT", help="In place of the usual words above."),
    click.option("--no-title", is_flag=True, help="Leave them out."),
    click.option("--no-caption", is_flag=True, help="Leave out the words below."),
    click.option("--json", "json_", is_flag=True, help="Print what it shows as JSON."),
)


def look_of(options: dict[str, Any]) -> dict[str, Any]:
    """The look that the options ask for, as the pictures take it."""
    if options.pop("no_title"):
        refuse(options["title"] is not None, "--title or --no-title, not both.")
        options["title"] = False
    options["caption"] = False if options.pop("no_caption") else None
    return {name: value for name, value in options.items() if value is not None}


def finish(
    make: Callable[[], Any],
    made_of: PlotSubject | None,
    *,
    output: str | None,
    data: str | None,
    force: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Draw with the look of the options, write and say what was drawn."""
    look = look_of(options)
    target, numbers = OutputChoice(output, force), OutputChoice(data, force)
    target.check(tuple(f".{name}" for name in FORMATS))
    numbers.check((".npz", ".csv"), option="--numbers")
    picture = usage(lambda: make(**look))
    if output is not None:
        picture.save(output, existing=target.existing)
    if data is not None:
        from posenc.plot.export import to_csv, to_npz

        content: str | bytes = (
            to_npz(picture.data)
            if Path(data).suffix == ".npz"
            else to_csv(picture.parameters["plot"], picture.data)
        )
        outputs.write_whole(Path(data), content, existing=numbers.existing)
    origin = made_of.origin if made_of is not None else ""
    if json_:
        from posenc.plot.export import facts

        about: dict[str, Any] = {
            "output": output,
            "data": data,
            "parameters": dict(picture.parameters),
            "title": picture.data.title,
            "caption": list(picture.data.caption),
            "facts": _finite(facts(picture.data)),
        }
        print_json({**about, "learned": origin} if origin else about)
    else:
        for path in filter(None, (output, data)):
            click.echo(path)
        print_lines((picture.data.title, *picture.data.caption, *filter(None, (origin,))))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity and no NaN."""
    none = (math.inf, -math.inf)
    return {k: None if v != v or v in none else v for k, v in values.items()}  # noqa: PLR0124
