"""Parts of models: every one is an entry, or a warning that says why not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc.cli import app
from posenc.detect.explain.describe import describe
from posenc.presets.families import class_parts

Config = dict[str, Any]
Read = set[tuple[str, str, str]]


def default(model_type: str) -> Config | None:
    transformers = pytest.importorskip("transformers", reason="its classes are the oracle")
    transformers.logging.set_verbosity_error()
    try:
        config = transformers.CONFIG_MAPPING[model_type]()
    except Exception:  # noqa: BLE001 - whatever a class of somebody else raises
        return None
    return dict(json.loads(json.dumps(config.to_dict(), default=str)))


def transformers_config(model_type: str, config: Config) -> Any:
    transformers = pytest.importorskip("transformers", reason="its classes are the oracle")
    stated = {k: v for k, v in copy.deepcopy(config).items() if k != "model_type"}
    return transformers.CONFIG_MAPPING[model_type](**stated)


def composites() -> list[str]:
    transformers = pytest.importorskip("transformers", reason="its classes are the oracle")
    return [name for name in transformers.CONFIG_MAPPING if class_parts(name).types]


def label(key: str) -> str:
    return key.removesuffix("_config").removesuffix("_model") or key


def read(plan: posenc.Reading) -> Read:
    """(part, spec or convolution, layers) of every entry, whatever their order."""
    return {
        (e.layer.partition(".")[0] if "." in e.layer else e.layer, repr(e.spec), e.convolution)
        for e in plan
    }


def without(config: Config) -> Iterator[tuple[str, Config]]:
    """The config, each of its parts once without its type, and once left out."""
    for key in class_parts(config["model_type"]).types:
        if isinstance(config.get(key), Mapping):
            untyped = copy.deepcopy(config)
            untyped[key].pop("model_type", None)
            yield f"{key}, untyped", untyped
            yield f"{key}, left out", {k: v for k, v in config.items() if k != key}


def compared(name: str) -> int:
    config = default(name)
    if config is None:
        return 0
    plan = posenc.from_hf(config, on_error="report")
    expected, count = read(plan), 0
    told = [e.layer for e in plan] + [n.layer for n in plan.notes if n.level != "remark"]
    for key, part in class_parts(name).types.items():
        # A part is an entry or a warning; one that only holds others has those, and dictionaries of
        # options, which have no type and no heads, have neither.
        heads = any("heads" in word for word in config.get(key) or ())
        if config.get(key) and not class_parts(part).types and (heads or "." not in part):
            assert any(label(key) in layer.split(".") for layer in told), (name, key)
    for how, other in without(config):
        assert read(posenc.from_hf(other, on_error="report")) == expected, (name, how)
        count += 1
    return count


SOME = [
    "llava",
    "qwen3_vl",
    "qwen3_omni_moe",
    "gemma3",
    "gemma4",
    "kimi_k25",
    "mistral3",
    "step3p7",
    "esmfold2",
    "musicgen",
    "evolla",
    "clvp",
    "muse_glimmer",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_a_part_without_its_type_or_left_out_is_the_one_of_its_class(name: str) -> None:
    assert compared(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow("detect/explain", "presets")
def test_every_part_of_every_model() -> None:
    assert sum(compared(name) for name in composites()) > 900


# --- as files have them ---------------------------------------------------------------------------

# Published by Qwen: a part is called as the whole, and states no base.
VISION = {
    "deepstack_visual_indexes": [8, 16, 24],
    "depth": 27,
    "hidden_size": 1152,
    "model_type": "qwen3_vl",
    "num_heads": 16,
    "num_position_embeddings": 2304,
    "patch_size": 16,
    "spatial_merge_size": 2,
}
TEXT = {
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 262144,
    "model_type": "qwen3_vl_text",
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "rope_scaling": {
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
        "rope_type": "default",
    },
    "rope_theta": 5000000,
}
QWEN = {"model_type": "qwen3_vl", "text_config": TEXT, "vision_config": VISION}


def test_a_part_called_as_the_whole() -> None:
    plan = posenc.from_hf(QWEN)
    assert not plan.errors
    assert not plan.warnings
    grid = posenc.Arrangement(rule="axial", axes=("h", "w"))
    vision = plan.part("vision")
    turning = next(entry for entry in vision if entry.kind == "rotary")
    assert turning.spec == posenc.RoPE(72, pairing="half", arrangement=grid)
    assert [s.origin for s in turning.sources if s.field == "base"] == ["class"]
    assert plan["vision.embeddings"].spec == posenc.Learned(1152, length=(48, 48))


def test_keys_of_the_text_in_the_config_of_the_whole() -> None:
    flat = {**TEXT, "model_type": "qwen2_vl", "vision_config": {"embed_dim": 1280, "num_heads": 16}}
    flat["rope_scaling"] = {"type": "mrope", "mrope_section": [16, 24, 24]}
    plan = posenc.from_hf(flat)
    assert [e.spec.dim for e in plan if isinstance(e.spec, posenc.RoPE)] == [128, 80]
    assert not plan.warnings
    other = posenc.from_hf({**TEXT, "model_type": "qwen3_vl"}, on_error="report")
    assert any("does not look: it reads text_config" in text for text in other.warnings)


HOSTILE: dict[str, tuple[Config, str]] = {
    "a list": ({**QWEN, "vision_config": [VISION]}, "vision_config=[{'deepstack_visual"),
    "a number": ({**QWEN, "vision_config": 7}, "vision_config=7 was not read: a dictionary"),
    "a word": ({**QWEN, "vision_config": "clip"}, "vision_config='clip' was not read"),
    "of another family": (
        {**QWEN, "vision_config": {**VISION, "model_type": "siglip_vision_model"}},
        "vision_config.model_type='siglip_vision_model', which the class of the whole in",
    ),
    "without a width": (
        {**QWEN, "vision_config": {**VISION, "hidden_size": "wide"}},
        "unknown, because vision_config.hidden_size='wide' is not a number",
    ),
    "of an unknown family": (
        {
            "model_type": "llava",
            "text_config": {"model_type": "llama", "rope_theta": 1e4},
            "vision_config": {"model_type": "my_vit", "hidden_size": 8},
        },
        "vision_config: unknown, because model_type 'my_vit' is not known",
    ),
    "of a type that is no word": (
        {**QWEN, "vision_config": {**VISION, "model_type": ["qwen3_vl"]}},
        "vision_config.model_type=['qwen3_vl'], which the class of the whole in",
    ),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_a_part_that_is_wrong_leaves_the_others_right(case: str) -> None:
    config, words = HOSTILE[case]
    plan = posenc.from_hf(config)
    told = [note.text for note in plan.notes]
    assert any(words in text for text in told), told
    assert isinstance(plan.part("text").layers[0].spec, posenc.RoPE)


def test_parts_in_parts() -> None:
    deep: Config = {"model_type": "my_model", "num_heads": 2}
    for _ in range(40):
        deep = {"model_type": "llama", "head_dim": 8, "rope_theta": 1e4, "part_config": deep}
    plan = posenc.from_hf(deep)
    assert len(plan.layers) == 9
    assert any("parts lie more than 8 deep" in text for text in plan.warnings)
    assert describe(plan)["sure"].startswith("read in part")


def test_a_part_by_another_name() -> None:
    llama = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}
    for key in ("visual", "audio_encoder", "vision_tower"):
        plan = posenc.from_hf({**llama, key: {"heads": 16, "image_size": 448, "width": 1664}})
        assert any(f"{key}: unknown, because" in text for text in plan.warnings)
        assert describe(plan)["sure"].startswith("read in part")


def test_what_no_plan_says_stands_in_the_first_line_and_in_the_exit_code(tmp_path: Path) -> None:
    config = {"model_type": "qwen2", "head_dim": 64, "num_attention_heads": 8, "rope_theta": 1e7}
    for more, code, words in (
        ({}, 0, "qwen2: settled"),
        (
            {"dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}},
            1,
            "qwen2: read in part; left out: dual_chunk_attention: dual_chunk_attention_c",
        ),
        ({"vision_config": {"num_heads": 2}}, 1, "vision_config: unknown, because"),
    ):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**config, **more}), encoding="utf-8")
        result = CliRunner().invoke(app, ["explain", str(path)])
        assert words in result.output.splitlines()[0]
        assert result.exit_code == code
        told = CliRunner().invoke(app, ["explain", str(path), "--json"])
        assert words.partition(": ")[2] in json.loads(told.output)["described"]["sure"]
        assert told.exit_code == code
    assert (
        "Dual Chunk Attention"
        in posenc.from_hf({**config, "dual_chunk_attention_config": {"chunk_size": 4}}).warnings[0]
    )


def test_parts_of_an_older_spelling() -> None:
    """Keys of text_config that text_config_dict does not repeat are the class's."""
    config = {
        "model_type": "clip",
        "text_config": {"hidden_size": 768, "max_position_embeddings": 99},
        "text_config_dict": {"hidden_size": 640},
    }
    plan = posenc.from_hf(config)
    assert plan["text.embeddings"].spec == posenc.Learned(640, length=77)
    made = transformers_config("clip", config)
    assert (made.text_config.hidden_size, made.text_config.max_position_embeddings) == (640, 77)


