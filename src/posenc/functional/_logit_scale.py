"""What a rotation does to scores."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from posenc._core.arrays.array import (
    astype,
    compute_dtype,
    constants,
    device_of,
    is_array,
    is_foreign,
    library,
    namespace,
    numpy_rules,
    undivided,
)
from posenc._core.arrays.coordinates import integers, reals
from posenc._core.errors import ArgumentError, mismatch
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.magnitude import Temperature
from posenc.encodings.rotary.pairing import advanced, turn
from posenc.functional.arguments.common import Array, name_of
from posenc.functional.arguments.lengths import at_length
from posenc.functional.arguments.rotation import checked, require_plain
from posenc.functional.arguments.tokens import check_length, with_axes
from posenc.kernels.reference import turned_by


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
        check_length(length, None, offsets, caller=caller)
    spec, choice = at_length(spec, length, "relative_score")
    require_plain(spec, caller)
    xp, dtype = checked(spec, q[..., None, :], caller)
    inner = compute_dtype(dtype, xp)
    checked(spec, k[..., None, :], caller)
    if q.shape[-1] != k.shape[-1]:
        received = f"{q.shape[-1]} and {k.shape[-1]}"
        raise ArgumentError(mismatch(caller, "queries and keys of one width", received))
    read = reals if spec.coordinates == "real" else integers
    label = f"{caller}: offsets"
    rel = with_axes(spec.axes, read(offsets, xp=xp, device=device_of(q), caller=label), label)
    if len(rel.shape) != 2:
        raise ArgumentError(mismatch(label, "shape (n,)", f"{tuple(rel.shape)}"))
    values = constants(spec, rel, xp=xp)
    source = spec if choice is None else choice
    cos, sin = source.phasors(rel, values, dtype=inner, xp=xp)
    cos, sin = advanced(cos, sin, -spec.quarters)  # where the query stands back, the key is ahead
    # A distance is a key's position seen from a query at the centre, where sizes are those of m.
    centred = rel + getattr(spec, "centre", 0)
    size = spec.sizes(centred, "key", values, dtype=inner, xp=xp)
    size = size * spec.attention_factor
    if choice is not None:
        size = choice.of(size, choice.long.attention_factor**2, dtype=inner, xp=xp)
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
    if isinstance(spec, Temperature):
        constant, temperature = 1.0, spec
    else:
        if length is not None:
            check_length(length, None, positions, caller=caller)
        spec, choice = at_length(spec, length, "logit_scale")
        constant, temperature = spec.logit_factor, spec.magnitude_of_scores.temperature
        if choice is not None:
            # A number that is no constant is one that torch leaves open.
            own = namespace(length, caller) if is_array(length) else library(sys.modules["torch"])
            constant = choice.of(constant, choice.long.logit_factor, dtype=own.float32, xp=own)
    if temperature is None:
        return constant
    if positions is None:
        todo = "Its temperature depends on them."
        raise ArgumentError(mismatch(f"{caller}: positions", "those of the queries", None, todo))
    if is_foreign(positions):
        xp = namespace(positions, caller)
        device = device_of(positions) if device is None else device
    else:
        xp = library(np if xp is None else xp)
    queries = integers(positions, xp=xp, device=device, caller=f"{caller}: positions")
    return constant * temperature.factors(queries, dtype=xp.float32, xp=xp)
