"""The arrays of a file, by name: their shapes from headers first, their numbers only when asked.

    .safetensors, .npy          one header (`_core.io.files`)
    model.safetensors.index.json   the headers of several files beside it
    .npz                        a zip of .npy files
    .bin .pt .pth               a zip whose pickle is read without running it (`torch_file`)
    .gguf                       tensors that are not quantised

The kind of a file is told by its first bytes. Every header is somebody else's claim: sizes are
checked against the file before anything of that size is read, and no zip is trusted in what it says
of itself.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from posenc._core.errors import DataError, bad_data, refuse_data
from posenc._core.io import files, headers, inputs
from posenc._core.io.checkpoints import gguf_header, torch_file
from posenc._core.io.checkpoints.safetensors_model import ENDING, inside, read_shards
from posenc._core.io.headers import MOST_ENTRIES, STORED, Array, ArrayStore

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
LARGEST_DIRECTORY = 2**22  # bytes of a zip's list of members
MOST_MEMBERS = 2**13  # of a .npz, whose headers lie in its members
LARGEST_MEMBER = 2**25  # bytes of one array in a .npz, unpacked
LARGEST_HEADERS = 2**20  # bytes of all these headers together; NumPy writes 118 for each
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy and torch write
# What the library raises for zips that do not hold together.
UNSOUND = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,  # a seek before the start
    OverflowError,
    RuntimeError,
    ValueError,
)


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
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _zip_store(path, file, stack)
    if start[:4] == b"GGUF":
        return _gguf_store(path, file)
    is_npy = start[:6] == b"\x93NUMPY"
    if path.name.endswith(ENDING) and not is_npy:
        return _index_store(path)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 and not is_npy else 0
    refuse_data(
        (start[:1] == b"\x80" or path.suffix in (".bin", ".pt", ".pth", ".pkl"))
        and length > inputs.state_of(file).size - 8,
        str(path),
        "a zip, as torch.save writes",
        repr(start),
        "It may be a bare pickle, which runs code: save it again with torch.save.",
    )
    return _layout_store(files.read_open_layout(path, file), lambda: contextlib.nullcontext(file))


def _array(name: str, tensor: headers.Tensor, read: Callable[[int, int], np.ndarray]) -> Array:
    """An array by what reads its numbers as they are stored: (place of the first, how many)."""

    def fetch(begin: int, end: int) -> np.ndarray:
        if tensor.order == "C":
            return files.decode(read(begin, end - begin), tensor.dtype)
        whole = read(0, math.prod(tensor.shape)).reshape(tensor.shape, order="F")
        return files.decode(whole.reshape(-1)[begin:end], tensor.dtype)

    return Array(name, tensor.dtype, tensor.shape, fetch)


def _plain_array(name: str, tensor: headers.Tensor, opened: Opener) -> Array:
    """An array whose bytes lie side by side in a file."""
    stored, why = tensor.stored, f"{tensor.dtype} has no numbers here"
    if tensor.order == "F" and math.prod(tensor.shape) > MOST_ENTRIES:
        stored, why = None, "it is stored column by column, and too large to transpose"
    if stored is None:
        return Array(name, tensor.dtype, tensor.shape, None, why)
    width = np.dtype(stored).itemsize

    def read(first: int, count: int) -> np.ndarray:
        with opened() as file:
            return files.read(file, tensor.begin + first * width, count, stored)

    return _array(name, tensor, read)


# --- .safetensors, .npy and .gguf -----------------------------------------------------------------


def _layout_store(layout: headers.Layout, opened: Opener) -> ArrayStore:
    named = {key or layout.path.stem: tensor for key, tensor in layout.tensors.items()}
    return ArrayStore(
        layout.path,
        layout.format,
        {name: _plain_array(name, tensor, opened) for name, tensor in named.items()},
        {},
    )


def _index_store(path: Path) -> ArrayStore:
    """Several files, told by a JSON that maps names of tensors to names of files."""
    index, layouts = read_shards(path, str(path))
    names: dict[str, str] = index["weight_map"]
    arrays: dict[str, Array] = {}
    for shard, layout in layouts.items():
        # Each is closed again: a system opens 256 files.
        arrays |= {
            key: array
            for key, array in _layout_store(
                layout, functools.partial(inputs.unchanged, layout.path, layout.state)
            ).arrays.items()
            if names.get(key) == shard
        }
    missing = [name for name in names if name not in arrays]
    if missing:
        raise bad_data(
            str(path),
            "each tensor in the file that the index names for it",
            f"{len(missing)} that are not there, such as {missing[0][:80]!r}",
        )
    return ArrayStore(path, "safetensors", arrays, {})


def _gguf_store(path: Path, file: IO[bytes]) -> ArrayStore:
    header, size = gguf_header.read_open_header(path, file), inputs.state_of(file).size
    arrays = {}
    for name, tensor in header.tensors.items():
        shape = tuple(reversed(tensor.shape))  # the fastest axis comes first there
        if tensor.type not in GGUF_TYPES:
            arrays[name] = Array(name, f"type {tensor.type}", shape, None, "it is quantised")
            continue
        dtype, stored = GGUF_TYPES[tensor.type]
        begin, length = header.data + tensor.offset, math.prod(shape) * np.dtype(stored).itemsize
        refuse_data(
            begin + length > size,
            f"{path}: {name[:80]} lies beyond the end of the file",
            f"{length} bytes at {begin}",
            size,
        )
        arrays[name] = _plain_array(
            name,
            headers.Tensor(name, dtype, shape, begin, begin + length, stored),
            lambda: contextlib.nullcontext(file),
        )
    return ArrayStore(path, "gguf", arrays, header.keys)


# --- zips, of NumPy or torch ----------------------------------------------------------------------


@contextlib.contextmanager
def _sound(caller: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except UNSOUND as error:
        raise bad_data(caller, "a zip that holds together", str(error)[:200]) from None


class _BoundedFile:
    """A file that gives a library no more at once than a list of members may be long.

    The end of a zip says in several places how long the list is, and which of them counts is the
    library's choice: so it is stopped when it asks.
    """

    def __init__(self, file: IO[bytes], caller: str) -> None:
        self.file, self.caller = file, caller
        self.most: float = LARGEST_DIRECTORY

    def read(self, count: int = -1) -> bytes:
        if count < 0:
            count = inputs.state_of(self.file).size - self.file.tell()
        refuse_data(
            count > self.most,
            self.caller,
            f"a directory of at most {LARGEST_DIRECTORY:,} bytes",
            f"one of {count}",
        )
        return self.file.read(count) or b""

    def seek(self, at: int, whence: int = 0) -> int:
        return self.file.seek(at, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


def _zip_store(path: Path, file: IO[bytes], stack: contextlib.ExitStack) -> ArrayStore:
    """The arrays of a .npz, or of a .pt that torch wrote as a zip; `stack` closes it."""
    caller = str(path)
    with _sound(caller):
        measured = _BoundedFile(file, caller)
        archive = stack.enter_context(zipfile.ZipFile(measured))
        measured.most = math.inf
        names = archive.namelist()
        twice = [name for name, count in Counter(names).items() if count > 1]
        refuse_data(twice, caller, "each member once", f"{', '.join(twice)[:80]} more than once")
        refuse_data(
            any(m.compress_type not in PACKED for m in archive.infolist()),
            caller,
            "members that are stored or deflated",
            "other packing",
        )
        of_torch = any(n == "data.pkl" or n.endswith("/data.pkl") for n in names)
        return _torch_store(path, file, archive) if of_torch else _npz_store(path, archive)


def _npz_store(path: Path, archive: zipfile.ZipFile) -> ArrayStore:
    arrays: dict[str, Array] = {}
    members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    refuse_data(
        len(members) > MOST_MEMBERS, str(path), f"at most {MOST_MEMBERS:,} arrays", len(members)
    )
    left = LARGEST_HEADERS
    for member in members:
        name = member.filename.removesuffix(".npy")
        head = _npz_header(f"{path}: {name[:80]}", archive, member)
        left -= len(head)
        refuse_data(
            left < 0, str(path), f"headers of at most {LARGEST_HEADERS:,} bytes together", "more"
        )
        arrays[name] = _npz_array(f"{path}: {name[:80]}", name, head, (archive, member))
    refuse_data(not arrays, str(path), "a zip with .npy or data.pkl inside", "neither")
    return ArrayStore(path, "npz", arrays, {})


def _npz_header(caller: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The first bytes of a member, to the end of its header."""
    with archive.open(member) as stream:
        head = stream.read(12)
        refuse_data(
            head[:6] != b"\x93NUMPY" or len(head) < 12, caller, "a .npy file", repr(head[:8])
        )
        length = int.from_bytes(head[8 : 10 if head[6] == 1 else 12], "little")
        refuse_data(
            length > headers.LARGEST_NPY_HEADER,
            caller,
            f"a header of at most {headers.LARGEST_NPY_HEADER} bytes",
            length,
        )
        return head + stream.read(length)


