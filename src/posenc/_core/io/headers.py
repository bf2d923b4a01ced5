"""Arrays of files, and the headers that say where each lies, checked before any is believed.

    .npy          NEP 1, versions 1 to 3: one array
    .safetensors  8 bytes of length, then JSON about one gapless buffer

An `Array` of an `ArrayStore` is read when it is asked for, whatever the format of its file.
"""

from __future__ import annotations

import ast
import json
import math
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_argument, bad_data, refuse_data, suggest
from posenc._core.io import inputs

LARGEST_RANK = 64  # NumPy's


class Tensor(NamedTuple):
    """Where one array lies in a file."""

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
        """The tensor of that name, or the only one."""
        caller, tensors = str(self.path), self.tensors
        refuse_data(name is None and not tensors, caller, "a tensor", "none")
        if name is None and len(tensors) > 1:
            listed = ", ".join(sorted(tensors)[:20])
            listed += f", … ({len(tensors)} in all)" if len(tensors) > 20 else ""
            raise bad_argument(caller, "one tensor", f"several: {listed}", "Name one: name=.")
        if name is not None and self.format == "npy":
            raise bad_argument(caller, "no name, as .npy has one array", repr(name))
        if name is not None and name not in tensors:
            raise bad_argument(
                caller, "the name of a tensor", repr(name), suggest(name, sorted(tensors)[:1000])
            )
        return next(iter(tensors.values())) if name is None else tensors[name]


