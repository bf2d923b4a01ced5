"""Plans of published models, as data: what each layer does, where layers differ.

A row of the JSON files in `layers/` holds

    name        how people call the model, or a stack of it
    sizes       the sizes of the source: `layers`, and whatever its entries mention
    entries     the JSON of each `posenc.Entry`, in which `{"of": "dim//4"}` is a number
    pattern     names of entries, repeated until there are enough layers
    embeddings  the entry of the embeddings, where something happens to them
    sources     where the schedule was read: repository, path, symbol, version
    recognise   hints for tools, as for `posenc.presets`
    note        what a plan cannot say, in a sentence
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc import registry
from posenc._core.errors import ArgumentError, SpecError, mismatch, suggest
from posenc._core.spec.plan import Entry, Plan
from posenc.presets._find import find
from posenc.presets._rows import rows
from posenc.presets._templates import fill

FOLDER = "layers"


class PlanRow(NamedTuple):
    """A row of the data."""

    name: str
    sizes: Mapping[str, int]
    entries: tuple[Mapping[str, Any], ...]
    pattern: str
    sources: tuple[Mapping[str, str], ...]
    recognise: Mapping[str, tuple[str, ...]]
    note: str
    embeddings: Mapping[str, Any] | None = None

    def build(self, **sizes: int) -> Plan:
        """The plan, with some sizes in place of those of the source."""
        for name, value in sizes.items():
            caller = f"plan {self.name!r}"
            if name not in self.sizes:
                todo = suggest(name, self.sizes)
                raise ArgumentError(mismatch(caller, "a size of the plan", repr(name), todo))
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentError(mismatch(f"{caller}: {name}", "an integer", repr(value)))
        known = {**self.sizes, **sizes}
        layers = known.pop("layers")
        entries = [_entry(template, known) for template in self.entries]
        first = None if self.embeddings is None else _entry(self.embeddings, known)
        return Plan.repeat(entries, self.pattern, layers=layers, embeddings=first)


def _entry(template: Mapping[str, Any], sizes: Mapping[str, int]) -> Entry:
    made = registry.from_json(json.dumps({"type": "Entry", **fill(template, sizes)}))
    if not isinstance(made, Entry):
        raise SpecError(mismatch("plans", "an entry", type(made).__name__))
    return made


@functools.lru_cache(maxsize=1)
def _rows() -> dict[str, PlanRow]:
    return rows("plan", FOLDER, _made)


def _made(entries: list[Mapping[str, Any]], **data: Any) -> PlanRow:
    return PlanRow(entries=tuple(entries), **data)


def plan_names() -> tuple[str, ...]:
    """The names of all plans, in the order of the data."""
    return tuple(_rows())


def plan_row(name: str) -> PlanRow:
    """The row of a plan: its sizes, sources and note.

    Raises
    ------
    ArgumentError
        If the name is unknown; the message suggests the nearest one.
    """
    return find("plan", name, _rows())


def plan(name: str, **sizes: int) -> Plan:
    """What each layer of a published model does about positions.

    Parameters
    ----------
    name : str
        One of `posenc.presets.plan_names()`.
    **sizes : int
        Sizes in place of those of the source: `layers`, `dim`, `heads`, as the row has them.

    Returns
    -------
    Plan
        The entry of each layer: specs, windows, temperatures.

    Raises
    ------
    ArgumentError
        If the name or a size is unknown; the message suggests the nearest one.

    Examples
    --------
    >>> from posenc.presets import plan
    >>> made = plan("llama4", layers=8)
    >>> made.layers[:4], made[3].temperature.length
    (('rope', 'rope', 'rope', 'nope'), 8192)
    """
    return plan_row(name).build(**sizes)
