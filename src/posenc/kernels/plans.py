"""What a kernel needs to know of a spec, and what the compiled module makes of it.

That is integers and words, worked out once for each spec and kept on it.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.spec.checks import texts_of
from posenc._core.tracing import compile_time
from posenc.encodings.api import RelativeSpec, RotarySpec, TableSpec, columns
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.kernels.requests import CosSin, Packed, Positions, Rotate
from posenc.positions import packed

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
    return "attention factors that differ by axis, where it takes one" if spec.uneven else None


def why_other_order(spec: RotarySpec) -> str | None:
    """Why the channels of a spec are not in the one order that all kernels turn, or None."""
    other = spec.channels.blocks or spec.channels.output != "same"
    return "pairs in blocks, or a result in another order" if other else None


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


# --- the compiled module --------------------------------------------------------------------------

MISSING = Path(__file__).with_name("_native_missing.txt")
# The cache of pip keeps what it built without a compiler, and would install it once more.
AGAIN = "install posenc again by pip install --force-reinstall --no-cache-dir --no-deps"
INTERFACE = 3  # of the compiled module that these calls are written for


@functools.cache
def native() -> Any:
    """The compiled module, or a text that says why there is none."""
    try:
        import posenc.kernels._native as module
    except ImportError as error:
        reason = str(error)
        if MISSING.exists():  # the build leaves its last words there
            reason = MISSING.read_text(encoding="utf-8", errors="replace").strip()
        return f"not compiled ({reason}); {AGAIN}, with a C++ compiler at hand"
    interface = getattr(module, "INTERFACE", None)
    if interface != INTERFACE:
        return f"compiled for interface {interface}, where {INTERFACE} is needed; {AGAIN}"
    return module


def phases(spec: Any) -> Any:
    """The steps of a spec, as the compiled code holds them."""
    if "phases" not in spec.plans:
        spec.plans["phases"] = native().Phases(spec.arrays["step"], spec.arrays.get("origin"))
    return spec.plans["phases"]


def rotation(spec: Any, *, inverse: bool, transposed: bool) -> Any:
    """What turns channels."""
    key = ("turn", inverse, transposed)
    if key not in spec.plans:
        p = turning(spec, inverse=inverse, transposed=transposed)
        spec.plans[key] = native().Rotation(
            phases(spec), p.source, p.target, p.part, p.blocks, p.sign, p.factor, p.divide
        )
        if len(spec.axes) == 1 and not transposed:
            spec.plans["direct", inverse] = spec.plans[key]  # what `direct` asks for
    return spec.plans[key]


def moving(spec: Any, target: Any) -> tuple[Any, Any, bool]:
    """A rotation, what turns keys from another to it, and whether they are the same.

    The last one of a spec is kept.
    """
    last: tuple[Any, Any, bool] | None = spec.plans.get("move")
    if last is None or (last[0] is not target and last[0] != target):
        alike = spec == target  # then the angle is that of how far a key moves
        arrays = {"step": spec.arrays["step"]} if alike else difference(spec, target).arrays
        p, ratio = (
            turning(spec, inverse=False),
            target.attention_factor / spec.attention_factor,
        )
        steps = native().Phases(arrays["step"], arrays.get("origin"))
        plan = native().Rotation(steps, p.source, p.source, p.part, p.blocks, p.sign, ratio, False)
        last = spec.plans["move"] = target, plan, alike
    return last


def sinusoids(spec: Any) -> Any:
    """What makes the rows of a table."""
    if "rows" not in spec.plans:
        blocks, lone = spec.arrangement.blocks(spec.pairs), spec.odd == "sin_extra"
        factor, pad = spec.magnitude.table(spec.dim), padding(spec)
        spec.plans["rows"] = native().Sinusoids(
            phases(spec), spec.dim, spec.order, blocks, lone, factor, pad
        )
    return spec.plans["rows"]


def biases(spec: Any) -> tuple[Any, Any, tuple[int, ...] | None]:
    """What writes the entries of a bias, its slopes, and the shape of the weight it learns.

    entries(result, q_positions, k_positions, slopes or weight, threads)
    """
    if "bias" not in spec.plans:
        module, learned, slopes = native(), None, None
        if "slopes" in spec.arrays:
            slopes = spec.arrays["slopes"].astype(np.float32)
            entries = functools.partial(_alibi, module.alibi, spec.form)
        else:
            learned = spec.shapes["weight"]
            how = spec.arrays["thresholds"], spec.direction
            entries = functools.partial(_buckets, module.buckets, *how)
        spec.plans["bias"] = entries, slopes, learned
    return spec.plans["bias"]


def _alibi(write: Any, form: str, result: Any, q: Any, k: Any, slopes: Any, count: int) -> None:
    write(result, q, k, slopes, form, count)


def _buckets(
    write: Any,
    thresholds: Any,
    direction: str,
    result: Any,
    q: Any,
    k: Any,
    weight: Any,
    count: int,
) -> None:
    write(result, q, k, thresholds, weight, direction, count)


def remember_scores(spec: Any) -> None:
    """Let one token of a relative encoding go unread, where no position is out of its range."""
    free = type(spec).check_positions is RelativeSpec.check_positions and len(spec.axes) == 1
    if free and spec.heads is None and not isinstance(native(), str):
        spec.plans["relative"] = native().check_near, spec.shapes, spec.clipping


def threads() -> int:
    """How many threads torch would use where it is loaded; 0 leaves it to the kernel.

    Arrays of NumPy follow torch as well: one process has one number. torch carries what
    `set_num_threads` said to every thread and to forked children, and OpenMP alone does not.
    """
    ask = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return 0 if ask is None else int(ask())


def flat(positions: Positions, length: int) -> Any:
    """Positions as the compiled code takes them: a number or an array."""
    return packed(positions.ends, length) if isinstance(positions, Packed) else positions
