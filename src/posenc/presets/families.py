"""How to read the configs of model families, as data: what their files leave unsaid.

A row of the JSON files in `configs/` holds

    model_types   how configs name the family, exactly
    entries       one rule for each encoding the model has
    note          what a person should know, in a sentence
    inside        the family of a sub-config that does not name one, by its key

A rule is one of

    {"rotary": PRESET, ...}   queries and keys turn; PRESET is a row of `posenc.presets` that holds
                              the pairing and whatever else no config states
    {"table": PRESET, ...}    rows are added to the embeddings
    {"learned": true, ...}    rows are added, and learned
    {"bias": SPEC, ...}       logits are biased
    {"convolution": NAME}     a convolution stands for positions
    {"none": true}            no positions
    {"refuse": REASON}        nothing here can say what the code does

and `readers` of configs know the further keys of a rule, which are described there.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

from posenc._core.errors import SpecError, explain
from posenc.presets import Preset, row

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
    folder = resources.files("posenc.presets") / FOLDER
    for data in json.loads((folder / f"{kind}.json").read_text(encoding="utf-8")):
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
