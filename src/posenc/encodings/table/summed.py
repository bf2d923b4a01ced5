"""Several tables in one sum, each with the axes of a position that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.arrangement import Magnitude
from posenc.encodings.table.base import Array, Constants, Example, Parameter, TableSpec, summed
from posenc.encodings.table.concatenated import Concatenated
from posenc.encodings.table.sinusoidal import Sinusoidal


@final
@dataclass(frozen=True)
class Summed(TableSpec):
    """A sum of tables (Dehghani et al. 2019, arXiv:1807.03819, section 2.1).

        PE(i, t) = PE_0(i) + PE_1(t) + …

    The coordinate embedding of the Universal Transformer is the sum of two sinusoidal tables, of
    the place in the sequence and of the step in depth. Sums of a sinusoidal table of places and
    learned ones of segments are made the same way; learned tables alone need only
    `Learned(lookup=Lookup("factorised"))`.

    Parameters
    ----------
    dim : int
        Width of every table.
    tables : tuple of TableSpec
        The tables, two or more.
    axes_of : tuple of str
        Names of the axes of the tables, one after another. Tables that share a name read the same
        coordinate.
    magnitude : Magnitude
        Factors on the sum and on the embeddings. The tables have no `embedding_scale` of their own.

    Raises
    ------
    SpecError
        If widths differ, names do not fit the tables, or a table is appended or scales embeddings.

    Notes
    -----
    Parameters have the number of their table in front: `table1_weight`. Positions may be real if
    every table takes real ones.

    Examples
    --------
    >>> import posenc
    >>> pe = posenc.Sinusoidal(4)
    >>> both = posenc.Summed(4, tables=(pe, pe), axes_of=("position", "step"))
    >>> posenc.table(both, [[2, 1]]).round(4)
    array([[1.7508, 0.1242, 0.03  , 1.9998]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    tables: tuple[TableSpec, ...]
    axes_of: tuple[str, ...]
    magnitude: Magnitude = Magnitude()

    example = Example(
        {"tables": (Sinusoidal(64),) * 2, "axes_of": ("position", "step")},
        lambda: np.stack(np.divmod(np.arange(64), 8)[::-1], axis=-1),
        "8 positions at each of 8 steps",
        "It sums tables of several axes, and a sequence has one.",
    )
    paper = "dehghani2019universal"

    def check(self) -> None:
        """Raise `SpecError` when the parts do not fit."""
        self._require(len(self.tables) >= 2, "tables", "two tables or more", len(self.tables))
        for table in self.tables:
            if isinstance(table, Concatenated):
                raise self._mismatch("tables", "tables that are added", repr(table))
            self._require(
                table.dim == self.dim,
                "tables",
                f"tables of width {self.dim}",
                f"one of width {table.dim}",
            )
            self._require(
                table.embedding_scale == 1,
                "",
                "tables with embedding_scale=1",
                table.embedding_scale,
                "Put the factor into the magnitude of Summed.",
            )
        needed = sum(len(table.axes) for table in self.tables)
        self._require(
            len(self.axes_of) == needed,
            "axes_of",
            f"{needed} names, one for each axis of the tables",
        )
        for _, table, places in self._parts():
            self._require(
                len(set(places)) == len(places),
                "axes_of",
                f"distinct names for the axes {table.axes} of one table",
            )

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position: those given, each once."""
        return tuple(dict.fromkeys(self.axes_of))

    @property
    def coordinates(self) -> Literal["integer", "real"]:
        """Whether positions may be real numbers: if every table takes them."""
        return "real" if all(table.coordinates == "real" for table in self.tables) else "integer"

    def _parts(self) -> Iterator[tuple[str, TableSpec, tuple[int, ...]]]:
        """The prefix of each table's names, the table, and the axes of a position it reads."""
        begin, axes = 0, self.axes
        for number, table in enumerate(self.tables):
            names = self.axes_of[begin : begin + len(table.axes)]
            begin += len(names)
            yield f"table{number}_", table, tuple(axes.index(name) for name in names)

    def constants(self) -> dict[str, np.ndarray]:
        """The constants of the tables."""
        return {
            prefix + name: array
            for prefix, table, _ in self._parts()
            for name, array in table.constants().items()
        }

    def parameters(self) -> dict[str, Parameter]:
        """The parameters of the tables, and the factor on the sum where it is learned."""
        learned = {
            prefix + name: parameter
            for prefix, table, _ in self._parts()
            for name, parameter in table.parameters().items()
        }
        return learned | self.magnitude.parameters(self.dim)

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        for prefix, table, _ in self._parts():
            own = name.removeprefix(prefix)
            if own != name and own in table.parameters():
                return table.initial(own, rng)
        return super().initial(name, rng)

    def check_count(self, first: int, count: int) -> None:
        """Raise `PositionError` unless the positions first, first + 1, … `count` of them exist."""
        if len(self.axes) == 1:
            for table in self.tables:
                table.check_count(first, count)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""

        def rows_of(prefix: str, table: TableSpec, places: tuple[int, ...]) -> Array:
            read = [positions[..., place, None] for place in places]
            own = {
                name.removeprefix(prefix): value
                for name, value in constants.items()
                if name.startswith(prefix)
            }
            at = read[0] if len(read) == 1 else xp.concat(read, axis=-1)
            return table.rows(at, own, dtype=dtype, xp=xp)

        total = summed(rows_of(*part) for part in self._parts())
        return self.magnitude.scaled(total, self.dim, constants, xp=xp)
