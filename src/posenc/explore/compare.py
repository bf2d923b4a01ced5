"""Compare: the same view of a second encoding, beside the first and under one cursor.

Tables stand side by side on one scale with their difference; curves lie on each other, B dashed;
what can be neither comes below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posenc._core.spec.answers import brief
from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import PIN, Page, Scene
from posenc.plot.columns import width_of
from posenc.plot.panels.both import together
from posenc.plot.panels.grammar import Heading

LONGEST = 80
FACTS = 10  # blocks of the readout that are shown of B


def beside(scene: Scene, show: Mapping[str, Callable[[Scene], Page]]) -> Page:
    """The page of both encodings; `show` draws each view."""
    assert scene.b is not None, "the caller has looked"  # noqa: S101 - for the type checker
    draw = show[scene.shape.id]
    narrow = replace(scene, width=max(16, scene.width // 3)) if scene.shape.id == "table" else scene
    page = draw(narrow)
    other = draw(replace(narrow, a=scene.b, b=None, values=_values_of_b(scene)))
    page.panels = tuple(together(page.panels, other.panels))
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


# --- words ----------------------------------------------------------------------------------------


def _code(first: str, second: str) -> str:
    """Both snippets, with what they share said once."""
    lines = [line for line in second.splitlines() if line and not line.startswith("import ")]
    return "\n".join([first, "", "# B", *lines])
