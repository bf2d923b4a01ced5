"""Arrays and files without names are compared row by row, and code to the last row that it has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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


ROBERTA = {"model_type": "roberta", "hidden_size": 16, "max_position_embeddings": 514,
           "pad_token_id": 1}  # fmt: skip
LLAMA = {"model_type": "llama", "head_dim": 16, "max_position_embeddings": 4096}


def position_ids(input_ids: Any) -> Any:
    return np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape)


def make_positions(tensor: Any, padding_idx: int) -> Any:
    kept = tensor.ne(padding_idx)  # of torch
    return kept.cumsum(1) * kept + padding_idx


def steps_from_row_2(input_ids: Any, past_key_values_length: int = 0) -> Any:
    return make_positions(input_ids, 1)


steps_from_row_2.__name__ = "positions"


def cached_positions(input_ids: Any, padding_idx: int, past_key_values_length: int = 0) -> Any:
    kept = input_ids != padding_idx
    return (np.cumsum(kept, axis=1) + past_key_values_length) * kept + padding_idx


def masked_positions(attention_mask: Any) -> Any:
    return np.broadcast_to(np.arange(attention_mask.shape[1]), attention_mask.shape)


def reversed_positions(attention_mask: Any) -> Any:
    return masked_positions(attention_mask)[:, ::-1]


def halves_of_positions(attention_mask: Any) -> Any:
    return masked_positions(attention_mask) / 2


@pytest.mark.parametrize(
    ("config", "code", "compared", "says"),
    [
        (ROBERTA, position_ids, 1, "rows 0, 1, 2, 3, 4, 0, .*: 2 too low where nothing is padded"),
        (ROBERTA, make_positions, 1, ""),
        (ROBERTA, cached_positions, 2, ""),
        (ROBERTA, steps_from_row_2, 2, "cached step: rows 259 against rows 2: 257 too low"),
        (ROBERTA, SimpleNamespace(position_ids=position_ids), 1, ": 2 too low"),
        (LLAMA, masked_positions, 1, ""),
        (LLAMA, reversed_positions, 1, "positions 0, 0, 0, 1, 2, .* against positions "),
        (LLAMA, halves_of_positions, 0, ""),
    ],
)
def test_a_function_of_masks_or_tokens_numbers_them(
    config: Any, code: Any, compared: int, says: str
) -> None:
    """As rows of a learned table, from its first; for a rotation from wherever a row begins."""
    found = posenc.diff(config, code)
    assert len([row for row in found.compared if ": position_ids (" in row]) == compared
    text = " ".join(row.text for row in found.rows)
    assert re.search(says, text) if says else not text
    fault = [*posenc.doctor(config, code).faults]
    assert all("number tokens as the model does" in one.change for one in fault)
    assert bool(fault) == bool(says)


def test_code_of_learned_rows_is_told_what_can_be_compared() -> None:
    found = posenc.diff(ROBERTA, lambda seq_len: np.zeros((seq_len, 16)))
    assert any("hand over its function of input_ids" in row for row in found.not_compared)


def test_a_check_takes_the_width_of_its_spec() -> None:
    def table(n: int, d: int) -> np.ndarray:
        return np.array(posenc.table(posenc.Sinusoidal(d), n))

    card = posenc.check(table, spec=posenc.Sinusoidal(32), laws=["calls"])
    assert card["calls"].status == "pass"
    assert posenc.check(table, spec=posenc.Sinusoidal(32), dim=64, laws=["calls"]).failures
    base = posenc.check(table, spec=posenc.Sinusoidal(32, base=100), laws=["calls"])
    assert base.failures
