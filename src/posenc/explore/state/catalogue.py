"""Which view shows which encoding, and why not the others; the layers of models as encodings.

A type of layer is an entry of its own, so every view of one encoding can show it. What a plan does
not settle stays in the words of its reader.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc import presets
from posenc._core.errors import PosencError
from posenc._core.reading import Layer, Note, Reading
from posenc._core.spec.answers import brief
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.explain import describe
from posenc.detect.facts import Facts, facts
from posenc.encodings.table.column_phases import inner, sinusoids
from posenc.explore.state.entry import CatalogueEntry, Chosen, samples, written
from posenc.explore.state.rows import entries
from posenc.plot.columns import TableSource, source
from posenc.plot.panels.text import present, whole
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

    tried = range(1, max(ends) + 1)
    return sides(max(1, bisect.bisect_right(tried, length, key=lambda n: math.prod(sides(n)))))


# Fields that say how far the coordinates of a spec go.
BOUNDS = ("lengths", "window", "size", "degree")


def why_not(view: str, entry: CatalogueEntry, spec: Any = None) -> str:
    """Why a view cannot show an encoding; empty where it can."""
    if view == "layers":
        return (
            ""
            if entry.model is not None
            else f"{entry.label} is one encoding, and Layers shows {LAYERS.subjects}."
        )
    homes = VIEWS_OF.get(entry.kind, ())
    if view not in homes:
        views = " or ".join(home.capitalize() for home in homes)
        return (
            f"{entry.label} is {NOUNS[entry.kind]}, and {view.capitalize()} shows "
            f"{VIEWS[view].subjects}. "
            + (
                f"{views or 'Layers'} can show it."
                if views or entry.model
                else "No view can show it."
            )
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
    return (
        f"{entry.label} takes no rule that stretches it. RoPE does."
        if view == "stretch" and not hasattr(spec, "scaling")
        else ""
    )


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
def kept(make: Callable[..., Any], chosen: Chosen, *arguments: Any, **more: Any) -> Any:
    """What is made of an encoding and of what it has learned; it stays while the cursor moves."""
    return make(chosen.spec, *arguments, params=chosen.params, **more)


@functools.lru_cache(maxsize=64)
def _held(chosen: Chosen, length: int | None, sides: tuple[int, ...] | None) -> TableSource:
    return source(chosen.spec, params=chosen.params, length=length, grid=sides)


def window(centre: int, low: int, high: int, size: int = 20) -> np.ndarray:
    """A range of at most `size` integers around one of them, within low to high (excluded)."""
    first = max(low, min(centre - size // 2, high - size))
    return np.arange(first, min(first + size, high))


# --- models ---------------------------------------------------------------------------------------

MOST_CELLS = 1024
LONGEST = 160  # characters of an encoding in a sentence


class LayerType(NamedTuple):
    """One type of layer: its encoding, which layers are of it, and where its fields were read."""

    name: str
    part: str
    spec: Spec | None
    kind: str
    indices: tuple[int, ...] | None  # None: the plan names no layers
    declared: int | None = None
    window: str = ""
    sources: Mapping[str, str] = {}
    words: str = ""  # of what is no encoding


@dataclass(frozen=True)
class ModelLayers:
    """A model, as its config or a published plan has it."""

    name: str
    plan: Reading | Plan
    sure: str
    types: tuple[LayerType, ...]
    notes: tuple[Note, ...]
    counts: Mapping[str, int]
    source: str
    python: str

    def at(self, entry: CatalogueEntry) -> LayerType | None:
        """The type of layer that an entry stands for; None of a config that was refused."""
        return self.types[entry.place] if self.types else None


def trained_length(layer: LayerType) -> tuple[int | None, str]:
    """The length before any rule stretches it, and how it is known; None where it is not said."""
    own = next((s for s in getattr(layer.spec, "scalings", ()) if s.stretches), None)
    return (
        (layer.declared, "as declared")
        if own is None
        else (getattr(own, "original_length", None), f"that of its {type(own).__name__}")
    )


def read_model(path: Path) -> ModelLayers:
    """The layers of a config (or its folder) or of a GGUF file, with what is not settled as notes.

    Without types of layer where nothing could be read; raises `DataError` if it is no config.
    """
    about, python = facts(path), f'posenc.explain({path.name!r}, on_error="report")'
    return of_facts(about, about.explained, path.name, python)


def of_facts(about: Facts, reading: Reading, source: str, python: str) -> ModelLayers:
    """The layers of a plan that was read, with the counts and windows that are known of them."""
    description = describe(reading)
    types: list[LayerType] = []
    counts = {fact.layer: fact.value for fact in about.of("layers")}
    for layer, row in zip(reading, description["layers"], strict=True):
        part = layer.layer.rpartition(".")[0]
        if layer.indices:
            counts[part] = max(counts.get(part, 0), 1 + max(layer.indices))
        scale = layer.logit_scale
        types.append(
            LayerType(
                layer.label,
                part,
                layer.spec,
                layer.kind,
                layer.indices,
                layer.length,
                _window(layer, about),
                row["sources"],
                "; ".join(
                    present(
                        f"a convolution: {layer.convolution}" if layer.convolution else "",
                        f"scores times {brief(scale)}" if scale is not None else "",
                    )
                )[:LONGEST],
            )
        )
    return ModelLayers(
        f"{reading.model or 'no model_type'} ({source})" if source else reading.model,
        reading,
        description["sure"],
        tuple(types),
        reading.notes,
        counts,
        source,
        python,
    )


def _window(layer: Layer, about: Facts) -> str:
    """How far layers see, where some of them have a window."""
    sizes = [fact.value for fact in about.of("window", layer.label) if fact.layers != ()]
    if all(size is None for size in sizes):
        return ""
    words = {None: "the whole sequence"}
    return ", ".join(words.get(n, whole(n) if isinstance(n, int) else str(n)) for n in sizes)


# --- published plans ------------------------------------------------------------------------------


@functools.cache
def published(name: str) -> tuple[CatalogueEntry, ...]:
    """The types of layer of a published plan, as entries."""
    row = presets.plan_row(name)
    sources = " and ".join(f"{s['repository']} {s.get('version', '')}".strip() for s in row.sources)
    return entries_of(
        of_plan(
            row.build(),
            f"{name} (model type)",
            f"plan:{name}",
            f"a model type, with the default sizes of {sources}; a config may have others",
            (Note("remark", row.note),) if row.note else (),
        ),
        lambda layer: f"plan:{name}:{layer}",
    )


def of_plan(
    plan: Plan, name: str, source: str = "", sure: str = "a plan", notes: tuple[Note, ...] = ()
) -> ModelLayers:
    """The layers of a plan."""
    types = []
    outside = () if plan.embeddings is None else (plan.embeddings,)
    for entry in (*outside, *plan.entries):
        base = LayerType(
            entry.name,
            "",
            None,
            "convolution" if entry.convolution else "none",
            tuple(i for i, layer in enumerate(plan.layers) if layer == entry.name)
            if entry not in outside
            else None,
            window="" if entry.window is None else whole(entry.window),
            words="" if not entry.convolution else f"a convolution: {entry.convolution}",
        )
        types += [base._replace(spec=s, kind=s.kind) for s in entry.specs] or [base]
    return ModelLayers(
        name,
        plan,
        sure,
        tuple(types),
        notes,
        {"": len(plan)},
        source,
        f"posenc.presets.plan({source.removeprefix('plan:')!r})",
    )


def entries_of(model: ModelLayers, identity: Callable[[str], str]) -> tuple[CatalogueEntry, ...]:
    """An entry for each type of layer; one for a config of which nothing could be read."""
    return tuple(
        _entry(model, identity(layer.name), layer, n)
        for n, layer in enumerate(model.types or (LayerType("not read", "", None, "none", None),))
    )


def _entry(model: ModelLayers, identity: str, layer: LayerType, place: int) -> CatalogueEntry:
    spec: Any = layer.spec
    return CatalogueEntry(
        id=identity,
        label=f"{layer.name} of {model.name}",
        group=model.name,
        kind="none" if spec is None else spec.kind,
        fields=(),
        build=lambda _: spec,
        code=lambda _: written(spec),
        note="learned, so random numbers of seed 0 stand in." if spec and spec.shapes else "",
        length=layer.declared,
        model=model,
        place=place,
    )
