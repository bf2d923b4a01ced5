"""Every public name and the module that defines it: nothing is imported before it is used.

A line of `SPECS` makes an encoding: a name of `posenc`, of JSON, and of every command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

__version__ = "0.2.0"

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
    "ImaginaryRoPE": "posenc.encodings.rotary.imaginary",
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
    "PaTH": "posenc.encodings.relative.path",
}

VALUES: dict[str, str] = {
    "Arrangement": "posenc._core.numeric.arrangement",
    "FrequencyMatrix": "posenc._core.numeric.matrix",
    "Gaussian": "posenc._core.numeric.matrix",
    "Init": "posenc._core.spec.parameters",
    "Ladder": "posenc._core.numeric.ladder",
    "Lookup": "posenc.encodings.table.lookup",
    "Magnitude": "posenc._core.numeric.arrangement",
    "Entry": "posenc._core.spec.plan",
    "Note": "posenc._core.reading",
    "Plan": "posenc._core.spec.plan",
    "Positions": "posenc._core.positions.builder",
    "SceneRule": "posenc._core.positions.scene",
    "ScenePart": "posenc._core.positions.scene",
    "Source": "posenc._core.reading",
    "Pairing": "posenc.encodings.rotary.pairing",
    "RotaryMagnitude": "posenc.encodings.rotary.magnitude",
    "Temperature": "posenc.encodings.rotary.magnitude",
    "DyPE": "posenc.scaling.dype",
    "DynamicNTK": "posenc.scaling.dynamic_ntk",
    "Linear": "posenc.scaling.linear",
    "Llama3": "posenc.scaling.llama3",
    "LongRoPE": "posenc.scaling.longrope",
    "MixedNTK": "posenc.scaling.mixed_ntk",
    "MrRoPE": "posenc.scaling.mrrope",
    "Multipliers": "posenc.scaling.multipliers",
    "NTK": "posenc.scaling.ntk",
    "PerAxis": "posenc.scaling.per_axis",
    "Proportional": "posenc.scaling.proportional",
    "RIFLEx": "posenc.scaling.riflex",
    "Unit": "posenc.scaling.unit",
    "YaRN": "posenc.scaling.yarn",
    "Layer": "posenc._core.reading",
    "Reading": "posenc._core.reading",
}

# What is neither, by its module.
OTHERS: dict[str, tuple[str, ...]] = {
    "posenc._core.errors": (
        "ArgumentError",
        "DTypeError",
        "DataError",
        "DependencyError",
        "EndedError",
        "KeywordError",
        "PosencError",
        "PositionError",
        "SpecError",
    ),
    "posenc._core.spec.spec": ("to_json",),
    "posenc.detect.contract": ("Comparison", "Contract", "Difference", "diff", "golden"),
    "posenc.detect.convert": ("Projections", "convert", "detect_pairing"),
    "posenc.detect.explain": ("convert_config", "from_gguf", "from_hf", "to_hf"),
    "posenc.detect.facts": ("Contradiction", "Fact", "Facts", "explain", "facts"),
    "posenc.detect.extend": ("AxesExtension", "Extension", "extend"),
    "posenc.detect.identify": ("Finding", "Identification", "identify"),
    "posenc.detect.infer": ("Inferred", "infer_spec"),
    "posenc.detect.locate": ("Fit", "Location", "locate"),
    "posenc.detect.subject": ("CannotAsk", "ask"),
    "posenc.detect.trace.source": ("trace", "trace_folder"),
    "posenc.functional": (
        "add",
        "apply_rotary",
        "bias",
        "cos_sin",
        "frequencies",
        "init",
        "logit_scale",
        "relative",
        "relative_score",
        "relative_values",
        "reorder",
        "rerotate",
        "resize",
        "resolution",
        "rotate",
        "shift",
        "similarity",
        "table",
        "wavelengths",
    ),
    "posenc.presets": ("Reference", "cite", "preset"),
    "posenc.registry": ("from_json", "register"),
    "posenc.testing.battery": ("check",),
    "posenc.testing.doctor": ("Diagnosis", "Fault", "doctor"),
}

MODULES = ("positions", "presets", "scaling")

# Packages that `import posenc` offers, too; what they need is imported when they are used.
PACKAGES = ("explore", "functional", "learn", "plot", "testing", "torch")

# What the other parts are asked for, and where that is.
INSIDE = {
    "encodings": "Encodings are posenc.RoPE and others; their authors import posenc.encodings.api.",
    "registry": "posenc.from_json reads a spec, posenc.register takes an encoding of your own.",
    "detect": "Its functions are posenc.explain, posenc.infer, posenc.diff: dir(posenc).",
    "kernels": "The functions that compute take kernel=; `posenc doctor` lists the kernels.",
    "cli": "It is the command: `posenc --help`.",
}

# Functions under the names of their commands, too.
ALIASES = {"encode": "add", "infer": "infer_spec", "pairing": "detect_pairing"}

# Names that work as before and are not shown.
OLDER = {"extend_context": "extend"}

HOMES: dict[str, str] = {
    **SPECS,
    # The rules of `scaling` are names of their package.
    **{name: module for name, module in VALUES.items() if not module.startswith("posenc.scaling")},
    **{name: module for module, names in OTHERS.items() for name in names},
    **{name: f"posenc.{name}" for name in MODULES},
}

# What lower layers are handed: functions of layers above them, by their tasks. `posenc` itself puts
# them here, and each imports what it calls when it is called.
HANDED: dict[str, Callable[[Any], Any]] = {}


def has_part(folders: Iterable[str], name: str) -> bool:
    """Whether a package has a module, of which `from package import name` asks as an attribute."""
    return any({name, f"{name}.py"} & {*os.listdir(folder)} for folder in folders)  # noqa: PTH208
