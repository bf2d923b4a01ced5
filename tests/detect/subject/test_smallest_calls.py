"""A failure as a program: it shows the difference, and shows none where the function is right."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc

MODULE = """
import numpy as np

SLOPES = 2.0 ** -np.arange(1.0, 9.0)


def turn(x, positions, sign=1):
    n = x.shape[-1] // 2
    places = sign * np.asarray(positions, dtype=np.float64)
    theta = np.multiply.outer(places, 1e4 ** (-np.arange(n) / n))
    theta = theta[:, None] if theta.ndim == 3 else theta
    a, b = x[..., :n], x[..., n:]
    cos, sin = np.cos(theta), np.sin(theta)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def right_length(x, positions):
    return turn(x, positions)


def length(x, positions):
    return turn(x, np.asarray(positions) + (x.shape[-2] == 17))


right_strides = right_head = right_length


def strides(x, positions):
    if not x.flags.c_contiguous:
        x = np.ravel(x, order="K").reshape(x.shape)
    return turn(x, positions)


def head(x, positions):
    out = turn(x, positions)
    if x.ndim == 4 and x.shape[1] > 32:
        out[:, 32] = turn(x[:, 32:33], positions, -1)[:, 0]
    return out


def right_keys(q, k, positions):
    return turn(q, positions), turn(k, positions)


def keys(q, k, positions):
    return turn(q, positions), turn(k, positions, -1)


def right_slope(q_positions, k_positions, slopes=SLOPES):
    far = np.abs(np.asarray(k_positions)[None] - np.asarray(q_positions)[:, None])
    return -slopes[:, None, None] * far


def slope(q_positions, k_positions):
    slopes = SLOPES.copy()
    slopes[3] *= 1.02
    return right_slope(q_positions, k_positions, slopes)
"""
HALF = posenc.RoPE(64, pairing="half")
NUMBERS = re.compile(r"is (?:np\.float64\()?(-?[\d.e+-]+)\)? where (-?[\d.e+-]+) is expected")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "faulty_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("faulty_functions")
    sys.modules.pop("faulty_functions", None)


def numbers(script: str) -> tuple[float, float]:
    """What a script prints: the number that is there, and the one that is expected."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(script, {"__name__": "__main__"})
    told = NUMBERS.search(printed.getvalue())
    assert told, printed.getvalue()
    return float(told[1]), float(told[2])


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("length", "17 tokens at positions 0 to 16"),
        ("strides", "not contiguous"),
        ("head", "33 heads"),
        ("keys", "key"),
        ("slope", "one query"),
    ],
)
def test_a_script_shows_the_difference_and_no_other(
    name: str, smallest: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bias = name == "slope"
    subject = posenc.ask(getattr(module, name), **({"kind": "bias"} if bias else {}))
    survey = subject.survey(posenc.ALiBi(8) if bias else HALF)
    assert not survey.agrees
    assert smallest in str(survey)
    script = survey.call.script()
    assert len(script.splitlines()) <= 10
    there, expected = numbers(script)
    assert abs(there - expected) > 1e-4
    monkeypatch.setattr(module, name, getattr(module, f"right_{name}"))
    right, still = numbers(script)
    assert still == expected
    assert right == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_positions_counted_from_the_first_differ_at_one_token() -> None:
    """A sequence that begins at 0 agrees, so its rows do not say which token is the least."""
    rope = posenc.RoPE(8, pairing="half")

    def begun(x: Any, positions: Any) -> Any:
        return posenc.rotate(rope, x, positions=positions - positions.min())

    choice = posenc.ask(begun, dim=8).survey(rope, end=5000)
    assert str(choice.call) == "smallest call: one token at position 1"
