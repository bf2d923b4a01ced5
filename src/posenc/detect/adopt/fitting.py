"""What a rotary module computes, and in which form, from its answers alone."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from posenc._core.errors import DataError, PosencError, bad_argument, bad_data, mismatch
from posenc._core.guard import foreign
from posenc._core.reading import Layer
from posenc.detect.adopt.report import CALLER, Adoption, Distance, Replacement
from posenc.detect.contract.comparison.held import Held
from posenc.detect.contract.sides.models import RotaryModule, answering, rebuilt
from posenc.detect.facts import facts
from posenc.detect.facts.arrays import holds_ladder
from posenc.detect.fit.turns import CONSIDERABLE, NEAR, PairTurns, allowed, expected
from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.discovery import pairs_of
from posenc.detect.subject.plan import Call
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import diffusion
from posenc.scaling.base import Scaling
from posenc.torch.adopted import CosSinForm, FormedCosSin, PictureRotary, SequenceRotary
from posenc.torch.adopted_axes import AdoptedAxes

FAR = (1023, 4095)  # beside the near positions: slow pairs look alike there
END, SECONDS = 2**20, 10.0  # of a survey
COUNTED = 2**14  # likewise, of a module that computes all positions up to the last
CALL = ["x", "position_ids", "layer_type"]
# How several axes are handed over, and of how many dimensions position ids are then.
SEVERAL = {"each": 2, "first": 3, "rows": 2, "last": 3}


class Fit(NamedTuple):
    """A form whose numbers a module has, or how far off the nearest one is."""

    form: CosSinForm
    excess: float  # the largest difference, over what float32 angles may be off


def takes_positions(module: nn.Module) -> bool:
    """Whether a module is called with an input, position ids, and at most a type of layer."""
    names = parameters(module)
    return not any(module.children()) and names[:2] == CALL[:2] and {*names} <= {*CALL}


def counts_tokens(module: nn.Module) -> bool:
    """Whether a module holds frequencies, and is called with an input alone."""
    return not any(module.children()) and holds_ladder(module) and len(parameters(module)) == 1


def parameters(module: nn.Module) -> list[str]:
    """The names of what a module is called with."""
    return list(inspect.signature(type(module).forward).parameters)[1:]


def labels(module: nn.Module, names: list[str]) -> list[str | None]:
    """The types of layers that a module answers for; [None] where it asks for none."""
    # Where it answers without a name, that is an option, and changes nothing.
    if "layer_type" not in parameters(module) or _answers(module, None):
        return [None]
    ends = [key.removesuffix("_inv_freq") for key, _ in module.named_buffers(recurse=False)]
    return [
        name
        for name in dict.fromkeys([*getattr(module, "layer_types", ()), *ends, *names])
        if _answers(module, name)
    ] or [None]


def _answers(module: nn.Module, label: str | None) -> bool:
    for axes in (1, 3):
        with contextlib.suppress(CannotAsk):
            return bool(answering(module, label, axes))
    return False


def twin(module: nn.Module, config: Any = None) -> nn.Module | None:
    """The module as a config alone makes it, where its own frequencies are rounded or absent.

    A cast of a model rounds the buffers of its rotary modules to half precision; on the meta device
    they have no values. None where the buffers are neither, or are not those of the config.
    """
    own = {k: v for k, v in module.named_buffers(recurse=False) if v.is_floating_point()}
    if not any(buffer.is_meta or buffer.itemsize < 4 for buffer in own.values()):
        return None
    fresh: nn.Module | None = rebuilt(module, config)
    buffers = {} if fresh is None else dict(fresh.named_buffers(recurse=False))
    alike = own.keys() <= buffers.keys() and all(
        buffers[k].shape == v.shape and (v.is_meta or torch.equal(buffers[k].to(v.dtype), v.cpu()))
        for k, v in own.items()
    )
    return fresh.train(module.training) if fresh is not None and alike else None


# --- the form -------------------------------------------------------------------------------------


def _probes(count: int, last: int | None = None) -> np.ndarray:
    near = np.array([*NEAR, *FAR]) if last is None else np.array([*NEAR[last > NEAR], last])
    if count == 1:
        return near
    rng = np.random.default_rng(0)
    return np.stack([near, *(rng.permutation(near) for _ in range(count - 1))], axis=-1)


def fits(module: nn.Module, label: str | None, spec: RotarySpec) -> Fit:
    """The form in which a module has the numbers of a spec; or in which it comes nearest."""
    if isinstance(module, PictureRotary):
        places, values = module.turns()
        columns, excess = _columns(spec, places.numpy(), values)
        axes = tuple(range(len(spec.axes)))
        return Fit(CosSinForm(spec, columns, {2: "last"}, axes, module.dtype), excess)
    count = len(spec.axes)
    options: list[Fit] = []
    why = CannotAsk("it takes positions of several axes in a way that is not known")
    for one in answering(module, label, count):
        try:
            options += _at(one, spec) if one.place in SEVERAL else ()
        except CannotAsk as error:
            why = error
    if not options:
        raise why
    best = min(options, key=lambda fit: fit.excess)
    alike = [f for f in options[::-1] if f.excess <= 1 and f.form.order == best.form.order]
    ways = {n: place for fit in [*alike, best] for n, place in fit.form.axes.items()}
    form = best.form._replace(axes=ways)
    if count > 1 and best.excess <= 1 and _shared(RotaryModule(module, label), form):
        form = form._replace(axes={**ways, 2: "shared"})
    return Fit(form, max(best.excess, _at_lengths(module, label, form)))


def _at(asked: RotaryModule, spec: RotarySpec) -> Iterator[Fit]:
    """Each order of axes, where they stand in one place."""
    count = len(spec.axes)
    positions = _probes(count)
    values = _values(asked.subject(spec.dim, count), positions)
    dtype, is_complex, leading = _dressed(asked, count)
    place = {SEVERAL[asked.place]: asked.place.replace("rows", "last")}
    for order in itertools.permutations(range(count)):
        columns, excess = _columns(spec, _ordered(positions, order), values)
        yield Fit(CosSinForm(spec, columns, place, order, dtype, is_complex, leading), excess)


def _ordered(positions: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    return positions if len(order) == 1 else positions[..., list(order)]


def _values(subject: Subject, positions: np.ndarray) -> np.ndarray:
    """Cos + i sin of each channel, (positions, channels)."""
    if (pair := pairs_of(subject.built(positions))) is None:
        raise CannotAsk("it does not return cosines and sines of one shape")
    return np.asarray(pair[0][0] + 1j * pair[1][0])


def _dressed(asked: RotaryModule, count: int) -> tuple[torch.dtype | None, bool, int]:
    """The dtype of the answer, None where it follows the input; whether complex; axes in front."""
    axes = () if count == 1 else (count,)
    batch = () if asked.place == "rows" else (1,)
    raw = asked.answer(
        torch.zeros(1, 3, 2, dtype=torch.float16),
        torch.arange(3)[:, *[None for _ in axes]].expand(*batch, 3, *axes),
    )
    one = raw if isinstance(raw, torch.Tensor) else raw[0]
    leading = one.ndim - len(batch) - 2
    if one.is_complex():
        return torch.float32, True, leading
    return (None if one.dtype == torch.float16 else one.dtype), False, leading


def _columns(spec: RotarySpec, positions: np.ndarray, values: np.ndarray) -> tuple[Any, float]:
    """Which pair each channel belongs to, and how far it is off; 1 is what is allowed."""
    seen = PairTurns(positions, values, int(positions.max()) + 1)
    wanted = expected(spec, seen)
    room = 2 * allowed(spec, seen, np.abs(wanted))  # models round once or twice more
    # One channel after another, the channels that do not turn among them.
    wanted = np.concatenate([wanted, np.ones((len(positions), 1))], axis=1)
    room = np.concatenate([room, np.full((len(positions), 1), 1e-6)], axis=1)
    off = np.max(np.abs(values[:, :, None] - wanted[:, None]) / room[:, None], axis=0)
    off = np.where(np.isnan(off), np.inf, off)
    pairs, width = spec.pairs, values.shape[-1]
    line, nearest = np.arange(pairs), np.argmin(off, axis=1)
    forms: list[tuple[Any, np.ndarray]] = [
        (tuple(range(pairs)), line), ("halves", np.tile(line, 2)), ("twice", np.repeat(line, 2)),
    ]  # fmt: skip
    if {*range(pairs)} <= {*nearest.tolist()}:
        forms.append((tuple(nearest.tolist()), nearest))
    each = [(name, float(off[np.arange(width), index].max()))
            for name, index in forms if len(index) == width]  # fmt: skip
    fitting = [form for form in each if form[1] <= 1]
    return fitting[0] if fitting else min(each, key=lambda form: form[1], default=((), np.inf))


def _shared(asked: RotaryModule, form: CosSinForm) -> bool:
    """Whether (batch, sequence) stands for positions that are the same on every axis."""
    line = np.arange(7) * 3
    with contextlib.suppress(CannotAsk):
        pair = pairs_of(asked.subject(form.spec.dim).built(np.stack([line, line])))
        positions = np.stack([line] * len(form.order), axis=-1)
        return pair is not None and all(
            _columns(form.spec, positions, row)[1] <= 1 for row in pair[0] + 1j * pair[1]
        )
    return False


def _at_lengths(module: nn.Module, label: str | None, form: CosSinForm) -> float:
    """How far it is off at lengths with frequencies of their own; 0 where there are none."""
    if form.spec.lengths is None:
        return 0.0
    first, last = form.spec.lengths
    subject = subject_of(module, label, form)
    worst = 0.0
    for length in dict.fromkeys((first, first + 1, 4 * first if last is None else last)):
        positions = _probes(len(form.order), length - 1)
        try:
            values = _values(subject, positions)
        except CannotAsk:
            return np.inf
        worst = max(worst, _columns(form.spec, _ordered(positions, form.order), values)[1])
    return worst


def subject_of(module: nn.Module, label: str | None, form: CosSinForm) -> Subject:
    """A module as what is asked in a form."""
    ndim, place = next((n, p) for n, p in form.axes.items() if p != "shared")
    place = "rows" if place == "last" and ndim == 2 else place
    subject = RotaryModule(module, label, place).subject(form.spec.dim, len(form.order))
    subject._one = slice(None)  # every channel is asked
    return subject


# --- how far it is --------------------------------------------------------------------------------


class _Distances(Held):
    """A survey that keeps the differences at each position."""

    def __init__(self, subject: Subject, expected: Callable[..., Any]) -> None:
        self.off: dict[int, float] = {}
        super().__init__(subject, expected, "float32")

    def _places(self, call: Call, off: np.ndarray) -> tuple[np.ndarray, Any]:
        if off.shape[:2] == call.rows.shape[:2]:
            line = call.rows if call.rows.ndim == 2 else call.rows.max(axis=-1)
            for place, each in zip(line.ravel().tolist(), off.max(axis=-1).ravel(), strict=True):
                self.off[place] = max(self.off.get(place, 0.0), float(each))
        return super()._places(call, off)


def distance(
    module: nn.Module, label: str | None, form: CosSinForm, length: int | None
) -> Distance:
    """How far a module is from exact angles, at the positions of a survey."""
    if isinstance(module, PictureRotary):  # tokens are numbered row after row
        places, values = module.turns()
        pair = FormedCosSin(form._replace(dtype=torch.float64))(torch.zeros(1), places)
        off = np.abs(torch.complex(*pair).numpy() - values).max(axis=1)
        return Distance.of(np.arange(len(off)), off, len(off) - 1)
    count = len(form.order)
    exact = form._replace(dtype=torch.float64, is_complex=False, leading=0, axes={3: "last"})
    formed = FormedCosSin(exact if count > 1 else exact._replace(axes={2: "each"}))

    def expected(rows: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(t) for t in formed(torch.zeros(1), torch.from_numpy(rows.copy()))]

    bench = _Distances(subject_of(module, label, form), expected)
    end = min(END, COUNTED) if isinstance(module, SequenceRotary) else END
    choice = bench.held(end, SECONDS)  # fills what is off
    return Distance.of(
        np.array([*bench.off]), np.array([*bench.off.values()]), max((length or 4096) - 1, 1),
        choice.reach,
    )  # fmt: skip


# --- diffusion models: another module in the place of the one that a row of diffusers names -------


ROTATION = "rotary_emb"  # in the name of what pipelines hand to `forward`


def adopt_diffusion(model: Any, scaling: Scaling | None, phase: str) -> Adoption:
    """Exact cosines and sines, or those of another scaling, where the row says they are made."""
    name = type(model).__name__
    leaves = [leaf for leaf in diffusion.rotary_modules(name) if getattr(model, leaf, None)]
    handed = [key for key in inspect.signature(model.forward).parameters if ROTATION in key]
    refuse_if(
        not leaves,
        mismatch(
            CALLER,
            "a rotary module inside of the model",
            f"a {name}: " + (f"its pipeline hands {handed[0]} over" if handed else "it has none"),
            "posenc.cos_sin(spec, positions) gives what is handed over.",
        ),
        DataError,
    )
    reading = facts(model).reading
    replaced: dict[str, tuple[AdoptedAxes, Layer]] = {}
    errors: dict[str, PosencError] = {}
    for leaf, layer in itertools.product(leaves, reading):
        if isinstance(layer.spec, RoPE) and leaf not in replaced:
            try:
                replaced[leaf] = _asked(model, leaf, layer.spec, scaling, phase), layer
            except PosencError as error:
                errors[leaf] = error
    if not replaced:
        raise next(
            iter(errors.values()),
            bad_data(CALLER, "a rotation in its plan", "; ".join(reading.errors) or "none"),
        )
    for leaf, (new, _) in replaced.items():
        setattr(model, leaf, new)
    return Adoption(
        name,
        replaced=tuple(
            Replacement(
                leaf,
                layer=layer.layer,
                spec=new.spec,
                was=type(new.original).__name__,
                change=new.change,
                place=new.place,
                last=new.reach,
                looked=new.reach,
                wrong=new.place if new.change > CONSIDERABLE else None,
                trained=None if new.spec.scaling == new.trained.scaling else new.trained,
            )
            for leaf, (new, layer) in replaced.items()
        ),
        left=tuple(f"{leaf}: {error}" for leaf, error in errors.items() if leaf not in replaced),
        remarks=(
            *(f"{leaves[0]} is not asked where {key} is handed to forward" for key in handed),
            *reading.warnings,
        ),
    )


# --- one call of a module, which says what it takes by the names of its arguments -----------------


def _asked(
    model: Any, leaf: str, trained: RoPE, scaling: Scaling | None, phase: str
) -> AdoptedAxes:
    """What takes the place of a module, whose answer to a call is that of the config."""
    spec = trained.replace(
        scaling=trained.scalings if scaling is None else (*trained.scalings, scaling),
        phase=phase if phase == "float32" else trained.phase,
    )
    new = AdoptedAxes(getattr(model, leaf), trained, spec)
    names = inspect.signature(getattr(new.original, "forward", new.original)).parameters
    device = next((one.device for one in (*model.parameters(), *model.buffers())), "cpu")
    why: list[str] = []
    for sample in _samples(len(trained.axes), device):
        try:
            with foreign(f"{CALLER}: a rotary module"), torch.no_grad():
                new(**{key: value for key, value in sample.items() if key in names})
        except PosencError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others, which may raise anything
            why.append(f"{type(error).__name__}: {error}")
        if new.reach >= 0:
            return new
    raise bad_argument(
        CALLER,
        f"an answer to a call by {', '.join(names)}",
        next(iter(why), "no cosines and sines in its answer"),
    )


def _samples(axes: int, device: Any) -> Iterator[dict[str, Any]]:
    """Small calls, by the names that arguments have in diffusers; tables may end soon."""
    lines = [torch.arange(n, device=device) for n in (4, 8, 12)]
    inside = torch.tensor([0] * 3 + [1] * 24 + [0] * 2, device=device, dtype=torch.bool)
    for latents, last in (((1, 4, 4, 8, 12), 61), ((1, 4, 8, 12), 61), ((1, 4, 4, 8, 12), 7)):
        ids = torch.arange(24)[:, None] * torch.arange(5, 5 + axes) % last
        for places in (each.to(device) for each in (ids, ids[None], ids.T[:, None])):
            yield {
                "ids": places, "position_ids": places, "pos": lines if axes > 1 else lines[-1],
                "device": torch.device(device), "dtype": torch.float32,
                "hidden_states": torch.zeros(latents, device=device),
                "num_frames": 4, "height": 8, "width": 12, "fhw": (4, 8, 12), "seq_len": 12,
                "shape": (1, 4, 8, 12), "frame_indices": lines[0][None],
                "video_fhw": [[(1, 6, 4), (1, 8, 5)]], "max_txt_seq_len": 7,
                "attention_mask": torch.ones(1, 7, dtype=torch.int64, device=device),
                "img_shapes": [(1, 4, 6)], "image_pad_mask": inside,
            }  # fmt: skip
