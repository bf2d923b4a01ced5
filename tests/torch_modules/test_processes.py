# ruff: noqa: E402 - torch may be absent, and is asked for first
"""What is promised of several processes, of two and of four: `processes.py` beside this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this build of torch has no gloo", allow_module_level=True)
if not hasattr(os, "fork"):
    pytest.skip("the ranks are forked", allow_module_level=True)

from tests.torch_modules.processes import CHECKS

ROOT = Path(__file__).resolve().parents[2]


def found(world: int) -> dict[str, str]:
    """What failed in a group of some size, by check."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torch_modules.processes", str(world)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
    failed: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return failed


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.costly
def test_on_several_processes(world: int, subtests: pytest.Subtests) -> None:
    failed = found(world)
    names = [name for name, (worlds, _) in CHECKS.items() if world in worlds]
    assert set(failed) <= set(names)
    for name in names:
        with subtests.test(name):
            assert name not in failed, failed[name]
