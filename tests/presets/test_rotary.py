"""Rotary presets: rows of data against frequencies in 60 digits, and against what was published."""

from __future__ import annotations

import dataclasses

import pytest

import posenc
from posenc.presets import names, plan, preset, row
from posenc.presets.families import families
from tests.encodings.test_conventions_rotary import CONVENTIONS, test_convention

ROTARY = tuple(name for name in names() if row(name).kind == "rotary")
PUBLISHED = {convention.name: convention for convention in CONVENTIONS}
# Preset -> convention that is written out in the tests of conventions.
SAME = {
    "llama": "llama-half",
    "cohere": "cohere",
    "gemma4": "gemma4",
    "gpt-oss": "gpt-oss",
    "llama3": "llama3",
    "qwen2-vl": "qwen2-vl",
    "neomme": "neomme",
    "pixtral": "pixtral",
    "dinov3": "dinov3",
    "flux": "flux",
    "wan": "wan",
    "hunyuan-video": "hunyuan-video",
}
# Channels of the pairs at width 12, as their code forms them.
HALF = ((0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11))
NEIGHBOURS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11))
PAIRS = {
    "llama": HALF,
    "gpt-neox": HALF,
    "qwen2-vl": HALF,
    "nanochat": HALF,
    "gptj": NEIGHBOURS,
    "roformer": NEIGHBOURS,
    "cohere": NEIGHBOURS,
    "glm4v": NEIGHBOURS,
    "deepseek-v2": NEIGHBOURS,
    "deepseek-v3": NEIGHBOURS,
    "llama.cpp": NEIGHBOURS,
    "llama.cpp-neox": HALF,
    "gemma4-vision": ((0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11)),
}


@pytest.mark.parametrize("name", sorted(SAME))
def test_frequencies_and_axes(name: str) -> None:
    convention = PUBLISHED[SAME[name]]
    spec = preset(name, convention.spec.dim)
    assert isinstance(spec, posenc.RoPE)
    # Conventions are written out at small widths, some with a smaller base.
    spec = spec.replace(base=convention.spec.base)
    test_convention(dataclasses.replace(convention, spec=spec))


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_pairs(name: str) -> None:
    template = {**row(name).spec, "base": 10_000.0, "scaling": []}
    spec = row(name)._replace(spec=template).build(12)
    assert spec.channels.channels(12) == PAIRS[name]  # type: ignore[attr-defined]


def test_axes_of_videorope() -> None:
    """As the authors' function picked them, from cosines that differ in nothing but their axis."""
    spec = preset("videorope", 128)
    assert isinstance(spec, posenc.RoPE)
    layout = spec.arrangement.layout(64)
    assert layout.axis == (1, 2) * 24 + (0,) * 16
    assert layout.index == tuple(range(64))


def test_drope_is_a_plan_without_positions() -> None:
    dropped = plan("drope")
    assert len(dropped) == 32
    assert not any(entry.specs for entry in dropped)


@pytest.mark.parametrize("name", ROTARY)
def test_rows(name: str) -> None:
    spec = preset(name, 192)
    assert spec.kind == "rotary"
    assert posenc.from_json(posenc.to_json(spec)) == spec
    assert row(name).note.endswith(".")
    for source in row(name).sources:
        assert source["repository"]
        assert source["path"]
        assert source["symbol"]


def test_every_preset_that_families_name_is_rotary_or_a_table() -> None:
    for kind in ("transformers", "gguf"):
        for family in families(kind).values():
            for rule in family.entries:
                if isinstance(rule.get("rotary"), str):
                    assert rule["rotary"] in ROTARY
