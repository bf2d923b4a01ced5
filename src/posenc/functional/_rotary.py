"""Verbs of the second kind: rotations of queries and keys."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from posenc import kernels
from posenc import positions as _positions
from posenc._core.array import (
    astype,
    compute_dtype,
    constants,
    device_of,
    dtype_name,
    dtype_named,
    integers,
    is_array,
    is_compiling,
    is_divided,
    is_foreign,
    is_torch,
    library,
    namespace,
    numpy_rules,
    reals,
    result_dtype,
    undivided,
)
from posenc._core.errors import ArgumentError, SpecError, explain
from posenc._core.inplace import check_apart, overwrite
from posenc._core.phase import Halves, Words
from posenc._core.phase import cos_sin as phase_cos_sin
from posenc._core.spec import texts_of
from posenc._core.tracing import compile_time
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.magnitude import Temperature
from posenc.encodings.rotary.pairing import PAIRINGS, Order, Pairing, turn
from posenc.functional._drift import warn_of_small_moves
from posenc.functional._lengths import Choice, at_length
from posenc.functional._parameters import parameters
from posenc.functional.arguments import (
    Kernel,
    X,
    align,
    asked_positions,
    asks,
    check_length,
    check_tokens,
    home,
    name_of,
    place_of,
    require,
    token_positions,
    with_axes,
)

__all__ = [
    "apply_rotary",
    "cos_sin",
    "logit_scale",
    "relative_score",
    "rerotate",
    "rotate",
    "rotate_together",
]

Array = Any
DIRECT = ("auto", "cpu")


def rotate(
    spec: RotarySpec,
    x: X,
    *,
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
    (turned,) = rotate_together(
        spec,
        [(x, role)],
        positions=positions,
        offset=offset,
        cu_seqlens=cu_seqlens,
        seq_dim=seq_dim,
        inverse=inverse,
        length=length,
        inplace=inplace,
        params=params,
        kernel=kernel,
    )
    return turned


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
    """`rotate` for several arrays at the same positions; cosines and sines are computed once.

    Parameters
    ----------
    spec : RotarySpec
        An encoding of the second kind.
    inputs : sequence of (array, role)
        Arrays of one sequence length and any numbers of heads.
    positions, offset, cu_seqlens, seq_dim, inverse, length, inplace, params, kernel
        As for `rotate`.

    Returns
    -------
    tuple of arrays
        The arrays turned, in order.
    """
    if length is not None:
        x = inputs[0][0] if inputs else None
        check_length(
            length,
            _tokens(x, seq_dim),
            positions,
            offset,
            cu_seqlens,
            who=f"rotate({name_of(spec)})",
        )
    if kernel in DIRECT and cu_seqlens is None:
        rotated = _direct()
        if rotated is not None:
            done = rotated(spec, inputs, positions, offset, seq_dim, inverse, inplace)
            if done is not None:
                return done
    given = positions, offset, cu_seqlens
    how: dict[str, Any] = {"seq_dim": seq_dim, "inverse": inverse, "inplace": inplace}
    return _together(spec, inputs, given, length=length, params=params, kernel=kernel, **how)


@numpy_rules
def _together(
    spec: RotarySpec,
    inputs: Sequence[tuple[Array, Any]],
    given: tuple[Any, Any, Any],
    *,
    length: Any,
    params: Any,
    kernel: Kernel,
    seq_dim: int,
    inverse: bool,
    inplace: bool,
) -> tuple[Array, ...]:
    """The arrays turned by the first kernel that can, else by the reference."""
    who = f"rotate({name_of(spec)})"
    arrays = [x for x, _ in inputs]
    check_tokens(arrays, seq_dim, who)
    learned = params.values() if isinstance(params, Mapping) else ()
    if is_divided(*arrays, *given, *learned):
        options = {"length": length, "inverse": inverse, "kernel": kernel}
        options.update(seq_dim=seq_dim, inplace=inplace)
        return tuple(
            _divided_turn(spec, x, given, params, {**options, "role": role}) for x, role in inputs
        )
    spec, choice = at_length(spec, length, "rotate")
    if inplace and (spec.shapes or spec.output_dim != spec.dim):
        todo = "Gradients of what is learned need what stood there before."
        if spec.output_dim != spec.dim:
            todo = f"The result has {spec.output_dim} channels for each {spec.dim}."
        raise ArgumentError(explain(f"{who}: inplace", "False", inplace, todo))
    if inplace:
        check_apart(arrays, who)
    how: dict[str, Any] = {"seq_dim": seq_dim, "inverse": inverse, "inplace": inplace}
    asked = _asks(kernel, choice, who)
    served = _served(spec, inputs, given, kernel, who, **how) if asked else None
    if served is not None:
        return served
    turned: list[Array] = []
    last: Any = None
    for x, role in inputs:
        xp, dtype, inner = _checked(spec, x, who)
        where = _token_positions(spec, x, *given, seq_dim=seq_dim, xp=xp, who=who)
        # Positions that do not vary with the heads are the same for all inputs.
        kind = (tuple(where.shape), inner, dtype_name(dtype), role if spec.sided else None)
        if last is None or last[0] != kind:
            name = dtype_name(dtype)
            cos, sin, known = _factors(
                spec,
                where,
                role=role,
                params=params,
                inner=inner,
                dtype=name,
                xp=xp,
                who=who,
                inverse=inverse,
                seq_dim=seq_dim,
                choice=choice,
            )
            last = kind, cos, sin, known
        _, cos, sin, known = last
        turned.append(
            _turned(
                x,
                cos,
                sin,
                spec.channels,
                dim=spec.dim,
                inner=inner,
                xp=xp,
                who=who,
                inverse=inverse,
                inplace=inplace,
                how=functools.partial(spec.turned, role=role, constants=known),
            )
        )
    return tuple(turned)


def _tokens(x: Any, seq_dim: Any) -> int | None:
    """The number of tokens of an array, or None where the long way has words for what is wrong."""
    try:
        tokens: int = x.shape[seq_dim]
    except (AttributeError, TypeError, IndexError):
        return None
    return tokens


def _direct() -> Any:
    """The way of one token in eager torch, for a spec that has come this way before, or None.

    It asks only what decides whether it may be gone; whatever it does not know goes the long way,
    which has the words for errors.
    """
    # An import statement costs as much as the checks.
    found = sys.modules.get("posenc.kernels.direct")
    if is_compiling():
        return None
    if found is None:
        if "torch" not in sys.modules:
            return None
        found = importlib.import_module("posenc.kernels.direct")
    return found.rotated


def _asks(kernel: Kernel, choice: Choice | None, who: str) -> bool:
    """Whether a kernel is asked: it takes one spec, and does not choose between two."""
    if choice is not None and kernel not in ("auto", "reference") and asks(kernel, who):
        want = "a length that is a number"
        raise ArgumentError(
            explain(f"{who}: kernel={kernel!r}", want, type(choice.length).__name__)
        )
    return asks(kernel, who) and choice is None


def _served(
    spec: RotarySpec,
    inputs: Sequence[tuple[Array, Any]],
    given: tuple[Any, Any, Any],
    kernel: Kernel,
    who: str,
    *,
    seq_dim: int,
    inverse: bool,
    inplace: bool,
) -> tuple[Array, ...] | None:
    """What a kernel makes of the inputs, or None where the reference is to turn them."""
    arrays: list[Array] = []
    where: list[Any] = []
    for x, role in inputs:
        xp, _, _ = _checked(spec, x, who)
        _check_role(role, who)
        arrays.append(x)
        where.append(_where(spec, x, given, where, seq_dim=seq_dim, xp=xp, who=who))
    request = kernels.Rotate(spec, tuple(arrays), tuple(where), seq_dim, inverse, inplace)
    found = kernels.serve(request, kernel, who)
    return None if found is None else found.value


def _where(
    spec: RotarySpec,
    x: Array,
    given: tuple[Any, Any, Any],
    before: list[Any],
    *,
    seq_dim: int,
    xp: Any,
    who: str,
) -> Any:
    """Where the tokens of an array stand, as a kernel takes it; as for an earlier array if it fits.

    Positions that do not vary with the heads are the same for all arrays.
    """
    positions, offset, cu_seqlens = given
    place = place_of(tuple(x.shape), seq_dim, who)
    counted = positions is None and cu_seqlens is None and len(spec.axes) == 1
    # Comparing a symbolic offset would put a bound on it into the graph.
    counted = counted and not is_compiling()
    if counted and (offset is None or type(offset) is int) and abs(offset or 0) < 2**62:
        return offset or 0
    if cu_seqlens is not None and is_torch(x) and x.device.type != "cpu":
        # A launch finds the sequence of each token by itself.
        return kernels.Packed(_ends(spec, x, given, xp, who))
    if before and len(before[0].shape) == len(x.shape):
        lead, seq = tuple(before[0].shape[:-1]), before[0].shape[place]
        if seq == x.shape[place] and all(
            a in (1, n) for a, n in zip(lead, x.shape[:-1], strict=True)
        ):
            return before[0]
    return _token_positions(spec, x, *given, seq_dim=seq_dim, xp=xp, who=who)


@numpy_rules
def cos_sin(
    spec: RotarySpec,
    positions: Any,
    *,
    width: Literal["half", "full"] = "half",
    length: Any = None,
    role: Role = "query",
    dtype: Any = None,
    xp: Any = None,
    device: Any = None,
    params: Any = None,
    kernel: Kernel = "auto",
) -> tuple[Array, Array]:
    """Cosines and sines of the angles, for models that compute them once per step.

        cos[..., j] = m * cos(positions * f[j]),   sin likewise

    Parameters
    ----------
    spec : RotarySpec
        An encoding of the second kind.
    positions : int, or array of integers
        A number n for the positions 0 to n - 1, or any positions of shape (...); for a spec of
        several axes (..., axes).
    width : {"half", "full"}
        Whether each pair has one entry, or each channel has one, as many models keep it: cat([cos,
        cos]) where pairs stand half a head apart, each entry twice where they are interleaved.
    length : int or array, optional
        Length of the sequence, for scalings that depend on it; as for `rotate`.
    role : {"query", "key"}
        What they will turn; it matters where queries and keys are treated differently (xPos).
    dtype : dtype or str, optional
        float32 by default. Angles are never held in less.
    xp : module, optional
        The library of the result; that of `positions` by default, else NumPy.
    device : device, optional
        Where the result goes; with `positions` by default.
    params : mapping, optional
        Parameters of learned rotations.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it, as for `rotate`.

    Returns
    -------
    tuple of arrays
        cos, sin: (..., pairs), the attention factor included where it acts there; (..., 2 pairs)
        of full width.

    Raises
    ------
    ArgumentError
        If a needed length is absent.
    DTypeError
        If the positions are not integers.

    Examples
    --------
    >>> import posenc
    >>> cos, sin = posenc.cos_sin(posenc.RoPE(4, pairing="half"), [2**31 - 1])
    >>> sin.round(4)
    array([[-0.7249,  0.7013]], dtype=float32)
    >>> cos, sin = posenc.cos_sin(posenc.RoPE(4, pairing="half"), 2, width="full", dtype="float16")
    >>> sin
    array([[0.    , 0.    , 0.    , 0.    ],
           [0.8413, 0.01  , 0.8413, 0.01  ]], dtype=float16)
    """
    who = f"cos_sin({name_of(spec)})"
    if width not in ("half", "full"):
        raise ArgumentError(explain(f"{who}: width", '"half" or "full"', repr(width)))
    if is_divided(positions, *(params.values() if isinstance(params, Mapping) else ())):
        options = {"length": length, "role": role, "dtype": dtype, "kernel": kernel}
        return _divided_cos_sin(
            spec, positions, params, {**options, "device": device, "width": width}
        )
    if length is not None:
        counted = isinstance(positions, (int, np.integer))
        check_length(length, *((positions, None) if counted else (None, positions)), who=who)
    spec, choice = at_length(spec, length, "cos_sin")
    xp, device = home(positions, params, xp=xp, device=device, who=who)
    out = dtype_named("float32" if dtype is None else dtype, xp, who)
    where = asked_positions(spec, positions, xp=xp, device=device, who=who)
    inner = compute_dtype(out, xp)
    if _asks(kernel, choice, who):
        _check_role(role, who)
        found = kernels.serve(kernels.CosSin(spec, where, out, xp), kernel, who)
        if found is not None:
            cos, sin = found.value
            return _widened(cos, sin, spec.channels, width, xp)
    if (spec.per_head or 1) > 1 and len(where.shape) > 2:
        where = where[..., None, :, :]  # heads stand before the sequence
    cos, sin, _ = _factors(
        spec,
        where,
        role=role,
        params=params,
        inner=inner,
        dtype=dtype_name(out),
        xp=xp,
        who=who,
        choice=choice,
    )
    return _widened(astype(cos, out, xp), astype(sin, out, xp), spec.channels, width, xp)


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
    who = "apply_rotary"
    if isinstance(pairing, str):
        pairing = PAIRINGS.get(pairing) or Pairing(pairing)
    if not isinstance(pairing, Pairing):
        want = '"half", "interleaved" or a posenc.Pairing'
        raise ArgumentError(explain(f"{who}: pairing", want, repr(pairing)))
    if is_divided(x, cos, sin):
        options: dict[str, Any] = {"pairing": pairing, "width": width, "inplace": inplace}
        return _divided_rotary(x, cos, sin, {**options, "seq_dim": seq_dim})
    xp = namespace(x, f"{who}: x")
    dtype = result_dtype(x, who)
    inner = compute_dtype(dtype, xp)
    if tuple(cos.shape) != tuple(sin.shape):
        got = f"{tuple(cos.shape)} and {tuple(sin.shape)}"
        raise ArgumentError(explain(who, "cos and sin of one shape", got))
    if width == "full":
        cos, sin = _half_width(cos, pairing), _half_width(sin, pairing)
    dim = 2 * cos.shape[-1]
    if len(x.shape) < 2 or dim > x.shape[-1]:
        todo = "Where cos and sin have an entry for each channel, say width='full'."
        want = f"x with at least {dim} channels, two for each of the {dim // 2} pairs"
        raise ArgumentError(explain(who, want, f"shape {tuple(x.shape)}", todo))
    lead, place = tuple(x.shape[:-1]), place_of(tuple(x.shape), seq_dim, who)
    aligned = align(tuple(cos.shape[:-1]), lead, place, lead[place])
    if aligned is None:
        want = f"cos of shape ({lead[place]}, {dim // 2}) or (batch, {lead[place]}, {dim // 2})"
        raise ArgumentError(explain(who, want, f"shape {tuple(cos.shape)}"))
    cos = astype(xp.reshape(cos, (*aligned, dim // 2)), inner, xp)
    sin = astype(xp.reshape(sin, (*aligned, dim // 2)), inner, xp)
    return _turned(x, cos, sin, pairing, dim=dim, inner=inner, xp=xp, who=who, inplace=inplace)


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
    """Move keys that are rotated already to other positions, or to another base or scaling.

        k' = R'(new) R(old)^-1 k

    The two phases are subtracted as integers, so the angle is exact however far keys move; each
    move rounds once, to the dtype of the keys. `n` moves differ from one by at most n roundings.

    In half precision that is much where moves are small: a pair that turns by less than half a
    unit in the last place (0.002 in bfloat16, 0.0002 in float16) stays where it was. A thousand
    moves by one position leave an error of half the key in bfloat16 and of 0.07 in float16, one
    move by a thousand 0.002 and 0.0003 (width 128, base 10000). So move keys seldom and far, or
    keep them in float32.

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
    who = f"rerotate({name_of(spec)})"
    if is_divided(k, old_positions, new_positions):
        return _divided_move(
            spec, k, old_positions, new_positions, target=new_spec, seq_dim=seq_dim
        )
    target = spec if new_spec is None else new_spec
    (spec, _), (target, _) = (at_length(each, None, "rerotate") for each in (spec, target))
    alike = spec.dim == target.dim and spec.channels == target.channels and spec.axes == target.axes
    if not alike or type(spec) is not type(target):
        todo = "Other pairs cannot be reached by turning."
        raise SpecError(
            explain(who, "two specs of one width, pairing and axes", repr(target), todo)
        )
    _require_plain(spec, who)
    if spec.channels.output == "half" and spec.channels.order != "half":
        todo = "Rotate the keys from scratch."
        raise SpecError(explain(who, "keys in the order of the weights", "output='half'", todo))
    xp, dtype, inner = _checked(spec, k, who)
    old = _token_positions(spec, k, old_positions, None, None, seq_dim=seq_dim, xp=xp, who=who)
    new = _token_positions(target, k, new_positions, None, None, seq_dim=seq_dim, xp=xp, who=who)
    if target == spec:
        warn_of_small_moves(spec, k, old, new, who)
    cos, sin = _difference(spec, target, old, new, inner=inner, xp=xp)
    before = spec.sizes(old, "key", constants(spec, old, xp=xp), dtype=inner, xp=xp)
    after = target.sizes(new, "key", constants(target, new, xp=xp), dtype=inner, xp=xp)
    target.check_positions(new, dtype_name(dtype))
    ratio = after / before
    if not isinstance(ratio, float) or ratio != 1:
        cos, sin = cos * ratio, sin * ratio
    return _turned(k, cos, sin, spec.channels, dim=spec.dim, inner=inner, xp=xp, who=who)


