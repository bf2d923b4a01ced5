"""Deflate the members of a wheel by zopfli, which any unzip reads: `python tools/deflate.py WHEEL`.

It takes 3 % from the wheel and a minute; `make wheels` runs it where it installs zopfli.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import zopfli.zlib


class Zopfli:
    """What zipfile asks to deflate the bytes of one member."""

    def __init__(self, *_: object) -> None:
        self.bytes = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Keep bytes until there are no more."""
        self.bytes += data
        return b""

    def flush(self) -> bytes:
        """All of them deflated, without the frame of zlib."""
        return zopfli.zlib.compress(bytes(self.bytes))[2:-4]


def deflate(wheel: Path) -> None:
    """Write a wheel anew with the same members."""
    packed = io.BytesIO()
    zipfile._get_compressor = Zopfli  # type: ignore[attr-defined]
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member, old.read(member))
    with zipfile.ZipFile(packed) as new, zipfile.ZipFile(wheel) as old:
        if any(new.read(name) != old.read(name) for name in old.namelist()):
            raise SystemExit(f"{wheel}: a member is not what it was")
    wheel.write_bytes(packed.getvalue())


if __name__ == "__main__":
    deflate(Path(sys.argv[1]))
