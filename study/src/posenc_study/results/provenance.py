"""What produced a row: versions, commit, processor. Every row of a store points to one of these."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import posenc
from posenc.registry import others
from posenc_study.cell import PROTOCOL, Cell
from posenc_study.model.encodings import kebab

PACKAGES = ("torch", "numpy", "scipy", "joblib")
PACKAGE = Path(__file__).resolve().parents[1]
# What decides the numbers of cells; all else runs, counts and shows them.
SOURCES = ("src", "study/src")  # of a checkout
DECIDING = ("model", "tasks", "training")


def provenance() -> dict[str, str]:
    """Where rows made from now on come from."""
    versions = {name: _version(name) for name in PACKAGES}
    return {
        "posenc": posenc.__version__,
        "commit": _commit(),
        "sources": _sources(),
        "protocol": str(PROTOCOL),
        "claims": hashlib.sha256((PACKAGE / "claims" / "claims.toml").read_bytes()).hexdigest()[
            :16
        ],
        **versions,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def of_others(cells: Iterable[Cell], made: Callable[[Cell], Any]) -> dict[str, str]:
    """Encodings that posenc does not have, or that were given as JSON: version and spec of each.

    `made` makes a cell ready.
    """
    rows, foreign = {}, {kebab(cls.__name__) for cls in others()}
    for name, cell in {cell.encoding: cell for cell in cells}.items():
        if name in foreign or name.startswith("{"):
            run = made(cell)
            spec: Any = run.encoding.make(run.sizes, True)
            package = type(spec).__module__.partition(".")[0]
            version = _version(package) or "of no version"
            rows[f"encoding {name}"] = f"{package} {version}: {posenc.to_json(spec)}"
    return rows


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    """The commit of the checkout that the study is imported from, if it is one."""
    top = PACKAGE.parents[2]
    if not (top / ".git").exists():
        return ""
    head = _git(top, "rev-parse", "HEAD")
    changed = _git(top, "status", "--porcelain", "--untracked-files=no", "--", *SOURCES)
    return f"{head}+" if head and changed else head


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for part in DECIDING for path in (PACKAGE / part).glob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
