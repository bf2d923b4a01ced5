"""Numbers that an encoding of another package gives, where no rule that is known here does.

Its fields are not solved for: an array is held beside the encoding at its own size, with the fields
of its `example` and with its defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc import registry
from posenc._core.io.checkpoints import MOST_ENTRIES, Array
from posenc._core.spec.example import USUAL
from posenc.detect.fit.description_length import MARGIN, bend_bits
from posenc.detect.fit.tables.layout import Placement
from posenc.detect.identify.result import Finding, Kind, finding_of
from posenc.functional import bias, frequencies, table

SLACK = 4.0  # roundings of an entry, as stored and as computed


class Likeness(NamedTuple):
    """What an encoding gives beside what an array holds."""

    spec: Any
    residual: float
    tolerance: float
    evidence: float


def judge_example(array: Array, kind: Kind, eps: float) -> Finding | None:
    """The encoding of another package that gives an array, if there is one."""
    shape = tuple(n for n in array.shape if n != 1)
    if array.size > MOST_ENTRIES or len(shape) != {"table": 2, "bias": 3}.get(kind, 1):
        return None
    candidates = list(_candidates(kind, shape))
    if not candidates:
        return None
    values = np.asarray(array.read(), dtype=np.float64).reshape(shape)
    likely = list(filter(None, (_likeness(spec, values, eps) for spec in candidates)))
    if not likely:
        return None
    best, *others = sorted(likely, key=lambda like: like.residual)
    description = math.log2(len(candidates))
    claimed = not others and best.evidence - description >= MARGIN
    name = type(best.spec).__name__
    return finding_of(
        array,
        kind=kind,
        verdict="claimed" if claimed else "unclear",
        spec=best.spec,
        placement=Placement(("position",), shape[:1], (1,), (0,)) if kind == "table" else None,
        measures={
            "residual": best.residual,
            "tolerance": best.tolerance,
            "evidence": round(best.evidence, 1),
            "description": round(description, 1),
        },
        remarks=(
            f"tried was {name} with the fields of its example and its defaults",
            *(f"{like.spec} gives it too" for like in others),
        ),
    )


def _candidates(kind: Kind, shape: tuple[int, ...]) -> Iterator[Any]:
    """The encodings of other packages at the size of an array."""
    acts, size = {
        "table": ("table", {"dim": shape[-1]}),
        "bias": ("bias", {"heads": shape[0]}),
    }.get(kind, ("rotary", {"dim": 2 * shape[0]}))
    seen = set()
    for cls in registry.others():
        if cls.kind != acts:
            continue
        for fields in (cls.example.fields, {}):
            try:
                spec: Any = cls(**{**USUAL[acts], **fields, **size})
            except Exception:  # noqa: BLE001, S112 - a size that it does not have
                continue
            if spec not in seen and not spec.shapes and len(spec.axes) == 1:
                seen.add(spec)
                yield spec


def _likeness(spec: Any, values: np.ndarray, eps: float) -> Likeness | None:
    """How near an encoding comes to an array; None where an entry is another."""
    try:
        made = _numbers(spec, values.shape)
    except Exception:  # noqa: BLE001 - code of others
        return None
    if made.shape != values.shape:
        return None
    same = made == values  # what a bias forbids is minus infinity
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(made - values))
    slack = SLACK * eps * np.where(same, 1.0, np.maximum(np.abs(made), 1.0))
    if not (off <= slack).all():
        return None
    worst = np.unravel_index(int(np.argmax(off)), off.shape)
    return Likeness(spec, float(off[worst]), float(slack[worst]), _evidence(values, eps))


def _numbers(spec: Any, shape: tuple[int, ...]) -> np.ndarray:
    verbs: dict[str, Any] = {"table": table, "bias": bias}
    if spec.kind in verbs:
        sizes = shape[:1] if spec.kind == "table" else shape[1:]
        return np.asarray(verbs[spec.kind](spec, *sizes, dtype="float64"))
    return np.asarray(frequencies(spec))


def _evidence(values: np.ndarray, eps: float) -> float:
    """Bits beyond lines that go on as they did; of a bias, those of its first and last query."""
    lines = np.moveaxis(values[:, [0, -1]], -1, 0) if values.ndim == 3 else values
    with np.errstate(invalid="ignore"):
        bits = bend_bits(lines, SLACK * eps * np.maximum(np.abs(lines[2:]), 1.0))
    return float(bits[np.isfinite(bits)].sum())
