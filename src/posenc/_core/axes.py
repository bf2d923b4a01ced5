"""Names of the axes of a grid by their number."""

from __future__ import annotations

__all__ = ["AXES"]

AXES = {1: ("position",), 2: ("row", "column"), 3: ("time", "row", "column")}
