"""`posenc extend`: what to write where for a longer context, and what it costs."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from posenc._core.io import inputs, outputs
from posenc.cli.options.common import as_json
from posenc.cli.options.inputs import check_output, file_there, standard_input
from posenc.cli.output.show import print_answer

CONFIG = "the JSON of a config, which begins with {"
EXAMPLES = """\b
Examples:
  posenc extend config.json --to 131072
  posenc extend config.json --factor 4 --rule yarn -o longer.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("config", metavar="CONFIG")
@click.option("--to", type=int, metavar="LENGTH", help="The new length, in positions.")
@click.option("--factor", type=float, help="The new length over the trained one, in place of --to.")
@click.option("--trained", type=int, metavar="LENGTH", help="Where training ended.")
@click.option("--rule", metavar="NAME", help="Write this rule, in place of the first.")
@click.option("-o", "--output", metavar="FILE", help="Write the config with the rule in it.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@as_json
def command(
    config: str, *, to: int | None, factor: float | None, trained: int | None, rule: str | None,
    output: str | None, force: bool, json_: bool,
) -> None:  # fmt: skip
    """Plan a longer context for a model.

    CONFIG is a config.json of transformers, a folder that holds one, a GGUF file, or - for standard
    input. For each kind of layer the rules that extend a context are compared by what they do to
    the angles that the model was trained on; the first of them by this arithmetic comes with the
    lines that engines need. Quality is not predicted. With -o the config is written with the
    rule in it.
    """
    from posenc.detect.extend import extend_context
    from posenc.detect.extend.report import described, lines

    if (to is None) == (factor is None):
        raise click.UsageError("Give --to LENGTH or --factor F, and not both.")
    if force and output is None:
        raise click.UsageError("--force needs -o FILE.")
    if output is not None:
        check_output(output, force=force)
    source: Any = standard_input(CONFIG, inputs.CONFIG) if config == "-" else file_there(config)
    found = extend_context(source, to, factor=factor, trained=trained)
    if rule is not None:
        found.wanted(rule)  # an unknown rule is told before anything is printed
    if output is not None:
        outputs.write_whole(output, json.dumps(found.config(rule), indent=2) + "\n")
    written = [] if output is None else [f"written: {output}"]
    print_answer(json_, functools.partial(described, found, rule), [*lines(found, rule), *written])
