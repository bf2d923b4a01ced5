"""Learned tables: one vector for each position, and nothing else (Gehring et al. 2017)."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np

from posenc._core.numeric.arrangement import Magnitude
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
    fixed,
    gather,
    library,
    marked,
    width_of,
)
from posenc.encodings.table.lookup import Lookup


@final
@dataclass(frozen=True)
class Learned(TableSpec):
    """Learned positions (Gehring et al. 2017, arXiv:1705.03122, section 3.1).

        PE(p) = weight[p + start]          0 <= p < length

    The rows are parameters: `posenc.init(spec, seed)` makes initial ones, the verbs take them as
    `params=`, and `posenc.torch.PositionTable` registers them under the same names.

    Parameters
    ----------
    dim : int
        Width of the table.
    length : int or tuple of int
        Number of usable positions, the rows before `start` not counted: one number, or one for each
        axis. A `flat` lookup with several numbers stands for a grid of that shape.
    start : int
        Position p reads row p + start: 2 where the first two rows are reserved, so that the table
        has length + 2 rows. It holds for the table of each axis.
    pad : int, optional
        The row that padding reads: position pad - start may be asked for, though it is negative.
        The row begins as zeros, is read as it is stored, and gets no gradient.
    lookup : Lookup
        Which rows of which tables a position reads: one axis, a grid, a table for each axis.
    init : Init or TableSpec
        First values of the rows: a rule, or another table whose rows they copy.
    magnitude : Magnitude
        Factors on the table and on the embeddings it is added to.

    Raises
    ------
    SpecError
        If the lengths do not fit the lookup, or the widths do not fit each other.

    Notes
    -----
    A position outside the table raises `PositionError` with the position and the usable length. No
    position wraps around or is clamped. Where positions cannot be looked at (under `jax.jit` and
    `torch.compile`, and those of a GPU, which looking at them would stop) the row of such a
    position is NaN. Positions that only count up from an offset are checked there too, except
    under `torch.compile`.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.Learned(2, length=3, start=2, pad=1)
    >>> params = posenc.init(spec, seed=0)
    >>> params["weight"].shape
    (5, 2)
    >>> bool((posenc.table(spec, [-1, 2], params=params) == params["weight"][[1, 4]]).all())
    True
    """

    dim: int
    _: KW_ONLY
    length: int | tuple[int, ...]
    start: int = 0
    pad: int | None = None
    lookup: Lookup = Lookup()
    init: Init | TableSpec = Init()
    magnitude: Magnitude = Magnitude()

    example = Example({"length": 64, "init": Init("normal", scale=1.0)})
    paper = "gehring2017convolutional"

    def check(self) -> None:
        """Raise `SpecError` when lengths and widths do not fit."""
        lookup, lengths = self.lookup, self.lengths
        width_of("Learned", dim=self.dim)
        self._require(min(lengths, default=0) >= 1, "length", "at least 1 position")
        self._require(
            len(lengths) != 1 or isinstance(self.length, int),
            "length",
            str(lengths[0]),
            todo="Two spellings of one spec would not be equal.",
        )
        self._require(
            lookup.rule == "flat" or len(lengths) == len(lookup.axes),
            "length",
            f"one number for each of the axes {lookup.axes}",
        )
        self._require(self.start >= 0, "start", "at least 0 rows")
        self._require(
            lookup.rule != "grid" or (not self.start and self.pad is None),
            "",
            "start=0 and pad=None where coordinates share one table",
            f"start={self.start}, pad={self.pad}",
        )
        if self.pad is not None and not 0 <= self.pad < self.start + min(self.limits):
            raise self._mismatch("pad", f"a row from 0 to {self.start + min(self.limits) - 1}")
        shapes: dict[str, tuple[int, int]] = {}
        for name, shape in self._shapes():
            if shapes.setdefault(name, shape) != shape:
                raise self._mismatch(
                    "", f"one shape for the shared table {name!r}", f"{shapes[name]} and {shape}"
                )
        if isinstance(self.init, TableSpec):
            self._check_init(self.init)

    def _check_init(self, init: TableSpec) -> None:
        coordinates = len(self.lengths) if self.lookup.shared else 1
        widths = {width for _, (_, width) in self._shapes()}
        if len(init.axes) not in (1, coordinates) or init.parameters() or widths != {init.width}:
            expected = (
                f"a table without parameters, of width {' and '.join(map(str, sorted(widths)))}"
            )
            expected += f" and {' or '.join(map(str, sorted({1, coordinates})))} axes"
            raise self._mismatch(
                "init",
                expected,
                f"{type(init).__name__} of width {init.width} and axes {init.axes}",
            )

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position."""
        return self.lookup.axes

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length along each axis, or along each side of the grid of a flat table."""
        return (self.length,) if isinstance(self.length, int) else self.length

    @property
    def limits(self) -> tuple[int, ...]:
        """The usable length of each axis: positions stay below it."""
        if self.lookup.rule == "flat":
            return (self.lookup.prefix + math.prod(self.lengths),)
        return self.lengths

    def _shapes(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The parameter that each axis reads, and its shape."""
        limits = (math.prod(self.lengths),) if self.lookup.rule == "grid" else self.limits
        limits *= len(self.axes) // len(limits)
        shares = self.lookup.shares(self.dim)
        for name, limit, share in zip(self.lookup.names(), limits, shares, strict=True):
            yield name, (self.start + limit, share)

    def parameters(self) -> dict[str, Parameter]:
        """The tables, and the factor on them where it is learned."""
        tables = {name: Parameter(shape, self.init) for name, shape in self._shapes()}
        return tables | self.magnitude.parameters(self.dim)

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        shape, init = self.parameters()[name]
        if isinstance(init, TableSpec):
            values = self._copied(init, shape)
        else:
            values = super().initial(name, rng)
        if self.pad is not None and shape:
            values[self.pad] = 0
        return values

    def _copied(self, init: TableSpec, shape: tuple[int, ...]) -> np.ndarray:
        """Rows of another table: at position p what it has there, zeros elsewhere."""
        first = self.start
        if len(init.axes) == 1:
            positions = np.arange(shape[0] - first, dtype=np.int64)[:, None]
        else:
            first += self.lookup.prefix
            cells = np.indices(self.lengths, dtype=np.int64)
            positions = np.moveaxis(cells, 0, -1).reshape(-1, len(self.lengths))
        values = np.zeros(shape, dtype=np.float32)
        xp = library(np)
        values[first:] = init.rows(positions, init.arrays, dtype=xp.float32, xp=xp)
        return values

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        known = concrete(positions)
        outside = None
        if known is not None:
            for axis, limit in enumerate(self.limits):
                self._check_known(known[..., axis], axis, limit)
        else:
            outside = functools.reduce(
                operator.or_,
                [self._outside(positions[..., a], limit) for a, limit in enumerate(self.limits)],
            )
            positions = xp.where(outside[..., None], xp.zeros_like(positions), positions)
        pieces = self._pieces(positions, constants, dtype, xp)
        if self.lookup.rule == "concatenated":
            placed = dict(zip(self.axes, pieces, strict=True))
            table = xp.concat([placed[name] for name in self.lookup.order or self.axes], axis=-1)
        else:
            table = functools.reduce(operator.add, pieces)
        table = self.magnitude.scaled(table, self.dim, constants, xp=xp)
        return table if outside is None else marked(table, outside[..., None], math.nan, xp=xp)

    def _pieces(self, positions: Array, constants: Constants, dtype: Any, xp: Any) -> list[Array]:
        """What each table gives, in the order of the axes."""
        numbers = [positions[..., axis] for axis in range(len(self.axes))]
        if self.lookup.rule == "grid":
            numbers = [functools.reduce(_raveled, zip(numbers, self.lengths, strict=True))[0]]
        pieces = []
        for name, number in zip(self.lookup.names(), numbers, strict=False):
            row = number + self.start if self.start else number
            found = astype(gather(constants[name], row, xp=xp), dtype, xp)
            if self.pad is not None:
                found = xp.where((row == self.pad)[..., None], fixed(found), found)
            pieces.append(found)
        return pieces

    def check_count(self, first: int, count: int) -> None:
        """Raise `PositionError` unless the positions first, first + 1, … `count` of them exist."""
        ends = np.array([first, first + count - 1], dtype=object)
        if count and len(self.limits) == 1:
            self._check_known(ends, 0, self.limits[0])

    def _outside(self, p: Array, limit: int) -> Array:
        """Which positions along one axis have no row."""
        outside = (p < 0) | (p >= limit)
        return outside if self.pad is None else outside & (p != self.pad - self.start)

    def _check_known(self, positions: np.ndarray, axis: int, limit: int) -> None:
        if not positions.size or (positions.min() >= 0 and positions.max() < limit):
            return
        worst = positions[self._outside(positions, limit)]
        if not worst.size:
            return
        worst = worst.max() if worst.max() >= limit else worst.min()
        pad = "" if self.pad is None else f", or {self.pad - self.start} for padding"
        caller = "Learned: positions" + (f" of {self.axes[axis]!r}" if len(self.axes) > 1 else "")
        raise bad_position(
            caller,
            f"0 to {limit - 1}{pad}, as the usable length is {limit}",
            f"position {worst}",
            "`posenc.resize` makes a table longer.",
        )


def _raveled(left: tuple[Array, int], right: tuple[Array, int]) -> tuple[Array, int]:
    """(number, length) of two neighbouring axes as one."""
    (outer, rows), (inner, columns) = left, right
    return outer * columns + inner, rows * columns