@numpy_rules
def relative_score(
    spec: RotarySpec, q: Array, k: Array, offsets: Any, *, length: Any = None
) -> Array:
    """The score of a query and a key as a function of their distance, without the softmax scale.

        score(rel) = q . R(rel * f) k * m ** 2          rel = key position - query position

    Parameters
    ----------
    spec : RotarySpec
        An encoding of the second kind.
    q, k : array
        (..., channels), before rotation.
    offsets : array of integers
        (n,) the distances; (n, axes) for specs of several axes.
    length : int or array, optional
        Length of the sequence, for scalings that depend on it; as for `rotate`.

    Returns
    -------
    array
        (..., n), in the dtype of `q`.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> ones = np.ones(64)
    >>> posenc.relative_score(posenc.RoPE(64, pairing="half"), ones, ones, [0, 1, 10]).round(3)
    array([64.   , 61.834, 42.103])
    """
    who = f"relative_score({name_of(spec)})"
    undivided(who, q, k, offsets)
    if length is not None:
        check_length(length, None, offsets, who=who)
    spec, choice = at_length(spec, length, "relative_score")
    _require_plain(spec, who)
    xp, dtype, inner = _checked(spec, q[..., None, :], who)
    _checked(spec, k[..., None, :], who)
    if q.shape[-1] != k.shape[-1]:
        got = f"{q.shape[-1]} and {k.shape[-1]}"
        raise ArgumentError(explain(who, "queries and keys of one width", got))
    read = reals if spec.coordinates == "real" else integers
    rel = with_axes(
        spec.axes, read(offsets, xp=xp, device=device_of(q), who=f"{who}: offsets"), who
    )
    if len(rel.shape) != 2:
        raise ArgumentError(explain(f"{who}: offsets", "shape (n,)", f"{tuple(rel.shape)}"))
    known = constants(spec, rel, xp=xp)
    cos, sin, _ = _cos_sin(spec, rel, known, choice, inner=inner, xp=xp)
    # A distance is a key's position seen from a query at the centre, where sizes are those of m.
    size = spec.sizes(_from_centre(spec, rel), "key", known, dtype=inner, xp=xp)
    size = size * spec.attention_factor
    if choice is not None:
        size = choice.of(size, choice.spec.attention_factor**2, dtype=inner, xp=xp)
    wide, keys = astype(q, inner, xp)[..., None, :], astype(k, inner, xp)[..., None, :]
    same = spec.channels.replace(output="same")
    turned = _turned(keys, cos * size, sin * size, same, dim=spec.dim, inner=inner, xp=xp, who=who)
    return astype(xp.sum(wide * turned, axis=-1), dtype, xp)


