"""Documents are code that ran: every example of the docstrings and of the Markdown files."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import linecache
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

import posenc
import posenc_study
from posenc._names import SPECS
from posenc.cli import app

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

MODULES = sorted(
    module.name
    for package in (posenc, posenc_study)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), ROOT / "study" / "README.md", *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "_generated", "encodings"} & set(path.relative_to(ROOT).parts)
)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example registers is known to that example alone."""
    linecache.clearcache()  # doctest looks at every file in it before each example
    monkeypatch.setattr("posenc.registry._registered", {})


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.append)
    assert not report, "\n".join(report)


def test_docstrings_are_found() -> None:
    module = importlib.import_module("posenc.functional._table")
    tests = doctest.DocTestFinder().find(module, module.__name__)
    assert {test.name.rpartition(".")[2] for test in tests if test.examples} >= {"add", "table"}


# --- Markdown -------------------------------------------------------------------------------------


# Programs that a page runs in a process of their own: the first `posenc` of the README, a script
# that tells JAX of its devices before it is imported, and one that asks with the arrays of all
# libraries that are loaded, and tests.
APART = (
    "posenc diff llama3-8k.json naive_rope.py:rotate",
    "python jax_modules.py",
    "python journey_checkpoint.py",
    "python -m pytest -q -p no:cacheprovider test_ports.py",
)


# The warnings that a new process shows.
FILTERS: tuple[tuple[Literal["default", "ignore"], type[Warning], str], ...] = (
    ("default", Warning, ""),
    ("ignore", DeprecationWarning, ""),
    ("ignore", PendingDeprecationWarning, ""),
    ("ignore", ImportWarning, ""),
    ("ignore", ResourceWarning, ""),
    ("default", DeprecationWarning, "__main__"),
)


def run_console(example: Example) -> str | None:
    """Run `$ posenc ...` and `$ python ...` lines and compare what follows each.

    `...` stands for anything. Scripts are those of `docs/examples`, which lie in the folder.
    """
    sessions = re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)
    assert not sessions[0].strip(), "a console block begins with a command"
    folder: Path = example.namespace["folder"]
    for session in sessions[1:]:
        command, _, expected = session.partition("\n")
        program, *arguments = shlex.split(command)
        assert program in ("posenc", "python"), f"{program}: only posenc and python are run"
        if command in APART:
            got = said_apart(folder, program, arguments)
        else:
            got = said(folder, program, arguments)
        if not doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS):
            return f"$ {command}\nexpected:\n{expected}\ngot:\n{got}"
    return None


def said_apart(folder: Path, program: str, arguments: list[str]) -> str:
    """What a program writes in a process of its own, errors behind all else."""
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    return done.stdout + done.stderr


def said(folder: Path, program: str, arguments: list[str]) -> str:
    """What a program writes in this process, where it finds no trace of the examples before it."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as told:
        patch.setattr("posenc.registry._registered", {})
        for action, category, module in FILTERS:
            warnings.filterwarnings(action, category=category, module=module)
        known = dict(sys.modules)
        try:
            if program == "posenc":
                done = CliRunner().invoke(app, arguments, prog_name="posenc")
                return done.stdout + done.stderr + "".join(map(str, told))
            patch.setattr(sys, "argv", arguments)
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                runpy.run_path(str(folder / arguments[0]), run_name="__main__")
            return out.getvalue() + err.getvalue() + "".join(map(str, told))
        finally:
            for name in sys.modules.keys() - known.keys():
                file = getattr(sys.modules[name], "__file__", None)
                if file and Path(file).is_relative_to(folder):
                    del sys.modules[name]


def apply_diff(example: Example) -> str | None:
    """Apply a diff to an example file; the blocks behind it import the result.

    Hunks have no line numbers: each stands behind `@@`, and its old lines must be found once.
    """
    old, new, *lines = example.parsed.splitlines()
    assert old.startswith("--- "), "a diff begins with its old file"
    assert new.startswith("+++ "), "a diff goes on with its new file"
    folder: Path = example.namespace["folder"]
    text = (folder / old[4:]).read_text(encoding="utf-8")
    for hunk in re.split(r"^@@\n", "\n".join([*lines, ""]), flags=re.MULTILINE):
        rows = hunk.splitlines()
        assert all(row[:1] in ("", " ", "-", "+") for row in rows), hunk
        before = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("+"))
        after = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("-"))
        if text.count(before) != 1:
            return f"{old[4:]} has these lines {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    (folder / new[4:]).write_text(text, encoding="utf-8")
    return None


def check_shell(example: Example) -> str | None:
    """Shell blocks are not run; what they name must exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in example.parsed.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"] and not set(words[1:]) <= targets:
            return f"{line}: the Makefile has no such target"
        review = (ROOT / "tools" / "review" / "posenc_review.py").read_text(encoding="utf-8")
        if words[:1] == ["posenc-review"]:
            unknown = [w for w in words if w.startswith("--") and f'"{w}"' not in review]
            if unknown:
                return f"{line}: posenc-review has no {unknown[0]}"
        elif words and words[0] not in {"make", "pip", "cd", "git", "python"}:
            return f"{line}: {words[0]} is not checked here"
        if words[:1] == ["python"] and not (ROOT / words[1]).exists():
            return f"{line}: no such script"
    return None


