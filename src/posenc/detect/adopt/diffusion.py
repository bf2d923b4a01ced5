"""Diffusion models: the rotary module that a row of diffusers names, with another one in its place."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from posenc._core.errors import ArgumentError, PosencError, bad_argument, bad_data, mismatch
from posenc._core.guard import foreign
from posenc._core.reading import Layer, Reading
from posenc.detect.adopt.matching import CALLER, Place
from posenc.detect.adopt.report import Adoption, Replacement
from posenc.detect.fit.turns import CONSIDERABLE
from posenc.detect.subject import refuse_if
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import diffusion
from posenc.scaling.base import Scaling
from posenc.torch.adopted_axes import AdoptedAxes

ROTATION = "rotary_emb"  # in the name of what pipelines hand to `forward`


def is_diffusion(model: Any) -> bool:
    """Whether a model is a transformer of diffusers."""
    return isinstance(model, nn.Module) and type(model).__module__.startswith("diffusers.")


def adopt_diffusion(model: Any, reading: Reading, scaling: Scaling | None, phase: str) -> Adoption:
    """Exact cosines and sines, or those of another scaling, where the row says that they are made."""
    name = type(model).__name__
    leaf = (diffusion.transformer(name) or {"classes": {name: {}}})["classes"][name].get("module")
    old = getattr(model, leaf, None) if leaf else None
    handed = [key for key in inspect.signature(model.forward).parameters if ROTATION in key]
    if old is None:
        why = f"its pipeline hands {handed[0]} to forward" if handed else "no module makes it"
        raise bad_data(CALLER, "a rotary module inside the model", f"a {name}: {why}",
                       "posenc.cos_sin(spec, positions) gives what to hand over.")  # fmt: skip
    tried: list[str] = []
    for entry in reading:
        if not isinstance(entry.spec, RoPE):
            continue
        spec = entry.spec.replace(phase=phase)
        if scaling is not None:
            spec = spec.replace(scaling=(*spec.scalings, scaling))
        new = AdoptedAxes(old, entry.spec, spec)
        try:
            _ask(new, model)
        except PosencError as error:
            tried.append(str(error))
            continue
        row = _replacement(new, leaf, entry, scaling)
        _put_in(Place(model, leaf), new)
        note = f"{leaf} is not asked where {handed[0]} is handed to forward" if handed else ""
        return Adoption(
            name, replaced=(row,), remarks=tuple(filter(None, (note, *reading.warnings)))
        )
    raise bad_data(f"{CALLER}: {leaf} ({type(old).__name__})",
                   "the cosines and sines of its config", "; ".join(tried) or "no rotation in it")  # fmt: skip


def _replacement(new: AdoptedAxes, leaf: str, entry: Layer, scaling: Scaling | None) -> Replacement:
    wrong = new.place if new.change > CONSIDERABLE else None
    return Replacement(
        leaf, layer=entry.layer, spec=new.spec, was=type(new.original).__name__, change=new.change,
        place=new.place, last=new.reach, wrong=wrong, looked=new.reach,
        trained=None if scaling is None else entry.spec,
    )  # fmt: skip


def _put_in(place: Place, new: AdoptedAxes) -> None:
    vars(place.parent).pop(place.leaf, None)  # what is called and is no module stands there
    place.parent._modules[place.leaf] = new


def put_back(place: Place, new: AdoptedAxes) -> None:
    """Put the old module back where it stood, or what was called like one."""
    if new.original is new.old:
        place.parent._modules[place.leaf] = new.old
    else:
        del place.parent._modules[place.leaf]
        vars(place.parent)[place.leaf] = new.original


# --- one call of a module that says what it takes by the names of its arguments --------------------


def _ask(new: AdoptedAxes, model: nn.Module) -> None:
    """Call the new module as the model does; raise where its answers are not those of the config."""
    asked = new.original
    names = inspect.signature(asked.forward if asked is new.old else asked).parameters
    device = next((one.device for one in (*model.parameters(), *model.buffers())), None)
    refuse_if(
        device is None or device.type == "meta",
        mismatch(CALLER, "a model with weights", f"a {type(model).__name__} on {device}"),
        ArgumentError,
    )
    errors = []
    for sample in _samples(len(new.trained.axes), device):
        try:
            with foreign(f"{CALLER}: a call of {type(asked).__name__}"), torch.no_grad():
                new(**{key: value for key, value in sample.items() if key in names})
        except PosencError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others, which may raise anything
            errors.append(f"{type(error).__name__}: {error}")
        if new.reach >= 0:
            return
    raise bad_argument(
        CALLER,
        "cosines and sines from a call with " + ", ".join(names),
        "; ".join(errors) or "none",
    )


def _samples(axes: int, device: Any) -> Iterator[dict[str, Any]]:
    """Small calls, by the names that arguments have in diffusers."""
    ids = torch.arange(12, device=device)[:, None] % torch.arange(2, 2 + axes, device=device)
    sizes = [torch.arange(n, device=device) for n in (4, 8, 12)]
    for latents in ((1, 4, 4, 8, 12), (1, 4, 8, 12)):
        for places in (ids, ids[None]):
            yield {
                "ids": places, "pos": sizes, "shape": (1, 4, 8, 12), "device": torch.device(device),
                "hidden_states": torch.zeros(latents, device=device), "max_txt_seq_len": 7,
                "attention_mask": torch.ones(1, 7, dtype=torch.int64, device=device),
                "video_fhw": [[(1, 6, 4), (1, 8, 5)]],
            }  # fmt: skip
