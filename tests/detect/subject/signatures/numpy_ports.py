"""Over NumPy: the calls are those that ports have published, the code is our own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.detect.subject.loops import Buckets, Rows, Slopes, Turn, Waves, slopes

ROWS = Rows()
PAIRS = ("cos_sin", "angles", "table")
BUCKETS = np.random.default_rng(5).normal(size=(32, 8))


def angles(positions: Any, dim: int, base: float = 10_000.0) -> Any:
    return np.multiply.outer(np.asarray(positions), base ** (-np.arange(0, dim, 2) / dim))


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """Halves; cosines once for each pair."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def turned_twos(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


# --- rotations ------------------------------------------------------------------------------------


@ROWS.asked("ml-explore/mlx mx.fast.rope", Turn("half"), "float64")
def rope(
    a: Any, dims: int, *, traditional: bool = False, base: float = 10_000.0, scale: float = 1.0,
    offset: int = 0,
) -> Any:  # fmt: skip
    theta = angles(scale * (offset + np.arange(a.shape[-2])), dims, base)
    turn = turned_twos if traditional else turned
    return np.concatenate([turn(a[..., :dims], np.cos(theta), np.sin(theta)), a[..., dims:]], -1)


@ROWS.made("ml-explore/mlx nn.RoPE", Turn("interleaved"), "float64")
class MlxRope:
    def __init__(self, dims: int = 64, traditional: bool = True, base: float = 10_000) -> None:
        self.dims, self.traditional, self.base = dims, traditional, base

    def __call__(self, x: Any, offset: int = 0) -> Any:
        return rope(x, self.dims, traditional=self.traditional, base=self.base, offset=offset)


@ROWS.made("likejazz/llama3.np apply_rotary_emb", Turn("interleaved"))
def llama3_np() -> Any:
    def compute_cos_sin_cache(head_dim: int, max_seq_len: int, base: int = 10_000) -> Any:
        freqs = angles(np.arange(max_seq_len), head_dim, base)
        return np.cos(freqs), np.sin(freqs)

    def apply_rotary_emb(xq: Any, xk: Any, freqs_cos: Any, freqs_sin: Any) -> Any:
        cos, sin = np.expand_dims(freqs_cos, axis=(0, 2)), np.expand_dims(freqs_sin, axis=(0, 2))
        return turned_twos(xq, cos, sin), turned_twos(xk, cos, sin)

    return compute_cos_sin_cache, apply_rotary_emb


@ROWS.made("onnx RotaryEmbedding, reference (position_ids)", Turn())
def onnx() -> Any:
    freqs = angles(np.arange(4096), 64)
    cos_cache, sin_cache = np.cos(freqs).astype(np.float32), np.sin(freqs).astype(np.float32)

    def rotary_embedding(
        input: Any,  # noqa: A002
        cos_cache: Any = cos_cache,
        sin_cache: Any = sin_cache,
        position_ids: Any = None,
        interleaved: Any = None,
        rotary_embedding_dim: Any = None,
        num_heads: Any = None,
    ) -> Any:
        if input.ndim != 4:
            raise ValueError("num_heads is needed for an input of rank 3")
        x = np.swapaxes(input, 1, 2)
        if position_ids is None:
            raise ValueError("caches of rank 2 need position_ids")
        assert position_ids.shape == x.shape[:2]
        cos, sin = cos_cache[position_ids][:, :, None], sin_cache[position_ids][:, :, None]
        return np.swapaxes((turned_twos if interleaved else turned)(x, cos, sin), 1, 2)

    return rotary_embedding


