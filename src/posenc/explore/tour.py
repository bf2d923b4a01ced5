"""The guided tour: what `posenc.learn` says at a stop, in the words of the page."""

from __future__ import annotations

import importlib
from typing import Any

from posenc.explore.scene import Scene

__all__ = ["header"]


def header(scene: Scene) -> dict[str, Any] | None:
    """The stop that the state asks for, or None."""
    asked = scene.values.get("tour", 0)
    if not asked:
        return None
    try:
        learn = importlib.import_module("posenc.learn.tour")
    except ModuleNotFoundError:
        return None
    return dict(learn.stop(asked, revealed=bool(scene.values.get("reveal"))))
