"""The Triton kernels, for torch tensors on a GPU; and on a CPU in Triton's interpreter."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posenc._core.array import dtype_name, is_compiling, is_torch
from posenc.kernels import plans
from posenc.kernels.requests import Add, Packed, Request, Rotate, Where

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.encodings.table.base import TableSpec
    from posenc.kernels.torch_turn import Way

__all__ = ["Gpu", "add", "gpu_device", "turn"]

Array = Any
DTYPES = ("float32", "float16", "bfloat16")


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@functools.cache
def gpu_device() -> bool:
    """Whether the system shows a device that may be a GPU; only torch can say what it can do.

    Linux names them under `/dev`: drivers of NVIDIA, also in a Jetson, of AMD, and those of WSL.
    """
    names = ("nvidia*", "nvhost*", "nvmap", "kfd", "dxg")
    return sys.platform != "linux" or any(any(Path("/dev").glob(name)) for name in names)


def _interpreted() -> bool:
    """Whether Triton runs its kernels in Python; it decides so where they are defined."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class Gpu:
    """Triton for NVIDIA and AMD."""

    name = "triton"
    serves: tuple[type[Request], ...] = (Rotate, Add)

    @property
    def about(self) -> str:
        """What it takes."""
        return "interpreted" if _interpreted() else "tensors on a GPU"

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""
        if not _installed():
            return "triton is not installed"
        if _interpreted():
            return None
        torch = sys.modules.get("torch")
        if not gpu_device() or (torch is not None and not torch.cuda.is_available()):
            return "no GPU"
        return None

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""
        if isinstance(request, Rotate):
            pairing = request.spec.channels
            reason = plans.why_no_turning(request.spec)
            if pairing.blocks or pairing.output != "same":
                reason = reason or "pairs in blocks, or a result in another order"
            arrays, places = request.arrays, request.where
        else:
            assert isinstance(request, Add)  # noqa: S101 - for the type checker
            reason = plans.why_no_columns(request.spec)
            arrays, places = (request.x,), (request.where,)
        for x, where in zip(arrays, places, strict=True):
            reason = reason or _why_not_array(x) or _why_not_where(where)
        return reason

    def run(self, request: Request) -> Any:
        """The result."""
        if isinstance(request, Rotate):
            from posenc.kernels.torch_turn import turned

            return turned(request, self.name)
        assert isinstance(request, Add)  # noqa: S101 - for the type checker
        from posenc.kernels.torch_add import added

        return added(request, self.name)


def _why_not_array(x: Array) -> str | None:
    if not is_torch(x):
        return "an array that is no tensor of torch"
    name = dtype_name(x.dtype)
    if name not in DTYPES:
        return f"{name}, where it has {', '.join(DTYPES)}"
    if is_compiling():
        return None  # the operator stands in the graph
    if x.device.type != ("cpu" if _interpreted() else "cuda"):
        return f"a tensor on {x.device.type}"
    from posenc.kernels.torch_state import why_not_memory

    return why_not_memory(x)


def _why_not_where(where: Where) -> str | None:
    if isinstance(where, (int, Packed)) or dtype_name(where.dtype).startswith("int"):
        return None
    return "real positions, where it takes integers"


# --- what it does ---------------------------------------------------------------------------------


def turn(
    way: Way,
    arrays: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    where: Where,
    *,
    transposed: bool,
) -> None:
    """Turn arrays of one dtype at the same positions: at most two to a launch."""
    from posenc.kernels.triton_rotate import Angles, rotate

    p = plans.turning(way.spec, inverse=way.inverse, transposed=transposed)
    known = _on_device(way.spec, ("step", "origin"), arrays[0])
    axes = _axes(arrays[0], where, way.seq_dim)
    shared = [[x.shape[a] for a in axes.before] for x in arrays]
    if any(shape != shared[0] for shape in shared):
        for x, y in zip(arrays, results, strict=True):
            turn(way, (x,), (y,), where, transposed=transposed)
        return
    angles = Angles(
        known["step"],
        known.get("origin"),
        _positions(where, arrays[0], axes),
        where.ends if isinstance(where, Packed) else None,
        where if isinstance(where, int) else 0,
        p.source == "interleaved",
        0 if p.part == "leading" else -1,
        p.factor,
        p.divide,
        float(p.sign),
    )
    for i in range(0, len(arrays), 2):
        pair = slice(i, i + 2)
        _through(lambda into, out: rotate(into, out, angles), arrays[pair], results[pair], axes)


