"""Calls whose arguments do not fit: which arguments there are, and what to write instead."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from posenc._core.annotations import check_values, choices_of, hints_of
from posenc._core.errors import ArgumentError, KeywordError, PosencError, mismatch
from posenc._core.foreign import (
    LENGTHS,
    NOTES,
    ORIGINALS,
    SCALINGS,
    WHOLE,
    argument_advice,
    kind_of,
    meanings,
    scaling_call,
)
from posenc._core.foreign_names import CALLS
from posenc._core.tracing import is_compiling
from posenc._names import HANDED

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

# Functions that others call, and the names by which most people call two of them: an error names
# the function that was called.
INNER = re.compile(r"^(?:from_hf|from_gguf|facts|infer_spec|detect_pairing|ask)(?=[: ])")
USUAL_NAMES = {"infer_spec": "infer", "detect_pairing": "pairing"}


def checked_call(function: F, choices: Mapping[str, Any] | None = None) -> F:
    """A function that says which arguments it has, where those of a call do not fit.

    `choices` stands for what `choices_of` reads of its annotations.
    """
    name = USUAL_NAMES.get(function.__name__, function.__name__)
    allowed = choices_of(function) if choices is None else choices

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            check_choices(function, allowed, kwargs)
            return function(*args, **kwargs)
        except PosencError as error:
            error.args = (INNER.sub(name, str(error)), *error.args[1:])
            raise
        except Exception as error:
            refuse_unfit(error, function, args, kwargs)
            raise

    return cast("F", call)


def is_strict() -> bool:
    """Whether JAX was told to refuse some of NumPy's rules."""
    jax = sys.modules.get("jax")
    if jax is None or is_compiling():
        return False
    config = getattr(jax, "config", None)  # absent while JAX is being imported
    return (
        getattr(config, "jax_numpy_rank_promotion", "allow") != "allow"
        or getattr(config, "jax_numpy_dtype_promotion", "standard") != "standard"
    )


def numpy_rules(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb whose own arithmetic broadcasts by NumPy's rules, whatever JAX was told.

    `jax_numpy_rank_promotion="raise"` and strict dtype promotion are for the code of those who set
    them. They hold again as soon as the verb returns.
    """
    choices = choices_of(verb)

    @functools.wraps(verb)
    def ruled(*args: P.args, **kwargs: P.kwargs) -> R:
        jax = sys.modules.get("jax")
        try:
            if choices and kwargs:
                check_choices(verb, choices, kwargs)
            if jax is None or not is_strict():
                return verb(*args, **kwargs)
            with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
                return verb(*args, **kwargs)
        except Exception as error:
            refuse_unfit(error, verb, args, kwargs)
            raise

    return ruled


def check_choices(
    function: Callable[..., Any], choices: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Raise for a switch, word or number, given by name, that cannot be one."""
    for name in values:
        if name in choices:
            value, (types, words, hint) = values[name], choices[name]
            kind = type(value)
            fits = kind in types or (kind is str and value in words)
            # A number that a tracer follows is not looked at.
            if not fits and (kind is str or not is_compiling()):
                check_values(_shown(function), {name: (value, hint)})


def _shown(function: Callable[..., Any]) -> str:
    """The name of a function as its users write it, without `posenc.`."""
    package = {"_core.positions": "positions.", "plot.draw": "plot "}
    part = ".".join(str(function.__module__).split(".")[1:3])
    return f"{package.get(part, '')}{USUAL_NAMES.get(function.__name__, function.__name__)}"


def refuse_unfit(
    error: Exception, function: F, args: tuple[Any, ...], values: Mapping[str, Any]
) -> None:
    """Raise what `refuse` does for an error of the call itself.

    Without a frame below the one that called, the arguments did not fit. For an error of the
    inside, in the words of another library, raise for the first argument that is not what its
    annotation says; nothing where all are.
    """
    if isinstance(error, (PosencError, OSError, MemoryError, ImportError)) or is_compiling():
        return
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        refuse(function, args, values)
        return
    hints, bound = hints_of(function), inspect.signature(function).bind_partial(*args, **values)
    both = {name: (value, hints.get(name)) for name, value in bound.arguments.items()}
    check_values(_shown(function), both, failed=True)
    device, why = bound.arguments.get("device"), str(error).partition("\n")[0]
    if isinstance(device, int) or (device is not None and "device" in why.lower()):
        caller, expected = f"{_shown(function)}: device", "a device of the library of the result"
        raise ArgumentError(mismatch(caller, expected, repr(device)[:80], why[:160]))
    if _shown(function).startswith("positions."):  # whose arguments are of any type
        came = ", ".join(f"{name}={value!r}"[:80] for name, value in bound.arguments.items())
        why = f"{type(error).__name__}: {why[:160]}"
        raise ArgumentError(mismatch(_shown(function), "what can be counted with", came, why))


def refuse(function: F, args: tuple[Any, ...], values: Mapping[str, Any]) -> None:
    """Raise for a call whose arguments do not fit a function; nothing where they do."""
    signature = inspect.signature(function).parameters
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    own = {name: p for name, p in signature.items() if p.kind not in several and name != "self"}
    others = any(p.kind is p.VAR_KEYWORD for p in signature.values())
    checked = {name: values[name] for name in values if name in own or not others}
    name = USUAL_NAMES.get(function.__name__, function.__name__)
    check_call(name, own, args["self" in signature :], checked)


def own_arguments(verb: F) -> F:
    """Leave `*more` and `**others`, which a verb refuses, out of its signature."""
    signature = inspect.signature(verb)
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    verb.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p for p in signature.parameters.values() if p.kind not in kinds]
    )
    return verb


