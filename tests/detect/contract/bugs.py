"""Bugs that engines, ports and fine-tunes had, each with the public thread that tells of it.

A row is the thread, the config of a model, an implementation with the bug, and the field that
`diff` has to name. The implementations are those of `engine.py`, which does not know posenc.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.detect.contract.engine import (
    Counts,
    Engine,
    Frequencies,
    Indexer,
    Remembers,
    Sines,
    Slopes,
    half,
    ladder,
    linear,
    llama3,
    magnitude,
    yarn,
)

Config = dict[str, Any]


class Bug(NamedTuple):
    """One bug."""

    thread: str  # owner/name#number
    config: Config
    engine: Callable[[], Any]
    field: str
    where: str = ""  # a word of the layers that are named

    @property
    def url(self) -> str:
        """Where it is told."""
        name, _, number = self.thread.partition("#")
        return f"https://github.com/{name}/issues/{number}"


def model(model_type: str, head_dim: int = 64, length: int = 4096, **keys: Any) -> Config:
    return {
        "model_type": model_type, "hidden_size": 8 * head_dim, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": head_dim, "num_hidden_layers": 12,
        "max_position_embeddings": length, **keys,
    }  # fmt: skip


PLAIN = model("llama", rope_theta=5e5)
QWEN = model("qwen2", rope_theta=5e5)
YARN = model(
    "qwen2", 128, 131072, rope_theta=1e6,
    rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
)  # fmt: skip
GPT_OSS = model(
    "gpt_oss", 64, 131072, rope_theta=150000.0, num_hidden_layers=2,
    layer_types=["full_attention", "full_attention"],
    rope_scaling={"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
                  "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
)  # fmt: skip
STATED = model(
    "qwen2", 128, 131072, rope_theta=5e5,
    rope_scaling={"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 2048,
                  "attention_factor": 1.0},
)  # fmt: skip
MSCALES = model(
    "qwen2", 128, 65536, rope_theta=1e6,
    rope_scaling={"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096,
                  "mscale": 1.0, "mscale_all_dim": 1.0},
)  # fmt: skip
LLAMA3 = model(
    "llama", 128, 131072, rope_theta=5e5,
    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                  "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
)  # fmt: skip
SHORT, LONG = [1.0 + 0.01 * j for j in range(48)], [1.0 + 1.2 * j for j in range(48)]
LONGROPE = model(
    "phi3", 96, 131072, rope_theta=1e4, original_max_position_embeddings=4096,
    rope_scaling={"type": "longrope", "short_factor": SHORT, "long_factor": LONG},
)  # fmt: skip
LONGROPE_FACTOR = float(np.sqrt(1 + np.log(131072 / 4096) / np.log(4096)))
GEMMA = model(
    "gemma3_text", 128, 32768, rope_theta=1e6, rope_local_base_freq=1e4, sliding_window=512,
    sliding_window_pattern=6, rope_scaling={"rope_type": "linear", "factor": 8.0},
)  # fmt: skip
OLMO = model(
    "olmo3", 128, 65536, rope_theta=5e5, sliding_window=4096,
    layer_types=["sliding_attention"] * 3 + ["full_attention"] * 1 + ["sliding_attention"] * 3
    + ["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
    rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
                  "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0},
)  # fmt: skip
DYNAMIC = model(
    "llama", 64, 2048, rope_theta=1e4, rope_scaling={"rope_type": "dynamic", "factor": 2.0}
)
PARTIAL = model("glm", 128, 8192, rope_theta=1e4, partial_rotary_factor=0.5, pad_token_id=0)
NEOX = model("gpt_neox", 128, 2048, rotary_pct=0.25, rotary_emb_base=10000)
BLOOM = {"model_type": "bloom", "n_head": 12, "hidden_size": 768, "n_layer": 4}
BLOOM8 = {"model_type": "bloom", "n_head": 8, "hidden_size": 512, "n_layer": 4}
MROPE = model(
    "qwen3_vl_text", 128, 32768, rope_theta=5e6,
    rope_scaling={"rope_type": "default", "mrope_interleaved": True,
                  "mrope_section": [24, 20, 20]},
)  # fmt: skip
INDEXER = {
    "model_type": "deepseek_v32", "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": 4, "max_position_embeddings": 163840,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 64,
    "kv_lora_rank": 64, "index_head_dim": 128, "index_n_heads": 4, "index_topk": 64,
    "rope_theta": 10000.0,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
                     "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
}  # fmt: skip


def dynamic(_: str, length: int) -> np.ndarray:
    scale = 2.0 * max(length, 2048) / 2048 - 1.0
    return ladder(64, 1e4 * scale ** (64 / 62))


def gemma(layer: str, _: int, *, scaled: str = "full", local: float = 1e4) -> np.ndarray:
    f = ladder(128, 1e6 if layer.startswith("full") else local)
    return linear(f, 8.0) if layer.startswith(scaled) else f


def slopes(heads: int) -> np.ndarray:
    return 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)


def authors_slopes(heads: int) -> np.ndarray:
    below = 2 ** int(np.log2(heads))
    return np.concatenate([slopes(below), slopes(2 * below)[::2][: heads - below]])


def padded(case: dict[str, Any]) -> np.ndarray:
    """Positions that count padding too, and never begin again."""
    rows, tokens = (1, case["shape"][0]) if len(case["shape"]) == 1 else case["shape"][:2]
    begin = case.get("past", 0)
    return np.broadcast_to(begin + np.arange(tokens), (rows, tokens))


def retained(case: dict[str, Any]) -> np.ndarray:
    """Positions of a cached step from the number of keys that were kept."""
    tokens = case["shape"][-1]
    if "mask" in case:
        mask = np.reshape(case["mask"], case["shape"])
        return np.maximum(mask.cumsum(-1) - 1, 0)
    if "cumulative_lengths" in case:
        ends = np.asarray(case["cumulative_lengths"])
        return np.concatenate([np.arange(b - a) for a, b in itertools.pairwise(ends)])
    return min(case["past"], 200) + np.arange(tokens)


YARN_F, OSS_F = yarn(128, 1e6, 4, 32768), yarn(64, 15e4, 32, 4096, truncate=False)
BUGS: dict[str, Bug] = {
    "beta_fast and beta_slow swapped": Bug(
        "pytorch/torchtitan#3787", YARN,
        lambda: Engine(_swapped(128, 1e6, 4, 32768), factor=magnitude(4)), "scaling.beta_fast",
    ),
    "the ramp's bounds rounded, truncate ignored": Bug(
        "vllm-project/vllm#27722", GPT_OSS,
        lambda: Engine(yarn(64, 15e4, 32, 4096), factor=magnitude(32)), "scaling.rounding",
    ),
    "truncate assumed off": Bug(
        "keras-team/keras-hub#2981", YARN,
        lambda: Engine(yarn(128, 1e6, 4, 32768, truncate=False), factor=magnitude(4)),
        "scaling.rounding",
    ),
    "the factor of YaRN inside the power": Bug(
        "apache/tvm#18576", GPT_OSS,
        lambda: Engine(yarn(64, 15e4, 32, 4096, truncate=False, powered=True),
                       factor=magnitude(32)), "frequencies",
    ),
    "attention_factor ignored": Bug(
        "vllm-project/vllm#46280", STATED,
        lambda: Engine(yarn(128, 5e5, 64, 2048), factor=magnitude(64)),
        "magnitude.attention_factor",
    ),
    "mscale and mscale_all_dim ignored": Bug(
        "vllm-project/vllm#48621", MSCALES,
        lambda: Engine(yarn(128, 1e6, 16, 4096), factor=magnitude(16)),
        "magnitude.attention_factor",
    ),
    "the magnitude lost": Bug(
        "guoqingbao/xinfer#329", YARN, lambda: Engine(YARN_F), "magnitude.attention_factor",
    ),
    "the magnitude applied twice": Bug(
        "sgl-project/sglang#33558", YARN, lambda: Engine(YARN_F, factor=magnitude(4) ** 2),
        "magnitude.attention_factor",
    ),
    "YaRN in sliding layers": Bug(
        "vllm-project/vllm#43419", OLMO,
        lambda: Engine(yarn(128, 5e5, 8, 8192), factor=magnitude(8)), "layers", "sliding",
    ),
    "long factors at a short length": Bug(
        "ggml-org/llama.cpp#24823", LONGROPE,
        lambda: Engine(ladder(96) / LONG, factor=LONGROPE_FACTOR), "scaling",
    ),
    "short factors at every length": Bug(
        "trymirai/lalamo#353", LONGROPE,
        lambda: Engine(ladder(96) / SHORT, factor=LONGROPE_FACTOR), "scaling",
    ),
    "Llama 3's scaling computed and not returned": Bug(
        "huggingface/transformers#32330", LLAMA3, lambda: Engine(ladder(128, 5e5)), "scaling",
    ),
    "Llama 3's ramp linear in wavelengths": Bug(
        "ml-explore/mlx-examples#907", LLAMA3,
        lambda: Engine(llama3(128, 5e5, 8, 8192, ramp="wavelengths")), "scaling",
    ),
    "the base hard-coded": Bug(
        "NVIDIA/TransformerEngine#849", PLAIN, lambda: Engine(ladder(64)), "base",
    ),
    "the base and the scaling lost between versions": Bug(
        "Open-Athena/MarinFold#184", LLAMA3, lambda: Engine(ladder(128)), "base",
    ),
    "one base for local and global layers": Bug(
        "vllm-project/vllm#29111", GEMMA,
        lambda: Engine(lambda layer, n: gemma("full", n)), "layers", "sliding",
    ),
    "the linear scaling of global layers ignored": Bug(
        "Blaizzy/mlx-vlm#1709", GEMMA,
        lambda: Engine(lambda layer, n: gemma(layer, n, scaled="none")), "scaling", "full",
    ),
    "the linear scaling in sliding layers too": Bug(
        "antonellof/ferrox#39", GEMMA,
        lambda: Engine(lambda layer, n: gemma(layer, n, scaled="")), "scaling", "sliding",
    ),
    "dynamic NTK that remembers": Bug(
        "huggingface/transformers#46624", DYNAMIC, lambda: Remembers(dynamic), "state",
    ),
    "frequencies in bfloat16": Bug(
        "sgl-project/sglang-jax#1472", PLAIN, lambda: Engine(half(ladder(64, 5e5), "bfloat16")),
        "dtype",
    ),
    "inv_freq saved in bfloat16": Bug(
        "NVIDIA/Megatron-LM#744", PLAIN, lambda: Frequencies(half(ladder(64, 5e5), "bfloat16")),
        "dtype",
    ),
    "cosines kept in bfloat16": Bug(
        "KellerJordan/modded-nanogpt#39", PLAIN,
        lambda: Engine(ladder(64, 5e5), rounded="bfloat16"), "dtype",
    ),
    "positions in bfloat16": Bug(
        "nkalyanv99/UNI-D2#6", PLAIN,
        lambda: Engine(ladder(64, 5e5), counted=lambda p: half(p.astype(float), "bfloat16")),
        "positions",
    ),
    "half for interleaved": Bug(
        "ikawrakow/ik_llama.cpp#2290", QWEN,
        lambda: Engine(ladder(64, 5e5), order="interleaved"), "pairing.order",
    ),
    "interleaved for half": Bug(
        "paiml/aprender#2084", PARTIAL, lambda: Engine(ladder(64), head_dim=128), "pairing.order",
    ),
    "the indexer's pairing": Bug(
        "sgl-project/sglang#13530", INDEXER,
        lambda: Indexer(yarn(64, 1e4, 40, 4096), order="interleaved"), "pairing.order", "indexer",
    ),
    "partial rotary ignored": Bug(
        "ml-explore/mlx-lm#1698", PARTIAL,
        lambda: Engine(ladder(128), order="interleaved", head_dim=128), "dim",
    ),
    "frequencies over the width of the head": Bug(
        "pie-project/pie#603", NEOX, lambda: Engine(ladder(32, width=128), head_dim=128), "dim",
    ),
    "partial rotary paired across the head": Bug(
        "labscommunity/cascadia#69", NEOX,
        lambda: Engine(np.append(ladder(32), np.zeros(48)), head_dim=128), "dim",
    ),
    "ALiBi of 12 heads": Bug(
        "ml-explore/mlx#343", BLOOM, lambda: Slopes(slopes(12)), "recipe",
    ),
    "slopes counted from head 0": Bug(
        "paiml/aprender#2143", BLOOM8, lambda: Slopes(2.0 ** -np.arange(8.0)), "slopes",
    ),
    "left padding ignored": Bug(
        "unslothai/unsloth#4078", PLAIN, lambda: Counts(ladder(64, 5e5), padded), "positions",
    ),
    "a cached step behind by what was evicted": Bug(
        "rajveer43/VeloxQuant-MLX#389", PLAIN, lambda: Counts(ladder(64, 5e5), retained),
        "positions",
    ),
    "a position that stops with the cache": Bug(
        "rajveer43/VeloxQuant-MLX#195", PLAIN,
        lambda: Engine(ladder(64, 5e5), counted=lambda p: np.minimum(p, 300)), "positions",
    ),
    "positions behind by an offset": Bug(
        "warpfront/hipfire#391", PLAIN,
        lambda: Engine(ladder(64, 5e5), counted=lambda p: p - 7), "positions",
    ),
    "the table of cosines too short": Bug(
        "microsoft/onnxruntime#27597", PLAIN, lambda: Engine(ladder(64, 5e5), rows=4095), "length",
    ),
    "M-RoPE in sections for axes in turn": Bug(
        "alibaba/MNN#4133", MROPE, lambda: Engine(ladder(128, 5e6), sections=(24, 20, 20)),
        "arrangement.rule",
    ),
}  # fmt: skip


def _swapped(dim: int, base: float, factor: float, original: int) -> np.ndarray:
    """Low from beta_slow and high from beta_fast."""
    index, plain = np.arange(dim // 2), ladder(dim, base)

    def bound(turns: float) -> float:
        return dim * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(base))

    low, high = np.floor(bound(1)), np.ceil(bound(32))
    ramp = np.clip((index - low) / (high - low), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


# Name -> thread, first row of the table as the model has it, implementation, field.
TABLES: dict[str, tuple[str, int, Callable[[], Any], str]] = {
    "sines whose exponent ends at half - 1": (
        "huggingface/blog#2183", 0, lambda: Sines(64, last=1.0, order="interleaved"), "ladder",
    ),
    "sines first, then cosines": (
        "lucidrains/denoising-diffusion-pytorch#357", 0, lambda: Sines(64), "order",
    ),
    "RoBERTa's reserved rows forgotten": (
        "sbryngelson/ANEForge#257", 2, lambda: Sines(64, order="interleaved"), "positions",
    ),
}  # fmt: skip
