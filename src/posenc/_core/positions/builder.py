"""How a model makes its positions, as a value: a builder and its arguments.

A spec says which row a position gets; which positions there are is a choice of its own, and models
differ in it: whether padding counts, whether the cells of a picture begin at 0, at 1 or at one
half, whether their coordinates are divided by the size of the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, final

from posenc._core.positions.counting import arange, from_mask
from posenc._core.positions.grid import boxes, from_grid_mask, grid
from posenc._core.positions.sequences import multimodal
from posenc._core.spec.spec import Value


class _Builder(NamedTuple):
    call: Callable[..., Any]
    takes: str
    arguments: tuple[str, ...]


BUILDERS = {
    "arange": _Builder(arange, "length", ("start", "single")),
    "from_mask": _Builder(from_mask, "mask", ("pad",)),
    "grid": _Builder(
        grid, "sizes", ("start", "axes", "order", "normalise", "ends", "block", "prefix")
    ),
    "from_grid_mask": _Builder(from_grid_mask, "mask", ("start", "normalise", "margin")),
    "multimodal": _Builder(multimodal, "layout", ("start", "after")),
    "boxes": _Builder(boxes, "corners", ("form",)),
}


@final
@dataclass(frozen=True)
class Positions(Value):
    """How positions are made: a builder of `posenc.positions`, and what a model always gives it.

    What differs from call to call is given to `build`: the number of tokens, a mask, the sizes of a
    picture. A field that is None is left to the builder.

    Parameters
    ----------
    builder : {"arange", "from_mask", "grid", "from_grid_mask", "multimodal", "boxes"}
        The function. `arange` counts every token, padding too; `from_mask` does not count padding.
    start : int or float, optional
        The first coordinate: 0.5 for code that counts cells from one half.
    single : int, optional
        For `arange`: the position of a token that is alone, such as a still picture among films.
    pad : int, optional
        For `from_mask`: the position of padding.
    axes : tuple of str, optional
        For `grid`: the order of coordinates.
    order, normalise, ends, block, prefix : optional
        As in `grid`; `normalise` also in `from_grid_mask`.
    margin : float, optional
        As in `from_grid_mask`.
    after : {"largest", "space"}, optional
        As in `multimodal`.
    form : {"centre", "corners", "corners_and_size"}, optional
        As in `boxes`.

    Raises
    ------
    SpecError
        If the builder has no such argument.

    Examples
    --------
    RoBERTa gives padding a position of its own and counts the tokens behind it from 0:

    >>> import posenc
    >>> rule = posenc.Positions("from_mask", pad=-1)
    >>> rule.build([[0, 0, 1, 1, 1]])
    array([[-1, -1,  0,  1,  2]])
    >>> print(rule)
    from_mask(mask, pad=-1)
    """

    builder: Literal["arange", "from_mask", "grid", "from_grid_mask", "multimodal", "boxes"]
    _: KW_ONLY
    start: int | float | None = None
    single: int | None = None
    pad: int | None = None
    axes: tuple[str, ...] | None = None
    order: Literal["row_major", "column_major"] | None = None
    normalise: Literal["none", "unit", "centred"] | None = None
    ends: Literal["cells", "points"] | None = None
    block: int | None = None
    prefix: int | None = None
    margin: float | None = None
    after: Literal["largest", "space"] | None = None
    form: Literal["centre", "corners", "corners_and_size"] | None = None

    def check(self) -> None:
        """Raise `SpecError` when the builder has no such argument."""
        names = BUILDERS[self.builder].arguments
        for name in self.arguments:
            if name not in names:
                raise self._mismatch(
                    f"{self.builder}",
                    f"arguments {', '.join(names)}",
                    f"{name}={getattr(self, name)!r}",
                )

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the model always gives the builder."""
        names = self.__dataclass_fields__.keys() - {"builder"}
        return {k: v for k, v in vars(self).items() if k in names and v is not None}

    def build(self, *inputs: Any, **more: Any) -> Any:
        """The positions of one call.

        Parameters
        ----------
        *inputs
            What the builder takes first: a length, a mask, sizes, a layout, corners.
        **more
            Further arguments of the builder, also in place of those of the model: `xp`, `device`.

        Returns
        -------
        array
            Positions for the spec of the layer.

        Examples
        --------
        >>> import posenc
        >>> posenc.Positions("grid", axes=("w", "h")).build({"h": 1, "w": 2})
        array([[0, 0],
               [1, 0]])
        """
        return BUILDERS[self.builder].call(*inputs, **{**self.arguments, **more})

    def to_dict(self) -> dict[str, Any]:
        """The builder and the arguments that are given, as plain JSON types."""
        return {key: value for key, value in super().to_dict().items() if value is not None}

    def __str__(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in self.arguments.items()]
        return f"{self.builder}({', '.join([BUILDERS[self.builder].takes, *arguments])})"
