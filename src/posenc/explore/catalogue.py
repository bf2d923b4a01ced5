"""What can be chosen as an encoding, and how the state describes it.

An entry builds a spec from a few values of the state. Entries come from the registry, from the
presets, and from the files that the command line named; which view offers which follows from what
the specs can do.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc import presets, registry
from posenc._core.errors import PosencError
from posenc._core.ladder import LADDERS
from posenc._core.parameters import Init
from posenc._core.spec import Spec, Value
from posenc.detect._columns import inner, sinusoids
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore.fields import Field, Option, choice, integer, real
from posenc.functional import init
from posenc.scaling.base import Scaling

__all__ = [
    "Chosen",
    "Entry",
    "absent",
    "entries",
    "grid_of",
    "home_of",
    "made",
    "offered",
    "why_not",
]

LARGEST_DIM = 65_536
LARGEST_LENGTH = 2**24
LARGEST_PARAMETERS = 2**24

WIDTH = integer("d", "Model size d", 128, 1, LARGEST_DIM, scale="log", section="encoding")
# Each pair doubles the frequency of the one before.
OCTAVES = integer("d", "Width d", 16, 2, 64, step=2, section="encoding")
EVEN = integer("d", "Head size d", 128, 2, LARGEST_DIM, scale="log", step=2, section="encoding")
BASE = real("n", "Base n", 10_000, 1e-3, 1e12, scale="log", section="encoding")
HEADS = integer("heads", "Heads", 8, 1, 256, section="encoding")
ORDER = choice(
    "order",
    "Columns",
    (
        Option("interleaved", "interleaved: sin, cos, sin, cos …"),
        Option("sin_cos", "sines, then cosines"),
        Option("cos_sin", "cosines, then sines"),
    ),
    "interleaved",
    section="encoding",
)
LADDER = choice(
    "ladder",
    "Exponent",
    tuple(Option(name, name.replace("exponent ", "")) for name in LADDERS),
    "exponent 2i/d",
    section="encoding",
    hint="2i/d is the paper's; the others are what code and tutorials write in its place.",
)
PAIRING = choice(
    "pairing",
    "Pairs",
    (
        Option("half", "half: channel i with i + d/2"),
        Option("interleaved", "interleaved: 2i with 2i + 1"),
    ),
    "half",
    section="encoding",
)

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
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
    """

    id: str
    label: str
    group: str
    kind: str
    fields: tuple[Field, ...]
    build: Callable[[Values], Spec]
    code: Callable[[Values], str]
    params: Mapping[str, np.ndarray] | None = None
    note: str = ""


@dataclass(frozen=True)
class Chosen:
    """An encoding as the state describes it: its entry, its spec, and what it has learned."""

    entry: Entry
    spec: Any
    params: Mapping[str, np.ndarray] | None
    values: Values = field(default_factory=dict)

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


def made(entry: Entry, values: Values) -> Chosen:
    """The encoding for some values; raises `PosencError` where they make none."""
    spec = entry.build(values)
    if entry.params is not None or not spec.shapes:
        return Chosen(entry, spec, entry.params, values)
    count = sum(int(np.prod(shape, dtype=object)) for shape in spec.shapes.values())
    if count > LARGEST_PARAMETERS:
        raise PosencError(
            f"{entry.label} would learn {count} numbers, more than the {LARGEST_PARAMETERS} that "
            "are drawn. Choose fewer positions or a smaller width."
        )
    return Chosen(entry, spec, _initial(spec), values)


@functools.lru_cache(maxsize=16)
def _initial(spec: Spec) -> Mapping[str, np.ndarray]:
    return init(spec, seed=0)


# --- the registry ---------------------------------------------------------------------------------


def _call(name: str, arguments: Mapping[str, Any], *, first: str) -> str:
    given = [repr(arguments[first])]
    given += [f"{key}={written(value)}" for key, value in arguments.items() if key != first]
    return f"posenc.{name}({', '.join(given)})"


