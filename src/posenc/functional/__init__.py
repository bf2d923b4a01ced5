"""The verbs. Each takes a spec first, works on any array library, and leaves its arguments alone.

The only place that chooses between the reference and a kernel.
"""

from posenc.functional._bias import bias
from posenc.functional._frequencies import (
    frequencies,
    resolution,
    shift,
    similarity,
    wavelengths,
)
from posenc.functional._parameters import init
from posenc.functional._relative import relative, relative_values
from posenc.functional._resize import extend, resize
from posenc.functional._table import add, table

__all__ = [
    "add",
    "bias",
    "extend",
    "frequencies",
    "init",
    "relative",
    "relative_values",
    "resize",
    "resolution",
    "shift",
    "similarity",
    "table",
    "wavelengths",
]
