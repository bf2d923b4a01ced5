"""Verbs of the first kind: tables, added to embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc import kernels
from posenc._core.annotations import MOST
from posenc._core.arrays.array import (
    device_of,
    dtype_named,
    is_divided,
    library,
    namespace,
    result_dtype,
)
from posenc._core.calls import numpy_rules
from posenc._core.tracing import is_compiling
from posenc.encodings.table.base import TableSpec
from posenc.functional.arguments.common import (
    Array,
    Kernel,
    X,
    home,
    name_of,
    parameters,
    require,
    values_of,
    wrong_shape,
)
from posenc.functional.arguments.tokens import asked_positions, is_start, place_of, token_positions


@numpy_rules
def table(
    spec: TableSpec,
    positions: Any,
    *,
    params: Mapping[str, Array] | None = None,
    batch_dim: bool = False,
    dtype: Any = None,
    xp: Any = None,
    device: Any = None,
    kernel: Kernel = "auto",
) -> Array:
    """The rows of a table at some positions.

        table[..., c] = PE(positions, c)

    Parameters
    ----------
    spec : TableSpec
        An encoding of the first kind.
    positions : int, or array of integers
        A number n for the positions 0 to n - 1, or any positions of shape (...); for a spec of
        several axes (..., axes). Negative ones and any up to 2**63 are computed, with an error of
        1.8e-19 for each position (4e-10 at 2**31, 2e-3 at 2**53); learned tables end.
    params : mapping of str to array, optional
        The parameters of a learned encoding, as `posenc.init` makes them; of the library of the
        result, or NumPy arrays.
    batch_dim : bool
        Whether to put an axis of length 1 in front: (1, positions, dim), as tutorials have it.
    dtype : dtype or str, optional
        float32 by default; float64, float16 and bfloat16 where the library has them.
    xp : module, optional
        The library of the result; that of `positions` or `params` by default, else NumPy.
    device : device, optional
        Where the table goes; with `positions` by default.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it. A kernel that is named obeys or says why not; `auto` takes the first that
        can, else the reference. `posenc doctor` lists them.

    Returns
    -------
    array
        (..., dim), float32 of unit scale right to 1e-7.

    Raises
    ------
    ArgumentError
        If the parameters are not those of the spec.
    DTypeError
        If the positions are not integers.
    PositionError
        If a position does not fit the integers of the library, or is not in a learned table.

    Examples
    --------
    >>> import posenc
    >>> posenc.table(posenc.Sinusoidal(4), [2**31 - 1]).round(4)
    array([[-0.7249, -0.6888,  0.7013, -0.7128]], dtype=float32)
    """
    caller = f"table({name_of(spec)})"
    require(spec, TableSpec, "table")
    if is_divided(positions, *values_of(params)):
        from posenc.functional.arguments.divided import at_positions

        options = {"batch_dim": batch_dim, "dtype": dtype, "device": device, "kernel": kernel}
        return at_positions(table, spec, positions, params, options, caller, "channels")
    xp, device = home(positions, params, xp=xp, device=device, caller=caller)
    out = dtype_named("float32" if dtype is None else dtype, xp, caller)
    # A kernel that counts by itself needs no array of positions, which would take longer to
    # make than a small table does.
    counts = type(positions) is int and 0 <= positions < MOST and len(spec.axes) == 1
    places: Any = (
        kernels.Counted(positions, device)
        if counts and not is_compiling() and not (device and xp is library(np))
        else asked_positions(spec, positions, xp=xp, device=device, caller=caller)
    )
    learned = parameters(spec, params, xp=xp, device=device, caller=caller)
    rows = kernels.run(kernels.Table(spec, places, learned, out, xp, caller), kernel)
    return rows[None, ...] if batch_dim else rows


@numpy_rules
def add(
    spec: TableSpec,
    x: X,
    *,
    params: Mapping[str, Array] | None = None,
    positions: Any = None,
    offset: Any = None,
    seq_dim: int = -2,
    kernel: Kernel = "auto",
) -> X:
    """Add the encoding to embeddings.

        y[..., s, c] = embedding_scale * x[..., s, c] + PE(positions[s], c)

    The sum is formed in float32 (float64 for float64) and rounded once to the dtype of `x`. A
    `Concatenated` spec appends its table to the embeddings instead.

    Parameters
    ----------
    spec : TableSpec
        An encoding of the first kind, as wide as `x`.
    x : array
        (..., seq, dim), floating; any array library.
    params : mapping of str to array, optional
        The parameters of a learned encoding, as `posenc.init` makes them; of the library of `x`,
        or NumPy arrays.
    positions : array of integers, optional
        (seq,), (batch, seq), or the leading shape of `x`; a trailing axis for specs of several
        axes. 0, 1, … by default.
    offset : int or array of integers, optional
        Position of the first token: one number, or one per row. Not beside `positions`.
    seq_dim : int
        The axis of `x` that holds the sequence: -2, or -3 for (batch, seq, heads, dim).
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it, as for `table`.

    Returns
    -------
    array
        (..., seq, width) in the dtype of `x`, which is left as it was. The width is that of `x`,
        unless the table is appended: see `spec.width`.

    Raises
    ------
    ArgumentError
        If the width or the positions do not fit `x`, both `positions` and `offset` are given, or
        the parameters are not those of the spec.
    DTypeError
        If `x` is not floating or the positions are not integers.
    PositionError
        If a position does not fit the integers of the library, or is not in a learned table.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> posenc.add(posenc.Sinusoidal(4), np.zeros((1, 2, 4), "float32"), offset=1).round(2)
    array([[[ 0.84,  0.54,  0.01,  1.  ],
            [ 0.91, -0.42,  0.02,  1.  ]]], dtype=float32)
    """
    caller = f"add({name_of(spec)})"
    require(spec, TableSpec, "add")
    if is_divided(x, positions, offset, *values_of(params)):
        return _divided_sum(
            spec, x, params, positions=positions, offset=offset, seq_dim=seq_dim, kernel=kernel
        )
    xp = namespace(x, f"{caller}: x")
    result_dtype(x, f"{caller}: x")
    shape = tuple(x.shape)
    if len(shape) < 2 or shape[-1] != spec.dim:
        raise wrong_shape(f"{caller}: x", f"shape (..., seq, {spec.dim})", x)
    place_of(shape, seq_dim, caller)
    places: kernels.Positions = (
        offset or 0
        if positions is None and len(spec.axes) == 1 and is_start(offset)
        else token_positions(spec, x, positions, offset, seq_dim=seq_dim, xp=xp, caller=caller)
    )
    if positions is None and (offset is None or isinstance(offset, int)) and not is_compiling():
        spec.check_count(offset or 0, shape[seq_dim])
    learned = parameters(spec, params, xp=xp, device=device_of(x), caller=caller)
    return kernels.run(kernels.Add(spec, x, places, seq_dim, learned, xp, caller), kernel)


# --- divided between processes --------------------------------------------------------------------


def _divided_sum(
    spec: TableSpec,
    x: Array,
    params: Any,
    *,
    positions: Any,
    offset: Any,
    seq_dim: int,
    kernel: Kernel,
) -> Array:
    from posenc.functional.arguments import divided as _divided

    def total(x: Array, positions: Any, offset: Any, **params: Array) -> Array:
        return add(
            spec,
            x,
            params=_divided.params_of(params),
            positions=positions,
            offset=offset,
            seq_dim=seq_dim,
            kernel=kernel,
        )

    return _divided.on_tokens(
        total,
        ("x", x),
        seq_dim,
        {"positions": positions},
        f"add({name_of(spec)})",
        last=int(len(spec.axes) > 1),
        more={"offset": _divided.of_offset(offset), **_divided.of_parameters(spec, params)},
    )
