"""Parts of a scene: what their coordinates may name, and the positions that follow."""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from posenc._core import expressions
from posenc._core.errors import bad_argument
from posenc._core.spec.spec import Value


def fitted(cell: Any, size: int, other: int, most: int, other_most: int) -> Any:
    """A cell of a picture of `size` by `other` cells, stretched into the middle of a frame."""
    keeps = size / other > most / other_most  # its form: one of its sides is that of the frame
    length = most if keeps else round(other_most / other * size)
    first = round((most - length) / 2.0)
    step = ((first + length) * (size - 1) / size - first) / max(size - 1, 1)
    return first + cell * step


CALLS = {
    **expressions.CALLS,
    "fitted": fitted,
    "max": lambda *values: functools.reduce(np.maximum, values),
    "min": lambda *values: functools.reduce(np.minimum, values),
}
SIZES = ("tokens", "frames", "rows", "columns")
CELLS = ("i", "t", "h", "w", "number", "picture", "pictures", "next", *SIZES)
TODO = "n tokens are ('text', n), a picture or film is ('image', (frames, rows, columns))."


@final
@dataclass(frozen=True)
class ScenePart(Value):
    """A kind of part that a scene may have, such as its text, and where its tokens stand.

    A coordinate is an expression in

        i                       the number of the token in its part
        t, h, w                 its frame, row and column
        frames, rows, columns   the size of the grid
        number                  how many parts of this name are before this one
        picture, pictures       how many grids are before this one, and how many there are
        text.tokens, image.rows of another part: the first of that name, 0 where there is none
        largest.rows            the largest of all grids, likewise frames and columns
        next                    one more than the largest coordinate so far

        fitted(h, rows, columns, 30, 45)
                                a row of a picture that is stretched into the middle of a frame

    and in facts of the call, by `+ - * / // %`, `max`, `min`, `round` and `a if b > c else d`, with
    `==`, `<`, `>` or `is None` between b and c.

    Parameters
    ----------
    name : str
        As scenes call it.
    coordinates : tuple of str
        An expression for each axis; none where the part does not turn.
    multiple : int
        The model pads the part to a multiple of so many tokens: a text counts on, tokens behind a
        grid stand at 0.
    after : str
        An expression of `next` behind the part, where that is not the largest coordinate and one.

    Raises
    ------
    SpecError
        If a coordinate is no expression.

    Examples
    --------
    >>> from posenc import ScenePart
    >>> ScenePart("image", ("0", "h", "w")).multiple
    1
    """

    name: str
    coordinates: tuple[str, ...] = ()
    multiple: int = 1
    after: str = ""

    _counted = ("multiple",)

    @property
    def is_grid(self) -> bool:
        """Whether a coordinate is that of a cell, so that the part has frames, rows and columns."""
        return bool({*self.names} & {"t", "h", "w"})

    def check(self) -> None:
        """Raise `SpecError` when a coordinate is no expression."""
        for text in self.texts:
            try:
                nodes = [*ast.walk(parsed(text))]
            except (SyntaxError, ValueError, RecursionError):
                nodes = [ast.Pass()]
            fits = all(isinstance(node, expressions.NODES) for node in nodes)
            self._require(fits, "coordinates", "expressions", repr(text)[:80])

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions that it has."""
        return tuple(filter(None, (*self.coordinates, self.after)))

    @property
    def names(self) -> dict[str, str]:
        """What its expressions name, with the size that they ask a part for."""
        nodes = [node for text in self.texts for node in ast.walk(parsed(text))]
        plain = {node.id: "" for node in nodes if isinstance(node, ast.Name)}
        return plain | {ast.unparse(n.value): n.attr for n in nodes if isinstance(n, ast.Attribute)}


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def need(holds: bool, field: str, expected: str, came: object, todo: str = "") -> None:
    """Raise `ArgumentError` unless a condition holds."""
    if not holds:
        raise bad_argument(f"SceneRule.{field}", expected, came, todo)


class Piece(NamedTuple):
    """A part of one scene: a number of tokens, or frames, rows and columns."""

    part: ScenePart
    size: tuple[int, ...]
    times: list[Any]

    def sizes(self) -> dict[str, int]:
        """What other parts may name: tokens with those that pad it, and the size of a grid."""
        count, grid = int(np.prod(self.size)), SIZES[1:][: len(self.size)]
        tokens = count + -count % self.part.multiple
        return {"tokens": tokens} | dict(zip(grid[2:] and grid, self.size, strict=False))


class View:
    """What the coordinates of a scene may name."""

    def __init__(self, pieces: list[Piece], facts: Mapping[str, Any]) -> None:
        self.pieces, self.facts, self.next, self.picture = pieces, facts, 0, 0
        self.numbers: Counter[str] = Counter()  # parts of each name so far
        self.pictures = sum("rows" in one.sizes() for one in pieces)

    def place(self, piece: Piece) -> np.ndarray | None:
        """The positions of a part, or None where it does not turn."""
        part, sizes = piece.part, piece.sizes()
        tokens, grid = sizes["tokens"], "rows" in sizes
        count = int(np.prod(piece.size)) if grid else tokens
        cells: dict[str, Any] = {**self.facts, **sizes, "i": np.arange(count), "next": self.next}
        cells |= {"picture": self.picture, "pictures": self.pictures}
        cells["number"] = self.numbers[part.name]
        self.numbers[part.name] += 1
        self.picture += grid
        if grid:
            lines = [piece.times or range(piece.size[0]), *map(range, piece.size[1:])]
            axes = np.meshgrid(*lines, indexing="ij")
            cells |= dict(zip("thw", (axis.reshape(-1) for axis in axes), strict=True))
        if not part.coordinates:
            return None

        def item(node: ast.expr) -> Any:
            if isinstance(node, ast.Subscript):
                return item(node.value)[expressions.evaluate(node.slice, item)]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                return self._of_part(node.value.id, node.attr)
            name = ast.unparse(node)
            size = f"{tokens} tokens"
            need(name in cells, "build", f"a grid for {part.name!r}", size, TODO)
            fact = f"{name}=, a fact of the call that {part.name!r} needs"
            need(not isinstance(cells[name], str), "build", fact, "none")
            return cells[name]

        def value(text: str) -> Any:
            return expressions.evaluate(parsed(text), item, CALLS)

        columns = [np.broadcast_to(value(text), (count,)) for text in part.coordinates]
        rows = np.pad(np.stack(columns, axis=-1), ((0, tokens - count), (0, 0)))
        last = rows.max(initial=self.next - 1)
        self.next = value(part.after) if part.after else math.ceil(last) + 1
        rows = rows[:, 0] if rows.shape[1] == 1 else rows
        return rows.astype(np.int64 if rows.dtype.kind in "iub" else np.float64)

    def _of_part(self, name: str, size: str) -> int:
        """A size of the first part of a name, or the largest of all; 0 where there is none."""
        sizes = [
            one.sizes().get(size, 0) for one in self.pieces if name in (one.part.name, "largest")
        ]
        return max(sizes, default=0) if name == "largest" else [*sizes, 0][0]
