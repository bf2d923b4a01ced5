"""How to read the configs and weights of model families, as data: what files leave unsaid.

The rows of one format may lie in several files: `transformers.json`, `transformers-vision.json`.
Their kinds and keys are declared in `posenc.presets.row_types`.

`configs/classes.json` is written by `tools/models/class_defaults.py`: what the classes of
transformers take for keys that a config leaves out. `configs/windows.json` is written by
`tools/models/class_windows.py`: which of their layers have the window of `sliding_window`.
`configs/projections.json`, on how checkpoints name and pack projections of queries and keys, holds

    modules    the names of modules by what they hold: `q`, `k`, `one_k` (one head of keys, in the
               last channels of a wider projection), `qkv`, and the gains of their norms
    cross      parts of names of attention over another sequence, which does not turn
    apart      parts of names of other modules that reuse these names
    inside     parts of names of attentions inside a layer, which have a rotation of their own
    families   for modules that pack several projections, the packing of each family

A packing is the order of its parts, `repeats` times over: 1 for all queries, all keys, all values;
`kv_heads` for one group after the other; `heads` for one head after the other.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypedDict

from posenc._core.errors import bad_argument, bad_spec, closest, suggest
from posenc._core.foreign import letters
from posenc.presets._rows import Row, of_keys, read, table
from posenc.presets.row_types import RotaryRule
from posenc.presets.row_types_gguf import Engine, LayerPattern, TypeDefaults

FOLDER = "configs"
MISSPELLED = 0.9  # how much alike a key of a config and one that is missing are, at least


class Family(NamedTuple):
    """A row of the data."""

    model_types: list[str]
    entries: list[Mapping[str, Any]]
    note: str = ""
    parts: Mapping[str, str] = MappingProxyType({})


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
    kinds: Annotated[
        Mapping[str, Mapping[str, Any] | None] | None, dict[str, TypeDefaults | None], "by type"
    ] = None
    reach: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    beside: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    must_state_base: tuple[str, ...] = ()
    must_state_flat: tuple[str, ...] = ()
    flat_base_unread: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    base_given: float | None = None
    parameters: Mapping[str, Any] = MappingProxyType({})
    adds: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    layers: Annotated[Mapping[str, Any], LayerPattern, "in order"] = MappingProxyType({})
    fields: Mapping[str, Any] = MappingProxyType({})
    aliases: Mapping[str, str] = MappingProxyType({})
    sizes: Mapping[str, Any] = MappingProxyType({})
    reads: Annotated[Reads | None, int, "of which `classes.json` has the number"] = None
    bases: str = ""

    def reaches(self, key: str, kind: str, form: str = "") -> bool:
        """Whether a key at the top reaches layers of a type, beside a dictionary of some form."""
        reached = self.beside.get(form, {}).get(key, self.reach.get(key))
        return self.kinds is None if reached is None else kind in reached

    def left_out(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What the class takes for keys that a config does not state, under no name, misspelled."""
        own = {*self.aliases, *self.fields, *self.sizes}  # which are no others, misspelled
        others = [key for key in data if isinstance(key, str) and key not in own]
        return {
            key: value
            for key, value in (self.fields if data else {**self.sizes, **self.fields}).items()
            if key not in data
            if not difflib.get_close_matches(key, others, 1, cutoff=MISSPELLED)
        }


NO_CLASS = ClassDefaults()
_OfClass = TypedDict("_OfClass", {"class": ClassDefaults, "preset": Any})


class ReadRule(RotaryRule, _OfClass, total=False):
    """A rotary rule, with what the class of its family takes; `rotary` may be left out."""


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

    layers: str
    size: int | None = None
    switch: bool | None = None
    start: int | None = None
    type: str = ""
    unclear_with: tuple[str, ...] = ()
    listed: str = ""
    version: str = ""


