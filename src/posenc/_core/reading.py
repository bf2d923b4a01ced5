"""What a reader found in a config: each layer's encodings, where each field came from, and doubts.

A model is rarely one encoding: local and global layers have bases of their own, some layers have
no positions at all, a vision tower turns a grid, a speech encoder convolves. A `Reading` lists
these, says where each of their fields was read, and what its reader could not settle. A `Plan` is
what a model does; a `Reading` is what somebody's file says about it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, final, overload

from posenc._core.errors import bad_position, bad_spec, suggest
from posenc._core.positions.builder import Positions
from posenc._core.positions.scene import SceneRule
from posenc._core.spec.answers import Displayed
from posenc._core.spec.plan import of_part, of_type
from posenc._core.spec.spec import Spec, Value

Level = Literal["error", "warning", "remark"]
Origin = Literal["config", "preset", "class", "format", "caller", "code", "file", "record"]


@final
@dataclass(frozen=True)
class Source(Value):
    """Where a field of a spec comes from.

    Parameters
    ----------
    field : str
        The field, in the words of the spec: `base`, `scaling.factor`.
    origin : {"config", "preset", "class", "format", "caller", "code", "file", "record"}
        `config`: the file says so. `preset`: the row of the family. `class`: the file leaves it
        out, and this is what the model's class takes for it. `format`: a documented
        default of the file format. `caller`: an argument of the reader. `code`: the encoding's own
        default. `file`: the code of its authors beside it, read as text. `record`: what a
        conversion of the weights recorded in their files.
    where : str
        The key, row or argument.

    Examples
    --------
    >>> import posenc
    >>> posenc.Source("base", origin="config", where="rope_theta").where
    'rope_theta'
    """

    field: str
    _: KW_ONLY
    origin: Origin
    where: str = ""


@final
@dataclass(frozen=True)
class Note(Value):
    """What a reader has to say about a plan.

    Parameters
    ----------
    level : {"error", "warning", "remark"}
        An `error` leaves something undecided that changes numbers.
    text : str
        A sentence that names the key.
    layer : str
        The layer it concerns; empty for the whole reading.

    Examples
    --------
    >>> import posenc
    >>> posenc.Note("warning", "an unknown key 'rope_alpha'").level
    'warning'
    """

    level: Level
    text: str
    _: KW_ONLY
    layer: str = ""


@final
@dataclass(frozen=True)
class Layer(Value):
    """What one type of layer does about positions.

    An entry that names neither an encoding nor a convolution is a layer without positions.

    Parameters
    ----------
    layer : str
        Name of the type of layer: `full_attention`, `vision`, `embeddings`.
    spec : Spec, optional
        Its encoding, of any kind: table, rotary, bias or relative.
    indices : tuple of int, optional
        The layers of this type; None where all layers of the part share it, or it is not known.
    convolution : str
        The name of a convolution that stands for positions; plans name it, without arithmetic.
    length : int, optional
        Number of positions that the model is declared for, extensions included.
    logit_scale : Value, optional
        A factor on the scores that depends on the position, in layers whose `spec` cannot hold it.
    scale : float, optional
        What scores are multiplied by, where it is neither 1 / sqrt(dim) nor what `spec` says.
    positions : Positions or SceneRule, optional
        How the positions of `spec` are made; None where it is not known, and then nothing is said.
    sources : tuple of Source
        Where each field of `spec` was found.
    attention : str
        The name of an attention of its own inside the layer, such as `indexer`, which has queries
        and keys of its own and chooses what the main attention sees; empty for the main attention.
    windows : tuple of pairs
        What the layers see: a window, within which keys are less than so far from the query, or
        None for the whole sequence, and the layers that have it, or None for all of `indices`.
        Empty where nothing is known of it.
    permuted : str
        How queries and keys were paired before whoever wrote the file reordered their channels, as
        the converter of llama.cpp does; empty where they are in the order of the model.

    Raises
    ------
    SpecError
        If an encoding and a convolution are given together.

    Examples
    --------
    >>> import posenc
    >>> posenc.Layer("attention", spec=posenc.RoPE(8, pairing="half")).kind
    'rotary'
    >>> posenc.Layer("attention").kind
    'none'
    """

    layer: str
    _: KW_ONLY
    spec: Spec | None = None
    indices: tuple[int, ...] | None = None
    convolution: str = ""
    length: int | None = None
    logit_scale: Value | None = None
    scale: float | None = None
    positions: Positions | SceneRule | None = None
    sources: tuple[Source, ...] = ()
    attention: str = ""
    windows: tuple[tuple[int | None, tuple[int, ...] | None], ...] = ()
    permuted: Literal["", "half", "interleaved"] = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types; `permuted` where it is so."""
        return {key: v for key, v in super().to_dict().items() if (key, v) != ("permuted", "")}

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        if self.spec is not None and self.convolution:
            raise self._mismatch(
                "",
                "an encoding or a convolution",
                f"{type(self.spec).__name__} and {self.convolution!r}",
                "Write two entries of one layer.",
            )

    @property
    def kind(self) -> str:
        """`table`, `rotary`, `bias`, `relative`, `convolution` or `none`."""
        if self.spec is not None:
            return self.spec.kind
        return "convolution" if self.convolution else "none"

    @property
    def label(self) -> str:
        """The type of layer, and the attention inside it: `full_attention:indexer`."""
        return f"{self.layer}:{self.attention}" if self.attention else self.layer


