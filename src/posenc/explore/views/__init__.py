"""The views, each a question: what they are, and what draws them.

A row of `posenc.plot.rows` names its view, which is the module of that name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from posenc.explore.state.catalogue import VIEWS
from posenc.explore.state.scene import Page, Scene, ViewShape

__all__ = ["SHAPES", "SHOW"]

_MODULES: dict[str, Any] = {
    view: importlib.import_module(f"posenc.explore.views.{view}") for view in VIEWS
}
SHAPES: dict[str, ViewShape] = {view: module.SHAPE for view, module in _MODULES.items()}
SHOW: dict[str, Callable[[Scene], Page]] = {view: m.show for view, m in _MODULES.items()}
