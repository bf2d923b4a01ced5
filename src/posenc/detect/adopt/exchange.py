"""The command `adopt`: exact positions inside a loaded model, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from torch import nn

from posenc._core.errors import ArgumentError, DataError, PosencError, mismatch
from posenc._core.reading import Layer, Reading
from posenc.detect.adopt.fitting import (
    Silent,
    distance,
    fits,
    labels,
    takes_positions,
    twin,
)
from posenc.detect.adopt.refusals import CALLER, refuse_model
from posenc.detect.adopt.report import Adoption, Replacement
from posenc.detect.adopt.tables import Rows, exact_rows, has_rows, restore, row_buffers
from posenc.detect.adopt.tables import swap as swap_rows
from posenc.detect.explain import from_hf
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.adopted import AdoptedRotary, CosSinForm

__all__ = ["adopt", "release"]


class _Place(NamedTuple):
    """Where a module stands in its parent."""

    parent: nn.Module
    leaf: str


class _Swap(NamedTuple):
    places: list[_Place]
    old: nn.Module
    new: AdoptedRotary


def adopt(model: Any, *, phase: Literal["exact", "float32"] = "exact") -> Adoption:
    """Put exact positions into a loaded model of transformers, this instance alone.

    The config of the model is read into a plan. Each module that turns position ids into cosines
    and sines is asked for them at near and far positions; where its answers are those of an entry
    of the plan, up to what angles in float32 may be off, a module takes its place that computes
    them from integer phases and answers in the same shape and dtype. Nothing is replaced before
    everything was checked. `release` puts the old modules back.

    Parameters
    ----------
    model : PreTrainedModel
        A loaded model, on any device and of any floating dtype.
    phase : {"exact", "float32"}
        `exact`, or the classic arithmetic, which gives the bits of the module where it is written
        in the usual way.

    Returns
    -------
    Adoption
        What was replaced, what was left and why, and how far the old modules were off.

    Raises
    ------
    ArgumentError
        If it is no loaded model of transformers, or was adopted before.
    DataError
        If nothing is replaced; if a module contradicts the config; if the code or weights are not
        what transformers makes of the config alone: remote code, a subclass with a forward of its
        own, quantised or sharded weights. The model is untouched.

    Notes
    -----
    Parameters, buffers that are saved, and the keys of the state dict stay as they are. Learned
    parameters are never replaced.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaModel                         # doctest: +SKIP
    >>> model = LlamaModel(LlamaConfig(num_hidden_layers=1, vocab_size=8))       # doctest: +SKIP
    >>> print(posenc.torch.adopt(model))                                         # doctest: +SKIP
    LlamaModel: 1 replaced, 0 left
      replaced  rotary_emb (LlamaRotaryEmbedding), attention: cos and sin change by at most ...
    """
    if phase not in ("exact", "float32"):
        raise ArgumentError(mismatch(f"{CALLER}: phase", "'exact' or 'float32'", repr(phase)))
    refuse_model(model)
    plan = from_hf(model.config, on_error="report")
    swaps: list[_Swap] = []
    rows: list[Replacement] = []
    left: list[str] = []
    covered: set[int] = set()
    for path, places, module in _candidates(model):
        entries = _entries(plan, model.config, module)
        try:
            forms, told, used = _forms(path, module, entries, phase)
        except Silent as reason:
            left.append(f"{path} ({type(module).__name__}): {reason}")
            continue
        swaps.append(_Swap(places, module, AdoptedRotary(module, forms)))
        rows += told
        covered |= used
    tables: list[Rows] = []
    for path, module, name in row_buffers(model):
        for entry in plan:
            found = exact_rows(module, name, entry, phase)
            if found is not None:
                tables.append(found)
                rows.append(_row(path, entry, found, phase))
                covered.add(id(entry))
                break
    left += [note for entry in plan if id(entry) not in covered for note in _left(entry)]
    left += list(plan.errors)
    if not swaps and not tables:
        expected = "cosines and sines, or rows, that a module of the model computes by its plan"
        raise DataError(mismatch(CALLER, expected, f"none: {'; '.join(left) or 'no positions'}"))
    _exchange(swaps, tables)
    return Adoption(
        type(model).__name__, replaced=tuple(rows), left=tuple(dict.fromkeys(left)),
        remarks=plan.warnings,
    )  # fmt: skip


def release(model: Any) -> None:
    """Put back what `adopt` replaced, the very objects.

    Parameters
    ----------
    model : nn.Module
        A model that was adopted, or a copy of one.

    Raises
    ------
    ArgumentError
        If nothing in it was adopted.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError(mismatch("release", "a model that was adopted", type(model).__name__))
    adopted = [(place, m) for place, m in _places(model) if isinstance(m, AdoptedRotary)]
    rows = [module for module in model.modules() if has_rows(module)]
    if not adopted and not rows:
        received = f"a {type(model).__name__} in which nothing was"
        raise ArgumentError(mismatch("release", "a model that was adopted", received))
    for place, module in adopted:
        place.parent._modules[place.leaf] = module.old
    for owner in rows:
        restore(owner)


def _places(model: nn.Module) -> Iterator[tuple[_Place, nn.Module]]:
    """Every place in the tree of modules, each parent once."""
    for parent in model.modules():
        for leaf, module in parent._modules.items():
            if module is not None:
                yield _Place(parent, leaf), module


