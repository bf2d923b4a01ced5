"""Where the arrays of a file lie."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from posenc._core.errors import bad_argument, bad_data, suggest
from posenc._core.io import inputs

LARGEST_RANK = 64  # NumPy's


class Tensor(NamedTuple):
    """Where one array lies in a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    stored: str | None
    order: Literal["C", "F"] = "C"


@dataclass(frozen=True)
class Layout:
    """What a file says it holds, after its header has been checked against its size."""

    path: Path
    format: Literal["npy", "safetensors"]
    size: int
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    state: inputs.State

    def pick(self, name: str | None = None) -> Tensor:
        """The tensor of that name, or the only one."""
        if name is None and len(self.tensors) == 1:
            return next(iter(self.tensors.values()))
        if name is None:
            if not self.tensors:
                raise bad_data(str(self.path), "a tensor", "none")
            some = sorted(self.tensors)
            listed = ", ".join(some[:20]) + (f", … ({len(some)} in all)" if len(some) > 20 else "")
            raise bad_argument(
                str(self.path), "one tensor", f"several: {listed}", "Name one: name=."
            )
        if self.format == "npy":
            raise bad_argument(str(self.path), "no name, as .npy has one array", repr(name))
        if name not in self.tensors:
            todo = suggest(name, sorted(self.tensors)[:1000])
            raise bad_argument(str(self.path), "the name of a tensor", repr(name), todo)
        return self.tensors[name]


def are_sizes(value: Any, kind: type[list[Any] | tuple[Any, ...]]) -> bool:
    """Whether it lists whole numbers that fit 63 bits, no more of them than a shape has."""
    return (
        isinstance(value, kind)
        and len(value) <= LARGEST_RANK
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


def is_shape(value: Any, kind: type[list[Any] | tuple[Any, ...]]) -> bool:
    """Whether it lists the sides of an array that NumPy can describe."""
    # NumPy multiplies the sides, those beside a 0 too, and by the size of a number.
    return are_sizes(value, kind) and math.prod(filter(None, value)) < 2**56


def exactly(file: IO[bytes], count: int, caller: str) -> bytes:
    data = file.read(count) or b""
    if len(data) != count:
        raise bad_data(f"{caller} is truncated", f"{count} more bytes", len(data))
    return data
