"""Files of what is on the screen: pictures by matplotlib, numbers by NumPy alone."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, DependencyError, mismatch, suggest
from posenc.explore.page import page_of
from posenc.explore.state.scene import Page, Scene
from posenc.explore.state.session import Session
from posenc.explore.views import ON_PAPER
from posenc.plot.export import archive
from posenc.plot.panels.grammar import AttentionPanel, Chart, Heatmap, Matrix, Panel, Strips
from posenc.plot.rows import PICTURES

LABELS = {"png": "PNG", "svg": "SVG", "csv": "CSV", "npz": "NPZ"}
MEDIA = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "csv": "text/csv; charset=utf-8",
    "npz": "application/octet-stream",
}
DRAWN = ("png", "svg")
NO_MATPLOTLIB = "Pictures need matplotlib: pip install 'posenc[plot]'"
MOST_VALUES = 2**22  # of a file


class Download(NamedTuple):
    """A file to keep: its name, what it is, and its bytes."""

    name: str
    media_type: str
    data: bytes


def formats() -> list[dict[str, Any]]:
    """What can be saved, and why not what cannot."""
    why = "" if importlib.util.find_spec("matplotlib") is not None else NO_MATPLOTLIB
    lacking = {name: why if name in DRAWN else "" for name in LABELS}
    return [
        {"format": name, "label": label, "ok": not lacking[name], "why": lacking[name]}
        for name, label in LABELS.items()
    ]


def save(state: Mapping[str, str], wanted: str, session: Session) -> Download:
    """What is on the screen, as a file: a picture, or the numbers at the resolution of the screen.

    Raises `ArgumentError` if `wanted` is none of `LABELS`, `DependencyError` without matplotlib.
    """
    if wanted not in LABELS:
        raise ArgumentError(
            mismatch("save", "a format", repr(wanted[:20]), suggest(wanted[:20], LABELS))
        )
    scene, page = page_of(state, session)
    name = f"posenc-{scene.shape.id}.{wanted}"
    if wanted in DRAWN:
        return Download(name, MEDIA[wanted], _drawn(scene, page, wanted))
    written = _csv if wanted == "csv" else archive
    return Download(name, MEDIA[wanted], written(numbers(page.panels)))


DRAWING = threading.Lock()  # matplotlib's settings belong to the whole process


def _drawn(scene: Scene, page: Page, wanted: str) -> bytes:
    """The picture that `posenc.plot` makes of the same numbers, else the panels of the page."""
    if importlib.util.find_spec("matplotlib") is None:
        raise DependencyError(NO_MATPLOTLIB)
    from posenc import plot
    from posenc.plot.draw.drawing import of_panels

    title = page.title or scene.shape.title
    if scene.shape.id not in ON_PAPER:
        with DRAWING:
            picture = of_panels(page.panels, title, page.lead, scene.theme)
            return picture.to_bytes("png" if wanted == "png" else "svg")
    name, options = ON_PAPER[scene.shape.id](scene)
    more = dict(options)
    with DRAWING:
        if scene.b is not None and PICTURES[name].difference is not None:
            more.pop("axis", None)  # of curves of one encoding alone
            picture = plot.compare(
                name,
                scene.a.spec,
                scene.b.spec,
                a_params=scene.a.params,
                b_params=scene.b.params,
                theme=scene.theme,
                **more,
            )
        else:
            if PICTURES[name].learned and scene.a.params:
                more["params"] = scene.a.params
            picture = getattr(plot, name)(scene.a.spec, theme=scene.theme, **more)
        return bytes(picture.to_bytes("png" if wanted == "png" else "svg"))


def numbers(panels: Iterable[Panel]) -> dict[str, np.ndarray]:
    """What the pictures were drawn from, by the name of the picture and of the curve."""
    arrays = {name: array for panel in panels for name, array in _of_panel(panel).items()}
    return {name: array for name, array in arrays.items() if array.size <= MOST_VALUES}


def _of_panel(panel: Panel) -> dict[str, np.ndarray]:
    if isinstance(panel, Matrix):
        return numbers(panel.cells)
    if isinstance(panel, AttentionPanel):
        return numbers([cell.grid for cell in panel.cells])
    if isinstance(panel, Heatmap):
        return {_named(panel.id): panel.tile if panel.values is None else panel.values}
    if isinstance(panel, Strips):
        strips = enumerate(panel.strips)
        return {_named(panel.id, str(number), strip.label): strip.tile for number, strip in strips}
    arrays: dict[str, np.ndarray] = {}
    for series in panel.series if isinstance(panel, Chart) else ():
        name = _named(panel.id, series.label)
        arrays |= {f"{name}.x": series.x, f"{name}.y": series.y}
        if series.lo is not None and series.hi is not None:
            arrays |= {f"{name}.least": series.lo, f"{name}.largest": series.hi}
    return arrays


def _named(*words: str) -> str:
    """A name that every system takes for a file in an archive."""
    plain = (re.sub(r"[^A-Za-z0-9_.]+", "-", word).strip("-") for word in words)
    return ".".join(filter(None, plain))


def _csv(data: Mapping[str, np.ndarray]) -> bytes:
    """The arrays one below the other, each under its name."""
    lines = []
    for name, array in data.items():
        lines.append(f"# {name} {'x'.join(map(str, array.shape))}")
        rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
        lines += [",".join(map(repr, row)) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()
