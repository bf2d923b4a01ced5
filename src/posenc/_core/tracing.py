"""What torch's compiler is told of our Python, without importing torch or its compiler.

Dynamo follows Python line by line. What it cannot follow (decimal arithmetic, annotations) runs
once while it traces, and the graph is made for the result.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def outside(function: F) -> F:
    """Mark a function that Dynamo calls while it traces, in place of following it.

    `torch.compiler.assume_constant_result` sets the same attribute, but imports Dynamo. Arguments
    are constants or objects, on whose identity the compiled code then depends; results are tensors,
    numbers and texts. `compile_time` is for all other results.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_compiling() -> bool:
    """Whether torch traces: a comparison with a length would become a condition of the graph."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def is_followed() -> bool:
    """Whether Dynamo reads this line, rather than Python."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def unseen(function: Callable[..., T], *args: Any) -> T:
    """Call a function whose frames Dynamo is to leave alone, where a graph was broken before."""
    disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
    return function(*args) if disable is None else disable(function)(*args)


# --- what is made while Dynamo traces ------------------------------------------------------------

# What compiled code refers to, by name, as its guards want a place that they can look at again.
# It has one entry for each set of constants that a compiled function passes, and none for a call.
RESULTS = SimpleNamespace()
_names: dict[Any, str] = {}
_functions: list[
    Callable[..., Any]
] = []  # Dynamo hands over a number, where it may keep a function


class Refused(NamedTuple):
    """An error that a function raised, to be raised where the compiler expects one."""

    kind: type[Exception]
    text: str


def compile_time(function: F) -> F:
    """A function of constants, which Dynamo calls once, while it traces, and does not follow.

    Constants are numbers, texts, specs, and tuples or lists of them, which arrive as tuples. A
    number that Dynamo would leave open is fixed: another one compiles anew. The result is the same
    object for the same constants, and is not to be written to.
    """
    number = len(_functions)
    _functions.append(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not is_followed():
            return function(*args, **kwargs)
        items: list[Any] = []
        form = _taken_apart((args, tuple(kwargs.values())), items)
        result = getattr(RESULTS, _named(number, tuple(kwargs), form, *items))
        if isinstance(result, Refused):
            raise result.kind(result.text)
        return result

    return cast("F", called)


def _taken_apart(value: Any, items: list[Any]) -> Any:
    """The shape of nested tuples; their leaves go to `items`. Dynamo hands over no tuple whole."""
    if isinstance(value, (tuple, list)):
        return tuple([_taken_apart(item, items) for item in value])
    # A number that Dynamo would leave open is fixed by asking for its index, or its digits.
    if isinstance(value, float):
        value = float.fromhex(value.hex())
    elif isinstance(value, int) and not isinstance(value, bool):
        value = operator.index(value)
    items.append(value)
    return None


def _put_together(form: Any, items: Iterator[Any]) -> Any:
    return next(items) if form is None else tuple(_put_together(part, items) for part in form)


@outside
def _named(number: int, names: tuple[str, ...], form: Any, *items: Any) -> str:
    key: Any = (number, names, form, items, tuple(map(type, items)))
    try:
        name = _names.get(key)
    except TypeError:  # something that cannot be looked up, such as an array
        name = key = None
    if name is None:
        args, rest = _put_together(form, iter(items))
        function = _functions[number]
        name = f"{function.__name__}_{len(vars(RESULTS))}"
        try:
            result = function(*args, **dict(zip(names, rest, strict=True)))
        except (ValueError, TypeError) as error:  # as all of ours are
            result = Refused(type(error), str(error))
        setattr(RESULTS, name, result)
        if key is not None:
            _names[key] = name
    return name
