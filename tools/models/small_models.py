"""Small models of transformers with random weights, made from the default config of each type.

The config is made small part by part: layers until every type of them is there, four heads of the
width that they have, few experts, a small vocabulary. Nothing here names a model but the table of
substitutes.
"""

from __future__ import annotations

import copy
import functools
import importlib
import math
import re
from pathlib import Path
from typing import Any

# Keys that say how large a model is.
LAYERS = re.compile(
    r"^(num_hidden_layers|n_layers?|num_layers|depth|(en|de)coder_layers|num_(en|de)coder_layers|"
    r"n_layer|depths_per_stage|encoder_num_hidden_layers|decoder_num_hidden_layers)$"
)
HEADS = re.compile(
    r"^(num_attention_heads|n_heads?|num_heads|(en|de)coder_attention_heads|attention_heads|"
    r"num_decoder_attention_heads)$"
)
KEY_HEADS = re.compile(r"^(num_key_value_heads|num_kv_heads|n_kv_heads|multi_query_group_num)$")
WIDTHS = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "hidden_dim", "model_dim")
WIDE = re.compile(r"size|dim|width|embd|d_model|hidden")
INNER = re.compile(r"intermediate_size|ffn_dim|ffn_hidden_size|n_inner|mlp_dim|mlp_hidden|d_ff")
EXPERTS = re.compile(r"^(num_(local_|total_|routed_)?experts|n_routed_experts|moe_num_experts)$")
CHOSEN = re.compile(r"experts_per_tok|num_selected_experts|moe_topk|moe_k$|top_k_experts")
GROUPS = re.compile(r"^(n_group|topk_group|num_expert_group|topk_groups?)$")
RANKS = re.compile(r"_lora_rank$|lora_rank$")
TOKEN = re.compile(r"token_(id|index)$|_token_ids?$|_(start|end)_id$|^image_token|^boi|^eoi")
VOCAB = re.compile(r"(^|_)vocab_size")
HEAD_COUNT, VOCABULARY = 4, 512
ROTARY = re.compile(
    r"class \w*(Rotary|RoPE|Rope)\w*Embed|def (apply_rotary|rotate_half|rotate_every)"
    r"|inv_freq|freqs_cis"
)

# What the rules above do not make small in a way that fits together.
_MOE = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1}
_HEADS = {"head_dim": 32, "num_key_value_heads": 2}
_MROPE = {"rope_type": "default", "rope_theta": 1e4}
_COMPASS = {
    "layer_types": ["full_attention", "sliding_attention"],
    "num_hidden_layers": 2,
    "rope_parameters": {
        "full_attention": {**_MROPE, "mrope_section": [24, 20, 20]},
        "sliding_attention": dict(_MROPE),
    },
}
_GLM4V = {"rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}}
_QWEN4 = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
    "rope_parameters": {**_MROPE, "partial_rotary_factor": 0.25},
}  # fmt: skip
_VOCABULARY_MAP = {"<image>": 101, "<|extra_200|>": 102, "<|image token|>": 103}
_SPARSE = {"rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5}}
_ASSISTANT = {
    "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 2,
    "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
}  # fmt: skip
_GEMMA_MOE = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64}
_TWO = {"num_hidden_layers": 2}


def _vit() -> Any:
    """In the place of a tower of timm, which is no part of transformers."""
    import transformers

    return transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        image_size=80, patch_size=8, model_args={"embed_dim": 64},
    )  # fmt: skip


