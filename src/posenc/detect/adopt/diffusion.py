"""Diffusion models: another module in the place of the one that a row of diffusers names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from posenc._core.errors import (
    ArgumentError,
    DataError,
    PosencError,
    bad_argument,
    mismatch,
)
from posenc._core.guard import foreign
from posenc.detect.adopt.matching import CALLER, Place, config_of
from posenc.detect.adopt.report import Adoption, Replacement
from posenc.detect.facts import facts
from posenc.detect.fit.turns import CONSIDERABLE
from posenc.detect.subject import refuse_if
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import diffusion
from posenc.scaling.base import Scaling
from posenc.torch.adopted_axes import AdoptedAxes

ROTATION = "rotary_emb"  # in the name of what pipelines hand to `forward`


def adopt_diffusion(model: Any, scaling: Scaling | None, phase: str) -> Adoption:
    """Exact cosines and sines, or those of another scaling, where the row says they are made."""
    name = type(model).__name__
    row = diffusion.transformer(name)
    leaf = row["classes"][name].get("module", "") if row else ""
    old = getattr(model, leaf, None)
    handed = [key for key in inspect.signature(model.forward).parameters if ROTATION in key]
    refuse_if(
        old is None,
        mismatch(
            CALLER,
            "a rotary module inside of the model",
            f"a {name}: " + (f"its pipeline hands {handed[0]} over" if handed else "it has none"),
            "posenc.cos_sin(spec, positions) gives what is handed over.",
        ),
        DataError,
    )
    reading = facts(config_of(model)).reading
    why = "; ".join(reading.errors) or "a plan without a rotation"
    error: PosencError = DataError(mismatch(CALLER, "a rotation in the plan", why))
    for entry in reading:
        if not isinstance(entry.spec, RoPE):
            continue
        more = () if scaling is None else (scaling,)
        spec = entry.spec.replace(phase=phase, scaling=(*entry.spec.scalings, *more))
        new = AdoptedAxes(old, entry.spec, spec)
        try:
            _ask(new, model)
        except PosencError as reason:
            error = reason
            continue
        vars(model).pop(leaf, None)  # what is called and is no module stands there
        model._modules[leaf] = new
        change = Replacement(
            leaf, layer=entry.layer, spec=spec, was=new.name, change=new.change, place=new.place,
            last=new.reach, wrong=new.place if new.change > CONSIDERABLE else None,
            looked=new.reach, trained=entry.spec if more else None,
        )  # fmt: skip
        note = f"{leaf} is not asked where {handed[0]} is handed to forward" if handed else ""
        return Adoption(
            name, replaced=(change,), remarks=(*filter(None, [note]), *reading.warnings)
        )
    raise error


def put_back(place: Place, new: AdoptedAxes) -> None:
    """Put the old module back where it stood, or what was called like one."""
    (original,) = new.original
    if isinstance(original, nn.Module):
        place.parent._modules[place.leaf] = original
    else:
        del place.parent._modules[place.leaf]
        vars(place.parent)[place.leaf] = original


# --- one call of a module, which says what it takes by the names of its arguments -----------------


def _ask(new: AdoptedAxes, model: nn.Module) -> None:
    """Call a module as the model does; raise where its answers are not those of the config."""
    (original,) = new.original
    names = inspect.signature(getattr(original, "forward", original)).parameters
    device = next((one.device for one in (*model.parameters(), *model.buffers())), None)
    refuse_if(
        device is None or device.type == "meta",
        mismatch(CALLER, "a model with weights", f"a {type(model).__name__} on {device}"),
        ArgumentError,
    )
    errors = ["no cosines and sines in its answer"]
    for sample in _samples(len(new.trained.axes), device):
        try:
            with foreign(f"{CALLER}: a call of {new.name}"), torch.no_grad():
                new(**{key: value for key, value in sample.items() if key in names})
        except PosencError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others, which may raise anything
            errors.append(f"{type(error).__name__}: {error}")
        if new.reach >= 0:
            return
    raise bad_argument(CALLER, f"an answer to a call by {', '.join(names)}", errors[-1])


def _samples(axes: int, device: Any) -> Iterator[dict[str, Any]]:
    """Small calls, by the names that arguments have in diffusers; tables may end soon."""
    axis, sizes = torch.arange(axes), [torch.arange(n, device=device) for n in (4, 8, 12)]
    for latents, last in (((1, 4, 4, 8, 12), 61), ((1, 4, 8, 12), 61), ((1, 4, 4, 8, 12), 7)):
        ids = (torch.arange(24)[:, None] * (axis + 5) % last).to(device)
        for places in (ids, ids[None]):
            yield {
                "ids": places, "pos": sizes, "shape": (1, 4, 8, 12), "device": torch.device(device),
                "hidden_states": torch.zeros(latents, device=device), "max_txt_seq_len": 7,
                "attention_mask": torch.ones(1, 7, dtype=torch.int64, device=device),
                "video_fhw": [[(1, 6, 4), (1, 8, 5)]],
            }  # fmt: skip
