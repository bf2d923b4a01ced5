"""What a survey finds, what it says that it asked, and the smallest call that shows a fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from posenc.detect.subject import CannotAsk
from posenc.detect.subject.ask import protocol
from tests.detect.subject import shapes

ROPE = posenc.RoPE(64, pairing="half")


def rotation(change: Callable[..., Any]) -> Callable[..., Any]:
    """A rotation whose angles or result a fault changes: change(x, positions, turn)."""

    def fault(x: Any, positions: Any) -> Any:
        return change(x, positions, lambda x, p: shapes.numpy_line(x, p))

    return fault


def _far(x: Any, p: Any, turn: Any) -> Any:
    return turn(x, p + ((p > 700_000) & (p < 711_000)))


def _scaled(channel: int, by: float) -> Any:
    def change(x: Any, p: Any, turn: Any) -> Any:
        y = turn(x, p)
        z = shapes._n_turn(x, p[:, None] * shapes.INV * by)
        y[..., [channel, channel + 32]] = z[..., [channel, channel + 32]]
        return y

    return change


def _batch(x: Any, p: Any, turn: Any) -> Any:
    y = turn(x, p)
    y[1:] = turn(x[1:], p + 1)
    return y


def _heads(x: Any, p: Any, turn: Any) -> Any:
    y = turn(x, p)
    if x.ndim == 4:
        y[:, 32:] = x[:, 32:]
    return y


def _overflows(x: Any, p: Any, turn: Any) -> Any:
    with np.errstate(all="ignore"):
        return turn(x, p) * (1 + 0 * (x * x))


def _writes(x: Any, p: Any, turn: Any) -> Any:
    y = turn(x, p.copy())
    p += 1
    return y


def _remembers(for_ever: int) -> Callable[..., Any]:
    """One position late after a call of 65 tokens: in the next call, or in all."""
    late = [0]

    def change(x: Any, p: Any, turn: Any) -> Any:
        y = turn(x, p + late[0])
        late[0] = max(int(len(p) == 65), late[0] * for_ever)
        return y

    return change


# A fault, and words of the smallest call that shows it.
FAULTS: dict[str, tuple[Callable[..., Any], str]] = {
    "a far stretch": (_far, "one token at position 700,001"),
    "clamped": (lambda x, p, turn: turn(x, np.minimum(p, 30_000)), "one token at position 30,001"),
    "one length": (lambda x, p, turn: turn(x, p + (len(p) == 1025)), "1,025 tokens"),
    "repeated": (
        lambda x, p, turn: turn(x, p + (len({*p.tolist()}) < len(p))),
        "2 tokens at positions 0, 0",
    ),
    "sorted": (lambda x, p, turn: turn(x, np.sort(p)), "2 tokens"),
    "second row": (_batch, "2 rows of one token"),
    "many heads": (_heads, "33 heads"),
    "a pair too fast": (_scaled(20, 1.01), "one token"),
    "a pair backward": (_scaled(5, -1.0), "one token"),
    "one token alone": (lambda x, p, turn: x if len(p) == 1 else turn(x, p), "one token"),
    "float64": (lambda x, p, turn: turn(x, p + (x.dtype == np.float64)), "float64"),
    "float16": (
        lambda x, p, turn: turn(x, p.astype(np.float16) if x.dtype == np.float16 else p), "float16"
    ),
    "float16 far out": (
        lambda x, p, turn: turn(x, p - (x.dtype == np.float16) * (p > 2**20 - 300)), "float16"
    ),
    "strides": (
        lambda x, p, turn: turn(x if x.flags["C_CONTIGUOUS"] else x.copy()[..., ::-1], p),
        "not contiguous",
    ),
    "size": (lambda x, p, turn: turn(x, p) * (1 + 1e-7 * p)[:, None].astype(x.dtype), "position"),
    "large numbers": (lambda x, p, turn: np.clip(turn(x, p), -20, 20), "|x| to 1024"),
    "float16 that overflows": (_overflows, "float16, |x| to 8192"),
    "NaN": (lambda x, p, turn: np.where((p == 777)[:, None], np.nan, turn(x, p)), "position 777"),
    "positions written": (_writes, "one token at position 0, which writes into the positions"),
    "state for one call": (_remembers(0), "after a call of 65 tokens"),
    "state for ever": (_remembers(1), "it agreed before calls of 65 and 100 tokens"),
    "offset of the first": (lambda x, p, turn: turn(x, p[0] + np.arange(len(p))), "2 tokens"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_made_small(name: str) -> None:
    change, words = FAULTS[name]
    found = posenc.ask(rotation(change)).survey(ROPE)
    assert not found.agrees
    assert words in str(found.call), str(found.call)


def test_a_right_function_agrees_and_the_reach_says_what_was_asked() -> None:
    subject = posenc.ask(shapes.numpy_line)
    found = subject.survey(ROPE)
    reach = found.reach
    assert found.agrees
    assert found.call is None
    assert (reach.position, reach.dense, reach.heads, reach.batch) == (2**20, 4096, 33, 33)
    assert reach.positions > 20_000
    assert len(reach.lengths) > 80
    assert not reach.late
    assert {"float32", "float64", "float16", "bfloat16"} == {*reach.dtypes}
    assert reach.calls == subject.calls - 3
    assert posenc.ask(shapes.numpy_line).survey(ROPE).reach.lines() == reach.lines()


def test_what_is_expected_is_not_refused_by_the_function() -> None:
    """A spec that has no such position is named; an error of what is expected comes out."""
    sines = posenc.Sinusoidal(8)
    learned = posenc.ask(lambda positions: posenc.table(sines, positions), dim=8)

    def short(positions: Any) -> Any:
        if positions.max() >= 40:
            raise posenc.ArgumentError("40 positions")
        return posenc.table(sines, positions, dtype="float64")

    reach = learned.survey(short, end=5000).reach
    assert any("what is expected refuses it: ArgumentError: 40" in why for why in reach.refused)
    assert reach.position == 39

    def wrong(positions: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learned.survey(wrong, end=5000)


def test_time_ends_a_survey_and_the_reach_says_so() -> None:
    reach = posenc.ask(shapes.numpy_line).survey(ROPE, seconds=0).reach
    assert reach.late
    assert " time " in reach.lines()[1] + " "
    assert "the first call again" in reach.kinds


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        (shapes.COSINES["hf"], ROPE),
        (shapes.COSINES["half"], ROPE),
        (shapes.TABLES["positions"], posenc.Sinusoidal(64)),
        (shapes.BIASES["last"], posenc.ALiBi(8)),
        (shapes.ROTATIONS["counted"], ROPE),
        (shapes.ROTATIONS["module and function"], ROPE),
    ],
)
def test_other_kinds_agree_with_their_specs(target: Any, spec: Any) -> None:
    found = posenc.ask(target).survey(spec)
    assert found.agrees, str(found)


@pytest.mark.parametrize("kind", ["cosine", "slope", "row"])
def test_other_kinds_have_their_faults_found(kind: str) -> None:
    def cosine(positions: Any) -> Any:
        angle = np.outer(positions + (positions == 30_000), shapes.INV)
        return np.cos(angle), np.sin(angle * np.where(np.arange(32) == 5, -1, 1))

    def slope(q_positions: Any, k_positions: Any) -> Any:
        bias = shapes.alibi(q_positions, k_positions)
        bias[3] *= 1.02
        return bias

    def row(positions: Any) -> Any:
        return shapes.sinusoids(positions % 5000)

    target, spec = {
        "cosine": (cosine, ROPE), "slope": (slope, posenc.ALiBi(8)),
        "row": (row, posenc.Sinusoidal(64)),
    }[kind]  # fmt: skip
    assert posenc.ask(target).survey(spec).call is not None


def test_a_script_shows_the_difference_when_run_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def turn(x, positions):\n"
        "    angle = np.minimum(positions, 30_000)[:, None] * 1e4 ** (-np.arange(64) / 64)\n"
        "    a, b = x[..., :64], x[..., 64:]\n"
        "    c, s = np.cos(angle), np.sin(angle)\n"
        "    return np.concatenate([a * c - b * s, b * c + a * s], -1)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import mine  # type: ignore[import-not-found]

        call = posenc.ask(mine.turn, dim=128).survey(ROPE.replace(dim=128), end=40_000).call
    finally:
        sys.path.remove(str(tmp_path))
    script = call.script()
    assert len(script.splitlines()) <= 10
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    entry, _, rest = ran.stdout.partition(" is ")
    received, expected = rest.split(" where ")
    assert entry.startswith("entry [")
    assert abs(float(received) - float(expected.split()[0])) > 1e-3


def test_code_without_a_name_has_no_script() -> None:
    found = posenc.ask(rotation(FAULTS["clamped"][0])).survey(ROPE)
    with pytest.raises(CannotAsk, match="cannot be imported"):
        found.call.script()


def test_a_module_is_not_changed_by_being_asked() -> None:
    module = shapes.Turning(64, 512).train()
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    posenc.ask(module).survey(ROPE, end=300)
    assert module.training
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in state.items())


def test_code_whose_answers_are_squares_is_asked_of_few_tokens() -> None:
    """Tables that stand beside the wrong axis make (tokens, tokens) of many tokens."""
    asked: list[int] = []

    def squares(x: Any, positions: Any) -> Any:
        asked.append(len(positions))
        if positions.max() > 1000:
            raise IndexError("rows end")
        return np.broadcast_to(x, (len(x), len(positions), *x.shape[2:]))

    subject = protocol(squares, "rotate", dim=64, axes=1, library="numpy")
    found = subject.survey(ROPE)
    assert max(asked) < 100
    assert not found.reach.positions or not found.agrees


def test_an_answer_of_another_shape_is_a_difference_and_no_refusal() -> None:
    slopes = 2.0 ** -np.arange(1.0, 9.0)[:, None, None]

    def square_of_one_query(q_positions: Any, k_positions: Any) -> Any:
        k = np.asarray(k_positions, dtype=np.float64)
        one = len(q_positions) == 1 < len(k)
        q = k if one else np.asarray(q_positions, dtype=np.float64)
        return -slopes * np.abs(q[:, None] - k)

    subject = posenc.ask(square_of_one_query, kind="bias", heads=8)
    found = subject.survey(posenc.ALiBi(8), end=2000)
    assert found.call is not None
    assert "answered in another shape" in str(found.call)


def test_nan_beside_nan_is_no_agreement() -> None:
    """Code that is held against its own answers."""

    def far(x: Any, positions: Any) -> Any:
        y = shapes.numpy_line(x, positions)
        return np.where((positions > 70_000)[:, None], np.nan, y)

    def own(x: Any, rows: Any) -> Any:
        return np.stack([far(*pair) for pair in zip(x, rows, strict=True)])

    for end, agrees in ((60_000, True), (80_000, False)):
        assert posenc.ask(far, dim=64).survey(own, end=end).agrees == agrees
