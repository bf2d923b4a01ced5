"""A rotary module inside somebody else's model, whose cosines and sines are ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._core.errors import ArgumentError, mismatch
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["AdoptedRotary", "CosSinForm"]

Columns = str | tuple[int, ...]


class CosSinForm(NamedTuple):
    """How a rotary module takes positions, and in which form it returns cosines and sines.

    `columns` says which pair each channel of the answer belongs to: "pairs" for one entry a pair,
    "halves" for cat([cos, cos]), "twice" for each entry twice in a row, or the pairs one by one,
    where the number of pairs stands for a channel that does not turn.
    """

    spec: RotarySpec
    columns: Columns
    axes: Mapping[int, str]  # of positions of so many dimensions: where their axes stand
    order: tuple[int, ...]  # which of the module's axes is each axis of the spec
    dtype: torch.dtype | None  # None where it is that of the input
    is_complex: bool = False
    leading: int = 0  # axes of size 1 before those of the positions

    def positions(self, given: Tensor) -> Tensor:
        """Positions as `posenc.cos_sin` takes them: (...), or (..., axes)."""
        count = len(self.order)
        if count == 1:
            return given
        place = self.axes.get(given.ndim)
        if place == "shared":
            return given[..., None].expand(*given.shape, count)
        if place == "first":
            given = given.expand(count, *given.shape[1:]).movedim(0, -1)
        elif place != "last":
            known = " or ".join(str(ndim) for ndim in self.axes)
            received = f"shape {tuple(given.shape)}"
            raise ArgumentError(
                mismatch("AdoptedRotary: position_ids", f"positions of {known} axes", received)
            )
        return given if self.order == tuple(range(count)) else given[..., list(self.order)]

    def answer(self, x: Tensor, given: Tensor) -> Any:
        """What the module that is replaced would return, with exact angles."""
        spec = self.spec
        dtype = self.dtype or x.dtype
        if given.is_floating_point():
            spec = spec.replace(phase="real")
        length = given.max() + 1 if spec.needs_length else None
        if self.is_complex:
            dtype = torch.float64 if dtype == torch.complex128 else torch.float32
        cos, sin = functional.cos_sin(
            spec, self.positions(given), length=length, dtype=dtype, device=x.device
        )
        cos, sin = self.widened(cos, torch.ones_like), self.widened(sin, torch.zeros_like)
        for _ in range(self.leading):
            cos, sin = cos[None], sin[None]
        return torch.complex(cos, sin) if self.is_complex else (cos, sin)

    def widened(self, half: Tensor, still: Callable[[Tensor], Tensor]) -> Tensor:
        """The entry of each pair at the channels of the answer."""
        if self.columns == "pairs":
            return half
        if self.columns == "halves":
            return torch.cat((half, half), dim=-1)
        if self.columns == "twice":
            return torch.stack((half, half), dim=-1).flatten(-2)
        assert not isinstance(self.columns, str)  # noqa: S101 - the words are above
        if max(self.columns) == half.shape[-1]:
            half = torch.cat((half, still(half[..., :1])), dim=-1)
        return half[..., list(self.columns)]


class AdoptedRotary(nn.Module):
    """Cosines and sines from exact angles, in the form of the module that it stands in for.

    It has no parameters and no buffers. The module that it replaces is kept outside of the tree of
    modules, follows what is done to this one (devices, dtypes, copies), and answers for attributes
    that code of the model asks for, such as `config`.

    Parameters
    ----------
    old : nn.Module
        The module that is replaced.
    forms : mapping
        What is computed, for each type of layer that the caller may name; None for no name.
    """

    def __init__(self, old: nn.Module, forms: Mapping[str | None, CosSinForm]) -> None:
        super().__init__()
        self._old = (old,)  # a tuple: a module by itself would become part of the tree
        self.forms = dict(forms)
        self.training = old.training

    @property
    def old(self) -> nn.Module:
        """The module that is replaced."""
        return self._old[0]

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor] | Tensor:
        """Cosines and sines of the positions, on the device of `x`."""
        form = self.forms.get(layer_type) or self.forms.get(None)
        if form is None:  # a type of layer that no layer of the plan has
            left: tuple[Tensor, Tensor] | Tensor = self.old(
                x, position_ids=position_ids, layer_type=layer_type
            )
            return left
        answer: tuple[Tensor, Tensor] | Tensor = form.answer(x, position_ids)
        return answer

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            old = self.__dict__.get("_old")
            if old is None or name.startswith("__"):
                raise
            return getattr(old[0], name)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.old._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def train(self, mode: bool = True) -> Self:
        """As of any module; the module that is replaced follows."""
        self.old.train(mode)
        return super().train(mode)

    def extra_repr(self) -> str:
        """What it computes, and in place of what, in `print(model)`."""
        told = [f"{name}: {form.spec!r}" if name else repr(form.spec)
                for name, form in self.forms.items()]  # fmt: skip
        return f"{'; '.join(told)}, in place of {type(self.old).__name__}"