def test_a_tower_that_its_authors_wrote() -> None:
    plan = posenc.from_hf(
        {
            "model_type": "internvl_chat",
            "llm_config": {
                "model_type": "qwen2",
                "hidden_size": 896,
                "num_attention_heads": 14,
                "rope_theta": 1e6,
            },
            "vision_config": {
                "model_type": "intern_vit_6b",
                "hidden_size": 1024,
                "image_size": 448,
                "patch_size": 14,
            },
        }
    )
    prefix = posenc.Lookup(prefix=1)
    assert plan["vision.embeddings"].spec == posenc.Learned(1024, length=(32, 32), lookup=prefix)
    assert isinstance(plan.part("llm").layers[0].spec, posenc.RoPE)
    assert not plan.warnings


def test_lists_for_each_layer() -> None:
    """As the class reads them, and one entry more for a layer that predicts further tokens."""
    kinds = ["full_attention", "sliding_attention"] * 2
    config = {
        "model_type": "step3p5",
        "head_dim": 16,
        "num_attention_heads": 4,
        "num_hidden_layers": 4,
        "num_nextn_predict_layers": 1,
        "layer_types": [*kinds, "sliding_attention"],
        "rope_theta": [5e6, 1e4, 5e6, 1e4, 1e4],
        "partial_rotary_factors": [0.5, 1.0, 0.5, 1.0, 1.0],
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 2.0,
            "original_max_position_embeddings": 131072,
            "low_freq_factor": 1.0,
            "high_freq_factor": 32.0,
        },
        "yarn_only_types": ["full_attention"],
        "max_position_embeddings": 262144,
    }
    plan = posenc.from_hf(config)
    assert not plan.warnings
    made = transformers_config("step3p5", config)
    for index, kind in enumerate(kinds):
        params = made.rope_parameters[kind]
        (entry,) = plan.at(index)
        assert isinstance(entry.spec, posenc.RoPE)
        assert entry.spec.base == params["rope_theta"]
        assert entry.spec.dim == 16 * params["partial_rotary_factor"]
        assert bool(entry.spec.scalings) == (params["rope_type"] == "llama3")
    assert plan.at(4) == ()
    short = posenc.from_hf({**config, "rope_theta": [1e4]}, on_error="report")
    assert any("rope_theta has 1 entries for 4 layers" in text for text in short.errors)
    every = posenc.from_hf({**config, "yarn_only_types": kinds[:2]})
    assert all(isinstance(e.spec, posenc.RoPE) and e.spec.scalings for e in every)


