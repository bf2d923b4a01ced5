"""`posenc explain`: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import posenc
from posenc.cli import app
from tests.detect.configs import GEMMA_3, PLAIN, VERSION_4


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments], input=text)


def saved(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def test_words(tmp_path: Path) -> None:
    result = run(saved(tmp_path, VERSION_4["qwen2 with yarn"]))
    assert result.exit_code == 0
    for words in (
        "qwen2: settled",
        "rotary: 128 channels of each head turn, as 64 pairs",
        "pairing half: channels j and j + d/2 turn together, GPT-NeoX style",
        "base 1000000",
        "scaling YaRN(4.0, original_length=32768)",
        "ramp from pair 23 to 40: 24 pairs kept, 16 in between, 24 interpolated",
        "attention factor 1.13863: multiplies cosines and sines, so its square multiplies scores",
        "wavelengths from 6.283 to 20,253,023 positions",
        "40 of 64 pairs complete a turn within 32,768 positions, before the extension\n",
        "from posenc's entry for the family: pairing (llama)",
        "from the format's default: scaling.beta_fast (beta_fast)",
    ):
        assert words in result.output, words


def test_the_ramp_of_llama_3_is_told_by_its_pairs(tmp_path: Path) -> None:
    rule = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config: Any = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
              "max_position_embeddings": 131_072, "rope_theta": 500_000.0,
              "rope_scaling": rule | {"original_max_position_embeddings": 8192}}  # fmt: skip
    told = run(saved(tmp_path, config)).output
    assert "ramp from pair 28.22 to 34.98: 29 pairs kept, 6 in between, 29 interpolated\n" in told
    plan = posenc.from_hf(config)
    with pytest.raises(posenc.ArgumentError, match=r'one for each layer: plan\["attention"\].spec'):
        posenc.frequencies(plan)
    spec: Any = plan["attention"].spec
    slowed = posenc.frequencies(spec.replace(scaling=())) / posenc.frequencies(spec)
    assert (np.isclose(slowed, 1).sum(), np.isclose(slowed, 8).sum()) == (29, 29)
    assert re.findall(r"within ([\d,]+) positions, (.*)", told) == [
        ("8,192", "before the extension"), ("65,536", "with it"), ("131,072", "with it"),
    ]  # fmt: skip
    config["rope_scaling"]["high_freq_factor"] = 1.0
    assert "ramp" not in run(saved(tmp_path, config)).output


def test_json_is_the_plan_and_its_numbers(tmp_path: Path) -> None:
    result = run(saved(tmp_path, GEMMA_3), "--json")
    found = json.loads(result.output)
    assert [layer["layer"] for layer in found["layers"]] == ["sliding_attention", "full_attention"]
    assert found["layers"][1]["indices"] == [5, 11]
    told = found.pop("described")
    assert [layer["width"] for layer in told["layers"]] == [256, 256]
    assert posenc.from_json(json.dumps(found)) == posenc.from_hf(GEMMA_3)


def test_standard_input_and_folders(tmp_path: Path) -> None:
    saved(tmp_path, PLAIN)
    from_folder, piped = run(str(tmp_path)), run("-", text=json.dumps(PLAIN))
    assert from_folder.exit_code == piped.exit_code == 0
    assert from_folder.output == piped.output


def test_what_is_left_open_is_shown_and_the_exit_code_says_so(tmp_path: Path) -> None:
    config = {**PLAIN, "rope_theta": None}
    result = run(saved(tmp_path, config))
    assert result.exit_code == 1
    assert "not settled" in result.output
    assert "rope_theta is missing" in result.output
    assert run(saved(tmp_path, config), "--base", "10000").exit_code == 0
    unknown = {**PLAIN, "model_type": "nobody"}
    assert run(saved(tmp_path, unknown)).exit_code == 1
    result = run(saved(tmp_path, unknown), "--pairing", "half")
    assert result.exit_code == 0
    assert "from the caller: pairing" in result.output


def test_the_other_dialect(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", saved(tmp_path, GEMMA_3), "--dialect", "hf5"])
    assert result.exit_code == 0
    written = json.loads(result.stdout)
    assert written["rope_parameters"]["sliding_attention"]["rope_theta"] == 10000.0
    assert "states the pairing" in result.stderr
    result = run(saved(tmp_path, written), "--dialect", "hf4", "--json")
    found = json.loads(result.output)
    assert found["config"]["rope_local_base_freq"] == 10000.0
    assert found["lost"]


def test_layers_without_positions_and_grids(tmp_path: Path) -> None:
    config = {**PLAIN, "model_type": "smollm3", "no_rope_layers": [1, 0]}
    result = run(saved(tmp_path, config))
    assert "without positions (layer 1; 1 in all)\n  no positions" in result.output
    vision = {"model_type": "pixtral", "head_dim": 64, "rope_theta": 1e4}
    assert "axes h, w, sharing the pairs, by the rule parity" in run(saved(tmp_path, vision)).output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere.json"], 2, "is not there"),
        (["-", "--dialect", "hf6"], 2, "hf4"),
        (["-", "--pairing", "neox"], 2, "half"),
        (["-", "--base", "0"], 2, "not positive"),
        (["-"], 1, "is not JSON"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments, text="{")
    assert result.exit_code == code
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_gguf_file(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="writes the file of this test")
    from tests.detect.explain.test_gguf import BASIC, written

    result = run(str(written(tmp_path / "a.gguf", "qwen2", **BASIC)))
    assert result.exit_code == 0
    assert "base 500000" in result.output
