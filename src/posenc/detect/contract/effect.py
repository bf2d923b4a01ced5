"""How large the effect of a field is, and at which position it begins."""

from __future__ import annotations

import math

import numpy as np

from posenc import functional
from posenc._core.spec import Spec
from posenc.detect.contract.fields import PLACES, numbers
from posenc.detect.contract.seen import NEAR, SEEN, probes
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["begins", "effect"]

DENSE = np.arange(4098)


def effect(a: Spec, b: Spec) -> tuple[float, int | None, str]:
    """How far numbers are apart, where that begins, and which numbers."""
    if isinstance(a, RotarySpec) and isinstance(b, RotarySpec):
        if a.axes != b.axes:
            return math.nan, None, ""
        where = DENSE if len(a.axes) == 1 else np.stack([DENSE] * len(a.axes), axis=-1)
        if a.pairs == b.pairs:
            one, two = _complex(a, where), _complex(b, where)
            off = np.abs(one - two).max(axis=1)
            if off.max() > 1e-12:
                return *begins(off, DENSE), "cos and sin"
        width = max(a.dim, b.dim) * (1 if a.channels.part == b.channels.part else 2)
        x = probes(width, len(NEAR))[:1]
        near = NEAR if len(a.axes) == 1 else np.stack([NEAR] * len(a.axes), axis=-1)
        turned = [
            np.asarray(functional.rotate(s.at(len(DENSE)), x[0], positions=near)) for s in (a, b)
        ]
        off = np.abs(turned[0] - turned[1]).max(axis=(0, 1, 3))
        if off.max() > 0:
            return *begins(off, NEAR), "a rotated query"
        return math.nan, None, ""
    one_, two_ = numbers(a), numbers(b)
    if one_ is None or two_ is None or one_.shape != two_.shape:
        return math.nan, None, ""
    off = np.abs(one_ - two_)
    if off.ndim == 3:
        return float(np.nanmax(off)), None, "biases"
    return *begins(off.max(axis=-1), PLACES[: len(off)]), "rows"


def _complex(spec: RotarySpec, where: np.ndarray) -> np.ndarray:
    cos, sin = functional.cos_sin(spec.at(len(DENSE)), where, dtype="float64")
    return np.asarray(cos) + 1j * np.asarray(sin)


def begins(off: np.ndarray, positions: np.ndarray) -> tuple[float, int]:
    """The largest difference, and the first position of a considerable one."""
    return float(off.max()), int(positions[off > min(SEEN, off.max() / 2)][0])
