"""The numbers of vLLM's rotary classes for eight configs.

    python tests/golden/make_vllm.py FOLDER

FOLDER holds `vllm/model_executor/layers/rotary_embedding` of the wheel of vLLM 0.33.0, unpacked:

    pip download --no-deps vllm==0.33.0        336 MB

The classes run on the CPU behind stand-ins for the rest of vLLM. What is stored are the rows of
`cos_sin_cache` at some positions, and which class made them. posenc takes no part in it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import logging
import sys
import types
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


class _Anything(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: a[0] if len(a) == 1 and callable(a[0]) and not k else None


class _Finder:
    """Every module of vLLM but those of rotary embeddings is a stand-in."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        if name.startswith("vllm.") and "layers.rotary_embedding" not in name:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> Any:
        made = _Anything(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: Any) -> None:
        no = types.SimpleNamespace
        if module.__name__.endswith("_aiter_ops"):
            module.rocm_aiter_ops = no(
                is_triton_rotary_embed_enabled=lambda: False, is_enabled=lambda: False
            )
        if module.__name__.endswith("triton_utils"):
            module.triton = no(
                jit=lambda f=None, **_: f or (lambda g: g), cdiv=lambda a, b: -(-a // b)
            )
            module.tl = no(constexpr=int)
        if module.__name__.endswith("logger"):
            module.init_logger = logging.getLogger
        if module.__name__.endswith("platforms"):
            names = ("is_cuda", "is_rocm", "is_cuda_alike", "is_xpu")
            module.current_platform = no(is_cpu=lambda: True, **{n: lambda: False for n in names})


def classes(folder: str) -> Any:
    """vLLM's package of rotary classes."""
    import torch

    class CustomOp(torch.nn.Module):
        def __init__(self, **_: Any) -> None:
            super().__init__()

        @classmethod
        def register(cls, name: str, **_: Any) -> Any:
            del name
            return lambda c: c

        @classmethod
        def enabled(cls) -> bool:
            return False

    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers"):
        module = types.ModuleType(name)
        module.__path__ = [str(Path(folder, *name.split(".")))]
        sys.modules[name] = module
    operations = types.ModuleType("vllm.model_executor.custom_op")
    operations.CustomOp, operations.maybe_get_oot_by_class = CustomOp, lambda c: c  # type: ignore[attr-defined]
    sys.modules[operations.__name__] = operations
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    return importlib.import_module("vllm.model_executor.layers.rotary_embedding")


def main() -> None:
    import torch

    made, arrays, symbols = classes(sys.argv[1]), {}, {}
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
