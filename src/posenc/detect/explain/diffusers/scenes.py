"""What rows of diffusers say in few words: the rule of a spec, and that of a scene."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from posenc import presets
from posenc._core.positions.scene import SceneRule
from posenc._core.positions.scene_parts import ScenePart
from posenc.detect.explain.config.view import Keys, Notes, UnsettledError, noted
from posenc.detect.explain.layers.non_rotary import missing
from posenc.presets import diffusion

VAES = ("vae", "vqvae", "vqgan", "movq")


def table_rule(rule: Any) -> Any:
    """A rule of a preset as a rule of any other family has it."""
    if "preset" not in rule:
        return rule
    fields = dict(rule.get("fields", {}))
    if (base := rule.get("base")) is not None:
        fields["base"] = {"key": base} if isinstance(base, str) else base
    if "pairs" in rule:
        listed, usual = rule["pairs"], presets.row(rule["preset"]).spec["arrangement"]
        sizes: Any = {"integers": listed, "over": 2}
        if not isinstance(listed, str):
            sizes = [{"key": one} if isinstance(one, str) else one for one in listed]
        fields["arrangement"] = {**usual, "axes": rule.get("axes", usual["axes"]), "sizes": sizes}
    table = {"table": rule["preset"], "width": [rule["width"]], "fields": fields}
    return {**rule, **table, "positions": None}  # those of the preset are not those of a scene


@noted
def scene_of(
    keys: Keys,
    rule: Any,
    axes: tuple[str, ...],
    pipeline: Mapping[str, Any],
    notes: Notes,  # noqa: ARG001
) -> SceneRule:
    """How positions of an entry are made."""
    by_pipeline = rule.get("pipelines", {})
    places = {**rule["parts"], **by_pipeline.get(pipeline.get("_class_name"), {})}
    others = {part: name for name, parts in by_pipeline.items() for part in parts}
    needed = dict.fromkeys(rule.get("needs", ()), "required")
    return SceneRule(
        axes,
        tuple(_part(keys, name, place, len(axes)) for name, place in places.items()),
        order=rule.get("order", "parts"),
        facts=tuple({**rule.get("facts", {}), **needed}.items()),
        ends=tuple(_each(keys, rule["ends"], len(axes))) if "ends" in rule else (),
        pixels=_pixels(keys, rule, pipeline),
        elsewhere=tuple((part, name) for part, name in others.items() if part not in places),
    )


def _part(keys: Keys, name: str, place: Any, axes: int) -> ScenePart:
    row = place if isinstance(place, Mapping) else {"coordinates": place}
    texts = [
        re.sub(r"\{([^}]+)\}", lambda one: repr(_number(keys, one[1])), text)
        for text in row["coordinates"]
    ]
    texts = texts * axes if len(texts) == 1 else texts
    return ScenePart(name, tuple(texts), row.get("multiple", 1), row.get("after", ""))


def _number(keys: Keys, text: str | float | None) -> Any:
    """The number of the first expression that has a value; a number as it is."""
    if not isinstance(text, str):
        return text
    values = (keys.evaluate(one.strip()) for one in text.split("|"))
    if (value := next((one for one in values if one is not None), None)) is None:
        raise UnsettledError(missing(keys, [text]))
    return int(value) if value == int(value) else value


def _each(keys: Keys, stated: str | int | Sequence[Any], count: int) -> list[Any]:
    """A number for each axis, from one for all of them, a list or the key of one."""
    listed = keys.get(stated) if isinstance(stated, str) else stated
    if isinstance(listed, (list, tuple)):
        return [_number(keys, one) for one in listed]
    return [_number(keys, stated)] * count  # type: ignore[arg-type]


def _pixels(keys: Keys, rule: Any, pipeline: Mapping[str, Any]) -> tuple[int, ...]:
    """Frames, rows and columns of pixels in a token, by the config of the VAE; none without."""
    for config in (pipeline.get(name) for name in VAES if "patch" in rule):
        if isinstance(config, Mapping) and (
            row := diffusion.vaes().get(str(config.get("_class_name")))
        ):
            stated = {key: value for key, value in config.items() if value is not None}
            own = Keys(stated, "vae", row.get("defaults", {}))
            time, space = _number(own, row.get("time", "1")), _number(own, row["space"])
            patch = _each(keys, rule["patch"], 2)
            frames, *sides = patch if len(patch) == 3 else [1, *patch]
            return time * frames, *(space * side for side in sides)
    return ()
