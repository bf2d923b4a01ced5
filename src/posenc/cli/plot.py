"""`posenc plot`: pictures that show what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from posenc._core.errors import suggest
from posenc.cli._inputs import InputFile, InputText
from posenc.cli._options import RenamedOption, WordChoice
from posenc.cli._plot_options import (
    PlotSubject,
    SpecWords,
    arguments_of,
    chosen,
    grid_option,
    other_spec_words,
    placed,
    positions_option,
    product_option,
    ranged,
    spec_words,
    stretch_of,
    usage,
    whole_numbers,
    width_option,
    words_of,
)
from posenc.cli._plot_output import finish, output_options
from posenc.cli._show import print_json
from posenc.cli.locate import unpaired

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])

HELP = """Draw an encoding.

\b
  posenc plot table --dim 64 -o table.png
  posenc plot table --dim 50 --length 45000 --height 670 -o period.png
  posenc plot wavelengths --each-dim 64,128,512 -o widths.svg
  posenc plot bias --encoding T5 --heads 4 --init-seed 0 -o t5.png

A column of a table is a wave; one of less than 2 pixels per wave is left blank and named in the
caption, as whatever else is drawn there is not in the table. Without -o or --numbers the caption is
printed.
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
            ctx.fail(f"No such picture {args[0]!r}. {suggest(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(cls=Pictures, help=HELP, invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="List the pictures as JSON.")
@click.pass_context
def command(ctx: click.Context, *, json_: bool) -> None:
    """See `HELP`."""
    if ctx.invoked_subcommand is not None:
        if json_:
            raise click.UsageError("write --json after the name of the picture.")
        return
    if json_:
        print_json({name: picture.help for name, picture in command.commands.items()})
        return
    click.echo(ctx.get_help())


def _draw(picture: str, subject: PlotSubject, asked: dict[str, Any], options: Any) -> None:
    """Draw a picture of an encoding, with what it has learned where a picture takes that."""
    import posenc.plot as pictures

    more = {} if picture == "stretch" else {"params": subject.params}
    finish(lambda: getattr(pictures, picture)(subject.spec, **more, **asked), subject, **options)


# --- the pictures ---------------------------------------------------------------------------------


@command.command()
@spec_words
@placed
@click.option("--dims", metavar="FROM:TO", help="Dimensions drawn, in the order drawn.")
@click.option(
    "--columns",
    type=WordChoice(("stored", "interleaved", "sin_cos", "cos_sin")),
    help="How columns stand in the picture.",
)
@click.option("--sample", is_flag=True, help="Skip rows: draw the illusion, labelled.")
@width_option
@click.option("--height", type=click.IntRange(1, 16384), help="Pixels of the panel, at most.")
@output_options
def table(**options: Any) -> None:
    """Draw rows of numbers as colours: what each position looks like."""
    subject = chosen(words_of(options), "table")
    asked = arguments_of(options, subject.spec, "positions", "length", "grid", "height")
    asked |= {"sample": options["sample"], "order": options["columns"]}
    asked["dims"] = stretch_of(options["dims"], "--dims")
    _draw("table", subject, asked, options)


@command.command()
@spec_words
@placed
@click.option("--dims", metavar="0,1,5-7|FROM:TO", help="Dimensions drawn.")
@width_option
@output_options
def waves(**options: Any) -> None:
    """Draw single dimensions over positions, as curves."""
    subject = chosen(words_of(options), "waves")
    asked = arguments_of(options, subject.spec, "positions", "length", "grid")
    asked["dims"] = whole_numbers(options["dims"], "--dims")
    _draw("waves", subject, asked, options)


@command.command()
@spec_words
@click.option("--each-dim", metavar="64,128", help="The same encoding at several widths.")
@click.option("--each-base", metavar="100,10000", help="The same with several bases.")
@click.option("--length", type=click.IntRange(1), help="A length to mark.")
@click.option("--over", type=WordChoice(("pair", "share")), help="What stands below the curves.")
@width_option
@click.option("--height", type=click.IntRange(1, 16384), help="Pixels of the panel.")
@output_options
def wavelengths(**options: Any) -> None:
    """Draw the wavelength of each pair, of one encoding or several."""
    import posenc.plot as pictures

    words = words_of(options)
    specs = [chosen(each, "wavelengths").spec for each in _each(words, options)]
    asked = arguments_of(options, None, "length", "over", "height")
    finish(lambda: pictures.wavelengths(specs, **asked), None, **options)


def _each(words: SpecWords, options: dict[str, Any]) -> list[SpecWords]:
    several = [words]
    dims = whole_numbers(options["each_dim"], "--each-dim")
    if dims is not None:
        several = [each._replace(dim=dim) for each in several for dim in dims]
    if options["each_base"] is not None:
        try:
            bases = [float(text) for text in options["each_base"].split(",")]
        except ValueError:
            text = options["each_base"][:50]
            raise click.UsageError(
                f"--each-base {text!r}: write numbers such as 100,1e4."
            ) from None
        several = [each._replace(base=base) for each in several for base in bases]
    return several


@command.command()
@spec_words
@click.option("--offsets", metavar="N|FROM:TO", help="Distances. [default: 512]")
@product_option
@click.option("--axis", type=WordChoice(("linear", "log", "both")), default="both", help="[both]")
@placed
@width_option
@output_options
def offset(**options: Any) -> None:
    """Draw the product of two rows against their distance."""
    subject = chosen(words_of(options), "offset")
    if options.pop("positions") is not None:
        raise click.UsageError("--positions: distances are given by --offsets.")
    asked = arguments_of(options, subject.spec, "kind", "axis", "length", "grid")
    offsets = ranged(options["offsets"], "--offsets")
    asked |= {} if offsets is None else {"offsets": offsets}
    _draw("offset", subject, asked, options)


@command.command()
@spec_words
@placed
@product_option
@width_option
@output_options
def similarity(**options: Any) -> None:
    """Draw the products of all rows with all rows: which positions are alike."""
    subject = chosen(words_of(options), "similarity")
    asked = arguments_of(options, subject.spec, "positions", "kind", "length", "grid")
    _draw("similarity", subject, asked, options)


@command.command()
@spec_words
@positions_option
@click.option(
    "--position",
    "at",
    cls=RenamedOption,
    old=("--at",),
    type=click.IntRange(0),
    help="One whose digits and row are shown.",
)
@click.option("--bits", type=click.IntRange(1, 62), help="How many bits.")
@click.option("--length", type=click.IntRange(1), help="Length of the sequence, for scalings.")
@width_option
@output_options
def counter(**options: Any) -> None:
    """Draw the bits of positions above the waves that turn as fast."""
    subject = chosen(words_of(options), "counter")
    asked = arguments_of(options, subject.spec, "positions", "at", "bits", "length")
    _draw("counter", subject, asked, options)


@command.command("sum")
@click.argument("text", type=InputText(), default="the cat saw the dog")
@spec_words
@click.option(
    "--embeddings", type=InputFile(), metavar="FILE", help="Rows for the tokens of the text."
)
@click.option("--seed", type=int, default=0, help="Of random embeddings. [default: 0]")
@click.option("--offset", type=int, default=0, help="Position of the first token.")
@width_option
@output_options
def sum_(**options: Any) -> None:
    """Draw embedding + encoding = input, for the tokens of TEXT."""
    from posenc.plot.given import read_table

    subject = chosen(words_of(options), "sum")
    asked = arguments_of(options, subject.spec, "seed", "offset")
    if options["embeddings"] is not None:
        stored = usage(lambda: read_table(options["embeddings"]))
        asked["embeddings"] = stored.params["weight"]
    asked["tokens"] = options.pop("text")
    _draw("sum", subject, asked, options)


@command.command()
@spec_words
@click.option(
    "--query-key",
    "at",
    cls=RenamedOption,
    old=("--at",),
    metavar="M,N",
    help="Positions of the query and the key. [default: 7,3]",
)
@click.option("--pairs", metavar="0,1,5-7", help="Whose dials are drawn.")
@click.option("--offsets", metavar="N|FROM:TO", help="Distances. [default: 64]")
@click.option("--seed", type=int, default=0, help="Of the random query and key. [default: 0]")
@click.option("--length", type=click.IntRange(1), help="Length of the sequence, for scalings.")
@width_option
@output_options
def rotation(**options: Any) -> None:
    """Draw dials of pairs, and scores by distance: what a rotation does."""
    subject = chosen(words_of(options), "rotation")
    asked = arguments_of(options, subject.spec, "seed", "length")
    asked["pairs"] = whole_numbers(options["pairs"], "--pairs")
    at = whole_numbers(options["at"], "--query-key")
    if at is not None:
        if len(at) != 2:
            raise click.UsageError("--query-key: write two positions, such as 40,8.")
        asked["positions"] = (at[0], at[1])
    offsets = ranged(options["offsets"], "--offsets")
    asked |= {} if offsets is None else {"offsets": offsets}
    _draw("rotation", subject, asked, options)


@command.command()
@spec_words
@positions_option
@click.option("--show-heads", metavar="0,1,5-7", help="Heads drawn. [default: the first 16]")
@click.option("--mask", type=WordChoice(("none", "causal")), default="none", help="[default: none]")
@click.option(
    "--softmax", type=WordChoice(("none", "rows")), default="none", help="[default: none]"
)
@grid_option
@width_option
@output_options
def bias(**options: Any) -> None:
    """Draw what is added to the scores of attention, head by head."""
    subject = chosen(words_of(options), "bias")
    asked = arguments_of(options, subject.spec, "positions", "mask", "softmax", "grid")
    asked["heads"] = whole_numbers(options["show_heads"], "--show-heads")
    _draw("bias", subject, asked, options)


@command.command()
@spec_words
@click.option("--original-length", type=click.IntRange(1), help="The trained length.")
@click.option("--factor", type=click.FloatRange(1), help="By which it grows.")
@click.option("--rules", metavar="none,yarn,…", help="Which rules. [default: all]")
@width_option
@output_options
def stretch(**options: Any) -> None:
    """Draw what rules that extend a context do to each pair."""
    subject = chosen(words_of(options), "stretch")
    asked = arguments_of(options, subject.spec, "original_length", "factor")
    if options["rules"] is not None:
        asked["rules"] = tuple(name.strip() for name in options["rules"].split(","))
    _draw("stretch", subject, asked, options)


@command.command()
@click.argument("config", metavar="CONFIG", type=InputFile())
@click.option("--to", type=int, metavar="LENGTH", help="The new length, in positions.")
@click.option("--factor", type=float, help="The new length over the trained one, in place of --to.")
@click.option("--trained", type=int, metavar="LENGTH", help="Where training ended.")
@width_option
@output_options
def extend(config: str, **options: Any) -> None:
    """Draw what rules that extend a context do to the rotations of a config."""
    import posenc.plot as pictures
    from posenc.detect.extend import extend_context

    lengths = {name: options.pop(name) for name in ("factor", "trained")}
    found = extend_context(config, options.pop("to"), **lengths)
    stretched = next((layer for layer in found.layers if not layer.window), found.layers[0])
    spec = stretched.baseline.spec
    asked = {"original_length": found.trained, "factor": found.factor, "width": options["width"]}
    subject = PlotSubject(spec, None, f"{found.model}, {stretched.name}")
    finish(lambda: pictures.stretch(spec, **asked), subject, **options)


@command.command()
@spec_words
@click.option("--value", "values", multiple=True, metavar="DIGITS", help="A value, as printed.")
@click.option("--at", multiple=True, type=click.IntRange(0), help="Its dimension, from 0.")
@click.option("--within", metavar="LOW:HIGH", help="The range of positions.")
@click.option(
    "--conventions",
    type=WordChoice(("siblings", "stated")),
    default="siblings",
    help="Whether to try siblings of the stated convention. [default: siblings]",
)
@width_option
@output_options
def find(**options: Any) -> None:
    """Draw the positions that values may come from."""
    subject = chosen(words_of(options), "find")
    values, at = options.pop("values"), options.pop("at")
    if not values or len(set(at)) != len(at):
        raise click.UsageError("give --value and --at together, one value for each dimension.")
    if len(values) != len(at):
        raise click.UsageError(unpaired(values, at))
    asked = arguments_of(options, subject.spec, "conventions")
    within = ranged(options["within"], "--within")
    asked |= (
        {} if within is None else {"within": within if isinstance(within, tuple) else (0, within)}
    )
    asked["values"] = dict(zip(at, values, strict=True))
    _draw("find", subject, asked, options)


@command.command()
@click.argument("view", metavar="PICTURE")
@spec_words
@other_spec_words
@placed
@product_option
@width_option
@output_options
def compare(**options: Any) -> None:
    """Draw one of the other pictures for A and B, and A - B."""
    import posenc.plot as pictures

    words = words_of(options)
    view = options.pop("view")
    first = chosen(words, view)
    second = chosen(_second(words, options), view)
    names = ("positions", "length", "grid", "kind")
    asked = arguments_of(options, first.spec, *names)
    if view == "wavelengths" and options["positions"] is None:
        asked.pop("positions", None)  # there the length is a mark
    finish(
        lambda: pictures.compare(
            view, first.spec, second.spec, a_params=first.params, b_params=second.params, **asked
        ),
        first,
        **options,
    )


def _second(words: SpecWords, options: dict[str, Any]) -> SpecWords:
    """B: as A, but for what the options of B say."""
    b_options = {k[2:]: options.pop(k) for k in list(options) if k.startswith("b_")}
    b_options = {k: v for k, v in b_options.items() if v not in (None, ())}
    if not b_options:
        raise click.UsageError("say what B is: --b-base, --b-dim, --b-encoding, --b-preset, …")
    if b_options.keys() & {"encoding", "preset", "spec", "table"}:
        return SpecWords(**b_options)
    if words.spec is not None or words.table is not None:
        raise click.UsageError("B needs a --b-spec, --b-table, --b-preset or --b-encoding here.")
    return words._replace(**b_options)
