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
from posenc.detect.explain import fitting, formats
from posenc.presets.families import config_formats
from tests.tolerances import ORIGINAL, assert_close

# Written by running the code of each row's `source` on CPU in float32.
ROWS = json.loads((Path(__file__).parents[2] / "golden/config_formats.json").read_text())
POSITION = 63
LLAMA = {"dim": 64, "n_heads": 4, "n_layers": 2, "multiple_of": 256, "rope_theta": 1e4}


# Their code needs MindSpore, or a GPU with TensorRT: their rows are by reading.
BY_READING = {"mindformers", "mindformers-glm", "mindformers-mcore", "trtllm"}


def _name(row: dict[str, Any]) -> str:
    return f"{row['format']} {len(row['config'])}"


@pytest.mark.parametrize("row", ROWS, ids=map(_name, ROWS))
def test_a_config_turns_as_the_code_of_its_format(row: dict[str, Any]) -> None:
    wide = len(row["rotated"])
    x = np.arange(1, wide + 1)[None] / wide
    spec = posenc.explain(row["config"])[row.get("layer", "attention")].spec
    turned, positions = x.copy(), [row.get("positions", POSITION)]
    turned[:, : spec.dim] = posenc.rotate(spec, x[:, : spec.dim], positions=positions)
    assert_close(turned[0], np.array(row["rotated"]), 5 * ORIGINAL, row["source"])


def test_each_format_that_turns_has_numbers_of_its_own_code() -> None:
    turning = {n for n, f in config_formats().items() if any("rotary" in e for e in f["entries"])}
    assert turning - BY_READING == {row["format"] for row in ROWS}


