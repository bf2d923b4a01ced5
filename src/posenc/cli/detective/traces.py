"""Which layer of a model turns its queries and keys otherwise: `posenc trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from posenc.cli.options.common import (
    InputFile,
    as_json,
    code_named,
    file_there,
    runs_code,
)
from posenc.cli.options.pictures import whole_numbers
from posenc.cli.output.lines import print_answer, print_lines

if TYPE_CHECKING:
    from posenc.detect.trace.result import Trace

MARKS = {"agrees": ("\u25a0", "green"), "differs": ("\u2717", "red"), "unseen": ("?", "yellow")}


def _numbers(_: click.Context, __: click.Parameter, text: str | None) -> list[int] | None:
    return None if text is None else whole_numbers(text, "--layers")


@click.command(
    epilog="""\b
Examples:
  posenc trace Llama-3.1-8B --layers 0-3
  posenc trace mymodel.py:build --expected config.json
  posenc trace dumps/ --expected Llama-3.1-8B/config.json
"""
)
@click.argument("source", metavar="MODEL_DIR|FILE.py:NAME|DUMPS")
@click.option(
    "--expected",
    metavar="CONFIG",
    type=InputFile(),
    help="What it is held against: a config or a contract. [default: the config of the model]",
)
@click.option("--tokens", type=click.IntRange(1, 4096), help="How many tokens run. [default: 64]")
@click.option(
    "--layers", callback=_numbers, metavar="0-3,7", help="Build, read and look at these alone."
)
@runs_code
@as_json
def trace(source: str, *, json_: bool, **options: Any) -> None:
    """Say which layer of a model turns queries and keys otherwise.

    MODEL_DIR is a folder of transformers with a config.json and .safetensors: posenc builds the
    class of the installed transformers, never code of the folder, and runs it once with random
    tokens. FILE.py:NAME, or MODULE:NAME, is a
    model, or a function that returns one, or a model and its inputs; it is imported and run. DUMPS
    is a folder or file of arrays that another program wrote, named as layer0.q.before: it takes
    --expected, and nothing of it is executed.

    The exit code is 0 if every layer agrees in what was seen, 1 for a layer that differs, 2 for a
    mistake in the command line, and 3 if something was not seen, or code that was run ended the
    process or took longer than --timeout.
    """
    import posenc
    from posenc.detect.contract.sides.sides import is_code

    traced = posenc.trace(code_named(source) if is_code(source) else file_there(source), **options)
    if not json_:
        _draw(traced)
    print_answer(json_, traced.to_dict, str(traced).split("\n"))
    raise click.exceptions.Exit(traced.exit_code)


def _draw(traced: Trace) -> None:
    """The layers in a row, in colours where the terminal has them, and the first that differs."""
    wrong = {finding.layer for finding in traced.findings}
    unseen = {text.partition(",")[0].partition(":")[0] for text in traced.unseen}
    states = ["differs" if layer.index in wrong else
              "unseen" if f"layer {layer.index}" in unseen else "agrees"
              for layer in traced.layers]  # fmt: skip
    legend = ", ".join(f"{MARKS[state][0]} {state}" for state in dict.fromkeys(states))
    click.echo(f"{''.join(click.style(*MARKS[state]) for state in states)}  {legend}")
    if "differs" in states:
        layer = traced.layers[states.index("differs")]
        print_lines([", ".join(filter(None, (f"first: layer {layer.index}", layer.path)))])
