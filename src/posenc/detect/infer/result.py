"""What `posenc.infer_spec` returns: an encoding, and how far an implementation is from it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

import numpy as np

from posenc._core.spec.brief import brief
from posenc._core.spec.display import Displayed
from posenc._core.spec.spec import Spec, Value, to_json
from posenc.detect.subject import Reach
from posenc.detect.subject.smallest import SmallestCall


@dataclass(frozen=True)
class Inferred(Displayed):
    """The encoding that an implementation follows.

    Parameters
    ----------
    spec : Spec or None
        The encoding; None where no spec says what the implementation does.
    params : mapping of str to numpy.ndarray
        Learned values, where the spec has any.
    difference : float
        The difference between the implementation and the spec where it is largest for its
        tolerance, among all that `reach` says.
    tolerance : float
        What the implementation's own arithmetic, float32 or float64, explains there.
    reach : Reach
        What was compared: positions, heads, sizes, calls.
    probes : int
        Calls of the implementation, the ones that it refused included; 0 for recordings.
    channels : tuple of int, optional
        Where pairs stand as no spec says: the implementation is the spec on `x[..., channels]`.
    departures : tuple of str
        What keeps the implementation from being the spec, where that can be named: frequencies that
        were rounded, pairs that turn faster or backward, a slope that is off. `difference` and
        `reach` are those of the spec with that taken into account.
    notes : tuple of str
        What else was seen, and why there is no spec.
    call : SmallestCall, optional
        The smallest call in which implementation and spec differ.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half", base=500_000)
    >>> found = posenc.infer_spec(lambda x, p: posenc.rotate(rope, x, positions=p), dim=64)
    >>> found.spec == rope, found.difference < found.tolerance, found.probes > 100
    (True, True, True)
    """

    spec: Spec | None
    _: KW_ONLY
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    difference: float = math.inf
    tolerance: float = 0.0
    reach: Reach = Reach()
    probes: int = 0
    channels: tuple[int, ...] | None = None
    departures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    call: SmallestCall | None = None

    @property
    def matches(self) -> bool:
        """Whether the spec does what the implementation does, as far as `reach` says."""
        return (
            self.spec is not None
            and self.call is None
            and self.difference <= self.tolerance
            and not self.departures
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON types; of learned values their shapes."""
        return {
            "spec": None if self.spec is None else json.loads(to_json(self.spec)),
            "matches": self.matches,
            "difference": self.difference if math.isfinite(self.difference) else None,
            "tolerance": self.tolerance,
            "probes": self.probes,
            "reach": asdict(self.reach),
            "params": {name: list(np.shape(value)) for name, value in self.params.items()},
            "channels": None if self.channels is None else list(self.channels),
            "departures": list(self.departures),
            "notes": list(self.notes),
            "smallest_call": None if self.call is None else str(self.call),
        }

    def __str__(self) -> str:
        first = "No spec says what it does." if self.spec is None else brief(self.spec, _written)
        lines = [first, *(f"  but: {departure}" for departure in self.departures)]
        if self.spec is not None:
            close = "within" if self.difference <= self.tolerance else "more than"
            beyond = "beyond that, largest" if self.departures else "largest"
            lines.append(
                f"  {beyond} difference {self.difference:.2g}, {close} the {self.tolerance:.2g} "
                "that its arithmetic explains"
            )
        reach = self.reach.lines() or [f"{self.probes} calls"]
        channels = [] if self.channels is None else [f"on the channels {_some(self.channels)}"]
        rest: tuple[Iterable[Any], ...] = (
            [] if self.call is None else [self.call],
            reach,
            channels,
            self.notes,
        )
        return "\n".join([*lines, *(f"  {line}" for part in rest for line in part)])


def _written(argument: Any) -> str:
    """A field, with few of many numbers."""
    if isinstance(argument, Value):
        return brief(argument, _written)
    if isinstance(argument, tuple) and argument and isinstance(argument[0], Value):
        text = ", ".join(brief(item, _written) for item in argument)
        return f"({text})" if len(argument) > 1 else text
    if isinstance(argument, tuple) and len(argument) > 6:
        return f"({', '.join(map(str, argument[:3]))}, ..., {argument[-1]})"
    return repr(argument)


def _some(values: tuple[int, ...]) -> str:
    if len(values) <= 12:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[:8]))}, ..., {values[-1]}"
