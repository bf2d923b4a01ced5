"""Where the tokens stand: the positions that the command line describes, in pieces.

A sequence may be longer than the memory, so positions are made for one stretch of tokens at a time:
counted, listed, or on a grid whose coordinates are known along each axis alone.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import click
import numpy as np

from posenc._core.numeric.counts import whole
from posenc.cli.options.common import Count, WholeNumber, count_of, grouped, refuse
from posenc.encodings.table.base import TableSpec

MOST_POSITIONS = 2**24
MOST_COUNTED = 2**40
LONGEST_SIDE = 2**24

# Names of axes whose order in a picture or video is settled, the slowest first. Others, such as x
# and y, mean rows in one code and columns in another: they keep the order of the spec.
SLOWEST_FIRST = (
    *("t", "time", "frame"),
    *("d", "depth"),
    *("h", "height", "row"),
    *("w", "width", "column"),
)


class PlaceChoice(NamedTuple):
    """What the command line says about positions."""

    positions: str | None = None
    length: int | None = None  # an older spelling of a number of positions
    grid: str | None = None
    offset: int | None = None


place_options = grouped(
    PlaceChoice,
    "places",
    click.option("--offset", type=WholeNumber(), help="Position of the first token. [default: 0]"),
    click.option(
        "--positions",
        metavar="N|LIST",
        help="So many from 0: 10 or 128k. Or these alone: 5:6, 0:100:10 or 3,1,4; 0.5,1.25 for "
        "specs of real positions; '0,0 0,1 1,0' for specs of two axes.",
    ),
    click.option(
        "--grid",
        metavar="HxW",
        help="Tokens row after row, for specs of several axes: 3x4 or h=3,w=4, the slowest "
        "axis first. A preset says how its coordinates follow.",
    ),
    click.option("--length", type=Count(0, MOST_COUNTED), hidden=True),
)


class PositionSequence(ABC):
    """The positions of a sequence of tokens, a stretch at a time."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of tokens."""

    @abstractmethod
    def array(self, part: slice) -> np.ndarray:
        """The positions of some tokens: (tokens,), or (tokens, axes) for several axes."""

    def check(self, spec: TableSpec) -> None:  # noqa: B027
        """Raise `PositionError` where it is plain at once that the spec ends before they do."""

    def label(self, index: int) -> str:
        """The position of one token, for people."""
        values = np.ravel(self.array(slice(index, index + 1))).tolist()
        return ",".join(str(v) if isinstance(v, int) else f"{v:.6g}" for v in values)

    def tolist(self) -> list[Any]:
        """All positions as plain numbers; lists of coordinates for several axes."""
        return self.array(slice(0, len(self))).tolist()

    @property
    def words(self) -> str:
        """How they came about, where a reader could take them for others."""
        return ""


class Listed(PositionSequence):
    """Positions that were written down, or that count."""

    def __init__(self, values: Sequence[int] | np.ndarray) -> None:
        self.values = values

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.values)

    def array(self, part: slice) -> np.ndarray:
        """The positions of some tokens."""
        values = self.values[part]
        return values if isinstance(values, np.ndarray) else np.array(values, dtype=np.int64)

    def check(self, spec: TableSpec) -> None:
        """Raise `PositionError` where counting leaves the table: before any work is done."""
        if isinstance(self.values, range) and self.values:
            spec.check_count(self.values[0], len(self.values))


class Grid(PositionSequence):
    """Tokens of a grid: each coordinate depends on the place along its own axis alone."""

    def __init__(
        self,
        lines: Sequence[np.ndarray],
        names: Sequence[str],
        sides: dict[str, int],
        order: Literal["row_major", "column_major"] = "row_major",
    ) -> None:
        self.lines, self.names, self.sides, self.order = lines, names, sides, order

    def __len__(self) -> int:
        """Number of tokens."""
        return math.prod(self.sides.values())

    def array(self, part: slice) -> np.ndarray:
        """The positions of some tokens, (tokens, axes)."""
        begin, end, _ = part.indices(len(self))
        sides, order = tuple(self.sides.values()), "C" if self.order == "row_major" else "F"
        indices = np.unravel_index(np.arange(begin, end), sides, order=order)  # type: ignore[call-overload]
        cells = dict(zip(self.sides, indices, strict=True))
        columns = [line[cells[name]] for name, line in zip(self.names, self.lines, strict=True)]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    @property
    def words(self) -> str:
        """The sides by name, and which way tokens run."""
        sides = ", ".join(f"{name}={side}" for name, side in self.sides.items())
        return f"grid {sides}{', tokens along the first side first' * (self.order != 'row_major')}"


