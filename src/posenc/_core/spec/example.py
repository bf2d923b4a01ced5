"""The example that an encoding carries: a small one of it, and what its positions are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

AROUND = "a way once around the world"
USUAL: dict[str, dict[str, Any]] = {
    "table": {"dim": 64},
    "rotary": {"dim": 64, "pairing": "half"},
    "bias": {"heads": 4},
    "relative": {"dim": 64},
}


class Example(NamedTuple):
    """How a small one of an encoding is made, and where it can stand.

    Parameters
    ----------
    fields : mapping
        Its fields, but for a width of 64, 4 heads of a bias, and the pairing of a rotation.
    points : callable, optional
        () -> positions of a picture, 64 or so of them; 0 to 63, or the cells of a grid, by default.
    where : str
        What these are, in words.
    unsuited : str
        Why it cannot stand in a sequence of tokens; empty where it can.

    Examples
    --------
    >>> import posenc
    >>> posenc.Time2Vec.example.where
    'times 0 to 8'
    >>> posenc.Quadratic.example.unsuited
    'Its positions are cells of a grid.'
    """

    fields: Mapping[str, Any] = MappingProxyType({})
    points: Callable[[], Any] | None = None
    where: str = ""
    unsuited: str = ""


def around() -> np.ndarray:
    """Longitudes and latitudes of a way once around the world, in degrees."""
    share = np.linspace(0, 1, 64)
    return np.stack([360 * share - 180, 60 * np.sin(2 * np.pi * share)], axis=-1)


def small(encoding: Any) -> Any:
    """A small one of a class of encodings: as its example says, and of a usual size."""
    fields = encoding.__dataclass_fields__
    usual = {name: value for name, value in USUAL[encoding.kind].items() if name in fields}
    return encoding(**{**usual, **encoding.example.fields})
