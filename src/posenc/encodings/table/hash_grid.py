"""Learned features on grids of many resolutions, found by a spatial hash (Müller et al. 2022)."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc.encodings.table.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    TableSpec,
    astype,
    bad_position,
    concrete,
    gather,
    has_int64,
    marked,
    summed,
)

# One for each axis; the first is 1 for the sake of caches (section 3 of the paper).
PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)
LARGEST_TABLE = 24  # the logarithm up to which products of masked numbers stay within 64 bits


@final
@dataclass(frozen=True)
class HashGrid(TableSpec):
    """Multiresolution hash encoding (Müller et al. 2022, arXiv:2201.05989, section 3).

        row(x)[level] = multilinear interpolation, at x N[level], of table[level, hash(corner)]
        hash(c)       = (c[0] * 1  xor  c[1] * 2654435761  xor  c[2] * 805459861  …)  mod T
        N[level]      = floor(coarsest * (finest / coarsest) ** (level / (L - 1)))

    Corners that collide share a row, and learning settles for whom the row matters.

    Parameters
    ----------
    dim : int
        Width of a row: the features of every level.
    levels : int
        Number L of grids.
    log2_size : int
        The logarithm of the number T of rows in the table of a level, up to 24.
    coarsest, finest : int
        Cells along each side of the first and the last grid.
    space : tuple of str
        Names of the coordinates, at most seven.
    small : {"dense", "hashed"}
        Grids whose corners fit into a table: `dense` gives each corner a row of its own, the first
        coordinate fastest, as in the paper; `hashed` hashes those too, as some code does.
    init : Init
        First values; uniform within 1e-4 in the paper.

    Raises
    ------
    SpecError
        If the levels do not divide the width, or a number is out of range.

    Notes
    -----
    Coordinates are from 0 to 1. Others raise `PositionError`, and give NaN where positions cannot
    be looked at. The parameter is `table`, (levels, T, dim / levels). Gradients flow to it and to
    the coordinates, for which a row is linear within a cell. The place within a cell is worked out
    in the dtype of the coordinates: in float32 it is known to 6e-8 N.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.HashGrid(
    ...     1, levels=1, log2_size=4, coarsest=2, finest=2, space=("x", "y"))
    >>> params = {"table": np.arange(16.0).reshape(1, 16, 1)}
    >>> posenc.table(spec, [[0.5, 0.5], [0.25, 0.5]], params=params)
    array([[4. ],
           [3.5]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    levels: int
    log2_size: int
    coarsest: int
    finest: int
    space: tuple[str, ...] = ("x", "y", "z")
    small: Literal["dense", "hashed"] = "dense"
    init: Init = Init("uniform", scale=1e-4)

    example = Example(
        {"levels": 8, "log2_size": 10, "coarsest": 2, "finest": 64, "space": ("x", "y")},
        lambda: np.linspace((0, 0), (1, 1), 64),
        "points from corner to corner",
    )
    paper = "mueller2022instant"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        self._require(
            self.levels >= 1 and self.dim >= 1 and self.dim % self.levels == 0,
            "dim",
            f"a multiple of the {self.levels} levels, at least 1",
        )
        self._require(
            1 <= self.log2_size <= LARGEST_TABLE, "log2_size", f"from 1 to {LARGEST_TABLE:,}"
        )
        self._require(
            1 <= self.coarsest <= self.finest < 2**30,
            "",
            "1 <= coarsest <= finest < 2**30",
            f"coarsest={self.coarsest}, finest={self.finest}",
        )
        self._require(
            self.levels != 1 or self.coarsest == self.finest,
            "",
            "coarsest equal to finest where there is one level",
            f"coarsest={self.coarsest}, finest={self.finest}",
        )
        names = self.space
        self._require(
            1 <= len(names) <= len(PRIMES) and len(set(names)) == len(names),
            "space",
            f"one to {len(PRIMES)} distinct names",
            names,
        )

    @property
    def sides(self) -> tuple[int, ...]:
        """Cells along each side of each grid."""
        if self.levels == 1:
            return (self.coarsest,)
        last = self.levels - 1
        growth = math.log(self.finest / self.coarsest)
        sides = [math.floor(self.coarsest * math.exp(growth * k / last)) for k in range(last)]
        return (*sides, self.finest)

    @property
    def size(self) -> int:
        """Number T of rows of each level."""
        return 1 << self.log2_size

    def constants(self) -> dict[str, np.ndarray]:
        """The sides of the grids, and the factor of each coordinate in the number of a row."""
        axes, mask = len(self.space), self.size - 1
        factors = np.zeros((axes, self.levels), dtype=np.int32)
        dense = np.zeros((self.levels,), dtype=np.int32)
        for level, side in enumerate(self.sides):
            dense[level] = self.small == "dense" and (side + 1) ** axes <= self.size
            for axis in range(axes):
                # A product modulo T needs its factors modulo T alone.
                factors[axis, level] = (side + 1) ** axis if dense[level] else PRIMES[axis] & mask
        first = np.arange(self.levels, dtype=np.int32) * self.size
        sides = np.array(self.sides, dtype=np.float64)
        return {"side": sides, "factor": factors, "dense": dense, "first": first}

    def parameters(self) -> dict[str, Parameter]:
        """The tables of all levels."""
        return {"table": Parameter((self.levels, self.size, self.dim // self.levels), self.init)}

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        outside = self._outside(positions)
        x = positions
        if xp.isdtype(x.dtype, "integral"):
            x = astype(x, dtype, xp)
        if outside is not None:
            x = xp.where(outside[..., None], xp.zeros_like(x), x)
        table = astype(constants["table"], dtype, xp)
        table = xp.reshape(table, (self.levels * self.size, table.shape[-1]))
        side = astype(constants["side"], x.dtype, xp)
        integer = xp.int64 if has_int64(xp) else xp.int32
        lower, after = [], []
        for axis in range(len(self.space)):
            scaled = x[..., axis, None] * side
            # The last corner belongs to the cell before it.
            cell = xp.where(scaled >= side, side - 1, xp.floor(scaled))
            lower.append(astype(cell, integer, xp))
            after.append(astype(scaled - cell, dtype, xp))
        total: Any = None
        for corner in itertools.product((0, 1), repeat=len(self.space)):
            shares = zip(after, corner, strict=True)
            weight = functools.reduce(operator.mul, [s if step else 1 - s for s, step in shares])
            places = [cell + step for cell, step in zip(lower, corner, strict=True)]
            term = weight[..., None] * gather(table, self._numbers(places, constants, xp), xp=xp)
            total = term if total is None else total + term
        rows = xp.reshape(total, (*total.shape[:-2], self.dim))
        return rows if outside is None else marked(rows, outside[..., None], math.nan, xp=xp)

    def _numbers(self, places: list[Array], constants: Constants, xp: Any) -> Array:
        """The row of a corner in the tables of each level: (..., levels)."""
        mask = self.size - 1
        # Below 2**48, or wrapped around where integers have 32 bits: the last bits are right.
        terms = [
            (place & mask) * astype(constants["factor"][axis, :], place.dtype, xp)
            for axis, place in enumerate(places)
        ]
        hashed = functools.reduce(operator.xor, terms) & mask
        number = xp.where(constants["dense"] == 1, summed(terms), hashed)
        return number + astype(constants["first"], number.dtype, xp)

    def _outside(self, positions: Array) -> Array | None:
        """Which points lie outside; None where they were looked at, and none does."""
        known = concrete(positions)
        if known is None:
            axes = [positions[..., axis] for axis in range(len(self.space))]
            return ~functools.reduce(operator.and_, [(x >= 0) & (x <= 1) for x in axes])
        if known.size and (known.min() < 0 or known.max() > 1):
            worst = known.max() if known.max() > 1 else known.min()
            raise bad_position(
                "HashGrid: positions",
                "from 0 to 1",
                worst,
                "Normalise them, or clip what is rounded.",
            )
        return None
