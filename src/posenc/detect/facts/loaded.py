"""A loaded model, and a file of torch, as checkpoints: tensors by name, read when asked for.

Which modules of a loaded model its forward leaves unused is seen in one run without numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import (
    CONFIG,
    Checkpoint,
    Stored,
    load,
    open_checkpoint,
    open_store,
)
from posenc._core.io.checkpoints.safetensors_model import ENDING, read_index, shards_of
from posenc._core.io.headers import Tensor

TORCH = "pytorch_model.bin"  # of which no pickle is run
ENDINGS = (".bin", ".pt", ".pth")
TOKENS = 2  # that see which modules are used
Read = Callable[[int, int], np.ndarray]  # numbers from, to


@dataclass(frozen=True)
class RemoteTensor(Stored):
    """A tensor whose numbers somebody else reads."""

    read: Read

    def numbers(self, begin: int, count: int, *, width: int = 1, every: int = 1) -> np.ndarray:
        """`count` numbers from number `begin`, as `Stored` has them."""
        numbers = np.asarray(self.read(begin, begin + count), dtype=np.float64)
        return numbers.reshape(-1, width)[:, ::every].reshape(-1)


def opened(source: Any, config: Any, caller: str) -> Checkpoint:
    """The weights of a loaded model, of a folder of torch, or of what `open_checkpoint` takes."""
    if hasattr(source, "named_parameters"):
        own = getattr(source, "config", None) if config is None else config
        return of_model(source, None if own is None else load(own, caller))
    if paths := _torch_files(source, caller):
        beside = paths[0].parent if (paths[0].parent / CONFIG).is_file() else None
        own = beside if config is None else config
        return of_files(paths, None if own is None else load(own, caller))
    return open_checkpoint(source, config=config, caller=caller)


def _torch_files(source: Any, caller: str) -> list[Path]:
    """The files that `torch.save` wrote of a source: none where a folder has safe ones."""
    several = source if isinstance(source, (list, tuple)) and source else (source,)
    if not all(isinstance(one, (str, Path)) for one in several):
        return []
    path, *others = map(Path, several)
    if path.is_dir():
        safe = any(path.glob("*.safetensors"))
        files = (path / TORCH, path / f"{TORCH}{ENDING}")
        path = next((file for file in files if not safe and file.is_file()), path)
    if path.name.endswith(f"{TORCH}{ENDING}"):
        return [path.parent / shard for shard in shards_of(read_index(path, caller))]
    return [path, *others] if path.is_file() and path.suffix in ENDINGS else []


def of_model(model: Any, config: dict[str, Any] | None) -> Checkpoint:
    """The parameters and buffers of a model of torch, as far as they have numbers of their own.

    Those on the meta device have none; those of another class are quantised, or a shard of theirs.
    """
    import torch

    own = {
        name: (tuple(tensor.shape), functools.partial(_numbers, tensor))
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and not tensor.is_meta
        and tensor.is_floating_point()
    }
    return _checkpoint(Path(type(model).__name__), own, config)


def of_files(paths: list[Path], config: dict[str, Any] | None) -> Checkpoint:
    """The tensors of files that `torch.save` wrote, without running their pickles."""
    own: dict[str, tuple[tuple[int, ...], Read]] = {}
    for path in paths:
        with open_store(path) as store:
            own |= {
                name: (one.shape, functools.partial(_opened, path, name))
                for name, one in store.arrays.items()
                if one.fetch is not None
            }
    return _checkpoint(paths[0] if len(paths) == 1 else paths[0].parent, own, config)


def _numbers(tensor: Any, begin: int, end: int) -> np.ndarray:
    return np.asarray(tensor.detach().reshape(-1)[begin:end].double().cpu().numpy())


def _opened(path: Path, name: str, begin: int, end: int) -> np.ndarray:
    with open_store(path) as store:
        return store.arrays[name].read(begin, end)


def _checkpoint(
    path: Path,
    own: Mapping[str, tuple[tuple[int, ...], Read]],
    config: dict[str, Any] | None,
) -> Checkpoint:
    checkpoint = Checkpoint(path, None, {}, None, config)
    vars(checkpoint)["tensors"] = {  # in place of those of its layouts
        name: RemoteTensor(Tensor(name, "float64", shape, 0, 0, "<f8"), path, read)
        for name, (shape, read) in own.items()
    }
    return checkpoint


# --- modules that no forward calls ----------------------------------------------------------------


def unused_modules(model: Any, holds: Callable[[Any], bool]) -> frozenset[str]:
    """Paths of those of several modules that no forward calls or reads, though their parent ran.

    Two tokens go through the model on the meta device, which computes shapes alone. Nothing is said
    of a model that does not run so, nor of parts that these tokens do not reach.
    """
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_leaves

    meant = {path: module for path, module in model.named_modules() if path and holds(module)}
    if len(meant) < 2:  # the one there is, is the one that turns
        return frozenset()
    ran: set[int] = set()
    read: set[int] = set()

    class OperandLog(TorchFunctionMode):
        """Notes every tensor that a function of torch gets."""

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            read.update(id(leaf) for leaf in tree_leaves((args, kwargs)))
            return func(*args, **(kwargs or {}))

    # Rules of a length write other frequencies into their modules.
    kept = [(module, dict(vars(module)), dict(module._buffers)) for module in model.modules()]
    state = {
        name: tensor.detach().to("meta")
        for source in (model.named_parameters, model.named_buffers)
        for name, tensor in source(remove_duplicate=False)
    }
    own = {
        path: {id(t) for name, t in state.items() if name.rpartition(".")[0] == path}
        | {id(value) for value in vars(module).values() if isinstance(value, torch.Tensor)}
        for path, module in meant.items()
    }
    ids = torch.zeros(1, TOKENS, dtype=torch.int64, device="meta")
    hook = register_module_forward_pre_hook(lambda module, _: ran.add(id(module)))
    try:
        with torch.no_grad(), OperandLog():
            torch.func.functional_call(model, state, (ids,))
    except Exception:  # noqa: BLE001 - other people's models raise anything
        return frozenset()
    finally:
        hook.remove()
        for module, values, buffers in kept:
            vars(module).clear()
            vars(module).update(values)
            module._buffers.clear()
            module._buffers.update(buffers)

    def reached(path: str) -> bool:
        parent = path.rpartition(".")[0]
        home = model.get_submodule(parent)
        lists = (torch.nn.ModuleList, torch.nn.ModuleDict)
        return reached(parent) if parent and isinstance(home, lists) else id(home) in ran

    return frozenset(
        path
        for path, module in meant.items()
        if id(module) not in ran and not own[path] & read and reached(path)
    )
