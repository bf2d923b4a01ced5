"""The arrays of a file, by name: their shapes from headers first, their numbers only when asked.

    .safetensors, .npy          one header (`_core.io.files`)
    model.safetensors.index.json   the headers of several files beside it
    .npz                        a zip of .npy files
    .bin .pt .pth               a zip whose pickle is read without running it (`torch_file`)
    .gguf                       tensors that are not quantised

The kind of a file is told by its first bytes. Every header is somebody else's claim: sizes are
checked against the file before anything of that size is read.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from posenc._core.errors import bad_data
from posenc._core.io import files, inputs, tensor_layout
from posenc._core.io.checkpoints import gguf_header
from posenc._core.io.checkpoints.arrays import MOST_ENTRIES, Array, ArrayStore
from posenc._core.io.checkpoints.index import ENDING
from posenc._core.io.checkpoints.safetensors_model import inside, read_shards
from posenc._core.io.checkpoints.zip_file import zip_store

Opener = Callable[[], contextlib.AbstractContextManager[IO[bytes]]]
GGUF_TYPES = {
    0: ("float32", "<f4"),
    1: ("float16", "<f2"),
    24: ("int8", "|i1"),
    25: ("int16", "<i2"),
    26: ("int32", "<i4"),
    27: ("int64", "<i8"),
    28: ("float64", "<f8"),
    30: ("bfloat16", "<u2"),
}


@contextlib.contextmanager
def open_store(path: str | os.PathLike[str]) -> Iterator[ArrayStore]:
    """Open a file, or the folder of a model, and read its headers."""
    path = inputs.named(path, "a file of arrays")
    path = inside(path, str(path)) if stat.S_ISDIR(path.stat().st_mode) else path
    with contextlib.ExitStack() as stack:
        yield _opened(path, stack)


def _opened(path: Path, stack: contextlib.ExitStack) -> ArrayStore:
    file = stack.enter_context(inputs.opened(path))
    start = file.read(8) or b""
    size = inputs.state_of(file).size
    if start[:4] == b"PK\x03\x04" or start[:4] == b"PK\x05\x06":
        return zip_store(path, file, stack)
    if start[:4] == b"GGUF":
        return _gguf_store(path, file)
    if start[:6] == b"\x93NUMPY":
        return _plain_store(path, file)
    if path.name.endswith(ENDING):
        return _index_store(path)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    bare = start[:1] == b"\x80" or path.suffix in (".bin", ".pt", ".pth", ".pkl")
    if bare and length > size - 8:
        todo = "It may be a bare pickle, which runs code: save it again with torch.save."
        raise bad_data(str(path), "a zip, as torch.save writes", repr(start), todo)
    return _plain_store(path, file)


# --- .safetensors and .npy ------------------------------------------------------------------------


def _plain_store(path: Path, file: IO[bytes]) -> ArrayStore:
    return _layout_store(files.read_open_layout(path, file), lambda: contextlib.nullcontext(file))


def _layout_store(layout: tensor_layout.Layout, opened: Opener) -> ArrayStore:
    arrays = {}
    for key, tensor in layout.tensors.items():
        name = key or layout.path.stem
        arrays[name] = _plain_array(name, tensor, opened)
    return ArrayStore(layout.path, layout.format, arrays, {})


def _plain_array(name: str, tensor: tensor_layout.Tensor, opened: Opener) -> Array:
    stored = tensor.stored
    if stored is None:
        return Array(name, tensor.dtype, tensor.shape, None, f"{tensor.dtype} has no numbers here")
    count = math.prod(tensor.shape)
    if tensor.order == "F" and count > MOST_ENTRIES:
        why = "it is stored column by column and too large to turn"
        return Array(name, tensor.dtype, tensor.shape, None, why)
    width = np.dtype(stored).itemsize

    def fetch(begin: int, end: int) -> np.ndarray:
        with opened() as file:
            if tensor.order == "F":
                whole = files.read(file, tensor.begin, count, stored)
                whole = whole.reshape(tensor.shape, order="F")
                return files.decode(whole.reshape(-1)[begin:end], tensor.dtype)
            numbers = files.read(file, tensor.begin + begin * width, end - begin, stored)
            return files.decode(numbers, tensor.dtype)

    return Array(name, tensor.dtype, tensor.shape, fetch)


def _index_store(path: Path) -> ArrayStore:
    """Several files, told by a JSON that maps names of tensors to names of files."""
    index, layouts = read_shards(path, str(path))
    names: dict[str, str] = index["weight_map"]
    arrays: dict[str, Array] = {}
    for shard, layout in layouts.items():
        # Each is closed again: a system opens 256 files.
        opened = functools.partial(inputs.unchanged, layout.path, layout.state)
        part = _layout_store(layout, opened).arrays
        arrays |= {key: array for key, array in part.items() if names.get(key) == shard}
    missing = [name for name in names if name not in arrays]
    if missing:
        received = f"{len(missing)} without, such as {missing[0][:80]!r}"
        raise bad_data(str(path), "every tensor in the file it names", received)
    return ArrayStore(path, "safetensors", arrays, {})


# --- zips -----------------------------------------------------------------------------------------


# --- .gguf ----------------------------------------------------------------------------------------


def _gguf_store(path: Path, file: IO[bytes]) -> ArrayStore:
    header = gguf_header.read_open_header(path, file)
    size = inputs.state_of(file).size
    arrays = {}
    for name, tensor in header.tensors.items():
        shape = tuple(reversed(tensor.shape))  # the fastest axis comes first there
        if tensor.type not in GGUF_TYPES:
            arrays[name] = Array(name, f"type {tensor.type}", shape, None, "it is quantised")
            continue
        dtype, stored = GGUF_TYPES[tensor.type]
        width = np.dtype(stored).itemsize
        begin = header.data + tensor.offset
        if begin + math.prod(shape) * width > size:
            caller = f"{path}: {name[:80]} lies beyond the end of the file"
            raise bad_data(caller, f"{math.prod(shape) * width} bytes at {begin}", size)
        arrays[name] = Array(name, dtype, shape, _gguf_fetch(file, begin, width, dtype, stored))
    return ArrayStore(path, "gguf", arrays, header.keys)


def _gguf_fetch(
    file: IO[bytes], data: int, width: int, dtype: str, stored: str
) -> Callable[[int, int], np.ndarray]:
    def fetch(begin: int, end: int) -> np.ndarray:
        return files.decode(files.read(file, data + begin * width, end - begin, stored), dtype)

    return fetch
