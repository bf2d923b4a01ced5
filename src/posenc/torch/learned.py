"""Registration of what an encoding learns as the parameters of a module."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, MutableMapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from posenc import functional
from posenc._core.calls import check_call
from posenc._core.errors import mismatch
from posenc._core.spec.spec import Spec
from posenc.functional.arguments.scores import head_range, part_shapes

# --- what checkpoints hold of positions, and a module without buffers does not need ---------------

NAMES = frozenset(
    (
        *("pe", "pos_embed", "pos_emb", "position_embeddings", "positional_embedding"),
        *("pos_embedding", "weights", "_float_tensor", "position_ids", "inv_freq"),
        *("original_inv_freq", "freqs", "freqs_cis", "cos_cached", "sin_cached", "cos_sin_cache"),
    )
)
CLOSE = 1e-2  # in half precision, or from float32 angles, it is still the same table


class StalePositionsWarning(UserWarning):
    """A checkpoint holds positions of another convention than the spec's."""


def drop(
    state: MutableMapping[str, Any],
    prefix: str,
    module: Any,
    expected: Callable[[Spec, Tensor], np.ndarray | None],
) -> None:
    """Remove stale positions from a state dict, and warn where their values are not the spec's."""
    for name in NAMES.difference(dict(module.named_parameters(recurse=False))):
        stored = state.pop(prefix + name, None)
        if not isinstance(stored, Tensor) or not stored.is_floating_point() or stored.is_meta:
            continue
        error = expected(module.spec, stored.detach().cpu().double())
        if error is None or not error.size or float(np.max(error)) <= CLOSE:
            continue
        warnings.warn(
            f"{type(module).__name__}: {prefix + name!r} of the checkpoint differs from the spec "
            f"by {float(np.max(error)):.3g}: the model was trained with another convention. What "
            "is stored is not loaded; change the spec.",
            StalePositionsWarning,
            stacklevel=5,
        )


def rows(spec: Any, stored: Tensor) -> np.ndarray | None:
    """Distance of a table (rows, dim), with any axes of length 1, whose first row is row 0."""
    comparable = not spec.shapes and len(spec.axes) == 1 and spec.coordinates == "integer"
    if not comparable or stored.ndim < 2 or stored.shape[-1] != spec.dim:
        return None
    count = max(stored.shape[:-1])
    if stored.numel() != count * spec.dim:
        return None
    start = spec.arrangement.start if hasattr(spec, "arrangement") else 0
    expected = functional.table(spec, np.arange(count) - start, dtype="float64")
    return np.abs(stored.numpy().reshape(count, spec.dim) - expected)


def frequencies(spec: Any, stored: Tensor) -> np.ndarray | None:
    """|stored / frequency - 1| for the frequencies of the pairs."""
    if spec.shapes or stored.ndim != 1 or not hasattr(spec, "matrix"):
        return None
    expected = functional.frequencies(spec)
    if stored.shape != expected.shape:
        return None
    return np.abs(stored.numpy() - expected) / np.where(expected == 0, 1.0, np.abs(expected))


# --- the module -----------------------------------------------------------------------------------


