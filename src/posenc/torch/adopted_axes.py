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
        pairs = self.trained.pairs
        if isinstance(answer, Tensor):
            if answer.is_complex() and answer.shape[-1] == pairs:
                return torch.complex(*self._turned(answer.real, answer.imag)).to(answer.dtype)
            if answer.shape[-3:] == (pairs, 2, 2):
                cos, sin = self._turned(answer[..., 0, 0], answer[..., 1, 0])
                return torch.stack((cos, -sin, sin, cos), dim=-1).view_as(answer)
            return answer
        if not isinstance(answer, (tuple, list)):
            return answer
        if self._are_pair(answer):
            return type(answer)(self._of_channels(*answer))
        return type(answer)([self._exact(part) for part in answer])

    def _are_pair(self, answer: Any) -> bool:
        """Whether these are cosines and sines, an entry for each pair or channel."""
        if len(answer) != 2 or not all(isinstance(part, Tensor) for part in answer):
            return False
        cos, sin = answer
        width = cos.shape[-1] if cos.ndim else 0
        fits = width in (self.trained.pairs, self.trained.dim) and cos.shape == sin.shape
        return fits and cos.is_floating_point()

    def _of_channels(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        if cos.shape[-1] == self.trained.pairs:
            return self._turned(cos, sin)
        first = [self._pair_of.index(j) for j in range(self.trained.pairs)]
        cos, sin = self._turned(cos[..., first], sin[..., first])
        return cos[..., self._pair_of], sin[..., self._pair_of]

    def _turned(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (..., pairs) of the places that those of the old module belong to."""
        old = torch.stack((cos, sin)).double()
        places = self._places(*old)
        usual = torch.stack(_cos_sin(self.trained, places))
        pads = old.square().sum(0) < 0.25
        off = (old - usual).abs().masked_fill(pads, 0.0).max().item() if old.numel() else 0.0
        reach = places.abs().max().item() if places.numel() else 0.0
        fastest = max(ladder[-1][0] for ladder in self._ladders if ladder)
        room = ROOM * reach * fastest + 4 * torch.finfo(cos.dtype).eps
        if not off <= room:
            raise bad_data(
                f"adopt: {type(self.original).__name__}",
                f"cosines and sines of {self.trained!r}, which its config says",
                f"others, off by {off:.2g} where float32 explains {room:.2g}",
                "Its table may end, or its config was changed after the model was made: "
                "posenc.torch.release(model) puts it back.",
            )
        ours = usual if self.spec == self.trained else torch.stack(_cos_sin(self.spec, places))
        ours = torch.where(pads, old, ours)
        if old.numel():
            change = (ours - old).abs().amax(dim=(0, -1)).flatten()
            self.change, self.reach = change.max().item(), int(reach)
            self.place = int(places.flatten(0, -2)[change.argmax()].abs().max())
        cos, sin = ours.to(cos.dtype)
        return cos, sin

    def _places(self, cos: Tensor, sin: Tensor) -> Tensor:
        """Where each token stands (..., axes): integers places all of them are."""
        angles = torch.atan2(sin, cos)
        axes = []
        for ladder in self._ladders:
            place = torch.zeros_like(angles[..., 0])
            for _, step, pair in ladder:
                ahead = angles[..., pair] - step * place
                turns = torch.round(ahead / (2 * math.pi))
                place = place + (ahead - 2 * math.pi * turns) / step
            axes.append(place)
        places = torch.stack(axes, dim=-1)
        whole = places.round()
        near = bool(((places - whole).abs() < WHOLE).all())
        return whole.long() if near else places

    def extra_repr(self) -> str:
        """What it computes, and in place of what, in `print(model)`."""
        return f"{self.spec!r}, in place of {type(self.original).__name__}"


def _cos_sin(spec: RoPE, places: Tensor) -> tuple[Tensor, Tensor]:
    real = places.is_floating_point() and spec.phase == "exact"
    spec = spec.replace(phase="real") if real else spec
    if len(spec.axes) == 1:
        places = places[..., 0]
    return functional.cos_sin(spec, places, dtype=torch.float64)
