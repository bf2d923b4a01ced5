"""Which picture of `posenc.plot` a view is, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.explore.scene import Scene
from posenc.explore.views.sentence import embedded

__all__ = ["Picture", "picture_of"]


class Picture(NamedTuple):
    """A picture by its name, with what it takes beside the spec."""

    name: str
    options: Mapping[str, Any]


def picture_of(scene: Scene) -> Picture:
    """The picture of `posenc.plot` that shows what a view shows.

    Parameters
    ----------
    scene : Scene
        The state.

    Returns
    -------
    Picture
        Its name and its arguments, without theme, spec and parameters.
    """
    return PICTURES[scene.shape.id](scene)


def _range(scene: Scene) -> tuple[int, int]:
    return (scene["s"], scene["s"] + scene["L"])


def _table(scene: Scene) -> Picture:
    options: dict[str, Any] = {"positions": (scene["p0"], scene["p1"])}
    if (scene["j0"], scene["j1"]) != (0, scene.a.spec.dim):
        options["dims"] = (scene["j0"], scene["j1"])
    return Picture("table", options)


def _waves(scene: Scene) -> Picture:
    if scene["counter"]:
        return Picture("counter", {"at": scene["p"]})
    return Picture("wavelengths", {"length": scene["L"]})


def _sentence(scene: Scene) -> Picture:
    words, rows = embedded(scene)
    return Picture("sum", {"tokens": tuple(words), "embeddings": rows})


def _distance(scene: Scene) -> Picture:
    axis = "log" if scene["log"] else "linear"
    return Picture("offset", {"offsets": scene["L"], "kind": scene["metric"], "axis": axis})


def _rotate(scene: Scene) -> Picture:
    key = max(scene["m"] - scene["off"], 0)
    return Picture("rotation", {"positions": (scene["m"], key), "seed": scene["seed"]})


def _bias(scene: Scene) -> Picture:
    return Picture(
        "bias",
        {
            "positions": scene["L"],
            "mask": "causal" if scene["mask"] else "none",
            "softmax": "rows" if scene["softmax"] else "none",
        },
    )


def _stretch(scene: Scene) -> Picture:
    return Picture("stretch", {"original_length": scene["Lt"], "factor": scene["f"]})


PICTURES: dict[str, Callable[[Scene], Picture]] = {
    "table": _table,
    "waves": _waves,
    "sentence": _sentence,
    "distance": _distance,
    "rotate": _rotate,
    "bias": _bias,
    "stretch": _stretch,
}
# Pictures that take the parameters of a learned encoding, and a length for rules that need one.
LEARNED = ("table", "counter", "sum", "offset", "rotation", "bias")
