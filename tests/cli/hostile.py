"""Crafted files that claim more than they hold, or stand for far more than their size."""

from __future__ import annotations

import io
import json
import os
import socket
import sqlite3
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc_study.results.store import SCHEMA

Files = dict[str, bytes]


def _zip(members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _npy(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text.encode())) + text.encode() + data


def _array(shape: str, dtype: str = "'<f4'", order: str = "False") -> str:
    return f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}}}"


# --- .npy and .npz --------------------------------------------------------------------------------


def npy_files() -> Files:
    """Headers against the reader of literals, and sizes that no file has."""
    texts = {
        "minus": "-" * 9000 + "1",
        "plus": "1" + "+1" * 4900,
        "parentheses": "(" * 9000,
        "brace": "{'a':" * 1900,
        "attribute": "a" + ".a" * 4900,
        "lambda": "lambda:" * 1400 + "1",
        "digits": "1" * 9000,
        "long": " " * 65000,
        "rank": _array("(" + "1," * 3000 + ")"),
        "zero": _array(f"(0, {2**62}, {2**62})"),
        "zero2": _array(f"(0, {2**63 - 1})"),
        "items": _array("(0,)", "'<U2000000000'"),
        "sub": _array("(0,)", "'(1000000,1000000)f4'"),
        "true": _array("(True,)"),
        "twice": _array("(2,), 'descr': '<f8'"),
        "wide": _array("(4, 3)", "'>c16'"),
    }
    return {f"{name}.npy": _npy(text) for name, text in texts.items()}


def npz_files() -> Files:
    """Members whose headers cost more than their bytes, and lists of members."""
    slow = ("{'descr': '<f4' " + "'' " * 3200).ljust(9900).encode()
    slow = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(slow)) + slow
    small = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + _array("(0,)").ljust(118).encode()
    zeros = _npy(_array("(8388608,)"), bytes(2**25))
    entry = b"PK\x01\x02" + struct.pack("<6H3I5H2I", 20, 20, 0, 0, 0, 33, 0, 0, 0, 5, *[0] * 6)
    directory = b"".join(entry + b"%05d" % i for i in range(80_000))
    end = struct.pack("<4H2IH", 0, 0, 65535, 65535, len(directory), 30, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice = io.BytesIO()
        with zipfile.ZipFile(twice, "w") as archive:
            for _ in range(2):
                archive.writestr("x.npy", small)
    return {
        "members.npz": _zip({f"{i}.npy": slow for i in range(600)}),
        "many.npz": _zip({f"{i}.npy": small for i in range(8192)}),
        "too-many.npz": _zip({f"{i}.npy": small for i in range(8193)}),
        "bomb.npz": _zip({f"{n}.npy": zeros for n in ("input", "output", "positions")}),
        "bomb-bz2.npz": _zip({"x.npy": zeros}, zipfile.ZIP_BZIP2),
        "bomb-lzma.npz": _zip({"x.npy": zeros}, zipfile.ZIP_LZMA),
        "names.npz": _zip({"n" * 60_000 + f"{i}.npy": small for i in range(60)}),
        "twice.npz": twice.getvalue(),
        "directory.npz": b"PK\x03\x04" + bytes(26) + directory + b"PK\x05\x06" + end,
        "nothing.npz": _zip({}),
    }


def zip64(path: Path, size: int) -> None:
    """A small directory, and before it a large one that the library prefers."""
    with path.open("wb") as file:
        file.write(b"PK\x03\x04" + bytes(26))
        file.truncate(size - 98)
        file.seek(0, 2)
        cd = size - 128
        file.write(b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, cd, 30))
        file.write(b"PK\x06\x07" + struct.pack("<IQI", 0, size - 98, 1))
        file.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 46, 30, 0))


# --- pickles --------------------------------------------------------------------------------------


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(data: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(data)) + data


