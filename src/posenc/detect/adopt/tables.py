"""Computed rows inside of a model: tables of sines that a module keeps in a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from posenc import functional
from posenc._core.errors import PosencError
from posenc.detect.adopt.report import Distance
from posenc.detect.contract.tolerances import ROUNDING
from posenc.detect.contract.turns import CONSIDERABLE
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["Rows", "exact_rows", "has_rows", "put_in", "restore", "row_buffers"]

KEPT = "_posenc_rows"  # of a module: name of a buffer -> the old one
FEWEST = 8  # rows that say which table it is
ROOM = 8 * 2.0**-24  # of angles in float32, for each radian


class Rows(NamedTuple):
    """A buffer of rows and what the plan has in its place."""

    module: nn.Module
    name: str
    exact: torch.Tensor
    distance: Distance


def row_buffers(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """(path, module, name) of each buffer that may be a table and is in no checkpoint."""
    for path, module in model.named_modules():
        for name in module._non_persistent_buffers_set:
            buffer = module._buffers.get(name)
            if buffer is None or buffer.is_meta or not buffer.is_floating_point():
                continue
            if buffer.ndim == 2 and buffer.shape[0] >= FEWEST and buffer.shape[1] > 1:
                yield f"{path}.{name}" if path else name, module, name


def exact_rows(module: nn.Module, name: str, spec: Any, phase: str) -> Rows | None:
    """The exact rows of a spec in place of a buffer; None where it holds others."""
    buffer: torch.Tensor = module._buffers[name]  # type: ignore[assignment]
    stored = np.asarray(buffer.detach().to("cpu", torch.float64))
    try:
        # Tables in float64 are made of angles in float32.
        unit = max(ROUNDING[str(buffer.dtype).removeprefix("torch.")], ROUNDING["float32"])
        wanted = _rows(spec, stored, "exact", unit)
        kept = wanted if phase == "exact" or wanted is None else _rows(spec, stored, phase, unit)
    except PosencError:
        return None
    if wanted is None or kept is None:
        return None
    off = np.abs(stored - wanted).max(axis=1)
    wrong = np.flatnonzero(off > CONSIDERABLE)
    first, last = (int(wrong[0]) if wrong.size else None), len(stored) - 1
    far = Distance(float(off.max()), int(off.argmax()), last, first, last)
    return Rows(module, name, torch.from_numpy(kept).to(buffer.device, buffer.dtype), far)


def _rows(spec: Any, stored: np.ndarray, phase: str, unit: float) -> np.ndarray | None:
    """The rows of a spec in the order of the columns that are stored."""
    chosen = spec if phase == "exact" else spec.replace(phase=phase)
    dtype = "float64" if phase == "exact" else "float32"
    if isinstance(spec, RotarySpec):
        if len(spec.axes) > 1 or spec.needs_length or stored.shape[1] != 2 * spec.pairs:
            return None
        places = torch.arange(len(stored))
        cos, sin = (np.asarray(t) for t in functional.cos_sin(chosen, places, dtype=dtype))
        # A channel of each pair, or those of cosines and of sines apart.
        halves = [np.concatenate(parts, axis=1) for parts in ((sin, cos), (cos, sin))]
        candidates = [*halves, *(_woven(parts) for parts in ((sin, cos), (cos, sin)))]
    else:
        if spec.kind != "table" or spec.parameters() or stored.shape[1] != spec.dim:
            return None
        start = getattr(getattr(spec, "arrangement", None), "start", 0)
        if len(getattr(spec, "axes", ("p",))) > 1 or not isinstance(start, int):
            return None
        places = torch.arange(len(stored)) - start
        candidates = [np.asarray(functional.table(chosen, places, dtype=dtype))]
    room = ROOM * (np.arange(len(stored))[:, None] + 4)
    for rows in candidates:
        if rows.shape == stored.shape and np.all(np.abs(rows - stored) <= room + 4 * unit):
            return np.asarray(rows)
    return None


def _woven(parts: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.stack(parts, axis=-1).reshape(len(parts[0]), -1)


def put_in(rows: Rows) -> None:
    """Put the exact rows in, and keep the old ones beside the module."""
    kept = rows.module.__dict__.setdefault(KEPT, {})
    kept[rows.name] = rows.module._buffers[rows.name]
    rows.module._buffers[rows.name] = rows.exact


def has_rows(module: nn.Module) -> bool:
    """Whether rows of a module were replaced."""
    return KEPT in module.__dict__


def restore(module: nn.Module) -> bool:
    """Put the old rows of a module back, where they are; whether there were any."""
    kept = module.__dict__.pop(KEPT, {})
    for name, old in kept.items():
        now = module._buffers.get(name)
        if now is not None and now.shape == old.shape:
            # The very object, unless the model was moved or cast meanwhile.
            module._buffers[name] = old.to(now.device, now.dtype)
    return bool(kept)
