"""Which picture of `posenc.plot` a view is: its arguments, and the command that draws it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc._core.spec import Value
from posenc.explore.catalogue import grid_of
from posenc.explore.entry import Chosen, samples
from posenc.explore.fields import short
from posenc.explore.scene import Scene
from posenc.explore.views.sentence import embedded
from posenc.plot.columns import width_of

__all__ = ["LEARNED", "PictureCall", "command_of", "picture_of"]


class PictureCall(NamedTuple):
    """A picture by its name, with what it takes beside the spec."""

    name: str
    options: Mapping[str, Any]


def picture_of(scene: Scene) -> PictureCall:
    """The picture of `posenc.plot` that shows what a view shows.

    Parameters
    ----------
    scene : Scene
        The state.

    Returns
    -------
    PictureCall
        Its name and its arguments, without theme, spec and parameters.
    """
    return PICTURES[scene.shape.id](scene)


def _range(scene: Scene) -> tuple[int, int]:
    return (scene["s"], scene["s"] + scene["L"])


def _table(scene: Scene) -> PictureCall:
    sides = grid_of(scene.a.spec, scene["L"])
    if sides:
        return PictureCall("table", {"grid": sides})
    options: dict[str, Any] = {"positions": (scene["p0"], scene["p1"])}
    if (scene["j0"], scene["j1"]) != (0, width_of(scene.a.spec)):
        options["dims"] = (scene["j0"], scene["j1"])
    return PictureCall("table", options)


def _waves(scene: Scene) -> PictureCall:
    if scene["counter"]:
        return PictureCall("counter", {"at": scene["p"]})
    return PictureCall("wavelengths", {"length": scene["L"]})


def _sentence(scene: Scene) -> PictureCall:
    words, rows = embedded(scene)
    return PictureCall("sum", {"tokens": tuple(words), "embeddings": rows})


def _distance(scene: Scene) -> PictureCall:
    axis = "log" if scene["log"] else "linear"
    return PictureCall("offset", {"offsets": scene["L"], "kind": scene["metric"], "axis": axis})


def _rotate(scene: Scene) -> PictureCall:
    key = max(scene["m"] - scene["off"], 0)
    return PictureCall("rotation", {"positions": (scene["m"], key), "seed": scene["seed"]})


def _bias(scene: Scene) -> PictureCall:
    sides = grid_of(scene.a.spec, scene["L"])
    return PictureCall(
        "bias",
        {
            **({"grid": sides} if sides else {"positions": scene["L"]}),
            "mask": "causal" if scene["mask"] else "none",
            "softmax": "rows" if scene["softmax"] else "none",
        },
    )


def _stretch(scene: Scene) -> PictureCall:
    return PictureCall("stretch", {"original_length": scene["Lt"], "factor": scene["f"]})


def _spectrum(scene: Scene) -> PictureCall:
    del scene
    return PictureCall("similarity", {"kind": "cosine"})


PICTURES: dict[str, Callable[[Scene], PictureCall]] = {
    "table": _table,
    "waves": _waves,
    "sentence": _sentence,
    "distance": _distance,
    "rotate": _rotate,
    "bias": _bias,
    "stretch": _stretch,
    "spectrum": _spectrum,
}
# Pictures that take the parameters of a learned encoding, and a length for rules that need one.
LEARNED = ("table", "counter", "sum", "offset", "rotation", "bias", "similarity")


# --- as a command ---------------------------------------------------------------------------------

# Encodings that the command can say in options, and the option of each key of the state.
IN_OPTIONS = ("sinusoidal", "rope", "xpos", "alibi", "kerple", "fire", "sandwich", "decay", "tisa")
OPTIONS = {"d": "--dim", "n": "--base", "order": "--order", "pairing": "--pairing"}
OPTIONS |= {"heads": "--heads"}
FLAGS = {"original_length": "--original-length", "at": "--position", "kind": "--product"}
ALWAYS = ("d", "heads", "pairing")  # said even where they have their defaults


def command_of(scene: Scene) -> str:
    """The line that draws the same in a file; a model is told in words.

    Parameters
    ----------
    scene : Scene
        The state.

    Returns
    -------
    str
        For a shell.
    """
    if scene.shape.id not in PICTURES:
        models = [c.entry.model for c in (scene.a, scene.b) if c is not None]
        plain = models[0].source.removeprefix("plan:")
        named = ["--plan", plain] if plain != models[0].source else [plain]
        both = ["diff", *(model.source for model in models)]
        return shlex.join(["posenc", *(both if len(models) > 1 else ["explain", *named])])
    name, options = picture_of(scene)
    words = ["posenc", "plot", name]
    if name == "sum":
        words += [" ".join(options["tokens"]), "--seed", str(scene["seed"])]
        options = {}
    words += _encoding(scene.a)
    for key, value in options.items():
        if key == "grid":
            sides = zip(scene.a.spec.axes, value, strict=True)
            words += ["--grid", ",".join(f"{axis}={side}" for axis, side in sides)]
        else:
            words += _option(name, key, value)
    return shlex.join([*words, "-o", f"{name}.png"])


def _option(name: str, key: str, value: Any) -> list[str]:
    if name == "rotation" and key == "positions":
        return ["--query-key", f"{value[0]},{value[1]}"]
    if key == "positions" and isinstance(value, int):
        value = (0, value)
    if isinstance(value, tuple):
        return [f"--{key}", f"{value[0]}:{value[1]}"]
    written = short(value) if isinstance(value, float) else str(value)
    return [FLAGS.get(key, f"--{key}"), written]


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