# --- from the command line ------------------------------------------------------------------------


def places_from(
    choice: PlaceChoice, spec: TableSpec, length: int | None, *, preset: str | None = None
) -> PositionSequence:
    """The positions that the options describe."""
    options = [f"--{key}" for key, value in choice._asdict().items() if value is not None]
    text = choice.positions
    count = choice.length if text is None or len(spec.axes) > 1 else whole(text)
    if len(options) > (1 if count is None or choice.offset is None else 2):
        todo = ": add it to the positions" if "--offset" in options else ""
        raise click.UsageError(f"{' or '.join(options)}, not both{todo}.")
    try:
        if choice.grid is not None:
            places: PositionSequence = _grid(choice.grid, spec, preset)
        elif count is None and text is not None:
            places = Listed(_parsed(text, spec))
        else:
            places = _counted(spec, choice.offset or 0, (length or 0) if count is None else count)
    except click.BadParameter as error:
        raise click.UsageError(f"{options[0]}: {error.message}") from error
    if length is not None and len(places) != length:
        alone = "" if count is None else f" The one position {count} alone is {count}:{count + 1}."
        raise click.UsageError(
            f"{options[0]}: {count_of(places, 'position')} for {length} tokens.{alone}"
        )
    return places


def _counted(spec: TableSpec, first: int, length: int) -> PositionSequence:
    if len(spec.axes) > 1:
        example = "x".join(str(3 + k) for k in range(len(spec.axes)))
        raise click.UsageError(
            f"the spec has the axes {', '.join(spec.axes)}: give --grid {example}, or --positions "
            f"with {len(spec.axes)} numbers for each token."
        )
    _bounded(length, str(length))
    refuse(
        not 0 <= length <= MOST_COUNTED,
        f"{length} is no number of positions, 0 to {MOST_COUNTED:,}; to have that position alone, "
        f"write {length}:{length + 1}.",
        click.BadParameter,
    )
    refuse(not -(2**63) <= first < 2**63 - length, f"--offset: {first} is beyond 2**63.")
    return Listed(range(first, first + length))


_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _parsed(text: str, spec: TableSpec) -> Sequence[int] | np.ndarray:
    """Positions for a spec: integers or reals, of one axis or of several."""
    axes = len(spec.axes)
    if axes == 1:
        positions = _list(text, spec)
        return _as_array(positions) if any(isinstance(v, float) for v in positions) else positions
    tokens = text.split()
    refuse(
        len(tokens) * axes > MOST_POSITIONS,
        f"more than {MOST_POSITIONS:,} numbers; use --grid.",
        click.BadParameter,
    )
    rows = []
    for token in tokens:
        row = [v for piece in token.split(",") for v in _number(piece, spec)]
        refuse(
            len(row) != axes,
            f"{token[:50]!r} has {count_of(row, 'number')}: write {axes} for each token "
            f"({', '.join(spec.axes)}), and a space between tokens.",
            click.BadParameter,
        )
        rows.append(row)
    return _as_array(rows).reshape(-1, axes)


def _list(text: str, spec: TableSpec) -> list[Any]:
    positions: list[Any] = []
    for piece in text.removesuffix(",").split(","):
        values = _piece(piece.strip(), spec)
        refuse(
            len(positions) + len(values) > MOST_POSITIONS,
            f"more than {MOST_POSITIONS:,} positions; use --offset.",
            click.BadParameter,
        )
        positions.extend(values)
    return positions


def _piece(piece: str, spec: TableSpec) -> Sequence[Any]:
    ends = [whole(end) for end in piece.split(":")]
    if len(ends) not in (2, 3) or None in ends:
        return _number(piece, spec)
    first, last, step = (_bounded(end, piece) for end in (*ends, 1)[:3])
    values = range(first, last, step or 1)
    refuse(
        step == 0 or not values,
        f"{piece!r} has {'a step of 0' if step == 0 else 'no positions'}: write FROM:TO or "
        f"FROM:TO:STEP, where TO is left out, such as {first}:{first + 1}.",
        click.BadParameter,
    )
    # A range of more than 2**63 values has no len().
    refuse(
        values and abs(values[-1] - values[0]) // abs(step) >= MOST_POSITIONS,
        f"more than {MOST_POSITIONS:,} positions; use --offset.",
        click.BadParameter,
    )
    return values