def written(value: Any) -> str:
    """The Python that makes a value, with the names of posenc's own modules before it.

    Parameters
    ----------
    value : object
        A spec, a composed value, or what its fields hold.

    Returns
    -------
    str
        An expression for which `import posenc` is enough.
    """
    if isinstance(value, tuple):
        inner = ", ".join(map(written, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not isinstance(value, Value):
        return repr(value)
    home = "posenc.scaling" if isinstance(value, Scaling) else "posenc"
    shown = []
    for each in dataclasses.fields(value):  # type: ignore[arg-type]
        found = getattr(value, each.name)
        if found != each.default:
            text = written(found)
            shown.append(f"{each.name}={text}" if each.kw_only else text)
    return f"{home}.{type(value).__name__}({', '.join(shown)})"


def _plain(
    name: str,
    label: str,
    group: str,
    fields: tuple[Field, ...],
    arguments: Callable[[Values], dict[str, Any]],
    *,
    note: str = "",
) -> Entry:
    """An entry of the registry whose arguments follow from the values."""
    kind = KINDS[group]
    first = "heads" if kind == "bias" else "dim"

    def build(values: Values) -> Spec:
        cls: Any = registry.lookup(name)
        return cls(**arguments(values))

    def code(values: Values) -> str:
        return _call(name, arguments(values), first=first)

    return Entry(name.lower(), label, group, kind, fields, build, code, note=note)


TABLES, ROTATIONS, BIASES = "Tables", "Rotations", "Biases"
KINDS = {TABLES: "table", ROTATIONS: "rotary", BIASES: "bias"}
RANDOM = "learned, so random numbers of seed 0 stand in."


def _sinusoidal(v: Values) -> dict[str, Any]:
    more: dict[str, Any] = {"dim": v["d"]}
    if v["n"] != 10_000:
        more["base"] = v["n"]
    if v["ladder"] != "exponent 2i/d":
        more["ladder"] = LADDERS[v["ladder"]]
    if v["order"] != "interleaved":
        more["order"] = v["order"]
    return more


def _rotary(v: Values, **more: Any) -> dict[str, Any]:
    return {"dim": v["d"], **more, "pairing": v["pairing"], "base": v["n"]}


@functools.cache
def _registry() -> tuple[Entry, ...]:
    length = integer("L", "Positions", 128, 1, LARGEST_LENGTH)
    spread_init = Init("normal", scale=1.0)
    rotary = (EVEN, BASE, PAIRING)
    one_head = functools.partial(_rotary, heads=1)
    of_heads = (HEADS,)
    # A name, what people call it, its controls, and its arguments: one row for each encoding.
    tables = (
        ("Sinusoidal", "sinusoidal", (WIDTH, BASE, ORDER, LADDER), _sinusoidal, ""),
        (
            "Learned",
            "learned, random start",
            (WIDTH, length),
            lambda v: {"dim": v["d"], "length": v["s"] + v["L"], "init": spread_init},
            RANDOM,
        ),
        (
            "Timestep",
            "timestep of diffusion models",
            (WIDTH, BASE),
            lambda v: {"dim": v["d"], "base": v["n"]},
            "",
        ),
        ("Fourier", "Fourier features", (OCTAVES,), lambda v: {"dim": v["d"]}, ""),
        ("Time2Vec", "Time2Vec", (WIDTH,), lambda v: {"dim": v["d"]}, RANDOM),
        (
            "Concatenated",
            "sinusoidal, appended",
            (WIDTH, BASE),
            lambda v: {"dim": v["d"], "table": Sinusoidal(v["d"], base=v["n"])},
            "",
        ),
        (
            "Summed",
            "sum of two sinusoids (position, step)",
            (WIDTH, BASE),
            lambda v: {
                "dim": v["d"],
                "tables": (Sinusoidal(v["d"], base=v["n"]),) * 2,
                "axes_of": ("position", "step"),
            },
            "",
        ),
    )
    rotations = (
        ("RoPE", "RoPE", rotary, _rotary, ""),
        ("XPos", "xPos", rotary, _rotary, ""),
        ("LRPE", "LRPE", rotary, one_head, ""),
        ("PoPE", "PoPE", rotary, one_head, RANDOM),
        ("FoPE", "FoPE", rotary, lambda v: one_head(v, length=512), RANDOM),
    )
    biases = (
        ("ALiBi", "ALiBi", of_heads, lambda v: {"heads": v["heads"]}, ""),
        (
            "T5",
            "T5 buckets",
            of_heads,
            lambda v: {"heads": v["heads"], "init": spread_init},
            RANDOM,
        ),
        ("KERPLE", "KERPLE", of_heads, lambda v: {"heads": v["heads"]}, RANDOM),
        ("FIRE", "FIRE", of_heads, lambda v: {"heads": v["heads"]}, RANDOM),
        ("Sandwich", "Sandwich", of_heads, lambda v: {"heads": v["heads"]}, ""),
        ("Decay", "Decay (retention)", of_heads, lambda v: {"heads": v["heads"]}, ""),
        ("TISA", "TISA", of_heads, lambda v: {"heads": v["heads"]}, RANDOM),
        (
            "ClippedTable",
            "clipped table",
            of_heads,
            lambda v: {"heads": v["heads"], "clip": 16, "init": spread_init},
            RANDOM,
        ),
        (
            "AdaptiveSpan",
            "adaptive span",
            of_heads,
            lambda v: {"heads": v["heads"], "length": 1024, "start": 0.05},
            RANDOM,
        ),
        (
            "RotaryBias",
            "rotary bias",
            of_heads,
            lambda v: {"heads": v["heads"], "dim": 16, "init": spread_init},
            RANDOM,
        ),
        (
            "TUPE",
            "TUPE",
            (*of_heads, length),
            lambda v: {"heads": v["heads"], "dim": 64, "length": v["s"] + v["L"]},
            RANDOM,
        ),
        ("ALiBi2D", "ALiBi of two axes", of_heads, lambda v: {"heads": v["heads"]}, ""),
        ("Quadratic", "quadratic", of_heads, lambda v: {"heads": v["heads"]}, RANDOM),
        (
            "WindowTable",
            "table of a window",
            of_heads,
            lambda v: {"heads": v["heads"], "window": (8, 8), "init": spread_init},
            RANDOM,
        ),
        (
            "LogCPB",
            "logarithmic offsets, a small network",
            of_heads,
            lambda v: {"heads": v["heads"], "window": (8, 8)},
            RANDOM,
        ),
        (
            "OffsetTable",
            "table of offsets",
            of_heads,
            lambda v: {"heads": v["heads"], "size": (8, 8), "init": spread_init},
            RANDOM,
        ),
        (
            "DynamicBias",
            "dynamic bias, a small network",
            of_heads,
            lambda v: {"heads": v["heads"], "window": (8, 8), "width": 16, "init": spread_init},
            RANDOM,
        ),
        (
            "IRPEBias",
            "iRPE",
            of_heads,
            lambda v: {"heads": v["heads"], "init": spread_init},
            RANDOM,
        ),
        (
            "SpatialBuckets",
            "buckets of places on a page",
            of_heads,
            lambda v: {"heads": v["heads"], "init": spread_init},
            RANDOM,
        ),
        (
            "ComplexOffsets",
            "offsets in complexes of chains",
            of_heads,
            lambda v: {"heads": v["heads"], "init": spread_init},
            RANDOM,
        ),
    )
    return tuple(
        _plain(name, label, group, fields, arguments, note=note)
        for group, rows in ((TABLES, tables), (ROTATIONS, rotations), (BIASES, biases))
        for name, label, fields, arguments, note in rows
    )


# --- presets --------------------------------------------------------------------------------------


def _preset(name: str) -> Entry:
    row = presets.row(name)

    def build(values: Values) -> Spec:
        return row.build(values["d"])

    def code(values: Values) -> str:
        return f"posenc.preset({name!r}, {values['d']})"

    fields = (EVEN,) if row.kind == "rotary" else (WIDTH,)
    group = f"Presets: {'tables' if row.kind == 'table' else 'rotations'}"
    entry = Entry(f"preset:{name}", name, group, row.kind, fields, build, code, note=row.note)
    if row.spec["type"] != "Learned":
        return entry
    return replace(entry, note=f"{RANDOM} {row.note}")


@functools.cache
def _presets() -> tuple[Entry, ...]:
    """The presets whose positions are integers or one number, at a width that they have."""
    found = []
    for name in presets.names():
        entry = _preset(name)
        for width in (128, 64, 512, 768):
            try:
                spec: Any = entry.build({"d": width})
            except PosencError:
                continue
            if not spec_is_real(spec) or len(spec.axes) == 1:
                start = entry.fields[0].within(entry.fields[0].low, LARGEST_DIM, str(width))
                found.append(replace(entry, fields=(start,)))
            break
    return tuple(found)


def entries() -> tuple[Entry, ...]:
    """All entries of the registry and the presets."""
    return (*_registry(), *_presets())


# --- which view shows what ------------------------------------------------------------------------

VIEWS_OF = {
    "table": ("table", "waves", "sentence", "distance"),
    "rotary": ("rotate", "stretch", "table", "waves", "distance"),
    "bias": ("bias",),
}
NOUNS = {
    "table": "a table",
    "rotary": "a rotation of queries and keys",
    "bias": "a bias on the scores",
    "relative": "an encoding that needs the content",
}
SHOWS = {
    "table": "tables and rotations",
    "waves": "encodings with wavelengths",
    "sentence": "tables",
    "distance": "tables and rotations",
    "rotate": "rotations",
    "bias": "biases",
    "stretch": "rotations with a ladder of frequencies",
}


# Views that draw specs of several axes: their positions are the cells of a grid, row by row.
GRIDS = ("table", "bias")
GRID_OF = {"table": "Table", "rotary": "Table", "bias": "Bias"}


def spec_is_real(spec: Any) -> bool:
    """Whether positions are coordinates, of which no integers are typical."""
    return getattr(spec, "coordinates", "integer") == "real"


def grid_of(spec: Any, length: int) -> tuple[int, ...]:
    """The sides of a grid of at most `length` cells, equal where they can be; empty for one axis.

    Parameters
    ----------
    spec : Spec
        What the positions are for.
    length : int
        How many cells there may be.
    """
    axes = len(spec.axes)
    if axes == 1:
        return ()
    side = max(1, int(length ** (1 / axes) + 1e-9))
    most = next((m for name in BOUNDS if (m := getattr(spec, name, None)) is not None), None)
    ends = most if isinstance(most, tuple) and len(most) == axes else (most,) * axes
    return tuple(min(side, end) if isinstance(end, int) else side for end in ends)


# Fields that say how far the coordinates of a spec go.
BOUNDS = ("lengths", "window", "size", "degree")


def why_not(view: str, entry: Entry, spec: Any = None) -> str:
    """Why a view cannot show an encoding; empty where it can."""
    homes = VIEWS_OF.get(entry.kind, ())
    if view not in homes:
        where = " or ".join(home.capitalize() for home in homes)
        return (
            f"{entry.label} is {NOUNS[entry.kind]}, and {view.capitalize()} shows {SHOWS[view]}. "
            + (f"{where} can show it." if where else "No view can show it.")
        )
    if spec is None:
        return ""
    if len(spec.axes) != 1 and (view not in GRIDS or spec_is_real(spec)):
        axes = ", ".join(spec.axes)
        home = GRID_OF.get(entry.kind, "")
        where = f" {home} draws the cells of a grid." if home and not spec_is_real(spec) else ""
        return f"Positions of {entry.label} have several axes: {axes}.{where}"
    if view == "sentence" and spec.width != spec.dim:
        return f"{entry.label} is appended to embeddings, not added. Its rows are in Table."
    per_head = getattr(spec, "per_head", None)
    if entry.kind == "rotary" and per_head is not None:
        return f"Each head of {entry.label} has numbers of its own; the views show one set."
    if view == "waves" and not (sinusoids(inner(spec)) or hasattr(spec, "matrix")):
        return f"{entry.label} has no wavelengths. Its rows are in Table."
    if view == "stretch" and not hasattr(spec, "scaling"):
        return f"{entry.label} takes no rule that stretches it. RoPE does."
    return ""


@functools.cache
def _fits(view: str, entry_id: str) -> bool:
    entry = by_id()[entry_id]
    spec = _sampled(entry_id)
    return spec is not None and not why_not(view, entry, spec)


@functools.cache
def by_id() -> Mapping[str, Entry]:
    """The entries of the registry and the presets by name."""
    return {entry.id: entry for entry in entries()}


@functools.cache
def _sampled(entry_id: str) -> Spec | None:
    """A spec of an entry, to see what it can do."""
    entry = by_id()[entry_id]
    try:
        return entry.build(samples(entry))
    except PosencError:
        return None


def samples(entry: Entry) -> dict[str, Any]:
    """The values that an entry starts with."""
    values: dict[str, Any] = {"s": 0, "L": 128}
    return values | {f.key: f.parse(None).value for f in entry.fields}


@functools.cache
def _offered(view: str) -> tuple[Entry, ...]:
    return tuple(e for e in entries() if not why_not(view, e) and _fits(view, e.id))


def offered(view: str, more: tuple[Entry, ...] = ()) -> tuple[Entry, ...]:
    """The entries that a view can show, those of files first."""
    fitting = []
    for entry in more:
        try:
            spec = entry.build(samples(entry))
        except PosencError:
            continue
        if not why_not(view, entry, spec):
            fitting.append(entry)
    return (*fitting, *_offered(view))


def absent(name: str) -> str:
    """Why an encoding of the registry has no entry; empty for other names."""
    found = next((n for n in registry.SPECS if n.lower() == name.strip().lower()), None)
    if found is None or found.lower() in by_id():
        return ""
    if getattr(registry.lookup(found), "kind", "") == "relative":
        return f"{found} needs the content of queries and keys; positions alone do not show it."
    return f"{found} reads coordinates of several axes that need not be whole; the views count."


def home_of(entry: Entry) -> str:
    """The view that an encoding is shown in first."""
    return {"table": "table", "rotary": "stretch", "bias": "bias"}.get(entry.kind, "table")
