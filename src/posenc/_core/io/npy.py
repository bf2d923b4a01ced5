"""The header of a .npy (NEP 1), versions 1 to 3."""

from __future__ import annotations

import ast
import math
import struct
import warnings
from typing import IO, Any, Literal

import numpy as np

from posenc._core.errors import bad_data
from posenc._core.io.tensor_layout import Tensor, exactly, is_shape

LARGEST_NPY_HEADER = 10_000  # NumPy's; `ast.literal_eval` is safe on a short text only


def parse_npy(caller: str, file: IO[bytes], size: int) -> Tensor:
    """Where the array of a `.npy` lies, from its first bytes and the size of the whole."""
    return npy_tensor(caller, file, size, file.read(8))


def npy_tensor(caller: str, file: IO[bytes], size: int, start: bytes) -> Tensor:
    version = tuple(start[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        received = ".".join(map(str, version)) or "nothing"
        raise bad_data(caller, "version 1.0, 2.0 or 3.0 of the .npy format", received)
    code, width = ("<H", 2) if version == (1, 0) else ("<I", 4)
    (length,) = struct.unpack(code, exactly(file, width, caller))
    begin = 8 + width + length
    if length > LARGEST_NPY_HEADER or begin > size:
        limit = min(LARGEST_NPY_HEADER, size)
        raise bad_data(caller, f"a header of at most {limit} bytes", length)
    descr, fortran, shape = _npy_fields(caller, exactly(file, length, caller), version)
    dtype = _npy_dtype(caller, descr)
    end = begin + math.prod(shape) * dtype.itemsize
    if end != size:
        what = "truncated" if size < end else "longer than its header says"
        raise bad_data(f"{caller} is {what}", f"{end} bytes for shape {shape}"[:200], size)
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
    if not complete or not isinstance(fortran, bool) or not is_shape(shape, tuple):
        raise bad_data(caller, "a header with descr, fortran_order and shape", repr(text[:80]))
    return descr, fortran, shape


def _npy_dtype(caller: str, descr: Any) -> np.dtype[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
    if dtype == "bfloat16":
        raise bad_data(
            ".npy", "a dtype that NumPy has", dtype, "Write .safetensors, or choose another dtype."
        )
    descr = np.dtype(dtype).newbyteorder("<").str
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
