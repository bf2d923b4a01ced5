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
    from posenc._core.reading import Layer, Note, Reading, Source
    from posenc.detect._findings import Finding, Identification
    from posenc.detect.dialects import to_hf
    from posenc.detect.explain import from_hf
    from posenc.detect.gguf import from_gguf
    from posenc.detect.identify import identify
    from posenc.detect.infer import infer_spec
    from posenc.detect.inferred import Inferred
    from posenc.detect.locate import locate
    from posenc.detect.location import Fit, Location
    from posenc.encodings.bias.alibi import ALiBi
    from posenc.encodings.bias.decay import Decay
    from posenc.encodings.bias.fire import FIRE
    from posenc.encodings.bias.kerple import KERPLE
    from posenc.encodings.bias.log_cpb import LogCPB
    from posenc.encodings.bias.sandwich import Sandwich
    from posenc.encodings.bias.t5 import T5
    from posenc.encodings.bias.tupe import TUPE
    from posenc.encodings.bias.window import WindowTable
    from posenc.encodings.relative.cope import CoPE
    from posenc.encodings.relative.decomposed import Decomposed
    from posenc.encodings.relative.disentangled import Disentangled
    from posenc.encodings.relative.music import MusicTransformer
    from posenc.encodings.relative.shaw import Shaw
    from posenc.encodings.relative.transformer_xl import TransformerXL
    from posenc.encodings.rotary.magnitude import RotaryMagnitude, Temperature
    from posenc.encodings.rotary.mixed import MixedRoPE
    from posenc.encodings.rotary.pairing import Pairing
    from posenc.encodings.rotary.rope import RoPE
    from posenc.encodings.rotary.xpos import XPos
    from posenc.encodings.table.concatenated import Concatenated
    from posenc.encodings.table.fourier import Fourier
    from posenc.encodings.table.learned import Learned
    from posenc.encodings.table.lookup import Lookup
    from posenc.encodings.table.sinusoidal import Sinusoidal
    from posenc.encodings.table.timestep import Timestep
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
    "posenc._core.reading": ("Layer", "Note", "Reading", "Source"),
    "posenc.detect.dialects": ("to_hf",),
    "posenc.detect.explain": ("from_hf",),
    "posenc.detect.gguf": ("from_gguf",),
    "posenc.detect._findings": ("Finding", "Identification"),
    "posenc.detect.identify": ("identify",),
    "posenc.detect.infer": ("infer_spec",),
    "posenc.detect.inferred": ("Inferred",),
    "posenc.detect.locate": ("locate",),
    "posenc.detect.location": ("Fit", "Location"),
    "posenc._core.parameters": ("Init",),
    "posenc.encodings.table.concatenated": ("Concatenated",),
    "posenc.encodings.table.learned": ("Learned",),
    "posenc.encodings.table.lookup": ("Lookup",),
    "posenc._core.mixing": ("FrequencyMatrix", "Gaussian"),
    "posenc.encodings.table.fourier": ("Fourier",),
    "posenc.encodings.rotary.magnitude": ("RotaryMagnitude", "Temperature"),
    "posenc.encodings.rotary.mixed": ("MixedRoPE",),
    "posenc.encodings.rotary.pairing": ("Pairing",),
    "posenc.encodings.rotary.rope": ("RoPE",),
    "posenc.encodings.rotary.xpos": ("XPos",),
    "posenc.encodings.table.sinusoidal": ("Sinusoidal",),
    "posenc.encodings.table.timestep": ("Timestep",),
    "posenc.encodings.bias.alibi": ("ALiBi",),
    "posenc.encodings.bias.t5": ("T5",),
    "posenc.encodings.bias.kerple": ("KERPLE",),
    "posenc.encodings.bias.fire": ("FIRE",),
    "posenc.encodings.bias.sandwich": ("Sandwich",),
    "posenc.encodings.bias.window": ("WindowTable",),
    "posenc.encodings.bias.log_cpb": ("LogCPB",),
    "posenc.encodings.bias.tupe": ("TUPE",),
    "posenc.encodings.bias.decay": ("Decay",),
    "posenc.encodings.relative.shaw": ("Shaw",),
    "posenc.encodings.relative.music": ("MusicTransformer",),
    "posenc.encodings.relative.transformer_xl": ("TransformerXL",),
    "posenc.encodings.relative.disentangled": ("Disentangled",),
    "posenc.encodings.relative.decomposed": ("Decomposed",),
    "posenc.encodings.relative.cope": ("CoPE",),
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
    "FIRE",
    "KERPLE",
    "T5",
    "TUPE",
    "ALiBi",
    "ArgumentError",
    "Arrangement",
    "CoPE",
    "Concatenated",
    "DTypeError",
    "DataError",
    "Decay",
    "Decomposed",
    "DependencyError",
    "Disentangled",
    "Entry",
    "Finding",
    "Fit",
    "Fourier",
    "FrequencyMatrix",
    "Gaussian",
    "Identification",
    "Inferred",
    "Init",
    "Ladder",
    "Layer",
    "Learned",
    "Location",
    "LogCPB",
    "Lookup",
    "Magnitude",
    "MixedRoPE",
    "MusicTransformer",
    "Note",
    "Pairing",
    "Plan",
    "PosencError",
    "PositionError",
    "Reading",
    "RoPE",
    "RotaryMagnitude",
    "Sandwich",
    "Shaw",
    "Sinusoidal",
    "Source",
    "SpecError",
    "Temperature",
    "Timestep",
    "TransformerXL",
    "WindowTable",
    "XPos",
    "add",
    "apply_rotary",
    "bias",
    "cos_sin",
    "extend",
    "frequencies",
    "from_gguf",
    "from_hf",
    "from_json",
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