@final
@dataclass(frozen=True)
class Reading(Value):
    """The encodings of a model, layer by layer.

    Parameters
    ----------
    layers : tuple of Layer
        One entry for each encoding of each type of layer. A layer with two encodings, such as a
        table and a bias, has two entries. An attention inside a layer has an entry of its own, of
        the same `layer` and `indices`, after that of the main attention.
    notes : tuple of Note
        Errors, warnings and remarks of whoever read the plan.
    model : str
        The family, in the words of the file that was read.

    Raises
    ------
    SpecError
        If an attention inside a layer stands before, or without, the main attention of its layer.

    Examples
    --------
    >>> import posenc
    >>> from posenc import Layer, Reading
    >>> rope = posenc.RoPE(8, pairing="half")
    >>> plan = Reading((Layer("local", spec=rope, indices=(0, 1)), Layer("global", indices=(2,))))
    >>> [entry.kind for entry in plan[2]]
    ['none']
    >>> plan["local"] == plan[0][0], len(plan)
    (True, 2)
    >>> plan.by_type("local")[0].indices
    (0, 1)
    >>> posenc.from_json(posenc.to_json(plan)) == plan
    True
    """

    layers: tuple[Layer, ...]
    _: KW_ONLY
    notes: tuple[Note, ...] = ()
    model: str = ""

    def check(self) -> None:
        """Raise `SpecError` when an attention has no layer that it is inside of."""
        outer = set()
        for entry in self.layers:
            if not entry.attention:
                outer.add((entry.layer, entry.indices))
            elif (entry.layer, entry.indices) not in outer:
                raise bad_spec(
                    "Reading",
                    f"the main attention of {entry.layer!r} before its {entry.attention!r}",
                    "none",
                    "Give both entries the same layer and indices; one without a spec will do.",
                )

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    __str__ = Displayed.__str__  # other values are the call that makes them

    @overload
    def __getitem__(self, layer: str) -> Layer: ...

    @overload
    def __getitem__(self, layer: int) -> tuple[Layer, ...]: ...

    def __getitem__(self, layer: str | int) -> Layer | tuple[Layer, ...]:
        """The first entry of a type of layer, its main attention's, by name; by number as `at`.

        Raises
        ------
        SpecError
            If no entry has the name.
        PositionError
            If nothing acts in the layer: each that was read has an entry, without positions too.
        """
        if not isinstance(layer, str):
            number = operator.index(layer)
            layers = self.at(number) if number >= 0 else ()
            if not layers:
                last = max((i for e in self.layers for i in e.indices or ()), default=-1)
                raise bad_position(
                    "Reading",
                    f"a layer from 0 to {last}" if last >= 0 else "a layer from 0",
                    number,
                )
            return layers
        names = [entry.layer for entry in self.layers]
        if layer not in names:
            raise self._mismatch(
                "",
                "the name of a layer",
                repr(layer),
                suggest(layer, names) if names else "The plan has no layers.",
            )
        return self.layers[names.index(layer)]

    def by_type(self, name: str) -> tuple[Layer, ...]:
        """The entries of a type of layer, such as `sliding_attention`, in every part."""
        return of_type("Reading.by_type", [(entry.layer, entry) for entry in self], name)

    def part(self, name: str) -> Reading:
        """The plan of one part of a model; notes that name no layer concern it too.

        Parameters
        ----------
        name : str
            The part, such as `text` or `vision`.

        Returns
        -------
        Reading
            Its layers, named without the part.

        Raises
        ------
        SpecError
            If the model has no such part.
        """
        inside = f"{name}."
        layers = tuple(
            replace(e, layer=e.layer.removeprefix(inside))
            for e in of_part("Reading.part", [(entry.layer, entry) for entry in self], name)
        )
        return Reading(
            layers,
            notes=tuple(
                replace(n, layer=n.layer.removeprefix(inside))
                for n in self.notes
                if n.layer in ("", name) or n.layer.startswith(inside)
            ),
            model=self.model,
        )

    def at(self, index: int) -> tuple[Layer, ...]:
        """The entries that act in layer `index`, counted from 0; none where no layer was read."""
        return tuple(e for e in self.layers if e.indices is None or index in e.indices)

    @property
    def errors(self) -> tuple[str, ...]:
        """What is left undecided and would change numbers."""
        return tuple(note.text for note in self.notes if note.level == "error")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know."""
        return tuple(note.text for note in self.notes if note.level == "warning")
