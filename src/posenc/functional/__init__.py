"""The verbs. Each takes a spec first, works on any array library, and leaves its arguments alone.

A verb reads its arguments into a request; `posenc.kernels` chooses what computes it.
"""

from posenc.functional._cos_sin import cos_sin, logit_scale, relative_score
from posenc.functional._learned import init, resize
from posenc.functional._rotate import apply_rotary, rerotate, rotate, rotate_together
from posenc.functional._scores import bias, relative, relative_values
from posenc.functional._sinusoids import (
    frequencies,
    reorder,
    resolution,
    shift,
    similarity,
    wavelengths,
)
from posenc.functional._table import add, table

__all__ = [
    "add",
    "apply_rotary",
    "bias",
    "cos_sin",
    "frequencies",
    "init",
    "logit_scale",
    "relative",
    "relative_score",
    "relative_values",
    "reorder",
    "rerotate",
    "resize",
    "resolution",
    "rotate",
    "rotate_together",
    "shift",
    "similarity",
    "table",
    "wavelengths",
]