@numpy_rules
def logit_scale(
    spec: RotarySpec | Temperature,
    positions: Any = None,
    *,
    length: Any = None,
    xp: Any = None,
    device: Any = None,
) -> Any:
    """The factor on the scores of queries that comes with an encoding, apart from its cos and sin.

        logits = logit_scale * (q . k) / sqrt(channels)

    It is the attention factor squared where that acts on the softmax, the factor the scaling asks
    for besides, and the temperature at the position of the query.

    Parameters
    ----------
    spec : RotarySpec or Temperature
        An encoding, or a temperature alone (layers without positions have one in some models).
    positions : int or array of integers, optional
        Positions of the queries (...), needed for a temperature.
    length : int or array, optional
        Length of the sequence, for scalings that depend on it; as for `rotate`.
    xp : module, optional
        The library of the result; that of `positions` by default, else NumPy.
    device : device, optional
        Where the result goes.

    Returns
    -------
    float or array
        A number where nothing depends on the position, else (...) in float32.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.YaRN(4, original_length=4096)
    >>> rope = posenc.RoPE(64, pairing="half", scaling=scaling,
    ...                    magnitude=posenc.RotaryMagnitude(at="softmax"))
    >>> round(posenc.logit_scale(rope), 4)
    1.2965
    """
    who = f"logit_scale({name_of(spec)})"
    if isinstance(spec, Temperature):
        constant, temperature = 1.0, spec
    else:
        if length is not None:
            check_length(length, None, positions, who=who)
        spec, choice = at_length(spec, length, "logit_scale")
        constant, found = spec.logit_factor, spec.magnitude_of_scores.temperature
        if choice is not None:
            # A number that is no constant is one that torch leaves open.
            given = (
                library(sys.modules["torch"]) if not is_array(length) else namespace(length, who)
            )
            constant = choice.of(constant, choice.spec.logit_factor, dtype=given.float32, xp=given)
        if found is None:
            return constant
        temperature = found
    if positions is None:
        todo = "Its temperature depends on them."
        raise ArgumentError(explain(f"{who}: positions", "those of the queries", None, todo))
    if is_foreign(positions):
        xp = namespace(positions, who)
        device = device_of(positions) if device is None else device
    else:
        xp = library(np if xp is None else xp)
    where = integers(positions, xp=xp, device=device, who=f"{who}: positions")
    return constant * temperature.factors(where, dtype=xp.float32, xp=xp)


