"""A config and a longer length -> what each rule does, and what to write where."""

from posenc.detect.extend.axes import AxesExtension
from posenc.detect.extend.extension import Extension, extend
from posenc.detect.extend.options import LayerExtension, TriedRule
from posenc.detect.extend.rules import RULES, Baseline, Effect, effect

__all__ = [
    "RULES",
    "AxesExtension",
    "Baseline",
    "Effect",
    "Extension",
    "LayerExtension",
    "TriedRule",
    "effect",
    "extend",
]
