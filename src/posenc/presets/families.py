"""How to read the configs of model families, as data: what their files leave unsaid.

A row of the JSON files in `configs/` holds

    model_types   how configs name the family, exactly
    entries       one rule for each encoding the model has
    note          what a person should know, in a sentence
    inside        the family of a sub-config that does not name one, or the one of its class, by
                  its key

The rows of one format may lie in several files: `transformers.json`, `transformers-vision.json`. A
rule is one of

    {"rotary": PRESET, ...}   queries and keys turn; PRESET is a row of `posenc.presets` that holds
                              the pairing and whatever else no config states
    {"table": PRESET, ...}    the spec is that of a row of `posenc.presets` at the `width`, with
                              the fields of a template `with`
    {"spec": TEMPLATE, ...}   the spec is a template: constants, and what the config says
    {"convolution": NAME}     a convolution stands for positions; expressions in braces are numbers
                              of the config, and of several names the first that has them counts
    {"none": true}            no positions
    {"refuse": REASON}        nothing here can say what the code does
    {"unknown": REASON}       the config does not say what the model is

A rule with a spec may have `positions`: the arguments of a builder of
`posenc.positions`, with its name as `builder` where its preset names another or none, or null where
it is not known how positions are made. Without it a preset says so, and one that is silent counts
every token from 0.

A template is the JSON of a spec in which stand

    {"key": [EXPRESSION, ...], "default": NUMBER, "plus": NUMBER}
                              the first expression in keys of the config that has a value, such as
                              `image_size[0] // patch_size[0]`, or the default
    {"by": KEY, "values": {WORD: VALUE, ...}, "absent": VALUE, "else": VALUE}
                              the value that a word of the config chooses, `c2p|p2c` for a list
    {"list": KEY}             a list of whole numbers of the config

and any rule but a rotary one may have

    name       of the entry
    source     where the convention was read: "file: symbol" of the package, one or more
    when       conditions, one or a list: a `key`, and `is` or `not` with values, or `holds` with
               words that a list must hold, or `misses` with one that it must not; `absent` says
               whether they hold where the key is not
    stages     the key of a list of depths: an entry for each stage, whose number is `i`
    layers_in, layers_not_in
               the key of a list of layers, of as many as the expressions `of` say
    layers_called
               a word; `of` is the key of a list that has a word for each layer
    length     expressions of the number of positions
    scale      a template of what scores are multiplied by, where that is no root of a width that
               the spec has
    note       a sentence on this rule alone, such as where it was read; rotary rules have it too
    warn       a sentence that goes with the entry, such as one on other code
    own        for the first rule: the config has positions of its own beside those of its parts

`posenc.detect` knows the further keys of rotary rules, and describes them there.

`configs/classes.json` is written by `tools/models/class_defaults.py`: what the classes of
transformers take for keys that a config leaves out. `configs/windows.json` is written by
`tools/models/class_windows.py`: which of their layers have the window of `sliding_window`.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

from posenc._core.errors import SpecError, mismatch
from posenc.presets._rows import read

FOLDER = "configs"
MISSPELLED = 0.9  # how much alike a key of a config and one that is missing are, at least


class Family(NamedTuple):
    """A row of the data."""

    model_types: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]
    note: str = ""
    inside: Mapping[str, str] = MappingProxyType({})


class Reads(NamedTuple):
    """Which keys the rotary class of a model type reads."""

    keys: frozenset[str]
    rules: Mapping[str, frozenset[str]]


class ClassDefaults(NamedTuple):
    """What the class of a model type takes for what a config leaves out."""

    version: str = ""
    base: float | None = None
    share: float = 1.0
    share_alone: float | None = None
    share_scaled: float | None = None
    rope_type: str = "default"
    kinds: Mapping[str, Mapping[str, Any] | None] | None = None
    reach: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    beside: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    must_state_base: tuple[str, ...] = ()
    must_state_flat: tuple[str, ...] = ()
    flat_base_unread: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    base_given: float | None = None
    parameters: Mapping[str, Any] = MappingProxyType({})
    adds: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    layers: Mapping[str, Any] = MappingProxyType({})
    fields: Mapping[str, Any] = MappingProxyType({})
    aliases: Mapping[str, str] = MappingProxyType({})
    sizes: Mapping[str, Any] = MappingProxyType({})
    reads: Reads | None = None
    bases: str = ""

    def reaches(self, key: str, kind: str, form: str = "") -> bool:
        """Whether a key at the top reaches layers of a type, beside a dictionary of some form."""
        reached = self.beside.get(form, {}).get(key, self.reach.get(key))
        return self.kinds is None if reached is None else kind in reached

    def left_out(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What the class takes for keys that a config does not state, under no name, misspelled."""
        stated = {key for alias, key in self.aliases.items() if alias in data}
        own = {*self.aliases, *self.fields, *self.sizes}  # which are no others, misspelled
        others = [key for key in data if isinstance(key, str) and key not in own]
        taken = self.fields if data else {**self.sizes, **self.fields}
        return {
            key: value
            for key, value in taken.items()
            if key not in data and key not in stated
            if not difflib.get_close_matches(key, others, 1, cutoff=MISSPELLED)
        }


