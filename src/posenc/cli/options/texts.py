"""The tokens of a text, and the rows of a file that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from posenc._core.errors import DataError, DependencyError, mismatch
from posenc._core.io import files, inputs
from posenc.cli.options.common import count_of
from posenc.cli.options.inputs import (
    looks_like_a_file,
    no_text,
    standard_input,
)
from posenc.cli.output import stream

WORDS = inputs.FileKind("a text", 2**23)

MOST_NUMBERS = 2**23  # of the sum of a text


class TextPieces(NamedTuple):
    """A text in pieces; `ids` are rows of a vocabulary where a tokenizer gave them."""

    texts: list[str]
    ids: list[int] | None


def tokens_of(source: str, tokenizer: str | None) -> TextPieces:
    """A text in pieces: of a tokenizer, or split at spaces; - reads standard input."""
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
    tokens = _tokenize(text, Path(tokenizer)) if tokenizer else TextPieces(text.split(), None)
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


def rows_of_file(path: Path, name: str | None, tokens: TextPieces, *, finite: bool) -> np.ndarray:
    """A row of a file for each piece: in order, or by ID."""
    layout = files.read_layout(path)
    tensor = layout.pick(name)
    stream.check_source(layout, tensor)
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
