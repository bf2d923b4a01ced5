# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""Scalings as rope types of transformers: saved, loaded elsewhere, and asked as the model asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import AutoConfig, Gemma3TextConfig, LlamaConfig, modeling_rope_utils
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRotaryEmbedding

import posenc
import posenc.torch
from posenc import RoPE, registry, scaling as s
from posenc._core.errors import ArgumentError, SpecError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

LENGTH = 128  # max_position_embeddings
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "vocab_size": 16,
    "max_position_embeddings": LENGTH,
}
PAIRS, BASE = 8, 500_000.0
LONG = tuple(float(j + 1) for j in range(PAIRS))
SCALINGS: dict[str, Any] = {
    "Linear": s.Linear(4),
    "NTK": s.NTK(4),
    "MixedNTK": s.MixedNTK(4, power=0.625),
    "MrRoPE": s.MrRoPE(8, original_length=4096),
    "Llama3": s.Llama3(8, original_length=64),
    "YaRN": s.YaRN(4, original_length=64, ramp="turns", mscale=0.7),
    "Proportional": s.Proportional(0.5),
    "Multipliers": s.Multipliers(LONG, use="divide"),
    "Unit": s.Unit("1/16"),
    "RIFLEx": s.RIFLEx(3, 66),
    "DyPE": s.DyPE(4, 0.7, original_length=64),
    "PerAxis": s.PerAxis((s.YaRN(4, original_length=64),)),
    "DynamicNTK": s.DynamicNTK(2, original_length=LENGTH),
    "LongRoPE": s.LongRoPE((1.0,) * PAIRS, LONG, original_length=LENGTH, factor=4),
    "both": (s.NTK(2), s.Linear(2)),
    "fixed": s.DynamicNTK(2, original_length=64, length=100),
}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with posenc.torch.rope_types():
        yield


def _rope(scaling: Any, length: int = LENGTH, dim: int = 2 * PAIRS) -> RoPE:
    rope = RoPE(dim, pairing="half", base=BASE, scaling=scaling)
    return rope.at(length) if rope.needs_length else rope


def _holds(received: Any, factor: float, rope: RoPE) -> None:
    expected = posenc.frequencies(rope).astype(np.float32)
    np.testing.assert_array_equal(received.numpy(), expected)
    assert factor == rope.attention_factor


def test_every_scaling_is_here() -> None:
    kinds = {name for name in registry.VALUES if issubclass(registry.lookup(name), s.Scaling)}
    assert kinds <= set(SCALINGS)


@pytest.mark.parametrize("name", SCALINGS)
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    scaling = SCALINGS[name]
    parameters = posenc.torch.rope_parameters(scaling, base=BASE)
    LlamaConfig(**SIZES, rope_parameters=parameters).save_pretrained(tmp_path)
    rotary = LlamaRotaryEmbedding(AutoConfig.from_pretrained(tmp_path))
    _holds(rotary.inv_freq, rotary.attention_scaling, _rope(scaling))


