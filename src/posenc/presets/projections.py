"""How checkpoints name and pack the projections of queries and keys, as data.

`configs/projections.json` holds

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

import functools
from collections.abc import Mapping
from typing import NamedTuple

from posenc.presets._rows import table


class Packing(NamedTuple):
    """Parts of a projection in their order, and how often that order repeats."""

    order: tuple[str, ...]
    repeats: int | str


class Names(NamedTuple):
    """What modules are called."""

    modules: Mapping[str, str]  # name -> what it holds
    cross: tuple[str, ...]
    apart: tuple[str, ...]
    inside: tuple[str, ...]
    families: Mapping[str, Mapping[str, Packing]]  # model type -> module -> packing


@functools.lru_cache(maxsize=1)
def names() -> Names:
    """The data."""
    data = table("projections")
    modules = {name: role for role, listed in data["modules"].items() for name in listed}
    families = {
        model_type: {
            module: Packing(tuple(p["order"]), p["repeats"]) for module, p in row["modules"].items()
        }
        for row in data["families"]
        for model_type in row["model_types"]
    }
    return Names(
        modules, tuple(data["cross"]), tuple(data["apart"]), tuple(data["inside"]), families
    )


def packing(model_type: object, module: str) -> Packing | None:
    """How a family packs a module, None where that is not known."""
    families = names().families if isinstance(model_type, str) else {}
    return families.get(model_type, {}).get(module)
