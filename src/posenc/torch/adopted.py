"""A rotary module inside somebody else's model, whose cosines and sines are ours."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from posenc._core.errors import SpecError, bad_argument
from posenc._core.positions.builder import Positions
from posenc._core.spec.spec import Spec
from posenc._core.tracing import is_followed, unseen
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.channels import ChannelCosSin, Columns

Answer = tuple[Tensor, Tensor] | Tensor


class CosSinForm(NamedTuple):
    """How a rotary module takes positions, and in which form it returns cosines and sines."""

    spec: RotarySpec
    columns: Columns  # the pair of each channel, as `ChannelCosSin` takes it
    axes: Mapping[int, str]  # of positions of so many dimensions: where their axes stand
    order: tuple[int, ...]  # which of the module's axes is each axis of the spec
    dtype: torch.dtype | None = None  # None where it is that of the input
    is_complex: bool = False
    leading: int = 0  # axes of size 1 before those of the positions

    @property
    def still(self) -> bool:
        """Whether no channel turns."""
        return not isinstance(self.columns, str) and {*self.columns} == {self.spec.pairs}

    def stilled(self) -> CosSinForm:
        """The same for a layer without positions: cosines are 1 and sines 0."""
        pairs = self.spec.pairs
        return self._replace(
            columns=(pairs,) * (2 * pairs if isinstance(self.columns, str) else len(self.columns))
        )

    def positions(self, ids: Tensor) -> Tensor:
        """Positions as `posenc.cos_sin` takes them: (...), or (..., axes)."""
        count = len(self.order)
        if count == 1:
            return ids
        place = self.axes.get(ids.ndim)
        if place == "shared":
            return ids[..., None].expand(*ids.shape, count)
        if place == "first":
            ids = ids.expand(count, *ids.shape[1:]).movedim(0, -1)
        elif place != "last":
            raise bad_argument(
                "AdoptedRotary: position_ids",
                f"positions of {' or '.join(map(str, self.axes))} dimensions",
                f"shape {tuple(ids.shape)}",
            )
        return ids if self.order == tuple(range(count)) else ids[..., list(self.order)]


class FormedCosSin:
    """Cosines and sines of a form."""

    def __init__(self, form: CosSinForm) -> None:
        self.form = form
        self.channels = ChannelCosSin(form.spec, form.columns)
        self.needs_length = form.spec.needs_length
        first, last = form.spec.lengths or (1, None)
        self.open_ended = self.needs_length and last != first + 1
        # One axis, and what the module returns is what comes out.
        self.plain = (
            len(form.order) == 1 and form.dtype is None and not form.is_complex
            and not form.leading and not self.needs_length
        )  # fmt: skip
        try:
            self.real = ChannelCosSin(form.spec.replace(phase="real"), form.columns)
        except SpecError:  # it has no coordinates that are not integers
            self.real = self.channels

    def __call__(self, x: Tensor, ids: Tensor) -> Answer:
        """What the module that is replaced would return, with exact angles."""
        # Each length has frequencies of its own: its value is needed, for which graphs end.
        return (
            unseen(self._computed, x, ids)
            if self.open_ended and is_followed() and not torch.compiler.is_exporting()
            else self._computed(x, ids)
        )

    def _computed(self, x: Tensor, ids: Tensor) -> Answer:
        channels = self.real if ids.dtype.is_floating_point else self.channels
        if ids.device != x.device:
            ids = ids.to(x.device)
        if self.plain:
            return channels(ids, x.dtype)
        form = self.form
        cos, sin = channels(
            form.positions(ids), form.dtype or x.dtype,
            length=ids.max() + 1 if self.needs_length else None,
        )  # fmt: skip
        for _ in range(form.leading):
            cos, sin = cos[None], sin[None]
        return torch.complex(cos, sin) if form.is_complex else (cos, sin)


class LayerCosSin:
    """A hook that gives one layer cosines and sines of its own, whatever the others get."""

    def __init__(self, form: CosSinForm) -> None:
        self._formed = FormedCosSin(form)

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the layer is called with."""
        x = args[0] if args else kwargs["hidden_states"]
        positions = kwargs.get("position_ids")
        if kwargs.get("position_embeddings") is None or positions is None:
            raise bad_argument(
                type(layer).__name__,
                "to be called with position_embeddings and position_ids by name",
                ", ".join(kwargs),
            )
        return args, {**kwargs, "position_embeddings": self._formed(x, positions)}


def _hooks_of(module: nn.Module) -> dict[str, Any]:
    """What others hung on the calls of a module, where they take it out again."""
    return {
        name: hooks for name, hooks in vars(module).items()
        if name.startswith(("_forward", "_backward", "_is_full_backward"))
    }  # fmt: skip


