"""Which view shows which encoding, and why not the others."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc import presets
from posenc._core.errors import PosencError
from posenc._core.spec.spec import Spec
from posenc.encodings.table.column_phases import inner, sinusoids
from posenc.explore.state.entry import CatalogueEntry, Chosen, samples
from posenc.explore.state.models import published
from posenc.explore.state.rows import entries
from posenc.plot.columns import TableSource, source
from posenc.plot.rows import PICTURES, PictureRow

LAYERS = PictureRow("", "", view="layers", subjects="models")
VIEWS = {row.view: row for row in (*PICTURES.values(), LAYERS) if row.view}
KINDS = {kind: None for row in VIEWS.values() for kind in row.kinds}
VIEWS_OF = {kind: tuple(v for v, row in VIEWS.items() if kind in row.kinds) for kind in KINDS}
NOUNS = {
    "table": "a table",
    "rotary": "a rotation of queries and keys",
    "bias": "a bias on the scores",
    "relative": "an encoding that needs the content",
    "none": "no encoding",
}
NO_VIEW = "No view can show it."
# The first view of a kind that draws several axes: their positions are the cells of a grid.
GRID_OF = {
    kind: view.capitalize()
    for kind in KINDS
    for view in reversed(VIEWS_OF[kind])
    if VIEWS[view].grids
}


def grid_of(spec: Any, length: int) -> tuple[int, ...]:
    """The sides of a grid of at most `length` cells, equal where they can be; empty for one axis.

    As many cells as it has give the same sides again.
    """
    axes = len(spec.axes)
    if axes == 1:
        return ()
    most: Any = next((m for name in BOUNDS if (m := getattr(spec, name, None)) is not None), None)
    bounds = most if isinstance(most, tuple) and len(most) == axes else (most,) * axes
    ends = [bound if isinstance(bound, int) else length for bound in bounds]

    def sides(side: int) -> tuple[int, ...]:
        return tuple(min(side, end) for end in ends)

    low, high = 1, max(ends) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if math.prod(sides(middle)) <= length else (low, middle)
    return sides(low)


# Fields that say how far the coordinates of a spec go.
BOUNDS = ("lengths", "window", "size", "degree")


def why_not(view: str, entry: CatalogueEntry, spec: Any = None) -> str:
    """Why a view cannot show an encoding; empty where it can."""
    if view == "layers":
        why = f"{entry.label} is one encoding, and Layers shows {LAYERS.subjects}."
        return "" if entry.model is not None else why
    homes = VIEWS_OF.get(entry.kind, ())
    if view not in homes:
        views = " or ".join(home.capitalize() for home in homes)
        return (
            f"{entry.label} is {NOUNS[entry.kind]}, and {view.capitalize()} shows "
            f"{VIEWS[view].subjects}. "
            + (f"{views or 'Layers'} can show it." if views or entry.model else NO_VIEW)
        )
    if spec is None:
        return ""
    # Positions may be coordinates, of which no integers are typical.
    real = getattr(spec, "coordinates", "integer") == "real"
    if len(spec.axes) != 1 and (real or not VIEWS[view].grids):
        home = GRID_OF.get(entry.kind, "")
        views = f" {home} draws the cells of a grid." if home else ""
        if real:
            views = " They need not be whole numbers, so no grid has them all."
        return f"Positions of {entry.label} have several axes: {', '.join(spec.axes)}.{views}"
    per_head = getattr(spec, "per_head", None)
    if entry.kind == "rotary" and per_head is not None and view != "attention":
        return f"Each head of {entry.label} has numbers of its own; the views show one set."
    open_ = getattr(spec, "needs_length", False)  # and then it has no frequencies of its own yet
    if view == "waves" and not (open_ or sinusoids(inner(spec)) or hasattr(spec, "matrix")):
        return f"{entry.label} has no wavelengths. Its rows are in Table."
    still = view == "stretch" and not hasattr(spec, "scaling")
    return f"{entry.label} takes no rule that stretches it. RoPE does." if still else ""


def by_id() -> Mapping[str, CatalogueEntry]:
    """The entries of the registry and the presets by name."""
    return {entry.id: entry for entry in entries()}


@functools.lru_cache(maxsize=1)
def _sampled(known: tuple[CatalogueEntry, ...]) -> Mapping[str, Spec]:
    """A spec of each entry that makes one, to see what it can do."""
    sampled = {}
    for entry in known:
        with contextlib.suppress(PosencError):
            sampled[entry.id] = entry.build(samples(entry))
    return sampled


@functools.lru_cache(maxsize=2 * len(VIEWS))
def _offered(view: str, known: tuple[CatalogueEntry, ...]) -> tuple[CatalogueEntry, ...]:
    specs = _sampled(known)
    return tuple(e for e in known if e.id in specs and not why_not(view, e, specs[e.id]))


@functools.cache
def published_models() -> tuple[CatalogueEntry, ...]:
    """The types of layer of all published plans."""
    return tuple(entry for name in presets.plan_names() for entry in published(name))


def offered(
    view: str, more: tuple[CatalogueEntry, ...] = (), named: str = ""
) -> tuple[CatalogueEntry, ...]:
    """The entries that a view can show, those of files first, and `named` among published plans."""
    fitting = []
    for entry in (*more, *(e for e in published_models() if view == "layers" or e.id == named)):
        with contextlib.suppress(PosencError):
            if not why_not(view, entry, entry.build(samples(entry))):
                fitting.append(entry)
    return (*fitting, *(_offered(view, entries()) if view != "layers" else ()))


def home_of(entry: CatalogueEntry) -> str:
    """The view that an encoding is shown in first; a model opens on its layers."""
    homes = {"table": "table", "rotary": "stretch", "bias": "bias"}
    return "layers" if entry.model is not None else homes.get(entry.kind, "attention")


def held(chosen: Chosen, length: int) -> TableSource:
    """The rows and waves of an encoding; raises `PosencError` where it has none."""
    return _held(
        chosen,
        length if getattr(chosen.spec, "needs_length", False) else None,
        grid_of(chosen.spec, length) or None,
    )


@functools.lru_cache(maxsize=64)
def _held(chosen: Chosen, length: int | None, sides: tuple[int, ...] | None) -> TableSource:
    return source(chosen.spec, params=chosen.params, length=length, grid=sides)


def window(centre: int, low: int, high: int, size: int = 20) -> np.ndarray:
    """A range of at most `size` integers around one of them, within low to high (excluded)."""
    first = max(low, min(centre - size // 2, high - size))
    return np.arange(first, min(first + size, high))
