"""Review the model configs of a change: `posenc explain` and `posenc diff` of each.

    posenc-review [--only explain|diff] [--base REVISION] [--engines LINES] [FILE]...

A config is explained as it is now, compared with what the base revision has in its place, and with
engines. GitHub's action (`action.yml`) and hooks of pre-commit (`.pre-commit-hooks.yaml`) run it at
the top of a repository. A file in which no positions are read, now or before, is left alone.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import posenc
from posenc.detect.contract import Difference
from posenc.detect.explain import is_open

GLOBS = "**/config.json\n**/params.json\n**/adapter_config.json\n**/model_index.json"
GRAVE = ("warning", "difference", "error")  # each fails where those before it do
KEY = re.compile(r"[A-Za-z]\w*(?:[._]\w+)+")
CODE = re.compile(r"(.+\.py):([\w.]+)")
LIKELY = re.compile(r"\b(?:model_type|rope_\w+)\b")  # keys of a model's config
ALONE = "left alone: no positions are read"
NEVER = re.compile("0*")  # what GitHub has for the commit before the first


class Finding(NamedTuple):
    """What is wrong at a line of a file."""

    path: str
    line: int
    title: str
    text: str
    grave: str


class Checked(NamedTuple):
    """A row of the summary."""

    path: str
    what: str
    result: str


Row = Finding | Checked


def main() -> None:
    """Print what was found, write the summary of GitHub, and exit with 1 where something fails."""
    parser = argparse.ArgumentParser(prog="posenc-review", description=__doc__.partition("\n")[0])
    parser.add_argument("named", metavar="FILE", nargs="*", help="else those that changed")
    parser.add_argument("--only", choices=("explain", "diff"))
    parser.add_argument("--base", default=os.environ.get("PRE_COMMIT_FROM_REF", "HEAD"))
    parser.add_argument("--files", default=GLOBS, metavar="GLOBS", help="as git's, one in a line")
    parser.add_argument("--engines", default="", metavar="LINES", help="[CONFIG] SIDE in a line")
    parser.add_argument("--fail-on", choices=GRAVE, default="difference")
    asked = parser.parse_args()
    base = "" if NEVER.fullmatch(asked.base) else asked.base
    files = {name: name for name in asked.named} or changed(base, asked.files.split())
    configs = [Config.read(*names, base) for names in files.items()]
    rows: list[Row] = []
    for config in configs:
        rows += [] if asked.only == "diff" else explained(config)
        rows += [] if asked.only == "explain" else compared(config, base)
    for line in asked.engines.splitlines():
        *named, side = shlex.split(line) or [""]
        code = CODE.fullmatch(side)
        is_new = bool(named and code and (not base or changed(base, [code[1]])))
        others = [Config.read(name, name, "") for name in named if is_new and name not in files]
        for config in (*configs, *others) if side else ():
            if config.is_read and config.path in (named or [config.path]):
                rows += held(config, side, code)
    sys.exit(told(rows, asked.fail_on))


def git(*words: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", *words], capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return os.fsdecode(done.stdout)


def changed(base: str, globs: list[str]) -> dict[str, str]:
    """The files of a change that are there, with their names before; all files without a base."""
    places = ["--", *(f":(top,glob){glob}" for glob in globs)]
    if not base:
        return {name: name for name in git("ls-files", "-z", *places).split("\0")[:-1]}
    told = git("diff", "-z", "-M", "--name-status", "--diff-filter=d", base, *places)
    words, files = iter(told.split("\0")[:-1]), {}
    for kind in words:
        before = next(words)
        files[next(words) if kind[0] == "R" else before] = before
    return files


# --- the checks -----------------------------------------------------------------------------------


class Config(NamedTuple):
    """A file as it is and as it was, with what is read in it: a plan, or why there is none."""

    path: str
    text: str
    plan: Any
    why: str
    old: str | None
    old_plan: Any

    @classmethod
    def read(cls, path: str, before: str, base: str) -> Config:
        """The file, and what the base revision has in its place."""
        done = subprocess.run(["git", "show", f"{base}:{before}"], capture_output=True, check=False)
        old = None if done.returncode or not base else done.stdout.decode(errors="replace")
        with tempfile.TemporaryDirectory() as folder:
            name = Path(folder, Path(before).name)
            name.write_text(old or "", "utf-8")
            old_plan = reading(name)[0] if old else None
        return cls(path, Path(path).read_text("utf-8", "replace"), *reading(path), old, old_plan)

    @property
    def is_read(self) -> bool:
        """Whether there are positions in it."""
        return bool(self.plan and self.plan.layers)

    @property
    def was_read(self) -> bool:
        """Whether there were."""
        return bool(self.old_plan and self.old_plan.layers)

    def line(self, *keys: str) -> int:
        """The first line that has one of some keys, or what is around it; 0 where none has."""
        for key in keys:
            end = 0
            for part in key.split("."):
                place = re.compile(rf"""(?<![\w.-]){re.escape(part)}["']?\s*[:=]""")
                if (there := place.search(self.text, end)) is None:
                    break
                end = there.end()
            if end:
                return self.text.count("\n", 0, end) + 1
        return 0


def reading(path: str | Path) -> tuple[Any, str]:
    """What `posenc explain` reads in a file, with what it leaves open; else None, and why."""
    try:
        return posenc.explain(str(path), on_error="report"), ""
    except posenc.PosencError as error:
        return None, str(error)


