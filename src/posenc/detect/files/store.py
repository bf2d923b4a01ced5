"""The arrays of a file, by name: their shapes from headers first, their numbers only when asked.

    .safetensors, .npy          one header (`_core.files`)
    model.safetensors.index.json   the headers of several files beside it
    .npz                        a zip of .npy files
    .bin .pt .pth               a zip whose pickle is read without running it (`torch_file`)
    .gguf                       tensors that are not quantised

The kind of a file is told by its first bytes. Every header is somebody else's claim: sizes are
checked against the file before anything of that size is read.
"""

from __future__ import annotations

import contextlib
import io
import math
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from posenc._core import files, inputs
from posenc._core.errors import ArgumentError, DataError, mismatch, suggest
from posenc.detect.files import gguf_header, torch_file
from posenc.detect.files.index import ENDING, check_total, read_index, shards_of

__all__ = ["MOST_ENTRIES", "Array", "ArrayStore", "open_store"]

MOST_ENTRIES = 2**22  # numbers that are read at a time
LARGEST_DIRECTORY = 2**22  # bytes of a zip's list of members
MOST_MEMBERS = 2**13  # of a .npz, whose headers lie in its members
LARGEST_MEMBER = 2**25  # bytes of one array in a .npz, unpacked
LARGEST_HEADERS = 2**20  # bytes of all these headers together; NumPy writes 118 for each
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy and torch write
INDEX = "model.safetensors.index.json"
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
        if end - begin > MOST_ENTRIES:
            caller = f"{self.name[:80]}: entries at a time"
            raise DataError(mismatch(caller, f"at most {MOST_ENTRIES}", end - begin))
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
        """The array of that name.

        Raises
        ------
        ArgumentError
            If there is none; the message suggests the nearest one.
        """
        if name not in self.arrays:
            todo = suggest(name, sorted(self.arrays)[:1000])
            raise ArgumentError(mismatch(str(self.path), "the name of a tensor", repr(name), todo))
        return self.arrays[name]


@contextlib.contextmanager
def open_store(path: str | Path) -> Iterator[ArrayStore]:
    """Open a file, or the folder of a model, and read its headers.

    Parameters
    ----------
    path : str or path
        A file of one of the formats, or a folder that holds `model.safetensors` or its index.

    Yields
    ------
    ArrayStore
        Its arrays can be read while the context lasts.

    Raises
    ------
    DataError
        If it is no regular file, of no known format, or its headers contradict it.
    OSError
        If it cannot be opened.
    """
    path = _resolve(Path(path))
    with contextlib.ExitStack() as stack:
        yield _opened(path, stack)


def _resolve(path: Path) -> Path:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        for name in (INDEX, "model.safetensors"):
            if (path / name).is_file():
                return path / name
        todo = "Name the file itself."
        raise DataError(mismatch(str(path), "a folder with model.safetensors", "none inside", todo))
    return path


def _opened(path: Path, stack: contextlib.ExitStack) -> ArrayStore:
    file = stack.enter_context(inputs.opened(path))
    start = file.read(8) or b""
    size = inputs.state_of(file).size
    if start[:4] == b"PK\x03\x04" or start[:4] == b"PK\x05\x06":
        return _zip_store(path, file, stack)
    if start[:4] == b"GGUF":
        return _gguf_store(path, file)
    if start[:6] == b"\x93NUMPY":
        return _plain_store(path, file)
    if path.name.endswith(ENDING):
        return _index_store(path, stack)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    bare = start[:1] == b"\x80" or path.suffix in (".bin", ".pt", ".pth", ".pkl")
    if bare and length > size - 8:
        todo = "It may be a bare pickle, which runs code: save it again with torch.save."
        raise DataError(mismatch(str(path), "a zip, as torch.save writes", repr(start), todo))
    return _plain_store(path, file)


# --- .safetensors and .npy ------------------------------------------------------------------------


def _plain_store(path: Path, file: IO[bytes]) -> ArrayStore:
    layout = files.read_open_layout(path, file)
    arrays = {}
    for key, tensor in layout.tensors.items():
        name = key or path.stem
        arrays[name] = _plain_array(name, tensor, file)
    return ArrayStore(path, layout.format, arrays, {})


