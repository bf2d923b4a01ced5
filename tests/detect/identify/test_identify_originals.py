"""`posenc.identify` on tables and frequencies that other people's code makes, in three dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import Arrangement, Ladder, RoPE, Sinusoidal
from posenc.scaling import Linear, Llama3, Multipliers, YaRN

torch = pytest.importorskip("torch", reason="what other people's code runs on")
pytest.importorskip("transformers", reason="other people's code")

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LONG = tuple(float(v) for v in np.round(1 + np.linspace(0, 30, 64) ** 1.2, 2))


def whisper() -> Any:
    from transformers.models.whisper.modeling_whisper import sinusoids

    return sinusoids(1500, 512)


def marian() -> Any:
    from transformers.models.marian import modeling_marian

    table = modeling_marian.MarianSinusoidalPositionalEmbedding(512, 256)
    return table.create_weight()


def speech_to_text() -> Any:
    from transformers.models.speech_to_text import modeling_speech_to_text as module

    return module.Speech2TextSinusoidalPositionalEmbedding.get_embedding(202, 96, 1)


def gptj() -> Any:
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    return create_sinusoidal_positions(2048, 64)


def vit_mae() -> Any:
    from transformers.models.vit_mae import modeling_vit_mae as module

    return torch.as_tensor(module.build_2d_sinusoidal_position_embedding(14, 14, 192))


AXIAL = Arrangement(rule="axial", axes=("h", "w"))
TABLES: dict[str, tuple[Callable[[], Any], Sinusoidal]] = {
    "whisper": (whisper, Sinusoidal(512, ladder=Ladder(denominator="n-1"), order="sin_cos")),
    "marian": (marian, Sinusoidal(256, order="sin_cos")),
    "speech_to_text": (
        speech_to_text,
        Sinusoidal(
            96,
            ladder=Ladder(denominator="n-1"),
            order="sin_cos",
            arrangement=Arrangement(pad=1),
        ),
    ),
    "gptj": (gptj, Sinusoidal(64, order="sin_cos")),
    "vit_mae": (vit_mae, Sinusoidal(192, order="sin_cos", arrangement=AXIAL)),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.costly
def test_tables(name: str) -> None:
    make, spec = TABLES[name]
    table = make().detach()
    for dtype in DTYPES:
        [found] = posenc.identify({"embed_positions": table.to(dtype)}).findings
        assert found.verdict == "claimed", dtype
        # Code that works in float32 is found to do so; how it writes a power is its own affair.
        plain = found.spec.replace(
            phase="exact", ladder=found.spec.ladder.replace(expression="power")
        )
        assert plain == spec, dtype
        assert found.placement.sizes[0] * (14 if name == "vit_mae" else 1) == len(table)


def of(**parameters: Any) -> Any:
    """`inv_freq` of a rotary embedding with these parameters."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=4096,
        num_attention_heads=32,
        head_dim=128,
        rope_parameters=parameters,
        max_position_embeddings=16384,
    )
    module = LlamaRotaryEmbedding(config)
    if parameters["rope_type"] == "longrope":  # frequencies for long sequences come when needed
        module(torch.zeros(1, 1, 128), torch.arange(5000)[None])
    return module.inv_freq


RULES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "default": ({"rope_theta": 1e4}, {}, 3),
    "linear": ({"rope_theta": 1e4, "factor": 4.0}, {"scaling": Linear(4)}, 3),
    "dynamic": ({"rope_theta": 5e5, "factor": 2.0}, {"base": 5e5}, 3),
    "yarn": (
        {"rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4096},
        {"base": 1e6, "scaling": YaRN(4, original_length=4096)},
        3,
    ),
    "llama3": (
        {
            "rope_theta": 5e5,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        {"base": 5e5, "scaling": Llama3(8, original_length=8192)},
        3,
    ),
    "longrope": (
        {
            "rope_theta": 1e4,
            "factor": 4.0,
            "short_factor": [1.0] * 64,
            "long_factor": list(LONG),
            "original_max_position_embeddings": 4096,
        },
        {"scaling": Multipliers(LONG, use="divide")},
        1,  # half precision does not spell searched factors out
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_frequencies(rule: str) -> None:
    parameters, fields, dtypes = RULES[rule]
    f = of(rope_type=rule, **parameters)
    for dtype in DTYPES[:dtypes]:
        [found] = posenc.identify({"inv_freq": f.to(dtype)}).findings
        assert (found.verdict, found.spec) == ("claimed", RoPE(128, pairing="half", **fields)), (
            dtype
        )
