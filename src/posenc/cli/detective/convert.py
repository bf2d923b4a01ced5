"""`posenc convert`: a checkpoint in another convention, in a new file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from posenc._core.errors import PosencError
from posenc.cli.options.common import RenamedOption, WordChoice, as_json, grouped, is_json, spec_of
from posenc.cli.options.inputs import InputFile
from posenc.cli.options.projections import given, projection_options, stored_option
from posenc.cli.output.show import print_answer, progress

if TYPE_CHECKING:
    from posenc.detect.convert import Conversion

METHODS = (
    "cubic_antialias",
    "linear_antialias",
    "cubic",
    "linear",
    "cubic_corners",
    "linear_corners",
    "tile",
    "sinusoidal",
)
MOST_LINES = 12

EXAMPLES = """\b
Examples:
  posenc convert llama/ llama-interleaved/ --pairing interleaved
  posenc convert model.safetensors new.safetensors --pairing half --config config.json
  posenc convert bert/ longer/ --tensor embeddings.position_embeddings.weight \\
      --resize 1024 --method linear
  posenc convert model/ model-v4/ --dialect hf4
"""


class TableChoice(NamedTuple):
    """What the command line says about a table of positions in the checkpoint."""

    tensor: str | None = None
    before: str | None = None
    after: str | None = None
    length: str | None = None
    method: str = METHODS[0]


table_options = grouped(
    TableChoice,
    "table",
    click.option(
        "--tensor",
        "tensor",
        cls=RenamedOption,
        old=("--table",),
        metavar="NAME",
        help="The one that holds a table of positions.",
    ),
    click.option("--from", "before", metavar="SPEC", help="What it is: JSON, file or preset."),
    click.option("--to", "after", metavar="SPEC", help="What it becomes."),
    click.option(
        "--resize",
        "length",
        cls=RenamedOption,
        old=("--length",),
        metavar="N|HxW",
        help="The length that a learned table gets.",
    ),
    click.option("--method", type=WordChoice(METHODS), default=METHODS[0], help="For its rows."),
)


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="SOURCE", type=InputFile())
@click.argument("output", metavar="OUTPUT", required=False)
@click.option("--pairing", type=WordChoice(("half", "interleaved")), help="The pairing to write.")
@stored_option
@projection_options
@table_options
@click.option("--dialect", type=WordChoice(("hf4", "hf5")), help="Of the rotary parameters.")
@click.option("--dry-run", is_flag=True, help="Show the plan; write nothing.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@as_json
def command(
    *,
    source: str,
    output: str | None,
    pairing: str | None,
    table: TableChoice,
    dialect: str | None,
    dry_run: bool,
    force: bool,
    json_: bool,
    **projections: Any,
) -> None:
    """Write a checkpoint in another convention.

    SOURCE is a .safetensors file, an index of several, or a folder with one of these and its
    config.json; it is only read. OUTPUT is a new file, or a new folder where the source is one, and
    appears when it is complete and a forward probe has found the scores unchanged. Weights that
    contradict the pairing that the config states stop it, unless --stored says what is stored.
    """
    from posenc.detect.convert import convert

    if not output and not dry_run:
        raise click.UsageError("OUTPUT is missing: name it, or look at the plan with --dry-run.")
    if pairing is None and table.tensor is None and dialect is None:
        raise click.UsageError("nothing to change: give --pairing, --tensor or --dialect.")
    layout, config = given(projections)
    tables = None
    if table.tensor is not None:
        tables = {table.tensor: _specs(source, table.tensor, *table[1:4])}
    elif table.before or table.after or table.length:
        raise click.UsageError("--from, --to and --resize are of a --tensor.")
    options: dict[str, Any] = {
        "pairing": pairing,
        "tables": tables,
        "method": table.method,
        "dialect": dialect,
        "layout": layout,
        "config": config,
        "existing": "replace" if force else "refuse",
    }
    if not dry_run and output is not None and not force and Path(output).exists():
        raise click.UsageError(f"{output} exists: --force replaces it.")
    if dry_run:
        conversion = convert(source, **options)
    else:
        with progress("writing ", _size(source)) as done:
            conversion = convert(source, output, progress=done, **options)
    print_answer(json_, conversion.to_dict, _lines(conversion, output))


def _size(source: str) -> int:
    """Bytes that will be written, about."""
    path = Path(source)
    files = (path,) if path.is_file() else path.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def _specs(
    source: str, name: str, before: str | None, after: str | None, length: str | None
) -> tuple[Any, Any]:
    """The two specs of a table, by JSON, presets or the new length alone."""
    from posenc._core.io.checkpoints import open_checkpoint
    from posenc.encodings.table.learned import Learned

    tensors = open_checkpoint(source, config={}, caller="convert").tensors
    shape = tensors[name].tensor.shape if name in tensors else (1, 1)
    rows, width = (1, *shape)[-2:]
    old = Learned(width, length=rows) if before is None else _spec(before, width, "--from")
    if after is not None and length is not None:
        raise click.UsageError("--to or --resize, not both.")
    if after is not None:
        return old, _spec(after, width, "--to")
    if length is None:
        raise click.UsageError("what the table becomes is missing: --to or --resize.")
    if not isinstance(old, Learned):
        raise click.UsageError("--resize is for learned tables.")
    try:
        sizes = tuple(int(n) for n in length.lower().split("x"))
        return old, old.replace(length=sizes[0] if len(sizes) == 1 else sizes)
    except ValueError:
        expected = f"as many positive numbers as the table has sides, {len(old.lengths)}: N or HxW"
        raise click.UsageError(f"--resize {length!r}: expected {expected}.") from None


def _spec(text: str, width: int, option: str) -> Any:
    from posenc.presets import names, preset

    if text in names():
        try:
            return preset(text, width)
        except PosencError as error:
            raise click.UsageError(f"{option}: {error}") from error
    if not is_json(text) and not Path(text).is_file():
        raise click.UsageError(f"{option} {text!r} is no JSON, no preset and no file.")
    return spec_of(text, option)


def _lines(conversion: Conversion, output: str | None) -> list[str]:
    """The conversion in words."""
    lines = [f"{conversion.source} -> {output or '(nothing is written)'}"]
    if conversion.pairing is not None:
        before, after = conversion.pairing
        lines.append(
            f"pairing {before} -> {after}; {before} according to {conversion.source_of_pairing}"
        )
    shown = list(conversion.tensors.items())
    lines += [f"  {name}  {what}" for name, what in shown[:MOST_LINES]]
    if len(shown) > MOST_LINES:
        lines.append(f"  … and {len(shown) - MOST_LINES} more (all of them with --json)")
    lines.append(f"{len(shown)} tensors change, {conversion.copied} are copied byte for byte")
    lines += [f"config: {sentence}" for sentence in conversion.config]
    left_out = [name for name, what in conversion.files.items() if what != "copied"]
    if left_out:
        lines.append(f"left out, as they may hold the weights as they were: {', '.join(left_out)}")
    return lines + conversion.checked()
