"""The public names of a package as a type checker sees them.

What comes back as an array is of the library of what was handed over: a stub says so in overloads,
which the functions themselves do without.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, get_type_hints

from posenc._names import HOMES

# Functions whose result is of the library of these arguments, the first that is an array; where
# none is, of NumPy. With `xp` named it is of that library, which no annotation can say.
LIBRARY: Mapping[str, tuple[str, ...]] = {
    "table": ("positions",),
    "cos_sin": ("positions",),
    "bias": ("q_positions", "k_positions"),
    "arange": (),
    "descending": (),
    "grid": (),
    "multimodal": (),
    "shard": (),
    "offset": ("offsets",),
    "from_mask": ("mask",),
    "padding_mask": ("mask",),
    "from_grid_mask": ("mask",),
    "boxes": ("corners",),
    "tree": ("parents",),
    "following": ("length",),
    "from_token_types": ("token_types",),
    "packed": ("cu_seqlens",),
    "segments": ("cu_seqlens",),
    "packed_mask": ("cu_seqlens",),
}
HOST = "int | np.integer | Sequence[Any] | np.ndarray"
HEAD = """\
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

import numpy as np

from posenc.functional.arguments.common import SomeArray
"""
VARIABLE = '_X = TypeVar("_X", bound=SomeArray)'
CHOSEN = """\
_V = TypeVar("_V", bound=Value)

@overload
def from_json(text: str | bytes) -> Value: ...
@overload
def from_json(text: str | bytes, kind: type[_V]) -> _V: ..."""


def stub(package: ModuleType, parts: Iterable[str], aliases: Mapping[str, str]) -> str:
    """The text of a `.pyi` file."""
    homes: dict[str, list[str]] = {}
    written: list[str] = []
    for name in sorted({*package.__all__, *parts}):
        value = name if name in parts else getattr(package, name)
        if name in LIBRARY and package.__name__ != "posenc.plot":  # which draws what they make
            written += ["", _home(name, value), *overloads(name, value)]
        elif name == "from_json":
            written += ["", _home(name, value), CHOSEN]
        else:
            own = "." if isinstance(value, (str, ModuleType)) else value.__module__
            own = HOMES[name] if own == "posenc" else own  # errors bear the name that users import
            homes.setdefault(own, []).append(name)
    imports = [
        f"from {module} import {name} as {name}"
        for module, names in sorted(homes.items())
        for name in names
    ]
    body, needed = _bare("\n".join(written))
    if body:
        imports = [HEAD, *needed, *imports, "", VARIABLE, body]
    imports += ["", *(f"{name} = {value}" for name, value in aliases.items())] if aliases else []
    public = (f'    "{name}",' for name in package.__all__)
    tail = ["", "__version__: str"] if hasattr(package, "__version__") else []
    head = "# Written by tools/generate.py."
    return "\n".join([head, *imports, "", "__all__ = [", *public, "]", *tail, ""])


def _home(name: str, function: Callable[..., Any]) -> str:
    """Where the function itself stands, for readers and for `ceilings.py`."""
    return f"from {function.__module__} import {name} as _{name}"


def overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """The signatures of a function, by what is handed over."""
    signature, arrays = inspect.signature(function), LIBRARY[name]
    options = {"params", "xp"} & signature.parameters.keys()
    plain = dict.fromkeys(arrays, HOST)
    numbers = {"params": "Mapping[str, np.ndarray] | None"} if "params" in options else {}
    yield _written(name, function, "np.ndarray", {**plain, **numbers})
    for array in arrays:
        yield _written(name, function, "_X", {array: "_X"})
    if "params" in options:
        yield _written(name, function, "_X", {"params": "Mapping[str, _X]"})
    if "xp" in options:
        yield _written(name, function, "Any", {"xp": "ModuleType"})


def _written(name: str, function: Callable[..., Any], array: str, told: Mapping[str, str]) -> str:
    """One signature: arrays of the result are `array`, and some arguments are told."""
    hints = get_type_hints(function)
    lines, starred = [], False
    for parameter in inspect.signature(function).parameters.values():
        key = parameter.name
        if key == "xp" and key not in told:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines, starred = [*lines, "*"], True
        kind = told.get(key, inspect.formatannotation(hints[key]))
        # An array or a module by which a signature is chosen has to be there.
        optional = parameter.default is not parameter.empty and not kind.endswith(
            ("_X", "_X]", "Type")
        )
        optional_array = optional and key in told and "None" not in kind
        kind += " | None" if optional_array and parameter.default is None else ""
        lines.append(f"{key}: {kind}" + (" = ..." if optional else ""))
    pair = "tuple" in inspect.formatannotation(hints["return"])
    back = f"tuple[{array}, {array}]" if pair else array
    inside = "".join(f"    {line},\n" for line in lines)
    return f"@overload\ndef {name}(\n{inside}) -> {back}: ..."


def _bare(text: str) -> tuple[str, list[str]]:
    """A text with its names bare, and the imports that they need."""
    names = sorted(set(re.findall(r"\b(posenc(?:\.\w+)+)\.([A-Z]\w*)", text)))
    text = re.sub(r"\bposenc(?:\.\w+)+\.([A-Z]\w*)", r"\1", text)
    text = re.sub(r"\b(?:typing|collections\.abc)\.", "", text).replace(
        "numpy.ndarray", "np.ndarray"
    )
    needed = [f"from {module} import {name}" for module, name in names]
    if "Value" in text:
        needed.append("from posenc._core.spec.spec import Value")
    return text, needed
