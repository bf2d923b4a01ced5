"""Scalings: how a ladder trained on one length is stretched to another. One file to a paper."""

from posenc.scaling.base import Scaling
from posenc.scaling.dynamic_ntk import DynamicNTK
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.longrope import LongRoPE
from posenc.scaling.mixed_ntk import MixedNTK
from posenc.scaling.multipliers import Multipliers
from posenc.scaling.ntk import NTK
from posenc.scaling.proportional import Proportional
from posenc.scaling.unit import Unit
from posenc.scaling.yarn import YaRN

__all__ = [
    "NTK",
    "DynamicNTK",
    "Linear",
    "Llama3",
    "LongRoPE",
    "MixedNTK",
    "Multipliers",
    "Proportional",
    "Scaling",
    "Unit",
    "YaRN",
]
