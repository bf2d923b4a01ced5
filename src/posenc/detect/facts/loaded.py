"""A loaded model, and a file of torch, as checkpoints: tensors by name, read when asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import Checkpoint, Stored, open_store
from posenc._core.io.tensor_layout import Tensor

Read = Callable[[int, int], np.ndarray]  # numbers from, to


@dataclass(frozen=True)
class Held(Stored):
    """A tensor whose numbers somebody else reads."""

    read: Read

    def numbers(self, begin: int, count: int, *, width: int = 1, every: int = 1) -> np.ndarray:
        """`count` numbers from number `begin`, as `Stored` has them."""
        numbers = np.asarray(self.read(begin, begin + count), dtype=np.float64)
        return numbers.reshape(-1, width)[:, ::every].reshape(-1)


def of_model(model: Any, config: dict[str, Any]) -> Checkpoint:
    """The parameters and buffers of a model of torch; those on the meta device have no numbers."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    own = {k: t for k, t in named.items() if not t.is_meta and t.is_floating_point()}
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
    made = Checkpoint(path, None, {}, None, config)
    vars(made)["tensors"] = {  # in place of those of its layouts
        name: Held(Tensor(name, "float64", shape, 0, 0, "<f8"), path, reads[name])
        for name, shape in shapes.items()
    }
    return made
