"""Files and folders that appear under their names only when they are complete.

They are written beside the target, under a hidden name that ends in `.part`, and renamed. The
process that writes holds a lock on what it writes, which the system lifts with the process however
it ends: what has the hidden name and no lock is left over from a process that was killed, and the
next writer of the same target clears it.

No other file of this package writes in place: a disk that is full leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

PART, OLD = "part", "old"
LONGEST = 50  # characters of a name that a hidden one repeats: 255 bytes hold all of it
TRIES = 16  # hidden names that are tried: another process may clear one before it is open
FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)
STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
NOREPLACE, EXCHANGE = 1, 2  # flags of renameat2
AT_FDCWD = -100


class _Unbroken(io.FileIO):
    """A file without a buffer that takes all of what it is given, or raises."""

    def write(self, data: Any) -> int:
        """Go on after a short write, which is how a disk says first that it is full."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done


def check_target(target: str | os.PathLike[str], *, existing: Literal["refuse", "replace"]) -> None:
    """Raise what `replacing` would raise of a name, before work that takes long."""
    if _is_special(target):
        return
    path = Path(os.path.realpath(target))
    if path.is_dir() or (path.exists() and existing == "refuse"):
        code = errno.EISDIR if path.is_dir() else errno.EEXIST
        raise OSError(code, os.strerror(code), os.fspath(target))
    if not os.access(path.parent, os.W_OK):
        os.scandir(path.parent).close()  # says that it is missing, or no folder
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))


def write_whole(
    target: str | os.PathLike[str],
    data: str | bytes,
    *,
    existing: Literal["refuse", "replace"] = "replace",
) -> None:
    """Write a file that appears under its name only when it is complete; errors of `replacing`."""
    with replacing(target, existing=existing) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(
    target: str | os.PathLike[str],
    *,
    existing: Literal["refuse", "replace"],
    source: Path | None = None,
) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete.

    It is written beside the target, synchronised to the disk and renamed. If the block raises, or
    is interrupted, nothing is left; what a killed process left is cleared here. A device, a pipe
    and /dev/stdout hold no file to keep: they are written to when the block is done. It has the
    permissions of the file that it replaces, or else those of a `source` that it is made of.
    """
    check_target(target, existing=existing)
    way = _through(target) if _is_special(target) else _beside(target, existing, source)
    try:
        with way as file:
            yield file
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            error.filename = os.fspath(target)
        raise


@contextlib.contextmanager
def _beside(
    target: str | os.PathLike[str], existing: str, source: Path | None
) -> Iterator[IO[bytes]]:
    """A file beside a target, which gets its name at the end."""
    path = Path(os.path.realpath(target))
    _clear(path)
    beside, descriptor = _begun(path, folder=False)
    try:
        with _Unbroken(descriptor, "r+") as file:
            if source is not None:  # before it is written: what is private is so from the start
                os.fchmod(file.fileno(), source.stat().st_mode & 0o777)
            yield file
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            os.fsync(file.fileno())
            if existing == "replace":
                beside.replace(path)
            else:
                _name(beside, path)
            _sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _through(target: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file without a name, whose bytes go to a device or pipe at the end."""
    import tempfile

    descriptor, name = tempfile.mkstemp()
    os.unlink(name)  # noqa: PTH108
    with _Unbroken(descriptor, "r+") as file:
        yield file
        file.seek(0)
        number = _descriptor(target)
        sink = os.open(target, os.O_WRONLY) if number is None else os.dup(number)
        with _Unbroken(sink, "w") as device:
            shutil.copyfileobj(file, device)


def _descriptor(target: str | os.PathLike[str]) -> int | None:
    """The number of the open file that a name stands for, such as /dev/stdout or /dev/fd/3."""
    name = os.path.abspath(target)  # noqa: PTH100
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]{1,6})", name)
    return int(found[1]) if found else STREAMS.get(name)


