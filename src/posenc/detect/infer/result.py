"""What `posenc.infer_spec` returns: an encoding, and how far an implementation is from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from posenc._core.brief import brief
from posenc._core.spec import Spec, Value, to_json

__all__ = ["Inferred"]


@dataclass(frozen=True)
class Inferred:
    """The encoding that an implementation follows.

    Parameters
    ----------
    spec : Spec or None
        The encoding; None where no spec says what the implementation does.
    params : mapping of str to numpy.ndarray
        Learned values, where the spec has any.
    difference : float
        The largest difference between the implementation and the spec, on inputs that were not
        used to find it.
    tolerance : float
        The difference that float32 arithmetic explains.
    probes : int
        Calls of the implementation, the ones that it refused included; 0 for recordings.
    channels : tuple of int, optional
        Where pairs stand as no spec says: the implementation is the spec on `x[..., channels]`.
    notes : tuple of str
        What else was seen, and why there is no spec.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half", base=500_000)
    >>> found = posenc.infer_spec(lambda x, p: posenc.rotate(rope, x, positions=p), dim=64)
    >>> found.spec == rope, found.difference < found.tolerance, found.probes
    (True, True, 2)
    """

    spec: Spec | None
    _: KW_ONLY
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    difference: float = math.inf
    tolerance: float = 0.0
    probes: int = 0
    channels: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def matches(self) -> bool:
        """Whether the spec does what the implementation does, to the precision of float32."""
        return self.spec is not None and self.difference <= self.tolerance

    def describe(self) -> dict[str, Any]:
        """The result as plain JSON types; of learned values their shapes."""
        known = math.isfinite(self.difference)
        return {
            "spec": None if self.spec is None else json.loads(to_json(self.spec)),
            "matches": self.matches,
            "difference": self.difference if known else None,
            "tolerance": self.tolerance,
            "probes": self.probes,
            "params": {name: list(np.shape(value)) for name, value in self.params.items()},
            "channels": None if self.channels is None else list(self.channels),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = ["No spec says what it does." if self.spec is None else brief(self.spec, _written)]
        if self.spec is not None:
            close = "within" if self.matches else "more than"
            lines.append(
                f"  largest difference {self.difference:.2g}, {close} the {self.tolerance:.2g} "
                "that float32 explains"
            )
        if self.probes:
            lines.append(f"  {self.probes} calls")
        if self.channels is not None:
            lines.append(f"  on the channels {_some(self.channels)}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


def _written(found: Any) -> str:
    """A field, with few of many numbers."""
    if isinstance(found, Value):
        return brief(found, _written)
    if isinstance(found, tuple) and found and isinstance(found[0], Value):
        text = ", ".join(brief(item, _written) for item in found)
        return f"({text})" if len(found) > 1 else text
    if isinstance(found, tuple) and len(found) > 6:
        return f"({', '.join(map(str, found[:3]))}, ..., {found[-1]})"
    return repr(found)


def _some(values: tuple[int, ...]) -> str:
    if len(values) <= 12:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[:8]))}, ..., {values[-1]}"
