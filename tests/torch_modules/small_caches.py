"""Small models with random weights, and what their keys are by the definition of their rotation.

The oracle knows nothing of posenc: keys are caught before the model rotates them, and rotated once
in float64, by frequencies that are written out from the papers.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import transformers as hf

SIZES: dict[str, Any] = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "vocab_size": 99, "intermediate_size": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": None,
}  # fmt: skip
LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
SHORT, LONG = [1 + i / 10 for i in range(8)], [2 + i / 3 for i in range(8)]
WINDOW, ORIGINAL = 16, 64
MLA: dict[str, Any] = {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 24, "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 32,
}  # fmt: skip
VISION = {
    "depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 64,
    "deepstack_visual_indexes": [0], "num_position_embeddings": 16,
}  # fmt: skip


def powers(base: float, count: int = 8) -> np.ndarray:
    return base ** (-np.arange(count) / count)


@dataclass(frozen=True)
class Small:
    """A model, and the angle of each pair of a layer's keys at (tokens, axes)."""

    make: Callable[[], Any]
    frequencies: Callable[[int, int], np.ndarray]  # of a layer, in a sequence of some length
    factor: float = 1.0
    axes: tuple[int, ...] = ()  # the axis of each pair, where there are several
    interleaved: bool = False  # before the rotation; after it, pairs are half a head apart
    side: int = 0


def _llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES))


def _qwen3() -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES, head_dim=16))


def _gemma3() -> Any:
    sizes = {**SIZES, "num_hidden_layers": 3, "head_dim": 16}
    config = hf.Gemma3TextConfig(**sizes, sliding_window=WINDOW, layer_types=LAYERS)
    return hf.Gemma3ForCausalLM(config)


def _phi3() -> Any:
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": SHORT, "long_factor": LONG}
    lengths = {"max_position_embeddings": 256, "original_max_position_embeddings": ORIGINAL}
    config = hf.Phi3Config(**SIZES, **lengths, rope_parameters={**rope, "factor": 4.0})
    return hf.Phi3ForCausalLM(config)


def _deepseek() -> Any:
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**{**SIZES, **MLA}))


def _qwen3_vl() -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
    text = {**SIZES, "head_dim": 16, "rope_parameters": rope}
    tokens = {"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92,
              "vision_end_token_id": 93}  # fmt: skip
    config = hf.Qwen3VLConfig(text_config=text, vision_config=VISION, **tokens)
    return hf.Qwen3VLForConditionalGeneration(config)


def _phi3_frequencies(layer: int, length: int) -> np.ndarray:
    return powers(1e4) / np.array(LONG if length > ORIGINAL else SHORT)


PHI3_FACTOR = math.sqrt(1 + math.log(4) / math.log(ORIGINAL))
SMALL: dict[str, Small] = {
    "llama": Small(_llama, lambda layer, length: powers(1e4)),
    "qwen3": Small(_qwen3, lambda layer, length: powers(1e4)),
    "gemma3": Small(_gemma3, lambda layer, length: powers(1e6 if layer == 1 else 1e4)),
    "phi3": Small(_phi3, _phi3_frequencies, factor=PHI3_FACTOR),
    "deepseek_v3": Small(_deepseek, lambda layer, length: powers(1e4), interleaved=True, side=1),
    "qwen3_vl": Small(_qwen3_vl, lambda layer, length: powers(1e4), axes=(0, 1, 2, 0, 1, 2, 0, 0)),
}


def model(name: str) -> Any:
    """The model, every weight drawn, in float32."""
    torch.manual_seed(0)
    made = SMALL[name].make().float().eval()
    for weight in made.parameters():
        if weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
    return made


@dataclass
class Caught:
    """Queries and keys of each layer before they are rotated: (batch, heads, tokens, channels)."""

    q: list[list[torch.Tensor]] = field(default_factory=list)
    k: list[list[torch.Tensor]] = field(default_factory=list)

    def keys(self, layer: int) -> torch.Tensor:
        return torch.cat(self.k[layer], dim=2).double()

    def query(self, layer: int) -> torch.Tensor:
        return self.q[layer][-1][:, :, -1:].double()


@contextlib.contextmanager
def catching(made: Any, layers: int) -> Iterator[Caught]:
    """Catch what the attention of a model hands to its rotation, call after call."""
    caught = Caught([[] for _ in range(layers)], [[] for _ in range(layers)])
    text = next(m for m in made.modules() if hasattr(m, "q_norm") or hasattr(m, "o_proj"))
    module = sys.modules[type(text).__module__]
    names = [
        n for n in vars(module) if n in ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave")
    ]
    old = {name: getattr(module, name) for name in names}
    calls = 0

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def rotation(q: torch.Tensor, k: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            if original.__name__ not in inside:
                caught.q[calls % layers].append(q.detach().clone())
                caught.k[calls % layers].append(k.detach().clone())
                calls += 1
            inside.append(original.__name__)
            try:
                return original(q, k, *args, **kwargs)
            finally:
                inside.pop()

        return rotation

    inside: list[str] = []
    for name in names:
        setattr(module, name, wrapped(old[name]))
    try:
        yield caught
    finally:
        for name in names:
            setattr(module, name, old[name])


def rotated(name: str, layer: int, x: torch.Tensor, positions: Any, length: int) -> np.ndarray:
    """(batch, heads, tokens, channels) before the rotation -> after it, in float64.

    Positions are (tokens,), (batch, tokens), or of several axes (tokens, axes).
    """
    small = SMALL[name]
    f = small.frequencies(layer, length)
    where = np.asarray(positions, dtype=np.float64)
    if small.axes:
        where = where if where.ndim == 2 else np.stack([where] * 3, axis=-1)
        angles = where[None, None][..., list(small.axes)] * f
    else:
        where = where if where.ndim == 2 else where[None]
        angles = where[:, None, :, None] * f
    values = x.double().numpy()
    if small.interleaved:
        a, b = values[..., 0::2], values[..., 1::2]
    else:
        a, b = values[..., : len(f)], values[..., len(f) :]
    cos, sin = np.cos(angles) * small.factor, np.sin(angles) * small.factor
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
