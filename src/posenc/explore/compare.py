"""Compare: the same view of a second encoding, beside the first and under one cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.explore.scene import Page, Scene

__all__ = ["beside"]


def beside(scene: Scene, page: Page, show: Mapping[str, Callable[[Scene], Page]]) -> Page:
    """The page of both encodings."""
    del scene, show
    return page
