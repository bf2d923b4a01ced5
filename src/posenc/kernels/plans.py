"""What a kernel needs to know of a spec, in integers and words; worked out once and kept on it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.spec.field_types import texts_of
from posenc._core.tracing import compile_time
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.base import TableSpec, columns
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.kernels.requests import CosSin, Packed, Positions, Rotate

DTYPES = ("float32", "float16", "bfloat16")
# A move by fewer positions turns some pairs by less than half precision holds. 8,192 positions in
# moves of this many leave an error of 0.06 in bfloat16, in moves of 16 one of 0.24, of 1 a key that
# has nothing to do with what it was.
FAR = 64
QUARTER = np.int64(2**62)  # of a turn, by which a cosine is ahead of a sine


class Way(NamedTuple):
    """How arrays are turned, apart from where they are and what they hold."""

    kernel: str
    spec: RotarySpec
    packed: bool  # whether positions are the ends of packed sequences
    seq_dim: int
    inverse: bool


class Turning(NamedTuple):
    """A rotation or its inverse, or the transpose of either: the backward pass."""

    step: np.ndarray  # (axes, pairs) int64
    origin: np.ndarray | None  # (pairs,) int64
    source: str  # the order of channels before and after
    target: str
    part: str
    blocks: tuple[int, ...]
    sign: int
    factor: float  # on cosines and sines, which are divided by it where `divide` says so
    divide: bool


def why_not_dtype(dtype: Any) -> str | None:
    """Why the kernels do not compute in a dtype, or None."""
    name = dtype_name(dtype)
    return None if name in DTYPES else f"{name}, where it has {', '.join(DTYPES)}"


def why_not_positions(positions: Positions) -> str | None:
    """Why the kernels do not read positions, or None."""
    if isinstance(positions, (int, Packed)) or dtype_name(positions.dtype).startswith("int"):
        return None
    return "real positions, where it takes integers"


def why_no_turning(request: Rotate | CosSin) -> str | None:
    """Why the kernels cannot turn by the spec of a request, or None."""
    unknown = "a length whose value is not known"
    return why_no_pairs(request.spec) if request.choice is None else unknown


def why_no_pairs(spec: RotarySpec) -> str | None:
    """Why the kernels cannot turn pairs of channels by a spec, or None."""
    if not isinstance(spec, RoPE):
        # Another rotation may turn, scale or learn in its own way, whatever constants it has.
        return f"{type(spec).__name__}, where it knows RoPE"
    if spec.phase == "float32":
        return "phase='float32', whose bits are those of the array library"
    return None


def turning(spec: RotarySpec, *, inverse: bool, transposed: bool = False) -> Turning:
    """What turns the channels; for specs that `why_no_turning` has nothing against."""
    pairing = spec.channels
    source: str = pairing.order
    target = "half" if pairing.output == "half" else source
    backward = inverse != transposed
    if backward:
        source, target = target, source
    return Turning(
        spec.arrays["step"],
        spec.arrays.get("origin"),
        source,
        target,
        pairing.part,
        pairing.blocks,
        -1 if backward != (pairing.direction == "backward") else 1,
        spec.attention_factor,
        inverse,
    )


class PhaseDifference:
    """Constants of the angle between two rotations: one more set of axes, with steps negated."""

    def __init__(self, old: RotarySpec, new: RotarySpec) -> None:
        self.arrays = {"step": np.concatenate([new.arrays["step"], -old.arrays["step"]])}
        origins = [spec.arrays.get("origin") for spec in (old, new)]
        if any(origin is not None for origin in origins):
            before, after = (np.zeros(old.pairs, np.int64) if o is None else o for o in origins)
            self.arrays["origin"] = after - before
        self.texts = texts_of(self.arrays)
        self.device_arrays: dict[Any, Any] = {}


@compile_time
@functools.lru_cache(maxsize=64)
def difference(old: RotarySpec, new: RotarySpec) -> PhaseDifference:
    """The constants of two rotations that have integer phases."""
    return PhaseDifference(old, new)


def sides_of_move(old: Any, new: Any, xp: Any) -> Any:
    """Positions of both sides as those of a difference: (..., 2 * axes)."""
    shape = tuple(b if a == 1 else a for a, b in zip(old.shape, new.shape, strict=True))
    return xp.concat([xp.broadcast_to(new, shape), xp.broadcast_to(old, shape)], axis=-1)


class Columns(NamedTuple):
    """Each column of a table as the sine of a phase of its own."""

    step: np.ndarray  # (axes, dim) int64
    origin: np.ndarray  # (dim,) int64
    factor: float
    pad: int | None  # the position whose row is 0


def why_no_columns(spec: TableSpec) -> str | None:
    """Why the kernels cannot make the rows of a spec, or None."""
    if not isinstance(spec, Sinusoidal):
        return f"{type(spec).__name__}, where it knows Sinusoidal"
    if spec.phase == "float32":
        return "phase='float32', whose bits are those of the array library"
    return "a learned factor on the table" if spec.shapes else None


def padding(spec: Sinusoidal) -> int | None:
    """The position whose row is 0, as the caller counts."""
    arrangement = spec.arrangement
    return None if arrangement.pad is None else arrangement.pad - arrangement.start


def column_phases(spec: Sinusoidal) -> Columns:
    """The phases of the columns; for specs that `why_no_columns` has nothing against.

    The steps are laid out by the very function that lays out sines and cosines.
    """
    arrays, pairs = spec.arrays, spec.pairs
    s, so = arrays["step"], arrays.get("origin", np.zeros(pairs, np.int64))
    c, co = arrays.get("cosine_step", s), arrays.get("cosine_origin", so)
    with np.errstate(over="ignore"):
        co = co + QUARTER
    blocks, lone = spec.arrangement.blocks(pairs), spec.odd == "sin_extra"

    def laid(cosine: Any, sine: Any) -> np.ndarray:
        return columns(cosine, sine, spec.order, spec.dim, blocks, lone_sine=lone, xp=np)

    return Columns(laid(c, s), laid(co, so), spec.magnitude.table(spec.dim), padding(spec))
