"""The verb of the third kind: biases on attention scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc import kernels
from posenc._core.arrays.array import (
    device_of,
    dtype_named,
    is_divided,
    library,
    namespace,
    numpy_rules,
)
from posenc.encodings.bias.base import BiasSpec
from posenc.functional.arguments.common import (
    DIRECT,
    Array,
    Kernel,
    library_of,
    name_of,
    require,
    without_request,
)
from posenc.functional.arguments.scores import check_sides, head_range, known, sides


@numpy_rules
def bias(
    spec: BiasSpec,
    q_positions: Any,
    k_positions: Any = None,
    *,
    params: Mapping[str, Array] | None = None,
    heads: tuple[int, int] | None = None,
    dtype: Any = None,
    xp: Any = None,
    device: Any = None,
    kernel: Kernel = "auto",
) -> Array:
    """What is added to the attention scores of queries and keys at some positions.

        logits[..., h, i, j] += bias[..., h, i, j]

    Distances are taken in integers and rounded once. Nothing is masked: a causal mask is the
    caller's, from the same positions.

    Parameters
    ----------
    spec : BiasSpec
        An encoding of the third kind.
    q_positions : int, or array of integers
        A number n for the positions 0 to n - 1, or (q,), or (..., q) with batch axes; for a spec of
        several axes with a trailing axis of that length.
    k_positions : int, or array of integers, optional
        The same for the keys; those of the queries by default. A side without batch axes serves
        every row; two sides with batch axes need one batch shape.
    params : mapping of str to array, optional
        The parameters of a learned encoding, as `posenc.init` makes them: of all heads, or of the
        heads asked for.
    heads : (int, int), optional
        Only the heads [first, end) of the spec, as tensor parallelism divides them.
    dtype : dtype or str, optional
        float32 by default; float64, float16 and bfloat16 where the library has them. The arithmetic
        is float32 or better. float16 ends at 65504, and larger entries become that.
    xp : module, optional
        The library of the result; that of positions or parameters by default, else NumPy.
    device : device, optional
        Where the result goes; with the positions by default.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it. A kernel that is named obeys or says why not; `auto` takes the first that
        can, else the reference. `posenc doctor` lists them.

    Returns
    -------
    array
        (..., heads, q, k). Entries that do not vary may share memory: copy before writing to it.

    Raises
    ------
    ArgumentError
        If shapes, heads or parameters do not fit.
    DTypeError
        If the positions are not integers.
    PositionError
        If positions lie further apart than the integers of the library hold, or outside what is
        learned. Where values cannot be looked at, such entries are NaN.

    Examples
    --------
    >>> import posenc
    >>> posenc.bias(posenc.ALiBi(heads=8), [5], 6, heads=(0, 1))
    array([[[-2.5, -2. , -1.5, -1. , -0.5,  0. ]]], dtype=float32)
    """
    plain = kernel in DIRECT and heads is None and type(q_positions) is not int
    direct = without_request() if plain else None
    if direct is not None and (xp is None or xp is sys.modules["torch"]):
        entries: Array = direct.biased(spec, q_positions, k_positions, params, dtype, device)
        if entries is not None:
            return entries
    caller = f"bias({name_of(spec)})"
    require(spec, BiasSpec, "bias")
    values = params.values() if isinstance(params, Mapping) else ()
    if is_divided(q_positions, k_positions, *values):
        options = {"dtype": dtype, "device": device, "kernel": kernel}
        sides_of = q_positions, q_positions if k_positions is None else k_positions
        return _divided_bias(spec, *sides_of, params, {**options, "heads": heads})
    array = library_of(q_positions, k_positions, *values)
    if xp is None and array is not None:
        xp = namespace(array, caller)
    xp = library(np if xp is None else xp)
    if device is None and array is not None:
        device = device_of(array)
    out = dtype_named("float32" if dtype is None else dtype, xp, caller)
    first, end = head_range(heads, spec.heads, caller)
    both = sides(spec.axes, q_positions, k_positions, xp=xp, device=device, caller=caller)
    check_sides(spec, both)
    mine = known(spec, params, first, end, both.q[0], xp=xp, device=device, caller=caller)
    return kernels.run(kernels.Bias(spec, both, (first, end), mine, out, xp, caller), kernel)


def _divided_bias(spec: BiasSpec, q: Any, k: Any, params: Any, options: dict[str, Any]) -> Array:
    """The bias where positions or parameters are divided between processes."""
    import torch

    from posenc.functional.arguments import divided as _divided
    from posenc.functional.arguments import shards as _shards

    caller = f"bias({name_of(spec)})"
    axes = ("axes",) if len(spec.axes) > 1 else ()
    rows, columns = _divided.numbered(q, "q", axes), _divided.numbered(k, "k", axes)
    lead = max((part.labels[: -1 - len(axes)] for part in (rows, columns)), key=len)
    first, end = head_range(options.pop("heads"), spec.heads, caller)
    learned = _divided.of_parameters(spec, _divided.of_heads(spec, params, first, end, caller))
    numbers = _shards.Part(torch.arange(first, end), (_shards.HEADS,))

    def entries(q: Any, k: Any, numbers: Any, **params: Array) -> Array:
        some = _divided.range_of(numbers)
        return bias(spec, q, k, params=_divided.params_of(params), heads=some, xp=torch, **options)

    parts = {"q": rows, "k": columns, "numbers": numbers, **learned}
    return _divided.apply(entries, parts, (*lead, _shards.HEADS, "q", "k"), caller, {})
