"""Which position each row of a table belongs to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

# Names of axes from the slowest to the fastest along the rows.
AXES = {1: ("position",), 2: ("h", "w"), 3: ("t", "h", "w"), 4: ("a", "b", "c", "d")}


class Placement(NamedTuple):
    """Which position each row of a table belongs to.

    Row i is place `i // stride % size` of each axis, at position `start + step * place`, times the
    unit of the axis where there are units. The first `prefix` rows, such as that of a class token,
    have the coordinates -1.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    starts: tuple[float, ...]
    step: int = 1
    prefix: int = 0
    units: tuple[float, ...] = ()  # of each axis, where coordinates are real

    def positions(self, begin: int, end: int) -> np.ndarray:
        """Positions of the rows `begin` to `end`: (rows,), or (rows, axes)."""
        i = np.arange(begin, end) - self.prefix
        whole = all(start == int(start) for start in self.starts)
        columns = []
        for axis, (size, stride, start) in enumerate(
            zip(self.sizes, self.strides, self.starts, strict=True)
        ):
            place = i // stride
            # Along the slowest axis a table may go on.
            place = place if self._slowest == axis else place % size
            column = self.step * place + (int(start) if whole else start)
            column = column * self.units[axis] if self.units else column
            columns.append(np.where(i < 0, -1, column))
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def to_dict(self) -> dict[str, object]:
        """The same in plain JSON types: a run of positions, or a grid."""
        if len(self.axes) == 1:
            fields = {"first": self.starts[0], "step": self.step, "count": self.sizes[0]}
            return {**fields, **({"unit": self.units[0]} if self.units else {})}
        starts: object = self.starts[0] if len(set(self.starts)) == 1 else list(self.starts)
        sizes = dict(zip(self.axes, self.sizes, strict=True))
        units = {"units": list(self.units)} if self.units else {}
        return {"sizes": sizes, "start": starts, "prefix": self.prefix, **units}

    @property
    def rows(self) -> int:
        """Number of rows that were looked at."""
        return self.prefix + math.prod(self.sizes)

    @property
    def _slowest(self) -> int:
        return int(np.argmax(self.strides))

    def words(self) -> str:
        """The same for people."""
        if self.units:
            ends = [
                f"{name} from {unit * start:.6g} to {unit * (start + self.step * (size - 1)):.6g}"
                for name, size, start, unit in zip(
                    self.axes, self.sizes, self.starts, self.units, strict=True
                )
            ]
            return f"a grid of {' x '.join(map(str, self.sizes))} coordinates: {', '.join(ends)}"
        if len(self.axes) == 1:
            first, last = self.starts[0], self.starts[0] + self.step * (self.sizes[0] - 1)
            return f"positions {first:.12g} to {last:.12g}, a row each"
        sizes = " x ".join(map(str, self.sizes))
        names = ", ".join(self.axes)
        starts = ", ".join(f"{start:g}" for start in dict.fromkeys(self.starts))
        start = f", counted from {starts}" if any(self.starts) else ""
        rows = f"{self.prefix} row{'s' if self.prefix > 1 else ''}"
        before = f", after {rows} of zeros" if self.prefix else ""
        return f"a grid of {sizes} ({names}), the last axis fastest{start}{before}"
