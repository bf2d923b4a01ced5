"""Queries and keys turned by their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from posenc._core.foreign import own_arguments, refuse
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.functional.arguments.common import Array, Kernel, X
from posenc.functional.arguments.rotation import Rotation, at_once, read
from posenc.kernels import run


@own_arguments
def rotate(
    spec: RotarySpec,
    x: X,
    *more: Never,
    positions: Any = None,
    offset: Any = None,
    cu_seqlens: Any = None,
    seq_dim: int = -2,
    role: Role = "query",
    inverse: bool = False,
    length: Any = None,
    inplace: bool = False,
    params: Any = None,
    kernel: Kernel = "auto",
    **others: Never,
) -> X:
    """Turn the queries or keys of a sequence by their positions.

        x'[pair j of token t] = m * R(positions[t] * f[j]) x[pair j of token t]

    Parameters
    ----------
    spec : RotarySpec
        An encoding of the second kind.
    x : array
        (..., seq, channels), floating, with at least `spec.dim` channels; the others pass through.
    positions : array of integers, optional
        (seq,), (batch, seq) or the leading shape of `x`, with 1 where they do not vary; and a
        trailing axis for specs of several axes. 0, 1, … by default.
    offset : int or array of integers, optional
        Position of the first token: one number, or one per row. Not beside `positions`.
    cu_seqlens : array of integers, optional
        Cumulative lengths of sequences packed along the sequence axis; each counts from 0.
    seq_dim : int
        The axis of `x` that holds the sequence: -2, or -3 for (batch, seq, heads, channels) and
        flat (tokens, heads, channels).
    role : {"query", "key"}
        What `x` is; it matters where queries and keys are treated differently (xPos).
    inverse : bool
        Whether to undo the rotation instead.
    length : int or array, optional
        Length of the sequence, cached tokens included, for scalings that depend on it. An array of
        shape () may have a value that is not known yet (in compiled code) for rules of two sets of
        frequencies (`LongRoPE`), and then the reference computes both.
    inplace : bool
        Whether to write over `x`, a NumPy array or torch tensor; gradients stay right.
    params : mapping, optional
        Parameters of learned rotations.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it. A kernel that is named obeys or says why not; `auto` takes the first that
        can, else the reference. `posenc doctor` lists them.

    Returns
    -------
    array
        As `x`, in its dtype, rounded once; wider where the encoding makes a pair of each channel.
        float32 right to 1.8e-7 of the size of each pair, where pairs keep their size.

    Raises
    ------
    ArgumentError
        If shapes do not fit, positions are given twice, or a needed length is absent.
    DTypeError
        If `x` is not floating or the positions are not integers.
    PositionError
        If a position leaves what can be computed.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope = posenc.RoPE(4, pairing="half")
    >>> q = np.ones((1, 8, 3, 4), "float32")                    # batch, heads, seq, channels
    >>> posenc.rotate(rope, q, offset=5)[0, 0, 0].round(4)
    array([ 1.2426,  0.9488, -0.6753,  1.0487], dtype=float32)
    """
    if more or others:
        refuse(rotate, (spec, x, *more), others)
    inputs = ((x, role),)
    options = positions, offset, cu_seqlens, seq_dim, inverse, length, inplace, params, kernel
    turned = at_once(spec, inputs, options)
    if turned is None:
        turned = run(read(Rotation(spec, inputs, *options)), kernel)
    return turned[0]


def rotate_together(
    spec: RotarySpec,
    inputs: Sequence[tuple[Array, Any]],
    *,
    positions: Any = None,
    offset: Any = None,
    cu_seqlens: Any = None,
    seq_dim: int = -2,
    inverse: bool = False,
    length: Any = None,
    inplace: bool = False,
    params: Any = None,
    kernel: Kernel = "auto",
) -> tuple[Array, ...]:
    """`rotate` for several arrays at the same positions; cosines and sines are computed once."""
    options = positions, offset, cu_seqlens, seq_dim, inverse, length, inplace, params, kernel
    turned = at_once(spec, inputs, options)
    return run(read(Rotation(spec, inputs, *options)), kernel) if turned is None else turned
