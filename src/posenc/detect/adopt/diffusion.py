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
from posenc._core.reading import Layer
from posenc.detect.adopt.matching import CALLER
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
    layers = [layer for layer in reading if isinstance(layer.spec, RoPE)]
    replaced, left = [], [*reading.errors]
    for leaf in leaves:
        errors: list[PosencError] = []
        for layer in layers:
            try:
                new = _checked(model, leaf, layer.spec, scaling, phase)
            except PosencError as error:
                errors.append(error)
                continue
            replaced.append((new, _replacement(new, leaf, layer)))
            break
        else:
            left += [f"{leaf}: {error}" for error in errors]
    if not replaced:
        raise (
            errors[-1]
            if layers
            else DataError(mismatch(CALLER, "a rotation in its plan", "; ".join(left) or "none"))
        )
    for new, row in replaced:
        setattr(model, row.path, new)
    notes = [f"{leaves[0]} is not asked where {key} is handed to forward" for key in handed]
    rows = tuple(row for _, row in replaced)
    return Adoption(name, replaced=rows, left=tuple(left), remarks=(*notes, *reading.warnings))


def _checked(
    model: Any, leaf: str, trained: Any, scaling: Scaling | None, phase: str
) -> AdoptedAxes:
    """What takes the place of a module, asked once."""
    more = () if scaling is None else (scaling,)
    spec = trained.replace(scaling=(*trained.scalings, *more))
    if phase == "float32":
        spec = spec.replace(phase=phase)
    new = AdoptedAxes(getattr(model, leaf), trained, spec)
    _ask(new, model)
    return new


def _replacement(new: AdoptedAxes, leaf: str, layer: Layer) -> Replacement:
    wrong = new.place if new.change > CONSIDERABLE else None
    trained = None if new.spec.scaling == new.trained.scaling else new.trained
    return Replacement(
        leaf, layer=layer.layer, spec=new.spec, was=type(new.original).__name__, change=new.change,
        place=new.place, last=new.reach, wrong=wrong, looked=new.reach, trained=trained,
    )  # fmt: skip


# --- one call of a module, which says what it takes by the names of its arguments -----------------


def _ask(new: AdoptedAxes, model: nn.Module) -> None:
    """Call a module as the model does; raise where its answers are not those of the config."""
    called = getattr(new.original, "forward", new.original)
    names = inspect.signature(called).parameters
    device = next((one.device for one in (*model.parameters(), *model.buffers())), None)
    refuse_if(
        device is None or device.type == "meta",
        mismatch(CALLER, "a model with weights", f"a {type(model).__name__} on {device}"),
        ArgumentError,
    )
    errors = ["no cosines and sines in its answer"]
    for sample in _samples(len(new.trained.axes), device):
        try:
            with foreign(f"{CALLER}: a rotary module"), torch.no_grad():
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
