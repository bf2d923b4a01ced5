"""Make a wheel smaller, which any pip installs: `python tools/deflate.py WHEEL`.

Its members are deflated by zopfli, and JSON stands without the spaces that people read by. It takes
4 % from the wheel and a minute; `make wheels` runs it where it installs zopfli.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
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
        return zopfli.zlib.compress(bytes(self.bytes), blocksplittingmax=0)[2:-4]


def compact(name: str, data: bytes) -> bytes:
    """JSON without spaces; all other members as they are."""
    if not name.endswith(".json"):
        return data
    text = json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def recorded(record: bytes, members: dict[str, bytes]) -> bytes:
    """The list of members with the hashes and sizes that they now have."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    for name, *rest in csv.reader(io.StringIO(record.decode())):
        digest = base64.urlsafe_b64encode(hashlib.sha256(members[name]).digest()).rstrip(b"=")
        present = [f"sha256={digest.decode()}", len(members[name])]
        lines.writerow([name, *(present if rest[0] else rest)])
    return text.getvalue().encode()


def deflate(wheel: Path) -> None:
    """Write a wheel anew with members that mean the same."""
    with zipfile.ZipFile(wheel) as old:
        infos = old.infolist()
        members = {info.filename: compact(info.filename, old.read(info)) for info in infos}
    record = next(name for name in members if name.endswith(".dist-info/RECORD"))
    members[record] = recorded(members[record], members)
    packed = io.BytesIO()
    zipfile._get_compressor = Zopfli  # type: ignore[attr-defined]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in infos:
            new.writestr(info, members[info.filename])
    with zipfile.ZipFile(packed) as new:
        if any(new.read(name) != data for name, data in members.items()):
            raise SystemExit(f"{wheel}: a member is not what it was")
    wheel.write_bytes(packed.getvalue())


if __name__ == "__main__":
    deflate(Path(sys.argv[1]))