def _exchange(swaps: list[_Swap], tables: list[Rows]) -> None:
    done: list[tuple[_Place, nn.Module]] = []
    try:
        for swap in swaps:
            for place in swap.places:
                done.append((place, swap.old))
                place.parent._modules[place.leaf] = swap.new
        for rows in tables:
            swap_rows(rows)
    except BaseException:
        for rows in tables:
            restore(rows.module)
        for place, old in done:
            place.parent._modules[place.leaf] = old
        raise


def _candidates(model: nn.Module) -> Iterator[tuple[str, list[_Place], nn.Module]]:
    """(path, places, module) of each module that is called with position ids alone."""
    places: dict[nn.Module, list[_Place]] = {}
    for place, module in _places(model):
        places.setdefault(module, []).append(place)
    for path, module in model.named_modules():
        if module in places and takes_positions(module):
            yield path, places[module], module


# --- entries of the plan --------------------------------------------------------------------------


def _entries(plan: Reading, config: Any, module: nn.Module) -> list[Layer]:
    """The rotary entries of the part of the model that a module was made for."""
    turning = [e for e in plan if isinstance(e.spec, RotarySpec)]
    parts = dict(_parts(config, ""))
    own = getattr(module, "config", None)
    known = [name for name, sub in parts.items() if sub is own]
    known = known or [
        name for name, sub in parts.items()
        if own is not None and sub.model_type == getattr(own, "model_type", None)
    ]  # fmt: skip
    if own is config:
        inside = [e for e in turning if not any(name and _is_in(e, name) for name in parts)]
    else:
        inside = [e for e in turning if any(_is_in(e, name) for name in known)]
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


def _forms(
    path: str, module: nn.Module, entries: list[Layer], phase: str
) -> tuple[dict[str | None, CosSinForm], list[Replacement], set[int]]:
    if any(True for _ in module.parameters()) or module.state_dict():
        raise Silent("it has weights of its own, which are never replaced")
    if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:
        raise Silent("it has hooks or a forward of its own, which would be lost")
    asked = twin(module) or module
    names = [entry.layer.rpartition(".")[2] for entry in entries]
    forms: dict[str | None, CosSinForm] = {}
    told: list[Replacement] = []
    covered: set[int] = set()
    unknown: list[DataError] = []
    for label in labels(asked, names):
        own = [e for e, name in zip(entries, names, strict=True) if label and name == label]
        try:
            entry, form = _fit(path, asked, label, own or entries)
        except DataError as error:
            if own or label is None:
                raise
            unknown.append(error)  # of no layer of the plan: the old module goes on to answer
            continue
        covered |= {id(e) for e in entries if e.spec == entry.spec}
        meta = any(buffer.is_meta for buffer in module.buffers())
        far = distance(asked if meta else module, label, form, entry.length)
        forms[label] = form._replace(spec=_phased(form.spec, phase))
        told.append(
            Replacement(path, layer=entry.layer, spec=forms[label].spec, was=type(module).__name__,
                        **far._asdict())
        )  # fmt: skip
    if not forms:
        raise unknown[0]
    return forms, told, covered


def _row(path: str, entry: Layer, rows: Rows, phase: str) -> Replacement:
    spec: Any = entry.spec
    spec = spec if phase == "exact" else spec.replace(phase=phase)
    was = f"a buffer of {type(rows.module).__name__}"
    told = rows.distance._asdict()
    return Replacement(path, layer=entry.layer, spec=spec, was=was, what="rows", **told)


def _phased(spec: RotarySpec, phase: str) -> RotarySpec:
    return spec if phase == "exact" else spec.replace(phase=phase)


def _fit(
    path: str, module: nn.Module, label: str | None, entries: list[Layer]
) -> tuple[Layer, CosSinForm]:
    """The entry whose numbers a module has.

    Raises
    ------
    Silent
        If it cannot be asked.
    DataError
        If its numbers are those of no entry.
    """
    reason: Silent | None = None
    nearest: tuple[float, Layer] | None = None
    for entry in entries:
        try:
            fit = fits(module, label, entry.spec)  # type: ignore[arg-type]
        except Silent as error:
            reason = error
            continue
        except PosencError as error:
            reason = Silent(str(error))
            continue
        if fit.excess <= 1:
            return entry, fit.form
        if nearest is None or fit.excess < nearest[0]:
            nearest = fit.excess, entry
    if nearest is None:
        raise reason or Silent("the plan has no rotation for it")
    entry = nearest[1]
    expected = f"cosines and sines of {entry.spec!r}, which its config says of {entry.layer}"
    what = f"{path} ({type(module).__name__})" + (f", {label}" if label else "")
    received = f"others, {nearest[0]:.2g} times what float32 angles may be off"
    todo = "The config contradicts the model, or was changed after the model was made."
    raise DataError(mismatch(f"{CALLER}: {what}", expected, received, todo))


def _left(entry: Layer) -> Iterator[str]:
    """Why an entry of the plan that was not put in stays as the model has it."""
    name = f"{entry.layer}:{entry.attention}" if entry.attention else entry.layer
    kind = type(entry.spec).__name__
    if entry.spec is not None and entry.spec.parameters():
        yield f"{name}: {kind}, a {entry.kind} that is learned: its values are weights, which stay"
    elif entry.kind == "rotary":
        yield f"{name}: {kind}: no module answers positions with its cosines and sines alone"
    elif entry.kind == "table":
        yield f"{name}: {kind}: its rows are in no buffer, but weights or made in code"
    elif entry.spec is not None:
        yield f"{name}: {kind}, a {entry.kind} that is made in the code of the model, by no module"
    elif entry.kind == "convolution":
        yield f"{name}: a convolution, whose weights stay"
