"""Which view shows which encoding, and why not the others."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from typing import Any

from posenc._core.errors import PosencError
from posenc._core.spec import Spec
from posenc.encodings.table.column_phases import inner, sinusoids
from posenc.explore.entry import CatalogueEntry, samples
from posenc.explore.rows import entries
from posenc.plot.rows import PICTURES, PictureRow

__all__ = ["by_id", "entries", "grid_of", "home_of", "offered", "why_not"]

# The first view has no plot: its subject is no encoding, but what attention does with several.
ATTENTION = PictureRow(
    "",
    "",
    ("table", "rotary", "bias", "relative"),
    view="attention",
    subjects="what has one axis",
)
VIEWS = {row.view: row for row in (ATTENTION, *PICTURES.values()) if row.view}
KINDS = {kind: None for row in VIEWS.values() for kind in row.kinds}
VIEWS_OF = {kind: tuple(v for v, row in VIEWS.items() if kind in row.kinds) for kind in KINDS}
NOUNS = {
    "table": "a table",
    "rotary": "a rotation of queries and keys",
    "bias": "a bias on the scores",
    "relative": "an encoding that needs the content",
}
# The first view of a kind that draws several axes: their positions are the cells of a grid.
GRID_OF = {
    kind: view.capitalize()
    for kind in KINDS
    for view in reversed(VIEWS_OF[kind])
    if VIEWS[view].grids
}


def spec_is_real(spec: Any) -> bool:
    """Whether positions are coordinates, of which no integers are typical."""
    return getattr(spec, "coordinates", "integer") == "real"


def grid_of(spec: Any, length: int) -> tuple[int, ...]:
    """The sides of a grid of at most `length` cells, equal where they can be; empty for one axis.

    As many cells as it has give the same sides again.

    Parameters
    ----------
    spec : Spec
        What the positions are for.
    length : int
        How many cells there may be.
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
    homes = VIEWS_OF.get(entry.kind, ())
    if view not in homes:
        views = " or ".join(home.capitalize() for home in homes)
        return (
            f"{entry.label} is {NOUNS[entry.kind]}, and {view.capitalize()} shows "
            f"{VIEWS[view].subjects}. "
            + (f"{views} can show it." if views else "No view can show it.")
        )
    if spec is None:
        return ""
    if len(spec.axes) != 1 and (not VIEWS[view].grids or spec_is_real(spec)):
        axes = ", ".join(spec.axes)
        home = GRID_OF.get(entry.kind, "")
        views = f" {home} draws the cells of a grid." if home and not spec_is_real(spec) else ""
        return f"Positions of {entry.label} have several axes: {axes}.{views}"
    if view == "sentence" and spec.width != spec.dim:
        return f"{entry.label} is appended to embeddings, not added. Its rows are in Table."
    per_head = getattr(spec, "per_head", None)
    if entry.kind == "rotary" and per_head is not None and view != "attention":
        return f"Each head of {entry.label} has numbers of its own; the views show one set."
    if view == "waves" and not (sinusoids(inner(spec)) or hasattr(spec, "matrix")):
        return f"{entry.label} has no wavelengths. Its rows are in Table."
    if view == "stretch" and not hasattr(spec, "scaling"):
        return f"{entry.label} takes no rule that stretches it. RoPE does."
    return ""


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
    return tuple(
        e
        for e in known
        if not why_not(view, e) and e.id in specs and not why_not(view, e, specs[e.id])
    )


def offered(view: str, more: tuple[CatalogueEntry, ...] = ()) -> tuple[CatalogueEntry, ...]:
    """The entries that a view can show, those of files first."""
    fitting = []
    for entry in more:
        try:
            spec = entry.build(samples(entry))
        except PosencError:
            continue
        if not why_not(view, entry, spec):
            fitting.append(entry)
    return (*fitting, *_offered(view, entries()))


def home_of(entry: CatalogueEntry) -> str:
    """The view that an encoding is shown in first."""
    return {"table": "table", "rotary": "stretch", "bias": "bias"}.get(entry.kind, "attention")
