"""`diff` of configs against the models that transformers builds from them."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import posenc
from posenc.detect.contract.sides.models import materialise

torch = pytest.importorskip("torch", reason="transformers builds its models with it")
transformers = pytest.importorskip("transformers", reason="whose models are asked")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow("detect/contract", "detect/explain"),
]
ROOT = Path(__file__).resolve().parents[3]
ROWS = json.loads((ROOT / "docs" / "data" / "diff.json").read_text(encoding="utf-8"))["rows"]
COMPARED = [row for row in ROWS if row["verdict"] != "not compared"]
TEN = (
    "llama", "qwen3", "mistral", "gemma3_text", "phi3", "gpt_oss", "deepseek_v3", "qwen2_5_vl_text",
    "bert", "whisper",
)  # fmt: skip


def tool() -> Any:
    spec = importlib.util.spec_from_file_location(
        "diff_models", ROOT / "tools/models/diff_models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("model_type", TEN)
def test_a_model_of_transformers_is_its_config(model_type: str) -> None:
    assert tool().row(model_type)["verdict"] == "nothing differs"


@pytest.mark.parametrize("change", ["base", "scaling"])
def test_a_model_of_another_config_is_named(change: str) -> None:
    tiny = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 8}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    rope = {"rope_theta": 5e5, **(yarn if change == "scaling" else {"rope_type": "default"})}
    other = {"rope_theta": 1e4 if change == "base" else 5e5, "rope_type": "default"}
    made = transformers.LlamaModel(transformers.LlamaConfig(**tiny, rope_parameters=other))
    config = transformers.LlamaConfig(**tiny, rope_parameters=rope, max_position_embeddings=4096)
    found = posenc.diff(config, made)
    assert found.differences[0].field == change, found.lines()
    # Casting a model rounds its frequencies, which `inv_freq` then has at every position.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert posenc.diff(made.config, made.bfloat16()).differences[0].field == "dtype"


TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 8}
# Model type, what its config says, a change of it, the field that is named then.
BIASED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("t5", {"num_layers": 2, "num_heads": 4}, {"relative_attention_max_distance": 64},
     "max_distance"),
    ("mpnet", TINY, {"relative_attention_num_buckets": 16}, "heads"),
    ("bloom", {"hidden_size": 48, "n_head": 12, "n_layer": 2}, {"n_head": 6}, "heads"),
    ("mpt", {"d_model": 48, "n_heads": 12, "n_layers": 2}, {"n_heads": 6}, "heads"),
    ("swin", {"depths": [1, 1], "num_heads": [2, 4], "embed_dim": 8}, {"window_size": 5}, "heads"),
    ("qwen2_vl", {"vision_config": {"embed_dim": 64, "num_heads": 4, "depth": 1}},
     {"vision_config": {"embed_dim": 64, "num_heads": 2, "depth": 1}}, ""),
    ("llama4", {"vision_config": {"image_size": 28, "patch_size": 7, "hidden_size": 96,
                                  "num_attention_heads": 4, "num_hidden_layers": 1}}, {}, ""),
    ("vit", {**TINY, "image_size": 32}, {"image_size": 64}, "length"),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "keys", "change", "field"), BIASED)
def test_biases_grids_and_vision_towers_are_asked_of_the_code_of_the_model(
    model_type: str, keys: dict[str, Any], change: dict[str, Any], field: str
) -> None:
    def built(**more: Any) -> tuple[Any, Any]:
        config = transformers.CONFIG_MAPPING[model_type](**{**keys, **more})
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
        materialise(model)
        return config, model

    config, model = built()
    found = posenc.diff(config, model)
    assert (found.verdict, found.differences) == ("nothing differs", ()), found.lines()
    asked = {"qwen2_vl": "vision.vision: cos_sin", "llama4": "vision.vision: cos_sin",
             "vit": "embeddings: table"}.get(model_type, ": bias")  # fmt: skip
    assert any(asked in line for line in found.compared), found.lines()
    if field:
        other = posenc.diff(config, built(**change)[1])
        assert field in [row.field for row in other.rows] or not other.compared, other.lines()


def test_biases_that_code_rounds_are_named() -> None:
    config = transformers.CONFIG_MAPPING["falcon"](**TINY, alibi=True)
    (row,) = posenc.diff(config, transformers.AutoModel.from_config(config)).differences
    assert (row.field, row.b) == ("dtype", "in bfloat16")  # which Falcon multiplies in


def test_a_bias_of_another_rule_is_named() -> None:
    config = transformers.CONFIG_MAPPING["t5"](num_layers=1, num_heads=4, d_model=16, d_ff=16)
    model = transformers.AutoModel.from_config(config)
    attention = model.encoder.block[0].layer[0].SelfAttention
    weight = attention.relative_attention_bias.weight.clone()
    attention.relative_attention_max_distance = 64
    (row,) = posenc.diff(config, model).differences
    assert (row.field, row.where, row.b) == ("max_distance", "encoder", "64")
    assert torch.equal(attention.relative_attention_bias.weight, weight)


def test_a_folder_is_asked_without_its_weights(tmp_path: Path) -> None:
    config = transformers.CONFIG_MAPPING["qwen2"](max_position_embeddings=4096)
    config.save_pretrained(tmp_path)
    assert posenc.diff(tmp_path, f"hf:{tmp_path}").verdict == "nothing differs"
    data = json.loads((tmp_path / "config.json").read_text())
    data["model_type"], data["auto_map"] = "unheard_of", {"AutoConfig": "code.Config"}
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(posenc.DataError, match="code of the model's own"):
        posenc.diff(posenc.RoPE(64, pairing="half"), f"hf:{tmp_path}")


NAMED = {
    "attn_implementation": "org/kernel",
    "_attn_implementation_internal": "org/kernel",
    "experts_implementation": "org/kernel",
    "use_kernels": True,
    "quantization_config": {"quant_method": "gptq", "bits": 4},
    "auto_map": {"AutoModel": "a.B"},
}


@pytest.mark.parametrize("kind", ["llama", "gemma3", "qwen2_vl", "mixtral"])
def test_a_folder_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    data = transformers.CONFIG_MAPPING[kind]().to_dict()
    data = {k: {**v, **NAMED} if k.endswith("_config") else v for k, v in data.items()} | NAMED
    (tmp_path / "config.json").write_text(json.dumps(data))
    asked: list[Any] = []
    monkeypatch.setattr("socket.socket.connect", lambda *a: asked.append(a))
    monkeypatch.setattr("socket.getaddrinfo", lambda *a, **k: asked.append(a))
    for where in (
        "transformers.integrations.hub_kernels.load_and_register_attn_kernel",
        "transformers.dynamic_module_utils.get_class_from_dynamic_module",
        "huggingface_hub.hf_hub_download",
        "huggingface_hub.snapshot_download",
    ):
        monkeypatch.setattr(where, lambda *a, **k: asked.append((a, k)))
    plain = {k: v for k, v in data.items() if k not in NAMED}
    assert posenc.diff(plain, f"hf:{tmp_path}").verdict == "nothing differs"
    assert asked == []


@pytest.mark.parametrize("change", [{"num_hidden_layers": 10**6}, {"hidden_size": 2**40}])
def test_a_folder_of_absurd_sizes_is_not_built(tmp_path: Path, change: dict[str, int]) -> None:
    data = transformers.CONFIG_MAPPING["llama"]().to_dict() | {"head_dim": None} | change
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(posenc.DataError, match="more than any model has"):
        posenc.diff(posenc.RoPE(64, pairing="half"), f"hf:{tmp_path}")


def test_what_is_built_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers.CONFIG_MAPPING["llama"](num_hidden_layers=2).save_pretrained(tmp_path)
    folder = f"hf:{tmp_path}"
    monkeypatch.setattr("posenc.detect.facts.folders.MOST_BUILT", 64)
    assert posenc.diff(tmp_path, folder).verdict == "nothing differs"
    monkeypatch.setattr("posenc.detect.facts.folders.MOST_BUILT", 16)
    with pytest.raises(posenc.DataError, match="more than 16 modules and tensors"):
        posenc.diff(tmp_path, folder)


@pytest.mark.slow("detect/contract", release=True)
@pytest.mark.parametrize("row", COMPARED, ids=[row["model_type"] for row in COMPARED])
def test_the_page_says_what_is_found(row: dict[str, Any]) -> None:
    found = tool().row(row["model_type"])
    assert found["verdict"] == row["verdict"]
    fields = [(d["field"], d["where"]) for d in row["differences"]]
    assert [(d["field"], d["where"]) for d in found["differences"]] == fields


@pytest.mark.costly
@pytest.mark.parametrize("model_type", ["pixtral", "lfm3_vl_vision"])
def test_a_tower_turns_queries_in_the_order_of_its_own_code(model_type: str) -> None:
    found = tool().row(model_type)
    assert found["verdict"] == "nothing differs"
    assert any(": rotate" in line for line in found["compared"])
    assert not [line for line in found["not_compared"] if "became" in line]


def test_a_hundred_model_types_are_compared() -> None:
    turned = [r for r in COMPARED if any(": cos_sin" in line for line in r["compared"])]
    assert len(turned) >= 100