def is_dispatched(module: nn.Module) -> bool:
    """Whether accelerate put a forward of its own around that of a module."""
    return "_hf_hook" in vars(module) and isinstance(vars(module).get("forward"), functools.partial)


def unhooked(module: nn.Module) -> nn.Module:
    """The same module by its own code alone."""
    bare = copy.copy(module)
    for name in ("forward", "_hf_hook", "_old_forward"):
        vars(bare).pop(name, None)
    vars(bare).update(_hooks_of(nn.Module()))
    return bare


class AdoptedRotary(nn.Module):
    """Cosines and sines from exact angles, in the form of the module that it stands in for.

    It has no parameters, of buffers those that are saved, and the hooks of the module that it
    replaces. That one is kept outside of the tree of modules, follows what is done to this one
    (devices, dtypes, copies), and answers for attributes that code of the model asks for, such as
    `config`.
    """

    def __init__(
        self,
        original: Any,
        forms: Mapping[str | None, CosSinForm],
        encodings: Sequence[Spec | None] = (),
    ) -> None:
        super().__init__()
        self.encodings = tuple(encodings)
        old = original if isinstance(original, nn.Module) else nn.Module()
        # Tuples: a module by itself would become part of the tree.
        self._old, self._original = (old,), (original,)
        self._buffers.update(
            {
                name: old._buffers[name]
                for name in [
                    name for name in old._buffers if name not in old._non_persistent_buffers_set
                ]
            }
        )
        self._formed = {name: FormedCosSin(form) for name, form in forms.items()}
        self._only = self._formed.get(None)
        self.training = old.training
        vars(self).update(_hooks_of(old))
        if is_dispatched(old):
            self._hf_hook, self._old_forward = old._hf_hook, self.forward
            around = cast("functools.partial[Answer]", vars(old)["forward"]).func
            vars(self)["forward"] = functools.partial(around, self)

    @property
    def old(self) -> nn.Module:
        """The module that is replaced."""
        return self._old[0]

    @property
    def original(self) -> Any:
        """What stood in its place, which may be no module, but called like one."""
        return self._original[0]

    @property
    def forms(self) -> dict[str | None, CosSinForm]:
        """What is computed, for each type of layer."""
        return {name: formed.form for name, formed in self._formed.items()}

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Answer:
        """Cosines and sines of the positions, on the device of `x`."""
        formed = self._only or self._formed.get(layer_type)
        if formed is None:  # a type of layer that no layer of the plan has
            return self.old(x, position_ids=position_ids, layer_type=layer_type)
        return formed(x, position_ids)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            old = self.__dict__.get("_old")
            if old is None or name.startswith("__"):
                raise
            return getattr(old[0], name)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Memory that `to_empty` has just taken is marked: frequencies will be loaded into it.
        super()._apply(  # type: ignore[no-untyped-call]
            lambda t: fn(t).fill_(torch.nan) if t.is_meta and t.is_floating_point() else fn(t),
            recurse,
        )
        self.old._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Any, prefix: str, *more: Any) -> None:
        """Saved frequencies are taken where they are those that were there, if any were."""
        before = {name: buffer.clone() for name, buffer in self._buffers.items()}  # type: ignore[union-attr]
        super()._load_from_state_dict(state, prefix, *more)
        more[-1].extend(
            f"{prefix}{name}: other frequencies than those that posenc.torch.adopt replaced; call "
            "posenc.torch.release(model), load, and adopt again."
            for name, buffer in before.items()
            if not (buffer.is_meta or bool(buffer.isnan().all()))
            and not torch.equal(buffer, self._buffers[name])  # type: ignore[arg-type]
        )

    def train(self, mode: bool = True) -> Self:
        """As of any module; the module that is replaced follows."""
        self.old.train(mode)
        return super().train(mode)

    def extra_repr(self) -> str:
        """What it computes, and in place of what, in `print(model)`."""
        return "; ".join(
            f"{name}: {form.spec!r}" if name else repr(form.spec)
            for name, form in self.forms.items()
        ) + f", in place of {type(self.original).__name__}"  # fmt: skip


# --- modules that take no positions: they count tokens, or place patches --------------------------

SIDE = 64  # patches, of a picture that is asked for


