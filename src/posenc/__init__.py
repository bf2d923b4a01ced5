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
    from posenc.detect.dialects import to_hf
    from posenc.detect.explain import from_hf
    from posenc.detect.gguf import from_gguf
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
        cos_sin,
        extend,
        frequencies,
        init,
        logit_scale,
        relative_score,
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
    "posenc.detect.dialects": ("to_hf",),
    "posenc.detect.explain": ("from_hf",),
    "posenc.detect.gguf": ("from_gguf",),
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
    "posenc.functional": (
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
    "ArgumentError",
    "Arrangement",
    "Concatenated",
    "DTypeError",
    "DataError",
    "DependencyError",
    "Entry",
    "Fourier",
    "FrequencyMatrix",
    "Gaussian",
    "Init",
    "Ladder",
    "Learned",
    "Lookup",
    "Magnitude",
    "MixedRoPE",
    "Pairing",
    "Plan",
    "PosencError",
    "PositionError",
    "RoPE",
    "RotaryMagnitude",
    "Sinusoidal",
    "SpecError",
    "Temperature",
    "Timestep",
    "XPos",
    "add",
    "apply_rotary",
    "cos_sin",
    "extend",
    "frequencies",
    "from_gguf",
    "from_hf",
    "from_json",
    "init",
    "logit_scale",
    "positions",
    "preset",
    "presets",
    "relative_score",
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
