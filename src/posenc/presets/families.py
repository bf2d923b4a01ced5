"""How to read the configs of model families, as data: what their files leave unsaid.

A row of the JSON files in `configs/` holds

    model_types   how configs name the family, exactly
    entries       one rule for each encoding the model has
    note          what a person should know, in a sentence
    inside        the family of a sub-config that does not name one, by its key

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
               words that a list must hold; `absent` says whether they hold where the key is not
    stages     the key of a list of depths: an entry for each stage, whose number is `i`
    layers_in, layers_not_in
               the key of a list of layers, of as many as the expressions `of` say
    layers_called
               a word; `of` is the key of a list that has a word for each layer
    length     expressions of the number of positions
    own        for the first rule: the config has positions of its own beside those of its parts

`posenc.detect` knows the further keys of rotary rules, and describes them there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from posenc._core.errors import SpecError, explain
from posenc.presets import Preset, row
from posenc.presets._rows import read

__all__ = ["Family", "convention", "families", "family", "family_of_architectures"]

FOLDER = "configs"


class Family(NamedTuple):
    """A row of the data."""

    model_types: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]
    note: str = ""
    inside: Mapping[str, str] = MappingProxyType({})


@functools.lru_cache(maxsize=4)
def _rows(kind: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for _, data in read(FOLDER, kind):
        names, entries = tuple(data.pop("model_types")), tuple(data.pop("entries"))
        made = Family(names, entries, **data)
        for name in names:
            if name in found:
                raise SpecError(explain(f"families: {kind}", "each name once", repr(name)))
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
        stem = re.split(r"(For[A-Z]|Model|LMHead)", architecture)[0].lower()
        if stem in known:
            name = known[stem]
            return name, _rows("transformers")[name]
    return None


def convention(name: str) -> Preset:
    """The row of `posenc.presets` that a rule names."""
    return row(name)
