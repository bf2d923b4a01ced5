"""`posenc encode`: put an encoding on the tokens of a text, or on an array in a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from posenc._core.errors import DataError, mismatch
from posenc._core.io import files, headers
from posenc._core.numeric.random_vectors import random_vectors
from posenc._core.spec.answers import brief
from posenc.cli.options.common import (
    as_json,
    count_of,
    grouped,
)
from posenc.cli.options.encodings import EncodingChoice, encoding_options, make_spec
from posenc.cli.options.inputs import (
    InputFile,
    check_output,
    file_there,
    looks_like_a_file,
)
from posenc.cli.options.parameters import Learnt, ParameterChoice, learnt_from, parameter_options
from posenc.cli.options.places import PlaceChoice, PositionSequence, place_options, places_from
from posenc.cli.options.texts import MOST_NUMBERS, TextPieces, rows_of_file, tokens_of
from posenc.cli.output import show, stream
from posenc.encodings.table.base import TableSpec

DEFAULT_DIM = 8  # fits a screen of 80 columns

EXAMPLES = """\b
Examples:
  posenc encode "classify the book" --dim 16 --base 100
  posenc encode embeddings.npy -o encoded.npy
  posenc encode patches.npy --preset mae --grid 14x14 -o encoded.npy
  posenc encode embeddings.npy --spec learned.json --params weights.safetensors -o y.npy
