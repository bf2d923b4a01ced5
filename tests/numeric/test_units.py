"""Positions that count parts, halves, sixteenths, thirtieths of a second: exact all the same."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import posenc
from posenc import RoPE, positions
from posenc.scaling import Unit
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

GOLDEN = Path(__file__).parents[1] / "golden" / "variable_positions.json"
UNITS = ["1/2", "1/16", "1/30", "2", "1001/30000"]
PLACES = [0, 1, 7, 31, 2**20 + 1, 2**31 - 1, -5]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_parts_are_as_exact_as_whole_positions(unit: str, dtype: str) -> None:
    part = Fraction(unit)
    with mpmath.workdps(40):
        f = [mpmath.power(10_000, -mpmath.mpf(j) / 4) for j in range(4)]
        size = mpmath.mpf(part.numerator) / part.denominator
        expected = np.array([[float(mpmath.sin(p * size * a)) for a in f] for p in PLACES])
    _, sin = posenc.cos_sin(RoPE(8, pairing="half", scaling=Unit(unit)), PLACES, dtype=dtype)
    assert_close(sin, expected, ABSOLUTE[dtype] + PER_POSITION * np.abs(PLACES)[:, None])


@pytest.mark.parametrize("kernel", ["reference", "cpu"])
def test_whole_steps_are_those_without_a_unit(kernel: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 8)).astype("float32")
    plain, parts = RoPE(8, pairing="half"), RoPE(8, pairing="half", scaling=Unit("1/16"))
    whole = posenc.rotate(plain, x, offset=3, kernel=kernel)
    steps = posenc.rotate(parts, x, positions=16 * (np.arange(9) + 3), kernel=kernel)
    assert_close(steps, whole, 2e-7 * float(np.abs(whole).max()))
    moved = posenc.rerotate(parts, steps, 16 * (np.arange(9) + 3), 16 * np.arange(9) + 8)
    halves = RoPE(8, pairing="half", scaling=Unit("1/2"))
    assert_close(moved, posenc.rotate(halves, x, positions=2 * np.arange(9) + 1), 1e-6)


def test_other_scalings_act_before_the_unit() -> None:
    """A rule that compares wavelengths with an original length compares whole positions."""
    scaling = posenc.scaling.Llama3(factor=8, original_length=64)
    plain = RoPE(8, pairing="half", scaling=scaling)
    parts = plain.replace(scaling=(scaling, Unit(Fraction(2, 32))))
    assert_close(posenc.frequencies(parts) * 16, posenc.frequencies(plain), 1e-15)
    assert posenc.from_json(posenc.to_json(parts)) == parts
    with pytest.raises(posenc.SpecError, match="Unit before Llama3"):
        plain.replace(scaling=(Unit("1/16"), scaling))


def test_the_classic_arithmetic_has_the_bits_of_positions_that_are_floats() -> None:
    classic = RoPE(8, pairing="half", phase="float32", scaling=Unit("1/16"))
    f = np.float32(1) / np.float32(10_000) ** (np.arange(4, dtype=np.float32) / np.float32(4))
    p = np.array([1, 33, 1001], dtype=np.float32) / np.float32(16)
    _, sin = posenc.cos_sin(classic, np.array([1, 33, 1001]))
    assert (sin == np.sin(p[:, None] * f)).all()
    with pytest.raises(posenc.SpecError, match="a power of two under phase='float32'"):
        posenc.cos_sin(classic.replace(scaling=Unit("1/3")), [1])


def test_variable_positions_are_those_of_the_authors() -> None:
    for row in json.loads(GOLDEN.read_text())["rows"]:
        layout = [tuple(entry) if isinstance(entry, list) else entry for entry in row["layout"]]
        assert positions.variable(layout, unit=row["unit"]).tolist() == row["units"]


@pytest.mark.parametrize(
    "unit", ["2/4", "0", "1/0", "-1", "", "0.5", 0.5, True, "1e3", Fraction(0)], ids=repr
)
def test_units_that_are_none(unit: Any) -> None:
    with pytest.raises(posenc.SpecError, match="unit"):
        Unit(unit)


def test_layouts_that_cannot_be() -> None:
    calls: list[Any] = [
        lambda: positions.variable([1], unit="2/3"),
        lambda: positions.variable([1], unit=0.25),  # type: ignore[arg-type]
        lambda: positions.variable([1.5], unit="1/4"),  # type: ignore[list-item]
        lambda: positions.variable([(1, 2)], unit="1/4"),  # type: ignore[list-item]
    ]
    for call in calls:
        with pytest.raises(posenc.ArgumentError, match=r"positions\.variable"):
            call()
