"""Where a picture goes: its file, its numbers, and its caption on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from posenc._core.io import outputs
from posenc.cli.options.common import RenamedOption, WordChoice, with_options
from posenc.cli.options.inputs import check_output
from posenc.cli.options.pictures import PlotSubject, usage
from posenc.cli.output.show import print_json, print_lines
from posenc.plot.draw.picture import FORMATS
from posenc.plot.palette import THEMES

# The look and the files of a picture.
output_options = with_options(
    click.option("--width", type=click.IntRange(1, 16384), help="Pixels of a panel, at most."),
    click.option("--size", metavar="3.3in", help="Of the picture on paper: 84mm, 3.3in x 2.2in."),
    click.option("-o", "--output", metavar="OUT", help="A .png, .svg or .pdf file."),
    click.option(
        "--numbers",
        "data",
        cls=RenamedOption,
        old=("--data",),
        metavar="OUT",
        help="The numbers drawn: a .npz or .csv file.",
    ),
    click.option("--force", is_flag=True, help="Replace outputs that exist."),
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
        if options["title"] is not None:
            raise click.UsageError("--title or --no-title, not both.")
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
    for path, option, suffixes in (
        (output, "-o", tuple(f".{name}" for name in FORMATS)),
        (data, "--numbers", (".npz", ".csv")),
    ):
        if path is not None:
            check_output(path, force=force, option=option, endings=suffixes)
    picture = usage(lambda: make(**look))
    existing: Any = "replace" if force else "refuse"
    if output is not None:
        picture.save(output, existing=existing)
    if data is not None:
        _write_data(Path(data), picture, existing)
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
        return
    for path in (output, data):
        if path is not None:
            click.echo(path)
    learned = (origin,) if origin else ()
    print_lines((picture.data.title, *picture.data.caption, *learned))


def _write_data(path: Path, picture: Any, existing: Any) -> None:
    from posenc.plot.export import to_csv, to_npz

    name = picture.parameters["plot"]
    content = to_npz(picture.data) if path.suffix == ".npz" else to_csv(name, picture.data)
    outputs.write_whole(path, content, existing=existing)


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity and no NaN."""
    infinite = (float("inf"), float("-inf"))
    return {k: None if v != v or v in infinite else v for k, v in values.items()}  # noqa: PLR0124
