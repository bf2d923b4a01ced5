"""`posenc diff`: in which field the positions of two models or implementations differ."""

from __future__ import annotations

from typing import Any

import click

from posenc.cli.options.common import WordChoice, as_json, code_named, runs_code
from posenc.cli.output.show import print_answer


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--library",
    type=WordChoice(("torch", "numpy", "jax")),
    default="numpy",
    help="Of the arrays that MODULE:NAME takes. [default: numpy]",
)
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
      MODULE:NAME, FILE.py:NAME   code with cos_sin(positions) or the like
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

    comparison = diff(_side(a, library), _side(b, library))
    lines = comparison.markdown().split("\n") if markdown else comparison.lines()
    print_answer(json_, comparison.to_dict, lines)
    raise click.exceptions.Exit(comparison.exit_code)


def _side(text: str, library: Any) -> Any:
    """The text itself, or the code that it names."""
    from posenc.detect.contract.sides.sides import is_code, side_of

    if not is_code(text):
        return text
    return side_of(code_named(text), name=text, library=library)
