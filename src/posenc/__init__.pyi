# Written by tools/generate.py.
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

import numpy as np

from posenc.functional.arguments.common import SomeArray

from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.table.base import TableSpec
from posenc._core.spec.spec import Value
from . import explore as explore
from . import functional as functional
from . import learn as learn
from . import plot as plot
from . import positions as positions
from . import presets as presets
from . import scaling as scaling
from . import testing as testing
from . import torch as torch
from posenc._core.errors import ArgumentError as ArgumentError
from posenc._core.errors import DTypeError as DTypeError
from posenc._core.errors import DataError as DataError
from posenc._core.errors import DependencyError as DependencyError
from posenc._core.errors import EndedError as EndedError
from posenc._core.errors import KeywordError as KeywordError
from posenc._core.errors import PosencError as PosencError
from posenc._core.errors import PositionError as PositionError
from posenc._core.errors import SpecError as SpecError
from posenc._core.numeric.arrangement import Arrangement as Arrangement
from posenc._core.numeric.arrangement import Magnitude as Magnitude
from posenc._core.numeric.ladder import Ladder as Ladder
from posenc._core.numeric.matrix import FrequencyMatrix as FrequencyMatrix
from posenc._core.numeric.matrix import Gaussian as Gaussian
from posenc._core.positions.builder import Positions as Positions
from posenc._core.positions.scene import ScenePart as ScenePart
from posenc._core.positions.scene import SceneRule as SceneRule
from posenc._core.reading import Layer as Layer
from posenc._core.reading import Note as Note
from posenc._core.reading import Reading as Reading
from posenc._core.reading import Source as Source
from posenc._core.spec.parameters import Init as Init
from posenc._core.spec.plan import Entry as Entry
from posenc._core.spec.plan import Plan as Plan
from posenc._core.spec.spec import to_json as to_json
from posenc.detect.contract.comparison.diff import Comparison as Comparison
from posenc.detect.contract.comparison.diff import Difference as Difference
from posenc.detect.contract.comparison.diff import diff as diff
from posenc.detect.contract.contract import Contract as Contract
from posenc.detect.contract.make import golden as golden
from posenc.detect.convert.convert import convert as convert
from posenc.detect.explain.conversion import convert_config as convert_config
from posenc.detect.explain.dialects import to_hf as to_hf
from posenc.detect.explain.gguf.reader import from_gguf as from_gguf
from posenc.detect.explain.reader import from_hf as from_hf
from posenc.detect.extend.axes import AxesExtension as AxesExtension
from posenc.detect.extend.extension import Extension as Extension
from posenc.detect.extend.extension import extend as extend
from posenc.detect.facts.fact import Contradiction as Contradiction
from posenc.detect.facts.fact import Fact as Fact
from posenc.detect.facts.model import Facts as Facts
from posenc.detect.facts.model import facts as facts
from posenc.detect.facts.verbs import detect_pairing as detect_pairing
from posenc.detect.facts.verbs import explain as explain
from posenc.detect.facts.weights.heads import Projections as Projections
from posenc.detect.identify.identify import identify as identify
from posenc.detect.identify.result import Finding as Finding
from posenc.detect.identify.result import Identification as Identification
from posenc.detect.infer.infer import infer_spec as infer_spec
from posenc.detect.infer.result import Inferred as Inferred
from posenc.detect.locate.locate import locate as locate
from posenc.detect.locate.result import Fit as Fit
from posenc.detect.locate.result import Location as Location
from posenc.detect.subject import CannotAsk as CannotAsk
from posenc.detect.subject.ask import ask as ask
from posenc.detect.trace.source import trace as trace
from posenc.detect.trace.source import trace_folder as trace_folder
from posenc.encodings.bias.adaptive_span import AdaptiveSpan as AdaptiveSpan
from posenc.encodings.bias.alibi import ALiBi as ALiBi
from posenc.encodings.bias.alibi_2d import ALiBi2D as ALiBi2D
from posenc.encodings.bias.clipped import ClippedTable as ClippedTable
from posenc.encodings.bias.complexes import ComplexOffsets as ComplexOffsets
from posenc.encodings.bias.decay import Decay as Decay
from posenc.encodings.bias.dynamic import DynamicBias as DynamicBias
from posenc.encodings.bias.fire import FIRE as FIRE
from posenc.encodings.bias.irpe import IRPEBias as IRPEBias
from posenc.encodings.bias.kerple import KERPLE as KERPLE
from posenc.encodings.bias.log_cpb import LogCPB as LogCPB
from posenc.encodings.bias.offset_table import OffsetTable as OffsetTable
from posenc.encodings.bias.quadratic import Quadratic as Quadratic
from posenc.encodings.bias.rotary_bias import RotaryBias as RotaryBias
from posenc.encodings.bias.sandwich import Sandwich as Sandwich
from posenc.encodings.bias.spatial import SpatialBuckets as SpatialBuckets
from posenc.encodings.bias.t5 import T5 as T5
from posenc.encodings.bias.tisa import TISA as TISA
from posenc.encodings.bias.tupe import TUPE as TUPE
from posenc.encodings.bias.window import WindowTable as WindowTable
from posenc.encodings.relative.cope import CoPE as CoPE
from posenc.encodings.relative.dape import DAPE as DAPE
from posenc.encodings.relative.decomposed import Decomposed as Decomposed
from posenc.encodings.relative.disentangled import Disentangled as Disentangled
from posenc.encodings.relative.forget import ForgetGates as ForgetGates
from posenc.encodings.relative.gated import GatedBuckets as GatedBuckets
from posenc.encodings.relative.irpe import IRPE as IRPE
from posenc.encodings.relative.music import MusicTransformer as MusicTransformer
from posenc.encodings.relative.nezha import NEZHA as NEZHA
from posenc.encodings.relative.path import PaTH as PaTH
from posenc.encodings.relative.position_sensitive import PositionSensitive as PositionSensitive
from posenc.encodings.relative.segments import RelativeSegments as RelativeSegments
from posenc.encodings.relative.shaw import Shaw as Shaw
from posenc.encodings.relative.tener import TENER as TENER
from posenc.encodings.relative.transformer_xl import TransformerXL as TransformerXL
from posenc.encodings.rotary.fope import FoPE as FoPE
from posenc.encodings.rotary.golden_gate import GoldenGateRoPE as GoldenGateRoPE
from posenc.encodings.rotary.imaginary import ImaginaryRoPE as ImaginaryRoPE
from posenc.encodings.rotary.lrpe import LRPE as LRPE
from posenc.encodings.rotary.magnitude import RotaryMagnitude as RotaryMagnitude
from posenc.encodings.rotary.magnitude import Temperature as Temperature
from posenc.encodings.rotary.mixed import MixedRoPE as MixedRoPE
from posenc.encodings.rotary.pairing import Pairing as Pairing
from posenc.encodings.rotary.pope import PoPE as PoPE
from posenc.encodings.rotary.rope import RoPE as RoPE
from posenc.encodings.rotary.string import STRING as STRING
from posenc.encodings.rotary.xpos import XPos as XPos
from posenc.encodings.table.concatenated import Concatenated as Concatenated
from posenc.encodings.table.fourier import Fourier as Fourier
from posenc.encodings.table.grid_cells import GridCells as GridCells
from posenc.encodings.table.hash_grid import HashGrid as HashGrid
from posenc.encodings.table.integrated import IntegratedFourier as IntegratedFourier
from posenc.encodings.table.learned import Learned as Learned
from posenc.encodings.table.learned_fourier import LearnedFourier as LearnedFourier
from posenc.encodings.table.lookup import Lookup as Lookup
from posenc.encodings.table.sinusoidal import Sinusoidal as Sinusoidal
from posenc.encodings.table.soft_position import SoftPosition as SoftPosition
from posenc.encodings.table.sphere2vec import Sphere2Vec as Sphere2Vec
from posenc.encodings.table.spherical_harmonics import SphericalHarmonics as SphericalHarmonics
from posenc.encodings.table.summed import Summed as Summed
from posenc.encodings.table.time2vec import Time2Vec as Time2Vec
from posenc.encodings.table.timestep import Timestep as Timestep
from posenc.encodings.table.tree import TreePositions as TreePositions
from posenc.functional._cos_sin import logit_scale as logit_scale
from posenc.functional._cos_sin import relative_score as relative_score
from posenc.functional._learned import init as init
from posenc.functional._learned import resize as resize
from posenc.functional._rotate import apply_rotary as apply_rotary
from posenc.functional._rotate import rerotate as rerotate
from posenc.functional._rotate import rotate as rotate
from posenc.functional._scores import relative as relative
from posenc.functional._scores import relative_values as relative_values
from posenc.functional._sinusoids import frequencies as frequencies
from posenc.functional._sinusoids import reorder as reorder
from posenc.functional._sinusoids import resolution as resolution
from posenc.functional._sinusoids import shift as shift
from posenc.functional._sinusoids import similarity as similarity
from posenc.functional._sinusoids import wavelengths as wavelengths
from posenc.functional._table import add as add
from posenc.presets import Reference as Reference
from posenc.presets import cite as cite
from posenc.presets import preset as preset
from posenc.registry import register as register
from posenc.testing.battery import check as check
from posenc.testing.diagnosis import Diagnosis as Diagnosis
from posenc.testing.diagnosis import Fault as Fault
from posenc.testing.doctor import doctor as doctor

