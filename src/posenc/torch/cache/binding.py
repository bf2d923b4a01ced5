"""What each layer of a cache stores: by the plan of a model, and by asking the model itself."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._core.errors import PosencError, bad_argument, bad_data, bad_spec, refuse_argument
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc._names import HANDED
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling import Multipliers
from posenc.torch.cache.layers import LayerForm, as_stored, turned

# Relative to the largest key: what angles in the model's own arithmetic, and one rounding, may be
# off at the positions that are asked for.
ROOM = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.04, torch.float16: 0.01}
ASKED = (3, 101, 1021)  # the last tells frequencies that a cast of the model rounded


def forms_of(plan: Any, count: int, caller: str) -> list[LayerForm]:
    """Of each layer, from a plan, what was read from a config, or one spec for all."""
    if isinstance(plan, Spec):
        return [_form([plan])] * count
    if isinstance(plan, Plan):
        refuse_argument(
            len(plan) != count,
            f"{caller}: plan",
            f"a plan of {count} layers, as the cache has",
            len(plan),
        )
        first = () if plan.embeddings is None else plan.embeddings.specs
        return [
            _form([*first, *entry.specs], inside=bool(entry.attentions))._replace(
                window=entry.window
            )
            for entry in plan
        ]
    if isinstance(plan, Reading):
        if plan.errors:
            raise bad_argument(f"{caller}: plan", "a plan without errors", "; ".join(plan.errors))
        return [_of_entries(plan.at(i), i, caller) for i in range(count)]
    raise bad_argument(
        f"{caller}: plan",
        "a plan",
        type(plan).__name__,
        "Pass a model, a Plan, a Reading (posenc.from_hf), or one spec for all layers.",
    )


def _of_entries(entries: Sequence[Layer], index: int, caller: str) -> LayerForm:
    main = [entry for entry in entries if not entry.attention]
    rotary = {id(e): e for e in main if isinstance(e.spec, RotarySpec)}
    refuse_argument(
        len(rotary) > 1,
        f"{caller}: plan",
        f"one rotation in layer {index}",
        ", ".join(entry.layer for entry in rotary.values()),
        "Take the plan of one part: plan.part(name).",
    )
    return _form([e.spec for e in main if e.spec is not None], inside=len(main) < len(entries))


def _form(specs: Sequence[Spec], *, inside: bool = False) -> LayerForm:
    """Of one layer, which may have attention inside; `fixed` says why its keys cannot be moved."""
    rotary: RotarySpec | None = None
    for spec in specs:
        name = type(spec).__name__
        if spec.kind == "table":
            rows = "a learned table" if spec.parameters() else "sines"
            return LayerForm(
                fixed=f"{name}: {rows} added to the embeddings, so each key contains its position"
            )
        if isinstance(spec, RotarySpec):
            if not spec.plain:
                return LayerForm(fixed=f"{name}, which does more than turn pairs, all heads alike")
            if "v" in spec.channels.targets:
                return LayerForm(fixed=f"{name}, which turns values too")
            rotary = spec
    return LayerForm(
        None if rotary is None else as_stored(rotary),
        fixed="keys of an attention inside the layer, which are kept apart" if inside else "",
    )


def rules_of(new: Any, turns: Sequence[bool], caller: str) -> tuple[RotarySpec | None, ...]:
    """What rotates each layer that turns, from a spec or plan."""
    refuse_argument(
        not any(turns),
        caller,
        "layers that rotate",
        "none",
        "Keys that nothing rotates need not be moved.",
    )
    rows = forms_of(new, len(turns), caller)
    for index, (row, turn) in enumerate(zip(rows, turns, strict=True)):
        if turn and row.spec is None:
            raise bad_spec(caller, f"a rotation in layer {index}", row.fixed or "none")
    return tuple(row.spec if turn else None for row, turn in zip(rows, turns, strict=True))


# --- a model --------------------------------------------------------------------------------------


# The cache of one token at one position: that, (1, 1, axes), and the tensors of each layer.
_Single = tuple[Tensor, list[tuple[Tensor, Tensor] | None]]


def asked(model: nn.Module, forms: Sequence[LayerForm], caller: str) -> list[LayerForm]:
    """What each layer stores, as the model itself shows it.

    One token alone attends to itself, wherever it stands. So between two positions the tensors of a
    layer may differ by a rotation alone, and one of them must, by that of the plan.
    """
    specs = [form.spec for form in forms if form.spec is not None]
    axes = max((len(spec.axes) for spec in specs), default=1)
    config: Any = model.config
    most = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    fixed = any(form.fixed for form in forms)  # rows of a table end somewhere
    places = {0, *(place for place in ASKED if not fixed or place < (most or 4))}
    places |= {spec.lengths[0] + 5 for spec in specs if spec.lengths is not None}
    # Rising, as a rule that remembers the longest sequence goes by it in a shorter one.
    with _unchanged(model):
        singles = [_single(model, place, axes, caller) for place in sorted(places)]
    result: list[LayerForm] = []
    rounded: list[int] = []
    for index, form in enumerate(forms):
        pairs = [stored[index] if index < len(stored) else None for _, stored in singles]
        if form.fixed or pairs[0] is None:
            result.append(form)
            continue
        worst: list[float] = []
        for spec in itertools.chain((form.spec,), _rounded(form.spec)):
            sides = []
            for side in (0, 1):
                alike, turning = _compare(spec, singles, [pair[side] for pair in pairs])  # type: ignore[index]
                worst.append(turning)
                sides.append("still" if alike else "turns" if turning <= 1 else "other")
            if "other" not in sides:
                break
        if sides == ["still", "still"] and form.spec is None:
            result.append(form)
        elif sorted(sides) == ["still", "turns"]:
            result.append(form._replace(spec=spec, side=sides.index("turns")))
            rounded += [] if spec == form.spec else [index]
        else:
            by = "the plan says" if form.spec is None else f"by {form.spec!r}"
            raise bad_data(
                caller,
                f"keys of layer {index} that turn with the position as the plan says",
                f"tensors that change otherwise than {by} ({min(worst):.2g} times the tolerance)",
                "If model.bfloat16() rounded its frequencies, posenc.torch.adopt(model) before the "
                "prompt puts exact ones; if it does not do what its config says, pass plan=.",
            )
    if rounded:
        warnings.warn(
            f"{caller}: layers {rounded} turn by frequencies of their config that were rounded to "
            f"half precision, as keys of one token show at positions {sorted(places)}; the cache "
            "is moved by these. posenc.torch.adopt(model) before the prompt puts exact ones.",
            stacklevel=3,
        )
    return result


def _rounded(spec: RotarySpec | None) -> Iterator[RotarySpec]:
    """The same with frequencies as a model has them that was cast to half precision."""
    if not isinstance(spec, RoPE) or spec.needs_length or spec.uneven:
        return
    magnitude = spec.magnitude.replace(attention_factor=spec.attention_factor)
    ladder, ours = (functional.frequencies(s) for s in (spec.replace(scaling=()), spec))
    for dtype in (torch.bfloat16, torch.float16):
        cast = torch.from_numpy(ours).float().to(dtype).double().numpy()
        with contextlib.suppress(PosencError):
            yield spec.replace(
                scaling=Multipliers(tuple((cast / ladder).tolist())), magnitude=magnitude
            )


def _compare(
    spec: RotarySpec | None, singles: Sequence[_Single], tensors: Sequence[Tensor]
) -> tuple[bool, float]:
    """Whether tensors are the same at all positions; and how far they are from turned ones."""
    first = tensors[0].double().cpu()
    size = float(first.abs().max()) or 1.0
    room = ROOM.get(tensors[0].dtype, 1e-3)
    alike, worst, start = True, 0.0, singles[0][0]
    for (place, _), tensor in zip(singles[1:], tensors[1:], strict=True):
        there = tensor.double().cpu()
        alike = alike and bool(((there - first).abs() <= room * size * 1e-2).all())
        if spec is None or spec.dim > first.shape[-1]:
            worst = float("inf")
            continue
        before, after = (spec.at(int(at.max()) + 1) for at in (start, place))
        apart = there - turned(first, before, after, start, place)
        off = float(apart.abs().max()) / (room * size)
        worst = max(worst, off) if off == off else float("inf")  # noqa: PLR0124 - NaN never agrees
    return alike, worst


@contextlib.contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Let modules without weights forget: some remember the longest sequence they have seen."""
    leaves = [m for m in model.modules() if not any(True for _ in m.parameters())]
    names = [{**vars(module)} for module in leaves]
    buffers = [{k: (b, b.clone()) for k, b in m.named_buffers(recurse=False)} for m in leaves]
    try:
        yield
    finally:
        for module, attributes, values in zip(leaves, names, buffers, strict=True):
            vars(module).update(attributes)
            for name, (buffer, value) in values.items():
                module._buffers[name] = buffer.copy_(value)


