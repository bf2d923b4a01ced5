"""What arithmetic explains of a difference: rounding in a dtype, and of angles in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.io.files import rounded
from posenc.detect.subject.plan import Call

UNIT = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def of_bias(_: Call, wanted: np.ndarray) -> np.ndarray:
    """The rounding of a bias in float32."""
    return np.asarray(2.0**-20 * np.where(np.isfinite(wanted), np.abs(wanted), 0.0) + 2.0**-21)


def of_speeds(kind: str, speed: np.ndarray) -> Callable[[Call, np.ndarray], np.ndarray]:
    """Rounding in the dtype, and of angles in float32, for each channel by its own speed."""
    drift = speed * 2.0**-24 * (4 + 2 * np.abs(np.log(np.where(speed > 0, speed, 1.0))))

    def room(call: Call, wanted: np.ndarray) -> np.ndarray:
        rows = call.rows if call.rows.ndim == 2 else np.abs(call.rows).sum(axis=-1)
        rows = rows[:, None] if wanted.ndim == 4 else rows
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0.0)).max(axis=-1, keepdims=True)
        size = size if kind == "rotary" else np.maximum(size, 1.0)
        rates = np.zeros(wanted.shape[-1])
        rates[: len(drift)] = drift[: len(rates)]
        return np.asarray(size * (1.5 * rows[..., None] * rates + 8 * UNIT[call.dtype]))

    return room


def speeds(subject: Any, expected: Callable[..., Any]) -> np.ndarray:
    """Radians per position of each channel: y(p - 1) + y(p + 1) is 2 cos(speed) y(p)."""
    if subject._axes > 1:
        return np.ones(2 * subject.dim)  # no pair turns faster
    starts = 3 * np.arange(8)[:, None] if subject.kind != "rotary" else np.zeros((8, 1), int)
    rows = starts + np.arange(3)
    if subject.kind == "rotary":
        x = np.random.default_rng(1).normal(size=(8, 1, 1, subject.dim)).repeat(3, axis=2)
        y = np.asarray(expected(x, rows))[:, 0]
    else:
        each = [expected(row[None]) for row in rows]
        y = np.concatenate([a if subject.kind == "table" else np.concatenate(a, -1) for a in each])
    sums = (y[:, 1] * (y[:, 0] + y[:, 2])).sum(axis=0)
    squares = np.maximum((2 * y[:, 1] ** 2).sum(axis=0), 1e-300)
    return np.asarray(np.arccos(np.clip(sums / squares, -1, 1)))


def coarse_of(subject: Any, x: np.ndarray) -> str:
    """The dtype that code rounds its input to, whatever that is handed over in."""
    line = np.arange(x.shape[2])
    for dtype in ("bfloat16", "float16") if subject.kind == "rotary" else ():
        try:
            each = [subject.both(y, line)[0] for y in (x, rounded(x, dtype))]
        except Exception:  # noqa: BLE001 - whatever other people's code raises
            break
        if np.array_equal(*each):
            return dtype
    return "float64"
