"""Queries and keys turned: by their positions, to other positions, by cosines at hand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, Never

from posenc._core.arrays.array import (
    astype,
    compute_dtype,
    is_divided,
    namespace,
    rectangular,
    result_dtype,
    same_library,
)
from posenc._core.calls import numpy_rules, own_arguments, refuse, refuse_unfit
from posenc._core.errors import bad_argument, bad_spec
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.pairing import PAIRINGS, Order, Pairing, turn
from posenc.functional.arguments.common import (
    Array,
    Kernel,
    X,
    name_of,
    without_request,
    wrong_shape,
)
from posenc.functional.arguments.rotation import (
    Rotation,
    at_length,
    at_once,
    check_alike,
    checked,
    read,
    require_plain,
    warn_of_small_moves,
)
from posenc.functional.arguments.tokens import align, place_of, token_positions
from posenc.kernels import Rerotate, run
from posenc.kernels.reference import turned_by


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
        Length of the sequence, cached tokens included, for scalings that depend on it, and for no
        others: which tokens `x` holds is said by `positions`. An array of
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
    try:  # a wrapper would cost one token a frame
        turned = at_once(spec, inputs, options)
        if turned is None:
            turned = run(read(Rotation(spec, inputs, *options)), kernel)
    except Exception as error:
        values = zip(("role", *Rotation._fields[2:]), (role, *options), strict=True)
        refuse_unfit(error, rotate, (spec, x), dict(values))
        raise
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


@numpy_rules
def rerotate(
    spec: RotarySpec,
    k: X,
    old_positions: Any,
    new_positions: Any,
    new_spec: RotarySpec | None = None,
    *,
    seq_dim: int = -2,
) -> X:
    """Rerotate keys that are rotated already to other positions, or to another base or scaling.

        k' = R'(new) R(old)^-1 k

    The two phases are subtracted as integers, so the angle is exact however far keys move; each
    move rounds once, to the dtype of the keys. `n` moves differ from one by at most n roundings.

    In half precision that is much where moves are small: a pair that turns by less than half a
    unit in the last place (0.002 in bfloat16, 0.0002 in float16) stays where it was. A thousand
    moves by one position leave an error of half the key in bfloat16 and of 0.07 in float16, one
    move by a thousand 0.002 and 0.0003 (width 128, base 10000). So move keys seldom and far, or
    keep them in float32; `posenc.torch.cache` keeps them as written and adds up their moves.

    Parameters
    ----------
    spec : RotarySpec
        What the keys were rotated by; with a length-dependent scaling, `spec.at(length)`.
    k : array
        (..., seq, channels), keys as cached.
    old_positions, new_positions : array of integers
        (seq,), (batch, seq) or the leading shape of `k`.
    new_spec : RotarySpec, optional
        What they shall be rotated by; `spec` by default.
    seq_dim : int
        The axis of `k` that holds the sequence.

    Returns
    -------
    array
        As `k`, in its dtype.

    Raises
    ------
    SpecError
        If the two specs do not turn the same pairs.

    Warns
    -----
    UserWarning
        If keys in half precision move by fewer than 64 positions and some pairs cannot follow.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope, k = posenc.RoPE(4, pairing="half"), np.ones((3, 4))
    >>> cached = posenc.rotate(rope, k, positions=[7, 8, 9])
    >>> moved = posenc.rerotate(rope, cached, [7, 8, 9], [0, 1, 2])
    >>> bool(abs(moved - posenc.rotate(rope, k, positions=[0, 1, 2])).max() < 1e-15)
    True
    """
    direct = without_request()
    if direct is not None:
        result = direct.moved(
            spec, spec if new_spec is None else new_spec, k, old_positions, new_positions, seq_dim
        )
        if result is not None:
            return result
    caller = f"rerotate({name_of(spec)})"
    if is_divided(k, old_positions, new_positions):
        return _divided_move(
            spec, k, old_positions, new_positions, target=new_spec, seq_dim=seq_dim
        )
    target = spec if new_spec is None else new_spec
    (spec, _), (target, _) = (at_length(each, None, "rerotate") for each in (spec, target))
    check_alike(spec, target, caller)
    require_plain(spec, caller)
    if spec.channels.output == "half" and spec.channels.order != "half":
        raise bad_spec(
            caller,
            "keys in the order of the weights",
            "output='half'",
            "The turn has moved the channels of such keys: rotate the keys before it anew.",
        )
    xp, _ = checked(spec, k, f"{caller}: k")
    old, new = (
        token_positions(each, k, places, None, seq_dim=seq_dim, xp=xp, caller=caller, name=name)
        for each, places, name in (
            (spec, old_positions, "old_positions"),
            (target, new_positions, "new_positions"),
        )
    )
    if target == spec:
        warn_of_small_moves(spec, k, old, new, caller)
    return run(Rerotate(spec, target, k, old, new, seq_dim, xp, caller), "auto")


def _divided_move(
    spec: RotarySpec, k: Array, old: Any, new: Any, *, target: RotarySpec | None, seq_dim: int
) -> Array:
    from posenc.functional.arguments.divided import on_tokens

    def part_moved(k: Array, old: Any, new: Any) -> Array:
        return rerotate(spec, k, old, new, target, seq_dim=seq_dim)

    caller, last = f"rerotate({name_of(spec)})", int(len(spec.axes) > 1)
    return on_tokens(part_moved, ("k", k), seq_dim, {"old": old, "new": new}, caller, last=last)


@numpy_rules
def apply_rotary(
    x: X,
    cos: Array,
    sin: Array,
    *,
    pairing: Pairing | Order,
    width: Literal["half", "full"] = "half",
    seq_dim: int = -2,
    inplace: bool = False,
) -> X:
    """Turn by cosines and sines that are at hand.

        a' = a cos - b sin,   b' = b cos + a sin      for each pair (a, b) of channels

    Parameters
    ----------
    x : array
        (..., seq, channels), floating. Channels beyond the rotated width pass through.
    cos, sin : array
        (seq, pairs), (batch, seq, pairs) or the leading shape of `x` and pairs, as
        `posenc.cos_sin` gives them.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    width : {"half", "full"}
        Whether cos and sin have an entry for each pair, or for each channel as some models have it.
    seq_dim : int
        The axis of `x` that holds the sequence.
    inplace : bool
        Whether to write over `x`.

    Returns
    -------
    array
        As `x`, in its dtype; the arithmetic is float32 or better.

    Raises
    ------
    ArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> rope, q = posenc.RoPE(4, pairing="half"), np.ones((1, 8, 3, 4), "float32")
    >>> cos, sin = posenc.cos_sin(rope, 3)
    >>> bool((posenc.apply_rotary(q, cos, sin, pairing="half") == posenc.rotate(rope, q)).all())
    True
    """
    caller = "apply_rotary"
    if isinstance(pairing, str):
        pairing = PAIRINGS.get(pairing) or Pairing(pairing)
    if not isinstance(pairing, Pairing):
        raise bad_argument(
            f"{caller}: pairing", '"half", "interleaved" or a posenc.Pairing', repr(pairing)
        )
    if is_divided(x, cos, sin):
        from posenc.functional.arguments.divided import on_tokens

        local: Any = functools.partial(
            apply_rotary, pairing=pairing, width=width, seq_dim=seq_dim, inplace=inplace
        )
        places = {"cos": cos, "sin": sin}
        return on_tokens(local, ("x", x), seq_dim, places, caller, last=1, inplace=inplace)
    xp = namespace(x, f"{caller}: x")
    inner = compute_dtype(result_dtype(x, f"{caller}: x"), xp)
    for name, array in (("cos", cos), ("sin", sin)):
        rectangular(f"{caller}: {name}", array)
        same_library(array, xp, f"{caller}: {name}")
    if tuple(cos.shape) != tuple(sin.shape):
        raise bad_argument(
            caller, "cos and sin of one shape", f"{tuple(cos.shape)} and {tuple(sin.shape)}"
        )
    if width == "full":
        cos, sin = _half_width(cos, pairing), _half_width(sin, pairing)
    dim = 2 * cos.shape[-1]
    if len(x.shape) < 2 or dim > x.shape[-1]:
        raise wrong_shape(
            caller,
            f"x with at least {dim} channels, two for each of the {dim // 2} pairs",
            x,
            "Where cos and sin have an entry for each channel, say width='full'.",
        )
    lead, place = tuple(x.shape[:-1]), place_of(tuple(x.shape), seq_dim, caller)
    aligned = align(tuple(cos.shape[:-1]), lead, place, lead[place])
    if aligned is None:
        rows = f"{lead[place]}, {dim // 2}"
        raise wrong_shape(caller, f"cos of shape ({rows}) or (batch, {rows})", cos)
    cos, sin = (astype(xp.reshape(a, (*aligned, dim // 2)), inner, xp) for a in (cos, sin))
    by_angle = functools.partial(turn, cos=cos, sin=sin, pairing=pairing, xp=xp)
    return turned_by(
        x, by_angle, pairing, dim=dim, inner=inner, xp=xp, inplace=caller if inplace else None
    )


def _half_width(full: Array, pairing: Pairing) -> Array:
    """The entry of each pair, from arrays with an entry for each channel."""
    if pairing.blocks:
        raise bad_argument(
            "apply_rotary: width", "half-width cos and sin for a pairing of several blocks", "full"
        )
    return full[..., : full.shape[-1] // 2] if pairing.order == "half" else full[..., 0::2]
