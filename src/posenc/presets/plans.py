"""Plans of published models, as data: what each layer does, where layers differ."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from posenc import registry
from posenc._core.errors import ArgumentError, SpecError, mismatch, suggest
from posenc._core.spec.plan import Entry, Plan
from posenc.presets._find import find
from posenc.presets._rows import rows
from posenc.presets._templates import fill
from posenc.presets.row_types import PlanEntry, Recognise, SourceRow

FOLDER = "layers"


class PlanRow(NamedTuple):
    """What each layer of a published model does: `layers/*.json`."""

    name: Annotated[str, "how people call the model, or a stack of it"]
    sizes: Annotated[Mapping[str, int], "of the source: `layers`, and what its entries mention"]
    entries: Annotated[tuple[Mapping[str, Any], ...], list[PlanEntry], "what layers do"]
    pattern: Annotated[str, "names of entries, repeated until there are enough layers"]
    sources: Annotated[tuple[Mapping[str, str], ...], list[SourceRow], "where it was read"]
    recognise: Annotated[Mapping[str, tuple[str, ...]], Recognise, "hints for tools"]
    note: Annotated[str, "what a plan cannot say, in a sentence"]
    embeddings: Annotated[
        Mapping[str, Any] | None,
        PlanEntry,
        "that of the embeddings, where something happens to them",
    ] = None

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
    return rows("plan", FOLDER, PlanRow)


def plan_names() -> tuple[str, ...]:
    """The names of all plans, in the order of the data."""
    return tuple(_rows())


def plan_row(name: str) -> PlanRow:
    """The row of a plan: its sizes, sources and note.

    Parameters
    ----------
    name : str
        One of `plan_names()`.

    Returns
    -------
    PlanRow
        As it stands in the data.

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
