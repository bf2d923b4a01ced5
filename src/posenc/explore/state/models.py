"""Models whose layers can be shown: the types of layer of a config or a published plan.

A type of layer is an entry of its own, so every view of one encoding can show it. What a plan does
not settle stays in the words of its reader.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from posenc import presets
from posenc._core.reading import Layer, Note, Reading
from posenc._core.spec.answers import brief
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.explain import describe
from posenc.detect.facts import Facts, facts
from posenc.explore.state.entry import CatalogueEntry, written
from posenc.plot.panels.text import present, whole

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
    if own is None:
        return layer.declared, "as declared"
    return getattr(own, "original_length", None), f"that of its {type(own).__name__}"


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
        types.append(_type(layer, part, _window(layer, about), row["sources"]))
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


def _type(layer: Layer, part: str, window: str, sources: Mapping[str, str]) -> LayerType:
    scale = layer.logit_scale
    return LayerType(
        layer.label,
        part,
        layer.spec,
        layer.kind,
        layer.indices,
        layer.length,
        window,
        sources,
        "; ".join(
            present(
                f"a convolution: {layer.convolution}" if layer.convolution else "",
                f"scores times {brief(scale)}" if scale is not None else "",
            )
        )[:LONGEST],
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
