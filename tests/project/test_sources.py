"""The worked examples of the explanations that started this project, and their mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import posenc
from posenc import Ladder, Sinusoidal
from tests.tolerances import assert_close

TWO_DIGITS = 0.005001


@pytest.mark.parametrize(
    ("position", "row"),
    [
        (0, [0, 1, 0, 1]),
        (1, [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]),
        (2, [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]),
    ],
)
def test_width_4(position: int, row: list[float]) -> None:
    assert_close(posenc.table(Sinusoidal(4), [position])[0], np.array(row), 1e-7)


BOOK = {
    1: "0.84 0.54 0.53 0.85 0.31 0.95 0.18 0.98 0.10 1.00 0.06 1.00 0.03 1.00 0.02 1.00",
    2: "0.91 -0.42 0.90 0.43 0.59 0.81 0.35 0.94 0.20 0.98 0.11 0.99 0.06 1.00 0.04 1.00",
}
EMBEDDING = "0.02 0.15 0.31 0.08 -0.26 0.21 -0.58 1.12 -0.38 -0.91 0.52 0.87 -0.17 0.73 -0.38 0.18"


def numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in text.split()])


@pytest.mark.parametrize("position", BOOK)
def test_classify_the_book(position: int) -> None:
    row = posenc.table(Sinusoidal(16, base=100), [position])[0]
    assert_close(row, numbers(BOOK[position]), TWO_DIGITS)


def test_the_sum_of_book_and_its_position() -> None:
    x = numbers(EMBEDDING)[None, :]
    total = posenc.add(Sinusoidal(16, base=100), x, offset=2)
    assert_close(total[0], numbers(EMBEDDING) + numbers(BOOK[2]), TWO_DIGITS)


def test_the_printed_0_41_is_0_43() -> None:
    row = posenc.table(Sinusoidal(16, base=100), [2])[0]
    assert round(float(row[3]), 2) == 0.43


def test_from_a_value_back_to_the_position() -> None:
    wavelength = posenc.wavelengths(Sinusoidal(16, base=100))[1]
    assert round(wavelength / (2 * math.pi) * math.acos(0.85), 4) == 0.9866


def test_the_slowest_wavelength_is_not_two_pi_n() -> None:
    for dim in (4, 16, 512):
        slowest = posenc.wavelengths(Sinusoidal(dim))[-1]
        assert_close(slowest, np.array(2 * math.pi * 10_000 ** ((dim - 2) / dim)), 1e-9)
        assert slowest < 2 * math.pi * 10_000 * 0.99


def test_the_exercise_of_width_5120() -> None:
    printed = posenc.table(Sinusoidal(5120), [7, 929_505])[:, 1088]
    assert_close(printed, np.array([0.835354, 0.488814]), 5e-7)
    lost_factor = posenc.table(Sinusoidal(5120, ladder=Ladder(denominator="d")), [7])[0, 1088]
    assert math.floor(float(lost_factor) * 1e6) / 1e6 == 0.488814
    assert_close(lost_factor, np.array(0.48881494), 5e-9 + 6e-8)


def test_every_dimension_of_a_pair_shares_one_wavelength() -> None:
    table = posenc.table(Sinusoidal(8), 4000, dtype="float64")
    for j, frequency in enumerate(posenc.frequencies(Sinusoidal(8))):
        angle = np.arange(4000) * frequency
        assert_close(table[:, 2 * j], np.sin(angle), 1e-11)
        assert_close(table[:, 2 * j + 1], np.cos(angle), 1e-11)


@pytest.mark.parametrize("dim", [4, 5, 8, 16, 20, 50, 64, 512, 5120])
@pytest.mark.parametrize("base", [100, 10_000])
def test_every_width_and_base_of_the_texts(dim: int, base: int) -> None:
    table = posenc.table(Sinusoidal(dim, base=base), [0, 1, 49])
    channel = np.arange(dim)
    angle = np.array([[0], [1], [49]]) / base ** (2 * (channel // 2) / dim)
    exact = np.where(channel % 2 == 0, np.sin(angle), np.cos(angle))
    assert_close(table, exact, 1.5e-7)
