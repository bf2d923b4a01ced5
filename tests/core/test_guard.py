"""Code of others that ends the process, hangs, or is no code, in every command that runs some."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posenc
from posenc._core.guard import offline, why_no_code
from posenc.cli import _app, app
from posenc.testing import Subject, assert_contract, check
from tests.cli.test_process import COMMAND, environment
from tests.drawing import drawn

ROOT = Path(__file__).parents[2]
SPEC = '{"type": "RoPE", "dim": 8, "pairing": "half"}'
GOOD = """
import numpy as np
def cos_sin(positions):
    angles = positions[:, None] * 10_000.0 ** -(np.arange(4) / 4)
    return np.cos(angles), np.sin(angles)
"""
CALLED = "def f(positions=None):\n    {}\n"
ENDS = {
    "sys.exit(0)": "SystemExit: 0",
    "os._exit(0)": "exit code 0",
    "os.kill(os.getpid(), 9)": "SIGKILL",
    "unittest.main(argv=['x'])": "SystemExit",
    "raise GeneratorExit('g')": "GeneratorExit: g",
    "pytest.skip('s', allow_module_level=True)": "Skipped: s",
}
RUNS = {
    "check": ["check", "mine.py:f", "--kind", "table", "--library", "numpy", "--laws", "pickle"],
    "diff": ["diff", SPEC, "mine.py:f"],
    "infer": ["infer", "mine.py:f", "--kind", "table"],
    "trace": ["trace", "mine.py:f"],
}


def run(folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(f"import os, sys\n{code}", encoding="utf-8")
    command = [*COMMAND, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )


def test_commands_with_a_timeout_are_those_that_run_code() -> None:
    context = _app.click.Context(app)
    with_option = {
        name
        for name in _app.COMMANDS
        for command in [app.get_command(context, name)]
        if any("--timeout" in option.opts for option in command.params)
    }
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert (
        with_option
        == set(_app.RUNNING)
        == set(re.findall(r"^\| `posenc (?!mcp)(\w+)`", page, re.M))
    )
    sources = (ROOT / "src/posenc/cli").rglob("*.py")
    texts = {path.stem: path.read_text() for path in sources}
    loading = {name for name, text in texts.items() if "load(" in text and "testing" in text}
    assert loading == {"common"}
    naming = re.compile(r"(code|side)_named\(")
    running, calls = set(), 0
    for name in with_option:
        home, _, function = _app.COMMANDS[name][0].partition(":")
        text = texts[home.rpartition(".")[2]]
        if function:  # one of several commands in its module
            nodes = ast.parse(text).body
            [node] = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == function]
            text = ast.get_source_segment(text, node) or ""
        running |= {name} if naming.search(text) else set()
        calls += len(naming.findall(text))
    assert running == with_option
    assert calls == sum(len(naming.findall(texts[stem])) for stem in texts.keys() - loading)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("verb", "way", "place"),
    [
        ("check", "sys.exit(0)", "{}"),
        ("check", "os._exit(0)", CALLED),
        ("diff", "os._exit(0)", "{}"),
        ("infer", "sys.exit(0)", CALLED),
    ],
)
def test_code_that_ends_the_process_is_no_success(
    tmp_path: Path, verb: str, way: str, place: str
) -> None:
    # Each verb, way and place; the slow tier tries each way in both places of each verb.
    _ends(tmp_path, verb, way, place)


@pytest.mark.slow("cli", "_core/guard.py")
@pytest.mark.parametrize("verb", RUNS)
def test_every_way_to_end_is_no_success(tmp_path: Path, verb: str) -> None:
    for way in ENDS:
        for place in ("{}", CALLED):
            _ends(tmp_path, verb, way, place)


def _ends(folder: Path, verb: str, way: str, place: str) -> None:
    modules = "".join(f"import {name}\n" for name in ("unittest", "pytest") if name in way)
    done = run(folder, f"{modules}print('said', end='')\n{place.format(way)}\n", *RUNS[verb])
    assert done.returncode == 3, (way, done)
    assert "it ended the process" in done.stderr
    assert ENDS[way] in done.stderr
    assert "Traceback" not in done.stderr
    assert "said" in done.stderr
    assert not done.stdout


@pytest.mark.costly
def test_code_that_answers_and_leaves_threads_ends(tmp_path: Path) -> None:
    more = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    done = run(tmp_path, GOOD + more, "diff", SPEC, "mine.py:cos_sin")
    assert (done.returncode, "nothing differs" in done.stdout) == (0, True)
    last = "import atexit\natexit.register(lambda: os._exit(0))\n"
    noise = "print('noise')\nos.write(1, b'noise')\n"  # which is no part of the answer
    done = run(tmp_path, noise + GOOD, "diff", SPEC, "mine.py:cos_sin", "--json")
    assert json.loads(done.stdout)["verdict"] == "nothing differs"
    assert done.stderr.count("noise") == 2
    wrong = GOOD.replace("10_000", "500_000")
    done = run(tmp_path, wrong + last, "diff", SPEC, "mine.py:cos_sin")
    assert (done.returncode, "base" in done.stdout) == (1, True)


STREAMS = {
    "import os\nos.close(1)": 0,
    "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)": 0,
    "sys.stdout.close()": 0,
    "sys.stderr.close(); os.close(2); sys.exit(0)": 3,
}


@pytest.mark.slow("cli", "_core/guard.py")
@pytest.mark.parametrize("way", STREAMS)
def test_code_that_closes_streams_does_not_take_the_answer(tmp_path: Path, way: str) -> None:
    _closes(tmp_path, way)


@pytest.mark.costly
def test_code_that_closes_errors_does_not_say_that_something_differs(tmp_path: Path) -> None:
    _closes(tmp_path, list(STREAMS)[-1])


def _closes(folder: Path, way: str) -> None:
    done = run(folder, f"{GOOD}\n{way}\n", "diff", SPEC, "mine.py:cos_sin")
    assert done.returncode == STREAMS[way], done
    assert ("nothing differs" in done.stdout) == (done.returncode == 0)
    assert ("it ended the process" in done.stderr) == (done.returncode == 3)


COPIES = """
def forked(positions):
    os.fork()
    return cos_sin(positions)
