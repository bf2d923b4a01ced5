"""`posenc cite`: whom to cite."""

from __future__ import annotations

import click

from posenc.cli.options.common import as_json, encoding_names, preset_names
from posenc.cli.output.show import print_json


@click.command()
@click.argument(
    "name", shell_complete=lambda *typed: [*encoding_names(*typed), *preset_names(*typed)]
)
@as_json
def command(name: str, json_: bool) -> None:
    """Print the BibTeX of an encoding.

    NAME is an encoding or a preset; see `posenc list`.
    """
    from posenc.presets import cite

    reference = cite(name)
    if json_:
        print_json(reference.to_dict())
    else:
        click.echo(str(reference))
