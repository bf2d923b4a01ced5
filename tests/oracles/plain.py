"""Encodings as somebody writes them in NumPy, from the papers; nothing here imports posenc.

A factory takes what an encoding has learned, as arrays, and returns a function of positions (seq,)
or (seq, axes): rows (seq, dim) of a table; cosines and sines (heads or 1, seq, pairs) of a
rotation; numbers (heads, queries, keys) of a bias, of the positions of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Params = dict[str, np.ndarray]
Function = Callable[..., Any]


def ladder(dim: int, base: float = 1e4) -> np.ndarray:
    return base ** (-np.arange(dim // 2) * 2 / dim)


def waves(angle: np.ndarray) -> np.ndarray:
    """Sine and cosine in turn."""
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(angle), -1)


def halves(angle: np.ndarray) -> np.ndarray:
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


# --- tables ---------------------------------------------------------------------------------------


def integrated(p: np.ndarray) -> np.ndarray:
    count = p.shape[1] // 2
    f = 2.0 ** np.arange(6)[:, None]
    angle, fade = (f * p[:, None, :count], np.exp(-(f**2) * p[:, None, count:] / 2))
    return np.concatenate([(fade * w(angle)).reshape(len(p), -1) for w in (np.sin, np.cos)], -1)


def grid_cells(p: np.ndarray) -> np.ndarray:
    scale = 0.5 * 20_000 ** (np.arange(4) / 3)
    turn = 2 * np.pi * np.arange(3) / 3
    along = p[:, :1] * np.cos(turn) + p[:, 1:] * np.sin(turn)
    return waves((along[:, None] / scale[:, None]).reshape(len(p), -1))


def harmonics(p: np.ndarray) -> np.ndarray:
    from numpy.polynomial import legendre

    lon, theta = np.radians(p[:, 0]) + np.pi, np.radians(p[:, 1]) + np.pi / 2
    x, s = np.cos(theta), np.abs(np.sin(theta))
    row = []
    for n in range(7):
        for m in range(-n, n + 1):
            k = abs(m)
            size = math.sqrt((2 * n + 1) / (4 * math.pi) * math.factorial(n - k)
                             / math.factorial(n + k))  # fmt: skip
            polynomial = legendre.legval(x, legendre.legder([0] * n + [1], k))
            value = size * s**k * polynomial * (math.sqrt(2) if m else 1)
            row.append(value * (np.sin(k * lon) if m < 0 else np.cos(k * lon)))
    return np.stack(row, -1)


def sphere(p: np.ndarray) -> np.ndarray:
    lon, lat = np.radians(p).T[..., None]
    scale = 0.5 * 720 ** (np.arange(3) / 2)
    a, o = lat / scale, lon / scale
    each = np.sin(a), np.cos(a) * np.cos(o), np.cos(a) * np.sin(o)
    return np.stack(each, -1).reshape(len(p), -1)


def soft(w: Params) -> Function:
    return lambda p: np.concatenate([p, 1 - p], -1) @ w["weight"] + w["bias"]


def learned_fourier(w: Params) -> Function:
    def rows(p: np.ndarray) -> np.ndarray:
        angle = p @ w["frequencies"].astype(float)
        wave = np.concatenate([np.cos(angle), np.sin(angle)], -1) / math.sqrt(2 * angle.shape[-1])
        hidden = wave @ w["weight1"] + w["bias1"]
        hidden = hidden / 2 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        return hidden @ w["weight2"] + w["bias2"]

    return rows


def hash_grid(w: Params) -> Function:
    def level(p: np.ndarray, side: int, table: np.ndarray) -> np.ndarray:
        low = np.minimum(np.floor(p * side), side - 1).astype(np.int64)
        part, out = p * side - low, 0.0
        for corner in np.ndindex(2, 2, 2):
            place = low + corner
            weight = np.where(corner, part, 1 - part).prod(-1)
            number = (place * [1, 2654435761, 805459861]) % 2**32
            number = np.bitwise_xor.reduce(number, axis=-1) % 128
            dense = (place * (side + 1) ** np.arange(3)).sum(-1)
            out = out + weight[:, None] * table[dense if (side + 1) ** 3 <= 128 else number]
        return np.asarray(out)

    sides = (2, 4, 9)
    return lambda p: np.concatenate(
        [level(p.astype(float), s, t) for s, t in zip(sides, w["table"], strict=True)], -1
    )


def tree(w: Params) -> Function:
    decay = np.tanh(w["decay"].astype(float))

    def rows(p: np.ndarray) -> np.ndarray:
        steps = (p[:, :, None] == np.arange(3))[..., None]
        size = decay ** np.arange(3)[:, None, None] * np.sqrt((1 - decay**2) * 9)
        return (steps * size).reshape(len(p), -1)

    return rows


def time2vec(w: Params) -> Function:
    def rows(p: np.ndarray) -> np.ndarray:
        angle = p[:, None] * w["frequency"].astype(float) + w["shift"]
        return np.concatenate([angle[:, :1], np.sin(angle[:, 1:])], -1)

    return rows


# --- rotations ------------------------------------------------------------------------------------


def angles(f: np.ndarray) -> Function:
    """Cosines and sines of frequencies (heads, axes, pairs)."""

    def cos_sin(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle = p.reshape(len(p), -1).astype(float) @ f.astype(float)
        return np.cos(angle), np.sin(angle)

    return cos_sin


def xpos(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = angles(ladder(16)[None, None])(p)
    share = (2 * np.arange(8) / 16 + 0.4) / 1.4
    size = share ** ((p[:, None] - 1000) / 512)
    return cos * size, sin * size


def fope(w: Params) -> Function:
    f = ladder(16)
    f = f[f >= 2 * np.pi / 512]

    def cos_sin(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle = p[:, None] * f
        cos, sin = np.cos(angle) @ w["cos_weight"], np.sin(angle) @ w["sin_weight"]
        rest = np.ones((*cos.shape[:-1], 8 - cos.shape[-1]))
        return np.concatenate([cos, rest], -1), np.concatenate([sin, rest], -1)

    return cos_sin


def imaginary(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = angles(ladder(16)[None, None])(p)
    return sin, -cos


def rotated(cos_sin: Function, basis: np.ndarray | None = None) -> Function:
    """Half pairing of x (batch, heads, seq, dim)."""

    def rotate(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        dtype = x.dtype
        rows = positions if positions.ndim > 2 or positions.shape[0] == len(x) else positions[None]
        x = x if basis is None else np.einsum("hij,bhsj->bhsi", basis, x)
        out = []
        for one, where in zip(x, np.broadcast_to(rows, (len(x), *rows.shape[1:])), strict=True):
            cos, sin = cos_sin(where)
            a, b = np.split(one, 2, axis=-1)
            out.append(np.concatenate([a * cos - b * sin, b * cos + a * sin], -1))
        return np.stack(out).astype(dtype)

    return rotate


def cayley(g: np.ndarray) -> np.ndarray:
    s = g.astype(float) - g.astype(float).swapaxes(1, 2)
    unit = np.eye(g.shape[-1])
    return (unit - s) @ np.linalg.inv(unit + s)


# --- biases ---------------------------------------------------------------------------------------


def slopes(heads: int) -> np.ndarray:
    below = 2 ** int(math.log2(heads))
    row = 2.0 ** (-8 * np.arange(1, below + 1) / below)
    more = 2.0 ** (-4 * np.arange(1, 2 * below + 1) / below)
    return np.concatenate([row, more[::2]])[:heads, None, None]


def offsets(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Key minus query: (queries, keys) or (axes, queries, keys)."""
    return np.moveaxis(k[None, :] - q[:, None], -1, 0) if q.ndim == 2 else k[None, :] - q[:, None]


