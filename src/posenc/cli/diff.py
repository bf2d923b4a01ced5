"""`posenc diff`: in which field the positions of two models or implementations differ."""

from __future__ import annotations

from typing import Any

import click

from posenc._core.errors import DataError, DependencyError
from posenc.cli._options import as_json
from posenc.cli._show import clean, print_json

__all__ = ["command"]

COULD_NOT = 3


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--dim", type=click.IntRange(1, 2**19), help="Width or heads of preset:NAME.")
@click.option("--markdown", is_flag=True, help="Print a table for an issue.")
@as_json
def command(a: str, b: str, *, dim: int | None, markdown: bool, json_: bool) -> None:
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

    The exit code is 0 if nothing differs in what was compared, 1 for a difference, 2 for a mistake
    in the command line, and 3 if nothing could be compared.
    """  # noqa: D301 - click reads the character
    if markdown and json_:
        raise click.UsageError("--markdown and --json: choose one.")
    from posenc.detect.contract import diff

    try:
        found = diff(a, b, dim=dim)
    except (DataError, DependencyError, OSError) as error:
        raise _CouldNot(str(error)) from error
    if json_:
        print_json(found.to_dict())
    elif markdown:
        click.echo("\n".join(clean(line) for line in found.markdown().split("\n")))
    else:
        for line in found.lines():
            click.echo(clean(line))
    raise click.exceptions.Exit(found.exit_code)


class _CouldNot(click.ClickException):
    """Nothing was compared: a file that cannot be read, a library that is absent."""

    exit_code = COULD_NOT

    def show(self, file: Any = None) -> None:
        """As every error of the command."""
        click.echo(f"posenc: error: {clean(self.message)}", err=True, file=file)