def _single(model: nn.Module, place: int, axes: int, caller: str) -> _Single:
    """What a model stores of one token at a position, of several axes at unlike coordinates."""
    position = torch.tensor([[[place + place * axis % 7 for axis in range(axes)]]])
    cache = one_token(model, caller, position[..., 0] if axes == 1 else position.movedim(-1, 0))
    return position, [
        (layer.keys, layer.values) if isinstance(getattr(layer, "keys", None), Tensor) else None
        for layer in cache.layers
    ]


def one_token(model: nn.Module, caller: str, ids: Tensor | None = None) -> Any:
    """The cache of a model that has read one token."""
    device = next(model.parameters()).device
    training = model.training
    try:
        model.eval()
        with torch.no_grad():
            return model(
                input_ids=torch.ones(1, 1, dtype=torch.int64, device=device),
                position_ids=None if ids is None else ids.to(device),
                use_cache=True,
            ).past_key_values
    except Exception as error:
        raise bad_data(
            caller,
            "a model that can be asked for the keys of one token",
            f"{type(error).__name__}: {str(error)[:80]}",
            "Pass plan= without the model, and what it says is taken as it is.",
        ) from error
    finally:
        model.train(training)


def decoder_plan(model: nn.Module, caller: str) -> Reading:
    """The plan of the part of a model of transformers that has the cache."""
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", None)
    if config is None or text is None:
        raise bad_argument(
            caller,
            "a model of transformers, or a plan",
            type(model).__name__,
            "Pass plan=: a Plan, a Reading, or one spec for all layers.",
        )
    reading: Reading = HANDED["reading"](config)
    own = text(decoder=True)
    parts = [key.removesuffix("_config") for key, value in vars(config).items() if value is own]
    if parts:
        entries = [e for e in reading if f"{e.layer}.".startswith(f"{parts[0]}.")]
    else:
        others = tuple(
            f"{key.removesuffix('_config')}." for key in vars(config) if key.endswith("_config")
        )
        entries = [e for e in reading if not f"{e.layer}.".startswith(others)]
    return Reading(tuple(entries), notes=reading.notes, model=reading.model)
