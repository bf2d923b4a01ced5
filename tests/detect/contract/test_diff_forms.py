"""`diff` asks code of any form without an option, and says how far as the survey does."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import posenc
from posenc.cli import app
from posenc.detect.subject.ask import protocol
from posenc.detect.subject.smallest import smallest
from tests.drawing import drawn

SPEC = posenc.RoPE(64, pairing="half")


def _tables(positions: Any) -> tuple[np.ndarray, np.ndarray]:
    angles = np.asarray(positions)[..., None] * 1e4 ** -(np.arange(32) / 32)
    return np.cos(angles), np.sin(angles)


def _turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = x[..., :32], x[..., 32:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def bhsd(q: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return _turned(q, *_tables(positions))


def bshd(q: np.ndarray, input_pos: np.ndarray) -> np.ndarray:
    return _turned(q, *(t[..., None, :] for t in _tables(input_pos)))


def flat(positions: np.ndarray, query: np.ndarray) -> np.ndarray:
    heads = query.reshape(len(query), -1, 64)
    return _turned(heads, *(t[:, None] for t in _tables(positions))).reshape(query.shape)


def pair(q: np.ndarray, k: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return bhsd(q, positions), bhsd(k, positions)


def cos_sin(position_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _tables(position_ids)


@pytest.mark.parametrize(
    "code", drawn([bhsd, bshd, flat, pair, cos_sin], 3, "detect/contract", "detect/subject")
)
def test_a_function_of_any_form_is_asked_without_options(code: Any) -> None:
    found = posenc.diff(SPEC, code)
    assert found.verdict == "nothing differs", found.lines()
    subject = posenc.ask(code)
    (told,) = found.compared
    assert f", {subject.how}: " in told
    for line in subject.survey(SPEC).reach.lines():
        assert line in told
    (row, *_) = posenc.diff(SPEC.replace(base=5e5), code).differences
    assert (row.field, row.call) == ("base", "smallest call: one token at position 1")
    assert posenc.diff(SPEC, subject).verdict == "nothing differs"


def test_the_command_asks_them_too_and_prints_the_smallest_call() -> None:
    name = "tests.detect.contract.test_diff_forms:flat"
    text = '{"type": "RoPE", "dim": 64, "pairing": "half"}'
    right = CliRunner().invoke(app, ["diff", text, name])
    wrong = CliRunner().invoke(app, ["diff", text.replace("half", "interleaved"), name])
    assert (right.exit_code, wrong.exit_code) == (0, 1), right.output + wrong.output
    assert "  smallest call: one token at position 1" in wrong.output.splitlines()


def one_length(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return bhsd(x, positions + (x.shape[2] == 17))


def keys_backward(q: np.ndarray, k: np.ndarray, positions: np.ndarray) -> Any:
    return bhsd(q, positions), bhsd(k, -positions)


@pytest.mark.parametrize("code", [one_length, keys_backward])
def test_what_only_a_survey_meets_is_a_difference_with_its_call(code: Any) -> None:
    found = posenc.diff(SPEC, code)
    assert found.verdict == "differs", found.lines()
    assert found.differences[0].call.startswith("smallest call: ")


def test_numbers_that_are_nan_on_both_sides_differ_in_nothing() -> None:
    rows = posenc.table(posenc.Sinusoidal(8), 12).copy()
    rows[5] = np.nan
    assert posenc.diff(rows, rows).verdict == "nothing differs"
    assert posenc.diff(rows, np.nan_to_num(rows)).verdict == "differs"


def test_a_pair_of_functions_is_a_side() -> None:
    def make(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _tables(positions)

    def apply(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        return _turned(x, cos, sin)

    found = posenc.diff(SPEC, (make, apply))
    assert found.verdict == "nothing differs", found.lines()


@pytest.mark.parametrize("name", ["cache_len", "cached_tokens", "start_pos"])
def test_code_that_forgets_the_tokens_of_the_cache_differs(name: str) -> None:
    """An offset under any of its names is asked, and what does not read it counts from the call."""
    steps = {
        right: f"lambda x, {name}=0: turn(x, np.arange(x.shape[-2]) + {name * right or 0})"
        for right in (True, False)
    }
    for right, text in steps.items():
        found = posenc.diff(SPEC, eval(text, {"turn": bhsd, "np": np}))
        assert found.exit_code == (0 if right else 1), found.lines()
        told = "counted from the first one of the call"
        assert any(told in row.text for row in found.rows) != right


def test_two_functions_of_a_width_of_their_own_are_compared() -> None:
    """Nobody states it, and their own errors tell it."""

    def bound(base: float) -> Any:
        frequencies = base ** -(np.arange(48) / 48)

        def rope(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
            cos, sin = np.cos(a := positions[:, None] * frequencies), np.sin(a)
            a, b = x[..., :48], x[..., 48:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

        return rope

    assert posenc.diff(bound(1e4), bound(1e4)).verdict == "nothing differs"
    assert posenc.diff(bound(1e4), bound(5e5)).exit_code == 1


def test_a_base_without_its_scaling_names_both() -> None:
    """What is to be written in place of both, or the scaling is found after the base is mended."""
    spec = posenc.RoPE(64, pairing="half", base=5e5, scaling=posenc.scaling.Linear(4))
    (row,) = posenc.diff(spec, bhsd).rows
    assert row.a == "500000, with the scaling Linear(4)"
    assert row.b == "10000, with the scaling none"


def test_buffers_are_a_side() -> None:
    buffers = {"inv_freq": 1e4 ** -(np.arange(32) / 32)}
    assert posenc.diff(SPEC, buffers).verdict == "nothing differs"
    assert posenc.diff(SPEC.replace(base=5e5), buffers).differences[0].field == "base"


def test_a_difference_begins_where_the_smallest_call_shows_it() -> None:
    (row,) = posenc.diff(SPEC, lambda x, p: bhsd(x, np.minimum(p, 30_000))).differences
    assert (row.field, row.position) == ("positions", 30_001)
    assert row.call == "smallest call: one token at position 30,001"


@pytest.mark.parametrize("hurried", [False, True])
def test_a_difference_begins_at_a_token_that_differs_however_little_time_there_is(
    monkeypatch: pytest.MonkeyPatch, hurried: bool
) -> None:
    """Tokens before it may be needed, or stand there as time ran out before they were left out."""

    def in_time(bench: Any, call: Any) -> Any:
        bench.until = 0.0 if hurried else math.inf
        return smallest(bench, call)

    monkeypatch.setattr("posenc.detect.subject.survey.smallest", in_time)

    def late(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        return bhsd(x, p + ((p >= 700) & (p.shape[-1] > 600)))

    (row,) = posenc.diff(SPEC, late).differences
    assert (row.field, row.position) == ("positions", 700)
    assert ("time ran out" in row.call) == hurried


def test_tokens_of_all_rows_are_asked_with_their_keys() -> None:
    subject = protocol(
        lambda p, q, k: (flat(p, q), flat(p, k)), "tokens", dim=64, axes=1, library="numpy"
    )
    found = subject.survey(SPEC, end=5000)
    assert found.agrees, str(found)


class Nothing:
    """Cosines and sines that are the same everywhere."""

    def cos_sin(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((len(positions), 32)), np.zeros((len(positions), 32))


STILL, NONE = "the answers do not depend on positions", "no finite numbers"
TABLE = posenc.Sinusoidal(64)


@pytest.mark.parametrize(
    ("spec", "code", "says"),
    [
        (SPEC, lambda x, positions: posenc.rotate(SPEC, x, positions=0 * positions + 3), STILL),
        (SPEC, lambda x, positions: x * np.nan, NONE),
        (SPEC, lambda positions: (np.full((len(positions), 32), np.nan),) * 2, NONE),
        (SPEC, Nothing(), STILL),
        (TABLE, lambda positions: np.ones((len(positions), 64)), STILL),
    ],
)
def test_code_that_answers_nothing_of_positions_differs(spec: Any, code: Any, says: str) -> None:
    found = posenc.diff(spec, code)
    assert (found.verdict, {row.b for row in found.rows}) == ("differs", {says})


def test_code_that_raises_is_not_compared() -> None:
    def code(x: Any, positions: Any) -> Any:
        raise ValueError("no")

    assert posenc.diff(SPEC, code).verdict == "not compared"


def test_a_class_of_torch_is_code_and_a_key_that_is_wrong_is_said() -> None:
    torch = pytest.importorskip("torch")

    class Rotary(torch.nn.Module):  # type: ignore[misc]
        def forward(self, q: Any, k: Any, positions: Any) -> Any:
            angles = positions[:, None] * 1e4 ** -(torch.arange(32) / 32)
            cos, sin = angles.cos(), angles.sin()
            return _of_halves(q, cos, sin), _of_halves(k, cos, -sin)

    (row,) = posenc.diff(SPEC, Rotary).rows
    assert (row.field, row.where) == ("keys", "spec")


def _of_halves(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    a, b = x[..., :32], x[..., 32:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


GPTJ = {"model_type": "gptj", "n_embd": 64, "n_head": 2, "rotary_dim": 16, "n_positions": 128}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows, ()),
        (lambda rows: rows.astype(np.float16), ("dtype",)),
        (lambda rows: np.roll(rows, 1, 0), ("frequencies",)),
        (lambda rows: np.roll(rows, 8, 1), ("frequencies",)),
        (lambda rows: rows[::2], ("ladder.first", "length")),
        (lambda rows: 1.1 * rows, ("magnitude.attention_factor",)),
    ],
)
def test_sines_beside_cosines_are_read_from_any_position_on(
    tmp_path: Path, change: Any, says: tuple[str, ...]
) -> None:
    """GPT-J's tables, right ones and wrong ones; a learned one is none of them."""
    angle = np.outer(np.arange(128), 1e4 ** (-np.arange(8) / 8))
    table = change(np.concatenate([np.sin(angle), np.cos(angle)], axis=-1).astype(np.float32))
    file = tmp_path / "a.safetensors"
    save_file({"h.0.attn.embed_positions": np.ascontiguousarray(table)}, file)
    found = posenc.diff(GPTJ, file)
    assert tuple(row.field for row in found.rows) == says
    assert found.compared
    learned = np.random.default_rng(0).standard_normal((128, 16))
    save_file({"h.0.attn.embed_positions": learned}, file)
    assert posenc.diff(GPTJ, file).verdict == "not compared"


def test_numbers_that_are_none_are_a_difference_whichever_side_has_them() -> None:
    cos, sin = posenc.cos_sin(posenc.RoPE(16, pairing="half"), 32)
    none = np.where(np.arange(32)[:, None] == 3, np.nan, cos)
    whole, broken = {"cos": cos, "sin": sin}, {"cos": none, "sin": sin}
    for sides in ((whole, broken), (broken, whole)):
        [row] = posenc.diff(*sides).differences
        assert row.call == (
            "smallest call: one token at position 3, of numbers that are NaN or infinite"
        )
    for both in (whole, broken):
        assert posenc.diff(both, both).verdict == "nothing differs"
    found = posenc.diff(whole, {"cos": cos, "sin": sin[:20]})
    assert re.search(r"ask: shapes .*\(20, 8\).* differ", str(found))
    assert "a tuple. Hand over arrays by their names" in str(posenc.diff((cos, sin), whole))
