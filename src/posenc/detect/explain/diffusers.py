"""Configs of diffusers' transformers, each by the row of its class; of a pipeline all that it has.

Such a config says widths and sometimes a base. What axes mean, how text and pictures are counted
and where references stand, the code of the class and of its pipeline decides: rows say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc import presets
from posenc._core.errors import suggest
from posenc._core.io.inputs import PIPELINE, load
from posenc._core.positions.scene import ScenePart, SceneRule
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.unread_keys import check_numbers, unread
from posenc.detect.explain.config.view import Keys, Notes, UnsettledError, noted
from posenc.detect.explain.layers.non_rotary import applies, missing, read_other, words
from posenc.presets import diffusion

CLASS = "_class_name"
ENTRIES = {"preset", "spec", "convolution", "no_positions", "refused_because"}
# Words in the names of keys of diffusers that concern positions, beside those of all configs.
WORDS = ("axes", "pos_embed", "max_seq_len", "interpolation_scale", "pos_freq", "mrope")
FOLDER = "read the folder of the pipeline, or the config.json of its transformer"
# What a class is whose name has one of these words.
OTHERS = {
    "Autoencoder": f"a VAE, which has no positions of tokens: {FOLDER}",
    "VQModel": f"a VAE, which has no positions of tokens: {FOLDER}",
    "Scheduler": f"a scheduler: {FOLDER}",
    "Pipeline": f"a pipeline, and no transformer of it is here: {FOLDER}",
    "UNet": "a UNet, of which nothing is read: its convolutions say where a pixel is, and its time "
    "steps are posenc.preset('diffusion-timestep', DIM)",
    "ControlNet": "a ControlNet, of which nothing is read: read the transformer that it steers",
}


def is_diffusers(data: Mapping[str, Any]) -> bool:
    """Whether a config is one of diffusers."""
    return isinstance(data.get(CLASS), str) and not data.get("model_type")


def from_diffusers(data: Mapping[str, Any], folder: Path | None) -> Reading:
    """The plan of a transformer, or of every transformer of a pipeline."""
    rows, entries, notes = diffusion.transformers(), list[Layer](), Notes()
    configs = {
        k: v for k, v in data.items() if isinstance(v, Mapping) and str(v.get(CLASS)) in rows
    }
    pipeline = data if configs else _beside(folder)
    for name in (k for k, v in data.items() if isinstance(v, Mapping) and "model_type" in v):
        notes.remark(
            f"{name} is a model of transformers, which the plan leaves out: read its folder"
        )
    for name, config in (configs or {"": data}).items():
        if (row := diffusion.transformers().get(config[CLASS])) is None:
            notes.error(_no_transformer(config[CLASS]))
        else:
            own = Notes(name if len(configs) > 1 else "", notes.notes)
            entries += _transformer(config, row, pipeline, own)
    return Reading(tuple(entries), notes=tuple(notes.notes), model=data[CLASS])


def _beside(folder: Path | None) -> Mapping[str, Any]:
    """The pipeline in whose folder that of the config lies; empty where there is none."""
    if folder is None or not (folder.parent / PIPELINE).is_file():
        return {}
    return load(folder.parent, "from_hf")


def _transformer(
    config: Mapping[str, Any], row: Any, pipeline: Mapping[str, Any], notes: Notes
) -> list[Layer]:
    """The entries of one transformer."""
    name, entries = config[CLASS], list[Layer]()
    code = f"{name} in diffusers {diffusion.VERSION}"
    defaults = {**row.get("defaults", {}), **row.get("own", {}).get(name, {})}
    # A class takes null for what is left out.
    stated = {k: v for k, v in config.items() if v is not None or k not in defaults}
    keys = Keys(stated, notes.layer, defaults)
    if "note" in row:
        notes.remark(row["note"])
    for rule in row["entries"]:
        chosen = applies(keys, rule)
        for key in rule.get("ignored_keys", ()) if chosen else words(rule):
            keys.get(key)  # it means nothing here
        if chosen and "partial_because" in rule:
            notes.warning(f"read in part, because {rule['partial_because']}")
        if not (chosen and ENTRIES & rule.keys()):
            continue
        named = table_rule({**rule, "name": rule.get("name", "attention")})
        for entry in read_other(keys, named, notes.layer, notes):
            axes = getattr(entry.spec, "axes", ())
            scene = scene_of(keys, rule, axes, pipeline, notes) if "parts" in rule else None
            entries.append(entry if scene is None else entry.replace(positions=scene))
    if not entries and not any(note.level == "error" for note in notes.notes):
        chosen_by = ", ".join(
            f"{keys.where(key)}={config[key]!r}"[:80] for key in sorted(keys.read)
        )
        notes.error(f"{code} has no rule for {chosen_by}")
    for key, value in keys.defaulted.items():
        notes.remark(f"{keys.where(key)} is left out: {repr(value)[:80]}, the default of {code}")
    check_numbers(keys, notes)
    spoken = (k for k in stated if k not in keys.read and any(word in k for word in WORDS))
    for key in dict.fromkeys((*unread(keys), *filter(stated.get, spoken))):
        notes.warning(
            f"{keys.where(key)}={repr(config[key])[:80]} is unused: {code} does not read it for "
            "positions"
        )
    return entries


def _no_transformer(name: str) -> str:
    """Why there is no plan of a class that is not in the rows."""
    kind = next((kind for word, kind in OTHERS.items() if word in name), "")
    hint = suggest(name, diffusion.transformers()).rstrip(".")
    other = f"no transformer class of diffusers {diffusion.VERSION} ({hint[0].lower()}{hint[1:]})"
    return f"{name} is {kind or other}"


# --- the rule of a spec and that of a scene, of which rows say less -------------------------------

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
    return {
        **rule,
        "table": rule["preset"],
        "width": [rule["width"]],
        "fields": fields,
        "positions": None,  # those of the preset are not those of a scene
    }


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
    return SceneRule(
        axes,
        tuple(_part(keys, name, place, len(axes)) for name, place in places.items()),
        order=rule.get("order", "parts"),
        facts=(
            *rule.get("facts", {}).items(),
            *((fact, "required") for fact in rule.get("needs", ())),
        ),
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
    for value in (keys.evaluate(one.strip()) for one in text.split("|")):
        if value is not None:
            return int(value) if value == int(value) else value
    raise UnsettledError(missing(keys, [text]))


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
            own = Keys(
                {key: value for key, value in config.items() if value is not None},
                "vae",
                row.get("defaults", {}),
            )
            time, space = _number(own, row.get("time", "1")), _number(own, row["space"])
            patch = _each(keys, rule["patch"], 2)
            frames, *sides = patch if len(patch) == 3 else [1, *patch]
            return time * frames, *(space * side for side in sides)
    return ()
