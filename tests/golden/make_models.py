"""Positions of models without a class in transformers, from vLLM and their authors' code.

    python tests/golden/make_models.py transformers --write
    python tests/golden/make_models.py authors=REPOSITORIES --write
    python tests/golden/make_models.py FOLDER --write

The first makes rows of `tests/golden/configs` by the class of transformers that `OTHERS` and
`FLAT` name; the second by classes of their authors (`AUTHORS`), taken out of bare repositories; the
third by vLLM's, of an unpacked wheel (`vllm_stand_ins`): 0.22.0 is the last that has Baichuan and
Qwen, 0.33.0 has the others. A class gets the config of the row, and its rotary modules are run.
Facts are those of `tools/models/config_oracle.py`; no forward pass of vLLM's models is traced, so
a layer counts as one that turns where it holds a rotary module. posenc takes no part in it.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib
import json
import logging
import math
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from safetensors.numpy import load_file
from tests.golden import vllm_stand_ins as vllm
from tools.models.config_oracle import (
    LAYER,
    MODELS,
    NUMBERS,
    POSITIONS,
    TABLES,
    original_length,
    packed,
    prepared,
    rows,
    timed,
)

FOLDER = Path(__file__).parent / "configs"
ARRAYS: dict[str, Any] = {}
# Types of whole models, and of their text where its keys stand in the whole.
FLAT = {"glm4v": "glm4v_text", "llava": "llama", "qwen3_5": "qwen3_5_text", "step3p7": "step3p5"}
# Types of rows that have no class in transformers, or files written for other code.
TYPES = (
    "baichuan", "bunny-phi", "chatglm", "dbrx", "deepseek_ref", "internvl_chat", "kimi_k2",
    "kimi_k3", "llava_llama", "locateanything", "maira2", "mimo", "minicpm", "minicpmv",
    "minimax_m3", "molmo", "nemotron-nas", "phi4mm", "qwen", "qwen3_asr", "yuan",
    "falcon_perception", "lfm2-vl", "vibevoice", "videochat_flash_qwen", "virst", *FLAT,
)  # fmt: skip
# (part, type of transformers, why it is that)
OTHERS = {
    "bunny-phi": ("", "phi", "PhiForCausalLM stands in architectures"),
    "deepseek_ref": ("", "deepseek_v4", "DeepseekV4ForCausalLM stands in architectures"),
    "internvl_chat": ("llm_config", "phi3", "Phi3ForCausalLM stands in architectures"),
    "llava_llama": ("llm_cfg", "llama", "LlamaForCausalLM stands in architectures"),
    "lfm2-vl": ("", "lfm2_vl", "Lfm2VlForConditionalGeneration stands in architectures"),
    "maira2": ("", "llava", "its Maira2Config extends LlavaConfig"),
    "vibevoice": ("decoder_config", "qwen2", "the type that this part states"),
}
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
LATENT = {
    "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "kv_lora_rank": 128,
    "q_lora_rank": 128, "first_k_dense_replace": 2, "num_key_value_heads": 4,
}  # fmt: skip
# Small configs of families that no row of the corpus is of: ours, after the keys that are read.
CASES: dict[str, dict[str, Any]] = {
    "intern_vit_6b": {
        "model_type": "intern_vit_6b", "hidden_size": 3, "image_size": 56, "patch_size": 14,
    },
    "baichuan": {
        "model_type": "baichuan", "architectures": ["BaichuanForCausalLM"], "hidden_size": 5120,
        "num_attention_heads": 40, "num_hidden_layers": 2, "model_max_length": 4096,
    },
    "bailing_moe": {
        "model_type": "bailing_moe", "architectures": ["BailingMoeForCausalLM"], **SIZES,
        "num_hidden_layers": 2, "head_dim": 64, "max_position_embeddings": 4096,
        "rope_theta": 600000.0, "num_experts": 4, "num_shared_experts": 1,
        "first_k_dense_replace": 2,
    },
    "bailing_moe_v2": {
        "model_type": "bailing_moe_v2", "architectures": ["BailingMoeV2ForCausalLM"], **SIZES,
        "num_hidden_layers": 2, "head_dim": 64, "max_position_embeddings": 32768,
        "rope_theta": 600000.0, "partial_rotary_factor": 0.5, "num_experts": 4,
        "num_shared_experts": 1, "first_k_dense_replace": 2,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192
        },
    },
    "PanguEmbedded": {
        "model_type": "PanguEmbedded", "architectures": ["PanguEmbeddedForCausalLM"], **SIZES,
        "num_hidden_layers": 2, "max_position_embeddings": 32768, "rope_theta": 16000000.0,
        "first_k_dense_replace": 2,
    },
    "pangu_ultra_moe": {
        "model_type": "pangu_ultra_moe", "architectures": ["PanguUltraMoEForCausalLM"], **SIZES,
        **LATENT, "num_hidden_layers": 2, "max_position_embeddings": 131072,
        "rope_theta": 25600000.0, "first_k_dense_replace": 1, "n_shared_experts": 1,
    },
    "longcat_flash_ngram": {
        "model_type": "longcat_flash_ngram", "architectures": ["LongcatFlashNgramForCausalLM"],
        **SIZES, **LATENT, "num_layers": 2, "num_hidden_layers": 2,
        "max_position_embeddings": 131072, "rope_theta": 10000000.0, "ngram_vocab_size_ratio": 78,
        "emb_split_num": 4, "emb_neighbor_num": 4, "vocab_size": 1000, "ngram_vocab_size": 1000,
    },
}  # fmt: skip
# Keys without which classes are not made, and which say nothing of positions: rows lack them.
HARMLESS = re.compile(
    r"eps$|epsilon$|norm_after|layer_norm|swiglu|^hc_|^n_routed|expert|hidden_act|act_fn|intermediate_size|vocab_size|tie_word|bias|moe_|"
    r"scoring_func|norm_topk|topk_method|topk_group|img_processor|quantization|_token|dropout|mup|"
    r"^ffn_|scale_|initializer|routed"
)
SHARED = ("quantization_config", "slice_config", "rope_scaling", "rope_parameters")
ALIKE = {"MiniMaxM3ForCausalLM": "MiniMaxM3SparseForCausalLM"}  # one name for another
# The part of a model that is made alone, and its architecture where the file does not name it.
TEXTS = {
    "internvl_chat": ("llm_config", ""),
    "qwen3_asr": ("thinker_config.text_config", "Qwen3ForCausalLM"),
    "kimi_k3": (
        "vision_config",
        "vllm.model_executor.models.kimi_k25_vit: MoonViT3dPretrainedModel",
    ),
    "locateanything": (
        "vision_config",
        "vllm.model_executor.models.moonvit: MoonVitPretrainedModel",
    ),
}
PARTS = ("text_config", "vision_config", "audio_config", "llm_config")
UNLIKE = ("kimi_k2",)  # vLLM gives them a class of transformers
LONG = "long_short_cos_sin_cache"  # of LongRoPE: short rows, then long ones
CELLS = ((0, 0), (3, 5), (17, 2), (40, 61))  # row and column of a patch
# As the classes of GPT-2 and of the first Qwen map them.
MAPPED = {
    "hidden_size": "n_embd", "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions", "num_hidden_layers": "n_layer",
}  # fmt: skip
KEPT = ("architectures", "model_type", "dtype", "torch_dtype", *SHARED)


def config_of(data: dict[str, Any], real: Any) -> Any:
    """The config that vLLM would have: of its own class, of transformers, or a plain one."""
    import transformers

    kind = data.get("model_type", "")
    if kind in real._CONFIG_REGISTRY and kind not in UNLIKE:
        return real._CONFIG_REGISTRY[kind](**{"tie_word_embeddings": False, **data})
    if kind in transformers.CONFIG_MAPPING:
        return transformers.CONFIG_MAPPING[kind].from_dict(data)
    return plain(data, real)


def plain(data: dict[str, Any], real: Any) -> Any:
    """A config as code of the hub would make it: every key an attribute, dictionaries configs."""
    from transformers import PretrainedConfig

    class Remote(PretrainedConfig):
        def __init__(self, **keys: Any) -> None:
            for key, value in keys.items():
                if key not in KEPT:
                    keys[key] = inner(value, key)
                    object.__setattr__(self, key, keys[key])
            for new, old in MAPPED.items():
                if old in keys:
                    object.__setattr__(self, new, keys[old])
            super().__init__(**keys)

        def __getattr__(self, name: str) -> Any:
            if HARMLESS.search(name) and not name.startswith("__"):
                words = {
                    "hidden_act": "silu",
                    "hidden_activation": "silu",
                    "layer_norm_type": "rms",
                }
                return words.get(name, vllm.STAND_IN)
            raise AttributeError(name)

    def inner(value: Any, key: str) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [inner(item, key) for item in value]
        if not isinstance(value, dict):
            return value
        if key not in PARTS:
            return Keys({k: inner(v, k) for k, v in value.items()})
        if value.get("model_type") == "siglip":
            value = {**value, "model_type": "siglip_vision_model"}
        return patched(config_of({"model_type": "", **value}, real), real)

    return Remote(**data)


class Keys(dict[str, Any]):
    """A dictionary whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __missing__(self, name: str) -> Any:
        return vllm.STAND_IN


