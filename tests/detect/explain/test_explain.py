"""Configs read into plans: against transformers' own reading, and what is refused by name."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.detect.explain.describe import describe, lines
from posenc.presets import names, row
from posenc.presets.families import families
from tests.detect.configs import GEMMA_3, PLAIN, VERSION_4
from tests.tolerances import assert_close

# float32 frequencies of published code, as a fraction of the exact ones.
FLOAT32_FREQUENCY = 2e-6


def with_(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    changed = {**copy.deepcopy(config), **changes}
    return {key: value for key, value in changed.items() if value is not ...}


def scaled(**params: Any) -> dict[str, Any]:
    return with_(PLAIN, rope_scaling=params)


# --- both dialects, as transformers reads them ----------------------------------------------------


def reference(config: dict[str, Any], length: int | None) -> tuple[np.ndarray, float]:
    """The frequencies and attention factor of the class that transformers would build."""
    pytest.importorskip("torch", reason="transformers is written in torch")
    transformers = pytest.importorskip("transformers", reason="is the oracle of this test")
    import importlib
    import logging

    logging.disable(logging.WARNING)
    try:
        kind = config["model_type"]
        made = transformers.AutoConfig.for_model(
            kind,
            **{
                k: v
                for k, v in copy.deepcopy(config).items()
                if k not in ("model_type", "architectures")
            },
        )
        part = getattr(made, "text_config", made)
        module = importlib.import_module(
            type(made).__module__.replace("configuration_", "modeling_")
        )
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        cls = next(
            c
            for n, c in vars(module).items()
            if n.endswith("RotaryEmbedding") and "Vision" not in n
        )
        rule = part.rope_parameters["rope_type"]
        build = (
            cls.compute_default_rope_parameters if rule == "default" else ROPE_INIT_FUNCTIONS[rule]
        )
        extra = {} if rule == "default" else {"seq_len": length}
        frequencies, factor = build(part, **extra)
    finally:
        logging.disable(logging.NOTSET)
    return frequencies.double().numpy(), float(factor)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(VERSION_4))
@pytest.mark.parametrize("length", [100, 9000])
def test_version_4_is_read_as_transformers_reads_it(name: str, length: int) -> None:
    config = VERSION_4[name]
    frequencies, factor = reference(config, length)
    plan = posenc.from_hf(config)
    for entry in plan:
        if entry.layer.startswith("vision"):  # which the class makes
            continue
        assert isinstance(entry.spec, posenc.RoPE)
        spec = entry.spec.at(length)
        got = posenc.frequencies(spec)
        assert_close(got, frequencies, FLOAT32_FREQUENCY * np.abs(frequencies), name)
        assert spec.attention_factor == pytest.approx(factor, rel=1e-12)
        assert not plan.errors


@pytest.mark.parametrize("name", sorted(VERSION_4))
def test_both_dialects_make_one_plan(name: str) -> None:
    new = posenc.to_hf(VERSION_4[name], "hf5")
    assert "rope_theta" not in new.config
    assert "rope_scaling" not in new.config
    old = posenc.to_hf(new.config, "hf4")
    assert "rope_parameters" not in old.config
    for config in (new.config, old.config):
        read = posenc.from_hf(config)
        assert [e.spec for e in read] == [e.spec for e in posenc.from_hf(VERSION_4[name])]
        assert [e.indices for e in read] == [e.indices for e in posenc.from_hf(VERSION_4[name])]


def test_layers_with_bases_of_their_own_in_both_dialects() -> None:
    new = posenc.to_hf(GEMMA_3, "hf5").config
    assert set(new["rope_parameters"]) == {"full_attention", "sliding_attention"}
    for config in (GEMMA_3, new, posenc.to_hf(new, "hf4").config):
        plan = posenc.from_hf(config)
        assert plan["sliding_attention"].spec == posenc.RoPE(256, pairing="half")
        scaling = posenc.scaling.Linear(8)
        exact = posenc.RoPE(256, pairing="half", base=1e6, scaling=scaling)
        assert plan["full_attention"].spec == exact
        assert plan["full_attention"].indices == (5, 11)


def test_a_number_beside_the_types_of_layers_stays_in_both_dialects() -> None:
    """Laguna: one `original_max_position_embeddings` for all types."""
    yarn = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 32.0, "beta_fast": 64.0,
            "original_max_position_embeddings": 4096}  # fmt: skip
    plain = {"rope_type": "default", "rope_theta": 1e4}
    nested = {"full_attention": yarn, "sliding_attention": plain}
    config = {**GEMMA_3, "rope_parameters": {**nested, "original_max_position_embeddings": 4096}}
    for key in ("rope_theta", "rope_local_base_freq", "rope_scaling"):
        config.pop(key, None)
    new = posenc.to_hf(config, "hf5").config
    assert new["rope_parameters"]["original_max_position_embeddings"] == 4096
    assert [e.spec for e in posenc.from_hf(new)] == [e.spec for e in posenc.from_hf(config)]


def test_what_a_dialect_cannot_say_is_listed() -> None:
    nested = posenc.to_hf(GEMMA_3, "hf5").config
    nested["rope_parameters"]["sliding_attention"].update(rope_type="linear", factor=2.0)
    lost = posenc.to_hf(nested, "hf4").lost
    assert any("one rope_scaling for all layers" in sentence for sentence in lost)
    assert any("pairing" in sentence for sentence in posenc.to_hf(PLAIN, "hf5").lost)


# --- where configs come from ----------------------------------------------------------------------


class Config:
    def to_dict(self) -> dict[str, Any]:
        return copy.deepcopy(PLAIN)


def test_every_kind_of_source_gives_one_plan(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(PLAIN))
    plan = posenc.from_hf(PLAIN)
    for source in (file, str(file), tmp_path, json.dumps(PLAIN), Config()):
        assert posenc.from_hf(source) == plan
    assert PLAIN["rope_theta"] == 10000.0  # the caller's dictionary is left as it was


def test_a_plan_is_its_json() -> None:
    plan = posenc.from_hf(GEMMA_3)
    assert posenc.from_json(posenc.to_json(plan)) == plan


def test_sources_say_where_fields_were_found() -> None:
    entry = posenc.from_hf(VERSION_4["deepseek v3"])["attention"]
    found = {source.field: (source.origin, source.where) for source in entry.sources}
    assert found["base"] == ("config", "rope_theta")
    assert found["dim"] == ("config", "qk_rope_head_dim")
    assert found["pairing"] == ("preset", "deepseek-v3")
    assert found["scaling.rounding"] == ("format", "truncate")
    assert found["scaling.factor"] == ("config", "rope_scaling.factor")


def test_parts_of_composite_models_are_read_by_name() -> None:
    text = with_(PLAIN, model_type="mistral")
    config = {
        "model_type": "mistral3",
        "text_config": text,
        "vision_config": {
            "model_type": "pixtral",
            "head_dim": 64,
            "rope_theta": 10000.0,
            "num_hidden_layers": 24,
        },
    }
    plan = posenc.from_hf(config)
    assert [entry.layer for entry in plan] == ["text", "vision.vision"]
    assert plan["vision.vision"].spec.axes == ("h", "w")  # type: ignore[union-attr]


def test_a_family_is_known_by_its_classes_too() -> None:
    config = with_(PLAIN, model_type=..., architectures=["LlamaForCausalLM"])
    assert posenc.from_hf(config)["attention"].spec == posenc.RoPE(64, pairing="half")


def test_a_family_without_a_row_works_through_its_config_and_the_caller() -> None:
    config = with_(PLAIN, model_type="nobody_knows")
    with pytest.raises(posenc.DataError, match='pass pairing="half"'):
        posenc.from_hf(config)
    plan = posenc.from_hf(config, pairing="interleaved")
    assert plan["attention"].spec == posenc.RoPE(64, pairing="interleaved")
    assert ("pairing", "caller") in {(s.field, s.origin) for s in plan["attention"].sources}
    assert any("nobody_knows" in text for text in plan.warnings)


def test_a_pairing_of_the_caller_takes_the_place_of_the_row() -> None:
    entry = posenc.from_hf(PLAIN, pairing="interleaved")["attention"]
    assert [s.origin for s in entry.sources if s.field == "pairing"] == ["caller"]
    assert {s.field for s in entry.sources} >= {"base", "dim"}


def test_layers_without_positions() -> None:
    config = with_(PLAIN, model_type="smollm3", num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0])
    plan = posenc.from_hf(config)
    assert [entry.kind for entry in plan.at(3)] == ["none"]
    assert [entry.kind for entry in plan.at(2)] == ["rotary"]
    llama4 = with_(
        PLAIN,
        model_type="llama4_text",
        num_hidden_layers=4,
        no_rope_layer_interval=4,
        attn_temperature_tuning=True,
        floor_scale=8192,
        attn_scale=0.1,
    )
    (entry,) = posenc.from_hf(llama4).at(3)
    exact = posenc.Temperature(rule="log_floor", length=8192, strength=0.1, start=1)
    assert entry.logit_scale == exact


def test_models_without_rotation() -> None:
    assert posenc.from_hf({"model_type": "mamba"})["model"].kind == "none"
    wav = posenc.from_hf({"model_type": "wav2vec2"})["features"]
    assert wav.kind == "convolution"
    whisper = posenc.from_hf({"model_type": "whisper", "d_model": 64, "max_target_positions": 9})
    assert whisper["encoder"].kind == "table"


# --- refusals -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown rule": (scaled(rope_type="yran", factor=2.0), "Did you mean 'yarn'"),
    "factor below 1": (
        scaled(rope_type="linear", factor=0.5),
        "rope_scaling.factor=0.5 is below 1",
    ),
    "factor missing": (scaled(rope_type="linear"), "rope_scaling.factor is missing"),
    "factor a word": (scaled(rope_type="linear", factor="8"), "factor='8' is not a number"),
    "length missing": (
        scaled(rope_type="yarn", factor=4.0),
        "rope_scaling.original_max_position_embeddings is missing",
    ),
    "length missing, llama3": (
        scaled(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0),
        "original_max_position_embeddings is missing",
    ),
    "two lengths": (
        with_(
            scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024),
            original_max_position_embeddings=2048,
        ),
        "contradict each other",
    ),
    "two bases": (
        with_(PLAIN, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
        "rope_parameters.rope_theta=500000 and rope_theta=10000 contradict",
    ),
    "two rules": (scaled(rope_type="yarn", type="linear", factor=2.0), "contradict each other"),
    "two dictionaries": (
        with_(
            PLAIN,
            rope_scaling={"type": "linear", "factor": 2.0},
            rope_parameters={"rope_type": "linear", "factor": 4.0},
        ),
        "factor=4.0 and rope_scaling.factor=2.0 contradict",
    ),
    # NVIDIA-NeMo/Megatron-Bridge, tests/unit_tests/models/llama/test_llama_bridge.py at 067f987:
    # transformers turns its layers by the base 10000.
    "a base that a second dictionary hides": (
        with_(
            scaled(rope_type="linear", factor=8.0),
            rope_theta=...,
            rope_parameters={"rope_type": "linear", "rope_theta": 500000.0},
        ),
        "rope_parameters.rope_theta=500000.0 and a rope_scaling without rope_theta contradict",
    ),
    # ml-explore/mlx-lm, tests/test_models.py at d78bf58.
    "angles of another width": (
        {"model_type": "longcat_flash", "qk_rope_head_dim": 8, "rope_theta": 1000.0},
        "qk_rope_head_dim=8 and head_dim=64 (class) contradict each other",
    ),
    "no base": (with_(PLAIN, rope_theta=None), "rope_theta is missing"),
    "base 0": (with_(PLAIN, rope_theta=0), "must be positive"),
    "unread key": (scaled(rope_type="linear", factor=2.0, facotr=4.0), "Did you mean 'factor'"),
    "no width": (with_(PLAIN, head_dim=...), "the width of a head is not stated"),
    "sections": (scaled(type="mrope", mrope_section=[8, 12, 12]), "sections of several axes"),
    "short list": (
        with_(
            scaled(
                rope_type="longrope",
                short_factor=[1.0] * 32,
                long_factor=[1.0] * 31,
                factor=2.0,
                original_max_position_embeddings=2048,
            )
        ),
        "long_factor has 31 numbers and needs 32",
    ),
    "fraction too large": (
        with_(PLAIN, model_type="phi", partial_rotary_factor=1.5),
        "does not fit a head of 64",
    ),
    "dictionary": (with_(PLAIN, rope_scaling="yarn"), "rope_scaling='yarn' is not a dictionary"),
    "not a rotation": ({"model_type": "vjepa2", "hidden_size": 64}, "no rotation"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_be_settled_is_refused_by_name(case: str) -> None:
    config, words = REFUSED[case]
    with pytest.raises(posenc.DataError) as caught:
        posenc.from_hf(config)
    assert words in str(caught.value)
    plan = posenc.from_hf(config, on_error="report")
    assert any(words in text for text in plan.errors)
    assert not plan.layers  # what is not settled is left out, not guessed


def nested(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(depth):
        data = {"a": data}
    return data


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{", "is not JSON"),
        ("[1, 2]", "keys, each with a value"),
        ('{"a": 1, "a": 2}', "more than once"),
        ('{"a": ' * 200 + "1" + "}" * 200, "nested deeper"),
        ("[" * 100_000, "nested deeper"),
        (nested(200), "nested deeper"),
        ('{"model_type": "llama", "head_dim": 64, "rope_theta": NaN}', "a finite number"),
        ({"model_type": "llama", "rope_theta": float("inf")}, "a finite number"),
        ("no/such/file.json", "a file that exists"),
        (42, "a config"),
        (None, "a config"),
    ],
)
def test_what_is_no_config(source: Any, words: str) -> None:
    with pytest.raises(posenc.DataError, match=words):
        posenc.from_hf(source)


def test_folders_and_files_that_hold_no_config(tmp_path: Path) -> None:
    with pytest.raises(posenc.DataError, match=r"a folder that holds config\.json"):
        posenc.from_hf(tmp_path)
    file = tmp_path / "config.json"
    file.write_bytes(b"\xff\xfe\x00garbage")
    with pytest.raises(posenc.DataError, match="text in UTF-8"):
        posenc.from_hf(file)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pairing": "neox"}, "pairing"),
        ({"base": -1.0}, "a positive number"),
        ({"base": "10000"}, "base: expected a number or None, got '10000'"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=words):
        posenc.from_hf(PLAIN, **arguments)


# --- the rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transformers", "gguf"])
def test_rows_name_presets_that_exist(kind: str) -> None:
    for family in {id(f): f for f in families(kind).values()}.values():
        for rule in family.entries:
            chosen = rule.get("rotary", rule.get("table"))
            wanted = chosen["cases"].values() if isinstance(chosen, dict) else [chosen]
            inner = [part["rotary"] for part in rule.get("attentions", ())]
            inside = [i["cases"].values() if isinstance(i, dict) else [i] for i in inner]
            for name in (*wanted, *(name for part in inside for name in part)):
                assert name is None or name in names(), name
            known = {
                "rotary",
                "table",
                "spec",
                "convolution",
                "no_positions",
                "refused_because",
                "unknown_because",
            }
            assert len(known & set(rule)) == 1, rule


def test_rows_name_families_that_exist() -> None:
    transformers = pytest.importorskip("transformers", reason="lists the names")
    import re

    root = Path(transformers.__file__).parent / "models"
    texts = (file.read_text() for file in root.glob("*/configuration_*.py"))
    known = {name for text in texts for name in re.findall(r'model_type[^=\n]*= "([^"]*)"', text)}
    # Those with a dot are parts without a type: of a family, by the key.
    lacking = {n for n, row in families().items() if row.note.startswith("Not in transformers")}
    # A name that engines alone have stands beside one of transformers, in the row of that.
    beside = {"cohere2moe": "cohere2_moe", "inkling_model": "inkling_text",
              "unlimited_language": "deepseek_v2"}  # fmt: skip
    assert all(families()[n].entries == families()[other].entries for n, other in beside.items())
    assert {n for n in families() if n.partition(".")[0] not in known} == lacking | {*beside}


def test_rotary_presets_say_where_they_were_read() -> None:
    for name in names():
        if row(name).kind == "rotary":
            assert row(name).sources, name


def test_positions_and_the_scale_of_scores_have_a_line() -> None:
    config = {"model_type": "t5", "num_heads": 2, "relative_attention_num_buckets": 8, "d_kv": 4}
    plan = posenc.from_hf(config, on_error="report")
    found = lines(plan)
    assert "  positions: arange(length)" in found
    assert "  scores are multiplied by 1, not divided by the square root of the width" in found
    told = describe(plan)["layers"][0]
    assert told["positions"] == {"type": "Positions", "builder": "arange"}
    assert told["scale"] == 1
    assert posenc.from_json(posenc.to_json(plan)) == plan


def test_a_family_that_does_not_know_its_positions_claims_none() -> None:
    config = {"model_type": "glm_image_text", "head_dim": 32, "rope_theta": 1e4}
    asked = {**config, "rope_parameters": {"rope_theta": 1e4, "mrope_section": [4, 6, 6]}}
    assert all(entry.positions is None for entry in posenc.from_hf(asked, on_error="report"))
    assert not any(line.startswith("  positions") for line in lines(posenc.from_hf(asked)))


def test_a_model_without_a_config_is_named() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(posenc.DataError, match="explain: expected a config, got Linear"):
        posenc.explain(torch.nn.Linear(2, 2))