@ROWS.asked(
    "our own: (batch, seq, heads × width) with num_heads",
    Turn(),
    "float64",
    heads=2,
)
def ort(x: Any, position_ids: Any, num_heads: int = 2) -> Any:
    batch, length, hidden = x.shape
    heads = x.reshape(batch, length, num_heads, hidden // num_heads)
    theta = angles(position_ids.reshape(batch, length), hidden // num_heads)[:, :, None]
    return turned(heads, np.cos(theta), np.sin(theta)).reshape(x.shape)


@ROWS.asked("our own: the loop of llama2.c, one token in place", Turn("interleaved"), "float64")
def one_token(q: Any, k: Any, pos: int, head_size: int) -> Any:
    for vector in (q, k):
        for i in range(0, len(vector), 2):
            value = pos / 10_000.0 ** ((i % head_size) / head_size)
            fcr, fci = math.cos(value), math.sin(value)
            v0, v1 = vector[i], vector[i + 1]
            vector[i], vector[i + 1] = v0 * fcr - v1 * fci, v0 * fci + v1 * fcr


@ROWS.asked("our own: the arguments of ggml's rope", Turn("interleaved"), "float64")
def ggml_rope(a: Any, pos: Any, n_dims: int, mode: int = 0, freq_base: float = 10_000.0) -> Any:
    if pos.dtype != np.int32 or len(pos) != a.shape[-3]:
        raise TypeError("pos must be int32, one for each token")
    theta = angles(pos, n_dims, freq_base)[:, None]
    turn = turned if mode & 2 else turned_twos
    return np.concatenate(
        [turn(a[..., :n_dims], np.cos(theta), np.sin(theta)), a[..., n_dims:]], -1
    )


@ROWS.asked(
    "tinygrad/tinygrad precompute_freqs_cis, as NumPy",
    Turn("interleaved", kinds=PAIRS),
    "float64",
)
def freqs_cis(dim: int, end: int, theta: float = 10_000.0) -> Any:
    freqs = angles(np.arange(end), dim, theta)
    return np.stack([np.cos(freqs), np.sin(freqs)], axis=-1)


@ROWS.made(
    "tinygrad/tinygrad precompute_freqs_cis, apply_rotary_emb, as NumPy", Turn("interleaved")
)
def tinygrad() -> Any:
    def make(dim: int, end: int, theta: float = 10_000.0) -> Any:
        return freqs_cis(dim, end, theta).reshape(1, end, 1, dim // 2, 2)

    def apply_rotary_emb(xq: Any, xk: Any, freqs_cis: Any) -> Any:
        assert freqs_cis.shape[1] == xq.shape[1] == xk.shape[1]
        c, d = freqs_cis[..., 0], freqs_cis[..., 1]
        return turned_twos(xq, c, d), turned_twos(xk, c, d)

    return make, apply_rotary_emb


@ROWS.asked("our own: complex numbers, a view of x", Turn("interleaved", base=500_000.0), "float64")
def by_complex(x: Any, pos: Any, theta: float = 500_000.0) -> Any:
    x = np.ascontiguousarray(x)
    z = x.view(np.complex64 if x.dtype == np.float32 else np.complex128)
    return (z * np.exp(1j * angles(pos, x.shape[-1], theta))).astype(z.dtype).view(x.dtype)


@ROWS.asked("our own: one vector and one position", Turn(), "float64")
def one_vector(vector: Any, position: int) -> Any:
    if np.ndim(vector) != 1:
        raise ValueError("one vector, please")
    theta = angles(int(position), len(vector))
    return turned(vector, np.cos(theta), np.sin(theta))


@ROWS.asked(
    "our own: matrices of rotation (R @ x)",
    Turn("interleaved", dim=16),
    "float64",
    options={"dim": 16},
)
def matrices(x: Any, positions: Any) -> Any:
    theta, d = angles(positions, x.shape[-1]), x.shape[-1]
    R = np.zeros((*theta.shape[:-1], d, d))
    for j in range(d // 2):
        c, s = np.cos(theta[..., j]), np.sin(theta[..., j])
        R[..., 2 * j, 2 * j], R[..., 2 * j, 2 * j + 1] = c, -s
        R[..., 2 * j + 1, 2 * j], R[..., 2 * j + 1, 2 * j + 1] = s, c
    return (R @ x[..., None])[..., 0]


@ROWS.asked("our own: (q, k) of one head, start", Turn("interleaved"), "float64")
def one_head(q: Any, k: Any, start: int = 0) -> tuple[Any, Any]:
    if q.ndim != 2:
        raise ValueError("q is (seq, dim)")

    def turn(x: Any) -> Any:
        theta = angles(start + np.arange(len(x)), x.shape[-1])
        return turned_twos(x, np.cos(theta), np.sin(theta))

    return turn(q), turn(k)


@ROWS.asked(
    "kingoflolz/mesh-transformer-jax fixed_pos_embedding (sine first)", Turn(kinds=PAIRS), "float64"
)
def fixed_pos_embedding(x: Any, seq_dim: int = 0) -> Any:
    theta = angles(np.arange(x.shape[seq_dim]), x.shape[-1])
    return np.sin(theta), np.cos(theta)


# --- tables ---------------------------------------------------------------------------------------


def alternate(theta: Any) -> Any:
    return np.stack([np.sin(theta), np.cos(theta)], axis=-1).reshape(len(theta), -1)


ALTERNATE = Waves("interleaved")


@ROWS.asked("facebookresearch/mae get_1d_sincos_pos_embed_from_grid", Waves(), "float64")
def get_1d_sincos_pos_embed_from_grid(embed_dim: int, pos: Any) -> Any:
    assert embed_dim % 2 == 0
    out = angles(pos.reshape(-1), embed_dim)
    return np.concatenate([np.sin(out), np.cos(out)], axis=1)


@ROWS.asked("tensorflow/docs transformer positional_encoding (position, d_model)", ALTERNATE)
def positional_encoding(position: int, d_model: int) -> Any:
    return alternate(angles(np.arange(position), d_model))[None].astype(np.float32)


@ROWS.asked("keras-io / TensorFlow NMT positional_encoding (length, depth)", Waves())
def positional_encoding_2(length: int, depth: int) -> Any:
    rads = np.arange(length)[:, None] / (10_000 ** (np.arange(depth / 2)[None] / (depth / 2)))
    return np.concatenate([np.sin(rads), np.cos(rads)], axis=-1).astype(np.float32)


@ROWS.asked("machinelearningmastery getPositionEncoding (seq_len, d, n)", ALTERNATE, "float64")
def getPositionEncoding(seq_len: int, d: int, n: int = 10_000) -> Any:
    P = np.zeros((seq_len, d))
    for k in range(seq_len):
        for i in np.arange(d // 2):
            P[k, 2 * i] = np.sin(k / np.power(n, 2 * i / d))
            P[k, 2 * i + 1] = np.cos(k / np.power(n, 2 * i / d))
    return P


@ROWS.asked("salesforce/ctrl positional_encoding (position, d_model_size)", Waves())
def ctrl(position: int, d_model_size: int) -> Any:
    theta = angles(np.arange(position), d_model_size)
    return np.concatenate([np.sin(theta), np.cos(theta)], axis=-1)[None].astype(np.float32)


@ROWS.asked("r9y9/deepvoice3_pytorch position_encoding_init", ALTERNATE, "float64")
def position_encoding_init(n_position: int, d_pos_vec: int, position_rate: float = 1.0) -> Any:
    return alternate(angles(position_rate * np.arange(n_position), d_pos_vec))


@ROWS.asked("our own: (max_len, d_feature)", ALTERNATE)
def trax(max_len: int, d_feature: int) -> Any:
    return alternate(angles(np.arange(max_len), d_feature)).astype(np.float32)[None]


@ROWS.made(
    "our own: an object that keeps a table",
    Waves("cos_sin"),
    "float64",
)
class Kept:
    def __init__(self, dim: int = 64, num_embeddings: int = 512) -> None:
        theta = angles(np.arange(num_embeddings), dim)
        self.table = np.concatenate([np.cos(theta), np.sin(theta)], axis=-1)

    def __call__(self, position_ids: Any) -> Any:
        return self.table[position_ids]


@ROWS.asked("our own: adds a table to tokens", ALTERNATE, "float64")
def add_positions(embeddings: Any, offset: int = 0) -> Any:
    places = offset + np.arange(embeddings.shape[-2])
    return embeddings + alternate(angles(places, embeddings.shape[-1]))


@ROWS.asked("our own: lists of floats", ALTERNATE, "float64")
def as_lists(positions: Any, dim: int = 64) -> list[list[float]]:
    return [
        [
            (math.cos if i % 2 else math.sin)(int(p) / 10_000 ** (i // 2 * 2 / dim))
            for i in range(dim)
        ]
        for p in positions
    ]


# --- biases ---------------------------------------------------------------------------------------


def bucket(offsets: Any, both: bool, count: int, largest: int) -> Any:
    begin, n = 0, -offsets
    if both:
        count //= 2
        begin, n = (n < 0).astype(np.int32) * count, np.abs(n)
    n = np.maximum(n, 0)
    exact = count // 2
    far = np.log(np.maximum(n, 1) / exact) / math.log(largest / exact) * (count - exact)
    return begin + np.where(n < exact, n, np.minimum(exact + far.astype(np.int32), count - 1))


@ROWS.asked(
    "google/flaxformer RelativePositionBiases, NumPy buckets (qlen, klen)",
    Buckets(BUCKETS),
    options={"kind": "bias"},
)
def relative_position_bias(qlen: int, klen: int, bidirectional: bool = True) -> Any:
    offsets = np.arange(klen)[None] - np.arange(qlen)[:, None]
    return np.moveaxis(BUCKETS[bucket(offsets, bidirectional, 32, 128)], -1, 0)[None]


@ROWS.asked("our own: alibi of distances", Slopes(8), "float64")
def alibi_bias(distances: Any, n_heads: int = 8) -> Any:
    return -np.array(slopes(n_heads))[:, None, None] * np.abs(distances)


@ROWS.asked(
    "our own: alibi of positions of queries and keys", Slopes(12), "float64", options={"heads": 12}
)
def alibi(q_pos: Any, k_pos: Any, heads: int = 12) -> Any:
    return -np.array(slopes(heads))[:, None, None] * np.abs(k_pos[None, :] - q_pos[:, None])
