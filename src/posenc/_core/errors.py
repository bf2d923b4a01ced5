"""The exceptions of posenc. Every message says who, what was expected, what came, and what to do.

    PosencError
    ├── SpecError        (ValueError)   a spec that cannot exist: a bad field, name, or combination
    ├── ArgumentError    (ValueError)   an argument of a verb or module that does not fit its spec
    │   └── KeywordError (TypeError)    an argument that a function or spec does not have, or lacks
    ├── DTypeError       (TypeError)    positions or arrays of a dtype that would give wrong numbers
    ├── PositionError    (IndexError)   a position outside what can be computed exactly
    ├── DependencyError  (ImportError)  an optional package that a call needs is absent
    ├── EndedError       (RuntimeError) code of others that ended the process, or would have
    └── DataError        (ValueError)   a file whose contents are not what they claim

Each is also the built-in error in parentheses, so code that catches that one catches ours.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Any

from posenc._names import HOMES

NEGATION = re.compile(r"^(un|de|dis|non|not|no|inverse|inv)_?(?=\w{4})")


class PosencError(Exception):
    """Base of every error raised on purpose by posenc."""

    __module__ = "posenc"

    def __init_subclass__(cls) -> None:
        if cls.__name__ in HOMES:  # a traceback shows where users find it
            cls.__module__ = "posenc"


class SpecError(PosencError, ValueError):
    """A spec that cannot exist: a bad field, an unknown name, or an impossible combination."""


class ArgumentError(PosencError, ValueError):
    """An argument of a verb or module that does not fit its spec or its neighbours."""


class KeywordError(ArgumentError, TypeError):
    """An argument that a function or spec does not have, one too many, or one that is missing."""


class DTypeError(PosencError, TypeError):
    """An array whose dtype would give wrong numbers, such as positions in half precision."""


class PositionError(PosencError, IndexError):
    """A position outside the range that can be computed."""


class DependencyError(PosencError, ImportError):
    """An optional package that the call needs is not installed."""


class EndedError(PosencError, RuntimeError):
    """Code of others that was asked, and ended the process instead of answering."""


class DataError(PosencError, ValueError):
    """A file or array whose contents are not what they claim to be."""


def mismatch(caller: str, expected: str, received: object, todo: str = "") -> str:
    """One sentence in the house form: who, what was expected, what came, what to do."""
    text = f"{caller}: expected {expected}, got {received}"
    return f"{text}. {todo}" if todo else text


def bad_spec(caller: str, expected: str, received: object, todo: str = "") -> SpecError:
    """A `SpecError` in the words of `mismatch`."""
    return SpecError(mismatch(caller, expected, received, todo))


def bad_argument(caller: str, expected: str, received: object, todo: str = "") -> ArgumentError:
    """An `ArgumentError` in the words of `mismatch`."""
    return ArgumentError(mismatch(caller, expected, received, todo))


def bad_dtype(caller: str, expected: str, received: object, todo: str = "") -> DTypeError:
    """A `DTypeError` in the words of `mismatch`."""
    return DTypeError(mismatch(caller, expected, received, todo))


def bad_position(caller: str, expected: str, received: object, todo: str = "") -> PositionError:
    """A `PositionError` in the words of `mismatch`."""
    return PositionError(mismatch(caller, expected, received, todo))


def bad_data(caller: str, expected: str, received: object, todo: str = "") -> DataError:
    """A `DataError` in the words of `mismatch`."""
    return DataError(mismatch(caller, expected, received, todo))


def refuse_data(
    wrong: object, caller: str, expected: str, received: object, todo: str = ""
) -> None:
    """Raise `DataError` where data are not as expected, in the words of `bad_data`."""
    if wrong:
        raise bad_data(caller, expected, received, todo)


def refuse_argument(
    wrong: object, caller: str, expected: str, received: object, todo: str = ""
) -> None:
    """Raise `ArgumentError` where one is not as expected, in the words of `bad_argument`."""
    if wrong:
        raise bad_argument(caller, expected, received, todo)


def refuse(*rows: tuple[Any, ...]) -> None:
    """Raise for the first row that `refuse_argument` raises for."""
    for row in rows:
        refuse_argument(*row)


def printed(text: str) -> str:
    """The text with escapes of Python in place of what moves a cursor or cannot be printed."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def suggest(name: object, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`Did you mean 'x'?`, or the list of valid names when nothing is close."""
    names = sorted({*choices})
    near = closest(name, names, cutoff=cutoff)
    if near:
        return f"Did you mean {near!r}?"
    more = f", and {len(names) - 20} more" if len(names) > 40 else ""
    return f"Known: {', '.join(names[:20] if more else names)}{more}." if names else ""


def closest(name: object, choices: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The name that is nearest in letters, whatever their case, if one is near."""
    word = str(name).lower()
    opposite = NEGATION.sub("", word)  # `unrotate` is not `rotate`
    folded = {c.lower(): c for c in sorted(choices) if c.lower() != opposite or opposite == word}
    close = difflib.get_close_matches(word, folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def one_of(value: str, choices: Collection[str], caller: str, expected: str = "") -> None:
    """Raise `ArgumentError` where a word is none of the choices, which `expected` sums up."""
    if value not in choices:
        words = expected or " or ".join(choices)
        raise bad_argument(caller, words, repr(value), suggest(value, choices))
