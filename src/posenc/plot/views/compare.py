"""Compare: any picture of two encodings, and their difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from posenc._core.errors import suggest
from posenc.plot.columns import Table
from posenc.plot.palette import largest
from posenc.plot.panels.text import Described, brief, number
from posenc.plot.rows import PICTURES, require, view_of

# The pictures of one encoding that are drawn for two, and the array of which A - B is taken.
VIEWS = {row.name: row.difference for row in PICTURES.values() if row.difference is not None}


@dataclass(frozen=True)
class Compare(Described):
    """A picture of two encodings."""

    view: str
    a: Any
    b: Any
    difference: np.ndarray | None
    why: str
    limit: float
    largest: float


def check(view: str) -> None:
    """Raise unless two encodings can be compared in a picture."""
    fits = view in [*VIEWS]
    require(fits, " compare", "a picture", repr(view), "" if fits else suggest(view, VIEWS))


def data(
    view: str,
    a: Any,
    b: Any,
    *arguments: Any,
    a_options: Mapping[str, Any] | None = None,
    b_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Compare:
    """One view of two encodings with one scale, and A - B."""
    check(view)
    build = view_of(view).data
    first = build(a, *arguments, **{**options, **(a_options or {})})
    second = build(b, *arguments, **{**options, **(b_options or {})})
    limit = max(limit_of(first), limit_of(second))
    difference, why = _difference(view, first, second)
    most = largest(difference) if difference is not None and difference.size else math.nan
    return Compare(
        view,
        first,
        second,
        difference,
        why,
        limit,
        most,
        title=f"{view}: A, B" + (" and A − B" if difference is not None else ""),
        caption=(
            f"A: {brief(a)}. B: {brief(b)}.",
            f"No difference is drawn: {why}."
            if difference is None
            else f"Largest difference {number(most)}; A and B up to ±{number(limit)}.",
            *(
                # What each says of its own scale and heads is not so beside the other.
                ("One scale for all heads; the first three that both have.",)
                if view == "bias"
                else (
                    *(f"A: {text}" for text in first.caption),
                    *(f"B: {text}" for text in second.caption if text not in first.caption),
                )
            ),
        ),
    )


def limit_of(data: Any) -> float:
    """Value at the ends of a view's scale."""
    side = getattr(data, "tile", data)
    if hasattr(side, "limit"):
        return float(side.limit)
    mean = getattr(data, "mean", None)
    return float(np.nanmax(np.abs(mean))) if mean is not None else 1.0


def _difference(view: str, a: Any, b: Any) -> tuple[np.ndarray | None, str]:
    name = VIEWS[view]
    if not name:
        return None, "a picture of curves has none"
    first, second = map(attrgetter(name), (a, b))
    if first.shape != second.shape:
        one, two = ("×".join(map(str, x.shape)) for x in (first, second))
        return None, f"A has {one} numbers, B {two}"
    return first - second, ""


def rows(data: Any) -> Table:
    """The numbers of a .csv: those of A, then those of B."""
    headers, rows = zip(*map(view_of(data.view).rows, (data.a, data.b)), strict=True)
    return ["encoding", *max(headers, key=len)], [
        [name, *line] for name, lines in zip("AB", rows, strict=True) for line in lines
    ]
