"""The command as a process: memory, signals, pipes, imports, streams that know no Unicode."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.io import headers

COMMAND = [sys.executable, "-m", "posenc.cli"]
SOURCES = str(Path(posenc.__file__).parents[1])


def environment(**more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**inherited, "PYTHONPATH": SOURCES, **more}


def run(
    *args: str, cwd: Path, stdin: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env=environment(**more),
        timeout=120,
    )


def zeros(path: Path, shape: tuple[int, ...]) -> None:
    """A .npy of zeros that takes no room on the disk."""
    header = headers.npy_header("float32", shape)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + 4 * int(np.prod(shape)))


# --- memory ---------------------------------------------------------------------------------------

# `ru_maxrss` starts from the size of the process that forked, which under pytest is larger than
# anything measured here; Linux resets `VmHWM` when a program starts.
MEASURE = """
import json, resource, sys
import posenc.cli.commands.encode, posenc.functional, posenc.encodings.table.sinusoidal
from posenc.cli import app

def peak():
    try:
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

before = peak()
for arguments in json.loads(sys.argv[1]):
    try:
        app.main(arguments, prog_name="posenc")
    except SystemExit as error:
        print("peaks", error.code or 0, before, peak())
"""


# The peak of a process never falls, so the last line is that of the worst shape.
SHAPES = {
    "long": (1, 32768, 512),
    "batch": (64, 512, 512),
    "many": (262144, 2, 32),
    "wide": (1, 1024, 16384),
}


@pytest.mark.costly
def test_files_of_64_mib_take_little_memory(tmp_path: Path) -> None:
    for name, shape in SHAPES.items():
        zeros(tmp_path / f"{name}.npy", shape)
    runs = [["encode", f"{name}.npy", "-o", f"{name}-out.npy"] for name in SHAPES]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(runs)],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=120,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(b"peaks ")]
    codes, before, after = np.array([[float(n) for n in line[1:]] for line in lines]).T
    assert len(codes) == len(SHAPES)
    assert not codes.any()
    assert (before > 10).all()
    assert (before < 150).all()
    assert (after - before < 40).all(), dict(zip(SHAPES, after - before, strict=True))
    for name in SHAPES:
        written = tmp_path / f"{name}-out.npy"
        assert written.stat().st_size == (tmp_path / f"{name}.npy").stat().st_size


# --- signals --------------------------------------------------------------------------------------


def started(tmp_path: Path, *more: str) -> subprocess.Popen[bytes]:
    """The command at work on a large file: part of the output is written."""
    zeros(tmp_path / "x.npy", (1, 2**20, 512))
    process = subprocess.Popen(
        [*COMMAND, "encode", "x.npy", "-o", "y.npy", *more],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    deadline = time.monotonic() + 60
    while not any(part.stat().st_size > 2**20 for part in tmp_path.glob(".y.npy.*.part")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_partial(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert error.decode() == f"posenc: stopped by {number.name}; no unfinished file is left\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.costly
def test_a_signal_leaves_the_old_output(tmp_path: Path) -> None:
    (tmp_path / "y.npy").write_bytes(b"old")
    process = started(tmp_path, "--force")
    for _ in range(3):  # an impatient user
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "y.npy"]
    assert (tmp_path / "y.npy").read_bytes() == b"old"


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    script = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from posenc.cli import main\n"
        "try: main()\n"
        "finally: print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert done.stdout.decode().splitlines()[-1] == "True"


# The limit is set by a program of its own, between the test and the command: code that runs between
# fork and exec may hang or warn in a process with threads, and other tests start libraries that
# have them.
LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
resource.setrlimit(resource.RLIMIT_FSIZE, (2**22, 2**22))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.costly
def test_a_full_disk_leaves_nothing_partial(tmp_path: Path) -> None:
    zeros(tmp_path / "x.npy", (1, 2**16, 64))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *COMMAND, "encode", "x.npy", "-o", "y.npy"],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 1
    assert b"File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


# --- pipes and streams ----------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("args", [["table", "--length", "20000", "--json"], ["list"], ["--help"]])
def test_a_closed_pipe_is_no_error(tmp_path: Path, args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, *args],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=60,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


@pytest.mark.costly
def test_a_closed_standard_output_is_no_crash(tmp_path: Path) -> None:
    for words in (["table"], ["diff", "RoPE(8, pairing='half')", "RoPE(8, pairing='half')"]):
        command = f"exec {shlex.join([*COMMAND, *words])} >&-"
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, env=environment(),
            timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.costly
def test_a_terminal_without_unicode_gets_question_marks(tmp_path: Path) -> None:
    done = run("encode", "grün", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert b"gr\xfcn" in done.stdout
    assert b"????????" in done.stdout  # the bars


@pytest.mark.costly
def test_arguments_that_are_no_text(tmp_path: Path) -> None:
    done = subprocess.run(
        [*(os.fsencode(word) for word in COMMAND), b"encode", b"a\xff", b"--json"],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"] == [os.fsdecode(b"a\xff")]


@pytest.mark.costly
def test_no_progress_bar_without_a_screen(tmp_path: Path) -> None:
    zeros(tmp_path / "x.npy", (1, 64, 8))
    done = run("encode", "x.npy", "-o", "y.npy", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.costly
def test_a_progress_bar_on_a_screen(tmp_path: Path) -> None:
    zeros(tmp_path / "x.npy", (1, 64, 8))
    ours, theirs = os.openpty()
    done = subprocess.run(
        [*COMMAND, "encode", "x.npy", "-o", "y.npy"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(),
        timeout=60,
    )
    os.close(theirs)
    shown = os.read(ours, 2**16)
    os.close(ours)
    assert done.returncode == 0
    assert b"100%" in shown
    assert done.stdout.startswith(b"y.npy: 1x64x8 float32")


# --- imports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "absent"),
    [
        (["--help"], ["numpy", "posenc.cli.commands.encode", "posenc.functional", "torch", "jax"]),
        (["encode", "a"], ["torch", "jax", "tokenizers", "matplotlib", "scipy", "ml_dtypes"]),
        (["doctor", "--json"], ["jax", "tokenizers", "matplotlib", "triton"]),
        (["identify", "ones.npy"], ["torch", "jax", "matplotlib", "posenc.presets"]),
    ],
)
def test_commands_import_what_they_need(tmp_path: Path, args: list[str], absent: list[str]) -> None:
    np.save(tmp_path / "ones.npy", np.ones((4, 4)))
    script = (
        "import sys\n"
        "from posenc.cli import app\n"
        "try: app.main(sys.argv[1:], prog_name='posenc')\n"
        "finally: print('\\n' + repr(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=120,
    )
    loaded: list[Any] = eval(done.stdout.decode().splitlines()[-1])
    assert "posenc.cli" in loaded
    assert not set(absent) & set(loaded)


# --- what is no file -----------------------------------------------------------------------------

PIPED = {
    "explain": ["explain", "{}"],
    "explain gguf": ["explain", "{}.gguf"],
    "encode": ["encode", "{}.npy", "-o", "y.npy"],
    "encode spec": ["encode", "a b", "--spec", "{}"],
    "encode tokenizer": ["encode", "a b", "--tokenizer", "{}"],
    "encode embeddings": ["encode", "a b", "--embeddings", "{}"],
    "encode params": ["encode", "a b", "--spec", "learned.json", "--params", "{}"],
    "table": ["table", "--spec", "{}"],
    "plot": ["plot", "table", "--table", "{}", "-o", "y.svg"],
    "identify": ["identify", "{}"],
    "convert": ["convert", "{}.safetensors", "y.safetensors", "--pairing", "half"],
    "pairing": ["pairing", "{}.safetensors"],
    "locate": ["locate", "{}", "--dim", "8"],
    "infer": ["infer", "{}.npz"],
    "explore": ["explore", "{}", "--freeze", "y.html"],
    "explore table": ["explore", "--table", "{}", "--freeze", "y.html"],
    "explore states": ["explore", "--states", "{}", "--freeze", "y.html"],
    "study": ["study", "status", "--store", "{}"],
    "study run": ["study", "run", "smoke", "--store", "{}"],
}


@pytest.mark.parametrize("command", PIPED)
def test_a_pipe_is_refused_by_every_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from posenc.cli import app

    monkeypatch.chdir(tmp_path)
    Path("learned.json").write_text(posenc.to_json(posenc.Learned(4, length=4)))
    names = [word.format("pipe") for word in PIPED[command] if "{}" in word]
    for name in names:
        os.mkfifo(name)
    signal.alarm(60)
    try:
        done = CliRunner().invoke(app, [word.format("pipe") for word in PIPED[command]])
    finally:
        signal.alarm(0)
    assert done.exit_code in (1, 2), done.output
    assert "expected a regular file, got a pipe" in done.output
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == sorted(
        [*names, "learned.json"]
    )


@pytest.mark.parametrize("args", [["explain", "-"], ["encode", "-"], ["locate", "-", "--dim", "8"]])
def test_standard_input_that_never_ends_is_refused(args: list[str], tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=tmp_path,
            stdin=zeros,
            capture_output=True,
            env=environment(),
            timeout=60,
        )
    assert done.returncode == 1
    assert b"standard input: expected" in done.stderr
    assert b"bytes, got more" in done.stderr
