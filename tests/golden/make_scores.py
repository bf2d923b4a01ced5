"""Write the golden numbers of `originals_scores.json` again, from code that no package installs.

Run from the root of the repository, with a folder that holds the files listed in `SOURCES`, each
below the name of its repository, as they are at the commit given there:

    python -m tests.golden.make_scores FOLDER

posenc takes no part in it. Definitions are read out of the files one by one, so that what else the
files import need not be there. They run in float64, `Tensor.float` included, but for what they ask
to be float32 by another name. A change of the file means that an original has changed: say so in
the changelog, and which.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import itertools
import json
import math
import typing
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("originals_scores.json")
EMBEDDINGS = "nemo/collections/nlp/modules/common/megatron/position_embedding"

# name: repository, commit, files
SOURCES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tisa": (
        "ulmewennberg/tisa",
        "a3027cafe5dc60220ed9e7712e8794a2f85a470b",
        ("model/tisa.py",),
    ),
    "croma": (
        "antofuller/CROMA",
        "59505a6bcadbf36ba20767270154bf9f3067c5e7",
        ("use_croma.py",),
    ),
    "adaptive-span": (
        "facebookresearch/adaptive-span",
        "27b815fee821acce2c2d4104cc0720cb1dc74c37",
        ("adaptive_span.py",),
    ),
    "mega": (
        "facebookresearch/mega",
        "aeaa4b44592cd1d60a9a34554e359eda2a62b03b",
        ("fairseq/modules/relative_positional_bias.py",),
    ),
    "crossformer": (
        "cheerss/CrossFormer",
        "795201075f0066e78408882617312084e25aef61",
        ("models/crossformer.py",),
    ),
    "irpe": (
        "microsoft/Cream",
        "4a13c4091e78f9abd2160e7e01c02e48c1cf8fb9",
        ("iRPE/DeiT-with-iRPE/irpe.py",),
    ),
    "axial": (
        "csrhddlam/axial-deeplab",
        "79088edb4bdb8c94351d85f54272ec12b9e79c8b",
        ("lib/models/utils.py", "lib/models/axialnet.py"),
    ),
    "nezha": (
        "huggingface/transformers",
        "v4.40.0",
        ("src/transformers/models/nezha/modeling_nezha.py",),
    ),
    "tener": (
        "fastnlp/TENER",
        "d2614d509dffb9b30636e3523a2f8f0dc4876708",
        ("modules/relative_transformer.py",),
    ),
    "dape": (
        "chuanyang-Zheng/DAPE",
        "bde344a844f2bd1f498b2bac70240dcda41c50c1",
        ("DAPE.py",),
    ),
    "nemo": (
        "NVIDIA/NeMo",
        "8cfedd7203462cb251a914e700e5605444277561",
        (
            f"{EMBEDDINGS}/alibi_relative_position_embedding.py",
            f"{EMBEDDINGS}/sandwich_relative_position_embedding.py",
        ),
    ),
    "path": (
        "fla-org/flash-linear-attention",
        "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
        ("fla/ops/path_attn/naive.py",),
    ),
    "rope-plus-plus": (
        "OpenMOSS/rope_pp",
        "91ba3357c49beb22e132ed096557baee503f3486",
        ("rope_pp/modeling_llama_rope_pp.py",),
    ),
}


def definitions(folder: Path, source: str, *wanted: str) -> SimpleNamespace:
    """The classes, functions and constants of the files of a source, or those that are wanted."""
    import torch

    repository, _, paths = SOURCES[source]
    names: dict[str, Any] = {
        **vars(typing),
        "itertools": itertools,
        "math": math,
        "np": np,
        "warnings": warnings,
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "edict": SimpleNamespace,
        "RPEIndexFunction": None,
        "experimental": lambda cls: cls,
    }
    for path in paths:
        tree = ast.parse((folder / repository / path).read_text(encoding="utf-8"))
        kept = [n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.Assign))]
        if wanted:
            kept = [n for n in kept if getattr(n, "name", None) in wanted]
        exec(compile(ast.Module(kept, []), path, "exec"), names)
    return SimpleNamespace(**names)


# --- the originals --------------------------------------------------------------------------------


def unit(*modules: Any) -> None:
    """Parameters of unit size, so that no term hides another."""
    for module in modules:
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.data.normal_()


def tisa(folder: Path) -> dict[str, Any]:
    module = definitions(folder, "tisa", "Tisa").Tisa(num_attention_heads=3, num_kernels=2)
    unit(module)
    return {
        "symbol": "Tisa",
        "amplitude": module.kernel_amplitudes,
        "sharpness": module.kernel_sharpness,
        "offset": module.kernel_offsets,
        "values": module(6),
    }


def croma(folder: Path) -> dict[str, Any]:
    code = definitions(folder, "croma", "get_2dalibi")
    return {"symbol": "get_2dalibi", "values": code.get_2dalibi(6, 9)[0]}


def adaptive_span(folder: Path) -> dict[str, Any]:
    import torch

    module = definitions(folder, "adaptive-span").AdaptiveSpan(
        attn_span=12,
        adapt_span_loss=0,
        adapt_span_ramp=4,
        adapt_span_init=0,
        adapt_span_cache=False,
        nb_heads=3,
    )
    module._mask.current_val.data = torch.tensor([0.1, 0.5, 0.9]).reshape(3, 1, 1)
    scores = torch.randn(3, 1, 12)
    return {
        "symbol": "AdaptiveSpan",
        "span": module._mask.current_val.flatten(),
        "scores": scores,
        "values": module(scores.softmax(-1)),
    }


def mega(folder: Path) -> dict[str, Any]:
    module = definitions(folder, "mega").RotaryRelativePositionalBias(6, 32).double()
    unit(module)
    return {
        "symbol": "RotaryRelativePositionalBias",
        "alpha": module.alpha,
        "beta": module.beta,
        "values": module(9),
    }


def crossformer(folder: Path, residual: bool) -> dict[str, Any]:
    import torch

    code = definitions(folder, "crossformer", "DynamicPosBias", "Attention")
    attention = code.Attention(96, (2, 3), 3)
    pos = code.DynamicPosBias(24, 3, residual)
    unit(pos)
    table = pos(attention.biases)
    layers = pos.pos1, pos.pos2, pos.pos3
    return {
        "symbol": "DynamicPosBias",
        "offset_weight": pos.pos_proj.weight,
        "offset_bias": pos.pos_proj.bias,
        "norm_weight": torch.stack([layer[0].weight for layer in layers]),
        "norm_bias": torch.stack([layer[0].bias for layer in layers]),
        "hidden_weight": torch.stack([layer[2].weight for layer in layers[:2]]),
        "hidden_bias": torch.stack([layer[2].bias for layer in layers[:2]]),
        "head_weight": pos.pos3[2].weight,
        "head_bias": pos.pos3[2].bias,
        "values": table[attention.relative_position_index].permute(2, 0, 1),
    }


ROWS = [0, 1, 7, 23]  # of queries: the class token and a few cells


def irpe(folder: Path, method: str, mode: str) -> dict[str, Any]:
    """On a grid of 2 x 14 after a class token, so that some distances are far."""
    import torch

    code = definitions(folder, "irpe")
    config = code.get_rpe_config(
        method=method, mode=mode, shared_head=mode == "contextual", skip=1, rpe_on="qkv"
    )
    if mode == "bias":
        config.rpe_v = None
    rpe_q, rpe_k, rpe_v = code.build_rpe(config, head_dim=4, num_heads=2)
    rpes = [r for r in (rpe_q, rpe_k, rpe_v) if r is not None]
    unit(*rpes)
    q, k = torch.randn(2, 1, 2, 29, 4)
    key = "lookup_table_bias" if mode == "bias" else "lookup_table_weight"

    def tables(module: Any) -> list[Any]:
        parts = [module.rp_rows, module.rp_cols] if method == "cross" else [module]
        return [getattr(part, key) for part in parts]

    if mode == "bias":
        values = rpe_k(q, height=2, width=14)
        return {
            "symbol": "iRPE",
            **{f"table_{i}": table for i, table in enumerate(tables(rpe_k))},
            "values": values[0][:, ROWS],
        }
    of_keys = rpe_k(q, height=2, width=14)
    of_queries = rpe_q(k, height=2, width=14).transpose(2, 3)
    weights = torch.rand(1, 2, 29, 29)
    found = {
        f"{side}_{i}": table[0].T if side != "values" else table[0]
        for side, rpe in (("keys", rpe_k), ("queries", rpe_q), ("values", rpe_v))
        for i, table in enumerate(tables(rpe))
    }
    return {
        "symbol": "iRPE",
        **found,
        "q": q[:, :, ROWS],
        "k": k,
        "weights": weights[:, :, ROWS],
        "values": (of_keys + of_queries)[:, :, ROWS],
        "context": rpe_v(weights, height=2, width=14)[:, :, ROWS],
    }


def axial(folder: Path) -> dict[str, Any]:
    """With normalisations that do nothing."""
    import torch

    code = definitions(folder, "axial", "qkv_transform", "AxialAttention")
    module = code.AxialAttention(6, 8, groups=2, kernel_size=5, width=True).eval()
    for part in (module.bn_qkv, module.bn_similarity, module.bn_output):
        part.eps = 0.0
    x = torch.randn(1, 6, 1, 5)
    qkv = module.qkv_transform(x.permute(0, 2, 1, 3).reshape(1, 6, 5)).reshape(1, 2, 8, 5)
    q, k, v = (part.transpose(2, 3) for part in torch.split(qkv, [2, 2, 4], dim=2))
    rows = torch.split(module.relative.T, [2, 2, 4], dim=1)
    return {
        "symbol": "AxialAttention",
        **dict(zip(("queries", "keys", "values_table"), rows, strict=True)),
        "q": q,
        "k": k,
        "v": v,
        "values": module(x).reshape(1, 2, 4, 5).transpose(2, 3),
    }


def nezha(folder: Path) -> dict[str, Any]:
    import torch

    code = definitions(folder, "nezha", "NezhaRelativePositionsEncoding", "NezhaSelfAttention")
    config = SimpleNamespace(
        hidden_size=8,
        num_attention_heads=2,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=16,
        max_relative_position=3,
        is_decoder=False,
    )
    module = code.NezhaSelfAttention(config).eval()
    x = torch.randn(1, 7, 8)
    q, k, v = (
        module.transpose_for_scores(layer(x)) for layer in (module.query, module.key, module.value)
    )
    context, weights = module(x, output_attentions=True)
    return {
        "symbol": "NezhaSelfAttention",
        "q": q,
        "k": k,
        "v": v,
        "weights": weights,
        "values": context.unflatten(-1, (2, 4)).transpose(1, 2),
    }


def tener(folder: Path) -> dict[str, Any]:
    import torch

    module = definitions(folder, "tener").RelativeMultiHeadAttn(12, 2, 0.0).double().eval()
    unit(module)
    seen: list[Any] = []
    module.dropout_layer.register_forward_hook(lambda m, given, out: seen.append(out))
    x = 0.3 * torch.randn(1, 7, 12)
    q, k, _ = (
        part.unflatten(-1, (2, 6)).transpose(1, 2) for part in module.qkv_linear(x).chunk(3, -1)
    )
    module(x, torch.ones(1, 7))
    return {
        "symbol": "RelativeMultiHeadAttn",
        "u": module.r_r_bias,
        "v": module.r_w_bias,
        "q": q,
        "k": k,
        "values": seen[0],
    }


def dape(folder: Path) -> dict[str, Any]:
    import contextlib
    import io

    import torch

    code = definitions(folder, "dape", "AliBi_DAPE")
    with contextlib.redirect_stdout(io.StringIO()):
        module = code.AliBi_DAPE(3, mp_rank=0, mlp_width=5)
    unit(module)
    q, k = torch.randn(2, 1, 3, 6, 4)
    return {
        "symbol": "AliBi_DAPE",
        "hidden_weight": module.mlp2[0].weight,
        "hidden_bias": module.mlp2[0].bias,
        "head_weight": module.mlp2[2].weight,
        "head_bias": module.mlp2[2].bias,
        "q": q,
        "k": k,
        "values": module(q @ k.mT / 2),
    }


def fire(folder: Path) -> dict[str, Any]:
    import torch

    module = definitions(folder, "dape", "FIRE").FIRE(num_heads=3, mlp_width=4, init_L=5.0)
    unit(module)
    return {
        "symbol": "FIRE",
        "c": module.c,
        "threshold_factor": module.L_multiplier,
        "hidden_weight": module.mlp[0].weight.flatten(),
        "hidden_bias": module.mlp[0].bias,
        "head_weight": module.mlp[2].weight,
        "head_bias": module.mlp[2].bias,
        "values": module(torch.zeros(1, 3, 12, 12))[0],
    }


def sandwich(folder: Path) -> dict[str, Any]:
    code = definitions(folder, "nemo")
    module = code.SandwichRelativePositionEmbedding(True, 3, None, 8, max_seq_len=12)
    return {"symbol": "SandwichRelativePositionEmbedding", "values": module(12, 12)[0]}


def path(folder: Path) -> dict[str, Any]:
    """The weights of 7 tokens in chunks of 4, which the identity in place of values gives back."""
    import torch
    from einops import rearrange

    code = definitions(folder, "path", "naive_path_attn")
    code.naive_path_attn.__globals__["rearrange"] = rearrange
    q, k, w = (torch.randn(1, 7, 2, 8) for _ in range(3))
    w, beta = torch.nn.functional.normalize(w, dim=-1), 2 * torch.rand(1, 7, 2)
    v = torch.eye(7, 8)[None, :, None].expand(1, 7, 2, 8)
    weights = code.naive_path_attn(q, k, v, w, beta, torch.zeros(1, 7, 2), 8**-0.5, chunk_size=4)
    content = {"q": q, "k": k, "w": w, "beta": beta}
    return {"symbol": "naive_path_attn", **content, "values": weights[..., :7].transpose(1, 2)}


def rope_plus_plus(folder: Path) -> dict[str, Any]:
    """Three heads of queries, which become six, and one of keys."""
    import torch

    names = ("LlamaRotaryEmbedding", "rotate_half", "LlamaAttention")
    code = definitions(folder, "rope-plus-plus", *names)
    rope = {"imag": True, "imag_mode": "imag2"}
    sizes = {"head_dim": 8, "rope_theta": 10_000.0, "max_position_embeddings": 64}
    config = SimpleNamespace(rope_config=rope, **sizes)
    q, k = torch.randn(1, 3, 5, 8), torch.randn(1, 1, 5, 8)
    places = torch.tensor([[0, 1, 7, 300, 4000]])
    cos, sin = code.LlamaRotaryEmbedding(config)(q, places)
    turn = code.LlamaAttention.apply_rotary_pos_emb
    turned = turn(SimpleNamespace(config=config), q, k, cos, sin)
    both = {"q": q, "k": k, "positions": places, "values": turned[0], "keys": turned[1]}
    return {"symbol": "LlamaAttention.apply_rotary_pos_emb", **both}


MAKERS: dict[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {
    "tisa": ("tisa", tisa),
    "alibi-2d": ("croma", croma),
    "adaptive-span": ("adaptive-span", adaptive_span),
    "rotary-bias": ("mega", mega),
    "dynamic-plain": ("crossformer", lambda folder: crossformer(folder, False)),
    "dynamic-residual": ("crossformer", lambda folder: crossformer(folder, True)),
    **{
        f"irpe-{method}-{mode}": (
            "irpe",
            lambda folder, method=method, mode=mode: irpe(folder, method, mode),
        )
        for method in ("product", "cross", "euc", "quant")
        for mode in ("bias", "contextual")
    },
    "position-sensitive": ("axial", axial),
    "nezha": ("nezha", nezha),
    "tener": ("tener", tener),
    "dape": ("dape", dape),
    "fire": ("dape", fire),
    "sandwich": ("nemo", sandwich),
    "path": ("path", path),
    "rope-plus-plus": ("rope-plus-plus", rope_plus_plus),
}


def plain(value: Any) -> Any:
    """Tensors as nested lists of nine digits."""
    if isinstance(value, str):
        return value
    array = value.detach().numpy()
    rounded = np.array([float(f"{x:.9g}") for x in array.ravel()]).reshape(array.shape)
    return rounded.tolist()


def golden(folder: Path) -> dict[str, Any]:
    """The contents of the file: where the numbers come from, then the numbers."""
    import torch

    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    rows = []
    for name, (source, make) in MAKERS.items():
        torch.manual_seed(0)
        repository, commit, paths = SOURCES[source]
        where = {"name": name, "repository": repository, "commit": commit, "path": paths[-1]}
        with torch.no_grad():
            rows.append({**where, **{key: plain(value) for key, value in make(folder).items()}})
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "torch")}
    return {"versions": versions, "dtype": "float64", "digits": 9, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    text = json.dumps(golden(parser.parse_args().folder))
    text = text.replace('{"name"', '\n{"name"')
    GOLDEN.write_text(text + "\n")
    print(f"{GOLDEN}: {len(text) / 1024:.0f} KiB")
