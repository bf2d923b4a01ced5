"""Layers: what each layer of a model knows of positions, and what its config leaves open."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.spec.answers import brief
from posenc.detect.contract import Comparison, diff
from posenc.explore.state import catalogue
from posenc.explore.state.catalogue import MOST_CELLS, LayerType, ModelLayers, trained_length
from posenc.explore.state.entry import CatalogueEntry
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.functional import wavelengths
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Datum,
    Heading,
    Link,
    Links,
    Mark,
    Panel,
    Paragraphs,
    Prose,
    Series,
    Strip,
    Strips,
    TableOfText,
    cells,
    logarithmic,
)
from posenc.plot.panels.text import number, plural, whole

SHAPE = ViewShape(
    "layers",
    "Layers",
    "What does each layer know of positions?",
    "plan:gemma3:local",
    cursor=(),
    learns=False,
    first=("enc",),
)
MOST_CURVES = 7
CHOSEN, OTHER = 255, 120  # places of the sequential map


def show(scene: Scene) -> Page:
    """The strip of layers, the types side by side, their wavelengths, and what is left open."""
    model, b = scene.a.entry.model, scene.b
    name = model.types[scene.a.entry.place].name if model.types else ""
    return Page(
        lead=f"{model.name}: {model.sure}.",
        panels=(
            *(_differences(model.plan, b.entry.model.plan) if b is not None else ()),
            *(_types(scene, model) if model.types else ()),
            *_notes(model),
        ),
        readout=_readout(model, scene.a.entry),
        say=f"{model.name}, {name}" if name else f"{model.name}: not read",
        python=f"import posenc\n\nplan = {model.python}",
    )


def _types(scene: Scene, model: ModelLayers) -> Iterator[Panel]:
    yield from _strips(
        model,
        scene.a.entry.place,
        {
            e.place: e.id
            for e in (*scene.session.entries, *catalogue.published_models())
            if e.model is model
        },
    )
    yield _facts({"": model} if scene.b is None else {"A: ": model, "B: ": scene.b.entry.model})
    curves = {layer.name: w for layer in model.types if (w := _waves(layer)) is not None}
    if curves:
        yield _wavelengths(model, curves)


# --- which layer is of which type -----------------------------------------------------------------


def _strips(model: ModelLayers, chosen: int, ids: dict[int, str]) -> list[Strips]:
    """A row for each type of layer and a cell for each layer, part by part."""
    loose: list[Strip] = []
    placed: dict[str, list[Strip]] = {}
    parts = list(dict.fromkeys(layer.part for layer in model.types))
    for place, layer in sorted(enumerate(model.types), key=lambda row: parts.index(row[1].part)):
        count = model.counts.get(layer.part, 0)
        row, own = loose, np.ones(1, dtype=bool)
        if count and (layer.indices is not None or is_everywhere(layer)):
            row, own = placed.setdefault(layer.part, []), np.zeros(min(count, MOST_CELLS), bool)
            own[[i for i in layer.indices or range(count) if i < len(own)]] = True
        tile = np.where(own, CHOSEN if place == chosen else OTHER, 0).astype(np.uint8)
        row.append(Strip(layer.name, tile, key="enc", value=ids[place]))
    panels = []
    for part, strips in placed.items():
        count = model.counts[part]
        panels.append(
            _panel(
                f"layers-{part}",
                f"{part + ': ' if part else ''}{plural(count, 'layer')}, a row for each type",
                strips,
                min(count, MOST_CELLS),
                ("Dark: the type in the readout." if len(model.types) > 1 else "")
                + ("" if count <= MOST_CELLS else f" The first {MOST_CELLS:,} are drawn."),
            )
        )
    if loose:
        panels.append(_panel("loose", "types for which no layers are named", loose, 0, ""))
    return panels


def _panel(identity: str, title: str, strips: list[Strip], count: int, caption: str) -> Strips:
    return Strips(
        identity,
        title,
        tuple(strips),
        "sequential",
        columns=tuple(map(str, range(count))),
        caption=caption,
    )


# --- the types side by side -----------------------------------------------------------------------


def _facts(models: Mapping[str, ModelLayers]) -> TableOfText:
    """Facts down, types of layer across; a fact that no type has is left out."""
    facts_by_type = {
        f"{side}{t.name}": _facts_of(t, m) for side, m in models.items() for t in m.types
    }
    facts = (
        (name, *(f[name] for f in facts_by_type.values()))
        for name in next(iter(facts_by_type.values()))
    )
    return TableOfText(
        "types",
        "what they are",
        ("type of layer", *facts_by_type),
        tuple((name, *(text or "–" for text in told)) for name, *told in facts if any(told)),
        place="half" if len(models) == 1 else "full",
        both=len(models) > 1,
    )


def _facts_of(layer: LayerType, model: ModelLayers) -> dict[str, str]:
    spec: Any = layer.spec
    named = type(spec).__name__ if spec is not None else layer.kind.replace("none", "no positions")
    base = getattr(spec, "base", None)
    bases = base if isinstance(base, tuple) else () if base is None else (base,)
    rotary = layer.kind == "rotary"
    trained, rests = trained_length(layer)
    return {
        "encoding": named,
        "layers": _count(layer, model),
        "base": ", ".join(number(float(b), 10) for b in bases),
        "window": layer.window,
        "width": whole(spec.dim) if hasattr(spec, "dim") else "",
        "pairs": whole(spec.pairs) if rotary else "",
        "pairing": spec.channels.order if rotary else "",
        "scaling": "; ".join(
            s if len(s) <= 60 else f"{s[:57]}…"
            for s in [brief(s) for s in getattr(spec, "scalings", ())]
        ),
        "trained length": "" if trained is None else f"{whole(trained)} ({rests})",
        "declared length": "" if layer.declared is None else whole(layer.declared),
        "beside it": layer.words,
    }


def _count(layer: LayerType, model: ModelLayers) -> str:
    if layer.indices is not None:
        return whole(len(layer.indices))
    count = model.counts.get(layer.part, 0)
    return f"all {whole(count)}" if count and is_everywhere(layer) else "none named"


def is_everywhere(layer: LayerType) -> bool:
    """Whether a type without layers is that of all of them: it acts inside attention."""
    return layer.indices is None and layer.kind in ("rotary", "bias", "relative")


def _waves(layer: LayerType) -> np.ndarray | None:
    """The wavelength of each pair, NaN where one does not turn; None without fixed frequencies."""
    spec: Any = layer.spec
    if layer.kind != "rotary" or len(spec.axes) > 1:
        return None
    if spec.needs_length:
        length = layer.declared or trained_length(layer)[0]
        spec = None if length is None else spec.at(length)
    if not hasattr(spec, "matrix"):
        return None
    waves = np.asarray(wavelengths(spec), dtype=np.float64).reshape(-1)
    return np.where(np.isfinite(waves), waves, np.nan)


def _wavelengths(model: ModelLayers, curves: Mapping[str, np.ndarray]) -> Chart:
    shown = dict(list(curves.items())[:MOST_CURVES])
    lengths = {}
    for layer in [layer for layer in model.types if layer.name in shown]:
        if trained := trained_length(layer)[0]:
            lengths[trained] = f"trained length {whole(trained)}"
        if layer.declared:
            lengths.setdefault(layer.declared, f"declared length {whole(layer.declared)}")
    values = np.concatenate([*shown.values(), np.array([6.0, *lengths])])
    return Chart(
        id="wavelengths",
        title="wavelength of each pair, in positions (log)",
        x=cells("pair: fast → slow", 0, max(map(len, shown.values()))),
        y=logarithmic("", float(np.nanmin(values)) / 1.2, float(np.nanmax(values)) * 1.3),
        series=tuple(
            Series(name, np.arange(len(w)) + 0.5, w.astype(np.float32), style)
            for style, (name, w) in enumerate(shown.items())
        ),
        marks=tuple(Mark("y", length, text, style="solid") for length, text in lengths.items()),
        caption="" if len(shown) == len(curves) else f"The first {MOST_CURVES:,} types are drawn.",
        place="half",
        height=240,
        label="Wavelength of each pair of each type of layer",
    )


# --- words ----------------------------------------------------------------------------------------


def _notes(model: ModelLayers) -> Iterable[Paragraphs]:
    """What the reader said, in its words, what leaves numbers open first."""
    for level, title in {"error": "Errors", "warning": "Warnings", "remark": "Remarks"}.items():
        noted = [n for n in model.notes if n.level == level]
        if noted:
            yield Paragraphs(
                f"notes-{level}",
                title,
                tuple(dict.fromkeys(f"{n.layer}: {n.text}" if n.layer else n.text for n in noted)),
            )


def _readout(model: ModelLayers, entry: CatalogueEntry) -> tuple[Block, ...]:
    layer = model.at(entry)
    if layer is None:
        return (Heading("Not read"), Prose("The reasons stand beside, in the reader's words."))
    views = [
        v
        for v in catalogue.VIEWS_OF.get(entry.kind, ())
        if not catalogue.why_not(v, entry, layer.spec)
    ]
    links = tuple(Link(view.capitalize(), {"v": view, "enc": entry.id}) for view in views)
    return (
        Heading(layer.name),
        *[Datum(name, text) for name, text in _facts_of(layer, model).items() if text],
        *([Links("See it in", links)] if links else []),
        *([Heading("Where it was read")] if layer.sources else []),
        *(Datum(field, source) for field, source in layer.sources.items()),
    )


@functools.lru_cache(maxsize=8)
def _compared(a: Any, b: Any) -> Comparison | str:
    try:
        return diff(a, b)
    except PosencError as error:
        return str(error)


def _differences(a: Any, b: Any) -> Iterator[Panel]:
    """Two models as `posenc diff` sees them."""
    answer = _compared(a, b)
    if isinstance(answer, str):
        yield Paragraphs("differences", "not compared", (answer,), both=True)
        return
    rows = tuple(
        (
            d.field,
            d.a,
            d.b,
            "" if d.size is None else f"{number(d.size, 2)} ({d.what})",
            "" if d.position is None else whole(d.position),
            d.where.partition(" (")[0],
        )
        for d in answer.rows
    )
    columns = ("field", "A", "B", "largest difference", "noticeable from position", "layers")
    if rows:
        yield TableOfText("differences", "A and B differ", columns, rows, both=True)
    for title, lines in (("compared", answer.compared), ("not compared", answer.not_compared)):
        if lines:
            yield Paragraphs(
                f"differences-{title}",
                title if rows else f"{answer.verdict}, {title}",
                lines,
                both=True,
            )
