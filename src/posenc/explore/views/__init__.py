"""The views, each a question: what they are, and what draws them."""

from __future__ import annotations

from collections.abc import Callable

from posenc.explore.scene import Page, Scene, ViewShape
from posenc.explore.views import (
    bias,
    distance,
    layers,
    rotate,
    sentence,
    spectrum,
    stretch,
    table,
    waves,
)

__all__ = ["SHAPES", "SHOW"]

_MODULES = (table, waves, sentence, distance, rotate, bias, stretch, spectrum, layers)
SHAPES: dict[str, ViewShape] = {module.SHAPE.id: module.SHAPE for module in _MODULES}
SHOW: dict[str, Callable[[Scene], Page]] = {m.SHAPE.id: m.show for m in _MODULES}
