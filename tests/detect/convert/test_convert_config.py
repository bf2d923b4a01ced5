"""`posenc.convert_config`: what is written is read again, and what is lost is said."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc._core.reading import Layer, Reading
from posenc.cli import app
from posenc.detect.explain import conversion, targets

LLAMA_3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3 |= {"rope_type": "llama3", "original_max_position_embeddings": 8192}

SOURCES: dict[str, dict[str, Any]] = {
    "interleaved": {"dim": 64, "n_heads": 4, "n_layers": 2, "multiple_of": 256,
                    "rope_theta": 5e5, "use_scaled_rope": True, "max_seq_len": 8192},
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


# Configs of each format: a base, and groups of keys of which one is taken, or none.
DRAWN: dict[str, tuple[dict[str, Any], ...]] = {
    "hf4": (
        {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 6, "model_type": "llama",
         "intermediate_size": 128, "rope_theta": 1e4, "max_position_embeddings": 4096},
        [{"model_type": one} for one in ("mistral", "qwen3", "gemma3_text", "smollm3", "cohere")],
        [{"rope_scaling": LLAMA_3}, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}],
        [{"head_dim": 32}], [{"sliding_window": 64}], [{"rope_theta": 123456.0}],
    ),
    "meta": (
        {"dim": 64, "n_heads": 4, "n_layers": 4, "multiple_of": 256},
        [{"rope_theta": 5e5}], [{"use_scaled_rope": True}], [{"max_seq_len": 512}],
        [{"nope_layer_interval": 2}], [{"attention_chunk_size": 64}], [{"vocab_size": 32}],
    ),
    "mistral": (
        {"dim": 64, "n_layers": 2, "head_dim": 16, "hidden_dim": 128, "n_heads": 4, "norm_eps": 1},
        [{"sliding_window": 64}], [{"max_position_embeddings": 8192}],
        [{"yarn": {"factor": 4.0, "original_max_position_embeddings": 2048, "beta": 32, "alpha": 1,
                   "apply_scale": one}} for one in (True, False)],
        [{"llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 2048}}],
    ),
    "torchchat": (
        {"dim": 64, "n_heads": 4, "n_layers": 2, "block_size": 2048}, [{"rope_base": 5e5}],
        [{"rope_scaling": {k: v for k, v in LLAMA_3.items() if k != "rope_type"}}],
    ),
    "executorch": (
        {"dim": 64, "n_heads": 4, "n_layers": 4, "use_hf_rope": False}, [{"use_hf_rope": True}],
        [{"rope_theta": 5e5}], [{"partial_rotary_factor": 0.5}], [{"use_scaled_rope": True}],
        [{"rope_scale_factor": 32}], [{"no_rope_layer_interval": 2}],
    ),
    "litgpt": (
        {"n_embd": 64, "n_head": 4, "n_layer": 4, "block_size": 128, "rotary_percentage": 1.0},
        [{"rotary_percentage": 0.25}], [{"rope_interleave": True}], [{"rope_condense_ratio": 2}],
        [{"rope_adjustments": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_seq_len": 64}}],
        [{"sliding_window_size": 32, "sliding_window_indices": [0, 1, 0, 1]}],
    ),
    "neox": (
        {"num-layers": 2, "hidden-size": 64, "num-attention-heads": 4, "pos-emb": "rotary",
         "pipe-parallel-size": 1},
        [{"rotary-pct": 0.25}], [{"rotary-emb-base": 5e4}], [{"sliding-window-width": 32}],
        [{"max-position-embeddings": 256}],
    ),
    "olmo": (
        {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_sequence_length": 64, "rope": True},
        [{"rope_theta": 5e5}],
    ),
    "trtllm": (
        {"architecture": "A", "num_attention_heads": 4, "num_hidden_layers": 2, "hidden_size": 64,
         "position_embedding_type": "rope_gptj"},
        [{"position_embedding_type": "rope_gpt_neox"}], [{"rotary_base": 5e5}],
        [{"rotary_scaling": LLAMA_3}, {"rotary_scaling": {"type": "linear", "factor": 2.0}}],
        [{"max_position_embeddings": 128}], [{"rotary_pct": 0.5}], [{"head_size": 32}],
    ),
    "megatron": (
        {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "micro_batch_size": 1,
         "position_embedding_type": "rope"},
        [{"position_embedding_type": "yarn"}, {"multi_latent_attention": True}],
        [{"rotary_scaling_factor": 8}], [{"no_rope_freq": 2}], [{"rotary_percent": 0.5}],
    ),
    "maxtext": (
        {"base_emb_dim": 64, "base_num_query_heads": 4, "base_num_decoder_layers": 6,
         "head_dim": 16, "decoder_block": "qwen3", "rope_max_timescale": 1000000},
        [{"decoder_block": "llama4", "nope_layer_interval": 2}, {"decoder_block": "gemma4"}],
        [{"rope_linear_scaling_factor": 4.0}], [{"local_rope_max_timescale": 10000}],
    ),
}  # fmt: skip
SPECS = [field.name for field in dataclasses.fields(posenc.RoPE(4, pairing="half"))]


def _draw(name: str, seed: int) -> dict[str, Any]:
    """A config of a format."""
    rng = random.Random(f"{name} {seed}")
    base, *groups = DRAWN[name]
    taken = [rng.choice(group) for group in groups if seed and rng.random() < 0.5]
    return {key: value for one in (base, *taken) for key, value in one.items()}


def _does(entry: Layer, index: int) -> dict[str, Any]:
    """What a layer does, by the words of a sentence on what is lost."""
    own = {} if entry.spec is None else {name: getattr(entry.spec, name) for name in SPECS}
    sizes = [size for size, layers in entry.windows if layers is None or index in layers]
    window = next(iter(sizes), None)
    return {**own, "kind": entry.kind, "windows": window, "logit_scale": entry.logit_scale}


def _layers(plan: Reading) -> dict[tuple[int, str], dict[str, Any]]:
    """What each of eight layers does."""
    return {
        (index, entry.attention or ""): _does(entry, index)
        for entry in plan
        for index in (range(8) if entry.indices is None else entry.indices)
    }


def _unsaid(before: Reading, after: Reading, lost: tuple[str, ...]) -> set[str]:
    """What the second plan has otherwise, without a sentence on it."""
    ours, theirs = _layers(before), _layers(after)
    words = {
        word
        for layer in ours.keys() | theirs.keys()
        for one, other in [(ours.get(layer, {}), theirs.get(layer, {}))]
        for word in one.keys() | other.keys()
        if one.get(word) != other.get(word)
    }
    text = " ".join(lost)
    if "is not read back" in text or "another kind" in text or "layers reads back" in text:
        return set()
    return {word for word in words if f"{word} reads back as another" not in text}


def _written(config: dict[str, Any], to: str) -> Any:
    """A config in another format, or why there is none."""
    try:
        return posenc.convert_config(config, to)
    except posenc.DataError as error:
        return str(error)


def _check(name: str, seed: int, to: str) -> bool:
    """Whether a config could be written in a format; then it is held against what it says."""
    source = _draw(name, seed)
    before, made = posenc.explain(source, on_error="report"), _written(source, to)
    if isinstance(made, str):
        assert before.errors or "in the config" in made or "cannot say that" in made, source
        return False
    after, said = posenc.explain(made.config, on_error="report"), " ".join(made.lost)
    assert _unsaid(before, after, made.lost) == set(), (source, made)
    lengths = [{entry.length for entry in plan if entry.spec} for plan in (before, after)]
    assert lengths[0] == lengths[1] or "max_position" in said or "not read back" in said, source
    if name in targets() and not any(" back" in one or "no key" in one for one in made.lost):
        back = _written(made.config, name)
        if isinstance(back, str):
            assert back.split("expected ")[1].split(",")[0] in said, (source, made)
        elif name != "hf4" or " back" not in " ".join(back.lost):  # of what only a family says
            assert _layers(posenc.explain(back.config)) == _layers(before), (source, made, back)
    return True


def test_each_format_is_written_from_all_others_and_says_what_is_lost() -> None:
    assert sum(_check(name, 1, to) for name in DRAWN for to in targets()) > 60


@pytest.mark.slow("detect/explain", "presets/configs")
@pytest.mark.parametrize("name", DRAWN)
def test_a_round_trip_changes_no_number_that_is_not_said_to_be_lost(name: str) -> None:
    assert sum(_check(name, seed, to) for seed in range(2, 34) for to in targets()) > 100


def test_what_is_lost_is_said_and_the_rest_is_kept() -> None:
    made = posenc.convert_config(SOURCES["half"], "meta")
    assert made.config["rope_scaling_factor"] == 8.0
    assert "attention: pairing reads back as another" in made.lost
    assert any("permute the weights" in text for text in made.lost)
    assert posenc.convert_config(SOURCES["half"], "litgpt").lost == (
        "not written, as they say nothing of it: model_type, architectures, rms_norm_eps",
    )
    assert made.to_dict() == {"config": made.config, "lost": list(made.lost)}


def test_a_key_that_says_the_pairing_is_not_turned_round_to_keep_a_scaling() -> None:
    made = posenc.convert_config(SOURCES["half"], "executorch")
    assert made.config["use_hf_rope"] is True
    assert "attention: scaling reads back as another" in made.lost


@pytest.mark.parametrize("value", [1e-320, -1e308, "a" * 10_000, [[]]])
@pytest.mark.parametrize("key", ["head_dim", "rope_theta", "num_attention_heads", "rope_scaling"])
def test_a_value_that_cannot_be_meant_ends_in_a_short_error(key: str, value: Any) -> None:
    with pytest.raises(posenc.DataError, match=key) as caught:
        posenc.convert_config({**SOURCES["half"], key: value}, "litgpt")
    assert len(str(caught.value)) < 500
    assert "on_error" not in str(caught.value)


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'torchchat'"):
        posenc.convert_config(SOURCES["half"], "torchat")


@pytest.mark.parametrize("to", ["meta", "neox", "executorch", "torchchat"])
@pytest.mark.parametrize(("source", "kind"), [(BLOOM, "bias"), (GPT2, "table")])
def test_a_format_that_turns_queries_is_not_written_for_a_model_that_does_not(
    source: dict[str, Any], kind: str, to: str
) -> None:
    message = f"the kind of model that {to} describes, rotary, got {kind}"
    with pytest.raises(posenc.DataError, match=message):
        posenc.convert_config(source, to)
    assert posenc.convert_config(source, "hf4").lost == ()


def test_the_command_writes_a_file_and_says_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps(SOURCES["interleaved"]))
    out = tmp_path / "config.json"
    call = ["convert-config", str(tmp_path / "params.json"), "--to", "hf", "-o", str(out)]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert "lost: attention: pairing reads back as another" in result.stderr
    assert json.loads(out.read_text())["model_type"] == "llama"
    itself = CliRunner().invoke(app, [*call[:5], str(tmp_path / "params.json"), "--force"])
    assert itself.exit_code == 2
    assert "the output is the input, whose other keys would be lost" in itself.output
    refused = CliRunner().invoke(app, call)
    assert refused.exit_code == 2
    assert "exists: --force replaces it" in refused.output
    assert CliRunner().invoke(app, [*call, "--force", "--json"]).exit_code == 0
    printed = CliRunner().invoke(app, [*call[:4], "--json"])
    assert json.loads(printed.stdout)["config"] == json.loads(out.read_text())


def test_a_length_under_a_name_of_the_family_is_written() -> None:
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 16, "n_positions": 128}
    for width in ({}, {"head_dim": 1e-320}):  # which GPT-J does not read
        written = posenc.convert_config({"model_type": "gptj", **sizes, **width}, "neox").config
        assert (written["max_position_embeddings"], written["rotary_pct"]) == (128, 1.0)


def test_what_is_not_written_is_of_the_part_that_was_read() -> None:
    part = {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_sequence_length": 64, "mlp_ratio": 4}
    made = posenc.convert_config({"model": {**part, "rope": True}, "seed": 1}, "litgpt")
    assert made.lost == ("not written, as they say nothing of it: mlp_ratio",)


GEMMA: dict[str, dict[str, Any]] = {
    "litgpt": {
        "n_embd": 64, "n_head": 4, "n_layer": 6, "block_size": 128, "rotary_percentage": 1.0,
        "rope_base": 1e6, "rope_local_base_freq": 1e4, "sliding_window_size": 32,
        "sliding_window_indices": [1, 1, 1, 1, 1, 0], "rope_indices": [1, 1, 1, 1, 1, 0],
    },
    "hf": {
        "model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
        "num_hidden_layers": 6, "sliding_window": 32, "max_position_embeddings": 128,
        "rope_theta": 1e6, "rope_local_base_freq": 1e4,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", GEMMA)
def test_of_two_bases_each_is_written_in_its_key(name: str) -> None:
    made = posenc.convert_config(GEMMA[name], "litgpt")
    assert {key: made.config[key] for key in GEMMA["litgpt"]} == GEMMA["litgpt"]
    assert not any("reads back" in text for text in made.lost)
    one = posenc.convert_config(GEMMA[name], "executorch")
    assert one.config["rope_theta"] == 1e6
    assert "rope_local_base_freq has no key there: 10000.0" in one.lost


PHI_3: dict[str, Any] = {
    "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "hidden_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e4,
    "max_position_embeddings": 8192, "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
}  # fmt: skip


@pytest.mark.parametrize("to", ["executorch", "trtllm"])
def test_longrope_is_written_with_the_lengths_that_it_needs(to: str) -> None:
    made = posenc.convert_config(PHI_3, to)
    assert posenc.explain(made.config).layers[0].spec == posenc.explain(PHI_3).layers[0].spec
    assert not any("back" in text or "no key" in text for text in made.lost)


def test_weights_are_to_be_permuted_only_where_both_pairings_are_known() -> None:
    made = posenc.convert_config(GEMMA["litgpt"], "hf")
    assert any("is not read back" in text for text in made.lost)
    assert not any("permute the weights" in text for text in made.lost)


YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 2048,
}


@pytest.mark.parametrize("stated", [{}, {"beta_fast": 16}])
def test_betas_of_yarn_that_are_not_stated_are_written(stated: dict[str, Any]) -> None:
    made = posenc.convert_config({**SOURCES["half"], "rope_scaling": YARN | stated}, "mistral")
    yarn = made.config["yarn"]
    assert (yarn["beta"], yarn["alpha"]) == (stated.get("beta_fast", 32), 1)
    assert not any("scaling reads back" in text for text in made.lost)
    assert posenc.explain(made.config).layers


def test_an_error_of_what_was_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "BETAS", {})
    made = posenc.convert_config({**SOURCES["half"], "rope_scaling": YARN}, "mistral")
    assert any("with an error: yarn.beta has no value" in text for text in made.lost)


def test_a_key_that_is_lost_is_named_once() -> None:
    made = posenc.convert_config(_draw("torchchat", 0), "executorch")
    assert made.lost[-1] == "max_position_embeddings has no key there: 2048"
    assert not any("block_size" in text for text in made.lost)


def test_layers_of_windows_are_not_those_of_the_local_base_where_both_are_stated() -> None:
    stated = {"rope_indices": [1, 0, 0, 0, 0, 0], "sliding_window_indices": [1, 1, 1, 1, 1, 0]}
    made = posenc.convert_config({**GEMMA["litgpt"], **stated}, "litgpt").config
    assert {key: made[key] for key in stated} == stated
