"""Over JAX: the calls are those that ports have published, the code is our own."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.detect.subject.loops import Buckets, Rows, Slopes, Turn, Waves, slopes

ROWS = Rows()
TURN, TWOS = Turn(), Turn("interleaved")
PAIRS = ("cos_sin", "angles", "table")
BUCKETS = np.random.default_rng(6).normal(size=(32, 8)).astype(np.float32)


def angles(positions: Any, dim: int, base: float = 10_000.0) -> Any:
    speeds = (base ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    return jnp.asarray(positions).astype(jnp.float32)[..., None] * speeds


def turned(x: Any, theta: Any) -> Any:
    a, b = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def turned_twos(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


@ROWS.made("kingoflolz/mesh-transformer-jax fixed_pos_embedding, apply_rotary_pos_emb", TWOS)
def mesh() -> Any:
    def fixed_pos_embedding(x: Any, seq_dim: int = 1) -> Any:
        theta = np.asarray(angles(np.arange(x.shape[seq_dim]), x.shape[-1]))
        return np.sin(theta), np.cos(theta)

    def apply_rotary_pos_emb(x: Any, sincos: Any) -> Any:
        sin, cos = (t[-x.shape[-3] :, None, :] for t in sincos)
        return turned_twos(x, cos, sin)

    return fixed_pos_embedding, apply_rotary_pos_emb


@ROWS.made("young-geng/EasyLM precompute_freqs_cis, apply_rotary_emb", TWOS)
def easylm() -> Any:
    def precompute_freqs_cis(
        dim: int, end: int, theta: float = 10_000.0, dtype: Any = jnp.float32
    ) -> Any:
        freqs = angles(np.arange(end), dim, theta).astype(dtype)
        return jnp.asarray(np.complex64(np.cos(freqs) + 1j * np.sin(freqs)))

    def apply_rotary_emb(xq: Any, xk: Any, freqs_cis: Any, dtype: Any = jnp.float32) -> Any:
        cis = jnp.reshape(freqs_cis, (*freqs_cis.shape[:2], 1, *freqs_cis.shape[2:]))
        if cis.ndim != 4:
            raise ValueError("freqs_cis is taken at position_ids: (batch, seq, dim / 2)")
        return tuple(turned_twos(x, cis.real, cis.imag).astype(dtype) for x in (xq, xk))

    def at(position_ids: Any) -> Any:
        return jnp.take(precompute_freqs_cis(64, 4096), position_ids, axis=0)

    return at, apply_rotary_emb


@ROWS.made("AI-Hypercomputer/maxtext RotaryEmbedding", TURN)
@dataclasses.dataclass
class MaxText:
    min_timescale: int = 1
    max_timescale: int = 10_000
    embedding_dims: int = 64

    def __call__(self, inputs: Any, position: Any) -> Any:
        if len(inputs.shape) != 4:
            raise ValueError("Input is assumed to be a rank 4 tensor of shape [B, S, N, H].")
        if self.embedding_dims != inputs.shape[3]:
            raise ValueError("The embedding dims must match the hidden dimension of the inputs.")
        return turned(inputs, angles(position[:, :, None], self.embedding_dims, self.max_timescale))


@ROWS.asked("google-deepmind/gemma apply_rope (inputs, positions)", TURN)
def apply_rope(
    inputs: Any, positions: Any, *, base_frequency: int = 10_000, scale_factor: float = 1.0
) -> Any:
    if scale_factor < 1.0:
        raise ValueError(f"scale_factor must be >= 1.0, got {scale_factor}")
    return turned(inputs, angles(positions[..., None], inputs.shape[-1], base_frequency))


@ROWS.asked("Physical-Intelligence/openpi _apply_rope (x, *, positions)", TURN)
@jax.jit
def _apply_rope(x: Any, *, positions: Any) -> Any:
    return turned(x, angles(positions, x.shape[-1])[..., None, :])


@ROWS.made("patrick-kidger/equinox RotaryPositionalEmbedding (seq, dim)", TURN)
def equinox() -> Any:
    import equinox

    return equinox.nn.RotaryPositionalEmbedding(64)


@ROWS.made("xai-org/grok-1 RotaryEmbedding", TURN)
class Grok:
    def __init__(self, dim: int = 64, name: str | None = None, base_exponent: int = 10_000) -> None:
        self.dim, self.base_exponent = dim, base_exponent

    def __call__(
        self, x: Any, seq_dim: int, offset: Any, const_position: int | None = None, t: Any = None
    ) -> Any:
        offset = jnp.expand_dims(offset, 0) if jnp.shape(offset) == () else offset
        if t is None:
            t = jnp.arange(x.shape[seq_dim], dtype=jnp.float32) + jnp.expand_dims(offset, -1)
        phase = angles(t, self.dim, self.base_exponent)[:, :, None]
        return turned(x, phase)


@ROWS.made("transformers 4.40 FlaxLlamaRotaryEmbedding (key before query)", TURN)
class FlaxLlama:
    def __call__(self, key: Any, query: Any, position_ids: Any) -> Any:
        theta = angles(position_ids, 64)[:, :, None]
        return turned(key, theta), turned(query, theta)


@ROWS.made("transformers 4.40 Flax GPT-J create_sinusoidal_positions, apply_rotary_pos_emb", TWOS)
def flax_gptj() -> Any:
    def create_sinusoidal_positions(num_pos: int, dim: int) -> Any:
        theta = angles(np.arange(num_pos), dim)
        return jnp.concatenate([jnp.sin(theta), jnp.cos(theta)], axis=-1)

    def apply_rotary_pos_emb(tensor: Any, sincos: Any) -> Any:
        sin, cos = jnp.split(sincos, 2, axis=-1)
        return turned_twos(tensor, cos[None, :, None], sin[None, :, None])

    return create_sinusoidal_positions, apply_rotary_pos_emb


@ROWS.made("google/praxis RotaryPositionalEmbedding", TURN)
@dataclasses.dataclass
class Praxis:
    min_timescale: int = 1
    max_timescale: int = 10_000
    embedding_dims: int = 64

    def __call__(self, inputs: Any, position: Any = None) -> Any:
        if len(inputs.shape) != 4:
            raise ValueError("Input is assumed to be a rank 4 tensor of shape [B, S, N, H].")
        if position is None:
            position = jnp.arange(inputs.shape[1], dtype=jnp.float32)[None]
        return turned(inputs, angles(position[:, :, None], self.embedding_dims, self.max_timescale))


@ROWS.asked("google/flaxformer generate_fixed_pos_embedding (features, length)", Turn(kinds=PAIRS))
def generate_fixed_pos_embedding(
    features: int, length: int, min_timescale: float = 1.0, max_timescale: float = 10_000.0
) -> Any:
    theta = angles(np.arange(length), features, max_timescale)
    theta = jnp.concatenate([theta, theta], axis=-1)
    return jnp.sin(theta), jnp.cos(theta)


@ROWS.made("our own: partial of jit, base given", Turn(base=500_000.0))
def partially() -> Any:
    @functools.partial(jax.jit, static_argnames="base")
    def rope(q: Any, pos: Any, base: float) -> Any:
        return turned(q, angles(pos, q.shape[-1], base))

    return functools.partial(rope, base=500_000.0)


@ROWS.asked("our own: a table of (pos, embedding_dim)", Waves())
def posemb_sincos(pos: Any, embedding_dim: int, max_period: float = 10_000.0) -> Any:
    theta = angles(pos, embedding_dim, max_period)
    return jnp.concatenate([jnp.sin(theta), jnp.cos(theta)], axis=-1)


@ROWS.made("google/flax examples wmt AddPositionEmbs (b, s, d)", Waves())
class AddPositionEmbs:
    max_len = 2048

    def __call__(self, inputs: Any, inputs_positions: Any = None) -> Any:
        assert inputs.ndim == 3, "Number of dimensions should be 3"
        length, dim = inputs.shape[1], inputs.shape[2]
        theta = angles(np.arange(self.max_len), dim)
        pe = jnp.concatenate([jnp.sin(theta), jnp.cos(theta)], axis=-1)
        if inputs_positions is None:
            return inputs + pe[None, :length].astype(inputs.dtype)
        return inputs + jnp.take(pe, inputs_positions, axis=0).astype(inputs.dtype)


@ROWS.made("transformers 4.40 FlaxT5Attention.compute_bias", Buckets(BUCKETS))
def flax_t5() -> Any:
    class Attention:
        def compute_bias(self, query_length: int, key_length: int) -> Any:
            offsets = np.arange(key_length)[None] - np.arange(query_length)[:, None]
            exact, far = np.abs(offsets), np.maximum(np.abs(offsets), 1)
            large = 8 + (np.log(far / 8) / np.log(128 / 8) * 8).astype(np.int32)
            rows = 16 * (offsets > 0) + np.where(exact < 8, exact, np.minimum(large, 15))
            return jnp.transpose(jnp.asarray(BUCKETS)[rows], (2, 0, 1))[None]

    return Attention().compute_bias


@ROWS.asked("our own: alibi of positions over JAX", Slopes(8))
def alibi_bias(q_positions: Any, kv_positions: Any) -> Any:
    far = jnp.abs(kv_positions[None, :] - q_positions[:, None]).astype(jnp.float32)
    return -jnp.asarray(slopes(8), dtype=jnp.float32)[:, None, None] * far


@ROWS.made("transformers 4.40 FlaxBloom build_alibi_tensor", Slopes(8, "keys", 1.0))
def flax_bloom() -> Any:
    def build_alibi_tensor(attention_mask: Any, num_heads: int, dtype: Any = jnp.float32) -> Any:
        batch, seq = attention_mask.shape
        places = ((jnp.cumsum(attention_mask, axis=-1) - 1) * attention_mask)[:, None, :]
        alibi = jnp.asarray(slopes(num_heads), dtype=jnp.float32)[..., None] * places
        return alibi.reshape(batch, num_heads, 1, seq).astype(dtype)

    return functools.partial(build_alibi_tensor, num_heads=8)