def _npz_array(
    caller: str, name: str, head: bytes, place: tuple[zipfile.ZipFile, zipfile.ZipInfo]
) -> Array:
    archive, member = place
    tensor = headers.npy_tensor(caller, io.BytesIO(head), member.file_size)
    if tensor.end - tensor.begin > LARGEST_MEMBER:
        return Array(
            name,
            tensor.dtype,
            tensor.shape,
            None,
            f"more than {LARGEST_MEMBER:,} bytes inside a zip are not unpacked: save it as .npy",
        )
    width = np.dtype(tensor.stored).itemsize

    def read(first: int, count: int) -> np.ndarray:
        with _sound(caller), archive.open(member) as stream:
            stream.seek(tensor.begin + first * width)
            raw = stream.read(count * width)
        refuse_data(
            len(raw) != count * width, f"{caller} is truncated", f"{tensor.end} bytes", len(raw)
        )
        return np.frombuffer(raw, dtype=tensor.stored)

    return _array(name, tensor, read)


def _torch_store(path: Path, file: IO[bytes], archive: zipfile.ZipFile) -> ArrayStore:
    caller = str(path)
    folder, parts, foreign = torch_file.parts(archive, caller)
    members = {m.filename: m for m in archive.infolist()}
    if f"{folder}byteorder" in members:
        with archive.open(f"{folder}byteorder") as stream:
            refuse_data(stream.read(16) != b"little", caller, "little-endian numbers", "others")
    arrays = {
        name: _torch_array(
            f"{caller}: {name[:80]}", name, part, members.get(f"{folder}data/{part.storage}"), file
        )
        for name, part in parts.items()
    }
    shown = ", ".join(foreign[:5])
    refuse_data(
        foreign and not arrays,
        caller,
        "tensors",
        f"a pickle that calls {shown}, which was not run",
        "Do not load it with pickle.",
    )
    return ArrayStore(
        path,
        "torch",
        arrays,
        {},
        (f"its pickle also names {shown}: nothing of it was run",) if foreign else (),
    )