def _number(piece: str, spec: TableSpec) -> list[Any]:
    """One number, in a list: an integer, or a float where the spec takes real positions."""
    if (number := whole(piece)) is not None:
        return [_bounded(number, piece)]
    real = spec.coordinates == "real"
    if real and _REAL.fullmatch(piece) and math.isfinite(float(piece)):
        return [float(piece)]
    if len(spec.axes) > 1:
        forms = [" ".join(",".join(digit * len(spec.axes)) for digit in "01")]
    else:
        forms = ["3,1,4", *(["0.5,1.25"] if real else []), "0:10", "0:100:10"]
    why = f"; {type(spec).__name__} takes integers" if not real and _REAL.fullmatch(piece) else ""
    raise click.BadParameter(f"{piece[:50]!r} is no position{why}: write {' or '.join(forms)}.")


def _bounded(number: Any, text: str) -> int:
    refuse(abs(number) >= 2**63, f"{text[:50]!r} is beyond 2**63.", click.BadParameter)
    return int(number)


def _as_array(values: list[Any]) -> np.ndarray:
    """int64 or float64; an integer that a float64 cannot hold is no neighbour of reals."""
    flat = [v for row in values for v in (row if isinstance(row, list) else [row])]
    if all(isinstance(v, int) for v in flat):
        return np.array(values, dtype=np.int64)
    for value in flat:
        refuse(
            isinstance(value, int) and int(float(value)) != value,
            f"{value} is too large to stay exact beside positions with fractions.",
            click.BadParameter,
        )
    return np.array(values, dtype=np.float64)


# --- grids ----------------------------------------------------------------------------------------


class GridBuilder(NamedTuple):
    """How the sides of a grid become coordinates.

    `names` are the sides in the order of the axes of the spec; a family may call them otherwise.
    """

    names: tuple[str, ...]
    place: Callable[[dict[str, int]], Any]
    order: Literal["row_major", "column_major"] = "row_major"


def _grid(text: str, spec: TableSpec, preset: str | None) -> Grid:
    builder = _builder(preset, spec.axes)
    sides = grid_sides(text, builder.names)
    # The coordinate of an axis depends on its own side alone, so one line of cells has it all.
    lines = [
        np.asarray(
            builder.place({other: side if other == name else 1 for other, side in sides.items()})
        )[..., axis]
        for axis, name in enumerate(builder.names)
    ]
    return Grid(lines, builder.names, sides, builder.order)


def grid_sides(text: str, axes: tuple[str, ...]) -> dict[str, int]:
    """Tokens along each axis, the slowest first."""
    if "=" in text:
        pairs = [piece.strip().partition("=") for piece in text.split(",")]
        names, numbers = [p[0].strip() for p in pairs], [p[2].strip() for p in pairs]
        refuse(
            sorted(names) != sorted(axes),
            f"the spec has the axes {', '.join(axes)}, not {', '.join(names)[:80]}.",
            click.BadParameter,
        )
    else:
        numbers = text.split("x")
        settled = all(name in SLOWEST_FIRST for name in axes)
        names = sorted(axes, key=SLOWEST_FIRST.index) if settled else list(axes)
        if len(numbers) != len(axes):
            what = f"{len(axes)} ax{'i' if len(axes) == 1 else 'e'}s ({', '.join(axes)})"
            raise click.BadParameter(
                f"{text[:50]!r} has {count_of(numbers, 'side')}, the spec {what}."
            )
    for number in numbers:
        refuse(
            not re.fullmatch(r"\d{1,9}", number) or not 1 <= int(number) <= LONGEST_SIDE,
            f"{number[:50]!r} is no side: write 3x4, with sides from 1 to {LONGEST_SIDE:,}.",
            click.BadParameter,
        )
    sides = dict(zip(names, map(int, numbers), strict=True))
    refuse(
        math.prod(sides.values()) >= 2**48,
        "more tokens than an array can have.",
        click.BadParameter,
    )
    return sides


def _builder(preset: str | None, axes: tuple[str, ...]) -> GridBuilder:
    """The rule of the family, or cells counted from 0."""
    from posenc import positions
    from posenc.presets import row

    if preset is None or not row(preset).positions:
        return GridBuilder(axes, lambda sides: positions.grid(sides, axes=axes))
    family = row(preset)
    name, arguments = family.positions["builder"], family.positions["arguments"]
    if name == "grid":
        axes = tuple(arguments["axes"])
        return GridBuilder(axes, family.place, arguments.get("order", "row_major"))
    if name == "from_grid_mask":
        # A grid without padding: the mask is true everywhere.
        return GridBuilder(
            axes, lambda sides: family.place(np.ones([sides[a] for a in axes], bool))
        )
    raise click.BadParameter(
        f"{preset!r} takes no grid, as its positions are made by posenc.positions.{name}: "
        "write them with --positions."
    )