def add(x: Tensor, result: Tensor, where: Where, spec: TableSpec, seq_dim: int) -> None:
    """Write `x` times its factor plus the rows of a table."""
    from posenc.kernels.triton_add import Columns
    from posenc.kernels.triton_add import add as launch

    made, axes = _columns(spec, x), _axes(x, where, seq_dim)
    columns = Columns(
        made[0],
        made[1],
        _positions(where, x, axes),
        where if isinstance(where, int) else 0,
        made[2],
        made[3],
    )
    scale = spec.embedding_scale
    _through(lambda into, out: launch(into[0], out[0], columns, scale), (x,), (result,), axes)


def _on_device(spec: Any, names: tuple[str, ...], beside: Tensor) -> dict[str, Tensor]:
    from posenc._core.array_torch import constants

    return {key: value for key, value in constants(spec, beside).items() if key in names}


def _columns(spec: Any, beside: Tensor) -> tuple[Tensor, Tensor, float, int | None]:
    key = ("columns", beside.device)
    if key not in spec.plans:
        torch = sys.modules["torch"]
        step, origin, factor, pad = plans.column_phases(spec)
        on_device = (torch.from_numpy(a.copy()).to(beside.device) for a in (step, origin))
        spec.plans[key] = (*on_device, factor, pad)
    found: tuple[Tensor, Tensor, float, int | None] = spec.plans[key]
    return found


class Axes(NamedTuple):
    """The axes of an array as a kernel takes them: (n0, n1, repeats, channels)."""

    before: tuple[int, ...]  # joined to n0
    place: int  # n1: the sequence
    repeats: tuple[int, ...]  # one at most: positions do not vary along it
    last: int


def _axes(x: Tensor, where: Where, seq_dim: int) -> Axes:
    place = x.ndim + seq_dim
    others = [a for a in range(x.ndim - 1) if a != place]
    alike = [a for a in others if isinstance(where, (int, Packed)) or where.shape[a] == 1]
    repeats = (max(alike, key=lambda a: x.shape[a]),) if alike else ()
    return Axes(tuple(a for a in others if a not in repeats), place, repeats, x.ndim - 1)


def _rows(x: Tensor, axes: Axes) -> Tensor | None:
    """The view of `x` with these axes, where its strides allow one."""
    joined = math.prod(x.shape[a] for a in axes.before)
    repeats = math.prod(x.shape[a] for a in axes.repeats)
    moved = x.permute(*axes.before, axes.place, *axes.repeats, axes.last)
    if x.stride(-1) != 1:
        return None
    try:
        return moved.view(joined, x.shape[axes.place], repeats, x.shape[-1])
    except RuntimeError:
        return None


def _through(launch: Any, arrays: Any, results: Any, axes: Axes) -> None:
    """Launch on views, or on copies of what has none: gradients may come with any strides."""
    into = [_rows(x, axes) for x in arrays]
    out = [_rows(y, axes) for y in results]
    if all(view is not None for view in (*into, *out)):
        launch(into, out)
        return
    made = [y.new_empty(y.shape) for y in results]
    launch([_rows(x.contiguous(), axes) for x in arrays], [_rows(y, axes) for y in made])
    for y, new in zip(results, made, strict=True):
        y.copy_(new)


def _positions(where: Where, x: Tensor, axes: Axes) -> Tensor | None:
    """Positions (n0, n1, axes of a position) beside the rows of `x`."""
    if isinstance(where, (int, Packed)):
        return None
    kept = [*axes.before, axes.place, axes.last]
    dropped = [a for a in range(x.ndim) if a not in kept]
    moved = where.permute(*kept, *dropped).flatten(len(kept) - 1)
    moved = moved.expand(*(x.shape[a] for a in kept[:-1]), moved.shape[-1])
    return moved.reshape(-1, x.shape[axes.place], moved.shape[-1])