def test_fourier_series_are_no_rotation() -> None:
    config = {"model_type": "qwen3_moe", "head_dim": 128, "rope_theta": 5e6}
    scaling = {"rope_type": "default", "fope_init_factor": 0.5, "fope_sep_head": True}
    told = posenc.from_hf({**config, "rope_scaling": scaling}, on_error="report").errors
    assert any("a series of waves, whose weights are in the checkpoint" in text for text in told)


@pytest.mark.parametrize("stated", [{}, {"num_attention_heads": 16}, {"hidden_size": 2048}])
def test_a_width_that_the_class_computes_follows_what_is_stated(stated: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.JanusConfig(text_config={"model_type": "llama", **stated})
    wanted = config.get_text_config().head_dim
    told = {"model_type": "janus", "text_config": {"model_type": "llama", **stated}}
    (rotary,) = {s for one in posenc.explain(told).layers if isinstance(s := one.spec, posenc.RoPE)}
    assert rotary.dim == wanted


RENAMED = {
    "bart": ("hidden_size", "d_model", 128), "t5": ("num_attention_heads", "num_heads", 4),
    "gpt2": ("max_position_embeddings", "n_positions", 512), "ctrl": ("hidden_size", "n_embd", 64),
    "glm4_moe_lite": ("head_dim", "qk_rope_head_dim", 128),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_another_name_of_a_key_is_read_as_its_class_reads_it(name: str) -> None:
    other, key, value = RENAMED[name]
    transformers = pytest.importorskip("transformers")
    made = transformers.CONFIG_MAPPING[name](**{key: value + 64, other: value})
    assert getattr(made, key) == value
    wanted = posenc.from_hf({"model_type": name, key: value}, on_error="report")
    for stated in ({}, {key: value}, {key: value + 64}):
        plan = posenc.from_hf({"model_type": name, other: value, **stated}, on_error="report")
        assert [(e.layer, e.spec) for e in plan] == [(e.layer, e.spec) for e in wanted]
        odd = [text for text in plan.warnings if f"which takes {other}={value}" in text]
        assert len(odd) == (stated == {key: value + 64})


def test_heads_of_a_whole_by_another_name_are_not_those_of_its_text() -> None:
    plans = [
        posenc.from_hf({"model_type": "grounding-dino", key: 16})
        for key in ("encoder_attention_heads", "num_attention_heads")
    ]
    assert plans[0].layers == plans[1].layers
    assert not plans[1].warnings


def test_heads_of_the_decoder_alone_make_no_width() -> None:
    keys = {"model_type": "moonshine", "hidden_size": 64, "num_attention_heads": 4}
    (error,) = posenc.from_hf(keys, on_error="report").errors
    assert "the width of a head is not stated" in error
    (entry,) = posenc.from_hf({**keys, "encoder_num_attention_heads": 8})
    assert isinstance(entry.spec, posenc.RoPE)
    assert entry.spec.pairs == 4
