"""Arguments that are divided between processes: the DTensors of torch.

A verb does the same to every row of a batch and every head, so each process works on its own part,
and nothing is sent. What would need the parts of others, such as half of a head, is refused.

Each axis of an argument has a label. Axes of one label are divided together: where one argument is
a shard along it, the others are, or are cut to the same shard. Arguments that are no DTensors
(positions, parameters) are taken to be the same in all processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from posenc._core.errors import bad_argument
from posenc.functional.arguments.tokens import place_of

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
    lead = (str(axis) for axis in range(value.ndim - 1 - len(more)))
    return Part(value, (*lead, last, *more))


def of_offset(offset: Any) -> Part:
    """The position of a first token: a number, or one for each row of the batch."""
    return Part(offset, ("0",) if getattr(offset, "shape", ()) else ())


def of_parameters(spec: Any, params: Any) -> dict[str, Part]:
    """Parameters, with a label for the axis of their heads."""
    parts = {}
    for name, value in (params or {}).items():
        labels = ["parameter"] * len(getattr(value, "shape", ()))
        axis = spec.by_head.get(name)
        if axis is not None and labels:
            labels[axis] = HEADS
        parts[f"params.{name}"] = Part(value, tuple(labels))
    return parts


def params_of(more: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parameters among the arguments of a call."""
    return {name.removeprefix("params."): value for name, value in more.items()} or None


def of_heads(spec: Any, params: Any, first: int, end: int, caller: str) -> Any:
    """Parameters of the heads [first, end); those of all heads are cut, unless they are shards."""
    if not isinstance(params, Mapping):
        return params
    arrays = dict(params)
    for name, axis in spec.by_head.items():
        value = arrays.get(name)
        if not isinstance(value, Tensor) or value.shape[axis] == end - first:
            continue
        if isinstance(value, DTensor) and Shard(axis) in value.placements:
            raise bad_argument(
                f"{caller}: params[{name!r}]",
                f"{end - first} heads to divide",
                f"{value.shape[axis]} heads",
                f"Cut the parameters to heads {first} to {end - 1} before they are distributed.",
            )
        arrays[name] = value.narrow(axis, first, end - first)
    return arrays


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
    """`call(**local)` on the parts of this process, with DTensors for its results."""
    refused = {"parameter": WHOLE_PARAMETERS, "axes": WHOLE_CHANNELS, **refused}
    divided = {n: p for n, p in parts.items() if isinstance(p.value, DTensor)}
    for name, part in parts.items():
        # An input that came alone among DTensors, as plain keys beside divided queries, is one too.
        if (part.leads or not divided) and name not in divided:
            raise bad_argument(
                f"{caller}: {name}",
                "a DTensor as well",
                "a tensor",
                "Distribute it too, or pass the others as local tensors: t.to_local().",
            )
    mesh = next(iter(divided.values())).value.device_mesh
    along: list[str | None] = [None] * mesh.ndim
    for name, part in divided.items():
        note(f"{caller}: {name}", part, mesh, along, refused)
    check_sizes(parts, along, caller)
    if inplace and _first(parts).requires_grad and torch.is_grad_enabled():
        raise bad_argument(
            f"{caller}: inplace",
            "a DTensor that needs no gradient",
            "one that does",
            "Leave `inplace` out.",
        )
    local = {name: shard_of(part, mesh, along) for name, part in parts.items()}
    # The last process may have no head at all: one of zeros is worked on, and none returned.
    empty = HEADS in along and any(
        value.shape[part.labels.index(HEADS)] == 0
        for value, part in zip(local.values(), parts.values(), strict=True)
        if HEADS in part.labels
    )
    if empty:
        local = {name: padded(value, parts[name].labels) for name, value in local.items()}
    results = call(**local)
    if inplace:
        return _first(parts)
    if empty:
        results = results.narrow(tuple(out).index(HEADS), 0, 0)
    sizes = sizes_of(parts)
    if isinstance(results, tuple):
        return tuple(joined(result, out, mesh, along, sizes) for result in results)
    return joined(results, out, mesh, along, sizes)


def at_positions(
    verb: Callable[..., Any],
    spec: Any,
    positions: Any,
    params: Any,
    options: Mapping[str, Any],
    caller: str,
    out: str,
) -> Any:
    """A verb of positions and parameters alone, with `out` for the last axis of its results."""
    axes = ("axes",) if len(spec.axes) > 1 else ()
    rows = numbered(positions, "last", axes)
    lead = rows.labels[: len(rows.labels) - len(axes)] or ("last",)

    def local(positions: Any, **params: Any) -> Any:
        # The library is that of the positions or parameters.
        return verb(spec, positions, params=params_of(params), **options)

    parts = {"positions": rows, **of_parameters(spec, params)}
    front = ("one",) if options.get("batch_dim") else ()
    return apply(local, parts, (*front, *lead, out), caller, {})


def on_tokens(
    call: Callable[..., Any],
    x: tuple[str, Any],
    seq_dim: int,
    places: Mapping[str, Any],
    caller: str,
    *,
    last: int,
    more: Mapping[str, Part] = MappingProxyType({}),
    refused: Refused = MappingProxyType({}),
    inplace: bool = False,
) -> Any:
    """A verb of an input (..., seq, channels) by name, and of what stands beside its tokens."""
    name, value = x
    tokens, whole = of_tokens(value, seq_dim, next(iter(places.values())), caller)
    beside = {n: of_positions(place, tokens, last, value) for n, place in places.items()}
    parts = {name: Part(value, tokens, leads=True), **beside, **more}
    return apply(call, parts, tokens, caller, {**whole, **refused}, inplace=inplace)


def _first(parts: Mapping[str, Part]) -> Any:
    return next(iter(parts.values())).value


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
        raise bad_argument(caller, f"the mesh {mesh}", x.device_mesh)
    for axis, placement in enumerate(x.placements):
        if placement.is_replicate():
            continue
        if type(placement) is not Shard:
            raise bad_argument(
                caller,
                "a DTensor that is whole (Replicate) or divided (Shard)",
                _words_of(x, placement),
                "Form it first: x.redistribute(placements=…).",
            )
        label = part.labels[placement.dim % x.ndim]
        if label in refused:
            expected, todo = refused[label]
            raise bad_argument(caller, expected, _words_of(x, placement), todo)
        if along[axis] not in (None, label):
            raise bad_argument(
                caller,
                "arrays that are divided along one axis",
                _words_of(x, placement),
                "Another argument is divided along another axis: redistribute one of them.",
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
                raise bad_argument(
                    f"{caller}: {name}",
                    f"{count} entries along the axis that is divided",
                    f"shape {shape}",
                )


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
    return value.to_local(grad_placements=gradients)


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