def torch_files() -> Files:
    """Programs that are short and make much."""

    def laughs(depth: int) -> bytes:
        steps = (bytes([104, i, 104, i, 0x86, 113, i + 1]) for i in range(depth))
        return b")q\x00" + b"".join(steps) + b"\x8c\x01a\x93."

    key = b"(" + _text(b"storage") + _global("torch", "FloatStorage") + _text(b"0") + _text(b"cpu")
    storage = key + b"K\x01tQq\x01"
    build = _global("torch._utils", "_rebuild_tensor_v2")
    part = build + b"(h\x01K\x00(K\x01t(K\x01ttRq\x05"
    collisions = ((i + 1) * (2**61 - 1) for i in range(130_000))
    programs = {
        "laughs": laughs(28),
        "laughs60": laughs(60),
        "deep": b")" + b"\x85" * 400_000 + b"\x8c\x01a\x93.",
        "deep-tuple": b")" + b"\x85" * 490_000 + b".",
        "deep-dict": b"}K\x01" * 100_000 + b"N" + b"s" * 100_000 + b".",
        "deep-list": b"]" * 240_000 + b"a" * 239_999 + b".",
        "shape": b"("
        + b"K\x01" * 60_000
        + b"tq\x000"
        + storage
        + b"0"
        + build
        + b"q\x020(h\x01K\x00h\x00h\x00tq\x030"
        + b"h\x02h\x03R0" * 80_000
        + b"].",
        "words": _text(b"a" * 10**6) + b"q\x000" + b"h\x00h\x00\x930" * 100_000 + b"].",
        "keys": b"}("
        + b"".join(b"\x8a\x0c" + k.to_bytes(12, "little") + b"K\x01" for k in collisions)
        + b"u.",
        "name": storage
        + b"0"
        + part
        + b"0}"
        + _text(b"k" * 10**6)
        + b"]("
        + b"h\x05" * 60_000
        + b"es.",
        "parts": storage + b"0" + part + b"0](" + b"h\x05" * 200_000 + b"e.",
        "itself": b"]q\x00(" + b"h\x00" * 200_000 + b"e.",
        "marks": b"(" * 490_000 + b".",
        "names": b"".join(_global("m", f"n{i}") + b"0" for i in range(100_000)) + b"N.",
        "long": bytes(2**26),
    }
    return {
        f"{name}.pt": _zip({"a/data.pkl": b"\x80\x02" + program, "a/data/0": bytes(4)})
        for name, program in programs.items()
    }


# --- .safetensors and their indexes ---------------------------------------------------------------


def safetensors_files() -> Files:
    """Headers of many values, of values twice, of values that are none."""

    def tensor(shape: str = "[0]", offsets: str = "[0,0]") -> str:
        return f'{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}'

    def named(count: int, period: int) -> str:
        return "{" + ",".join(f'"{i % period:05d}":{tensor()}' for i in range(count)) + "}"

    headers = {
        "most": named(32_768, 32_768),
        "more": named(32_769, 32_769),
        "twice": named(30_000, 29_999),
        "deep": '{"a":' * 90_000,
        "lists": '{"a":[' + "[]," * 1_300_000 + "[]]}",
        "texts": "{" + ",".join(f'"{i:06d}":"{i:06d}"' for i in range(250_000)) + "}",
        "metadata": '{"__metadata__":{"a":"' + "\\ud800" * 2_700_000 + '"}}',
        "wide": '{"__metadata__":{"a":"' + "\U0001f600" * 4_100_000 + '"}}',
        "infinite": '{"a":' + tensor("[1e999]") + "}",
        "digits": '{"a":' + tensor("[" + "1" * 5000 + "]") + "}",
        "zero": '{"a":' + tensor(f"[0,{2**62},{2**62}]") + "}",
        "record": json.dumps({"__metadata__": {"posenc.conversion": "[" * 100_000}}),
    }
    found = {
        f"{name}.safetensors": struct.pack("<Q", len(text.encode())) + text.encode()
        for name, text in headers.items()
    }
    ending = ".safetensors.index.json"
    indexes: dict[str, Any] = {
        "names": {f"k{i}": "a.safetensors" for i in range(200_000)},
        "shards": {f"k{i}": f"s{i}.safetensors" for i in range(5000)},
        "links": {f"k{i}": f"link{i}.safetensors" for i in range(12)},
        "outside": {"x": "../../etc/passwd"},
        "null": {"x": "a\0.safetensors"},
        "surrogate": {"x": "\ud800.safetensors"},
        "long": {"x": "a" * 100_000 + ".safetensors"},
        "number": {"x": 5},
        "list": [["x", "y"]],
    }
    found |= {f"{n}{ending}": json.dumps({"weight_map": m}).encode() for n, m in indexes.items()}
    found["twice" + ending] = b'{"weight_map":{"x":"a.safetensors","x":"b.safetensors"}}'
    return found


