"""Small checkpoints of every packing, and the permutation of their rows by plain loops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

HIDDEN = 12


def interleaved_from_half(head: list[Any], begin: int, rotated: int) -> list[Any]:
    """The rows of one head, from [a0 a1 … b0 b1 …] to [a0 b0 a1 b1 …] in the part that turns."""
    made = list(head)
    for j in range(rotated // 2):
        made[begin + 2 * j] = head[begin + j]
        made[begin + 2 * j + 1] = head[begin + rotated // 2 + j]
    return made


def config_of(heads: int, kv: int, width: int, rotated: int, **more: Any) -> dict[str, Any]:
    """A config of no known family."""
    return {
        "hidden_size": HIDDEN,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": width,
        "num_hidden_layers": 2,
        "partial_rotary_factor": rotated / width,
        "rope_theta": 10000.0,
        **more,
    }


def weights_of(heads: int, kv: int, width: int, seed: int = 0, **choices: Any) -> dict[str, Any]:
    """Two layers with separate projections, biases and gains, and what stands around them."""
    rng = np.random.default_rng(seed)
    dtype = choices.get("dtype", np.float32)

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    found = {"model.embed_tokens.weight": array(5, HIDDEN)}
    for layer in range(2):
        at = f"model.layers.{layer}.self_attn"
        for name, count in (("q", heads), ("k", kv), ("v", kv)):
            found[f"{at}.{name}_proj.weight"] = array(count * width, HIDDEN)
            if choices.get("bias"):
                found[f"{at}.{name}_proj.bias"] = array(count * width)
        if choices.get("norm") == "head":
            found |= {f"{at}.{n}_norm.weight": array(width) for n in "qk"}
        if choices.get("norm") == "full":
            found[f"{at}.q_norm.weight"] = array(heads * width)
            found[f"{at}.k_norm.weight"] = array(kv * width)
        found[f"{at}.o_proj.weight"] = array(HIDDEN, heads * width)
    return found


def folder_of(
    folder: Path,
    weights: Mapping[str, np.ndarray],
    config: dict[str, Any] | None = None,
    *,
    shards: int = 1,
) -> Path:
    """Write a folder as models are published: weights, perhaps an index, and a config."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(weights)
    if shards == 1:
        save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
    else:
        places = {}
        for shard in range(shards):
            file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
            held = {name: weights[name] for name in names[shard::shards]}
            save_file(held, folder / file, metadata={"format": "pt"})
            places |= dict.fromkeys(held, file)
        index = {"metadata": {"total_size": 1}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def loaded(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a file or folder."""
    if path.is_file():
        return dict(load_file(path))
    return {k: v for file in sorted(path.glob("*.safetensors")) for k, v in load_file(file).items()}
