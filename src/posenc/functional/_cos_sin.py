"""Cosines and sines of a rotation, and what it does to scores."""

from __future__ import annotations

import functools
import sys
from typing import Any, Literal

import numpy as np

from posenc import kernels
from posenc._core.arrays.array import (
    astype,
    compute_dtype,
    constants,
    device_of,
    dtype_named,
    is_array,
    is_divided,
    is_foreign,
    library,
    namespace,
    same_library,
    undivided,
)
from posenc._core.arrays.coordinates import integers, reals
from posenc._core.calls import numpy_rules
from posenc._core.errors import bad_argument
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.magnitude import Temperature
from posenc.encodings.rotary.pairing import Pairing, advanced, turn
from posenc.encodings.table.base import columns
from posenc.functional.arguments.common import Array, Kernel, home, name_of, parameters, values_of
from posenc.functional.arguments.rotation import at_length, checked, require_plain
from posenc.functional.arguments.tokens import asked_positions, check_length, with_axes
from posenc.kernels.reference import turned_by


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
    if is_divided(positions, *values_of(params)):
        from posenc.functional.arguments.divided import at_positions

        if (spec.per_head or 1) > 1:
            undivided(caller, positions, *(params or {}).values())
        options = {
            "width": width,
            "length": length,
            "role": role,
            "dtype": dtype,
            "device": device,
            "kernel": kernel,
        }
        return at_positions(cos_sin, spec, positions, params, options, caller, "pairs")
    if length is not None:
        counted = isinstance(positions, (int, np.integer))
        places = (positions, None) if counted else (None, positions)
        check_length(spec, length, *places, caller=caller)
    spec, choice = at_length(spec, length, "cos_sin")
    xp, device = home(positions, params, xp=xp, device=device, caller=caller)
    out = dtype_named("float32" if dtype is None else dtype, xp, caller)
    places = asked_positions(spec, positions, xp=xp, device=device, caller=caller)
    learned = parameters(spec, params, xp=xp, device=device_of(places), caller=caller)
    request = kernels.CosSin(spec, places, role, learned, choice, out, xp, caller)
    cos, sin = kernels.run(request, kernel)
    if width == "half":
        return cos, sin
    return _full_width(cos, spec.channels, xp), _full_width(sin, spec.channels, xp)


def _full_width(half: Array, pairing: Pairing, xp: Any) -> Array:
    """The entry of each pair at both of its channels."""
    order = "sin_cos" if pairing.order == "half" else "interleaved"
    count = half.shape[-1]
    return columns(half, half, order, 2 * count, pairing.sizes(count), xp=xp)


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
    caller = f"relative_score({name_of(spec)})"
    undivided(caller, q, k, offsets)
    if length is not None:
        check_length(spec, length, None, offsets, caller=caller)
    spec, choice = at_length(spec, length, "relative_score")
    require_plain(spec, caller)
    xp = namespace(q, f"{caller}: q")
    same_library(k, xp, f"{caller}: k")
    for name, x in (("k", k), ("q", q)):
        _, dtype = checked(spec, x[..., None, :] if x.shape else x, f"{caller}: {name}")
    inner = compute_dtype(dtype, xp)
    if q.shape[-1] != k.shape[-1]:
        raise bad_argument(
            caller, "queries and keys of one width", f"{q.shape[-1]} and {k.shape[-1]}"
        )
    read = reals if spec.coordinates == "real" else integers
    label = f"{caller}: offsets"
    rel = with_axes(spec.axes, read(offsets, xp=xp, device=device_of(q), caller=label), label)
    if len(rel.shape) != 2:
        raise bad_argument(label, "shape (n,)", f"{tuple(rel.shape)}")
    values = constants(spec, rel, xp=xp)
    cos, sin = (choice or spec).phasors(rel, values, dtype=inner, xp=xp)
    cos, sin = advanced(cos, sin, -spec.quarters)  # where the query stands back, the key is ahead
    # A distance is a key's position seen from a query at the centre, where sizes are those of m.
    centred = rel + getattr(spec, "centre", 0)
    size = spec.sizes(centred, "key", values, dtype=inner, xp=xp)
    size = size * spec.amplitude(rel, dtype=inner, xp=xp)
    if choice is not None:
        long = choice.long.amplitude(rel, dtype=inner, xp=xp)
        size = choice.of(size, long * long, dtype=inner, xp=xp)
    wide, keys = astype(q, inner, xp)[..., None, :], astype(k, inner, xp)[..., None, :]
    same = spec.channels.replace(output="same")
    by_angle = functools.partial(turn, cos=cos * size, sin=sin * size, pairing=same, xp=xp)
    turned = turned_by(keys, by_angle, same, dim=spec.dim, inner=inner, xp=xp)
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
    caller = f"logit_scale({name_of(spec)})"
    temperature: Temperature | None
    if length is not None:
        check_length(spec, length, None, positions, caller=caller)
    if isinstance(spec, Temperature):
        constant, temperature = 1.0, spec
    else:
        spec, choice = at_length(spec, length, "logit_scale")
        constant, temperature = spec.logit_factor, spec.magnitude_of_scores.temperature
        if choice is not None:
            # A number that is no constant is one that torch leaves open.
            own = namespace(length, caller) if is_array(length) else library(sys.modules["torch"])
            constant = choice.of(constant, choice.long.logit_factor, dtype=own.float32, xp=own)
    if temperature is None:
        return constant
    if positions is None:
        raise bad_argument(
            f"{caller}: positions", "those of the queries", None, "Its temperature depends on them."
        )
    if is_foreign(positions):
        xp = namespace(positions, caller)
        device = device_of(positions) if device is None else device
    else:
        xp = library(np if xp is None else xp)
    queries = integers(positions, xp=xp, device=device, caller=f"{caller}: positions")
    return constant * temperature.factors(queries, dtype=xp.float32, xp=xp)
