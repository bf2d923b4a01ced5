"""Rows of measurements: where, when and with which versions a number came to be."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def circumstances(*packages: str) -> dict[str, Any]:
    """What every row of a run has in common."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in sorted(packages)},
    }


def append(name: str, rows: list[dict[str, Any]]) -> Path:
    """Add rows to `results/<name>.jsonl`."""
    path = RESULTS / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def latest(name: str) -> list[dict[str, Any]]:
    """The rows of the last run in `results/<name>.jsonl`."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["date"] == rows[-1]["date"]]


def newest(name: str, *keys: str) -> list[dict[str, Any]]:
    """The last row of `results/<name>.jsonl` for each value of the keys."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [*{tuple(row[key] for key in keys): row for row in rows}.values()]


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
