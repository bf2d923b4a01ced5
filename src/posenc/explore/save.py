"""Files of what is on the screen: pictures by matplotlib, numbers by NumPy alone."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shlex
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DependencyError, bad_argument, suggest
from posenc._core.spec.spec import Value
from posenc.explore.page import page_of
from posenc.explore.state.entry import Chosen, Session, samples
from posenc.explore.state.fields import short
from posenc.explore.state.rows import TRAINED
from posenc.explore.state.scene import Page, Scene
from posenc.plot.export import archive
from posenc.plot.panels.grammar import AttentionPanel, Chart, Heatmap, Matrix, Panel, Strips
from posenc.plot.rows import PICTURES, PictureOption
from posenc.plot.trained import ROWS, trained_losses

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
    lacking = dict.fromkeys(DRAWN, _lacking())
    # The page of its own is the server's.
    return [
        {"format": name, "label": label, "ok": not lacking.get(name), "why": lacking.get(name, "")}
        for name, label in {**LABELS, "html": "HTML, a page of its own"}.items()
    ]


def _lacking() -> str:
    """Why there are no pictures; empty where there are."""
    return "" if importlib.util.find_spec("matplotlib") is not None else NO_MATPLOTLIB


def save(state: Mapping[str, str], wanted: str, session: Session) -> Download:
    """What is on the screen, as a file: a picture, or the numbers at the resolution of the screen.

    Raises `ArgumentError` if `wanted` is none of `LABELS`, `DependencyError` without matplotlib.
    """
    if wanted not in LABELS:
        raise bad_argument("save", "a format", repr(wanted[:20]), suggest(wanted[:20], LABELS))
    scene, page = page_of(state, session)
    written = _csv if wanted == "csv" else archive
    data = _drawn(scene, page, wanted) if wanted in DRAWN else written(numbers(page.panels))
    return Download(f"posenc-{scene.shape.id}.{wanted}", MEDIA[wanted], data)


DRAWING = threading.Lock()  # matplotlib's settings belong to the whole process


def _drawn(scene: Scene, page: Page, wanted: Any) -> bytes:
    """The picture that `posenc.plot` makes of the same numbers, else the panels of the page."""
    if _lacking():
        raise DependencyError(NO_MATPLOTLIB)
    from posenc import plot
    from posenc.plot.draw.drawing import of_panels

    a, b = scene.a, scene.b
    name, options = page.paper or ("", {})
    more = {**options, "theme": scene.theme}
    learned = {"params": a.params} if name and a.params and PICTURES[name].learned else {}
    with DRAWING:
        if not name:
            picture = of_panels(
                page.panels, page.title or scene.shape.title, page.lead, scene.theme
            )
        elif b is not None and PICTURES[name].difference is not None:
            more.pop("axis", None)  # of curves of one encoding alone
            picture = plot.compare(
                name, a.spec, b.spec, a_params=a.params, b_params=b.params, **more
            )
        else:
            # The losses are those of models that were trained, whatever the page has chosen.
            spec = trained_losses().spec if options.get("loss") else a.spec
            picture = getattr(plot, name)(spec, **more, **learned)
        return bytes(picture.to_bytes(wanted))


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
        return {
            _named(panel.id, str(number), strip.label): strip.tile
            for number, strip in enumerate(panel.strips)
        }
    arrays: dict[str, np.ndarray] = {}
    for series in panel.series if isinstance(panel, Chart) else ():
        name = _named(panel.id, series.label)
        arrays |= {f"{name}.x": series.x, f"{name}.y": series.y}
        if series.lo is not None and series.hi is not None:
            arrays |= {f"{name}.least": series.lo, f"{name}.largest": series.hi}
    return arrays


def _named(*words: str) -> str:
    """A name that every system takes for a file in an archive."""
    return ".".join(
        filter(None, (re.sub(r"[^A-Za-z0-9_.]+", "-", word).strip("-") for word in words))
    )


def _csv(data: Mapping[str, np.ndarray]) -> bytes:
    """The arrays one below the other, each under its name."""
    lines = []
    for name, array in data.items():
        lines.append(f"# {name} {'x'.join(map(str, array.shape))}")
        rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
        lines += [",".join(map(repr, row)) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


# --- the command ----------------------------------------------------------------------------------


# Encodings that the command can say in options, and the option of each key of the state.
IN_OPTIONS = ("sinusoidal", "rope", "xpos", "alibi", "kerple", "fire", "sandwich", "decay", "tisa")
OPTIONS = {
    "d": "--dim",
    "n": "--base",
    "order": "--order",
    "pairing": "--pairing",
    "heads": "--heads",
}
ALWAYS = ("d", "heads", "pairing")  # said even where they have their defaults


def command_of(scene: Scene, page: Page) -> str:
    """The line for a shell that draws the same in a file, or explains a model; else empty."""
    if scene.a.entry.model is not None and scene.shape.id == "layers":
        models = [c.entry.model.source for c in (scene.a, scene.b) if c is not None]
        plain = models[0].removeprefix("plan:")
        alone = ["explain", plain] if plain == models[0] else ["explain", "--plan", plain]
        return shlex.join(["posenc", *(["diff", *models] if len(models) > 1 else alone)])
    if page.paper is None:
        return ""
    name, options = page.paper
    named = scene.shape.encoding and not options.get("loss")
    words = ["posenc", "plot", name, *(_encoding(scene.a) if named else [])]
    for option in PICTURES[name].options:
        if option.argument in options:
            value = options[option.argument]
            written = [] if option.reads == "flag" else [_written(option, value, scene.a.spec)]
            words += [option.flag, *written]
    return shlex.join([*words, "-o", f"{name}.png"])


def _written(option: PictureOption, value: Any, spec: Any) -> str:
    """The text of an option that the command reads as the value."""
    if option.reads == "grid":
        return ",".join(f"{axis}={side}" for axis, side in zip(spec.axes, value, strict=True))
    if option.reads == "stretch" and isinstance(value, int):
        value = (0, value)
    if isinstance(value, tuple):
        return ("," if option.reads == "two" else ":").join(map(str, value))
    return short(value) if isinstance(value, float) else str(value)


def _encoding(chosen: Chosen) -> list[str]:
    entry = chosen.entry
    if entry.id.startswith("file:") and entry.params is not None:
        file, _, tensor = entry.label.partition(": ")
        return ["--table", file, *(["--tensor", tensor] if tensor else [])]
    if entry.id == TRAINED:
        return ["--table", str(ROWS)]
    start = ["--init-seed", "0"] if chosen.random else []
    if entry.id.startswith("preset:"):
        preset = entry.id.removeprefix("preset:")
        return ["--preset", preset, "--dim", str(chosen.values["d"]), *start]
    usual = samples(entry)
    plain = chosen.values.get("ladder", "exponent 2i/d") == "exponent 2i/d"
    if entry.id not in IN_OPTIONS or not plain:
        return ["--spec", json.dumps(_short(chosen.spec), separators=(",", ":")), *start]
    words = [] if entry.id == "sinusoidal" else ["--encoding", type(chosen.spec).__name__]
    for key, option in OPTIONS.items():
        value = chosen.values.get(key)
        if value is not None and (key in ALWAYS or value != usual[key]):
            words += [option, short(value) if isinstance(value, float) else str(value)]
    return [*words, *start]


def _short(value: Value) -> dict[str, Any]:
    """The JSON of a value without what has its default."""
    own = {field.name: field.default for field in dataclasses.fields(value)}  # type: ignore[arg-type]
    settings = {name: getattr(value, name) for name in own}
    return {
        "type": type(value).__name__,
        **{name: _short_of(it) for name, it in settings.items() if it != own[name]},
    }


def _short_of(setting: Any) -> Any:
    if isinstance(setting, Value):
        return _short(setting)
    return [_short_of(item) for item in setting] if isinstance(setting, tuple) else setting
