"""The plan of a model whose cache is asked about."""

from __future__ import annotations

from typing import Any

from torch import nn

from posenc._core.errors import bad_argument
from posenc._core.reading import Layer, Reading
from posenc._names import HANDED


def decoder_plan(model: nn.Module, caller: str) -> Reading:
    """The plan of the part of a model of transformers that has the cache."""
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", None)
    if config is None or text is None:
        todo = "Pass plan=: a Plan, a Reading, or one spec for all layers."
        raise bad_argument(caller, "a model of transformers, or a plan", type(model).__name__, todo)
    reading: Reading = HANDED["reading"](config)
    own = text(decoder=True)
    parts = [key.removesuffix("_config") for key, value in vars(config).items() if value is own]
    if parts:
        entries = [e for e in reading if f"{e.layer}.".startswith(f"{parts[0]}.")]
    else:
        entries = [e for e in reading if not _in_part(e, config)]
    return Reading(tuple(entries), notes=reading.notes, model=reading.model)


def _in_part(entry: Layer, config: Any) -> bool:
    parts = [key.removesuffix("_config") for key in vars(config) if key.endswith("_config")]
    return any(f"{entry.layer}.".startswith(f"{part}.") for part in parts)
