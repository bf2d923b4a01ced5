"""The verbs of the third and the fourth kind: biases on scores, and positions that meet content."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc import kernels
from posenc._core.arrays.array import (
    astype,
    compute_dtype,
    device_of,
    dtype_named,
    is_divided,
    library,
    namespace,
    result_dtype,
    same_library,
)
from posenc._core.calls import numpy_rules
from posenc._core.errors import bad_argument, bad_spec
from posenc._core.tracing import is_compiling
from posenc.encodings.api import BiasSpec, Places, RelativeSpec
from posenc.functional.arguments.common import (
    DIRECT,
    Array,
    Kernel,
    library_of,
    name_of,
    require,
    values_of,
    without_request,
    wrong_shape,
)
from posenc.functional.arguments.scores import (
    check_sides,
    head_range,
    known,
    sides,
    sides_of_content,
)
from posenc.kernels.plans import remember_scores


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
        The same for the keys; those of the queries by default. Two numbers do not say which of more
        keys fewer queries are: give positions, such as [9] for the last of 10. A side without batch
        axes serves every row; two sides with batch axes need one batch shape.
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
    if array is not None:
        xp = namespace(array, caller) if xp is None else xp
        device = device_of(array) if device is None else device
    xp = library(np if xp is None else xp)
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

    caller = f"bias({name_of(spec)})"
    axes = ("axes",) if len(spec.axes) > 1 else ()
    rows, columns = _divided.numbered(q, "q", axes), _divided.numbered(k, "k", axes)
    lead = max((part.labels[: -1 - len(axes)] for part in (rows, columns)), key=len)
    first, end = head_range(options.pop("heads"), spec.heads, caller)
    learned = _divided.of_parameters(spec, _divided.of_heads(spec, params, first, end, caller))
    numbers = _divided.Part(torch.arange(first, end), (_divided.HEADS,))

    def entries(q: Any, k: Any, numbers: Any, **params: Array) -> Array:
        some = _divided.range_of(numbers)
        return bias(spec, q, k, params=_divided.params_of(params), heads=some, xp=torch, **options)

    parts = {"q": rows, "k": columns, "numbers": numbers, **learned}
    return _divided.apply(entries, parts, (*lead, _divided.HEADS, "q", "k"), caller, {})


@numpy_rules
def relative(
    spec: RelativeSpec,
    q: Array,
    k: Array,
    q_positions: Any = None,
    k_positions: Any = None,
    *,
    params: Mapping[str, Array] | None = None,
    heads: tuple[int, int] | None = None,
) -> Array:
    """What positions add to the products of queries and keys.

        scores = (q . k + relative) * spec.scale        where spec.place is "before"
        scores = q . k * spec.scale + relative          where it is "after"

    Parameters
    ----------
    spec : RelativeSpec
        An encoding of the fourth kind.
    q, k : array
        (..., heads, q, dim) and (..., heads, k, dim), floating, of as many heads.
    q_positions, k_positions : array of integers, optional
        (q,) or (batch, q), and likewise for keys; with a trailing axis for specs of several axes.
        Both count from 0 where there are as many queries as keys; else they must be given.
    params : mapping of str to array, optional
        The parameters, as `posenc.init` makes them: of all heads, or of the heads asked for.
    heads : (int, int), optional
        Which heads [first, end) of the spec `q` and `k` hold, as tensor parallelism divides them.

    Returns
    -------
    array
        (..., heads, q, k), in the dtype of `q`; the arithmetic is float32 or better.

    Raises
    ------
    ArgumentError
        If shapes, heads or parameters do not fit.
    DTypeError
        If `q` is not floating or the positions are not integers.
    PositionError
        If positions are outside what is learned, or too far apart for the integers of the library.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.Shaw(4, clip=2)
    >>> q = np.ones((1, 8, 3, 4), "float32")
    >>> posenc.relative(spec, q, q, params=posenc.init(spec)).shape
    (1, 8, 3, 3)
    """
    direct = without_request() if heads is None else None
    if direct is not None:
        result: Array = direct.scored(spec, q, k, q_positions, k_positions, params)
        if result is not None:
            return result
    caller = f"relative({name_of(spec)})"
    require(spec, RelativeSpec, "relative")
    if is_divided(q, k, q_positions, k_positions, *values_of(params)):
        content, sides_of = {"q": q, "k": k}, (q_positions, k_positions)
        return _divided_scores(relative, spec, content, sides_of, params=params, heads=heads)
    xp = namespace(q, f"{caller}: q")
    dtype = result_dtype(q, f"{caller}: q")
    result_dtype(k, f"{caller}: k")
    for name, x in (("q", q), ("k", k)):
        same_library(x, xp, f"{caller}: {name}")
        if len(x.shape) < 3 or x.shape[-1] != spec.dim:
            raise wrong_shape(f"{caller}: {name}", f"shape (..., heads, {name}, {spec.dim})", x)
    if tuple(q.shape[:-2]) != tuple(k.shape[:-2]):
        raise bad_argument(
            caller,
            "q and k of one batch shape and heads",
            f"shapes {tuple(q.shape)} and {tuple(k.shape)}",
            "Repeat the keys where several queries share them.",
        )
    both, first, end = sides_of_content(
        spec, q, k.shape[-2], q_positions, k_positions, heads=heads, xp=xp, caller=caller
    )
    values = known(spec, params, first, end, both.q[0], xp=xp, device=device_of(q), caller=caller)
    inner = compute_dtype(dtype, xp)
    wide_q, wide_k = astype(q, inner, xp), astype(k, inner, xp)
    scores = spec.score(wide_q, wide_k, Places(*both.with_heads()), values, dtype=inner, xp=xp)
    if direct is not None and not is_compiling():
        remember_scores(spec)
    return astype(both.without_wrapped(scores, xp), dtype, xp)


@numpy_rules
def relative_values(
    spec: RelativeSpec,
    weights: Array,
    q_positions: Any = None,
    k_positions: Any = None,
    *,
    params: Mapping[str, Array] | None = None,
    heads: tuple[int, int] | None = None,
) -> Array:
    """What positions add to the weighted sum of the values.

        out = weights v + relative_values

    Parameters
    ----------
    spec : RelativeSpec
        An encoding of the fourth kind that acts on values.
    weights : array
        (..., heads, q, k), the attention weights after the softmax.
    q_positions, k_positions : array of integers, optional
        As for `relative`.
    params : mapping of str to array, optional
        The parameters, as `posenc.init` makes them.
    heads : (int, int), optional
        Which heads of the spec the weights hold.

    Returns
    -------
    array
        (..., heads, q, dim), in the dtype of the weights.

    Raises
    ------
    SpecError
        If the encoding does not act on values.
    ArgumentError
        If shapes, heads or parameters do not fit.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.Shaw(4, clip=2)
    >>> weights = np.full((1, 8, 3, 3), 1 / 3)
    >>> posenc.relative_values(spec, weights, params=posenc.init(spec)).shape
    (1, 8, 3, 4)
    """
    caller = f"relative_values({name_of(spec)})"
    require(spec, RelativeSpec, "relative_values")
    if is_divided(weights, q_positions, k_positions, *values_of(params)):
        one, sides_of = {"weights": weights}, (q_positions, k_positions)
        return _divided_scores(relative_values, spec, one, sides_of, params=params, heads=heads)
    if not spec.on_values:
        raise bad_spec(caller, "an encoding that acts on values", repr(spec))
    xp = namespace(weights, f"{caller}: weights")
    dtype = result_dtype(weights, f"{caller}: weights")
    if len(weights.shape) < 3:
        raise wrong_shape(f"{caller}: weights", "shape (..., heads, q, k)", weights)
    keys = weights.shape[-1]
    both, first, end = sides_of_content(
        spec, weights, keys, q_positions, k_positions, heads=heads, xp=xp, caller=caller
    )
    values = known(
        spec, params, first, end, both.q[0], xp=xp, device=device_of(weights), caller=caller
    )
    inner = compute_dtype(dtype, xp)
    wide = astype(weights, inner, xp)
    added = spec.values(wide, Places(*both.with_heads()), values, dtype=inner, xp=xp)
    return astype(added, dtype, xp)


def _divided_scores(
    run: Callable[..., Array],
    spec: RelativeSpec,
    inputs: Mapping[str, Array],
    positions: tuple[Any, Any],
    *,
    params: Any,
    heads: Any,
) -> Array:
    """A verb where its inputs are divided between processes, by batch or by heads."""
    import torch

    from posenc.functional.arguments import divided as _divided

    caller = f"{run.__name__}({name_of(spec)})"
    rank = next(iter(inputs.values())).ndim
    labels = (*(str(axis) for axis in range(rank - 3)), _divided.HEADS, "q", "k")
    axes = ("axes",) if len(spec.axes) > 1 else ()
    parts = {
        name: _divided.Part(x, labels, leads=True)
        if name == "weights"
        else _divided.Part(x, (*labels[:-2], name, "channels"), leads=True)
        for name, x in inputs.items()
    }
    for side, places in zip("qk", positions, strict=True):
        parts[f"{side}_positions"] = _divided.numbered(places, side, axes)
    if spec.heads is None:
        learned = params
    else:
        first, end = head_range(heads, spec.heads, caller)
        learned = _divided.of_heads(spec, params, first, end, caller)
        parts["numbers"] = _divided.Part(torch.arange(first, end), (_divided.HEADS,))

    def scores(*, q_positions: Any, k_positions: Any, numbers: Any = None, **more: Array) -> Array:
        some = heads if numbers is None else _divided.range_of(numbers)
        arrays = tuple(more.pop(name) for name in inputs)
        return run(
            spec, *arrays, q_positions, k_positions, params=_divided.params_of(more), heads=some
        )

    todo = "Its entries need the whole sequence: divide the batch or the heads."
    refused = dict.fromkeys(("q", "k"), ("a whole sequence", todo))
    refused["channels"] = _divided.WHOLE_CHANNELS
    out = labels if "weights" not in inputs else (*labels[:-1], "channels")
    return _divided.apply(
        scores, parts | _divided.of_parameters(spec, learned), out, caller, refused
    )
