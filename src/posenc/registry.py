"""Encodings and values by their names, and their JSON."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import cast

from posenc._core import spec as _spec
from posenc._core.errors import SpecError, mismatch, suggest
from posenc._core.spec import Spec, Value, to_json
from posenc._core.tracing import compile_time
from posenc._names import SPECS, VALUES

__all__ = ["SPECS", "VALUES", "from_json", "lookup", "specs", "to_json"]


def lookup(name: str) -> type[Value]:
    """The class of an encoding or composed value by its name.

    Raises
    ------
    SpecError
        If the name is unknown; the message suggests the nearest one.
    """
    module = SPECS.get(name) or VALUES.get(name)
    if module is None:
        todo = suggest(name, [*SPECS, *VALUES])
        raise SpecError(mismatch("posenc", "the name of an encoding or value", repr(name), todo))
    return cast("type[Value]", getattr(importlib.import_module(module), name))


def specs() -> Iterator[type[Spec]]:
    """Every encoding class, in the order of the registry."""
    for name in SPECS:
        yield cast("type[Spec]", lookup(name))


@compile_time
def from_json(text: str | bytes) -> Value:
    """Parse the JSON of a spec or value; the inverse of `to_json`.

    Keys may stand in any order and defaults may be left out.

    Parameters
    ----------
    text : str or bytes
        A JSON object with a key `type`.

    Returns
    -------
    Spec or Value
        An object equal to the one that wrote the text.

    Raises
    ------
    SpecError
        If the text is no JSON, a name or key is unknown (with a suggestion), a key is missing or
        stands twice, or a number is not finite.

    Examples
    --------
    >>> import posenc
    >>> posenc.from_json('{"type": "Sinusoidal", "dim": 512}') == posenc.Sinusoidal(512)
    True
    """
    return _spec.from_json(text, lookup)
