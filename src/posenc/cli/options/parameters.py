"""What a learned table has learned: read from a file, or made afresh and called untrained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from posenc._core.errors import DataError, mismatch, suggest
from posenc._core.io import files, headers, inputs
from posenc.cli.options.common import grouped
from posenc.cli.options.inputs import InputFile
from posenc.encodings.table.base import TableSpec

MOST_NUMBERS = 2**28  # of all parameters of a table: 1 GiB of float32
TODO = "Save them by these names as .safetensors."


class ParameterChoice(NamedTuple):
    """What the command line says about parameters."""

    params: str | None = None
    init_seed: int | None = None


class Learnt(NamedTuple):
    """Parameters by name, None where the spec learns nothing; where they came from, in words."""

    values: dict[str, np.ndarray] | None
    origin: str


parameter_options = grouped(
    ParameterChoice,
    "parameters",
    click.option(
        "--params",
        type=InputFile(),
        metavar="FILE",
        help="The parameters of a learned table, by their names: .safetensors, or .npy "
        "where there is one.",
    ),
    click.option(
        "--init-seed",
        metavar="N",
        type=click.IntRange(0),
        help="Begin a learned table as posenc.init does; it is then untrained.",
    ),
)


def learnt_from(choice: ParameterChoice, spec: TableSpec, *, finite: bool = True) -> Learnt:
    """The parameters that the options describe."""
    options = [f"--{k.replace('_', '-')}" for k, v in choice._asdict().items() if v is not None]
    name, shapes = type(spec).__name__, spec.shapes
    if len(options) > 1:
        raise click.UsageError(f"{' or '.join(options)}, not both.")
    if not shapes:
        if options:
            raise click.UsageError(f"{options[0]} is for learned tables; {name} learns nothing.")
        return Learnt(None, "")
    wanted = ", ".join(
        f"{key} {'x'.join(map(str, shape)) or '()'}" for key, shape in shapes.items()
    )
    if not options:
        raise click.UsageError(
            f"{name} learns {wanted}: give them with --params FILE, "
            "or begin untrained with --init-seed N."
        )
    count = sum(map(math.prod, shapes.values()))
    if count > MOST_NUMBERS:
        raise DataError(mismatch(name, f"at most {MOST_NUMBERS} learned numbers", count))
    if choice.params is None:
        from posenc.functional import init

        seed = choice.init_seed or 0
        return Learnt(init(spec, seed), f"untrained: posenc.init(spec, seed={seed})")
    values = _read(Path(choice.params), shapes, finite=finite)
    return Learnt(values, f"parameters of {choice.params}")


def _read(
    path: Path, shapes: Mapping[str, tuple[int, ...]], *, finite: bool
) -> dict[str, np.ndarray]:
    layout = files.read_layout(path)
    if layout.format == "npy" and len(shapes) > 1:
        received = "a .npy, which holds one array"
        raise DataError(mismatch(str(path), f"the parameters {', '.join(shapes)}", received, TODO))
    tensors = {}
    for name, shape in shapes.items():
        if layout.format == "safetensors" and name not in layout.tensors:
            names = list(layout.tensors)[:1000]
            todo = suggest(name, names) if names else TODO
            raise DataError(mismatch(str(path), f"a tensor {name!r}", "none of that name", todo))
        tensor = layout.pick(None if layout.format == "npy" else name)
        tensors[name] = _tensor(path, tensor, shape, f"{path}: {name!r}", finite=finite)
    return tensors


def _tensor(
    path: Path, tensor: headers.Tensor, shape: tuple[int, ...], caller: str, *, finite: bool
) -> np.ndarray:
    # The shape comes first: a file of the wrong one is never read, however large.
    if tensor.shape != shape:
        raise DataError(mismatch(caller, f"shape {shape}", f"shape {tensor.shape}"))
    if tensor.dtype not in files.FLOATS or tensor.stored is None:
        raise DataError(mismatch(caller, f"numbers of {', '.join(files.FLOATS)}", tensor.dtype))
    with inputs.opened(path) as file:
        flat = files.read(file, tensor.begin, math.prod(shape), tensor.stored)
    values = files.decode(flat, tensor.dtype).reshape(shape, order=tensor.order)
    if finite and not np.isfinite(values).all():
        index = [int(n) for n in np.argwhere(~np.isfinite(values))[0]]
        received = f"{values[tuple(index)]} at index {index}"
        raise DataError(mismatch(caller, "finite numbers", received))
    return values
