"""`posenc plot`: pictures that show what is there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from posenc._core.errors import suggest
from posenc._core.io import outputs
from posenc._core.numeric.counts import whole
from posenc.cli.detective.numbers import check_paired
from posenc.cli.options.common import (
    ARRAYS,
    InputFile,
    InputText,
    OutputChoice,
    length_options,
    refuse,
    with_options,
)
from posenc.cli.options.encodings import NAMES, stated_length
from posenc.cli.options.flags import picture_advice
from posenc.cli.options.pictures import (
    PlotSubject,
    SpecWords,
    arguments_of,
    chosen,
    finish,
    look_of,
    other_spec_words,
    output_options,
    row_option,
    spec_words,
    usage,
    whole_numbers,
    words_of,
)
from posenc.cli.output.lines import print_json
from posenc.plot.rows import PICTURES, PictureRow, view_of

HELP = """Draw an encoding.

\b
  posenc plot table --dim 64 -o table.png
  posenc plot table --dim 50 --positions 45000 --height 670 -o period.png
  posenc plot wavelengths --each-dim 64,128,512 -o widths.svg
  posenc plot bias --encoding T5 --heads 4 --init-seed 0 -o t5.png

A column of a table is a wave. Where fewer than 2 pixels show one wave, any pattern would be false:
the column is left blank, and the caption names it. Without -o or --numbers the caption is printed.
"""


class Pictures(click.Group):
    """The pictures, with a suggestion for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the pictures in the order in which they are best read."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the picture as click does, with a suggestion."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            todo = picture_advice(args[0]) or suggest(args[0], self.commands)
            if Path(args[0]).is_file():
                way = "table --table" if Path(args[0]).suffix in ARRAYS else "wavelengths --spec"
                todo = f"Write posenc plot {way} {args[0]}."
            ctx.fail(f"No such picture {args[0]!r}. {todo}")
        return super().resolve_command(ctx, args)


@click.group(cls=Pictures, help=HELP, invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="List the pictures as JSON.")
@click.pass_context
def command(ctx: click.Context, *, json_: bool) -> None:
    """See `HELP`."""
    if ctx.invoked_subcommand is not None:
        refuse(json_, "write --json after the name of the picture.")
    elif json_:
        print_json({name: picture.help for name, picture in command.commands.items()})
    else:
        click.echo(ctx.get_help())


# --- what the command line says of a picture ------------------------------------------------------


class PictureRequest(NamedTuple):
    """The arguments of a function of `posenc.plot`, and the encoding that they are about."""

    subject: PlotSubject | None
    positional: tuple[Any, ...]
    keywords: dict[str, Any]


