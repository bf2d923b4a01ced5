"""`posenc encode`, an encoding on a text or on an array in a file; `posenc table`, its rows."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from posenc._core.errors import PositionError, refuse_data
from posenc._core.io import files, headers
from posenc._core.numeric.random_vectors import random_vectors
from posenc._core.spec.answers import brief
from posenc.cli.options.arrays import (
    MOST_OF_TEXT,
    Learnt,
    ParameterChoice,
    TextPieces,
    learnt_from,
    parameter_options,
    rows_of_file,
    tokens_of,
)
from posenc.cli.options.common import (
    InputFile,
    OutputChoice,
    WordChoice,
    as_json,
    count_of,
    file_there,
    grouped,
    looks_like_a_file,
    output_options,
    refuse,
    with_options,
)
from posenc.cli.options.encodings import EncodingChoice, encoding_options, make_spec, table_width
from posenc.cli.options.places import PlaceChoice, PositionSequence, place_options, places_from
from posenc.cli.output import lines, show, stream
from posenc.encodings.table.base import TableSpec

DEFAULT_DIM = 8  # fits a screen of 80 columns
DEFAULT_LENGTH = 16
TABLES = (".npy", ".csv", ".safetensors")


class Choices(NamedTuple):
    """What the command line says about the encoding, the positions and the parameters."""

    choice: EncodingChoice
    places: PlaceChoice
    parameters: ParameterChoice


choice_options = with_options(
    encoding_options, place_options, parameter_options, grouped(Choices, "choices")
)


class Encoded(NamedTuple):
    """What these choices come to for some data."""

    spec: TableSpec
    places: PositionSequence
    learnt: Learnt

    def words(self) -> str:
        """The encoding in words: its spec, then what else a reader has to know."""
        parts = brief(self.spec), self.places.words, lines.clean(self.learnt.origin)
        return ", ".join(filter(None, parts))


def _encoded(choices: Choices, spec: TableSpec, length: int, *, finite: bool) -> Encoded:
    places = places_from(choices.places, spec, length, preset=choices.choice.preset)
    places.check(spec)
    return Encoded(spec, places, learnt_from(choices.parameters, spec, finite=finite))


def _check_dtype(target: OutputChoice, dtype: str) -> None:
    refuse(
        target.format == "npy" and dtype == "bfloat16",
        "a .npy cannot name bfloat16: let -o end in .safetensors.",
    )


class TextChoice(NamedTuple):
    """What the command line says about the tokens of a text."""

    embeddings: str | None
    tokenizer: str | None
    seed: int | None


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
    click.option("--seed", type=int, help="Seed of the random vectors of a text. [default: 0]"),
)


@click.command(
    epilog="""\b
Examples:
  posenc encode "classify the book" --dim 16 --base 100
  posenc encode embeddings.npy -o encoded.npy
  posenc encode patches.npy --preset mae --grid 14x14 -o encoded.npy
  posenc encode x.npy --spec learned.json --params w.safetensors -o y.npy
