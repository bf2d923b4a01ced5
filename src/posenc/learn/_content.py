"""What content files are made of: chance, sentences with named values, and code as it ran.

Chance is the same on every machine and in every version of Python.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
import numbers
import string
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

import posenc
from posenc._core.errors import bad_data, suggest

T = TypeVar("T")


class Draw:
    """A stream of choices that its key alone decides.

    word[i] = SHA-256(key, i)
    """

    def __init__(self, *key: object) -> None:
        self._key = "\0".join(map(str, key)).encode()
        self._count = 0

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1; the bias of the remainder is below n / 2**256."""
        self._count += 1
        word = hashlib.sha256(self._key + b"\0" + str(self._count).encode()).digest()
        return int.from_bytes(word, "big") % n

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


MINUS = "\N{MINUS SIGN}"


class _Filler(string.Formatter):
    """Plain names only, and numbers with the sign that the reader's medium has."""

    def __init__(self, values: Mapping[str, Any], signs: str, caller: str) -> None:
        self.values, self.signs, self.caller = values, signs, caller

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ARG002
        if field_name not in self.values:
            raise bad_data(
                self.caller,
                "names of facts",
                repr(field_name),
                suggest(field_name, self.values) if self.values else "",
            )
        return self.values[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        text = str(format(value, format_spec))
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return text.replace("-", MINUS) if number and self.signs == "typeset" else text


def fill(
    template: str,
    values: Mapping[str, Any],
    caller: str,
    signs: Literal["typeset", "plain"] = "typeset",
) -> str:
    """The sentences with the values in them."""
    try:
        return _Filler(values, signs, caller).vformat(template, (), {}).strip("\n")
    except ValueError as error:
        raise bad_data(caller, "formats that fit", f"{error} in {template!r}") from error


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
        raise bad_data(caller, "Python", f"{error}") from error
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - namespace.keys()
    steps = [(line, "") for name, (_, line) in MODULES.items() if name in used]
    namespace |= {name: module for name, (module, _) in MODULES.items() if name in used}
    lines = source.splitlines()
    for node in tree.body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        try:
            steps.append((text, _output(node, namespace)))
        except Exception as error:
            raise bad_data(
                caller, "code that runs", f"{type(error).__name__}: {error}, from\n{text}"
            ) from error
    return Transcript(tuple(steps))


def evaluate(expression: str, namespace: dict[str, Any], caller: str) -> Any:
    """The value of an expression, plain where it is a NumPy scalar."""
    names = {name: module for name, (module, _) in MODULES.items()} | namespace
    try:
        # The expressions are those of this package's own files.
        value = eval(expression, names)  # noqa: S307
    except Exception as error:
        raise bad_data(
            caller,
            "an expression that has a value",
            f"{type(error).__name__}: {error}, from {expression}",
        ) from error
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
