"""Curves against length compare lengths, and not passages of the text."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_study.tasks.text_lm import TextLM


@pytest.mark.parametrize("examples", [2, 192])
def test_every_length_is_tested_on_the_same_characters(examples: int) -> None:
    task = TextLM({"factors": "1 2 4 8", "examples": examples})
    block = max(task.lengths(8))
    rng = np.random.default_rng(0)
    starts = {}
    for factor in task.factors:
        for length in task.lengths(factor):
            ids = task.draw(rng, 1, length).target.ids.numpy()
            per = block // length
            assert ids.shape == (len(ids), length)
            starts[length] = ids.reshape(-1, per * length)
    longest = starts[block]
    for length, rows in starts.items():
        assert len(rows) == len(longest), length
        np.testing.assert_array_equal(rows, longest[:, : rows.shape[1]], err_msg=str(length))
        assert rows.shape[1] > 0.75 * block
