"""Arguments beside the annotations of a function: which of them cannot be meant, in words.

Switches, words and numbers that come by name are looked at before a call, as any value passes for
true, a misspelt word for the other one, and half a position for a position. All else is looked at
only where a call failed in the words of another library.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import math
import operator
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from posenc._core.errors import bad_argument, closest

ARRAYS = ("Array", "X", "Tensor")  # annotations of arrays of any library
MOST = 2**40  # positions, or numbers of anything, at once: no memory has room for more
NUMBERS: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: abs(operator.index(value)) < MOST,
    float: lambda value: math.isnan(value) or True,
}
TEXTS = (bool, np.bool_, str, bytes, complex, types.NoneType, list, tuple, Mapping)
WRONG = {int: (*TEXTS, float, np.floating), float: TEXTS}  # what is none at first sight
KINDS: dict[Any, Any] = {
    bool: (bool, np.bool_),
    str: str,
    types.NoneType: types.NoneType,
    Mapping: Mapping,
    tuple: Iterable,
    Sequence: Iterable,
}


WORDS: dict[Any, str] = {
    types.NoneType: "None",
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "True or False",
    np.ndarray: "an array",
}


def options_of(hint: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation, in its order: equal ones of `Literal` may have another."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def words_of(hint: Any) -> str:
    """What an annotation allows, in words."""
    options: list[str] = []
    for option in options_of(hint):
        origin = get_origin(option)
        if origin is Literal:
            options.extend(repr(choice) for choice in get_args(option))
        elif origin is tuple:
            args = get_args(option)
            several = "a tuple of" if args[-1] is Ellipsis else len(args)
            options.append(f"{several} {words_of(args[0])}")
        else:
            name = getattr(option, "__name__", str(option))
            options.append(WORDS.get(option, f"{'an' if name[0] in 'AEIO' else 'a'} {name}"))
    return " or ".join(options)


def show(value: object, most: int = 80) -> str:
    """A value as an error shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


class _Names(dict[str, Any]):
    """Names that annotations may have; what only a type checker imports stands for anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function by its arguments, those of arrays as `numpy.ndarray`."""
    own = getattr(function, "__globals__", {})
    names = _Names(vars(builtins) | own | dict.fromkeys(ARRAYS, np.ndarray))
    return inspect.get_annotations(function, eval_str=True, locals=names)


def choices_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any, Any]]:
    """The types and words of the arguments that are switches, words or numbers, and the hint.

    Worked out where a function is defined, as Dynamo, which follows its calls, cannot read this.
    Kernels and axes are looked at where they are used, as the direct way of one token is short.
    """
    narrow = {Literal, *NUMBERS, *KINDS}
    return {
        name: (
            options_of(hint),
            [word for option in options_of(hint) for word in get_args(option)],
            hint,
        )
        for name, hint in hints_of(function).items()
        if {get_origin(o) or o for o in options_of(hint)} <= narrow - {str, Mapping, tuple}
        and not (
            name in ("return", "kernel", "seq_dim")
            or any(get_origin(option) is Sequence for option in options_of(hint))
        )
    }


def _fits(value: Any, hint: Any, failed: bool) -> bool:
    """Whether a value may be meant where an annotation has one alternative.

    Before the call a number of another library is not asked for its value, which a tracer has not.
    """
    kind = get_origin(hint) or hint
    if kind is Literal:
        # A text of NumPy or of an enumeration is a text, too; True is no 1.
        alike = str if isinstance(value, str) else type(value)
        return any(type(one) is alike and value == one for one in get_args(hint))
    if kind is np.ndarray:
        return hasattr(value, "dtype") and hasattr(value, "shape")
    if kind not in NUMBERS:
        return kind not in KINDS or isinstance(value, KINDS[kind])
    with contextlib.suppress(Exception):  # arrays of any library say no in words of their own
        fits = not isinstance(value, bool if failed else WRONG[kind])
        return fits and (not failed or NUMBERS[kind](value))
    return False


def check_values(
    caller: str, values: Mapping[str, tuple[Any, Any]], *, failed: bool = False
) -> None:
    """Raise for the first value that its annotation, beside it, does not allow."""
    for name, (value, hint) in values.items():
        if not any(_fits(value, option, failed) for option in options_of(hint)):
            words = [w for each in options_of(hint) for w in get_args(each)]
            near = closest(value, [word for word in words if isinstance(word, str)])
            spoken = isinstance(value, (str, int, float, types.NoneType))
            came = show(value) if spoken else f"a value of type {type(value).__name__}"
            todo = f"Did you mean {near!r}?" if near and isinstance(value, str) else ""
            todo = "It is too large." if type(value) is int and int in options_of(hint) else todo
            raise bad_argument(f"{caller}: {name}", words_of(hint), came, todo)