_DOUBLED = {"quantization_dim": 512}
_CODEC = {"upsample_groups": 256}
_NARROW = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4}
_FLOW = {**_NARROW, "flow_head_config": {"condition_dim": 256}}
_ROTARY = {"position_embeddings_type": "rotary"}
_HEAD = {"audio_config": _NARROW, "head_config": {"audio_hidden_size": 256}}
_NEMOTRON = {"diarization_config": _HEAD}
SUBSTITUTES: dict[str, dict[str, Any]] = {
    "clvp": {"speech_config": {"vocab_size": 512}},
    "csm": {"codec_config": _CODEC},
    "efficientloftr": {"hidden_size": "leave out", "num_attention_heads": "leave out"},
    "esm": {
        "vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32,
        "position_embedding_type": "rotary",
    },
    "glm_image_text": _GLM4V,
    "glm_image": {"text_config": _GLM4V},
    "gradium_phonon_tts": _FLOW,
    "mimi": _CODEC,
    "mimi_decoder": _CODEC,
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemo_speechlm": {"audio_config": _NEMOTRON},
    "nemotron3_5_transcribe_audio": _NEMOTRON,
    "nemotron3_diarization": _HEAD,
    "pocket_tts": _FLOW,
    "pocket_tts_audio_tokenizer": _CODEC,
    "pocket_tts_audio_tokenizer_decoder": _CODEC,
    "seamless_m4t": _ROTARY,
    "wav2vec2-bert": _ROTARY,
    "wav2vec2-conformer": _ROTARY,
    "fast_vlm": {"vision_config": _vit},
    "gemma3n": {"vision_config": _vit, "text_config": {"num_kv_shared_layers": 0}},
    "perception_lm": {"vision_config": _vit},
    "pe_video": {"video_config": {"vision_config": _vit}},
    "pe_video_encoder": {"vision_config": _vit},
    "pe_audio_video": {"audio_video_config": {"video_config": {"vision_config": _vit}}},
    "pe_audio_video_encoder": {"video_config": {"vision_config": _vit}},
    "gemma4_unified_assistant": {"text_config": _ASSISTANT},
    "dots3_note": {
        "vision_config": {"mlp_layer_types": ["dense"] * 2, "per_layer_config": {}, **_TWO},
    },
    "zamba": {"num_hidden_layers": 8},
    "neucodec": _DOUBLED,
    "xcodec2": _DOUBLED,
    "eomt_dinov3": {"num_blocks": 1},
    "blt": {"encoder_hash_byte_group_vocab": 512},
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"], "position_embedding_type": "rope", **_TWO,
    },
    "dbrx": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 1, "clip_qkv": 8.0}},
    "deepseek_v2": {**_MOE, "topk_method": "greedy"},
    "dots1": _MOE,
    "cohere_compass_text": _COMPASS,
    "cohere_compass": {"text_config": _COMPASS},
    "glm4v": {"text_config": _GLM4V},
    "glm46v": {"text_config": {"model_type": "glm4v_text", **_GLM4V}},
    "glmga": {"text_config": {"model_type": "glm4v_text", **_GLM4V}},
    "glm4v_moe": {"text_config": {**_GLM4V, "hidden_size": 512, "num_attention_heads": 4}},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "hunyuan_v1_dense": _HEADS,
    "hunyuan_v1_moe": {**_HEADS, "num_experts": 4, "moe_topk": 2},
    "hunyuan_vl": {
        "text_config": {**_HEADS, "rope_parameters": {**_MROPE, "mrope_section": [4, 4, 4, 4]}}
    },
    "ministral": _HEADS,
    "nemotron": _HEADS,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1, **_TWO},
    "minimax_m3_vl_text": _SPARSE,
    "minimax_m3_vl": {"text_config": _SPARSE},
    "flint": {"num_hidden_layers": 6},
    "qwen4_exp_text": _QWEN4,
    "qwen4_exp": {"text_config": _QWEN4},
    "chameleon": {"vocabulary_map": _VOCABULARY_MAP},
    "emu3": {"vocabulary_map": _VOCABULARY_MAP},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"], **_MOE}},
    "diffusion_gemma": {"text_config": _GEMMA_MOE},
    "gemma4_assistant": {"text_config": _ASSISTANT},
    "granite4_vision": {"deepstack_layer_map": [], "downsample_rate": "1/2"},
    "zamba2": {"layer_types": ["mamba", "hybrid"], **_TWO},
    "muse_spark": {"audio_config": {"num_hidden_layers": 4}},
    "mamba2": {"num_heads": 4, "head_dim": 128, "hidden_size": 256, "n_groups": 1},
    "molmo2": {"adapter_config": {"vision_feature_layers": [1, 0], "vision_feature_layer": [1, 0]}},
    "reformer": {"is_decoder": True},
    "step3p7": {"text_config": {"sliding_window": 64}},
    "xmod": {"default_language": "en_XX"},
    "musicgen": {"decoder": {"num_codebooks": 1}},
    "musicgen_melody": {"decoder": {"num_codebooks": 1}},
    "nemotron_h_omni": {
        "vision_config": {"video_temporal_patch_size": 2}, "video_temporal_patch_size": 2,
    },
}  # fmt: skip


# Why nothing changes in some that are adopted.
IDLE = {
    "florence2": "a picture reads row 0 of its rows, which was exact",
    "videoprism": "its answer is a softmax over texts, in which no change of its rows was seen",
}

# Why transformers makes no model of some types.
UNBUILT = {
    "gemma3n": "its tower must be a model of timm, which is no part of transformers; its text is "
    "that of gemma3n_text",
    "gemma4_assistant": "transformers 5.23.0 makes none: its config must share the keys of all "
    "layers, and that of its text refuses to; gemma4_unified_assistant has the same code",
}

# Convolutions behind each other, whose numbers would grow beyond all bounds.
DEEP = ("neucodec", "xcodec2")


def model_types() -> dict[str, str]:
    """Each model type, with the name of the class of its model."""
    from transformers.models.auto import modeling_auto as auto

    found: dict[str, str] = {}
    asked = (
        auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )
    others = [m for name, m in vars(auto).items() if re.match(r"MODEL_.*MAPPING_NAMES$", name)]
    apart = rotary_types(frozenset().union(*asked))
    rotary = {name: mapping[name] for mapping in (*others, auto.MODEL_MAPPING_NAMES)
              for name in mapping.keys() & apart}  # fmt: skip
    for mapping in (rotary, *asked):
        for name, cls in mapping.items():
            found[name] = cls if isinstance(cls, str) else cls[0]
    return dict(sorted(found.items()))


