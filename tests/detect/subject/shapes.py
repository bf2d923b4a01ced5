"""Rotations, tables and biases in the shapes that `posenc.ask` was built with: plain code.

Each turns by halves at base 10,000, or by neighbours where its name ends in `pairs`.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import torch

INV = 1e4 ** (-np.arange(32) / 32)
T_INV = torch.from_numpy(INV)


def loops(x: np.ndarray, positions: np.ndarray, *, pairs: bool = False) -> np.ndarray:
    """x (batch, heads, seq, channels) turned at positions (batch, seq), by plain loops."""
    out = np.empty_like(x)
    n = x.shape[-1] // 2
    for b, s in np.ndindex(*positions.shape):
        for j in range(n):
            i, k = (2 * j, 2 * j + 1) if pairs else (j, j + n)
            c, w = np.cos(positions[b, s] * INV[j]), np.sin(positions[b, s] * INV[j])
            out[b, :, s, i] = x[b, :, s, i] * c - x[b, :, s, k] * w
            out[b, :, s, k] = x[b, :, s, k] * c + x[b, :, s, i] * w
    return out


def _half(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def _tables(positions: Any) -> tuple[Any, Any]:
    angle = positions.to(torch.float64)[..., None] * T_INV
    both = torch.cat([angle, angle], -1)
    return both.cos(), both.sin()


def _turn(x: Any, cos: Any, sin: Any) -> Any:
    return (x.double() * cos + _half(x.double()) * sin).to(x.dtype)


def _n_turn(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    n = x.shape[-1] // 2
    a, b, c, s = x[..., :n], x[..., n:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def bhsd_line(q: Any, positions: Any) -> Any:
    return _turn(q, *_tables(positions))


def bhsd_rows(query: Any, position_ids: Any) -> Any:
    cos, sin = _tables(position_ids)
    return _turn(query, cos[:, None], sin[:, None])


def bshd_line(x: Any, *, input_pos: Any) -> Any:
    cos, sin = _tables(input_pos)
    return _turn(x, cos[None, :, None], sin[None, :, None])


def bshd_rows(xq: Any, segment_pos: Any) -> Any:
    cos, sin = _tables(segment_pos)
    return _turn(xq, cos[:, :, None], sin[:, :, None])


def sbhd(hidden_states: Any, pos: Any) -> Any:
    cos, sin = _tables(pos)
    return _turn(hidden_states, cos[:, None, None], sin[:, None, None])


def vllm(positions: Any, query: Any, key: Any) -> Any:
    cos, sin = _tables(positions)
    out = []
    for x in (query, key):
        heads = x.view(x.shape[0], -1, 64)
        out.append(_turn(heads, cos[:, None], sin[:, None]).view(x.shape))
    return tuple(out)


def thd(q: Any, k: Any, token_positions: Any) -> Any:
    cos, sin = _tables(token_positions)
    assert q.ndim == 3
    assert token_positions.ndim == 1
    return _turn(q, cos[:, None], sin[:, None]), _turn(k, cos[:, None], sin[:, None])


def counted(x: Any) -> Any:
    return bhsd_line(x, torch.arange(x.shape[-2]))


def counted_bshd(x: Any) -> Any:
    return bshd_line(x, input_pos=torch.arange(x.shape[1]))


def offset(x: Any, start_pos: int = 0) -> Any:
    return bhsd_line(x, torch.arange(start_pos, start_pos + x.shape[-2]))


def offset_bshd(xq: Any, xk: Any, start_index: int) -> Any:
    places = torch.arange(start_index, start_index + xq.shape[1])
    return bshd_line(xq, input_pos=places), bshd_line(xk, input_pos=places)


def as_mapping(q: Any, k: Any, positions: Any) -> Any:
    return {"k": bhsd_line(k, positions), "q": bhsd_line(q, positions)}


def in_place(q: Any, k: Any, position_ids: Any) -> None:
    q.copy_(bhsd_rows(q, position_ids))
    k.copy_(bhsd_rows(k, position_ids))


def nameless(a: Any, b: Any) -> Any:
    return bhsd_line(a, b)


def nameless_reversed(a: Any, b: Any) -> Any:
    assert a.ndim == 1
    return bhsd_line(b, a)


def misleading(positions: Any, x: Any) -> Any:
    return bhsd_line(positions, x)


def complex_pairs(xq: Any, positions: Any) -> Any:
    turns = torch.polar(torch.ones(1, 1, dtype=torch.float64), positions[..., None] * T_INV)
    z = torch.view_as_complex(xq.double().reshape(*xq.shape[:-1], -1, 2))
    return torch.view_as_real(z * turns).flatten(-2).to(xq.dtype)


def numpy_line(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return _n_turn(x, positions[:, None] * INV)


def numpy_rows(q: np.ndarray, pos: np.ndarray) -> np.ndarray:
    return _n_turn(q, pos[:, :, None, None] * INV)


def numpy_one_row(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    assert x.ndim == 2
    return _n_turn(x, np.outer(t, INV))


def numpy_columns(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    assert p.shape[-1] == 1
    return _n_turn(x, p * INV)


def with_options(x: Any, positions: Any, dim: int = -1, inverse: bool = False) -> Any:
    return bhsd_line(x, positions)


def with_width(q: Any, positions: Any, head_dim: int, theta: float) -> Any:
    inv = theta ** (-torch.arange(0, head_dim, 2).double() / head_dim)
    angle = torch.cat(2 * [positions[:, None] * inv], -1)
    return _turn(q, angle.cos(), angle.sin())


def packed(qkv: Any, cu_seqlens: Any) -> Any:
    assert qkv.ndim == 3
    ends = cu_seqlens.tolist()
    places = torch.cat([torch.arange(b - a) for a, b in itertools.pairwise(ends)])
    return thd(qkv, qkv, places)[0]


class Rotary(torch.nn.Module):
    def __init__(self, head_dim: int, max_position_embeddings: int = 512, base: float = 1e4):
        super().__init__()
        inv = base ** (-torch.arange(0, head_dim, 2).double() / head_dim)
        self.register_buffer("inv_freq", inv)

    def forward(self, x: Any, position_ids: Any) -> Any:
        angle = position_ids[..., None].double() * self.inv_freq
        both = torch.cat([angle, angle], -1)
        return both.cos(), both.sin()


class Turning(torch.nn.Module):
    def __init__(self, dim: int, max_seq_len: int):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        cos, sin = _tables(torch.arange(max_seq_len))
        self.register_buffer("cos_cached", cos)
        self.register_buffer("sin_cached", sin)

    def forward(self, q: Any, k: Any, offset: int = 0) -> Any:
        cos, sin = (t[offset : offset + q.shape[2]] for t in (self.cos_cached, self.sin_cached))
        return self.drop(_turn(q, cos, sin)), self.drop(_turn(k, cos, sin))


class Lucid:
    def __init__(self, dim: int, theta: float = 1e4):
        self.dim = dim

    def rotate_queries_or_keys(self, t: Any, seq_dim: int = -2, offset: int = 0) -> Any:
        return offset_of(t, offset)

    def get_seq_pos(self, seq_len: int) -> Any:
        return torch.arange(seq_len)


def offset_of(t: Any, begin: int) -> Any:
    return offset(t, begin)


def precompute_freqs_cis(dim: int, end: int, theta: float = 1e4) -> Any:
    inv = 1.0 / theta ** (torch.arange(0, dim, 2).double() / dim)
    angle = torch.outer(torch.arange(end).double(), inv)
    return torch.polar(torch.ones_like(angle), angle)


def apply_complex(xq: Any, xk: Any, freqs_cis: Any) -> Any:
    def one(x: Any) -> Any:
        z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
        assert freqs_cis.shape == (x.shape[1], x.shape[-1] // 2)
        return torch.view_as_real(z * freqs_cis[None, :, None]).flatten(3).to(x.dtype)

    return one(xq), one(xk)


def apply_cos_sin(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return _turn(q, cos, sin), _turn(k, cos, sin)


def apply_gathered(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any) -> Any:
    cos, sin = cos[position_ids][:, None], sin[position_ids][:, None]
    return _turn(q, cos, sin), _turn(k, cos, sin)


def tables_of_length(seq_len: int) -> Any:
    return _tables(torch.arange(seq_len))


def jax_shapes() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    def line(x: Any, positions: Any) -> Any:
        angle = positions[..., :, None].astype(jnp.float32) * jnp.asarray(INV, jnp.float32)
        a, b = jnp.split(x, 2, axis=-1)
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)

    def gemma(inputs: Any, segment_pos: Any) -> Any:
        return jnp.swapaxes(line(jnp.swapaxes(inputs, 1, 2), segment_pos[:, None]), 1, 2)

    return {"line": line, "gemma": gemma, "jitted": jax.jit(line)}


ROTATIONS: dict[str, Any] = {
    f.__name__: f
    for f in (
        bhsd_line, bhsd_rows, bshd_line, bshd_rows, sbhd, vllm, thd, counted, counted_bshd, offset,
        offset_bshd, as_mapping, in_place, nameless, nameless_reversed, misleading, complex_pairs,
        numpy_line, numpy_rows, numpy_one_row, numpy_columns, with_options, with_width, packed,
    )
} | {
    "partial": functools.partial(bshd_line),
    "class": Turning,
    "module": Turning(64, 512),
    "object": Lucid(64),
    "method": Lucid(64).rotate_queries_or_keys,
    "lambda": lambda x, p: bhsd_line(x, p),
    "complex pair pairs": (precompute_freqs_cis, apply_complex),
    "module and function": (Rotary(64), apply_cos_sin),
    "class and function": (Rotary, apply_cos_sin),
    "gathered": (tables_of_length, apply_gathered),
}  # fmt: skip

COSINES: dict[str, Any] = {
    "cos_sin": lambda position_ids: _tables(position_ids),
    "hf": Rotary,
    "hf instance": Rotary(64),
    "length": tables_of_length,
    "complex": precompute_freqs_cis,
    "half": lambda positions: (np.cos(positions[:, None] * INV), np.sin(positions[:, None] * INV)),
    "mapping": lambda pos: {"sin": np.sin(np.outer(pos, INV)), "cos": np.cos(np.outer(pos, INV))},
    "stacked": lambda n: np.stack(2 * [np.outer(np.arange(n), INV)], -1) * 0
    + np.stack([np.cos(np.outer(np.arange(n), INV)), np.sin(np.outer(np.arange(n), INV))], -1),
    "angles": lambda pos: np.outer(pos, INV),
    "inv_freq": {"rotary.inv_freq": T_INV},
    "cached": {"cos_cached": _tables(torch.arange(300))[0][None, None],
               "sin_cached": _tables(torch.arange(300))[1][None, None]},
    "cos_sin_cache": {"cos_sin_cache": torch.cat(
        [t[:, :32] for t in _tables(torch.arange(300))], -1)},
    "freqs_cis": {"freqs_cis": precompute_freqs_cis(64, 300)},
}  # fmt: skip


def sinusoids(positions: Any) -> np.ndarray:
    angle = np.outer(positions, INV)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(positions), 64)


class Added(torch.nn.Module):
    """The tutorial's: sequence first, dropout behind."""

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000):
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)
        self.register_buffer("pe", torch.from_numpy(sinusoids(np.arange(max_len)))[:, None])

    def forward(self, x: Any) -> Any:
        return self.dropout(x + self.pe[: x.size(0)].to(x.dtype))


TABLES: dict[str, Any] = {
    "positions": sinusoids,
    "length": lambda max_len, d_model: sinusoids(np.arange(max_len)),
    "added": Added,
    "added, batch first": lambda x: x + sinusoids(np.arange(x.shape[1])).astype(x.dtype),
    "embedding": lambda x: sinusoids(np.arange(x.shape[1]))[None],
}

SLOPES = 2.0 ** -np.arange(1, 9)


def alibi(q_positions: Any, k_positions: Any) -> np.ndarray:
    off = np.abs(np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None])
    return -SLOPES[:, None, None] * off


BIASES: dict[str, Any] = {
    "positions": alibi,
    "pos_i": lambda pos_i, pos_j: alibi(pos_i, pos_j),
    "last": lambda q_len, k_len: alibi(np.arange(k_len - q_len, k_len), np.arange(k_len)),
    "first": lambda query_length, key_length: alibi(np.arange(query_length), np.arange(key_length)),
}


def build_alibi(n_heads: int, seq_len: int) -> np.ndarray:
    assert n_heads == 8
    return alibi(np.arange(seq_len), np.arange(seq_len))[None]


BIASES["alibi"] = build_alibi
