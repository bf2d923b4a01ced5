"""What rows of families without a class in transformers make of a config."""

from __future__ import annotations

from typing import Any

import pytest

import posenc
from tests.detect.engines.mlx_unlisted import BASE, LATENT, LM, OCR, READ, VLM


def read(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """The specs of a config by the names of their layers."""
    return {layer.label: layer.spec for layer in posenc.explain({"model_type": kind, **config})}


@pytest.mark.parametrize(("model_type", "config"), [*LM.items(), *VLM.items(), *READ.items()])
def test_every_family_is_read(model_type: str, config: dict[str, Any]) -> None:
    assert read(model_type, config)


def test_heads_of_towers_and_of_pointers_have_bases_and_widths_of_their_own() -> None:
    specs = read("molmo_point", READ["molmo_point"])
    assert (specs["pointer"].base, specs["pointer"].dim) == (50000, 512)
    assert (specs["text"].base, specs["text"].dim) == (500000, 128)
    eye = read("perception_encoder", READ["perception_encoder"])
    assert (eye["vision"].dim, eye["vision"].channels.order) == (96, "interleaved")
    assert eye["vision"].arrangement.order == ("w", "h")
    draft = read("iquest_q1_mtp", READ["iquest_q1_mtp"])["sliding_attention"]
    assert (draft.base, draft.dim) == (10000, 32)


def test_layers_have_bases_and_a_scaling_of_their_own() -> None:
    """DeepSeek-V4.1: layers with a window alone, and those of compressed keys under YaRN."""
    config = LM["deepseek_v41"]
    specs = read("deepseek_v41", config)
    window = specs["text.sliding_attention"]
    keys = specs["text.compressed_attention, with indexer"]
    assert (window.base, window.scaling, keys.base) == (10000, (), 160000)
    assert [type(rule).__name__ for rule in keys.scaling] == ["YaRN"]
    assert keys.attention_factor == 1
    told = posenc.explain({"model_type": "deepseek_v41", **config}).warnings
    assert [text for text in told if "read in part" in text] == []
    index = specs["text.compressed_attention, with indexer:indexer"]
    assert index.base == 160000


def test_layers_without_attention_and_bases_of_windows_are_known_by_their_names() -> None:
    gear, plamo = (read(kind, LM[kind]) for kind in ("gear", "plamo3"))
    assert gear["conv_mixer"] is None
    bases = {"sliding_attention": 20000, "full_attention": 500000}
    assert {name: spec.base for name, spec in plamo.items()} == bases
    assert {name: gear[name].base for name in bases} == bases


def test_a_part_is_what_the_whole_makes_of_it() -> None:
    """Youtu-VL turns pictures, whatever its file calls the part."""
    config = VLM["youtu_vl"]
    assert config["vision_config"]["model_type"] == "siglip2_vision_model"
    assert read("youtu_vl", config)["vision.vision"].axes == ("h", "w")


def test_heads_without_latent_attention_turn_whole() -> None:
    assert read("deepseek_v2", OCR)["attention"].pairing == posenc.RoPE(128, pairing="half").pairing
    latent = {**BASE, **LATENT}
    assert read("deepseek_v2", latent)["attention"].dim == 64


@pytest.mark.parametrize(
    ("kind", "config", "says"),
    [("phi3small", {"rope_position_scale": 2.0}, "rope_position_scale divides positions"),
     ("xllm", {"rope_head_dim": 64}, "rope_head_dim takes"),
     ("limite", {}, "which no preset does")],
)  # fmt: skip
def test_what_no_preset_says_is_refused_by_name(
    kind: str, config: dict[str, Any], says: str
) -> None:
    with pytest.raises(posenc.DataError, match=says):
        read(kind, {**BASE, **config})


@pytest.mark.parametrize("rope", [True, False])
def test_layers_of_minicpm_sala_turn_by_two_switches(rope: bool) -> None:
    config = {**BASE, "mixer_types": ["minicpm4", "lightning-attn"] * 2, "attn_use_rope": rope}
    specs = read("minicpm_sala", config)
    assert [name for name, spec in specs.items() if spec is not None] == (
        ["full_attention", "lightning"] if rope else ["lightning"]
    )
