"""Arguments that are divided between processes: the DTensors of torch.

A verb does the same to every row of a batch and every head, so each process works on its own part,
and nothing is sent. What would need the parts of others, such as half of a head, is refused.

Each axis of an argument has a label. Axes of one label are divided together: where one argument is
a shard along it, the others are, or are cut to the same shard. Arguments that are no DTensors
(positions, parameters) are taken to be the same in all processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from posenc._core.errors import ArgumentError, mismatch
from posenc.functional.tokens import place_of

__all__ = [
    "HEADS",
    "WHOLE_CHANNELS",
    "Part",
    "apply",
    "numbered",
    "of_heads",
    "of_offset",
    "of_parameters",
    "of_positions",
    "of_tokens",
    "params_of",
    "range_of",
]

HEADS = "heads"


class Part(NamedTuple):
    """An argument and the label of each of its axes."""

    value: Any
    labels: tuple[str, ...] = ()
    leads: bool = False  # an input proper, which is not taken to be the same everywhere


Refused = Mapping[str, tuple[str, str]]


# --- labels ---------------------------------------------------------------------------------------

WHOLE_CHANNELS = (
    "whole channels",
    "Channels of a head belong together: divide the batch or the heads, x.redistribute(...).",
)
WHOLE_PARAMETERS = (
    "a parameter that is whole, or divided by heads",
    "Gather it first: parameter.redistribute(placements=[Replicate()]).",
)
NO_POSITIONS = (
    "positions beside a shard along the sequence",
    "Pass positions=, those of the whole sequence or a DTensor divided alike.",
)


def of_tokens(x: Any, seq_dim: int, positions: Any, caller: str) -> tuple[tuple[str, ...], Refused]:
    """Labels of an input (..., seq, channels), and which axes have to be whole."""
    place = place_of(tuple(x.shape), seq_dim, caller)
    labels = [str(axis) for axis in range(len(x.shape) - 1)] + ["channels"]
    labels[place] = "seq"
    refused = {"channels": WHOLE_CHANNELS}
    if positions is None:
        refused["seq"] = NO_POSITIONS
    return tuple(labels), refused


def of_positions(value: Any, tokens: Sequence[str], last: int, beside: Any) -> Part:
    """Positions (seq,), (batch, seq) or a leading shape, and `last` more axes."""
    if value is None or isinstance(value, int):
        return Part(value)
    if not isinstance(value, Tensor):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "iuf":
            return Part(value)  # the verb says what is wrong
        value = torch.as_tensor(numbers, device=beside.device)
    lead = tuple(tokens[:-1])
    rank = value.ndim - last
    if rank == 1:
        lead = ("seq",)
    elif rank == 2 and lead[0] != "seq":
        lead = (lead[0], "seq")
    return Part(value, (*lead[:rank], *("axes",) * (value.ndim - min(rank, len(lead)))))


def numbered(value: Any, last: str, more: tuple[str, ...] = ()) -> Part:
    """An array (..., last, *more) whose first axes are those of a batch."""
    if not isinstance(value, Tensor):
        return Part(value)
    lead = value.ndim - 1 - len(more)
    return Part(value, (*(str(axis) for axis in range(lead)), last, *more))


def of_offset(offset: Any) -> Part:
    """The position of a first token: a number, or one for each row of the batch."""
    return Part(offset, ("0",) if getattr(offset, "shape", ()) else ())


def of_parameters(spec: Any, params: Any) -> dict[str, Part]:
    """Parameters, with a label for the axis of their heads."""
    found = {}
    for name, value in (params or {}).items():
        labels = ["parameter"] * len(getattr(value, "shape", ()))
        axis = spec.by_head.get(name) if hasattr(spec, "by_head") else None
        if axis is not None and labels:
            labels[axis] = HEADS
        found[f"params.{name}"] = Part(value, tuple(labels))
    return found


def params_of(more: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parameters among the arguments of a call."""
    return {name.removeprefix("params."): value for name, value in more.items()} or None


