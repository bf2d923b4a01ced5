"""The command that draws what a view shows: its picture of `posenc.plot`, or a model explained."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Any

from posenc._core.spec.spec import Value
from posenc.explore.state.entry import Chosen, samples
from posenc.explore.state.fields import short
from posenc.explore.state.scene import Scene
from posenc.explore.views import ON_PAPER
from posenc.plot.rows import PICTURES, PictureOption

# Encodings that the command can say in options, and the option of each key of the state.
IN_OPTIONS = ("sinusoidal", "rope", "xpos", "alibi", "kerple", "fire", "sandwich", "decay", "tisa")
OPTIONS = {"d": "--dim", "n": "--base", "order": "--order", "pairing": "--pairing"}
OPTIONS |= {"heads": "--heads"}
ALWAYS = ("d", "heads", "pairing")  # said even where they have their defaults


def command_of(scene: Scene) -> str:
    """The line for a shell that draws the same in a file, or explains a model; else empty."""
    if scene.a.entry.model is not None and scene.shape.id == "layers":
        models = [c.entry.model.source for c in (scene.a, scene.b) if c is not None]
        plain = models[0].removeprefix("plan:")
        alone = ["explain", plain] if plain == models[0] else ["explain", "--plan", plain]
        return shlex.join(["posenc", *(["diff", *models] if len(models) > 1 else alone)])
    if scene.shape.id not in ON_PAPER:
        return ""
    name, options = ON_PAPER[scene.shape.id](scene)
    words = ["posenc", "plot", name]
    words += _encoding(scene.a)
    for option in PICTURES[name].options:
        if option.argument in options:
            words += [option.flag, _written(option, options[option.argument], scene.a.spec)]
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
    short: dict[str, Any] = {"type": type(value).__name__}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        setting = getattr(value, field.name)
        if setting != field.default:
            short[field.name] = _short_of(setting)
    return short


def _short_of(setting: Any) -> Any:
    if isinstance(setting, Value):
        return _short(setting)
    return [_short_of(item) for item in setting] if isinstance(setting, tuple) else setting
