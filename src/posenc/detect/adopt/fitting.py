"""Which encoding of a plan a rotary module computes, and in which form, from its answers alone."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from posenc.detect.adopt.report import Distance
from posenc.detect.fit.turns import CONSIDERABLE, NEAR, PairTurns, allowed, expected
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.adopted import CosSinForm, FormedCosSin

FAR = (1023, 4095)  # beside the near positions: slow pairs look alike there
DENSE, STRIDED = 2**16, 2**20  # positions that are all compared, and up to where each 64th is
CHUNK = 8192
CALL = ["x", "position_ids", "layer_type"]


class Silent(Exception):  # noqa: N818 - not an error: the module is none that can be asked
    """Why a module does not answer positions with cosines and sines."""


class Fit(NamedTuple):
    """A form whose numbers a module has, or how far off the nearest one is."""

    form: CosSinForm
    excess: float  # the largest difference, over what float32 angles may be off


def takes_positions(module: nn.Module) -> bool:
    """Whether a module is called with an input, position ids, and at most a type of layer."""
    names = parameters(module)
    return not any(module.children()) and names[:2] == CALL[:2] and {*names} <= {*CALL}


def parameters(module: nn.Module) -> list[str]:
    """The names of what a module is called with."""
    return list(inspect.signature(type(module).forward).parameters)[1:]


def labels(module: nn.Module, names: list[str]) -> list[str | None]:
    """The types of layers that a module answers for; [None] where it asks for none."""
    if "layer_type" not in parameters(module):
        return [None]
    ends = [key.removesuffix("_inv_freq") for key, _ in module.named_buffers(recurse=False)]
    candidates = [*getattr(module, "layer_types", ()), *ends, *names]
    if _answers(module, None):  # the name is an option, and changes nothing
        return [None]
    return [name for name in dict.fromkeys(candidates) if _answers(module, name)] or [None]


def _answers(module: nn.Module, label: str | None) -> bool:
    for ids in (torch.arange(3)[None], torch.zeros(3, 1, 3, dtype=torch.int64)):
        with contextlib.suppress(Silent):
            answers(module, ids, label)
            return True
    return False


def answers(
    module: nn.Module, ids: torch.Tensor, label: str | None, dtype: Any = torch.float32
) -> Any:
    """What a copy of a module returns, so that the module itself remembers nothing of it."""
    copied = copy.deepcopy(module)
    device = next(iter({buffer.device for buffer in copied.buffers()} or {torch.device("cpu")}))
    if device.type == "meta":
        raise Silent("it is on the meta device, and has no numbers yet")
    x = torch.zeros(1, max(ids.shape[-1], 1), 2, dtype=dtype, device=device)
    more = {} if label is None else {"layer_type": label}
    try:
        with torch.no_grad():
            returned = copied(x, position_ids=ids.to(device), **more)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:80]}"
        raise Silent(f"it raises for positions of shape {tuple(ids.shape)} ({text})") from error
    if isinstance(returned, torch.Tensor) and returned.is_complex():
        return returned
    pair = isinstance(returned, tuple) and len(returned) == 2
    if not pair or not all(isinstance(t, torch.Tensor) for t in returned):
        raise Silent("it does not return cosines and sines")
    if returned[0].shape != returned[1].shape or not returned[0].is_floating_point():
        raise Silent("it does not return cosines and sines of one shape")
    return returned


def _values(returned: Any) -> np.ndarray:
    """Cos + i sin, in double precision."""
    cos, sin = (np.asarray(part.to("cpu", torch.float64)) for part in _parts(returned))
    return cos + 1j * sin


def twin(module: nn.Module) -> nn.Module | None:
    """The module as its config alone makes it, where its own frequencies are rounded or absent.

    A cast of a model rounds the buffers of its rotary modules to half precision; on the meta device
    they have no values. None where the buffers are neither, or are not those of the config.
    """
    own = {k: v for k, v in module.named_buffers(recurse=False) if v.is_floating_point()}
    if not any(buffer.is_meta or buffer.itemsize < 4 for buffer in own.values()):
        return None
    try:
        with torch.device("cpu"):
            fresh: nn.Module = type(module)(module.config)
    except Exception:  # noqa: BLE001 - whatever code of somebody else raises
        return None
    buffers = dict(fresh.named_buffers(recurse=False))
    alike = own.keys() <= buffers.keys() and all(
        buffers[k].shape == v.shape and (v.is_meta or torch.equal(buffers[k].to(v.dtype), v.cpu()))
        for k, v in own.items()
    )
    return fresh.train(module.training) if alike else None


# --- the form -------------------------------------------------------------------------------------


def _probes(count: int, last: int | None) -> np.ndarray:
    near = np.array([*NEAR, *FAR]) if last is None else np.array([*NEAR[last > NEAR], last])
    if count == 1:
        return near
    rng = np.random.default_rng(0)
    return np.stack([near, *(rng.permutation(near) for _ in range(count - 1))], axis=-1)


def _shaped(
    positions: np.ndarray, count: int
) -> Iterator[tuple[str, tuple[int, ...], torch.Tensor]]:
    """(where the axes stand, shape of the answer, position ids) of each form of a call."""
    ids = torch.from_numpy(np.ascontiguousarray(positions))
    if count == 1:
        yield "each", (1, len(positions)), ids[None]
        return
    yield "first", (1, len(positions)), ids.T[:, None]
    yield "last", (len(positions),), ids
    yield "last", (1, len(positions)), ids[None]


def fits(module: nn.Module, label: str | None, spec: RotarySpec) -> Fit:
    """The form in which a module has the numbers of a spec; or in which it comes nearest."""
    count = len(spec.axes)
    best: Fit | None = None
    why: Silent | None = None
    axes: dict[int, str] = {}
    positions = _probes(count, None)
    for place, lead, ids in _shaped(positions, count):
        try:
            returned = answers(module, ids, label)
        except Silent as error:
            why = error
            continue
        values = _values(returned)
        leading = values.ndim - 1 - len(lead)
        if leading < 0 or values.shape[:-1] != (1,) * leading + lead:
            why = Silent(f"it returns shape {values.shape} for positions {tuple(ids.shape)}")
            continue
        for order in itertools.permutations(range(count)):
            rows = positions if count == 1 else positions[:, list(order)]
            columns, excess = _columns(spec, rows, values.reshape(len(positions), -1))
            if best is not None and not excess < best.excess:
                continue
            dtype, is_complex = _dtype(module, ids, label, returned)
            best = Fit(CosSinForm(spec, columns, {}, order, dtype, is_complex, leading), excess)
            axes = {ids.ndim: place} if excess > 1 else axes
        if best is not None and best.excess <= 1:
            axes[ids.ndim] = place
    if best is None:
        raise why or Silent("it answers no positions")
    if count > 1 and best.excess <= 1:
        axes |= _shared(module, label, spec, best.form)
    best = best._replace(form=best.form._replace(axes=axes))
    return best._replace(excess=max(best.excess, _at_lengths(module, label, best.form)))


def _dtype(
    module: nn.Module, ids: torch.Tensor, label: str | None, returned: Any
) -> tuple[torch.dtype | None, bool]:
    """The dtype of the answer, None where it follows the input, and whether it is complex."""
    if isinstance(returned, torch.Tensor):
        return torch.float32, True
    other = answers(module, ids, label, torch.float16)[0].dtype
    return (None if other == torch.float16 else other), False


def _columns(spec: RotarySpec, positions: np.ndarray, values: np.ndarray) -> tuple[Any, float]:
    """Which pair each channel belongs to, and how far it is off; 1 is what is allowed."""
    seen = PairTurns(positions, values, int(positions.max()) + 1)
    wanted = expected(spec, seen)
    room = 2 * allowed(spec, seen, np.abs(wanted))  # models round once or twice more
    pairs, width = spec.pairs, values.shape[-1]
    forms: list[tuple[Any, np.ndarray]] = []
    if width == pairs:
        forms = [(tuple(range(pairs)), np.arange(pairs))]
    elif width == 2 * pairs:
        forms = [("halves", np.tile(np.arange(pairs), 2)), ("twice", np.arange(width) // 2)]
    best: tuple[Any, float] = ((), np.inf)
    for name, index in forms:
        excess = float(np.max(np.abs(values - wanted[:, index]) / room[:, index]))
        if not np.isfinite(excess) or excess < best[1]:
            best = (name, excess)
        if excess <= 1:
            return best
    # One channel after another, the channels that do not turn among them.
    wanted = np.concatenate([wanted, np.ones((len(positions), 1))], axis=1)
    room = np.concatenate([room, np.full((len(positions), 1), 1e-6)], axis=1)
    off = np.max(np.abs(values[:, :, None] - wanted[:, None]) / room[:, None], axis=0)
    index = np.argmin(off, axis=1)
    excess = float(np.max(off[np.arange(width), index]))
    if excess <= 1 and set(range(pairs)) <= {*index.tolist()}:
        return tuple(index.tolist()), excess
    return best


def _shared(
    module: nn.Module, label: str | None, spec: RotarySpec, form: CosSinForm
) -> dict[int, str]:
    """Whether (batch, sequence) stands for positions that are the same on every axis."""
    ids = torch.arange(7).reshape(1, 7).expand(2, 7) * 3
    try:
        values = _values(answers(module, ids, label))
    except Silent:
        return {}
    if values.shape[-3:-1] != (2, 7):
        return {}
    positions = np.stack([np.arange(7) * 3] * len(spec.axes), axis=-1)
    own = form._replace(axes={2: "shared"}, dtype=torch.float64, is_complex=False, leading=0)
    cos, sin = FormedCosSin(own)(torch.zeros(1), torch.from_numpy(positions[:, 0])[None])
    off = np.abs(np.asarray(cos + 1j * sin) - values.reshape(2, 7, -1)[:1])
    return {2: "shared"} if np.max(off) < 1e-4 else {}


def _at_lengths(module: nn.Module, label: str | None, form: CosSinForm) -> float:
    """How far it is off at lengths with frequencies of their own; 0 where there are none."""
    if form.spec.lengths is None:
        return 0.0
    first, last = form.spec.lengths
    worst = 0.0
    count = len(form.spec.axes)
    for length in dict.fromkeys((first, first + 1, 4 * first if last is None else last)):
        positions = _probes(count, length - 1)
        place, _, ids = next(_shaped(positions, count))
        if count > 1 and form.axes.get(ids.ndim) != place:
            continue
        try:
            values = _values(answers(module, ids, label)).reshape(len(positions), -1)
        except Silent:
            return np.inf
        rows = positions if count == 1 else positions[:, list(form.order)]
        worst = max(worst, _columns(form.spec, rows, values)[1])
    return worst


# --- how far it is --------------------------------------------------------------------------------


def distance(
    module: nn.Module, label: str | None, form: CosSinForm, length: int | None
) -> Distance:
    """How far a module is from exact angles, where positions are the same on every axis."""
    last = max((length or 4096) - 1, 1)
    looked = max(last, STRIDED)
    if form.spec.lengths is not None:  # one set of frequencies, that of short sequences
        last = looked = form.spec.lengths[0] - 1
    own = FormedCosSin(
        form._replace(spec=form.spec.at(last + 1), dtype=torch.float32, axes={2: "shared"})
    )
    stride = 64 * max(1, looked // (64 * DENSE))
    dense = np.arange(min(DENSE, looked + 1))
    places = np.unique(np.r_[dense, np.arange(0, looked, stride), last, looked])
    change, place, wrong = 0.0, 0, None
    for begin in range(0, len(places), CHUNK):
        rows = torch.from_numpy(places[begin : begin + CHUNK])
        pairs = zip(
            _parts(answers(module, _same(rows, form), label)),
            _parts(own(torch.zeros(1), rows[None])),
            strict=True,
        )
        gaps = [(a.flatten(0, -2).cpu() - b.flatten(0, -2)).abs().amax(dim=-1) for a, b in pairs]
        off = np.asarray(torch.maximum(*gaps))
        within = np.where(np.asarray(rows) <= last, off, 0.0)
        if within.max() > change:
            change, place = float(within.max()), int(rows[within.argmax()])
        if wrong is None and np.any(off > CONSIDERABLE):
            wrong = int(rows[np.argmax(off > CONSIDERABLE)])
        if wrong is not None and rows[-1] >= last:
            looked = int(rows[-1])
            break
    return Distance(change, place, last, wrong, looked)


def _parts(returned: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(returned, torch.Tensor):
        return returned.real, returned.imag
    cos, sin = returned
    return cos, sin


def _same(rows: torch.Tensor, form: CosSinForm) -> torch.Tensor:
    """Position ids that are the same on every axis, as the module takes them."""
    count = len(form.order)
    if count == 1:
        return rows[None]
    ndim, place = next((n, p) for n, p in form.axes.items() if p != "shared")
    if place == "first":
        return rows.expand(count, 1, len(rows))
    ids = rows[:, None].expand(len(rows), count)
    return ids if ndim == 2 else ids[None]
