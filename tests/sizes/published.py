"""Checkpoints with the headers of published models, as sparse files: no weights but a few heads.

A file is as long as the real one and takes almost no room on the disk. What is written: headers,
indexes, configs, and in the queries and keys of two layers the structure that training leaves, so
that a reader which looks at the wrong bytes does not find it.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.io.files import encode

INPUTS = 48  # columns that are filled, from the first on
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3": 1, "int8": 1}
CODES = {
    "float32": "F32", "bfloat16": "BF16", "float16": "F16", "float8_e4m3": "F8_E4M3", "int8": "I8",
}  # fmt: skip
STORED = {"float32": "<f4", "bfloat16": "<u2", "float16": "<f2", "int8": "|i1"}
Shape = tuple[int, ...]


class Model(NamedTuple):
    """A published model: what its config says, and how its files were cut."""

    config: Mapping[str, Any]
    dtype: str
    shards: int
    parameters: float  # in billions, as its page says
    projections: str = "qkv"  # of these names: q_proj, … ; "latent" or "query_key_value"
    experts: int = 0
    scales: str = ""  # the shape of the scales of its quantised matrices: "", "rows" or "blocks"
    pairing: str = "half"


def _llama(
    layers: int, hidden: int, heads: int, kv: int, inner: int, **more: Any
) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "num_hidden_layers": layers,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "vocab_size": 128256,
        **more,
    }


LLAMA_2 = {"rope_theta": 10000.0, "vocab_size": 32000, "max_position_embeddings": 4096}
QWEN = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1e6}
MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "rope_theta": 1e6,
    "vocab_size": 32768, "num_local_experts": 8, "max_position_embeddings": 65536,
}  # fmt: skip
NEOX = {
    "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 6144,
    "intermediate_size": 24576, "num_attention_heads": 64, "num_hidden_layers": 44,
    "rotary_pct": 0.25, "rotary_emb_base": 10000, "vocab_size": 50432,
    "max_position_embeddings": 2048,
}  # fmt: skip
MODELS: dict[str, Model] = {
    "llama-3.2-1b": Model(_llama(16, 2048, 32, 8, 8192, head_dim=64), "bfloat16", 1, 1.5),
    "tinyllama-1.1b": Model(_llama(22, 2048, 32, 4, 5632, **LLAMA_2), "float32", 1, 1.1),
    "llama-2-7b": Model(_llama(32, 4096, 32, 32, 11008, **LLAMA_2), "float16", 2, 6.7),
    "llama-3.1-8b": Model(_llama(32, 4096, 32, 8, 14336), "bfloat16", 4, 8.0),
    "llama-3.1-8b-w8a8": Model(
        _llama(32, 4096, 32, 8, 14336), "int8", 2, 8.0, scales="rows"
    ),
    "gpt-neox-20b": Model(NEOX, "float16", 46, 20.6, "query_key_value"),
    "llama-3.1-70b": Model(_llama(80, 8192, 64, 8, 28672), "bfloat16", 30, 70.6),
    "qwen2.5-72b": Model(
        _llama(80, 8192, 64, 8, 29568, vocab_size=152064, **QWEN), "bfloat16", 37, 72.7, "qkv+bias"
    ),
    "mixtral-8x22b": Model(
        _llama(56, 6144, 48, 8, 16384, **MIXTRAL), "bfloat16", 59, 140.6, experts=8
    ),
    "llama-3.1-405b-fp8": Model(
        _llama(126, 16384, 128, 8, 53248), "float8_e4m3", 109, 405.9, scales="rows"
    ),
    "llama-3.1-405b": Model(_llama(126, 16384, 128, 8, 53248), "bfloat16", 191, 405.9),
}  # fmt: skip


class Made(NamedTuple):
    """A checkpoint on the disk."""

    path: Path
    model: Model
    begins: Mapping[str, tuple[Path, int, int]]  # name -> its file, first and last byte


# --- tensors --------------------------------------------------------------------------------------


def tensors_of(model: Model) -> dict[str, tuple[str, Shape]]:
    """Names, dtypes and shapes, in the order of the layers."""
    c = model.config
    hidden, inner, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    width = c.get("head_dim", hidden // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * width, c.get("num_key_value_heads", 0) * width
    plain = "bfloat16" if model.scales else model.dtype
    found: dict[str, tuple[str, Shape]] = {}
    neox = model.projections == "query_key_value"
    root = "gpt_neox" if neox else "model"
    found[f"{root}.{'embed_in' if neox else 'embed_tokens'}.weight"] = (plain, (vocab, hidden))

    def matrix(name: str, rows: int, columns: int, *, bias: bool = False) -> None:
        found[f"{name}.weight"] = (model.dtype, (rows, columns))
        if model.scales:
            found[f"{name}.weight_scale"] = ("float32", (rows, 1))
        if bias:
            found[f"{name}.bias"] = (plain, (rows,))

    for layer in range(c["num_hidden_layers"]):
        at = f"{root}.layers.{layer}"
        if neox:
            matrix(f"{at}.attention.query_key_value", 3 * hidden, hidden, bias=True)
            matrix(f"{at}.attention.dense", hidden, hidden, bias=True)
            matrix(f"{at}.mlp.dense_h_to_4h", inner, hidden, bias=True)
            matrix(f"{at}.mlp.dense_4h_to_h", hidden, inner, bias=True)
            found[f"{at}.attention.rotary_emb.inv_freq"] = ("float32", (width // 8,))
        else:
            bias = model.projections.endswith("bias")
            for name, rows in (("q", q), ("k", kv), ("v", kv)):
                matrix(f"{at}.self_attn.{name}_proj", rows, hidden, bias=bias)
            matrix(f"{at}.self_attn.o_proj", hidden, q)
            for i in range(model.experts):
                for name in ("w1", "w2", "w3"):
                    sides = (hidden, inner) if name == "w2" else (inner, hidden)
                    matrix(f"{at}.block_sparse_moe.experts.{i}.{name}", *sides)
            for name in () if model.experts else ("gate", "up", "down"):
                sides = (hidden, inner) if name == "down" else (inner, hidden)
                matrix(f"{at}.mlp.{name}_proj", *sides)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}.{name}.weight"] = (plain, (hidden,))
    found[f"{root}.{'final_layer_norm' if neox else 'norm'}.weight"] = (plain, (hidden,))
    found["embed_out.weight" if neox else "lm_head.weight"] = (plain, (vocab, hidden))
    return found


def _size(dtype: str, shape: Shape) -> int:
    return BYTES[dtype] * math.prod(shape)


def _cut(model: Model) -> Iterator[dict[str, tuple[str, Shape]]]:
    """The tensors of each file, in order, no file much longer than the others."""
    tensors = tensors_of(model)
    total = sum(_size(*t) for t in tensors.values())
    part: dict[str, tuple[str, Shape]] = {}
    done = number = 0
    left = len(tensors)
    for name, tensor in tensors.items():
        part[name] = tensor
        done += _size(*tensor)
        left -= 1
        full = done >= total * (number + 1) / model.shards or left < model.shards - number
        if full and left and number < model.shards - 1:
            yield part
            part, number = {}, number + 1
    yield part


# --- structure ------------------------------------------------------------------------------------


def structure(
    heads: int, width: int, rotated: int, pairing: str, rng: np.random.Generator
) -> np.ndarray:
    """Heads, (heads, width, INPUTS): pairs of near frequency are alike, and pairs are balanced."""
    steps = rng.standard_normal((heads, rotated // 2, 2, INPUTS))
    walk = np.empty_like(steps[:, :, 0])
    at = steps[:, 0, 0]
    for j in range(rotated // 2):  # each pair is a little further than the one before
        at = 0.9 * at + 0.5 * rng.standard_normal(at.shape)
        walk[:, j] = at
    pairs = walk[:, :, None] + 0.4 * steps  # (heads, pairs, 2, inputs)
    pairs /= np.linalg.norm(pairs, axis=-1, keepdims=True)
    charge = rng.uniform(0, 0.6, (heads, rotated // 2, 1))
    pairs *= np.sqrt(np.stack([1 + charge, 1 - charge], axis=2))  # of squares, opposite in a pair
    made = rng.standard_normal((heads, width, INPUTS)) / math.sqrt(INPUTS)
    order = pairs.transpose(0, 2, 1, 3) if pairing == "half" else pairs
    made[:, :rotated] = order.reshape(heads, rotated, INPUTS)
    return np.asarray(made)


def _stored(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "int8":
        return np.clip(np.rint(values * 200), -127, 127).astype(np.int8)
    if dtype == "float8_e4m3":
        import ml_dtypes

        return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return encode(
        values.astype("f4" if dtype == "bfloat16" else STORED[dtype]), dtype, STORED[dtype]
    )


def _fill(model: Model, begins: Mapping[str, tuple[Path, int, int]], pairing: str) -> None:
    """Structure in the first and in the last layer, and frequencies in all."""
    c = model.config
    width = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    rotated = int(width * c.get("rotary_pct", 1))
    rng = np.random.default_rng(7)
    shapes = tensors_of(model)
    for name in (n for n in shapes if n.endswith("inv_freq")):
        ladder = 10000 ** -np.linspace(0, 1, *shapes[name][1], endpoint=False)
        _write(begins[name], ladder.astype("<f4"), 0)
    for layer in (0, c["num_hidden_layers"] - 1):
        for name in (n for n in shapes if f"layers.{layer}." in n):
            dtype, shape = shapes[name]
            if name.endswith("scale"):
                _write(begins[name], np.full(shape, 0.01, "<f4"), 0)
            elif name.endswith(("q_proj.weight", "k_proj.weight")):
                made = structure(shape[0] // width, width, rotated, pairing, rng)
                _rows(begins[name], _stored(made, dtype).reshape(shape[0], -1), shape[1])
            elif name.endswith("query_key_value.weight"):
                both = structure(2 * shape[0] // width // 3, width, rotated, pairing, rng)
                made = np.zeros((shape[0] // width // 3, 3, width, INPUTS))
                made[:, :2] = both.reshape(-1, 2, width, INPUTS)
                _rows(begins[name], _stored(made, dtype).reshape(shape[0], -1), shape[1])


def _rows(place: tuple[Path, int, int], rows: np.ndarray, columns: int) -> None:
    """The first columns of each row of a matrix."""
    path, begin, _ = place
    with path.open("r+b", buffering=0) as file:
        for i, row in enumerate(rows):
            os.pwrite(file.fileno(), row.tobytes(), begin + i * columns * rows.itemsize)


def _write(place: tuple[Path, int, int], values: np.ndarray, at: int) -> None:
    with place[0].open("r+b", buffering=0) as file:
        file.seek(place[1] + at)
        file.write(values.tobytes())


# --- safetensors ----------------------------------------------------------------------------------


def headers_of(part: Mapping[str, tuple[str, Shape]]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The header of a file, and where its tensors lie behind it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    places, at = {}, 0
    for name, (dtype, shape) in part.items():
        end = at + _size(dtype, shape)
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        places[name] = (at, end)
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text)) + text
    return start, {n: (len(start) + a, len(start) + b) for n, (a, b) in places.items()}


def make(folder: Path, name: str, *, pairing: str | None = None) -> Made:
    """A folder as it is published; `pairing` is that of the weights, where the config errs."""
    model = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    begins: dict[str, tuple[Path, int, int]] = {}
    places = {}
    for number, part in enumerate(_cut(model)):
        file = f"model-{number + 1:05d}-of-{model.shards:05d}.safetensors"
        file = "model.safetensors" if model.shards == 1 else file
        start, where = headers_of(part)
        with (folder / file).open("wb") as sink:
            sink.write(start)
            sink.truncate(max(end for _, end in where.values()))
        begins |= {n: (folder / file, a, b) for n, (a, b) in where.items()}
        places |= dict.fromkeys(part, file)
    if model.shards > 1:
        size = sum(b - a for _, a, b in begins.values())
        index = {"metadata": {"total_size": size}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(dict(model.config)))
    _fill(model, begins, pairing or model.pairing)
    return Made(folder, model, begins)
