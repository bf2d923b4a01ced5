"""The one place where files are opened and JSON is parsed."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
import posenc_study
from posenc._core.errors import DataError
from posenc._core.io import files, inputs

SOURCES = {"": Path(posenc.__file__).parent, "study/": Path(posenc_study.__file__).parent}
KIND = inputs.FileKind("a note", 100, 10)


# --- what is opened -------------------------------------------------------------------------------


def strange(folder: Path) -> dict[str, tuple[Path, str]]:
    """Names of what is no regular file, and what is said of each."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket"))
    (folder / "link").symlink_to("pipe")
    return {
        "pipe": (folder / "pipe", "got a pipe"),
        "link": (folder / "link", "got a pipe"),
        "socket": (folder / "socket", "got a socket"),
        "folder": (folder, "got a folder"),
        "device": (Path("/dev/zero"), "got a device"),
    }


@pytest.mark.parametrize("kind", ["pipe", "link", "socket", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path, words = strange(tmp_path)[kind]
    for read in (inputs.opened, lambda p: inputs.content(p, KIND)):
        with pytest.raises(DataError, match=f"expected a regular file, {words}"):
            read(path)


def test_a_name_that_becomes_a_pipe_between_two_calls_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    before = (tmp_path / "file").stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: before)
    begin = time.monotonic()
    with pytest.raises(DataError, match="a pipe"):
        inputs.opened(tmp_path / "pipe")
    assert time.monotonic() - begin < 5


def test_sizes_are_those_of_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"x" * 100)
    assert inputs.content(path, KIND) == b"x" * 100
    path.write_bytes(b"x" * 101)
    with pytest.raises(DataError, match="a note of at most 100 bytes, got 101"):
        inputs.content(path, KIND)


def test_the_stated_size_is_not_believed() -> None:
    """A file of /proc states no size."""
    path = Path("/proc/self/maps")
    if not path.exists():
        pytest.skip("no /proc")
    assert path.stat().st_size == 0
    with pytest.raises(DataError, match="a note of at most 100 bytes, got more"):
        inputs.content(path, KIND)


def test_texts_are_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"\xef\xbb\xbfab")
    assert inputs.text_of(path, KIND) == "ab"
    path.write_bytes(b"ab\xff")
    with pytest.raises(DataError, match="text in UTF-8, got the byte 0xff at 2"):
        inputs.text_of(path, KIND)


def test_a_null_character_names_no_file() -> None:
    with pytest.raises(FileNotFoundError):
        inputs.opened("a\0b")


# --- what changes while it is read ----------------------------------------------------------------


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((3, 4), "float32"))
    layout = files.read_layout(path)
    with inputs.unchanged(path, layout.state) as file:
        assert file.read(6) == b"\x93NUMPY"

    def written() -> None:
        with inputs.unchanged(path, layout.state), path.open("r+b") as other:
            other.write(b"\x93NUMPY")
            os.utime(path, ns=(0, layout.state.modified + 1))

    with pytest.raises(DataError, match="a file that stays as it is"):
        written()
    path.unlink()
    np.save(path, np.zeros((3, 4), "float32"))
    with pytest.raises(DataError, match="changed meanwhile"):
        with inputs.unchanged(path, layout.state):
            pytest.fail("it was opened")


# --- JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": {"b": 1, "b": 2}}', "each key once, got 'b' more than once"),
        ("[" + "1," * 20 + "1]", "a note of at most 10 values"),
        ('"' + "x" * 100 + '"', "at most 100 bytes"),
        ("{", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_is_refused_in_words(text: str, words: str) -> None:
    for form in (text, text.encode()):
        with pytest.raises(DataError, match=f"who.*{words}"):
            inputs.parse(form, "who", KIND)


WORDS = st.text('ab:,[{"\\\\', max_size=6)


@given(
    st.recursive(
        WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3)
    ),
    st.integers(1, 9),
)
def test_what_stands_inside_texts_counts_as_one_value(value: object, piece: int) -> None:
    text = json.dumps(value)
    bare = re.sub(r'"(\\.|[^"\\])*"', "x", text)
    most = max(len(re.findall("[,:\\[{]", bare)), bare.count("x") - 1)
    with mock.patch.object(inputs, "PIECE", piece):
        inputs.check_count(text, "who", inputs.FileKind("a note", 100, most))
        if most > 0:
            with pytest.raises(DataError, match="a note of at most"):
                inputs.check_count(text, "who", inputs.FileKind("a note", 100, most - 1))


def test_deep_json_and_long_numbers_are_refused_in_words() -> None:
    roomy = inputs.FileKind("a note", 2**22, 2**22)
    for text, words in (("[" * 10**6, "nested deeper"), ("1" * 5000, "too many digits")):
        with pytest.raises(DataError, match=words):
            inputs.parse(text, "who", roomy)
    with pytest.raises(DataError, match="not JSON"):
        inputs.parse(b"\xff\xff", "who", roomy)


