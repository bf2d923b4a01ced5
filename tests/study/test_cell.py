"""A cell and its key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys

import pytest

from posenc._core.errors import ArgumentError, DataError
from posenc_study import cell as module
from posenc_study.cell import Cell
from tests.study.fakes import cell

FULL = {"steps": 300, "rate": 0.003, "norm": "pre", "tied": True, "data": "ab12"}


def test_the_key_is_the_digest_of_all_that_decides_the_numbers() -> None:
    made = Cell.of("text-lm", "rope", seed=3, settings=FULL)
    text = (
        '{"data":"ab12","encoding":"rope","protocol":1,"seed":3,"settings":{"data":"ab12",'
        '"norm":"pre","rate":0.003,"steps":300,"tied":true},"task":"text-lm"}'
    )
    assert json.loads(text)["protocol"] == module.PROTOCOL
    assert made.key == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        {"task": "order"},
        {"encoding": "alibi"},
        {"seed": 4},
        *({"settings": {**FULL, name: value}} for name, value in (("steps", 301), ("data", "x"))),
        {"settings": {**FULL, "tied": 1}},
        {"settings": {**FULL, "steps": 300.0}},
        {"settings": {k: v for k, v in FULL.items() if k != "norm"}},
    ],
)
def test_anything_else_has_another_key(other: dict) -> None:
    base = {"task": "text-lm", "encoding": "rope", "seed": 3, "settings": FULL}
    keys = {
        Cell.of(v["task"], v["encoding"], seed=v["seed"], settings=v["settings"]).key
        for v in (base, {**base, **other})
    }
    assert len(keys) == 2


def test_another_protocol_has_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cell().key
    monkeypatch.setattr(module, "PROTOCOL", module.PROTOCOL + 1)
    assert cell().key != before


def test_order_of_settings_does_not_matter_and_hashes_do_not_change_by_process() -> None:
    turned = Cell.of("text-lm", "rope", seed=3, settings=dict(reversed(FULL.items())))
    made = Cell.of("text-lm", "rope", seed=3, settings=FULL)
    assert turned == made
    code = f"from posenc_study.cell import Cell; print(Cell.from_json({made.to_json()!r}).key)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == made.key


def test_json_there_and_back() -> None:
    made = Cell.of("text-lm", "rope", seed=3, settings=FULL)
    back = Cell.from_json(made.to_json())
    assert back == made
    assert [type(v) for _, v in back.settings] == [type(v) for _, v in made.settings]
    assert dataclasses.is_dataclass(back)
    assert hash(back) == hash(made)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"task":"a"}', '{"task":"a","encoding":"b","seed":-1,"settings":{}}',
     '{"task":"a","encoding":"b","seed":true,"settings":{}}',
     '{"task":"a","encoding":"b","seed":0,"settings":[1]}',
     '{"task":"a","encoding":"b","seed":0,"settings":{"x":[1]}}',
     '{"task":"a","encoding":"b","seed":0,"settings":{"x":NaN}}',
     '{"task":"","encoding":"b","seed":0,"settings":{}}',
     '{"task":"a","encoding":"b","seed":0,"settings":{},"more":1}'],
)  # fmt: skip
def test_what_is_no_cell_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="Cell.from_json"):
        Cell.from_json(text)


def test_what_a_cell_cannot_hold() -> None:
    with pytest.raises(ArgumentError, match="sorted names"):
        Cell("order", "rope", 0, (("b", 1), ("a", 2)))
    with pytest.raises(ArgumentError, match="finite number"):
        cell(rate=float("inf"))
    with pytest.raises(ArgumentError, match="a setting 'rate'"):
        cell().setting("rate")
