"""A loaded model, and a file of torch, as checkpoints: tensors by name, read when asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import Checkpoint, Stored, load, open_checkpoint, open_store
from posenc._core.io.tensor_layout import Tensor

TORCH = "pytorch_model.bin"  # of which no pickle is run
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
        return of_model(source, source.config.to_dict() if config is None else config)
    folder = Path(source) if isinstance(source, (str, Path)) else Path()
    if folder.name and (folder / TORCH).is_file() and not any(folder.glob("*.safetensors")):
        return of_file(folder / TORCH, load(folder if config is None else config, caller))
    return open_checkpoint(source, config=config, caller=caller)


def of_model(model: Any, config: dict[str, Any]) -> Checkpoint:
    """The parameters and buffers of a model of torch, as far as they have numbers of their own.

    Those on the meta device have none; those of another class are quantised, or a shard of theirs.
    """
    import torch

    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    plain = (torch.Tensor, torch.nn.Parameter)
    own = {
        name: tensor
        for name, tensor in named.items()
        if type(tensor) in plain and not tensor.is_meta and tensor.is_floating_point()
    }
    reads = {name: functools.partial(_numbers, tensor) for name, tensor in own.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    return _checkpoint(Path(type(model).__name__), shapes, reads, config)


def of_file(path: Path, config: dict[str, Any]) -> Checkpoint:
    """The tensors of a file that `torch.save` wrote, without running its pickle."""
    with open_store(path) as store:
        shapes = {name: one.shape for name, one in store.arrays.items() if one.fetch is not None}
    reads = {name: functools.partial(_opened, path, name) for name in shapes}
    return _checkpoint(path, shapes, reads, config)


def _numbers(tensor: Any, begin: int, end: int) -> np.ndarray:
    return np.asarray(tensor.detach().reshape(-1)[begin:end].double().cpu().numpy())


def _opened(path: Path, name: str, begin: int, end: int) -> np.ndarray:
    with open_store(path) as store:
        return store.arrays[name].read(begin, end)


def _checkpoint(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    reads: Mapping[str, Read],
    config: dict[str, Any],
) -> Checkpoint:
    checkpoint = Checkpoint(path, None, {}, None, config)
    vars(checkpoint)["tensors"] = {  # in place of those of its layouts
        name: RemoteTensor(Tensor(name, "float64", shape, 0, 0, "<f8"), path, reads[name])
        for name, shape in shapes.items()
    }
    return checkpoint
