"""What the fields of specs hold: read from annotations, fitted, and told in words."""

from __future__ import annotations

import functools
import math
import numbers
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union

import numpy as np

from posenc._core.errors import bad_spec, closest, suggest
from posenc._core.foreign import value_advice


def coerce(value: Any, hint: Any, caller: str) -> Any:
    """The value as an annotation asks for it, or an error that says what was expected."""
    for option in _options(hint):
        fits, coerced = _fit(value, option, caller)
        if fits:
            return coerced
    inside = [c for option in _options(hint) for c in (option, *typing.get_args(option))]
    inside += [word for option in inside for word in typing.get_args(option)]
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


@functools.cache
def _options(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _fit(value: Any, hint: Any, caller: str) -> tuple[bool, Any]:
    """Whether `value` can stand for `hint`, and the value in its canonical type."""
    origin = typing.get_origin(hint)
    if hint is types.NoneType:
        return value is None, None
    if origin is Literal:
        for choice in typing.get_args(hint):
            if type(value) is type(choice) and value == choice:
                return True, value
        return False, None
    if origin is tuple:
        return _fit_tuple(value, typing.get_args(hint), caller)
    if hint is bool:
        return isinstance(value, bool), value
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False, None
        return True, int(value)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False, None
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
    repeated = len(args) == 2 and args[1] is Ellipsis
    if not repeated and len(items) != len(args):
        return False, None
    hints = [args[0]] * len(items) if repeated else list(args)
    pairs = enumerate(zip(items, hints, strict=True))
    result = tuple(coerce(item, hint, f"{caller}[{index}]") for index, (item, hint) in pairs)
    same = isinstance(value, tuple) and all(a is b for a, b in zip(value, result, strict=True))
    return True, value if same else result


def words_of(hint: Any) -> str:
    """What an annotation allows, in words."""
    options = []
    for option in _options(hint):
        origin = typing.get_origin(option)
        if option is types.NoneType:
            options.append("None")
        elif origin is Literal:
            options.extend(repr(choice) for choice in typing.get_args(option))
        elif origin is tuple:
            args = typing.get_args(option)
            inner = words_of(args[0])
            several = args[-1] is Ellipsis
            options.append(f"a tuple of {inner}" if several else f"{len(args)} {inner}")
        else:
            words = {int: "an integer", float: "a number", str: "a text", bool: "True or False"}
            name = getattr(option, "__name__", str(option))
            options.append(words.get(option, f"{'an' if name[0] in 'AEIO' else 'a'} {name}"))
    return " or ".join(options)


def show(value: object) -> str:
    """A value as an error shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def texts_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Arrays as (dtype, shape, numbers in a text)."""
    return {
        key: (array.dtype.name, array.shape, " ".join(map(repr, array.ravel().tolist())))
        for key, array in arrays.items()
    }