def _is_special(target: str | os.PathLike[str]) -> bool:
    """Whether what has the name is there and neither a regular file nor a folder."""
    if _descriptor(target) is not None:
        return True
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def replacing_folder(target: str | os.PathLike[str], *, old: Path | None = None) -> Iterator[Path]:
    """A folder beside the target, renamed to it at the end.

    If the block raises, or is interrupted, nothing is left; what a killed process left is cleared
    here. Where the system can exchange two names, there is no moment without a target. Elsewhere
    the old folder is put aside under a hidden name that ends in `.old`; if the process is killed
    just then, the next one gives it its name back.
    """
    path = Path(target).resolve()
    _clear(path)
    if path.exists() and old is None:
        raise FileExistsError(errno.EEXIST, "File exists", str(target))
    beside, descriptor = _begun(path, folder=True)
    try:
        yield beside
        for folder, _, names in os.walk(beside):
            for name in names:
                _sync(Path(folder, name))
            _sync(Path(folder))
        if old is None or not path.exists():
            beside.rename(path)  # fails if a folder with files took the name meanwhile
        elif not _renamed(beside, path, EXCHANGE):
            _exchanged(beside, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=not beside.exists())
        os.close(descriptor)


def _exchanged(beside: Path, path: Path) -> None:
    """Exchange two folders in three steps."""
    aside = _hidden(path, OLD)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _locked(descriptor)  # it is in use, and not left over
        path.rename(aside)
        try:
            beside.rename(path)
        except OSError:
            aside.rename(path)
            raise
        aside.rename(beside)
    except OSError as error:
        if not path.exists():
            raise OSError(
                error.errno, f"{error.strerror}; the old folder is {aside}", str(path)
            ) from error
        raise
    finally:
        os.close(descriptor)


# --- hidden names ---------------------------------------------------------------------------------


def _hidden(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(4)}.{ending}")


def _begun(path: Path, *, folder: bool) -> tuple[Path, int]:
    """A new file or folder beside a path, and its open descriptor, which holds the lock."""
    tries = TRIES
    while True:
        beside = _hidden(path, PART)
        tries -= 1
        try:
            if folder:
                beside.mkdir()
                descriptor = os.open(beside, os.O_RDONLY)
            else:  # not `mkstemp`, whose files only their owner may read
                descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except (FileNotFoundError, NotADirectoryError) as error:
            there = path.parent.is_dir()
            if there and tries:  # cleared by another process before it was open
                continue
            # The user knows the folder, not the name beside. /proc is one that takes no file.
            raise type(error)(
                error.errno, error.strerror, str(path if there else path.parent)
            ) from None
        if _locked(descriptor) is not False and _is(beside, descriptor):
            return beside, descriptor
        os.close(descriptor)  # another process took it for left over, between the two calls


def _locked(descriptor: int) -> bool | None:
    """Whether the lock is ours now; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _clear(path: Path) -> None:
    """Remove what killed processes left of earlier writings of this target."""
    name = re.escape(path.name[:LONGEST])
    try:
        beside = [
            p
            for p in path.parent.iterdir()
            if re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}\.(part|old)", p.name)
        ]
    except OSError:
        return
    # A folder that was put aside comes first: it may be all that there is.
    for left in sorted(beside, key=lambda p: p.suffix):
        with contextlib.suppress(OSError):
            _clear_one(left, path)


def _clear_one(left: Path, path: Path) -> None:
    if left.is_symlink() or not (left.is_file() or left.is_dir()):
        return
    descriptor = os.open(left, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        ours = os.fstat(descriptor).st_uid == os.geteuid()
        if not ours or not _locked(descriptor) or not _is(left, descriptor):
            return
        if left.suffix == f".{OLD}" and not path.exists():
            left.rename(path)
        elif left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    finally:
        os.close(descriptor)


# --- names ----------------------------------------------------------------------------------------


def _name(beside: Path, path: Path) -> None:
    """Give a file its name unless something has it, also if it got it just now."""
    if _renamed(beside, path, NOREPLACE):
        return
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: take the name with an empty file
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        beside.replace(path)


def _renamed(beside: Path, path: Path, flag: int) -> bool:
    """Rename as no other call can; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if rename(AT_FDCWD, os.fsencode(beside), AT_FDCWD, os.fsencode(path), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        raise FileExistsError(code, os.strerror(code), str(path))
    return False  # whatever it is, the way without this call meets it too, and says so


def _sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder, before anything that comes later."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):  # not every file system does it for folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
