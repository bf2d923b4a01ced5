"""Configs of diffusers' transformers, each by the row of its class; of a pipeline all that it has.

Such a config says widths and sometimes a base. What axes mean, how text and pictures are counted
and where references stand, the code of the class and of its pipeline decides: rows say it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc._core.errors import PosencError, suggest
from posenc._core.io.inputs import PIPELINE, load
from posenc._core.reading import Layer, Note, Reading
from posenc.detect.explain.config.unread_keys import check_numbers, unread
from posenc.detect.explain.config.view import Keys, Notes
from posenc.detect.explain.diffusers.scenes import scene_of, table_rule
from posenc.detect.explain.layers.non_rotary import applies, read_other, words
from posenc.presets import diffusion

CLASS = "_class_name"
# Words in the names of keys of diffusers that concern positions, beside those of all configs.
WORDS = ("axes", "pos_embed", "max_seq_len", "interpolation_scale", "pos_freq", "mrope")


def is_diffusers(data: Mapping[str, Any]) -> bool:
    """Whether a config is one of diffusers."""
    return isinstance(data.get(CLASS), str) and not data.get("model_type")


def from_diffusers(data: Mapping[str, Any], folder: Path | None) -> Reading:
    """The plan of a transformer, or of every transformer of a pipeline."""
    pipeline = data
    parts = {key: value for key, value in data.items() if _has_row(value)}
    if not parts:
        parts, pipeline = {"": data}, _pipeline(folder)
    entries: list[Layer] = []
    notes: list[Note] = []
    for name, config in parts.items():
        _transformer(config, name if len(parts) > 1 else "", pipeline, entries, notes)
    return Reading(tuple(entries), notes=tuple(notes), model=data[CLASS])


def _has_row(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(CLASS) in diffusion.transformers()


def _pipeline(folder: Path | None) -> Mapping[str, Any]:
    """The pipeline in whose folder that of the config lies; empty where there is none."""
    if folder is None or not (folder.parent / PIPELINE).is_file():
        return {}
    with contextlib.suppress(PosencError):
        return load(folder.parent, "from_hf")
    return {}


def _transformer(
    config: Mapping[str, Any],
    part: str,
    pipeline: Mapping[str, Any],
    entries: list[Layer],
    more: list[Note],
) -> None:
    """Add the entries of one transformer, and what there is to say of it."""
    notes, name = Notes(part, more), str(config[CLASS])
    if (row := diffusion.transformer(name)) is None:
        notes.error(_no_transformer(name))
        return
    defaults = {**row.get("defaults", {}), **row.get("own", {}).get(name, {})}
    stated = {k: v for k, v in config.items() if v is not None or k not in defaults}
    keys = Keys(stated, part, defaults)  # a class takes null for what is left out
    if "note" in row:
        notes.remark(row["note"])
    for rule in row["entries"]:
        for key in rule.get("ignored_keys", ()):
            keys.get(key)
        if not applies(keys, rule):
            for key in words(rule):
                keys.get(key)  # it means nothing here
            continue
        if "partial_because" in rule:
            notes.warning(f"partly, because {rule['partial_because']}")
        kinds = {"preset", "spec", "convolution", "no_positions", "refused_because"}
        label = {**rule, "name": rule.get("name", "attention")}
        for entry in (
            read_other(keys, table_rule(label), part, notes) if kinds & rule.keys() else ()
        ):
            axes = getattr(entry.spec, "axes", ())
            scene = scene_of(keys, rule, axes, pipeline, notes) if "parts" in rule else None
            entries.append(entry if scene is None else entry.replace(positions=scene))
    for key, value in keys.defaulted.items():
        notes.remark(
            f"{keys.where(key)} is left out: {repr(value)[:80]}, the default of {_of(name)}"
        )
    check_numbers(keys, (), notes)
    for key in dict.fromkeys((*unread(keys), *_own_words(keys))):
        notes.warning(
            f"{keys.where(key)}={repr(config[key])[:80]} is unused: {_of(name)} does not read it "
            "for positions"
        )


def _own_words(keys: Keys) -> list[str]:
    left = (key for key, value in keys.data.items() if key not in keys.read and value)
    return [key for key in left if any(word in key for word in WORDS)]


def _of(name: str) -> str:
    return f"{name} in diffusers {diffusion.VERSION}"


def _no_transformer(name: str) -> str:
    """Why there is no plan of a class that is not in the rows."""
    if name in diffusion.vaes() or name.startswith(("Autoencoder", "Asymmetric", "VQModel")):
        return f"{name} is a VAE, which has no positions of tokens: read the transformer beside it"
    for ending, kind in (("Scheduler", "a scheduler"), ("Pipeline", "a pipeline")):
        if name.endswith(ending):
            return (
                f"{name} is {kind}, and no transformer is here: read the folder of the pipeline, "
                "or the config.json of its transformer"
            )
    if "UNet" in name or "ControlNet" in name:
        return f"{name} is no transformer of diffusers: UNets and ControlNets are not read"
    hint = suggest(name, diffusion.transformers())
    return f"{name} is no transformer class of diffusers {diffusion.VERSION}. {hint}"
