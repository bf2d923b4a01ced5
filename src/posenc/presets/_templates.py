"""Templates of JSON in which a number may depend on a size: `{"expression": "3*dim//16"}`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from posenc._core.errors import SpecError, mismatch

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def fill(template: Any, sizes: Mapping[str, int]) -> Any:
    """The template with each `{"expression": TEXT}` as a number."""
    if isinstance(template, Mapping):
        if set(template) == {"expression"}:
            return _number(ast.parse(template["expression"], mode="eval").body, sizes)
        return {key: fill(value, sizes) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(item, sizes) for item in template]
    return template


def _number(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _number(node.left, sizes), _number(node.right, sizes)
        return _OPERATORS[type(node.op)](left, right)
    expected = f"integers, {sorted(sizes)} and + - * //"
    raise SpecError(mismatch("presets", expected, ast.unparse(node)))
