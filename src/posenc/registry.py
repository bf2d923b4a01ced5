"""Every encoding and value by name, as import strings: nothing is imported before it is used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import cast

from posenc._core import spec as _spec
from posenc._core.errors import SpecError, explain, suggest
from posenc._core.spec import Spec, Value, to_json
from posenc._core.tracing import compile_time

__all__ = ["SPECS", "VALUES", "from_json", "lookup", "specs", "to_json"]

SPECS: dict[str, str] = {
    "Sinusoidal": "posenc.encodings.table.sinusoidal",
    "Learned": "posenc.encodings.table.learned",
    "Concatenated": "posenc.encodings.table.concatenated",
    "Fourier": "posenc.encodings.table.fourier",
    "Timestep": "posenc.encodings.table.timestep",
    "Time2Vec": "posenc.encodings.table.time2vec",
    "IntegratedFourier": "posenc.encodings.table.integrated",
    "GridCells": "posenc.encodings.table.grid_cells",
    "SphericalHarmonics": "posenc.encodings.table.spherical_harmonics",
    "Sphere2Vec": "posenc.encodings.table.sphere2vec",
    "SoftPosition": "posenc.encodings.table.soft_position",
    "LearnedFourier": "posenc.encodings.table.learned_fourier",
    "HashGrid": "posenc.encodings.table.hash_grid",
    "TreePositions": "posenc.encodings.table.tree",
    "Summed": "posenc.encodings.table.summed",
    "RoPE": "posenc.encodings.rotary.rope",
    "XPos": "posenc.encodings.rotary.xpos",
    "MixedRoPE": "posenc.encodings.rotary.mixed",
    "GoldenGateRoPE": "posenc.encodings.rotary.golden_gate",
    "LRPE": "posenc.encodings.rotary.lrpe",
    "PoPE": "posenc.encodings.rotary.pope",
    "FoPE": "posenc.encodings.rotary.fope",
    "STRING": "posenc.encodings.rotary.string",
    "ALiBi": "posenc.encodings.bias.alibi",
    "T5": "posenc.encodings.bias.t5",
    "KERPLE": "posenc.encodings.bias.kerple",
    "FIRE": "posenc.encodings.bias.fire",
    "Sandwich": "posenc.encodings.bias.sandwich",
    "WindowTable": "posenc.encodings.bias.window",
    "LogCPB": "posenc.encodings.bias.log_cpb",
    "TUPE": "posenc.encodings.bias.tupe",
    "Decay": "posenc.encodings.bias.decay",
    "TISA": "posenc.encodings.bias.tisa",
    "OffsetTable": "posenc.encodings.bias.offset_table",
    "ALiBi2D": "posenc.encodings.bias.alibi_2d",
    "ClippedTable": "posenc.encodings.bias.clipped",
    "Quadratic": "posenc.encodings.bias.quadratic",
    "SpatialBuckets": "posenc.encodings.bias.spatial",
    "AdaptiveSpan": "posenc.encodings.bias.adaptive_span",
    "RotaryBias": "posenc.encodings.bias.rotary_bias",
    "DynamicBias": "posenc.encodings.bias.dynamic",
    "IRPEBias": "posenc.encodings.bias.irpe",
    "ComplexOffsets": "posenc.encodings.bias.complexes",
    "Shaw": "posenc.encodings.relative.shaw",
    "MusicTransformer": "posenc.encodings.relative.music",
    "TransformerXL": "posenc.encodings.relative.transformer_xl",
    "Disentangled": "posenc.encodings.relative.disentangled",
    "Decomposed": "posenc.encodings.relative.decomposed",
    "CoPE": "posenc.encodings.relative.cope",
    "IRPE": "posenc.encodings.relative.irpe",
    "GatedBuckets": "posenc.encodings.relative.gated",
    "PositionSensitive": "posenc.encodings.relative.position_sensitive",
    "NEZHA": "posenc.encodings.relative.nezha",
    "TENER": "posenc.encodings.relative.tener",
    "RelativeSegments": "posenc.encodings.relative.segments",
    "DAPE": "posenc.encodings.relative.dape",
    "ForgetGates": "posenc.encodings.relative.forget",
}

VALUES: dict[str, str] = {
    "Arrangement": "posenc._core.ladder",
    "FrequencyMatrix": "posenc._core.mixing",
    "Gaussian": "posenc._core.mixing",
    "Init": "posenc._core.parameters",
    "Ladder": "posenc._core.ladder",
    "Lookup": "posenc.encodings.table.lookup",
    "Magnitude": "posenc._core.magnitude",
    "Entry": "posenc._core.plan",
    "Note": "posenc._core.reading",
    "Plan": "posenc._core.plan",
    "Positions": "posenc._core.positions",
    "Source": "posenc._core.reading",
    "Pairing": "posenc.encodings.rotary.pairing",
    "RotaryMagnitude": "posenc.encodings.rotary.magnitude",
    "Temperature": "posenc.encodings.rotary.magnitude",
    "DynamicNTK": "posenc.scaling.dynamic_ntk",
    "Linear": "posenc.scaling.linear",
    "Llama3": "posenc.scaling.llama3",
    "LongRoPE": "posenc.scaling.longrope",
    "MixedNTK": "posenc.scaling.mixed_ntk",
    "Multipliers": "posenc.scaling.multipliers",
    "NTK": "posenc.scaling.ntk",
    "Proportional": "posenc.scaling.proportional",
    "YaRN": "posenc.scaling.yarn",
    "Layer": "posenc._core.reading",
    "Reading": "posenc._core.reading",
}


def lookup(name: str) -> type[Value]:
    """The class of an encoding or composed value by its name.

    Raises
    ------
    SpecError
        If the name is unknown; the message suggests the nearest one.
    """
    module = SPECS.get(name) or VALUES.get(name)
    if module is None:
        todo = suggest(name, [*SPECS, *VALUES])
        raise SpecError(explain("posenc", "the name of an encoding or value", repr(name), todo))
    return cast("type[Value]", getattr(importlib.import_module(module), name))


def specs() -> Iterator[type[Spec]]:
    """Every encoding class, in the order of the registry."""
    for name in SPECS:
        yield cast("type[Spec]", lookup(name))


@compile_time
def from_json(text: str | bytes) -> Value:
    """Parse the JSON of a spec or value; the inverse of `to_json`.

    Keys may stand in any order and defaults may be left out.

    Parameters
    ----------
    text : str or bytes
        A JSON object with a key `type`.

    Returns
    -------
    Spec or Value
        An object equal to the one that wrote the text.

    Raises
    ------
    SpecError
        If the text is no JSON, a name or key is unknown (with a suggestion), a key is missing or
        stands twice, or a number is not finite.

    Examples
    --------
    >>> import posenc
    >>> posenc.from_json('{"type": "Sinusoidal", "dim": 512}') == posenc.Sinusoidal(512)
    True
    """
    return _spec.from_json(text, lookup)
