"""The compiled module, and what it makes of a spec: once for each, kept on the spec."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from posenc.kernels import plans
from posenc.kernels.places import Packed, Positions
from posenc.positions import packed

MISSING = Path(__file__).with_name("_native_missing.txt")
# The cache of pip keeps what it built without a compiler, and would install it once more.
AGAIN = "install posenc again by pip install --force-reinstall --no-cache-dir --no-deps"
INTERFACE = 1  # of the compiled module that these calls are written for


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


def sinusoids(spec: Any) -> Any:
    """What makes the rows of a table."""
    if "rows" not in spec.plans:
        blocks, lone = spec.arrangement.blocks(spec.pairs), spec.odd == "sin_extra"
        factor, pad = spec.magnitude.table(spec.dim), plans.padding(spec)
        spec.plans["rows"] = native().Sinusoids(
            phases(spec), spec.dim, spec.order, blocks, lone, factor, pad
        )
    return spec.plans["rows"]


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