"""
POOL = """
import multiprocessing
def forked(positions):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(cos_sin, [positions])[0]
"""


# A signal meets the new process before Python in it has looked for one.
ENDED = """
import signal, time
def forked(positions):
    for _ in range(8):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    return cos_sin(positions)
"""


@pytest.mark.costly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks")
@pytest.mark.parametrize("code", drawn([COPIES, POOL, ENDED], 1, "_core/guard.py", "cli"))
def test_code_that_forks_gets_one_answer(code: str, tmp_path: Path) -> None:
    done = run(tmp_path, GOOD + code, "diff", SPEC, "mine.py:forked")
    assert (done.returncode, done.stdout.count("nothing differs")) == (0, 1), done
    assert done.stderr == ""


HANG = """
import subprocess
sleeps = [sys.executable, "-c", "import time; time.sleep(1000)"]
child = subprocess.Popen(sleeps, start_new_session=True)
open("pid", "w").write(str(child.pid))
print("said", end="")
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.costly
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_what_hangs_ends_with_all_that_it_started(tmp_path: Path) -> None:
    loop = "import re\nre.match('(a+)+$', 'a' * 64 + 'b')\n"  # in C, deaf to signals
    done = run(tmp_path, HANG + loop, "infer", "mine.py:f", "--timeout", "1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("said")
    assert "the import of mine.py: expected an end within 1 s" in done.stderr
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.costly
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_a_signal_ends_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"import sys\n{HANG}\nimport time\ntime.sleep(1000)\n")
    process = subprocess.Popen(
        [*COMMAND, "infer", "mine.py:f"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.count(b"stopped by SIGINT") == 1
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("value", ["0", "-1", "nan", "x"])
def test_a_timeout_is_positive(value: str) -> None:
    from click.testing import CliRunner

    assert CliRunner().invoke(app, ["check", "--list", "--timeout", value]).exit_code == 2


def exits(*_: Any, **__: Any) -> Any:
    sys.exit(0)


def golden() -> Any:
    return posenc.golden(posenc.RoPE(8, pairing="half"))


CALLS: dict[str, Callable[[Any], Any]] = {
    "diff": lambda f: posenc.diff(posenc.RoPE(8, pairing="half"), type("A", (), {"cos_sin": f})()),
    "infer": lambda f: posenc.infer_spec(f, kind="table"),
    "check": lambda f: check(Subject("mine", "table", lambda: None, f, dim=8, library="numpy")),
    "trace": posenc.trace,
    "contract": lambda f: assert_contract(type("A", (), {"cos_sin": f})(), golden()),
}


@pytest.mark.parametrize("verb", CALLS)
def test_python_raises_an_error_of_its_own(verb: str) -> None:
    with pytest.raises(posenc.EndedError, match="SystemExit: 0 at line .* of test_guard.py"):
        CALLS[verb](exits)


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("error", [pytest.skip.Exception, pytest.fail.Exception, KeyboardInterrupt])
def test_what_ends_a_test_passes_through(verb: str, error: type[BaseException]) -> None:
    def raises(*_: Any, **__: Any) -> Any:
        raise error("told")

    with pytest.raises(error, match="told"):
        CALLS[verb](raises)


@pytest.mark.costly
def test_a_subject_may_skip_or_exit(tmp_path: Path) -> None:
    (tmp_path / "skips.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    for name, said in (("skips", "1 skipped"), ("leaves", "it ended the process")):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--posenc",
            f"{name}:f",
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
        )
        assert said in done.stdout + done.stderr
        assert "INTERNALERROR" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        *("https://example.com/rope.py", "HTTPS:thing", "s3://bucket:key", "C:\\rope", "C:/rope"),
        *(
            "model.safetensors:q",
            "config.json:rope",
            "missing.py:f",
            "folder/mine:f",
            "mine:",
            ":f",
        ),
        *(
            "git@github.com:a/b",
            "mine:f()",
            "mine f:g",
            "localhost:8000",
            "there:f",
            "Preset:llama:8",
        ),
    ],
)
def test_what_names_no_code_is_not_imported(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("https.py", "HTTPS.py", "C.py", "s3.py", "model.py", "config.py", "localhost.py"):
        Path(name).write_text("raise RuntimeError('imported')")
    Path("there").touch()
    assert why_no_code(text)
    from click.testing import CliRunner

    for words in (["diff", SPEC, text], ["infer", text], ["check", text, "--kind", "table"]):
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, "imported" in result.output) == (2, False), result.output


@pytest.mark.parametrize(
    "text", ["mine:f", "a.b.c:D.e", "mine.py:Nested.rotate", "größe:f", "data:f"]
)
def test_what_names_code_may_be_imported(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    assert why_no_code(text) == ""


def test_offline_refuses_connections_and_ends() -> None:
    import socket

    before = socket.socket.connect, socket.getaddrinfo
    with offline(), pytest.raises(OSError, match="opens no connection"):
        socket.create_connection(("127.0.0.1", 9))
    assert (socket.socket.connect, socket.getaddrinfo) == before


def test_code_that_takes_the_streams_does_not_take_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taker.py").write_text("import sys, io\nsys.stdout = io.StringIO()\nf = 1\n")
    from posenc.testing import load

    load(f"{tmp_path / 'taker.py'}:f")
    print("seen")
    assert "seen" in capsys.readouterr().out


@pytest.mark.costly
def test_a_check_that_tried_no_law_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    (tmp_path / "none.py").write_text(
        "import numpy as np\n"
        "def f(positions): return np.sin(np.outer(positions, 2.0 ** -np.arange(8)))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["check", "none.py:f", "--kind", "table", "--library", "numpy", "--laws", "pickle"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "1 not offered" in result.output) == (3, True), result.output
