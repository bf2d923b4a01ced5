"""Nothing is claimed to have been asked that was not: the function itself keeps the book."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import posenc
from posenc import testing
from tests.detect.subject import shapes

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


def turned(q: np.ndarray, positions: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    angles = np.asarray(positions)[..., None] * speeds
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = np.split(q, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(q.dtype)


@pytest.mark.costly
def test_check_without_a_spec_says_the_rule_as_infer_does() -> None:
    speeds = 1e4 ** (-np.arange(8) / 8)
    backward = speeds * np.where(np.arange(8) == 5, -1, 1)

    def odd(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return turned(q, positions, backward)

    def capped(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return turned(q, np.minimum(positions, 999), speeds)

    rule = "RoPE(16, pairing='half')"
    for code, words in ((odd, f"{rule}, but pair 5 turns backward"),
                        (capped, "smallest call: one token at position 1,000")):  # fmt: skip
        card = testing.check(testing.adapt(code, dim=16), laws=["calls"])
        assert not card.passed
        assert any(words in line for line in card.lines())
        assert card.reach is not None
    assert card.reach.lines() == posenc.infer_spec(capped, dim=16).reach.lines()  # type: ignore[union-attr]


def test_what_is_held_against_itself_is_said_so() -> None:
    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
        away = np.abs(q_positions[:, None] - k_positions)
        return -(away**0.5)[None].repeat(2, axis=0)

    reach = testing.check(testing.adapt(bias, heads=2), laws=["calls"]).reach
    assert reach is not None
    assert reach.lines()[0].startswith("agrees with its own plain calls, of one row and head")


@pytest.mark.costly
def test_a_part_of_a_head_and_positions_in_halves_are_called_so() -> None:
    rope = posenc.RoPE(16, pairing="half")
    speeds = 1e4 ** (-np.arange(8) / 8)

    def part(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
        inner = turned(q[..., :8], positions, 1e4 ** (-np.arange(4) / 4))
        return np.concatenate([inner, q[..., 8:]], axis=-1)

    def half(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
        near = np.minimum(positions, 60_000).astype(np.float16)
        return turned(q, np.where(positions > 60_000, positions, near), speeds)

    for code, words in ((part, "16 against a partial rotation, of 8 of 16 channels"),
                        (half, "position p against positions held in float16")):  # fmt: skip
        assert any(words in row.text for row in posenc.diff(rope, code).rows)


def test_one_position_that_half_precision_would_move_is_named_alone() -> None:
    """2,049 becomes 2,048 in float16, but so do others."""

    def rotate(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
        near = np.where(positions == 2049, 2048, positions)
        return turned(q, near, 1e4 ** (-np.arange(8) / 8))

    (row,) = posenc.diff(posenc.RoPE(16, pairing="half"), rotate).rows
    assert "2049 is taken for 2048; " in row.text


def test_code_that_counts_tokens_is_not_said_to_have_met_repeated_ones() -> None:
    """It is asked in whole sequences, so that a mask which it does not read is not told."""

    def rotate(x: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
        return turned(x, np.arange(attention_mask.shape[-1]), 1e4 ** (-np.arange(8) / 8))

    rope = posenc.RoPE(16, pairing="half")
    counted = posenc.ask(rotate, dim=16).survey(rope)
    assert counted.agrees
    placed = posenc.ask(lambda x, positions: posenc.rotate(rope, x, positions=positions), dim=16)
    for kind in ("repeated positions", "jumps", "falling positions", "rows that differ"):
        assert (kind in counted.reach.kinds, kind in placed.survey(rope).reach.kinds) == (
            False,
            True,
        )


def test_a_table_that_is_cut_is_asked_as_far_as_it_goes() -> None:
    """Beyond its last row this code answers with no tokens, or with one row for several."""
    both = posenc.cos_sin(ROPE, np.arange(8192))
    phasors = torch.from_numpy(both[0] + 1j * both[1])

    def apply(xq: Any, xk: Any, start_pos: int) -> Any:
        row = phasors[start_pos : start_pos + xq.shape[1]][None, :, None]

        def one(x: Any) -> Any:
            pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * row).flatten(-2).to(x.dtype)

        return one(xq), one(xk)

    survey = posenc.ask(apply, dim=64).survey(ROPE.replace(pairing="interleaved"))
    assert survey.agrees
    assert survey.reach.position == 8191


class KeptRows(torch.nn.Module):
    """Cosines and sines of a fixed number of rows, cut to a length."""

    def __init__(self, rows: int = 3000) -> None:
        super().__init__()
        angles = torch.arange(rows)[:, None] * 1e4 ** (-torch.arange(32) / 32)
        both = torch.cat([angles, angles], -1)
        self.register_buffer("cos_cached", both.cos())
        self.register_buffer("sin_cached", both.sin())

    def forward(self, x: torch.Tensor, seq_len: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cos_cached[:seq_len].to(x.dtype), self.sin_cached[:seq_len].to(x.dtype)


def unread(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):  # type: ignore[no-untyped-def]
    return shapes.apply_cos_sin(q, k, cos, sin, unsqueeze_dim)


def backward(q, k, cos, sin, position_ids=None):  # type: ignore[no-untyped-def]
    return shapes.apply_cos_sin(q, k, cos, -sin)


def rows_of(position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = shapes._tables(position_ids)
    return cos.float(), sin.float()


def test_tables_are_asked_to_their_end_and_positions_that_nobody_reads_hide_no_pair() -> None:
    rope = posenc.RoPE(64, pairing="half")
    for code in (KeptRows, (KeptRows(), shapes.apply_gathered)):
        reach = posenc.infer(code, dim=64).reach
        assert (reach.position, reach.differs) == (2999 if code is KeptRows else 2047, None)
    found = posenc.infer((rows_of, unread), dim=64)
    assert (found.spec, found.matches) == (rope, True)
    assert posenc.diff(rope, (rows_of, backward)).differences


def view(x: torch.Tensor, *, input_pos: torch.Tensor) -> torch.Tensor:
    """As torchtune has it: in another layout its view deals rows to whichever tokens."""
    angles = input_pos[..., None].double() * shapes.T_INV
    cos, sin = (part.view(-1, x.size(1), 1, 32) for part in (angles.cos(), angles.sin()))
    a, b = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)


def test_a_layout_that_code_is_not_made_for_is_no_fault_of_it() -> None:
    found = posenc.infer(view, dim=64)
    assert (found.spec, found.matches) == (posenc.RoPE(64, pairing="interleaved"), True)
    short = posenc.infer(lambda x, *, input_pos: view(x, input_pos=input_pos.clamp(max=7)), dim=64)
    assert not short.matches


def test_a_score_of_one_row_and_heads_of_its_own_are_no_faults() -> None:
    def score_mod(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + (kv_idx - q_idx) * 2.0 ** -(h + 1)

    def bucket(relative_position: torch.Tensor) -> torch.Tensor:
        return relative_position.abs().clamp(max=20)

    laws = ["shift", "rows", "repeat"]
    for code in (score_mod, bucket):
        card = testing.check(testing.adapt(code, "bias"), laws=laws)
        assert [result.status for result in card.results] == ["pass", "not offered", "pass"]
    card = testing.check(testing.adapt(bucket, "bias", heads=8), laws=laws)
    assert card.results[0].status == "fail"
