"""Queries and keys of models of transformers, before and after they turn.

A model is run twice on the same tokens: as it is, and with its functions that turn replaced by ones
that give back what they get. What meets in a product of scores is recorded both times, whole heads
with every channel where it stands, so that what turned, and how, is seen without reading the code.
Nothing here imports posenc.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

TURNS = re.compile(r"apply_\w*(rot|rope)|rotate_half")
TOKENS = 25

_MLA = {
    "q_lora_rank": 24, "kv_lora_rank": 20, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
    "v_head_dim": 12, "first_k_dense_replace": 3, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16,
}  # fmt: skip
_SMALL = {
    "vocab_size": 99, "hidden_size": 48, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 3, "num_key_value_heads": 3, "max_position_embeddings": 512,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_INDEX = {"index_head_dim": 24, "index_n_heads": 2, "index_topk": 7}
_YARN = {
    "rope_type": "yarn", "rope_theta": 5000.0, "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 0.5,
    "original_max_position_embeddings": 64, "beta_fast": 4.0, "beta_slow": 1.0,
}  # fmt: skip
_DSA = {**_SMALL, **_MLA, **_INDEX, "rope_parameters": _YARN}
# Small configs of the types whose layers have attentions of their own inside.
SMALL: dict[str, dict[str, Any]] = {
    "deepseek_v32": _DSA,
    "axk2": _DSA,
    "glm_moe_dsa": {**_DSA, "indexer_types": ["full", "shared"]},
    "hy_v4": {**_DSA, "indexer_types": ["full", "shared"], "n_shared_experts": 1},
    "dots3_note_text": {
        **_SMALL, **_MLA, **_INDEX, "layer_types": ["indexed_attention", "sliding_attention"],
        "head_dim": 24, "n_shared_experts": 1, "rope_theta": 5000.0, "swa_rope_theta": 300.0,
        "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 24,
        "swa_kv_lora_rank": 20, "swa_head_dim": 24, "swa_qk_nope_head_dim": 16,
        "swa_qk_rope_head_dim": 8, "swa_v_head_dim": 12,
    },
    "mistral_large4_text": {
        **_DSA, "no_rope_layers": [1, 0], "indexer_types": ["full", "full"],
        "rope_parameters": {**_YARN, "attention_factor": 1.0},
    },
    "minimax_m3_vl_text": {
        **_SMALL, "head_dim": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
        "rotary_dim": 8, "index_head_dim": 24, "index_n_heads": 2, "index_block_size": 4,
        "index_topk_blocks": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "dense_intermediate_size": 32, "shared_intermediate_size": 32,
        "layer_types": ["minimax_m3_sparse", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0,
                            "partial_rotary_factor": 0.5},
    },
    "qwen4_exp_text": {
        **_SMALL, "head_dim": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 24, "indexer_budget": 8,
        "indexer_compress_ratio": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "ple_layer_ids": [],
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "layer_types": ["indexed_attention", "linear_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0,
                            "partial_rotary_factor": 0.5, "mrope_section": [3, 3, 2]},
    },
    "deepseek_v4": {
        **_SMALL, **_INDEX, "head_dim": 32, "num_key_value_heads": 1, "q_lora_rank": 24,
        "compress_ratios": [4, 0], "compress_rope_theta": 700.0, "rope_theta": 5000.0,
        "qk_rope_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "o_groups": 3, "o_lora_rank": 8, "sliding_window": 64,
        "rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
                         "beta_fast": 4.0, "beta_slow": 1.0},
    },
}  # fmt: skip
# Types whose compressed keys stand for windows of so many tokens, and turn at the first of each.
WINDOWS = {"qwen4_exp_text": 4, "deepseek_v4": 4}


class Turned(NamedTuple):
    """Queries and keys of one module, (batch, heads, tokens, channels), before and after."""

    q: tuple[torch.Tensor, torch.Tensor]
    k: tuple[torch.Tensor, torch.Tensor]
    windows: int  # tokens for which a key stands, where keys are fewer, or more, than tokens

    def sides(
        self, places: torch.Tensor
    ) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """(query or key, before, after, positions) of both."""
        yield ("query", *self.q, places[-self.q[0].shape[-2] :])
        keys = self.k[0].shape[-2]
        if keys != TOKENS:  # windows follow the tokens, or are alone
            tokens = places if keys > TOKENS else places[:0]
            places = torch.cat([tokens, places[:: self.windows]])[:keys]
        yield ("key", *self.k, places)


def turning(model: torch.nn.Module) -> dict[str, type]:
    """The modules whose code calls a function that turns, by name; layers count once."""
    found: dict[str, type] = {}
    for name, module in model.named_modules():
        if _calls(type(module)):
            found.setdefault(re.sub(r"\b\d+\b", "*", name), type(module))
    return found


def inside(model: torch.nn.Module) -> dict[str, str]:
    """Those of them that are inside another one that turns: name -> name of the outer."""
    names = turning(model)
    outer = {name: [n for n in names if name.startswith(f"{n}.")] for name in names}
    return {name: max(found, key=len) for name, found in outer.items() if found}


@functools.cache
def _calls(kind: type) -> bool:
    """Whether the code of a class calls a function that turns, by its name."""
    if "transformers" not in kind.__module__:
        return False
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if TURNS.match(name):
                return True
    return False


def built(model_type: str, **more: Any) -> torch.nn.Module:
    """A small model with random weights, in float32, for `SMALL` and further keys."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    # Classes write into the dictionaries that they get.
    config = CONFIG_MAPPING[model_type](**copy.deepcopy({**SMALL[model_type], **more}))
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval().float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def turned(model: torch.nn.Module, positions: torch.Tensor) -> dict[str, Turned]:
    """What turned in the first layer of a model, by the name of the module; "" is the main one."""
    after = _run(model, positions, still=False)
    before = _run(model, positions, still=True)
    window = WINDOWS.get(model.config.model_type, 1)
    made = {}
    for name, (q, k) in after.items():
        old_q, old_k = before[name]
        made[name] = Turned((old_q, q), (old_k, k), window)
    return made


