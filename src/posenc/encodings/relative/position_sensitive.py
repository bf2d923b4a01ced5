"""Position-sensitive attention along an axis (Wang et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np

from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    Places,
    RelativeSpec,
    astype,
    at_least,
    bad_position,
    key_products,
    marked,
    query_products,
    weighted_rows,
    within,
)


@final
@dataclass(frozen=True)
class PositionSensitive(RelativeSpec):
    """Position-sensitive axial attention (Wang et al. 2020, arXiv:2003.07853).

        scores[m, n] = q[m] . k[n] + q[m] . r_Q[n - m] + k[n] . r_K[n - m]
        out[m]       = sum_n weight[m, n] (v[n] + r_V[n - m])

    along one axis of an image at a time. Queries, keys and values each have vectors of their own
    for every offset, shared by all heads. The scores are not divided by sqrt(d).

    Parameters
    ----------
    dim : int
        Width d of the queries and keys of a head.
    length : int
        Length of the axis; offsets from 1 - length to length - 1 have vectors.
    value_dim : int, optional
        Width of the values of a head, `dim` by default; twice that in the authors' code.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If a number is below 1.

    Notes
    -----
    The authors' code numbers the vectors of queries and values by m - n, and normalises each of the
    three parts of the scores over a batch before they are summed. Such normalisations become a
    factor on each part when training is over: they may be multiplied into q, r_Q and r_K.

    Examples
    --------
    >>> import posenc
    >>> {name: a.shape for name, a in posenc.init(posenc.PositionSensitive(8, length=56)).items()}
    {'queries': (111, 8), 'keys': (111, 8), 'values': (111, 8)}
    """

    dim: int
    _: KW_ONLY
    length: int
    value_dim: int | None = None
    init: Init = Init(scale=0.02)

    example = Example({"length": 64})
    paper = "wang2020axial"
    scale = 1.0  # the scores are left as they are
    on_values = True

    def check(self) -> None:
        """Raise `SpecError` when a number is below 1."""
        wide = self.dim if self.value_dim is None else self.value_dim
        at_least("PositionSensitive", dim=self.dim, length=self.length, value_dim=wide)

    def parameters(self) -> dict[str, Parameter]:
        """A vector for each offset, for queries, keys and values."""
        rows = 2 * self.length - 1
        wide = self.dim if self.value_dim is None else self.value_dim
        table = Parameter((rows, self.dim), self.init)
        return {"queries": table, "keys": table, "values": Parameter((rows, wide), self.init)}

    def check_positions(self, q: tuple[Array, ...], k: tuple[Array, ...]) -> None:
        """Raise `PositionError` where an offset has no vector."""
        far = np.abs(k[0] - q[0])
        if far.size and far.max() >= self.length:
            raise bad_position(
                "PositionSensitive: positions",
                f"offsets below the length, {self.length}",
                int(far.max()),
            )

    def _rows(self, at: Places, xp: Any) -> tuple[Array, Array]:
        """The row of each offset, and where there is none."""
        return within(at.rel + (self.length - 1), 2 * self.length - 1, xp=xp)

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . r_Q + k . r_K; NaN where an offset has no vector."""
        row, outside = self._rows(at, xp)
        of_queries, of_keys = (astype(constants[name], dtype, xp) for name in ("queries", "keys"))
        total = query_products(q, of_queries, row, xp=xp) + key_products(k, of_keys, row, xp=xp)
        return marked(total, outside, math.nan, xp=xp)

    def values(
        self, weights: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Weighted vectors, sum_n weight[m, n] r_V: one product for each query."""
        row, outside = self._rows(at, xp)
        weights = marked(weights, outside, math.nan, xp=xp)
        return weighted_rows(weights, astype(constants["values"], dtype, xp), row, xp=xp)
