"""Rules of scenes as rows say them, with numbers of the config and of the VAE beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from posenc._core.positions.scene import ScenePart, SceneRule
from posenc._core.reading import Layer
from posenc.detect.explain.config.view import Keys, Notes, UnsettledError, noted
from posenc.detect.explain.layers.non_rotary import filled, missing
from posenc.presets import diffusion

VAES = ("vae", "vqvae", "vqgan", "movq")


@noted
def scene_of(
    keys: Keys,
    rule: Any,
    entry: Layer,
    pipeline: Mapping[str, Any],
    notes: Notes,  # noqa: ARG001
) -> SceneRule:
    """How positions of an entry are made."""
    row = rule["scene"]
    own = row.get("pipelines", {}).get(pipeline.get("_class_name"), {})
    others = {part: name for name, parts in row.get("pipelines", {}).items() for part in parts}
    patch = [_number(keys, text) for text in row.get("patch", ())]
    scale = _pixels(pipeline) if patch else None
    parts = {**row["parts"], **own}
    ends = filled(keys, row.get("ends", []), "ends", 0, Notes())
    pixels = [] if scale is None else [int(a * b) for a, b in zip(scale, patch, strict=True)]
    return SceneRule(
        entry.spec.axes if entry.spec is not None else (),
        tuple(_part(keys, name, place) for name, place in parts.items()),
        order=row.get("order", "parts"),
        facts=tuple(row.get("facts", {}).items()),
        ends=tuple(ends),
        pixels=tuple(pixels),
        elsewhere=tuple((part, name) for part, name in others.items() if part not in parts),
    )


def _part(keys: Keys, name: str, place: Any) -> ScenePart:
    row = place if isinstance(place, Mapping) else {"coordinates": place}
    texts = (
        re.sub(r"\{([^}]+)\}", lambda one: f"{_number(keys, one[1])!r}", text)
        for text in row["coordinates"]
    )
    return ScenePart(name, tuple(texts), row.get("multiple", 1), row.get("after", ""))


def _number(keys: Keys, text: str) -> int | float:
    value = keys.evaluate(text)
    if value is None:
        raise UnsettledError(missing(keys, [text]))
    return int(value) if value == int(value) else value


def _pixels(pipeline: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Frames, rows and columns of pixels in a latent, by the config of the VAE; None without."""
    configs = [pipeline[name] for name in VAES if isinstance(pipeline.get(name), Mapping)]
    for config in configs:
        if row := diffusion.vaes().get(str(config.get("_class_name"))):
            keys = Keys(config, "vae", row.get("defaults", {}))
            space = [_number(keys, text) for text in row["space"]]
            time = [_number(keys, text) for text in row.get("time", ["1"])]
            return int(time[0]), int(space[0]), int(space[0])
    return None
