"""Checks that the fields of many specs share, with one wording for each."""

from __future__ import annotations

from posenc._core.errors import bad_spec

MOST_NUMBERS = 2**22


def positive(caller: str, expected: str = "a positive number", /, **numbers: float) -> None:
    """Raise `SpecError` where a number is not above 0."""
    for name, value in numbers.items():
        if value <= 0:
            raise bad_spec(f"{caller}: {name}", expected, value)


def at_least(caller: str, least: int = 1, /, **numbers: float) -> None:
    """Raise `SpecError` where a number is below the least."""
    for name, value in numbers.items():
        if value < least:
            raise bad_spec(f"{caller}: {name}", f"at least {least}", value)


def width_of(caller: str, least: int = 1, /, **widths: int) -> None:
    """Raise `SpecError` where a width is below the least."""
    for name, value in widths.items():
        if value < least:
            raise bad_spec(f"{caller}: {name}", f"a width of at least {least}", value)


def even_width(caller: str, least: int = 2, todo: str = "", /, **widths: int) -> None:
    """Raise `SpecError` where a width is odd or below the least."""
    for name, value in widths.items():
        if value < least or value % 2:
            raise bad_spec(f"{caller}: {name}", f"an even width of at least {least}", value, todo)


def distinct(
    caller: str, expected: str = "distinct names, at least one", /, **names: tuple[str, ...]
) -> None:
    """Raise `SpecError` where names repeat or there are none."""
    for name, value in names.items():
        if not value or len(set(value)) != len(value):
            raise bad_spec(f"{caller}: {name}", expected, value)


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
