"""`posenc golden`: what it writes and says, its JSON, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import posenc
from posenc.cli import app
from posenc.detect.contract import read
from tests.detect.configs import VERSION_4


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["golden", *map(str, arguments)], input=text)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(VERSION_4["gpt-oss"]))
    return tmp_path / "config.json"


def test_the_file_is_the_contract(config: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.golden.json"
    result = run(config, "-o", target)
    assert result.exit_code == 0
    assert result.output.startswith(f"{target}: gpt_oss, 2 kinds of layer, 28 records; settled")
    assert read(target) == posenc.golden(VERSION_4["gpt-oss"])
    assert run(target).output == target.read_text()


def test_formats_and_outputs_that_exist(config: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.json"
    done = json.loads(run(config, "-o", target, "--format", "both", "--json").output)
    assert done["output"] == [str(target), str(tmp_path / "m.safetensors")]
    assert done["parts"] == ["sliding_attention", "full_attention"]
    assert read(tmp_path / "m.safetensors").fingerprint == done["fingerprint"]
    before = target.read_bytes()
    for arguments in ((config, "-o", target), ("preset:llama:8", "-o", target)):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "exists: --force replaces it" in result.output
        assert target.read_bytes() == before
    assert run("preset:llama:8", "-o", target, "--force").exit_code == 0
    assert read(target)["llama"].spec == posenc.preset("llama", 8)
    result = run(config, "-o", tmp_path / "m.safetensors", "--format", "both")
    assert result.exit_code == 2
    assert "another ending" in result.output


def test_json_without_a_file_is_the_contract(config: Path) -> None:
    found = json.loads(run(config).output)
    assert found["fingerprint"] == posenc.golden(config).fingerprint


@pytest.mark.parametrize(
    ("arguments", "text", "code", "words"),
    [
        (["nowhere.json"], None, 2, "'nowhere.json' is not there"),
        ([""], None, 2, "the name is empty"),
        ([], None, 2, "Missing argument 'SOURCE'"),
        (["preset:llama"], None, 2, "expected preset:llama:WIDTH, with its width"),
        (["preset:lama:8"], None, 2, "Did you mean 'llama'"),
        (["plan:gema3"], None, 2, "Did you mean 'gemma3'"),
        (["plan:gemma3", "--force"], None, 2, "-o is missing"),
        (["plan:gemma3", "--base", "-1"], None, 2, "is not positive"),
        (["-"], "", 1, "standard input: expected the JSON"),
        (["-"], "model.json", 1, "standard input: expected the JSON"),
        (['{"type": "RoPE", "dim": 7, "pairing": "half"}'], None, 1, "even"),
        (['{"model_type": "no such model"}'], None, 1, "leaves something open"),
    ],
)
def test_mistakes(arguments: list[str], text: str | None, code: int, words: str) -> None:
    result = run(*arguments, text=text)
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_standard_input_and_the_json_of_a_spec(tmp_path: Path) -> None:
    spec = posenc.to_json(posenc.ALiBi(4))
    for result in (run(spec), run("-", text=spec)):
        assert result.exit_code == 0
        assert json.loads(result.output)["parts"][0]["kind"] == "bias"


def test_warnings_and_what_is_left_out_are_told(tmp_path: Path) -> None:
    note = posenc.Note("warning", "an unknown key 'rope_alpha'", layer="a")
    layer = posenc.Layer("a", spec=posenc.MixedRoPE(8, heads=2, pairing="half"))
    (tmp_path / "reading.json").write_text(posenc.to_json(posenc.Reading((layer,), notes=(note,))))
    result = run(tmp_path / "reading.json")
    assert result.exit_code == 0
    assert "warning: a: an unknown key 'rope_alpha'" in result.output
    assert "left out: a: angles: those of MixedRoPE" in result.output
