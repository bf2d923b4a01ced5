"""The plan of a model: what each layer knows of positions, as data.

A plan names its entries once and says which one each layer has, so that a schedule such as "three
layers with rotations, then one without positions" is a list of names. "No positions" is an entry,
and convolutional encodings stand in plans by name, without arithmetic.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeVar, final

from posenc._core.errors import bad_position, bad_spec, suggest
from posenc._core.spec.checks import at_least, positive
from posenc._core.spec.spec import Spec, Value

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Entry(Value):
    """What one layer does with positions.

    Parameters
    ----------
    name : str
        The name by which a plan refers to it, such as "local" or "nope".
    specs : tuple of Spec
        Encodings of the layer, at most one of each kind; none for a layer without positions.
    convolution : str, optional
        A convolutional encoding by name, such as "grouped convolution, kernel 128".
    window : int, optional
        The layer attends to keys less than this far from the query; the whole sequence by default.
    temperature : Value, optional
        A factor on the scores that depends on the position of the query, `posenc.Temperature`.
    share : {"layer", "model"}
        Whether layers with this entry learn parameters of their own, or share them.
    scale : float, optional
        What scores are multiplied by; 1 / sqrt(dim), or what an encoding says, by default.
    attentions : tuple of Entry
        Attentions of their own inside the layer, by name, such as an `indexer` that chooses which
        keys the layer sees; what the other fields say is the main attention's.

    Raises
    ------
    SpecError
        If two encodings are of one kind, two attentions of one name, or a number is out of range.

    Examples
    --------
    >>> import posenc
    >>> posenc.Entry("nope").specs
    ()
    >>> indexer = posenc.Entry("indexer", specs=(posenc.RoPE(64, pairing="half"),))
    >>> main = posenc.RoPE(64, pairing="interleaved")
    >>> posenc.Entry("sparse", specs=(main,), attentions=(indexer,)).attentions[0].name
    'indexer'
    """

    name: str
    _: KW_ONLY
    specs: tuple[Spec, ...] = ()
    convolution: str | None = None
    window: int | None = None
    temperature: Value | None = None
    share: Literal["layer", "model"] = "layer"
    scale: float | None = None
    attentions: tuple[Entry, ...] = ()

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        kinds = [spec.kind for spec in self.specs]
        self._require(
            len(set(kinds)) == len(kinds), "specs", "at most one encoding of each kind", kinds
        )
        self._require(self.name != "", "name", "a name", repr(self.name))
        names = [entry.name for entry in self.attentions]
        self._require(len(set(names)) == len(names), "attentions", "distinct names", names)
        if self.window is not None:
            at_least("Entry", window=self.window)
        if self.scale is not None:
            positive("Entry", scale=self.scale)

    def spec(self, kind: str) -> Spec | None:
        """The encoding of a kind, or None."""
        return next((spec for spec in self.specs if spec.kind == kind), None)


@final
@dataclass(frozen=True)
class Plan(Value):
    """Which entry each layer of a stack has.

    Parameters
    ----------
    entries : tuple of Entry
        The entries, by name.
    layers : tuple of str
        The name of the entry of each layer, the first layer first.
    embeddings : Entry, optional
        What happens to the embeddings before the first layer.

    Raises
    ------
    SpecError
        If names repeat, or a layer has a name that no entry has.

    Notes
    -----
    An encoder and a decoder are two plans.

    Examples
    --------
    >>> import posenc
    >>> local = posenc.Entry("local", specs=(posenc.ALiBi(8),), window=512)
    >>> plan = posenc.Plan.repeat((local, posenc.Entry("nope")), "local local nope", layers=7)
    >>> plan.layers
    ('local', 'local', 'nope', 'local', 'local', 'nope', 'local')
    >>> plan[2].specs
    ()
    >>> plan["local"] == plan[0], [entry.name for entry in plan.at(2)], len(plan)
    (True, ['nope'], 7)
    """

    entries: tuple[Entry, ...]
    _: KW_ONLY
    layers: tuple[str, ...]
    embeddings: Entry | None = None

    def check(self) -> None:
        """Raise `SpecError` when names do not fit."""
        names = [entry.name for entry in self.entries]
        self._require(len(set(names)) == len(names), "entries", "distinct names", names)
        strange = next((name for name in self.layers if name not in names), None)
        if strange is not None:
            raise self._mismatch(
                "layers",
                f"names of the entries {names}",
                repr(strange),
                suggest(strange, names) if names else "",
            )

    @classmethod
    def repeat(
        cls,
        entries: Sequence[Entry],
        pattern: str | Sequence[str],
        *,
        layers: int,
        embeddings: Entry | None = None,
    ) -> Plan:
        """A plan that repeats a pattern of entries until there are enough layers.

        Parameters
        ----------
        entries : sequence of Entry
            The entries.
        pattern : str or sequence of str
            Names of entries, in a text with spaces between them or one by one.
        layers : int
            Number of layers; the last repetition may be cut.
        embeddings : Entry, optional
            What happens to the embeddings before the first layer.

        Returns
        -------
        Plan
            With one name for each layer.

        Raises
        ------
        SpecError
            If the pattern is empty, or the number of layers is negative.
        """
        names = pattern.split() if isinstance(pattern, str) else list(pattern)
        if not names or layers < 0:
            raise bad_spec(
                "Plan.repeat", "a pattern of at least one name", f"{pattern!r} for {layers} layers"
            )
        return cls(
            tuple(entries),
            layers=tuple(names[i % len(names)] for i in range(layers)),
            embeddings=embeddings,
        )

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Entry]:
        return (self[layer] for layer in range(len(self)))

    def __getitem__(self, layer: int | str) -> Entry:
        """The entry of a layer, by its number from 0 (or from the end), or of a name."""
        names = [entry.name for entry in self.entries]
        if isinstance(layer, str):
            if layer not in names:
                raise self._mismatch(
                    "",
                    "the name of an entry",
                    repr(layer),
                    suggest(layer, names) if names else "The plan has no entries.",
                )
            return self.entries[names.index(layer)]
        number, count = operator.index(layer), len(self)
        if not -count <= number < count:
            raise bad_position(
                "Plan",
                f"a layer from 0 to {count - 1}" if count else "a plan that has layers",
                number,
            )
        return self.entries[names.index(self.layers[number])]

    def at(self, index: int) -> tuple[Entry, ...]:
        """What acts in layer `index`, counted from 0: its entry, and the attentions inside it."""
        return (self[index], *self[index].attentions) if 0 <= index < len(self) else ()

    def by_type(self, name: str) -> tuple[Entry, ...]:
        """The entries of a type of layer, such as `sliding_attention`, in every part."""
        return of_type("Plan.by_type", {entry.name: entry for entry in self.entries}.items(), name)

    def part(self, name: str) -> Plan:
        """The plan of one part of a model, whose entries are named `part.name` in the whole.

        Parameters
        ----------
        name : str
            The part, such as `text` or `vision`.

        Returns
        -------
        Plan
            Its layers in their order, counted from 0, under names without the part; what happens to
            the embeddings is kept where it is named so.

        Raises
        ------
        SpecError
            If the plan has no such part.
        """
        inside = f"{name}."

        def own(entry: Entry) -> Entry:
            return entry.replace(name=entry.name.removeprefix(inside))

        whole = {entry.name: entry for entry in self.entries}.items()
        entries = tuple(map(own, of_part("Plan.part", whole, name)))
        layers = tuple(n.removeprefix(inside) for n in self.layers if f"{n}.".startswith(inside))
        first = self.embeddings
        return Plan(
            entries,
            layers=layers,
            embeddings=own(first)
            if first is not None and f"{first.name}.".startswith(inside)
            else None,
        )


def of_type(caller: str, layers: Collection[tuple[str, T]], name: str) -> tuple[T, ...]:
    """Those whose name is that of a type of layer, in whatever part; `SpecError` if none is."""
    own = tuple(layer for place, layer in layers if f".{place}".endswith(f".{name}"))
    if not own:
        types = sorted({place.rpartition(".")[2] for place, _ in layers})
        raise bad_spec(
            caller,
            "a type of layer",
            repr(name),
            suggest(name, types) if types else "It has no layers.",
        )
    return own


def of_part(caller: str, layers: Collection[tuple[str, T]], name: str) -> tuple[T, ...]:
    """Those whose name, `part.type`, is of a part of a model; `SpecError` if none is."""
    own = tuple(layer for place, layer in layers if f"{place}.".startswith(f"{name}."))
    if not own:
        parts = sorted({place.partition(".")[0] for place, _ in layers if "." in place})
        raise bad_spec(
            caller,
            "a part of the model",
            repr(name),
            suggest(name, parts) if parts else "The model has one part: ask the plan itself.",
        )
    return own