"""


class Choices(NamedTuple):
    """What the command line says about the encoding, the positions and the parameters."""

    spec: EncodingChoice
    places: PlaceChoice
    parameters: ParameterChoice


class EncodeChoices(NamedTuple):
    """What these choices come to for some data."""

    spec: TableSpec
    places: PositionSequence
    learnt: Learnt

    def words(self) -> str:
        """The encoding in words: its spec, then what else a reader has to know."""
        parts = brief(self.spec), self.places.words, show.clean(self.learnt.origin)
        return ", ".join(filter(None, parts))


def _encoding(choice: Choices, spec: TableSpec, length: int, *, finite: bool) -> EncodeChoices:
    places = places_from(choice.places, spec, length, preset=choice.spec.preset)
    places.check(spec)
    return EncodeChoices(spec, places, learnt_from(choice.parameters, spec, finite=finite))


class TextChoice(NamedTuple):
    """What the command line says about the tokens of a text."""

    embeddings: str | None = None
    tokenizer: str | None = None
    seed: int | None = None


text_options = grouped(
    TextChoice,
    "text",
    click.option(
        "--embeddings",
        type=InputFile(),
        metavar="FILE",
        help="Rows for the tokens of a text: row i for token i, or row ID where --tokenizer "
        "gives IDs.",
    ),
    click.option(
        "--tokenizer",
        type=InputFile(),
        metavar="FILE",
        help="A tokenizer.json. [default: split at spaces]",
    ),
    click.option("--seed", type=int, help="Of the random vectors of a text. [default: 0]"),
)


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="TEXT|FILE|-")
@encoding_options
@place_options
@parameter_options
@text_options
@click.option("--tensor", metavar="NAME", help="Which tensor of a .safetensors file.")
@click.option("-o", "--output", metavar="OUT", help="A .npy or .safetensors file for the sum.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@click.option("--allow-nonfinite", is_flag=True, help="Let NaN and infinity pass.")
@as_json
def command(
    *,
    source: str,
    choice: EncodingChoice,
    places: PlaceChoice,
    parameters: ParameterChoice,
    text: TextChoice,
    **rest: Any,
) -> None:
    """Add an encoding to the tokens of a text or to an array.

    TEXT is split at spaces. Its tokens become random vectors, made from a hash of each token and
    the seed and uniform in [-1, 1), unless --embeddings gives others. - reads the text from
    standard input. What looks like the name of a file is none: a space in front makes it a text.

    FILE is a .npy or .safetensors of shape (..., seq, dim) and needs -o. It is read and written in
    pieces and keeps its dtype; other tensors are copied as they are.

    A Concatenated spec appends its table: the result is then wider than the embeddings, and under
    `sum` of --json stands the embedding followed by the encoding.
    """
    choices = Choices(choice, places, parameters)
    if Path(source).suffix in stream.SUFFIXES and looks_like_a_file(source):
        _encode_file(Path(file_there(source)), choices, text, **rest)
    else:
        _encode_text(source, choices, text, **rest)


# --- a file ---------------------------------------------------------------------------------------


def _encode_file(
    path: Path,
    choice: Choices,
    text: TextChoice,
    *,
    tensor: str | None,
    output: str | None,
    force: bool,
    allow_nonfinite: bool,
    json_: bool,
) -> None:
    for name, value in text._asdict().items():
        if value is not None:
            raise click.UsageError(f"--{name} is for a text; {path.name} is a file of numbers.")
    if output is None:
        raise click.UsageError(f"{path.name} is a file of numbers: say where the sum goes, -o OUT.")
    layout = files.read_layout(path)
    picked = layout.pick(tensor)
    stream.check_source(layout, picked)
    target = _target(output, force)
    if target.path.exists() and target.path.samefile(path):
        raise click.UsageError("the output is the input: give it another name.")
    if target.format == "npy" and picked.dtype == "bfloat16":
        raise click.UsageError("a .npy cannot name bfloat16: let -o end in .safetensors.")
    spec = make_spec(choice.spec, width=picked.shape[-1], default=DEFAULT_DIM)
    encoding = _encoding(choice, spec, picked.shape[-2], finite=not allow_nonfinite)
    with show.progress(f"{path.name} ", math.prod(picked.shape)) as done:
        stream.add_to_file(
            spec,
            layout,
            picked,
            target,
            places=encoding.places,
            params=encoding.learnt.values,
            finite=not allow_nonfinite,
            progress=done,
        )
    _report(encoding, layout, picked, target, json_=json_)


def _target(output: str, force: bool) -> stream.Target:
    check_output(output, force=force, option="-o", endings=stream.SUFFIXES)
    return stream.Target(Path(output), force)


def _report(
    encoding: EncodeChoices,
    layout: headers.Layout,
    picked: headers.Tensor,
    target: stream.Target,
    *,
    json_: bool,
) -> None:
    left = [name for name in layout.tensors if name != picked.name]
    if target.format == "npy" and layout.format == "safetensors" and left:
        click.echo(f"posenc: {count_of(left, 'other tensor')} left out: .npy holds one", err=True)
    spec, origin = encoding.spec, encoding.learnt.origin
    shape = (*picked.shape[:-1], spec.width)
    if json_:
        report = {
            "output": str(target.path),
            "tensor": picked.name or None,
            "shape": list(shape),
            "dtype": picked.dtype,
            "spec": spec.to_dict(),
        }
        show.print_json({**report, "parameters": origin} if origin else report)
        return
    sides = "x".join(map(str, shape))
    what = f"{layout.path.name} and {encoding.words()}"
    how = f"sum of {what}" if spec.width == spec.dim else f"{what}, side by side"
    click.echo(f"{target.path}: {sides} {picked.dtype}, {how}")


# --- a text ---------------------------------------------------------------------------------------


def _encode_text(
    source: str,
    choice: Choices,
    text: TextChoice,
    *,
    tensor: str | None,
    output: str | None,
    force: bool,
    allow_nonfinite: bool,
    json_: bool,
) -> None:
    embeddings, tokenizer, seed = text
    if embeddings is not None and seed is not None:
        raise click.UsageError("--seed is for random vectors; --embeddings gives others.")
    if tensor is not None and embeddings is None:
        raise click.UsageError("--tensor picks from a .safetensors file; there is none.")
    tokens = tokens_of(source, tokenizer)
    vectors, origin = None, "random"
    if embeddings is not None:
        vectors = rows_of_file(Path(embeddings), tensor, tokens, finite=not allow_nonfinite)
        origin = f"rows of {embeddings}"
    width = None if vectors is None else vectors.shape[1]
    spec = make_spec(choice.spec, width=width, default=DEFAULT_DIM)
    count = len(tokens.texts)
    if count * spec.width > MOST_NUMBERS:
        todo = "Save its embeddings as .npy and encode that file."
        received = f"{count} tokens of width {spec.width}"
        raise DataError(
            mismatch("encode", f"a text of at most {MOST_NUMBERS} numbers", received, todo)
        )
    target = _target(output, force) if output is not None else None
    encoding = _encoding(choice, spec, count, finite=not allow_nonfinite)
    if vectors is None:
        vectors = random_vectors(tokens.texts, spec.dim, seed or 0)
        origin = f"random vectors from a hash of each token, seed {seed or 0}; not from a model"
    _print_text(
        encoding=encoding,
        tokens=tokens,
        vectors=vectors,
        origin=origin,
        target=target,
        json_=json_,
    )


def _print_text(
    *,
    encoding: EncodeChoices,
    tokens: TextPieces,
    vectors: np.ndarray,
    origin: str,
    target: stream.Target | None,
    json_: bool,
) -> None:
    from posenc.functional import add, table

    spec, places, (params, learnt) = encoding
    positions = places.array(slice(0, len(places)))
    total = add(spec, vectors, positions=positions, params=params)
    dtype = "float64" if total.dtype == np.float64 else None
    rows = table(spec, positions, params=params, dtype=dtype)
    if target is not None:
        stream.write_array(target, "sum", total)
    if json_:
        report = {
            "tokens": tokens.texts,
            "positions": places.tolist(),
            "embedding": vectors.tolist(),
            "embedding_source": origin,
            "encoding": rows.tolist(),
            "sum": total.tolist(),
            "spec": spec.to_dict(),
        }
        if learnt:
            report["parameters"] = learnt
        show.print_json(report if tokens.ids is None else {**report, "ids": tokens.ids})
        return
    strips = show.AlignedRows(tokens.texts, places, show.width_of_screen())
    click.echo(encoding.words())
    for heading, block in (
        (f"embedding: {show.clean(origin)}", vectors),
        ("encoding", rows),
        (_result_in_words(spec), total),
    ):
        click.echo()
        for line in strips.block(heading, block.__getitem__, block.shape[1]):
            click.echo(line)


def _result_in_words(spec: TableSpec) -> str:
    scaled = f" * {spec.embedding_scale:g}" if spec.embedding_scale != 1 else ""
    embedding = f"embedding{scaled}"
    return f"sum = {embedding} + encoding" if spec.width == spec.dim else f"{embedding} | encoding"
