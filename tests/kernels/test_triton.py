"""The Triton kernels in Triton's interpreter, and on a GPU where there is one.

Triton decides where a kernel is defined whether it is interpreted, so the tests themselves are in
`triton_kernels.py`, run by another pytest.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
triton = pytest.importorskip(
    "triton", reason="triton is not installed: pip install 'posenc[triton]'"
)


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


ALL = {"SLOTS": True, "NORM": True, "REST": 16, "WHERE": 2, "ORIGIN": True, "DIVIDE": True}
CHOICES = {
    "rotate": {"AXES": 1, "LANES": 64, "HEADS": 8, "SOME": 0, "REST": 0, "WHERE": 0},
    "rotate, all": {"AXES": 3, "LANES": 64, "HEADS": 8, "SOME": 1, "INTERLEAVED": True, **ALL},
    "add": {"AXES": 1, "REPEATS": 4, "COLUMNS": 256, "GIVEN": True, "PAD": True},
}
POINTERS = {
    "*bf16": {"q", "q_out", "k", "k_out", "x", "result", "q_norm", "k_norm"},
    "*i64": {"positions", "ends", "slots", "steps", "origins"},
    "fp32": {"factor", "sine", "scale", "epsilon"},
    "i64": {"start", "pad"},
}


@pytest.mark.parametrize(
    "name", ["add", "rotate, all", pytest.param("rotate", marks=pytest.mark.slow("kernels"))]
)
def test_kernels_compile_for_a_gpu_that_is_not_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the code of an H100; the interpreter runs what the compiler would refuse."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    home = importlib.import_module(f"posenc.kernels.triton.{name.partition(',')[0]}")
    kernel, chosen = home._kernel, CHOICES[name]
    assert {p.name for p in kernel.params if p.do_not_specialize} >= {"start"}
    kinds = {each: kind for kind, names in POINTERS.items() for each in names}
    constants = {p.name: chosen.get(p.name, False) for p in kernel.params if p.is_constexpr}
    signature = {
        each: "constexpr" if each in constants else kinds.get(each, "i32")
        for each in kernel.arg_names
    }
    places = {(kernel.arg_names.index(each),): value for each, value in constants.items()}
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source = ASTSource(kernel, signature, places, {})
    made = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": False}
    )
    assert "cubin" in made.asm


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.costly
def test_on_a_gpu() -> None:
    """Whatever the interpreter runs, slow or not, and what only a GPU does."""
    run("slow or not slow", TRITON_INTERPRET="0")
