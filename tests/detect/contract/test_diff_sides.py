"""The sides of `diff`, what is said of them, and how the command ends."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import posenc
from posenc.cli import app
from tests.detect.contract.engine import Engine, Frequencies, half, ladder
from tests.detect.explain.test_gguf import BASIC, written
from tests.drawing import drawn

CONFIG = {
    "model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "head_dim": 64,
    "num_hidden_layers": 4, "max_position_embeddings": 4096, "rope_theta": 5e5,
}  # fmt: skip
ROPE = posenc.RoPE(64, pairing="half", base=5e5)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["diff", *arguments])


def engine(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    angles = positions[:, None] * ladder(64)
    return np.cos(angles), np.sin(angles)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


# --- exit codes -----------------------------------------------------------------------------------


def test_the_exit_code_tells_a_difference_from_what_could_not_be_compared(
    config: str, tmp_path: Path
) -> None:
    assert run(config, config).exit_code == 0
    assert run(config, "tests.detect.contract.test_diff_sides:engine").exit_code == 1
    assert run(config).exit_code == run(config, str(tmp_path / "absent.json")).exit_code == 2
    assert run(config, "nothing at all").exit_code == 2
    assert run(config, config, "--json", "--markdown").exit_code == 2
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert run(config, str(broken)).exit_code == 3
    open_ = tmp_path / "open.json"
    open_.write_text(json.dumps({"model_type": "unheard_of", "rope_theta": 1e4}))
    assert run(config, str(open_)).exit_code == 3
    result = run(config, f"engine:vllm={open_}")
    assert (result.exit_code, "unheard_of is not known" in result.output) == (3, True)
    alibi = '{"type": "ALiBi", "heads": 8}'
    silent = run(alibi, "tests.detect.contract.test_diff_sides:engine")
    assert (silent.exit_code, "not compared" in silent.output) == (3, True)


def test_check_has_the_same_exit_codes(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    alibi = '{"type": "ALiBi", "heads": 4}'
    arguments = ["check", "tests.detect.contract.test_diff_sides:engine", "--kind", "rotary"]
    assert CliRunner().invoke(app, [*arguments, "--spec", str(broken)]).exit_code == 3
    assert CliRunner().invoke(app, ["check", alibi, "--laws", "shift"]).exit_code == 0
    assert "3      diff, trace, check and doctor" in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.costly
def test_json_and_markdown_say_the_same_as_the_lines(config: str) -> None:
    other = "tests.detect.contract.test_diff_sides:engine"
    told = json.loads(run(config, other, "--json").output)
    (row,) = told["differences"]
    assert (told["verdict"], row["field"], row["position"]) == ("differs", "base", 1)
    assert row["size"] == pytest.approx(2, abs=0.01)
    assert told["compared"]
    assert told["not_compared"]
    table = run(config, other, "--markdown").output
    assert (
        "| attention | base | 500000 | 10000, the default | 2 (cos and sin to position 511) | 1 |"
        in table
    )
    lines = run(config, other).output
    assert "attention: base: 500000 against 10000, the default" in lines
    for line in (*told["compared"], *told["not_compared"]):
        assert line in table
        assert line in lines


# --- what is said ---------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.usefixtures("whole_surveys")
def test_it_says_how_far_it_looked() -> None:
    found = posenc.diff(CONFIG, Engine(ladder(64, 5e5)))
    told = found.compared[0]
    assert told.startswith("attention: rotate, a rotation, called as rotate(x, positions)")
    assert "agrees to position 4,096 (4,097 positions asked: each to 4,096)" in told
    assert (
        "asked with 33 heads; 33 rows; one token; repeated positions; steps of two; jumps" in told
    )
    cosines = posenc.diff(ROPE.replace(base=1e4), engine)
    (told,) = cosines.compared
    assert "agrees to position 1,048,576" in told
    assert "each to 4,096, then one in every 128" in told
    assert (
        "spec: rotate: the code offers no rotation, so how it pairs channels is not seen"
        in cosines.not_compared
    )
    assert any("left padding" in line for line in cosines.not_compared)


WRONG = {
    "one position alone": lambda p: p + (p == 3000),
    "the last one": lambda p: p + (p == 8191),
    "every 64th one from 4,096": lambda p: p + (p % 64 == 63) * (p >= 4096),
    "every 4,001st one from 4,096": lambda p: p + (p % 4001 == 9) * (p >= 4096),
    "all from 2,048": lambda p: np.minimum(p, 2047),
    "wrapped at 4,096": lambda p: p % 4096,
}


@pytest.mark.costly
@pytest.mark.usefixtures("whole_surveys")
@pytest.mark.parametrize("name", drawn([*WRONG], 3, "detect/contract", "detect/subject"))
def test_a_position_that_is_wrong_alone_or_now_and_then_is_seen(name: str) -> None:
    config = {**CONFIG, "max_position_embeddings": 8192}
    side = Engine(ladder(64, 5e5), counted=WRONG[name])
    (row,) = posenc.diff(config, side).differences
    right = np.arange(8192)
    first = int(np.flatnonzero(side.counted(right) != right)[0])
    assert (row.field, row.position) == ("positions", first)

    def table(positions: np.ndarray) -> np.ndarray:
        return posenc.table(posenc.Sinusoidal(64), side.counted(positions))

    layer = posenc.Layer("a", spec=posenc.Sinusoidal(64), length=8192)
    rows = posenc.diff(posenc.Reading((layer,)), table).differences
    assert [(row.where, row.position is not None) for row in rows] == [("a", True)]


# --- faults that are hidden -----------------------------------------------------------------------


def turning(fault: Any) -> Any:
    """An engine whose rotated vectors have a fault."""

    class Faulty(Engine):
        def rotate(self, x: np.ndarray, positions: np.ndarray, layer: str) -> np.ndarray:
            return np.asarray(fault(x, positions, super().rotate(x, positions, layer)))

    return Faulty(ladder(64, 5e5))


def cosines(fault: Any) -> Any:
    """Cosines and sines with a fault; `fault` also gets the number of calls before."""
    calls = itertools.count()

    def cos_sin(positions: np.ndarray) -> Any:
        return fault(*_exact(positions), positions, next(calls))

    return types.SimpleNamespace(cos_sin=cos_sin)


def _exact(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    angles = positions[:, None] * ladder(64, 5e5)
    return np.cos(angles), np.sin(angles)


def heads_from(first: int, position: int = 0) -> Any:
    def fault(x: np.ndarray, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        y[:, first:, p > position] = x[:, first:, p > position]
        return y

    return fault


def scaled_from(position: int, value: float) -> Any:
    class Scales(Engine):
        def logit_scale(self, positions: np.ndarray) -> np.ndarray:
            return np.where(positions >= position, value, 1.0)

    return Scales(ladder(64, 5e5))


SLOPED = posenc.ALiBi(4)


def biases(fault: Any) -> Any:
    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
        values = np.array(posenc.bias(SLOPED, q_positions, k_positions, dtype="float64"))
        return np.asarray(fault(values, q_positions[:, None] - k_positions[None]))

    return types.SimpleNamespace(bias=bias)


def rows(fault: Any) -> Any:
    calls = itertools.count()

    def table(positions: np.ndarray) -> np.ndarray:
        values = np.array(posenc.table(posenc.Sinusoidal(64), positions))
        return np.asarray(fault(values, positions, next(calls)))

    return types.SimpleNamespace(table=table)


RIGHT, SINES = {**CONFIG, "max_position_embeddings": 2048}, posenc.Sinusoidal(64)
LINE = np.arange
# A description, an implementation with a fault that most calls do not show, the field.
HIDDEN: dict[str, tuple[Any, Any, str]] = {
    "the fifth head on": (CONFIG, turning(heads_from(4)), "heads"),
    "the last head": (CONFIG, turning(heads_from(32)), "heads"),
    "the last head from 600": (CONFIG, turning(heads_from(3, 600)), "heads"),
    "large vectors": (CONFIG, turning(lambda x, p, y: np.where(abs(x) > 100, x, y)), "heads"),
    "a token alone": (
        CONFIG, turning(lambda x, p, y: x if len(p) == 1 else y), "positions",
    ),
    "NaN in one channel": (
        CONFIG, turning(lambda x, p, y: y + np.where(p == 1001, np.nan, 0)[:, None]), "numbers",
    ),
    "positions that are not read": (
        RIGHT, cosines(lambda c, s, p, n: _exact(LINE(len(p)))), "positions",
    ),
    "positions counted from the first": (
        RIGHT, cosines(lambda c, s, p, n: _exact(p[0] + LINE(len(p)))), "positions",
    ),
    "positions in order": (RIGHT, cosines(lambda c, s, p, n: _exact(np.sort(p))), "positions"),
    "right at even positions": (
        CONFIG, cosines(lambda c, s, p, n: (np.where(p[:, None] % 2, 1, c), s)), "positions",
    ),
    "a step after a long sequence": (
        CONFIG, cosines(lambda c, s, p, n: (c, s) if n < 4 or len(p) > 1 else (c**0, s * 0)),
        "positions",
    ),
    "another answer from the third call on": (
        CONFIG, cosines(lambda c, s, p, n: (c, s) if n < 2 else (c**0, s * 0)), "state",
    ),
    "another width in the last call": (
        CONFIG, cosines(lambda c, s, p, n: (c, s) if n < 5 else (c[:, :9], s[:, :9])), "state",
    ),
    "another answer in the last call": (
        CONFIG, cosines(lambda c, s, p, n: (c, s) if n < 5 else (c**0, s * 0)), "state",
    ),
    "infinite at one position": (
        CONFIG, cosines(lambda c, s, p, n: (np.where(p[:, None] == 77, np.inf, c), s)), "numbers",
    ),
    "sines backward": (CONFIG, cosines(lambda c, s, p, n: (c, -s)), "frequencies"),
    "sines first": (CONFIG, cosines(lambda c, s, p, n: (s, c)), "frequencies"),
    "whole numbers": (
        CONFIG, cosines(lambda c, s, p, n: (c.round().astype(int), s.round().astype(int))), "",
    ),
    "cosines in float16": (
        CONFIG, cosines(lambda c, s, p, n: (c.astype("f2"), s.astype("f2"))), "dtype",
    ),
    "complex numbers of another base": (
        CONFIG, cosines(lambda c, s, p, n: np.exp(1j * p[:, None] * ladder(64))), "base",
    ),
    "frequencies backward": (CONFIG, Frequencies(ladder(64, 5e5)[::-1]), "frequencies"),
    "frequencies negative": (CONFIG, Frequencies(-ladder(64, 5e5)), "frequencies"),
    "a scale at far positions": (CONFIG, scaled_from(3000, 2.0), "logit_scale"),
    "a scale that is NaN": (CONFIG, scaled_from(400, np.nan), "logit_scale"),
    "one head of biases": (
        SLOPED, biases(lambda b, d: b * np.array([1, 1, 1, 1.01])[:, None, None]), "slopes",
    ),
    "NaN at one distance": (
        SLOPED, biases(lambda b, d: np.where(d == 3000, np.nan, b)), "bias",
    ),
    "NaN alone": (SLOPED, biases(lambda b, d: b * np.nan), "bias"),
    "biases of indices": (
        SLOPED, biases(lambda b, d: np.array(posenc.bias(SLOPED, *map(LINE, d.shape)))), "bias",
    ),
    "rows of indices": (
        SINES, rows(lambda t, p, n: posenc.table(SINES, LINE(len(p)))), "table",
    ),
    "rows at even positions": (SINES, rows(lambda t, p, n: t * (p[:, None] % 2 == 0)), "table"),
    "a row that is NaN": (
        SINES, rows(lambda t, p, n: np.where(p[:, None] == 900, np.nan, t)), "table",
    ),
    "rows of zeros from the third call on": (SINES, rows(lambda t, p, n: t * (n < 2)), "state"),
}  # fmt: skip


@pytest.mark.parametrize("name", drawn([*HIDDEN], 10, "detect/contract", "detect/subject"))
def test_a_fault_that_most_calls_do_not_show_is_named(name: str) -> None:
    description, side, field = HIDDEN[name]
    found = posenc.diff(description, side)
    assert (found.verdict, found.exit_code) == ("differs", 1), found.lines()
    assert found.differences[0].field == (field or found.differences[0].field), found.lines()


def _turning(dtype: str | None, cos: str | None, faster: float, first: int = 0) -> Any:
    """A rotation of vectors whose angles or cosines are rounded, or one of whose pairs is off."""

    def rotate(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        waves = ladder(64, 5e5)
        waves[1] *= faster
        places = positions - positions.min() * first
        if dtype == "f4f2":  # as float32 computes angles, and then rounds them
            places, waves = places.astype("f4"), waves.astype("f4")
        angles = (places[:, None] * waves).astype(dtype[-2:] if dtype else "f4")
        c, s = (np.concatenate([f(angles)] * 2, -1).astype(cos or "f4") for f in (np.cos, np.sin))
        a, b = np.split(x, 2, axis=-1)
        return x * c + np.concatenate([-b, a], axis=-1) * s

    return rotate


@pytest.mark.parametrize(
    ("dtype", "cos", "faster", "first", "told"),
    [
        ("f2", "f2", 1.0, 0, ["angles in float16"]),
        ("f2", None, 1.0, 0, ["angles in float16"]),
        ("f4f2", None, 1.0, 0, ["angles in float16"]),
        (None, "f2", 1.0, 0, ["in float16"]),
        (None, None, 1.0003, 0, ["pair 1 turns 0.03 % faster"]),
        (None, None, 1.0, 1, ["positions counted from the first one of the call"]),
        (None, None, 1.0, 0, []),
    ],
)
def test_rounded_angles_are_no_other_frequencies(
    dtype: str | None, cos: str | None, faster: float, first: int, told: list[str]
) -> None:
    longer = {**CONFIG, "max_position_embeddings": 8192}
    found = posenc.diff(longer, _turning(dtype, cos, faster, first))
    assert [row.b for row in found.rows] == told


def test_the_size_of_a_difference_is_that_of_cosines_and_sines() -> None:
    """Against both, computed here, at the positions that the sentence names."""
    other = ROPE.replace(base=4e5)
    row = posenc.diff(ROPE, other).rows[0]
    both = (np.array(posenc.cos_sin(r, 4097, dtype="float64")) for r in (ROPE, other))
    assert row.size == pytest.approx(np.abs(np.subtract(*both)).max(), rel=1e-9)
    assert row.what == "cos and sin to position 4,096"


def test_a_file_of_code_is_no_json(tmp_path: Path, config: str) -> None:
    (tmp_path / "rope.py").write_text("def rotate(x, positions): return x\n")
    done = run(config, str(tmp_path / "rope.py"))
    assert "rope.py:NAME is a function or class in it" in done.output


NO_ANSWER: dict[str, Any] = {
    "a generator": lambda c, s, p, n: (each for each in (c, s)),
    "fewer positions in each call": lambda c, s, p, n: (c[n + 1 :], s[n + 1 :]),
    "pairs first": lambda c, s, p, n: (c.T, s.T),
    "three arrays": lambda c, s, p, n: (c, s, s),
    "none": lambda c, s, p, n: (c[:0], s[:0]),
    "single numbers": lambda c, s, p, n: (c[0, 0], s[0, 0]),
    "complex cosines": lambda c, s, p, n: (c + 1j, s + 0j),
    "texts": lambda c, s, p, n: (c.astype(str), "x"),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_what_is_no_answer_is_no_agreement(name: str) -> None:
    found = posenc.diff(CONFIG, cosines(NO_ANSWER[name]))
    assert (found.verdict, found.exit_code) == ("not compared", 3), found.lines()


def test_code_may_write_into_its_input_and_not_into_positions() -> None:
    def writes(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        x[...] = Engine(ladder(64, 5e5)).rotate(x, positions, "")
        return x

    assert posenc.diff(CONFIG, writes).verdict == "nothing differs"

    def moves(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        turned = Engine(ladder(64, 5e5)).rotate(x, positions, "")
        positions += 1  # the next layer gets these
        return turned

    words = " ".join(posenc.diff(CONFIG, moves).lines())
    assert "positions: as they came against written into" in words
    complex_ = cosines(lambda c, s, p, n: c + 1j * s)
    assert posenc.diff(CONFIG, complex_).verdict == "nothing differs"


def test_what_a_mask_may_hide_and_what_is_refused_is_said() -> None:
    future = biases(lambda b, d: np.where(d < 0, 7, b))
    told = "spec: bias, the future: it has other biases, which a causal mask hides"
    assert told in posenc.diff(SLOPED, future).not_compared
    shifted = biases(lambda b, d: b + np.arange(d.shape[0])[:, None])  # the same for all keys
    found = posenc.diff(SLOPED, shifted)
    assert (found.verdict, told in found.not_compared) == ("nothing differs", False)

    def several(positions: np.ndarray) -> Any:
        if len(positions) == 1:
            raise RuntimeError("no kernel for one token")
        return _exact(positions)

    found = posenc.diff(CONFIG, several)
    told = "attention: cos_sin, one token (RuntimeError: no kernel for one token)"
    assert told in found.not_compared


def test_two_implementations_are_asked_for_far_positions_and_vectors() -> None:
    right, held = _exact, cosines(lambda c, s, p, n: _exact(np.minimum(p, 600)))
    assert posenc.diff(right, cosines(lambda c, s, p, n: (c, s))).verdict == "nothing differs"
    for one, two, field in (
        (right, held, "cos_sin"),
        (Engine(ladder(64)), Engine(ladder(64), order="interleaved"), "rotate"),
        (biases(lambda b, d: b), biases(lambda b, d: 2 * b), "bias"),
        (held, cosines(lambda c, s, p, n: (c * np.nan, s)), "cos_sin"),
    ):
        assert posenc.diff(one, two).differences[0].field == field


@pytest.mark.parametrize("rows", [512, 1024, 2048, 3000, 4096, 8192])
@pytest.mark.usefixtures("whole_surveys")
def test_a_table_of_rows_is_asked_as_far_as_it_reaches(rows: int) -> None:
    (told, *_) = posenc.diff(ROPE, Engine(ladder(64, 5e5), rows=rows)).compared
    last = rows - 1
    assert f"agrees to position {last:,} ({last + 1:,} positions asked: each to" in told


def test_a_size_that_is_wrong_at_one_position_is_seen() -> None:
    class Grows(Engine):
        def cos_sin(self, positions: np.ndarray, layer: str) -> Any:
            size = np.where(positions[:, None] == 3000, 2, 1)
            return tuple(size * each for each in Engine.cos_sin(self, positions, layer))

    (row,) = posenc.diff(CONFIG, Grows(ladder(64, 5e5))).differences
    assert (row.field, row.position) == ("magnitude.attention_factor", 3000)
    assert row.b == "1 to 2"


def test_biases_are_asked_in_every_kind_of_call() -> None:
    """An error of our own comparison would be told as a refusal of theirs."""

    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
        return np.array(posenc.bias(SLOPED, q_positions, k_positions))

    found = posenc.diff(SLOPED, bias)
    (compared,) = found.compared
    assert found.verdict == "nothing differs"
    assert not [words for words in (compared, *found.not_compared) if "refused" in words]
    assert "unequal lengths; more queries than keys; packed; jumps" in compared


@pytest.mark.parametrize("wrong", [lambda q, k: q - k == 3000, lambda q, k: (q == 3000) & (k == 1)])
def test_a_bias_that_is_wrong_at_one_distance_or_query_is_seen(wrong: Any) -> None:
    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
        biases = np.array(posenc.bias(posenc.ALiBi(4), q_positions, k_positions))
        biases[:, wrong(q_positions[:, None], k_positions[None])] -= 1
        return biases

    (row,) = posenc.diff(posenc.ALiBi(4), bias).differences
    assert row.field == "bias"


def test_nan_and_an_absent_side_are_no_agreement() -> None:
    def broken(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = engine(positions)
        cos[positions == 5, 3] = np.nan
        return cos, sin

    found = posenc.diff(ROPE.replace(base=1e4), broken)
    assert (found.differences[0].field, found.verdict) == ("numbers", "differs")
    assert "position 5" in found.differences[0].b

    class Refuses:
        def cos_sin(self, positions: np.ndarray) -> Any:
            raise RuntimeError("no kernel")

    found = posenc.diff(ROPE, Refuses())
    assert (found.verdict, found.exit_code) == ("not compared", 3)
    assert any("no kernel" in line for line in found.not_compared)


def test_a_layer_that_one_side_lacks_is_a_difference() -> None:
    rope, nope = posenc.Entry("rope", specs=(ROPE,)), posenc.Entry("nope")
    mixed = posenc.Plan.repeat((rope, nope), "rope rope rope nope", layers=8)
    every = posenc.Plan.repeat((rope,), "rope", layers=8)
    (row,) = posenc.diff(mixed, every).differences
    assert (row.field, row.a) == ("layers", "no positions")
    assert "layers 3, 7" in row.where
    shorter = posenc.Plan.repeat((rope,), "rope", layers=6)
    (row,) = posenc.diff(every, shorter).differences
    assert (row.field, row.b, "layers 6–7" in row.where) == ("layers", "no encoding", True)


def test_layers_are_mistaken_first_and_sizes_are_given() -> None:
    local = posenc.Entry("local", specs=(ROPE.replace(base=1e4),))
    wide = posenc.Entry("global", specs=(ROPE,))
    a = posenc.Plan.repeat((local, wide), "local global", layers=4)
    b = posenc.Plan.repeat((local, wide), "global local", layers=4)
    found = posenc.diff(a, b)
    assert [d.field for d in found.differences] == ["base", "base"]
    assert "layers 0, 2" in found.differences[0].where
    exact = np.cos(3 * ladder(64, 5e5)) - np.cos(3 * ladder(64))
    assert found.differences[0].size >= np.abs(exact).max()


# --- buffers --------------------------------------------------------------------------------------


def test_buffers_of_a_checkpoint(tmp_path: Path) -> None:
    def saved(**arrays: np.ndarray) -> str:
        path = tmp_path / "model.safetensors"
        save_file({k: np.asarray(v, dtype=np.float32) for k, v in arrays.items()}, path)
        return str(path)

    right, where = ladder(64, 5e5), np.arange(4096)[:, None]
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    assert posenc.diff(CONFIG, saved(**{name: right})).verdict == "nothing differs"
    assert posenc.diff(CONFIG, saved(**{name: half(right, "bfloat16")})).differences[0].field == (
        "dtype"
    )
    assert posenc.diff(CONFIG, saved(**{name: ladder(64)})).differences[0].field == "base"
    assert posenc.diff(CONFIG, saved(**{name: ladder(32, 5e5)})).differences[0].field == "dim"
    both = {"cos_cached": np.cos(where * right), "sin_cached": np.sin(where * right)}
    assert posenc.diff(CONFIG, saved(**both)).verdict == "nothing differs"
    short = {key: rows[:4000] for key, rows in both.items()}
    assert posenc.diff(CONFIG, saved(**short)).differences[0].field == "length"
    with pytest.raises(posenc.DataError, match="under a name that is known"):
        posenc.diff(CONFIG, saved(weight=np.zeros((4, 4))))


LAYER = "model.layers.{}.self_attn.rotary_emb.inv_freq"


@pytest.mark.parametrize("odd", [0, 2, 3])
@pytest.mark.parametrize(
    ("other", "field"),
    [(ladder(64), "base"), (ladder(32, 5e5), "dim"), (ladder(64, 5e5) * np.nan, "numbers")],
    ids=["base", "dim", "NaN"],
)
def test_one_layer_that_is_unlike_the_others_is_seen(
    tmp_path: Path, odd: int, other: np.ndarray, field: str
) -> None:
    right = ladder(64, 5e5).astype(np.float32)
    rows = {LAYER.format(i): right if i != odd else other.astype(np.float32) for i in range(4)}
    path, plain = tmp_path / "model.safetensors", tmp_path / "plain.safetensors"
    save_file(rows, path)
    found = posenc.diff(CONFIG, path)
    assert [(row.field, row.where) for row in found.differences] == [
        (field, f"attention, {LAYER.format(odd)}")
    ]
    save_file(dict.fromkeys(rows, right), plain)
    assert posenc.diff(CONFIG, plain).verdict == "nothing differs"
    found = posenc.diff(plain, path)
    assert (found.differences[0].a, found.differences[0].b) == (
        "the same numbers", "numbers of 2 kinds",
    )  # fmt: skip


def test_a_layer_under_another_name_is_asked_too(tmp_path: Path) -> None:
    right, other = (ladder(64, base).astype(np.float32) for base in (5e5, 1e4))
    path = tmp_path / "model.safetensors"
    name = "model.layers.2.self_attn.renamed.inv_freq"
    save_file({LAYER.format(0): right, LAYER.format(1): right, name: other}, path)
    (row,) = posenc.diff(CONFIG, path).differences
    assert (row.field, row.where) == ("base", f"attention, {name}")


@pytest.mark.parametrize("odd", [None, 0, 5])
def test_buffers_are_asked_in_the_layers_that_their_names_tell(
    tmp_path: Path, odd: int | None
) -> None:
    config = {
        **CONFIG, "model_type": "gemma3_text", "num_hidden_layers": 6, "rope_theta": 1e6,
        "rope_local_base_freq": 1e4, "sliding_window": 512, "sliding_window_pattern": 6,
    }  # fmt: skip
    bases = [1e6 if (i == 5) != (i == odd) else 1e4 for i in range(6)]
    path = tmp_path / "model.safetensors"
    save_file({LAYER.format(i): ladder(64, b).astype("f4") for i, b in enumerate(bases)}, path)
    found = posenc.diff(config, path)
    named = [(row.field, row.where.partition(" ")[0]) for row in found.differences]
    kind = "full_attention" if odd == 5 else "sliding_attention"
    assert named == ([] if odd is None else [("layers", kind)]), found.lines()


@pytest.mark.parametrize("ending", ["npz", "pt", "safetensors"])
@pytest.mark.parametrize("form", ["complex", "real"])
def test_complex_numbers_of_a_checkpoint(tmp_path: Path, ending: str, form: str) -> None:
    def saved(base: float) -> Path:
        values = np.exp(1j * np.arange(4096)[:, None] * ladder(64, base)).astype(np.complex64)
        if form == "real":
            values = np.stack([values.real, values.imag], axis=-1)
        path = tmp_path / f"model.{ending}"
        if ending == "npz":
            np.savez(path, freqs_cis=values)
        else:
            torch = pytest.importorskip("torch", reason="which writes the file")
            arrays = {"freqs_cis": torch.from_numpy(values)}
            home = torch if ending == "pt" else importlib.import_module("safetensors.torch")
            home.save(arrays, path) if ending == "pt" else home.save_file(arrays, path)
        return path

    (told,) = posenc.diff(CONFIG, saved(5e5)).compared
    assert "agrees to position 4,095 (4,096 positions asked: each to 4,095)" in told
    assert posenc.diff(CONFIG, saved(1e4)).differences[0].field == "base"


def test_what_a_checkpoint_holds_and_is_not_asked_is_named(tmp_path: Path) -> None:
    cos = np.cos(np.arange(4096)[:, None] * ladder(64, 5e5)).astype("f4")
    path = tmp_path / "model.safetensors"
    arrays = {"a.inv_freq": ladder(64, 5e5).astype("f4"), "a.cos_cached": cos}
    save_file(arrays, path)  # without the sines
    told = "a.cos_cached, which stands for no part of config of llama"
    assert told in posenc.diff(CONFIG, path).not_compared
    save_file({**arrays, "a.cos_cached": cos[::-1].copy(), "a.sin_cached": cos}, path)
    assert posenc.diff(CONFIG, path).differences  # what is right beside it excuses nothing


def rotary(base: float, change: Any = lambda cos, sin: (cos, sin)) -> Any:
    torch = pytest.importorskip("torch", reason="a loaded model")

    class Rotary(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("inv_freq", torch.tensor(ladder(64, base), dtype=torch.float32))

        def forward(self, x: object, position_ids: object) -> object:
            angles = (position_ids[..., None] * self.inv_freq).repeat(1, 1, 2)  # type: ignore[index]
            return change(angles.cos(), angles.sin())

    return Rotary()


@pytest.mark.costly
def test_one_module_that_is_unlike_the_others_is_seen() -> None:
    torch = pytest.importorskip("torch", reason="a loaded model")
    for odd, field in (
        (rotary(1e4), "base"),
        (rotary(5e5, lambda cos, sin: (cos.flip(-1), sin.flip(-1))), "frequencies"),
    ):
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleList([rotary(5e5), rotary(5e5), odd])
        (row,) = posenc.diff(CONFIG, model).differences
        assert row.field == field
        assert row.where.startswith("attention")
    own = rotary(5e5)
    own.forward = lambda x, position_ids: type(own).forward(own, x, 2 * position_ids)
    model.layers[2] = own
    assert posenc.diff(CONFIG, model).differences[0].where == "attention, layers.2"


def test_a_tensor_of_complex_numbers_beside_the_buffers_of_a_model() -> None:
    torch = pytest.importorskip("torch", reason="a loaded model")
    model = torch.nn.Module()
    for base, verdict in ((5e5, "nothing differs"), (1e4, "differs")):
        angles = np.arange(8192)[:, None] * ladder(64, base)
        model.freqs_cis = torch.from_numpy(np.exp(1j * angles)).to(torch.complex64)
        assert posenc.diff(CONFIG, model).verdict == verdict


def test_rows_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    spec = posenc.Sinusoidal(64, order="sin_cos", ladder=posenc.Ladder(denominator="n-1"))
    rows = np.asarray(posenc.table(spec, 128))
    save_file({"encoder.embed_positions.weight": rows}, path)
    assert posenc.diff(spec, path).verdict == "nothing differs"
    found = posenc.diff(posenc.Sinusoidal(64, order="sin_cos"), path)
    assert found.differences[0].field == "ladder"
    learned = posenc.Learned(64, length=128)
    assert posenc.diff(learned, path).verdict == "nothing differs"
    assert posenc.diff(learned.replace(length=126, start=2), path).verdict == "nothing differs"
    assert posenc.diff(learned.replace(start=2), path).differences[0].field == "length"


# --- contracts ------------------------------------------------------------------------------------


def test_a_contract_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.golden.json"
    posenc.golden(CONFIG).save(path)
    assert posenc.diff(path, ROPE).verdict == "nothing differs"
    assert posenc.diff(path, ROPE.replace(pairing="interleaved")).differences[0].field == (
        "pairing.order"
    )
    data = json.loads(path.read_text())
    data["checks"][0]["frequencies"][1] *= 2
    path.write_text(json.dumps(data))
    with pytest.raises(posenc.DataError):
        posenc.diff(path, ROPE)


def test_presets_plans_and_specs_are_sides() -> None:
    assert posenc.diff("preset:llama3:128", posenc.preset("llama3", 128)).verdict == (
        "nothing differs"
    )
    assert posenc.diff("preset:llama3:64", CONFIG).differences[0].field == "scaling"
    assert posenc.diff("plan:smollm3", "plan:smollm3").verdict == "nothing differs"
    assert posenc.diff(posenc.to_json(ROPE), CONFIG).verdict == "nothing differs"
    assert posenc.diff(engine, engine).verdict == "nothing differs"
    with pytest.raises(posenc.ArgumentError, match="A side is"):
        posenc.diff("nothing at all", ROPE)
    with pytest.raises(posenc.ArgumentError):
        posenc.diff(3, ROPE)


def test_a_torch_function_is_asked_with_tensors() -> None:
    torch = pytest.importorskip("torch", reason="the function takes its tensors")

    def cosines(positions: Any) -> Any:
        angles = positions.float()[:, None] * torch.from_numpy(ladder(64, 5e5)).float()
        return angles.cos(), angles.sin()

    assert posenc.diff(ROPE, cosines).verdict == "nothing differs"
    assert posenc.diff(ROPE, cosines, library="torch").verdict == "nothing differs"


@pytest.mark.costly
def test_vectors_that_no_rotation_gives_are_a_difference() -> None:
    class Reflects(Engine):
        def rotate(self, x: np.ndarray, positions: np.ndarray, layer: str) -> np.ndarray:
            return super().rotate(x, positions, layer)[..., ::-1].copy()

    found = posenc.diff(ROPE, Reflects(ladder(64, 5e5)))
    assert (found.verdict, found.differences[0].field) == ("differs", "pairing")


def test_a_gguf_file_is_a_side(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", "qwen2", **BASIC)
    config = {**CONFIG, "model_type": "qwen2"}
    assert posenc.diff(config, path).verdict == "nothing differs"
    scaled = {**config, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    assert posenc.diff(scaled, path).differences[0].field == "scaling"


# --- files that are none --------------------------------------------------------------------------


CUT = "where the text ends: it is empty, or was cut off"
FOREIGN: dict[str, tuple[str, str]] = {
    "an empty object": ("{}", "got an empty object, which is no config"),
    "a list": ("[{}]", "got a list"),
    "a number": ("3", "got a number"),
    "null": ("null", "got null"),
    "a tokenizer": ('{"added_tokens": [], "model": {"type": "BPE"}}', "keys added_tokens, model,"),
    "settings of generation": ('{"max_length": 20, "top_p": 0.9}', "keys max_length, top_p,"),
    "a package": ('{"name": "x", "type": "module"}', "keys name, type, which is no config"),
    "an adapter": ('{"peft_type": "LORA", "r": 8}', "keys peft_type, r, which is no config"),
    "nothing": ("", CUT),
    "half a config": ('{"model_type": "lla', CUT),
    "an open config": ('{"model_type": "llama"}', "the config leaves something open: "),
    "a misspelt spec": ('{"type": "RoPEE", "dim": 8}', "Did you mean 'RoPE'"),
    "no model": (
        '{"type": "YaRN", "factor": 2, "original_length": 8}',
        "a spec, a plan or a reading",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_no_side_is_told_what_it_is(name: str, tmp_path: Path, config: str) -> None:
    text, words = FOREIGN[name]
    path = tmp_path / "other.json"
    path.write_text(text)
    code = "tests.detect.contract.test_diff_sides:engine"
    for sides in ((str(path), config), (config, str(path)), (str(path), code)):
        result = run(*sides)
        assert (result.exit_code, words in result.output) == (3, True), result.output
        assert "other.json" in result.output
    assert "which is no config" not in words or "Give the config.json" in result.output


def test_a_contract_of_a_newer_version_or_cut_off_is_told_so(tmp_path: Path, config: str) -> None:
    path = tmp_path / "model.golden.json"
    posenc.golden(CONFIG).save(path)
    text = path.read_text()
    for spoilt, words in (
        (
            text.replace('"version": 2', '"version": 3', 1),
            "version: expected 1 or 2, of this posenc, got 3",
        ),
        (text[: len(text) // 2], CUT),
    ):
        path.write_text(spoilt)
        for sides in ((str(path), config), (config, str(path))):
            result = run(*sides)
            assert (result.exit_code, words in result.output) == (3, True), result.output


# --- engines --------------------------------------------------------------------------------------


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def test_an_engine_reads_the_config_of_the_other_side_or_its_own(
    config: str, tmp_path: Path
) -> None:
    assert run(config, "engine:vllm").exit_code == 0
    scaled = tmp_path / "scaled.json"
    scaled.write_text(json.dumps({**CONFIG, "rope_scaling": {**YARN, "attention_factor": 1.0}}))
    own = run(str(scaled), f"engine:sglang={scaled}")
    assert (own.exit_code, "it passes over attention_factor" in own.output) == (1, True)
    for arguments in ((str(scaled), "engine:sglang"), ("engine:sglang", str(scaled))):
        assert run(*arguments).exit_code == 1
    assert run(str(scaled), f"engine:vllm={config}").exit_code == 1
    assert posenc.diff(CONFIG, "engine:vllm").verdict == "nothing differs"
    rounded = {**CONFIG, "rope_scaling": {**YARN, "truncate": False}}
    assert "scaling.rounding" in posenc.doctor(rounded, "engine:llama.cpp").faults[0].text
    says = posenc.doctor(rounded).says
    assert [one.split(" ")[0] for one in says if "reads it otherwise" in one] == ["llama.cpp"]
    assert not any("reads it otherwise" in one for one in posenc.doctor(CONFIG).says)


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("engine:vllm@0.25.0", "expected vllm 0.33.0, of which the table is, got 0.25.0"),
        ("engine:tgi", "with one of"),
        ("engine:vllm=absent.json", "a file that exists"),
    ],
)
def test_an_engine_of_which_nothing_is_known_is_an_error(
    side: str, words: str, config: str
) -> None:
    with pytest.raises(posenc.PosencError, match=words):
        posenc.diff(config, side)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model_type": "gpt_neox_japanese"}, "models of type gpt_neox_japanese is not known"),
        ({"rope_scaling": {**YARN, "attn_factor": 1.0}}, "makes of attn_factor is not known"),
        ({"rope_scaling": {**YARN, "mscale": 0.7}}, "makes of mscale is not known"),
        ({"rope_scaling": {"rope_type": "ntk", "factor": 4.0}}, "the rule 'ntk' is not known"),
    ],
)
def test_what_a_table_was_not_made_with_is_not_known(more: dict[str, Any], words: str) -> None:
    with pytest.raises(posenc.DataError, match=words):
        posenc.diff(CONFIG | more, "engine:vllm")


def test_another_release_that_is_installed_is_not_known(monkeypatch: Any) -> None:
    class Installed:
        version = "0.34.1"

    found = importlib.metadata.distributions
    monkeypatch.setattr(
        "importlib.metadata.distributions",
        lambda **of: [Installed()] if of == {"name": "vllm"} else found(**of),
    )
    with pytest.raises(posenc.DataError, match="got 0.34.1, which is installed"):
        posenc.diff(CONFIG, "engine:vllm")
    assert posenc.diff(CONFIG, "engine:vllm@0.33.0").verdict == "nothing differs"


@pytest.mark.parametrize(("speed", "fields"), [(1.0, []), (1.01, ["ladder"])])
def test_sines_beside_cosines_are_read_as_what_turns(
    tmp_path: Path, speed: float, fields: list[str]
) -> None:
    angles = speed * np.arange(256)[:, None] * ladder(64)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    path = tmp_path / "a.safetensors"
    save_file({f"transformer.h.{i}.attn.embed_positions": table for i in range(2)}, path)
    config = {"model_type": "gptj", "n_embd": 256, "n_head": 4, "rotary_dim": 64, "n_layer": 2}
    found = posenc.diff({**config, "n_positions": 256}, path)
    assert [row.field for row in found.differences] == fields
    assert any("from 1 to 256: edges" in row for row in found.compared)


def test_an_engine_whose_library_is_absent_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}
    with pytest.raises(posenc.DependencyError, match=r"mlx.core, which mlx-lm computes with"):
        posenc.diff(config, "engine:mlx")
