"""`posenc infer`: the spec that an implementation follows."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc.cli.options.common import RenamedOption, WordChoice, as_json, code_named, runs_code
from posenc.cli.options.inputs import file_there
from posenc.cli.output.show import print_answer

NAMES = ("input", "output", "positions")

EXAMPLES = """\b
Examples:
  posenc infer mymodel.rotary:apply --dim 64
  posenc infer mymodel.vision:rotate --dim 64 --axes h,w
  posenc infer mymodel.tables:sinusoids
  posenc infer recorded.npz
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="MODULE:NAME|FILE.npz")
@click.option("--dim", type=click.IntRange(2, 4096), help="Channels of a head, for rotations.")
@click.option("--axes", metavar="NAMES", default="position", help="Coordinates: h,w.")
@click.option("--kind", type=WordChoice(("rotary", "table", "bias")), help="What the function is.")
@click.option("--base", type=float, help="The base of frequencies that follow no known rule.")
@click.option(
    "--unit", type=float, default=1.0, help="The step of the positions asked for. [default: 1]"
)
@click.option(
    "--library",
    "framework",
    cls=RenamedOption,
    old=("--framework",),
    type=WordChoice(("torch", "numpy", "jax")),
    help="Of its arrays; tried out by default.",
)
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
    framework: Any,
    json_: bool,
) -> None:
    """Infer the spec that an implementation follows.

    MODULE:NAME is a function in a module that Python finds, the current folder included:
    f(x, positions) for a rotation (--dim says how wide x is), f(positions) for a table,
    f(q_positions, k_positions) for a bias. A .npz holds arrays input, output and positions recorded
    from a rotation. The module is imported, so its code runs. The exit code is 1 where no spec says
    what it does, and 3 where the code ended the process or took longer than --timeout.
    """
    from posenc.detect.infer import infer_spec

    if base is not None and not base > 0:
        raise click.UsageError(f"--base: {base:g} is not positive.")
    if not unit > 0:
        raise click.UsageError(f"--unit: {unit:g} is not positive.")
    subject = _recording(source) if source.endswith(".npz") else _function(source)
    names = tuple(name.strip() for name in axes.split(",") if name.strip())
    inferred = infer_spec(
        subject, dim=dim, axes=names, kind=kind, base=base, unit=unit, framework=framework
    )
    print_answer(json_, inferred.describe, str(inferred).splitlines())
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


def _function(source: str) -> Any:
    function = code_named(source)
    if not callable(function):
        raise ArgumentError(mismatch(source, "a function", type(function).__name__))
    return function
