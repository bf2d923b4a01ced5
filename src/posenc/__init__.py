"""posenc: positional encodings for Transformers, exact at any position.

The public names; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc import positions, presets, scaling
    from posenc._core.errors import (
        ArgumentError,
        DataError,
        DependencyError,
        DTypeError,
        PosencError,
        PositionError,
        SpecError,
    )
    from posenc._core.ladder import Arrangement, Ladder
    from posenc._core.magnitude import Magnitude
    from posenc._core.mixing import FrequencyMatrix, Gaussian
    from posenc._core.parameters import Init
    from posenc._core.plan import Entry, Plan
    from posenc._core.positions import Positions
    from posenc._core.reading import Layer, Note, Reading, Source
    from posenc.detect.contract import Contract
    from posenc.detect.contract.diff import Comparison, Difference, diff
    from posenc.detect.contract.make import golden
    from posenc.detect.convert import Projections, detect_pairing
    from posenc.detect.convert.convert import convert
    from posenc.detect.explain import from_gguf, from_hf, to_hf
    from posenc.detect.identify import Finding, Identification
    from posenc.detect.identify.identify import identify
    from posenc.detect.infer import Inferred, infer_spec
    from posenc.detect.locate import Fit, Location
    from posenc.detect.locate.locate import locate
    from posenc.encodings.bias.adaptive_span import AdaptiveSpan
    from posenc.encodings.bias.alibi import ALiBi
    from posenc.encodings.bias.alibi_2d import ALiBi2D
    from posenc.encodings.bias.clipped import ClippedTable
    from posenc.encodings.bias.complexes import ComplexOffsets
    from posenc.encodings.bias.decay import Decay
    from posenc.encodings.bias.dynamic import DynamicBias
    from posenc.encodings.bias.fire import FIRE
    from posenc.encodings.bias.irpe import IRPEBias
    from posenc.encodings.bias.kerple import KERPLE
    from posenc.encodings.bias.log_cpb import LogCPB
    from posenc.encodings.bias.offset_table import OffsetTable
    from posenc.encodings.bias.quadratic import Quadratic
    from posenc.encodings.bias.rotary_bias import RotaryBias
    from posenc.encodings.bias.sandwich import Sandwich
    from posenc.encodings.bias.spatial import SpatialBuckets
    from posenc.encodings.bias.t5 import T5
    from posenc.encodings.bias.tisa import TISA
    from posenc.encodings.bias.tupe import TUPE
    from posenc.encodings.bias.window import WindowTable
    from posenc.encodings.relative.cope import CoPE
    from posenc.encodings.relative.dape import DAPE
    from posenc.encodings.relative.decomposed import Decomposed
    from posenc.encodings.relative.disentangled import Disentangled
    from posenc.encodings.relative.forget import ForgetGates
    from posenc.encodings.relative.gated import GatedBuckets
    from posenc.encodings.relative.irpe import IRPE
    from posenc.encodings.relative.music import MusicTransformer
    from posenc.encodings.relative.nezha import NEZHA
    from posenc.encodings.relative.position_sensitive import PositionSensitive
    from posenc.encodings.relative.segments import RelativeSegments
    from posenc.encodings.relative.shaw import Shaw
    from posenc.encodings.relative.tener import TENER
    from posenc.encodings.relative.transformer_xl import TransformerXL
    from posenc.encodings.rotary.fope import FoPE
    from posenc.encodings.rotary.golden_gate import GoldenGateRoPE
    from posenc.encodings.rotary.lrpe import LRPE
    from posenc.encodings.rotary.magnitude import RotaryMagnitude, Temperature
    from posenc.encodings.rotary.mixed import MixedRoPE
    from posenc.encodings.rotary.pairing import Pairing
    from posenc.encodings.rotary.pope import PoPE
    from posenc.encodings.rotary.rope import RoPE
    from posenc.encodings.rotary.string import STRING
    from posenc.encodings.rotary.xpos import XPos
    from posenc.encodings.table.concatenated import Concatenated
    from posenc.encodings.table.fourier import Fourier
    from posenc.encodings.table.grid_cells import GridCells
    from posenc.encodings.table.hash_grid import HashGrid
    from posenc.encodings.table.integrated import IntegratedFourier
    from posenc.encodings.table.learned import Learned
    from posenc.encodings.table.learned_fourier import LearnedFourier
    from posenc.encodings.table.lookup import Lookup
    from posenc.encodings.table.sinusoidal import Sinusoidal
    from posenc.encodings.table.soft_position import SoftPosition
    from posenc.encodings.table.sphere2vec import Sphere2Vec
    from posenc.encodings.table.spherical_harmonics import SphericalHarmonics
    from posenc.encodings.table.summed import Summed
    from posenc.encodings.table.time2vec import Time2Vec
    from posenc.encodings.table.timestep import Timestep
    from posenc.encodings.table.tree import TreePositions
    from posenc.functional import (
        add,
        apply_rotary,
        bias,
        cos_sin,
        extend,
        frequencies,
        init,
        logit_scale,
        relative,
        relative_score,
        relative_values,
        reorder,
        rerotate,
        resize,
        resolution,
        rotate,
        shift,
        similarity,
        table,
        wavelengths,
    )
    from posenc.presets import preset
    from posenc.registry import from_json, to_json

__version__ = "0.1.0"

_HOMES = {
    "posenc._core.errors": (
        "ArgumentError",
        "DTypeError",
        "DataError",
        "DependencyError",
        "PosencError",
        "PositionError",
        "SpecError",
    ),
    "posenc._core.ladder": ("Arrangement", "Ladder"),
    "posenc._core.magnitude": ("Magnitude",),
    "posenc._core.plan": ("Entry", "Plan"),
    "posenc._core.positions": ("Positions",),
    "posenc._core.reading": ("Layer", "Note", "Reading", "Source"),
    "posenc.detect.contract": ("Comparison", "Contract", "Difference", "diff", "golden"),
    "posenc.detect.convert": ("Projections", "convert", "detect_pairing"),
    "posenc.detect.explain": ("from_gguf", "from_hf", "to_hf"),
    "posenc.detect.identify": ("Finding", "Identification", "identify"),
    "posenc.detect.infer": ("Inferred", "infer_spec"),
    "posenc.detect.locate": ("Fit", "Location", "locate"),
    "posenc._core.parameters": ("Init",),
    "posenc.encodings.table.concatenated": ("Concatenated",),
    "posenc.encodings.table.learned": ("Learned",),
    "posenc.encodings.table.lookup": ("Lookup",),
    "posenc._core.mixing": ("FrequencyMatrix", "Gaussian"),
    "posenc.encodings.table.fourier": ("Fourier",),
    "posenc.encodings.rotary.magnitude": ("RotaryMagnitude", "Temperature"),
    "posenc.encodings.rotary.mixed": ("MixedRoPE",),
    "posenc.encodings.rotary.golden_gate": ("GoldenGateRoPE",),
    "posenc.encodings.rotary.lrpe": ("LRPE",),
    "posenc.encodings.rotary.pope": ("PoPE",),
    "posenc.encodings.rotary.fope": ("FoPE",),
    "posenc.encodings.rotary.string": ("STRING",),
    "posenc.encodings.rotary.pairing": ("Pairing",),
    "posenc.encodings.rotary.rope": ("RoPE",),
    "posenc.encodings.rotary.xpos": ("XPos",),
    "posenc.encodings.table.sinusoidal": ("Sinusoidal",),
    "posenc.encodings.table.timestep": ("Timestep",),
    "posenc.encodings.table.time2vec": ("Time2Vec",),
    "posenc.encodings.table.integrated": ("IntegratedFourier",),
    "posenc.encodings.table.grid_cells": ("GridCells",),
    "posenc.encodings.table.spherical_harmonics": ("SphericalHarmonics",),
    "posenc.encodings.table.sphere2vec": ("Sphere2Vec",),
    "posenc.encodings.table.soft_position": ("SoftPosition",),
    "posenc.encodings.table.learned_fourier": ("LearnedFourier",),
    "posenc.encodings.table.hash_grid": ("HashGrid",),
    "posenc.encodings.table.tree": ("TreePositions",),
    "posenc.encodings.table.summed": ("Summed",),
    "posenc.encodings.bias.alibi": ("ALiBi",),
    "posenc.encodings.bias.t5": ("T5",),
    "posenc.encodings.bias.kerple": ("KERPLE",),
    "posenc.encodings.bias.fire": ("FIRE",),
    "posenc.encodings.bias.sandwich": ("Sandwich",),
    "posenc.encodings.bias.window": ("WindowTable",),
    "posenc.encodings.bias.log_cpb": ("LogCPB",),
    "posenc.encodings.bias.tupe": ("TUPE",),
    "posenc.encodings.bias.decay": ("Decay",),
    "posenc.encodings.bias.tisa": ("TISA",),
    "posenc.encodings.bias.offset_table": ("OffsetTable",),
    "posenc.encodings.bias.alibi_2d": ("ALiBi2D",),
    "posenc.encodings.bias.clipped": ("ClippedTable",),
    "posenc.encodings.bias.quadratic": ("Quadratic",),
    "posenc.encodings.bias.spatial": ("SpatialBuckets",),
    "posenc.encodings.bias.adaptive_span": ("AdaptiveSpan",),
    "posenc.encodings.bias.rotary_bias": ("RotaryBias",),
    "posenc.encodings.bias.dynamic": ("DynamicBias",),
    "posenc.encodings.bias.irpe": ("IRPEBias",),
    "posenc.encodings.bias.complexes": ("ComplexOffsets",),
    "posenc.encodings.relative.shaw": ("Shaw",),
    "posenc.encodings.relative.music": ("MusicTransformer",),
    "posenc.encodings.relative.transformer_xl": ("TransformerXL",),
    "posenc.encodings.relative.disentangled": ("Disentangled",),
    "posenc.encodings.relative.decomposed": ("Decomposed",),
    "posenc.encodings.relative.cope": ("CoPE",),
    "posenc.encodings.relative.irpe": ("IRPE",),
    "posenc.encodings.relative.gated": ("GatedBuckets",),
    "posenc.encodings.relative.position_sensitive": ("PositionSensitive",),
    "posenc.encodings.relative.nezha": ("NEZHA",),
    "posenc.encodings.relative.tener": ("TENER",),
    "posenc.encodings.relative.segments": ("RelativeSegments",),
    "posenc.encodings.relative.dape": ("DAPE",),
    "posenc.encodings.relative.forget": ("ForgetGates",),
    "posenc.functional": (
        "relative_values",
        "relative",
        "bias",
        "add",
        "extend",
        "apply_rotary",
        "cos_sin",
        "frequencies",
        "init",
        "resize",
        "reorder",
        "logit_scale",
        "relative_score",
        "rerotate",
        "resolution",
        "rotate",
        "shift",
        "similarity",
        "table",
        "wavelengths",
    ),
    "posenc.presets": ("preset",),
    "posenc.registry": ("from_json", "to_json"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_HOME |= {name: f"posenc.{name}" for name in ("positions", "presets")}
_HOME["positions"] = "posenc.positions"
_HOME["scaling"] = "posenc.scaling"

__all__ = [
    "DAPE",
    "FIRE",
    "IRPE",
    "KERPLE",
    "LRPE",
    "NEZHA",
    "STRING",
    "T5",
    "TENER",
    "TISA",
    "TUPE",
    "ALiBi",
    "ALiBi2D",
    "AdaptiveSpan",
    "ArgumentError",
    "Arrangement",
    "ClippedTable",
    "CoPE",
    "ComplexOffsets",
    "Comparison",
    "Concatenated",
    "Contract",
    "DTypeError",
    "DataError",
    "Decay",
    "Decomposed",
    "Difference",
    "DependencyError",
    "Disentangled",
    "DynamicBias",
    "Entry",
    "Finding",
    "Fit",
    "FoPE",
    "ForgetGates",
    "Fourier",
    "FrequencyMatrix",
    "GatedBuckets",
    "Gaussian",
    "GoldenGateRoPE",
    "GridCells",
    "HashGrid",
    "IRPEBias",
    "Identification",
    "Inferred",
    "Init",
    "IntegratedFourier",
    "Ladder",
    "Layer",
    "Learned",
    "LearnedFourier",
    "Location",
    "LogCPB",
    "Lookup",
    "Magnitude",
    "MixedRoPE",
    "MusicTransformer",
    "Note",
    "OffsetTable",
    "Pairing",
    "Plan",
    "PoPE",
    "PosencError",
    "PositionError",
    "PositionSensitive",
    "Positions",
    "Projections",
    "Quadratic",
    "Reading",
    "RelativeSegments",
    "RoPE",
    "RotaryBias",
    "RotaryMagnitude",
    "Sandwich",
    "Shaw",
    "Sinusoidal",
    "SoftPosition",
    "Source",
    "SpatialBuckets",
    "SpecError",
    "Sphere2Vec",
    "SphericalHarmonics",
    "Summed",
    "Temperature",
    "Time2Vec",
    "Timestep",
    "TransformerXL",
    "TreePositions",
    "WindowTable",
    "XPos",
    "add",
    "apply_rotary",
    "bias",
    "convert",
    "cos_sin",
    "detect_pairing",
    "diff",
    "extend",
    "frequencies",
    "from_gguf",
    "from_hf",
    "from_json",
    "golden",
    "identify",
    "infer_spec",
    "init",
    "locate",
    "logit_scale",
    "positions",
    "preset",
    "presets",
    "relative",
    "relative_score",
    "relative_values",
    "reorder",
    "rerotate",
    "resize",
    "resolution",
    "rotate",
    "scaling",
    "shift",
    "similarity",
    "table",
    "to_hf",
    "to_json",
    "wavelengths",
]


# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            import difflib

            close = difflib.get_close_matches(name, __all__, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"module 'posenc' has no attribute {name!r}.{hint}")
        module = importlib.import_module(_HOME[name])
        value = module if _HOME[name] == f"posenc.{name}" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
