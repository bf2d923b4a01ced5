"""A rotary module of several axes inside a diffusion model, whose cosines and sines are ours.

Each of these modules takes something else: ids, a grid, latents, a mask. None says where a token
stands, but its answer does, by the angles of the slowest pair of an axis, then of faster ones. So
the old module answers first, and what is put in its place has its form, whatever that is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._core.errors import bad_data
from posenc._core.tracing import unseen
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
        super().__init__(
            original if isinstance(original, nn.Module) else nn.Module(), {}, [trained]
        )
        self._original = (original,)  # a tuple: a module by itself would become part of the tree
        self.spec, self.trained = spec, trained
        self.change, self.place, self.reach = 0.0, 0, -1  # of the last call; no rows: -1
        steps = functional.frequencies(trained).tolist()
        axis = trained.arrangement.layout(trained.pairs).axis
        # The pairs of each axis that turn, the slowest first.
        self._ladders = [
            sorted((abs(f), f, j) for j, f in enumerate(steps) if axis[j] == a and f)
            for a in range(len(trained.axes))
        ]
        channels = trained.channels.channels(trained.dim)
        self._pair_of = [
            j for _, j in sorted((c, j) for j, two in enumerate(channels) for c in two)
        ]

    @property
    def original(self) -> Any:
        """What stood in its place, which may be no module, but called like one."""
        return self._original[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the old module answers, with exact angles."""
        return unseen(self._exact, self.original(*args, **kwargs))

    def _exact(self, answer: Any) -> Any:
        pairs, dim = self.trained.pairs, self.trained.dim
        if isinstance(answer, Tensor) and answer.is_complex() and answer.shape[-1] == pairs:
            return self._turned(answer, answer.dtype).to(answer.dtype)
        if isinstance(answer, Tensor) and answer.shape[-3:] == (pairs, 2, 2):
            z = self._turned(torch.complex(*answer[..., 0].double().unbind(-1)), answer.dtype)
            rows = torch.stack((z.real, -z.imag, z.imag, z.real), dim=-1)
            return rows.view_as(answer).to(answer.dtype)
        if not isinstance(answer, (tuple, list)):
            return answer
        kind: Any = type(answer)
        real = [part for part in answer if isinstance(part, Tensor) and part.is_floating_point()]
        shapes = {tuple(part.shape) for part in real}
        widths = {shape[-1:] for shape in shapes} - {(pairs,), (dim,)}
        if len(real) != 2 or len(answer) != 2 or len(shapes) != 1 or widths:
            return kind([self._exact(part) for part in answer])
        columns = self._pair_of if real[0].shape[-1] == dim else [*range(pairs)]
        first = [columns.index(j) for j in range(pairs)]
        cos, sin = (part[..., first].double() for part in real)
        z = self._turned(torch.complex(cos, sin), real[0].dtype)
        return kind([part[..., columns].to(real[0].dtype) for part in (z.real, z.imag)])

    def _turned(self, old: Tensor, dtype: torch.dtype) -> Tensor:
        """Cosines and sines (..., pairs) of the places that those of the old module belong to."""
        if not old.numel():
            return old
        places = self._places(old.to(torch.complex128).angle())
        usual, pads = _phasors(self.trained, places), old.abs() < 0.5
        off = (old - usual).abs().masked_fill(pads, 0.0).max().item()
        self.reach = int(places.abs().max())
        fastest = max(ladder[-1][0] for ladder in self._ladders if ladder)
        room = ROOM * self.reach * fastest + 4 * torch.finfo(dtype).eps
        if not off <= room:
            raise bad_data(
                f"adopt: {type(self.original).__name__}",
                f"cosines and sines of {self.trained!r}, which its config says",
                f"others, off by {off:.2g} where float32 explains {room:.2g}",
                "Its table may end, or its config was changed after the model was made: "
                "posenc.torch.release(model) puts it back.",
            )
        ours = usual if self.spec == self.trained else _phasors(self.spec, places)
        ours = torch.where(pads, old, ours)
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


def _phasors(spec: RoPE, places: Tensor) -> Tensor:
    if places.is_floating_point() and spec.phase == "exact":
        spec = spec.replace(phase="real")
    places = places if len(spec.axes) > 1 else places[..., 0]
    return torch.complex(*functional.cos_sin(spec, places, dtype=torch.float64))
