"""Somebody's implementation held to the contract of a model, in a test suite."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from posenc._core.errors import one_of
from posenc._core.guard import foreign
from posenc.detect.contract import Comparison, Contract, read
from posenc.detect.contract.comparison.compare import comparison
from posenc.detect.contract.sides.side import Implementation, Library
from posenc.detect.contract.sides.sides import of_code, side_of
from posenc.detect.fit.tolerances import ROUNDING

MOST_LINES = 12


@foreign("assert_contract")
def assert_contract(
    side: Any,
    contract: Contract | str | os.PathLike[str],
    *,
    dtype: str = "float32",
    layers: Sequence[str] | None = None,
    library: Library | None = None,
) -> Comparison:
    """Raise unless `posenc.diff` finds no difference between an implementation and a contract.

    Parameters
    ----------
    side : object
        An object with any of the methods `frequencies(layer)`, `cos_sin(positions, layer)`,
        `rotate(x, positions, layer)`, `logit_scale(positions, layer)`, `table(positions, layer)`,
        `bias(q_positions, k_positions, layer)` and `position_ids(case, layer)`, or whatever
        `posenc.ask` asks. `docs/golden.md` says what each returns.
    contract : Contract or path
        A contract, or the file that `posenc golden` wrote.
    dtype : {"float64", "float32", "float16", "bfloat16"}
        What the side computes in. The halves stand for angles in float32 and results that are
        rounded once more.
    layers : sequence of str, optional
        The parts to compare; all by default.
    library : {"numpy", "torch", "jax", "mlx"}, optional
        Whose arrays the side takes, where that is not to be found out; methods get those of NumPy.

    Returns
    -------
    Comparison
        What was compared, and what was not.

    Raises
    ------
    AssertionError
        If a number differs by more than its tolerance, or nothing could be compared.
    ArgumentError
        If the side has none of the methods, or a name is unknown.
    DataError
        If the file is no contract.

    Whatever the side raises of its own is raised.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> from posenc.testing import assert_contract
    >>> def cos_sin(positions):
    ...     angles = positions[:, None] * 10_000.0 ** -(np.arange(4) / 4)
    ...     return np.cos(angles), np.sin(angles)
    >>> contract = posenc.golden(posenc.RoPE(8, pairing="half"))
    >>> assert_contract(cos_sin, contract).verdict
    'nothing differs'
    """
    one_of(dtype, ROUNDING, "assert_contract: dtype")
    contract = contract if isinstance(contract, Contract) else read(contract)
    if layers is not None:
        contract = dataclasses.replace(contract, parts=tuple(contract[name] for name in layers))
    code = Implementation(side, library, dtype, strict=True)
    result = comparison(side_of(contract, name="the contract"), of_code(code))
    if result.compared and not result.rows:
        return result
    title = f"{code.name} differs from the contract:"
    lines = [row.text for row in result.rows]
    if not lines:
        title = f"{code.name}: nothing of the contract was compared:"
        raise AssertionError("\n  ".join([title, *result.not_compared[: MOST_LINES + 1]]))
    more = [f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    raise AssertionError("\n  ".join([title, *lines[:MOST_LINES], *more]))
