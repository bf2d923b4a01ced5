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

import ast
import json
import math
import os
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from posenc._core import inputs
from posenc._core.errors import ArgumentError, DataError, mismatch, suggest
from posenc._core.outputs import replacing

__all__ = [
    "FLOATS",
    "Layout",
    "Tensor",
    "copy",
    "decode",
    "encode",
    "from_bfloat16",
    "npy_header",
    "parse_npy",
    "read",
    "read_layout",
    "read_open_layout",
    "replacing",
    "safetensors_header",
    "to_bfloat16",
    "write",
]

FLOATS = ("float64", "float32", "float16", "bfloat16")
LARGEST_NPY_HEADER = 10_000  # NumPy's; `ast.literal_eval` is safe on a short text only
MOST_TENSORS = 2**15  # of one file; published ones hold a few thousand
SAFETENSORS = inputs.FileKind("a .safetensors header", 2**24, 16 * MOST_TENSORS)
# First bytes of formats that are neither of the two.
OTHERS = {
    b"PK": "a zip archive, as torch.save writes them (.pt, .pth, .bin), and NumPy (.npz)",
    b"\x80": "a pickle, as older versions of torch.save write them",
    b"GGUF": "a GGUF file",
    b"\x89HDF": "an HDF5 file",
    b"{": "JSON",
    b"[": "JSON",
}
LARGEST_RANK = 64  # NumPy's
PIECE = 2**22  # bytes per read when copying

# The codes of safetensors: (bits, name, how NumPy stores it or None where it cannot).
CODES: dict[str, tuple[int, str, str | None]] = {
    "BOOL": (8, "bool", "|b1"),
    "F4": (4, "float4", None),
    "F6_E2M3": (6, "float6_e2m3", None),
    "F6_E3M2": (6, "float6_e3m2", None),
    "U8": (8, "uint8", "|u1"),
    "I8": (8, "int8", "|i1"),
    "F8_E5M2": (8, "float8_e5m2", None),
    "F8_E4M3": (8, "float8_e4m3", None),
    "F8_E8M0": (8, "float8_e8m0", None),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz", None),
    "F8_E5M2FNUZ": (8, "float8_e5m2fnuz", None),
    "I16": (16, "int16", "<i2"),
    "U16": (16, "uint16", "<u2"),
    "F16": (16, "float16", "<f2"),
    "BF16": (16, "bfloat16", "<u2"),
    "I32": (32, "int32", "<i4"),
    "U32": (32, "uint32", "<u4"),
    "F32": (32, "float32", "<f4"),
    "C64": (64, "complex64", "<c8"),
    "F64": (64, "float64", "<f8"),
    "I64": (64, "int64", "<i8"),
    "U64": (64, "uint64", "<u8"),
}
_CODE_OF = {name: code for code, (_, name, _) in CODES.items()}


