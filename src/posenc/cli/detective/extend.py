"""`posenc extend`: what to write where for a longer context, and what it costs."""

from __future__ import annotations

import json
from typing import Any

import click

from posenc._core.io import inputs, outputs
from posenc.cli.options.common import Count, as_json
from posenc.cli.options.inputs import check_output, file_there, standard_input
from posenc.cli.output.show import print_answer

CONFIG = "the JSON of a config, which begins with {"
EXAMPLES = """\b
Examples:
  posenc extend config.json 128k
  posenc extend config.json --factor 4 --rule yarn -o longer.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("config", metavar="CONFIG")
@click.argument("length", metavar="[LENGTH]", type=Count(1), required=False)
@click.option("--to", type=Count(1), metavar="LENGTH", help="The same as LENGTH.")
@click.option("--factor", type=float, help="The new length over the trained one, in place of it.")
@click.option("--trained", type=Count(1), metavar="LENGTH", help="Where training ended.")
@click.option("--rule", metavar="NAME", help="Write this rule, in place of the first.")
@click.option("-o", "--output", metavar="FILE", help="Write the config with the rule in it.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@as_json
def command(
    config: str, *, length: int | None, to: int | None, output: str | None, force: bool,
    json_: bool, **how: Any,
) -> None:  # fmt: skip
    """Plan a longer context for a model.

    LENGTH is the new length in positions, such as 131072 or 128k. CONFIG is a config.json of
    transformers, a folder that holds one, a GGUF file, or - for standard input. For each kind of
    layer the rules that extend a context are compared by what they do to the angles that the
    model was trained on; the first of them by this arithmetic comes with the lines that engines
    need. Quality is not predicted. With -o the config is written with the rule in it.
    """
    from posenc.detect.extend import extend
    from posenc.detect.extend.report import lines

    if [length, to, how["factor"]].count(None) != 2:
        raise click.UsageError("Give the new LENGTH, such as 128k, or --factor F, and not both.")
    if force and output is None:
        raise click.UsageError("--force needs -o FILE.")
    if output is not None:
        check_output(output, force=force)
    source: Any = standard_input(CONFIG, inputs.CONFIG) if config == "-" else file_there(config)
    extension = extend(source, length or to, **how)
    if output is not None:
        outputs.write_whole(output, json.dumps(extension.config(), indent=2) + "\n")
    written = [] if output is None else [f"written: {output}"]
    print_answer(json_, extension.to_dict, [*lines(extension), *written])
