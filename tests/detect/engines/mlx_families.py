"""Families that mlx-lm or mlx-vlm and posenc both know: their configs, and where they differ."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import posenc
from posenc.detect.contract.comparison.compare import comparison
from posenc.detect.contract.sides.mlx import of_mlx
from posenc.detect.contract.sides.sides import side_of

PUBLISHED = Path(__file__).resolve().parents[2] / "golden" / "configs" / "published.jsonl"
TOPK = {"topk_method": "noaux_tc", "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1}
EXPERTS = {"n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 8, **TOPK}
LINEAR = [n for n in range(1, 28) if n % 4]
# What configs of a family say that no position depends on, and that the kept ones leave out.
MORE: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"architectures": ["BailingMoeV3ForCausalLM"], "num_experts_per_tok": 8,
                       "n_group": 8, "group_norm_size": 4,
                       "max_position_embeddings": 262144},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    "exaone4": {"head_dim": 128, "rope_scaling": None, "sliding_window_pattern": "LLLG"},
    "exaone_moe": {"head_dim": 128, "is_moe_layer": [True] * 64},
    "glm4_moe": {**EXPERTS, "moe_intermediate_size": 1408, "rope_scaling": None},
    "glm_moe_dsa": EXPERTS,
    "granitemoehybrid": {"mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128,
                         "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_proj_bias": False,
                         "mamba_conv_bias": True},
    "kimi_linear": {"rope_theta": 10000.0, "mla_use_nope": True, "linear_attn_config": {
        "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4, "kda_layers": LINEAR,
        "full_attn_layers": [n for n in range(1, 28) if n not in LINEAR]}},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "longcat_flash": {"attention_method": "MLA", "zero_expert_type": "identity",
                      "mla_scale_q_lora": True, "mla_scale_kv_lora": True},
    "mellum": {"num_experts": 64},
    "mimo_v2_flash": {**EXPERTS, "moe_layer_freq": [0] + [1] * 47, "v_head_dim": 128,
                      "swa_v_head_dim": 128, "swa_num_attention_heads": 64,
                      "swa_num_key_value_heads": 8, "layernorm_epsilon": 1e-5},
    "solar_open": {"intermediate_size": 10240, "first_k_dense_replace": 0,
                   "partial_rotary_factor": 1.0},
}  # fmt: skip


class Outcome(NamedTuple):
    """What came of a config: the words of an error, or the fields that differ and the sentences."""

    model_type: str
    config: str
    error: str
    fields: tuple[str, ...]
    compared: tuple[str, ...]
    lines: tuple[str, ...]


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Published configs, and the defaults of transformers in both of its dialects."""
    import transformers

    transformers.logging.set_verbosity_error()
    for line in PUBLISHED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["name"], row["config"]
    for kind in sorted(transformers.CONFIG_MAPPING):
        try:
            config = transformers.CONFIG_MAPPING[kind]().to_dict()
        except Exception:  # noqa: BLE001 - other people's classes raise anything
            continue
        yield "default, dialect 5", config
        if "rope_parameters" in str(config):
            try:
                yield "default, dialect 4", posenc.to_hf(config, "hf4").config
            except posenc.DataError:
                continue


def knows(package: str, config: dict[str, Any]) -> bool:
    """Whether a package has a class for a config."""
    utils = importlib.import_module(f"{package}.utils")
    find = utils._get_classes if package == "mlx_lm" else utils.get_model_and_args
    logging.disable()
    try:
        find(config)
    except (ValueError, KeyError, ImportError, SystemExit):
        return False
    finally:
        logging.disable(logging.NOTSET)
    return True


def outcome(package: str, name: str, config: dict[str, Any]) -> Outcome:
    """What `diff` says of a config and the class that a package has for it."""
    kind = config["model_type"]
    whole = {**config, **MORE.get(kind, {})}
    try:
        found = comparison(side_of(config), of_mlx(whole, package, (package,)))
    except posenc.DataError as error:
        return Outcome(kind, name, str(error), (), (), ())
    rows = {row.field: row.text for row in found.rows}
    return Outcome(kind, name, "", (*rows,), found.compared, (*rows.values(),))