@dataclass(frozen=True)
class Tensor:
    """Where one array lies in a file.

    Parameters
    ----------
    name : str
        Its name in the file; empty in a `.npy`.
    dtype : str
        What its numbers are: `float32`, `bfloat16`, `int64`, …
    shape : tuple of int
        Outermost axis first.
    begin, end : int
        Its bytes, counted from the start of the file.
    stored : str or None
        The NumPy dtype of its bytes, with the byte order; None where NumPy has none.
    order : {"C", "F"}
        Whether the last or the first axis lies together in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    stored: str | None
    order: Literal["C", "F"] = "C"


@dataclass(frozen=True)
class Layout:
    """What a file says it holds, after its header has been checked against its size."""

    path: Path
    format: Literal["npy", "safetensors"]
    size: int
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    state: inputs.State

    def pick(self, name: str | None = None) -> Tensor:
        """The tensor of that name, or the only one.

        Raises
        ------
        ArgumentError
            If the name is unknown, or none is given and there are several; the message lists them.
        DataError
            If there is none at all.
        """
        if name is None and len(self.tensors) == 1:
            return next(iter(self.tensors.values()))
        if name is None:
            if not self.tensors:
                raise DataError(mismatch(str(self.path), "a tensor", "none"))
            some = sorted(self.tensors)
            listed = ", ".join(some[:20]) + (f", … ({len(some)} in all)" if len(some) > 20 else "")
            received = f"several: {listed}"
            raise ArgumentError(
                mismatch(str(self.path), "one tensor", received, "Name one: name=.")
            )
        if self.format == "npy":
            raise ArgumentError(
                mismatch(str(self.path), "no name, as .npy has one array", repr(name))
            )
        if name not in self.tensors:
            todo = suggest(name, sorted(self.tensors)[:1000])
            raise ArgumentError(mismatch(str(self.path), "the name of a tensor", repr(name), todo))
        return self.tensors[name]


# --- reading headers ------------------------------------------------------------------------------


def read_layout(path: str | os.PathLike[str]) -> Layout:
    """The layout of a `.npy` or `.safetensors` file, told apart by its first bytes.

    Raises
    ------
    DataError
        If it is no regular file, or neither format, or its header contradicts its size.
    OSError
        If it cannot be opened.
    """
    path = Path(path)
    with inputs.opened(path) as file:
        return read_open_layout(path, file)


def read_open_layout(path: Path, file: IO[bytes]) -> Layout:
    """As `read_layout`, of a file that is open and need not have its name yet."""
    file.seek(0)
    state = inputs.state_of(file)
    start = file.read(8) or b""
    if start[:6] == b"\x93NUMPY":
        tensors = {"": _npy_tensor(str(path), file, state.size, start)}
        return Layout(path, "npy", state.size, tensors, {}, state)
    return _safetensors_layout(path, file, state, start)


def parse_npy(caller: str, file: IO[bytes], size: int) -> Tensor:
    """Where the array of a `.npy` lies, from a stream of its first bytes and the size of the whole.

    Raises
    ------
    DataError
        If the header does not hold together, or contradicts the size.
    """
    return _npy_tensor(caller, file, size, file.read(8))


def _npy_tensor(caller: str, file: IO[bytes], size: int, start: bytes) -> Tensor:
    version = tuple(start[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        received = ".".join(map(str, version)) or "nothing"
        raise DataError(mismatch(caller, "version 1.0, 2.0 or 3.0 of the .npy format", received))
    code, width = ("<H", 2) if version == (1, 0) else ("<I", 4)
    (length,) = struct.unpack(code, _exactly(file, width, caller))
    begin = 8 + width + length
    if length > LARGEST_NPY_HEADER or begin > size:
        limit = min(LARGEST_NPY_HEADER, size)
        raise DataError(mismatch(caller, f"a header of at most {limit} bytes", length))
    descr, fortran, shape = _npy_fields(caller, _exactly(file, length, caller), version)
    dtype = _npy_dtype(caller, descr)
    end = begin + math.prod(shape) * dtype.itemsize
    if end != size:
        what = "truncated" if size < end else "longer than its header says"
        raise DataError(
            mismatch(f"{caller} is {what}", f"{end} bytes for shape {shape}"[:200], size)
        )
    order: Literal["C", "F"] = "F" if fortran and len(shape) > 1 else "C"
    return Tensor("", dtype.name, shape, begin, end, dtype.str, order)


def _npy_fields(caller: str, text: bytes, version: tuple[int, ...]) -> tuple[Any, bool, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about odd texts
            encoding = "utf-8" if version == (3, 0) else "latin-1"
            header = ast.literal_eval(text.decode(encoding).strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        complete = len(header) == 3
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        complete, descr, fortran, shape = False, None, None, None
    if not complete or not isinstance(fortran, bool) or not _is_shape(shape, tuple):
        expected = "a header with descr, fortran_order and shape"
        raise DataError(mismatch(caller, expected, repr(text[:80])))
    return descr, fortran, shape


def _npy_dtype(caller: str, descr: Any) -> np.dtype[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dtype = np.lib.format.descr_to_dtype(descr)
    except (ValueError, TypeError, SyntaxError, KeyError, IndexError, RecursionError):
        raise DataError(mismatch(caller, "a dtype that NumPy knows", repr(descr)[:80])) from None
    if dtype.hasobject:
        todo = "Such files run code when they are loaded; save an array of numbers."
        raise DataError(mismatch(caller, "an array of numbers", "pickled Python objects", todo))
    if dtype.kind == "V":
        todo = "A .npy cannot name bfloat16: save bfloat16 as .safetensors."
        raise DataError(mismatch(caller, "an array of numbers", f"raw or structured {dtype}", todo))
    return dtype


def _safetensors_layout(path: Path, file: IO[bytes], state: inputs.State, start: bytes) -> Layout:
    caller, size = str(path), state.size
    if len(start) < 8:
        raise DataError(mismatch(caller, "a .npy or .safetensors file", f"{size} bytes"))
    (length,) = struct.unpack("<Q", start)
    if length > size - 8:
        expected = "a .npy or .safetensors file"
        kind = next((kind for mark, kind in OTHERS.items() if start.startswith(mark)), None)
        if kind is not None:
            raise DataError(mismatch(caller, expected, kind, "Save its tensors as .safetensors."))
        if start[5:] == b"\0\0\0":  # a length that could be meant
            received = f"one that states a header of {length} bytes, in {size} bytes"
            raise DataError(mismatch(caller, expected, received, "It may be truncated."))
        raise DataError(mismatch(caller, expected, f"another format; it begins with {start!r}"))
    if length > SAFETENSORS.largest:
        expected = f"a header of at most {SAFETENSORS.largest} bytes"
        raise DataError(mismatch(caller, expected, f"one of {length} bytes"))
    header = _safetensors_json(caller, _exactly(file, length, caller))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise DataError(
            mismatch(f"{caller}: __metadata__", "an object of texts", repr(metadata)[:80])
        )
    data = 8 + length
    if len(header) > MOST_TENSORS:
        raise DataError(mismatch(caller, f"at most {MOST_TENSORS} tensors in a file", len(header)))
    tensors = {
        name: _safetensors_tensor(caller, name, entry, data) for name, entry in header.items()
    }
    at = data
    for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            what = "overlaps its neighbour" if tensor.begin < at else "leaves a gap before it"
            expected = f"tensors side by side, the next at byte {at - data}"
            raise DataError(
                mismatch(f"{caller}: {tensor.name!r} {what}", expected, tensor.begin - data)
            )
        at = tensor.end
    if at != size:
        what = "truncated" if size < at else "longer than its header says"
        raise DataError(mismatch(f"{caller} is {what}", f"{at} bytes", size))
    return Layout(path, "safetensors", size, tensors, metadata, state)


def _safetensors_json(caller: str, text: bytes) -> dict[str, Any]:
    header = inputs.parse(text, caller, SAFETENSORS)
    if text[:1] != b"{" or not isinstance(header, dict):
        received = f"a text that begins with {text[:20]!r}"
        raise DataError(mismatch(caller, "a JSON object as header", received))
    return header


def _safetensors_tensor(caller: str, name: str, entry: Any, data: int) -> Tensor:
    caller = f"{caller}: {name[:80]!r}"
    if not isinstance(entry, dict) or sorted(entry) != ["data_offsets", "dtype", "shape"]:
        raise DataError(mismatch(caller, "dtype, shape and data_offsets", repr(entry)[:80]))
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in CODES:
        todo = suggest(code, CODES) if isinstance(code, str) else ""
        raise DataError(mismatch(f"{caller}: dtype", "one of the format's", repr(code)[:80], todo))
    if not _is_shape(shape, list) or not _is_shape(offsets, list) or len(offsets) != 2:
        received = f"{repr(shape)[:80]} and {repr(offsets)[:80]}"
        raise DataError(
            mismatch(f"{caller}: shape, data_offsets", "lists of sizes, two offsets", received)
        )
    bits, dtype, stored = CODES[code]
    begin, end = offsets
    if 8 * (end - begin) != math.prod(shape) * bits:
        expected = f"the {bits}-bit numbers of shape {repr(shape)[:80]}"
        raise DataError(mismatch(f"{caller}: data_offsets", expected, f"{end - begin} bytes"))
    return Tensor(name, dtype, tuple(shape), data + begin, data + end, stored)


def _is_shape(value: Any, kind: type[list[Any] | tuple[Any, ...]]) -> bool:
    """Whether it lists sizes that fit 63 bits, few enough that their product is cheap."""
    return (
        isinstance(value, kind)
        and len(value) <= LARGEST_RANK
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
        and math.prod(n for n in value if n) < 2**56  # NumPy's limit, also where a side is 0
    )


def _exactly(file: IO[bytes], count: int, caller: str) -> bytes:
    data = file.read(count) or b""
    if len(data) != count:
        raise DataError(mismatch(f"{caller} is truncated", f"{count} more bytes", len(data)))
    return data


# --- writing headers ------------------------------------------------------------------------------


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The header of a `.npy` file of little-endian numbers, in front of their bytes.

    Raises
    ------
    DataError
        If the format has no name for the dtype.
    """
    if dtype == "bfloat16":
        todo = "Write .safetensors, or choose another dtype."
        raise DataError(mismatch(".npy", "a dtype that NumPy has", dtype, todo))
    descr = np.dtype(dtype).newbyteorder("<").str
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def safetensors_header(
    tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The header of a `.safetensors` file whose tensors follow in the order given.

    Parameters
    ----------
    tensors : mapping of str to (dtype, shape)
        Names of dtypes such as `float32` and `bfloat16`.
    metadata : mapping of str to str, optional
        Kept under `__metadata__`.

    Returns
    -------
    bytes
        A multiple of 8 bytes, so that the numbers behind it are aligned.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        code = _CODE_OF[dtype]
        end = at + math.prod(shape) * CODES[code][0] // 8
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


# --- numbers --------------------------------------------------------------------------------------


def from_bfloat16(patterns: np.ndarray) -> np.ndarray:
    """float32 from the uint16 patterns of bfloat16; every value is kept, NaNs too."""
    return (patterns.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """uint16 patterns of bfloat16 from float32, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    # Half a unit, less one bit where the kept part is even; the carry may run into the exponent.
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    # Rounding could carry a NaN into infinity: cut it instead, with its quiet bit set.
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


def decode(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers to compute with, in native byte order, from what a file holds."""
    if dtype == "bfloat16":
        return from_bfloat16(stored.astype(np.uint16, copy=False))
    return stored.astype(stored.dtype.newbyteorder("="), copy=False)


def encode(values: np.ndarray, dtype: str, stored: str) -> np.ndarray:
    """What a file holds, from numbers; the inverse of `decode`, rounding to nearest."""
    patterns = to_bfloat16(values) if dtype == "bfloat16" else values
    return np.ascontiguousarray(patterns.astype(np.dtype(stored), copy=False))


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
            name = getattr(file, "name", "file")
            raise DataError(mismatch(f"{name} is truncated", f"{len(view)} bytes at {at}", done))
        done += received
    return array


def write(file: IO[bytes], at: int, data: bytes | np.ndarray) -> None:
    """All of `data` at byte `at` of a file opened without a buffer."""
    plain: Any = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data
    view = memoryview(plain)
    file.seek(at)
    done = 0
    while done < len(view):
        done += file.write(view[done:])


def copy(source: IO[bytes], begin: int, end: int, sink: IO[bytes], at: int) -> None:
    """Bytes `begin` to `end` of one file to byte `at` of another."""
    for start in range(begin, end, PIECE):
        piece = read(source, start, min(PIECE, end - start), "|u1")
        write(sink, at + start - begin, piece)
