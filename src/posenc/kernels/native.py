"""The compiled module, and what it makes of a spec: once for each, kept on the spec."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from posenc.encodings.relative.base import RelativeSpec
from posenc.kernels import plans
from posenc.kernels.requests import Packed, Positions
from posenc.positions import packed

MISSING = Path(__file__).with_name("_native_missing.txt")
# The cache of pip keeps what it built without a compiler, and would install it once more.
AGAIN = "install posenc again by pip install --force-reinstall --no-cache-dir --no-deps"
INTERFACE = 2  # of the compiled module that these calls are written for


@functools.cache
def native() -> Any:
    """The compiled module, or a text that says why there is none."""
    try:
        import posenc.kernels._native as module
    except ImportError as error:
        reason = str(error)
        if MISSING.exists():  # the build leaves its last words there
            reason = MISSING.read_text(encoding="utf-8", errors="replace").strip()
        return f"not compiled ({reason}); {AGAIN}, with a C++ compiler at hand"
    interface = getattr(module, "INTERFACE", None)
    if interface != INTERFACE:
        return f"compiled for interface {interface}, where {INTERFACE} is needed; {AGAIN}"
    return module


def phases(spec: Any) -> Any:
    """The steps of a spec, as the compiled code holds them."""
    if "phases" not in spec.plans:
        spec.plans["phases"] = native().Phases(spec.arrays["step"], spec.arrays.get("origin"))
    return spec.plans["phases"]


def rotation(spec: Any, *, inverse: bool, transposed: bool) -> Any:
    """What turns channels."""
    key = ("turn", inverse, transposed)
    if key not in spec.plans:
        p = plans.turning(spec, inverse=inverse, transposed=transposed)
        spec.plans[key] = native().Rotation(
            phases(spec), p.source, p.target, p.part, p.blocks, p.sign, p.factor, p.divide
        )
        if len(spec.axes) == 1 and not transposed:
            spec.plans["direct", inverse] = spec.plans[key]  # what `direct` asks for
    return spec.plans[key]


def moving(spec: Any, target: Any) -> tuple[Any, Any, bool]:
    """A rotation, what turns keys from another to it, and whether they are the same.

    The last one of a spec is kept.
    """
    last: tuple[Any, Any, bool] | None = spec.plans.get("move")
    if last is None or (last[0] is not target and last[0] != target):
        alike = spec == target  # then the angle is that of how far a key moves
        arrays = {"step": spec.arrays["step"]} if alike else plans.difference(spec, target).arrays
        p, ratio = (
            plans.turning(spec, inverse=False),
            target.attention_factor / spec.attention_factor,
        )
        steps = native().Phases(arrays["step"], arrays.get("origin"))
        plan = native().Rotation(steps, p.source, p.source, p.part, p.blocks, p.sign, ratio, False)
        last = spec.plans["move"] = target, plan, alike
    return last


def sinusoids(spec: Any) -> Any:
    """What makes the rows of a table."""
    if "rows" not in spec.plans:
        blocks, lone = spec.arrangement.blocks(spec.pairs), spec.odd == "sin_extra"
        factor, pad = spec.magnitude.table(spec.dim), plans.padding(spec)
        spec.plans["rows"] = native().Sinusoids(
            phases(spec), spec.dim, spec.order, blocks, lone, factor, pad
        )
    return spec.plans["rows"]


def biases(spec: Any) -> tuple[Any, Any, tuple[int, ...] | None]:
    """What writes the entries of a bias, its slopes, and the shape of the weight it learns.

    entries(result, q_positions, k_positions, slopes or weight, threads)
    """
    if "bias" not in spec.plans:
        module, learned, slopes = native(), None, None
        if "slopes" in spec.arrays:
            slopes = spec.arrays["slopes"].astype(np.float32)
            entries = functools.partial(_alibi, module.alibi, spec.form)
        else:
            learned = spec.shapes["weight"]
            how = spec.arrays["thresholds"], spec.direction
            entries = functools.partial(_buckets, module.buckets, *how)
        spec.plans["bias"] = entries, slopes, learned
    return spec.plans["bias"]


def _alibi(write: Any, form: str, result: Any, q: Any, k: Any, slopes: Any, count: int) -> None:
    write(result, q, k, slopes, form, count)


def _buckets(
    write: Any,
    thresholds: Any,
    direction: str,
    result: Any,
    q: Any,
    k: Any,
    weight: Any,
    count: int,
) -> None:
    write(result, q, k, thresholds, weight, direction, count)


def remember_scores(spec: Any) -> None:
    """Let one token of a relative encoding go unread, where no position is out of its range."""
    free = type(spec).check_positions is RelativeSpec.check_positions and len(spec.axes) == 1
    if free and spec.heads is None and not isinstance(native(), str):
        spec.plans["relative"] = native().check_near, spec.shapes


def threads() -> int:
    """How many threads torch would use where it is loaded; 0 leaves it to the kernel.

    Arrays of NumPy follow torch as well: one process has one number. torch carries what
    `set_num_threads` said to every thread and to forked children, and OpenMP alone does not.
    """
    ask = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return 0 if ask is None else int(ask())


def flat(positions: Positions, length: int) -> Any:
    """Positions as the compiled code takes them: a number or an array."""
    return packed(positions.ends, length) if isinstance(positions, Packed) else positions