# Classes that no CPU or no config of transformers builds, and their errors.
UNBUILT = {
    "bitnet": "No Metal back-end", "muse_spark": "No Metal back-end",
    "lfm2": "list index out of range", "pixtral": "does not support item assignment",
}  # fmt: skip
FIVE, FOUR = "default, dialect 5", "default, dialect 4"
# Where a class of mlx-lm 0.32.2 and the config differ; `docs/faults.md` says why.
DIFFERENT: dict[tuple[str, str], tuple[str, ...]] = {
    # The base of dialect 5 stands where the class does not look.
    **{(kind, FIVE): ("base",) for kind in (
        "cohere", "cohere2", "glm4_moe_lite", "mistral3", "phimoe", "qwen2", "qwen2_moe", "smollm3",
        "starcoder2")},
    **{("glm", name): ("dim",) for name in (FIVE, FOUR, "THUDM/glm-4-9b-chat-hf")},
    ("gpt_oss", FIVE): ("scaling",),
    ("gpt_oss", FOUR): ("scaling.rounding",),
    ("laguna", "poolside-Laguna-XS.2"): ("magnitude.attention_factor",),
    ("laguna", "poolside-Laguna-XS.2-INT4"): ("magnitude.attention_factor",),
    ("minicpm3", "minicpm3_4b"): ("frequencies",),
    ("phi3", "phi3 phi3 (modelconfig/testdata)"): ("scaling",),
    ("phimoe", "phimoe"): ("scaling",),
    # The model type of MiniMax Text 01 is that of M2 there.
    ("minimax", "MiniMaxAI/MiniMax-Text-01-hf"): ("layers", "dim"),
    # Defaults of the two classes that are unlike: of the width of heads, and of `rotary_dim`.
    ("falcon_h1", FIVE): ("dim", "frequencies"), ("falcon_h1", FOUR): ("dim",),
    ("minimax_m3_vl", FIVE): ("dim",), ("minimax_m3_vl", FOUR): ("dim",),
}  # fmt: skip

BASE = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 4, "intermediate_size": 11008, "vocab_size": 32000, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192, "rope_theta": 5e5,
}  # fmt: skip
EXPERT = {**EXPERTS, "moe_intermediate_size": 1408, "norm_topk_prob": True,
          "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
          "moe_layer_freq": 1}  # fmt: skip
LATENT = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
          "v_head_dim": 128, "num_key_value_heads": 32}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024}  # fmt: skip
# Families without a class in transformers, whose rows were read in mlx-lm.
UNLISTED: dict[str, dict[str, Any]] = {
    "Klear": {**BASE, **EXPERT, "num_experts": 8, "attention_bias": False, "mlp_only_layers": [],
              "tie_word_embeddings": False, "decoder_sparse_step": 1},
    "baichuan_m1": {**BASE, "conv_window": 2, "sliding_window": 4096, "sliding_window_layers": [1],
                    "num_swa_attention_heads": 32, "num_swa_key_value_heads": 8,
                    "tie_word_embeddings": False},
    "deepseek": {**BASE, **EXPERT, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "exaone": {**BASE, "num_layers": 4, "layer_norm_epsilon": 1e-5, "rope_scaling": LLAMA3},
    "iquestloopcoder": {**BASE, "head_dim": 128},
    "kimi_vl": {"text_config": {"model_type": "deepseek_v3", **BASE, **EXPERT, **LATENT},
                "vision_config": {"model_type": "moonvit"}},
    "lille-130m": {"n_embd": 640, "n_head": 10, "n_kv_heads": 2, "n_layer": 4, "block_size": 512,
                   "vocab_size": 32000, "rope_theta": 5e5, "layer_norm_eps": 1e-5},
    "nanbeige": {**BASE, "head_dim": 128},
    "openelm": {"head_dim": 64, "num_transformer_layers": 2, "model_dim": 1280, "vocab_size": 32000,
                "ffn_dim_divisor": 256, "num_query_heads": [12, 12], "num_kv_heads": [3, 3],
                "ffn_multipliers": [0.5, 1.0], "rope_freq_constant": 20000},
    "plamo": {**BASE, "n_shared_head": 8},
    "talkie": {**BASE, "head_dim": 128},
    "telechat3": {**BASE, "head_dim": 128, "mlp_bias": False, "attention_bias": False,
                  "tie_word_embeddings": False},
    "youtu_llm": {**BASE, **LATENT},
}  # fmt: skip
