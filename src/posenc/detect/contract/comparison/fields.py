"""The fields in which two encodings differ, and single changes of an encoding that were ever made.

Only fields that change a number count: `Linear(2)` and a ladder that begins at one half are the
same rotation. Changes are tried on encodings to find the one that reproduces somebody's numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from posenc import functional
from posenc._core.numeric.ladder import LADDERS, Ladder
from posenc._core.spec.answers import brief
from posenc._core.spec.spec import Spec, Value
from posenc.detect.contract.checks import alike, records
from posenc.detect.contract.contract import Part
from posenc.detect.fit.turns import (
    DENSE,
    NEAR,
    PairTurns,
    attempt,
    begins,
    expected,
    parts,
    probes,
    told,
)
from posenc.encodings.api import RotarySpec, TableSpec
from posenc.encodings.rotary.rope import RoPE

# What explains the others comes first.
ORDER = (
    "kind", "layers", "type", "dim", "heads", "base", "pairing", "ladder", "scaling", "arrangement",
    "magnitude", "length", "dtype", "positions", "start", "order", "table", "bias", "state",
)  # fmt: skip
CLOSE = 1.2e-7  # relative: a number that a file states in float32 is the same as in float64
LENGTHS = (64, 2**20)  # a short sequence and a long one, for rules that depend on the length
# What is compared of records of rotations: all of others is, but for positions.
OF_ANGLES = {
    "frequencies": ("channels", "first", "second", "first_out", "second_out", "sign", "axes",
                    "axis", "start", "frequencies", "attention_factor", "logit_factor"),
    "angles": ("temperature",),
    "scores": (), "positions": (),
}  # fmt: skip


def words(value: Any) -> str:
    """A value of a field, for people."""
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        shown = ", ".join(words(v) for v in value[:8])
        return shown if len(value) <= 8 else f"{shown}, … ({len(value)})"
    if isinstance(value, Value):
        text = brief(value, words)
        return text if len(text) <= 120 else f"{text[:117]}..."
    return f"{value:.10g}" if isinstance(value, float) else str(value)


# --- what a spec does, in numbers -----------------------------------------------------------------


def _effects(spec: Spec) -> dict[tuple[Any, ...], Any]:
    """The numbers that a contract states of an encoding: two with the same are one to a model."""
    (part,), checks = records((Part("spec", kind=spec.kind, spec=spec),))
    effects: dict[tuple[Any, ...], Any] = {
        ("left out", "", "", ()): repr(spec) if part.left_out else ""
    }
    for check in checks:
        places = tuple(np.ravel(check.data.get("position", check.data.get("q_positions", -1))))
        # Angles follow from frequencies, which may be stated in float32.
        names = OF_ANGLES.get(check.check, (*check.data,))
        effects |= {(check.check, n, check.state, places): check.data.get(n, 0) for n in names}
    return effects


def _same(a: Spec, effects: dict[tuple[Any, ...], Any]) -> bool:
    own = _effects(a)
    return own.keys() == effects.keys() and all(
        alike(own[k], effects[k], CLOSE, 1e-15) for k in own
    )


def looked_at(spec: Spec) -> str:
    """How far two encodings of a sort are compared, in words."""
    each = "each field of the spec"
    if isinstance(spec, RoPE):
        lengths = "at a short and a long length" if spec.needs_length else "at every length"
        rest = f"in float64, {lengths}; factors, pairing and channels"
        return f"{each}; the frequencies of {spec.pairs} pairs {rest}"
    mute = _effects(spec)["left out", "", "", ()]
    return (
        f"{each}, no numbers" if mute else f"{each}; the rows or scores of its contract in float64"
    )


def effect(a: Spec, b: Spec) -> tuple[float | None, int | None, str]:
    """How far numbers are apart, where that begins, and which numbers."""
    if not isinstance(a, RotarySpec) or not isinstance(b, RotarySpec):
        mine, theirs = _effects(a), _effects(b)
        off = {
            key[3]: float(np.abs(mine[key] - theirs[key]).max())
            for key in sorted(mine.keys() & theirs.keys())
            if key[1] in ("row", "bias", "relative") and mine[key].shape == theirs[key].shape
        }
        if not off or max(off.values()) == 0:
            return None, None, ""
        if not isinstance(a, TableSpec):
            return max(off.values()), None, "biases"
        return *begins(np.array([*off.values()]), np.array([*off])[:, 0]), "rows"
    if a.axes != b.axes or not (a.plain and b.plain):
        return None, None, ""
    line = np.arange(DENSE + 1)
    places = line if len(a.axes) == 1 else np.stack([line] * len(a.axes), axis=-1)
    if a.pairs == b.pairs:
        seen = PairTurns(places, np.empty(0), len(places) + 1)
        off_ = parts(expected(a, seen) - expected(b, seen)).max(axis=1)
        if off_.max() > 1e-12:
            return told(off_, line)
    x = probes(max(a.dim, b.dim) * (1 if a.channels.part == b.channels.part else 2), len(NEAR), 1)
    one, two = (functional.rotate(s.at(len(line)), x, positions=places[NEAR]) for s in (a, b))
    off_ = np.abs(one - two).max(axis=(0, 1, 3))
    return (*begins(off_, NEAR), "rotated queries") if off_.max() > 0 else (None, None, "")


# --- fields that differ ---------------------------------------------------------------------------


def changed(a: Spec, b: Spec) -> list[tuple[str, Any, Any, Spec | None]]:
    """The fields in which two encodings differ and that change a number."""
    theirs = _effects(b)
    if a.kind == b.kind and _same(a, theirs):
        return []
    if type(a) is not type(b):
        return [("type", a, b, None)]
    paths = sorted(_paths(a, b), key=lambda row: (*ORDER, row[0][0]).index(row[0][0]))
    tried = ((*row, attempt(_with, b, *row[:2])) for row in paths)
    differing = [
        (".".join(path), mine, other, swapped) for path, mine, other, swapped in tried
        if swapped is None or not _same(swapped, theirs)
    ]  # fmt: skip
    # Two fields may make a difference only together: then each is named.
    return differing or [(".".join(p), m, o, None) for p, m, o in _paths(a, b)]


def _paths(a: Any, b: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(a, Value) and type(a) is type(b):
        for field in dataclasses.fields(a):  # type: ignore[arg-type]
            yield from _paths(getattr(a, field.name), getattr(b, field.name), (*path, field.name))
    elif (
        isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 1
        and isinstance(a[0], Value) and type(a[0]) is type(b[0])
    ):  # fmt: skip
        yield from _paths(a[0], b[0], path)
    elif a != b:
        yield path, a, b


def _with(spec: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(spec, tuple):
        return (_with(spec[0], path, value),)
    name, *rest = path
    return dataclasses.replace(spec, **{name: _with(getattr(spec, name), (*rest,), value)})


def value_of(spec: Any, field: str) -> str:
    """A field in words, by its path."""
    for name in field.split("."):
        spec = spec[0] if isinstance(spec, tuple) and len(spec) == 1 else spec
        spec = getattr(spec, name, spec)
    return words(spec)


# --- single changes -------------------------------------------------------------------------------


def variants(spec: Spec) -> Iterator[tuple[str, str, Spec]]:
    """Encodings that differ from `spec` in one field: the field, what is changed, the encoding."""
    if isinstance(spec, RoPE):
        yield from _scalings(spec)
    yield from (
        (".".join(path), text, candidate) for path, value, text in _changes(spec)
        if (candidate := attempt(_with, spec, path, value)) is not None
    )  # fmt: skip


def explained_by(spec: Any, fits: Callable[[Any], bool]) -> tuple[str, str, str] | None:
    """The field whose change fits, and what it is on both sides."""
    rows = (
        (field, value_of(spec, field), text) for field, text, other in variants(spec)
        if attempt(fits, other)
    )  # fmt: skip
    return next(rows, None)


def _scalings(spec: RoPE) -> Iterator[tuple[str, str, Spec]]:
    def candidate(*scaling: Any) -> Any:
        return attempt(spec.replace, scaling=scaling)

    for index, scaling in enumerate(spec.scalings):
        rest = tuple(s for i, s in enumerate(spec.scalings) if i != index)
        name = type(scaling).__name__
        yield "scaling", f"{words(rest)} ({name} is left out)", candidate(*rest)
        if scaling.needs_length:
            yield from (
                ("scaling", f"{name} as for a {text} sequence, at every length", fixed)
                for length, text in zip(LENGTHS, ("short", "long"), strict=True)
                if (fixed := attempt(spec.at, length)) is not None
            )
        # Turns within a length are length * f / (2 pi); code has left the 2 pi out.
        for low, high in (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast")):
            if hasattr(scaling, low):
                for unit, text in ((2 * math.pi, "1 / f"), (1 / (2 * math.pi), "4 pi**2 / f")):
                    other = attempt(
                        scaling.replace, **{k: getattr(scaling, k) / unit for k in (low, high)}
                    )
                    yield (
                        f"scaling.{low}",
                        f"turns of wavelengths that are {text}",
                        candidate(other, *rest),
                    )


def _changes(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, str]]:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Value):
        return
    hints = get_type_hints(type(value))
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        current, places = getattr(value, field.name), (*path, field.name)
        yield from _changes(current, places)
        if isinstance(current, Ladder):
            yield from ((places, each, name) for name, each in LADDERS.items() if each != current)
        if isinstance(current, str):
            yield from ((places, c, c) for c in _choices(hints[field.name]) if c != current)
        elif isinstance(current, (int, float)) and not isinstance(current, bool):
            yield from (
                (places, number, f"{words(number)}{text}")
                for number, text in _numbers(current, field.default).items()
            )


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [choice for choice in get_args(hint) if isinstance(choice, str)]
    return [choice for part in get_args(hint) for choice in _choices(part)]


def _numbers(current: float, default: Any) -> dict[Any, str]:
    kind = type(current)
    rows = [(default, ", the default")] if isinstance(default, (int, float)) else []
    products = (current * factor for factor in (2, 0.5, 4, 0.25))
    rows += [(product, "") for product in products if kind is float or not product % 1]
    rows += [(current + step, "") for step in (1, -1, 2, -2) if kind is int or current == 0]
    numbers: dict[Any, str] = {}
    for number, text in rows:
        numbers.setdefault(kind(number), text)
    numbers.pop(current, None)
    return numbers
