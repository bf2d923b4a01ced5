"""The numbers of vLLM's rotary classes for eight configs.

    python tests/golden/make_vllm.py FOLDER

FOLDER holds the unpacked wheel of vLLM 0.33.0 (`vllm_stand_ins`). What is stored are the rows of
`cos_sin_cache` at some positions, and which class made them. posenc takes no part in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

VERSION = "0.33.0"
FILE = Path(__file__).parent / "vllm.safetensors"
POSITIONS = (0, 1, 2, 3, 5, 17, 64, 255, 257, 511, 4095, 4096, 4097, 131_071, 2**20)


def _rope(**keys: Any) -> dict[str, Any]:
    return keys


def _config(model_type: str, head_dim: int, length: int, rope: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": model_type, "hidden_size": 8 * head_dim, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": head_dim, "num_hidden_layers": 4,
        "max_position_embeddings": length, "rope_parameters": rope,
    }  # fmt: skip


CONFIGS: dict[str, dict[str, Any]] = {
    "plain, base 1e7": _config("qwen2", 128, 262144, _rope(rope_type="default", rope_theta=1e7)),
    "linear": _config("qwen2", 128, 131072, _rope(rope_type="linear", rope_theta=1e6, factor=8.0)),
    "llama 3.1": _config("llama", 128, 131072, _rope(
        rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192)),
    "llama 4 scout": _config("llama", 128, 131072, _rope(
        rope_type="llama3", rope_theta=5e5, factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0,
        original_max_position_embeddings=8192)),
    "qwen 2.5 with yarn": _config("qwen2", 128, 131072, _rope(
        rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32768)),
    "gpt-oss": _config("qwen2", 64, 131072, _rope(
        rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
        original_max_position_embeddings=4096, truncate=False)),
    "attention_factor stated": _config("qwen2", 128, 65536, _rope(
        rope_type="yarn", rope_theta=5e5, factor=8.0, original_max_position_embeddings=8192,
        attention_factor=1.0, beta_fast=32.0, beta_slow=1.0)),
    "gemma 4, proportional": _config("qwen2", 512, 131072, _rope(
        rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25)),
}  # fmt: skip


def main() -> None:
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.golden.vllm_stand_ins import prepare

    made, arrays, symbols = prepare(sys.argv[1]), {}, {}
    for name, config in CONFIGS.items():
        rope, length = dict(config["rope_parameters"]), config["max_position_embeddings"]
        module = made.get_rope(config["head_dim"], length, True, rope, torch.float32)
        rows = module.cos_sin_cache.numpy()
        own = (rope.get("original_max_position_embeddings", 0), length - 1)
        where = np.array(sorted({p for p in (*POSITIONS, *own) if p < length}), dtype=np.int64)
        arrays[f"{name}: positions"], arrays[f"{name}: rows"] = where, rows[where]
        symbols[name] = f"{type(module).__module__}.{type(module).__qualname__}"
        print(name, symbols[name])
    told = {"package": "vllm", "version": VERSION, "symbols": json.dumps(symbols)}
    save_file(arrays, FILE, metadata=told)


if __name__ == "__main__":
    main()
