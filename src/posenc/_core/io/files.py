"""Arrays in files, without loading them: where their bytes lie, in pieces in, in pieces out.

Two formats, both a header in front of plain bytes:

    .npy          one array (NEP 1), versions 1 to 3
    .safetensors  named arrays: 8 bytes of length, a JSON header, one gapless buffer

A header is somebody else's claim. Everything in it is checked against the size of the file before
any of it is believed, and nothing is ever unpickled. `Layout.begin` and `end` are byte offsets, so
tools can read a tensor of a 100 GB file without touching the rest.

bfloat16 is no dtype of NumPy; it travels as uint16 patterns, converted here by integer arithmetic.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from posenc._core.errors import bad_data
from posenc._core.io import inputs
from posenc._core.io.headers import Layout, npy_tensor, safetensors_layout

FLOATS = ("float64", "float32", "float16", "bfloat16")
PIECE = 2**22  # bytes per read when copying


# --- reading headers ------------------------------------------------------------------------------


def read_layout(path: str | os.PathLike[str]) -> Layout:
    """The layout of a `.npy` or `.safetensors` file, told apart by its first bytes."""
    with inputs.opened(path) as file:
        return read_open_layout(Path(path), file)


def read_open_layout(path: Path, file: IO[bytes]) -> Layout:
    """Read a layout as `read_layout` does, from a file that is open and may lack its name yet."""
    file.seek(0)
    state = inputs.state_of(file)
    start = file.read(8) or b""
    if start[:6] == b"\x93NUMPY":
        return Layout(
            path, "npy", state.size, {"": npy_tensor(str(path), file, state.size, start)}, {}, state
        )
    return safetensors_layout(path, file, state, start)


# --- numbers --------------------------------------------------------------------------------------


def from_bfloat16(patterns: np.ndarray) -> np.ndarray:
    """float32 from the uint16 patterns of bfloat16; every value is kept, NaNs too."""
    return (patterns.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """uint16 patterns of bfloat16 from float32, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    # Half a unit, less one bit where the kept part is even; the carry may run into the exponent.
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # Rounding could carry a NaN into infinity: cut it instead, with its quiet bit set.
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, (bits >> 16) | 0x40, rounded).astype(
        np.uint16
    )


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest numbers of a dtype, as float64."""
    if dtype == "bfloat16":
        return from_bfloat16(to_bfloat16(values)).astype(np.float64)
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float64)


def decode(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers to compute with, in native byte order, from what a file holds."""
    return (
        from_bfloat16(stored.astype(np.uint16, copy=False))
        if dtype == "bfloat16"
        else stored.astype(stored.dtype.newbyteorder("="), copy=False)
    )


def encode(values: np.ndarray, dtype: str, stored: str) -> np.ndarray:
    """What a file holds, from numbers; the inverse of `decode`, rounding to nearest."""
    return np.ascontiguousarray(
        to_bfloat16(values) if dtype == "bfloat16" else values, dtype=stored
    )


# --- bytes ----------------------------------------------------------------------------------------


def read(file: IO[bytes], at: int, count: int, stored: str) -> np.ndarray:
    """`count` elements from byte `at` of a file opened without a buffer."""
    array = np.empty(count, dtype=stored)
    view = memoryview(array.view(np.uint8))  # type: ignore[arg-type]
    file.seek(at)
    done = 0
    while done < len(view):
        received = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not received:
            raise bad_data(
                f"{getattr(file, 'name', 'file')} is truncated", f"{len(view)} bytes at {at}", done
            )
        done += received
    return array


def write(file: IO[bytes], at: int, data: bytes | np.ndarray) -> None:
    """All of `data` at byte `at` of a file of `replacing`, whose writes are whole."""
    plain: Any = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data
    file.seek(at)
    file.write(plain)


def copy(source: IO[bytes], begin: int, end: int, sink: IO[bytes], at: int) -> None:
    """Bytes `begin` to `end` of one file to byte `at` of another."""
    for start in range(begin, end, PIECE):
        write(sink, at + start - begin, read(source, start, min(PIECE, end - start), "|u1"))