# --- .gguf ----------------------------------------------------------------------------------------


def gguf_files() -> Files:
    """Lists of lists, names twice, numbers that no model has."""

    def text(data: bytes) -> bytes:
        return struct.pack("<Q", len(data)) + data

    def made(keys: dict[bytes, bytes], tensors: bytes = b"", count: int = 0) -> bytes:
        body = b"".join(text(key) + value for key, value in keys.items())
        return b"GGUF" + struct.pack("<IQQ", 3, count, len(keys)) + body + tensors

    def listed(kind: int, count: int, body: bytes) -> bytes:
        return struct.pack("<IIQ", 9, kind, count) + body

    def whole(value: int) -> bytes:
        return struct.pack("<IQ", 10, value)

    llama = {
        b"general.architecture": struct.pack("<I", 8) + text(b"llama"),
        b"llama.rope.freq_base": struct.pack("<If", 6, 1e4),
        b"llama.embedding_length": whole(64),
        b"llama.attention.head_count": whole(4),
        b"llama.context_length": whole(64),
        b"llama.block_count": whole(2),
    }
    large = {**llama, **{key: whole(2**64 - 1) for key in list(llama)[2:]}}
    inner = struct.pack("<IQ", 0, 0)
    nested = struct.pack("<IQ", 9, 64) + inner * 64
    nested = (struct.pack("<IQ", 9, 64) + nested * 64) * 64
    tensors = (text(b"t%05d" % i) + struct.pack("<IQIQ", 1, 4, 0, 0) for i in range(32_768))
    far = text(b"rope_freqs.weight") + struct.pack("<IQIQ", 1, 8, 0, 2**64 - 32)
    return {
        "lists.gguf": made({b"k%d" % i: listed(0, 4096, b"\1" * 4096) for i in range(2000)}),
        "texts.gguf": made({b"k%d" % i: listed(8, 4096, bytes(2**15)) for i in range(127)}),
        "vocabulary.gguf": made({b"v": listed(8, 2**21 - 9, bytes(2**24))}),
        "long.gguf": made({b"v": listed(9, 900_000, inner * 900_000)}),
        "nested.gguf": made({b"v": listed(9, 64, nested)}),
        "keys.gguf": made({b"k%05d" % i: struct.pack("<II", 4, 1) for i in range(65_536)}),
        "tensors.gguf": made(llama, b"".join(tensors), 32_768),
        "twice.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + (text(b"k") + whole(1)) * 2,
        "align.gguf": made({b"general.alignment": whole(2**64 - 1)}, far, 1),
        "large.gguf": made(large),
        "layers.gguf": made({**llama, b"llama.block_count": whole(2**40)}),
        "far.gguf": made(llama, far, 1),
        "nan.gguf": made({**llama, b"llama.rope.freq_base": struct.pack("<If", 6, float("nan"))}),
    }


# --- JSON -----------------------------------------------------------------------------------------