@functools.cache
def rotary_types(others: frozenset[str]) -> frozenset[str]:
    """The model types of modelling files with rotary code, by their text, and without others."""
    import transformers
    from transformers.models.auto import configuration_auto as auto

    homes = {name: auto.model_type_to_module_name(name) for name in auto.CONFIG_MAPPING_NAMES}
    folders = {
        file.parent.name
        for file in Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
        if ROTARY.search(file.read_text(encoding="utf-8"))
    } - {homes.get(name) for name in others}
    return frozenset(name for name, home in homes.items() if home in folders)


def _sub(config: Any) -> dict[str, Any]:
    return {
        key: value for key, value in vars(config).items()
        if callable(getattr(value, "to_dict", None)) and hasattr(value, "model_type")
    }  # fmt: skip


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _widths(config: Any) -> dict[int, int]:
    """Widths of a config and its parts -> those of the small ones, in the ratio of their heads."""
    found: dict[int, int] = {}
    for sub in _sub(config).values():
        found |= _widths(sub)
    told = {**config.to_dict()}
    heads = next((told[k] for k in told if HEADS.match(k) and _number(told[k])), None)
    for key in WIDTHS:
        value = getattr(config, key, None)
        if _number(value) and heads and value % heads == 0:
            found[value] = value // heads * min(heads, HEAD_COUNT)
            break
    return found


def _layers(config: Any) -> int:
    """So many layers that every type of them is there."""
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or []
    firsts = [types.index(kind) + 1 for kind in set(types)]
    return min(max([2, *firsts]), 12)


def small(config: Any, widths: dict[int, int] | None = None) -> dict[str, Any]:
    """What to change in a config, so that its model is small."""
    widths = _widths(config) if widths is None else widths
    changes: dict[str, Any] = {}
    defaults = config.to_dict()
    heads = next((defaults[k] for k in defaults if HEADS.match(k) and _number(defaults[k])), 1)
    fewer = min(heads, HEAD_COUNT)
    tokens: dict[int, int] = {}
    for key, sub in _sub(config).items():
        if sub.model_type:
            changes[key] = {"model_type": sub.model_type, **small(sub, widths)}
    for key, value in defaults.items():
        if INNER.search(key) and isinstance(value, list) and len({*value}) == 1:
            changes[key] = min(value[0], 64)  # of each layer
        if key in changes or not _number(value):
            continue
        if LAYERS.match(key):
            changes[key] = min(value, _layers(config))
        elif HEADS.match(key):
            changes[key] = min(value, HEAD_COUNT)
        elif KEY_HEADS.match(key):
            changes[key] = fewer if value == heads else max(1, math.gcd(fewer, value) // 2)
        elif EXPERTS.match(key):
            changes[key] = min(value, 4)
        elif CHOSEN.search(key):
            changes[key] = min(value, 2)
        elif GROUPS.match(key):
            changes[key] = 1
        elif RANKS.search(key):
            changes[key] = min(value, 32)
        elif VOCAB.search(key):
            changes[key] = min(value, VOCABULARY)
        elif TOKEN.search(key):
            if value >= VOCABULARY:
                changes[key] = tokens.setdefault(value, 100 + (value * 7 + len(tokens)) % 300)
        elif INNER.search(key):
            changes[key] = min(value, 64)
        elif WIDE.search(key) and value in widths:
            changes[key] = widths[value]
    return changes


def merged(given: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both, where dictionaries of the same key are merged too; "leave out" takes one away."""
    made = dict(given)
    for key, value in more.items():
        before = made.get(key)
        if isinstance(value, dict):
            made[key] = merged(before if isinstance(before, dict) else {}, value)
        else:
            made[key] = value() if callable(value) else value
    return {key: value for key, value in made.items() if value != "leave out"}


def built(model_type: str) -> Any:
    """A small model of a type, in float32, with random weights."""
    import torch
    import transformers

    kind = transformers.CONFIG_MAPPING[model_type]
    more = SUBSTITUTES.get(model_type, {})
    changes = merged(small(kind(**merged({}, copy.deepcopy(more)))), copy.deepcopy(more))
    config = kind(**changes)
    name = model_types()[model_type]
    cls = getattr(transformers, name, None)
    if cls is None:  # some classes stand in a file of their library alone
        home = importlib.import_module(kind.__module__.replace(".configuration_", ".modeling_"))
        cls = getattr(home, name)
    if not isinstance(config, cls.config_class):  # the text, or the decoder, of a whole
        parts = [sub for sub in _sub(config).values() if isinstance(sub, cls.config_class)]
        config = parts[0] if parts else config
    torch.manual_seed(0)
    model = cls(config).float().eval()
    for weight in model.parameters():
        if not weight.requires_grad:  # rows of sines
            continue
        if weight.ndim >= 2:
            fan = math.prod(weight.shape[1:]) if model_type in DEEP else weight.shape[-1]
            torch.nn.init.normal_(weight, std=1.0 / math.sqrt(max(fan, 1)))
        else:  # gates that begin at zero let nothing through
            with torch.no_grad():
                weight.add_(torch.randn_like(weight), alpha=0.1)
    return model
