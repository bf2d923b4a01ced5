"""Validate the docstrings of every public name by the rules of numpydoc: `make check`.

Public are the names in the `__all__` of the modules in `MODULES`, and the public methods and
properties of classes among them. A docstring may fail only where `EXCEPTIONS` says so, with a
reason; an exception that no longer applies is an error too, so that the list can only shrink.
The words that a docstring lists of a parameter are those of its annotation.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Literal

from numpydoc.validate import validate

from posenc._core.spec.spec import Value

MODULES = (
    "posenc",
    "posenc.encodings.api",
    "posenc.explore",
    "posenc.learn",
    "posenc.plot",
    "posenc.positions",
    "posenc.presets",
    "posenc.scaling",
    "posenc.testing",
    "posenc.torch",
    "posenc.torch.cache",
    "posenc.torch.parallel",
)

# What authors of encodings, rows and laws import is as terse as methods are; the docs of adding one
# show it at work.
TERSE = {"posenc.encodings.api", "posenc.presets", "posenc.testing"}

# Rules that do not fit how docstrings are written here.
IGNORED = {
    "GL01": "the summary stands on the line of the quotes",
    "GL08": "ruff finds missing docstrings",
    "ES01": "one line is often enough; an equation follows where there is one",
    "SA01": "no See Also: the neighbours stand in the same module",
    "SS05": "a summary may name what comes back",
    "SS06": "ruff checks the length of lines",
    "PR08": "a description may begin with a formula, a literal or a shape",
    "PR09": "and end with one",
    "RT02": "the type of the only result is enough, a name is allowed",
    "RT04": "as PR08",
    "RT05": "as PR09",
    "EX01": "verbs and encodings need one: see `excused`",
    "YD01": "generators are documented by what they yield",
}

# What a method of one line may leave out, as its class tells the rest.
IN_ONE_LINE = {"PR01", "RT01"}

# name: {code: reason}
IN_FIELDS = {"PR01": "the fields of a row are described in their annotations"}
EXCEPTIONS: dict[str, dict[str, str]] = {
    "posenc.presets.PlanRow": IN_FIELDS,
    "posenc.presets.Preset": IN_FIELDS,
}


def public() -> Iterator[tuple[str, object]]:
    """(qualified name, object) of everything public that is ours."""
    seen = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing) or id(thing) in seen or not callable(thing):
                continue
            seen.add(id(thing))
            yield f"{module_name}.{name}", thing
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    documented = inspect.isfunction(value) or isinstance(value, property)
                    if documented and not member.startswith("_"):
                        yield f"{module_name}.{name}.{member}", value


def excused(name: str, thing: object, code: str) -> bool:
    """Whether a rule does not apply to a name."""
    top_level = name.rpartition(".")[0] in set(MODULES) - TERSE
    if code == "EX01":
        is_error = inspect.isclass(thing) and issubclass(thing, Exception)
        return not top_level or is_error
    if code == "PR01" and inspect.isclass(thing) and not top_level:
        return issubclass(thing, Value) and not is_dataclass(thing)  # a base has no fields
    if code in IN_ONE_LINE and not top_level:
        return "\n" not in (inspect.getdoc(thing) or "\n")
    return code in IGNORED


LISTED = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*?\{(?P<words>[^}]*)\}", re.MULTILINE)


def other_words(thing: Any) -> Iterator[str]:
    """What is wrong with the words that a docstring lists as `name : {"this", "that"}`."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return
    with_fields = inspect.isfunction(thing) or is_dataclass(thing)
    try:
        hints = typing.get_type_hints(thing if with_fields else thing.__init__)
    except NameError:  # of what only type checkers import
        return
    for listed in LISTED.finditer(inspect.getdoc(thing) or ""):
        stated = set(ast.literal_eval(f"[{listed['words']}]"))
        for name in listed["names"].split(", "):
            words = set(words_of(hints.get(name)))
            if words and words != stated:
                missing, unknown = sorted(words - stated, key=str), sorted(stated - words, key=str)
                yield f"of {name!r}, not listed: {missing}; listed, but no word of it: {unknown}"


def words_of(hint: Any) -> Iterator[Any]:
    """The words of the `Literal` in an annotation."""
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    else:
        for inner in typing.get_args(hint):
            yield from words_of(inner)


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    wrong = []
    used: dict[str, set[str]] = {}
    count = 0
    for name, thing in public():
        count += 1
        wrong += [f"{name}: words {what}" for what in other_words(thing)]
        for code, message in validate(name)["errors"]:
            if excused(name, thing, code):
                continue
            if code in EXCEPTIONS.get(name, {}):
                used.setdefault(name, set()).add(code)
                continue
            wrong.append(f"{name}: {code} {message}")
    for name, codes in EXCEPTIONS.items():
        stale = codes.keys() - used.get(name, set())
        wrong += [f"{name}: the exception {code} is not needed" for code in sorted(stale)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"Docstrings: {count} public names, {len(wrong)} errors.")
    return min(1, len(wrong))


if __name__ == "__main__":
    sys.exit(main())