class SequenceRotary(nn.Module):
    """A rotary module that is called with hidden states alone, as one that takes positions.

    It counts the tokens of (batch, sequence, channels) from 0, and returns cosines and sines behind
    each other, (2, sequence, 1, 1, channels), or angles, (1, sequence, channels).
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = unhooked(module)
        own = vars(self.module)
        # It may remember the last sequence, whose dtype may be another.
        own.update({name: None for name, value in own.items() if isinstance(value, Tensor)})

    def answer(self, x: Tensor, count: int) -> Tensor:
        """What it says of so many tokens; `ValueError` where it does not count them."""
        answer = copy.copy(self.module)(x.new_zeros(1, count, 1))
        shape = tuple(answer.shape[:-1]) if isinstance(answer, Tensor) else type(answer).__name__
        if shape not in ((2, count, 1, 1), (1, count)):
            raise ValueError(f"{shape} for {count} tokens")
        return answer

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines at positions."""
        answer = self.answer(x, int(position_ids.max()) + 1)
        cos, sin = (answer.cos(), answer.sin()) if answer.ndim == 3 else answer[:, None, :, 0, 0]
        return cos[0, position_ids], sin[0, position_ids]


class AdoptedSequence(AdoptedRotary):
    """The same for a module that counts the tokens of its input itself, in the form of that one."""

    def __init__(
        self,
        asked: SequenceRotary,
        original: Any,
        forms: Mapping[str | None, CosSinForm],
        *more: Any,
    ) -> None:
        super().__init__(original, forms, *more)
        self._is_angle = asked.answer(torch.zeros(1), 2).ndim == 3

    def forward(self, hidden_states: Tensor) -> Tensor:  # type: ignore[override]
        """Cosines and sines of a sequence that begins at 0, or its angles."""
        places = torch.arange(hidden_states.shape[1], device=hidden_states.device)
        cos, sin = super().forward(hidden_states, places)
        # Angles from -π to π: farther ones in float32 would be off.
        return (
            torch.atan2(sin, cos)[None]
            if self._is_angle
            else torch.stack((cos, sin))[:, :, None, None]
        )


class PictureRotary(nn.Module):
    """A rotary module that is called with pictures, and places their patches by a rule."""

    def __init__(self, module: Any, rule: Positions) -> None:
        super().__init__()
        self.module, self.rule = unhooked(module).eval(), rule  # in training places are drawn
        patch = module.config.patch_size
        self.patch: tuple[int, int] = (patch, patch) if isinstance(patch, int) else tuple(patch)

    def answer(self, x: Tensor, width: int, height: int = 1) -> tuple[Tensor, Tensor]:
        """Cosines and sines of so many patches, in the dtype of `x`."""
        sides = (n * p for n, p in zip((height, width), self.patch, strict=True))
        cos, sin = copy.copy(self.module)(x.expand(1, 1, *sides))
        if {cos.shape, sin.shape} != {(height * width, cos.shape[-1])}:
            raise ValueError(f"{tuple(cos.shape)} for {height} x {width} patches")
        return cos, sin

    def places(self, width: int, height: int = 1, device: Any = None) -> Tensor:
        """Where so many patches stand: (patches, axes)."""
        real = torch.float32 if torch.device(device or "cpu").type == "mps" else torch.float64
        sizes = {"h": height, "w": width}
        places: Tensor = self.rule.build(sizes, dtype=real, xp=torch, device=device)
        return places

    def turns(self) -> tuple[Tensor, Any]:
        """Where the patches of a large picture stand, and cos + i sin of each channel."""
        places = self.places(SIDE, SIDE // 2)
        return places, torch.complex(*self.answer(torch.zeros(1), SIDE, SIDE // 2)).numpy()

    @property
    def dtype(self) -> torch.dtype | None:
        """That of its answers; None where it follows the input."""
        dtype = self.answer(torch.zeros(1, dtype=torch.float16), 2)[0].dtype
        return None if dtype == torch.float16 else dtype


class AdoptedPicture(AdoptedRotary):
    """The same for a module that places the patches of pictures, by the rule of its model.

    In training the old module answers, which may shift and stretch coordinates at random.
    """

    def __init__(
        self,
        asked: PictureRotary,
        original: Any,
        forms: Mapping[str | None, CosSinForm],
        *more: Any,
    ) -> None:
        super().__init__(original, forms, *more)
        self._asked = (asked,)  # in a tuple, as a module would become part of the tree

    def forward(self, pixel_values: Tensor) -> Any:  # type: ignore[override]
        """Cosines and sines of the patches of a picture, row after row."""
        if self.training:
            return self.old(pixel_values)
        asked = self._asked[0]
        height, width = (n // p for n, p in zip(pixel_values.shape[-2:], asked.patch, strict=True))
        return super().forward(pixel_values, asked.places(width, height, pixel_values.device))
