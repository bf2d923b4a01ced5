"""Biases for FlexAttention: functions of one score, and blocks that nothing reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from posenc import functional, positions
from posenc._core.arrays.array import library, undivided
from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.base import BiasSpec
from posenc.functional.arguments.common import name_of, require
from posenc.functional.arguments.scores import head_range, known, sides

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@checked_call
def slopes(
    spec: BiasSpec,
    *,
    params: Mapping[str, Tensor] | None = None,
    heads: tuple[int, int] | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """The slopes of ALiBi, for attention kernels that take them.

    Parameters
    ----------
    spec : ALiBi
        The encoding; slopes of local heads come from the heads of the whole model.
    params : mapping of str to Tensor, optional
        The parameters, where slopes are learned.
    heads : (int, int), optional
        Only the heads [first, end).
    device : torch.device, optional
        Where the result goes.

    Returns
    -------
    Tensor
        (heads,) float32.

    Raises
    ------
    ArgumentError
        If the encoding has no slopes.

    Examples
    --------
    >>> import posenc
    >>> posenc.torch.slopes(posenc.ALiBi(8), heads=(0, 2))
    tensor([0.5000, 0.2500])
    """
    if not isinstance(spec, ALiBi):
        raise bad_argument(
            "slopes", "an ALiBi spec, as other biases are no straight lines", name_of(spec)
        )
    values, _ = _given(spec, params, heads, device)
    return spec.prepare(values, dtype=torch.float32, xp=library(torch))["slopes"]


@checked_call
def score_mod(
    spec: BiasSpec,
    q_positions: Any = None,
    k_positions: Any = None,
    *,
    params: Mapping[str, Tensor] | None = None,
    heads: tuple[int, int] | None = None,
    scale: float = 1.0,
    device: torch.device | None = None,
) -> ScoreMod:
    """The bias as a `score_mod` of FlexAttention.

        score_mod(score, b, h, i, j) = score + scale * bias[b, h, i, j]

    Where an entry takes few steps it is computed inside the kernel, and nothing of size q x k is
    stored; where it takes a sum or a perceptron (Sandwich, FIRE) it is read from the dense bias.
    Positions, slopes and tables are float32 or integers whatever the dtype of the scores.

    Parameters
    ----------
    spec : BiasSpec
        An encoding of the third kind.
    q_positions, k_positions : Tensor, optional
        Integers of shape (q,) or (batch, q), and for keys alike; for a spec of several axes with a
        trailing axis. By default the indices of the kernel, counted from 0.
    params : mapping of str to Tensor, optional
        The parameters of a learned encoding. FlexAttention has no backward on a CPU: there their
        gradients go through `posenc.bias`.
    heads : (int, int), optional
        The heads [first, end) of the spec that the kernel sees as heads 0, 1, ….
    scale : float
        1, or the scale of the scores for encodings that are added before it (`spec.place`).
    device : torch.device, optional
        Where constants go, if neither positions nor parameters say so.

    Returns
    -------
    callable
        For `torch.nn.attention.flex_attention.flex_attention`.

    Raises
    ------
    ArgumentError
        If positions are needed and absent, or do not fit the spec.

    Examples
    --------
    >>> import posenc, torch
    >>> from torch.nn.attention.flex_attention import flex_attention
    >>> mod = posenc.torch.score_mod(posenc.ALiBi(heads=2))
    >>> q, zero = torch.zeros(1, 2, 3, 4), torch.tensor(0)
    >>> mod(torch.tensor(0.0), zero, torch.tensor(1), torch.tensor(2), zero)
    tensor(-0.0078)
    """
    caller = f"score_mod({name_of(spec)})"
    require(spec, BiasSpec, "score_mod")
    undivided(caller, q_positions, k_positions, *(params or {}).values())
    xp = library(torch)
    if (q_positions is None) != (k_positions is None):
        raise bad_argument(caller, "q_positions and k_positions, or neither", "one of them")
    if q_positions is None and (len(spec.axes) > 1 or not spec.pointwise):
        raise bad_argument(
            f"{caller}: positions",
            "those of both sides",
            None,
            "It is no function of two indices.",
        )
    if not spec.pointwise:
        dense = functional.bias(
            spec, q_positions, k_positions, params=params, heads=heads, xp=torch, device=device
        )
        return _stored(dense * scale if scale != 1 else dense)
    values, home = _given(spec, params, heads, device)
    prepared = spec.prepare(values, dtype=torch.float32, xp=xp)
    if q_positions is None:
        read: Callable[[Tensor, Tensor, Tensor], Any] = _indices
    else:
        places = sides(spec.axes, q_positions, k_positions, xp=xp, device=home, caller=caller)
        read = _reader(
            tuple(axis[..., 0] for axis in places.q),
            tuple(axis[..., 0, :] for axis in places.k),
            caller,
        )

    def modified(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        m, n = read(b, i, j)
        entry = spec.score(m, n, h, prepared, dtype=torch.float32, xp=xp)
        return score + (entry * scale if scale != 1 else entry)

    return modified


def _given(spec: Any, params: Any, heads: Any, device: Any) -> tuple[dict[str, Any], Any]:
    """Constants and parameters of some heads, and the device they are on."""
    caller = name_of(spec)
    first, end = head_range(heads, spec.heads, caller)
    tensors = [p for p in (params or {}).values() if isinstance(p, Tensor)]
    undivided(caller, *tensors)
    device = tensors[0].device if device is None and tensors else device
    beside, xp = torch.empty(0, device=device), library(torch)
    return known(spec, params, first, end, beside, xp=xp, device=device, caller=caller), device


def _indices(_b: Tensor, i: Tensor, j: Tensor) -> tuple[tuple[Tensor], tuple[Tensor]]:
    return (i,), (j,)


def _reader(q: tuple[Tensor, ...], k: tuple[Tensor, ...], caller: str) -> Any:
    """What finds the coordinates of a query and a key by the indices of the kernel."""
    if max(q[0].ndim, k[0].ndim) > 2:
        raise bad_argument(
            caller, "positions of shape (q,) or (batch, q)", f"shape {tuple(q[0].shape)}"
        )
    q, k = (tuple(axis.reshape(-1, axis.shape[-1]) for axis in side) for side in (q, k))

    def read(b: Tensor, i: Tensor, j: Tensor) -> Any:
        m = tuple(axis[b if axis.shape[0] > 1 else b * 0, i] for axis in q)
        return m, tuple(axis[b if axis.shape[0] > 1 else b * 0, j] for axis in k)

    return read


def _stored(dense: Tensor) -> ScoreMod:
    """Entries of a dense bias (heads, q, k) or (batch, heads, q, k)."""
    batched = dense.ndim == 4 and dense.shape[0] > 1
    entries = dense.reshape(-1, *dense.shape[-3:])

    def modified(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + entries[b if batched else b * 0, h, i, j]

    return modified


@checked_call
def alibi_reach(
    spec: ALiBi,
    *,
    largest: float,
    dtype: torch.dtype = torch.float32,
    heads: tuple[int, int] | None = None,
) -> list[int | None]:
    """How far each head of ALiBi sees before all weights beyond are zero.

        exp(largest - slope * r - (-largest)) < tiny / 2         tiny: least positive number

    The largest score of a row is at least that of the token itself, -largest or more, as its bias
    is 0; a key at distance r has at most largest - slope * r. Their ratio bounds the weight.
    Below half the least positive number of `dtype`, subnormal ones counted, the weight is rounded
    to zero, and skipping its block changes nothing.

    Parameters
    ----------
    spec : ALiBi
        With fixed slopes; `form="symmetric"`, or `"causal"` under a causal mask. Every query must
        see a key at its own position.
    largest : float
        A bound on |q . k| * scale, such as the product of the largest norms.
    dtype : torch.dtype
        In which weights are held; float32 inside fused kernels, whatever the inputs are.
    heads : (int, int), optional
        Only the heads [first, end).

    Returns
    -------
    list of int or None
        The first distance that is skipped, for each head; None where a slope is zero.

    Raises
    ------
    ArgumentError
        If the encoding is none of that form, or the bound is no finite number of at least 0.

    Examples
    --------
    >>> import posenc
    >>> posenc.torch.alibi_reach(posenc.ALiBi(8), largest=10.0)
    [248, 496, 992, 1984, 3968, 7935, 15869, 31737]
    """
    if not isinstance(spec, ALiBi) or spec.form == "key_only" or spec.recipe == "learned":
        raise bad_argument(
            "alibi_reach", "ALiBi with fixed slopes and form 'symmetric' or 'causal'", repr(spec)
        )
    if not (math.isfinite(largest) and largest >= 0):
        raise bad_argument("alibi_reach: largest", "a finite number of at least 0", largest)
    first, end = head_range(heads, spec.heads, "alibi_reach")
    # torch.finfo knows the least normal number; the least subnormal is eps times that.
    info = torch.finfo(dtype)
    bound = 2 * largest - math.log(info.smallest_normal * info.eps / 2)
    slopes = spec.arrays["slopes"][first:end].tolist()
    return [math.floor(bound / slope) + 1 if slope else None for slope in slopes]


@checked_call
def alibi_mask_mod(
    spec: ALiBi,
    *,
    largest: float,
    mask: Literal["none", "causal"] = "none",
    heads: tuple[int, int] | None = None,
    device: torch.device | None = None,
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """A `mask_mod` that leaves out what ALiBi brings to a weight of zero, for block masks.

    Blocks of which no entry is left are not computed: heads with steep slopes see a short stretch
    of a long sequence. Where `largest` is a true bound on |q . k| * scale, weights are those
    without this mask.

    Parameters
    ----------
    spec : ALiBi
        With fixed slopes, and not of the form `key_only`.
    largest : float
        A bound on |q . k| * scale: see `posenc.torch.alibi_reach`, which derives the distances.
    mask : {"none", "causal"}
        Whether keys after the query are left out as well.
    heads : (int, int), optional
        The heads [first, end) of the spec that the kernel sees as heads 0, 1, ….
    device : torch.device, optional
        Where the distances go.

    Returns
    -------
    callable
        For `torch.nn.attention.flex_attention.create_block_mask`.

    Raises
    ------
    ArgumentError
        If the encoding or the bound do not allow it.

    Examples
    --------
    >>> import posenc, torch
    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> mod = posenc.torch.alibi_mask_mod(posenc.ALiBi(2), largest=1.0, mask="causal")
    >>> blocks = create_block_mask(mod, None, 2, 4096, 4096, device="cpu")
    >>> round(blocks.sparsity())
    56
    """
    distances = alibi_reach(spec, largest=largest, heads=heads)
    reach = torch.tensor([2**62 if r is None else r for r in distances], device=device)

    def seen(_b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        near = (i - j).abs() < reach[h]
        return near & (j <= i) if mask == "causal" else near

    return seen


@checked_call
def packed_mask_mod(
    cu_seqlens: Tensor,
    total: int | None = None,
    *,
    mask: Literal["none", "causal"] = "none",
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """A `mask_mod` in which the tokens of packed sequences see their own sequence, for block masks.

    Blocks between two sequences are not computed. The positions that belong to it are those of
    `posenc.positions.packed`, and the dense mask is `posenc.positions.packed_mask`.

    Parameters
    ----------
    cu_seqlens : Tensor
        (sequences + 1,), the cumulative lengths: sequence i is tokens cu_seqlens[i] to
        cu_seqlens[i + 1].
    total : int, optional
        Number of tokens of the row, if there are some past the last sequence.
    mask : {"none", "causal"}
        Whether keys after the query are left out as well.

    Returns
    -------
    callable
        For `torch.nn.attention.flex_attention.create_block_mask`.

    Raises
    ------
    ArgumentError
        If the lengths do not start at 0, fall, or contradict `total`.

    Examples
    --------
    >>> import posenc, torch
    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> ends = torch.tensor([0, 1024, 4096])
    >>> mod = posenc.torch.packed_mask_mod(ends, mask="causal")
    >>> blocks = create_block_mask(mod, None, None, 4096, 4096, device="cpu")
    >>> round(blocks.sparsity())
    67
    """
    segment = positions.segments(cu_seqlens, total)

    def seen(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        own = segment[i] == segment[j]
        return own & (j <= i) if mask == "causal" else own

    return seen
