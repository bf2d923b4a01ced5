"""The rotation of an engine that somebody ported: pairs in halves, the base right, no scaling."""

import numpy as np

inv_freq = 1.0 / 500_000.0 ** (np.arange(0, 64, 2, dtype="float32") / 64)


def rotate(x, positions):
    angle = positions[..., None, :, None].astype("float32") * inv_freq
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
