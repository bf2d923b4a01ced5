"""Positions of a scene: text, pictures, films, sound, references, as a model counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.errors import ArgumentError, suggest
from posenc._core.positions.counting import Affine, is_count, moved
from posenc._core.positions.scene_parts import (
    CALLS,
    CELLS,
    SIZES,
    TODO,
    Piece,
    ScenePart,
    View,
    need,
)
from posenc._core.spec.spec import Value

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
                sized = size in SIZES and name in (*names, "largest")
                fits = sized if size else name in {*CALLS, *CELLS, *dict(self.facts)}
                expected = f"parts, sizes ({', '.join(SIZES)}), facts and {', '.join(CELLS)}"
                self._require(fits, "parts", expected, f"{name}.{size}" if size else name)
        self._require(len(self.ends) in (0, len(self.axes)), "ends", "one for each axis")
        self._require(len(self.pixels) in (0, 3), "pixels", "frames, rows and columns")

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
            kinds = ", ".join(offered) or "no facts, as its model takes none"
            need(name in offered, "build", f"facts: {kinds}", repr(name), suggest(name, offered))
        need(isinstance(scene, (list, tuple)), "build", "a list of parts", repr(scene)[:80], TODO)
        pieces = [self._piece(one) for one in scene]
        if self.order == "parts":
            pieces.sort(key=lambda piece: self.parts.index(piece.part))
        view, placed, order = View(pieces, {**offered, **facts}), Placed(), []
        for piece in pieces:
            count = view.numbers[piece.part.name]
            order.append(f"{piece.part.name} {count + 1}" if count else piece.part.name)
            if (rows := view.place(piece)) is not None:
                for axis, end, last in zip(
                    self.axes, self.ends, np.atleast_1d(rows.max(0, initial=0)), strict=False
                ):
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
        others = [f"{own} has it: read its folder." for part, own in self.elsewhere if part == name]
        todo = [*others, suggest(name, names)][0]
        need(name in names, "build", f"a part of {', '.join(names)}", repr(name), todo)
        numbers = [*size] if isinstance(size, (list, tuple)) else [size]
        times = [*numbers[0]] if len(numbers) == 3 and isinstance(numbers[0], Iterable) else []
        numbers[:1] = [len(times)] if times else numbers[:1]
        fits = len(numbers) in (1, 3) and all(map(is_count, numbers)) and all(numbers[1:])
        need(fits, "build", "a number of tokens, or three of a grid", repr(one)[:80], TODO)
        return Piece(self.parts[names.index(name)], tuple(map(int, numbers)), times)

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
            need(fits, f"cells: {name}", f"a multiple of {step} pixels", size)
        fits = is_count(frames) and frames > 0 and (frames - 1) % time == 0
        need(fits, "cells: frames", f"one more than a multiple of {time}", frames)
        return ((frames - 1) // time + 1, height // space[0], width // space[1])

    def __str__(self) -> str:
        places = (f"at ({', '.join(p.coordinates)})" if p.coordinates else "that do not turn"
                  for p in self.parts)  # fmt: skip
        return ", ".join(
            f"{part.name} tokens {place}" for part, place in zip(self.parts, places, strict=True)
        )
