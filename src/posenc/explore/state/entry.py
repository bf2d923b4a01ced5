"""An encoding that can be chosen, and one that has been."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.spec.spec import Spec, Value, to_json
from posenc.explore.state.fields import Field
from posenc.functional import init
from posenc.scaling.base import Scaling

LARGEST_PARAMETERS = 2**22  # 32 MiB, and as much again while they are drawn

Values = Mapping[str, Any]


@dataclass(frozen=True)
class CatalogueEntry:
    """An encoding that can be chosen.

    Parameters
    ----------
    id, label, group : str
        What the state holds, what people read, and the heading it stands under.
    kind : str
        The kind of the spec.
    fields : tuple of Field
        The controls that describe it.
    build : callable
        From values to a spec; raises `PosencError` for those that make none.
    code : callable
        From values to the Python that makes the same spec.
    params : mapping, optional
        What it has learned, where that came from a file.
    note : str
        What people should know, such as that the numbers are random.
    length : int, optional
        The positions that a config declares.
    model : ModelLayers, optional
        The model of which it is a type of layer.
    place : int
        Which one of its types of layer.
    """

    id: str
    label: str
    group: str
    kind: str
    fields: tuple[Field, ...]
    build: Callable[[Values], Spec]
    code: Callable[[Values], str]
    params: Mapping[str, np.ndarray] | None = field(default=None, compare=False)
    note: str = ""
    length: int | None = None
    model: Any = None
    place: int = 0


# What stands for the encoding in a view that has none.
NONE = CatalogueEntry("", "", "", "none", (), lambda _: None, lambda _: "")  # type: ignore[arg-type,return-value]


@dataclass(frozen=True, eq=False)
class Chosen:
    """An encoding as the state describes it: its entry, its spec, and what it has learned.

    Two are equal, as keys of what was computed, with one spec and the very arrays that it learned.
    """

    entry: CatalogueEntry
    spec: Any
    params: Mapping[str, np.ndarray] | None
    values: Values = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.spec, id(self.params)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chosen) and self.spec == other.spec and self.params is other.params

    @property
    def label(self) -> str:
        """What people read."""
        return self.entry.label

    @property
    def code(self) -> str:
        """The Python that makes the spec."""
        return self.entry.code(self.values)

    @property
    def random(self) -> bool:
        """Whether what it has learned is a random start."""
        return bool(self.params) and self.entry.params is None


def made(entry: CatalogueEntry, values: Values, *, learns: bool = True) -> Chosen:
    """The encoding for some values; raises `PosencError` where they make none."""
    spec = entry.build(values)
    if entry.params is not None or not learns or spec is None or not spec.shapes:
        return Chosen(entry, spec, entry.params, values)
    count = sum(math.prod(shape) for shape in spec.shapes.values())
    if count > LARGEST_PARAMETERS:
        todo = (
            "A config has no weights: `posenc explore --table FILE` shows those of a file."
            if entry.model is not None
            else "Choose fewer positions or a smaller width."
        )
        most = f"more than the {LARGEST_PARAMETERS:,} that are drawn"
        raise PosencError(f"{entry.label} would learn {count} numbers, {most}. {todo}")
    return Chosen(entry, spec, initial(spec), values)


@functools.lru_cache(maxsize=16)
def initial(spec: Spec) -> Mapping[str, np.ndarray]:
    """What stands in for what an encoding has learned: the start of seed 0."""
    return init(spec, seed=0)


def call(cls: type[Spec], arguments: Mapping[str, Any], *, first: str) -> str:
    """The Python that makes a spec: a call of its class whose argument `first` goes by its place.

    A class of another package is called by the JSON of the spec. `import posenc` is enough.
    """
    if not _is_ours(cls):
        return written(cls(**arguments))
    others = [f"{key}={written(value)}" for key, value in arguments.items() if key != first]
    return f"posenc.{cls.__name__}({', '.join([repr(arguments[first]), *others])})"


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "posenc"


def written(value: Any) -> str:
    """The Python that makes a value, for which `import posenc` is enough."""
    if isinstance(value, tuple):
        inner = ", ".join(map(written, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not isinstance(value, Value):
        return repr(value)
    if not _is_ours(type(value)):
        return f"posenc.from_json({to_json(value)!r})"
    home = "posenc.scaling" if isinstance(value, Scaling) else "posenc"
    fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]  # type: ignore[arg-type]
    shown = (
        (f"{f.name}=" if f.kw_only else "") + written(own) for f, own in fields if own != f.default
    )
    return f"{home}.{type(value).__name__}({', '.join(shown)})"


def samples(entry: CatalogueEntry) -> dict[str, Any]:
    """The values that an entry starts with."""
    return {"s": 0, "L": 128, **{f.key: f.parse(None).value for f in entry.fields}}


class Embeddings(NamedTuple):
    """Embeddings of a file for the sentence: a row for each word."""

    name: str
    rows: np.ndarray  # (words, dim) float64


class HeadsFile(NamedTuple):
    """Queries, keys and values of a file, (heads, words, dim) float64, and its tokens if named."""

    name: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    tokens: tuple[str, ...] = ()
    total: int = 0  # of the words in the file, of which the arrays may hold the first


@dataclass(frozen=True)
class Session:
    """What the pages of one server can show beyond the registry and the presets.

    Parameters
    ----------
    entries : tuple of CatalogueEntry
        Encodings of files.
    embeddings : Embeddings, optional
        Vectors for the words of the sentence.
    heads : HeadsFile, optional
        Queries and keys for the attention.

    Examples
    --------
    >>> from posenc.explore import Session
    >>> Session().entries
    ()
    """

    entries: tuple[CatalogueEntry, ...] = ()
    embeddings: Embeddings | None = None
    heads: HeadsFile | None = None
