"""The header of a .safetensors: 8 bytes of length, then JSON about one gapless buffer."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from posenc._core.errors import bad_data, suggest
from posenc._core.io import inputs
from posenc._core.io.tensor_layout import Layout, Tensor, are_sizes, exactly, is_shape

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
    caller, size = str(path), state.size
    if len(start) < 8:
        raise bad_data(caller, "a .npy or .safetensors file", f"{size} bytes")
    (length,) = struct.unpack("<Q", start)
    if length > size - 8:
        expected = "a .npy or .safetensors file"
        kind = next((kind for mark, kind in OTHERS.items() if start.startswith(mark)), None)
        if kind is not None:
            raise bad_data(caller, expected, kind, "Save its tensors as .safetensors.")
        if start[5:] == b"\0\0\0":  # a length that could be meant
            received = f"one that states a header of {length} bytes, in {size} bytes"
            raise bad_data(caller, expected, received, "It may be truncated.")
        raise bad_data(caller, expected, f"another format; it begins with {start!r}")
    if length > SAFETENSORS.largest:
        raise bad_data(
            caller, f"a header of at most {SAFETENSORS.largest} bytes", f"one of {length} bytes"
        )
    header = _safetensors_json(caller, file, length)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise bad_data(f"{caller}: __metadata__", "an object of texts", repr(metadata)[:80])
    data = 8 + length
    if len(header) > MOST_TENSORS:
        raise bad_data(caller, f"at most {MOST_TENSORS} tensors in a file", len(header))
    tensors = {
        name: _safetensors_tensor(caller, name, entry, data) for name, entry in header.items()
    }
    at = data
    for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            what = "overlaps its neighbour" if tensor.begin < at else "leaves a gap before it"
            expected = f"tensors side by side, the next at byte {at - data}"
            raise bad_data(f"{caller}: {tensor.name!r} {what}", expected, tensor.begin - data)
        at = tensor.end
    if at != size:
        what = "truncated" if size < at else "longer than its header says"
        raise bad_data(f"{caller} is {what}", f"{at} bytes", size)
    return Layout(path, "safetensors", size, tensors, metadata, state)


def _safetensors_json(caller: str, file: IO[bytes], length: int) -> dict[str, Any]:
    start = exactly(file, min(length, 20), caller)
    if start[:1] != b"{":  # before the rest is read
        raise bad_data(caller, "a JSON object as header", f"a text that begins with {start!r}")
    file.seek(8)
    return dict(inputs.parse(exactly(file, length, caller), caller, SAFETENSORS))


def _safetensors_tensor(caller: str, name: str, entry: Any, data: int) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != KEYS:
        caller = f"{caller}: {name[:80]!r}"
        raise bad_data(caller, "dtype, shape and data_offsets", repr(entry)[:80])
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in CODES:
        caller = f"{caller}: {name[:80]!r}"
        todo = suggest(code, CODES) if isinstance(code, str) else ""
        raise bad_data(f"{caller}: dtype", "one of the format's", repr(code)[:80], todo)
    if not is_shape(shape, list) or not are_sizes(offsets, list) or len(offsets) != 2:
        caller = f"{caller}: {name[:80]!r}"
        received = f"{repr(shape)[:80]} and {repr(offsets)[:80]}"
        raise bad_data(f"{caller}: shape, data_offsets", "lists of sizes, two offsets", received)
    bits, dtype, stored = CODES[code]
    begin, end = offsets
    if 8 * (end - begin) != math.prod(shape) * bits:
        caller = f"{caller}: {name[:80]!r}"
        expected = f"the {bits}-bit numbers of shape {repr(shape)[:80]}"
        raise bad_data(f"{caller}: data_offsets", expected, f"{end - begin} bytes")
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