def stretched(repeat: list[str], period: int) -> list[str]:
    """A pattern of one layer of another type among those of one, at another period; else empty."""
    for place in (-1, 0):
        others = set(repeat[:-1] if place else repeat[1:])
        if len(others) == 1:
            rest = [*others] * (period - 1)
            return [*rest, repeat[-1]] if place else [repeat[0], *rest]
    return []


def engines() -> Mapping[str, Engine]:
    """What engines make of rotary parameters: `configs/engines.json`.

    `tools/models/engine_reads.py` writes what it finds by running each engine's own code.
    """
    return table("engines")


@functools.lru_cache(maxsize=2)
def meanings(*, in_rope_parameters: bool = False) -> Mapping[str, str]:
    """What keys mean that no entry of a plan can say: `configs/meanings.json`."""
    return {
        key: row["means"]
        for _, row in read(FOLDER, "meanings")
        if row.get("in_rope_parameters", False) == in_rope_parameters
        for key in row["keys"]
    }


@functools.lru_cache(maxsize=1)
def _classes() -> dict[str, ClassDefaults]:
    data = table("classes")
    every = {
        number: Reads(frozenset(one["keys"]), {k: frozenset(v) for k, v in one["rules"].items()})
        for number, one in enumerate(data["reads"])
    }
    return {
        name: ClassDefaults(data["version"], **{**row, "reads": every.get(row.get("reads"))})
        for name, row in data["types"].items()
    }


def class_parts(model_type: object) -> ClassParts:
    """What the class of a model type makes of its sub-configs; nothing where it is not known."""
    data = table("classes")
    return ClassParts(
        data["version"], **data["parts"].get(model_type, {}) if isinstance(model_type, str) else {}
    )


def class_defaults(model_type: object) -> ClassDefaults | None:
    """What the class of a model type takes for what a config leaves out, or None."""
    return _classes().get(model_type) if isinstance(model_type, str) else None


@functools.lru_cache(maxsize=1)
def _windows() -> dict[str, ClassWindows]:
    data = table("windows")
    return dict.fromkeys(data["unread"], ClassWindows("none", version=data["version"])) | {
        n: ClassWindows(version=data["version"], **row) for n, row in data["types"].items()
    }


def class_windows(model_type: object) -> ClassWindows | None:
    """How the class of a model type reads `sliding_window`, or None where that is not known."""
    if (row := format_of(model_type)) is not None:
        return ClassWindows(row["windows"]) if "windows" in row else None
    return _windows().get(model_type) if isinstance(model_type, str) else None