class LearnedModule(nn.Module):
    """A module with the parameters of a spec, or of some of its heads.

    The first values are those of `posenc.init(spec, seed)`; the part of some heads is cut out of
    them, so that the ranks of a divided model begin as the whole model does. Without a seed, each
    reset draws one from torch's generator of the CPU.

    A module without parameters remembers the device that it was moved to, or made on. It is no
    buffer, and the meta device, on which nothing is computed, is none to be made on.
    """

    _device: torch.device | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse arguments that the module does not have, in words that lead on."""
        if args or kwargs:  # copies and pickles bring what they have afterwards
            _, *parameters = inspect.signature(cls.__init__).parameters.values()
            check_call(cls.__name__, {p.name: p for p in parameters}, args, kwargs)
        return super().__new__(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse arguments that `forward` does not have, in words that lead on."""
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            check_call(
                type(self).__name__, inspect.signature(self.forward).parameters, args, kwargs
            )
            raise

    def __init__(
        self, spec: Any, heads: tuple[int, int] | None = None, seed: int | None = None
    ) -> None:
        super().__init__()
        made_on = torch.get_default_device()
        self._device = None if made_on.type in ("cpu", "meta") else made_on
        self.spec = spec
        self.seed = seed
        name = type(self).__name__
        self.heads = None if heads is None else head_range(heads, spec.heads, name)
        self._shapes = spec.shapes if self.heads is None else part_shapes(spec, *self.heads)
        for name, shape in self._shapes.items():
            # Not by `register_parameter`, which refuses a name that a method has, such as `slopes`.
            self._parameters[name] = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Give the parameters their first values anew, as after `to_empty` from the meta device.

        A parameter that is divided between processes (a DTensor, as `fully_shard` makes them) gets
        its own part of the whole values, and nothing is sent. With a seed the parts fit each other
        whatever the processes drew before; without one they fit where the processes draw the same
        from torch's generator, as after one `torch.manual_seed`.
        """
        parameters: Any = self._parameters
        by_head = getattr(self.spec, "by_head", {})
        seed = self.seed
        if seed is None:
            # Nothing is drawn for values that nobody will see.
            seed = 0 if all(value.is_meta for value in parameters.values()) else _drawn()
        for name, values in functional.init(self.spec, seed).items():
            parameter = parameters[name]
            part = (
                np.take(values, range(*self.heads), axis=by_head[name])
                if self.heads is not None and name in by_head
                else values
            )
            if not parameter.is_meta:
                parameter.copy_(_beside(parameter, torch.from_numpy(np.array(part))))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        beside = torch.empty(0, device=self._device or "cpu")
        try:
            self._device = fn(beside).device
        except NotImplementedError:  # what is on the meta device cannot be copied to another
            self._device = fn(torch.empty(0, device="cpu")).device
        return self

    def __getstate__(self) -> dict[str, Any]:
        # A tensor goes where `torch.load` is told to map others to; a device would stay.
        place = None if self._device is None else torch.empty(0, device=self._device)
        return {**self.__dict__, "_device": place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.get("_device")
        device = place.device if isinstance(place, Tensor) else place
        super().__setstate__({**state, "_device": device})  # type: ignore[no-untyped-call]

    def home(self, *values: Any) -> torch.device | None:
        """The device to answer on, where neither parameters nor a given tensor say so."""
        elsewhere = self._shapes or any(isinstance(value, Tensor) for value in values)
        return None if elsewhere else self._device

    def learned(self) -> dict[str, Tensor] | None:
        """The parameters by name, as the verbs take them."""
        learned: Any = self._parameters
        return {name: learned[name] for name in self._shapes} or None

    def extra_repr(self) -> str:
        """The spec, in `print(model)`."""
        return repr(self.spec) if self.heads is None else f"{self.spec!r}, heads={self.heads}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take the slice of these heads out of a checkpoint of all heads."""
        _, _, missing, _, errors = rest
        refused = []
        first, end = self.heads or (0, 0)
        for name, axis in getattr(self.spec, "by_head", {}).items() if self.heads else ():
            key, part = prefix + name, self._shapes.get(name)
            value = state_dict.get(key)
            if part is None or not isinstance(value, Tensor) or tuple(value.shape) == part:
                continue
            if tuple(value.shape) == self.spec.shapes[name]:
                # A copy: `assign=True` keeps what it is given, and with a view all of its memory.
                state_dict[key] = value.narrow(axis, first, end - first).clone()
                continue
            errors.append(
                mismatch(
                    f"{type(self).__name__}: {key!r} of the checkpoint",
                    f"shape {part}, that of heads {first} to {end - 1}, "
                    f"or {self.spec.shapes[name]}, that of all heads",
                    f"shape {tuple(value.shape)}",
                )
            )
            del state_dict[key]
            refused.append(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        missing[:] = [key for key in missing if key not in refused]


def _drawn() -> int:
    """A seed from torch's generator of the CPU, also where new tensors go to the meta device."""
    drawn = torch.randint(2**63 - 1, (), device="cpu")
    # A fake tensor has no value, and makes parameters that have none either.
    return int(drawn) if type(drawn) is Tensor else 0


def _beside(parameter: Tensor, whole: Tensor) -> Tensor:
    """Values for a parameter, which takes its own part of them if it is divided."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not isinstance(parameter, module.DTensor):
        return whole
    mesh, local = parameter.device_mesh, whole.to(parameter.device)
    return module.DTensor.from_local(local, mesh, [module.Replicate()] * mesh.ndim, run_check=False)


# Names under which published modules keep tables and frequencies that follow from their spec.