def _plain_array(name: str, tensor: files.Tensor, file: IO[bytes]) -> Array:
    stored = tensor.stored
    if stored is None:
        return Array(name, tensor.dtype, tensor.shape, None, f"{tensor.dtype} has no numbers here")
    count = math.prod(tensor.shape)
    if tensor.order == "F" and count > MOST_ENTRIES:
        why = "it is stored column by column and too large to turn"
        return Array(name, tensor.dtype, tensor.shape, None, why)
    width = np.dtype(stored).itemsize

    def fetch(begin: int, end: int) -> np.ndarray:
        if tensor.order == "F":
            whole = files.read(file, tensor.begin, count, stored).reshape(tensor.shape, order="F")
            return files.decode(whole.reshape(-1)[begin:end], tensor.dtype)
        numbers = files.read(file, tensor.begin + begin * width, end - begin, stored)
        return files.decode(numbers, tensor.dtype)

    return Array(name, tensor.dtype, tensor.shape, fetch)


def _index_store(path: Path, stack: contextlib.ExitStack) -> ArrayStore:
    """Several files, told by a JSON that maps names of tensors to names of files."""
    caller = str(path)
    index = read_index(path, caller)
    names = index["weight_map"]
    arrays: dict[str, Array] = {}
    count = 0
    for shard in shards_of(index):
        if not (path.parent / shard).exists():
            raise DataError(mismatch(caller, "the files it names beside it", f"no {shard[:80]!r}"))
        part = _opened(_resolve(path.parent / shard), stack)
        if part.format != "safetensors":
            raise DataError(mismatch(f"{caller}: {shard[:80]}", "a .safetensors file", part.format))
        count += len(part.arrays)
        check_total(count, caller)
        arrays.update({k: v for k, v in part.arrays.items() if names.get(k) == shard})
    missing = [name for name in names if name not in arrays]
    if missing:
        received = f"{len(missing)} without, such as {missing[0][:80]!r}"
        raise DataError(mismatch(caller, "every tensor in the file it names", received))
    return ArrayStore(path, "safetensors", arrays, {})


