"""`posenc infer`: what it prints, and what it says of mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import posenc
from posenc.cli import app

MODULE = """
import numpy as np

number = 3


def apply(x, positions):
    n = x.shape[-1] // 2
    angle = positions[:, None] * 50_000.0 ** (-np.arange(n) / n)
    a, b = x[..., :n], x[..., n:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def bound(x, positions):  # to heads of 96
    angle = positions[:, None] * 50_000.0 ** (-np.arange(48) / 48)
    a, b = x[..., :48], x[..., 48:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def nothing(x, positions):
    return x * 1.0


def fails(x, positions):
    raise RuntimeError("no such luck")


def slopes(q, k):
    return -(2.0 ** -np.arange(1, 9))[:, None, None] * abs(q[:, None] - k)


class Table:
    @staticmethod
    def rows(positions):
        angle = positions[:, None] * 10_000.0 ** (-np.arange(16) / 16)
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["infer", *arguments])


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "somebodys.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield
    sys.modules.pop("somebodys", None)


def test_rotations() -> None:
    result = run("somebodys:apply", "--dim", "64")
    assert result.exit_code == 0
    assert result.output.startswith("RoPE(64, pairing='half', base=50000.0)\n")
    found = json.loads(run("somebodys:apply", "--dim", "64", "--json").output)
    assert found["matches"] is True
    spec = posenc.from_json(json.dumps(found["spec"]))
    assert spec == posenc.RoPE(64, pairing="half", base=50_000)


def test_the_width_of_code_that_has_one_is_found_out() -> None:
    """By the sizes of which its own error speaks; a width that is stated is not changed."""
    assert run("somebodys:bound").output.startswith("RoPE(96, pairing='half', base=50000.0)\n")
    assert "say --dim" in run("somebodys:bound", "--dim", "64").output
    checked = CliRunner().invoke(app, ["check", "somebodys:bound", "--laws", "norm,shift"])
    assert checked.exit_code == 0
    assert "2 pass" in checked.output
    assert (
        "say --dim" in CliRunner().invoke(app, ["check", "somebodys:bound", "--dim", "64"]).output
    )


def test_tables_and_biases() -> None:
    assert run("somebodys:Table.rows").output.startswith("Sinusoidal(32, order='sin_cos')\n")
    assert run("somebodys:slopes").output.startswith("ALiBi(8)\n")


def test_recordings(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(100, 32))
    y = posenc.rotate(posenc.RoPE(32, pairing="interleaved"), x)
    np.savez(tmp_path / "all.npz", input=x, output=y, positions=np.arange(100))
    assert run("all.npz").output.startswith("RoPE(32, pairing='interleaved')\n")
    np.savez(tmp_path / "part.npz", input=x, output=y)
    result = run("part.npz")
    assert result.exit_code == 1
    assert "input, output, positions, got input, output" in result.output


def test_no_spec_is_exit_code_1() -> None:
    result = run("somebodys:nothing", "--dim", "8")
    assert result.exit_code == 1
    assert "equal tokens come out equal" in result.output


def test_pickles_in_recordings_are_not_opened(tmp_path: Path) -> None:
    bad = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "bad.npz", input=bad, output=bad, positions=bad)
    result = run("bad.npz")
    assert result.exit_code == 1
    assert "pickled Python objects" in result.output
    (tmp_path / "text.npz").write_text("no zip")
    assert run("text.npz").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["somebodys"], 2, "MODULE:NAME"),
        (["nowhere:apply"], 2, "no module 'nowhere'"),
        (["somebodys:aply"], 2, "Did you mean 'apply'"),
        (["somebodys:number"], 2, "got int: 3"),
        (["somebodys:fails", "--dim", "8"], 2, "no such luck"),
        (["somebodys:apply", "--dim", "8", "--base", "0"], 2, "not positive"),
        (["somebodys:apply", "--dim", "8", "--unit", "0"], 2, "not positive"),
        (["somebodys:apply", "--dim", "8", "--kind", "tabel"], 2, "table"),
        (["nowhere.npz"], 2, "is not there"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert words in result.output
    assert "Traceback" not in result.output
