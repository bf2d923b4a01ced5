"""Outputs that appear whole: also after a kill, without links, without an exchange of names."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from posenc._core.io import outputs
from posenc._core.io.outputs import replacing, replacing_folder

KILLED = """
import sys, time
from pathlib import Path
from posenc._core.io.outputs import replacing, replacing_folder
kind, target = sys.argv[1:]
if kind == "file":
    with replacing(target, existing="replace") as file:
        file.write(b"half")
        print("writing", flush=True)
        time.sleep(60)
old = Path(target) if Path(target).exists() else None
with replacing_folder(target, old=old) as folder:
    (folder / "x").write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def writer(kind: str, target: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that is writing the target, and is killed at the end."""
    command = [sys.executable, "-c", KILLED, kind, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"writing\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def write(kind: str, target: Path, text: bytes = b"new") -> None:
    if kind == "file":
        with replacing(target, existing="replace") as file:
            file.write(text)
        return
    with replacing_folder(target, old=target if target.exists() else None) as folder:
        (folder / "x").write_bytes(text)


def content(kind: str, target: Path) -> bytes:
    return (target if kind == "file" else target / "x").read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_cleared_by_the_next(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    with writer(kind, target):
        pass
    assert len(names(tmp_path)) == 1
    write(kind, target)
    assert names(tmp_path) == ["out"]
    assert content(kind, target) == b"new"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_living_process_writes_is_left_alone(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    with writer(kind, target) as other:
        write(kind, target)
        assert other.poll() is None
        assert len(names(tmp_path)) == 2
    write(kind, target, b"newer")
    assert names(tmp_path) == ["out"]
    assert content(kind, target) == b"newer"


def test_only_what_has_the_name_of_a_left_over_is_cleared(tmp_path: Path) -> None:
    kept = [".out.part", ".out.0123456.part", "out.01234567.part", ".other.01234567.part"]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".out.01234567.part").symlink_to(".out.part")
    (tmp_path / ".out.76543210.part").write_bytes(b"")
    write("file", tmp_path / "out")
    assert names(tmp_path) == sorted([*kept, ".out.01234567.part", "out"])


def without_renameat2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_renamed", lambda *_: False)


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize("way", ["renameat2", "links", "neither"])
def test_a_name_is_refused_in_every_way(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way != "renameat2":
        without_renameat2(monkeypatch)
    if way == "neither":
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    target = tmp_path / "out"
    with replacing(target, existing="refuse") as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"
    target.unlink()

    def collide() -> None:
        with replacing(target, existing="refuse") as file:
            file.write(b"new")
            target.write_bytes(b"other")

    with pytest.raises(FileExistsError):
        collide()
    assert target.read_bytes() == b"other"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        without_renameat2(monkeypatch)
    target = tmp_path / "out"
    write("folder", target, b"old")
    write("folder", target, b"new")
    assert content("folder", target) == b"new"
    assert names(tmp_path) == ["out"]


def test_a_folder_has_its_name_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where names can be exchanged, no call takes the name of the target away."""
    target = tmp_path / "out"
    write("folder", target, b"old")
    if not outputs._renamed(target, target, outputs.EXCHANGE):
        pytest.skip("this file system exchanges no names")
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("it was renamed"))
    write("folder", target, b"new")
    assert content("folder", target) == b"new"


def test_a_folder_that_was_put_aside_gets_its_name_back(tmp_path: Path) -> None:
    """A process without the exchange was killed between its two renamings."""
    aside, new = tmp_path / ".out.01234567.old", tmp_path / ".out.89abcdef.part"
    for folder, text in ((aside, b"old"), (new, b"half")):
        folder.mkdir()
        (folder / "x").write_bytes(text)
    with pytest.raises(FileExistsError):
        with replacing_folder(tmp_path / "out"):
            pytest.fail("it was replaced")
    assert names(tmp_path) == ["out"]
    assert content("folder", tmp_path / "out") == b"old"


def test_a_renaming_that_fails_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_renameat2(monkeypatch)
    target = tmp_path / "out"
    write("folder", target, b"old")
    rename = Path.rename

    def fail(path: Path, to: Path) -> Path:
        if path.name.endswith(".part"):
            raise OSError(errno.EIO, "the disk is broken")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="broken"):
        write("folder", target, b"new")
    assert content("folder", target) == b"old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_names_reach_the_disk(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronised = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synchronised.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    write(kind, tmp_path / "out")
    wanted = [tmp_path, tmp_path / "out", *([tmp_path / "out" / "x"] if kind == "folder" else [])]
    assert {path.stat().st_ino for path in wanted} <= set(synchronised)
    assert synchronised[-1] == tmp_path.stat().st_ino


# --- a source that changes while a command reads it -----------------------------------------------


def test_encode_refuses_a_source_that_is_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from posenc.cli._app import app
    from posenc.cli.output import stream as _stream

    source = tmp_path / "x.npy"
    np.save(source, np.zeros((64, 8), "float32"))
    result = _stream._result

    def slow(*arguments: object) -> object:
        with source.open("r+b") as file:
            file.seek(200)
            file.write(b"other numbers")
        os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))
        return result(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_stream, "_result", slow)
    for extra in ((), ("--force",)):
        done = CliRunner().invoke(
            app, ["encode", str(source), "-o", str(tmp_path / "y.npy"), *extra]
        )
        assert done.exit_code == 1, done.output
        assert "expected a file that stays as it is" in done.output
    assert names(tmp_path) == ["x.npy"]


def test_convert_refuses_a_source_that_is_written_meanwhile(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    import posenc

    source = tmp_path / "x.safetensors"
    weights = {f"layers.0.{n}_proj.weight": np.eye(8, dtype="float32") for n in "qk"}
    save_file(weights, source)

    def touched(_: int) -> None:
        os.utime(source, ns=(0, 1))

    layout = posenc.Projections(heads=2, rope=posenc.RoPE(4, pairing="half"))
    with pytest.raises(posenc.DataError, match="a file that stays as it is"):
        posenc.convert(
            source,
            tmp_path / "y.safetensors",
            pairing="interleaved",
            layout=layout,
            progress=touched,
        )
    assert names(tmp_path) == ["x.safetensors"]
