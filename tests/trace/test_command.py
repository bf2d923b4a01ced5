"""`posenc trace` and `posenc.trace`: folders of models, some of their layers, code, contracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import posenc  # noqa: E402
from posenc.cli import app  # noqa: E402
from posenc.detect.contract import read  # noqa: E402
from posenc.detect.facts import folders  # noqa: E402
from tests.trace import broken, models as m  # noqa: E402
from tests.trace.breaks import angles  # noqa: E402

KINDS = ["sliding_attention", "full_attention"]
CODE = """
import torch
from tests.trace import broken
from tests.trace.breaks import angles

def healthy():
    return broken.llama("eager").model

def wrong():
    case = broken.llama("sdpa")
    angles.base(case.model)
    return case.model, case.calls[0]

def ends():
    raise SystemExit(0)

def takes(size):
    return size

def none():
    return torch.nn.Linear(4, 4)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    broken.llama("eager").model.to(torch.bfloat16).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["trace", *words])


def test_folder(folder: Path) -> None:
    """A folder is held against its own config, and against another."""
    result = run(str(folder), "--tokens", "20")
    assert (result.exit_code, "agrees" in result.output) == (0, True), result.output
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 5e5
    other = folder.parent / "other.json"
    other.write_text(json.dumps(config))
    result = run(str(folder), "--expected", str(other), "--tokens", "20")
    assert (result.exit_code, result.output.count("base: expected 500000")) == (1, 6)
    assert "first: layer 0" in result.output
    assert result.output.startswith("\u2717\u2717\u2717  \u2717 differs\n")  # with their meaning


def test_what_is_not_there(folder: Path) -> None:
    """A folder, weights, or a tensor that is missing is named; no random layer is vouched for."""
    with pytest.raises(posenc.DataError, match=r"that exist, got '/nowhere/at/all'"):
        posenc.trace("/nowhere/at/all", tokens=3)
    with pytest.raises(posenc.ArgumentError, match="config alone does not run"):
        posenc.trace(folder / "config.json", expected=folder / "config.json")
    with pytest.raises(posenc.ArgumentError, match=f"{folder.parent}: what these dumps are held"):
        posenc.trace(folder.parent)
    file = folder / "model.safetensors"
    arrays = load_file(file)
    for layer, name in ((1, "self_attn.q_proj"), (2, "mlp.up_proj")):
        arrays[f"other.{layer}"] = arrays.pop(f"model.layers.{layer}.{name}.weight")
    save_file(arrays, file, metadata={"format": "pt"})
    seen = posenc.trace(folder, tokens=8)
    assert [text.partition(":")[0] for text in seen.unseen] == ["layer 1", "layer 2"]
    assert "that the folder lacks: layers.1.self_attn.q_proj.weight" in seen.unseen[0]
    assert (seen.exit_code, seen.findings) == (3, ())
    assert posenc.trace(folder, tokens=8, layers=[0]).exit_code == 0
    arrays["model.norm.weight2"] = arrays.pop("model.norm.weight")
    save_file(arrays, file, metadata={"format": "pt"})
    seen = posenc.trace(folder, tokens=8, layers=[0])
    assert (seen.exit_code, len(seen.remarks)) == (0, 1)  # no attention comes after it
    assert "on 8 tokens at positions 0 to 7, held against" in str(seen)


