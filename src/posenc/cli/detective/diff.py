"""`posenc diff`: in which field the positions of two models or implementations differ."""

from __future__ import annotations

from typing import Any

import click

from posenc.cli.options.common import as_json, library_option, runs_code, side_named
from posenc.cli.output.show import print_answer


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@library_option
@click.option("--markdown", is_flag=True, help="Print a table for an issue.")
@runs_code
@as_json
def command(a: str, b: str, *, library: Any, markdown: bool, json_: bool) -> None:
    """Compare the positions of two models or implementations.

    A and B are each one of

    \b
      config.json, a folder, a .gguf file, the JSON of a spec or plan
      a file of posenc golden
      preset:NAME:WIDTH, plan:NAME
      MODULE:NAME, FILE.py:NAME   code: f(x, positions), f(positions), a class, ...
      model.safetensors, .pt …    buffers: inv_freq, cos_cached, embed_positions
      hf:FOLDER                   the class in transformers, without remote code
      engine:vllm=CONFIG          vLLM's rotary classes

    It names the fields that differ, what explains the others first, and says what was compared and
    what was not. MODULE:NAME is imported and run.

    The exit code is 0 if nothing differs in what was compared, which is counted, 1 for a
    difference, 2 for a mistake in the command line, and 3 if nothing could be compared, or code
    that was run ended the process or took longer than --timeout.
    """  # noqa: D301 - click reads the character
    if markdown and json_:
        raise click.UsageError("--markdown and --json: choose one.")
    from posenc.detect.contract import diff
    from posenc.detect.contract.sides.sides import side_of

    sides = (side_of(side_named(text), name=text, library=library) for text in (a, b))
    comparison = diff(*sides)
    lines = comparison.markdown().split("\n") if markdown else comparison.lines()
    print_answer(json_, comparison.to_dict, lines)
    raise click.exceptions.Exit(comparison.exit_code)
