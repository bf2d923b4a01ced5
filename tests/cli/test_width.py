"""Lines for people fit the screen; a pipe gets whole lines."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from posenc.cli import app
from posenc.cli._app import COMMANDS
from posenc.cli.output.lines import COPIED, WHOLE, wrapped

ROOT = Path(__file__).resolve().parents[2]
# Of every command that prints for people, what the pages do not run on the files of examples.
MORE = """
explain nowhere.json --pairing hal
explain llama3-8k.json --plan gemma3
plot table --encoding RoPE
diff plan:gemma plan:gemma3
table --preset nobody
table --spec RoPE(8,)
check naive_rope.py:rotated
infer naive_rope.py:rotate --dim 7
extend llama3-8k.json --to 32768 --rule nobody
locate --dim 64 --value 3 --at 63
nobody
explain --plan gemma3
explain --plan gpt-oss
explain --plan whisper-encoder
diff plan:gemma2 plan:gemma3
diff preset:vaswani2017:64 preset:fairseq:64
extend llama3-8k.json --to 32768 --rule dynamic
locate --dim 64 --value 0.5 --at 63
encode "classify the book" --preset whisper --dim 16
table --preset mae --dim 16 --grid 2x2
pairing llama3-8k.json
identify llama3-8k.json
check --list
quiz --list
quiz rope --show
list
list rope
doctor
doctor llama3-8k.json
doctor llama3-8k.json naive_rope.py:rotate
"""


def commands() -> list[str]:
    """Those of the pages that draw nothing, and more."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    shown = re.findall(r"^\$ posenc ((?!plot|explore).*)$", text, re.MULTILINE)
    return list(dict.fromkeys([*shown, *MORE.strip().splitlines()]))


@pytest.mark.costly
@pytest.mark.parametrize(
    "columns", [80, pytest.param(60, marks=pytest.mark.slow("cli", "detect/facts"))]
)
def test_every_command_fits(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for file in (ROOT / "docs" / "examples").glob("*.*"):
        shutil.copy(file, tmp_path)
    wide, ran = [], 0
    helps = [f"{name} --help" for name in COMMANDS if columns == 80]  # lists keep their lines
    for command in [*commands(), *helps]:
        result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, shlex.split(command))
        ran += result.exit_code < 2
        lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
        wide += [f"{command}: {line}" for line in lines if len(line) > columns and not whole(line)]
    assert not wide, "\n".join(wide)
    assert ran >= 20


def whole(line: str) -> bool:
    """Whether a line may be longer than the screen: it is one thing that people copy."""
    return bool(COPIED.match(line) or WHOLE.fullmatch(line.strip().rstrip(".,;:)")))


@pytest.mark.parametrize(
    ("line", "width", "parts"),
    [
        ("  a line of words that is long", None, ["  a line of words that is long"]),
        ("twelve words", 12, ["twelve words"]),
        ("twelve words!", 12, ["twelve", "  words!"]),
        ("  name   what it is and does", 22, ["  name   what it is", "         and does"]),
        ('    {"rope_theta": 500000.0}', 12, ['    {"rope_theta": 500000.0}']),
        ("    --ctx-size 32768 --rope-scale 4", 12, ["    --ctx-size 32768 --rope-scale 4"]),
        ("in /a/path/that-is/longer", 12, ["in", "  /a/path/that-is/longer"]),
        ("write `pip install posenc` first", 14, ["write", "  `pip install posenc`", "  first"]),
        ('the key {"a": 1, "b": 2} is', 12, ["the key", '  {"a": 1, "b": 2}', "  is"]),
        ("a model's file is its own", 14, ["a model's file", "  is its own"]),
        (" 1. the base is that of", 12, [" 1. the base", "    is that", "    of"]),
    ],
)
def test_lines_are_wrapped(line: str, width: int | None, parts: list[str]) -> None:
    assert wrapped(line, width) == parts


@pytest.mark.parametrize(
    "command", ["explain nowhere.json --pairing hal", "diff plan:gemma plan:x"]
)
def test_errors_are_wrapped_on_a_screen_and_whole_in_a_pipe(command: str) -> None:
    screen, pipe = (
        CliRunner(env={"COLUMNS": columns}).invoke(app, shlex.split(command)).stderr.splitlines()
        for columns in ("60", None)
    )
    assert screen[-1].startswith("  ")
    assert max(map(len, screen)) <= 60 < len(pipe[-1])
    assert " ".join(" ".join(screen).split()) == " ".join(" ".join(pipe).split())
