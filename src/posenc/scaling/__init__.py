"""Scalings: how a ladder trained on one length is stretched to another. Kin share a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc._core.foreign import taught
from posenc.scaling.base import PerAxis, Scaling
from posenc.scaling.frequencies import LongRoPE, Multipliers, Proportional, RIFLEx, Unit
from posenc.scaling.interpolation import NTK, DynamicNTK, Linear, Llama3, MixedNTK
from posenc.scaling.ramps import DyPE, MrRoPE, YaRN

__all__ = [
    "NTK",
    "DyPE",
    "DynamicNTK",
    "Linear",
    "Llama3",
    "LongRoPE",
    "MixedNTK",
    "MrRoPE",
    "Multipliers",
    "PerAxis",
    "Proportional",
    "RIFLEx",
    "Scaling",
    "Unit",
    "YaRN",
]

# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:
    __getattr__ = taught("posenc.scaling", [rule for rule in __all__ if rule != "Scaling"])