def patched(config: Any, real: Any) -> Any:
    """After vLLM's own repairs of older configs."""
    real.patch_rope_parameters(config)
    return config


def rotary_row(name: str, module: Any, positions: list[int]) -> dict[str, Any]:
    """Frequencies, magnitude, cos and sin of a module, from the rows that it keeps."""
    import torch

    long = module._buffers.get(LONG)
    if long is not None:  # short rows, then long ones
        split, whole = module.original_max_position_embeddings, module.max_position_embeddings
        if whole <= max(positions):
            more = module._compute_cos_sin_cache(
                max(positions) + 1, module.long_factor, module.long_mscale
            )
            long = torch.cat([long[:split], more])
        cache = long.double().numpy()
        place = [p if p < split else p + split for p in positions]
        last = cache[split + 1]
    else:
        if len(module.cos_sin_cache) <= max(positions):
            module.max_position_embeddings = max(positions) + 1
            module.cos_sin_cache = module._compute_cos_sin_cache()
        cache, place, last = module.cos_sin_cache.double().numpy(), positions, None
    half = cache.shape[1] // 2
    cos, sin = cache[:, :half], cache[:, half:]
    row = {
        "module": name, "type": "",
        # A frequency is at most 1, so that its angle at position 1 gives it back.
        "frequencies": np.arctan2(sin[1], cos[1]), "factor": float(cos[0, 0]),
        "cos": cos[place], "sin": sin[place],
    }  # fmt: skip
    if last is not None and not np.allclose(last, cache[1]):
        row["beyond"] = np.arctan2(last[half:], last[:half])
    return row


