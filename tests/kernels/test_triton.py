"""The Triton kernels in Triton's interpreter, and on a GPU where there is one.

Triton decides where a kernel is defined whether it is interpreted, so the tests themselves are in
`triton_kernels.py`, run by another pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")


def run(tier: str, **more: str) -> None:
    inner = Path(__file__).with_name("triton_kernels.py")
    environment = {**os.environ, **more, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(inner), "-q", "-m", tier, "-p", "no:cacheprovider"],
        cwd=inner.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.costly
@pytest.mark.parametrize(
    "tier", ["not slow", pytest.param("slow", marks=pytest.mark.slow("kernels"))]
)
def test_interpreted(tier: str) -> None:
    run(tier, TRITON_INTERPRET="1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.costly
def test_on_a_gpu() -> None:
    """Whatever the interpreter runs, slow or not, and what only a GPU does."""
    run("slow or not slow", TRITON_INTERPRET="0")
