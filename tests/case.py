"""What a row of the cases of tables holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc import init
from posenc._core.spec.spec import Spec

POSITIONS = (0, 1, 2, 17, -5, 12_345, 2**31 - 1, -(2**31) + 1)


@dataclass(frozen=True)
class Case:
    """A spec, what it must give, and where."""

    name: str
    spec: Spec
    oracle: Callable[..., Any]
    positions: tuple[Any, ...] = POSITIONS
    scale: float = 1.0  # size of the largest entry, which the tolerances are multiples of
    params: Mapping[str, np.ndarray] | None = None


def learned(
    name: str,
    spec: Any,
    row: Callable[..., Any],
    positions: tuple[Any, ...],
    scale: float | None = None,
) -> Case:
    """A row of a learned spec; its oracle takes the parameters as plain lists."""
    params = init(spec, seed=7)
    lists = {key: value.tolist() for key, value in params.items()}
    if scale is None:
        # Rounding errors follow powers of two, so the bound of a value is that of up to its double.
        scale = 2 * max(abs(value) for p in positions for value in row(lists, p))
    return Case(name, spec, lambda p: row(lists, p), positions, scale, params)
