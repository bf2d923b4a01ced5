"""Make a wheel smaller, which any pip installs: `python tools/deflate.py WHEEL`.

Its members are deflated by zopfli, JSON stands without the spaces that people read by, and no
folder has an entry of its own. Python has a tab for four spaces, no comments, and no docstrings of
private functions and classes and of files in private folders, whose names begin with `_`; each line
stays where it was. The source distribution has all of it. It takes 9 % from the wheel and two
minutes; `make wheels` runs it where it installs zopfli.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import re
import sys
import tokenize
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
    """JSON without spaces, Python with less of what it does not need; all others as they are."""
    if name.endswith(".json"):
        text = json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    return lean(data, own=bool(re.search("/_[^_]", name))) if name.endswith(".py") else data


def lean(data: bytes, *, own: bool) -> bytes:
    """Python with tabs, without what only readers of private code need, in the same lines."""
    lines = data.decode().splitlines(keepends=True)
    texts: set[int] = set()  # lines that begin inside a text
    for piece in tokenize.tokenize(io.BytesIO(data).readline):
        row, column = piece.start
        if piece.type == tokenize.COMMENT:
            lines[row - 1] = f"{lines[row - 1][:column].rstrip()}\n"
        texts.update(range(row + 1, piece.end[0] + 1))
    for body in private(ast.parse(data), own=own):
        for row in range(body[0].lineno - 1, body[0].end_lineno or 0):
            lines[row] = "\n"
    for row, line in enumerate(lines, 1):
        if row not in texts:
            bare = line.lstrip(" ")
            tabs, rest = divmod(len(line) - len(bare), 4)
            lines[row - 1] = "\t" * tabs + " " * rest + bare
    text = "".join(lines)
    if tree(data.decode(), own=own) != tree(text, own=own):
        raise SystemExit(f"Not the same when lean: {data[:80].decode(errors='replace')}")
    return text.encode()


def private(tree: ast.Module, *, own: bool) -> list[list[ast.stmt]]:
    """What stands in private functions and classes that begin with a docstring and have more.

    Or in the whole file, where that is private.
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    owners = [n for n in ast.walk(tree) if isinstance(n, kinds) and re.match(r"_[^_]", n.name)]
    everything = [tree, *owners] if own else owners
    return [node.body for node in everything if len(node.body) > 1 and ast.get_docstring(node)]


def tree(code: str, *, own: bool) -> str:
    """What Python reads, with the lines of all parts, but for the docstrings that are left out."""
    read = ast.parse(code)
    for body in private(read, own=own):
        del body[0]
    return re.sub(r"col_offset=\d+", "", ast.dump(read, include_attributes=True))


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
        infos = [info for info in old.infolist() if not info.is_dir()]
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
