"""`posenc infer`: the spec that an implementation follows."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from posenc._core.errors import DataError, mismatch
from posenc.cli.options.common import (
    Positive,
    RenamedOption,
    WordChoice,
    as_json,
    code_named,
    runs_code,
)
from posenc.cli.options.inputs import file_there
from posenc.cli.output.show import print_answer

KINDS = ("rotary", "cos_sin", "angles", "table", "bias")
NAMES = ("input", "output", "positions")

EXAMPLES = """\b
Examples:
  posenc infer mymodel.rotary:apply
  posenc infer mymodel.vision:rotate --axes h,w
  posenc infer mymodel.tables:sinusoids
  posenc infer recorded.npz
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="MODULE:NAME|FILE.npz")
@click.option("--dim", type=click.IntRange(2, 4096), help="Channels of a head. [default: 64]")
@click.option("--axes", metavar="NAMES", default="position", help="Coordinates: h,w.")
@click.option("--kind", type=WordChoice(KINDS), help="What it computes.")
@click.option("--base", type=Positive(), help="The base of frequencies that follow no known rule.")
@click.option(
    "--unit", type=Positive(), default=1.0, help="The step of the positions asked for. [default: 1]"
)
@click.option(
    "--library",
    cls=RenamedOption,
    old=("--framework",),
    type=WordChoice(("torch", "numpy", "jax")),
    help="Of its arrays; found out by default.",
)
@click.option("--layout", help="The order of the axes of x, as bshd; found out by default.")
@click.option("--heads", type=click.IntRange(1, 2**12), help="Heads, where it has its own number.")
@runs_code
@as_json
def command(
    *,
    source: str,
    dim: int | None,
    axes: str,
    kind: Any,
    base: float | None,
    unit: float,
    library: Any,
    layout: str | None,
    heads: int | None,
    json_: bool,
) -> None:
    """Infer the spec that an implementation follows.

    MODULE:NAME or FILE.py:NAME is a function, class or object in a module that Python finds, the
    current folder included; in which form it is called is found out. A bias goes by the names of
    its arguments (q_positions, k_positions) or by --kind bias. A .npz holds arrays input, output
    and positions recorded from a rotation. The module is imported, so its code runs. The exit code
    is 1 where no spec says what it does, and 3 where the code ended the process or took longer than
    --timeout.
    """
    from posenc.detect.infer import infer_spec

    subject = _recording(source) if source.endswith(".npz") else code_named(source)
    names = tuple(name.strip() for name in axes.split(",") if name.strip())
    inferred = infer_spec(
        subject,
        dim=dim,
        axes=names,
        kind=kind,
        base=base,
        unit=unit,
        library=library,
        layout=layout,
        heads=heads,
    )
    print_answer(json_, inferred.to_dict, str(inferred).splitlines())
    if inferred.spec is None:
        raise click.exceptions.Exit(1)


def _recording(source: str) -> dict[str, np.ndarray]:
    from posenc._core.io.checkpoints import open_store

    with open_store(file_there(source)) as store:
        missing = [name for name in NAMES if name not in store.arrays]
        if store.format != "npz" or missing:
            received = ", ".join(list(store.arrays)[:20]) or "nothing"
            raise DataError(
                mismatch(source, f"a .npz with the arrays {', '.join(NAMES)}", received)
            )
        return {name: store.arrays[name].whole() for name in NAMES}
