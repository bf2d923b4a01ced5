"""What a type checker says of a program that uses posenc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """\
import numpy as np
import posenc
import posenc.plot
import posenc.torch
import torch
from posenc import scaling

rope = posenc.RoPE(64, pairing="half", scaling=scaling.Linear(2.0))
x = np.zeros((2, 4, 64), "float32")
t = torch.zeros(2, 4, 64)
cos, sin = posenc.cos_sin(rope, 4)
reveal_type(posenc.rotate(rope, x))
reveal_type(posenc.rotate(rope, t))
reveal_type(posenc.add(posenc.Sinusoidal(64), t))
reveal_type(posenc.apply_rotary(x, cos, sin, pairing="half"))
reveal_type(posenc.rerotate(rope, t, [0, 1, 2, 3], [1, 2, 3, 4]))
reveal_type(posenc.torch.PositionTable(posenc.Sinusoidal(64))(t))
reveal_type(posenc.torch.RotaryEmbedding(rope)(t, t))
reveal_type(posenc.torch.AttentionBias(posenc.ALiBi(4))(4))
reveal_type(rope.channels)
posenc.tabel
posenc.plot.tabel
posenc.rotate(rope, "x")
posenc.RoPE(64)
"""

EXPECTED = [
    r"numpy\.ndarray",
    *["Tensor"] * 2,
    r"numpy\.ndarray",
    *["Tensor"] * 2,
    r"tuple\[.*Tensor, \.\.\.\]",
    "Tensor",
    "Pairing",
    *["tabel"] * 2,
    "str",
    "pairing",
]


@pytest.mark.slow("__init__.py", "functional", "torch")  # a cold run reads torch's annotations
def test_a_checker_finds_what_is_misspelt_and_knows_what_comes_back(tmp_path: Path) -> None:
    """mypy alone: what PyPI has as pyright loads itself from elsewhere."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "MYPYPATH": str(ROOT / "src"),
            "MYPY_CACHE_DIR": str(tmp_path / "cache"),
        },
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("program.py:")]
    lines = PROGRAM.splitlines()
    asked = [n for n, line in enumerate(lines, 1) if "reveal" in line or n > len(lines) - 4]
    found = {int(line.split(":")[1]): line for line in said}
    assert sorted(found) == asked, done.stdout
    for number, pattern in zip(asked, EXPECTED, strict=True):
        assert re.search(pattern, found[number].partition(": ")[2]), found[number]
        assert 'type is "Any"' not in found[number]
