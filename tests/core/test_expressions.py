"""Expressions of rows: what they are worth, with powers of two among sums and products."""

from __future__ import annotations

from typing import Any

import pytest

from posenc._core.expressions import evaluate, parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 ** i", 8),
        ("2 ** i - 1", 7),
        ("2 ** i * 5 + 1", 41),
        ("40 // 2 ** i + 1", 6),
        ("2 ** (i - 1)", 4),
        ("2 ** 31 - 1", 2**31 - 1),
        ("2 ** 65", float("inf")),
    ],
)
def test_powers_of_two(text: str, expected: Any) -> None:
    assert evaluate(parsed(text), lambda _: 3) == expected


def test_no_other_base_has_powers() -> None:
    with pytest.raises(ValueError, match="no expression of a row"):
        evaluate(parsed("3 ** i"), lambda _: 3)
