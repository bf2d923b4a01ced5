"""`posenc golden`: the contract of a model, as a file for engines and ports to check against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc.cli.options.common import (
    as_json,
    base_option,
    count_of,
    is_json,
    pairing_option,
    standard_json,
)
from posenc.cli.options.inputs import check_output, file_there
from posenc.cli.output.show import clean, print_lines

if TYPE_CHECKING:
    from posenc.detect.contract import Contract

EXPECTED = "the JSON of a config, a plan or a spec, which begins with {"
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
    "--format", "formats", metavar="LIST",
    help="json, safetensors or both. [default: by the ending of FILE, else json]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@pairing_option
@base_option
@as_json
def command(
    source: str, *, output: str | None, formats: Any, force: bool, pairing: Any,
    base: float | None, json_: bool,
) -> None:  # fmt: skip
    """Write the numbers that a model's positions must give.

    SOURCE is a config.json of transformers, a folder that holds one, a GGUF file, the JSON of a
    spec or plan or a file of it, preset:NAME:WIDTH, plan:NAME, or - for standard input. For each
    kind of layer the file states frequencies, cosines and sines, rotated queries and keys, scores,
    rows and biases at positions near and far, with tolerances; docs/golden.md describes every
    field. Without -o the JSON is printed.
    """
    if output is None and (formats is not None or force):
        raise click.UsageError("-o is missing: --format and --force are of the file.")
    from posenc.detect.contract import golden
    from posenc.detect.contract.files import targets, text_of

    formats = "both" if formats == "json,safetensors" else formats
    for target in targets(output, formats).values() if output is not None else ():
        check_output(target, force=force)
    contract = golden(source_of(source), pairing=pairing, base=base)
    if output is None:
        click.echo(text_of(contract), nl=False)
        _warn(contract)
        return
    existing: Any = "replace" if force else "refuse"
    names = contract.save(output, format=formats, existing=existing)
    if json_:
        result = {"output": list(names), "fingerprint": contract.fingerprint}
        result |= {"settled": contract.settled, "parts": [part.name for part in contract.parts]}
        click.echo(json.dumps(result))
    else:
        kinds = f"{count_of(contract.parts, 'kind')} of layer, {len(contract.checks)} records"
        told = f"{contract.model or 'a model without a name'}, {kinds}"
        click.echo(clean(f"{' and '.join(names)}: {told}; {contract.settled}"))
    _warn(contract)


def source_of(source: str) -> Any:
    """What the command line names: a text for JSON and names of rows, else a path that is there."""
    if source == "-":
        return standard_json(EXPECTED)
    if is_json(source) or source.startswith(("preset:", "plan:")):
        return source
    return Path(file_there(source))


def _warn(contract: Contract) -> None:
    """Warnings of the reader, and what no record states, on standard error."""
    notes = (note for note in contract.notes if note.level == "warning")
    lines = [f"warning: {note.layer}: {note.text}".replace(": : ", ": ") for note in notes]
    lines += [f"left out: {part.name}: {why}" for part in contract.parts for why in part.left_out]
    print_lines(lines, err=True)
