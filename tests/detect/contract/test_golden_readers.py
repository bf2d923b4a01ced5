"""The readers without posenc in `docs/examples`: what they accept, refuse, and survive."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.models import golden_files

import posenc
from posenc.detect.contract import read
from posenc.detect.contract.files import text_of
from posenc.scaling import YaRN
from tests.detect.configs import VERSION_4
from tests.detect.contract.readers import BUILD, EXAMPLES, Face, codes_of
from tests.detect.contract.test_contract import first_version, resealed

SLOW = pytest.mark.slow("detect/contract")
EVERY = ("py", "c", "cpp", "mjs", "rs")
LANGUAGES = ("py", "c", "mjs", *(pytest.param(one, marks=SLOW) for one in ("cpp", "rs")))
PAIRING = posenc.Pairing("interleaved", output="half", direction="backward")
SPEC = posenc.RoPE(64, pairing=PAIRING, base=150_000, scaling=YaRN(32, original_length=4096))
GRID = posenc.from_hf(VERSION_4["qwen2-vl"])["attention"].spec
SMALL = posenc.Reading(
    (
        posenc.Layer("a", spec=posenc.RoPE(4, pairing="half")),
        posenc.Layer("b", spec=posenc.T5(2)),
        posenc.Layer("c", spec=posenc.RoPE(4, pairing="interleaved", base=500.0)),
    )
)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The reader of a compiled language, built once."""
    return functools.cache(
        lambda language: BUILD[language](tmp_path_factory.mktemp("reader"), "-O1")
    )


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """A reader of the language that the test is of, as a process."""
    return reader_of(request, request.param)


def reader_of(
    request: pytest.FixtureRequest, language: str
) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    if language == "mjs" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    command = {
        "py": lambda: [sys.executable, "-S", "-P", str(EXAMPLES / "golden_reader.py")],
        "mjs": lambda: ["node", str(EXAMPLES / "golden_reader.mjs")],
    }.get(language, lambda: [request.getfixturevalue("programs")(language)])()
    # -S leaves out site-packages, and the path of NumPy alone comes back in.
    env = {**os.environ, "PYTHONPATH": str(Path(np.__file__).parents[1])}

    def run(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, str(file)], capture_output=True, text=True, check=False, env=env
        )

    return run


@functools.cache
def several() -> tuple[posenc.Contract, tuple[str, str]]:
    """A contract of several parts, and its text in both versions."""
    layers = (posenc.Layer("a", spec=SPEC), posenc.Layer("b", spec=posenc.RoPE(8, pairing="half")))
    more = (posenc.Layer("c", spec=GRID), posenc.Layer("d", spec=posenc.T5(2)))
    contract = posenc.golden(posenc.Reading((*layers, *more)))
    return contract, (text_of(contract), first_version(contract))


@pytest.mark.costly
def test_both_versions_are_the_contract(tmp_path: Path) -> None:
    contract, texts = several()
    for text in texts:
        (tmp_path / "model.golden.json").write_text(text)
        assert read(tmp_path / "model.golden.json") == contract


@pytest.mark.costly
@pytest.mark.parametrize("reader", LANGUAGES, indirect=True)
def test_readers_without_posenc(reader: Any, tmp_path: Path) -> None:
    contract, texts = several()
    rows = sum(check.check == "angles" for check in contract.checks)
    file = tmp_path / "model.golden.json"
    for text in texts:
        file.write_text(text)
        done = reader(file)
        assert (done.returncode, done.stdout) == (0, f"{3 * rows} arrays compared, 0 differ\n"), (
            done
        )
    # The first frequency of the second part, off by a thousandth.
    wrong = texts[0].replace(
        '"frequencies_float32": [1.0, 0.1', '"frequencies_float32": [1.001, 0.1'
    )
    assert wrong != texts[0]
    file.write_bytes(resealed(wrong.encode()))
    done = reader(file)
    assert done.returncode == 1
    assert "at position" in done.stdout


