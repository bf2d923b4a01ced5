"""The pains of people who load other people's configs; each test carries the number of its row."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import posenc
from tests.detect.configs import GEMMA_3, PLAIN, VERSION_4
from tests.tolerances import FLOAT64, assert_close


def changed(name: str, **params: Any) -> dict[str, Any]:
    """A published config with other rotary parameters."""
    config = copy.deepcopy(VERSION_4[name])
    merged = {**config["rope_scaling"], **params}
    config["rope_scaling"] = {k: v for k, v in merged.items() if v is not ...}
    return config


def spec_of(config: dict[str, Any], layer: str = "attention") -> posenc.RoPE:
    spec = posenc.from_hf(config)[layer].spec
    assert isinstance(spec, posenc.RoPE)
    return spec


# --- 2: dialects ----------------------------------------------------------------------------------

THETA = 777_000.0
PLACES: dict[str, dict[str, Any]] = {
    "at the top": {"rope_theta": THETA},
    "inside, version 5": {"rope_parameters": {"rope_type": "default", "rope_theta": THETA}},
    "inside, with the old word": {"rope_parameters": {"type": "default", "rope_theta": THETA}},
    "inside the old dictionary": {"rope_scaling": {"type": "default", "rope_theta": THETA}},
    "another name": {"model_type": "gpt_neox", "rotary_emb_base": THETA},
    "one more": {"model_type": "mine", "rotary_embedding_base": THETA},
    "both, equal": {"rope_theta": THETA, "rope_parameters": {"rope_theta": THETA}},
}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_pain_2_theta_is_found_wherever_it_is(place: str) -> None:
    config = {"model_type": "llama", "head_dim": 64, **PLACES[place]}
    pairing: Any = "half" if config["model_type"] == "mine" else None
    spec = posenc.from_hf(config, pairing=pairing)["attention"].spec
    assert spec is not None
    assert spec.base == THETA  # type: ignore[attr-defined]


def test_pain_2_a_base_left_out_is_that_of_the_class_or_an_error() -> None:
    config = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048}
    entry = posenc.from_hf(config)["attention"]
    assert entry.spec.base == 1e4  # type: ignore[union-attr]
    assert [s.origin for s in entry.sources if s.field == "base"] == ["class"]
    unknown = {"model_type": "mine", "partial_rotary_factor": 0.5}
    for wrong in (unknown, {"rope_theta": None}, {"rope_thetta": 5e5}):
        with pytest.raises(posenc.DataError, match=r"rope_theta is missing"):
            posenc.from_hf({**config, **wrong}, pairing="half")
    entry = posenc.from_hf(config, base=THETA)["attention"]
    assert entry.spec is not None
    assert [s.origin for s in entry.sources if s.field == "base"] == ["caller"]


def test_pain_2_a_key_nobody_understands_is_an_error() -> None:
    with pytest.raises(posenc.DataError, match="beta_quick=64 is not understood"):
        posenc.from_hf(changed("qwen2 with yarn", beta_quick=64))


def test_pain_2_a_key_of_another_rule_is_a_warning() -> None:
    plan = posenc.from_hf(changed("qwen2 with yarn", low_freq_factor=1.0))
    assert any("low_freq_factor" in text for text in plan.warnings)


# --- 8: the magnitude of YaRN ---------------------------------------------------------------------


def m(factor: float, k: float) -> float:
    return 0.1 * k * math.log(factor) + 1


MAGNITUDES: dict[str, tuple[dict[str, Any], float]] = {
    "of the paper": ({}, m(4, 1)),
    "given": ({"attention_factor": 1.25}, 1.25),
    "given by its other name": ({"model_type": "mine", "attn_factor": 1.25}, 1.25),
    "a name that the class does not read": ({"attn_factor": 1.25}, m(4, 1)),
    "quotient": ({"mscale": 0.707, "mscale_all_dim": 1.0}, m(4, 0.707) / m(4, 1)),
    "quotient of equals": ({"mscale": 0.707, "mscale_all_dim": 0.707}, 1.0),
}


@pytest.mark.parametrize("case", sorted(MAGNITUDES))
def test_pain_8_one_magnitude_with_a_stated_place(case: str) -> None:
    params, exact = MAGNITUDES[case]
    top = {key: value for key, value in params.items() if key == "model_type"}
    inner = {key: value for key, value in params.items() if key not in top}
    config = {**changed("qwen2 with yarn", **inner), "architectures": None, **top}
    plan = posenc.from_hf(config, pairing="half")
    spec = plan["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    unread = "attn_factor" in inner and not top
    assert unread == any("attn_factor=1.25 is not read" in text for text in plan.warnings)
    assert spec.attention_factor == pytest.approx(exact, rel=1e-12)
    assert spec.magnitude.at == "cos_sin"
    assert posenc.logit_scale(spec) == 1  # a family without a factor on the softmax has none
    cos, _ = posenc.cos_sin(spec, [0])
    assert_close(cos, np.full((1, 64), exact), 1e-6)


def test_pain_8_a_slice_takes_its_factor_on_the_softmax_once() -> None:
    spec = spec_of(VERSION_4["deepseek v3"])
    assert spec.attention_factor == 1
    assert posenc.logit_scale(spec) == pytest.approx(m(40, 1) ** 2, rel=1e-12)


def test_pain_8_two_magnitudes_are_a_warning() -> None:
    config = changed("qwen2 with yarn", attention_factor=1.5, mscale=1.0, mscale_all_dim=0.5)
    plan = posenc.from_hf(config)
    assert any("attention_factor=1.5" in text for text in plan.warnings)
    config = changed("qwen2 with yarn", mscale=0.7)
    assert any("mscale stands without" in text for text in posenc.from_hf(config).warnings)


def test_pain_8_explain_shows_the_magnitude() -> None:
    from posenc.detect.explain.describe import lines

    text = "\n".join(lines(posenc.from_hf(VERSION_4["deepseek v3"])))
    assert "the softmax scale is multiplied by 1.87385" in text
    text = "\n".join(lines(posenc.from_hf(VERSION_4["qwen2 with yarn"])))
    assert "attention factor 1.13863: multiplies cosines and sines" in text


# --- 9: ramp, factor and original length ----------------------------------------------------------


def test_pain_9_truncation_is_read_and_changes_the_ramp() -> None:
    whole, cut = (spec_of(changed("qwen2 with yarn", truncate=t)) for t in (False, True))
    assert whole.scalings[0].rounding == "none"  # type: ignore[attr-defined]
    assert cut.scalings[0].rounding == "outward"  # type: ignore[attr-defined]
    assert cut == spec_of(VERSION_4["qwen2 with yarn"])
    assert np.abs(posenc.frequencies(whole) / posenc.frequencies(cut) - 1).max() > 1e-3


def test_pain_9_truncation_in_nested_parameters_is_read_where_the_class_reads_it() -> None:
    inner = {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "truncate": False,
    }
    config = {
        "model_type": "olmo3",
        "head_dim": 128,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "full_attention": inner,
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    }
    plan = posenc.from_hf(config)
    spec = spec_of(config, "full_attention")
    assert spec.scalings[0].rounding == "outward"  # type: ignore[attr-defined]
    assert any("full_attention.truncate=False is not read" in text for text in plan.warnings)
    # transformers looks for it beside the dictionaries of each type.
    config["rope_parameters"] = {**config["rope_parameters"], "truncate": False}  # type: ignore[dict-item]
    spec = spec_of(config, "full_attention")
    assert spec.scalings[0].rounding == "none"  # type: ignore[attr-defined]
    mine = posenc.from_hf({**config, "model_type": "mine"}, pairing="half")["full_attention"].spec
    assert mine.scalings[0].rounding == "none"  # type: ignore[union-attr]


def test_pain_9_an_extension_that_does_not_reach_is_an_error() -> None:
    with pytest.raises(posenc.DataError, match="contradiction"):
        posenc.from_hf(changed("qwen2 with yarn", factor=2.0))


def test_pain_9_an_extension_that_reaches_further_is_a_warning() -> None:
    plan = posenc.from_hf(changed("qwen2 with yarn", factor=8.0))
    assert any("the factor is used" in text for text in plan.warnings)


def test_pain_9_the_original_length_is_never_assumed() -> None:
    config = changed("qwen2 with yarn", original_max_position_embeddings=...)
    with pytest.raises(posenc.DataError, match="original_max_position_embeddings is missing"):
        posenc.from_hf(config)


# --- 10: rules that depend on the length ----------------------------------------------------------


@pytest.mark.parametrize("name", ["dynamic", "phi 3 mini, 128k"])
def test_pain_10_the_length_is_an_argument_never_state(name: str) -> None:
    spec = spec_of(VERSION_4[name])
    assert spec.needs_length
    with pytest.raises(posenc.ArgumentError, match="length"):
        posenc.cos_sin(spec, [0, 1])
    first = posenc.cos_sin(spec, [5], length=100)
    posenc.cos_sin(spec, [5], length=50_000)
    again = posenc.cos_sin(spec, [5], length=100)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any("length" in note.text for note in posenc.from_hf(VERSION_4[name]).notes) or (
        name == "dynamic"
    )


def test_pain_10_the_switch_lies_where_the_config_says() -> None:
    spec = spec_of(VERSION_4["phi 3 mini, 128k"])
    short, same, long = (posenc.frequencies(spec.at(length)) for length in (9, 4096, 4097))
    assert (short == same).all()
    assert_close(
        short[1:] / long[1:], (1 + np.arange(1, 48) / 3) / (1 + np.arange(1, 48) / 64), 1e-9
    )


# --- 14: partial rotation -------------------------------------------------------------------------

PARTIAL = [
    ({"partial_rotary_factor": 0.25}, 16),
    ({"model_type": "gpt_neox", "rotary_pct": 0.5}, 32),
    ({"model_type": "mine", "rotary_dim": 24}, 24),
    ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.75}}, 48),
    ({"rotary_dim": 32, "partial_rotary_factor": 0.5}, 32),
]


@pytest.mark.parametrize(("keys", "width"), PARTIAL)
def test_pain_14_the_fraction_is_read_wherever_it_is(keys: dict[str, Any], width: int) -> None:
    config = {"model_type": "phi", "head_dim": 64, "rope_theta": 1e4, **keys}
    spec = posenc.from_hf(config, pairing="half")["attention"].spec
    assert isinstance(spec, posenc.RoPE)
    assert spec.dim == width
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 64)).astype(np.float32)
    turned = posenc.rotate(spec, x)
    assert (turned[..., width:] == x[..., width:]).all()
    assert np.abs(turned[..., 1:, :width] - x[..., 1:, :width]).max() > 0.1


def test_pain_14_a_width_and_a_fraction_that_disagree_are_an_error() -> None:
    config = {
        "model_type": "minimax_m2",
        "head_dim": 64,
        "rope_theta": 1e4,
        "rotary_dim": 16,
        "partial_rotary_factor": 0.5,
    }
    with pytest.raises(
        posenc.DataError, match=r"partial_rotary_factor \(width 32\) and rotary_dim"
    ):
        posenc.from_hf(config)


def test_pain_14_a_slice_at_the_end_is_a_field() -> None:
    spec = spec_of(VERSION_4["deepseek v3"])
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 192)).astype(np.float32)
    turned = posenc.rotate(spec, x)
    assert (turned[..., :128] == x[..., :128]).all()
    assert spec.channels.part == "trailing"


# --- 23: one base for all layers ------------------------------------------------------------------


def test_pain_23_each_type_of_layer_has_its_base() -> None:
    plan = posenc.from_hf(GEMMA_3)
    local, full = plan["sliding_attention"], plan["full_attention"]
    assert (local.spec.base, full.spec.base) == (1e4, 1e6)  # type: ignore[union-attr]
    assert not local.spec.scalings  # type: ignore[union-attr]
    assert [entry.layer for entry in plan.at(5)] == ["full_attention"]
    assert [entry.layer for entry in plan.at(4)] == ["sliding_attention"]
    assert sorted((*local.indices, *full.indices)) == list(range(12))  # type: ignore[misc]


def test_pain_23_a_base_for_each_layer() -> None:
    config = {
        **PLAIN,
        "model_type": "granite_swa",
        "layer_rope_theta": [1e4, 0],
        "layer_types": None,
    }
    plan = posenc.from_hf(config)
    assert [entry.kind for entry in plan] == ["rotary", "none"]
    assert [entry.indices for entry in plan] == [(0,), (1,)]


def test_pain_23_wavelengths_differ_as_bases_do() -> None:
    plan = posenc.from_hf(GEMMA_3)
    local, full = (plan[name].spec for name in ("sliding_attention", "full_attention"))
    ratio = posenc.wavelengths(full) / posenc.wavelengths(local)  # type: ignore[arg-type]
    exact = 8 * 100 ** (np.arange(128) / 128)
    assert_close(ratio / exact, np.ones(128), 100 * FLOAT64)
