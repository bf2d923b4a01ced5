"""Kernels: other ways to compute what the array engine computes, and the choice between them.

    reference   the array engine of `_core` and `encodings`: the specification; runs everywhere
    cpu         compiled C++ for NumPy arrays and torch tensors in memory
    triton      Triton for torch tensors on a GPU

A kernel gives the reference's numbers within its stated bound, or says why it does not run.
`functional` is the only caller.
"""

from posenc.kernels.registry import KERNELS, Candidate, report, serve
from posenc.kernels.requests import Add, Bias, CosSin, Counted, Packed, Rotate, Table

__all__ = [
    "KERNELS",
    "Add",
    "Bias",
    "Candidate",
    "CosSin",
    "Counted",
    "Packed",
    "Rotate",
    "Table",
    "report",
    "serve",
]
