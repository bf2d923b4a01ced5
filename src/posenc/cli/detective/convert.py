"""`posenc convert`, a checkpoint in another convention, and `posenc pairing`, which one it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from posenc._core.errors import PosencError
from posenc.cli.options.common import (
    InputFile,
    OutputChoice,
    RenamedOption,
    WordChoice,
    as_json,
    config_option,
    force_option,
    grouped,
    refuse,
    stored_option,
    with_options,
)
from posenc.cli.options.encodings import is_spec, spec_of
from posenc.cli.output.lines import print_answer
from posenc.cli.output.show import progress

if TYPE_CHECKING:
    from posenc.detect.convert import Projections

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

# --- what the config of a checkpoint does not say about its heads ---------------------------------

projection_options = with_options(
    config_option,
    click.option("--heads", type=click.IntRange(1), help="Heads of queries."),
    click.option("--kv-heads", type=click.IntRange(1), help="Heads of keys."),
    click.option("--rotary", type=click.IntRange(2), help="Channels of a head that turn."),
    click.option(
        "--side",
        type=WordChoice(("leading", "trailing")),
        help="Which channels of a head turn. [default: leading]",
    ),
    click.option(
        "--fused",
        type=WordChoice(("blocks", "groups")),
        help="How one module packs queries, keys and values.",
    ),
    click.option(
        "--name",
        "patterns",
        metavar="ROLE=PATTERN",
        multiple=True,
        help="Names of q, k, qkv, q_gain or k_gain.",
    ),
    click.option(
        "--only", metavar="PATTERN", default="*", help="Look at tensors of these names alone."
    ),
    click.option("--part", metavar="NAME", help="Which model, where a config has several."),
    click.option(
        "--attention",
        metavar="NAME",
        default="",
        help="An attention inside layers, such as indexer.",
    ),
)


def _projections(
    *,
    patterns: tuple[str, ...],
    rotary: int | None,
    side: Any,
    stored: Any = None,
    unstated: Literal["half"] | None = None,
    **layout: Any,
) -> Projections:
    """What the options say; `unstated` is the pairing where none of them does."""
    from posenc.detect.convert import Projections
    from posenc.encodings.rotary.pairing import Pairing
    from posenc.encodings.rotary.rope import RoPE

    names, rope = {}, None
    for pattern in patterns:
        role, _, value = pattern.partition("=")
        refuse(not value, f"--name {pattern!r}: expected ROLE=PATTERN, as q=*.wq.weight.")
        names[role] = value
    if rotary is not None:
        if (order := stored or unstated) is None:
            raise click.UsageError("--rotary needs --stored: how the channels are paired.")
        refuse(rotary % 2, f"--rotary {rotary}: pairs need an even width.")
        # Any base will do, as the angles do not matter.
        rope = RoPE(rotary, pairing=Pairing(order, part=side or "leading"), base=10_000.0)
    elif side is not None:
        raise click.UsageError("--side says where in a head --rotary turns: give --rotary too.")
    return Projections(rope=rope, stored=stored, names=names or None, **layout)


# --- pairing --------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc pairing llama/
  posenc pairing model.safetensors --config config.json --json
  posenc pairing model.safetensors --heads 32 --rotary 128
"""
)
@click.argument("checkpoint", metavar="CHECKPOINT", type=InputFile())
@projection_options
@as_json
def pairing(*, checkpoint: str, config: str | None, json_: bool, **projections: Any) -> None:
    """Tell half from interleaved by the config and the weights.

    CHECKPOINT is a .safetensors file, an index of several, or a folder with one of these and its
    config.json. What is stated comes first; the weights are evidence, as z values, and the answer
    may be that nothing tells. The exit code is 0 for that as well.
    """
    from posenc.detect.convert import detect_pairing

    layout = _projections(**projections, unstated="half")
    finding = detect_pairing(checkpoint, layout=layout, config=config)
    print_answer(json_, finding.to_dict, str(finding).splitlines())


# --- convert --------------------------------------------------------------------------------------


class TableChoice(NamedTuple):
    """What the command line says about a table of positions in the checkpoint."""

    tensor: str | None
    before: str | None
    after: str | None
    length: str | None
    method: str


