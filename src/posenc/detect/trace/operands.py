"""Queries and keys as (…, tokens, channels), from the operands of whatever product they met in."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def arranged(name: str, args: Any, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands as rows of channels that are summed: (…, tokens, channels)."""
    if name in ("einsum",):
        return _of_equation(str(args[0]), one, other)
    if name == "__rmatmul__":
        one, other = other, one
    return one, other.transpose(-1, -2) if other.ndim > 1 else other[None]


def _of_equation(equation: str, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    inputs, _, output = equation.replace(" ", "").partition("->")
    a, b = inputs.split(",")
    if "..." in a or "..." in b:
        more = one.ndim - len(a.replace("...", ""))
        letters = "ABCDEFGH"[:more]
        a, b, output = (part.replace("...", letters) for part in (a, b, output))
    summed = [c for c in a if c in b and c not in output]
    shared = [c for c in output if c in a and c in b]
    rows = [c for c in a if c not in b], [c for c in b if c not in a]
    return tuple(  # type: ignore[return-value]
        _permuted(tensor, letters, [*shared, *own, *summed])
        for tensor, letters, own in ((one, a, rows[0]), (other, b, rows[1]))
    )


def _permuted(tensor: Tensor, letters: str, wanted: list[str]) -> Tensor:
    return tensor.permute([letters.index(c) for c in wanted])
