"""Verdicts on cosines and sines of a rotary encoding: two arrays of one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import MOST_ENTRIES, Array
from posenc.detect.fit.tolerances import dtype_of
from posenc.detect.fit.turns import PairTurns, estimated, expected, off_by, unit_of
from posenc.detect.identify.result import Finding
from posenc.detect.identify.verdicts.table import EPS, LEAST_ROWS
from posenc.detect.identify.verdicts.vector import LEAST, PAIRING, judge_vector

ROUND = 1e-2  # of a factor, in whatever dtype
GLANCE = 512  # rows that tell the frequencies; all others are held against them


def sines_of(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """By the names of cosines: their sines, whose name differs in that word alone."""
    alike = {name: arrays.get(name.replace("cos", "sin")) for name in arrays if "cos" in name}
    return {
        name: sines
        for name, sines in alike.items()
        if sines is not None
        and sines.shape == arrays[name].shape
        and {sines.dtype, arrays[name].dtype} <= EPS.keys()
    }


def judge_pair(cos: Array, sin: Array) -> Finding | None:
    """The rotation whose angles have these cosines and sines; None where they are no such pair."""
    rows, *width = (size for size in cos.shape if size > 1)
    if rows < LEAST_ROWS or len(width) != 1 or cos.size > MOST_ENTRIES:
        return None
    parts = (np.asarray(each.read(), np.float64).reshape(rows, -1) for each in (cos, sin))
    values = next(parts) + 1j * next(parts)
    first, second = np.split(values[:, : width[0] // 2 * 2], 2, axis=1)
    columns = "each pair stands once"
    if np.array_equal(first, second):
        values, columns = first, "pair j stands in the columns j and j + d/2"
    elif np.array_equal(values[:, ::2], values[:, 1::2]):
        values, columns = values[:, ::2], "pair j stands in the columns 2j and 2j + 1"
    size = float(np.abs(values[0]).mean())
    if values.shape[1] < LEAST or not np.allclose(np.abs(values), size, rtol=0.02):
        return None
    dtype = dtype_of(np.concatenate([values.real, values.imag]), cos.dtype)
    seen = PairTurns(np.arange(rows), unit_of(values), rows, dtype, sized=False)
    speeds = estimated(seen.rows(np.arange(min(rows, GLANCE))))
    vector = Array(f"{cos.name}, {sin.name}", cos.dtype, speeds.shape, lambda a, b: speeds[a:b])
    finding = judge_vector(vector, called="frequencies", facts={})
    if finding is None or finding.spec is None:
        return finding
    spec: Any = finding.spec
    wanted = expected(spec, seen)
    off, wrong = off_by(spec, seen, wanted)
    factor = size / float(np.abs(wanted[0]).mean())
    remarks = [text for text in finding.remarks if text != PAIRING]
    remarks.append(f"in these cosines and sines {columns}; 'half' stands here for any pairing")
    if abs(factor - 1) > ROUND:
        remarks.append(f"they are multiplied by {factor:.6g}, which the spec leaves out")
    if wrong.any():
        worst = int(np.flatnonzero(wrong)[0])
        remarks.append(f"row p is taken for position p, and row {worst} is off by {off[worst]:.2g}")
    verdict = "close" if wrong.any() and finding.verdict == "claimed" else finding.verdict
    return replace(finding, shape=cos.shape, verdict=verdict, remarks=tuple(remarks))
