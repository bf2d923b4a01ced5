"""What a state means, drawn by its view."""

from __future__ import annotations

from collections.abc import Mapping

from posenc._core.errors import PosencError
from posenc.explore import compare, tour
from posenc.explore.state.scene import Page, Scene, read
from posenc.explore.state.session import Session
from posenc.explore.views import SHAPES, SHOW


def page_of(state: Mapping[str, str], session: Session) -> tuple[Scene, Page]:
    """What a state means, and what its view makes of it."""
    scene = read(tour.opened(state), SHAPES, session)
    try:
        return scene, _drawn(scene)
    except PosencError as error:
        # The encoding exists, but not at these numbers: draw what the view starts with.
        safe = {"v": scene.shape.id, "w": str(scene.width), "h": str(scene.height)}
        plainer = read({**safe, "theme": scene.theme}, SHAPES, session)
        page = _drawn(plainer)
        problem = f"{error} Drawn with the first settings of {scene.shape.label} instead."
        page.problems = (*page.problems, ("enc", problem))
        return plainer, page


def _drawn(scene: Scene) -> Page:
    return SHOW[scene.shape.id](scene) if scene.b is None else compare.beside(scene, SHOW)
