"""`posenc identify`: which conventions the tables and frequencies of a file follow."""

from __future__ import annotations

from pathlib import Path

import click

from posenc.cli.options.common import RenamedOption, as_json
from posenc.cli.options.inputs import InputFile
from posenc.cli.output.show import print_answer, progress

IN_FULL = 6


@click.command()
@click.argument("file", metavar="FILE", type=InputFile())
@click.option("--tensor", metavar="NAME", help="The one to look at, whatever it is called.")
@click.option(
    "--specs",
    "as_spec",
    cls=RenamedOption,
    old=("--spec",),
    is_flag=True,
    help="Print the JSON of the claimed specs only.",
)
@as_json
def command(file: str, tensor: str | None, as_spec: bool, json_: bool) -> None:
    """Say which conventions the tables and frequencies of a file follow.

    FILE is a .safetensors, its index or folder, a .npy, .npz, .gguf, or a .bin or .pt of
    torch.save, which is read without running its pickle. Arrays are found by name and by what
    their first rows look like. A convention is claimed after every entry was rebuilt from it; the
    exit code is 0 also where nothing can be claimed.
    """
    from posenc._core.spec.spec import to_json
    from posenc.detect.identify import identify, lines

    with progress("reading", 100) as advance:
        shown = [0]

        def report(done: int, count: int) -> None:
            percent = 100 * done // count
            advance(percent - shown[0])
            shown[0] = percent

        identification = identify(Path(file), name=tensor, progress=report)
    if as_spec:
        for finding in identification.claims:
            if finding.spec is not None:
                click.echo(to_json(finding.spec))
    else:
        print_answer(json_, identification.to_dict, lines(identification, most=IN_FULL))
