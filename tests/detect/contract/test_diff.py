"""`diff` names the field that differs, says how far it looked, and is silent of what is alike."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from tools.pages import shelf

import posenc
from posenc import registry
from posenc._core.spec.checks import small
from posenc.detect.contract.comparison.fields import variants
from tests.detect.configs import GEMMA_3, PLAIN, VERSION_4
from tests.detect.contract.bugs import BUGS, TABLES, Bug
from tests.detect.contract.engine import Engine, ladder
from tests.drawing import drawn
from tests.golden.make_vllm import CONFIGS as VLLM

GOLDEN = Path(__file__).parents[2] / "golden"


@functools.cache
def found_in(name: str) -> Any:
    """What `diff` says of a config and the implementation with the bug."""
    bug: Bug = BUGS[name]
    return posenc.diff(bug.config, bug.engine())


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn([*BUGS], 10, "detect/contract", "detect/explain"))
def test_a_bug_is_named_by_its_field(name: str) -> None:
    bug, found = BUGS[name], found_in(name)
    assert found.verdict == "differs", found.lines()
    first = found.differences[0]
    assert (first.field, bug.where in first.where) == (bug.field, True), found.lines()
    assert found.exit_code == 1


@pytest.mark.parametrize("name", ["half for interleaved", "YaRN in sliding layers"])
def test_the_other_way_round_it_is_the_same_difference(name: str) -> None:
    bug = BUGS[name]
    first = found_in(name).differences[0]
    back = posenc.diff(bug.engine(), bug.config).differences[0]
    assert (back.field, back.a, back.b) == (first.field, first.b, first.a)


@pytest.mark.parametrize("name", TABLES)
def test_a_bug_of_a_table_is_named_by_its_field(name: str) -> None:
    _, start, engine, field = TABLES[name]
    spec = posenc.Sinusoidal(64, arrangement=posenc.Arrangement(start=start))
    assert posenc.diff(spec, engine()).differences[0].field == field


# --- silence --------------------------------------------------------------------------------------


CONFIGS: dict[str, dict[str, Any]] = {
    **VERSION_4, "gemma 3": GEMMA_3, "plain": PLAIN,
    **{name: bug.config for name, bug in BUGS.items()},
}  # fmt: skip


SLOW = pytest.mark.slow("detect/contract", "detect/explain")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW if name in BUGS else ()) for name in CONFIGS]
)
def test_a_config_is_its_own_plan_and_contract(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    plan = posenc.from_hf(config)
    path = tmp_path / "model.golden.json"
    posenc.golden(plan).save(path)
    for other in (dict(config), plan, path, posenc.golden(config)):
        found = posenc.diff(config, other)
        assert (found.verdict, found.differences) == ("nothing differs", ()), found.lines()
        assert found.exit_code == 0


def test_what_is_written_otherwise_and_computes_the_same_is_no_difference() -> None:
    rope = posenc.RoPE(64, pairing="half", scaling=posenc.scaling.Linear(2.0))
    same = posenc.RoPE(64, pairing="half", ladder=posenc.Ladder(first=0.5))
    assert posenc.diff(rope, same).verdict == "nothing differs"
    yarn = posenc.RoPE(64, pairing="half", scaling=posenc.scaling.YaRN(4, original_length=4096))
    stated = yarn.replace(magnitude=posenc.RotaryMagnitude(attention_factor=yarn.attention_factor))
    assert posenc.diff(yarn, stated).verdict == "nothing differs"


def test_channels_in_blocks_are_those_of_the_spec() -> None:
    spec = posenc.RoPE(64, pairing=posenc.Pairing("half", blocks=(16, 16)))

    def rotate(x: np.ndarray, positions: np.ndarray) -> Any:
        return posenc.rotate(spec, x, positions=positions)

    found = posenc.diff(spec, type("Side", (), {"rotate": staticmethod(rotate)})())
    assert found.verdict == "nothing differs", found.lines()


def test_a_scaling_that_is_left_out_takes_its_factor_along() -> None:
    scaling = posenc.scaling.YaRN(4, original_length=4096)
    yarn = posenc.RoPE(64, pairing="half", scaling=scaling)
    found = posenc.diff(yarn, Engine(ladder(64)))
    assert [row.field for row in found.differences] == ["scaling"], found.lines()


@pytest.mark.parametrize("name", registry.SPECS)
def test_every_encoding_is_itself_and_differs_from_a_change_of_it(name: str) -> None:
    spec = small(registry.lookup(name))
    assert posenc.diff(spec, spec).verdict == "nothing differs"
    changes = {field: other for field, _, other in variants(spec)}
    for field in [*changes][:3]:
        found = posenc.diff(spec, changes[field])
        named = {row.field.partition(".")[0] for row in found.differences}
        assert named <= {field.partition(".")[0]}, found.lines()


class Own:
    """A spec of posenc behind the protocol, in float32."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def _spec(self, layer: str) -> Any:
        name, _, attention = layer.partition(":")
        return next(e.spec for e in self.plan if (e.layer, e.attention) == (name, attention))

    def cos_sin(self, positions: np.ndarray, layer: str) -> Any:
        spec, length = self._spec(layer), int(positions.max()) + 1
        return posenc.cos_sin(spec.at(length) if spec.needs_length else spec, positions)

    def rotate(self, x: np.ndarray, positions: np.ndarray, layer: str) -> Any:
        spec, length = self._spec(layer), int(positions.max()) + 1
        fixed = spec.at(length) if spec.needs_length else spec
        return posenc.rotate(fixed, x, positions=positions)


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn([*CONFIGS], 2, *SLOW.args, by=lambda name: name in BUGS))
def test_its_own_numbers_are_no_difference(name: str) -> None:
    plan = posenc.from_hf(CONFIGS[name])
    if not all(entry.kind == "rotary" and len(entry.spec.axes) == 1 for entry in plan):
        pytest.skip("rotations of one axis alone are asked here")
    found = posenc.diff(plan, Own(plan))
    assert (found.verdict, found.differences) == ("nothing differs", ()), found.lines()


