"""Configs of other formats: told by their keys, read to the numbers of their own code."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
from posenc._core.io.inputs import CONFIG
from posenc._core.io.yaml_text import parse_yaml
from posenc.cli import app
from posenc.detect.explain import fitting, formats, targets
from posenc.presets.config_formats import config_formats
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
    spec = posenc.explain(row["config"])["attention"].spec
    turned = x.copy()
    turned[:, : spec.dim] = posenc.rotate(spec, x[:, : spec.dim], positions=[POSITION])
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
    "megatron none": ({**TRAINER, "position_embedding_type": "none"}, None),
    "megatron yarn": ({**TRAINER, "position_embedding_type": "yarn"}, "yarn, mrope, relative"),
    "megatron mla": ({**TRAINER, "multi_latent_attention": True}, "multi_latent_attention"),
    "megatron saved": ({**TRAINER, "use_checkpoint_args": True}, "use_checkpoint_args"),
    "trtllm alibi": ({**ENGINE, "position_embedding_type": "alibi"}, SLOPES),
    "trtllm long": ({**ENGINE, "position_embedding_type": "long_rope"}, "only rope_gpt_neox"),
    "maxtext gpt3": ({**GPT3, "trainable_position_size": 128}, ROWS_64),
    "maxtext mrope": ({**GPT3, "decoder_block": "qwen3", "use_mrope": True}, "three axes"),
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


def test_a_length_under_a_name_of_the_family_is_written() -> None:
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 16, "n_positions": 128}
    written = posenc.convert_config({"model_type": "gptj", **sizes}, "neox").config
    assert written["max_position_embeddings"] == 128


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
}
REFUSED = {
    "a: &part {b: 1}, <<: *part": "a file without merged parts",
    "a: &base 5, rotary-emb-base: *base": "rotary-emb-base: expected a value, got the alias '*b",
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


# --- convert_config -------------------------------------------------------------------------------

SOURCES: dict[str, dict[str, Any]] = {
    "interleaved": {**LLAMA, "rope_theta": 5e5, "use_scaled_rope": True, "max_seq_len": 8192},
    "half": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
        "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "rope_theta": 5e5,
        "rope_scaling": LLAMA_3,
    },
    "yarn": {
        "dim": 64, "n_layers": 2, "head_dim": 16, "hidden_dim": 128, "n_heads": 4, "norm_eps": 1e-5,
        "rope_theta": 1e6, "max_position_embeddings": 8192,
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 2048, "beta": 32, "alpha": 1,
                 "apply_scale": False},
    },
    "partial": {
        "num-layers": 2, "hidden-size": 64, "num-attention-heads": 4, "pos-emb": "rotary",
        "rotary-pct": 0.25, "max-position-embeddings": 2048, "pipe-parallel-size": 1,
    },
}  # fmt: skip
BLOOM = {"model_type": "bloom", "n_head": 8, "hidden_size": 64, "n_layer": 2}
GPT2 = {"model_type": "gpt2", "n_head": 8, "n_embd": 64, "n_layer": 2, "n_positions": 128}
# What cannot say all of it: without its keys a file is none of the format, so none is written.
LACKS = {"mistral": {"interleaved", "partial"}, "trtllm": {"interleaved", "yarn", "partial"}}


@pytest.mark.parametrize("to", targets())
@pytest.mark.parametrize("name", SOURCES)
def test_a_round_trip_changes_no_number_that_is_not_said_to_be_lost(name: str, to: str) -> None:
    source = SOURCES[name]
    before = posenc.explain(source)
    if name in LACKS.get(to, ()):
        with pytest.raises(posenc.DataError, match="none in the config"):
            posenc.convert_config(source, to)
        return
    made = posenc.convert_config(source, to)
    lost = [text for text in made.lost if "read back" in text]
    after = posenc.explain(made.config, on_error="report")
    same = [(entry.spec, entry.length) for entry in after]
    if not lost and not any("max_position" in text for text in made.lost):
        assert same == [(entry.spec, entry.length) for entry in before]
    changed = {text.split(": ")[1].split(" is")[0] for text in lost}
    for one, other in zip(before, after, strict=True):
        fields = {field.name for field in dataclasses.fields(one.spec)}
        other_fields = {f for f in fields if getattr(one.spec, f) != getattr(other.spec, f)}
        assert other_fields == changed


def test_what_is_lost_is_said_and_the_rest_is_kept() -> None:
    made = posenc.convert_config(SOURCES["half"], "meta")
    assert made.config["rope_scaling_factor"] == 8.0
    assert "attention: pairing is read back otherwise" in made.lost
    assert any("permute the weights" in text for text in made.lost)
    assert posenc.convert_config(SOURCES["half"], "litgpt").lost == (
        "not written, as they say nothing of it: model_type, architectures, rms_norm_eps",
    )
    assert made.to_dict() == {"config": made.config, "lost": list(made.lost)}


def test_a_key_that_says_the_pairing_is_not_turned_round_to_keep_a_scaling() -> None:
    made = posenc.convert_config(SOURCES["half"], "executorch")
    assert made.config["use_hf_rope"] is True
    assert "attention: scaling is read back otherwise" in made.lost


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'torchchat'"):
        posenc.convert_config(LLAMA, "torchat")


@pytest.mark.parametrize("to", ["meta", "neox", "executorch", "torchchat"])
@pytest.mark.parametrize(("source", "kind"), [(BLOOM, "bias"), (GPT2, "table")])
def test_a_format_that_turns_queries_is_not_written_for_a_model_that_does_not(
    source: dict[str, Any], kind: str, to: str
) -> None:
    message = f"a model of kind rotary, as {to} would have it, got one of kind {kind}"
    with pytest.raises(posenc.DataError, match=message):
        posenc.convert_config(source, to)
    assert posenc.convert_config(source, "hf4").lost == ()


def test_the_command_writes_a_file_and_says_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps(SOURCES["interleaved"]))
    out = tmp_path / "config.json"
    call = ["convert-config", str(tmp_path / "params.json"), "--to", "hf", "-o", str(out)]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert "lost: attention: pairing is read back otherwise" in result.stderr
    assert json.loads(out.read_text())["model_type"] == "llama"
    refused = CliRunner().invoke(app, call)
    assert refused.exit_code == 2
    assert "exists: --force replaces it" in refused.output
    assert CliRunner().invoke(app, [*call, "--force", "--json"]).exit_code == 0
    printed = CliRunner().invoke(app, [*call[:4], "--json"])
    assert json.loads(printed.stdout)["config"] == json.loads(out.read_text())
