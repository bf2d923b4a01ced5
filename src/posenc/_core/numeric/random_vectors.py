"""Vectors that stand in for the embeddings of words, where no model gives any."""

from __future__ import annotations

import hashlib

import numpy as np

UNIT = np.float32(2.0**-23)


def random_vectors(tokens: list[str], dim: int, seed: int) -> np.ndarray:
    """Vectors for words: the same word and seed give the same numbers, on any machine, for ever.

    Multiples of 2**-23, uniform in [-1, 1): so no library's random generator takes part.
    """
    vectors: dict[str, np.ndarray] = {}
    for token in {*tokens}:
        words = f"{seed} {token}".encode("utf-8", "surrogateescape")
        bits = np.frombuffer(hashlib.shake_256(words).digest(4 * dim), dtype="<u4") >> 8
        vectors[token] = (bits.astype(np.int64) - 2**23).astype(np.float32) * UNIT
    return np.stack([vectors[token] for token in tokens])
