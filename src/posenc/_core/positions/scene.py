"""Positions of a scene: text, pictures, films, sound, references, as a model counts them."""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from posenc._core import expressions
from posenc._core.errors import ArgumentError, bad_argument, suggest
from posenc._core.positions.counting import Affine, is_count, moved
from posenc._core.spec.spec import Value


def fitted(cell: Any, size: int, other: int, most: int, other_most: int) -> Any:
    """A cell of a picture of `size` by `other` cells, stretched in its form into a frame."""
    length = most if size / other > most / other_most else round(other_most / other * size)
    first = round((most - length) / 2.0)
    return first + cell * (((first + length) * (size - 1) / size - first) / max(size - 1, 1))


CALLS = {
    **expressions.CALLS,
    "fitted": fitted,
    "max": lambda *values: functools.reduce(np.maximum, values),
    "min": lambda *values: functools.reduce(np.minimum, values),
}
SIZES = ("tokens", "frames", "rows", "columns")
CELLS = ("i", "t", "h", "w", "number", "picture", "pictures", "next", *SIZES)
MOST_TOKENS = 2**24  # of a part, whose positions are all made
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
            fits = expressions.is_expression(text)
            self._require(fits, "coordinates", "expressions", repr(text)[:80])

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions that it has."""
        return (*self.coordinates, *filter(None, [self.after]))

    @property
    def names(self) -> dict[str, str]:
        """What its expressions name, with the size that they ask a part for."""
        nodes = [node for text in self.texts for node in ast.walk(expressions.parsed(text))]
        plain = {node.id: "" for node in nodes if isinstance(node, ast.Name)}
        return plain | {ast.unparse(n.value): n.attr for n in nodes if isinstance(n, ast.Attribute)}


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
        count, grid = math.prod(self.size), SIZES[1:] if len(self.size) > 1 else ()
        sides = zip(grid, self.size, strict=False)
        return {"tokens": count + -count % self.part.multiple} | dict(sides)


def sized(part: ScenePart, size: Any, caller: str, todo: str) -> Piece:
    """A part of a scene with its size, checked."""
    numbers = [*size] if isinstance(size, (list, tuple)) else [size]
    times = [*numbers[0]] if len(numbers) == 3 and np.iterable(numbers[0]) else []
    numbers[:1] = [len(times)] if times else numbers[:1]
    sizes = len(numbers) in (1, 3) and all(map(is_count, numbers))
    if sizes and math.prod(map(int, numbers)) > MOST_TOKENS:
        raise bad_argument(caller, f"at most {MOST_TOKENS:,} tokens", repr(size)[:80], todo)
    flat = not any(map(np.ndim, times)) and np.asarray(times).dtype.kind in "iuf"
    if not (sizes and flat and np.isfinite(times).all() and (all(numbers) or len(numbers) == 1)):
        expected = "a number of tokens, or three of a grid: frames or their times, rows, columns"
        raise bad_argument(caller, expected, repr(size)[:80], todo)
    return Piece(part, tuple(map(int, numbers)), times)


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
        cells: dict[str, Any] = {
            **self.facts, **sizes, "i": np.arange(count), "next": self.next,
            "picture": self.picture, "pictures": self.pictures, "number": self.numbers[part.name],
        }  # fmt: skip
        self.numbers[part.name] += 1
        self.picture += grid
        if grid:
            lines = [piece.times or range(piece.size[0]), *map(range, piece.size[1:])]
            cells |= zip("thw", map(np.ravel, np.meshgrid(*lines, indexing="ij")), strict=True)
        if not part.coordinates:
            return None

        for name in (name for name, size in part.names.items() if not size and name not in CALLS):
            need(name in cells, "build", f"a grid for {part.name!r}", f"{tokens} tokens", TODO)
            fact = f"{name}=, a fact of the call that {part.name!r} needs"
            absent = isinstance(cells[name], str) and cells[name] == "required"
            need(not absent, "build", fact, "none")

        def item(node: ast.expr) -> Any:
            if isinstance(node, ast.Subscript):
                return item(node.value)[expressions.evaluate(node.slice, item)]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                return self._of_part(node.value.id, node.attr)
            return cells[ast.unparse(node)]

        at = f"SceneRule.build: {part.name}"
        columns = [expressions.numbers(one, (count,), item, CALLS, at) for one in part.coordinates]
        rows = np.pad(np.stack(columns, axis=-1), ((0, tokens - count), (0, 0)))
        self.next = math.ceil(rows.max(initial=self.next - 1)) + 1
        if part.after:
            self.next = expressions.numbers(part.after, (), item, CALLS, at).item()
        rows = rows[:, 0] if rows.shape[1] == 1 else rows
        return rows.astype(np.int64 if rows.dtype.kind in "iub" else np.float64)

    def _of_part(self, name: str, size: str) -> int:
        """A size of the first part of a name, or the largest of all; 0 where there is none."""
        named = (one for one in self.pieces if name in (one.part.name, "largest"))
        sizes = (*(one.sizes().get(size, 0) for one in named), 0)
        return max(sizes) if name == "largest" else sizes[0]


Scene = Sequence[tuple[str, int | Sequence[Any]]]


class Placed(dict[str, np.ndarray]):
    """The positions (tokens, axes) of each part that turns; `order` names every part in order.

    The second part of a name is called `reference 2`, and so on.
    """

    order: tuple[str, ...] = ()


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

    builder: ClassVar[str] = "scene"

    def check(self) -> None:
        """Raise `SpecError` when parts do not fit together."""
        names = [part.name for part in self.parts]
        self._require(len({*names}) == len(names), "parts", "each name once", names)
        for part in self.parts:
            fits = len(part.coordinates) in (0, len(self.axes))
            expected = f"a coordinate for each of the axes {self.axes}, or none"
            self._require(fits, "parts", expected, f"{part.name}: {part.coordinates}")
            for name, size in part.names.items():
                offered = (*names, "largest") if size else {*CALLS, *CELLS, *dict(self.facts)}
                fits = name in offered and size in ("", *SIZES)
                expected = f"parts, sizes ({', '.join(SIZES)}), facts and {', '.join(CELLS)}"
                self._require(fits, "parts", expected, f"{name}.{size}" if size else name)
        self._require(len(self.ends) in (0, len(self.axes)), "ends", "one for each axis")
        fits = len(self.pixels) in (0, 3) and min(self.pixels, default=1) > 0
        self._require(fits, "pixels", "frames, rows and columns, each at least 1")

    def build(self, scene: Scene, *, scale: Affine = 1, shift: Affine = 0, **facts: Any) -> Placed:
        """The positions of the parts of a scene.

        Parameters
        ----------
        scene : sequence of (str, int or tuple)
            Name and size of each part: a number of tokens, or a grid of so many frames, rows and
            columns of tokens. Frames may be a sequence of their times.
        scale, shift : number or tuple of numbers
            What positions of grids are multiplied by, and what is added, for all axes or each: a
            scale below 1 brings a larger picture to where training was, with `phase="real"`.
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
        offered = dict(self.facts)
        for name in facts:
            kinds = f"facts: {', '.join(offered) or 'none, as its model takes no facts'}"
            need(name in offered, "build", kinds, repr(name), suggest(name, offered))
        need(isinstance(scene, (list, tuple)), "build", "a list of parts", repr(scene)[:80], TODO)
        pieces = [self._piece(one) for one in scene]
        if self.order == "parts":
            pieces.sort(key=lambda piece: self.parts.index(piece.part))
        view, placed, order = View(pieces, {**offered, **facts}), Placed(), []
        for piece in pieces:
            count = view.numbers[piece.part.name]
            order.append(f"{piece.part.name} {count + 1}" if count else piece.part.name)
            if (rows := view.place(piece)) is not None:
                lasts = np.atleast_1d(rows.max(0, initial=0))
                for axis, end, last in zip(self.axes, self.ends, lasts, strict=False):
                    expected = f"coordinates below {end} on axis {axis!r}, the end of its table"
                    need(end is None or last < end, f"build: {order[-1]}", expected, int(last))
                placed[order[-1]] = (
                    moved(rows, self.axes, scale, shift) if piece.part.is_grid else rows
                )
        placed.order = tuple(order)
        return placed

    def _piece(self, one: Any) -> Piece:
        """A part of a scene with its size, checked."""
        pair = isinstance(one, (list, tuple)) and len(one) == 2 and isinstance(one[0], str)
        need(pair, "build", "pairs of a name and a size", repr(one)[:80], TODO)
        (name, size), names = one, [part.name for part in self.parts]
        others = (f"{own} has it: read its folder." for part, own in self.elsewhere if part == name)
        todo = next(others, suggest(name, names))
        need(name in names, "build", f"a part of {', '.join(names)}", repr(name), todo)
        return sized(self.parts[names.index(name)], size, f"SceneRule.build: {name}", TODO)

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
        if not self.pixels:
            raise ArgumentError(
                "a size in pixels can only be counted in tokens with the config of the VAE, and "
                "none was read. Give the folder of the pipeline, where vae/config.json lies beside "
                "the transformer, or give sizes in tokens."
            )
        time, *space = self.pixels
        for name, size, step in zip(("height", "width"), (height, width), space, strict=True):
            fits = is_count(size) and size >= step and size % step == 0
            need(fits, f"cells: {name}", f"a multiple of {step} pixels", repr(size))
        fits = is_count(frames) and frames > 0 and (frames - 1) % time == 0
        need(fits, "cells: frames", f"one more than a multiple of {time}", repr(frames))
        return ((frames - 1) // time + 1, height // space[0], width // space[1])

    def __str__(self) -> str:
        return ", ".join(
            f"{part.name} tokens "
            + (f"at ({', '.join(part.coordinates)})" if part.coordinates else "that do not turn")
            for part in self.parts
        )