# --- shared ---------------------------------------------------------------------------------------


def _require_plain(spec: RotarySpec, who: str) -> None:
    if not spec.plain:
        want = "an encoding that turns pairs by fixed angles, all heads alike"
        todo = "Rotate both from scratch: posenc.rotate(spec, x, positions=..., params=...)."
        raise SpecError(explain(who, want, name_of(spec), todo))


def _checked(spec: RotarySpec, x: Array, who: str) -> tuple[Any, Any, Any]:
    """The library of `x`, its dtype, and the dtype to compute in."""
    xp = namespace(x, f"{who}: x")
    dtype = result_dtype(x, who)
    if len(x.shape) < 2 or x.shape[-1] < spec.dim:
        want = f"shape (..., seq, channels) with at least {spec.dim} channels"
        raise ArgumentError(explain(f"{who}: x", want, f"shape {tuple(x.shape)}"))
    return xp, dtype, compute_dtype(dtype, xp)


def _token_positions(
    spec: RotarySpec,
    x: Array,
    positions: Any,
    offset: Any,
    cu_seqlens: Any,
    *,
    seq_dim: int,
    xp: Any,
    who: str,
) -> Array:
    if cu_seqlens is not None:
        place = place_of(tuple(x.shape), seq_dim, who)
        ends = _ends(spec, x, (positions, offset, cu_seqlens), xp, who)
        positions = _positions.packed(ends, total=x.shape[place])
        if positions.shape[0] != x.shape[place]:
            want = f"lengths that add up to at most {x.shape[place]} tokens"
            raise ArgumentError(explain(f"{who}: cu_seqlens", want, positions.shape[0]))
    return token_positions(
        tuple(x.shape),
        positions,
        offset,
        axes=len(spec.axes),
        seq_dim=seq_dim,
        xp=xp,
        device=device_of(x),
        who=who,
        coordinates=spec.coordinates,
    )


