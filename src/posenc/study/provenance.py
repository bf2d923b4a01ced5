"""What produced a row: versions, commit, processor. Every row of a store points to one of these."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import posenc
from posenc.study.cell import PROTOCOL

__all__ = ["provenance"]

PACKAGES = ("torch", "numpy", "scipy", "joblib")
HERE = Path(__file__).resolve().parent
# What runs cells, counts and shows them; all else in the package decides their numbers.
PROTOCOL_FILES = (
    *("__init__", "cell", "grid", "store", "engine", "provenance", "results", "statistics"),
    *("claims", "verdicts", "document", "figures", "report", "generate", "say"),
)


def provenance() -> dict[str, str]:
    """Where rows made from now on come from.

    Returns
    -------
    dict of str to str
        `posenc`, `commit` (empty outside a checkout, ending in `+` where it was changed), `sources`
        (digest of the files that decide the numbers), `protocol`, `claims` (digest of the claims as
        they stand), the versions of `torch`, `numpy`,
        `scipy`, `joblib` and `python`, `platform`, `cpu` and the UTC `date`.

    Examples
    --------
    >>> from posenc.study.provenance import provenance
    >>> provenance()["protocol"]
    '1'
    """
    versions = {name: _version(name) for name in PACKAGES}
    return {
        "posenc": posenc.__version__,
        "commit": _commit(),
        "sources": _sources(),
        "protocol": str(PROTOCOL),
        "claims": hashlib.sha256((HERE / "claims.toml").read_bytes()).hexdigest()[:16],
        **versions,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    """The commit of the checkout that posenc is imported from, if it is one."""
    top = HERE.parents[2]
    if not (top / ".git").exists():
        return ""
    head = _git(top, "rev-parse", "HEAD")
    changed = _git(top, "status", "--porcelain", "--untracked-files=no", "--", "src")
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
    for path in sorted(HERE.rglob("*.py")):
        if path.parent == HERE and path.stem in PROTOCOL_FILES:
            continue
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
