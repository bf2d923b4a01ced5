"""Files and folders that appear under their names only when they are complete.

They are written beside the target, under a hidden name that ends in `.part`, and renamed. The
process that writes holds a lock on what it writes, which the system lifts with the process however
it ends: what has the hidden name and no lock is left over from a process that was killed, and the
next writer of the same target clears it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

__all__ = ["replacing", "replacing_folder"]

PART, OLD = "part", "old"
NOREPLACE, EXCHANGE = 1, 2  # flags of renameat2
AT_FDCWD = -100


@contextlib.contextmanager
def replacing(
    target: str | os.PathLike[str], *, existing: Literal["refuse", "replace"]
) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete.

    It is written beside the target, synchronised to the disk and renamed. If the block raises, or
    is interrupted, nothing is left; what a killed process left is cleared here.

    Parameters
    ----------
    target : path
        A new file, or a regular file to replace. A link is followed.
    existing : {"refuse", "replace"}
        What happens to a file that has the name, or gets it in the meantime.

    Yields
    ------
    file
        Open for reading and writing, without a buffer.

    Raises
    ------
    FileExistsError
        If the name is taken, and by something to keep or by no regular file.
    FileNotFoundError
        If the folder is missing.
    """
    path = Path(target).resolve()
    if path.exists() and (existing == "refuse" or not path.is_file()):
        why = "File exists" if path.is_file() else "Not a regular file"
        raise FileExistsError(errno.EEXIST, why, str(target))
    _clear(path)
    beside, descriptor = _begun(path, folder=False)
    try:
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
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
def replacing_folder(target: str | os.PathLike[str], *, old: Path | None = None) -> Iterator[Path]:
    """A folder beside the target, renamed to it at the end.

    If the block raises, or is interrupted, nothing is left; what a killed process left is cleared
    here. Where the system can exchange two names, there is no moment without a target. Elsewhere
    the old folder is put aside under a hidden name that ends in `.old`; if the process is killed
    just then, the next one gives it its name back.

    Parameters
    ----------
    target : path
        The folder to be.
    old : Path, optional
        A folder of that name which is to be replaced: it is removed last.

    Yields
    ------
    Path
        The empty folder to fill.

    Raises
    ------
    FileExistsError
        If the name is taken, and not by `old`.
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
            reason = f"{error.strerror}; the old folder is {aside}"
            raise OSError(error.errno, reason, str(path)) from error
        raise
    finally:
        os.close(descriptor)


# --- hidden names ---------------------------------------------------------------------------------


def _hidden(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.{ending}")


def _begun(path: Path, *, folder: bool) -> tuple[Path, int]:
    """A new file or folder beside a path, and its open descriptor, which holds the lock."""
    while True:
        beside = _hidden(path, PART)
        try:
            if folder:
                beside.mkdir()
                descriptor = os.open(beside, os.O_RDONLY)
            else:  # not `mkstemp`, whose files only their owner may read
                descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except (FileNotFoundError, NotADirectoryError) as error:
            if path.parent.is_dir():  # cleared by another process before it was open
                continue
            # The user knows the folder, not the name beside.
            raise type(error)(error.errno, error.strerror, str(path.parent)) from None
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
    name = re.escape(path.name[:100])
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