# --- vLLM -----------------------------------------------------------------------------------------


class Stored:
    """Rows of vLLM's `cos_sin_cache`, as `golden/make_vllm.py` stored them, among posenc's own."""

    def __init__(self, spec: Any, positions: np.ndarray, rows: np.ndarray) -> None:
        self.spec, self.positions, self.rows = spec, positions, rows
        self.asked: set[int] = set()

    def cos_sin(self, positions: np.ndarray) -> Any:
        length = int(positions.max()) + 1
        spec = self.spec.at(length) if self.spec.needs_length else self.spec
        cos, sin = posenc.cos_sin(spec, positions)
        stored = np.isin(positions, self.positions)
        rows = self.rows[np.searchsorted(self.positions, positions[stored])]
        cos[stored], sin[stored] = np.split(rows, 2, axis=-1)
        self.asked |= set(positions[stored].tolist())
        return cos, sin


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn([*VLLM], 2, *SLOW.args))
def test_a_config_against_the_classes_of_vllm(name: str) -> None:
    stored = load_file(GOLDEN / "vllm.safetensors")
    positions, rows = (stored[f"{name}: {key}"] for key in ("positions", "rows"))
    side = Stored(posenc.from_hf(VLLM[name])["attention"].spec, positions, rows)
    found = posenc.diff(VLLM[name], side)
    assert (found.verdict, found.differences) == ("nothing differs", ()), found.lines()
    assert {p for p in positions.tolist() if p <= 4096} <= side.asked  # far ones are drawn
    side.rows = np.roll(rows, 1, axis=0)
    assert posenc.diff(VLLM[name], side).verdict == "differs"


def test_the_numbers_of_vllm_say_where_they_come_from() -> None:
    with safe_open(GOLDEN / "vllm.safetensors", "numpy") as file:
        told = file.metadata()
    assert told["version"] == "0.33.0"
    assert set(json.loads(told["symbols"])) == set(VLLM)


def test_the_page_lists_every_bug() -> None:
    page = shelf.whole(GOLDEN.parents[1] / "docs" / "diff.md")
    rows = [(name, bug.thread, bug.field) for name, bug in BUGS.items()]
    rows += [(name, thread, field) for name, (thread, _, _, field) in TABLES.items()]
    for name, thread, field in rows:
        assert any(f"| {name} | [{thread}](" in line and f"`{field}`" in line
                   for line in page.splitlines()), name  # fmt: skip
