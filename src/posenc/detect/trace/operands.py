"""Queries and keys as (…, tokens, channels), from the operands of whatever product they met in."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor


class Operands(NamedTuple):
    """Both operands as rows of channels that are summed, and how their product is laid out."""

    one: Tensor  # (…, tokens, channels)
    other: Tensor
    order: tuple[int, ...] = ()  # axes of the product as (…, tokens of one, of the other)


def arranged(name: str, args: Any, one: Tensor, other: Tensor) -> Operands:
    """Both operands of a product, as (…, tokens, channels)."""
    if name == "einsum":
        return _of_equation(str(args[0]), one, other)
    if name == "__rmatmul__":
        one, other = other, one
    return Operands(one, other.transpose(-1, -2) if other.ndim > 1 else other[None])


def _of_equation(equation: str, one: Tensor, other: Tensor) -> Operands:
    inputs, _, output = equation.replace(" ", "").partition("->")
    a, b = inputs.split(",")
    if "..." in a or "..." in b:
        more = one.ndim - len(a.replace("...", ""))
        letters = "ABCDEFGH"[:more]
        a, b, output = (part.replace("...", letters) for part in (a, b, output))
    summed = [c for c in a if c in b and c not in output]
    shared = [c for c in output if c in a and c in b]
    rows, columns = ([c for c in own if c not in rest] for own, rest in ((a, b), (b, a)))
    return Operands(
        _permuted(one, a, [*shared, *rows, *summed]),
        _permuted(other, b, [*shared, *columns, *summed]),
        tuple(output.index(c) for c in (*shared, *rows, *columns) if c in output),
    )


def _permuted(tensor: Tensor, letters: str, wanted: list[str]) -> Tensor:
    return tensor.permute([letters.index(c) for c in wanted])
