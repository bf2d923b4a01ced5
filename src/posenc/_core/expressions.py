"""Arithmetic in texts, of rows and of scenes: a few operators and functions, and no code is run."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from posenc._core.errors import bad_argument

_OPERATORS: dict[type[ast.operator | ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.Is: operator.is_,
}


def _root(value: float) -> float:
    if value < 0:
        raise ArithmeticError("a negative number has no root")
    return math.sqrt(value)


CALLS: dict[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "round": round,
    "isqrt": lambda value: math.isqrt(int(value)) if value >= 0 else _root(value),
    "sqrt": _root,
}
_NODES = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare, ast.IfExp,
    ast.Call, ast.UnaryOp, ast.USub, ast.Load, *_OPERATORS,
)  # fmt: skip
LARGEST_POWER = 64  # of two, the only base: halvings from stage to stage


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> ast.expr:
    """A text as `evaluate` takes it."""
    return ast.parse(text, mode="eval").body


def is_expression(text: str) -> bool:
    """Whether a text holds nothing but what can be evaluated."""
    try:
        return all(isinstance(node, _NODES) for node in ast.walk(parsed(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def evaluate(
    node: ast.expr,
    item: Callable[[ast.Name | ast.Attribute | ast.Subscript], Any],
    calls: Mapping[str, Callable[..., Any]] = CALLS,
) -> Any:
    """The value of a parsed expression; `item` gives that of a name, `name.part` or `name[i]`."""

    def value(inner: ast.expr) -> Any:
        return evaluate(inner, item, calls)

    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, NoneType)):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return item(node)
    if isinstance(node, ast.BinOp) and _is_power(node):
        power = value(node.right)
        return 1 << power if 0 <= power <= LARGEST_POWER else math.inf
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](value(node.left), value(node.right))
    if isinstance(node, ast.Compare) and [type(op) in _OPERATORS for op in node.ops] == [True]:
        return _OPERATORS[type(node.ops[0])](value(node.left), value(node.comparators[0]))
    if isinstance(node, ast.IfExp):
        return value(node.body if value(node.test) else node.orelse)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in calls:
        return calls[node.func.id](*map(value, node.args))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    raise ValueError(f"{ast.unparse(node)!r} is no expression of a row")


def numbers(
    text: str,
    shape: tuple[int, ...],
    item: Callable[[ast.Name | ast.Attribute | ast.Subscript], Any],
    calls: Mapping[str, Callable[..., Any]],
    caller: str,
) -> np.ndarray:
    """The finite numbers of a text in a shape, or `ArgumentError` with the reason."""
    reason = "infinity, or not a number"
    try:
        with np.errstate(divide="raise", invalid="raise"):
            value = np.broadcast_to(evaluate(parsed(text), item, calls), shape)
        if np.isfinite(value).all():
            return value
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
    raise bad_argument(caller, f"numbers of {text!r}", reason)


def _is_power(node: ast.BinOp) -> bool:
    """Whether an expression is a power of two, and not a sum or product that begins with one."""
    return isinstance(node.op, ast.Pow) and getattr(node.left, "value", None) == 2
