"""What an author of an encoding imports: the kinds, what specs are built of, and their checks.

An encoding is a frozen dataclass of one of the four kinds. Its fields are numbers, texts, `Literal`
choices, tuples and values, so that it is its own JSON. Its methods take an array library as `xp`,
and give the same numbers on NumPy, PyTorch and JAX. The page "Adding an encoding" has the steps.

    kinds       TableSpec, RotarySpec, SpatialRotarySpec, BiasSpec, RelativeSpec; Scaling
    fields      Arrangement, Ladder, Magnitude, RotaryMagnitude, Pairing, Init, a Value of its own
    phases      PhaseMatrix, DenseMatrix; context, pi, steps, cos_sin, columns
    scores      distance, in_order; slopes_of, check_buckets, direction_thresholds, bucket_of
    arrays      arange, astype, along, device_of, gather, lookup, marked, product, concrete
    checks      positive, at_least, width_of, even_width, distinct, not_too_many
    errors      mismatch words what SpecError, ArgumentError and PositionError say
"""

from posenc._core.arrays.array import arange, astype, concrete, device_of, marked, product
from posenc._core.arrays.lookups import along, gather, lookup
from posenc._core.errors import ArgumentError, PositionError, SpecError, mismatch
from posenc._core.numeric.arrangement import Arrangement, Magnitude
from posenc._core.numeric.buckets import (
    Recipe,
    bucket_of,
    check_buckets,
    direction_thresholds,
    slopes_of,
)
from posenc._core.numeric.ladder import Float32Rungs, Ladder, Rungs, context, pi
from posenc._core.numeric.matrix import DenseMatrix, PhaseMatrix
from posenc._core.numeric.phase import cos_sin, steps
from posenc._core.spec.checks import (
    Example,
    at_least,
    distinct,
    even_width,
    not_too_many,
    positive,
    width_of,
)
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Spec, Value
from posenc.encodings.bias.base import BiasSpec, distance
from posenc.encodings.relative.base import Places, RelativeSpec, in_order
from posenc.encodings.rotary.base import Role, RotarySpec, SpatialRotarySpec
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.pairing import Order, Pairing
from posenc.encodings.table.base import TableSpec, columns
from posenc.scaling.base import Scaling, require_factor, require_length

__all__ = [
    "ArgumentError",
    "Arrangement",
    "BiasSpec",
    "DenseMatrix",
    "Example",
    "Float32Rungs",
    "Init",
    "Ladder",
    "Magnitude",
    "Order",
    "Pairing",
    "Parameter",
    "PhaseMatrix",
    "Places",
    "PositionError",
    "Recipe",
    "RelativeSpec",
    "Role",
    "RotaryMagnitude",
    "RotarySpec",
    "Rungs",
    "Scaling",
    "SpatialRotarySpec",
    "Spec",
    "SpecError",
    "TableSpec",
    "Value",
    "along",
    "arange",
    "astype",
    "at_least",
    "bucket_of",
    "check_buckets",
    "columns",
    "concrete",
    "context",
    "cos_sin",
    "device_of",
    "direction_thresholds",
    "distance",
    "distinct",
    "even_width",
    "gather",
    "in_order",
    "lookup",
    "marked",
    "mismatch",
    "not_too_many",
    "pi",
    "positive",
    "product",
    "require_factor",
    "require_length",
    "slopes_of",
    "steps",
    "width_of",
]