def t5_buckets(far: np.ndarray, count: int, most: int) -> np.ndarray:
    side, exact = count // 2, count // 4
    n = np.abs(far)
    large = np.log(np.maximum(n, 1) / exact) / math.log(most / exact) * (side - exact)
    # The edge of a bucket may be a rounding away.
    bucket = np.where(n < exact, n, np.minimum(exact + np.floor(large + 1e-12), side - 1))
    return (bucket + side * (far > 0)).astype(np.int64)


def t5(w: Params, name: str = "weight", count: int = 32, most: int = 128) -> Function:
    return lambda q, k: np.moveaxis(w[name][t5_buckets(k[None] - q[:, None], count, most)], -1, 0)


def spatial(w: Params) -> Function:
    parts = t5(w), t5(w, "x_weight", 64, 256), t5(w, "y_weight", 64, 256)
    return lambda q, k: sum(part(q[:, i], k[:, i]) for i, part in enumerate(parts))


def kerple(w: Params) -> Function:
    r1, r2 = (np.maximum(w[n].astype(float), 0.01)[:, None, None] for n in ("r1", "r2"))
    return lambda q, k: -r1 * np.log1p(r2 * np.abs(offsets(q, k)))


def layered(x: np.ndarray, w: Params) -> np.ndarray:
    """A perceptron with one hidden layer, heads first."""
    hidden = np.maximum(x @ w["hidden_weight"].T.astype(float) + w["hidden_bias"], 0)
    return np.moveaxis(hidden @ w["head_weight"].T, -1, 0)


def fire(w: Params) -> Function:
    def psi(x: np.ndarray) -> np.ndarray:
        return np.log(np.abs(float(w["c"]) * x) + 1)

    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        far = psi(np.maximum(q, abs(float(w["threshold_factor"]) * 20.0)))[:, None] + 1e-6
        x = (psi(offsets(q, k)) / far)[..., None]
        hidden = np.maximum(x * w["hidden_weight"].reshape(-1) + w["hidden_bias"], 0)
        return np.moveaxis(hidden @ w["head_weight"].T + w["head_bias"], -1, 0)

    return bias


