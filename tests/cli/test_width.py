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
from posenc.cli.output.show import COPIED, wrapped

ROOT = Path(__file__).resolve().parents[2]
# Of every command that prints for people, what the pages do not run on the files of examples.
MORE = """
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
@pytest.mark.parametrize("columns", [80, 60])
def test_every_command_fits(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for file in (ROOT / "docs" / "examples").glob("*.*"):
        shutil.copy(file, tmp_path)
    wide, ran = [], 0
    for command in commands():
        result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, shlex.split(command))
        ran += result.exit_code < 2
        lines = result.stdout.splitlines()
        wide += [
            f"{command}: {line}" for line in lines if len(line) > columns and not COPIED.match(line)
        ]
    assert not wide, "\n".join(wide)
    assert ran >= 20


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
    ],
)
def test_lines_are_wrapped(line: str, width: int | None, parts: list[str]) -> None:
    assert wrapped(line, width) == parts
