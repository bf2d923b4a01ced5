"""Which models are not adopted, and which entry of a plan each module of the others computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from posenc._core.errors import (
    ArgumentError,
    DataError,
    PosencError,
    bad_argument,
    bad_data,
    mismatch,
)
from posenc._core.grouping import grouped
from posenc._core.positions.builder import Positions
from posenc._core.reading import Layer, Reading
from posenc._core.spec.spec import Spec
from posenc.detect.adopt.fitting import (
    counts_tokens,
    fits,
    labels,
    parameters,
    takes_positions,
    twin,
)
from posenc.detect.adopt.report import CALLER, has_rows
from posenc.detect.facts import facts
from posenc.detect.facts.arrays import FREQUENCIES
from posenc.detect.facts.loaded import unused_modules
from posenc.detect.fit.turns import attempt
from posenc.detect.subject import CannotAsk, refuse_if
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.torch.adopted import (
    AdoptedRotary,
    CosSinForm,
    PictureRotary,
    SequenceRotary,
    is_dispatched,
    unhooked,
)

LIBRARIES = ("transformers", "torch", "posenc")


def is_diffusion(model: Any) -> bool:
    """Whether a model is a transformer of diffusers."""
    return isinstance(model, nn.Module) and type(model).__module__.startswith("diffusers.")


def refuse_model(model: Any, *, diffusion: bool) -> None:
    """Raise for what cannot be adopted as a whole, before anything is read."""
    name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    refuse_if(
        not isinstance(model, nn.Module),
        mismatch(
            CALLER,
            "a loaded model",
            name,
            "Load it: AutoModelForCausalLM.from_pretrained(...); of a pipeline of diffusers, give "
            "its `transformer`.",
        ),
        ArgumentError,
    )
    _refuse_adopted(model)
    if not diffusion:
        _refuse_foreign(model, name)


def _refuse_adopted(model: nn.Module) -> None:
    """Raise for a model that was adopted before."""
    adopted = [
        path for path, module in model.named_modules()
        if isinstance(module, AdoptedRotary) or has_rows(module)
    ]  # fmt: skip
    if adopted:
        changed = config_change(model)
        raise bad_argument(
            CALLER,
            "a model as its library makes it",
            f"one whose {adopted[0]} was adopted before{f' ({changed})' if changed else ''}",
            "Call posenc.torch.release(model) first.",
        )


def _refuse_foreign(model: Any, name: str) -> None:
    """Raise for a model that has no config of transformers, or other code than its class there."""
    config = getattr(model, "config", None)
    refuse_if(
        not callable(getattr(config, "to_dict", None)) or not getattr(config, "model_type", ""),
        mismatch(
            CALLER,
            "a model of transformers, which has a config",
            f"{name} without one",
            "Give the model inside." * isinstance(getattr(model, "module", None), nn.Module),
        ),
        ArgumentError,
    )
    refuse_if(
        "transformers_modules" in type(model).__module__ or getattr(model.config, "auto_map", None),
        mismatch(
            CALLER,
            "a class of transformers itself",
            f"{name}, code that came with a checkpoint (auto_map, trust_remote_code)",
            "What that code does about positions is in no plan.",
        ),
        DataError,
    )
    for path, module in model.named_modules():
        if (override := _override(module)) is not None:
            raise bad_data(
                CALLER,
                "the code of transformers",
                f"{f'{path} is ' if path else ''}{override} with a forward of its own",
                "Adopt the class that it derives from: what another forward does is in no plan.",
            )


def config_change(model: Any) -> str:
    """What the config of a model no longer says that it said when the model was adopted."""
    config = model if is_diffusion(model) else getattr(model, "config", None)
    specs = [s for m in model.modules() if isinstance(m, AdoptedRotary) for s in m.encodings]
    if config is None or not specs:
        return ""
    try:
        now = [entry.spec for entry in facts(config).plan]
    except PosencError as error:
        return f"its config was changed since, and cannot be read: {error}"
    gone = [repr(spec) for spec in dict.fromkeys(specs) if spec not in now]
    return f"its config was changed since, and no longer says {gone[0]}" if gone else ""


def _override(module: nn.Module) -> str | None:
    """The class of somebody else that overrides the forward of a class of transformers."""
    order = type(module).__mro__
    owner = next(cls for cls in order if "forward" in vars(cls))
    behind = order[order.index(owner) + 1 :]
    if _library(owner) in LIBRARIES or not any(
        _library(c) == "transformers" and issubclass(c, nn.Module) for c in behind
    ):
        return None
    name = owner.__name__
    # A library makes a class when the model is wrapped, as FSDP does.
    return None if name.startswith("FSDP") and name.endswith(behind[0].__name__) else name


def _library(cls: type) -> str:
    return cls.__module__.partition(".")[0]


# --- the modules of a model -----------------------------------------------------------------------


class Place(NamedTuple):
    """Where a module stands in its parent."""

    parent: nn.Module
    leaf: str


class Answered(NamedTuple):
    """A module, and the entry and form of each type of layer that it answers for."""

    path: str
    places: list[Place]
    module: nn.Module
    asked: nn.Module  # what is asked how far it is: itself, or as its config makes it
    forms: dict[str | None, tuple[Layer, CosSinForm]]


def places_of(model: nn.Module) -> Iterator[tuple[Place, nn.Module]]:
    """Every place in the tree of modules, each parent once."""
    yield from (
        (Place(parent, leaf), module)
        for parent in model.modules()
        for leaf, module in parent._modules.items()
        if module is not None
    )


def candidates(model: nn.Module) -> Iterator[tuple[str, list[Place], nn.Module]]:
    """(path, places, module) of each that takes position ids alone, or counts its tokens."""
    places = grouped((module, place) for place, module in places_of(model))
    yield from (
        (path, places[module], module)
        for path, module in model.named_modules()
        if module in places and (takes_positions(module) or counts_tokens(module))
    )


def answered(path: str, places: list[Place], module: nn.Module, entries: list[Layer]) -> Answered:
    """What a module answers for."""
    refuse_if(
        any(True for _ in module.parameters())
        or any(not FREQUENCIES.search(name) for name in module.state_dict()),
        "it has weights of its own, which are never replaced",
    )
    refuse_if(
        "forward" in vars(module) and not is_dispatched(module),
        "it has a forward of its own, which would be lost",
    )
    asked = twin(module, getattr(places[0].parent, "config", None)) or unhooked(module)
    plain = unhooked(module)
    if counts_tokens(module):
        asked, plain = _without_positions(asked, plain, entries)
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
    return Answered(
        path,
        places,
        module,
        asked if any(buffer.is_meta for buffer in module.buffers()) else plain,
        forms,
    )


def _without_positions(
    asked: nn.Module, plain: nn.Module, entries: list[Layer]
) -> tuple[nn.Module, nn.Module]:
    """A module that counts tokens, or places patches by the rule of an entry, as what is asked."""
    ways: list[Callable[[Any], Any]] = [SequenceRotary]
    ways += [partial(PictureRotary, rule=e.positions) for e in entries
             if isinstance(e.positions, Positions) and e.positions.builder == "grid"]  # fmt: skip
    for way in ways:
        with contextlib.suppress(Exception):  # code of others, which may raise anything
            counting = way(asked)
            counting.answer(torch.zeros(1), 3)
            return counting, way(plain)
    raise CannotAsk(f"it is called with {parameters(asked)[0]}, and places what is in it by itself")


def covers(spec: Spec | None, covered: list[Spec | None]) -> bool:
    """Whether the numbers of a spec were put in: those of an indexer may be paired otherwise."""
    return (
        any(
            isinstance(one, RoPE) and attempt(spec.replace, pairing=one.pairing) == one
            for one in covered
        )
        if isinstance(spec, RoPE)
        else spec is not None and spec in covered
    )


def answers_of(
    model: nn.Module, reading: Reading, apart: set[nn.Module]
) -> tuple[list[Answered], list[str]]:
    """The modules whose numbers are those of the plan, and why others stay."""
    modules: list[Answered] = []
    left: list[str] = []
    others = takes_positions if not rotations(reading) else lambda _: True
    for path, places, module in candidates(model):
        try:
            if module not in apart and others(module):
                modules.append(
                    answered(path, places, module, entries_of(reading, model.config, module))
                )
        except CannotAsk as reason:
            left.append(f"{path} ({type(module).__name__}): {reason}")
        except DataError:
            # Asked where it matters: hooks of others see the run.
            if path not in unused_modules(model, {m for _, _, m in candidates(model)}.__contains__):
                raise
            left.append(f"{path} ({type(module).__name__}): it stands unused: no forward calls it")
    return modules, left


def rotations(plan: Reading) -> list[Layer]:
    """The rotary entries of a plan."""
    return [e for e in plan if isinstance(e.spec, RotarySpec)]


def entries_of(plan: Reading, config: Any, module: nn.Module) -> list[Layer]:
    """The rotary entries of the part of the model that a module was made for."""
    turning = rotations(plan)
    parts = dict(_parts(config, ""))
    own = getattr(module, "config", None)
    if own is config:
        return [e for e in turning if not any(n and _is_in(e, n) for n in parts)] or turning
    inside_of = [name for name, sub in parts.items() if sub is own] or [
        name for name, sub in parts.items()
        if own is not None and sub.model_type == getattr(own, "model_type", None)
    ]  # fmt: skip
    return [e for e in turning if any(_is_in(e, name) for name in inside_of)] or turning


def _is_in(entry: Layer, part: str) -> bool:
    return entry.layer == part or entry.layer.startswith(f"{part}.")


def _parts(config: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The configs inside of a config, under the names of a plan."""
    for key, value in list(vars(config).items()):
        if callable(getattr(value, "to_dict", None)) and hasattr(value, "model_type"):
            path = f"{name}.{key.removesuffix('_config')}".lstrip(".")
            yield path, value
            yield from _parts(value, path)


