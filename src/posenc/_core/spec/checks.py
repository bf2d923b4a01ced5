"""Checks that the fields of many specs share, with one wording for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from posenc._core.errors import bad_spec

MOST_NUMBERS = 2**22


def _each(
    caller: str,
    fields: Mapping[str, Any],
    fits: Callable[[Any], bool],
    expected: str,
    todo: str = "",
) -> None:
    """Raise `SpecError` for the first field whose value does not fit."""
    for name, value in fields.items():
        if not fits(value):
            raise bad_spec(f"{caller}: {name}", expected, value, todo)


def positive(caller: str, expected: str = "a positive number", /, **numbers: float) -> None:
    """Raise `SpecError` where a number is not above 0."""
    _each(caller, numbers, lambda value: value > 0, expected)


def at_least(caller: str, least: int = 1, /, **numbers: float) -> None:
    """Raise `SpecError` where a number is below the least."""
    _each(caller, numbers, lambda value: value >= least, f"at least {least}")


def width_of(caller: str, least: int = 1, /, **widths: int) -> None:
    """Raise `SpecError` where a width is below the least."""
    _each(caller, widths, lambda value: value >= least, f"a width of at least {least}")


def even_width(caller: str, least: int = 2, todo: str = "", /, **widths: int) -> None:
    """Raise `SpecError` where a width is odd or below the least."""
    expected = f"an even width of at least {least}"
    _each(caller, widths, lambda value: value >= least and value % 2 == 0, expected, todo)


def distinct(
    caller: str, expected: str = "distinct names, at least one", /, **names: tuple[str, ...]
) -> None:
    """Raise `SpecError` where names repeat or there are none."""
    _each(caller, names, lambda value: 0 < len(value) == len({*value}), expected)


def not_too_many(caller: str, what: str, count: int, most: int = MOST_NUMBERS, /) -> None:
    """Raise `SpecError` where a spec would work out more constants than anybody has use for.

    Specs are read from files of strangers, and work their constants out when they are made.

    Parameters
    ----------
    caller : str
        The class.
    what : str
        What there would be too many of.
    count, most : int
        How many there would be, and how many there may be: 2**22 by default.
    """
    if count > most:
        raise bad_spec(caller, f"at most {most} {what}", count)
