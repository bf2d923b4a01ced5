"""Every file that posenc writes: whole or not at all, also on a full disk."""

from __future__ import annotations

import ast
import contextlib
import errno
import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tools import learn_pages

import posenc
from posenc._core.io import outputs
from posenc.cli import app
from posenc_study.results.records import Results, write_csv
from posenc_study.results.store import Store
from tests.study.test_store import WHERE, record

ROOT = Path(__file__).resolve().parents[2]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
}
TOO_LARGE = os.strerror(errno.EFBIG)


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Every file ends after so many bytes: a write is short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


COMMANDS: dict[str, list[str]] = {
    "extend": ["extend", "config.json", "--to", "4096", "-o", "out.json"],
    "golden": ["golden", "config.json", "-o", "out.json"],
    "golden of tensors": ["golden", "config.json", "-o", "out.safetensors"],
    "plot": ["plot", "table", "--dim", "8", "-o", "out.png"],
    "plot on paper": ["plot", "table", "--dim", "8", "-o", "out.pdf"],
    "numbers": ["plot", "table", "--dim", "8", "--numbers", "out.npz"],
    "numbers as text": ["plot", "table", "--dim", "8", "--numbers", "out.csv"],
    "table": ["table", "--dim", "64", "--positions", "0:64", "-o", "out.npy"],
    "encode": ["encode", "x.npy", "-o", "out.npy"],
    "explore": ["explore", "--states", "v=waves", "--freeze", "out.html"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    np.save(tmp_path / "x.npy", np.zeros((64, 32), "float32"))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_what_was_there(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc.explore.server.document.document", lambda *_, **__: b"page" * 100)
    arguments = COMMANDS[name]
    target = folder / arguments[-1]
    target.write_bytes(b"precious")
    target.chmod(0o640)
    before = sorted(folder.iterdir())
    with full_disk(200):
        done = CliRunner().invoke(app, [*arguments, "--force"])
    assert (done.exit_code, f"{target.name}: {TOO_LARGE}" in done.output) == (1, True), done.output
    assert target.read_bytes() == b"precious"
    assert sorted(folder.iterdir()) == before
    kept = CliRunner().invoke(app, arguments)
    assert (kept.exit_code, "exists: --force replaces it" in kept.output) == (2, True), kept.output
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert target.stat().st_size > 200
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_can_be_written_no_work_is_done(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for work in ("posenc.explore.server.document.document", "posenc.detect.contract.golden"):
        monkeypatch.setattr(work, lambda *_, **__: pytest.fail("it worked"))
    *arguments, target = COMMANDS[name]
    (folder / f"a{target}").mkdir()
    for output, words in ((f"none/{target}", "none: No such"), (f"a{target}", "Is a directory")):
        done = CliRunner().invoke(app, [*arguments, output, "--force"])
        assert (done.exit_code, words in done.output) == (2, True), done.output


@pytest.mark.costly
@pytest.mark.parametrize("name", ["extend", "golden"])
def test_a_device_is_written_to_and_says_why_not(name: str, folder: Path) -> None:
    *arguments, target = COMMANDS[name]
    for force in ([], ["--force"]):
        done = CliRunner().invoke(app, [*arguments, "/dev/full", *force])
        words = f"/dev/full: {os.strerror(errno.ENOSPC)}"
        assert (done.exit_code, words in done.output) == (1, True), done.output
        assert CliRunner().invoke(app, [*arguments, "/dev/null", *force]).exit_code == 0
    assert Path("/dev/full").is_char_device()
    assert CliRunner().invoke(app, [*arguments, target]).exit_code == 0
    received: list[bytes] = []
    os.mkfifo(folder / "pipe")
    reading = threading.Thread(target=lambda: received.append((folder / "pipe").read_bytes()))
    reading.start()
    assert CliRunner().invoke(app, [*arguments, "pipe"]).exit_code == 0
    reading.join()
    assert received == [(folder / target).read_bytes()]


def test_standard_output_by_its_name(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outputs.write_whole("/dev/stdout", "one ", existing="refuse")
    outputs.write_whole("/dev/fd/1", "two ", existing="refuse")
    (folder / "to stdout").symlink_to("/dev/stdout")
    outputs.write_whole("/proc/self/fd/1", "three", existing="refuse")
    assert capfd.readouterr().out == "one two three"
    with pytest.raises(OSError, match="Bad file descriptor"):
        outputs.write_whole("/dev/fd/999", "x")


def test_studies_and_pages_are_written_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("index", "tour", "page"):
        monkeypatch.setattr(learn_pages, name, lambda *_: "text" * 100)
    results = Results.of([record()], [WHERE])
    for write in (lambda: write_csv(results, folder), lambda: learn_pages.write(folder)):
        written = write()
        for path in written:
            path.write_bytes(b"precious")
        with full_disk(10), pytest.raises(OSError, match=TOO_LARGE):
            write()
        assert {path.read_bytes() for path in written} == {b"precious"}


def fill(store: Store) -> None:
    for seed in range(1, 200):
        store.add(record(seed))


def test_a_full_disk_is_no_damage_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with full_disk(100), pytest.raises(OSError, match=TOO_LARGE):
        Store(path, WHERE).__enter__()
    assert not path.exists()
    with Store(path, WHERE) as store:
        store.add(record(0))
        store._database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(OSError, match=r"No space left on device \(SQLite: .*cells are kept"):
            fill(store)
        store._database.execute("PRAGMA max_page_count = 100000")
        store.add(record(300))
        assert record(0).cell.key in store.finished()
        with full_disk(1), pytest.raises(OSError, match="SQLite"):
            store.add(record(301))


def test_names_as_long_as_names_may_be(tmp_path: Path) -> None:
    for name in ("x" * 255, "\N{SNOWMAN}" * 85, "\N{GRINNING FACE}" * 63):
        outputs.write_whole(tmp_path / name, name)
        outputs.write_whole(tmp_path / name, name)
        assert (tmp_path / name).read_text() == name
        assert len(list(tmp_path.iterdir())) == 1
        (tmp_path / name).unlink()
    with pytest.raises(OSError, match="File name too long"):
        outputs.write_whole(tmp_path / ("x" * 256), "")


@pytest.mark.parametrize(("missing", "written"), [(1, True), (15, True), (10**6, False)])
def test_a_folder_that_takes_no_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, written: bool
) -> None:
    """As /proc does: it is there, and no file can be made in it."""
    calls, real = [0], os.open

    def opened(path: Any, flags: int, *more: Any) -> int:
        if str(path).endswith(".part") and flags & os.O_CREAT:
            calls[0] += 1
            assert calls[0] < 100, "it never ends"
            if calls[0] <= missing:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return real(path, flags, *more)

    monkeypatch.setattr(outputs.os, "open", opened)
    target = tmp_path / "new.json"
    if written:
        outputs.write_whole(target, "text")
        assert target.read_text() == "text"
        return
    with pytest.raises(FileNotFoundError) as caught:
        outputs.write_whole(target, "text")
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == []


def test_links_are_followed_and_circles_are_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("to be")
    outputs.write_whole(tmp_path / "link", "new", existing="refuse")
    assert (tmp_path / "to be").read_text() == "new"
    with pytest.raises(FileExistsError):
        outputs.write_whole(tmp_path / "link", "newer", existing="refuse")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"):
        outputs.write_whole(tmp_path / "circle", "x")
    assert (tmp_path / "circle").is_symlink()


# --- no other way ---------------------------------------------------------------------------------

WRITING = ("write_text", "write_bytes", "tofile", "save_file", "savetxt", "savez", "copyfile")
# What the writer itself calls, the lock beside a store, and a descriptor of standard output.
OTHERS = {
    "src/posenc/cli/_child.py": "os.fdopen(os.dup(stream.fileno()), 'wb')",
    "study/src/posenc_study/results/store.py": "beside.open('a+', encoding='utf-8')",
    "src/posenc/_core/io/outputs.py": "",
}


def in_place(tree: ast.AST) -> list[str]:
    """Calls that open a file for writing, or write one by its name."""
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        words = [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
        modes = [w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str)]
        opened = name in ("open", "fdopen", "FileIO") and any(
            set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes
        )
        saved = name == "savefig" and not ast.unparse(call.args[0]).startswith("buffer")
        if opened or saved or name in WRITING:
            found.append(ast.unparse(call))
    return found


def test_nothing_else_writes_a_file() -> None:
    for path in sorted(path for src in ("src", "study/src") for path in (ROOT / src).rglob("*.py")):
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        if not any(word in text for word in (*WRITING, "open(", "FileIO", "savefig")):
            continue
        calls = [c for c in in_place(ast.parse(text)) if c != OTHERS.get(name)]
        assert not calls or OTHERS.get(name) == "", (name, calls)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Path(x).write_text(t)", 1),
        ("x.write_bytes(t)", 1),
        ("open(x, 'w')", 1),
        ("x.open('x+b', buffering=0)", 1),
        ("open(x, mode='ab')", 1),
        ("figure.savefig(path)", 1),
        ("figure.savefig(buffer, dpi=3)", 0),
        ("x.open('rb')", 0),
        ("open(x)", 0),
        ("array.tofile(x)", 1),
    ],
)
def test_the_search_finds_writers(text: str, count: int) -> None:
    assert len(in_place(ast.parse(text))) == count


def test_posenc_save_keeps_its_promise(tmp_path: Path) -> None:
    target = tmp_path / "m.json"
    target.write_text("precious")
    with pytest.raises(FileExistsError):
        posenc.golden(posenc.ALiBi(2)).save(target)
    with full_disk(50), pytest.raises(OSError, match=TOO_LARGE) as told:
        posenc.golden(posenc.ALiBi(2)).save(target, existing="replace")
    assert told.value.filename == str(target)
    assert target.read_text() == "precious"
