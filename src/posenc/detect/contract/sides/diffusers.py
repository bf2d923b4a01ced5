"""Rotary modules of a loaded transformer of diffusers, which the row of its class names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.modules import apart
from posenc.detect.contract.sides.side import Comparand, Implementation
from posenc.detect.subject import CannotAsk
from posenc.detect.subject.arrays import numbers
from posenc.presets import diffusion

IDS = ("ids", "position_ids", "pos")  # arguments of a module that takes positions
LARGEST = 2**16  # cells of latents that a module is asked for


def of_transformer(model: Any, name: str) -> Comparand | None:
    """A transformer of diffusers by its rotary modules; None for any other model."""
    cls = type(model).__name__
    if not isinstance(getattr(model, "config", None), Mapping) or (
        (row := diffusion.transformer(cls)) is None
    ):
        return None
    paths = {
        rule.get("name", "attention"): rule.get("modules", {}).get(cls, rule.get("module"))
        for rule in row["entries"]
    }

    def answers(part: Part, _: Sequence[str]) -> list[Implementation]:
        module = getattr(model, paths.get(part.name) or "", None)
        if module is None:
            raise CannotAsk(f"{cls} has no module for it: the rotation is handed to its forward")
        code = Implementation(
            SimpleNamespace(cos_sin=functools.partial(_cos_sin, module, part)), "numpy"
        )
        code.name = f"{paths[part.name]}, a {type(module).__name__}"
        return [code]

    return Comparand(name, whole=False, answers=answers)


def _cos_sin(module: Any, part: Part, positions: np.ndarray) -> Any:
    """Cosines and sines, or complex numbers, of a module, as its forward takes positions."""
    import torch

    own = apart(module) if isinstance(module, torch.nn.Module) else module
    asked = [*inspect.signature(getattr(own, "forward", own)).parameters]
    with torch.no_grad():
        if asked in ([one] for one in IDS):
            ids = torch.as_tensor(positions)
            try:
                return _pairs(own(ids), len(positions))
            except (IndexError, ValueError):  # it takes a batch
                return _pairs(own(ids[None]), len(positions))
        if asked[0] != "hidden_states" or {"num_frames", "attention_mask"} & {*asked}:
            raise CannotAsk(f"{type(own).__name__} takes {', '.join(asked)}, and no positions")
        sizes = [int(size) + 1 for size in positions.max(0)]
        if np.prod(sizes) > LARGEST:
            raise IndexError(f"a picture of {sizes} tokens is more than is asked for")
        patch = own.patch_size
        step = [getattr(own, "patch_size_t", 1), patch, patch][-len(sizes) :]
        step = [*patch] if isinstance(patch, (tuple, list)) else step
        shape = (size * by for size, by in zip(sizes, step, strict=True))
        table = _pairs(own(torch.zeros(1, 1, *shape)), int(np.prod(sizes)))
    rule: Any = part.positions
    scene, grid = next(one.name for one in rule.parts if one.is_grid), (1, *sizes)[-3:]
    cells = {tuple(row): i for i, row in enumerate(rule.build([(scene, grid)])[scene])}
    places = [cells.get(tuple(row), LARGEST) for row in positions]  # beyond the table
    return tuple(one[places] for one in table) if isinstance(table, tuple) else table[places]


def _pairs(answer: Any, count: int) -> Any:
    """What a module returns, as complex numbers or as cosines and sines, a row for each token."""
    if isinstance(answer, (tuple, list)):
        cos, sin = (numbers(one).reshape(count, -1) for one in answer)
        return cos, sin
    rows = numbers(answer)
    if rows.shape[-2:] == (2, 2):
        rows = rows[..., 0, 0] + 1j * rows[..., 1, 0]
    return rows.reshape(count, -1)