# --- zips -----------------------------------------------------------------------------------------


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
def _sound(caller: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except UNSOUND as error:
        raise DataError(mismatch(caller, "a zip that holds together", str(error)[:200])) from None


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
        if count > self.most:
            expected = f"a directory of at most {LARGEST_DIRECTORY} bytes"
            raise DataError(mismatch(self.caller, expected, f"one of {count}"))
        return self.file.read(count) or b""

    def seek(self, at: int, whence: int = 0) -> int:
        return self.file.seek(at, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


def _zip_store(path: Path, file: IO[bytes], stack: contextlib.ExitStack) -> ArrayStore:
    caller = str(path)
    with _sound(caller):
        measured = _BoundedFile(file, caller)
        archive = stack.enter_context(zipfile.ZipFile(measured))
        measured.most = math.inf
        members = {member.filename: member for member in archive.infolist()}
        if len(members) != len(archive.infolist()):
            names = [member.filename for member in archive.infolist()]
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise DataError(mismatch(caller, "each member once", f"{twice[:80]!r} more than once"))
        if any(m.compress_type not in PACKED for m in members.values()):
            # Others cannot be unpacked in part, so a few bytes may become any number.
            raise DataError(
                mismatch(caller, "members that are stored or deflated", "other packing")
            )
        if any(n == "data.pkl" or n.endswith("/data.pkl") for n in members):
            return _torch_store(path, file, archive)
        return _npz_store(path, archive)


def _npz_store(path: Path, archive: zipfile.ZipFile) -> ArrayStore:
    arrays: dict[str, Array] = {}
    members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    if len(members) > MOST_MEMBERS:
        raise DataError(mismatch(str(path), f"at most {MOST_MEMBERS} arrays", len(members)))
    left = LARGEST_HEADERS
    for member in members:
        name = member.filename.removesuffix(".npy")
        caller = f"{path}: {name[:80]}"
        head = _npz_header(caller, archive, member)
        left -= len(head)
        if left < 0:
            expected = f"headers of at most {LARGEST_HEADERS} bytes together"
            raise DataError(mismatch(str(path), expected, "more"))
        arrays[name] = _npz_array(caller, name, head, (archive, member))
    if not arrays:
        raise DataError(mismatch(str(path), "a zip with .npy or data.pkl inside", "neither"))
    return ArrayStore(path, "npz", arrays, {})


def _npz_header(caller: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The first bytes of a member, to the end of its header."""
    with archive.open(member) as stream:
        head = stream.read(12)
        if head[:6] != b"\x93NUMPY" or len(head) < 12:
            raise DataError(mismatch(caller, "a .npy file", repr(head[:8])))
        (length,) = (
            struct.unpack("<H", head[8:10]) if head[6] == 1 else (struct.unpack("<I", head[8:12]))
        )
        if length > files.LARGEST_NPY_HEADER:
            expected = f"a header of at most {files.LARGEST_NPY_HEADER} bytes"
            raise DataError(mismatch(caller, expected, length))
        return head + stream.read(length)


def _npz_array(
    caller: str, name: str, head: bytes, place: tuple[zipfile.ZipFile, zipfile.ZipInfo]
) -> Array:
    archive, member = place
    tensor = files.parse_npy(caller, io.BytesIO(head), member.file_size)
    stored = tensor.stored
    assert stored is not None, "NumPy wrote it"  # noqa: S101 - for the type checker
    if tensor.end - tensor.begin > LARGEST_MEMBER:
        why = f"more than {LARGEST_MEMBER} bytes inside a zip are not unpacked: save it as .npy"
        return Array(name, tensor.dtype, tensor.shape, None, why)
    width = np.dtype(stored).itemsize

    def fetch(begin: int, end: int) -> np.ndarray:
        together = tensor.order == "C"
        first, last = (begin, end) if together else (0, math.prod(tensor.shape))
        with _sound(caller), archive.open(member) as stream:
            stream.seek(tensor.begin + first * width)
            raw = stream.read((last - first) * width)
        if len(raw) != (last - first) * width:
            raise DataError(mismatch(f"{caller} is truncated", f"{tensor.end} bytes", len(raw)))
        numbers = np.frombuffer(raw, dtype=stored)
        if not together:
            numbers = numbers.reshape(tensor.shape, order="F").reshape(-1)[begin:end]
        return files.decode(numbers, tensor.dtype)

    return Array(name, tensor.dtype, tensor.shape, fetch)


def _torch_store(path: Path, file: IO[bytes], archive: zipfile.ZipFile) -> ArrayStore:
    caller = str(path)
    folder, parts, foreign = torch_file.parts(archive, caller)
    if f"{folder}byteorder" in archive.namelist():
        with archive.open(f"{folder}byteorder") as stream:
            if stream.read(16) != b"little":
                raise DataError(mismatch(caller, "little-endian numbers", "others"))
    members = {m.filename: m for m in archive.infolist()}
    arrays = {}
    for name, part in parts.items():
        member = members.get(f"{folder}data/{part.storage}")
        arrays[name] = _torch_array(f"{caller}: {name[:80]}", name, part, member, file)
    remarks: tuple[str, ...] = ()
    if foreign:
        shown = ", ".join(foreign[:5])
        remarks = (f"its pickle also names {shown}: nothing of it was run",)
        if not arrays:
            todo = "Do not load it with pickle."
            received = f"a pickle that calls {shown}, which was not run"
            raise DataError(mismatch(caller, "tensors", received, todo))
    return ArrayStore(path, "torch", arrays, {}, remarks)


def _torch_array(
    caller: str,
    name: str,
    part: torch_file.TensorWindow,
    member: zipfile.ZipInfo | None,
    file: IO[bytes],
) -> Array:
    if member is None:
        raise DataError(mismatch(caller, "its storage in the zip", f"no data/{part.storage[:80]}"))
    width = torch_file.SIZES[part.dtype]
    count = math.prod(part.shape)
    if (part.begin + count) * width > member.file_size:
        expected = f"{(part.begin + count) * width} bytes of storage"
        raise DataError(mismatch(f"{caller} is truncated", expected, member.file_size))
    if not part.contiguous:
        return Array(name, part.dtype, part.shape, None, "its entries are not side by side")
    if member.compress_type != zipfile.ZIP_STORED:
        return Array(name, part.dtype, part.shape, None, "its storage is compressed")
    stored = STORED[part.dtype]

    def fetch(begin: int, end: int) -> np.ndarray:
        file.seek(member.header_offset)
        head = file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise DataError(mismatch(caller, "its storage where the zip says", "something else"))
        data = member.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        at = data + (part.begin + begin) * width
        return files.decode(files.read(file, at, end - begin, stored), part.dtype)

    return Array(name, part.dtype, part.shape, fetch)


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
            raise DataError(mismatch(caller, f"{math.prod(shape) * width} bytes at {begin}", size))
        arrays[name] = Array(name, dtype, shape, _gguf_fetch(file, begin, width, dtype, stored))
    return ArrayStore(path, "gguf", arrays, header.keys)


def _gguf_fetch(
    file: IO[bytes], data: int, width: int, dtype: str, stored: str
) -> Callable[[int, int], np.ndarray]:
    def fetch(begin: int, end: int) -> np.ndarray:
        return files.decode(files.read(file, data + begin * width, end - begin, stored), dtype)

    return fetch