def check_call(
    caller: str,
    signature: Mapping[str, inspect.Parameter],
    args: tuple[Any, ...],
    values: Mapping[str, Any],
) -> None:
    """Raise for arguments that are no parameters, too many, or too few."""
    strange = [name for name in values if name not in signature]
    places = [p.name for p in signature.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    present = {**dict(zip(places, args, strict=False)), **values}
    if strange:
        raise _unknown(caller, signature, strange, present)
    twice = [name for name in places[: len(args)] if name in values]
    if twice:
        todo = CALLS.get(caller, f"By place come {', '.join(places)}.")
        raise KeywordError(mismatch(caller, f"one value for {twice[0]}", "two", todo))
    if len(args) > len(places):
        rest = [name for name in signature if name not in places]
        expected = f"{', '.join(places) or 'nothing'} by place, and the others by name"
        todo = f"Those are {', '.join(rest)}." if rest else ""
        extra = args[len(places)]
        if "x" in places and hasattr(extra, "shape"):
            # Where an array stands for the spec, three of them are x, cosines and sines.
            todo = (
                meanings("cos")[1] if hasattr(args[0], "shape") else "Call it once for each array."
            )
            if any("int" in str(getattr(array, "dtype", "")) for array in args):
                todo = "Give one array by place, and positions by name: positions=…"
        if kind_of(caller) == "table" and isinstance(extra, int) and "length" not in signature:
            todo += (
                f" No sequence is the longest: {caller}({args[0]}).table({extra}) has {extra} rows."
                if isinstance(args[0], int)
                else f" The width comes first: {caller}({extra}).table(positions)."
            )
        todo = CALLS.get(caller, todo)
        raise KeywordError(
            mismatch(
                caller, expected, f"{len(args)} argument{'s' * (len(args) > 1)} by place", todo
            )
        )
    missing = [p.name for p in signature.values() if p.default is p.empty and p.name not in present]
    if missing:
        todo = " ".join(f"Write {NOTES[name]}." for name in missing if name in NOTES)
        if kind_of(caller) and not todo:
            todo = f"Such as posenc.{HANDED['small'](caller)!r}."
        needed = ", ".join(p.name for p in signature.values() if p.default is p.empty)
        todo = CALLS.get(caller, todo or f"It is {caller}({needed}).")
        raise KeywordError(mismatch(caller, f"a value for {' and '.join(missing)}", "none", todo))


def _unknown(
    caller: str,
    signature: Mapping[str, inspect.Parameter],
    strange: Collection[str],
    values: Mapping[str, Any],
) -> KeywordError:
    """The error of arguments that a function does not have."""
    present = {name: value for name, value in values.items() if name in signature}
    config = {key: value for words in values.values() if isinstance(words, Mapping)
              for key, value in words.items()}  # fmt: skip
    rule = scaling_call(config | {**values}) if "scaling" in signature else ""
    advice: dict[str, list[str]] = {}
    for name in strange:
        text = argument_advice(name, signature, present, values[name])
        if rule and name in f"{SCALINGS} {ORIGINALS}".split():
            text = f"Write scaling={rule}; posenc.from_hf reads the `rope_scaling` of a config."
        elif name in LENGTHS.split() and text.startswith("There is no longest"):
            text = f"{text} {WHOLE.get(kind_of(caller), '')}".strip()
            text = text.replace("(n)", f"({values[name]})")
        advice.setdefault(text, []).append(name)
    everything = f"It has {', '.join(signature)}." if advice.pop("", None) and signature else ""
    parts = [
        f"For {' and '.join(of)}: {text}" if len(strange) > 1 else text
        for text, of in advice.items()
    ]
    return KeywordError(
        mismatch(
            caller,
            "known arguments",
            " and ".join(f"{name}=" for name in strange),
            " ".join(filter(None, [*parts, everything, CALLS.get(caller, "")])),
        )
    )
