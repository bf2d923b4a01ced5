"""`posenc table`: the rows of a table, on the screen or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posenc._core.errors import DataError, explain
from posenc.cli import _show, _stream
from posenc.cli._options import (
    Choice,
    SpecChoice,
    as_json,
    make_spec,
    positions_from,
    spec_options,
)

__all__ = ["command"]

DEFAULT_DIM = 8
DEFAULT_LENGTH = 16
MOST_NUMBERS = 2**23  # of JSON on the screen
SUFFIXES = (".npy", ".csv", ".safetensors")
DTYPES = ("float32", "float64", "float16", "bfloat16")


EXAMPLES = """\b
Examples:
  posenc table --dim 4 --length 3
  posenc table --dim 512 --length 5000 -o table.npy
  posenc table --dim 16 --base 100 --positions 1,2 --json
"""


@click.command(epilog=EXAMPLES)
@spec_options
@click.option("--length", type=click.IntRange(0, 2**40), help="Number of rows. [default: 16]")
@click.option("--offset", type=int, help="Position of the first row. [default: 0]")
@click.option("--positions", metavar="LIST", help="Of each row: 3,1,4 or 0:10 or 0:100:10.")
@click.option("--dtype", type=Choice(DTYPES), default="float32", help="[default: float32]")
@click.option("-o", "--output", metavar="OUT", help="A .npy, .csv or .safetensors file.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@as_json
def command(
    *,
    dim: int | None,
    base: float | None,
    order: str | None,
    odd: str | None,
    preset: str | None,
    spec: str | None,
    length: int | None,
    offset: int | None,
    positions: str | None,
    dtype: str,
    output: str | None,
    force: bool,
    json_: bool,
) -> None:
    """Print or write the rows of a table."""
    if positions is not None and length is not None:
        raise click.UsageError("--positions or --length, not both.")
    made = make_spec(SpecChoice(dim, base, order, odd, preset, spec), default=DEFAULT_DIM)
    rows = DEFAULT_LENGTH if length is None else length
    if output is None and json_ and positions is None and rows * made.dim > MOST_NUMBERS:
        got = f"{rows} rows of width {made.dim}"
        want = f"at most {MOST_NUMBERS} numbers as JSON"
        raise DataError(explain("table", want, got, "Write them to a file: -o OUT."))
    where = positions_from(positions, offset, None if positions is not None else rows)
    if output is not None:
        target = _target(output, force)
        if target.path.suffix == ".npy" and dtype == "bfloat16":
            raise click.UsageError("a .npy cannot name bfloat16: let -o end in .safetensors.")
        with _show.progress(f"{target.path.name} ", len(where) * made.dim) as done:
            _stream.write_rows(made, where, target, dtype=dtype, progress=done)
    about: dict[str, Any] = {
        "spec": made.to_dict(),
        "dtype": dtype,
        "shape": [len(where), made.dim],
    }
    if json_:
        if output is not None:
            _show.print_json({"output": output, **about})
            return
        table = _stream.rows_as(made, where, dtype).tolist()
        _show.print_json({"positions": list(where), "table": table, **about})
        return
    if output is not None:
        click.echo(f"{output}: {len(where)}x{made.dim} {dtype}, {_show.brief(made)}")
        return
    click.echo(_show.brief(made))
    strips = _show.Strips(None, where, made.dim, _show.width_of_screen())
    for line in strips.block("", lambda i: _stream.rows_as(made, where[i : i + 1], dtype)[0]):
        click.echo(line)


def _target(output: str, force: bool) -> _stream.Target:
    target = _stream.Target(Path(output), force)
    if target.path.suffix not in SUFFIXES:
        raise click.UsageError(f"-o {output!r}: its name must end in {', '.join(SUFFIXES)}.")
    if not force and target.path.exists():
        raise click.UsageError(f"{output} exists: --force replaces it.")
    return target