def _fit(
    path: str, module: nn.Module, label: str | None, entries: list[Layer]
) -> tuple[Layer, CosSinForm]:
    """The entry whose numbers a module has."""
    reason: PosencError | None = None
    tried: list[tuple[float, Layer]] = []
    for entry in entries:
        try:
            fit = fits(module, label, entry.spec)  # type: ignore[arg-type]
        except PosencError as error:
            reason = error
        else:
            if fit.excess <= 1:
                return entry, fit.form
            tried.append((fit.excess, entry))
    if not tried:
        raise reason or CannotAsk("the plan has no rotation for it")
    excess, entry = min(tried, key=lambda pair: pair[0])
    raise bad_data(
        f"{CALLER}: {path} ({type(module).__name__})" + (f", {label}" if label else ""),
        f"cosines and sines of {entry.spec!r}, which its config says of {entry.layer}",
        f"others, {excess:.2g} times what float32 angles may be off",
        "The config contradicts the model, or was changed after the model was made.",
    )


# Of what has no weights, by its kind.
IN_CODE = "{kind}, a {entry.kind} that the code of the model makes, and no module"
LEFT = {
    "rotary": "{kind}: no module answers positions with its cosines and sines alone",
    "table": "{kind}: its rows are trained, made in code, or not what the config says",
    "bias": IN_CODE,
    "relative": IN_CODE,
    "convolution": "a convolution, whose weights stay",
}


def why_left(entry: Layer) -> Iterator[str]:
    """Why an entry of the plan that was not put in stays as the model has it."""
    kind = type(entry.spec).__name__
    rows = getattr(entry.spec, "length", None)
    if entry.kind == "table" and isinstance(rows, int):
        told = f"{kind}, {rows:,} rows that are weights, which stay"
    elif entry.spec is not None and entry.spec.parameters():
        told = f"{kind}, a {entry.kind} whose values are weights, which stay"
    else:
        told = LEFT.get(entry.kind, "").format(kind=kind, entry=entry)
    if told:
        yield f"{entry.label}: {told}"