def json_files() -> Files:
    """Configs and specs of numbers that are too long, and of too many values."""
    config = '{"model_type":"llama","hidden_size":64,"num_attention_heads":4,"rope_theta":1e4,%s}'
    spec = '{"type":"Sinusoidal","dim":8,%s}'
    ladder = spec % '"ladder":{"type":"Ladder",%s}'
    big = "1" + "0" * 400
    rope = f'{{"rope_type":"longrope","long_factor":[{",".join([big] * 8)}],"short_factor":[1]}}'
    texts = {
        "digits": '{"type":"Sinusoidal","dim":' + "1" * 5000 + "}",
        "factor": config % f'"rope_scaling":{rope}',
        "layers": config % f'"num_hidden_layers":{big}',
        "theta": config % f'"rope_theta_":{big},"head_dim":{2**40}',
        "types": config % ('"layer_types":[' + '"full_attention",' * 100_000 + '"x"]'),
        "values": config % ('"a":[' + "1," * 3_000_000 + "1]"),
        "objects": "[" + "{}," * 3_000_000 + "{}]",
        "deep": '{"type":' * 100_000,
        "key": '{"' + "k" * 10**7 + '":1}',
        "start": ladder % ('"start":-1' + "0" * 30),
        "first": ladder % '"start":-1e30',
        "zero": ladder % '"denominator":"n/0"',
        "shift": ladder % ('"denominator":"n+' + "9" * 9000 + '"'),
        "divisor": ladder % ('"denominator":"' + "9" * 5000 + 'n"'),
        "octave": '{"type":"Sinusoidal","dim":262144,'
        '"ladder":{"type":"Ladder","spacing":"octave"}}',
        "width": '{"type":"Sinusoidal","dim":2147483647}',
        "base": '{"type":"RoPE","dim":128,"pairing":"half","base":' + "9" * 4000 + "}",
        "small": spec % '"base":1e-400',
        "nan": spec % '"base":NaN',
        "twice": spec % '"dim":16',
        "surrogate": '{"type":"\\ud800","dim":8}',
        "null": "\0" * 10**6,
        "heads": '{"type":"ALiBi","heads":2147483647}',
        "vocabulary": '{"model":{"vocab":{'
        + ",".join(f'"{i}":{i}' for i in range(300_000))
        + "}}}",
    }
    return {f"{name}.json": text.encode() for name, text in texts.items()}


# --- texts ----------------------------------------------------------------------------------------


def text_files() -> Files:
    """Claims in TOML, results in CSV, vectors of numbers."""
    claim = "[[claim]]\nid='a'\ntext='b'\nsource='c'\n"
    part = "[[claim.part]]\nkind='equal'\nmetric='accuracy'\n"
    texts = {
        "deep.toml": "a=" + "[" * 100_000,
        "digits.toml": "a=" + "1" * 5000,
        "dotted.toml": "[a" + ".a" * 400_000 + "]",
        "dotted2.toml": ("a" + ".a" * 199 + "=1\n") * 300,
        "tables.toml": "".join(f"[a{i}]\n" for i in range(12_000)),
        "number.toml": "[[claim]]\npart=5",
        "list.toml": "claim=[1,2]",
        "margin.toml": claim + part + "margin='x'",
        "seeds.toml": claim + f"seeds=[0,1{'0' * 300}]\n" + part + "margin=1e999\nleft=1\nright=2",
        "quotes.toml": "x='''" + "'" * 90_000,
        "rows.csv": "a,b\n" + "1,2\n" * 1_000_000,
        "quote.csv": 'a,b\n"' + "x" * 10**7,
        "lines.csv": "\n" * 10**7,
        "commas.csv": "," * 4_000_000,
        "fields.csv": "a,b\n" + "," * 10**6,
        "null.csv": "a,b\n\0,3\n",
        "words.txt": "1 " * 1_000_000,
        "lines.txt": "1\n" * 1_000_000,
        "digits.txt": "9" * 2_000_000,
        "brackets.txt": "[[" * 500_000,
        "infinite.txt": "1e999 nan inf",
    }
    return {name: text.encode() for name, text in texts.items()}


# --- stores ---------------------------------------------------------------------------------------


