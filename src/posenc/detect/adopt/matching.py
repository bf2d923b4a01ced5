"""Which entry of a plan each module of a model computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

from posenc._core.errors import DataError, PosencError, mismatch
from posenc._core.reading import Layer, Reading
from posenc.detect.adopt.fitting import fits, labels, takes_positions, twin
from posenc.detect.adopt.refusals import CALLER
from posenc.detect.contract.sides.forwards import unused_modules
from posenc.detect.subject import CannotAsk
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.adopted import CosSinForm, is_dispatched, unhooked


class Place(NamedTuple):
    """Where a module stands in its parent."""

    parent: nn.Module
    leaf: str


class Answered(NamedTuple):
    """A module, and the entry and form of each type of layer that it answers for."""

    path: str
    places: list[Place]
    module: nn.Module
    asked: nn.Module  # whose numbers were compared: itself, or as its config makes it
    forms: dict[str | None, tuple[Layer, CosSinForm]]


def places_of(model: nn.Module) -> Iterator[tuple[Place, nn.Module]]:
    """Every place in the tree of modules, each parent once."""
    for parent in model.modules():
        for leaf, module in parent._modules.items():
            if module is not None:
                yield Place(parent, leaf), module


def candidates(model: nn.Module) -> Iterator[tuple[str, list[Place], nn.Module]]:
    """(path, places, module) of each module that is called with position ids alone."""
    places: dict[nn.Module, list[Place]] = {}
    for place, module in places_of(model):
        places.setdefault(module, []).append(place)
    for path, module in model.named_modules():
        if module in places and takes_positions(module):
            yield path, places[module], module


def unused(model: nn.Module) -> frozenset[str]:
    """Paths of the candidates that no forward calls."""
    found = {module for _, _, module in candidates(model)}
    return unused_modules(model, found.__contains__)


def answered(path: str, places: list[Place], module: nn.Module, entries: list[Layer]) -> Answered:
    """What a module answers for."""
    if any(True for _ in module.parameters()) or module.state_dict():
        raise CannotAsk("it has weights of its own, which are never replaced")
    if "forward" in vars(module) and not is_dispatched(module):
        raise CannotAsk("it has a forward of its own, which would be lost")
    asked = twin(module) or unhooked(module)
    names = [entry.layer.rpartition(".")[2] for entry in entries]
    forms: dict[str | None, tuple[Layer, CosSinForm]] = {}
    unknown: list[DataError] = []
    for label in labels(asked, names):
        own = [e for e, name in zip(entries, names, strict=True) if label and name == label]
        try:
            forms[label] = _fit(path, asked, label, own or entries)
        except DataError as error:
            if own or label is None:
                raise
            unknown.append(error)  # of no layer of the plan: the old module goes on to answer
    if not forms:
        raise unknown[0]
    return Answered(path, places, module, asked, forms)


def entries_of(plan: Reading, config: Any, module: nn.Module) -> list[Layer]:
    """The rotary entries of the part of the model that a module was made for."""
    turning = [e for e in plan if isinstance(e.spec, RotarySpec)]
    parts = dict(_parts(config, ""))
    own = getattr(module, "config", None)
    inside_of = [name for name, sub in parts.items() if sub is own]
    inside_of = inside_of or [
        name for name, sub in parts.items()
        if own is not None and sub.model_type == getattr(own, "model_type", None)
    ]  # fmt: skip
    if own is config:
        inside = [e for e in turning if not any(name and _is_in(e, name) for name in parts)]
    else:
        inside = [e for e in turning if any(_is_in(e, name) for name in inside_of)]
    return inside or turning


def _is_in(entry: Layer, part: str) -> bool:
    return entry.layer == part or entry.layer.startswith(f"{part}.")


def _parts(config: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The configs inside of a config, under the names of a plan."""
    for key, value in list(vars(config).items()):
        if callable(getattr(value, "to_dict", None)) and hasattr(value, "model_type"):
            inner = key.removesuffix("_config")
            path = f"{name}.{inner}" if name else inner
            yield path, value
            yield from _parts(value, path)


def _fit(
    path: str, module: nn.Module, label: str | None, entries: list[Layer]
) -> tuple[Layer, CosSinForm]:
    """The entry whose numbers a module has."""
    reason: PosencError | None = None
    nearest: tuple[float, Layer] | None = None
    for entry in entries:
        try:
            fit = fits(module, label, entry.spec)  # type: ignore[arg-type]
        except PosencError as error:
            reason = error
            continue
        if fit.excess <= 1:
            return entry, fit.form
        if nearest is None or fit.excess < nearest[0]:
            nearest = fit.excess, entry
    if nearest is None:
        raise reason or CannotAsk("the plan has no rotation for it")
    entry = nearest[1]
    expected = f"cosines and sines of {entry.spec!r}, which its config says of {entry.layer}"
    what = f"{path} ({type(module).__name__})" + (f", {label}" if label else "")
    received = f"others, {nearest[0]:.2g} times what float32 angles may be off"
    todo = "The config contradicts the model, or was changed after the model was made."
    raise DataError(mismatch(f"{CALLER}: {what}", expected, received, todo))


# Of what has no weights, by its kind.
IN_CODE = "{kind}, a {entry.kind} that is made in the code of the model, by no module"
LEFT = {
    "rotary": "{kind}: no module answers positions with its cosines and sines alone",
    "table": "{kind}: its rows are trained, made in code, or others than those",
    "bias": IN_CODE,
    "relative": IN_CODE,
    "convolution": "a convolution, whose weights stay",
}


def why_left(entry: Layer) -> Iterator[str]:
    """Why an entry of the plan that was not put in stays as the model has it."""
    name = entry.label
    kind = type(entry.spec).__name__
    rows = getattr(entry.spec, "length", None)
    if entry.kind == "table" and isinstance(rows, int):
        told = f"{kind}, {rows:,} rows that are weights, which stay"
    elif entry.spec is not None and entry.spec.parameters():
        told = f"{kind}, a {entry.kind} whose values are weights, which stay"
    else:
        told = LEFT.get(entry.kind, "").format(kind=kind, entry=entry)
    if told:
        yield f"{name}: {told}"
