"""Calls whose arguments do not fit: which arguments there are, and what to write instead."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from posenc._core.errors import KeywordError, PosencError, mismatch
from posenc._core.foreign import (
    LENGTHS,
    NOTES,
    ORIGINALS,
    SCALINGS,
    WHOLE,
    argument_advice,
    kind_of,
    scaling_call,
)
from posenc._names import HANDED

F = TypeVar("F", bound=Callable[..., Any])

# Functions that others call, and the names by which most people call two of them: an error names
# the function that was called.
INNER = re.compile(r"^(?:from_hf|from_gguf|facts|infer_spec|detect_pairing)(?=[: ])")
USUAL_NAMES = {"infer_spec": "infer", "detect_pairing": "pairing"}
# By functions: calls that do what people try with other arguments.
CALLS = {
    "infer": "posenc.infer(f) asks code, posenc.infer((x, y, positions)) reads recorded arrays.",
    "check": "posenc.check(f, spec=…) tries code, posenc.identify(array) looks at numbers.",
    "extend": "posenc.extend(config, 131072, rule='yarn') is for a model; a learned table grows by "
    "posenc.resize(spec, params, length, how='tile').",
    "locate": "posenc.locate(posenc.Sinusoidal(512), row) finds the position of a row, "
    'posenc.locate(posenc.RoPE(64, pairing="half"), rotated, before=x) that of a turned vector.',
    "explain": 'posenc.explain("config.json") reads a model: its config, folder or GGUF file.',
    "diff": "posenc.diff(a, b): each a config, a spec, a function, an array or a loaded model.",
    "identify": 'posenc.identify(array), or of a file: posenc.identify("table.npy"); of cosines '
    'and sines: posenc.identify({"cos": cos, "sin": sin}).',
    "cite": 'posenc.cite(spec) or posenc.cite("RoPE") has the BibTeX.',
    "trace": 'posenc.torch.trace(model, {"input_ids": ids}) runs a loaded model, '
    "`with posenc.torch.tracing(model) as run: model(ids)` watches your own call, "
    'posenc.trace("llama/") builds that of a folder; a function that turns q is for '
    "posenc.infer(f).",
    "compare": 'posenc.plot.compare("table", a, b) draws the table of two specs; other pictures '
    'are "wavelengths", "bias", "offset", "stretch", …',
    "preset": 'posenc.preset("llama3", 128): the width of a head or row, or the heads of a bias.',
    "doctor": 'posenc.doctor("llama/") looks at a model, posenc.doctor("llama/", f) at a port too.',
    "golden": 'posenc.golden(source).save("golden.json") writes the file, '
    'posenc.diff("golden.json", other) holds code or a model against it.',
    "convert": 'posenc.convert(FILE, OUTPUT, pairing="interleaved") writes a checkpoint; it takes '
    "no arrays.",
}


def checked_call(function: F) -> F:
    """A function that says which arguments it has, where those of a call do not fit."""
    name = USUAL_NAMES.get(function.__name__, function.__name__)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except PosencError as error:
            error.args = (INNER.sub(name, str(error)), *error.args[1:])
            raise
        except TypeError as error:
            refuse_unfit(error, function, args, kwargs)
            raise

    return cast("F", call)


def refuse_unfit(
    error: TypeError, function: F, args: tuple[Any, ...], values: Mapping[str, Any]
) -> None:
    """Raise what `refuse` does for an error of the call itself; nothing for one of the inside.

    Without a frame below the one that called, the arguments did not fit.
    """
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        refuse(function, args, values)


def refuse(function: F, args: tuple[Any, ...], values: Mapping[str, Any]) -> None:
    """Raise for a call whose arguments do not fit a function; nothing where they do."""
    signature = inspect.signature(function).parameters
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    own = {name: p for name, p in signature.items() if p.kind not in several}
    others = any(p.kind is p.VAR_KEYWORD for p in signature.values())
    checked = {name: values[name] for name in values if name in own or not others}
    name = USUAL_NAMES.get(function.__name__, function.__name__)
    check_call(name, own, args, checked)


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
        raise KeywordError(mismatch(caller, f"one value for {twice[0]}", "two"))
    if len(args) > len(places):
        rest = [name for name in signature if name not in places]
        expected = f"{', '.join(places)} by place, and the others by name"
        todo = f"Those are {', '.join(rest)}." if rest else ""
        extra = args[len(places)]
        if "x" in places and hasattr(extra, "shape"):
            todo = "Call it once for each array."
            if any("int" in str(getattr(array, "dtype", "")) for array in args):
                todo = "Give one array by place, and positions by name: positions=…"
        if kind_of(caller) == "table" and isinstance(extra, int) and "length" not in signature:
            todo += (
                f" No sequence is the longest: {caller}({args[0]}).table({extra}) has {extra} rows."
                if isinstance(args[0], int)
                else f" The width comes first: {caller}({extra}).table(positions)."
            )
        todo = CALLS.get(caller, todo)
        raise KeywordError(mismatch(caller, expected, f"{len(args)} arguments by place", todo))
    missing = [p.name for p in signature.values() if p.default is p.empty and p.name not in present]
    if missing:
        todo = " ".join(f"Write {NOTES[name]}." for name in missing if name in NOTES)
        if kind_of(caller) and not todo:
            todo = f"Such as posenc.{HANDED['small'](caller)!r}."
        todo = CALLS.get(caller, todo)
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
    everything = f"It has {', '.join(signature)}." if advice.pop("", None) else ""
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
