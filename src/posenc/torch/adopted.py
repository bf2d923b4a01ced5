"""A rotary module inside somebody else's model, whose cosines and sines are ours."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from posenc import functional, registry
from posenc._core.errors import SpecError, bad_argument, bad_data
from posenc._core.spec.spec import Spec, to_json
from posenc._core.tracing import is_followed, unseen
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
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
        if self.open_ended and is_followed() and not torch.compiler.is_exporting():
            return unseen(self._computed, x, ids)
        return self._computed(x, ids)

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
        kept = [name for name in old._buffers if name not in old._non_persistent_buffers_set]
        self._buffers.update({name: old._buffers[name] for name in kept})
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
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.old._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: Any, prefix: str, *more: Any) -> None:
        """Saved frequencies are taken where they are those that were there."""
        before = {name: buffer.clone() for name, buffer in self._buffers.items()}  # type: ignore[union-attr]
        super()._load_from_state_dict(state, prefix, *more)
        more[-1].extend(
            f"{prefix}{name}: other frequencies than those that posenc.torch.adopt replaced; call "
            "posenc.torch.release(model), load, and adopt again."
            for name, buffer in before.items()
            if not buffer.is_meta and not torch.equal(buffer, self._buffers[name])  # type: ignore[arg-type]
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

    def __init__(self, original: Any, forms: Mapping[str | None, CosSinForm], *more: Any) -> None:
        super().__init__(original, forms, *more)
        self._is_angle = SequenceRotary(original).answer(torch.zeros(1), 2).ndim == 3

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
            return self._replaced([answer])[0] if tail in ((pairs,), (pairs, 2, 2)) else answer
        if not isinstance(answer, (tuple, list)):
            return answer
        kind: Any = type(answer)
        real = [part for part in answer if isinstance(part, Tensor) and part.is_floating_point()]
        shapes = {tuple(part.shape) for part in real}
        if (
            {len(real), len(answer)} != {2}
            or len(shapes) != 1
            or {shape[-1:] for shape in shapes} - {(pairs,), (dim,)}
        ):
            return kind([self._exact(part) for part in answer])
        return kind(self._replaced(real))

    def _replaced(self, parts: list[Tensor]) -> list[Tensor]:
        """New numbers in the form of the parts; a graph has an operator that works them out."""
        if not torch.compiler.is_compiling():
            return self.numbers(parts)
        return adopted_axes(parts, *self._texts, type(self.original).__name__)

    def numbers(self, parts: list[Tensor]) -> list[Tensor]:
        """New numbers in the form of the parts, which may have each of the old ones twice."""
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
        new = form(self._turned(old, whole.dtype, apart))
        return [one.to(whole.dtype) for one in new]

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
    rows = torch.stack((z.real, -z.imag, z.imag, z.real), dim=-1)
    return rows.reshape(*z.shape, 2, 2)


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
