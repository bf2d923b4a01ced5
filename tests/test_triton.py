"""The Triton kernels in Triton's interpreter, which needs a process of its own.

Triton decides where a kernel is defined whether it is interpreted, so the tests themselves are in
`interpreted_triton.py`, run by another pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")


@pytest.mark.costly
@pytest.mark.parametrize(
    "tier", ["not slow", pytest.param("slow", marks=pytest.mark.slow("kernels"))]
)
def test_interpreted(tier: str) -> None:
    inner = Path(__file__).with_name("interpreted_triton.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
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