# Families whose layers return a tensor, a tuple, or have windows or no positions by their number.
PARTIAL = {
    "llama": torch.bfloat16, "gptj": torch.float32, "bloom": torch.bfloat16,
    "gemma3": torch.bfloat16, "llama4": torch.bfloat16, "neox": torch.float16,
    "deepseek": torch.bfloat16,
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=() if name == "gptj" else pytest.mark.slow("detect/trace", "detect/facts"),
        )
        for name in PARTIAL
    ],
)
def test_some_layers(name: str, tmp_path: Path) -> None:
    """Layers that are asked for are built and read alone, and keep their numbers."""
    case = getattr(broken, name)("eager")
    case.model.to(PARTIAL[name]).save_pretrained(tmp_path)
    (model, _), (whole, _) = (folders.read(tmp_path, own, "trace") for own in ([1, 2], None))
    assert {p.dtype for p in model.parameters()} == {PARTIAL[name]}
    own, every = dict(model.named_parameters()), dict(whole.named_parameters())
    assert own.keys() < every.keys()
    assert not any(p.is_meta for p in own.values())
    for key, value in own.items():
        torch.testing.assert_close(value, every[key], rtol=0, atol=0)
    trace = posenc.trace(tmp_path, layers=[1, 2])
    assert [layer.index for layer in trace.layers] == [1, 2]
    assert not trace.findings


def test_layers_that_are_not_there(folder: Path) -> None:
    result = run(str(folder), "--layers", "2-3")
    assert result.exit_code == 2
    assert "layers from 0 to 2" in result.output
    for words in ("x", "3-1", "1-", "-1", "1,,2"):
        assert run(str(folder), "--layers", words).exit_code == 2


def test_code(tmp_path: Path) -> None:
    """A function of a file: its model, or a model and inputs; what ends the process is said."""
    file = tmp_path / "mine_of_the_trace.py"
    file.write_text(CODE)
    assert run(f"{file}:healthy").exit_code == 0
    result = run(f"{file}:wrong", "--json")
    findings = json.loads(result.stdout)["findings"]
    assert {(f["layer"], f["tensor"], f["field"]) for f in findings} == {
        (1, "query", "base"), (1, "key", "base")
    }  # fmt: skip
    assert result.exit_code == 1
    assert run(f"{file}:wrong", "--tokens", "8").exit_code == 2  # it has inputs of its own
    assert run(f"{file}:ends").exit_code == 3
    assert run(f"{file}:none").exit_code == 2
    result = run(f"{file}:takes")
    assert (result.exit_code, "without arguments" in result.output) == (3, True)
    assert run(str(tmp_path / "nothing")).exit_code == 2


def test_no_code_of_a_folder(folder: Path) -> None:
    """A folder that names code of its own, or has pickles alone, is refused."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": "mine", "auto_map": {"AutoModel": "code.Mine"}})
    )
    (folder / "code.py").write_text("raise SystemExit(7)")
    result = run(str(folder))
    assert result.exit_code == 3
    assert "class of transformers" in result.output
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    result = run(str(folder))
    assert result.exit_code == 3
    assert ".safetensors" in result.output


def test_contract(tmp_path: Path) -> None:
    """What ran is saved as a contract, which another model, or dumps of it, are held against."""
    case = m.text("Gemma3", **broken.GEMMA3 | {"num_hidden_layers": 2, "layer_types": KINDS})(
        "sdpa"
    )
    first = posenc.torch.trace(case.model, case.calls[0])
    first.save(tmp_path / "gemma.json")
    angles.base_everywhere(case.model)
    wrong = posenc.torch.trace(case.model, case.calls[0], expected=str(tmp_path / "gemma.json"))
    assert {finding.layer for finding in wrong.findings} == {0}
    with pytest.raises(FileExistsError):
        first.save(tmp_path / "gemma.json")
    case = broken.cohere("eager")
    broken.turns.query_backward(case.model)
    with pytest.raises(posenc.DataError, match="a model that computes what is expected"):
        posenc.torch.trace(case.model, case.calls[0]).save(tmp_path / "no.json")
    case = broken.complex_gpt("")  # nothing says what it is
    broken.families.base_of_complex(case.model)
    names = posenc.torch.trace(case.model, case.calls[0]["tokens"]).save(tmp_path / "own.json")
    assert [part.spec for part in read(names[0]).parts] == [
        case.expected, case.expected.replace(base=5e5)
    ]  # fmt: skip
