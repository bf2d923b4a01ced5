"""`posenc table`: the rows of a table, on the screen or in a file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
import numpy as np

from posenc._core.errors import DataError, PositionError, mismatch
from posenc._core.spec.answers import brief
from posenc.cli.options.common import (
    WordChoice,
    as_json,
)
from posenc.cli.options.encodings import EncodingChoice, encoding_options, make_spec, table_width
from posenc.cli.options.inputs import check_output
from posenc.cli.options.parameters import ParameterChoice, learnt_from, parameter_options
from posenc.cli.options.places import PlaceChoice, place_options, places_from
from posenc.cli.output import show, stream
from posenc.encodings.table.base import TableSpec

DEFAULT_DIM = 8
DEFAULT_LENGTH = 16
MOST_NUMBERS = 2**23  # of JSON on the screen
SUFFIXES = (".npy", ".csv", ".safetensors")
DTYPES = ("float32", "float64", "float16", "bfloat16")


EXAMPLES = """\b
Examples:
  posenc table --dim 4 --positions 3
  posenc table --dim 512 --positions 5000 -o table.npy
  posenc table --dim 16 --base 100 --positions 1,2 --json
  posenc table --dim 64 --preset mae --grid 3x4
"""


@click.command(epilog=EXAMPLES)
@encoding_options
@place_options
@parameter_options
@click.option("--dtype", type=WordChoice(DTYPES), default="float32", help="[default: float32]")
@click.option("-o", "--output", metavar="OUT", help="A .npy, .csv or .safetensors file.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@as_json
def command(
    *,
    choice: EncodingChoice,
    places: PlaceChoice,
    parameters: ParameterChoice,
    dtype: str,
    output: str | None,
    force: bool,
    json_: bool,
) -> None:
    """Print or write the rows of a table.

    Of a Concatenated spec these are the columns that it appends.
    """
    encoding = make_spec(choice, default=DEFAULT_DIM)
    width = table_width(encoding)
    unasked = places[:3] == (None, None, None)
    rows = _default_length(encoding, places.offset or 0) if unasked else None
    tokens = places_from(places, encoding, rows, preset=choice.preset)
    if output is None and json_ and len(tokens) * width > MOST_NUMBERS:
        received = f"{len(tokens)} rows of width {width}"
        expected = f"at most {MOST_NUMBERS} numbers as JSON"
        raise DataError(mismatch("table", expected, received, "Write them to a file: -o OUT."))
    tokens.check(encoding)
    values, origin = learnt_from(parameters, encoding)
    if output is not None:
        check_output(output, force=force, option="-o", endings=SUFFIXES, listed=", ".join(SUFFIXES))
        target = stream.Target(Path(output), force)
        if target.path.suffix == ".npy" and dtype == "bfloat16":
            raise click.UsageError("a .npy cannot name bfloat16: let -o end in .safetensors.")
        with show.progress(f"{target.path.name} ", len(tokens) * width) as done:
            stream.write_rows(encoding, tokens, target, params=values, dtype=dtype, progress=done)
    about: dict[str, Any] = {
        "spec": encoding.to_dict(),
        "dtype": dtype,
        "shape": [len(tokens), width],
    }
    if origin:
        about["parameters"] = origin
    if json_:
        if output is not None:
            show.print_json({"output": output, **about})
            return
        table = stream.rows_as(
            encoding, tokens.array(slice(0, len(tokens))), dtype, values
        ).tolist()
        show.print_json({"positions": tokens.tolist(), "table": table, **about})
        return
    words = ", ".join(filter(None, (brief(encoding), tokens.words, show.clean(origin))))
    if output is not None:
        click.echo(f"{output}: {len(tokens)}x{width} {dtype}, {words}")
        return
    click.echo(words)
    strips = show.AlignedRows(None, tokens, show.width_of_screen())

    def row(index: int) -> np.ndarray:
        return stream.rows_as(encoding, tokens.array(slice(index, index + 1)), dtype, values)[0]

    for line in strips.block("", row, width):
        click.echo(line)


def _default_length(spec: TableSpec, first: int) -> int:
    """The number of rows that are shown unasked, or all of a table that has fewer."""
    for length in range(DEFAULT_LENGTH, 1, -1):
        with contextlib.suppress(PositionError):
            spec.check_count(first, length)
            return length
    return 1
