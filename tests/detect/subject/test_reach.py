"""Nothing is claimed to have been asked that was not: the function itself keeps the book."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc

ROPE = posenc.RoPE(64, pairing="half")


class Book:
    """A right rotation that notes what it is called with."""

    def __init__(self, most: int = 2**31) -> None:
        self.calls: list[tuple[tuple[int, ...], str, np.ndarray, bool]] = []
        self.most = most

    def __call__(self, x: Any, positions: Any) -> Any:
        if x.shape[-2] > self.most:
            raise ValueError(f"more than {self.most} tokens")
        self.calls.append((x.shape, str(x.dtype), np.array(positions), x.flags.c_contiguous))
        rows = positions[:, None] if np.ndim(positions) == 2 else positions
        return posenc.rotate(ROPE, x, positions=rows)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("most", "seed"),
    [
        (2**31, 20),
        (600, 7),
    ],
)
def test_what_reach_says_was_asked(most: int, seed: int) -> None:
    book = Book(most)
    subject = posenc.ask(book)
    book.calls.clear()
    survey = subject.survey(ROPE, seed=seed)
    assert survey.agrees
    reach = survey.reach
    asked = np.unique(np.concatenate([np.ravel(call[2]) for call in book.calls]))
    assert reach.positions <= len(asked)
    assert set(range(reach.dense + 1)) <= set(asked.tolist())
    begun = np.arange(reach.dense + 1, int(reach.position) - reach.stretch, reach.stretch)
    empty = set(range(len(begun))) - set(((asked - reach.dense - 1) // reach.stretch).tolist())
    assert not empty, f"{len(empty)} of {len(begun)} stretches of {reach.stretch} were not asked"
    assert set(reach.lengths) <= {shape[-2] for shape, *_ in book.calls}
    assert max(reach.lengths) <= most
    assert set(reach.dtypes) <= {dtype for _, dtype, *_ in book.calls}
    assert reach.heads == max(shape[1] for shape, *_ in book.calls if len(shape) == 4)
    assert reach.batch <= max(shape[0] for shape, *_ in book.calls if len(shape) == 4)
    assert reach.calls >= len(book.calls)
    assert ("strides" in reach.kinds) <= any(not whole for *_, whole in book.calls)
    assert bool(reach.refused) == (most < 4_097)


@pytest.mark.costly
def test_time_that_is_short_shortens_the_claims() -> None:
    book = Book()
    subject = posenc.ask(book)
    book.calls.clear()
    survey = subject.survey(ROPE, seconds=0.05)
    lengths = {shape[-2] for shape, *_ in book.calls}
    assert survey.reach.late
    assert set(survey.reach.lengths) <= lengths
    assert len(survey.reach.lengths) < survey.reach.planned
    assert "time" in str(survey)
