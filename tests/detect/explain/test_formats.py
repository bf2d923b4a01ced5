"""Configs of other formats: told by their keys, read to the numbers of their own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.presets.config_formats import config_formats
from tests.tolerances import ORIGINAL, assert_close

# Written by running the code of each row's `source` on CPU in float32.
ROWS = json.loads((Path(__file__).parents[2] / "golden/config_formats.json").read_text())
POSITION = 63
LLAMA = {"dim": 64, "n_heads": 4, "n_layers": 2, "multiple_of": 256, "rope_theta": 1e4}


def _name(row: dict[str, Any]) -> str:
    return f"{row['format']} {len(row['config'])}"


@pytest.mark.parametrize("row", ROWS, ids=map(_name, ROWS))
def test_a_config_turns_as_the_code_of_its_format(row: dict[str, Any]) -> None:
    wide = len(row["rotated"])
    x = np.arange(1, wide + 1)[None] / wide
    spec = posenc.explain(row["config"])["attention"].spec
    turned = x.copy()
    turned[:, : spec.dim] = posenc.rotate(spec, x[:, : spec.dim], positions=[POSITION])
    assert_close(turned[0], np.array(row["rotated"]), 5 * ORIGINAL, row["source"])


def test_each_format_that_turns_has_numbers_of_its_own_code() -> None:
    turning = {n for n, f in config_formats().items() if any("rotary" in e for e in f.entries)}
    assert turning == {row["format"] for row in ROWS}


def test_sources_and_notes_speak_of_the_keys_of_the_file() -> None:
    plan = posenc.explain(LLAMA)
    assert [(s.field, s.origin, s.where) for s in plan["attention"].sources][:2] == [
        ("base", "config", "rope_theta"),
        ("dim", "config", "dim // n_heads"),
    ]
    assert "read as params.json of Meta (Llama), as meta-llama/llama-models" in str(plan)


def test_a_key_that_speaks_of_positions_and_is_of_another_format_is_an_error() -> None:
    with pytest.raises(posenc.DataError) as caught:
        posenc.explain({**LLAMA, "sliding_window": 4096, "rotary_pct": 0.5})
    assert "params.json of Meta (Llama) does not know rotary_pct=0.5" in str(caught.value)
