"""Families that mlx-lm or mlx-vlm and posenc both know: their configs, and where they differ."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.models.small_models import merged

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
    "deepseek_v4": {"compress_ratios": [128, 128] + [128, 4] * 30},
    "diffusion_gemma": {"text_config": {"num_experts": 8, "top_k_experts": 2,
                                        "moe_intermediate_size": 64}},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    "exaone4": {"head_dim": 128, "rope_scaling": None, "sliding_window_pattern": "LLLG"},
    "exaone_moe": {"head_dim": 128, "is_moe_layer": [True] * 64},
    "florence2": {"vision_config": {"model_type": "davit"}},
    "glm4_moe": {**EXPERTS, "moe_intermediate_size": 1408, "rope_scaling": None},
    "glm4v": {"text_config": {"eos_token_id": 0}},
    "glm4v_moe": {"text_config": EXPERTS},
    "glm_moe_dsa": EXPERTS,
    "granite4_vision": {"downsample_rate": "4/8"},
    "granitemoehybrid": {"mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128,
                         "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_proj_bias": False,
                         "mamba_conv_bias": True},
    "internvl": {"text_config": {"rms_norm_eps": 1e-6, "head_dim": 128,
                                 "tie_word_embeddings": False}},
    "kolibri1": {"num_experts": 64},
    "kimi_linear": {"rope_theta": 10000.0, "mla_use_nope": True, "linear_attn_config": {
        "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4, "kda_layers": LINEAR,
        "full_attn_layers": [n for n in range(1, 28) if n not in LINEAR]}},
    # The class takes the mask of its first layer of convolutions.
    "lfm2": {"layer_types": ["full_attention"] * 31 + ["conv"], "full_attn_idxs": [*range(31)],
             "block_dim": 2560, "block_ff_dim": 12288},
    "longcat_flash": {"attention_method": "MLA", "zero_expert_type": "identity",
                      "mla_scale_q_lora": True, "mla_scale_kv_lora": True},
    "llama4": {"vision_config": {"vision_feature_layer": -1}},
    "mellum": {"num_experts": 64},
    "mimo_v2_flash": {**EXPERTS, "moe_layer_freq": [0] + [1] * 47, "v_head_dim": 128,
                      "swa_v_head_dim": 128, "swa_num_attention_heads": 64,
                      "swa_num_key_value_heads": 8, "layernorm_epsilon": 1e-5},
    "minicpmv4_7": {"image_token_id": 7, "video_token_id": 8},
    "nemotron_h_omni": {"text_config": {"layers_block_type": ["mamba", "attention"]}},
    "olmo": {"d_model": 4096, "n_heads": 32, "n_layers": 16, "embedding_size": 50304},
    "qwen4_exp": {"text_config": {
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10,
        "output_gate_type": "sigmoid", "indexer_n_heads": 4, "indexer_kv_heads": 1,
        "indexer_head_dim": 256, "indexer_budget": 2048, "indexer_compress_ratio": 4,
        "rope_parameters": {"mrope_section": [11, 11, 10], "partial_rotary_factor": 1.0}}},
    "qwen3_omni_moe": {f"{part}_config": {"text_config": {
        "num_experts": 8, "head_dim": 128, "rope_theta": 1e6}} for part in ("thinker", "talker")},
    "unlimited_ocr": {"projector_config": {"projector_type": "linear", "input_dim": 2048},
                      "vision_config": {"model_type": "vision"}},
    "solar_open": {"intermediate_size": 10240, "first_k_dense_replace": 0,
                   "partial_rotary_factor": 1.0},
}  # fmt: skip

# What defaults of transformers leave open, and every file states.
AT = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [24, 20, 20]}
STATED = {"cohere_compass": {"text_config": {"rope_parameters": {
    "full_attention": AT, "sliding_attention": AT}}}}  # fmt: skip


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
        config = merged(config, STATED.get(kind, {}))
        config = {"model_type": "mistral3", "text_config": config} if kind == "mistral4" else config
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
    whole = merged(config, MORE.get(kind, {}))
    try:
        found = comparison(side_of(config), of_mlx(whole, package, (package,)))
    except posenc.DataError as error:
        return Outcome(kind, name, str(error), (), (), ())
    rows = {row.field: row.text for row in found.rows}
    return Outcome(kind, name, "", (*rows,), found.compared, (*rows.values(),))


# Classes that no CPU or no config of transformers builds, and their errors.
METAL = dict.fromkeys(("bitnet", "muse_spark"), "No Metal back-end")
UNBUILT = {
    # A type of pictures in transformers, of a whole in mlx-lm.
    "mlx_lm": {**METAL, "pixtral": "missing 1 required positional argument: 'text_config'"},
    "mlx_vlm": METAL,
}
# Classes that are built, and are handed by a whole what a run of tokens is not; and the configs
# that leave something open to us.
HANDED = {
    "gemma4_unified_assistant": "missing 2 required positional arguments",
    "muse_glimmer_assistant": "missing 2 required positional arguments",
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), "not enough values"),
    **dict.fromkeys(("pp_doclayout_v3", "rt_detr_v2", "sapiens2"), "spatial dimensions"),
    **dict.fromkeys(("sam3", "sam3_video"), "tuple index out of range"),
}
UNSAID = {"mlx_lm": {}, "mlx_vlm": {**HANDED, "hunyuan_vl": "cuts its sections"}}
FIVE, FOUR = "default, dialect 5", "default, dialect 4"
# The base of dialect 5 stands where the class does not look.
OLD = ("cohere", "cohere2", "glm4_moe_lite", "phimoe", "qwen2", "qwen2_moe", "smollm3",
       "starcoder2")  # fmt: skip
# Where a class of either package and the config differ; `docs/faults.md` says why.
BOTH: dict[tuple[str, str], tuple[str, ...]] = {
    **dict.fromkeys(((kind, FIVE) for kind in OLD), ("base",)),
    **{("glm", name): ("dim",) for name in (FIVE, FOUR, "THUDM/glm-4-9b-chat-hf")},
    ("gpt_oss", FIVE): ("scaling",),
    ("gpt_oss", FOUR): ("scaling.rounding",),
    ("laguna", "poolside-Laguna-XS.2"): ("magnitude.attention_factor",),
    ("laguna", "poolside-Laguna-XS.2-INT4"): ("magnitude.attention_factor",),
    ("minicpm3", "minicpm3_4b"): ("frequencies",),
    # The model type of MiniMax Text 01 is that of M2 there.
    ("minimax", "MiniMaxAI/MiniMax-Text-01-hf"): ("layers", "dim"),
    # Defaults of the two classes that are unlike: of the width of heads, and of `rotary_dim`.
    ("falcon_h1", FIVE): ("dim", "frequencies"), ("falcon_h1", FOUR): ("dim",),
    ("minimax_m3_vl", FIVE): ("dim",), ("minimax_m3_vl", FOUR): ("dim",),
}  # fmt: skip
SEEN = ("cohere2_vision", "idefics2", "idefics3", "llava_next", "llava_onevision", "mllama",
        "smolvlm")  # fmt: skip
DIFFERENT: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {
    "mlx_lm": {
        **BOTH,
        ("mistral3", FIVE): ("base",),
        ("phi3", "phi3 phi3 (modelconfig/testdata)"): ("scaling",),
        ("phimoe", "phimoe"): ("scaling",),
    },
    "mlx_vlm": {
        **BOTH,
        **dict.fromkeys(((kind, FIVE) for kind in SEEN), ("base",)),
        ("granite4_vision", FIVE): ("frequencies",), ("molmo2", FIVE): ("frequencies",),
        ("glm4v", "glm4v hf (glm46v/_sources) [2]"): ("base",),  # likewise
        # Of the width of heads, which the class requires and the config lacks.
        **dict.fromkeys((("qwen3_omni_moe", FIVE), ("qwen3_omni_moe", FOUR)), ("dim",)),
        # Of the base by default.
        **dict.fromkeys(((kind, FOUR) for kind in ("qwen3_5", "qwen3_5_moe", "qwen3_5_text")),
                        ("frequencies",)),
        **{("deepseek_v32", name): ("pairing.order",)
           for name in (FIVE, FOUR, "deepseek-ai/DeepSeek-V3.2-Exp")},
        ("hy_v4", FIVE): ("pairing.order", "frequencies"), ("hy_v4", FOUR): ("pairing.order",),
        ("flint", FIVE): ("layers",), ("flint", FOUR): ("layers",),
        **dict.fromkeys((("internlm2", "internlm2_7b"), ("internlm3", FIVE), ("internlm3", FOUR)),
                        ("ladder.first", "positions")),
    },
}  # fmt: skip
