"""Ports as people wrote them, each with one mistake of a public thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def ladder(base: float = 10000.0, width: int = 64) -> Array:
    """Frequencies as most ports write them."""
    return 1.0 / base ** (np.arange(0, width, 2, dtype="float32") / width)


def turned(x: Array, angle: Array, factor: float = 1.0) -> Array:
    """Leading channels turned in halves, the others kept."""
    width = 2 * angle.shape[-1]
    cos, sin = factor * np.cos(angle), factor * np.sin(angle)
    a, b, rest = np.split(x, [width // 2, width], axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1).astype(x.dtype)


def angles(positions: Array, frequencies: Array) -> Array:
    """(batch, 1, seq, pairs)."""
    return positions[..., None, :, None].astype("float32") * frequencies


def half(x: Array, positions: Array) -> Array:
    """A right one, of base 10000."""
    return turned(x, angles(positions, ladder()))


def interleaved(x: Array, positions: Array) -> Array:
    """Neighbours turn."""
    angle = angles(positions, ladder())
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., 0::2], x[..., 1::2]
    return (
        np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape).astype(x.dtype)
    )


def joined(x: Array, positions: Array) -> Array:
    """Neighbours turn, and what they become is joined in halves."""
    return interleaved(x, positions)[..., [*range(0, 64, 2), *range(1, 64, 2)]]


def whole_head(x: Array, positions: Array) -> Array:
    """Every channel turns."""
    return turned(x, angles(positions, ladder(10000.0, x.shape[-1])))


def quarter(x: Array, positions: Array) -> Array:
    """The leading 16 channels turn."""
    return turned(x, angles(positions, ladder(10000.0, 16)))


def whole_pairs(x: Array, positions: Array) -> Array:
    """Every channel turns, in neighbours."""
    order = [*range(0, x.shape[-1], 2), *range(1, x.shape[-1], 2)]
    return whole_head(x[..., order], positions)[..., np.argsort(order)]


def other_way(x: Array, positions: Array) -> Array:
    """The sine has the other sign."""
    return turned(x, -angles(positions, ladder()))


def exchanged(x: Array, positions: Array) -> Array:
    """The sines are taken for cosines."""
    angle = angles(positions, ladder())
    cos, sin = np.sin(angle), np.cos(angle)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def growing(x: Array, positions: Array) -> Array:
    """The exponent has lost its sign."""
    return turned(x, angles(positions, 10000.0 ** (np.arange(0, 64, 2) / 64)))


def coarse(x: Array, positions: Array) -> Array:
    """Positions in bfloat16."""
    bits = positions.astype("float32").view("uint32")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return turned(x, angles(rounded.astype("uint32").view("float32"), ladder()))


def first_row(x: Array, positions: Array) -> Array:
    """The positions of the first row serve all rows."""
    return turned(x, angles(positions[:1], ladder()))


def from_zero(x: Array, offset: int = 0) -> Array:
    """The offset of a cache is not read."""
    return turned(x, angles(np.arange(x.shape[-2])[None], ladder()))


def window_at_start(x: Array, offset: int = 0) -> Array:
    """All tokens of a step stand at its first position."""
    return turned(x, angles(np.full((1, x.shape[-2]), offset), ladder()))


class Remembered:
    """Angles are kept by the length of a sequence, and not by where it starts."""

    def __init__(self) -> None:
        self.kept: dict[int, Array] = {}

    def __call__(self, x: Array, offset: int = 0) -> Array:
        """Turn a sequence."""
        length = x.shape[-2]
        if length not in self.kept:
            self.kept[length] = angles(np.arange(offset, offset + length)[None], ladder())
        return turned(x, self.kept[length])


def swapped_layers(x: Array, positions: Array, layer: str) -> Array:
    """Local and global layers have each other's base."""
    base = 1_000_000.0 if "sliding" in layer else 10_000.0
    return turned(x, angles(positions, ladder(base)))


def scaled_everywhere(x: Array, positions: Array, layer: str) -> Array:
    """The scaling of global layers is in local ones too."""
    base = 10_000.0 if "sliding" in layer else 1_000_000.0
    return turned(x, angles(positions, ladder(base) / 8))


def unscaled(x: Array, positions: Array, layer: str) -> Array:
    """No layer has a scaling."""
    base = 10_000.0 if "sliding" in layer else 1_000_000.0
    return turned(x, angles(positions, ladder(base)))


def yarn(factor: float) -> Callable[..., Array]:
    """Frequencies of YaRN with a factor on the cosines."""
    import posenc

    config = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
    made = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_scaling": config}
    numbers = posenc.frequencies(posenc.from_hf(made)["attention"].spec)

    def rotate(x: Array, positions: Array) -> Array:
        return turned(x, angles(positions, numbers), factor)

    return rotate


def slopes(per_head: Array) -> Callable[..., Array]:
    """Biases of slopes."""

    def bias(q_positions: Array, k_positions: Array) -> Array:
        distance = np.abs(q_positions[:, None] - k_positions[None, :])
        return -per_head[:, None, None] * distance

    return bias


def geometric(heads: int) -> Array:
    """One sequence, whatever the number of heads."""
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


def early(heads: int) -> Array:
    """The first exponent is 0."""
    return 2.0 ** (-8 * np.arange(heads) / heads)


def by_length(length: int) -> Array:
    """Biases of a length, of 12 heads."""
    line = np.arange(length)
    return slopes(geometric(12))(line, line)


class Buckets:
    """T5's biases of a decoder, in the buckets of an encoder."""

    def __init__(self, weight: Array) -> None:
        self.params = {"weight": weight}

    def bias(self, q_positions: Array, k_positions: Array, layer: str) -> Array:
        """(heads, q, k)."""
        import posenc

        spec = posenc.T5(self.params["weight"].shape[1], direction="bidirectional")
        return np.asarray(posenc.bias(spec, q_positions, k_positions, params=self.params))


def of_base(base: Any) -> Callable[..., Array]:
    """A port of another base."""

    def rotate(x: Array, positions: Array) -> Array:
        return turned(x, angles(positions, ladder(base)))

    return rotate
