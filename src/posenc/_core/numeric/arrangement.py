"""Which pair of channels turns with which axis, by which frequency, and how large the result is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

from posenc._core.arrays.array import Array, astype
from posenc._core.numeric.ladder import MOST_FREQUENCIES
from posenc._core.spec.checks import distinct, not_too_many
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Value


class RungLayout(NamedTuple):
    """Which rung each pair uses: pair j turns with axis `axis[j]` at rung `index[j]`.

    `counts[a]` is the number of rungs of axis a's ladder, `index[j] == -1` marks a pair that does
    not turn.
    """

    axis: tuple[int, ...]
    index: tuple[int, ...]  # type: ignore[assignment]  # the word of the papers, not tuple.index
    counts: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Arrangement(Value):
    """How positions meet pairs of channels: which axis and rung each pair uses, and from where.

    Pairs are dealt to the axes in the order `order`, `sizes` of them to each:

        single       one axis; pair j uses rung j
        axial        a block of pairs for each axis, each with a ladder of its own
        axial_cyclic the same ladders, dealt out one pair to each axis in turn
        sections     a block of pairs for each axis, all on one shared ladder (M-RoPE)
        cyclic       axes in turn along the shared ladder, until an axis has its size
        alternate    as cyclic among all axes but the last in order, which takes the end
        parity       rung j of a shared ladder belongs to axis j modulo the number of axes,
                     in blocks by axis (Pixtral)
        explicit     the vectors `axis` and `index` themselves; index -1 is a pair that never turns
        mixed        each pair uses every axis; its frequencies are a column of a matrix

    Parameters
    ----------
    rule : str
        One of the rules above.
    axes : tuple of str
        Names of the trailing axis of the positions, in its order.
    order : tuple of str, optional
        The axes in the order in which channels use them; `axes` by default.
    sizes : tuple of int, optional
        Pairs of each axis, in `order`; equal shares by default.
    axis, index : tuple of int, optional
        For `rule="explicit"`: of each pair, its axis (a place in `axes`) and its rung.
    start : int
        Position p is computed at p + start: 2 for tables whose first two rows are reserved.
    pad : int, optional
        The row that is zero: rows with p + start == pad are filled with zeros.

    Raises
    ------
    SpecError
        If names repeat, sizes do not add up, or a field does not belong to the rule.

    Examples
    --------
    >>> from posenc import Arrangement
    >>> Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(2, 1, 1)).layout(4)
    RungLayout(axis=(0, 0, 1, 2), index=(0, 1, 2, 3), counts=(4, 4, 4))
    """

    rule: Literal[
        "single",
        "axial",
        "axial_cyclic",
        "sections",
        "cyclic",
        "alternate",
        "parity",
        "explicit",
        "mixed",
    ] = "single"
    axes: tuple[str, ...] = ("position",)
    order: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    axis: tuple[int, ...] | None = None
    index: tuple[int, ...] | None = None
    start: int = 0
    pad: int | None = None

    def check(self) -> None:
        """Raise `SpecError` when names repeat or a field does not belong to the rule."""
        axes, sizes = self.axes, self.sizes
        distinct("Arrangement", axes=axes)
        self._require(
            self.order is None or sorted(self.order) == sorted(axes), "order", f"the names {axes}"
        )
        self._require(
            self.rule != "single" or len(axes) == 1,
            "",
            "one axis with rule='single'",
            axes,
            "Choose 'axial', 'sections' or another rule that says how pairs are dealt.",
        )
        for name in ("axis", "index"):
            fits = (getattr(self, name) is not None) == (self.rule == "explicit")
            self._require(fits, name, "it with rule='explicit' alone", repr(self.rule))
        if self.axis is not None and self.index is not None:
            within = all(0 <= a < len(axes) for a in self.axis) and min(self.index, default=0) >= -1
            if not within or len(self.axis) != len(self.index):  # they may be long to write out
                raise self._mismatch(
                    "",
                    f"one axis below {len(axes)} and one rung >= -1 for each pair",
                    f"{self.axis} and {self.index}",
                )
        self._require(
            max(abs(self.start), abs(self.pad or 0)) <= 2**53,
            "",
            "start and pad up to 2**53 in size",
            f"start={self.start}, pad={self.pad}",
        )
        fits = sizes is None or (len(sizes) == len(axes) and min(sizes) >= 0)
        self._require(fits, "sizes", f"{len(axes)} counts of pairs", sizes)

    @property
    def shared(self) -> bool:
        """Whether all axes use one ladder."""
        return self.rule not in ("axial", "axial_cyclic")

    @property
    def given(self) -> int | None:
        """The number of pairs, where the fields fix it."""
        if self.axis is not None:
            return len(self.axis)
        return None if self.sizes is None else sum(self.sizes)

    def blocks(self, pairs: int) -> tuple[int, ...]:
        """Pairs in each block of channels: one block to an axis if `axial`, else one in all."""
        return self.shares(pairs) if self.rule == "axial" else (pairs,)

    def shares(self, pairs: int) -> tuple[int, ...]:
        """Pairs of each axis, in channel order; they add up to `pairs`."""
        count = len(self.axes)
        if self.sizes is None:
            self._require(
                pairs % count == 0,
                "",
                f"a number of pairs divisible by the {count} axes",
                pairs,
                "Give `sizes`.",
            )
            return (pairs // count,) * count
        self._require(
            sum(self.sizes) == pairs,
            "sizes",
            f"{pairs} pairs in all",
            f"{self.sizes}, which add up to {sum(self.sizes)}",
        )
        return self.sizes

    def layout(self, pairs: int) -> RungLayout:
        """The integer vectors for `pairs` pairs."""
        not_too_many("Arrangement", "pairs", pairs, MOST_FREQUENCIES)
        self._require(
            self.rule != "mixed", "rule", "a rule that gives each pair one axis", "'mixed'"
        )
        if self.axis is not None and self.index is not None:
            self._require(len(self.axis) == pairs, "axis", f"{pairs} entries", len(self.axis))
            return RungLayout(
                self.axis, self.index, (max(self.index, default=-1) + 1,) * len(self.axes)
            )
        shares = self.shares(pairs)
        dealt = _deal(self.rule, shares)
        place = [self.axes.index(name) for name in self.order or self.axes]
        counts = [
            pairs if self.shared else share for _, share in sorted(zip(place, shares, strict=True))
        ]
        axis, index = [place[a] for a, _ in dealt], [rung for _, rung in dealt]
        return RungLayout(tuple(axis), tuple(index), tuple(counts))


def _deal(rule: str, shares: tuple[int, ...]) -> list[tuple[int, int]]:
    """(place in channel order, rung) for each pair."""
    axes, pairs = len(shares), sum(shares)
    blocks = [(a, k) for a, share in enumerate(shares) for k in range(share)]
    if rule in ("single", "axial"):
        return blocks
    if rule == "axial_cyclic":
        return sorted(blocks, key=lambda pair: (pair[1], pair[0]))
    if rule == "sections":
        return [(a, j) for j, (a, _) in enumerate(blocks)]
    if rule == "parity":
        return [(a, j) for a in range(axes) for j in range(a, pairs, axes)]
    if rule == "cyclic":
        # Rung j belongs to axis j mod axes while that axis has pairs left, else to the first axis.
        ends = [axes * share for share in shares]
        return [(j % axes if j < ends[j % axes] else 0, j) for j in range(pairs)]
    # alternate: the leading axes take turns, what is left of the ladder goes to the last in order.
    turns = sorted((k, a) for a in range(axes - 1 if axes > 2 else axes) for k in range(shares[a]))
    dealt = [(a, j) for j, (_, a) in enumerate(turns)]
    return dealt + [(axes - 1, j) for j in range(len(dealt), pairs)]


@final
@dataclass(frozen=True, kw_only=True)
class Magnitude(Value):
    """The factors of a sum of embeddings and encodings.

        add(x) = embedding_scale * x + table_scale * PE

    Parameters
    ----------
    table_scale : float or {"sqrt_dim", "rsqrt_dim"}
        Factor on the table; `"rsqrt_dim"` is dim ** -0.5.
    embedding_scale : float or {"sqrt_dim", "rsqrt_dim"}
        Factor on the embeddings; `"sqrt_dim"` is the sqrt(d_model) of Vaswani et al. (2017).
    learned : {"nothing", "table_scale"}
        `"table_scale"`: the factor on the table is a parameter, `scale` of shape (), and the field
        `table_scale` says where it begins.

    Examples
    --------
    >>> from posenc import Magnitude
    >>> Magnitude(embedding_scale="sqrt_dim").embedding(16)
    4.0
    """

    table_scale: float | Literal["sqrt_dim", "rsqrt_dim"] = 1.0
    embedding_scale: float | Literal["sqrt_dim", "rsqrt_dim"] = 1.0
    learned: Literal["nothing", "table_scale"] = "nothing"

    def table(self, dim: int) -> float:
        """The factor on the table as a number."""
        return _number(self.table_scale, dim)

    def embedding(self, dim: int) -> float:
        """The factor on the embeddings as a number."""
        return _number(self.embedding_scale, dim)

    def parameters(self, dim: int) -> dict[str, Parameter]:
        """The learned factor, if there is one."""
        return (
            {}
            if self.learned == "nothing"
            else {"scale": Parameter((), Init("constant", scale=self.table(dim)))}
        )

    def scaled(self, table: Array, dim: int, values: Mapping[str, Array], *, xp: Any) -> Array:
        """A table times its factor; `values` holds the parameters."""
        if self.learned == "table_scale":
            return table * astype(values["scale"], table.dtype, xp)
        scale = self.table(dim)
        return table if scale == 1 else table * scale


def _number(scale: float | str, dim: int) -> float:
    named = {"sqrt_dim": math.sqrt(dim), "rsqrt_dim": 1 / math.sqrt(dim)}
    return named[scale] if isinstance(scale, str) else float(scale)
