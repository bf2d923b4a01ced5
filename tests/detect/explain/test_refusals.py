"""A refusal says what the file is, and which of its keys speak of positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import posenc

FLUX = {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56],
        "attention_head_dim": 128, "num_attention_heads": 24}  # fmt: skip
TEXT = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 40,
        "max_position_embeddings": 32768, "rope_theta": 1e4}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"positional_embedding": "rope"}, 'positional_embedding="rope"'),
        ({"rope": True, "dim": 64}, "rope=true"),
        ({"pos_emb": "rotary"}, 'pos_emb="rotary"'),
        ({"qk_rope_head_dim": 64}, "qk_rope_head_dim=64"),
        ({"model_type": "nobody", "alibi_starting_size": 512}, "alibi_starting_size=512"),
        ({"model": {"args": {"use_rotary": True}}}, "model.args.use_rotary=true"),
    ],
)
def test_keys_that_speak_of_positions_are_named(config: dict[str, Any], told: str) -> None:
    with pytest.raises(posenc.DataError) as caught:
        posenc.from_hf(config)
    assert told in str(caught.value)
    assert told.partition("=")[0] + "=" in str(caught.value)


def test_keys_of_other_things_are_not_named() -> None:
    (told,) = posenc.from_hf({"vocab_size": 9, "rope": False, "x": None}, on_error="report").errors
    assert told == "nothing in the config says what the model does about positions"


def test_a_class_of_diffusers_that_nobody_knows_is_called_so() -> None:
    for reader in (posenc.from_hf, posenc.explain, posenc.golden):
        with pytest.raises(posenc.DataError, match="no transformer class of diffusers") as caught:
            reader({**FLUX, "_class_name": "FluxTransformer"})
        told = str(caught.value)
        assert "did you mean 'FluxTransformer2DModel'" in told
        assert "no config" not in told


def test_a_family_that_nobody_knows_has_a_nearest_preset() -> None:
    with pytest.raises(posenc.DataError, match="The nearest preset is 'hunyuan-dit'"):
        posenc.from_hf({"model_type": "hunyuan_dit_2", "sample_size": 32})


def test_an_adapter_names_its_base_model(tmp_path: Path) -> None:
    adapter = {"base_model_name_or_path": "org/base", "peft_type": "LORA"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
    for source in (adapter, tmp_path):
        with pytest.raises(posenc.DataError, match="config of an adapter.*'org/base'"):
            posenc.from_hf(source)
    (tmp_path / "config.json").write_text(json.dumps({**TEXT, "model_type": "llama"}), "utf-8")
    assert posenc.from_hf(tmp_path).layers


def test_chatglm_cites_the_code_that_was_read() -> None:
    config = {"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32}
    first = posenc.from_hf({**config, "position_encoding_2d": True})
    second = posenc.from_hf({**config, "kv_channels": 128})
    told = [" ".join(note.text for note in plan.notes) for plan in (first, second)]
    assert "apply_rotary_pos_emb_index" in told[0]
    assert "GLMAttention" not in told[0]
    assert "GLMAttention" in told[1]


# --- keys beside a part, and keys in other words --------------------------------------------------


@pytest.mark.parametrize("name", ["glm4v", "glm4v_moe", "ernie4_5_vl_moe"])
def test_keys_of_the_text_repeated_above_change_nothing(name: str) -> None:
    text = {**TEXT, "rope_scaling": {"partial_rotary_factor": 0.5}} if name == "glm4v" else TEXT
    nested = {"model_type": name, "text_config": dict(text)}
    plan = posenc.from_hf(nested)
    repeated = posenc.from_hf({**text, **nested})
    assert repeated.layers == plan.layers
    assert repeated.warnings == plan.warnings
    other = posenc.from_hf({**text, **nested, "rope_theta": 5e5})
    assert other.layers == plan.layers
    assert any(text.startswith("rope_theta=500000.0 is not read") for text in other.warnings)


def test_a_file_in_the_words_of_other_code_is_read_by_them() -> None:
    config = {"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_layer": 12,
              "n_positions": 2048, "rotary_emb_base": 777, "rotary_emb_fraction": 0.5}  # fmt: skip
    plan = posenc.from_hf(config)
    spec = plan["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    assert (spec.dim, spec.base) == (32, 777.0)
    assert any("the file was written for other code" in text for text in plan.warnings)
    own = {**config, "hidden_size": 768, "num_attention_heads": 12}
    ours = posenc.from_hf(own)["attention"].spec
    assert (ours.dim, ours.base) == (64, 1000.0)  # type: ignore[union-attr]


def test_a_class_is_known_by_its_name_with_underscores_too() -> None:
    config = {"model_type": "other", "architectures": ["Qwen3_MoeForCausalLM"], **TEXT}
    plan = posenc.from_hf(config)
    assert plan["attention"].spec.pairing.order == "half"  # type: ignore[union-attr]


LINEAR = {"type": "linear", "factor": 8.0}
TYPES = {"layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2}
NESTED = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6}}


@pytest.mark.parametrize("name", ["gemma3_text", "gemma3n_text", "modernbert", "olmo3"])
@pytest.mark.parametrize(
    ("scaling", "told"),
    [
        (LINEAR, "rope_scaling.type: not read by the class"),
        (NESTED, "rope_scaling.full_attention: not read by the class"),
    ],
)
def test_a_scaling_that_the_class_drops_is_refused(
    name: str, scaling: dict[str, Any], told: str
) -> None:
    """It writes rope_scaling over dictionaries that say "rope_type": "default"."""
    config = {"model_type": name, "head_dim": 64, **TYPES, "rope_scaling": scaling}
    (text,) = posenc.from_hf(config, on_error="report").errors
    assert told in text
    assert "State rope_scaling.rope_type" in text


@pytest.mark.parametrize(
    ("name", "scaling", "scaled"),
    [
        ("olmo3", {"rope_type": "linear", "factor": 8.0}, ["full_attention"]),
        ("olmo3", {**LINEAR, "rope_type": "linear"}, ["full_attention"]),
        ("olmo3", {"type": "default"}, []),
        (
            "deepseek_v4",
            {**LINEAR, "type": "yarn", "original_max_position_embeddings": 512},
            ["full_attention"],
        ),
        ("llama", LINEAR, ["full_attention", "sliding_attention"]),
    ],
)
def test_a_scaling_that_the_class_takes_is_read(
    name: str, scaling: dict[str, Any], scaled: list[str]
) -> None:
    config = {"model_type": name, "head_dim": 64, **TYPES, "rope_theta": 1e4,
              "max_position_embeddings": 4096, "rope_scaling": scaling}  # fmt: skip
    plan = posenc.from_hf(config)
    found = [e.layer for e in plan if isinstance(e.spec, posenc.RoPE) and e.spec.scaling]
    assert sorted(found) == scaled


def test_a_type_of_layers_without_a_dictionary_has_the_base_of_its_class() -> None:
    """Where the class fills it; elsewhere these layers do not turn."""
    own = {"sliding_attention": None, **NESTED}
    config = {"model_type": "olmo3", "head_dim": 64, **TYPES, "rope_parameters": own}
    assert posenc.from_hf(config)["sliding_attention"].spec == posenc.RoPE(
        64, pairing="half", base=5e5
    )
    other = {**config, "model_type": "gemma4_text"}
    assert posenc.from_hf(other, on_error="report")["sliding_attention"].spec is None


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "glm4", "partial_rotary_factor": None}, "partial_rotary_factor is null"),
        ({"model_type": "olmo3", **TYPES, "rope_theta": True}, "rope_theta=True is not a number"),
        ({"model_type": "olmo3", **TYPES, "rope_theta": "1e4"}, "rope_theta='1e4' is not a numb"),
        (
            {"model_type": "olmo2", "rope_parameters": {"rope_theta": None}},
            "rope_parameters.rope_theta is null, beside rope_theta=10000",
        ),
    ],
)
def test_what_is_stated_as_nothing_is_not_left_out(config: dict[str, Any], told: str) -> None:
    (text,) = posenc.from_hf(
        {"head_dim": 64, "rope_theta": 1e4, **config}, on_error="report"
    ).errors
    assert told in text
    honest = {"head_dim": 64, "rope_theta": 1e4, **{k: v for k, v in config.items() if v}}
    honest = {**honest, "rope_theta": 1e4, "rope_parameters": None}
    assert not posenc.from_hf(honest, on_error="report").errors


@pytest.mark.parametrize(
    ("name", "own"), [("apertus", "Llama3"), ("gpt_oss", "YaRN"), ("ministral3", "YaRN")]
)
def test_an_empty_dictionary_is_stated(name: str, own: str) -> None:
    """The class takes its own scaling only where the whole dictionary is left out."""
    config = {
        "model_type": name,
        "head_dim": 64,
        "rope_theta": 5e4,
        "max_position_embeddings": 4096,
    }
    (entry,) = posenc.from_hf({**config, "rope_parameters": {}})
    assert entry.spec == posenc.RoPE(64, pairing="half", base=5e4)
    (entry,) = posenc.from_hf(config)
    assert isinstance(entry.spec, posenc.RoPE)
    assert [type(one).__name__ for one in entry.spec.scaling] == [own]
