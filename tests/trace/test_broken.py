"""Broken models: each break is one. That the trace names it is held in test_trace."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("diffusers")

from tests.trace.broken import ROWS, Row  # noqa: E402

EFFECT = 1e-3  # of the largest output: 500 times the rounding of float32


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, marks=() if number % 25 == 0 else pytest.mark.slow("detect/trace"), id=row.name
        )
        for number, row in enumerate(ROWS)
    ],
)
def test_effective(row: Row) -> None:
    """A broken model answers otherwise than its twin, unless the row says that it is harmless."""
    for attention in row.paths:
        healthy, again, broken = (
            case.outputs()
            for case in (row.healthy(attention), row.healthy(attention), row.broken(attention))
        )
        assert torch.equal(healthy, again)
        change = ((broken - healthy).abs().max() / healthy.abs().max()).item()
        assert change < 1e-5 if row.harmless else change > EFFECT, (attention, change)


def test_enough() -> None:
    """Forty of ten families, on both paths of attention."""
    assert len({row.name for row in ROWS}) == len(ROWS) >= 40
    assert len({row.family for row in ROWS}) >= 10
    assert all(sum(path in row.paths for row in ROWS) >= 40 for path in ("eager", "sdpa"))
