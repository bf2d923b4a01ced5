"""`posenc golden`: the contract of a model, as a file for engines and ports to check against."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc._core import inputs
from posenc._core.errors import DataError, mismatch
from posenc.cli._inputs import file_there, standard_input
from posenc.cli._options import Choice, as_json, is_json
from posenc.cli._show import clean

if TYPE_CHECKING:
    from posenc.detect.contract import Contract

__all__ = ["command", "source_of"]

WANTED = "the JSON of a config, a plan or a spec, which begins with {"

EXAMPLES = """\b
Examples:
  posenc golden config.json -o model.golden.json
  posenc golden model.gguf -o model.golden.json --format both
  posenc golden preset:llama:128 -o llama.golden.json
  posenc golden plan:gemma3 -o gemma3.golden.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="SOURCE")
@click.option("-o", "--output", metavar="FILE", help="Where to write it.")
@click.option(
    "--format",
    "formats",
    metavar="LIST",
    help="json, safetensors or both. [default: by the ending of FILE, else json]",
)
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@click.option("--pairing", type=Choice(("half", "interleaved")), help="For families not known.")
@click.option("--base", type=float, help="For configs that do not state it.")
@click.option("--dim", type=click.IntRange(1, 2**16), help="Of a preset: its width.")
@click.option("--heads", type=click.IntRange(1, 2**12), help="Of a preset without a width.")
@as_json
def command(
    source: str,
    *,
    output: str | None,
    formats: str | None,
    force: bool,
    pairing: Any,
    base: float | None,
    dim: int | None,
    heads: int | None,
    json_: bool,
) -> None:
    """Write the numbers that a model's positions must give.

    SOURCE is a config.json of transformers, a folder that holds one, a GGUF file, the JSON of a
    spec or plan or a file of it, preset:NAME:WIDTH, plan:NAME, or - for standard input. For each
    kind of layer the file states frequencies, cosines and sines, rotated queries and keys, scores,
    rows and biases at positions near and far, with tolerances; docs/golden.md describes every
    field. Without -o the contract is summed up, or printed with --json.
    """
    if base is not None and not base > 0:
        raise click.UsageError(f"--base: {base:g} is not positive.")
    if dim is not None and heads is not None:
        raise click.UsageError("--dim or --heads, not both.")
    if output is None and (formats is not None or force):
        raise click.UsageError("-o is missing: --format and --force are of the file.")
    given = source_of(source)
    named = isinstance(given, str) and given.startswith("preset:")
    if named and given.count(":") == 1 and dim is None and heads is None:
        raise click.UsageError("--dim or --heads says how large the preset is.")
    if not named and (dim is not None or heads is not None):
        raise click.UsageError("--dim and --heads are of preset:NAME.")
    from posenc.detect.contract import golden
    from posenc.detect.contract.files import targets, text_of

    format_: Any = "both" if formats == "json,safetensors" else formats
    if output is not None:
        for target in targets(output, format_).values():
            if target.exists() and not force:
                raise click.UsageError(f"{target} exists: --force replaces it.")
    contract = golden(given, pairing=pairing, base=base, dim=dim or heads)
    if output is None:
        if json_:
            click.echo(text_of(contract), nl=False)
        else:
            _sum_up(contract)
        return
    existing: Any = "replace" if force else "refuse"
    names = contract.save(output, format=format_, existing=existing)
    if json_:
        told = {"output": list(names), "fingerprint": contract.fingerprint}
        told |= {"settled": contract.settled, "parts": [part.name for part in contract.parts]}
        click.echo(json.dumps(told))
        return
    click.echo(f"{' and '.join(names)}: {clean(_counted(contract))}")
    _warn(contract)


def source_of(source: str) -> Any:
    """What the command line names: a text for JSON and names of rows, else a path that is there."""
    if source == "-":
        text = standard_input(WANTED, inputs.CONFIG)
        if not is_json(text):
            raise DataError(mismatch("standard input", WANTED, repr(text.strip()[:40])))
        return text
    if is_json(source) or source.startswith(("preset:", "plan:")):
        return source
    return Path(file_there(source))


def _counted(contract: Contract) -> str:
    parts = len(contract.parts)
    model = contract.model or "a model without a name"
    kinds = f"{parts} kind{'' if parts == 1 else 's'} of layer"
    return f"{model}, {kinds}, {len(contract.checks)} records; {contract.settled}"


def _sum_up(contract: Contract) -> None:
    click.echo(clean(_counted(contract)))
    for part in contract.parts:
        sorts = Counter(check.check for check in contract.of(part.name))
        told = ", ".join(f"{count} {sort}" for sort, count in sorts.items()) or "no numbers"
        layers = "" if part.layers is None else f", {len(part.layers)} layers"
        click.echo(clean(f"  {part.name} ({part.kind}{layers}): {told}"))
    click.echo(f"fingerprint {contract.fingerprint}")
    _warn(contract)


def _warn(contract: Contract) -> None:
    for note in contract.notes:
        if note.level == "warning":
            click.echo(clean(f"warning: {note.layer}: {note.text}".replace(": : ", ": ")), err=True)
    for part in contract.parts:
        for sentence in part.left_out:
            click.echo(clean(f"left out: {part.name}: {sentence}"), err=True)
