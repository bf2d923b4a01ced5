"""Positions of a scene: text, pictures, films, sound, references, as a model counts them."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core import expressions
from posenc._core.errors import bad_argument, bad_spec, suggest
from posenc._core.spec.spec import Value

Size = int | Sequence[Any]
_CALLS = {
    **expressions.CALLS,
    "max": lambda *values: functools.reduce(np.maximum, values),
    "min": lambda *values: functools.reduce(np.minimum, values),
}
_TODO = "n tokens are ('text', n), a picture or film is ('image', (frames, rows, columns))."


class Placed(dict[str, np.ndarray]):
    """The positions (tokens, axes) of each part that turns; `order` names every part in order.

    The second part of a name is called `reference 2`, and so on.
    """

    order: tuple[str, ...] = ()


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

    def check(self) -> None:
        """Raise `SpecError` when a coordinate is no expression."""
        for text in filter(None, (*self.coordinates, self.after)):
            try:
                _parsed(text)
            except (SyntaxError, ValueError, RecursionError):
                raise bad_spec("ScenePart: coordinates", "expressions", repr(text)[:80]) from None


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@final
@dataclass(frozen=True)
class SceneRule(Value):
    """How a model counts the tokens of a scene: the rules of its parts, and their order.

    Parameters
    ----------
    axes : tuple of str
        Names of the axes of a position.
    parts : tuple of ScenePart
        What a scene may have; in this order, unless the model keeps that of the scene.
    order : {"parts", "scene"}
        Whether the model has its own order of parts.
    facts : tuple of (str, float, tuple of float, None or "required")
        Facts of the call by their names in `forward` of the class, with the value that the class
        takes where they are left out; `"required"` where no coordinate follows without them.
    ends : tuple of (int or None)
        For each axis, how many rows the table of the class has; none where it has no table.
    pixels : tuple of int
        Frames, rows and columns of pixels in a token, by the VAE and the patches; none where no
        config of a VAE was read.
    elsewhere : tuple of (str, str)
        Parts that another pipeline has with the same class: a part and the class of the pipeline.

    Raises
    ------
    SpecError
        If a part has other axes, or a name stands twice.

    Examples
    --------
    >>> from posenc import SceneRule, ScenePart
    >>> rule = SceneRule(("h", "w"), (ScenePart("text"), ScenePart("image", ("h", "w"))))
    >>> placed = rule.build([("image", (1, 1, 2)), ("text", 7)])
    >>> placed
    {'image': array([[0, 0],
           [0, 1]])}
    >>> placed.order
    ('text', 'image')
    """

    axes: tuple[str, ...]
    parts: tuple[ScenePart, ...]
    _: KW_ONLY
    order: Literal["parts", "scene"] = "parts"
    facts: tuple[tuple[str, float | tuple[float, ...] | Literal["required"] | None], ...] = ()
    ends: tuple[int | None, ...] = ()
    pixels: tuple[int, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raise `SpecError` when parts do not fit together."""
        names = [part.name for part in self.parts]
        self._require(len({*names}) == len(names), "parts", "each name once", names)
        for part in self.parts:
            fits = len(part.coordinates) in (0, len(self.axes))
            expected = f"a coordinate for each of the axes {self.axes}, or none"
            self._require(fits, "parts", expected, f"{part.name}: {part.coordinates}")
        self._require(len(self.ends) in (0, len(self.axes)), "ends", "one for each axis")
        self._require(len(self.pixels) in (0, 3), "pixels", "frames, rows and columns")

    def build(self, scene: Sequence[tuple[str, Size]], **facts: Any) -> Placed:
        """The positions of the parts of a scene.

        Parameters
        ----------
        scene : sequence of (str, int or tuple)
            Name and size of each part: a number of tokens, or a grid of so many frames, rows and
            columns of tokens. Frames may be a sequence of their times.
        **facts
            Facts of the call, by their names in `forward` of the class: `fps`.

        Returns
        -------
        dict
            (tokens, axes) for each part that turns, or (tokens,) of one axis, integers or float64;
            `order` names all parts in the order of the model.

        Raises
        ------
        ArgumentError
            If the model has no such part or fact, a size does not fit, a fact is missing, or a
            coordinate lies beyond the table of the class.

        Examples
        --------
        >>> import posenc
        >>> plan = posenc.from_hf({"_class_name": "FluxTransformer2DModel"})
        >>> placed = plan.layers[0].positions.build([("text", 7), ("image", (1, 64, 64))])
        >>> {name: rows.shape for name, rows in placed.items()}
        {'text': (7, 3), 'image': (4096, 3)}
        """
        caller = "SceneRule.build"
        offered = dict(self.facts)
        for name in facts:
            if name not in offered:
                raise bad_argument(caller, _listed(offered), repr(name), suggest(name, offered))
        if isinstance(scene, str) or not isinstance(scene, Sequence):
            raise bad_argument(caller, "a list of parts", repr(scene)[:80], _TODO)
        pieces = [self._piece(one) for one in scene]
        if self.order == "parts":
            pieces.sort(key=lambda piece: self.parts.index(piece.part))
        view = _View(pieces, {**offered, **facts}, caller)
        placed, order = Placed(), []
        for piece in pieces:
            count = view.numbers.get(piece.part.name, 0)
            order.append(f"{piece.part.name} {count + 1}" if count else piece.part.name)
            if (rows := view.place(piece)) is not None:
                self._check_ends(rows, order[-1], caller)
                placed[order[-1]] = rows
        placed.order = tuple(order)
        return placed

    def _piece(self, one: Any) -> _Piece:
        """A part of a scene with its size, checked."""
        caller = "SceneRule.build"
        if not (isinstance(one, Sequence) and len(one) == 2 and isinstance(one[0], str)):
            raise bad_argument(caller, "pairs of a name and a size", repr(one)[:80], _TODO)
        names = [part.name for part in self.parts]
        if one[0] not in names:
            others = [pipeline for part, pipeline in self.elsewhere if part == one[0]]
            todo = f"{others[0]} has it: read its folder." if others else suggest(one[0], names)
            raise bad_argument(caller, f"a part of {', '.join(names)}", repr(one[0]), todo)
        size, is_grid = one[1], isinstance(one[1], (tuple, list))
        numbers = [*size] if is_grid else [size]
        times = [] if _is_count(numbers[0]) or not is_grid else [*numbers[0]]
        numbers[0] = len(times) or numbers[0]
        if len(numbers) not in (1, 3) or not all(_is_count(number) for number in numbers):
            raise bad_argument(caller, "a number of tokens, or three of a grid", repr(one), _TODO)
        return _Piece(self.parts[names.index(one[0])], tuple(map(int, numbers)), times)

    def _check_ends(self, rows: np.ndarray, name: str, caller: str) -> None:
        largest = np.atleast_1d(rows.max(0, initial=0))
        for axis, end, last in zip(self.axes, self.ends, largest, strict=False):
            if end is not None and last >= end:
                expected = f"coordinates below {end} on axis {axis!r}, where the class's table ends"
                raise bad_argument(f"{caller}: {name}", expected, int(last))

    def cells(self, *, height: int, width: int, frames: int = 1) -> tuple[int, int, int]:
        """The grid of tokens of a picture or film, by the VAE beside the config.

        Parameters
        ----------
        height, width : int
            Its size in pixels.
        frames : int
            Frames of the film; 1 for a picture.

        Returns
        -------
        tuple of int
            Frames, rows and columns of tokens, as `build` takes them.

        Raises
        ------
        ArgumentError
            If no config of a VAE was read, or the size is no whole number of tokens.

        Examples
        --------
        >>> from posenc import SceneRule, ScenePart
        >>> rule = SceneRule(("h", "w"), (ScenePart("image", ("h", "w")),), pixels=(4, 16, 16))
        >>> rule.cells(height=480, width=832, frames=81)
        (21, 30, 52)
        """
        caller = "SceneRule.cells"
        if not self.pixels:
            todo = (
                "Read the folder of the pipeline, where vae/config.json lies beside the "
                "transformer, or count tokens yourself."
            )
            raise bad_argument(caller, "a scene with the config of its VAE", "none", todo)
        time, *space = self.pixels
        for name, size, step in zip(("height", "width"), (height, width), space, strict=True):
            if not _is_count(size) or size % step or size < step:
                raise bad_argument(f"{caller}: {name}", f"a multiple of {step} pixels", size)
        if not _is_count(frames) or (frames - 1) % time or frames < 1:
            raise bad_argument(f"{caller}: frames", f"one more than a multiple of {time}", frames)
        return ((frames - 1) // time + 1, height // space[0], width // space[1])

    def __str__(self) -> str:
        parts = (f"{p.name} ({', '.join(p.coordinates) or 'does not turn'})" for p in self.parts)
        return f"a scene of {', '.join(parts)}"


def _is_count(value: Any) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(value >= 0)


def _listed(facts: Mapping[str, Any]) -> str:
    return f"a fact of {', '.join(facts)}" if facts else "no facts: this model takes none"


@dataclass
class _Piece:
    """A part of one scene: a number of tokens, or frames, rows and columns."""

    part: ScenePart
    size: tuple[int, ...]
    times: list[Any]

    @property
    def is_grid(self) -> bool:
        return len(self.size) == 3

    @property
    def tokens(self) -> int:
        count = int(np.prod(self.size))
        return count + -count % self.part.multiple

    def sizes(self) -> dict[str, int]:
        grid = zip(("frames", "rows", "columns"), self.size, strict=True) if self.is_grid else ()
        return {"tokens": self.tokens, **dict(grid)}


class _View:
    """What the coordinates of a scene may name."""

    def __init__(self, pieces: list[_Piece], facts: Mapping[str, Any], caller: str) -> None:
        self.pieces, self.facts, self.caller = pieces, facts, caller
        self.numbers: dict[str, int] = {}  # parts of each name so far
        self.pictures = 0
        self.next = 0

    def place(self, piece: _Piece) -> np.ndarray | None:
        """The positions of a part, or None where it does not turn."""
        cells: dict[str, Any] = {**piece.sizes(), "next": self.next, "picture": self.pictures}
        cells["number"] = self.numbers.get(piece.part.name, 0)
        cells["pictures"] = sum(one.is_grid for one in self.pieces)
        self.numbers[piece.part.name] = cells["number"] + 1
        self.pictures += piece.is_grid
        count = int(np.prod(piece.size)) if piece.is_grid else piece.tokens
        cells["i"] = np.arange(count)
        if piece.is_grid:
            lines = [
                np.asarray(piece.times or range(piece.size[0])),
                *map(np.arange, piece.size[1:]),
            ]
            grid = np.meshgrid(*lines, indexing="ij")
            cells |= dict(zip("thw", (axis.reshape(-1) for axis in grid), strict=True))
        if not piece.part.coordinates:
            return None

        def item(node: ast.expr) -> Any:
            return self._item(node, cells, piece)

        def value(text: str) -> Any:
            return expressions.evaluate(_parsed(text), item, _CALLS)

        columns = [np.broadcast_to(value(text), (count,)) for text in piece.part.coordinates]
        rows = np.pad(np.stack(columns, axis=-1), ((0, piece.tokens - count), (0, 0)))
        after = piece.part.after
        self.next = value(after) if after else math.ceil(rows.max(initial=self.next - 1)) + 1
        rows = rows[:, 0] if rows.shape[1] == 1 else rows
        return rows.astype(np.int64 if rows.dtype.kind in "iub" else np.float64)

    def _item(self, node: ast.expr, cells: Mapping[str, Any], piece: _Piece) -> Any:
        if isinstance(node, ast.Subscript):
            place = expressions.evaluate(node.slice, lambda inner: self._item(inner, cells, piece))
            return self._item(node.value, cells, piece)[place]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            chosen = [p for p in self.pieces if node.value.id in (p.part.name, "largest")]
            sizes = [one.sizes().get(node.attr, 0) for one in chosen]
            return max(sizes, default=0) if node.value.id == "largest" else [*sizes, 0][0]
        name = ast.unparse(node)
        if name in cells:
            return cells[name]
        if name not in self.facts:
            raise bad_argument(
                self.caller, f"a grid for {piece.part.name!r}", f"{piece.size[0]} tokens", _TODO
            )
        if self.facts[name] == "required":
            raise bad_argument(
                self.caller, f"{name}=, a fact of the call that {piece.part.name!r} needs", "none"
            )
        return self.facts[name]