COMPARED = ["cos", "sin", "rotated_query", "rotated_key", "row", "scores", "bias", "relative"]
DTYPES = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.costly
def test_the_header_gives_every_number_to_c(programs: Any, tmp_path: Path) -> None:
    layers = [
        posenc.Layer("t", spec=posenc.Sinusoidal(8)),
        posenc.Layer("r", spec=posenc.Shaw(8, clip=2)),
    ]
    contract = posenc.golden(posenc.Reading((*SMALL.layers, posenc.Layer("g", spec=GRID), *layers)))
    (tmp_path / "m.json").write_text(text_of(contract))
    library = str(Path(programs("c")).with_name("libposenc_golden.so"))
    face = Face(library, tmp_path / "m.json")
    assert face._count(face.file) == len(contract.checks)
    compared = set()
    for record, check in enumerate(contract.checks):
        for key, value in check.to_dict().items():
            if isinstance(value, str):
                assert face._name(*face.place(record, key)) == value.encode()
                assert face.shape(record, key) == ()
                continue
            assert face._name(*face.place(record, key)) is None
            np.testing.assert_array_equal(face.values(record, key), np.atleast_1d(value))
            assert np.prod(face.shape(record, key)) == np.size(value)
            for dtype in DTYPES:
                if key not in COMPARED:
                    assert face.compare(record, key, value, dtype) == -1
                    continue
                turned = "rotated_" if key.startswith("rotated_") else ""
                most = np.ravel(check[f"{turned}tolerance_{dtype}"])[-1]
                compared.add(key)
                assert face.compare(record, key, value, dtype) == 0
                for by, code in ((most / 2, 0), (-2 * most, 1), (np.nan, 1)):
                    mine = np.array(value, float)
                    mine[-1] += by
                    assert face.compare(record, key, mine, dtype) == code
                assert f'{key} of "{check.part}"' in face.error()
                assert face.compare(record, key, np.append(value, 0.0), dtype) == -1
                assert "number of values" in face.error()
    assert compared == {*COMPARED}
    kinds = [check.check for check in contract.checks]
    side = len(contract.of("a", "scores")[0]["positions"])
    for kind, shape in (("scores", (side, side)), ("bias", (2, 6, 6)), ("relative", (1, 6, 6))):
        assert face.shape(kinds.index(kind), kind) == shape
    for record, key, dtype in ((0, "width", "float32"), (0, "query", "int8"), (10**6, "cos", "")):
        assert face.compare(record, key, [64.0], dtype) == -1
    assert face.values(10**6, "cos").size == face._count(None) == 0
    face._close(face.file)
    (tmp_path / "m.json").write_text(text_of(contract)[:-1])
    for name, why in (("m.json", "whole: cut"), ("absent.json", "cannot be read")):
        damaged_file = Face(library, tmp_path / name)
        assert damaged_file.file.value is None
        assert why in damaged_file.error()


def repeated(text: bytes) -> bytes:
    """The text with a record of angles twice, and the count and digest of that."""
    line = next(line for line in text.split(b"\n") if b'"angles"' in line)
    count = int(re.findall(rb'"records": ([0-9]+)', text)[0])
    twice = text.replace(line, line + b"\n" + line, 1)
    return resealed(twice.replace(b'"records": %d' % count, b'"records": %d' % (count + 1)))