LLAMA_3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3 |= {"rope_type": "llama3", "original_max_position_embeddings": 8192}
BASE = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
TRAINER = {**BASE, "max_position_embeddings": 128, "micro_batch_size": 1}
PILE = {**BASE, "max_position_embeddings": 128, "pipe_parallel_size": 1}
ENGINE = {"architecture": "MPTForCausalLM", "hidden_size": 64, "num_attention_heads": 4}
DOLMA = {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_sequence_length": 128}
GPT3 = {"base_emb_dim": 64, "base_num_query_heads": 4, "decoder_block": "gpt3"}
ROWS_64, SLOPES = posenc.Learned(64, length=128), posenc.ALiBi(4)
# What does not turn, and what is of no row: by reading the code of each.
OTHERS: dict[str, tuple[dict[str, Any], posenc.Spec | str | None]] = {
    "neox": (PILE, ROWS_64),
    "neox alibi": ({**PILE, "pos-emb": "alibi"}, SLOPES),
    "neox opt": ({**PILE, "opt_pos_emb_offset": 2}, "rows before those of positions"),
    "neox none": ({**PILE, "pos-emb": "none"}, None),
    "neox rpe": ({**PILE, "pos-emb": "rpe"}, "sinusoidal rows and buckets"),
    "olmo": ({"model": DOLMA}, ROWS_64),
    "olmo alibi": ({"model": {**DOLMA, "alibi": True}}, SLOPES),
    "olmo slopes": ({"model": {**DOLMA, "alibi": True, "alibi_bias_max": 4}}, "alibi_bias_max"),
    "olmo heads": ({"model": {**DOLMA, "n_heads": 12, "alibi": True}}, "no power of two"),
    "megatron": (TRAINER, ROWS_64),
    "megatron lora": ({**TRAINER, "position_embedding_type": "rope",
                       "lora_dropout_position": "post"}, posenc.RoPE(16, pairing="half")),
    "megatron none": ({**TRAINER, "position_embedding_type": "none"}, None),
    "megatron relative": ({**TRAINER, "position_embedding_type": "relative"}, "relative, rope"),
    "megatron mla": ({**TRAINER, "multi_latent_attention": True, "rotary_interleaved": True,
                      "position_embedding_type": "rope"}, "pairs of its own"),
    "megatron yarn": ({**TRAINER, "position_embedding_type": "yarn", "rotary_interleaved": True},
                      "of rotary_interleaved pairs"),
    "megatron mrope": ({**TRAINER, "position_embedding_type": "mrope"}, "without mrope_section"),
    "megatron mscale": ({**TRAINER, "position_embedding_type": "yarn", "mscale": 0.7,
                         "rotary_scaling_factor": 8}, "without mscale_all_dim"),
    "megatron skips": ({**TRAINER, "position_embedding_type": "rope",
                        "no_rope_freq": "([0]*3+[1])*2"}, "no_rope_freq='.*' is not a number"),
    "megatron saved": ({**TRAINER, "use_checkpoint_args": True}, "use_checkpoint_args"),
    "trtllm alibi": ({**ENGINE, "position_embedding_type": "alibi"}, SLOPES),
    "trtllm long": ({**ENGINE, "position_embedding_type": "long_rope"}, "only rope_gpt_neox"),
    "maxtext gpt3": ({**GPT3, "trainable_position_size": 128}, ROWS_64),
    "maxtext mrope": ({**GPT3, "decoder_block": "llama2", "use_mrope": True}, "blocks of Qwen"),
    "maxtext yarn": ({**GPT3, "decoder_block": "gemma4", "rope_type": "yarn"}, "what this decoder"),
    "maxtext share": ({**GPT3, "decoder_block": "gemma4", "local_rope_proportion": 0.5},
                      "or local_rope_proportion"),
    "sentence-transformers": ({"__version__": {}, "prompts": {}, "model_type":
                              "SentenceTransformer"}, "a config.json beside it"),
    "maxtext name": ({**GPT3, "decoder_block": "llama2", "rope_max_timescale": 500000}, "decides"),
    "torchtune": ({"model": {"_component_": "mine.model"}}, "whose numbers are not known"),
    "litgpt yarn": ({"n_embd": 64, "n_head": 4, "n_layer": 2, "block_size": 8, "rotary_percentage":
                    1.0, "rope_adjustments": {"beta_fast": 32}}, "ramp of YaRN round"),
    "genai": ({"model": {"decoder": {"head_size": 16}, "context_length": 8}}, "in the ONNX file"),
    "timm": ({"architecture": "vit_base_patch16_224", "num_classes": 2}, "the class of timm"),
    "spelled twice": ({"dim": 64, "n_heads": 4, "n_layers": 2, "rope_theta": 1e4, "rope_base": 5e5},
                      "rope_theta=10000.0 and rope_base=500000.0 contradict each other"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_turn_is_read_and_what_is_of_no_row_is_refused_by_name(name: str) -> None:
    config, answer = OTHERS[name]
    if not isinstance(answer, str):
        assert [entry.spec for entry in posenc.explain(config)] == [answer]
        return
    with pytest.raises(posenc.DataError, match=answer):
        posenc.explain(config)


def test_llama_4_is_read_as_its_config_json_is() -> None:
    ours = {**LLAMA, "n_layers": 4, "use_scaled_rope": True, "nope_layer_interval": 4,
            "moe_args": {"num_experts": 16}, "attn_temperature_tuning": True}  # fmt: skip
    theirs = {
        "model_type": "llama4_text", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
        "num_hidden_layers": 4, "rope_theta": 1e4, "no_rope_layer_interval": 4, "floor_scale": 8192,
        "attn_scale": 0.1, "attn_temperature_tuning": True,
        "rope_scaling": {**LLAMA_3, "factor": 16.0, "high_freq_factor": 1.0},
    }  # fmt: skip
    plans = [posenc.explain(config) for config in (ours, theirs)]
    read = [[(e.layer, e.spec, e.indices, e.logit_scale) for e in plan] for plan in plans]
    assert read[0] == read[1]


def test_sources_and_notes_speak_of_the_keys_of_the_file() -> None:
    plan = posenc.explain(LLAMA)
    assert [(s.field, s.origin, s.where) for s in plan["attention"].sources][:2] == [
        ("base", "config", "rope_theta"),
        ("dim", "config", "dim // n_heads"),
    ]
    assert "read as params.json of Meta (Llama), as meta-llama/llama-models" in str(plan)


def test_facts_golden_and_diff_read_a_format(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps({**LLAMA, "max_seq_len": 512}))
    known = posenc.facts(tmp_path)
    assert known.format == "meta"
    assert [fact.text for fact in known.of("length")] == ["512 by config key max_seq_len"]
    assert posenc.golden(tmp_path).settled
    assert posenc.diff(tmp_path, posenc.RoPE(16, pairing="interleaved")).exit_code == 0
    assert posenc.diff(tmp_path, posenc.RoPE(16, pairing="half")).exit_code == 1
    (tmp_path / "same.yml").write_text("{dim: 64, n_heads: 4, n_layers: 2, rope_base: 1e4}")
    assert posenc.diff(tmp_path, tmp_path / "same.yml").exit_code == 0
    with pytest.raises(posenc.PosencError, match="convert-config"):
        posenc.extend(tmp_path, 2048).config()


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


def test_no_config_of_transformers_fits_a_format() -> None:
    path = Path(__file__).parents[2] / "golden/configs/published.jsonl"
    configs = [json.loads(line)["config"] for line in path.read_text().splitlines()]
    assert len(configs) > 100
    assert [config for config in configs if fitting(config)] == []


def test_a_refusal_names_the_keys_that_speak_and_the_nearest_format() -> None:
    with pytest.raises(posenc.DataError) as caught:
        posenc.explain({"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_share": 0.5})
    text = str(caught.value)
    assert "These keys speak of positions, and no rule reads them: rotary_share=0.5" in text
    assert "The nearest format is model_config.yaml of LitGPT, which has block_size and" in text
    words = ("hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim", "rope_theta")
    assert formats.nearest(dict.fromkeys(words, 16)) == ""  # words of transformers tell no other


OLMO = {"model": {**DOLMA, "rope": True}}
BESIDE: dict[str, dict[str, Any]] = {
    "rope_theta=500000.0 stands outside model": {**OLMO, "rope_theta": 5e5},
    "d_model=128 stands outside model": {**OLMO, **DOLMA, "d_model": 128},
    "hidden_size=128 stands outside MODEL_ARGS": {
        "MODEL_ARGS": TRAINER, "model": {**TRAINER, "hidden_size": 128},
    },
    "rotary_pct: expected a value, got two values": {
        **PILE, "pos-emb": "rotary", "rotary-pct": 0.25, "rotary_pct": 0.5,
    },
}  # fmt: skip


@pytest.mark.parametrize("error", BESIDE)
def test_a_key_that_says_otherwise_in_another_place_is_an_error(error: str) -> None:
    with pytest.raises(posenc.DataError, match=re.escape(error)):
        posenc.explain(BESIDE[error])


def test_a_key_that_says_the_same_in_another_place_is_none() -> None:
    same = {**OLMO, **DOLMA, "run_name": "a", "optimizer": {"rope_theta": 1}}
    assert posenc.explain(same)["attention"].spec == posenc.RoPE(16, pairing="half")
    twice = {**PILE, "pos-emb": "rotary", "rotary-pct": 0.5, "rotary_pct": 0.5}
    assert posenc.explain(twice)["attention"].spec.dim == 8


@pytest.mark.parametrize("key", ["extends", "bases", "_base_"])
def test_a_file_that_names_another_for_its_other_keys_is_no_whole_config(key: str) -> None:
    with pytest.raises(posenc.DataError, match=rf'{key}=\["base.yaml"\] says where more of'):
        posenc.explain({**LLAMA, key: ["base.yaml"]})
    assert posenc.explain({**LLAMA, key: []})["attention"].spec.dim == 16


def test_a_refusal_names_the_model_that_a_recipe_is_for() -> None:
    recipe = {"base_model": "meta-llama/Llama-3.1-8B", "n_embd": 64, "n_head": 4, "n_layer": 2}
    with pytest.raises(posenc.DataError) as caught:
        posenc.explain({**recipe, "block_size": 8})
    text = str(caught.value)
    assert 'base_model="meta-llama/Llama-3.1-8B" says where more of the model stands' in text
    assert "which has rotary_percentage or padding_multiple too" in text


def test_a_format_of_which_much_is_missing_is_not_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"title": "T", "all": ["a", "b", "c", "d"], "names": {"w": ["d", "e", "f", "g"]}}
    monkeypatch.setattr(formats, "config_formats", lambda: {"t": row})
    assert formats.nearest(dict.fromkeys("efg", 1)) == ""
    assert (
        formats.nearest(dict.fromkeys("cefgd", 1))
        == ". The nearest format is T, which has a and b too"
    )


def test_a_window_that_a_format_does_not_know_is_an_error() -> None:
    with pytest.raises(posenc.DataError, match="does not know layer_sliding=4, which speaks of"):
        posenc.explain({**LLAMA, "layer_sliding": 4})


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
    "a: &name x, tokenizer_type: *name": 10_000.0,
    "init_method_std: 0.006, init_method_std: 0.02": 10_000.0,
}
REFUSED = {
    "a: &part {b: 1}, <<: *part": "a file without merged parts",
    "a: &base 5, rotary-emb-base: *base": "rotary-emb-base: expected a value, got the alias '*b",
    "rotary_emb_base: 5, rotary_emb_base: 6": "rotary_emb_base: expected a value, got two values",
    "a: !!python/name:os.system x": "is not YAML",
    "rotary_emb_base: [1": "is not YAML",
    "a: 1}\n--- {b: 2": "expected a single document",
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


# Whole files, and the key whose alias is named.
ALIASES = {
    "{model_type: llama, head_dim: 64, rope_scaling: {type: linear, factor: *x}}": (
        "rope_scaling.factor"
    ),
    "{model_type: llama, head_dim: 64, rope_theta: 1e4, layer_types: [*x, *x]}": "layer_types.1",
    "{model_type: llava, text_config: *x}": "text_config",
    "{_component_: y, model: *x}": "model",
    "{_class_name: FluxTransformer2DModel, attention_head_dim: *x}": "attention_head_dim",
    NEOX.replace("rotary", "*x") + "}": "pos-emb",
}


@pytest.mark.parametrize("text", ALIASES)
def test_an_alias_that_is_read_is_refused_by_its_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(text.replace("{", "{a: &x 5, ", 1))
    message = f"{ALIASES[text]}: expected a value, got the alias '*x'"
    with pytest.raises(posenc.DataError, match=re.escape(message)):
        posenc.explain(path)


def test_yaml_of_more_values_than_a_config_has_is_refused() -> None:
    assert parse_yaml("[1, 1, 1, 1, 1, 1, 1]", "it", 8) == [1] * 7
    with pytest.raises(posenc.DataError, match="at most 8 values"):
        parse_yaml("[1, 1, 1, 1, 1, 1, 1, 1]", "it", 8)
    with pytest.raises(posenc.DataError, match="nested deeper"):
        parse_yaml("[" * 5000 + "]" * 5000, "it", CONFIG.most)


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
