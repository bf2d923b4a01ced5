"""What programs that write code read: lists of `docs/agents.md`, and `llms.txt`.

The form of `llms.txt` is that of https://llmstxt.org: a title, a summary, lists of links.
"""

from __future__ import annotations

import re
from pathlib import Path

from posenc._core import errors
from posenc.cli import _app

ROOT = Path(__file__).resolve().parents[2]
# A row of "Which page do I want?": what for, and pages as `[](page.md)`.
ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<pages>\[\]\([^|]+) \|$", re.MULTILINE)
ERROR = re.compile(
    r"^    [├└]── (\w+) +\((\w+)\) +(.+)$|^    │ +└── (\w+) \((\w+)\) +(.+)$", re.MULTILINE
)


def error_table() -> str:
    """The exceptions, as the module that has them lists them."""
    rows = [tuple(filter(None, row)) for row in ERROR.findall(errors.__doc__ or "")]
    lines = [f"| `{name}` | `{base}` | {when} |" for name, base, when in rows]
    return "\n".join(["| error | also a | when |", "|---|---|---|", *lines])


def exit_codes() -> str:
    """The exit codes, as `posenc --help` lists them."""
    text = _app.HELP.partition("Exit codes:")[2].replace("\b", "").partition("\n\nPOSENC")[0]
    rows = re.findall(r"^  (\S+) +((?:.|\n {9})+)$", text, re.MULTILINE)
    lines = [f"| {code} | {' '.join(when.split())} |" for code, when in rows]
    return "\n".join(["| code | when |", "|---|---|", *lines])


def index(ending: str = "md", folder: str = "docs/") -> str:
    """`llms.txt`, whose links lead to files of the repository, or to pages beside it."""
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    summary = " ".join(page.split("\n\n")[1].split())
    first = f"- [For programs that write code]({folder}agents.{ending}): names, a call each, errors"
    lines = [first, f"- [API]({folder}api.{ending}): every public name"]
    for row in ROW.finditer(page):
        targets = re.findall(r"\]\(([\w/-]+)\.md\)", row["pages"])
        lines += [f"- [{_title(x)}]({folder}{x}.{ending}): {row['what']}" for x in targets]
    listed: dict[str, str] = {}
    for line in lines:
        listed.setdefault(line.partition("]")[0], line)
    rows = "\n".join(line for line in listed.values() if "encodings/" not in line)
    return f"# posenc\n\n> {summary}\n\n## Docs\n\n{rows}\n"


def _title(page: str) -> str:
    path = ROOT / "docs" / f"{page}.md"
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ") if path.exists() else page
