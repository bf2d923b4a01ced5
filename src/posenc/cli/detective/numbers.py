"""What numbers come from: `posenc locate`, `identify` and `infer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from posenc._core.errors import refuse_data
from posenc._core.numeric.counts import counted
from posenc.cli.options.arrays import ParameterChoice, learnt_from, vector_from
from posenc.cli.options.common import (
    KINDS,
    InputFile,
    Positive,
    RenamedOption,
    WordChoice,
    as_json,
    code_named,
    file_there,
    grouped,
    refuse,
    runs_code,
)
from posenc.cli.options.encodings import EncodingChoice, any_spec, encoding_options
from posenc.cli.output.lines import print_answer
from posenc.cli.output.show import progress

RECORDED = ("input", "output", "positions")

# --- locate ---------------------------------------------------------------------------------------


class VectorChoice(NamedTuple):
    """What the command line says about a vector in a file."""

    row: int | None = None
    name: str | None = None
    before: str | None = None
    params: str | None = None


vector_options = grouped(
    VectorChoice,
    "part",
    click.option("--row", type=click.IntRange(0), help="Which row of the file."),
    click.option(
        "--tensor",
        "name",
        cls=RenamedOption,
        old=("--name",),
        metavar="NAME",
        help="Which one of the file.",
    ),
    click.option(
        "--before",
        type=InputFile(stream=True),
        metavar="FILE",
        help="What stood there before: the embedding, or the query or key.",
    ),
    click.option(
        "--params", type=InputFile(), metavar="FILE", help="The parameters of a learned table."
    ),
)


@click.command(
    epilog="""\b
Examples:
  posenc locate --dim 5120 --value 0.488814 --at 1088
  posenc locate --dim 512 --value 0.91 --at 0 --value -0.42 --at 1
  posenc locate row.npy --base 10000
  posenc locate sums.npy --row 3 --before embeddings.npy --preset whisper
"""
)
@click.argument(
    "vector",
    metavar="[VECTOR]",
    type=InputFile(
        stream=True,
        advice="A row goes in by echo '0.66 0.75' | posenc locate -; single numbers "
        "go with --value and --at.",
    ),
    required=False,
)
@click.option("--value", "values", multiple=True, metavar="DIGITS", help="A value, as printed.")
@click.option("--at", multiple=True, type=click.IntRange(0), help="Its dimension, counted from 0.")
@vector_options
@click.option(
    "--within",
    metavar="LOW:HIGH",
    help="The range of positions. [default: up to 2**31 - 1, for a vector on both sides of 0]",
)
@click.option(
    "--conventions",
    type=WordChoice(("siblings", "stated")),
    default="siblings",
    help="Whether to try conventions beside the stated one. [default: siblings]",
)
@encoding_options
@as_json
def locate(
    *,
    vector: str | None,
    values: tuple[str, ...],
    at: tuple[int, ...],
    part: VectorChoice,
    within: str | None,
    conventions: str,
    choice: EncodingChoice,
    json_: bool,
) -> None:
    """Find the position that numbers come from.

    VECTOR is a .npy or .safetensors file, a text file of numbers, or - for standard input; it is
    a row of a table, an embedding with a table added (--before), or a turned query or key. Or give
    single values with --value and --at. The exit code is 1 where no position fits.
    """
    from posenc.detect.locate import locate

    if (vector is None) == (not values):
        both = ", not both" if values else ""
        raise click.UsageError(f"give a VECTOR, or --value and --at{both}.")
    check_paired(values, at)
    extra: dict[str, Any] = {"conventions": conventions}
    if within is not None:
        extra["within"] = _range(within)
    if vector is None:
        for option, value in zip(("--row", "--tensor", "--before"), part[:3], strict=True):
            refuse(value is not None, f"{option} is for a VECTOR.")
        refuse(len(set(at)) != len(at), "--at: one value for each dimension.")
        location = locate(any_spec(choice), dict(zip(at, values, strict=True)), **extra)
    else:
        row, name, before, params = part
        x = vector_from(vector, row, name)
        chosen = any_spec(choice, width=len(x))
        if before is not None:
            extra["before"] = vector_from(before, row, name if name and before == vector else None)
        if params is not None or getattr(chosen, "shapes", None):
            extra["params"] = learnt_from(ParameterChoice(params), chosen).values
        location = locate(chosen, x, **extra)
    print_answer(json_, location.to_dict, location.story)
    if location.best is None:
        raise click.exceptions.Exit(1)


def check_paired(values: tuple[str, ...], at: tuple[int, ...]) -> None:
    """Raise unless there are as many values as dimensions."""
    if len(values) > len(at):
        raise click.UsageError(
            f"--value {values[len(at)]} has no --at: write its dimension, counted from 0."
        )
    if len(values) < len(at):
        raise click.UsageError(
            f"--at {at[len(values)]} has no --value: write the number that stands there."
        )


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = (float(counted(end)) for end in text.split(":"))
    except ValueError:
        low, high = 1.0, 0.0
    refuse(low > high, f"--within {text[:50]!r}: write LOW:HIGH, such as 0:100000.")
    return low, high


# --- identify -------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc identify table.npy
  posenc identify model.safetensors --json
"""
)
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
def identify(file: str, tensor: str | None, as_spec: bool, json_: bool) -> None:
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

        identification = identify(Path(file), tensor=tensor, progress=report)
    if as_spec:
        for spec in (finding.spec for finding in identification.claims if finding.spec is not None):
            click.echo(to_json(spec))
    else:
        print_answer(json_, identification.to_dict, lines(identification, most=6))


# --- infer ----------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc infer mymodel.rotary:apply
  posenc infer mymodel.vision:rotate --axes h,w
  posenc infer mymodel.tables:sinusoids
  posenc infer recorded.npz
"""
)
@click.argument("source", metavar="MODULE:NAME|FILE.npz")
@click.option(
    "--dim", type=click.IntRange(2, 4096), help="Channels of a head; found out by default."
)
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
    help="The library of its arrays; found out by default.",
)
@click.option("--layout", help="The order of the axes of x, as bshd; found out by default.")
@click.option("--heads", type=click.IntRange(1, 2**12), help="Heads, where it has its own number.")
@runs_code
@as_json
def infer(*, source: str, axes: str, json_: bool, **how: Any) -> None:
    """Infer the spec that an implementation follows.

    MODULE:NAME or FILE.py:NAME is a function, class or object in a module that Python finds, the
    current folder included; posenc finds out how it is called. A bias goes by the names of
    its arguments (q_positions, k_positions) or by --kind bias. A .npz holds arrays input, output
    and positions recorded from a rotation. The module is imported, so its code runs. The exit code
    is 1 where no spec says what it does, and 3 where the code ended the process or took longer than
    --timeout.
    """
    from posenc.detect.infer import infer_spec

    inferred = infer_spec(
        _recording(source) if source.endswith(".npz") else code_named(source),
        axes=tuple(name.strip() for name in axes.split(",") if name.strip()),
        **how,
    )
    print_answer(json_, inferred.to_dict, str(inferred).splitlines())
    if inferred.spec is None:
        raise click.exceptions.Exit(1)


def _recording(source: str) -> dict[str, np.ndarray]:
    from posenc._core.io.checkpoints import open_store

    with open_store(file_there(source)) as store:
        refuse_data(
            store.format != "npz" or any(name not in store.arrays for name in RECORDED),
            source,
            f"a .npz with the arrays {', '.join(RECORDED)}",
            ", ".join(list(store.arrays)[:20]) or "nothing",
        )
        return {name: store.arrays[name].whole() for name in RECORDED}
