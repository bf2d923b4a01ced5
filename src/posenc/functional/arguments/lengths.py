"""What a length makes of a rotation whose frequencies depend on it.

A length is a number, or an array whose value a compiler or a device keeps to itself. Of a rule with
two sets of frequencies (LongRoPE) both are then formed, and the array chooses, so that a sequence
passes from one to the other inside of one graph.
"""

from __future__ import annotations

from typing import Any

from posenc._core.arrays.array import concrete, dtype_name, is_array, is_symbolic, is_torch
from posenc._core.errors import ArgumentError, DTypeError, mismatch
from posenc._core.tracing import is_compiling, is_followed
from posenc.encodings.rotary.base import RotarySpec
from posenc.functional.arguments.common import Array, name_of, require, wrong_shape
from posenc.kernels import Choice


def at_length(spec: RotarySpec, length: Any, verb: str) -> tuple[RotarySpec, Choice | None]:
    """The spec for a length, where it depends on one; and which other one it may turn out to be."""
    require(spec, RotarySpec, verb)
    if not spec.needs_length:
        return spec, None
    if type(length) is int and length >= 1 and not is_followed():
        return spec.at(length), None  # decoding comes this way for each token
    caller = f"{verb}({name_of(spec)})"
    if length is None:
        todo = (
            "Pass the length of the sequence, cached tokens included, or fix it: spec.at(length)."
        )
        expected = "`length=`, on which its frequencies depend"
        raise ArgumentError(mismatch(caller, expected, None, todo))
    if is_array(length):
        length = _number(length, f"{caller}: length")
    first, last = spec.lengths or (1, None)
    two = last == first + 1
    left_open = is_array(length) or is_symbolic(length)
    if is_followed() and not left_open and two:
        left_open = _left_open(length, first)
    if not left_open:
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            expected = "a number of positions, at least 1"
            raise ArgumentError(mismatch(f"{caller}: length", expected, repr(length)))
        return spec.at(length), None
    if two:
        short, long = spec.at(first), spec.at(first + 1)
        return short, Choice(short, long, length, first)
    expected = f"a number, as each length beyond {first} has frequencies of its own"
    todo = "Choose one length outside of the compiled graph: spec.at(length)."
    received = f"a {type(length).__name__} whose value is not known here"
    raise ArgumentError(mismatch(f"{caller}: length", expected, received, todo))


def _number(length: Array, caller: str) -> int | Array:
    """The value of an array, or the array where that is not to be looked at."""
    name = dtype_name(length.dtype)
    if not name.startswith(("int", "uint")):
        raise DTypeError(mismatch(caller, "an integer", name))
    if len(length.shape) != 0:
        todo = "All rows of a batch share one length."
        raise wrong_shape(caller, "one number, of shape ()", length, todo)
    if is_torch(length) and _followed():
        return length
    value = concrete(length)
    return length if value is None else int(value)


def _left_open(length: int, last: int) -> bool:
    """Whether Dynamo, which calls every number an int, does not know on which side a length is."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return not (statically_known_true(length > last) or statically_known_true(length <= last))


def _followed() -> bool:
    """Whether a tracer of torch would take the value of a tensor for a constant."""
    if is_compiling():
        return True
    from posenc.kernels.torch.state import followed

    return followed() is not None
