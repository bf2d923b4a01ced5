"""Arguments with labels for their axes, as shards of this process and back again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from posenc._core.errors import ArgumentError, mismatch

HEADS = "heads"


class Part(NamedTuple):
    """An argument and the label of each of its axes."""

    value: Any
    labels: tuple[str, ...] = ()
    leads: bool = False  # an input proper, which is not taken to be the same everywhere


Refused = Mapping[str, tuple[str, str]]


def sizes_of(parts: Mapping[str, Part]) -> dict[str, int]:
    """The size of each label."""
    sizes: dict[str, int] = {}
    for part in parts.values():
        for label, size in zip(part.labels, getattr(part.value, "shape", ()), strict=False):
            sizes[label] = max(sizes.get(label, 0), size)
    return sizes


def note(caller: str, part: Part, mesh: Any, along: list[str | None], refused: Refused) -> None:
    """Write down along which label each axis of the mesh divides."""
    x = part.value
    if x.device_mesh != mesh:
        raise ArgumentError(mismatch(caller, f"the mesh {mesh}", x.device_mesh))
    for axis, placement in enumerate(x.placements):
        if placement.is_replicate():
            continue
        if type(placement) is not Shard:
            todo = "Form it first: x.redistribute(placements=...), with Shard or Replicate."
            expected = "values, whole or in shards"
            raise ArgumentError(mismatch(caller, expected, _words_of(x, placement), todo))
        label = part.labels[placement.dim % x.ndim]
        if label in refused:
            expected, todo = refused[label]
            raise ArgumentError(mismatch(caller, expected, _words_of(x, placement), todo))
        if along[axis] not in (None, label):
            todo = "Another argument is divided along another axis: redistribute one of them."
            raise ArgumentError(
                mismatch(caller, "shards along one axis", _words_of(x, placement), todo)
            )
        along[axis] = label


def _words_of(x: Any, placement: Any) -> str:
    return f"{placement!r} of shape {tuple(x.shape)}"


def check_sizes(parts: Mapping[str, Part], along: Sequence[str | None], caller: str) -> None:
    """Raise where axes that are divided together are not of one size.

    A process sees its own part alone, which may fit by chance.
    """
    for label in along:
        lengths = {
            name: part.value.shape[part.labels.index(label)]
            for name, part in parts.items()
            if label in part.labels
        }
        leading = [size for name, size in lengths.items() if parts[name].leads]
        count = max(leading or lengths.values(), default=0)
        for name, size in lengths.items():
            if size not in (1, count):
                shape = tuple(parts[name].value.shape)
                expected = f"{count} entries along the axis that is divided"
                raise ArgumentError(mismatch(f"{caller}: {name}", expected, f"shape {shape}"))


def shard_of(part: Part, mesh: Any, along: Sequence[str | None]) -> Any:
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


def padded(value: Any, labels: Sequence[str]) -> Any:
    """The same with a head of zeros at the end."""
    if not isinstance(value, Tensor) or HEADS not in labels:
        return value
    axis = tuple(labels).index(HEADS)
    shape = [1 if i == axis else size for i, size in enumerate(value.shape)]
    return torch.cat([value, value.new_zeros(shape)], dim=axis)


def joined(
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
