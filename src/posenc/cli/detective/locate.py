"""`posenc locate`: the position that numbers come from."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from posenc._core.numeric.counts import counted
from posenc.cli.options.common import (
    RenamedOption,
    WordChoice,
    as_json,
    grouped,
)
from posenc.cli.options.encodings import EncodingChoice, any_spec, encoding_options
from posenc.cli.options.inputs import InputFile
from posenc.cli.options.parameters import ParameterChoice, learnt_from
from posenc.cli.options.vectors import vector_from
from posenc.cli.output.show import print_answer

EXAMPLES = """\b
Examples:
  posenc locate --dim 5120 --value 0.488814 --at 1088
  posenc locate --dim 512 --value 0.91 --at 0 --value -0.42 --at 1
  posenc locate row.npy --base 10000
  posenc locate sums.npy --row 3 --before embeddings.npy --preset whisper
"""


class VectorChoice(NamedTuple):
    """What the command line says about a vector in a file."""

    row: int | None = None
    name: str | None = None
    before: str | None = None
    params: str | None = None


vector_options = grouped(
    VectorChoice,
    "part",
    click.option("--row", type=click.IntRange(0), help="Which row of the file."),
    click.option(
        "--tensor",
        "name",
        cls=RenamedOption,
        old=("--name",),
        metavar="NAME",
        help="Which one of the file.",
    ),
    click.option(
        "--before",
        type=InputFile(stream=True),
        metavar="FILE",
        help="What stood there before: the embedding, or the query or key.",
    ),
    click.option(
        "--params", type=InputFile(), metavar="FILE", help="The parameters of a learned table."
    ),
)


@click.command(epilog=EXAMPLES)
@click.argument(
    "vector",
    metavar="[VECTOR]",
    type=InputFile(stream=True, advice="Numbers themselves go with --value and --at."),
    required=False,
)
@click.option("--value", "values", multiple=True, metavar="DIGITS", help="A value, as printed.")
@click.option("--at", multiple=True, type=click.IntRange(0), help="Its dimension, counted from 0.")
@vector_options
@click.option(
    "--within", metavar="LOW:HIGH", help="The range of positions. [default: 0 or -(2**31-1) on]"
)
@click.option(
    "--conventions",
    type=WordChoice(("siblings", "stated")),
    default="siblings",
    help="Whether to try siblings of the stated convention. [default: siblings]",
)
@encoding_options
@as_json
def command(
    *,
    vector: str | None,
    values: tuple[str, ...],
    at: tuple[int, ...],
    part: VectorChoice,
    within: str | None,
    conventions: str,
    choice: EncodingChoice,
    json_: bool,
) -> None:
    """Find the position that numbers come from.

    VECTOR is a .npy or .safetensors file, a text of numbers, or - for standard input; a vector is
    a row of a table, an embedding with a table added (--before), or a turned query or key. Or give
    single values with --value and --at. The exit code is 1 where no position fits.
    """
    from posenc.detect.locate import locate

    if (vector is None) == (not values):
        both = ", not both" if values else ""
        raise click.UsageError(f"give a VECTOR, or --value and --at{both}.")
    if len(values) != len(at):
        raise click.UsageError(unpaired(values, at))
    extra: dict[str, Any] = {"conventions": conventions}
    if within is not None:
        extra["within"] = _range(within)
    if values:
        for option, value in zip(("--row", "--tensor", "--before"), part[:3], strict=True):
            if value is not None:
                raise click.UsageError(f"{option} is for a VECTOR.")
        if len(set(at)) != len(at):
            raise click.UsageError("--at: one value for each dimension.")
        chosen = any_spec(choice)
        location = locate(chosen, dict(zip(at, values, strict=True)), **extra)
    else:
        assert vector is not None, "the other case"  # noqa: S101 - for the type checker
        row, name, before, params = part
        x = vector_from(vector, row, name)
        chosen = any_spec(choice, width=len(x))
        if before is not None:
            extra["before"] = vector_from(before, row, name if name and before == vector else None)
        if params is not None or getattr(chosen, "shapes", None):
            extra["params"] = learnt_from(ParameterChoice(params), chosen).values
        location = locate(chosen, x, **extra)
    print_answer(json_, location.to_dict, location.story)
    if location.best is None:
        raise click.exceptions.Exit(1)


def unpaired(values: tuple[str, ...], at: tuple[int, ...]) -> str:
    """What to say of values and dimensions that are not as many."""
    if len(values) > len(at):
        return f"--value {values[len(at)]} has no --at: write its dimension, counted from 0."
    return f"--at {at[len(values)]} has no --value: write the number that stands there."


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = (float(counted(end)) for end in text.split(":"))
    except ValueError:
        low, high = 1.0, 0.0
    if low > high:
        raise click.UsageError(f"--within {text[:50]!r}: write LOW:HIGH, such as 0:100000.")
    return low, high
