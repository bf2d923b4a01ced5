"""What attention of diffusers' transformers does with a rotation: its own functions, called.

Those that lie inside a method are taken out of its code; of the common `apply_rotary_emb` it is
read from the file how the class calls it.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.oracles.originals.diffusion import classes

# Classes whose attention is that of another.
BLOCKS = {
    "ChromaTransformer2DModel": "FluxTransformer2DModel",
    "HunyuanVideoFramepackTransformer3DModel": "HunyuanVideoTransformer3DModel",
    "WanVACETransformer3DModel": "WanTransformer3DModel",
}
Turn = Callable[[Any, np.ndarray], Any]  # x (1, tokens, 1, channels) and complex (tokens, pairs)


def file_of(name: str) -> Any:
    """The module in which a class stands, or that of the blocks that it takes from another."""
    return sys.modules[getattr(classes(), BLOCKS.get(name, name)).__module__]


def inner(owner: Any, name: str) -> Any:
    """A function inside the method of a processor."""
    code = next(
        one
        for one in owner.__call__.__code__.co_consts
        if isinstance(one, types.CodeType) and one.co_name == name
    )
    return types.FunctionType(code, owner.__call__.__globals__)


def both(table: np.ndarray, order: str) -> tuple[Any, Any]:
    """Cosines and sines for each channel."""
    wide = np.repeat(table, 2, -1) if order == "interleaved" else np.concatenate([table] * 2, -1)
    rows = torch.from_numpy(wide)
    return rows.real.float().contiguous(), rows.imag.float().contiguous()


def matrices(table: np.ndarray) -> Any:
    """Matrices of two rows and columns."""
    c, s = torch.from_numpy(table).real.float(), torch.from_numpy(table).imag.float()
    return torch.stack([c, -s, s, c], -1).unflatten(-1, (2, 2))


def numbers(table: np.ndarray) -> Any:
    """Complex numbers."""
    return torch.from_numpy(table).to(torch.complex64)


def common(name: str) -> Turn:
    """`apply_rotary_emb` of diffusers, by the arguments that the code of the class gives it."""
    from diffusers.models import attention_processor, embeddings

    file = file_of(name)
    names = {n.id for n in ast.walk(ast.parse(inspect.getsource(file))) if isinstance(n, ast.Name)}
    processors = [vars(attention_processor)[n] for n in names if n in vars(attention_processor)]
    texts = [inspect.getsource(file), *map(inspect.getsource, filter(inspect.isclass, processors))]
    trees = [ast.walk(ast.parse(text)) for text in texts]
    calls = [
        {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg != "sequence_dim"}
        for tree in trees
        for node in tree
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "apply_rotary_emb"
    ]
    own = {tuple(sorted(call.items())) for call in calls}
    assert len(own) == 1, f"{name} calls it in several ways: {own}"
    call = dict(own.pop())
    if call.get("use_real") is False:
        return lambda x, t: embeddings.apply_rotary_emb(x, numbers(t)[None], **call)
    order = "half" if call.get("use_real_unbind_dim") == -2 else "interleaved"
    return lambda x, t: embeddings.apply_rotary_emb(x, both(t, order), sequence_dim=1, **call)


def local(name: str, function: str, style: str) -> Turn:
    """A function of the file, or of the processor `Owner.name`."""
    owner, _, method = function.rpartition(".")
    turn = inner(getattr(file_of(name), owner), method) if owner else getattr(file_of(name), method)
    calls: dict[str, Turn] = {
        "complex": lambda x, t: turn(x, numbers(t)[None]),
        "rows": lambda x, t: turn(x, numbers(t), use_real=False),
        "heads first": lambda x, t: turn(x.transpose(1, 2), numbers(t)[None, None]).transpose(1, 2),
        "columns": lambda x, t: turn(x.permute(0, 2, 3, 1), numbers(t)[None, None]).permute(
            0, 3, 1, 2
        ),
        "two": lambda x, t: turn(x, *(one[None, :, None] for one in both(t, "interleaved"))),
        "pair": lambda x, t: turn(x, x, both(t, "interleaved"))[0],
        "batch": lambda x, t: turn(x, x, tuple(one[None] for one in both(t, "interleaved")))[0],
        "joined": lambda x, t: turn(x, torch.cat(both(t, "interleaved"), -1)[None]),
        "matrices": lambda x, t: turn(x, matrices(t)[None, :, None]),
        "matrices twice": lambda x, t: turn(x, x, matrices(t)[None, :, None])[0],
        "halves": lambda x, t: turn(x, *both(t, "half")),
        "half tuple": lambda x, t: turn(x, both(t, "half")),
        "angles": lambda x, t: turn(x, torch.from_numpy(np.angle(np.concatenate([t] * 2, -1)))),
        "flat": lambda x, t: turn(x[:, :, 0], tuple(one[None] for one in both(t, "interleaved")))[
            :, :, None
        ],
        "rotate half": lambda x, t: (
            x * both(t, "half")[0][:, None] + turn(x) * both(t, "half")[1][:, None]
        ),
    }
    return calls[style]


def allegro(name: str) -> Turn:
    from diffusers.models.embeddings import apply_rotary_emb_allegro

    def turn(x: Any, table: np.ndarray) -> Any:
        parts = [both(one, "half") for one in np.split(table, 3, -1)]
        places = [torch.arange(len(table))[None]] * 3
        return apply_rotary_emb_allegro(x.transpose(1, 2), parts, places).transpose(1, 2)

    return turn


WAN = ("WanAttnProcessor.apply_rotary_emb", "two")
LOCAL = {
    "HiDreamImageTransformer2DModel": ("apply_rope", "matrices twice"),
    "PRXTransformer2DModel": ("apply_rope", "matrices"),
    "ZImageTransformer2DModel": ("ZSingleStreamAttnProcessor.apply_rotary_emb", "complex"),
    "BriaFibo2Transformer2DModel": ("BriaFibo2AttnProcessor.apply_rotary_emb", "complex"),
    "QwenImageTransformer2DModel": ("apply_rotary_emb_qwen", "rows"),
    "QwenImage21Transformer2DModel": ("apply_rotary_emb_qwen", "rows"),
    "NucleusMoEImageTransformer2DModel": ("_apply_rotary_emb_nucleus", "rows"),
    "JoyImageEditTransformer3DModel": ("_apply_rotary_emb", "pair"),
    "JoyImageEditPlusTransformer3DModel": ("_apply_rotary_emb_batched", "batch"),
    "WanTransformer3DModel": WAN,
    "WanVACETransformer3DModel": WAN,
    "WanAnimateTransformer3DModel": WAN,
    "SkyReelsV2Transformer3DModel": ("SkyReelsV2AttnProcessor.apply_rotary_emb", "two"),
    "ChronoEditTransformer3DModel": WAN,
    "SanaVideoTransformer3DModel": ("SanaLinearAttnProcessor3_0.apply_rotary_emb", "two"),
    "AnyFlowTransformer3DModel": ("apply_rotary_emb", "heads first"),
    "AnyFlowFARTransformer3DModel": ("apply_rotary_emb", "heads first"),
    "SanaWMTransformer3DModel": ("_apply_rotary_emb", "columns"),
    "HeliosTransformer3DModel": ("apply_rotary_emb_transposed", "joined"),
    "Kandinsky5Transformer3DModel": ("Kandinsky5AttnProcessor.apply_rotary", "matrices"),
    "Kandinsky6Transformer3DModel": ("apply_rotary", "matrices"),
    "Kandinsky6SRTransformer3DModel": ("apply_rotary", "matrices"),
    "MiniMaxH3Transformer3DModel": ("_apply_rotary_emb", "halves"),
    "Ideogram4Transformer2DModel": ("_rotate_half", "rotate half"),
    "Cosmos3OmniTransformer": ("_rotate_half", "rotate half"),
    "LTXVideoTransformer3DModel": ("apply_rotary_emb", "flat"),
    "LTX2VideoTransformer3DModel": ("apply_interleaved_rotary_emb", "flat"),
    "SanaWMLTX2RefinerTransformer3DModel": ("apply_interleaved_rotary_emb", "flat"),
    "LongCatAudioDiTTransformer": ("_apply_rotary_emb", "half tuple"),
    "MiniMaxMusic3Transformer1DModel": ("_apply_partial_rotary_emb", "half tuple"),
    "StableAudio3DiTModel": ("_apply_rotary_partial", "angles"),
}


def animate2(name: str) -> Turn:
    apply, offset = file_of(name).rope_apply, torch.zeros(1, dtype=torch.int64)

    def turn(x: Any, table: np.ndarray) -> Any:
        # Each token is a picture of its own, whose only cell has the row of the table.
        rows = [
            apply(x[:, k : k + 1], offset.new_ones(1, 3), numbers(table)[k : k + 1])
            for k in range(len(table))
        ]
        return torch.cat(rows, dim=1)

    return turn


def turn_of(name: str) -> Turn:
    """How the attention of a class turns queries and keys."""
    if name == "WanAnimate2Transformer3DModel":
        return animate2(name)
    if name == "AllegroTransformer3DModel":
        return allegro(name)
    return local(name, *LOCAL[name]) if name in LOCAL else common(name)
