"""The encodings that can be chosen: those of the registry, and the presets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posenc import presets, registry
from posenc._core.errors import PosencError
from posenc._core.numeric.ladder import LADDERS, Ladder
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Spec
from posenc.encodings.table.learned import Learned
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore.state.entry import CatalogueEntry, Values, call, samples, written
from posenc.explore.state.fields import Field, Option, choice, integer, real
from posenc.plot.trained import learned_rows

LARGEST_DIM = 65_536
LARGEST_HEAD = 4096
LARGEST_LENGTH = 2**24

WIDTH = integer("d", "Model size d", 128, 1, LARGEST_DIM, scale="log", section="encoding")
# Each pair doubles the frequency of the one before.
OCTAVES = integer("d", "Width d", 16, 2, 64, step=2, section="encoding")
EVEN = integer("d", "Head size d", 128, 2, LARGEST_HEAD, scale="log", step=2, section="encoding")
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
# At base 2 the pairs of the last turn once in 2, 4, 8 … positions, as bits do.
EXPONENTS = {**LADDERS, "halves": Ladder(first=math.pi, denominator=1)}
LADDER = choice(
    "ladder",
    "Exponent",
    tuple(Option(name, name.replace("exponent ", "")) for name in EXPONENTS),
    "exponent 2i/d",
    section="encoding",
    hint="2i/d is the paper's; the others are what code and tutorials write in its place.",
)
PAIRING = choice(
    "pairing",
    "Pairs",
    (
        Option("half", "half: i with i + d/2"),
        Option("interleaved", "interleaved: 2i with 2i + 1"),
    ),
    "half",
    section="encoding",
)


GROUPS = {
    "table": "Tables",
    "rotary": "Rotations",
    "bias": "Biases",
    "relative": "Scores of contents",
}
TRAINED = "trained:learned"
RANDOM = "learned, so random numbers of seed 0 stand in."
LENGTH = integer("L", "Positions", 128, 1, LARGEST_LENGTH)

# What people call an encoding, where that is not the name of its class.
LABELS = {
    "Sinusoidal": "sinusoidal",
    "Learned": "learned, random start",
    "Timestep": "timestep of diffusion models",
    "Fourier": "Fourier features",
    "Concatenated": "sinusoidal, appended",
    "Summed": "sum of two sinusoids (position, step)",
    "XPos": "xPos",
    "T5": "T5 buckets",
    "Decay": "Decay (retention)",
    "ClippedTable": "clipped table",
    "AdaptiveSpan": "adaptive span",
    "RotaryBias": "rotary bias",
    "ALiBi2D": "ALiBi of two axes",
    "Quadratic": "quadratic",
    "WindowTable": "table of a window",
    "LogCPB": "logarithmic offsets, a small network",
    "OffsetTable": "table of offsets",
    "DynamicBias": "dynamic bias, a small network",
    "IRPEBias": "iRPE",
    "SpatialBuckets": "buckets of places on a page",
    "ComplexOffsets": "offsets in complexes of chains",
}


def _sinusoidal(values: Values) -> dict[str, Any]:
    own = {"base": values["n"], "ladder": EXPONENTS[values["ladder"]], "order": values["order"]}
    usual = {"base": 10_000, "ladder": EXPONENTS["exponent 2i/d"], "order": "interleaved"}
    return {"dim": values["d"], **{k: value for k, value in own.items() if value != usual[k]}}


def _of_length(values: Values) -> dict[str, Any]:
    return {"length": values["s"] + values["L"]}


def _plain(values: Values) -> Sinusoidal:
    return Sinusoidal(values["d"], base=values["n"])


Arguments = Callable[[Values], dict[str, Any]]
# Controls, and the arguments that follow from them, where the example and the size are not enough.
ROWS: dict[str, tuple[tuple[Field, ...], Arguments]] = {
    "Sinusoidal": ((WIDTH, BASE, ORDER, LADDER), _sinusoidal),
    "Learned": ((WIDTH, LENGTH), _of_length),
    "Concatenated": ((WIDTH, BASE), lambda values: {"table": _plain(values)}),
    "Summed": ((WIDTH, BASE), lambda values: {"tables": (_plain(values),) * 2}),
    "TUPE": ((HEADS, LENGTH), _of_length),
    "AdaptiveSpan": ((HEADS,), lambda _: {"length": 1024, "start": 0.05}),
    "Time2Vec": ((WIDTH,), lambda _: {}),  # its frequencies are learned
}


def _controls(cls: type[Spec]) -> tuple[Field, ...]:
    """What may be set of an encoding without a row: its size, a base, the pairing."""
    fields = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if cls.kind == "bias":
        return (HEADS,)
    size = EVEN if cls.kind == "rotary" else WIDTH
    if getattr(fields.get("ladder"), "spacing", "") == "octave":
        return (OCTAVES,)
    if "dim" in cls.example.fields:
        size = size.within(size.low, size.high, str(cls.example.fields["dim"]))
    base = (BASE,) if fields.get("base") == 10_000 else ()
    return (size, *base, *((PAIRING,) if "pairing" in fields else ()))


def _entry(cls: type[Spec]) -> CatalogueEntry:
    """The entry of an encoding: its example, with what the controls say."""
    name = cls.__name__
    first = "heads" if cls.kind == "bias" else "dim"
    controls, row = ROWS.get(name) or (_controls(cls), None)
    keys = {control.key for control in controls}

    def arguments(values: Values) -> dict[str, Any]:
        chosen = {**cls.example.fields, first: values[controls[0].key]}
        own = {
            name: values[key]
            for key, name in {"pairing": "pairing", "n": "base"}.items()
            if key in keys
        }
        return {**chosen, **(own if row is None else row(values))}

    def build(values: Values) -> Spec:
        try:
            return cls(**arguments(values))
        except PosencError:
            raise
        except Exception as error:  # of a class that others wrote
            raise PosencError(f"{name}: {type(error).__name__}: {error}") from error

    def code(values: Values) -> str:
        return call(cls, arguments(values), first=first)

    label, group, size = LABELS.get(name, name), GROUPS[cls.kind], controls[0]
    entry = CatalogueEntry(name.lower(), label, group, cls.kind, controls, build, code)
    # Where the usual size does not do, that of the example does.
    for start in (size, size.within(size.low, size.high, "4" if first == "heads" else "64")):
        begun = replace(entry, fields=(start, *controls[1:]))
        with contextlib.suppress(PosencError):
            return replace(begun, note=RANDOM if build(samples(begun)).shapes else "")
    return entry


def _trained() -> CatalogueEntry:
    """The table that a small model learned."""
    rows = learned_rows()
    spec = Learned(rows.shape[1], length=len(rows), init=Init())
    read = "from posenc.plot.trained import learned_rows\nparams = {'weight': learned_rows()}"
    return CatalogueEntry(
        TRAINED,
        "learned, trained",
        GROUPS["table"],
        "table",
        (),
        lambda _: spec,
        lambda _: f"{written(spec)}\n{read}",
        params={"weight": rows},
        note=f"the rows of a small model that read texts of {len(rows)} characters.",
    )


# --- presets --------------------------------------------------------------------------------------


def _preset(name: str) -> CatalogueEntry:
    row = presets.row(name)
    return CatalogueEntry(
        f"preset:{name}",
        name,
        f"Presets: {'tables' if row.kind == 'table' else 'rotations'}",
        row.kind,
        (EVEN,) if row.kind == "rotary" else (WIDTH,),
        lambda values: row.build(values["d"]),
        lambda values: f"posenc.preset({name!r}, {values['d']})",
        note=f"{RANDOM} {row.note}" if row.spec["type"] == "Learned" else row.note,
    )


@functools.cache
def _presets() -> tuple[CatalogueEntry, ...]:
    """The presets whose positions are integers or one number, at a width that they have."""
    rows = []
    for name in presets.names():
        entry = _preset(name)
        for width in (128, 64, 512, 768):
            try:
                spec: Any = entry.build({"d": width})
            except PosencError:
                continue
            if len(spec.axes) == 1 or getattr(spec, "coordinates", "integer") == "integer":
                size = entry.fields[0]
                rows.append(replace(entry, fields=(size.within(size.low, size.high, str(width)),)))
            break
    return tuple(rows)


def entries() -> tuple[CatalogueEntry, ...]:
    """All entries of the registry and the presets."""
    return _entries(registry.registered())


@functools.lru_cache(maxsize=1)
def _entries(registered: tuple[type, ...]) -> tuple[CatalogueEntry, ...]:
    del registered  # a class that was not there before makes all anew
    return (*map(_entry, registry.specs()), _trained(), *_presets())
