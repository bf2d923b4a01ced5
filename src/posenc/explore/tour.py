"""The guided tour: what `posenc.learn` says at a stop, in the header of a page."""

from __future__ import annotations

from typing import Any

from posenc._core.errors import PosencError
from posenc.explore.scene import Scene
from posenc.learn.tour import stop

__all__ = ["header"]


def header(scene: Scene) -> tuple[dict[str, Any] | None, tuple[tuple[str, str], ...]]:
    """The stop that the state asks for, or None; and what was wrong with the question."""
    asked = scene.values["tour"]
    if not asked:
        return None, ()
    try:
        return stop(asked, revealed=bool(scene.values["reveal"])), ()
    except PosencError as error:
        return None, (("tour", str(error)),)
