"""A folder that appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing_folder"]


@contextlib.contextmanager
def replacing_folder(target: str | os.PathLike[str], *, old: Path | None = None) -> Iterator[Path]:
    """A folder beside the target, renamed to it at the end.

    If the block raises, or is interrupted, nothing is left.

    Parameters
    ----------
    target : path
        The folder to be.
    old : Path, optional
        A folder of that name which is to be replaced: it is put aside, and removed last.

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
    if path.exists() and old is None:
        raise FileExistsError(errno.EEXIST, "File exists", str(target))
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    aside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.old")
    try:
        beside.mkdir()
        yield beside
        for file in beside.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        if old is not None and path.exists():
            path.rename(aside)
        try:
            beside.rename(path)  # fails if a folder with files took the name meanwhile
        except OSError:
            if aside.exists():
                aside.rename(path)
            raise
    finally:
        if beside.exists():
            shutil.rmtree(beside)
        if aside.exists() and path.exists():  # what was put aside goes when it was replaced
            shutil.rmtree(aside)