def _torch_array(
    caller: str,
    name: str,
    part: torch_file.TensorWindow,
    member: zipfile.ZipInfo | None,
    file: IO[bytes],
) -> Array:
    if member is None:
        raise bad_data(caller, "its storage in the zip", f"no data/{part.storage[:80]}")
    width = (torch_file.SIZES | torch_file.UNTYPED)[part.dtype]
    needed = (part.begin + math.prod(part.shape)) * width
    refuse_data(
        needed > member.file_size,
        f"{caller} is truncated",
        f"{needed} bytes of storage",
        member.file_size,
    )
    stored = STORED.get(part.dtype)
    reasons = {
        "its entries are not side by side": not part.contiguous,
        "its storage is compressed": member.compress_type != zipfile.ZIP_STORED,
        f"{part.dtype} has no numbers here": stored is None,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why or stored is None:
        return Array(name, part.dtype, part.shape, None, why)

    def fetch(begin: int, end: int) -> np.ndarray:
        file.seek(member.header_offset)
        head = file.read(30)
        refuse_data(
            len(head) != 30 or head[:4] != b"PK\x03\x04",
            caller,
            "its storage where the zip says",
            "something else",
        )
        data = member.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        return files.decode(
            files.read(file, data + (part.begin + begin) * width, end - begin, stored), part.dtype
        )

    return Array(name, part.dtype, part.shape, fetch)
