"""Configs of other formats: told by their keys, read to the numbers of their own code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.io.inputs import CONFIG
from posenc._core.io.yaml_text import parse_yaml
from posenc.presets.config_formats import config_formats
from tests.tolerances import ORIGINAL, assert_close

# Written by running the code of each row's `source` on CPU in float32.
ROWS = json.loads((Path(__file__).parents[2] / "golden/config_formats.json").read_text())
POSITION = 63
LLAMA = {"dim": 64, "n_heads": 4, "n_layers": 2, "multiple_of": 256, "rope_theta": 1e4}


# Their code needs MindSpore, or a GPU with TensorRT: their rows are by reading.
BY_READING = {"mindformers", "mindformers-mcore", "trtllm"}


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
    assert turning - BY_READING == {row["format"] for row in ROWS}


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


def test_a_file_that_fits_two_formats_which_read_it_differently_names_both() -> None:
    both = {
        **LLAMA,
        "n_embd": 64,
        "n_head": 8,
        "n_layer": 2,
        "block_size": 8,
        "padding_multiple": 8,
    }
    del both["multiple_of"]
    with pytest.raises(posenc.DataError) as caught:
        posenc.explain(both)
    text = str(caught.value)
    assert "model_params of torchchat" in text
    assert "model_config.yaml of LitGPT" in text


# --- YAML and TOML --------------------------------------------------------------------------------

NEOX = (
    "{num-layers: 2, hidden-size: 64, num-attention-heads: 4, pos-emb: rotary, "
    "pipe-parallel-size: 1"
)
TEXTS = {
    "rotary_emb_base: 1e5": 100_000.0,
    "rotary_emb_base: 500_000": 500_000.0,
    "a: &part {b: 1}, c: *part": 10_000.0,
    "stamp: 2024-01-01": 10_000.0,
}
REFUSED = {
    "a: &part {b: 1}, <<: *part": "a file without merged parts",
    "rotary_emb_base: &base 5, rotary-emb-base: *base": "'*base'",
    "rotary_emb_base: 5, rotary_emb_base: 6": "each key once",
    "a: !!python/name:os.system x": "is not YAML",
    "rotary_emb_base: [1": "is not YAML",
}


@pytest.mark.parametrize("more", TEXTS)
def test_a_yaml_file_is_read_as_its_own_code_reads_it(tmp_path: Path, more: str) -> None:
    path = tmp_path / "any.yml"
    path.write_text(f"{NEOX}, {more}}}")
    assert posenc.explain(path)["attention"].spec.base == TEXTS[more]


@pytest.mark.parametrize("more", REFUSED)
def test_a_yaml_file_with_what_cannot_be_trusted_is_refused(tmp_path: Path, more: str) -> None:
    path = tmp_path / "any.yml"
    path.write_text(f"{NEOX}, {more}}}")
    with pytest.raises(posenc.DataError, match=re.escape(REFUSED[more])):
        posenc.explain(path)


def test_yaml_of_more_values_than_a_config_has_is_refused() -> None:
    few = CONFIG._replace(most=8)
    assert parse_yaml("[1, 1, 1, 1, 1, 1, 1]", "it", few) == [1] * 7
    with pytest.raises(posenc.DataError, match="at most 8 values"):
        parse_yaml("[1, 1, 1, 1, 1, 1, 1, 1]", "it", few)
    with pytest.raises(posenc.DataError, match="nested deeper"):
        parse_yaml("[" * 5000 + "]" * 5000, "it", CONFIG)


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "any.yaml").write_text(NEOX + "}")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(posenc.DependencyError, match=re.escape("pip install 'posenc[yaml]'")):
        posenc.explain(tmp_path / "any.yaml")


def test_a_toml_file_is_read_and_a_flavor_says_where_its_numbers_stand(tmp_path: Path) -> None:
    path = tmp_path / "any.toml"
    path.write_text('[model]\nname = "llama3"\nflavor = "8B"\n')
    with pytest.raises(posenc.DataError, match="numbers of a flavor stand in Python"):
        posenc.explain(path)
    path.write_text("[model\n")
    with pytest.raises(posenc.DataError, match="is not TOML"):
        posenc.explain(path)