table_options = grouped(
    TableChoice,
    "table",
    click.option(
        "--tensor",
        "tensor",
        cls=RenamedOption,
        old=("--table",),
        metavar="NAME",
        help="The tensor that holds a table of positions.",
    ),
    click.option(
        "--from", "before", metavar="SPEC", help="What the table is: JSON, file or preset."
    ),
    click.option("--to", "after", metavar="SPEC", help="What the table becomes, written alike."),
    click.option(
        "--resize",
        "length",
        cls=RenamedOption,
        old=("--length",),
        metavar="N|HxW",
        help="The length that a learned table gets.",
    ),
    click.option(
        "--method",
        type=WordChoice(METHODS),
        default=METHODS[0],
        metavar="NAME",
        help=f"How --resize fills the rows: {', '.join(METHODS)}.",
    ),
)


@click.command(
    epilog="""\b
Examples:
  posenc convert llama/ llama-interleaved/ --pairing interleaved
  posenc convert model.safetensors new.safetensors --pairing half \\
      --config config.json
  posenc convert bert/ long/ --tensor embeddings.position_embeddings.weight \\
      --resize 1024 --method linear
  posenc convert model/ model-v4/ --dialect hf4
"""
)
@click.argument("source", metavar="SOURCE", type=InputFile())
@click.argument("output", metavar="OUTPUT", required=False)
@click.option("--pairing", type=WordChoice(("half", "interleaved")), help="The pairing to write.")
@stored_option
@projection_options
@table_options
@click.option(
    "--dialect", type=WordChoice(("hf4", "hf5")), help="How the config writes rotary parameters."
)
@click.option("--dry-run", is_flag=True, help="Show the plan; write nothing.")
@force_option()
@as_json
def convert(
    *,
    source: str,
    output: str | None,
    table: TableChoice,
    dry_run: bool,
    force: bool,
    json_: bool,
    pairing: str | None,
    dialect: str | None,
    config: str | None,
    **projections: Any,
) -> None:
    """Write a checkpoint in another convention.

    SOURCE is a .safetensors file, an index of several, or a folder with one of these and its
    config.json; it is only read. OUTPUT is a new file, or a new folder where the source is one, and
    appears when it is complete and a forward probe has found the scores unchanged. Weights that
    contradict the pairing that the config states stop it, unless --stored says what is stored.
    """
    from posenc.detect.convert import convert

    refuse(
        table.tensor is None and bool(table.before or table.after or table.length),
        "--from, --to and --resize are for a table, which --tensor names. Weights of q and k "
        "change by --pairing half or interleaved, and a config by posenc convert-config.",
    )
    refuse(
        not output and not dry_run,
        "OUTPUT is missing: name it, or look at the plan with --dry-run.",
    )
    refuse(
        pairing is None and table.tensor is None and dialect is None,
        "nothing to change: give --pairing half or interleaved for the weights of q and k, "
        "--dialect for a config, or --tensor for a table, whose rules are --from and --to.",
    )
    options: dict[str, Any] = {
        "pairing": pairing,
        "tables": None,
        "method": table.method,
        "dialect": dialect,
        "layout": _projections(**projections),
        "config": config,
        "existing": OutputChoice(output, force).existing,
    }
    if table.tensor is not None:
        options["tables"] = {table.tensor: _specs(source, table.tensor, table)}
    if dry_run or output is None:
        conversion = convert(source, **options)
    else:
        refuse(not force and Path(output).exists(), f"{output} exists: --force replaces it.")
        with progress("writing ", _size(Path(source))) as done:
            conversion = convert(source, output, progress=done, **options)
    print_answer(json_, conversion.to_dict, str(conversion).splitlines())


def _size(path: Path) -> int:
    """Bytes that will be written, about."""
    files = (path,) if path.is_file() else path.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def _specs(source: str, name: str, table: TableChoice) -> tuple[Any, Any]:
    """The two specs of a table, by JSON, presets or the new length alone."""
    from posenc._core.io.checkpoints import open_checkpoint
    from posenc.encodings.table.learned import Learned

    tensors = open_checkpoint(source, config={}, caller="convert").tensors
    rows, width = (1, *(tensors[name].tensor.shape if name in tensors else (1, 1)))[-2:]
    before, after, length = table[1:4]
    old = Learned(width, length=rows) if before is None else _spec(before, width, "--from")
    refuse(after is not None and length is not None, "--to or --resize, not both.")
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
    refuse(
        not (is_spec(text) or Path(text).exists()),
        f"{option}: {text[:80]!r} is no JSON, no preset and no file.",
    )
    return spec_of(text, option)