NOT_CODE = ("text", "bibtex", "json", "toml")
SYBIL = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=FLAGS),
        CodeBlockParser("console", run_console),
        CodeBlockParser("diff", apply_diff),
        CodeBlockParser("sh", check_shell),
        *(CodeBlockParser(language, lambda _: None) for language in NOT_CODE),
    ]
)


# Pages that compile, export or test, with what a change of which runs them.
SLOW = {
    "docs/onnx.md": pytest.mark.slow("torch", "kernels", "functional/_rotate.py"),
    "docs/ci.md": pytest.mark.slow("testing", "detect/contract"),
}


@pytest.fixture
def threads() -> Iterator[None]:
    """What a page sets torch to is not left to other tests."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else len(os.sched_getaffinity(0))
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("page", [pytest.param(p, marks=SLOW.get(p, ())) for p in PAGES])
def test_pages(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for file in (ROOT / "docs" / "examples").glob("*.*"):  # and no folder of bytecode
        shutil.copy(file, tmp_path)
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
    document: Document = SYBIL.parse(ROOT / page)
    document.namespace["folder"] = tmp_path
    evaluated = []
    for example in document.examples():
        example.evaluate()
        evaluated.append(example.start)
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.finditer(r"^```(?![{`])(\S+)\n.*?^```$", text, re.MULTILINE | re.DOTALL):
        ran = any(block.start() <= start < block.end() for start in evaluated)
        assert ran, f"nothing runs blocks of the language {block[1]!r}"


def test_what_programs_read_is_there() -> None:
    """Each call of the page for programs fits its function; each link of `llms.txt` leads on."""
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    calls = re.findall(r"^\| [^|]+ \| `(\w+\(.*\))` \|$", page, re.MULTILINE)
    assert len(calls) == 14
    for text in calls:
        call: Any = ast.parse(text, mode="eval").body
        while isinstance(call.func, ast.Attribute):
            call = call.func.value
        keywords = {str(keyword.arg): None for keyword in call.keywords}
        signature = inspect.signature(getattr(posenc, call.func.id))
        signature.bind(*[None] * len(call.args), **keywords)
    index = (ROOT / "llms.txt").read_text("utf-8")
    links = re.findall(r"^- \[.+\]\((.+)\): .+$", index, re.MULTILINE)
    assert len(links) == len({*links}) == index.count("\n- ") > 30
    assert not [link for link in links if not (ROOT / link).is_file()]
    assert index.startswith("# posenc\n\n> ")


def test_the_quickstart_needs_numpy_alone() -> None:
    text = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    assert set(re.findall(r"^(?:>>> )?(?:import|from) (\w+)", text, re.MULTILINE)) == {
        "numpy",
        "posenc",
    }


def test_links_between_files_lead_somewhere() -> None:
    made = {
        f"encodings/{name}.md" for name in ("index", *SPECS)
    }  # by the build of the documentation
    broken = [
        f"{page}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / page).read_text("utf-8"))
        if target not in made and not ((ROOT / page).parent / target).exists()
    ]
    assert not broken


LONG = """# Page

| a | b |
|---|--:|
| 1 \\| 2 | `x` |

## All rows of it

| a | b |
|---|---|
| 1 | `x \\| y` |
| 2 | **z** |

Behind.
"""


def test_long_tables_of_a_page_are_files_and_come_back(tmp_path: Path) -> None:
    from tools.pages import shelf

    page, old = tmp_path / "page.md", tmp_path / shelf.TABLES / "page" / "gone.csv"
    old.parent.mkdir(parents=True)
    old.touch()
    page.touch()
    assert len(shelf.stale(page, LONG, long=2)) == 3  # the page, its table, and that of nobody
    shelf.write(page, LONG, long=2)
    [file] = old.parent.iterdir()
    assert file.name == "all-rows-of-it.csv"
    assert file.read_text() == "a,b\n1,`x | y`\n2,**z**\n"
    assert shelf.stale(page, LONG, long=2) == []
    assert shelf.whole(page).partition("## All")[0] == LONG.partition("## All")[0]
    assert shelf.whole(page).endswith("| 1 | `x \\| y` |\n| 2 | **z** |\n\nBehind.\n")
    assert shelf.shelved(LONG, "page", long=2, keep=2) == (LONG, {})
    assert len(shelf.shelved(LONG, "page", long=1)[1]) == 2
