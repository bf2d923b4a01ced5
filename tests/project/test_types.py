"""What type checkers say of a program that uses posenc: what comes back, and what is misspelt."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RIGHT = """\
from typing import Literal, assert_type

import numpy as np
import torch

import posenc
from posenc import scaling

rope = posenc.RoPE(64, pairing="half", scaling=scaling.Linear(2.0))
x = np.zeros((2, 4, 64))
t = torch.zeros(2, 4, 64)
y: "np.ndarray[tuple[int, int, int], np.dtype[np.float64]]" = posenc.rotate(rope, x)
cos, sin = posenc.cos_sin(rope, 4)
z: "np.ndarray[tuple[int, int, int], np.dtype[np.float64]]" = posenc.apply_rotary(
    x, cos, sin, pairing="half"
)
assert_type(posenc.rotate(rope, t), torch.Tensor)
assert_type(posenc.add(posenc.Sinusoidal(64), t), torch.Tensor)
assert_type(posenc.rerotate(rope, t, [0, 1, 2, 3], [1, 2, 3, 4]), torch.Tensor)
assert_type(posenc.torch.PositionTable(posenc.Sinusoidal(64))(t, offset=3), torch.Tensor)
rotary = posenc.torch.RotaryEmbedding(rope)
assert_type(rotary(t), torch.Tensor)
assert_type(rotary(t, t), tuple[torch.Tensor, torch.Tensor])
assert_type(rotary(t, t, v=t, offset=3), tuple[torch.Tensor, torch.Tensor, torch.Tensor])
assert_type(posenc.torch.AttentionBias(posenc.ALiBi(4))(4), torch.Tensor)
assert_type(posenc.torch.RelativeAttention(posenc.Shaw(64, clip=4))(t, t), torch.Tensor)
for spec in (rope, posenc.XPos(64, pairing="interleaved", scale=512)):
    assert_type(spec.pairing, posenc.Pairing)
    assert_type(spec.pairing.order, Literal["half", "interleaved"])
assert_type(rope.channels, posenc.Pairing)
assert_type(posenc.explain({"model_type": "gpt2"}), posenc.Reading)
at, pe, alibi = torch.arange(4), posenc.Sinusoidal(64), posenc.ALiBi(4)
assert_type(posenc.table(pe, at), torch.Tensor)
assert_type(posenc.cos_sin(rope, at), tuple[torch.Tensor, torch.Tensor])
assert_type(posenc.bias(alibi, at), torch.Tensor)
assert_type(posenc.bias(alibi, 4, at), torch.Tensor)
assert_type(posenc.positions.from_mask(at), torch.Tensor)
assert_type(posenc.positions.packed(at), torch.Tensor)
for array in (
    *(posenc.table(pe, 4), posenc.table(pe, [0, 2]), posenc.bias(alibi, range(4))),
    *(posenc.positions.arange(4), posenc.positions.grid((2, 3)), *posenc.cos_sin(rope, 4)),
    *(posenc.positions.from_mask(np.ones((1, 4))), posenc.positions.shard(8, world=2, rank=0)),
):
    assert_type(array, np.ndarray)
assert_type(posenc.from_json("{}", posenc.RoPE), posenc.RoPE)
print(y, z, posenc.infer, posenc.pairing, posenc.plot.table)
"""
WRONG = """\
print(posenc.tabel)
print(posenc.plot.tabel)
print(posenc.scaling.Yarm)
print(posenc.torch.RotaryEmbeding)
print(rope.bse)
posenc.rotate(rope, "x")
posenc.RoPE(64)
posenc.RoPE(64, pairing="hlaf")
posenc.RoPE(64, pairing="half", theta=1e4)
posenc.Sinusoidal(64, order="sincos")
posenc.Sinusoidal(64, 5000)
posenc.rotate(rope, t, position_ids=t)
posenc.rotate(rope, t, t)
posenc.add(posenc.Sinusoidal(64), t, offst=3)
posenc.table(rope, 4)
posenc.table(pe, 4).nothing
posenc.positions.arange(4).nothing
posenc.from_json("{}", posenc.RoPE).nothing
posenc.from_json("{}", "RoPE")
rotary(t, t, ofset=3)
posenc.torch.PositionTable(posenc.Sinusoidal(64))(t, offst=3)
"""


def checked(command: list[str], folder: Path, *, lines: str, **variables: str) -> set[int]:
    """The lines of which a checker reports an error."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
    )
    found = re.findall(lines, done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return set(map(int, found))


def mypy(folder: Path) -> set[int]:
    return checked(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"],
        folder,
        lines=r"^program\.py:(\d+): error",
        MYPYPATH=str(ROOT / "src"),
        MYPY_CACHE_DIR=str(folder / "cache"),
    )


def pyright(folder: Path) -> set[int]:
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is no Python package: npm install -g pyright")
    settings = {
        "include": ["program.py"],
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT / "src")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return checked(
        [program, "--pythonpath", sys.executable], folder, lines=r"program\.py:(\d+):\d+ - error"
    )


@pytest.mark.slow("__init__.py", "functional", "torch", "encodings/rotary")  # minutes where cold
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_checker_knows_what_comes_back_and_finds_what_is_misspelt(
    checker: Callable[[Path], set[int]], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(RIGHT + WRONG)
    begin = RIGHT.count("\n") + 1
    assert checker(tmp_path) == set(range(begin, begin + WRONG.count("\n")))
