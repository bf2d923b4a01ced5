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

from tests.torch_modules.processes import names_for

ROOT = Path(__file__).resolve().parents[2]
# What two processes try as well; four of them take twice the time.
AGAIN = ("positions_are_data", "fsdp_from_meta")


def check(groups: dict[int, list[str]], subtests: pytest.Subtests) -> None:
    """One test for each check in groups of some sizes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torch_modules.processes", json.dumps(groups)],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    assert list(found) == [str(world) for world in groups]
    for world, names in groups.items():
        failed = found[str(world)]
        assert set(failed) <= set(names)
        for name in names:
            with subtests.test(name, world=world):
                assert name not in failed, failed[name]


@pytest.mark.costly
def test_on_several_processes(subtests: pytest.Subtests) -> None:
    four = [name for name in names_for(4) if name not in names_for(2) or name in AGAIN]
    assert set(AGAIN) <= set(four)
    check({2: names_for(2), 4: four}, subtests)


@pytest.mark.slow("torch", "_core", "functional")
def test_everything_on_four_processes(subtests: pytest.Subtests) -> None:
    check({4: names_for(4)}, subtests)
