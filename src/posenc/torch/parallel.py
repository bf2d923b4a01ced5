"""Models on several processes: how they are divided, and whether all have the right positions.

fully_sharded    meta device -> exact rotations -> `fully_shard` -> memory -> weights
attend_across    attention over a sequence that processes hold parts of, in any order
across           the same, for the layers of a model of transformers
verify           the positions of all processes, compared in one exchange
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_gather_tensor, all_gather_tensor_autograd
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import scaled_dot_product_attention

from posenc import torch as modules
from posenc._core.errors import bad_argument, bad_data
from posenc._core.guard import foreign
from posenc.torch.libraries import RegisteredNames, registered_attention

__all__ = ["across", "attend_across", "fully_sharded", "verify"]


# --- weights in shards ----------------------------------------------------------------------------


def fully_sharded(
    build: Callable[[], nn.Module],
    mesh: DeviceMesh,
    state: Mapping[str, Any],
    *,
    blocks: type[nn.Module] | tuple[type[nn.Module], ...] = (),
) -> nn.Module:
    """A model of transformers under FSDP2, which no process ever holds as a whole.

    It is built on the meta device, its rotations are made exact, which needs no memory, and only
    then it is divided, gets memory, and is loaded. A model that keeps its own frequencies has
    garbage in their place after `to_empty`, as no checkpoint has them.

    Parameters
    ----------
    build : callable
        What makes the model: `lambda: LlamaForCausalLM(config)`.
    mesh : DeviceMesh
        Over which processes weights are divided.
    state : mapping
        The whole state dict, on every process; its tensors may be mapped from a file.
    blocks : type or tuple of types, optional
        The classes of layers that are gathered by themselves, such as `LlamaDecoderLayer`.

    Returns
    -------
    Module
        The divided model, in evaluation mode if `build` leaves it so.

    Raises
    ------
    DataError
        If buffers would be left as garbage, as neither the state nor `posenc.torch.adopt` has them.
    ArgumentError
        If the model cannot be adopted.

    Examples
    --------
    On each process, after `init_process_group`::

        mesh = init_device_mesh("cuda", (world,))
        model = fully_sharded(lambda: LlamaForCausalLM(config), mesh, state,
                              blocks=LlamaDecoderLayer)
    """
    with torch.device("meta"), foreign("build"):
        model = build()
    modules.adopt(model)
    kept = model.state_dict().keys()
    lost = [name for name, _ in model.named_buffers() if name not in kept]
    if lost:
        raise bad_data(
            "fully_sharded",
            "values for all buffers",
            f"none for {', '.join(lost)}",
            "Build the model on a device with memory, not on meta, and divide that.",
        )
    for block in [module for module in model.modules() if blocks and isinstance(module, blocks)]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device=mesh.device_type)
    set_model_state_dict(model, {**state}, options=StateDictOptions(full_state_dict=True))
    return model


# --- a sequence in parts --------------------------------------------------------------------------


def attend_across(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    positions: Tensor,
    mesh: DeviceMesh,
    *,
    scale: float | None = None,
) -> Tensor:
    r"""Causal attention over a sequence that the processes of a mesh hold parts of.

    .. math:: o_i = \sum_{j:\,p_j \le p_i} \operatorname{softmax}_j(s\, q_i \cdot k_j)\, v_j

    Keys and values are gathered from all processes; who sees what follows from positions alone, so
    that any layout of `posenc.positions.shard` will do: pieces in order, as a ring passes them on,
    zig-zag, or stripes.

    Parameters
    ----------
    query, key, value : Tensor
        The own part, (batch, heads, tokens, dim), turned at its positions; keys and values may have
        fewer heads.
    positions : Tensor of integers
        Where the own tokens stand in the whole sequence: (tokens,) or (batch, tokens).
    mesh : DeviceMesh
        Of one axis, along which the sequence is divided in parts of one size.
    scale : float, optional
        The factor of scores; `dim ** -0.5` by default.

    Returns
    -------
    Tensor
        The own part, (batch, heads, tokens, dim). Gradients reach the parts of all processes.

    Examples
    --------
    On each process::

        own = posenc.positions.shard(length, world=4, rank=rank, layout="zigzag", xp=torch)
        q, k = (posenc.rotate(rope, t, positions=own) for t in (q, k))
        out = posenc.torch.parallel.attend_across(q, k, v, own, mesh)
    """
    own = positions.expand(len(query), -1).contiguous()
    every = all_gather_tensor(own, 1, mesh)
    keys, values = (all_gather_tensor_autograd(t.contiguous(), 2, mesh) for t in (key, value))
    seen = every[:, None, None, :] <= own[:, None, :, None]
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=seen, scale=scale, enable_gqa=True
    )


def across(mesh: DeviceMesh, name: str) -> RegisteredNames:
    """Let models of transformers attend over all parts of a sequence: `attn_implementation=name`.

    Parameters
    ----------
    mesh : DeviceMesh
        Of one axis, along which the sequence is divided.
    name : str
        For `model.set_attn_implementation(name)`.

    Returns
    -------
    RegisteredNames
        Its `remove()` takes the name out again; as a context manager it does so at the end.

    Notes
    -----
    Each call of the model has to be given `position_ids`; layers with windows, padding, and caches
    are not known to it.

    Examples
    --------
    On each process::

        with posenc.torch.parallel.across(mesh, "parts"):
            model.set_attn_implementation("parts")
            logits = model(tokens[:, own], position_ids=own[None], use_cache=False).logits
    """

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, None]:
        positions, window = kwargs.get("position_ids"), kwargs.get("sliding_window")
        if positions is None or window is not None or query.shape[2] != key.shape[2]:
            raise bad_argument(
                type(module).__name__,
                "position_ids, and layers without a window or a cache",
                "a call without position_ids, or with a window or cached keys",
            )
        out = attend_across(query, key, value, positions, mesh, scale=kwargs.get("scaling"))
        return out.transpose(1, 2).contiguous(), None

    return registered_attention(name, attention, lambda **_: None, "across: name")


# --- positions of all -----------------------------------------------------------------------------


@contextlib.contextmanager
def verify(
    model: nn.Module,
    mesh: DeviceMesh,
    *,
    divided: Literal["heads", "sequence"],
    timeout: float = 60.0,
) -> Iterator[None]:
    """Compare the positions that a model is given on all processes, in one exchange.

    The model is called once inside the block. Integers that its modules are given under a name
    with `pos` in it (`position_ids`, `positions`, …) are its positions. A local `arange` in place
    of those of a shard changes no shape, and nothing else notices it.

    Parameters
    ----------
    model : Module
        The part of this process.
    mesh : DeviceMesh
        Of one axis.
    divided : {"heads", "sequence"}
        `heads`: all processes must have the same positions, as under tensor parallelism, or with
        caches that are divided by heads. `sequence`: together they must have each position once,
        without a gap, in any layout.
    timeout : float
        Seconds to wait for the other processes at the end of the block.

    Raises
    ------
    DataError
        On all processes: if the block failed on one of them, a model was given no positions or
        several, or they do not fit each other; if one does not come in time.
    ArgumentError
        If the mesh has several axes.

    Notes
    -----
    Where the model itself waits for a process that failed, that ends with the timeout of the
    model's own group. Rows of a batch must have the same positions.

    Examples
    --------
    On each process::

        with posenc.torch.parallel.verify(model, mesh, divided="sequence"):
            model(tokens[:, own], position_ids=own[None])
    """
    if divided not in _FITS:
        raise bad_argument("verify: divided", "'heads' or 'sequence'", repr(divided))
    if mesh.ndim != 1:
        raise bad_argument("verify: mesh", "one axis", f"{mesh.ndim}", "Take one: mesh[name].")
    seen: list[Tensor] = []
    hooks = [
        module.register_forward_pre_hook(partial(_note, seen), with_kwargs=True)
        for module in model.modules()
    ]
    error: Exception | None = None
    try:
        yield
    except Exception as caught:  # noqa: BLE001 - the others learn of it
        error = caught
    finally:
        for hook in hooks:
            hook.remove()
    shown = _exchanged(_shown(seen, error), tuple(mesh.mesh.tolist()), timeout)
    # A rank that waited for one that failed has failed as well: all are named.
    if failed := [f"rank {rank}: {one}" for rank, one in shown.items() if isinstance(one, str)]:
        raise bad_data("verify", "positions of each rank", "; ".join(failed)) from error
    if not _FITS[divided]([*shown.values()]):
        raise bad_data(
            "verify",
            _EXPECTED[divided],
            "; ".join(f"rank {rank} has {one[0]} to {one[-1]}" for rank, one in shown.items()),
            "Pass each its own: position_ids=posenc.positions.shard(…).",
        )


def _note(seen: list[Tensor], module: nn.Module, args: Any, kwargs: Any) -> None:
    """Note the positions that a module is called with, unless they were noted before."""
    names = inspect.signature(module.forward).parameters
    for name, value in {**dict(zip(names, args, strict=False)), **kwargs}.items():
        if "pos" in name and isinstance(value, Tensor) and not value.is_floating_point():
            rows = torch.unique(value.detach().reshape(-1, value.shape[-1]), dim=0)
            if not any(torch.equal(rows, other) for other in seen):
                seen.append(rows)


def _shown(seen: list[Tensor], error: Exception | None) -> list[int] | str:
    """What this process has to say to the others: its positions, or why it has none to compare."""
    if error is not None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if len(seen) != 1 or len(seen[0]) != 1 or not seen[0].numel():
        return f"{sum(map(len, seen))} rows of positions, where one can be compared"
    return seen[0][0].tolist()


_asked: Counter[tuple[int, ...]] = Counter()  # how often a mesh was asked, as on each of its ranks


def _exchanged(own: list[int] | str, ranks: tuple[int, ...], timeout: float) -> dict[int, Any]:
    """What each process has shown, by way of the store that they all met in.

    A collective would meet another one in which a process is still waiting for one that failed.
    """
    _asked[ranks] += 1
    store = _get_default_store()
    keys = {rank: f"posenc/{ranks}/{_asked[ranks]}/{rank}" for rank in ranks}
    store.set(keys[dist.get_rank()], json.dumps(own))
    try:
        store.wait([*keys.values()], timedelta(seconds=timeout))
    except RuntimeError as error:
        raise bad_data(
            "verify",
            f"{len(ranks)} ranks within {timeout:g} s",
            own if isinstance(own, str) else "fewer",
        ) from error
    return {rank: json.loads(store.get(key)) for rank, key in keys.items()}


def _each_once(shown: list[list[int]]) -> bool:
    """Whether each position of a sequence stands on one process."""
    every = sorted(place for one in shown for place in one)
    return every == [*range(every[0], every[0] + len(every))]


_FITS: dict[str, Callable[[list[list[int]]], bool]] = {
    "heads": lambda shown: all(one == shown[0] for one in shown),
    "sequence": _each_once,
}
_EXPECTED = {
    "heads": "the same positions on all ranks",
    "sequence": "each position of the sequence on one rank",
}
