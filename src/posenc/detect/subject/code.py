"""What of a target can be called: its functions, with what their arguments are by their names."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from posenc._core.errors import ArgumentError
from posenc._core.guard import foreign
from posenc.detect.subject.arrays import dtype_in, libraries_of
from posenc.detect.subject.names import Role, role_of

LONGEST = 2**17  # positions of a class that asks for their number when it is made
BASE = 10_000.0
METHODS = re.compile(r"rot|apply|call|forward|embed|encod|get|compute|cos|sin|bias|table|freq|turn")
BIASED = re.compile(r"bias|alibi|slope", re.IGNORECASE)


class CannotAsk(ArgumentError):  # noqa: N818
    """Code that no way to ask is known for: what was tried, its own error, what to hand over."""

    answered = False  # whether it answered some call, with what is no encoding
    calls = 0
    arguments = 0  # how many it needs


class OtherShape(CannotAsk):
    """An answer of another shape than that of what was asked."""


class Slot(NamedTuple):
    """An argument of a function."""

    name: str
    role: Role
    required: bool
    keyword: bool = False
    positional: bool = False


class Callee(NamedTuple):
    """Something to call."""

    function: Callable[..., Any]
    name: str
    slots: tuple[Slot, ...]
    libraries: tuple[str, ...]
    tables: Any = None  # what makes the cosines and sines that it is handed

    @property
    def layer(self) -> Any:
        """A type of layer that its buffers name, or the first layer."""
        names: Any = getattr(self.function, "named_buffers", list)()
        own = (name.removesuffix("_inv_freq") for name, _ in names if name.endswith("_inv_freq"))
        return next(own, 0)

    def has(self, *roles: str) -> bool:
        """Whether an argument has one of some roles."""
        return any(slot.role in roles for slot in self.slots)


def slots_of(function: Any) -> tuple[Slot, ...]:
    """The arguments of a function; two without names where it does not tell them."""
    if hasattr(function, "schema") and not hasattr(function, "named_buffers"):
        arguments = function.schema.arguments  # compiled by torch.jit
        return tuple(Slot(a.name, role_of(a.name), not a.has_default_value()) for a in arguments)
    inner = function if isinstance(function, type) else getattr(function, "forward", function)
    try:
        parameters = [*inspect.signature(inner).parameters.values()]
    except (TypeError, ValueError):
        parameters = [inspect.Parameter("any", inspect.Parameter.VAR_POSITIONAL)]
    slots = tuple(
        Slot(p.name, role_of(p.name), p.default is p.empty,
             p.kind is p.KEYWORD_ONLY, p.kind is p.POSITIONAL_ONLY)
        for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )  # fmt: skip
    if slots or all(p.kind is not p.VAR_POSITIONAL for p in parameters):
        return slots
    return tuple(Slot(name, "", required=True, positional=True) for name in ("first", "second"))


def name_of(target: Any) -> str:
    """How a target is called in a sentence."""
    inner = target.func if isinstance(target, functools.partial) else target
    return str(getattr(inner, "__name__", type(inner).__name__))


def code_of(function: Any, name: str = "", tables: Any = None) -> Callee:
    """A function, to be called."""
    libraries = tuple(libraries_of(function))
    return Callee(function, name or name_of(function), slots_of(function), libraries, tables)


def codes_of(built: Any) -> Iterator[Callee]:
    """What can be called of an object, the likeliest first."""
    if isinstance(built, types.ModuleType):
        own = [v for k, v in vars(built).items() if callable(v) and not k.startswith("_")]
        yield from (code_of(v) for v in own if getattr(v, "__module__", "") == built.__name__)
        return
    if callable(built):
        yield code_of(built)
    if type(built).__module__ in ("builtins", "functools") or hasattr(built, "schema"):
        return
    base = next((c for c in type(built).__mro__ if c.__module__.startswith("torch.nn")), object)
    for name in dir(type(built)):
        public = (
            not name.startswith("_") and not hasattr(base, name) and METHODS.search(name.lower())
        )
        if public and callable(getattr(type(built), name)):
            yield code_of(getattr(built, name), f"{type(built).__name__}.{name}")


KNOWN: dict[str, Any] = {"length": LONGEST, "base": BASE, "device": None}


def instance(
    target: type,
    sizes: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
    changed: Mapping[str, Any] | None = None,
) -> Any:
    """An object of a class, from sizes under its own names for them."""
    fixed, changed = fixed or {}, changed or {}
    passed: dict[str, Any] = {}
    left = {**sizes, **changed}
    usual = {**KNOWN, "dtype": dtype_in(libraries_of(target)[0], "float32")}
    for slot in slots_of(target):
        if slot.role in left and (slot.name not in fixed or slot.role in changed):
            passed[slot.name] = left.pop(slot.role)
        elif slot.required and slot.name not in fixed and slot.role in usual:
            passed[slot.name] = usual[slot.role]
    for what in left.keys() & changed.keys():
        raise CannotAsk(f"its constructor has no name for {what} that is known")
    try:
        with foreign(f"the making of {target.__name__}"):
            return quiet(target(**{**fixed, **passed}))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:120]}"
        says = f"could not be made with {', '.join(passed) or 'no arguments'} ({text})"
        todo = "Hand over an object of it."
        raise CannotAsk(f"ask: the class {target.__name__} {says}. {todo}") from error


def quiet(built: Any) -> Any:
    """An object as it is used: a module without dropout."""
    return built.eval() if hasattr(built, "named_buffers") and hasattr(built, "eval") else built


def copied(built: Any) -> Any:
    """A module of its own, so that the one that was handed over remembers nothing."""
    try:
        return quiet(copy.deepcopy(built))
    except Exception:  # noqa: BLE001 - whatever other people's code raises
        return built