def _ends(spec: RotarySpec, x: Array, given: tuple[Any, Any, Any], xp: Any, who: str) -> Array:
    """The cumulative lengths of packed sequences beside `x`."""
    positions, offset, cu_seqlens = given
    if positions is not None or offset is not None:
        todo = "Positions within sequences follow from their lengths."
        raise ArgumentError(explain(who, "cu_seqlens alone", "positions besides", todo))
    if len(spec.axes) > 1:
        want = f"positions with a trailing axis {spec.axes}"
        raise ArgumentError(explain(who, want, "cu_seqlens"))
    return integers(cu_seqlens, xp=xp, device=device_of(x), who=f"{who}: cu_seqlens")


def _check_role(role: Any, who: str) -> None:
    if role not in ("query", "key"):
        raise ArgumentError(explain(f"{who}: role", '"query" or "key"', repr(role)))


def _factors(
    spec: RotarySpec,
    where: Array,
    *,
    role: Role,
    params: Any,
    inner: Any,
    dtype: str,
    xp: Any,
    who: str,
    inverse: bool = False,
    seq_dim: int = -2,
    choice: Choice | None = None,
) -> tuple[Array, Array, dict[str, Array]]:
    """Cosines and sines with their sizes, (..., axes) -> two arrays (..., pairs), and constants."""
    _check_role(role, who)
    spec.check_positions(where, dtype)
    given = parameters(spec, params, xp=xp, device=device_of(where), who=who)
    known = _of_heads(spec, {**constants(spec, where, xp=xp), **given}, seq_dim)
    cos, sin, known = _cos_sin(spec, where, known, choice, inner=inner, xp=xp)
    size = spec.sizes(where, role, known, dtype=inner, xp=xp)
    if choice is not None:
        size = choice.of(size, choice.spec.attention_factor, dtype=inner, xp=xp)
    if isinstance(size, float) and size == 1:
        return cos, sin, known
    return (cos / size, sin / size, known) if inverse else (cos * size, sin * size, known)


