"""Configs of diffusers' transformers, each by the row of its class; of a pipeline all that it has.

Such a config says widths and sometimes a base. What axes mean, how text and pictures are counted
and where references stand, the code of the class and of its pipeline decides: rows say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc._core.errors import suggest
from posenc._core.io.inputs import PIPELINE, load
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.unread_keys import check_numbers, unread
from posenc.detect.explain.config.view import Keys, Notes
from posenc.detect.explain.diffusers.scenes import scene_of, table_rule
from posenc.detect.explain.layers.non_rotary import applies, read_other, words
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
    "UNet": "a UNet, which is not read: rows are of transformers",
    "ControlNet": "a ControlNet, which is not read: rows are of transformers",
}


def is_diffusers(data: Mapping[str, Any]) -> bool:
    """Whether a config is one of diffusers."""
    return isinstance(data.get(CLASS), str) and not data.get("model_type")


def from_diffusers(data: Mapping[str, Any], folder: Path | None) -> Reading:
    """The plan of a transformer, or of every transformer of a pipeline."""
    rows, entries, notes = diffusion.transformers(), list[Layer](), Notes()
    configs = {k: v for k, v in data.items() if isinstance(v, Mapping) and v.get(CLASS) in rows}
    pipeline = data if configs else _beside(folder)
    for name in (k for k, v in data.items() if isinstance(v, Mapping) and "model_type" in v):
        notes.remark(f"{name} is a model of transformers, and in no entry: read its folder")
    for name, config in (configs or {"": data}).items():
        own = Notes(name if len(configs) > 1 else "", notes.notes)
        if (row := diffusion.transformer(config[CLASS])) is None:
            notes.error(_no_transformer(config[CLASS]))
        else:
            entries += _transformer(config, row, pipeline, own)
    return Reading(tuple(entries), notes=tuple(notes.notes), model=data[CLASS])


def _beside(folder: Path | None) -> Mapping[str, Any]:
    """The pipeline in whose folder that of the config lies; empty where there is none."""
    there = folder is not None and (folder.parent / PIPELINE).is_file()
    return load(folder.parent, "from_hf") if there and folder is not None else {}


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
        label = table_rule({**rule, "name": rule.get("name", "attention")})
        chosen = chosen and bool(ENTRIES & rule.keys())
        for entry in read_other(keys, label, notes.layer, notes) if chosen else ():
            axes = getattr(entry.spec, "axes", ())
            scene = scene_of(keys, rule, axes, pipeline, notes) if "parts" in rule else None
            entries.append(entry if scene is None else entry.replace(positions=scene))
    for key, value in keys.defaulted.items():
        notes.remark(f"{keys.where(key)} is left out: {repr(value)[:80]}, the default of {code}")
    check_numbers(keys, (), notes)
    spoken = (k for k in stated if k not in keys.read and any(word in k for word in WORDS))
    for key in dict.fromkeys((*unread(keys), *filter(stated.get, spoken))):
        stand = f"{keys.where(key)}={repr(config[key])[:80]}"
        notes.warning(f"{stand} is unused: {code} does not read it for positions")
    return entries


def _no_transformer(name: str) -> str:
    """Why there is no plan of a class that is not in the rows."""
    kind = next((kind for word, kind in OTHERS.items() if word in name), "")
    hint = suggest(name, diffusion.transformers())
    return f"{name} is {kind or f'no transformer class of diffusers {diffusion.VERSION}. {hint}'}"
