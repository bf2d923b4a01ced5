"""The encodings that can be chosen: one row for each of the registry, and the presets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posenc import presets, registry
from posenc._core.errors import PosencError
from posenc._core.ladder import LADDERS
from posenc._core.parameters import Init
from posenc._core.spec import Spec
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore.entry import CatalogueEntry, Values, call
from posenc.explore.fields import Field, Option, choice, integer, real

__all__ = ["LARGEST_LENGTH", "entries"]

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


def _plain(
    name: str,
    label: str,
    group: str,
    fields: tuple[Field, ...],
    arguments: Callable[[Values], dict[str, Any]],
    *,
    note: str = "",
) -> CatalogueEntry:
    """An entry of the registry whose arguments follow from the values."""
    kind = KINDS[group]
    first = "heads" if kind == "bias" else "dim"

    def build(values: Values) -> Spec:
        cls: Any = registry.lookup(name)
        return cls(**arguments(values))

    def code(values: Values) -> str:
        return call(name, arguments(values), first=first)

    return CatalogueEntry(name.lower(), label, group, kind, fields, build, code, note=note)


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
def _registry() -> tuple[CatalogueEntry, ...]:
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


def _preset(name: str) -> CatalogueEntry:
    row = presets.row(name)

    def build(values: Values) -> Spec:
        return row.build(values["d"])

    def code(values: Values) -> str:
        return f"posenc.preset({name!r}, {values['d']})"

    fields = (EVEN,) if row.kind == "rotary" else (WIDTH,)
    group = f"Presets: {'tables' if row.kind == 'table' else 'rotations'}"
    entry = CatalogueEntry(
        f"preset:{name}", name, group, row.kind, fields, build, code, note=row.note
    )
    if row.spec["type"] != "Learned":
        return entry
    return replace(entry, note=f"{RANDOM} {row.note}")


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
                start = entry.fields[0].within(
                    entry.fields[0].low, entry.fields[0].high, str(width)
                )
                rows.append(replace(entry, fields=(start,)))
            break
    return tuple(rows)


def entries() -> tuple[CatalogueEntry, ...]:
    """All entries of the registry and the presets."""
    return (*_registry(), *_presets())
