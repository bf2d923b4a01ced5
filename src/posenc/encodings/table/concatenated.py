"""Tables that are appended to the embeddings instead of added to them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.arrangement import Magnitude
from posenc.encodings.table.base import Array, Constants, Example, Parameter, TableSpec, width_of
from posenc.encodings.table.sinusoidal import Sinusoidal


@final
@dataclass(frozen=True)
class Concatenated(TableSpec):
    """An encoding beside the embedding (Jaegle et al. 2021, arXiv:2103.03206, section 3.2).

        y[s] = [ embedding_scale * x[s] | table_scale * PE(s) ]

    Adding mixes content and position in the same channels and costs no width; appending keeps them
    apart, and everything after it is wider. `posenc.add`, the verb of all tables, appends for this
    spec; `posenc.table` gives PE alone.

    Parameters
    ----------
    dim : int
        Width of the embeddings.
    table : TableSpec
        The encoding that stands beside them, of any width.
    magnitude : Magnitude
        Factors on the embeddings and on the table. The embeddings have no other factor: the
        `embedding_scale` of `table` itself must be 1.

    Raises
    ------
    SpecError
        If a width is not positive, or the table is itself appended or scales the embeddings.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.Concatenated(3, table=posenc.Sinusoidal(2))
    >>> spec.width
    5
    >>> posenc.add(spec, np.zeros((1, 1, 3), "float32"))
    array([[[0., 0., 0., 0., 1.]]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    table: TableSpec
    magnitude: Magnitude = Magnitude()

    example = Example({"table": Sinusoidal(64)})
    paper = "jaegle2021perceiver"

    def check(self) -> None:
        """Raise `SpecError` when the parts do not fit."""
        width_of("Concatenated", dim=self.dim)
        if isinstance(self.table, Concatenated):
            raise self._mismatch("table", "a table that is not itself appended", repr(self.table))
        self._require(
            self.table.embedding_scale == 1,
            "",
            "a table with embedding_scale=1",
            self.table.embedding_scale,
            "Put the factor into the magnitude of Concatenated.",
        )
        self._require(
            not (set(self.table.parameters()) & set(self.magnitude.parameters(self.table.dim))),
            "",
            "one learned factor on the table",
            "one here and one in `table`",
        )

    @property
    def coordinates(self) -> Literal["integer", "real"]:
        """Whether positions may be real numbers, as the table says."""
        return self.table.coordinates

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position."""
        return self.table.axes

    @property
    def width(self) -> int:
        """Width of the result: that of the embeddings and that of the table."""
        return self.dim + self.table.dim

    def constants(self) -> dict[str, np.ndarray]:
        """The constants of the table."""
        return self.table.constants()

    def parameters(self) -> dict[str, Parameter]:
        """The parameters of the table, and the factor on it where it is learned."""
        return self.table.parameters() | self.magnitude.parameters(self.table.dim)

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first values of one parameter, float32."""
        inner = name in self.table.parameters()
        return self.table.initial(name, rng) if inner else super().initial(name, rng)

    def check_count(self, first: int, count: int) -> None:
        """Raise `PositionError` unless the positions first, first + 1, … `count` of them exist."""
        self.table.check_count(first, count)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., width - dim)."""
        rows = self.table.rows(positions, constants, dtype=dtype, xp=xp)
        return self.magnitude.scaled(rows, self.table.dim, constants, xp=xp)

    def join(self, x: Array, rows: Array, *, xp: Any) -> Array:
        """Embeddings and rows side by side: x (..., dim) -> (..., width)."""
        rows = xp.broadcast_to(rows, (*x.shape[:-1], rows.shape[-1]))
        return xp.concat([x, rows], axis=-1)
