"""Scalings: how a ladder trained on one length is stretched to another."""

from typing import TYPE_CHECKING

from posenc._core.foreign import taught
from posenc.scaling.base import Scaling
from posenc.scaling.dynamic_ntk import DynamicNTK
from posenc.scaling.dype import DyPE
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.longrope import LongRoPE
from posenc.scaling.mixed_ntk import MixedNTK
from posenc.scaling.mrrope import MrRoPE
from posenc.scaling.multipliers import Multipliers
from posenc.scaling.ntk import NTK
from posenc.scaling.per_axis import PerAxis
from posenc.scaling.proportional import Proportional
from posenc.scaling.riflex import RIFLEx
from posenc.scaling.unit import Unit
from posenc.scaling.yarn import YaRN

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

# The file of a rule has its name in small letters, which is what people write for the rule: it
# would be taken in silence. `import posenc.scaling.ntk` finds the file all the same.
for _rule in __all__:
    globals().pop(_rule.lower(), None)

# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:
    __getattr__ = taught("posenc.scaling", [rule for rule in __all__ if rule != "Scaling"])