def _run(
    model: torch.nn.Module, positions: torch.Tensor, *, still: bool
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    home = importlib.import_module(type(model).__module__)
    matmul, eager = torch.matmul, home.eager_attention_forward

    def product(a: torch.Tensor, b: torch.Tensor, **more: Any) -> torch.Tensor:
        owner = sys._getframe(1).f_locals.get("self")
        if "Indexer" in type(owner).__name__ and a.shape[-1] == b.shape[-2]:
            found.setdefault("indexer", _heads(a, b))
            if a.ndim == 2:  # a query at a time, with ever more keys: the last has all
                found["indexer"] = _gathered(found["indexer"], a, b)
        return matmul(a, b, **more)

    def attend(module: Any, q: torch.Tensor, k: torch.Tensor, *rest: Any, **more: Any) -> Any:
        found.setdefault("", (q.detach().clone(), k.detach().clone()))
        return eager(module, q, k, *rest, **more)

    tokens = torch.arange(3, 3 + TOKENS)[None]
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(_replaced(torch, "matmul", product))
        stack.enter_context(_replaced(home, "eager_attention_forward", attend))
        for name, function in list(vars(home).items()) if still else ():
            if inspect.isfunction(function) and re.match(r"apply_\w*(rot|rope)", name):
                stack.enter_context(_replaced(home, name, _still(function)))
        model(input_ids=tokens, position_ids=positions[None], use_cache=False)
    return found


def _heads(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as (batch, heads, tokens, channels)."""
    k = k.transpose(-1, -2)
    if q.ndim == 4 and k.shape[1] == 1 and q.shape[1] == TOKENS:  # heads behind tokens
        q = q.transpose(1, 2)
    return q.clone(), k.clone()


def _gathered(
    found: tuple[torch.Tensor, torch.Tensor], q: torch.Tensor, k: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A query (heads, channels) beside those before it, and the keys that it met."""
    before = found[0] if found[0].ndim == 4 else q.new_zeros(1, q.shape[0], 0, q.shape[1])
    return torch.cat([before, q[None, :, None]], dim=2), k.mT[None, None].clone()


def _still(function: Any) -> Any:
    """The same function without turning: as many results, which are its arguments."""

    def replacement(*arguments: Any, **more: Any) -> Any:
        made = function(*arguments, **more)
        if not isinstance(made, tuple):
            return arguments[0]
        given = [*arguments, *(more[key] for key in ("q", "k") if key in more)]
        return tuple(given[: len(made)])

    return replacement


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
