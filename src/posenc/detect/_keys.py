"""A view of a config that remembers which keys were read."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["Keys"]

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_CALLS: dict[str, Callable[..., Any]] = {"max": max, "min": min}


class Keys:
    """A dictionary of a config, and the keys of it that were read."""

    def __init__(self, data: Mapping[str, Any], path: str = "") -> None:
        self.data = data
        self.path = path
        self.read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def get(self, key: str) -> Any:
        """The value of a key, None where it is absent or null."""
        if key in self.data:
            self.read.add(key)
        return self.data.get(key)

    def number(self, key: str) -> float | None:
        """The value of a key if it is a finite number."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if math.isfinite(value) else None

    def integer(self, key: str) -> int | None:
        """The value of a key if it is a whole number."""
        value = self.number(key)
        return None if value is None or value != int(value) else int(value)

    def first(self, keys: Iterable[str]) -> tuple[str, float] | None:
        """The first of some keys that holds a number."""
        for key in keys:
            value = self.number(key)
            if value is not None:
                return key, value
        return None

    def evaluate(self, expression: str) -> float | None:
        """A number from an expression in keys: `hidden_size // num_attention_heads`.

        None where a key is absent, or a division by zero leaves no number.
        """
        try:
            return self._value(ast.parse(expression, mode="eval").body)
        except (LookupError, ZeroDivisionError):
            return None

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name):
            value = self.number(node.id)
            if value is None:
                raise LookupError(node.id)
            return value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._value(node.left), self._value(node.right)
            return _OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _CALLS[node.func.id](*(self._value(argument) for argument in node.args))
        raise ValueError(f"{ast.unparse(node)!r} is no expression of a preset")

    def where(self, key: str) -> str:
        """The path of a key, for people."""
        return f"{self.path}.{key}" if self.path else key
