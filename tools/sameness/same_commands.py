"""The commands of the documents of a tree, run in a folder as a reader has it, for `same.py`."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from same_store import Store, entry, ran

LONGEST = 120  # seconds of a command
BLOCK = re.compile(r"^```(python|console|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LAUNCH = """import sys
from {module} import {function}
sys.exit({function}())
"""
APART = {"_build", "_generated", "encodings"}


def pages(tree: Path) -> list[str]:
    """The pages of a tree that hold commands."""
    found = [*tree.glob("*.md"), *(tree / "docs").rglob("*.md")]
    names = [path.relative_to(tree) for path in found if not APART & {*path.parts}]
    return sorted(str(name) for name in names if "```console\n" in (tree / name).read_text("utf-8"))


def left_out(words: list[str]) -> str:
    """Why a command is not run; empty where it is."""
    if words[:2] == ["posenc", "explore"] and "--freeze" not in words:
        return "a server, which never ends"
    return ""


def commands(tree: Path, inputs: Path, page: str, store: Store) -> None:
    """Every command of a page, with the code before it; or the help of every command."""
    if page == "help":
        _help(tree, store)
        return
    source = inputs / "pages"  # those of one tree: both run the same
    for file in (source / "docs" / "examples").iterdir():
        shutil.copy(file, Path.cwd())
    scripts = inputs.parent / f"bin-{tree.name}"
    scripts.mkdir(exist_ok=True)
    module, function = entry(tree)
    (scripts / "posenc").write_text(LAUNCH.format(module=module, function=function))
    sys.path.insert(0, str(Path.cwd()))
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = BLOCK.findall((source / page).read_text("utf-8"))
    last = max(number for number, block in enumerate(blocks) if block[0] == "console")
    for number, (language, text) in enumerate(blocks[: last + 1]):
        if language == "python":
            _code(text, names, f"{page} block {number}", store)
        elif language == "diff":
            _patched(text)
        else:
            for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
                _command(shlex.split(line), scripts, f"{page} {number} $ {line}", store)


def _code(text: str, names: dict[str, Any], title: str, store: Store) -> None:
    """Run a block of Python, as code or as a session."""
    if text.lstrip().startswith(">>>"):
        steps = [example.source for example in doctest.DocTestParser().get_examples(text)]
        store.put(title, session(steps, names, title))
    else:
        store.put(title, session([text], names, title, "exec"))


def session(steps: list[str], names: dict[str, Any], title: str, mode: str = "single") -> str:
    """What lines of Python print, one after the other, and what their errors say."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        for step in steps:
            try:
                exec(compile(step, title, mode, dont_inherit=True), names)
            except Exception as error:  # noqa: BLE001 - pages show errors, too
                print(f"{type(error).__name__}: {error}")
    return heard.getvalue()


def _patched(text: str) -> None:
    """Apply a diff without line numbers, as the test of the documents does."""
    old, new, *lines = text.splitlines()
    body = Path(old[4:]).read_text("utf-8")
    for hunk in re.split(r"^@@\n", "\n".join([*lines, ""]), flags=re.MULTILINE):
        rows = hunk.splitlines()
        before = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("+"))
        after = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("-"))
        body = body.replace(before, after) if before else body
    Path(new[4:]).write_text(body, encoding="utf-8")


def _files() -> dict[str, bytes]:
    kept = (path for path in Path.cwd().rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(Path.cwd())): path.read_bytes() for path in kept}


def _command(words: list[str], scripts: Path, title: str, store: Store) -> None:
    """Run a command, and keep what it says and what it writes."""
    why = left_out(words)
    if why:
        store.put(title, f"not run: {why}")
        return
    program = [sys.executable] + ([str(scripts / "posenc")] if words[0] == "posenc" else [])
    before = _files()
    try:
        done = subprocess.run(
            [*program, *words[1:]],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST,
            check=False,
            env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        )
        texts = [
            stream.decode("utf-8", "backslashreplace") for stream in (done.stdout, done.stderr)
        ]
        told = f"exit {done.returncode}\n--- output\n{texts[0]}--- errors\n{texts[1]}"
    except subprocess.TimeoutExpired:
        told = f"did not end within {LONGEST} s"
    store.put(title, told)
    for name, data in _files().items():
        if before.get(name) != data:
            store.put(f"{title} wrote {name}", data)


def _help(tree: Path, store: Store) -> None:
    """The help of the command, and of each command below it."""
    module, function = entry(tree)
    run = getattr(importlib.import_module(module), function)
    waiting: list[list[str]] = [[]]
    while waiting:
        words = waiting.pop(0)
        told = ran(run, [*words, "--help"])
        store.put(" ".join(["posenc", *words, "--help"]), told)
        listed = told.partition("\nCommands:\n")[2].partition("\n\n")[0].partition("\n---")[0]
        waiting += [[*words, name] for name in re.findall(r"^  (\w[\w-]*)", listed, re.MULTILINE)]
