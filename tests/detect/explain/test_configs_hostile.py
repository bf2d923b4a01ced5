"""Configs that are wrong: a clear sentence that names the key, and never a traceback."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc.cli import app
from posenc.presets.families import families

BERT = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
DEBERTA = {**BERT, "model_type": "deberta-v2", "relative_attention": True, "pos_att_type": "c2p"}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "rope_theta": 10_000.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
SWIN = {
    "model_type": "swin",
    "embed_dim": 8,
    "num_heads": [1, 2],
    "depths": [2, 2],
    "window_size": 7,
}


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"model_type": "sew-d"}, "pos_att_type is missing: it is one of c2p, p2c"),
    "misspelled": (
        {**without(BERT, "hidden_size"), "hiden_size": 64},
        "hidden_size is missing. Did you mean 'hiden_size'?",
    ),
    "misspelled alternative": (
        {"model_type": "gpt2", "n_position": 8, "n_embd": 8},
        "n_positions is missing (or max_position_embeddings). Did you mean 'n_position'?",
    ),
    "null": ({**BERT, "hidden_size": None}, "hidden_size is null"),
    "a word": ({**BERT, "hidden_size": "64"}, "hidden_size='64' is not a number"),
    "truth": ({**BERT, "hidden_size": True}, "hidden_size=True is not a number"),
    "negative": ({**BERT, "hidden_size": -1}, "expected a width of at least 1, got -1"),
    "huge": ({**BERT, "hidden_size": 10**9}, "dim=1e+09 is more than any model has"),
    "a window without end": (
        {
            **SWIN,
            "model_type": "swinv2",
            "window_size": 2**20,
            "image_size": 2**22,
            "patch_size": 1,
        },
        "LogCPB: window: expected at most 4194304 offsets",
    ),
    "a base in words": ({**LLAMA, "rope_theta": "1e6"}, "rope_theta='1e6' is not a number"),
    "a base in words, inside": (
        {**without(LLAMA, "rope_theta"), "rope_parameters": {"rope_theta": "1e6"}},
        "rope_parameters.rope_theta='1e6' is not a number",
    ),
    "a base in words, before another": (
        {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": "1e6"}},
        "rope_scaling.rope_theta='1e6' is not a number",
    ),
    "a magnitude in words": (
        {**LLAMA, "rope_scaling": {**YARN, "attention_factor": "1.3"}},
        "rope_scaling.attention_factor='1.3' is not a number",
    ),
    "a bound that is a list": (
        {**LLAMA, "rope_scaling": {**YARN, "beta_fast": [32]}},
        "rope_scaling.beta_fast=[32] is not a number",
    ),
    "a factor that is true": (
        {**LLAMA, "rope_scaling": {**YARN, "mscale": True}},
        "rope_scaling.mscale=True is not a number",
    ),
    "a share beyond a float's range": (
        {
            **LLAMA,
            "model_type": "qwen2_vl",
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
            "partial_rotary_factor": -1e308,
        },
        "partial_rotary_factor: expected 0, or a number from 1e-30",
    ),
    "flags of layers in words": (
        {**LLAMA, "model_type": "smollm3", "num_hidden_layers": 8, "no_rope_layers": "1110"},
        "no_rope_layers='1110' is not a list of layers",
    ),
    "a text at the top, without heads": (
        {"model_type": "qwen2_vl", "rope_theta": 1e6, "hidden_size": 2048, "vision_config": {}},
        "the width of a head is not stated",
    ),
    "a head in words": ({**LLAMA, "head_dim": "64"}, "head_dim='64' is not a number"),
    "a true head": ({**LLAMA, "head_dim": True}, "head_dim=True is not a number"),
    "a share in words": (
        {**LLAMA, "partial_rotary_factor": "0.5"},
        "partial_rotary_factor='0.5' is not a number",
    ),
    "beyond floats": ({**BERT, "hidden_size": 10**400}, "is not a number"),
    "two names": (
        {**DEBERTA, "embedding_size": 48},
        "embedding_size=48 and hidden_size=64 contradict each other",
    ),
    "division": (
        {**DEBERTA, "num_attention_heads": 0},
        "has no value with hidden_size=64 and num_attention_heads=0",
    ),
    "unknown word": (
        {**DEBERTA, "pos_att_type": ["c2q"]},
        "pos_att_type=['c2q'] is none of c2p, p2c, c2p|p2c. Did you mean 'c2p'?",
    ),
    "unknown type": (
        {**BERT, "position_embedding_type": "relative_keys"},
        "is none of relative_key, relative_key_query. Did you mean 'relative_key'?",
    ),
    "fields that do not fit": (
        {**DEBERTA, "position_buckets": 256, "max_relative_positions": 128},
        "max_distance: expected more than 129",
    ),
    "stages": ({**SWIN, "depths": 4}, "depths is not a list of the layers of each stage"),
    "many layers in a stage": ({**SWIN, "depths": [10**9]}, "depths is not a list"),
    "short list": ({**SWIN, "num_heads": [1]}, "num_heads"),
    "list of words": (
        {"model_type": "reformer", "hidden_size": 8, "axial_pos_shape": ["a"]},
        "axial_pos_shape is not a list of whole numbers",
    ),
    "layers that are no list": (
        {
            "model_type": "sam_vision_model",
            "hidden_size": 8,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
            "window_size": 2,
            "use_rel_pos": True,
            "num_hidden_layers": 2,
            "global_attn_indexes": 1,
        },
        "global_attn_indexes and num_hidden_layers do not say which layers these are",
    ),
    "name of a family": (
        {"model_type": "bret"},
        "'bret' is no known family. Did you mean 'bert'?",
    ),
    "a name that is a list": ({"model_type": ["bert"]}, "model_type=['bert'] is not the name"),
    "too many layers": (
        {"model_type": "llama", "head_dim": 8, "rope_theta": 1e4, "num_hidden_layers": 10**12},
        "1000000000000 layers are more than any model has",
    ),
    "rotary width": (
        {"model_type": "llama", "head_dim": 10**12, "rope_theta": 1e4},
        "a rotated width of 1e+12 is more than any model has",
    ),
    "fraction": (
        {"model_type": "phi", "head_dim": 8, "rope_theta": 1e4, "partial_rotary_factor": 1e300},
        "partial_rotary_factor=1e+300 is no width",
    ),
    "bases": (
        {
            "model_type": "granite_swa",
            "num_hidden_layers": 1,
            "layer_rope_theta": [[1]],
            "head_dim": 8,
        },
        "layer_rope_theta is not a list of numbers",
    ),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_the_sentence_names_the_key(case: str) -> None:
    config, words = WRONG[case]
    with pytest.raises(posenc.DataError) as caught:
        posenc.from_hf(config)
    assert words in str(caught.value)
    assert any(words in text for text in posenc.from_hf(config, on_error="report").errors)


@pytest.mark.parametrize("value", ["4096", [4096], True, -1, 2**53, 2**70])
def test_what_is_no_length_is_not_used_and_said(value: Any) -> None:
    config = {**LLAMA, "max_position_embeddings": value}
    plan = posenc.from_hf(config)
    assert plan["attention"].length is None
    assert [f"max_position_embeddings={value!r} is no length: it is not used"] == [*plan.warnings]
    assert posenc.golden(config).parts
    assert posenc.from_hf({**config, "max_position_embeddings": 2**53 - 1})["attention"].length


def test_fields_of_yarn_that_are_null_or_numbers_are_read() -> None:
    fields = {"attention_factor": None, "beta_fast": 32, "mscale": None, "truncate": None}
    config = {**LLAMA, "rope_scaling": {**YARN, **fields}, "max_position_embeddings": 4096}
    assert not posenc.from_hf(config).warnings


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_an_engine_is_asked_for_no_type_that_is_no_word(engine: str) -> None:
    for model_type in ({"a": 1}, ["llama"], None, "x" * 5000):
        with pytest.raises(posenc.PosencError) as caught:
            posenc.diff({**LLAMA, "model_type": model_type}, f"engine:{engine}")
        assert len(str(caught.value)) < 1000


def test_layers_that_do_not_turn_are_those_of_the_class_where_they_are_left_out() -> None:
    config = {**LLAMA, "model_type": "mllama_text_model", "num_hidden_layers": 10}
    for more, still in (({}, (3, 8)), ({"cross_attention_layers": []}, ())):
        entries = [entry for entry in posenc.from_hf({**config, **more}) if entry.spec is not None]
        assert entries[0].indices == tuple(i for i in range(10) if i not in still)


TEXTS = {
    "digits": ('{"hidden_size": ' + "9" * 5000 + "}", "a number of too many digits"),
    "deep": ('{"a":' * 5000 + "1" + "}" * 5000, "nested deeper"),
    "deep list": ("[" * 100_000, "nested deeper"),
    "not an object": ("[1]", "keys, each with a value"),
    "twice": ('{"a": 1, "a": 2}', "each key once"),
    "open": ('{"a": 1', "is not JSON"),
}


@pytest.mark.parametrize("case", sorted(TEXTS))
def test_texts_that_are_no_config(case: str, tmp_path: Path) -> None:
    text, words = TEXTS[case]
    with pytest.raises(posenc.DataError, match=words):
        posenc.from_hf(text)
    path = tmp_path / "config.json"
    path.write_text(text)
    result = CliRunner().invoke(app, ["explain", str(path)])
    assert result.exit_code != 0
    assert result.exception is None or isinstance(result.exception, SystemExit | posenc.DataError)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert posenc.from_hf("\ufeff" + json.dumps(BERT)) == posenc.from_hf(BERT)


def test_words_that_say_nothing_are_not_warned_of() -> None:
    plain = posenc.from_hf({**BERT, "position_embedding_type": "absolute"})
    assert plain.warnings == ()
    assert plain == posenc.from_hf(BERT)


# --- anything at all ------------------------------------------------------------------------------

ANYTHING: tuple[Any, ...] = (
    *(0, 1, 2, -1, -7, 3, 8, 12, 64, 10**6, 2**31, 2**63, 10**30, 10**400, -(10**400)),
    *(1e308, 1.5, -0.0, True, False, None, "", "x", "yarn", "c2p|p2c", "9" * 5000),
    *([], [0], [1, 2], [2, 2, 6, 2], [10**400], ["a"], [None], [[1]], [1] * 1000),
    *({}, {"a": 1}, {"rope_type": [1]}, {"rope_type": "yarn", "factor": 10**400}),
    {"full_attention": {"rope_theta": 1e4}},
    {"rope_type": "linear", "factor": 1e308},
)
COMMON = (
    "hidden_size",
    "num_attention_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "num_hidden_layers",
    "layer_types",
    "partial_rotary_factor",
    "text_config",
    "rotary_dim",
    "vision_config",
    "no_rope_layers",
    "layer_rope_theta",
    "per_layer_config",
    "mrope_section",
)


def keys_of(rules: Any) -> set[str]:
    """Every word of the rules that could be a key."""
    if isinstance(rules, str):
        return set(re.findall(r"[a-z_][a-z0-9_]{2,}", rules)) if len(rules) < 120 else set()
    if isinstance(rules, dict):
        rules = list(rules.values())
    return set().union(*map(keys_of, rules)) if isinstance(rules, list) else set()


@pytest.mark.parametrize("share", range(8))
def test_nothing_in_a_config_gives_a_traceback(share: int) -> None:
    chance = random.Random(share)
    for name, row in list(families().items())[share::8]:
        words = [keys_of(list(rule.values())) for rule in map(plain, row.entries)]
        keys = sorted(set(COMMON).union(*words))
        for _ in range(2):
            config = {key: chance.choice(ANYTHING) for key in keys if chance.random() < 0.8}
            config["model_type"] = name
            posenc.from_hf(config, on_error="report")  # raises nothing, whatever it holds


def plain(rule: Any) -> dict[str, Any]:
    """A rule as lists and dictionaries, without its sentences."""
    kept = {
        k: v
        for k, v in rule.items()
        if k not in ("source", "unknown_because", "refused_because", "name")
    }
    return dict(json.loads(json.dumps(kept)))
