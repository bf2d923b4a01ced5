"""A vector from the command line: a row of an array in a file, or numbers in a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import numpy as np

from posenc._core.errors import DataError, mismatch
from posenc._core.io import files, inputs
from posenc.cli.options.inputs import standard_input

FORMATS = (".npy", ".safetensors")
MOST_NUMBERS = 2**24  # of a row, or of an array that has to be turned


def vector_from(source: str, row: int | None, name: str | None) -> Any:
    """The vector that a file (or `-`, standard input) holds; bfloat16 as float32."""
    path, caller, text = Path(source), source, None
    if source == "-":
        caller, text = "standard input", standard_input("numbers", inputs.VECTOR)
    elif path.suffix not in FORMATS:
        text = _text(path)  # None for an array, or a format whose name is told
    if text is None:
        return _of_file(path, row, name)
    values = _numbers(text, caller)
    return values[_row(row, len(values), caller)]


def _of_file(path: Path, row: int | None, name: str | None) -> Any:
    tensor = files.read_layout(path).pick(name)
    if tensor.dtype not in files.FLOATS or tensor.stored is None or not tensor.shape:
        expected = f"an array of {', '.join(files.FLOATS)}"
        raise DataError(mismatch(str(path), expected, f"{tensor.dtype} of shape {tensor.shape}"))
    width, rows = tensor.shape[-1], int(np.prod(tensor.shape[:-1], dtype=object))
    row = _row(row, rows, str(path))
    if width > MOST_NUMBERS:
        raise DataError(mismatch(str(path), f"a row of at most {MOST_NUMBERS} numbers", width))
    size = (tensor.end - tensor.begin) // max(1, width * rows)
    with inputs.opened(path) as file:
        if tensor.order == "C":
            flat = files.read(file, tensor.begin + row * width * size, width, tensor.stored)
        else:
            if rows * width > MOST_NUMBERS:
                todo = "Save it with numpy.ascontiguousarray(array)."
                received = f"{rows} of {width} numbers, column by column"
                raise DataError(mismatch(str(path), "rows that lie together", received, todo))
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
    lines = [line for line in text.splitlines() if line.strip()]
    rows = [[w for w in re.split(r"[\s,;\[\]()]+", line) if w] for line in lines]
    values = [[_number(word, source) for word in row] for row in rows]
    widths = {len(row) for row in values}
    if not values or 0 in widths:
        raise DataError(mismatch(source, "numbers", "nothing"))
    if len(widths) > 1:  # one vector, broken into lines
        return np.array([[number for row in values for number in row]])
    return np.array(values)


def _number(word: str, source: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise DataError(mismatch(source, "numbers", repr(word[:60]))) from None


def _row(row: int | None, rows: int, source: str) -> int:
    if row is None and rows == 1:
        return 0
    if row is None:
        raise click.UsageError(f"{source} has {rows} rows: --row says which.")
    if not 0 <= row < rows:
        raise click.UsageError(f"--row {row}: {source} has rows 0 to {rows - 1}.")
    return row
