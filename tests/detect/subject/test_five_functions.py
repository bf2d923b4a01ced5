"""Five right functions in the commonest shapes: each command understands each, without options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import posenc
from posenc.cli import app
from posenc.testing import load
from tests.drawing import drawn

MODULE = """
import torch

speeds = 1.0 / 10_000 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)


def waves(positions):
    angles = positions.to(torch.float64)[..., None] * speeds
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def turned(x, cos, sin):
    a, b = x.double().chunk(2, dim=-1)
    return (x.double() * cos + torch.cat([-b, a], dim=-1) * sin).to(x.dtype)


def bhsd(q, positions):
    return turned(q, *waves(positions))


def bshd(q, input_pos):
    return turned(q, *(wave[:, None] for wave in waves(input_pos)))


def flat(positions, query):
    return turned(query, *(wave[:, None] for wave in waves(positions)))


def pair(q, k, positions):
    return bhsd(q, positions), bhsd(k, positions)


def cos_sin(position_ids):
    return tuple(wave.float() for wave in waves(position_ids))
"""
FUNCTIONS = ("bhsd", "bshd", "flat", "pair", "cos_sin")
SPEC = posenc.RoPE(64, pairing="half")


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("torch")
    (tmp_path / "five.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield
    sys.modules.pop("five", None)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn(FUNCTIONS, 2, "detect/subject", "detect/infer"))
def test_infer_names_its_spec(name: str) -> None:
    inferred = run("infer", f"five.py:{name}")
    assert inferred.exit_code == 0, inferred.output
    assert inferred.output.startswith("RoPE(64, pairing='half')"), inferred.output


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn(FUNCTIONS, 2, "detect/subject", "detect/contract"))
def test_diff_sees_no_difference(name: str) -> None:
    compared = run("diff", posenc.to_json(SPEC), f"five.py:{name}")
    assert compared.exit_code == 0, compared.output


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn(FUNCTIONS, 1, "detect/subject", "testing"))
def test_three_commands_print_one_reach(name: str) -> None:
    target, spec = f"five.py:{name}", posenc.to_json(SPEC)
    inferred, held = run("infer", target), run("check", target, "--laws", "calls", "--spec", spec)
    compared = run("diff", spec, target)
    lines = posenc.ask(load(target)).survey(SPEC).reach.lines()
    assert held.exit_code == 0, held.output
    assert [line.strip() for line in held.output.splitlines()][-len(lines) :] == lines
    assert "\n".join(f"  {line}" for line in lines) in inferred.output
    assert "; ".join(lines) in " ".join(compared.output.split())


FAULTY = """
import numpy as np


def turned(x, places, width=64):
    theta = places[:, None] * 1e4 ** (-np.arange(32) / 32)
    a, b = x[..., :32], x[..., 32:]
    cos, sin = np.cos(theta), np.sin(theta)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def strides(x, positions):
    return turned(x if x.flags.c_contiguous else np.ravel(x, order="K").reshape(x.shape), positions)


def length(x, positions):
    return turned(x, positions + (len(positions) == 17))


def clamped(x, positions):
    return turned(x, np.minimum(positions, 30_000))


def nan(x, positions):
    return turned(x, positions) * np.nan


def bias(q_positions, k_positions):
    if len(q_positions) == len(k_positions):
        q_positions = k_positions = np.arange(len(q_positions))
    slopes = 2.0 ** -np.arange(1.0, 9.0)
    return -slopes[:, None, None] * abs(q_positions[:, None] - k_positions)
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("strides", "not contiguous"),
        ("length", "17 tokens at positions 0 to 16"),
        ("clamped", "one token at position 30,001"),
        ("bias", "queries at positions"),
        ("nan", "no finite numbers"),
    ],
)
def test_check_meets_what_laws_do_not(name: str, words: str) -> None:
    Path("five.py").write_text(FAULTY)
    spec = posenc.to_json(posenc.ALiBi(8) if name == "bias" else SPEC)
    held = run("check", f"five.py:{name}", "--laws", "calls", "--spec", spec)
    assert (held.exit_code, words in held.output) == (1, True), held.output


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn(FUNCTIONS, 1, "detect/subject", "testing"))
def test_check_holds_the_laws_of_its_kind(name: str) -> None:
    held = run("check", f"five.py:{name}")
    assert held.exit_code == 0, held.output


@pytest.mark.costly
@pytest.mark.parametrize("name", ["bhsd", "cos_sin"])
def test_infer_and_check_find_the_wrong_base(name: str) -> None:
    text = Path("five.py").read_text().replace("10_000", "20_000")
    Path("five.py").write_text(text)
    target = f"five.py:{name}"
    assert "base=20000.0" in run("infer", target).output
    assert run("check", target, "--spec", posenc.to_json(SPEC), "--laws", "calls").exit_code == 1


@pytest.mark.costly
@pytest.mark.parametrize("name", ["bhsd", "cos_sin"])
def test_diff_sees_the_wrong_base(name: str) -> None:
    Path("five.py").write_text(Path("five.py").read_text().replace("10_000", "20_000"))
    assert run("diff", posenc.to_json(SPEC), f"five.py:{name}").exit_code == 1