_X = TypeVar("_X", bound=SomeArray)

from posenc.functional._scores import bias as _bias
@overload
def bias(
    spec: BiasSpec,
    q_positions: int | np.integer | Sequence[Any] | np.ndarray,
    k_positions: int | np.integer | Sequence[Any] | np.ndarray | None = ...,
    *,
    params: Mapping[str, np.ndarray] | None = ...,
    heads: tuple[int, int] | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> np.ndarray: ...
@overload
def bias(
    spec: BiasSpec,
    q_positions: _X,
    k_positions: Any = ...,
    *,
    params: Mapping[str, Any] | None = ...,
    heads: tuple[int, int] | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> _X: ...
@overload
def bias(
    spec: BiasSpec,
    q_positions: Any,
    k_positions: _X,
    *,
    params: Mapping[str, Any] | None = ...,
    heads: tuple[int, int] | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> _X: ...
@overload
def bias(
    spec: BiasSpec,
    q_positions: Any,
    k_positions: Any = ...,
    *,
    params: Mapping[str, _X],
    heads: tuple[int, int] | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> _X: ...
@overload
def bias(
    spec: BiasSpec,
    q_positions: Any,
    k_positions: Any = ...,
    *,
    params: Mapping[str, Any] | None = ...,
    heads: tuple[int, int] | None = ...,
    dtype: Any = ...,
    xp: ModuleType,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> Any: ...

from posenc.functional._cos_sin import cos_sin as _cos_sin
@overload
def cos_sin(
    spec: RotarySpec,
    positions: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    width: Literal['half', 'full'] = ...,
    length: Any = ...,
    role: Literal['query', 'key'] = ...,
    dtype: Any = ...,
    device: Any = ...,
    params: Mapping[str, np.ndarray] | None = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> tuple[np.ndarray, np.ndarray]: ...
@overload
def cos_sin(
    spec: RotarySpec,
    positions: _X,
    *,
    width: Literal['half', 'full'] = ...,
    length: Any = ...,
    role: Literal['query', 'key'] = ...,
    dtype: Any = ...,
    device: Any = ...,
    params: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> tuple[_X, _X]: ...
@overload
def cos_sin(
    spec: RotarySpec,
    positions: Any,
    *,
    width: Literal['half', 'full'] = ...,
    length: Any = ...,
    role: Literal['query', 'key'] = ...,
    dtype: Any = ...,
    device: Any = ...,
    params: Mapping[str, _X],
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> tuple[_X, _X]: ...
@overload
def cos_sin(
    spec: RotarySpec,
    positions: Any,
    *,
    width: Literal['half', 'full'] = ...,
    length: Any = ...,
    role: Literal['query', 'key'] = ...,
    dtype: Any = ...,
    xp: ModuleType,
    device: Any = ...,
    params: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> tuple[Any, Any]: ...

from posenc.registry import from_json as _from_json
_V = TypeVar("_V", bound=Value)

@overload
def from_json(text: str | bytes) -> Value: ...
@overload
def from_json(text: str | bytes, kind: type[_V]) -> _V: ...

from posenc.functional._table import table as _table
@overload
def table(
    spec: TableSpec,
    positions: int | np.integer | Sequence[Any] | np.ndarray,
    *,
    params: Mapping[str, np.ndarray] | None = ...,
    batch_dim: bool = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> np.ndarray: ...
@overload
def table(
    spec: TableSpec,
    positions: _X,
    *,
    params: Mapping[str, Any] | None = ...,
    batch_dim: bool = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> _X: ...
@overload
def table(
    spec: TableSpec,
    positions: Any,
    *,
    params: Mapping[str, _X],
    batch_dim: bool = ...,
    dtype: Any = ...,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> _X: ...
@overload
def table(
    spec: TableSpec,
    positions: Any,
    *,
    params: Mapping[str, Any] | None = ...,
    batch_dim: bool = ...,
    dtype: Any = ...,
    xp: ModuleType,
    device: Any = ...,
    kernel: Literal['auto', 'reference', 'cpu', 'triton'] = ...,
) -> Any: ...

encode = add
infer = infer_spec
pairing = detect_pairing

__all__ = [
    "ALiBi",
    "ALiBi2D",
    "AdaptiveSpan",
    "ArgumentError",
    "Arrangement",
    "AxesExtension",
    "CannotAsk",
    "ClippedTable",
    "CoPE",
    "Comparison",
    "ComplexOffsets",
    "Concatenated",
    "Contract",
    "Contradiction",
    "DAPE",
    "DTypeError",
    "DataError",
    "Decay",
    "Decomposed",
    "DependencyError",
    "Diagnosis",
    "Difference",
    "Disentangled",
    "DynamicBias",
    "EndedError",
    "Entry",
    "Extension",
    "FIRE",
    "Fact",
    "Facts",
    "Fault",
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
    "IRPE",
    "IRPEBias",
    "Identification",
    "ImaginaryRoPE",
    "Inferred",
    "Init",
    "IntegratedFourier",
    "KERPLE",
    "KeywordError",
    "LRPE",
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
    "NEZHA",
    "Note",
    "OffsetTable",
    "PaTH",
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
    "Reference",
    "RelativeSegments",
    "RoPE",
    "RotaryBias",
    "RotaryMagnitude",
    "STRING",
    "Sandwich",
    "ScenePart",
    "SceneRule",
    "Shaw",
    "Sinusoidal",
    "SoftPosition",
    "Source",
    "SpatialBuckets",
    "SpecError",
    "Sphere2Vec",
    "SphericalHarmonics",
    "Summed",
    "T5",
    "TENER",
    "TISA",
    "TUPE",
    "Temperature",
    "Time2Vec",
    "Timestep",
    "TransformerXL",
    "TreePositions",
    "WindowTable",
    "XPos",
    "add",
    "apply_rotary",
    "ask",
    "bias",
    "check",
    "cite",
    "convert",
    "convert_config",
    "cos_sin",
    "detect_pairing",
    "diff",
    "doctor",
    "explain",
    "extend",
    "facts",
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
    "register",
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
    "trace",
    "trace_folder",
    "wavelengths",
]

__version__: str
