"""Cosines and sines of several axes inside somebody else's model, eager and in a graph."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor

from posenc import functional, registry
from posenc._core.errors import bad_data
from posenc._core.spec.spec import to_json
from posenc.encodings.rotary.rope import RoPE
from posenc.torch.adopted import AdoptedRotary

WHOLE = 1e-2  # how far from an integer the position of a token may be taken for
ROOM = 2.0**-21  # of angles in float32, for each radian


class AdoptedAxes(AdoptedRotary):
    """Cosines and sines of several axes in the form of the module that this one stands in for.

    Forms: complex numbers; a pair of arrays with an entry for each pair or for each channel; 2 x 2
    matrices. What has none of them, such as latents beside, is passed on as it is, and so are rows
    of zeros, which pad.
    """

    def __init__(self, original: Any, trained: RoPE, spec: RoPE) -> None:
        super().__init__(original, {}, [trained])
        self.spec, self.trained = spec, trained
        self._texts = to_json(trained), to_json(spec)
        self.change, self.place, self.reach = 0.0, 0, -1  # of the last call; no rows: -1
        steps = functional.frequencies(trained).tolist()
        axis = trained.arrangement.layout(trained.pairs).axis
        # The pairs of each axis that turn, the slowest first.
        self._ladders = [
            sorted((abs(f), f, j) for j, f in enumerate(steps) if axis[j] == a and f)
            for a in range(len(trained.axes))
        ]
        channels = enumerate(trained.channels.channels(trained.dim))
        self._pair_of = [j for _, j in sorted((c, j) for j, two in channels for c in two)]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the old module answers, with exact angles."""
        return self._exact(self.original(*args, **kwargs))

    def _exact(self, answer: Any) -> Any:
        pairs, dim = self.trained.pairs, self.trained.dim
        if isinstance(answer, Tensor):
            tail = answer.shape[-1:] if answer.is_complex() else answer.shape[-3:]
            return self.numbers([answer])[0] if tail in ((pairs,), (pairs, 2, 2)) else answer
        if not isinstance(answer, (tuple, list)):
            return answer
        kind: Any = type(answer)
        real = [part for part in answer if isinstance(part, Tensor) and part.is_floating_point()]
        shapes = {tuple(part.shape) for part in real}
        return (
            kind([self._exact(part) for part in answer])
            if {len(real), len(answer)} != {2}
            or len(shapes) != 1
            or {shape[-1:] for shape in shapes} - {(pairs,), (dim,)}
            else kind(self.numbers(real))
        )

    def numbers(self, parts: list[Tensor]) -> list[Tensor]:
        """New numbers in the form of the parts, which may have each of the old ones twice."""
        if torch.compiler.is_compiling():
            return adopted_axes(parts, *self._texts, type(self.original).__name__)
        if not parts[0].numel():
            return [part.clone() for part in parts]
        whole, pairs = parts[0], self.trained.pairs
        columns = self._pair_of if whole.shape[-1] != pairs else [*range(pairs)]

        def form(z: Tensor) -> list[Tensor]:
            if len(parts) == 2:
                return [z.real[..., columns], z.imag[..., columns]]
            return [z if whole.is_complex() else _matrices(z)]

        if len(parts) == 2:
            first = [columns.index(j) for j in range(pairs)]
            old = torch.complex(*(part[..., first].double() for part in parts))
        else:
            old = whole if whole.is_complex() else torch.complex(*whole[..., 0].double().unbind(-1))
        apart = sum((a - b).abs().max().item() for a, b in zip(parts, form(old), strict=True))
        return [one.to(whole.dtype) for one in form(self._turned(old, whole.dtype, apart))]

    def _turned(self, old: Tensor, dtype: torch.dtype, apart: float) -> Tensor:
        """Cosines and sines (..., pairs) of the places that those of the old module belong to."""
        places = self._places(torch.nan_to_num(old.to(torch.complex128).angle()))
        usual, pads = _phasors(self.trained, places), (old == 0).all(-1, keepdim=True)
        off = (old - usual).abs().masked_fill(pads, 0.0).max().item() + apart
        self.reach = int(places.abs().max())
        room = (
            ROOM * self.reach * max(ladder[-1][0] for ladder in self._ladders if ladder)
            + 4 * torch.finfo(dtype).eps
        )
        if not off <= room:
            raise bad_data(
                f"adopt: {type(self.original).__name__}",
                f"cosines and sines of {self.trained!r}, which its config says",
                f"others, off by {off:.2g} where float32 explains {room:.2g}",
                "Its table may end, or its config was changed after the model was made: "
                "posenc.torch.release(model) puts it back.",
            )
        ours = torch.where(
            pads, old, usual if self.spec == self.trained else _phasors(self.spec, places)
        )
        change = (ours - old).abs().amax(-1).flatten()
        self.change = change.max().item()
        self.place = int(places.flatten(0, -2)[change.argmax()].abs().max())
        return ours

    def _places(self, angles: Tensor) -> Tensor:
        """Where each token stands (..., axes): integers where all of them are."""
        places = torch.zeros(*angles.shape[:-1], len(self._ladders), device=angles.device).double()
        for axis, ladder in enumerate(self._ladders):
            for _, step, pair in ladder:
                ahead = angles[..., pair] - step * places[..., axis]
                turns = torch.round(ahead / (2 * math.pi))
                places[..., axis] += (ahead - 2 * math.pi * turns) / step
        whole = places.round()
        return whole.long() if bool(((places - whole).abs() < WHOLE).all()) else places

    def extra_repr(self) -> str:
        """What it computes, and in place of what, in `print(model)`."""
        return f"{self.spec!r}, in place of {type(self.original).__name__}"


def _matrices(z: Tensor) -> Tensor:
    return torch.stack((z.real, -z.imag, z.imag, z.real), dim=-1).reshape(*z.shape, 2, 2)


def _phasors(spec: RoPE, places: Tensor) -> Tensor:
    if places.is_floating_point() and spec.phase == "exact":
        spec = spec.replace(phase="real")
    places = places if len(spec.axes) > 1 else places[..., 0]
    return torch.complex(*functional.cos_sin(spec, places, dtype=torch.float64))


@functools.lru_cache(maxsize=256)
def _axes(trained: str, spec: str, name: str) -> AdoptedAxes:
    specs: Any = map(registry.from_json, (trained, spec))
    return AdoptedAxes(type(name, (), {})(), *specs)


@torch.library.custom_op("posenc::adopted_axes", mutates_args=())
def adopted_axes(parts: list[Tensor], trained: str, spec: str, name: str) -> list[Tensor]:
    """What an adopted module of that name answers, for graphs: they hold no loop over values."""
    return _axes(trained, spec, name).numbers(parts)


@adopted_axes.register_fake
def _(parts: list[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(part) for part in parts]