def test_each_json_that_is_read_has_each_key_once(tmp_path: Path) -> None:
    from posenc._core.io.checkpoints import open_checkpoint
    from posenc_study.cell import Cell

    (tmp_path / "config.json").write_text('{"rope_scaling": {"factor": 2, "factor": 4}}')
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "a", "x": "b"}}')
    one = b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    head = b'{"y":' + one + b',"y":' + one + b"}"
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    reads: list[tuple[str, Any]] = [
        ("factor", lambda: posenc.from_hf(tmp_path)),
        ("factor", lambda: posenc.from_hf((tmp_path / "config.json").read_text())),
        ("x", lambda: open_checkpoint(tmp_path, config={}, caller="who")),
        ("x", lambda: posenc.identify(tmp_path / "model.safetensors.index.json")),
        ("y", lambda: files.read_layout(tmp_path / "a.safetensors")),
        ("dim", lambda: posenc.from_json('{"type": "Sinusoidal", "dim": 8, "dim": 8}')),
        ("seed", lambda: Cell.from_json('{"seed": 0, "seed": 0}')),
    ]
    for key, read in reads:
        with pytest.raises(posenc.PosencError, match=f"each key once, got '{key}'"):
            read()


# --- standard input -------------------------------------------------------------------------------


def test_standard_input_is_read_as_far_as_its_kind_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()

    def endless() -> None:
        with os.fdopen(write, "wb") as sink:
            try:
                while True:
                    sink.write(bytes(2**16))
            except BrokenPipeError:
                pass

    thread = threading.Thread(target=endless)
    thread.start()
    with os.fdopen(read, encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(DataError, match="a note of at most 100 bytes, got more"):
            inputs.standard_input(KIND)
    thread.join()


# --- nobody else opens files ----------------------------------------------------------------------

CALLS = {
    *("open", "read_text", "read_bytes", "memmap", "fromfile", "loadtxt", "genfromtxt"),
    *("safe_open", "load_file", "ZipFile", "copyfile", "copy2", "connect", "fdopen"),
    *("np.load", "json.load", "json.loads", "tomllib.load", "tomllib.loads"),
}
LAST = {name.rpartition(".")[2] for name in CALLS}
CALLED = re.compile(rf"\b({'|'.join(sorted(LAST))})\s*\(")
# What opens no file of a user: outputs, data of the package, members of a zip that is open, texts
# that were made or read here.
ALLOWED = {
    # Streams of its own, and what the system says of processes.
    "cli/_child.py": {"os.fdopen", "stat.read_bytes"},
    "_core/io/inputs.py": {"os.open", "os.fdopen", "json.loads"},
    "_core/io/outputs.py": {"os.open"},
    "_core/io/yaml_text.py": {"tomllib.loads"},  # of a text that `inputs` read
    "cli/_app.py": {"os.open"},
    "cli/commands/doctor.py": {"json.loads"},
    "cli/detective/models.py": {"json.loads"},
    "detect/convert/edits.py": {"json.loads"},
    "detect/explain/conversion.py": {"json.loads"},  # words of the package's own tables
    "torch/parallel.py": {"json.loads"},  # what another process of the same program wrote
    "_core/io/checkpoints/store.py": {"archive.open", "zipfile.ZipFile"},
    "_core/io/checkpoints/torch_file.py": {"archive.open"},
    "_core/spec/answers.py": {"file.read_text"},
    "explore/server/protocol.py": {"json.loads"},
    "explore/server/assets.py": {"file.read_text"},
    "explore/server/document.py": {"json.loads"},
    "kernels/plans.py": {"MISSING.read_text"},
    "learn/pages.py": {"(resources.files('posenc.learn') / 'quiz.html').read_text"},
    "learn/lessons.py": {"tomllib.loads", "file.read_text"},
    "plot/content.py": {"(FOLDER / 'heads.json').read_text", "json.loads", "np.load"},
    "plot/draw/picture.py": {"Image.open"},  # pictures that it drew
    "plot/export.py": {"zipfile.ZipFile"},
    "plot/trained.py": {"LOSSES.read_text", "json.loads", "np.load"},
    "presets/_rows.py": {"json.loads", "file.read_text"},
    "study/claims/registered.py": {
        "tomllib.loads",
        "resources.files('posenc_study.claims').joinpath('claims.toml').read_text",
    },
    "study/results/provenance.py": {
        "path.read_bytes",
        "(PACKAGE / 'claims' / 'claims.toml').read_bytes",
        "Path('/proc/cpuinfo').read_text",
    },
    "study/results/store.py": {"sqlite3.connect", "beside.open"},
}


def opening_calls(path: Path) -> set[str]:
    found: set[str] = set()
    source = path.read_text(encoding="utf-8")
    if not CALLED.search(source):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = ast.unparse(node.func) if last in LAST else ""
            if name in CALLS or last in CALLS:
                found.add(name)
    return found


@pytest.mark.costly
def test_input_files_are_opened_in_one_place() -> None:
    found = {
        prefix + path.relative_to(source).as_posix(): calls
        for prefix, source in SOURCES.items()
        for path in source.rglob("*.py")
        if (calls := opening_calls(path))
    }
    assert {path: calls - ALLOWED.get(path, set()) for path, calls in found.items()} == {
        path: set() for path in found
    }
    assert sorted(ALLOWED) == sorted(set(ALLOWED) & set(found)), "a row that no file needs"
