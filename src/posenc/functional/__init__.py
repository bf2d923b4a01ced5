"""The verbs. Each takes a spec first, works on any array library, and leaves its arguments alone.

A verb reads its arguments into a request; `posenc.kernels` chooses what computes it.
"""

from posenc.functional._apply_rotary import apply_rotary
from posenc.functional._bias import bias
from posenc.functional._cos_sin import cos_sin
from posenc.functional._frequencies import frequencies, resolution, wavelengths
from posenc.functional._logit_scale import logit_scale, relative_score
from posenc.functional._parameters import init
from posenc.functional._relative import relative, relative_values
from posenc.functional._reorder import reorder
from posenc.functional._rerotate import rerotate
from posenc.functional._resize import resize
from posenc.functional._rotate import rotate, rotate_together
from posenc.functional._shift import shift, similarity
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