@functools.lru_cache(maxsize=4)
def _rows(kind: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for file, data in read(FOLDER, kind):
        made = of_keys(Family, file, **data)
        for name in made.model_types:
            if name in found:
                raise bad_spec(f"families: {kind}", "each name once", repr(name))
            found[name] = made
    return found


def families(kind: str = "transformers") -> Mapping[str, Family]:
    """The rows by the names of configs; `kind` is the format: `transformers` or `gguf`."""
    return _rows(kind)


def family(model_type: object, kind: str = "transformers") -> Family | None:
    """The row of a name, or None."""
    if not isinstance(model_type, str):
        return None
    own = format_of(model_type)
    return _rows(kind).get(model_type) if own is None else Family([model_type], own["entries"])


def family_of_architectures(architectures: object) -> tuple[str, Family] | None:
    """The name and row that the classes of a config point to.

    A class is called as its family, without separators, and the task: `LlamaForCausalLM`.
    """
    if not isinstance(architectures, list):
        return None
    rows = _rows("transformers")
    known = {re.sub(r"[-_ ]", "", name).lower(): name for name in rows}
    stems = [
        re.split(r"(For[A-Z]|Model|LMHead)", one)[0].lower().replace("_", "")
        for one in architectures
        if isinstance(one, str)
    ]
    return next(((known[stem], rows[known[stem]]) for stem in stems if stem in known), None)


def find(what: str, name: str, known: Mapping[str, Row]) -> Row:
    """The row of a name."""
    if name not in known:
        raise bad_argument(what, f"the name of a {what}", repr(name), _advice(str(name), known))
    return known[name]


def _advice(name: str, known: Mapping[str, Row]) -> str:
    """What to write for the name of a model or family: a row, or who reads the whole model."""
    word = letters(name.rpartition("/")[2])
    hints: dict[str, list[str]] = {}  # model type -> the rows that models of it use
    for model_type, family in families().items():
        rules = [rule[key] for rule in family.entries for key in ("rotary", "table") if key in rule]
        hints[model_type] = [rule for rule in rules if isinstance(rule, str) and rule in known]
    for row in known.values():
        for model_type in getattr(row, "recognise", {}).get("model_types", ()):
            hints.setdefault(model_type, []).append(row.name)
    begins = [other for other in (*known, *hints) if word.startswith(letters(other))]
    nearest = max(begins, key=lambda other: len(letters(other)), default="")
    if len(letters(nearest)) > 1 and nearest in known:
        return f"Did you mean {nearest!r}?"
    if len(letters(nearest)) > 1:
        used = " and ".join(f"{row!r}" for row in dict.fromkeys(hints[nearest]))
        listed = f"Models of the type {nearest} use {used}. " if used else ""
        alike = [other for other in known if letters(other).startswith(word)][:3]
        if alike and not used:
            listed = f"Did you mean {' or '.join(map(repr, alike))}? "
        return f"{listed}posenc.explain(CONFIG), or `posenc explain`, reads a whole model."
    inside = [other for other in known if len(word) > 2 and word in letters(other)][:3]
    return (
        f"Did you mean {' or '.join(map(repr, inside))}?"
        if inside and not closest(name, known)
        else suggest(name, known)
    )


# --- projections ----------------------------------------------------------------------------------


class Packing(NamedTuple):
    """Parts of a projection in their order, and how often that order repeats."""

    order: tuple[str, ...]
    repeats: int | str


class ProjectionNames(NamedTuple):
    """What modules are called."""

    modules: Mapping[str, str]  # name -> what it holds
    cross: tuple[str, ...]
    apart: tuple[str, ...]
    inside: tuple[str, ...]
    own_keys: tuple[str, ...]  # model types whose class has keys for each head: it reads no number
    families: Mapping[str, Mapping[str, Packing]]  # model type -> module -> packing


@functools.lru_cache(maxsize=1)
def projection_names() -> ProjectionNames:
    """The data."""
    data = table("projections")
    return ProjectionNames(
        {name: role for role, listed in data["modules"].items() for name in listed},
        tuple(data["cross"]),
        tuple(data["apart"]),
        tuple(data["inside"]),
        tuple(data["own_keys"]),
        {
            model_type: {
                module: Packing(tuple(p["order"]), p["repeats"])
                for module, p in row["modules"].items()
            }
            for row in data["families"]
            for model_type in row["model_types"]
        },
    )


def packing(model_type: object, module: str) -> Packing | None:
    """How a family packs a module, None where that is not known."""
    return (
        projection_names().families.get(model_type, {}) if isinstance(model_type, str) else {}
    ).get(module)


# --- formats of configs that are not of transformers: `configs/formats.json` ----------------------

# Keys of a row are declared in `tools/rows/formats.py`.
PREFIX = "format:"  # of the model_type that a config of a format gets
ConfigFormat = Mapping[str, Any]


@functools.lru_cache(maxsize=1)
def config_formats() -> dict[str, ConfigFormat]:
    """The rows by their names."""
    return {row["name"]: row for _, row in read("configs", "formats")}


def format_of(model_type: object) -> ConfigFormat | None:
    """The row of a format by the model_type that its translated configs have."""
    name = model_type.removeprefix(PREFIX) if isinstance(model_type, str) else ""
    return config_formats().get(name) if model_type == PREFIX + name else None
