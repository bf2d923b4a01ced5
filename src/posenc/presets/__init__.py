"""What published models do, as data: a row per family with its source, and no code.

Rows of models that do not do the same in every layer are plans and lie in `layers/`. The kinds of
rows and their keys are declared in `posenc.presets.row_types`.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from posenc import positions as _positions, registry
from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, bad_spec, one_of, refuse_data, suggest
from posenc._core.foreign import PACKAGES, Package
from posenc._core.spec.answers import Displayed
from posenc._core.spec.plan import Entry, Plan
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.presets import diffusion
from posenc.presets._rows import fill, rows
from posenc.presets.families import find
from posenc.presets.row_types import Builder, PlanEntry, Recognise, SourceRow

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

sys.modules[__name__].__class__ = Package


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"posenc.presets has no {name!r}. {PACKAGES['presets']}.")


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
            one_of(name, self.sizes, caller, "a size of the plan")
            _check_integer(f"{caller}: {name}", value)
        known = {**self.sizes, **sizes}
        layers = known.pop("layers")
        entries = [_entry(template, known) for template in self.entries]
        return Plan.repeat(
            entries,
            self.pattern,
            layers=layers,
            embeddings=None if self.embeddings is None else _entry(self.embeddings, known),
        )


def _check_integer(caller: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_argument(caller, "an integer", repr(value))


def _entry(template: Mapping[str, Any], sizes: Mapping[str, int]) -> Entry:
    made = registry.from_json(json.dumps({"type": "Entry", **fill(template, sizes)}))
    if not isinstance(made, Entry):
        raise bad_spec("plans", "an entry", type(made).__name__)
    return made


_plans = functools.cache(functools.partial(rows, "plan", "layers", PlanRow))


def plan_names() -> tuple[str, ...]:
    """The names of all plans, in the order of the data."""
    return tuple(_plans())


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
    return find("plan", name, _plans())


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
            raise bad_argument(
                f"preset {self.name!r}: place",
                "a family that builds positions",
                "none",
                "Give its table a number of positions, or positions of your own.",
            )
        return getattr(_positions, self.positions["builder"])(
            *given, **{**self.positions["arguments"], **more}
        )

    def build(self, number: int) -> Spec:
        """The spec of the family at a width, or number of heads."""
        _check_integer(f"preset {self.name!r}: {self.size}", number)
        spec = registry.from_json(
            json.dumps({**fill(self.spec, {self.size: number}), self.size: number})
        )
        if not isinstance(spec, Spec):
            raise bad_spec(f"preset {self.name!r}", "an encoding", type(spec).__name__)
        return spec


@functools.cache
def _presets() -> Mapping[str, Preset]:
    return rows("preset", "", Preset, diffusion.presets())


def names() -> tuple[str, ...]:
    """The names of all presets, in the order of the data."""
    return tuple(_presets())


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
    return find("preset", name, _presets())


@compile_time
@checked_call
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


@dataclass(frozen=True)
class Reference(Displayed):
    """Whom to cite.

    Parameters
    ----------
    name : str
        As it was asked for.
    encoding : str
        The encoding that it names.
    bibtex : str
        The entry of the paper.
    sources : tuple of mapping
        What a preset was read from.

    Examples
    --------
    >>> import posenc
    >>> posenc.cite("whisper").encoding
    'Sinusoidal'
    """

    name: str
    encoding: str
    bibtex: str
    sources: tuple[Mapping[str, str], ...] = ()

    def __str__(self) -> str:
        lines = (f"% {self.name}: {', '.join(source.values())}" for source in self.sources)
        return "\n".join([*lines, self.bibtex])

    def to_dict(self) -> dict[str, Any]:
        """The reference as plain JSON types, as `posenc cite --json` prints it."""
        return {**asdict(self), "sources": list(map(dict, self.sources))}


@checked_call
def cite(name: Any) -> Reference:
    """Whom to cite for an encoding or a preset.

    Parameters
    ----------
    name : str, Spec or class
        An encoding, by its name in any case of letters, its class or a spec of it; or a preset.

    Returns
    -------
    Reference
        `print` shows its BibTeX.

    Raises
    ------
    ArgumentError
        If it is no encoding and no preset.
    DataError
        If the encoding has no reference.

    Examples
    --------
    >>> import posenc
    >>> print(posenc.cite(posenc.ALiBi(8)))  # doctest: +ELLIPSIS
    @inproceedings{...
    """
    asked = name if isinstance(name, str | type) else type(name)
    text = asked if isinstance(asked, str) else asked.__name__
    encoding = registry.spelled(text)
    sources: tuple[Mapping[str, str], ...] = ()
    if text in names():
        encoding, sources = row(text).spec["type"], tuple(row(text).sources)
    elif not encoding:
        raise bad_argument(
            "cite",
            "an encoding or a preset",
            repr(text[:60]),
            suggest(text, [*registry.names(), *names()]),
        )
    cls = registry.lookup(encoding)
    bibtex = cls.bibtex if issubclass(cls, Spec) else ""
    refuse_data(not bibtex, "cite", "an encoding with a paper", encoding)
    return Reference(text, encoding, bibtex, sources)
