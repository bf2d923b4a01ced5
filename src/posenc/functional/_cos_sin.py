"""Cosines and sines, for models that compute them once per step."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from posenc import kernels
from posenc._core.arrays.array import (
    device_of,
    dtype_named,
    is_divided,
    numpy_rules,
    undivided,
)
from posenc._core.errors import ArgumentError, mismatch
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.pairing import Pairing
from posenc.functional._parameters import parameters
from posenc.functional.arguments.common import Array, Kernel, home, name_of, values_of
from posenc.functional.arguments.lengths import at_length
from posenc.functional.arguments.rotation import check_role
from posenc.functional.arguments.tokens import asked_positions, check_length


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
    caller = f"cos_sin({name_of(spec)})"
    if width not in ("half", "full"):
        raise ArgumentError(mismatch(f"{caller}: width", '"half" or "full"', repr(width)))
    if is_divided(positions, *values_of(params)):
        from posenc.functional.arguments.divided import at_positions

        if (spec.per_head or 1) > 1:
            undivided(caller, positions, *(params or {}).values())
        options = {"length": length, "role": role, "dtype": dtype, "kernel": kernel}
        options |= {"device": device, "width": width}
        both: tuple[Array, Array] = at_positions(
            cos_sin, spec, positions, params, options, caller, "pairs"
        )
        return both
    if length is not None:
        counted = isinstance(positions, (int, np.integer))
        check_length(length, *((positions, None) if counted else (None, positions)), caller=caller)
    spec, choice = at_length(spec, length, "cos_sin")
    xp, device = home(positions, params, xp=xp, device=device, caller=caller)
    out = dtype_named("float32" if dtype is None else dtype, xp, caller)
    places = asked_positions(spec, positions, xp=xp, device=device, caller=caller)
    check_role(role, caller)
    learned = parameters(spec, params, xp=xp, device=device_of(places), caller=caller)
    request = kernels.CosSin(spec, places, role, learned, choice, out, xp, caller)
    cos, sin = kernels.run(request, kernel)
    if width == "half":
        return cos, sin
    return _full_width(cos, spec.channels, xp), _full_width(sin, spec.channels, xp)


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
