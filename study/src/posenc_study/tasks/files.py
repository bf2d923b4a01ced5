"""Files that tasks read, and what is wrong with them."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

from posenc._core.errors import DataError, mismatch
from posenc._core.io import inputs

FOLDER = Path(__file__).resolve().parents[1] / "data"
MEMORY = 2**27  # of the decoder; the largest dictionary of xz asks for 64 MiB


def digest(path: Path) -> str:
    """The SHA-256 of what a file says, which stands for it in the settings of a cell.

    Of a file in xz, it is that of its text.
    """
    return hashlib.sha256(_bytes(path)).hexdigest()


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, its line ends as newlines."""
    raw = _bytes(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        todo = "Convert it, for example with iconv."
        received = f"the byte 0x{raw[error.start]:02x} in line {line}"
        raise DataError(mismatch(str(path), "a text in UTF-8", received, todo)) from None
    if not text.strip():
        raise DataError(mismatch(str(path), "a text", "an empty file"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def checked(path: Path, wanted: str, caller: str, default: str) -> None:
    """Raise unless a file is the one that the settings mean."""
    hashed = digest(path)
    if hashed == wanted:
        return
    if wanted == default:
        todo = f"Set `data` to {hashed}."
    else:
        todo = "Give the file that the settings name by its digest."
    received = f"{hashed[:12]}… of {path}"
    raise DataError(
        mismatch(f"{caller}: data", f"a file with the SHA-256 {wanted[:12]}…", received, todo)
    )


def _bytes(path: Path) -> bytes:
    try:
        data = inputs.content(path, inputs.TEXT)
        return _unpacked(path, data) if path.suffix == ".xz" else data
    except OSError as error:
        received = error.strerror or type(error).__name__
        raise DataError(mismatch(str(path), "a file that can be read", received)) from None


def _unpacked(path: Path, data: bytes) -> bytes:
    """The content of a file in xz, within the limit of a text."""
    most = inputs.TEXT.largest
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    try:
        text = decoder.decompress(data, most + 1)
    except lzma.LZMAError as error:
        raise DataError(mismatch(str(path), "a file in xz", str(error))) from None
    if len(text) > most:
        raise DataError(mismatch(str(path), f"a text of at most {most} bytes", "more"))
    if not decoder.eof or decoder.unused_data:
        received = "bytes behind it" if decoder.eof else "a part of one"
        raise DataError(mismatch(str(path), "one whole stream of xz", received))
    return text
