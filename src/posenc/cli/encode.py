"""`posenc encode`: put an encoding on the tokens of a text, or on an array in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from posenc._core import files, inputs
from posenc._core.brief import brief
from posenc._core.errors import DataError, DependencyError, mismatch
from posenc._core.random_vectors import random_vectors
from posenc.cli import _show, _stream
from posenc.cli._inputs import (
    InputFile,
    file_there,
    looks_like_a_file,
    no_text,
    standard_input,
)
from posenc.cli._options import SpecChoice, as_json, count_of, make_spec, spec_options
from posenc.cli._parameters import Learnt, ParameterChoice, learnt_from, parameter_options
from posenc.cli._places import PlaceChoice, PositionSequence, place_options, places_from

if TYPE_CHECKING:
    from posenc.encodings.table.base import TableSpec

__all__ = ["command", "random_vectors"]

DEFAULT_DIM = 8  # fits a screen of 80 columns
WORDS = inputs.FileKind("a text", 2**23)
MOST_NUMBERS = 2**23  # of the sum of a text

EXAMPLES = """\b
Examples:
  posenc encode "classify the book" --dim 16 --base 100
  posenc encode embeddings.npy -o encoded.npy
  posenc encode patches.npy --preset mae --grid 14x14 -o encoded.npy
  posenc encode embeddings.npy --spec learned.json --params weights.safetensors -o y.npy
