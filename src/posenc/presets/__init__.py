"""What published models do, as data: a row per family with its source, and no code.

Rows of models that do not do the same in every layer lie in `layers/`; see `posenc.presets.plans`.
The kinds of rows and their keys are declared in `posenc.presets.row_types`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from posenc import positions as _positions
from posenc import registry
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.presets._find import find
from posenc.presets._rows import rows
from posenc.presets._templates import fill
from posenc.presets.plans import PlanRow, plan, plan_names, plan_row
from posenc.presets.row_types import Builder, Recognise, SourceRow

__all__ = [
    "PlanRow",
    "Preset",
    "fill",
    "names",
    "plan",
    "plan_names",
    "plan_row",
    "preset",
    "row",
]


class Preset(NamedTuple):
    """A convention of published models: `*.json`."""

    name: Annotated[str, "how people call the family"]
    kind: Annotated[str, Literal["table", "rotary", "bias", "relative"], "what it does"]
    size: Annotated[str, "the field of the spec that the caller's number fills: `dim`, `heads`"]
    spec: Annotated[Mapping[str, Any], "the JSON of the spec without that field, as a template"]
    sources: Annotated[tuple[Mapping[str, str], ...], list[SourceRow], "where it was read"]
    recognise: Annotated[Mapping[str, tuple[str, ...]], Recognise, "hints for tools"]
    note: Annotated[str, "what the spec cannot say, in a sentence"]
    positions: Annotated[Mapping[str, Any], Builder, "how positions are built"] = {}

    def place(self, *given: Any, **more: Any) -> Any:
        """The positions of the family, by the builder that its row names.

        Parameters
        ----------
        *given
            What the builder takes: sizes, a mask, the ends of the offsets.
        **more
            Arguments of the builder, also in place of those of the row.

        Returns
        -------
        array
            Positions for the spec.

        Raises
        ------
        ArgumentError
            If the family has no builder: its positions are what the caller counts or measures.

        Examples
        --------
        >>> from posenc.presets import row
        >>> row("rt-detr").place({"h": 1, "w": 2})
        array([[0, 0],
               [0, 1]])
        """
        if not self.positions:
            todo = "Give its table a number of positions, or positions of your own."
            caller = f"preset {self.name!r}: place"
            raise ArgumentError(mismatch(caller, "a family that builds positions", "none", todo))
        builder = getattr(_positions, self.positions["builder"])
        return builder(*given, **{**self.positions["arguments"], **more})

    def build(self, number: int) -> Spec:
        """The spec of the family at a width, or number of heads."""
        if isinstance(number, bool) or not isinstance(number, int):
            caller = f"preset {self.name!r}: {self.size}"
            raise ArgumentError(mismatch(caller, "an integer", repr(number)))
        filled = {**fill(self.spec, {self.size: number}), self.size: number}
        spec = registry.from_json(json.dumps(filled))
        if not isinstance(spec, Spec):
            raise SpecError(mismatch(f"preset {self.name!r}", "an encoding", type(spec).__name__))
        return spec


@functools.lru_cache(maxsize=1)
def _rows() -> dict[str, Preset]:
    return rows("preset", "", Preset)


def names() -> tuple[str, ...]:
    """The names of all presets, in the order of the data."""
    return tuple(_rows())


def row(name: str) -> Preset:
    """The row of a preset: its spec template, sources and note.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Preset
        As it stands in the data.

    Raises
    ------
    ArgumentError
        If the name is unknown; the message suggests the nearest one.
    """
    return find("preset", name, _rows())


@compile_time
def preset(name: str, dim: int) -> Spec:
    """The spec that a family of models uses.

    Parameters
    ----------
    name : str
        One of `posenc.presets.names()`.
    dim : int
        Width of the encoding; the number of heads for an encoding that has no width.

    Returns
    -------
    Spec
        An encoding like any other: change it by `replace`.

    Raises
    ------
    ArgumentError
        If the name is unknown; the message suggests the nearest one.
    SpecError
        If the family has no such width, such as an odd one.

    Examples
    --------
    >>> from posenc.presets import preset
    >>> preset("whisper", 512).dim
    512
    """
    return row(name).build(dim)
