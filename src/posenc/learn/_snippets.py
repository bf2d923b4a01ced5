"""Code that is shown as it ran: statements of the content files, and what they print."""

from __future__ import annotations

import ast
import itertools
import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import posenc
from posenc._core.errors import DataError, mismatch

# What snippets may import, and how they write it.
MODULES: dict[str, tuple[ModuleType, str]] = {
    "itertools": (itertools, "import itertools"),
    "math": (math, "import math"),
    "np": (np, "import numpy as np"),
    "posenc": (posenc, "import posenc"),
}


class Transcript(NamedTuple):
    """Statements and what each printed, in the form that `doctest` reads.

    Parameters
    ----------
    steps : tuple of (str, str)
        Source and output of each statement.
    """

    steps: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        lines: list[str] = []
        for source, output in self.steps:
            first, *rest = source.splitlines()
            lines.append(f">>> {first}")
            lines += [f"... {line}".rstrip() for line in rest]
            lines += [line or "<BLANKLINE>" for line in output.splitlines()]
        return "\n".join(lines)


def fresh() -> dict[str, Any]:
    """A namespace in which nothing has been imported."""
    return {"__builtins__": __builtins__}


def run(source: str, namespace: dict[str, Any], caller: str) -> Transcript:
    """Run statements one by one, and keep what each would print at a prompt."""
    source = source.strip("\n")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise DataError(mismatch(caller, "Python", f"{error}")) from error
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - namespace.keys()
    steps = [(line, "") for name, (_, line) in MODULES.items() if name in used]
    namespace |= {name: module for name, (module, _) in MODULES.items() if name in used}
    lines = source.splitlines()
    for node in tree.body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        try:
            steps.append((text, _output(node, namespace)))
        except Exception as error:
            raise DataError(
                mismatch(caller, "code that runs", f"{type(error).__name__}: {error}, from\n{text}")
            ) from error
    return Transcript(tuple(steps))


def evaluate(expression: str, namespace: dict[str, Any], caller: str) -> Any:
    """The value of an expression, plain where it is a NumPy scalar."""
    names = {name: module for name, (module, _) in MODULES.items()} | namespace
    try:
        # The expressions are those of this package's own files.
        value = eval(expression, names)  # noqa: S307
    except Exception as error:
        received = f"{type(error).__name__}: {error}, from {expression}"
        raise DataError(mismatch(caller, "an expression that has a value", received)) from error
    return value.item() if isinstance(value, np.generic) else value


def _output(node: ast.stmt, namespace: dict[str, Any]) -> str:
    """What a statement prints; nothing of the process is redirected, as other threads print too."""
    printed: list[str] = []
    namespace["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    try:
        if isinstance(node, ast.Expr):
            # The statements are those of this package's own files.
            value = eval(compile(ast.Expression(node.value), "<learn>", "eval"), namespace)  # noqa: S307
            if value is not None:
                printed.append(repr(value))
        else:
            exec(compile(ast.Module([node], []), "<learn>", "exec"), namespace)  # noqa: S102
    finally:
        del namespace["print"]
    return "\n".join(printed)
