"""The compiled kernels for CPUs.

Plans hold what belongs to a spec (steps, orders, factors), are made once for each spec, and are
immutable and safe to share between threads. Their methods take the arrays. The module declares that
it does not need the GIL: all else that calls share is atomic, behind a mutex, or of one thread.
Arrays are as safe as those of NumPy: two threads must not write to one.

Arrays are `numpy.ndarray` (float32, float16, or ml_dtypes' bfloat16) or CPU `torch.Tensor`
(float32, float16, bfloat16), of any strides; they are read and written where they lie. Nothing is
allocated but a few KiB for each thread. Before a pointer is touched, sizes, dtypes, writeability
and overlaps are checked: what does not fit raises `ValueError` (shapes, overlaps), `TypeError`
(dtypes, devices) or `BufferError` (read-only results). A result is either the very array it is
computed from (same memory, same strides: in place) or shares no element with any input.

Autograd, tensor subclasses and transforms are not looked at: the caller passes plain tensors, and
calls `torch.autograd.graph.increment_version` on those it had written over.

`positions` is either an `int`, the position of the first token, or integers (int64 or int32; NumPy
or CPU torch, any strides):

    (seq,)                one for each token
    (batch, seq)          or (1, seq); the first axis of the arrays is the batch
    (*leading, axes)      one size for each axis of the array before the channels, with 1 where
                          positions do not vary, and the axes of a position last: what
                          `functional._arguments.token_positions` gives

Where a phase has several axes the first two forms have a trailing axis (seq, axes), (batch, seq,
axes). Length 1 along the sequence, in an array of n > 1 tokens, is the position of the first token,
and those after it count up: so (batch, 1) is an offset for each row. The leading form needs arrays
of one rank.

`threads` is the largest number of threads to use; 0 means `default_threads()`. Small work runs in
the calling thread whatever the number.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

__all__ = [
    "INTERFACE",
    "Phases",
    "Rotation",
    "Sinusoids",
    "alibi",
    "buckets",
    "check_near",
    "default_threads",
    "instruction_set",
    "instruction_sets",
    "processor_quota",
    "set_past_caches",
    "team",
    "use_instruction_set",
]

# An array of NumPy or torch.
Array: TypeAlias = Any
Positions: TypeAlias = Any
Order: TypeAlias = Literal["half", "interleaved"]

INTERFACE: int
"""A number that changes when this file changes what a call means: 2."""

@final
class Phases:
    """The steps of a spec: `phase[p, j] = origin[j] + sum over a of position[p, a] * step[a, j]`.

    Parameters
    ----------
    step : numpy.ndarray
        int64 (axes, pairs), 2**64 to the turn: `spec.arrays["step"]`. Copied.
    origin : numpy.ndarray, optional
        int64 (pairs,), the phase of position 0: `spec.arrays.get("origin")`. Copied.
    """

    def __init__(self, step: Array, origin: Array | None = None) -> None: ...
    @property
    def axes(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    def cos_sin(
        self,
        positions: Positions,
        cos: Array,
        sin: Array,
        factor: float = 1.0,
        divide: bool = False,
        threads: int = 0,
    ) -> None:
        """Write cosines and sines.

        Parameters
        ----------
        positions : int or array of integers
            As in the module's description; the leading shape is that of `cos`.
        cos, sin : array
            Results: (..., seq, pairs), one shape and dtype; the sequence axis is the last but one.
        factor, divide
            Both are multiplied (divided) by `factor` in float32, unless it is 1.
        threads : int
            The largest number of threads to use.
        """

    def integers(self, positions: Array, quadrant: Array, residual: Array) -> None:
        """Write what sines are evaluated from, for tests.

        Parameters
        ----------
        positions : numpy.ndarray
            int64 (n, axes), contiguous.
        quadrant, residual : numpy.ndarray
            Results: int64 (n, pairs), contiguous; quadrants from 0 to 3, and what is left, as
            `quadrants` of `_core.phase` gives them.
        """

@final
class Rotation:
    """Turns pairs of channels: `a' = m (a cos - b sin)`, `b' = m (b cos + a sin)`.

    Parameters
    ----------
    phases : Phases
        The angles.
    source, target : {"half", "interleaved"}
        Where the two channels of a pair stand before and after. They differ where a pairing has
        `output="half"`; the transpose of such a rotation swaps them.
    part : {"leading", "trailing"}
        Which channels turn where an array has more than 2 * pairs. The rest is copied to a result
        that is another array.
    blocks : sequence of int
        Pairs in each block of channels, where the order holds within blocks; () is one block.
    sign : {1, -1}
        The sign of the angle: -1 where exactly one of "transposed" and `direction="backward"`
        holds.
    factor, divide
        Cosines and sines are multiplied (divided) by `factor` in float32, unless it is 1. The
        inverse of a rotation divides, its transpose (the backward pass) multiplies.
    """

    def __init__(
        self,
        phases: Phases,
        source: Order = "half",
        target: Order = "half",
        part: Literal["leading", "trailing"] = "leading",
        blocks: Sequence[int] = (),
        sign: int = 1,
        factor: float = 1.0,
        divide: bool = False,
    ) -> None: ...
    def turn(
        self,
        arrays: tuple[Array, ...],
        results: tuple[Array, ...],
        positions: Positions = 0,
        seq_dim: int = -2,
        threads: int = 0,
    ) -> None:
        """Turn one or several arrays at the same positions, such as q and k; all in one dtype.

        Parameters
        ----------
        arrays : tuple of arrays
            Each (..., channels) with at least 2 * pairs channels and at most seven axes before
            them; of one length along the sequence and any numbers of heads.
        results : tuple of arrays
            Of the same shapes and dtype, written to; `arrays` itself to work in place.
        positions : int or array of integers
            As in the module's description.
        seq_dim : int
            The axis of the sequence, from -2 down.
        threads : int
            The largest number of threads to use.
        """

@final
class Sinusoids:
    """Rows of sines and cosines, as `encodings.table.base.columns` lays them out.

    Parameters
    ----------
    phases : Phases
        The angles.
    dim : int
        Width of a row. Pairs beyond it are cut, columns beyond the pairs are 0.
    order : {"interleaved", "sin_cos", "cos_sin"}
        The order within each block.
    blocks : sequence of int
        Pairs in each block; () is one block.
    lone_sine : bool
        Whether an odd width loses the last cosine rather than the last column.
    factor : float
        Rows are multiplied by it in float32, unless it is 1.
    pad : int, optional
        The position (first axis, as given to the methods) whose row is 0.
    """

    def __init__(
        self,
        phases: Phases,
        dim: int,
        order: Literal["interleaved", "sin_cos", "cos_sin"] = "interleaved",
        blocks: Sequence[int] = (),
        lone_sine: bool = False,
        factor: float = 1.0,
        pad: int | None = None,
    ) -> None: ...
    def table(self, result: Array, positions: Positions = 0, threads: int = 0) -> None:
        """Write the rows: `result` (..., seq, dim); the sequence axis is the last but one."""

    def add(
        self,
        array: Array,
        result: Array,
        positions: Positions = 0,
        scale: float = 1.0,
        seq_dim: int = -2,
        threads: int = 0,
    ) -> None:
        """Write `array * scale + rows`, formed in float32 and rounded once.

        `result` is of the shape and dtype of `array`, and may be `array` itself.
        """

def check_near(
    q_positions: Array,
    k_positions: Array,
    rows: Array | None = None,
    ends: tuple[int, int] = (0, 0),
    backward: bool = False,
) -> None:
    """Raise `ValueError` unless every distance between two rows of positions fits 64 bits.

    To `rows`, int64 of shape (1, q, k), goes clip(key - query, *ends) - ends[0], or that of
    query - key where it is `backward`.
    """

def alibi(
    result: Array,
    q_positions: Array,
    k_positions: Array,
    slopes: Array,
    form: Literal["symmetric", "causal", "key_only"] = "symmetric",
    threads: int = 0,
) -> None:
    """Write linear biases: `slope[h] * -|n - m|`; 0 in the future (causal); `slope[h] * n`.

    Parameters
    ----------
    result : array
        (heads, q, k).
    q_positions, k_positions : array of integers
        (q,) and (k,).
    slopes : array of float32
        (heads,).
    form : {"symmetric", "causal", "key_only"}
        As in `posenc.ALiBi`.
    threads : int
        The largest number of threads to use.
    """

def buckets(
    result: Array,
    q_positions: Array,
    k_positions: Array,
    thresholds: Array,
    weight: Array,
    direction: Literal["bidirectional", "causal"] = "bidirectional",
    threads: int = 0,
) -> None:
    """Write biases by buckets of distance: `weight[bucket(n - m), h]`.

    Parameters
    ----------
    result : array
        (heads, q, k).
    q_positions, k_positions : array of integers
        (q,) and (k,).
    thresholds : array of int32
        Rising: the least distance in each bucket but the first, as in `posenc.T5`.
    weight : array of float32
        (buckets, heads), any strides. "bidirectional": the second half is for keys after the query.
    direction : {"bidirectional", "causal"}
        As in `posenc.T5`.
    threads : int
        The largest number of threads to use.
    """

def default_threads() -> int:
    """What the OpenMP that torch has loaded allows this thread, in forked children as well.

    Without one it is `OMP_NUM_THREADS` where that is a number, else the processors this process may
    run on, and no more than its control groups give it time for (see `processor_quota`).
    """

def processor_quota(root: str = "") -> float:
    """Processors' worth of time that the control groups of this process allow; 0 for no limit.

    Linux, versions 1 and 2: the least quota of its own group and those above. `root` stands before
    the files of the system, for tests.
    """

def team() -> Literal["openmp", "own"]:
    """Who lends the threads: the GNU OpenMP that is loaded with torch, or a pool of this module."""

def instruction_sets() -> tuple[str, ...]:
    """The instruction sets that were built and that this processor runs, the best one last."""

def instruction_set() -> str:
    """The one in use."""

def use_instruction_set(name: str) -> None:
    """Use another one from here on, in all threads; for tests and measurements."""

def set_past_caches(size: int) -> int:
    """Have results go past the caches where a call moves so many bytes; returns what it was.

    By default those of the largest cache. For tests and measurements.
    """
