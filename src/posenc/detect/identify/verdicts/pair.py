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


def judge_pair(cos: Array, arrays: Mapping[str, Array]) -> Finding | None:
    """The rotation of cosines and the sines beside them; None where they are no such pair.

    The names of both differ in `cos` and `sin` alone.
    """
    sin, shape = arrays.get(cos.name.replace("cos", "sin"), cos), [n for n in cos.shape if n > 1]
    if (
        sin is cos
        or sin.shape != cos.shape
        or not {cos.dtype, sin.dtype} <= EPS.keys()
        or len(shape) != 2
        or cos.size > MOST_ENTRIES
    ):
        return None
    real, imaginary = (np.asarray(a.read(), np.float64).reshape(shape) for a in (cos, sin))
    values, half = real + 1j * imaginary, shape[1] // 2
    layouts = (
        ("columns j and j + d/2", values[:, :half], values[:, half:]),
        ("columns 2j and 2j + 1", values[:, ::2], values[:, 1::2]),
        ("column j", values, values),
    )
    alike = (layout for layout in layouts if np.array_equal(*layout[1:]))
    columns, values, _ = next(alike, layouts[-1])  # NaN is like nothing
    size, rows = float(np.abs(values[0]).mean()), shape[0]
    uneven = not np.allclose(np.abs(values), size, rtol=ROUND)
    if uneven or rows < LEAST_ROWS or values.shape[1] < LEAST:
        return None
    dtype = dtype_of(real, cos.dtype)
    seen = PairTurns(np.arange(rows), unit_of(values), rows, dtype, sized=False)
    speeds = estimated(seen.rows(np.arange(min(rows, GLANCE))))
    vector = Array(f"{cos.name}, {sin.name}", cos.dtype, speeds.shape, lambda a, b: speeds[a:b])
    finding = judge_vector(vector, called="frequencies", facts={})
    if finding is None or finding.spec is None:
        return finding
    spec: Any = finding.spec
    wanted = expected(spec, seen)
    off, wrong = off_by(spec, seen, wanted)
    factor, worst = size / float(np.abs(wanted[0]).mean()), int(np.argmax(wrong))
    remarks = [
        *(text for text in finding.remarks if text != PAIRING),
        f"pair j has {columns} of these cosines and sines; 'half' stands here for any pairing",
        *[f"they are multiplied by {factor:.6g}, which the spec leaves out"]
        * (abs(factor - 1) > ROUND),
        *[f"row p is taken for position p, and row {worst} is off by {off[worst]:.2g}"]
        * bool(wrong.any()),
    ]
    verdict = "close" if wrong.any() and finding.verdict == "claimed" else finding.verdict
    return replace(finding, shape=cos.shape, verdict=verdict, remarks=tuple(remarks))