def between(text: bytes, end: bytes) -> bytes:
    """The text cut between two records, with an end behind it."""
    lines = text.split(b"\n")
    return b"\n".join(lines[: len(lines) // 2]).rstrip(b",") + end


def at(text: bytes, where: int) -> bytes:
    """The text with one bit of one byte changed."""
    return text[:where] + bytes([text[where] ^ 1]) + text[where + 1 :]


OLD = first_version(posenc.golden(SMALL)).encode()
NEW = text_of(posenc.golden(SMALL)).encode()
UNREAD = NEW.index(b".", NEW.index(b'"scores": [')) + 1
REFUSED: dict[str, tuple[bytes, str]] = {
    "cut between two records": (between(NEW, b"\n"), ""),
    "cut between two records, with the end": (
        resealed(between(NEW, b"\n],\n") + NEW[-79 - len(b'"records": 00,\n') :]), "records"
    ),
    "version 1 cut between two records": (between(OLD, b"\n"), ""),
    "without the last byte": (NEW[:-1], "cut|digest"),
    "one byte more": (NEW + b"\n", "cut|digest"),
    "garbage behind": (NEW + b"{}", ""),
    "a byte of a text": (at(NEW, NEW.index(b"settled")), "cut|digest"),
    "a byte of a number that nobody reads": (at(NEW, UNREAD), "cut|digest"),
    "a byte of the digest": (at(NEW, len(NEW) - 20), "cut|digest"),
    "a byte order mark": (b"\xef\xbb\xbf" + NEW, ""),
    "line ends of another system": (NEW.replace(b"\n", b"\r\n"), ""),
    "another count": (
        resealed(re.sub(rb'"records": [0-9]+', b'"records": 7', NEW)), "records"
    ),
    "a record twice": (repeated(NEW), "twice"),
    "a wide tolerance": (
        resealed(re.sub(rb'"tolerance_float32": [0-9.e-]+', b'"tolerance_float32": 0.3', NEW)),
        "tolerance",
    ),
    "an index outside": (
        resealed(NEW.replace(b'"axis": [0, 0]', b'"axis": [0, 99]')), ""
    ),
    "garbage behind a record": (
        resealed(NEW.replace(b'},\n{"check": "angles"', b'}0,\n{"check": "angles"', 1)), ""
    ),
    "an empty file": (b"", ""),
    "shorter than its end": (b'{"format": "posenc contract", "version": 2, "checks": []}', ""),
}  # fmt: skip


class InProcess:
    """The reader in Python, without a process of its own for each file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, file: Path) -> subprocess.CompletedProcess[str]:
        path = str(EXAMPLES / "golden_reader.py")
        self.monkeypatch.setattr(sys, "argv", [path, str(file)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(path, run_name="__main__")
        out, told = self.capsys.readouterr()
        code = end.value.code
        # A text is printed, and is 1.
        failed = isinstance(code, str)
        return subprocess.CompletedProcess(
            [path], 1 if failed else int(code or 0), out, told + code if failed else told
        )


@pytest.fixture
def many_reader(request: pytest.FixtureRequest) -> Any:
    """A reader for many files: what cannot be read would raise in a process of its own as well."""
    if request.param == "py":
        return InProcess(*map(request.getfixturevalue, ("monkeypatch", "capsys")))
    return reader_of(request, request.param)


@pytest.mark.costly
@pytest.mark.parametrize("many_reader", LANGUAGES, indirect=True)
def test_what_is_not_whole_is_refused(many_reader: Any, tmp_path: Path) -> None:
    reader = many_reader
    file = tmp_path / "model.golden.json"
    file.write_bytes(NEW)
    assert reader(file).returncode == 0
    for what, (text, words) in REFUSED.items():
        assert text != NEW, what
        file.write_bytes(text)
        done = reader(file)
        assert done.returncode == 1, what
        assert "whole" in done.stderr, (what, done)
        assert "Traceback" not in done.stderr, what
        assert re.search(words, done.stderr), (what, done)


@pytest.mark.parametrize("what", REFUSED)
def test_posenc_refuses_what_is_not_whole(what: str, tmp_path: Path) -> None:
    text, _ = REFUSED[what]
    file = tmp_path / "model.golden.json"
    file.write_bytes(text)
    for read_it in (read, posenc.golden):
        with pytest.raises(posenc.DataError):
            read_it(file)


@pytest.mark.costly
@pytest.mark.parametrize("name", ["m.json", "m.safetensors"])
def test_every_cut_and_every_byte_is_seen(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    posenc.golden(SMALL).save(file)
    whole = file.read_bytes()
    places = np.random.default_rng(0).integers(0, len(whole), 60)
    for place in (*places.tolist(), len(whole) - 1, len(whole) - 33, len(whole) - 80):
        for text in (whole[:place], at(whole, place), whole + whole[place:]):
            file.write_bytes(text)
            with pytest.raises(posenc.DataError):
                read(file)
    file.write_bytes(whole)
    assert read(file) == posenc.golden(SMALL)


# --- mutations ------------------------------------------------------------------------------------

MANY = 2000
FEWER = 500  # of processes, under sanitizers
MARKS = b'0123456789.-+eE[]{},: "\\\n\0\xff'


def mutations(text: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Texts that differ from one in cut, moved, repeated, inserted and changed bytes."""
    random = np.random.default_rng(seed)
    while count:
        made = bytearray(text)
        for _ in range(random.integers(1, 4)):
            begin, length = int(random.integers(len(made))), int(random.integers(1, 200))
            piece = made[begin : begin + length]
            match random.integers(6):
                case 0:
                    del made[begin:]
                case 1:
                    del made[begin : begin + length]
                case 2:
                    made[begin:begin] = piece
                case 3:
                    made[begin : begin + 1] = bytes(random.choice(list(MARKS), 4).tolist())
                case 4:
                    made[begin] = int(random.choice(list(MARKS)))
                case _:  # numbers, which are indices, sizes and tolerances
                    wild = random.choice(["-1", "1e300", "9" * 400, "0.5", "4294967296", "nan"])
                    numbers = list(re.finditer(rb"(?<=[ \[])-?[0-9][0-9.e+-]*", bytes(made)))
                    if numbers:
                        one = numbers[int(random.integers(len(numbers)))]
                        made[one.start() : one.end()] = str(wild).encode()
            if not made:
                break
        if bytes(made) != text:
            count -= 1
            yield bytes(made)


def damaged() -> Iterator[tuple[bytes, bool]]:
    """What readers are given, and whether they must refuse it: not what its digest is mended of."""
    yield from ((text, True) for text in mutations(NEW, FEWER, 0))
    body = NEW[:-79]
    for text in mutations(body, FEWER // 2, 1):
        sha = hashlib.sha256(text).hexdigest().encode()
        yield text + b'"sha256": "%s"\n}\n' % sha, False
    yield from ((text, False) for text in mutations(OLD, FEWER // 2, 2))


@SLOW
@pytest.mark.parametrize("reader", EVERY, indirect=True)
def test_readers_take_the_file_of_every_model(reader: Any, tmp_path: Path) -> None:
    file = tmp_path / "model.golden.json"
    if not golden_files.INDEX.exists():
        pytest.skip("the golden files are in the repository alone")
    for model in golden_files.models():
        text = golden_files.stored(model)
        checks = json.loads(text)["checks"]
        rows = sum(check["check"] == "angles" and "cos" in check for check in checks)
        file.write_text(text)
        done = reader(file)
        assert done.stdout == f"{3 * rows} arrays compared, 0 differ\n", (model.name, done)
        assert done.returncode == int(not rows), (model.name, done)


@pytest.mark.slow("detect/contract")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("language", EVERY)
def test_readers_refuse_damage_and_read_nothing_outside_memory(
    language: str, tmp_path: Path
) -> None:
    refuse = []
    for i, (text, must_refuse) in enumerate(damaged()):
        (tmp_path / f"{i}.json").write_bytes(text)
        refuse.append(must_refuse)
    codes = codes_of(language, tmp_path, len(refuse))
    assert len(codes) == len(refuse)
    assert set(codes) == {0, 1}
    taken = [i for i, (code, must) in enumerate(zip(codes, refuse, strict=True)) if must > code]
    assert not taken


@pytest.mark.slow("detect/contract")
@pytest.mark.parametrize("name", ["m.json", "m.safetensors"])
def test_posenc_refuses_every_mutation(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    posenc.golden(SMALL).save(file)
    for text in mutations(file.read_bytes(), MANY, 3):
        file.write_bytes(text)
        with pytest.raises(posenc.DataError):
            read(file)
