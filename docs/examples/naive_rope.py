"""The rotary function as it is copied from model to model, with its angles in the dtype of x."""

import numpy as np


def rotate(x, positions):
    """Turn pairs of channels (j, j + dim / 2) of x (batch, heads, seq, dim)."""
    dim = x.shape[-1]
    frequencies = (10_000.0 ** (-np.arange(dim // 2) * 2 / dim)).astype(x.dtype)
    angles = positions[..., None, :, None].astype(x.dtype) * frequencies
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
