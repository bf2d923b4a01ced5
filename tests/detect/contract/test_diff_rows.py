"""Arrays and files without names are compared row by row, and code to the last row that it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc

SPEC = posenc.Sinusoidal(16)


def rows(count: int, wrong: int | None = None) -> np.ndarray:
    table = np.array(posenc.table(SPEC, count))
    if wrong is not None:
        table[wrong] += 0.25
    return table


def made(table: np.ndarray) -> Callable[..., Any]:
    return lambda n: table[:n]


def looked_up(table: np.ndarray) -> Callable[..., Any]:
    return lambda positions: table[positions]


@pytest.mark.parametrize("form", [np.asarray, made, looked_up])
@pytest.mark.parametrize("count", [100, 333, 4500])
def test_the_last_row_is_asked(form: Callable[..., Any], count: int) -> None:
    """A table that ends is asked to its end, however many rows that is."""
    if form is made and count > 4097:
        count = 1000
    right = posenc.diff(form(rows(count)), SPEC)
    assert right.verdict == "nothing differs"
    assert f"1 compared to position {count - 1:,}" in "\n".join(right.lines()[:4])
    wrong = posenc.diff(form(rows(count, count - 1)), SPEC)
    assert [d.position for d in wrong.differences] == [count - 1]


def test_two_arrays_are_compared_to_the_end_of_the_shorter_one() -> None:
    same = posenc.diff(rows(5000), rows(5000))
    assert same.verdict == "nothing differs"
    assert "to position 4,999" in same.lines()[3]
    assert any("its row p is taken for position p" in remark for remark in same.remarks)
    apart = posenc.diff(rows(5000), rows(5000, 4998))
    assert (apart.exit_code, "4,998" in apart.differences[0].call) == (1, True)
    shorter = posenc.diff(rows(60), rows(64))
    assert "to position 59" in shorter.lines()[3]
    assert "table: rows from 60 on, which only one side has" in shorter.not_compared


def test_files_of_one_array_are_sides(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    for name, table in zip(names, (rows(64), rows(64, 40)), strict=True):
        np.save(name, table)
    assert posenc.diff(names[0], SPEC).verdict == "nothing differs"
    assert posenc.diff(*names).exit_code == 1
    np.save(names[1], np.zeros((2, 3, 4)))
    with pytest.raises(posenc.DataError, match=r"\(rows, dim\).*got \(2, 3, 4\)"):
        posenc.diff(*names)


def test_a_check_takes_the_width_of_its_spec() -> None:
    def table(n: int, d: int) -> np.ndarray:
        return np.array(posenc.table(posenc.Sinusoidal(d), n))

    card = posenc.check(table, spec=posenc.Sinusoidal(32), laws=["calls"])
    assert card["calls"].status == "pass"
    assert posenc.check(table, spec=posenc.Sinusoidal(32), dim=64, laws=["calls"]).failures
    base = posenc.check(table, spec=posenc.Sinusoidal(32, base=100), laws=["calls"])
    assert base.failures