def pairing(module: Any) -> dict[str, Any]:
    """Which channel turns with the first that does, and how many turn, by the forward pass."""
    import torch

    size = int(module.head_size)
    where = torch.tensor([300])
    if type(module).__name__.startswith("MRotary"):
        where = where.expand(3, 1)

    def run(x: Any) -> Any:
        try:
            run_ = getattr(module, "forward_native", module.forward)
            out = run_(where, x.clone(), x.clone())[0]
        except Exception:  # noqa: BLE001 - classes that take an axis of heads
            out = module.forward_native(where, x[:, None].clone(), x[:, None].clone())[0]
        return out.reshape(-1, size)[0]

    moved = (run(torch.arange(1.0, size + 1)[None]) != torch.arange(1.0, size + 1)).nonzero()
    first = int(moved.min())  # channels that do not turn may stand before those that do
    partner = [int(i) - first for i in run(torch.eye(size)[[first]]).nonzero() if i != first]
    width = int(moved.max()) + 1 - first
    order = "interleaved" if partner == [1] and width != 2 else "half"
    return {"pairing": order, "width": width, "exact": partner in ([1], [width // 2])}


def pictures(model: Any) -> list[dict[str, Any]]:
    """Rows of modules that turn by two axes, from their complex tables of a grid."""
    import torch

    rows = []
    for path, module in model.named_modules():
        if not type(module).__name__.startswith("Rope2DPosEmb"):
            continue
        if hasattr(module, "_precompute_freqs_cis"):
            table = module._precompute_freqs_cis(torch.device("cpu"))
        else:
            table = module.precomputed_freqs_cis
        table = table.reshape(module.max_height, module.max_width, -1)
        file = importlib.import_module(type(module).__module__)
        x = torch.arange(1.0, 2 * table.shape[-1] + 1)[None, None]
        here = [table[h, w][None] for h, w in CELLS]
        if hasattr(file, "apply_rope"):
            turned = [file.apply_rope(x, x, cell)[0] for cell in here]
        else:
            turn = next(m for m in model.modules() if type(m).__name__ == "ApplyRotaryEmb")
            turned = [turn.forward_native(x, cell.real, cell.imag) for cell in here]
        rows.append(
            {
                "module": f"vision.{path}", "type": "", "factor": 1.0,
                # The angles of one axis: every other pair is of the other.
                "frequencies": table[1, 1].angle().double().numpy()[::2],
                "cells": [list(cell) for cell in CELLS],
                "turned": torch.cat([t.reshape(1, -1) for t in turned]).double().numpy(),
            }
        )  # fmt: skip
    return rows


def facts(model: Any, config: Any, length: int) -> dict[str, Any]:
    """What the modules of a model do, in the words of the oracle."""
    around = (length - 1, length, length + 1)
    positions = sorted({p for p in (*POSITIONS, *around) if p >= 0})
    made: dict[int, str] = {}
    found: list[dict[str, Any]] = []
    turned: dict[str, dict[str, list[int]]] = {}
    functions, tables = {}, {}
    for path, module in model.named_modules(remove_duplicate=False):
        if not ({"cos_sin_cache", LONG} & {*module._buffers}):
            continue
        if id(module) not in made:
            made[id(module)] = str(len(found))
            found.append(rotary_row(path, module, positions))
            functions[f"{type(module).__name__} {module.head_size}"] = pairing(module)
        place = LAYER.match(f"{path}.")
        if place is not None:
            layers = turned.setdefault(place[1], {}).setdefault(made[id(module)], [])
            if int(place[2]) not in layers:
                layers.append(int(place[2]))
    found += pictures(model)
    for name, tensor in model.named_parameters():
        if tensor.dim() >= 2 and TABLES.search(".".join(name.split(".")[-3:])):
            tables[re.sub(r"\.\d+\.", ".*.", name)] = list(tensor.shape)
    slopes = getattr(sys.modules[type(model).__module__], "_get_alibi_slopes", None)
    text = config.get_text_config()
    result: dict[str, Any] = {
        "class": type(model).__name__, "length": length, "positions": positions,
        "layers": int(getattr(text, "num_hidden_layers", 0)), "rotary": found, "turned": turned,
        "functions": functions,
    }  # fmt: skip
    if slopes is not None and not found:
        result["slopes"] = slopes(text.num_attention_heads).double().numpy()
    return {**result, **({"tables": tables} if tables else {})}


def tower(file: str, data: dict[str, Any]) -> Any:
    """The config of a tower, by the class that its file imports."""
    module = importlib.import_module(file)
    names = ("KimiK3VisionConfig", "MoonViTConfig")
    return next(getattr(module, name) for name in names if hasattr(module, name))(**data)


def made_of(data: dict[str, Any], folder: str, real: Any) -> dict[str, Any]:
    """The facts of one config, or of a part of it; raises KeyError where vLLM has no class."""
    part, name = TEXTS.get(data["model_type"], ("", ""))
    for key in part.split(".") if part else ():
        data = data[key]
    name = name or (data.get("architectures") or [""])[0]
    file, _, symbol = name.partition(": ")
    data = json.loads(json.dumps({"model_type": "", **data}))
    if symbol:  # a tower by itself
        model_class = getattr(importlib.import_module(file), symbol)
        config = tower(file, data)
        model = model_class(config, prefix="model")
    else:
        model_class = vllm.model_class(folder, ALIKE.get(name, name))
        config = patched(config_of(data, real), real)
        model = model_class(vllm_config=vllm.engine(config), prefix="model")
    found = facts(model, config, original_length(config))
    file = sys.modules[model_class.__module__].__file__ or ""
    path = Path(file).resolve().relative_to(Path(folder).resolve())
    version = Path(folder, "vllm/_version.py").read_text("utf-8")
    number = re.search(r"__version__ = version = '([^']+)'", version)
    told = f"vLLM {number[1] if number else '?'}, {path}: {model_class.__name__}"
    if symbol and "tables" in found:
        found["tables"] = {f"vision.{name}": shape for name, shape in found["tables"].items()}
        found["parts"] = ["vision"]
    return {"by": told + (f", of {part}" if part else ""), **found}


def symbols(store: Path, path: str, names: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """Classes and functions of a file in a bare repository, run by themselves, and its commit."""
    git = ["git", "--git-dir", str(store)]
    text = subprocess.run([*git, "show", f"HEAD:{path}"], capture_output=True, check=True).stdout
    head = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, check=True)
    return symbols_of(text, names), head.stdout.decode().strip()


def symbols_of(text: str | bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Classes and functions of the text of a file, run by themselves."""
    import torch

    tree = ast.parse(text)
    tree.body = [node for node in ast.walk(tree) if getattr(node, "name", "") in names]  # type: ignore[misc]
    known: dict[str, Any] = {
        "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math,
        # Of einops: an axis of heads.
        "E": types.SimpleNamespace(rearrange=lambda x, words: x[:, :, None]),
    }  # fmt: skip
    flags = __future__.annotations.compiler_flag  # hints name what is not here
    exec(compile(tree, names[-1], "exec", flags=flags), known)
    return known


def by_halves(known: dict[str, Any], cos: Any, sin: Any) -> dict[str, Any]:
    """Pairing of the function beside a class, whose cos and sin hold each pair twice."""
    import torch

    x = torch.zeros(1, 1, 1, cos.shape[-1])
    x[..., 0] = 1
    out = known["apply_rotary_pos_emb"](x, x, cos, sin, torch.tensor([[1]]))[0].flatten()
    partner = [int(i) for i in torch.nonzero(out)[:, 0] if i != 0]
    width = cos.shape[-1]
    exact = partner in ([1], [width // 2])
    order = "interleaved" if partner == [1] else "half"
    return {f"apply_rotary_pos_emb {width}": {"pairing": order, "width": width, "exact": exact}}


def halves(known: dict[str, Any], data: dict[str, Any], name: str) -> dict[str, Any]:
    """Facts of a class as that of Llama was in transformers 4: cos and sin of all positions."""
    import torch

    dim, length = (
        data["hidden_size"] // data["num_attention_heads"],
        data["max_position_embeddings"],
    )
    more = {"scaling_factor": data["rope_scaling"]["factor"]} if data.get("rope_scaling") else {}
    base = {"base": data["rope_theta"]} if "rope_theta" in data else {}
    positions = sorted({p for p in (*POSITIONS, length - 1, length, length + 1) if p >= 0})
    x, pairs, found = torch.zeros(1), dim // 2, []
    for long in (length, max(positions) + 1):
        made = known[name](dim, max_position_embeddings=length, **base, **more)
        cos, sin = (t.reshape(-1, dim) for t in made(x, seq_len=long))
        found.append((cos.double().numpy()[:, :pairs], sin.double().numpy()[:, :pairs]))
    near, far = [p for p in positions if p < length], [p for p in positions if p >= length]
    row = {
        "module": f"model.layers.0.{name}", "type": "", "factor": 1.0,
        "frequencies": np.arctan2(found[0][1][1], found[0][0][1]),
        "cos": np.concatenate([found[0][0][near], found[1][0][far]]),
        "sin": np.concatenate([found[0][1][near], found[1][1][far]]),
    }  # fmt: skip
    last = np.arctan2(found[1][1][1], found[1][0][1])
    row |= {} if np.allclose(last, row["frequencies"]) else {"beyond": last}
    layers = list(range(data["num_hidden_layers"]))
    return {
        "class": name, "length": length, "positions": positions, "layers": len(layers),
        "rotary": [row], "turned": {"model.layers.": {"0": layers}},
        "functions": by_halves(known, cos, sin),
    }  # fmt: skip


def complexes(known: dict[str, Any], data: dict[str, Any], name: str) -> dict[str, Any]:
    """Facts of a complex table of angles, over half of each head."""
    import torch

    dim, length = data["head_dim"] // 2, data["max_seq_len"]
    positions = sorted({p for p in (*POSITIONS, length - 1, length, length + 1) if p >= 0})
    table = known[name](dim, max(positions) + 1, data["rope_theta"])
    x = torch.zeros(1, 1, 1, dim)
    x[..., 0] = 1
    out = known["apply_rotary_emb"](x, x, table[None, 1:2])[0].flatten()
    partner = [int(i) for i in torch.nonzero(out)[:, 0] if i != 0]
    order = "interleaved" if partner == [1] else "half"
    layers = list(range(data["n_layers"]))
    return {
        "class": name, "length": length, "positions": positions, "layers": len(layers),
        "rotary": [
            {
                "module": f"layers.0.{name}", "type": "", "factor": 1.0,
                "frequencies": table[1].angle().double().numpy(),
                "cos": table.real[positions].double().numpy(),
                "sin": table.imag[positions].double().numpy(),
            }
        ],
        "turned": {"layers.": {"0": layers}},
        "functions": {
            f"apply_rotary_emb {dim}": {
                "pairing": order, "width": dim, "exact": partner in ([1], [dim // 2]),
            }
        },
    }  # fmt: skip


def resized(known: dict[str, Any], data: dict[str, Any], name: str) -> dict[str, Any]:
    """Facts of a table of patches behind a class token, and its rows for another grid."""
    import torch

    made = known[name](types.SimpleNamespace(**data))
    weight = torch.arange(float(made.position_embedding.numel())).sin()
    made.position_embedding.data = weight.reshape(made.position_embedding.shape)
    grid = made._get_pos_embed(made.position_embedding[:, 1:], *GRID)
    return {
        "class": name, "length": 1, "positions": [0], "layers": 0, "rotary": [], "turned": {},
        "functions": {}, "tables": {"position_embedding": list(made.position_embedding.shape)},
        "weight": made.position_embedding.detach().double().numpy()[0], "grid": list(GRID),
        "resized": grid.detach().double().numpy()[0],
    }  # fmt: skip


def sloped(known: dict[str, Any], data: dict[str, Any], name: str) -> dict[str, Any]:
    """Facts of a bias that falls to both sides, from the tensor that a method builds."""
    this = types.SimpleNamespace(num_attention_heads=data["num_attention_heads"])
    lines = known[name](this, 6).double().numpy()[0]
    falls = lines[:, -1, -1] - lines[:, -1, -2]
    if not np.array_equal(lines[:, 0], lines[:, -1, ::-1]):
        raise ValueError("the bias is not alike to both sides")
    return {
        "class": name, "length": data["max_position_embeddings"], "positions": [0],
        "layers": data["num_hidden_layers"], "rotary": [], "turned": {}, "functions": {},
        "slopes": falls,
    }  # fmt: skip


def by_authors(data: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """Facts by the code of a model's authors."""
    kind = data["model_type"]
    if kind not in AUTHORS or (
        kind == "internvl_chat" and "internlm" not in str(data["llm_config"])
    ):
        return None
    repository, path, names, make = AUTHORS[kind]
    known, commit = symbols(folder / repository.replace("/", "+", 1) / "repo", path, names)
    told = f"{repository} {commit}, {path}: {names[-1]}"
    return {"by": told, **make(known, data.get("llm_config", data), names[-1])}


GRID = (6, 5)  # another number of patches than the table has
QWEN2 = ("rotate_half", "apply_rotary_pos_emb", "Qwen2RotaryEmbedding")
VIDEOCHAT = ("AIDASLab/VIRST", "model/videochat/modeling_qwen2_flash.py", QWEN2, halves)
AUTHORS: dict[str, tuple[str, str, tuple[str, ...], Any]] = {
    "videochat_flash_qwen": VIDEOCHAT,
    "virst": VIDEOCHAT,
    "yuan": (
        "intel/intel-extension-for-pytorch",
        "tests/cpu/hf_configs/yuan/yuan_hf_model.py",
        ("rotate_half", "apply_rotary_pos_emb", "YuanRotaryEmbedding"),
        halves,
    ),
    "internvl_chat": (
        "OpenGVLab/InternVL",
        "internvl_chat/internvl/model/internlm2/modeling_internlm2.py",
        (
            "rotate_half",
            "apply_rotary_pos_emb",
            "InternLM2RotaryEmbedding",
            "InternLM2DynamicNTKScalingRotaryEmbedding",
        ),
        halves,
    ),
    "bert": (
        "huggingface/text-embeddings-inference",
        "backends/python/server/text_embeddings_server/models/jinaBert_model.py",
        ("rebuild_alibi_tensor",),
        sloped,
    ),
    "intern_vit_6b": (
        "OpenGVLab/InternVL",
        "internvl_chat/internvl/model/internvl_chat/modeling_intern_vit.py",
        ("InternVisionEmbeddings",),
        resized,
    ),
    "falcon_perception": (
        "tiiuae/Falcon-Perception",
        "falcon_perception/rope.py",
        ("apply_rotary_emb", "precompute_freqs_cis"),
        complexes,
    ),
}


def others(data: dict[str, Any]) -> dict[str, Any] | None:
    """Facts by transformers, where a file names a class that it has by another type."""
    import transformers

    part, kind, why = OTHERS.get(data["model_type"], ("", "", ""))
    if data["model_type"] in FLAT and not data.get("text_config"):
        text = {**data, "model_type": FLAT[data["model_type"]]}
        told = f"transformers {transformers.__version__}, with the keys of the text in text_config"
        return {"by": told, **timed({**data, "text_config": text})}
    if not kind or (part and data[part]["model_type"] != kind):
        return None
    data = {**(data[part] if part else data), "model_type": kind}
    of = f", of {part}" if part else ""
    told = f"transformers {transformers.__version__}, type {kind!r}{of}: {why}"
    return {"by": told, **timed(data)}


def chosen(config: dict[str, Any]) -> bool:
    """Whether transformers has no class for a config, or reads other keys than it has."""
    kind = config["model_type"]
    if kind == "bert":
        return config.get("position_embedding_type") == "alibi"
    return kind in TYPES and not (kind in FLAT and config.get("text_config"))


def rank(told: str) -> tuple[int, str]:
    """What stands nearer to the authors, or is newer, goes before."""
    words = ("vLLM", "transformers")
    return next((i for i, word in enumerate(words) if told.startswith(word)), len(words)), told


def main() -> int:
    """Make what this version has classes for."""
    from safetensors.numpy import save_file

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    prepared()
    folder, write = sys.argv[1], "--write" in sys.argv
    wanted = {row["id"]: row["config"] for row in rows() if chosen(row["config"])}
    kept = {}
    if (FOLDER / MODELS).exists():
        for line in (FOLDER / MODELS).read_text("utf-8").splitlines():
            kept[json.loads(line)["id"]] = json.loads(line)
        ARRAYS.update(load_file(FOLDER / NUMBERS))
    make: Any = others
    if folder.startswith("authors="):
        make = functools.partial(by_authors, folder=Path(folder.partition("=")[2]))
    elif folder != "transformers":
        vllm.prepare(folder)
        real = importlib.import_module("vllm.transformers_utils.config")
        vllm.parts(lambda config: patched(config, real), folder)
        make = functools.partial(made_of, folder=folder, real=real)
    for key, data in {**wanted, **CASES}.items():
        try:
            found = make(data)
            if found is None or (key in kept and rank(found["by"]) < rank(kept[key]["by"])):
                continue
            found = packed(found, ARRAYS)
        except Exception as error:  # noqa: BLE001 - whatever code of somebody else raises
            print(key, data["model_type"], f"{type(error).__name__}: {str(error)[:100]}")
            continue
        kept[key] = {"id": key, **found, **({"config": data} if key in CASES else {})}
        print(key, kept[key]["by"])
    if write:
        lines = [json.dumps(kept[key], separators=(",", ":")) for key in sorted(kept)]
        text = "\n".join(lines) + "\n"
        (FOLDER / MODELS).write_text(text, encoding="utf-8")
        used = {name: array for name, array in ARRAYS.items() if name in text}
        save_file(dict(sorted(used.items())), FOLDER / NUMBERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
