"""Arrays of a zip archive, of NumPy or torch, without trust in what it says of itself."""

from __future__ import annotations

import contextlib
import io
import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from posenc._core.errors import DataError, bad_data
from posenc._core.io import files, inputs
from posenc._core.io.checkpoints import torch_file
from posenc._core.io.checkpoints.arrays import STORED, Array, ArrayStore
from posenc._core.io.npy import LARGEST_NPY_HEADER, parse_npy

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
        if count > self.most:
            raise bad_data(
                self.caller, f"a directory of at most {LARGEST_DIRECTORY} bytes", f"one of {count}"
            )
        return self.file.read(count) or b""

    def seek(self, at: int, whence: int = 0) -> int:
        return self.file.seek(at, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


def zip_store(path: Path, file: IO[bytes], stack: contextlib.ExitStack) -> ArrayStore:
    """The arrays of a .npz, or of a .pt that torch wrote as a zip; `stack` closes it."""
    caller = str(path)
    with _sound(caller):
        measured = _BoundedFile(file, caller)
        archive = stack.enter_context(zipfile.ZipFile(measured))
        measured.most = math.inf
        members = {member.filename: member for member in archive.infolist()}
        if len(members) != len(archive.infolist()):
            names = [member.filename for member in archive.infolist()]
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise bad_data(caller, "each member once", f"{twice[:80]!r} more than once")
        if any(m.compress_type not in PACKED for m in members.values()):
            # Others cannot be unpacked in part, so a few bytes may become any number.
            raise bad_data(caller, "members that are stored or deflated", "other packing")
        if any(n == "data.pkl" or n.endswith("/data.pkl") for n in members):
            return _torch_store(path, file, archive)
        return _npz_store(path, archive)


def _npz_store(path: Path, archive: zipfile.ZipFile) -> ArrayStore:
    arrays: dict[str, Array] = {}
    members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    if len(members) > MOST_MEMBERS:
        raise bad_data(str(path), f"at most {MOST_MEMBERS} arrays", len(members))
    left = LARGEST_HEADERS
    for member in members:
        name = member.filename.removesuffix(".npy")
        caller = f"{path}: {name[:80]}"
        head = _npz_header(caller, archive, member)
        left -= len(head)
        if left < 0:
            raise bad_data(
                str(path), f"headers of at most {LARGEST_HEADERS} bytes together", "more"
            )
        arrays[name] = _npz_array(caller, name, head, (archive, member))
    if not arrays:
        raise bad_data(str(path), "a zip with .npy or data.pkl inside", "neither")
    return ArrayStore(path, "npz", arrays, {})


def _npz_header(caller: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The first bytes of a member, to the end of its header."""
    with archive.open(member) as stream:
        head = stream.read(12)
        if head[:6] != b"\x93NUMPY" or len(head) < 12:
            raise bad_data(caller, "a .npy file", repr(head[:8]))
        (length,) = (
            struct.unpack("<H", head[8:10]) if head[6] == 1 else (struct.unpack("<I", head[8:12]))
        )
        if length > LARGEST_NPY_HEADER:
            raise bad_data(caller, f"a header of at most {LARGEST_NPY_HEADER} bytes", length)
        return head + stream.read(length)


def _npz_array(
    caller: str, name: str, head: bytes, place: tuple[zipfile.ZipFile, zipfile.ZipInfo]
) -> Array:
    archive, member = place
    tensor = parse_npy(caller, io.BytesIO(head), member.file_size)
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
            raise bad_data(f"{caller} is truncated", f"{tensor.end} bytes", len(raw))
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
                raise bad_data(caller, "little-endian numbers", "others")
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
            raise bad_data(
                caller,
                "tensors",
                f"a pickle that calls {shown}, which was not run",
                "Do not load it with pickle.",
            )
    return ArrayStore(path, "torch", arrays, {}, remarks)


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
    count = math.prod(part.shape)
    if (part.begin + count) * width > member.file_size:
        expected = f"{(part.begin + count) * width} bytes of storage"
        raise bad_data(f"{caller} is truncated", expected, member.file_size)
    if not part.contiguous:
        return Array(name, part.dtype, part.shape, None, "its entries are not side by side")
    if member.compress_type != zipfile.ZIP_STORED:
        return Array(name, part.dtype, part.shape, None, "its storage is compressed")
    stored = STORED.get(part.dtype)
    if stored is None:
        return Array(name, part.dtype, part.shape, None, f"{part.dtype} has no numbers here")

    def fetch(begin: int, end: int) -> np.ndarray:
        file.seek(member.header_offset)
        head = file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise bad_data(caller, "its storage where the zip says", "something else")
        data = member.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        at = data + (part.begin + begin) * width
        return files.decode(files.read(file, at, end - begin, stored), part.dtype)

    return Array(name, part.dtype, part.shape, fetch)
