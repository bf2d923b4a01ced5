"""What files hold for an encoding: learned parameters, a vector, a tokenizer, rows for tokens.

Parameters may be made afresh as well, and are then called untrained.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from posenc._core.errors import DataError, DependencyError, bad_data, refuse_data, suggest
from posenc._core.io import files, inputs
from posenc.cli.options.common import (
    InputFile,
    count_of,
    grouped,
    looks_like_a_file,
    no_text,
    refuse,
    standard_input,
)
from posenc.cli.output import stream
from posenc.encodings.table.base import TableSpec

MOST_LEARNED = 2**28  # numbers of all parameters of a table: 1 GiB of float32
MOST_OF_ROW = 2**24  # numbers of a row, or of an array that has to be turned
MOST_OF_TEXT = 2**23  # numbers of the sum of a text
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
    refuse(len(options) > 1, f"{' or '.join(options)}, not both.")
    if not shapes:
        if options:
            raise click.UsageError(f"{options[0]} is for learned tables; {name} learns nothing.")
        return Learnt(None, "")
    wanted = ", ".join(
        f"{key} {'x'.join(map(str, shape)) or '()'}" for key, shape in shapes.items()
    )
    refuse(
        not options,
        f"{name} learns {wanted}: give them with --params FILE, "
        "or begin untrained with --init-seed N.",
    )
    count = sum(map(math.prod, shapes.values()))
    refuse_data(count > MOST_LEARNED, name, f"at most {MOST_LEARNED:,} learned numbers", count)
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
    refuse_data(
        layout.format == "npy" and len(shapes) > 1,
        str(path),
        f"the parameters {', '.join(shapes)}",
        "a .npy, which holds one array",
        TODO,
    )
    arrays = {}
    for name, shape in shapes.items():
        if layout.format == "safetensors" and name not in layout.tensors:
            names = list(layout.tensors)[:1000]
            raise bad_data(
                str(path),
                f"a tensor {name!r}",
                "none of that name",
                suggest(name, names) if names else TODO,
            )
        tensor, caller = layout.pick(None if layout.format == "npy" else name), f"{path}: {name!r}"
        # The shape comes first: a file of the wrong one is never read, however large.
        refuse_data(tensor.shape != shape, caller, f"shape {shape}", f"shape {tensor.shape}")
        if tensor.dtype not in files.FLOATS or tensor.stored is None:
            raise bad_data(caller, f"numbers of {', '.join(files.FLOATS)}", tensor.dtype)
        with inputs.opened(path) as file:
            flat = files.read(file, tensor.begin, math.prod(shape), tensor.stored)
        values = files.decode(flat, tensor.dtype).reshape(shape, order=tensor.order)
        if finite and not np.isfinite(values).all():
            index = [int(n) for n in np.argwhere(~np.isfinite(values))[0]]
            raise bad_data(caller, "finite numbers", f"{values[tuple(index)]} at index {index}")
        arrays[name] = values
    return arrays


# --- a vector: a row of an array in a file, or numbers in a text ----------------------------------


def vector_from(source: str, row: int | None, name: str | None) -> Any:
    """The vector that a file (or `-`, standard input) holds; bfloat16 as float32."""
    path, caller = Path(source), source
    text = None
    if source == "-":
        caller, text = "standard input", standard_input("numbers", inputs.VECTOR)
    elif path.suffix not in stream.SUFFIXES:
        text = _text(path)
    if text is None:  # an array, or a format whose name is told
        return _of_file(path, row, name)
    values = _numbers(text, caller)
    return values[_row(row, len(values), caller)]


def _of_file(path: Path, row: int | None, name: str | None) -> Any:
    tensor = files.read_layout(path).pick(name)
    if tensor.dtype not in files.FLOATS or tensor.stored is None or not tensor.shape:
        raise bad_data(
            str(path),
            f"an array of {', '.join(files.FLOATS)}",
            f"{tensor.dtype} of shape {tensor.shape}",
        )
    width, rows = tensor.shape[-1], int(np.prod(tensor.shape[:-1], dtype=object))
    row = _row(row, rows, str(path))
    refuse_data(width > MOST_OF_ROW, str(path), f"a row of at most {MOST_OF_ROW:,} numbers", width)
    size = (tensor.end - tensor.begin) // max(1, width * rows)
    with inputs.opened(path) as file:
        if tensor.order == "C":
            flat = files.read(file, tensor.begin + row * width * size, width, tensor.stored)
        else:
            refuse_data(
                rows * width > MOST_OF_ROW,
                str(path),
                "rows that lie together",
                f"{rows} of {width} numbers, column by column",
                "Save it with numpy.ascontiguousarray(array).",
            )
            everything = files.read(file, tensor.begin, rows * width, tensor.stored)
            flat = everything.reshape(tensor.shape, order="F").reshape(rows, width)[row]
    return files.decode(flat, tensor.dtype)


def _text(path: Path) -> str | None:
    """The text in a file; None for a file of bytes."""
    with inputs.opened(path) as file:
        start = file.read(2**12) or b""
    try:
        start.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # the rest of a letter comes after these bytes
            return None
    return inputs.text_of(path, inputs.VECTOR)


def _numbers(text: str, source: str) -> np.ndarray:
    values = [
        [_number(word, source) for word in re.split(r"[\s,;\[\]()]+", line) if word]
        for line in text.splitlines()
        if line.strip()
    ]
    widths = {len(row) for row in values}
    refuse_data(not values or 0 in widths, source, "numbers", "nothing")
    one = [number for row in values for number in row]
    return np.array(values if len(widths) == 1 else [one])  # one vector, broken into lines


def _number(word: str, source: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise bad_data(source, "numbers", repr(word[:60])) from None


def _row(row: int | None, rows: int, source: str) -> int:
    refuse(row is None and rows != 1, f"{source} has {rows} rows: --row says which.")
    refuse(not 0 <= (row or 0) < rows, f"--row {row}: {source} has rows 0 to {rows - 1}.")
    return row or 0


# --- the tokens of a text, and the rows of a file that stand for them -----------------------------


class TextPieces(NamedTuple):
    """A text in pieces; `ids` are rows of a vocabulary where a tokenizer gave them."""

    texts: list[str]
    ids: list[int] | None


def tokens_of(source: str, tokenizer: str | None) -> TextPieces:
    """A text in pieces: of a tokenizer, or split at spaces; - reads standard input."""
    text = source
    if source == "-":
        text = standard_input("a text of at least one token", inputs.FileKind("a text", 2**23))
    elif looks_like_a_file(source):
        path = Path(source)
        refuse(path.is_dir(), f"{source} is a folder: give a text, a .npy or a .safetensors.")
        refuse(
            path.is_file(),
            f"{source} is a file, but no .npy or .safetensors. "
            f"To encode the text in it: posenc encode - < {source}",
        )
        raise click.UsageError(no_text(source))
    tokens = _tokenize(text, Path(tokenizer)) if tokenizer else TextPieces(text.split(), None)
    refuse_data(not tokens.texts, "encode", "a text of at least one token", repr(text[:40]))
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
        for key in ("length", "pad_to_multiple_of"):  # up to billions of tokens for a short text
            size, caller = (reader.padding or {}).get(key) or 0, f"{path}: padding"
            refuse_data(size > MOST_OF_TEXT, caller, f"at most {MOST_OF_TEXT:,}", size)
        encoded = reader.encode(text)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001
        raise bad_data(str(path), "a tokenizer.json", str(error)[:200]) from None
    return TextPieces(list(encoded.tokens), list(encoded.ids))


def rows_of_file(path: Path, name: str | None, tokens: TextPieces, *, finite: bool) -> np.ndarray:
    """A row of a file for each piece: in order, or by ID."""
    layout = files.read_layout(path)
    tensor = layout.pick(name)
    stream.check_source(layout, tensor)
    if len(tensor.shape) != 2 or tensor.stored is None:
        raise bad_data(
            str(path), "shape (rows, dim), a row for each token", f"shape {tensor.shape}"
        )
    rows, dim = tensor.shape
    refuse_data(
        tokens.ids is None and rows != len(tokens.texts),
        str(path),
        f"{count_of(tokens.texts, 'row')}, one for each token",
        rows,
        "Row i is for token i; with --tokenizer rows are looked up by ID.",
    )
    ids = tokens.ids if tokens.ids is not None else list(range(rows))
    refuse_data(max(ids) >= rows, str(path), f"a row for ID {max(ids)}", f"{rows} rows")
    refuse_data(
        len(ids) * dim > MOST_OF_TEXT,
        str(path),
        f"at most {MOST_OF_TEXT:,} numbers",
        f"{len(ids)} x {dim}",
    )
    size = np.dtype(tensor.stored).itemsize * dim
    with inputs.opened(path) as file:
        ours = [files.read(file, tensor.begin + i * size, dim, tensor.stored) for i in ids]
    vectors = files.decode(np.stack(ours), tensor.dtype)
    if finite and not np.isfinite(vectors).all():
        i, channel = (int(n) for n in np.argwhere(~np.isfinite(vectors))[0])
        raise bad_data(
            str(path),
            "finite numbers (or --allow-nonfinite)",
            f"{vectors[i, channel]} at index {[ids[i], channel]}",
        )
    return vectors