class ClassParts(NamedTuple):
    """What the class of a model type makes of its sub-configs."""

    version: str = ""
    types: Mapping[str, str] = MappingProxyType({})
    open: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    flat: str = ""
    own: bool = False
    values: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class ClassWindows(NamedTuple):
    """How the class of a model type reads `sliding_window`."""

    version: str
    how: str
    size: int | None = None
    switch: bool | None = None
    start: int | None = None
    type: str = ""
    unless: tuple[str, ...] = ()
    listed: str = ""


def stretched(repeat: list[str], period: int) -> list[str]:
    """A pattern of one layer of another type among those of one, at another period; else empty."""
    for place in (-1, 0):
        others = set(repeat[:-1] if place else repeat[1:])
        if len(others) == 1:
            rest = [*others] * (period - 1)
            return [*rest, repeat[-1]] if place else [repeat[0], *rest]
    return []


@functools.lru_cache(maxsize=1)
def _table() -> Mapping[str, Any]:
    file = resources.files("posenc.presets") / FOLDER / "classes.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def engines() -> Mapping[str, Any]:
    """What engines make of rotary parameters: `configs/engines.json`, each row with its source."""
    file = resources.files("posenc.presets") / FOLDER / "engines.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def _classes() -> dict[str, ClassDefaults]:
    data = _table()
    every = [
        Reads(frozenset(one["keys"]), {k: frozenset(v) for k, v in one["rules"].items()})
        for one in data["reads"]
    ]
    defaults = {}
    for name, values in data["types"].items():
        reads = every[values["reads"]] if "reads" in values else None
        defaults[name] = ClassDefaults(data["version"], **{**values, "reads": reads})
    return defaults


def class_parts(model_type: object) -> ClassParts:
    """What the class of a model type makes of its sub-configs; nothing where it is not known."""
    row = _table()["parts"].get(model_type, {}) if isinstance(model_type, str) else {}
    return ClassParts(_table()["version"], **row)


def class_defaults(model_type: object) -> ClassDefaults | None:
    """What the class of a model type takes for what a config leaves out, or None."""
    return _classes().get(model_type) if isinstance(model_type, str) else None


@functools.lru_cache(maxsize=1)
def _windows() -> dict[str, ClassWindows]:
    file = resources.files("posenc.presets") / FOLDER / "windows.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    unread = dict.fromkeys(data["unread"], ClassWindows(data["version"], "none"))
    return unread | {n: ClassWindows(data["version"], **row) for n, row in data["types"].items()}


def class_windows(model_type: object) -> ClassWindows | None:
    """How the class of a model type reads `sliding_window`, or None where that is not known."""
    return _windows().get(model_type) if isinstance(model_type, str) else None


@functools.lru_cache(maxsize=4)
def _rows(kind: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for _, data in read(FOLDER, kind):
        names, entries = tuple(data.pop("model_types")), tuple(data.pop("entries"))
        made = Family(names, entries, **data)
        for name in names:
            if name in found:
                raise SpecError(mismatch(f"families: {kind}", "each name once", repr(name)))
            found[name] = made
    return found


def families(kind: str = "transformers") -> Mapping[str, Family]:
    """The rows by the names of configs; `kind` is the format: `transformers` or `gguf`."""
    return _rows(kind)


def family(model_type: object, kind: str = "transformers") -> Family | None:
    """The row of a name, or None."""
    return _rows(kind).get(model_type) if isinstance(model_type, str) else None


def family_of_architectures(architectures: object) -> tuple[str, Family] | None:
    """The name and row that the classes of a config point to.

    A class is called as its family, without separators, and the task: `LlamaForCausalLM`.
    """
    if not isinstance(architectures, list):
        return None
    known = {re.sub(r"[-_ ]", "", name).lower(): name for name in _rows("transformers")}
    for architecture in architectures:
        if not isinstance(architecture, str):
            continue
        stem = re.split(r"(For[A-Z]|Model|LMHead)", architecture)[0].lower().replace("_", "")
        if stem in known:
            name = known[stem]
            return name, _rows("transformers")[name]
    return None