def _one(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """A picture of one encoding."""
    subject = chosen(words_of(options), row.name)
    learned = {"params": subject.params} if row.learned else {}
    return PictureRequest(
        subject, (subject.spec,), learned | arguments_of(row, options, subject.spec)
    )


def _several(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """The wavelengths of an encoding at several widths and bases."""
    several = [words_of(options)]
    dims, bases = options.pop("each_dim"), options.pop("each_base")
    if dims is not None:
        several = [replace(several[0], dim=dim) for dim in whole_numbers(dims, "--each-dim")]
    if bases is not None:
        try:
            numbers = [float(text) for text in bases.split(",")]
        except ValueError:
            raise click.UsageError(
                f"--each-base {bases[:50]!r}: write numbers such as 100,1e4."
            ) from None
        several = [replace(words, base=base) for words in several for base in numbers]
    specs = [chosen(words, row.name).spec for words in several]
    return PictureRequest(None, (specs,), arguments_of(row, options, *specs))


def _sentence(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """A text and an encoding."""
    from posenc.plot.export import read_table

    tokens, file = options.pop("text"), options.pop("embeddings", None)
    asked = _one(row, options)
    if file is not None:
        asked.keywords["embeddings"] = usage(lambda: read_table(file)).params["weight"]
    asked.keywords["tokens"] = tokens
    return asked


def _values(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """The positions of values."""
    values, at = options.pop("values"), options.pop("at")
    asked = _one(row, options)
    refuse(
        not values or len(set(at)) != len(at),
        "give --value and --at together, one value for each dimension.",
    )
    check_paired(values, at)
    within = asked.keywords.get("within")
    if isinstance(within, int):
        asked.keywords["within"] = (0, within)
    asked.keywords["values"] = dict(zip(at, values, strict=True))
    return asked


def _two(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """One of the other pictures for A and B."""
    words, view = words_of(options), options.pop("view")
    view_of("compare").check(view)
    first = chosen(words, view)
    second = chosen(_second(words, options), view)
    return PictureRequest(
        first,
        (view, first.spec, second.spec),
        {
            "a_params": first.params,
            "b_params": second.params,
            **arguments_of(row, options, first.spec, second.spec, view=view),
        },
    )


def _second(words: SpecWords, options: dict[str, Any]) -> SpecWords:
    """B: as A, but for what the options of B say."""
    asked = {k[2:]: options.pop(k) for k in list(options) if k.startswith("b_")}
    b_options = {k: v for k, v in asked.items() if v not in (None, ())}
    refuse(not b_options, "say what B is: --b-base, --b-dim, --b-encoding, --b-preset, …")
    if b_options.keys() & {"encoding", "preset", "spec", "table"}:
        return SpecWords(**b_options)
    refuse(
        words.spec is not None or words.table is not None,
        "B needs a --b-spec, --b-table, --b-preset or --b-encoding here.",
    )
    return replace(words, **b_options)


def _losses_or_one(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """One encoding; for losses that of the models that were trained, which need not be named."""
    if options["loss"] and not any(options[name] for name in NAMES):
        from posenc.plot.trained import trained_losses

        options["dim"] = options["dim"] or trained_losses().dim
    text, asked = options["spec"], _one(row, options)
    if text and not asked.keywords.get("loss"):
        asked.keywords.setdefault("original_length", stated_length(text))
    return asked


def _models(row: PictureRow, options: dict[str, Any]) -> PictureRequest:
    """Configs of models."""
    return PictureRequest(None, (options.pop("configs") or None,), arguments_of(row, options))


# What is said in another way than by naming one encoding: how that is read, and its parameters.
READERS: Mapping[str, Callable[[PictureRow, dict[str, Any]], PictureRequest]] = {
    "wavelengths": _several,
    "sum": _sentence,
    "attention": _sentence,
    "find": _values,
    "compare": _two,
    "stretch": _losses_or_one,
    "scene": _models,
}
PARAMETERS: Mapping[str, tuple[Callable[[Any], Any], ...]] = {
    "wavelengths": (
        click.option("--each-dim", metavar="64,128", help="The same encoding at several widths."),
        click.option("--each-base", metavar="100,10000", help="The same with several bases."),
    ),
    "sum": (
        click.argument("text", type=InputText(), default="the cat saw the dog"),
        click.option(
            "--embeddings",
            type=InputFile(),
            metavar="FILE",
            help="Rows for the tokens of the text.",
        ),
    ),
    "attention": (click.argument("text", type=InputText(), default="John likes Jane very much"),),
    "find": (
        click.option(
            "--value", "values", multiple=True, metavar="DIGITS", help="A value, as printed."
        ),
        click.option("--at", multiple=True, type=click.IntRange(0), help="Its dimension, from 0."),
    ),
    "scene": (click.argument("configs", metavar="[CONFIG]...", nargs=-1),),
    "compare": (click.argument("view", metavar="PICTURE"), other_spec_words),
}


# What an example says beside the encoding and the file.
EXAMPLES = {
    "find": "--value 0.85 --at 3 ",
    "compare": "table --b-base 100 ",
    "scene": "config.json ",
}


# --- the commands ---------------------------------------------------------------------------------


MOST_FRAMES = 240
play_option = click.option(
    "--play",
    metavar="NAME[=FROM:TO[:STEP]]",
    help="A picture for each value of an option that takes whole numbers, one by one: a .gif or "
    ".svg that moves. [default: 0:64:4]",
)


def _play(
    row: PictureRow,
    asked: str,
    make: Callable[[dict[str, Any]], tuple[Callable[..., Any], PlotSubject | None]],
    options: dict[str, Any],
) -> None:
    """Write a picture for each value of an option of whole numbers, one after the other."""
    from posenc.plot.draw.picture import MOVING, moving

    name, _, span = asked.partition("=")
    names = [one.flag[2:] for one in row.options if one.reads in ("integer", "count")]
    none = f"--play {name[:50]!r}: {row.name} plays {' or '.join(names) or 'no option'}."
    refuse(name not in names, none)
    ends = [whole(end) for end in (span or "0:64:4").split(":")]
    usual = None not in ends and len(ends) in (2, 3) and ends[2:] != [0]
    values = range(*ends) if usual else range(0)  # type: ignore[arg-type]
    refuse(
        not 1 < len(values) <= MOST_FRAMES,
        f"--play {name}: write {name}=FROM:TO:STEP, 2 to {MOST_FRAMES} numbers; got {span[:50]!r}.",
    )
    look = dict(options)
    output, data, force, json_ = (look.pop(key) for key in ("output", "data", "force", "json_"))
    refuse(
        output is None or data is not None or json_,
        "--play writes a file that moves: give -o, without --numbers and --json.",
    )
    target = OutputChoice(output, force)
    target.check(MOVING)
    pictures = []
    for value in values:
        own = {**look, name.replace("-", "_"): value, "no_caption": True}
        if not own["no_title"]:
            own["title"] = f"{own['title'] or row.question} {name} {value:,}"
        draw, _ = make(own)
        pictures.append(usage(functools.partial(draw, **look_of(own))))
    outputs.write_whole(target.path, moving(pictures, target.format), existing=target.existing)
    click.echo(target.path)


def _add(row: PictureRow) -> None:
    """Add the command of a picture."""

    def make(options: dict[str, Any]) -> tuple[Callable[..., Any], PlotSubject | None]:
        import posenc.plot

        subject, positional, keywords = READERS.get(row.name, _one)(row, options)
        picture = getattr(posenc.plot, row.name)
        return functools.partial(picture, *positional, **keywords), subject

    def draw(play: str | None = None, **options: Any) -> None:
        if play is not None:
            _play(row, play, make, options)
        else:
            finish(*make(options), **options)

    own = (*PARAMETERS.get(row.name, ()), *map(row_option, row.options))
    options = with_options(
        *([spec_words] if row.example else []), *own, play_option, output_options
    )
    named = f"--encoding {row.example['type']} " if row.example else ""
    call = f"posenc plot {row.name} {EXAMPLES.get(row.name, '')}{named}-o {row.name}.png"
    epilog = f"\b\nExamples:\n  {call}"
    command.command(row.name, help=row.about, epilog=epilog)(options(draw))


for _row in PICTURES.values():
    _add(_row)


@command.command(epilog="\b\nExamples:\n  posenc plot extend config.json --to 128k -o extend.png")
@click.argument("config", metavar="CONFIG", type=InputFile())
@length_options(
    "The new length, in positions.", "The new length over the trained one, in place of --to."
)
@output_options
def extend(config: str, **options: Any) -> None:
    """Draw what rules that extend a context do to the rotations of a config."""
    import posenc.plot
    from posenc.detect.extend import extend

    extension = extend(config, **{name: options.pop(name) for name in ("to", "factor", "trained")})
    stretched = next((layer for layer in extension.layers if not layer.window), extension.layers[0])
    spec = stretched.baseline.spec
    draw = functools.partial(
        posenc.plot.stretch, spec, original_length=extension.trained, factor=extension.factor
    )
    finish(draw, PlotSubject(spec, None, f"{extension.model}, {stretched.name}"), **options)