def _cos_sin(
    spec: RotarySpec,
    where: Array,
    known: dict[str, Any],
    choice: Choice | None,
    *,
    inner: Any,
    xp: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Cosines and sines of unit size, of the one spec or the other, and the constants."""
    if choice is None:
        return *spec.cos_sin(where, known, dtype=inner, xp=xp), known
    other = constants(choice.spec, where, xp=xp)
    if "step" in spec.arrays:  # the frequencies are among the constants, and nowhere else
        known = {key: choice.of(known[key], other[key], dtype=inner, xp=xp) for key in known}
        return *spec.cos_sin(where, known, dtype=inner, xp=xp), known
    both = zip(
        spec.cos_sin(where, known, dtype=inner, xp=xp),
        choice.spec.cos_sin(where, other, dtype=inner, xp=xp),
        strict=True,
    )
    cos, sin = (choice.of(a, b, dtype=inner, xp=xp) for a, b in both)
    return cos, sin, known


def _of_heads(spec: RotarySpec, known: dict[str, Any], seq_dim: int) -> dict[str, Any]:
    """Constants and parameters with the axis of the heads where the input has it."""
    for name, place in spec.by_head.items():
        if name not in known:
            continue
        value = known[name]
        if isinstance(value, (Halves, Words)):
            known[name] = type(value)(*(_of_head(v, spec, place, seq_dim) for v in value))
        else:
            known[name] = _of_head(value, spec, place, seq_dim)
    return known


def _of_head(value: Array, spec: RotarySpec, place: int, seq_dim: int) -> Array:
    before = (slice(None),) * place
    if spec.per_head == 1:
        return value[(*before, 0, ...)]
    return value if seq_dim == -3 else value[(*before, slice(None), None, ...)]


def _turned(
    x: Array,
    cos: Array,
    sin: Array,
    pairing: Pairing,
    *,
    dim: int,
    inner: Any,
    xp: Any,
    who: str,
    inverse: bool = False,
    inplace: bool = False,
    how: Callable[..., Array] | None = None,
) -> Array:
    """Turn the rotated part of `x`, pass the rest through, and round once."""
    part = x
    if x.shape[-1] != dim:
        part = x[..., :dim] if pairing.part == "leading" else x[..., x.shape[-1] - dim :]
    wide = astype(part, inner, xp)
    if how is None:
        turned = turn(wide, cos, sin, pairing, transposed=inverse, xp=xp)
    else:
        turned = how(wide, cos, sin, inverse=inverse, xp=xp)
    turned = astype(turned, x.dtype, xp)
    if inplace:
        written = overwrite(part, turned, who)
        return written if x.shape[-1] == dim else x
    if x.shape[-1] == dim:
        return turned
    if pairing.part == "leading":
        return xp.concat([turned, x[..., dim:]], axis=-1)
    return xp.concat([x[..., : x.shape[-1] - dim], turned], axis=-1)


def _half_width(full: Array, pairing: Pairing) -> Array:
    """The entry of each pair, from arrays with an entry for each channel."""
    if pairing.blocks:
        want = "half-width cos and sin for a pairing of several blocks"
        raise ArgumentError(explain("apply_rotary: width", want, "full"))
    if pairing.order == "half":
        return full[..., : full.shape[-1] // 2]
    return full[..., 0::2]


def _widened(cos: Array, sin: Array, pairing: Pairing, width: str, xp: Any) -> tuple[Array, Array]:
    """Cosines and sines with an entry for each pair, or for each channel of the input."""
    if width == "half":
        return cos, sin
    return _full_width(cos, pairing, xp), _full_width(sin, pairing, xp)


def _full_width(half: Array, pairing: Pairing, xp: Any) -> Array:
    """The entry of each pair at both of its channels."""
    pieces: list[Array] = []
    begin = 0
    for pairs in pairing.sizes(half.shape[-1]):
        part = half[..., begin : begin + pairs]
        begin += pairs
        if pairing.order == "half":
            pieces += [part, part]
        else:
            both = xp.stack([part, part], axis=-1)
            pieces.append(xp.reshape(both, (*part.shape[:-1], 2 * pairs)))
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=-1)


class _Difference:
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
def _difference_constants(old: RotarySpec, new: RotarySpec) -> _Difference:
    return _Difference(old, new)


def _difference(
    spec: RotarySpec, target: RotarySpec, old: Array, new: Array, *, inner: Any, xp: Any
) -> tuple[Array, Array]:
    """Cosine and sine of the new angle less the old one."""
    whole = not xp.isdtype(old.dtype, "real floating") and not xp.isdtype(
        new.dtype, "real floating"
    )
    if whole and "step" in spec.arrays and "step" in target.arrays:
        shape = tuple(b if a == 1 else a for a, b in zip(old.shape, new.shape, strict=True))
        both = xp.concat([xp.broadcast_to(new, shape), xp.broadcast_to(old, shape)], axis=-1)
        known = constants(_difference_constants(spec, target), both, xp=xp)
        return phase_cos_sin(both, known["step"], known.get("origin"), dtype=inner, xp=xp)
    c0, s0 = spec.cos_sin(old, constants(spec, old, xp=xp), dtype=inner, xp=xp)
    c1, s1 = target.cos_sin(new, constants(target, new, xp=xp), dtype=inner, xp=xp)
    return c1 * c0 + s1 * s0, s1 * c0 - c1 * s0


def _from_centre(spec: RotarySpec, rel: Array) -> Array:
    """Positions whose decay is that of a distance."""
    return rel + getattr(spec, "centre", 0)


# --- divided between processes --------------------------------------------------------------------


def _divided_turn(
    spec: RotarySpec, x: Array, given: tuple[Any, Any, Any], params: Any, options: dict[str, Any]
) -> Array:
    from posenc.functional import _divided

    (positions, offset, cu_seqlens), seq_dim = given, options["seq_dim"]

    require(spec, RotarySpec, "rotate")
    who = f"rotate({name_of(spec)})"
    tokens, refused = _divided.of_tokens(x, seq_dim, positions, who)
    last = 1 if len(spec.axes) > 1 else 0
    if (spec.per_head or 1) > 1 and len(tokens) > 2:
        todo = "Its heads turn differently: divide the batch."
        refused = {**refused, tokens[-3 if seq_dim == -2 else -2]: ("all heads", todo)}

    def turned(x: Array, positions: Any, offset: Any, ends: Any, **params: Array) -> Array:
        return rotate(
            spec,
            x,
            positions=positions,
            offset=offset,
            cu_seqlens=ends,
            params=_divided.params_of(params),
            **options,
        )

    parts = {
        "x": _divided.Part(x, tokens, leads=True),
        "positions": _divided.of_positions(positions, tokens, last, x),
        "offset": _divided.of_offset(offset),
        "ends": _divided.Part(cu_seqlens, ("axes",)),
        **_divided.of_parameters(spec, params),
    }
    return _divided.apply(turned, parts, tokens, who, refused, inplace=options["inplace"])


def _divided_rotary(x: Array, cos: Array, sin: Array, options: dict[str, Any]) -> Array:
    from posenc.functional import _divided

    tokens, refused = _divided.of_tokens(x, options["seq_dim"], cos, "apply_rotary")

    def turned(x: Array, cos: Array, sin: Array) -> Array:
        return apply_rotary(x, cos, sin, **options)

    parts = {
        "x": _divided.Part(x, tokens, leads=True),
        "cos": _divided.of_positions(cos, tokens, 1, x),
        "sin": _divided.of_positions(sin, tokens, 1, x),
    }
    more: Any = {"inplace": options["inplace"]}
    return _divided.apply(turned, parts, tokens, "apply_rotary", refused, **more)


def _divided_move(
    spec: RotarySpec, k: Array, old: Any, new: Any, *, target: RotarySpec | None, seq_dim: int
) -> Array:
    from posenc.functional import _divided

    who = f"rerotate({name_of(spec)})"
    tokens, refused = _divided.of_tokens(k, seq_dim, old, who)
    last = 1 if len(spec.axes) > 1 else 0

    def moved(k: Array, old: Any, new: Any) -> Array:
        return rerotate(spec, k, old, new, target, seq_dim=seq_dim)

    parts = {
        "k": _divided.Part(k, tokens, leads=True),
        "old": _divided.of_positions(old, tokens, last, k),
        "new": _divided.of_positions(new, tokens, last, k),
    }
    return _divided.apply(moved, parts, tokens, who, refused)


def _divided_cos_sin(
    spec: RotarySpec, positions: Any, params: Any, options: dict[str, Any]
) -> tuple[Array, Array]:
    from posenc.functional import _divided

    who = f"cos_sin({name_of(spec)})"
    if (spec.per_head or 1) > 1:
        undivided(who, positions, *(params or {}).values())
    axes = ("axes",) if len(spec.axes) > 1 else ()
    where = _divided.numbered(positions, "last", axes)
    lead = where.labels[: len(where.labels) - len(axes)] or ("last",)

    def factors(where: Any, **params: Array) -> tuple[Array, Array]:
        return cos_sin(spec, where, params=_divided.params_of(params), **options)

    parts = {"where": where, **_divided.of_parameters(spec, params)}
    found: tuple[Array, Array] = _divided.apply(factors, parts, (*lead, "pairs"), who, {})
    return found
