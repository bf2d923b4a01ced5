"""Names of the axes of a grid by their number."""

from __future__ import annotations

AXES = {1: ("position",), 2: ("row", "column"), 3: ("time", "row", "column")}
