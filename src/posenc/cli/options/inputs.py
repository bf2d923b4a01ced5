"""What the command line reads: files by their names, standard input, and texts that are no names.

A name is checked where it is given, so a mistyped one is a mistake of usage in every command, and
is never taken for something else: an empty name for the current folder, a path for a word.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from posenc._core.errors import DataError, mismatch
from posenc._core.io import inputs
from posenc._core.io.outputs import check_target

# Endings of files that hold numbers, models or texts.
ENDINGS = """
.bin .ckpt .csv .feather .gguf .ggml .gz .h5 .hdf5 .ipynb .json .jsonl .log .mat .md .msgpack .npy
.npz .onnx .parquet .pb .pickle .pkl .png .pt .pth .py .rst .safetensors .sqlite .svg .tar .tfrecord
.toml .tsv .txt .xml .yaml .yml .zip
"""
LONGEST_NAME = 4096


def looks_like_a_file(text: str) -> bool:
    """Whether a text is more likely the name of a file: it has a separator, or a known ending.

    A space in front makes it a text; so does a separator between words, unless the folder exists.
    """
    if text != text.lstrip() or "\n" in text or "\0" in text or len(text) > LONGEST_NAME:
        return False
    if Path(text).suffix.lower() in ENDINGS.split():
        return True
    separated = any(mark in text for mark in (os.sep, os.altsep) if mark)
    return separated and (len(text.split()) == 1 or Path(text).parent.is_dir())


def no_text(text: str) -> str:
    """What to say of a text that looks like the name of a file that is not there."""
    return (
        f"{text[:200]!r} is not there. If it is no file but the text itself, write a space in "
        f"front: {' ' + text[:60]!r}."
    )


def file_there(name: str) -> str:
    """The name of a file or folder that exists."""
    if not name:
        raise click.BadParameter("the name is empty.")
    try:
        there = Path(name).exists()
    except (OSError, ValueError):  # too long, or not to be entered; a null character
        there = False
    if not there:
        raise click.BadParameter(f"{name[:200]!r} is not there.")
    return name


def check_output(
    name: str | os.PathLike[str],
    *,
    force: bool,
    option: str = "",
    endings: tuple[str, ...] = (),
    listed: str = "",
) -> None:
    """Say of an output that it cannot be written, before the work that makes it.

    Nor can one of another ending than those of an option, `listed` for people.
    """
    if endings and Path(name).suffix not in endings:
        ends = listed or " or ".join(endings)
        raise click.UsageError(f"{option} {str(name)!r}: its name must end in {ends}.")
    try:
        check_target(name, existing="replace" if force else "refuse")
    except FileExistsError:
        raise click.UsageError(f"{name} exists: --force replaces it.") from None


class InputFile(click.ParamType):
    """The name of a file or folder that exists."""

    name = "file"

    def __init__(self, *, stream: bool = False, advice: str = "") -> None:
        self.stream, self.advice = stream, advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself."""
        if self.stream and value == "-":
            return str(value)
        try:
            return file_there(str(value))
        except click.BadParameter as error:
            self.fail(f"{error.message} {self.advice}".rstrip(), param, ctx)


class InputText(click.ParamType):
    """A text, unless it looks like the name of a file."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        if looks_like_a_file(str(value)):
            self.fail(no_text(str(value)), param, ctx)
        return str(value)


def standard_input(expected: str, kind: inputs.FileKind) -> str:
    """The text that comes on standard input."""
    text = inputs.standard_input(kind)
    if not text.strip():
        raise DataError(mismatch("standard input", expected, "nothing"))
    return text