"""


class TextPieces(NamedTuple):
    """A text in pieces; `ids` are rows of a vocabulary where a tokenizer gave them."""

    texts: list[str]
    ids: list[int] | None


class Choices(NamedTuple):
    """What the command line says about the encoding, the positions and the parameters."""

    spec: SpecChoice
    places: PlaceChoice
    parameters: ParameterChoice


class EncodeChoices(NamedTuple):
    """What these choices come to for some data."""

    spec: TableSpec
    places: PositionSequence
    learnt: Learnt

    def words(self) -> str:
        """The encoding in words: its spec, then what else a reader has to know."""
        return ", ".join(filter(None, self._parts()))

    def _parts(self) -> tuple[str, str, str]:
        return brief(self.spec), self.places.words, _show.clean(self.learnt.origin)


def _encoding(choice: Choices, spec: TableSpec, length: int, *, finite: bool) -> EncodeChoices:
    places = places_from(choice.places, spec, length, preset=choice.spec.preset)
    places.check(spec)
    return EncodeChoices(spec, places, learnt_from(choice.parameters, spec, finite=finite))


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="TEXT|FILE|-")
@spec_options
@place_options
@parameter_options
@click.option(
    "--embeddings",
    type=InputFile(),
    metavar="FILE",
    help="Rows for the tokens of a text: row i for token i, or row ID where --tokenizer gives IDs.",
)
@click.option(
    "--tokenizer",
    type=InputFile(),
    metavar="FILE",
    help="A tokenizer.json. [default: split at spaces]",
)
@click.option("--tensor", metavar="NAME", help="Which tensor of a .safetensors file.")
@click.option("--seed", type=int, help="Of the random vectors of a text. [default: 0]")
@click.option("-o", "--output", metavar="OUT", help="A .npy or .safetensors file for the sum.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@click.option("--allow-nonfinite", is_flag=True, help="Let NaN and infinity pass.")
@as_json
def command(
    *,
    source: str,
    dim: int | None,
    base: float | None,
    order: str | None,
    odd: str | None,
    preset: str | None,
    spec: str | None,
    positions: str | None,
    grid: str | None,
    offset: int | None,
    params: str | None,
    init_seed: int | None,
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
    choice = Choices(
        SpecChoice(dim, base, order, odd, preset, spec),
        PlaceChoice(positions, grid, offset),
        ParameterChoice(params, init_seed),
    )
    if Path(source).suffix in _stream.SUFFIXES and looks_like_a_file(source):
        _encode_file(Path(file_there(source)), choice, **rest)
    else:
        _encode_text(source, choice, **rest)


# --- a file ---------------------------------------------------------------------------------------


def _encode_file(
    path: Path,
    choice: Choices,
    *,
    tensor: str | None,
    output: str | None,
    force: bool,
    allow_nonfinite: bool,
    json_: bool,
    **texts: Any,
) -> None:
    for name, value in texts.items():
        if value is not None:
            raise click.UsageError(f"--{name} is for a text; {path.name} is a file of numbers.")
    if output is None:
        raise click.UsageError(f"{path.name} is a file of numbers: say where the sum goes, -o OUT.")
    layout = files.read_layout(path)
    picked = layout.pick(tensor)
    _stream.check_source(layout, picked)
    target = _target(output, force)
    if target.path.exists() and target.path.samefile(path):
        raise click.UsageError("the output is the input: give it another name.")
    if target.format == "npy" and picked.dtype == "bfloat16":
        raise click.UsageError("a .npy cannot name bfloat16: let -o end in .safetensors.")
    spec = make_spec(choice.spec, width=picked.shape[-1], default=DEFAULT_DIM)
    encoding = _encoding(choice, spec, picked.shape[-2], finite=not allow_nonfinite)
    with _show.progress(f"{path.name} ", math.prod(picked.shape)) as done:
        _stream.add_to_file(
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


def _target(output: str, force: bool) -> _stream.Target:
    target = _stream.Target(Path(output), force)
    if target.path.suffix not in _stream.SUFFIXES:
        raise click.UsageError(f"-o {output!r}: its name must end in .npy or .safetensors.")
    if not force and target.path.exists():
        raise click.UsageError(f"{output} exists: --force replaces it.")
    return target


def _report(
    encoding: EncodeChoices,
    layout: files.Layout,
    picked: files.Tensor,
    target: _stream.Target,
    *,
    json_: bool,
) -> None:
    left = [name for name in layout.tensors if name != picked.name]
    left = left if target.format == "npy" else []
    if target.format != layout.format and layout.format == "safetensors" and left:
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
        _show.print_json({**report, "parameters": origin} if origin else report)
        return
    sides = "x".join(map(str, shape))
    what = f"{layout.path.name} and {encoding.words()}"
    how = f"sum of {what}" if spec.width == spec.dim else f"{what}, side by side"
    click.echo(f"{target.path}: {sides} {picked.dtype}, {how}")


# --- a text ---------------------------------------------------------------------------------------


def _encode_text(
    source: str,
    choice: Choices,
    *,
    embeddings: str | None,
    tokenizer: str | None,
    tensor: str | None,
    seed: int | None,
    output: str | None,
    force: bool,
    allow_nonfinite: bool,
    json_: bool,
) -> None:
    if embeddings is not None and seed is not None:
        raise click.UsageError("--seed is for random vectors; --embeddings gives others.")
    if tensor is not None and embeddings is None:
        raise click.UsageError("--tensor picks from a .safetensors file; there is none.")
    tokens = _tokens(source, tokenizer)
    vectors, origin = None, "random"
    if embeddings is not None:
        vectors = _rows_of_file(Path(embeddings), tensor, tokens, finite=not allow_nonfinite)
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
    target: _stream.Target | None,
    json_: bool,
) -> None:
    from posenc.functional import add, table

    spec, places, (params, learnt) = encoding
    positions = places.array(slice(0, len(places)))
    total = add(spec, vectors, positions=positions, params=params)
    dtype = "float64" if total.dtype == np.float64 else None
    rows = table(spec, positions, params=params, dtype=dtype)
    if target is not None:
        _stream.write_array(target, "sum", total)
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
        _show.print_json(report if tokens.ids is None else {**report, "ids": tokens.ids})
        return
    strips = _show.AlignedRows(tokens.texts, places, _show.width_of_screen())
    click.echo(encoding.words())
    for heading, block in (
        (f"embedding: {_show.clean(origin)}", vectors),
        ("encoding", rows),
        (_result_in_words(spec), total),
    ):
        click.echo()
        for line in strips.block(heading, block.__getitem__, block.shape[1]):
            click.echo(line)


def _result_in_words(spec: TableSpec) -> str:
    embedding = "embedding"
    if spec.embedding_scale != 1:
        embedding += f" * {spec.embedding_scale:g}"
    return f"sum = {embedding} + encoding" if spec.width == spec.dim else f"{embedding} | encoding"


def _tokens(source: str, tokenizer: str | None) -> TextPieces:
    text = source
    if source == "-":
        text = standard_input("a text of at least one token", WORDS)
    elif looks_like_a_file(source):
        path = Path(source)
        if path.is_dir():
            raise click.UsageError(f"{source} is a folder: give a text, a .npy or a .safetensors.")
        if path.is_file():
            raise click.UsageError(
                f"{source} is a file, but no .npy or .safetensors. "
                f"To encode the text in it: posenc encode - < {source}"
            )
        raise click.UsageError(no_text(source))
    if tokenizer is not None:
        tokens = _tokenize(text, Path(tokenizer))
    else:
        tokens = TextPieces(text.split(), None)
    if not tokens.texts:
        raise DataError(mismatch("encode", "a text of at least one token", repr(text[:40])))
    return tokens


def _tokenize(text: str, path: Path) -> TextPieces:
    content = inputs.text_of(path, inputs.TOKENIZER)
    inputs.check_count(content, str(path), inputs.TOKENIZER)
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise DependencyError(
            f"--tokenizer needs the package tokenizers ({error}). "
            "Install it: pip install 'posenc[tokenizers]'"
        ) from error
    try:
        # The library raises plain `Exception` for what is no tokenizer.
        reader = Tokenizer.from_str(content)
        _check_padding(str(path), reader.padding or {})
        encoded = reader.encode(text)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001
        raise DataError(mismatch(str(path), "a tokenizer.json", str(error)[:200])) from None
    return TextPieces(list(encoded.tokens), list(encoded.ids))


def _check_padding(caller: str, padding: Mapping[str, Any]) -> None:
    """Refuse to fill a short text up to billions of tokens."""
    for key in ("length", "pad_to_multiple_of"):
        if (padding.get(key) or 0) > MOST_NUMBERS:
            raise DataError(mismatch(f"{caller}: padding", f"at most {MOST_NUMBERS}", padding[key]))


def _rows_of_file(path: Path, name: str | None, tokens: TextPieces, *, finite: bool) -> np.ndarray:
    layout = files.read_layout(path)
    tensor = layout.pick(name)
    _stream.check_source(layout, tensor)
    if len(tensor.shape) != 2 or tensor.stored is None:
        received = f"shape {tensor.shape}"
        raise DataError(mismatch(str(path), "shape (rows, dim), a row for each token", received))
    rows, dim = tensor.shape
    if tokens.ids is None and rows != len(tokens.texts):
        todo = "Row i is for token i; with --tokenizer rows are looked up by ID."
        expected = f"{count_of(tokens.texts, 'row')}, one for each token"
        raise DataError(mismatch(str(path), expected.replace("token of", "row of"), rows, todo))
    ids = tokens.ids if tokens.ids is not None else list(range(rows))
    if max(ids) >= rows:
        raise DataError(mismatch(str(path), f"a row for ID {max(ids)}", f"{rows} rows"))
    if len(ids) * dim > MOST_NUMBERS:
        raise DataError(
            mismatch(str(path), f"at most {MOST_NUMBERS} numbers", f"{len(ids)} x {dim}")
        )
    size = np.dtype(tensor.stored).itemsize * dim
    with inputs.opened(path) as file:
        ours = [files.read(file, tensor.begin + i * size, dim, tensor.stored) for i in ids]
    vectors = files.decode(np.stack(ours), tensor.dtype)
    if finite and not np.isfinite(vectors).all():
        i, channel = (int(n) for n in np.argwhere(~np.isfinite(vectors))[0])
        received = f"{vectors[i, channel]} at index {[ids[i], channel]}"
        raise DataError(mismatch(str(path), "finite numbers (or --allow-nonfinite)", received))
    return vectors