def stores(folder: Path) -> None:
    """Databases whose definitions are programs, and whose rows are of other types."""
    endless = (
        "CREATE VIEW metrics AS WITH RECURSIVE c(key, metric, bucket, length, value) AS "
        "(SELECT '', '', '', 0, 0.0 UNION ALL SELECT key, metric, bucket, length + 1, value FROM c)"
        " SELECT * FROM c;"
    )
    rows = (
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) "
        "INSERT INTO metrics SELECT 'k', 'm', 'b', n, 0.5 FROM c;"
    )
    provenance = "INSERT INTO provenance VALUES (1, {});"
    cell = "INSERT INTO cells VALUES ('k', {}, {}, 1, 1, NULL, '', {});"
    scripts = {
        "view": SCHEMA.partition("CREATE TABLE metrics")[0] + endless,
        "generated": SCHEMA.replace(
            "value REAL NOT NULL", "value REAL NOT NULL, more AS (hex(zeroblob(1000000000)))"
        ),
        "trigger": SCHEMA + "CREATE TRIGGER t AFTER INSERT ON cells BEGIN SELECT 1; END;",
        "rows": SCHEMA + rows.format(300_000),
        "types": SCHEMA + provenance.format("'{}'") + cell.format("5", "'x'", "1"),
        "number": SCHEMA + provenance.format("'{}'") + cell.format("'{}'", "1.0", "7"),
        "deep": SCHEMA + provenance.format(f"'{'[' * 100_000}'"),
        "list": SCHEMA + provenance.format("'[1, 2]'"),
        "blob": SCHEMA + provenance.format("zeroblob(300000000)"),
        "bytes": SCHEMA + provenance.format("CAST(x'ff22fe' AS TEXT)"),
        "tables": SCHEMA + "".join(f"CREATE TABLE t{i}(x);" for i in range(1000)),
        "other": "CREATE TABLE cells(x);",
        "letters": SCHEMA + "CREATE TABLE zzzz(x);",
    }
    for name, script in scripts.items():
        path = folder / f"{name}.sqlite"
        database = sqlite3.connect(path)
        database.executescript(script)
        database.execute(f"PRAGMA application_id = {0x706F7365}")
        database.execute("PRAGMA user_version = 1")
        database.close()
    letters = folder / "letters.sqlite"
    letters.write_bytes(letters.read_bytes().replace(b"zzzz", b"\xff\xfe\xfd\xfc"))
    broken = bytearray((folder / "list.sqlite").read_bytes())
    broken[100:110] = b"\xff" * 10
    (folder / "broken.sqlite").write_bytes(broken)


# --- what is no file, and files of terabytes ------------------------------------------------------

ENDINGS = ("json", "npy", "npz", "gguf", "safetensors", "pt", "sqlite", "txt", "toml", "csv")


def strange_files(folder: Path) -> None:
    """Pipes, sockets, folders, devices and a circle of links, under each ending."""
    for ending in ENDINGS:
        os.mkfifo(folder / f"pipe.{ending}")
        (folder / f"folder.{ending}").mkdir()
        for name, path in (("zeros", "/dev/zero"), ("memory", "/proc/self/mem")):
            (folder / f"{name}.{ending}").symlink_to(path)
        (folder / f"circle.{ending}").symlink_to(f"circle.{ending}")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(folder / f"socket.{ending}"))


def sparse_files(folder: Path) -> None:
    """Files that are larger than any disk and take no room on it."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**19] * 2, "data_offsets": [0, 2**40]}})
    texts = b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**40)
    starts = {
        "terabyte.safetensors": struct.pack("<Q", len(header)) + header.encode(),
        "claim.safetensors": struct.pack("<Q", 2**39),
        "terabyte.npy": _npy(_array("(524288, 524288)")),
        "columns.npy": _npy(_array("(524288, 524288)", order="True")),
        "terabyte.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
        "strings.gguf": texts,
        "terabyte.pt": b"PK\x03\x04",
        "pickle.pt": b"\x80\x02",
        "terabyte.json": b"{",
        "terabyte.txt": b"1",
        "terabyte.toml": b"a",
        "terabyte.csv": b"a",
        "terabyte.sqlite": b"SQLite format 3\0",
    }
    for name, start in starts.items():
        exact = name.startswith(("terabyte", "columns")) and not name.endswith(("gguf", "pt"))
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(2**40 + (len(start) if exact else 0))
    zip64(folder / "zip64.npz", 2_600_000_000)
    zip64(folder / "zip64.pt", 1_000_000_000)


MAKERS: tuple[Callable[[], Files], ...] = (
    npy_files,
    npz_files,
    torch_files,
    safetensors_files,
    gguf_files,
    json_files,
    text_files,
)


def craft(folder: Path) -> list[Path]:
    """All of them, in a folder."""
    for make in MAKERS:
        for name, data in make().items():
            (folder / name).write_bytes(data)
    for i in range(12):
        (folder / f"link{i}.safetensors").symlink_to("most.safetensors")
    stores(folder)
    strange_files(folder)
    sparse_files(folder)
    return sorted(folder.iterdir())