"""
)
@click.argument("source", metavar="TEXT|FILE|-")
@choice_options
@text_options
@click.option("--tensor", metavar="NAME", help="Which tensor of a .safetensors file.")
@output_options("A .npy or .safetensors file for the sum.")
@click.option("--allow-nonfinite", is_flag=True, help="Let NaN and infinity pass.")
@as_json
def command(source: str, *, allow_nonfinite: bool, **options: Any) -> None:
    """Add an encoding to the tokens of a text or to an array.

    TEXT is split at spaces. Its tokens become random vectors, made from a hash of each token and
    the seed and uniform in [-1, 1), unless --embeddings gives others. - reads the text from
    standard input. A TEXT that looks like the name of a file is refused; put a space before it.

    FILE is a .npy or .safetensors of shape (..., seq, dim) and needs -o. It is read and written in
    pieces and keeps its dtype; other tensors are copied as they are.

    A Concatenated spec appends its table: the result is then wider than the embeddings, and under
    `sum` of --json stands the embedding followed by the encoding.
    """
    if Path(source).suffix in stream.SUFFIXES and looks_like_a_file(source):
        _encode_file(Path(file_there(source)), finite=not allow_nonfinite, **options)
    else:
        _encode_text(source, finite=not allow_nonfinite, **options)


# --- a file ---------------------------------------------------------------------------------------


def _encode_file(
    path: Path,
    *,
    choices: Choices,
    text: TextChoice,
    tensor: str | None,
    target: OutputChoice,
    finite: bool,
    json_: bool,
) -> None:
    for name, value in text._asdict().items():
        refuse(value is not None, f"--{name} is for a text; {path.name} is a file of numbers.")
    if target.output is None:
        raise click.UsageError(f"{path.name} is a file of numbers: say where the sum goes, -o OUT.")
    layout = files.read_layout(path)
    picked = layout.pick(tensor)
    stream.check_source(layout, picked)
    target.check(stream.SUFFIXES)
    refuse(
        target.path.exists() and target.path.samefile(path),
        "the output is the input: give it another name.",
    )
    _check_dtype(target, picked.dtype)
    *_, length, width = picked.shape
    spec = make_spec(choices.choice, width=width, default=DEFAULT_DIM)
    encoded = _encoded(choices, spec, length, finite=finite)
    with show.progress(f"{path.name} ", math.prod(picked.shape)) as done:
        stream.add_to_file(
            spec,
            layout,
            picked,
            target,
            places=encoded.places,
            params=encoded.learnt.values,
            finite=finite,
            progress=done,
        )
    _report(encoded, layout, picked, target, json_=json_)


def _report(
    encoded: Encoded,
    layout: headers.Layout,
    picked: headers.Tensor,
    target: OutputChoice,
    *,
    json_: bool,
) -> None:
    left = [name for name in layout.tensors if name != picked.name]
    if target.format == "npy" and layout.format == "safetensors" and left:
        words = f"posenc: {count_of(left, 'other tensor')} left out: .npy holds one"
        lines.print_lines([words], err=True)
    spec, origin = encoded.spec, encoded.learnt.origin
    shape = (*picked.shape[:-1], spec.width)
    if json_:
        report = {
            "output": target.output,
            "tensor": picked.name or None,
            "shape": list(shape),
            "dtype": picked.dtype,
            "spec": spec.to_dict(),
        }
        lines.print_json({**report, "parameters": origin} if origin else report)
    else:
        what = f"{layout.path.name} and {encoded.words()}"
        how = f"sum of {what}" if spec.width == spec.dim else f"{what}, side by side"
        lines.print_lines([f"{target.output}: {'x'.join(map(str, shape))} {picked.dtype}, {how}"])


# --- a text ---------------------------------------------------------------------------------------


def _encode_text(
    source: str,
    *,
    choices: Choices,
    text: TextChoice,
    tensor: str | None,
    target: OutputChoice,
    finite: bool,
    json_: bool,
) -> None:
    embeddings, tokenizer, seed = text
    refuse(
        embeddings is not None and seed is not None,
        "--seed draws random vectors, and --embeddings gives vectors: leave one of them out.",
    )
    refuse(
        tensor is not None and embeddings is None,
        "--tensor picks an array of a .safetensors file, and no such file is named.",
    )
    tokens = tokens_of(source, tokenizer)
    vectors = rows_of_file(Path(embeddings), tensor, tokens, finite=finite) if embeddings else None
    width = None if vectors is None else vectors.shape[1]
    spec = make_spec(choices.choice, width=width, default=DEFAULT_DIM)
    count = len(tokens.texts)
    refuse_data(
        count * spec.width > MOST_OF_TEXT,
        "encode",
        f"a text of at most {MOST_OF_TEXT:,} numbers",
        f"{count} tokens of width {spec.width}",
        "Save its embeddings as .npy and encode that file.",
    )
    target.check(stream.SUFFIXES)
    encoded = _encoded(choices, spec, count, finite=finite)
    origin = f"rows of {embeddings}"
    if vectors is None:
        vectors = random_vectors(tokens.texts, spec.dim, seed or 0)
        origin = f"random vectors from a hash of each token, seed {seed or 0}; not from a model"
    _print_text(encoded, tokens, vectors, origin, target, json_)


def _print_text(
    encoded: Encoded,
    tokens: TextPieces,
    vectors: np.ndarray,
    origin: str,
    target: OutputChoice,
    json_: bool,
) -> None:
    from posenc.functional import add, table

    spec, places, (params, learnt) = encoded
    positions = places.array(slice(0, len(places)))
    total = add(spec, vectors, positions=positions, params=params)
    dtype = "float64" if total.dtype == np.float64 else None
    rows = table(spec, positions, params=params, dtype=dtype)
    if target.output is not None:
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
        lines.print_json(report if tokens.ids is None else {**report, "ids": tokens.ids})
        return
    strips = show.AlignedRows(tokens.texts, places, lines.width_of_screen())
    lines.print_lines([encoded.words()])
    scale = f" * {spec.embedding_scale:g}" if spec.embedding_scale != 1 else ""
    result = (
        f"sum = embedding{scale} + encoding"
        if spec.width == spec.dim
        else f"embedding{scale} | encoding"
    )
    for heading, block in (
        (f"embedding: {lines.clean(origin)}", vectors),
        ("encoding", rows),
        (result, total),
    ):
        click.echo()
        for line in strips.block(heading, block.__getitem__, block.shape[1]):
            click.echo(line)


# --- a table --------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc table --dim 4 --positions 3
  posenc table --dim 512 --positions 5000 -o table.npy
  posenc table --dim 16 --base 100 --positions 1,2 --json
  posenc table --dim 64 --preset mae --grid 3x4
"""
)
@choice_options
@click.option(
    "--dtype",
    type=WordChoice(("float32", "float64", "float16", "bfloat16")),
    default="float32",
    help="[default: float32]",
)
@output_options("A .npy, .csv or .safetensors file.")
@as_json
def table(*, choices: Choices, dtype: str, target: OutputChoice, json_: bool) -> None:
    """Print or write the rows of a table.

    For a Concatenated spec these are the columns that it appends.
    """
    (choice, stated, parameters), output = choices, target.output
    spec = make_spec(choice, default=DEFAULT_DIM)
    unasked = stated[:3] == (None, None, None)
    count = _default_length(spec, stated.offset or 0) if unasked else None
    places, width = places_from(stated, spec, count, preset=choice.preset), table_width(spec)
    refuse_data(
        output is None and json_ and len(places) * width > MOST_OF_TEXT,
        "table",
        f"at most {MOST_OF_TEXT:,} numbers as JSON",
        f"{len(places)} rows of width {width}",
        "Write them to a file: -o OUT.",
    )
    places.check(spec)
    values, origin = learnt_from(parameters, spec)
    target.check(TABLES, listed=", ".join(TABLES))
    if output is not None:
        _check_dtype(target, dtype)
        with show.progress(f"{target.path.name} ", len(places) * width) as done:
            stream.write_rows(spec, places, target, params=values, dtype=dtype, progress=done)

    def rows(part: slice) -> np.ndarray:
        return stream.rows_as(spec, places.array(part), dtype, values)

    words = Encoded(spec, places, Learnt(values, origin)).words()
    if json_:
        about: dict[str, Any] = {
            "spec": spec.to_dict(),
            "dtype": dtype,
            "shape": [len(places), width],
        }
        if origin:
            about["parameters"] = origin
        first: dict[str, Any] = {"output": output}
        if output is None:
            first = {"positions": places.tolist(), "table": rows(slice(0, len(places))).tolist()}
        lines.print_json({**first, **about})
    elif output is not None:
        lines.print_lines([f"{output}: {len(places)}x{width} {dtype}, {words}"])
    else:
        lines.print_lines([words])
        strips = show.AlignedRows(None, places, lines.width_of_screen())
        for line in strips.block("", lambda i: rows(slice(i, i + 1))[0], width):
            click.echo(line)


def _default_length(spec: TableSpec, first: int) -> int:
    """The number of rows that are shown unasked, or all of a table that has fewer."""
    for length in range(DEFAULT_LENGTH, 1, -1):
        with contextlib.suppress(PositionError):
            spec.check_count(first, length)
            return length
    return 1
