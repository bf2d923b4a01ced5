"""Which classes of other packages JSON can rebuild, and why not the others."""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from posenc._core.spec.spec import Spec, Value

# What a kind reads of a spec, beside its methods.
SIZES = {
    "table": ("dim",),
    "rotary": ("dim", "pairing"),
    "bias": ("heads",),
    "relative": ("dim",),
}


def why_no_json(candidate: Any) -> str:
    """Why what a class makes could not be written to JSON and rebuilt; empty where it can be."""
    if not (isinstance(candidate, type) and issubclass(candidate, Value)):
        return (
            "it is no class of a kind of encodings or values: inherit from "
            "posenc.encodings.api.TableSpec, RotarySpec, BiasSpec or Value"
        )
    cls: Any = candidate
    if "__dataclass_fields__" not in vars(cls):
        return "it is no dataclass itself"
    settings = cls.__dataclass_params__
    if not (settings.frozen and settings.eq) or "__slots__" in vars(cls):
        return "it is not @dataclass(frozen=True), without slots and with equality"
    final = next((base for base in cls.__mro__[1:] if getattr(base, "__final__", False)), None)
    if final is not None:
        return f"{final.__name__} is final: kernels know it by its class. Hold one in a field"
    if inspect.isabstract(cls):
        return f"it lacks {', '.join(sorted(cls.__abstractmethods__))}"
    needs = getattr(getattr(cls, "phasors", None), "needs", "")  # of a rotation's own default
    if needs and not hasattr(cls, needs):
        return f"it lacks phasors, or a {needs} that has them"
    try:
        hints = get_type_hints(cls)
    except NameError as error:
        return f"an annotation cannot be resolved ({error})"
    kind: Any = getattr(cls, "kind", None)
    if issubclass(cls, Spec) and kind not in SIZES:
        return f"its kind is {kind!r}, none of {', '.join(SIZES)}"
    fields = dataclasses.fields(cls)
    for name in SIZES[kind] if issubclass(cls, Spec) else ():
        if name not in [field.name for field in fields] and not hasattr(cls, name):
            return f"it lacks {name}"
    for field in fields:
        if not field.init:
            return f"the field {field.name!r} is no argument"
        if field.name in RESERVED or _hides(cls, field.name):
            return f"the field {field.name!r} hides what that name means in every encoding"
        if not _is_plain(hints[field.name]):
            return (
                f"{field.name} is annotated {field.type}, but JSON has numbers, texts, Literal, "
                "tuples and values"
            )
    return ""


RESERVED = ("type", *Spec.__annotations__)


def _hides(cls: type, name: str) -> bool:
    """Whether a base has something else by the name of a field, which would be its default."""
    return any(
        name in vars(base) and name not in vars(base).get("__dataclass_fields__", ())
        for base in cls.__mro__[1:]
    )


def _is_plain(hint: Any) -> bool:
    """Whether JSON can hold all that an annotation allows, and `_fit` understands it."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return all(isinstance(choice, (bool, int, str)) for choice in inside)
    if origin in (Union, types.UnionType, tuple):
        return inside != () and all(_is_plain(arg) for arg in inside if arg is not Ellipsis)
    plain = (bool, int, float, str, types.NoneType)
    return hint in plain or (isinstance(hint, type) and issubclass(hint, Value))


def values_inside(cls: type[Value]) -> set[type[Value]]:
    """The classes of values that the fields of a class hold, but for those that are only bases."""

    def inside(hint: Any) -> set[type[Value]]:
        if isinstance(hint, type):
            return {hint} if issubclass(hint, Value) and dataclasses.is_dataclass(hint) else set()
        return set().union(*(inside(arg) for arg in get_args(hint)))

    hints = get_type_hints(cls)
    return set().union(
        *(inside(hints[field.name]) for field in dataclasses.fields(cls))  # type: ignore[arg-type]
    )