def of_heads(spec: Any, params: Any, first: int, end: int, caller: str) -> Any:
    """Parameters of the heads [first, end); those of all heads are cut, unless they are shards."""
    if not isinstance(params, Mapping):
        return params
    found = dict(params)
    for name, axis in spec.by_head.items():
        value = found.get(name)
        if not isinstance(value, Tensor) or value.shape[axis] == end - first:
            continue
        if isinstance(value, DTensor) and Shard(axis) in value.placements:
            todo = "Distribute the parameters of those heads alone."
            want = f"{end - first} heads to divide"
            received = f"{value.shape[axis]} heads"
            raise ArgumentError(mismatch(f"{caller}: params[{name!r}]", want, received, todo))
        found[name] = value.narrow(axis, first, end - first)
    return found


def range_of(numbers: Tensor) -> tuple[int, int]:
    """The heads [first, end) that this process works on."""
    first = int(numbers[0])
    return first, first + len(numbers)


# --- work -----------------------------------------------------------------------------------------


def apply(
    call: Callable[..., Any],
    parts: Mapping[str, Part],
    out: Sequence[str],
    caller: str,
    refused: Refused,
    *,
    inplace: bool = False,
) -> Any:
    """`call(**local)` on the parts of this process, with DTensors for its results.

    Parameters
    ----------
    call : callable
        Takes the arguments by name, and gives one array or a tuple of them.
    parts : mapping
        The arguments; None and numbers are handed on as they are.
    out : sequence of str
        The labels of the axes of each result.
    caller : str
        The name to begin an error with.
    refused : mapping
        Label -> what was expected in place of a shard along it, and what to do.
    inplace : bool
        Whether the first argument is written to, and is the result.

    Returns
    -------
    DTensor or tuple of DTensor
        Divided along the labels of the arguments.
    """
    refused = {"parameter": WHOLE_PARAMETERS, "axes": WHOLE_CHANNELS, **refused}
    divided = {n: p for n, p in parts.items() if isinstance(p.value, DTensor)}
    mesh = next(iter(divided.values())).value.device_mesh
    along: list[str | None] = [None] * mesh.ndim
    for name, part in divided.items():
        _note(f"{caller}: {name}", part, mesh, along, refused)
    for name, part in parts.items():
        if part.leads and name not in divided:
            todo = "Distribute it too, or pass local parameters: parameter.to_local()."
            raise ArgumentError(
                mismatch(f"{caller}: {name}", "a DTensor as well", "a tensor", todo)
            )
    _check_sizes(parts, along, caller)
    if inplace and _first(parts).requires_grad and torch.is_grad_enabled():
        todo = "Leave `inplace` out."
        want = "a DTensor that needs no gradient"
        raise ArgumentError(mismatch(f"{caller}: inplace", want, "one that does", todo))
    local = {name: _local(part, mesh, along) for name, part in parts.items()}
    # The last process may have no head at all: one of zeros is worked on, and none returned.
    empty = HEADS in along and any(
        value.shape[part.labels.index(HEADS)] == 0
        for value, part in zip(local.values(), parts.values(), strict=True)
        if HEADS in part.labels
    )
    if empty:
        local = {name: _padded(value, parts[name].labels) for name, value in local.items()}
    results = call(**local)
    if inplace:
        return _first(parts)
    if empty:
        results = results.narrow(tuple(out).index(HEADS), 0, 0)
    sizes = _sizes(parts)
    if isinstance(results, tuple):
        return tuple(_global(result, out, mesh, along, sizes) for result in results)
    return _global(results, out, mesh, along, sizes)


def _first(parts: Mapping[str, Part]) -> Any:
    return next(iter(parts.values())).value