def explained(config: Config) -> Iterator[Row]:
    """What a config leaves open, and the keys that were not read."""
    notes = [(note.text, note.level == "error" or is_open(note))
             for note in config.plan.notes if note.level != "remark"
             ] if config.plan is not None else [(config.why, True)]  # fmt: skip
    is_known, count = config.is_read or config.was_read, 0
    for text, is_error in notes:
        stated = re.search(r"line (\d+)", text) if config.plan is None else None
        line = int(stated[1]) if stated else config.line(*KEY.findall(text))
        if is_known or line or LIKELY.search(config.text):
            grave = "error" if is_error and (is_known or line) else "warning"
            count += 1
            yield Finding(config.path, line or 1, "posenc explain", text, grave)
    result = f"{count} to look at" if count else "settled" if config.is_read else ALONE
    yield Checked(config.path, "explain", result)


def compared(config: Config, base: str) -> Iterator[Row]:
    """Where the positions of a config are others than those of the base revision."""
    if config.old is None or config.old == config.text or not config.was_read:
        return
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder, side, Path(config.path).name) for side in ("base", "now")]
        for side, text in zip(sides, (config.old, config.text), strict=True):
            side.parent.mkdir()
            side.write_text(text, "utf-8")
        try:
            comparison = posenc.diff(*sides)
        except posenc.PosencError as error:
            why = str(error).replace(f"{folder}/", "")
            title = "posenc diff: not compared"
            yield Finding(
                config.path, config.line(*KEY.findall(why)) or 1, title, why, "difference"
            )
            return
    for row in comparison.rows:
        line = config.line(*keys(row.field, config)) or 1
        yield Finding(config.path, line, f"posenc diff: {row.field}", row.text, "difference")
    yield Checked(
        config.path, f"diff {base[:12]}", in_words(comparison.verdict, comparison.compared)
    )


def keys(field: str, config: Config) -> list[str]:
    """Keys that a field may come from, those that changed first."""
    root = field.partition(".")[0]
    sources = [source.where for plan in (config.plan, config.old_plan)
               for layer in plan or () for source in layer.sources
               if source.field.partition(".")[0] == root and source.origin == "config"]  # fmt: skip
    read = KEY.findall(" ".join(sources))
    old, new = values(config.old or ""), values(config.text)
    moved = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    return [
        *(key for key in moved if key in read),
        *(key for key in moved if root in key),
        *moved,
        *read,
    ]


def values(text: str) -> dict[str, Any]:
    """The values of a JSON text by their keys, with a dot between those of nested objects."""
    try:
        left, flat = [("", json.loads(text))], {}
    except ValueError:
        return {}
    for name, value in left:
        if isinstance(value, dict):
            left += [(f"{name}.{key}".lstrip("."), inner) for key, inner in value.items()]
        else:
            flat[name] = value
    return flat


def held(config: Config, side: str, code: re.Match[str] | None) -> Iterator[Row]:
    """Where an engine or code differs from a config; `posenc diff` runs it in a process."""
    # -P: no module is taken from the repository but the code that is named.
    command = [sys.executable, "-P", "-m", "posenc.cli", "diff", "--json", "--", config.path, side]
    done = subprocess.run(command, capture_output=True, check=False)
    place, line, title = config.path, 0, f"posenc diff {side}"
    if code and Path(code[1]).is_file():
        begin = re.compile(rf"^\s*(?:def|class)\s+{code[2].rpartition('.')[2]}\b", re.MULTILINE)
        text = Path(code[1]).read_text("utf-8", "replace")
        there = begin.search(text)
        place, line = code[1], text.count("\n", 0, there.end()) + 1 if there else 1
    if not done.stdout:
        why = done.stderr.decode(errors="replace").removeprefix("posenc: error: ")
        grave = "difference" if done.returncode == 3 else "error"  # 3: not to be compared
        yield Finding(place, line or 1, title, why, grave)
        return
    facts = json.loads(done.stdout)
    for row in facts["differences"]:
        own = line or config.line(*keys(row["field"], config)) or 1
        yield Finding(place, own, f"{title}: {row['field']}", Difference(**row).text, "difference")
    yield Checked(config.path, f"diff {side}", in_words(facts["verdict"], facts["compared"]))


def in_words(verdict: str, compared: Any) -> str:
    """A verdict, and of how many things it was reached."""
    return f"{verdict}: {len(compared)} compared" if compared else verdict


# --- what is told ---------------------------------------------------------------------------------


def told(rows: list[Row], fail_on: str) -> int:
    """Print the findings and the checks, and write the summary of GitHub; the exit code."""
    failed, on_github = False, os.environ.get("GITHUB_ACTIONS") == "true"
    for row in rows:
        if isinstance(row, Checked):
            print(f"posenc: {escaped(row.path)}: {row.what}: {row.result}")
            continue
        fails = GRAVE.index(row.grave) >= GRAVE.index(fail_on)
        failed |= fails
        level = "error" if fails else "warning"
        if on_github:
            named = {"file": row.path, "line": row.line, "title": row.title}
            about = ",".join(f"{key}={escaped(value, ':,')}" for key, value in named.items())
            print(f"::{level} {about}::{escaped(row.text)}")
        else:
            print(f"{escaped(row.path)}:{row.line}: {level}: {row.title}: {row.text.strip()}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write("\n".join(table(rows)) + "\n")
    return int(failed)


def escaped(value: object, more: str = "") -> str:
    """A value as GitHub's commands write it: nothing in it begins another command."""
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in str(value).strip())


def table(rows: list[Row]) -> Iterator[str]:
    """The summary, in Markdown."""
    yield from ("### Positions of this change", "", "| file | check | result |", "|---|---|---|")
    for row in rows:
        if isinstance(row, Checked):
            cells = (row.path, row.what, row.result)
        else:
            cells = (f"{row.path}:{row.line}", row.title, row.text)
        plain = (html.escape(" ".join(cell.split())).replace("|", "&#124;") for cell in cells)
        yield f"| {' | '.join(plain)} |"
    if not rows:
        yield "| none | | no config changed |"


if __name__ == "__main__":
    main()
