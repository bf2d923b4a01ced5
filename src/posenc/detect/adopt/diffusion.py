"""Diffusion models: another module in the place of the one that a row of diffusers names."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from posenc._core.errors import (
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
from posenc.torch.adopted import AdoptedAxes

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
        none = mismatch(CALLER, "a rotation in its plan", "; ".join(reading.errors) or "none")
        raise next(iter(errors.values()), DataError(none))
    for leaf, (new, _) in replaced.items():
        setattr(model, leaf, new)
    notes = [f"{leaves[0]} is not asked where {key} is handed to forward" for key in handed]
    return Adoption(
        name,
        replaced=tuple(_replacement(leaf, *pair) for leaf, pair in replaced.items()),
        left=tuple(f"{leaf}: {error}" for leaf, error in errors.items() if leaf not in replaced),
        remarks=(*notes, *reading.warnings),
    )


def _replacement(leaf: str, new: AdoptedAxes, layer: Layer) -> Replacement:
    return Replacement(
        leaf, layer=layer.layer, spec=new.spec, was=type(new.original).__name__, change=new.change,
        place=new.place, last=new.reach, looked=new.reach,
        wrong=new.place if new.change > CONSIDERABLE else None,
        trained=None if new.spec.scaling == new.trained.scaling else new.trained,
    )  # fmt: skip


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
