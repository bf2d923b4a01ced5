"""One training run of the study: what is trained, on what, from which seed.

The key of a cell is the SHA-256 of the canonical JSON of everything that decides its numbers:

    {"data", "encoding", "protocol", "seed", "settings", "task"}

Rows of a store are found by it, so two runs that could differ never share one. The settings hold
every hyper-parameter, the defaults of the task included. A task that reads a file has the digest of
its bytes among them, under `data`; its place on the disk is no part of a cell's identity.

`PROTOCOL` is the version of the code: a number, raised by hand with any change of models, tasks or
training that changes a result. A hash of the sources would disown an hour of results for a comment;
the store keeps it beside each row all the same, so that a report can say where rows differ in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.io import inputs

PROTOCOL = 1

Scalar = int | float | str | bool

DATA = "data"
FIELDS = ("encoding", "seed", "settings", "task")


@dataclass(frozen=True)
class Cell:
    """One training run: a task, an encoding, a seed, and every hyper-parameter.

    Parameters
    ----------
    task : str
        A name of `posenc_study.tasks.TASKS`.
    encoding : str
        A name of `posenc_study.model.encodings.ENCODINGS`.
    seed : int
        The unit of replication: it alone decides initial weights and batches.
    settings : tuple of (str, int or float or str or bool)
        Every hyper-parameter, by name and sorted; `Cell.of` makes it from a mapping.

    Raises
    ------
    ArgumentError
        For settings that are unsorted, repeated, or no plain finite values.

    Examples
    --------
    >>> from posenc_study.cell import Cell
    >>> cell = Cell.of("order", "rope", seed=0, settings={"steps": 300, "width": 64})
    >>> cell.setting("steps")
    300
    >>> Cell.from_json(cell.to_json()) == cell
    True
    >>> len(cell.key)
    64
    """

    task: str
    encoding: str
    seed: int
    settings: tuple[tuple[str, Scalar], ...] = ()

    def __post_init__(self) -> None:
        for name in ("task", "encoding"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ArgumentError(mismatch(f"Cell.{name}", "a name", repr(value)))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ArgumentError(mismatch("Cell.seed", "an integer from 0", repr(self.seed)))
        names = [name for name, _ in self.settings]
        if names != sorted(set(names)):
            todo = "Make it with Cell.of, which sorts them."
            raise ArgumentError(mismatch("Cell.settings", "sorted names, each once", names, todo))
        for name, value in self.settings:
            _check(name, value)

    @classmethod
    def of(cls, task: str, encoding: str, *, seed: int, settings: Mapping[str, Scalar]) -> Cell:
        """The cell of some settings, in any order."""
        return cls(task, encoding, seed, tuple(sorted(settings.items())))

    @property
    def key(self) -> str:
        """64 hexadecimal digits that stand for all that decides the numbers."""
        return self.key_of(PROTOCOL)

    def key_of(self, protocol: int) -> str:
        """The key under a version of the code, such as that of rows written by an earlier one."""
        identity = {**self._plain(), DATA: dict(self.settings).get(DATA), "protocol": protocol}
        return hashlib.sha256(_canonical(identity).encode()).hexdigest()

    def setting(self, name: str) -> Any:
        """The value of a hyper-parameter."""
        settings = dict(self.settings)
        if name not in settings:
            raise ArgumentError(
                mismatch(f"Cell of {self.task}", f"a setting {name!r}", list(settings))
            )
        return settings[name]

    def to_json(self) -> str:
        """The cell as canonical JSON: sorted names, no spaces."""
        return _canonical(self._plain())

    @classmethod
    def from_json(cls, text: str) -> Cell:
        """The cell of a JSON text."""
        with inputs.understood("Cell.from_json", "a cell of the study"):
            fields = inputs.parse(text, "Cell.from_json", inputs.PAGE)
            if not isinstance(fields, dict) or sorted(fields) != list(FIELDS):
                raise DataError(mismatch("Cell.from_json", f"the fields {FIELDS}", text[:120]))
            settings = fields.pop("settings")
            return cls(**fields, settings=tuple(sorted(settings.items())))

    def __str__(self) -> str:
        return f"{self.task}, {self.encoding}, seed {self.seed}"

    def _plain(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "encoding": self.encoding,
            "seed": self.seed,
            "settings": dict(self.settings),
        }


def _check(name: str, value: object) -> None:
    plain = isinstance(value, (bool, int, str)) or (
        isinstance(value, float) and math.isfinite(value)
    )
    if not isinstance(name, str) or not plain:
        expected = "a finite number, a text or a truth value"
        raise ArgumentError(mismatch(f"Cell.settings[{name!r}]", expected, repr(value)))


def _canonical(value: Any) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )
