"""Nodes of a tree by the path from the root (Shiv and Quirk 2019)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from posenc.encodings.table.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    TableSpec,
    astype,
    at_least,
    bad_position,
    concrete,
    device_of,
    marked,
)


@final
@dataclass(frozen=True)
class TreePositions(TableSpec):
    """Positions in a tree (Shiv and Quirk 2019, NeurIPS 32).

        PE(path)[k, c, f] = [path[k] == c] * p[f]**k * sqrt((1 - p[f]**2) * dim / 2)
        p                 = tanh(decay)

    A path holds the steps from the node up: path[0] says which child of its parent the node is,
    path[1] which child the parent is, and so on. Going down to child c pushes c in front, which is
    linear in the row, and going up drops it; decays p below 1 fade the distant ancestors.

    Parameters
    ----------
    dim : int
        Width of the table: depth * degree * (number of decays), and less than depth * degree
        columns of zeros.
    degree : int
        Largest number of children of a node.
    depth : int
        Number of steps that are kept; further ancestors are forgotten.
    init : Init
        First values of `decay`, before the hyperbolic tangent.

    Raises
    ------
    SpecError
        If the width has no room for one decay.

    Notes
    -----
    A position has `depth` axes: steps from 0 to degree - 1, and -1 beyond the root, which is all
    -1. The parameter is `decay`, (decays,). Steps out of range raise `PositionError`, and give NaN
    where positions cannot be looked at.

    Examples
    --------
    The root, its second child, and the first child of that:

    >>> import numpy as np, posenc
    >>> spec = posenc.TreePositions(4, degree=2, depth=2)
    >>> params = {"decay": np.arctanh([0.5])}
    >>> posenc.table(spec, [[-1, -1], [1, -1], [0, 1]], params=params).round(3)
    array([[0.   , 0.   , 0.   , 0.   ],
           [0.   , 1.225, 0.   , 0.   ],
           [1.225, 0.   , 0.   , 0.612]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    degree: int
    depth: int
    init: Init = Init("uniform", scale=1.0)

    example = Example(
        {"dim": 60, "degree": 2, "depth": 5},
        lambda: [[(n >> k) % 2 if n >> k > 1 else -1 for k in range(5)] for n in range(1, 64)],
        "the nodes of a binary tree, level by level",
        "Its positions are paths in a tree.",
    )
    paper = "shiv2019tree"

    def check(self) -> None:
        """Raise `SpecError` when a number cannot be."""
        at_least("TreePositions", degree=self.degree, depth=self.depth)
        self._require(
            self.decays >= 1, "dim", f"at least depth * degree = {self.depth * self.degree}"
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position: the steps, the last one taken first."""
        return ("step",) if self.depth == 1 else tuple(f"step{k}" for k in range(self.depth))

    @property
    def decays(self) -> int:
        """Number of learned decays."""
        return self.dim // (self.depth * self.degree)

    def parameters(self) -> dict[str, Parameter]:
        """The decays, before the hyperbolic tangent."""
        return {"decay": Parameter((self.decays,), self.init)}

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., depth) -> (..., dim)."""
        outside = self._outside(positions)
        p = xp.tanh(astype(constants["decay"], dtype, xp))
        # Powers by products: 0 ** 0 has no derivative that libraries agree on.
        weight = xp.sqrt((1 - p * p) * (self.dim / 2))
        pieces = []
        for k in range(self.depth):
            pieces += [
                astype(positions[..., k] == child, dtype, xp)[..., None] * weight
                for child in range(self.degree)
            ]
            weight = weight * p
        rest = self.dim - self.depth * self.degree * self.decays
        if rest:
            shape = (*positions.shape[:-1], rest)
            pieces.append(xp.zeros(shape, dtype=dtype, device=device_of(positions)))
        rows = xp.concat(pieces, axis=-1)
        return rows if outside is None else marked(rows, outside[..., None], math.nan, xp=xp)

    def _outside(self, positions: Array) -> Array | None:
        """Which paths have a step out of range; None where they were looked at, and have not."""
        known = concrete(positions)
        if known is None:
            steps = [positions[..., k] for k in range(self.depth)]
            found = (steps[0] < -1) | (steps[0] >= self.degree)
            for step in steps[1:]:
                found = found | (step < -1) | (step >= self.degree)
            return found
        if known.size and (known.min() < -1 or known.max() >= self.degree):
            expected = f"steps from 0 to {self.degree - 1}, and -1 beyond the root"
            worst = known.max() if known.max() >= self.degree else known.min()
            raise bad_position("TreePositions: positions", expected, worst)
        return None
