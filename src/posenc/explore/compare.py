"""Compare: the same view of a second encoding, beside the first and under one cursor.

Tables stand side by side on one scale with their difference; curves lie on each other, B dashed;
what can be neither comes below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posenc._core.spec.brief import brief
from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import PIN, Page, Scene
from posenc.plot import palette
from posenc.plot.columns import width_of
from posenc.plot.panels.grammar import Axis, Chart, Heading, Heatmap, Matrix, Panel
from posenc.plot.panels.text import number

A, B = 0, 1  # the styles of two curves, as in `posenc.plot.compare`
OTHER = 6  # the style of B beside several curves of A
LONGEST = 80
FACTS = 10  # blocks of the readout that are shown of B


def beside(scene: Scene, show: Mapping[str, Callable[[Scene], Page]]) -> Page:
    """The page of both encodings; `show` draws each view."""
    assert scene.b is not None, "the caller has looked"  # noqa: S101 - for the type checker
    draw = show[scene.shape.id]
    narrow = replace(scene, width=max(16, scene.width // 3)) if scene.shape.id == "table" else scene
    page = draw(narrow)
    other = draw(replace(narrow, a=scene.b, b=None, values=_values_of_b(scene)))
    page.panels = tuple(_together(page.panels, other.panels))
    page.lead = f"A: {words(scene.a)}. B: {words(scene.b)}."
    page.readout = (*page.readout, Heading(f"B: {scene.b.label}"), *other.readout[:FACTS])
    page.say = f"A: {page.say}. B: {other.say}"
    page.python = _code(page.python, other.python)
    pinned = ((f"{PIN}enc" if key == "enc" else key, problem) for key, problem in other.problems)
    page.problems = (*page.problems, *pinned)
    return page


def words(chosen: Chosen) -> str:
    """An encoding as it is written, or by its name where that is long."""
    written = "" if chosen.spec is None else brief(chosen.spec)
    return written if 0 < len(written) <= LONGEST and ":" not in chosen.entry.id else chosen.label


def _values_of_b(scene: Scene) -> dict[str, Any]:
    """The numbers of the view, held within what B has."""
    values = dict(scene.values)
    wide = [width_of(c.spec) for c in (scene.a, scene.b) if c is not None]
    if "j" in values:
        values["j"] = min(values["j"], wide[1] - 1)
    if "j1" in values:
        values["j1"] = wide[1] if values["j1"] == wide[0] else min(values["j1"], wide[1])
        values["j0"] = values["j0"] if values["j0"] < values["j1"] else 0
    return values


def _together(first: tuple[Panel, ...], second: tuple[Panel, ...]) -> list[Panel]:
    by_id = {panel.id: panel for panel in second}
    panels = [both for panel in first for both in _pair(panel, by_id.get(panel.id))]
    used = {panel.id for panel in first}
    return panels + [_second(panel) for panel in second if panel.id not in used]


def _pair(panel: Panel, twin: Panel | None) -> list[Panel]:
    """One panel for both where they are of a kind, else one after the other."""
    if isinstance(panel, Heatmap) and isinstance(twin, Heatmap):
        return [_maps(panel, twin)]
    if isinstance(panel, Chart) and isinstance(twin, Chart):
        return [_overlay(panel, twin)]
    if isinstance(panel, Matrix) and isinstance(twin, Matrix):
        return [_heads(panel, twin)]
    if getattr(panel, "both", False):
        return [panel]
    alone = replace(panel, title=f"A: {panel.title}")
    return [alone] if twin is None else [alone, _second(twin)]


def _second(panel: Panel) -> Panel:
    return replace(panel, title=f"B: {panel.title}", id=f"b-{panel.id}")


# --- heatmaps -------------------------------------------------------------------------------------


def _maps(a: Heatmap, b: Heatmap, limit: float = 0.0) -> Matrix:
    """A, B and A - B on one scale."""
    limit = limit or max(a.limit, b.limit)
    cells = [_scaled(a, limit, "A"), _scaled(b, limit, "B")]
    captions = [a.caption]
    if a.values is not None and b.values is not None and a.values.shape == b.values.shape:
        difference = a.values - b.values
        cells.append(_scaled(replace(a, values=difference, lines=()), limit, "A − B"))
        most = number(palette.largest(difference))
        captions.append(f"One scale, up to ±{number(limit)}; largest difference {most}.")
    else:
        captions.append("No difference: A and B have different sizes.")
    if b.caption != a.caption:
        captions.append(f"B: {b.caption}")
    return Matrix(a.id, a.title, tuple(cells), " ".join(captions))


def _scaled(panel: Heatmap, limit: float, title: str) -> Heatmap:
    name = f"{panel.id}-{title.lower() if len(title) == 1 else 'difference'}"
    panel = replace(panel, id=name, title=title, caption="", place="full")
    if panel.lut != "diverging":
        return panel
    tile = panel.tile if panel.values is None else palette.indices(panel.values, limit)
    return replace(panel, tile=tile, low=number(-limit), high=number(limit))


def _heads(a: Matrix, b: Matrix) -> Matrix:
    """The heads of both that have the same name, with their difference."""
    by_id = {cell.id: cell for cell in b.cells}
    limit = max(cell.limit for cell in (*a.cells, *b.cells))
    cells: list[Heatmap] = []
    for cell in [cell for cell in a.cells if cell.id in by_id]:
        if len(cells) < 9:
            three = _maps(cell, by_id[cell.id], limit).cells
            cells += [replace(c, title=f"{c.title}, {cell.title}") for c in three]
    if not cells:
        return a
    caption = f"One scale for all, up to ±{number(limit)}. Heads that both have, the first three."
    return Matrix(a.id, a.title, tuple(cells), caption)


# --- curves ---------------------------------------------------------------------------------------


def _overlay(a: Chart, b: Chart) -> Chart:
    """The curves of A, and the one of B that the view is about, dashed."""
    several = len(a.series) > 1
    front = next((s for s in b.series if s.front), b.series[0])
    dashed = replace(front, label=f"B: {front.label}", style=OTHER if several else B)
    if front.draw == "bars":
        dashed = replace(dashed, draw="points")
    own = a.series if several else (replace(a.series[0], label=f"A: {a.series[0].label}", style=A),)
    return replace(
        a,
        series=(*own, dashed),
        x=_wider(a.x, b.x),
        y=_wider(a.y, b.y),
        place="full" if a.place in ("right", "below") else a.place,
        orient="h",
        height=max(a.height, 110),
    )


def _wider(a: Axis, b: Axis) -> Axis:
    """An axis that holds both domains."""
    domain = (min(a.domain[0], b.domain[0]), max(a.domain[1], b.domain[1]))
    if domain == a.domain:
        return a
    return replace(a, domain=domain, to=None)


# --- words ----------------------------------------------------------------------------------------


def _code(first: str, second: str) -> str:
    """Both snippets, with what they share said once."""
    lines = [line for line in second.splitlines() if line and not line.startswith("import ")]
    return "\n".join([first, "", "# B", *lines])