@pytest.mark.slow("torch")
def test_a_fresh_process(tmp_path: Path) -> None:
    """Frequencies and logits of a model loaded elsewhere; and what is said there without us."""
    parameters = posenc.torch.rope_parameters(SCALINGS["YaRN"], base=BASE)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=parameters)).eval()
    model.save_pretrained(tmp_path)
    tokens = torch.arange(12)[None] % 16
    code = f"""
import json, torch, posenc.torch
from transformers import AutoModelForCausalLM
try:
    AutoModelForCausalLM.from_pretrained({str(tmp_path)!r})
except KeyError as error:
    message = str(error)
posenc.torch.rope_types()
model = AutoModelForCausalLM.from_pretrained({str(tmp_path)!r}).eval()
with torch.no_grad():
    logits = model(torch.arange(12)[None] % 16).logits
print(json.dumps([message, model.model.rotary_emb.inv_freq.tolist(), logits[0, -1].tolist()]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message, frequencies, logits = json.loads(run.stdout.splitlines()[-1])
    assert message == "'posenc'"
    _holds(
        torch.tensor(frequencies), _rope(SCALINGS["YaRN"]).attention_factor, _rope(SCALINGS["YaRN"])
    )
    with torch.no_grad():
        expected = model(tokens).logits[0, -1]
    torch.testing.assert_close(torch.tensor(logits), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["DynamicNTK", "LongRoPE"])
def test_lengths_as_transformers_asks(name: str) -> None:
    """Of the very length that transformers has its own "dynamic" frequencies for at each step."""
    scaling, dynamic = SCALINGS[name], SCALINGS["DynamicNTK"]
    own = {"rope_type": "dynamic", "factor": dynamic.factor, "rope_theta": BASE}
    rows = (own, posenc.torch.rope_parameters(scaling, base=BASE))
    theirs, ours = (LlamaRotaryEmbedding(LlamaConfig(**SIZES, rope_parameters=p)) for p in rows)
    lengths = (LENGTH, 200, 150, LENGTH - 1)
    seen = set()
    for asked in lengths:
        for rotary in (theirs, ours):
            rotary(torch.zeros(1), torch.arange(asked)[None])
        (held,) = [
            length
            for length in lengths[:3]
            if np.allclose(
                theirs.inv_freq, posenc.frequencies(_rope(dynamic, length)), rtol=1e-5, atol=0
            )
        ]
        seen.add(held)
        _holds(ours.inv_freq, ours.attention_scaling, _rope(scaling, held))
    assert seen >= {LENGTH, 200}


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        (s.DynamicNTK(2, original_length=64), "expected max_position_embeddings=64"),
        (s.LongRoPE(LONG, LONG, original_length=64), "expected max_position_embeddings=64"),
        (
            s.LongRoPE(LONG, LONG, original_length=LENGTH, short_factor=1.0, long_factor=1.5),
            "one attention factor.*got 1.0 and 1.5",
        ),
    ],
)
def test_lengths_that_it_does_not_ask(scaling: Any, message: str) -> None:
    parameters = posenc.torch.rope_parameters(scaling, base=BASE)
    with pytest.raises(ArgumentError, match=message):
        LlamaRotaryEmbedding(LlamaConfig(**SIZES, rope_parameters=parameters))


def test_layers_of_two_types_and_shares_of_a_head() -> None:
    every = {
        "full_attention": posenc.torch.rope_parameters(SCALINGS["NTK"], base=BASE),
        "sliding_attention": posenc.torch.rope_parameters((), base=100.0),
    }
    sizes = {**SIZES, "num_hidden_layers": 2, "layer_types": list(every), "head_dim": 2 * PAIRS}
    config = Gemma3TextConfig(**sizes, rope_parameters=every)
    rotary = Gemma3RotaryEmbedding(config)
    full, sliding = rotary.full_attention_inv_freq, rotary.sliding_attention_inv_freq
    _holds(full, rotary.full_attention_attention_scaling, _rope(SCALINGS["NTK"]))
    _holds(sliding, 1.0, RoPE(2 * PAIRS, pairing="half", base=100.0))
    half = {**every["full_attention"], "partial_rotary_factor": 0.5}
    rotary = LlamaRotaryEmbedding(LlamaConfig(**SIZES, rope_parameters=half))
    _holds(rotary.inv_freq, 1.0, _rope(SCALINGS["NTK"], dim=PAIRS))


def test_attention_factors() -> None:
    parameters = posenc.torch.rope_parameters(SCALINGS["YaRN"], attention_factor=1.5)
    assert (
        LlamaRotaryEmbedding(LlamaConfig(**SIZES, rope_parameters=parameters)).attention_scaling
        == 1.5
    )
    scaling = s.YaRN(4, original_length=64, mscale=0.7, mscale_all_dim=0.7)
    parameters = posenc.torch.rope_parameters(scaling)
    assert (parameters["factor"], parameters["mscale_all_dim"]) == (4.0, 0.7)


def test_names_are_taken_out_again() -> None:
    functions = modeling_rope_utils.ROPE_INIT_FUNCTIONS
    configs = modeling_rope_utils.RotaryEmbeddingConfigMixin
    posenc.torch.rope_types().remove()  # of the fixture's names it has none to remove
    assert {"posenc", "posenc_dynamic"} <= set(functions)
    own = functions.pop("posenc")
    functions["posenc"] = foreign = lambda: None
    with pytest.raises(ArgumentError, match="a name that is free, got 'posenc'"):
        posenc.torch.rope_types()
    assert functions["posenc"] is foreign
    functions["posenc"] = own
    names = set(functions)
    del functions["posenc"], functions["posenc_dynamic"]
    before = set(vars(configs))
    with posenc.torch.rope_types():
        assert set(functions) == names
    assert set(functions) == names - {"posenc", "posenc_dynamic"}
    assert set(vars(configs)) == before
    functions |= {"posenc": own, "posenc_dynamic": own}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scaling": None}, "a list of scalings, got None"),
        ({"scaling": [{"type": "Ladder"}]}, "a posenc.scaling, got Ladder"),
        ({"scaling": [{"type": "NTK", "fctor": 4}]}, "factor"),
        ({"rope_type": "posenc_dynamic"}, "expected 'posenc', got 'posenc_dynamic'"),
    ],
)
def test_configs_that_were_edited(change: dict[str, Any], message: str) -> None:
    parameters = {**posenc.torch.rope_parameters(s.NTK(4)), **change}
    # transformers passes the sentence on in an error of its own.
    with pytest.raises(Exception, match=message):
        LlamaConfig(**SIZES, rope_parameters=parameters)


def test_arguments() -> None:
    with pytest.raises(SpecError, match="NTK and YaRN together"):
        posenc.torch.rope_parameters((s.NTK(2), s.YaRN(2, original_length=64)))
    with pytest.raises(ArgumentError, match="a posenc.scaling, got str"):
        posenc.torch.rope_parameters("yarn")
    with pytest.raises(SpecError, match="base: expected a positive number, got 0"):
        posenc.torch.rope_parameters(s.NTK(2), base=0)
