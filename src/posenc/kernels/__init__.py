"""Kernels: ways to compute what a verb is asked for, and the choice between them.

    cpu         compiled C++ for NumPy arrays and torch tensors in memory
    triton      Triton for torch tensors on a GPU
    reference   the array engine of `_core` and `encodings`: the specification; runs everywhere

A verb reads its arguments into a request. `run` gives it to the first candidate that can do it; the
reference comes last and refuses none. A kernel gives the reference's numbers within its stated
bound, or says why it does not run.
"""

from posenc.kernels.choose import KERNELS, Candidate, check_kernel, report, run
from posenc.kernels.requests import (
    Add,
    Bias,
    Choice,
    CosSin,
    Counted,
    Packed,
    Positions,
    Rerotate,
    Rotate,
    Sides,
    Table,
)

__all__ = [
    "KERNELS",
    "Add",
    "Bias",
    "Candidate",
    "Choice",
    "CosSin",
    "Counted",
    "Packed",
    "Positions",
    "Rerotate",
    "Rotate",
    "Sides",
    "Table",
    "check_kernel",
    "report",
    "run",
]
