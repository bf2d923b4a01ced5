"""How a position finds its rows in learned tables."""

from __future__ import annotations

import keyword
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

from posenc._core.spec.checks import distinct
from posenc._core.spec.spec import Value


@final
@dataclass(frozen=True)
class Lookup(Value):
    """Which rows of which learned tables a position reads.

        flat           PE(p)    = weight[p]
        grid           PE(r, c) = weight[r * columns + c]
        factorised     PE(r, c) = row_weight[r] + column_weight[c]
        concatenated   PE(r, c) = [row_weight[r] | column_weight[c]]

    The equations are those of two axes (`row`, `column`); any number may be named.

    Parameters
    ----------
    rule : {"flat", "grid", "factorised", "concatenated"}
        `flat`: one table, and a position is the number of its row; where the table stands for a
        grid, its rows are the prefix and then the cells, the last axis fastest. `grid`: the same
        table read by coordinates. The others have a table for each axis.
    axes : tuple of str
        Names of the trailing axis of the positions, in its order; one name for `flat`.
    tables : tuple of str, optional
        The table that each axis reads, where axes share one: both corners of a box may read the
        tables ("x", "y", "x", "y"). Its own for each axis by default.
    order : tuple of str, optional
        For `concatenated`: the axes in the order of their channels; `axes` by default.
    sizes : tuple of int, optional
        For `concatenated`: channels of each axis, in `order`; equal shares by default.
    prefix : int
        For `flat`: rows before those of the grid, such as a class token. They are positions
        0 to prefix - 1, and no resizing changes them.

    Raises
    ------
    SpecError
        If names repeat or a field does not belong to the rule.

    Examples
    --------
    >>> import posenc
    >>> lookup = posenc.Lookup("factorised", axes=("row", "column"))
    >>> spec = posenc.Learned(8, length=(3, 4), lookup=lookup)
    >>> {name: array.shape for name, array in posenc.init(spec).items()}
    {'row_weight': (3, 8), 'column_weight': (4, 8)}
    """

    rule: Literal["flat", "grid", "factorised", "concatenated"] = "flat"
    _: KW_ONLY
    axes: tuple[str, ...] = ("position",)
    tables: tuple[str, ...] | None = None
    order: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    prefix: int = 0

    def check(self) -> None:
        """Raise `SpecError` when names repeat or a field does not belong to the rule."""
        distinct("Lookup", axes=self.axes)
        self._require(
            self.rule != "flat" or len(self.axes) == 1,
            "",
            "one axis with rule='flat'",
            self.axes,
            "Choose 'grid', 'factorised' or 'concatenated' to read by several coordinates.",
        )
        for name in (*self.axes, *(self.tables or ())):
            self._require(
                name.isidentifier() and not keyword.iskeyword(name),
                "",
                "identifiers as names",
                repr(name),
            )
        for field, rules in (
            ("tables", ("factorised", "concatenated")),
            ("order", ("concatenated",)),
            ("sizes", ("concatenated",)),
            ("prefix", ("flat",)),
        ):
            self._require(
                not getattr(self, field) or self.rule in rules,
                field,
                f"it with rule {' or '.join(map(repr, rules))} alone",
                repr(self.rule),
            )
        self._require(self.prefix >= 0, "prefix", "at least 0 rows")
        for field in ("tables", "sizes"):
            given = getattr(self, field)
            self._require(
                given is None or len(given) == len(self.axes),
                field,
                f"{len(self.axes)} entries, one for each axis",
                given,
            )
        self._require(
            self.sizes is None or min(self.sizes) >= 1, "sizes", "at least 1 channel each"
        )
        self._require(
            self.order is None or sorted(self.order) == sorted(self.axes),
            "order",
            f"the names {self.axes}",
        )

    @property
    def shared(self) -> bool:
        """Whether all axes read one table."""
        return self.rule in ("flat", "grid")

    def names(self) -> tuple[str, ...]:
        """The parameter that each axis reads."""
        if self.shared:
            return ("weight",) * len(self.axes)
        return tuple(f"{table}_weight" for table in self.tables or self.axes)

    def shares(self, dim: int) -> tuple[int, ...]:
        """Channels of each axis, in the order of `axes`."""
        count = len(self.axes)
        if self.rule != "concatenated":
            return (dim,) * count
        sizes = self.sizes
        if sizes is None:
            self._require(
                dim % count == 0, "", f"a width divisible by the {count} axes", dim, "Give `sizes`."
            )
            sizes = (dim // count,) * count
        self._require(
            sum(sizes) == dim,
            "sizes",
            f"{dim} channels in all",
            f"{sizes}, which add up to {sum(sizes)}",
        )
        by_name = dict(zip(self.order or self.axes, sizes, strict=True))
        return tuple(by_name[name] for name in self.axes)