def _sizes(parts: Mapping[str, Part]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in parts.values():
        for label, size in zip(part.labels, getattr(part.value, "shape", ()), strict=False):
            sizes[label] = max(sizes.get(label, 0), size)
    return sizes


def _note(caller: str, part: Part, mesh: Any, along: list[str | None], refused: Refused) -> None:
    """Write down along which label each axis of the mesh divides."""
    x = part.value
    if x.device_mesh != mesh:
        raise ArgumentError(mismatch(caller, f"the mesh {mesh}", x.device_mesh))
    for axis, placement in enumerate(x.placements):
        if placement.is_replicate():
            continue
        if type(placement) is not Shard:
            todo = "Form it first: x.redistribute(placements=...), with Shard or Replicate."
            want = "values, whole or in shards"
            raise ArgumentError(mismatch(caller, want, _told(x, placement), todo))
        label = part.labels[placement.dim % x.ndim]
        if label in refused:
            want, todo = refused[label]
            raise ArgumentError(mismatch(caller, want, _told(x, placement), todo))
        if along[axis] not in (None, label):
            todo = "Another argument is divided along another axis: redistribute one of them."
            raise ArgumentError(
                mismatch(caller, "shards along one axis", _told(x, placement), todo)
            )
        along[axis] = label


def _told(x: Any, placement: Any) -> str:
    return f"{placement!r} of shape {tuple(x.shape)}"


def _check_sizes(parts: Mapping[str, Part], along: Sequence[str | None], caller: str) -> None:
    """Raise where axes that are divided together are not of one size.

    A process sees its own part alone, which may fit by chance.
    """
    for label in along:
        found = {
            name: part.value.shape[part.labels.index(label)]
            for name, part in parts.items()
            if label in part.labels
        }
        leading = [size for name, size in found.items() if parts[name].leads]
        expected = max(leading or found.values(), default=0)
        for name, size in found.items():
            if size not in (1, expected):
                shape = tuple(parts[name].value.shape)
                want = f"{expected} entries along the axis that is divided"
                raise ArgumentError(mismatch(f"{caller}: {name}", want, f"shape {shape}"))


def _local(part: Part, mesh: Any, along: Sequence[str | None]) -> Any:
    """The part of an argument that this process works on; its gradient finds the way back."""
    value = part.value
    if not isinstance(value, Tensor):
        return value
    wanted: list[Any] = []
    for axis, label in enumerate(along):
        own = label in part.labels and value.shape[part.labels.index(label)] != 1
        if isinstance(value, DTensor) and not value.placements[axis].is_replicate():
            wanted.append(value.placements[axis])
        else:
            wanted.append(Shard(part.labels.index(label)) if own else Replicate())
    if not isinstance(value, DTensor):
        if all(placement.is_replicate() for placement in wanted) and not value.requires_grad:
            return value
        value = DTensor.from_local(value, mesh, [Replicate()] * mesh.ndim, run_check=False)
    if tuple(wanted) != tuple(value.placements):
        value = value.redistribute(placements=wanted)
    # What serves several shards has a gradient that is the sum of theirs.
    gradients = [
        Partial() if placement.is_replicate() and label is not None else placement
        for placement, label in zip(wanted, along, strict=True)
    ]
    local: Tensor = value.to_local(grad_placements=gradients)
    return local


def _padded(value: Any, labels: Sequence[str]) -> Any:
    if not isinstance(value, Tensor) or HEADS not in labels:
        return value
    axis = tuple(labels).index(HEADS)
    shape = [1 if i == axis else size for i, size in enumerate(value.shape)]
    return torch.cat([value, value.new_zeros(shape)], dim=axis)


def _global(
    x: Tensor, labels: Sequence[str], mesh: Any, along: Sequence[str | None], sizes: Any
) -> Any:
    """A result as a DTensor; shards need not be of one size, so that of the whole is given."""
    labels = tuple(labels)
    placements = [Replicate() if label is None else Shard(labels.index(label)) for label in along]
    shape = [
        sizes[label] if label in along else size
        for label, size in zip(labels, x.shape, strict=True)
    ]
    stride, count = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        stride[axis] = count
        count *= max(shape[axis], 1)
    return DTensor.from_local(
        x.contiguous(),
        mesh,
        placements,
        run_check=False,
        shape=torch.Size(shape),
        stride=tuple(stride),
    )
