"""What the fields of specs hold: read from annotations, fitted, told in words; and checks of them.

Each check that many specs share has one wording. A class of encodings carries an example of its
fields, from which a small one is made.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from posenc._core.annotations import options_of, show, words_of
from posenc._core.errors import bad_spec, closest, suggest
from posenc._core.foreign import value_advice

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


NUMBERS: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real}


def coerce(value: Any, hint: Any, caller: str) -> Any:
    """The value as an annotation asks for it, or an error that says what was expected."""
    for option in options_of(hint):
        fits, coerced = _fit(value, option, caller)
        if fits:
            return coerced
    inside = [c for option in options_of(hint) for c in (option, *get_args(option))]
    inside += [word for option in inside for word in get_args(option)]
    words = [c for c in inside if isinstance(c, str)]
    kinds = [c for c in inside if isinstance(c, type) and c.__module__ != "builtins"]
    todo = value_advice(value, words, kinds)
    if not todo and isinstance(value, str):
        todo = suggest(value, words) if words else _object_for(value, kinds)
    raise bad_spec(caller, words_of(hint), show(value), todo)


def _object_for(name: str, kinds: list[type]) -> str:
    """What to write where a name stands for an object: one of the kinds, or made by them."""
    names = [one.__name__ for kind in kinds for one in (kind.__subclasses__() or [kind])]
    near = closest(name, names)
    listed = ", ".join(f"{word}(…)" for word in ([near] if near else sorted(set(names))))
    return f"Give an object: {listed}." if names else ""


def _fit(value: Any, hint: Any, caller: str) -> tuple[bool, Any]:
    """Whether `value` can stand for `hint`, and the value in its canonical type."""
    origin = get_origin(hint)
    if hint is NoneType:
        return value is None, None
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(hint)), value
    if origin is tuple:
        return _fit_tuple(value, get_args(hint), caller)
    if hint is bool:
        return isinstance(value, bool), value
    kind = NUMBERS.get(hint)
    if kind is not None and (isinstance(value, bool) or not isinstance(value, kind)):
        return False, None
    if hint is int:
        return True, int(value)
    if hint is float:
        try:
            number = float(value)
        except OverflowError:
            return False, None
        if not math.isfinite(number):
            raise bad_spec(caller, "a finite number", show(value))
        return True, number
    if isinstance(hint, type):
        return isinstance(value, hint), value
    raise TypeError(f"{caller}: annotation {hint} is not one that specs understand")


def _fit_tuple(value: Any, args: tuple[Any, ...], caller: str) -> tuple[bool, Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return False, None
    items = list(value)
    hints = args[:1] * len(items) if args[1:] == (Ellipsis,) else args
    if len(items) != len(hints):
        return False, None
    result = tuple(
        coerce(item, hint, f"{caller}[{index}]")
        for index, (item, hint) in enumerate(zip(items, hints, strict=True))
    )
    same = isinstance(value, tuple) and all(a is b for a, b in zip(value, result, strict=True))
    return True, value if same else result


def texts_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Arrays as (dtype, shape, numbers in a text)."""
    return {
        key: (array.dtype.name, array.shape, " ".join(map(repr, array.ravel().tolist())))
        for key, array in arrays.items()
    }


# --- examples -------------------------------------------------------------------------------------

AROUND = "a way once around the world"
USUAL: dict[str, dict[str, Any]] = {
    "table": {"dim": 64},
    "rotary": {"dim": 64, "pairing": "half"},
    "bias": {"heads": 4},
    "relative": {"dim": 64},
}


class Example(NamedTuple):
    """How a small one of an encoding is made, and where it can stand.

    Parameters
    ----------
    fields : mapping
        Its fields, but for a width of 64, 4 heads of a bias, and the pairing of a rotation.
    points : callable, optional
        () -> positions of a picture, 64 or so of them; 0 to 63, or the cells of a grid, by default.
    where : str
        What these are, in words.
    unsuited : str
        Why it cannot stand in a sequence of tokens; empty where it can.

    Examples
    --------
    >>> import posenc
    >>> posenc.Time2Vec.example.where
    'times 0 to 8'
    >>> posenc.Quadratic.example.unsuited
    'Its positions are cells of a grid.'
    """

    fields: Mapping[str, Any] = MappingProxyType({})
    points: Callable[[], Any] | None = None
    where: str = ""
    unsuited: str = ""


def around() -> np.ndarray:
    """Longitudes and latitudes of a way once around the world, in degrees."""
    share = np.linspace(0, 1, 64)
    return np.stack([360 * share - 180, 60 * np.sin(2 * np.pi * share)], axis=-1)


def small(encoding: Any) -> Any:
    """A small one of a class of encodings: as its example says, and of a usual size."""
    fields = encoding.__dataclass_fields__
    usual = {name: value for name, value in USUAL[encoding.kind].items() if name in fields}
    return encoding(**{**usual, **encoding.example.fields})
