"""The panels of two encodings as one: colours side by side with A - B, curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posenc.plot import palette
from posenc.plot.panels.grammar import Axis, Chart, Heatmap, Matrix, Panel
from posenc.plot.panels.text import number

A, B = 0, 1  # the styles of two curves
OTHER = 6  # the style of B beside several curves of A


def together(first: Sequence[Panel], second: Sequence[Panel]) -> list[Panel]:
    """Panels of one kind and name as one, the others one after the other."""
    by_id, used = {panel.id: panel for panel in second}, {panel.id for panel in first}
    return [both for panel in first for both in _pair(panel, by_id.get(panel.id))] + [
        _second(panel) for panel in second if panel.id not in used
    ]


def _pair(panel: Panel, twin: Panel | None) -> list[Panel]:
    """One panel for both where they are of a kind, else one after the other."""
    if isinstance(panel, Heatmap) and isinstance(twin, Heatmap):
        return [_maps(panel, twin)]
    # Of several curves there must be one that the chart is about.
    if (isinstance(panel, Chart) and isinstance(twin, Chart)) and (
        len(twin.series) < 2 or any(s.front for s in (*panel.series, *twin.series))
    ):
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
        apart = replace(a, values=difference, lines=(), numbers=(), lut="diverging")
        most = palette.largest(difference)
        own = max(most, limit)
        cells.append(
            replace(
                _scaled(apart, own, "A − B"),
                title="A − B"
                if number(own, 3) == number(limit, 3)
                else f"A − B, ±{number(own, 3)}",
            )
        )
        captions.append(f"A and B up to ±{number(limit)}; largest difference {number(most)}.")
    else:
        captions.append("No difference: A and B have different sizes.")
    if b.caption != a.caption:
        captions.append(f"B: {b.caption}")
    return Matrix(a.id, a.title, tuple(cells), caption=" ".join(captions), across=3)


def _scaled(panel: Heatmap, limit: float, title: str) -> Heatmap:
    name = f"{panel.id}-{title.lower() if len(title) == 1 else 'difference'}"
    panel = replace(panel, id=name, title=title, caption="", place="full")
    return (
        panel
        if panel.lut != "diverging"
        else replace(
            panel,
            tile=panel.tile if panel.values is None else palette.indices(panel.values, limit),
            limit=limit,
            low=number(-limit),
            high=number(limit),
            scale="",
        )
    )


def _heads(a: Matrix, b: Matrix) -> Matrix:
    """The heads of both that have the same name, with their difference."""
    by_id = {cell.id: cell for cell in b.cells}
    limit = max(cell.limit for cell in (*a.cells, *b.cells))
    cells = tuple(
        replace(c, title=f"{c.title}, {cell.id.replace('-', ' ')}")
        for cell in [cell for cell in a.cells if cell.id in by_id][:3]
        for c in _maps(cell, by_id[cell.id], limit).cells
    )
    caption = f"One scale for all, up to ±{number(limit)}. Heads that both have, the first three."
    return Matrix(a.id, a.title, cells, caption=caption, across=3) if cells else a


# --- curves ---------------------------------------------------------------------------------------


def _of(side: str, label: str) -> str:
    return f"{side}: {label}" if label else side


def _overlay(a: Chart, b: Chart) -> Chart:
    """The curves of A, and the one of B that the view is about, dashed."""
    several = len(a.series) > 1
    front = next((s for s in b.series if s.front), b.series[0])
    alone = replace(a.series[0], label=_of("A", a.series[0].label), style=A)
    return replace(
        a,
        title=a.title if a.title == b.title else f"A: {a.title}",
        marks=tuple(
            replace(m, text=m.text and f"A: {m.text}") if m not in b.marks else m for m in a.marks
        ),
        series=(
            *(a.series if several else (alone,)),
            replace(
                front,
                label=_of("B", front.label),
                style=OTHER if several else B,
                draw="points" if front.draw == "bars" else front.draw,
            ),
        ),
        x=_wider(a.x, b.x),
        y=_wider(a.y, b.y),
        place="full" if a.place in ("right", "below") else a.place,
        orient="h",
        height=max(a.height, 110),
    )


def _wider(a: Axis, b: Axis) -> Axis:
    """An axis that holds both domains."""
    domain = (min(a.domain[0], b.domain[0]), max(a.domain[1], b.domain[1]))
    return a if domain == a.domain else replace(a, domain=domain, to=None)