def sandwich(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    total = sum(np.cos(offsets(q, k) * f) for f in ladder(24))
    return total * (3 / (8 * np.arange(1, 4)))[:, None, None]


def log_cpb(w: Params) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        r = 8 * -np.moveaxis(offsets(q, k), 0, -1) / np.array([3, 4])
        x = np.sign(r) * np.log2(1 + np.abs(r)) / 3
        return 16 / (1 + np.exp(-layered(x, w)))

    return bias


def tupe(w: Params) -> Function:
    def side(rows: np.ndarray, name: str) -> np.ndarray:
        return np.einsum("hij,tj->hti", w[f"{name}_weight"], rows) + w[f"{name}_bias"][:, None]

    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        table = w["position"].astype(float)
        table = table - table.mean(-1, keepdims=True)
        table = table / np.sqrt((table**2).mean(-1, keepdims=True) + 1e-5)
        table = table * w["norm_weight"] + w["norm_bias"]
        rows = side(table, "query"), side(table, "key")
        whole = rows[0] @ rows[1].swapaxes(1, 2) / math.sqrt(2 * table.shape[-1] / 2)
        plain = whole[:, q[:, None] + 1, k[None] + 1]
        plain = np.where((k == 0)[None, None], whole[:, 1, 1][:, None, None], plain)
        return np.where((q == 0)[None, :, None], whole[:, 0, 0][:, None, None], plain)

    return bias


def quadratic(w: Params) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        away = offsets(q, k)[None] - w["centre"].astype(float)[:, :, None, None]
        return -w["alpha"][:, None, None] * (away**2).sum(1)

    return bias


def rotary_bias(w: Params, dtype: Any = np.float32) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        a, b = (w[n].astype(dtype) for n in ("alpha", "beta"))
        half = a.shape[1] // 2
        f = (1e4 ** (-np.arange(half) / half)).astype(dtype)

        def turned(v: np.ndarray, p: np.ndarray) -> np.ndarray:
            angle = p[:, None].astype(dtype) * f
            one, two = v[:, None, :half], v[:, None, half:]
            cos, sin = np.cos(angle), np.sin(angle)
            return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)

        return turned(a, q) @ turned(b, k).swapaxes(1, 2)

    return bias


def dynamic(w: Params) -> Function:
    def rectified(x: np.ndarray, i: int) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        return np.maximum(x * w["norm_weight"][i] + w["norm_bias"][i], 0)

    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        x = -np.moveaxis(offsets(q, k), 0, -1) @ w["offset_weight"].T.astype(float)
        x = x + w["offset_bias"]
        for i in range(2):
            x = rectified(x, i) @ w["hidden_weight"][i].T + w["hidden_bias"][i]
        return np.moveaxis(rectified(x, 2) @ w["head_weight"].T + w["head_bias"], -1, 0)

    return bias


def irpe(w: Params) -> Function:
    def piecewise(x: np.ndarray) -> np.ndarray:
        y = 1.9 + np.log(np.maximum(np.abs(x), 1) / 1.9) / math.log(8) * 1.9
        far = np.sign(x) * np.minimum(np.round(y), 3)
        return (np.where(np.abs(x) <= 1.9, np.round(x), far) + 3).astype(np.int64)

    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        y, x = piecewise(-offsets(q, k))
        return w["weight"][:, y * 7 + x]

    return bias


def complexes(w: Params) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        away = -offsets(q, k)
        chain, residue, entity = (away[i] == 0 for i in (0, 1, 3))

        def part(name: str, i: int, last: int, known: np.ndarray) -> np.ndarray:
            row = np.where(known, np.clip(away[i] + last, 0, 2 * last), 2 * last + 1)
            return w[name][row]

        total = part("residue_weight", 1, 4, chain) + part("token_weight", 2, 4, chain & residue)
        total = total + part("chain_weight", 4, 1, ~chain)
        return np.moveaxis(total + entity[..., None] * w["entity_weight"], -1, 0)

    return bias


def decay(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    far = offsets(q, k)
    gamma = np.log(1 - 2.0 ** (-5 - np.arange(4)))[:, None, None]
    return np.where(far <= 0, -far * gamma, -np.inf)


def adaptive_span(w: Params) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        mask = (8 + 20 * w["span"][:, None, None].astype(float) + offsets(q, k)) / 8
        with np.errstate(divide="ignore"):
            return np.log(np.clip(mask, 0, 1))

    return bias


def tisa(w: Params) -> Function:
    def bias(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        a, b, c = (
            w[n].astype(float)[..., None, None] for n in ("amplitude", "sharpness", "offset")
        )
        return (a * np.exp(-np.abs(b) * (offsets(q, k) - c) ** 2)).sum(0)

    return bias
