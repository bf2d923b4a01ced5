"""`posenc cite`: whom to cite."""

from __future__ import annotations

import click

from posenc._core.errors import DataError, mismatch, suggest
from posenc._core.spec.spec import Spec
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
    from posenc import presets
    from posenc.registry import lookup, names

    sources: list[dict[str, str]] = []
    encodings = {known.lower(): known for known in names()}
    if name.lower() in encodings:
        encoding = encodings[name.lower()]
    elif name in presets.names():
        row = presets.row(name)
        encoding, sources = row.spec["type"], [dict(source) for source in row.sources]
    else:
        todo = suggest(name, [*encodings.values(), *presets.names()])
        raise click.UsageError(f"{name!r} is no encoding or preset. {todo}")
    cls = lookup(encoding)
    bibtex = cls.bibtex if issubclass(cls, Spec) else ""
    if not bibtex:
        raise DataError(mismatch("cite", "an encoding with a reference", encoding))
    if json_:
        print_json({"name": name, "encoding": encoding, "bibtex": bibtex, "sources": sources})
        return
    for source in sources:
        click.echo(f"% {name}: " + ", ".join(source.values()))
    click.echo(bibtex)