def are_sizes(value: Any, kind: type[list[Any] | tuple[Any, ...]]) -> bool:
    """Whether it lists whole numbers that fit 63 bits, no more of them than a shape has."""
    return (
        isinstance(value, kind)
        and len(value) <= LARGEST_RANK
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


def is_shape(value: Any, kind: type[list[Any] | tuple[Any, ...]]) -> bool:
    """Whether it lists the sides of an array that NumPy can describe."""
    # NumPy multiplies the sides, those beside a 0 too, and by the size of a number.
    return are_sizes(value, kind) and math.prod(filter(None, value)) < 2**56


def check_end(caller: str, end: int, size: int, of: str = "") -> None:
    """Raise unless what a header describes ends where the file does."""
    if end != size:
        what = "truncated" if size < end else "longer than its header says"
        raise bad_data(f"{caller} is {what}", f"{end} bytes{of}"[:200], size)


def exactly(file: IO[bytes], count: int, caller: str) -> bytes:
    data = file.read(count) or b""
    refuse_data(len(data) != count, f"{caller} is truncated", f"{count} more bytes", len(data))
    return data


LARGEST_NPY_HEADER = 10_000  # NumPy's; `ast.literal_eval` is safe on a short text only


def npy_tensor(caller: str, file: IO[bytes], size: int, start: bytes | None = None) -> Tensor:
    """Where the array of a `.npy` lies, from its first bytes and the size of the whole.

    `start` are the first eight, where they have been read.
    """
    version = tuple((file.read(8) if start is None else start)[6:8])
    refuse_data(
        version not in ((1, 0), (2, 0), (3, 0)),
        caller,
        "version 1.0, 2.0 or 3.0 of the .npy format",
        ".".join(map(str, version)) or "nothing",
    )
    code, width = ("<H", 2) if version == (1, 0) else ("<I", 4)
    (length,) = struct.unpack(code, exactly(file, width, caller))
    begin, limit = 8 + width + length, min(LARGEST_NPY_HEADER, size)
    refuse_data(
        length > LARGEST_NPY_HEADER or begin > size,
        caller,
        f"a header of at most {limit:,} bytes",
        length,
    )
    descr, fortran, shape = _npy_fields(caller, exactly(file, length, caller), version)
    dtype = _npy_dtype(caller, descr)
    end = begin + math.prod(shape) * dtype.itemsize
    check_end(caller, end, size, f" for shape {shape}")
    return Tensor(
        "", dtype.name, shape, begin, end, dtype.str, "F" if fortran and len(shape) > 1 else "C"
    )


def _npy_fields(caller: str, text: bytes, version: tuple[int, ...]) -> tuple[Any, bool, Any]:
    encoding = "utf-8" if version == (3, 0) else "latin-1"
    try:
        with warnings.catch_warnings(action="ignore"):  # of the parser, about odd texts
            header = ast.literal_eval(text.decode(encoding).strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        complete = len(header) == 3 and isinstance(fortran, bool) and is_shape(shape, tuple)
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        complete = False
    refuse_data(
        not complete, caller, "a header with descr, fortran_order and shape", repr(text[:80])
    )
    return descr, fortran, shape


def _npy_dtype(caller: str, descr: Any) -> np.dtype[Any]:
    try:
        with warnings.catch_warnings(action="ignore"):
            dtype = np.lib.format.descr_to_dtype(descr)
    except (ValueError, TypeError, SyntaxError, KeyError, IndexError, RecursionError):
        raise bad_data(caller, "a dtype that NumPy knows", repr(descr)[:80]) from None
    if dtype.hasobject:
        todo = "Such files run code when they are loaded; save an array of numbers."
        raise bad_data(caller, "an array of numbers", "pickled Python objects", todo)
    if dtype.kind == "V":
        todo = "A .npy cannot name bfloat16: save bfloat16 as .safetensors."
        raise bad_data(caller, "an array of numbers", f"raw or structured {dtype}", todo)
    return dtype


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The header of a `.npy` file of little-endian numbers, in front of their bytes."""
    refuse_data(
        dtype == "bfloat16",
        ".npy",
        "a dtype that NumPy has",
        dtype,
        "Write .safetensors, or choose another dtype.",
    )
    text = repr(
        {"descr": np.dtype(dtype).newbyteorder("<").str, "fortran_order": False, "shape": shape}
    ).encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


MOST_TENSORS = 3 * 2**15  # of one file; quantised experts in few files are 74,000

SAFETENSORS = inputs.FileKind("a .safetensors header", 10**8, 16 * MOST_TENSORS)  # as the format

# First bytes of formats that are neither of the two.
OTHERS = {
    b"PK": "a zip archive, as torch.save writes them (.pt, .pth, .bin), and NumPy (.npz)",
    b"\x80": "a pickle, as older versions of torch.save write them",
    b"GGUF": "a GGUF file",
    b"\x89HDF": "an HDF5 file",
    b"{": "JSON",
    b"[": "JSON",
    b"version ": "a pointer of Git LFS, which stands for the file",
}

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

KEYS = {"data_offsets", "dtype", "shape"}
_CODE_OF = {name: code for code, (_, name, _) in CODES.items()}


def safetensors_layout(path: Path, file: IO[bytes], state: inputs.State, start: bytes) -> Layout:
    caller, size, expected = str(path), state.size, "a .npy or .safetensors file"
    refuse_data(len(start) < 8, caller, expected, f"{size} bytes")
    (length,) = struct.unpack("<Q", start)
    if length > size - 8:
        kind = next((kind for mark, kind in OTHERS.items() if start.startswith(mark)), None)
        todo = (
            "`git lfs pull` fetches the file." if start == b"version " else inputs.reader_of(path)
        )
        refuse_data(
            kind is not None, caller, expected, kind, todo or "Save its tensors as .safetensors."
        )
        refuse_data(
            start[5:] == b"\0\0\0",
            caller,
            expected,
            f"one that states a header of {length} bytes, in {size} bytes",
            "It may be truncated.",
        )
        raise bad_data(caller, expected, f"another format; it begins with {start!r}", todo)
    refuse_data(
        length > SAFETENSORS.largest,
        caller,
        f"a header of at most {SAFETENSORS.largest:,} bytes",
        f"one of {length:,} bytes",
    )
    first = exactly(file, min(length, 20), caller)
    refuse_data(
        first[:1] != b"{", caller, "a JSON object as header", f"a text that begins with {first!r}"
    )
    file.seek(8)
    header = dict(inputs.parse(exactly(file, length, caller), caller, SAFETENSORS))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise bad_data(
            f"{caller}: __metadata__", "a JSON object whose values are strings", repr(metadata)[:80]
        )
    refuse_data(
        len(header) > MOST_TENSORS,
        caller,
        f"at most {MOST_TENSORS:,} tensors in a file",
        len(header),
    )
    at = data = 8 + length
    tensors = {
        name: _safetensors_tensor(caller, name, entry, data) for name, entry in header.items()
    }
    for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            what = "overlaps its neighbour" if tensor.begin < at else "leaves a gap before it"
            expected = f"tensors side by side, the next at byte {at - data}"
            raise bad_data(f"{caller}: {tensor.name!r} {what}", expected, tensor.begin - data)
        at = tensor.end
    check_end(caller, at, size)
    return Layout(path, "safetensors", size, tensors, metadata, state)


def _safetensors_tensor(caller: str, name: str, entry: Any, data: int) -> Tensor:
    def bad(field: str, expected: str, received: object, todo: str = "") -> DataError:
        return bad_data(f"{caller}: {name[:80]!r}{field}", expected, received, todo)

    if not isinstance(entry, dict) or entry.keys() != KEYS:
        raise bad("", "dtype, shape and data_offsets", repr(entry)[:80])
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in CODES:
        todo = suggest(code, CODES) if isinstance(code, str) else ""
        raise bad(": dtype", "one of the format's", repr(code)[:80], todo)
    if not is_shape(shape, list) or not are_sizes(offsets, list) or len(offsets) != 2:
        received = f"{repr(shape)[:80]} and {repr(offsets)[:80]}"
        raise bad(": shape, data_offsets", "lists of sizes, two offsets", received)
    bits, dtype, stored = CODES[code]
    begin, end = offsets
    if 8 * (end - begin) != math.prod(shape) * bits:
        expected = f"the {bits}-bit numbers of shape {repr(shape)[:80]}"
        raise bad(": data_offsets", expected, f"{end - begin} bytes")
    return Tensor(name, dtype, tuple(shape), data + begin, data + end, stored)


def safetensors_header(
    tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The header of a `.safetensors` file whose tensors follow in the order given."""
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


# --- arrays to be read ----------------------------------------------------------------------------

MOST_ENTRIES = 2**22  # numbers that are read at a time
STORED = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
}


class Array(NamedTuple):
    """An array of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    fetch: Callable[[int, int], np.ndarray] | None  # entries from, to; None where it cannot be read
    why_not: str = ""

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def read(self, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Entries `begin` to `end` in C order, as numbers to compute with."""
        end = self.size if end is None else min(end, self.size)
        if self.fetch is None:
            raise DataError(f"{self.name[:80]}: {self.why_not}")
        refuse_data(
            end - begin > MOST_ENTRIES,
            f"{self.name[:80]}: entries at a time",
            f"at most {MOST_ENTRIES:,}",
            end - begin,
        )
        return self.fetch(begin, end)

    def whole(self) -> np.ndarray:
        """All entries, in their shape; for the caller to have looked at the size."""
        if self.fetch is None:
            raise DataError(f"{self.name[:80]}: {self.why_not}")
        return self.fetch(0, self.size).reshape(self.shape)


class ArrayStore(NamedTuple):
    """The arrays of one file, or of the files of one model."""

    path: Path
    format: str
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]  # what a header says besides, such as the base in a GGUF file
    remarks: tuple[str, ...] = ()

    def pick(self, name: str) -> Array:
        """The array of that name."""
        if name not in self.arrays:
            raise bad_argument(
                str(self.path),
                "the name of a tensor",
                repr(name),
                suggest(name, sorted(self.arrays)[:1000]),
            )
        return self.arrays[name]
