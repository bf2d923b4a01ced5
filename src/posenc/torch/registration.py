"""Names that are added to tables of another library, and can be taken out of them again."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any, Self

from posenc._core.errors import bad_argument

Row = tuple[MutableMapping[str, Any] | type, str, Any]  # a dictionary or class, a name, its value


class RegisteredNames:
    """Names in tables of another library, until they are removed; a context manager.

    A table is a dictionary, or a class whose attributes it is. A name that another value has is
    refused before anything is written, and a name that has this value already belongs to whoever
    added it.
    """

    def __init__(self, rows: Iterable[Row], caller: str) -> None:
        rows = list(rows)
        for table, name, value in rows:
            if _value(table, name) not in (None, value):
                todo = "Nothing was registered: choose another name."
                raise bad_argument(caller, "a name that is free", repr(name), todo)
        self._rows = [row for row in rows if _value(*row[:2]) is None]
        for table, name, value in self._rows:
            if isinstance(table, type):
                setattr(table, name, value)
            else:
                table[name] = value

    def remove(self) -> None:
        """Take the names out again, where they still have the values that they were given."""
        for table, name, value in self._rows:
            if _value(table, name) is not value:
                continue
            if isinstance(table, type):
                delattr(table, name)
            else:
                del table[name]
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _value(table: MutableMapping[str, Any] | type, name: str) -> Any:
    return vars(table).get(name) if isinstance(table, type) else table.get(name)
