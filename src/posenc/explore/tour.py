"""The guided tour: what `posenc.learn` says at a stop, as long as its picture is on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc._core.errors import PosencError
from posenc.explore.state.entry import Session
from posenc.explore.state.fields import plain
from posenc.explore.state.scene import REVEAL, TOUR, Scene, read
from posenc.explore.views import SHAPES
from posenc.learn.tour import stop

ELSEWHERE = "The picture is not the one that this stop explains; its question waits."
# Moving the cursor or the window, or a search, leaves the picture what it is.
LIGHT = ("cursor", "zoom", "find")


def opened(state: Mapping[str, str]) -> Mapping[str, str]:
    """A state with what its stop of the tour shows, where it says nothing itself."""
    texts = plain({f.key: state.get(f.key) for f in (TOUR, REVEAL)})
    number, revealed = (f.parse(texts.get(f.key)).value for f in (TOUR, REVEAL))
    if not number:
        return state
    try:
        return {**_shown(stop(number, revealed=revealed), revealed), **state}
    except PosencError:
        return state


def _shown(here: Mapping[str, Any], revealed: bool) -> dict[str, str]:
    """The state that a stop speaks of, as the page asks for it."""
    return {**here["state"], **(stop(here["n"])["reveal"] if revealed else {})}


def header(scene: Scene) -> tuple[dict[str, Any] | None, tuple[tuple[str, str], ...]]:
    """The stop that the state asks for, or None; and what was wrong with the question."""
    asked, revealed = scene.values["tour"], bool(scene.values["reveal"])
    if not asked:
        return None, ()
    try:
        here = stop(asked, revealed=revealed)
    except PosencError as error:
        return None, (("tour", str(error)),)
    own = _shown(here, revealed)
    meant = read(own, SHAPES, Session())
    if not _alike(scene, meant):
        hidden = {"text": ELSEWHERE, "question": "", "choices": [], "explanation": ""}
        return {**here, **hidden, "answered": False, "here": own}, ()
    if revealed and not _alike(meant, read(here["state"], SHAPES, Session())):
        here = {**here, "text": f"Before the answer: {here['text']}"}
    texts = {field.key: text for field, text in meant.fields}
    moved = [
        f"{field.label} {text}"
        for field, text in scene.fields
        if field.key in own and field.section in LIGHT and text != texts[field.key]
    ]
    if moved:
        here = {**here, "text": f"{here['text']} Moved since: {', '.join(moved)}.", "here": own}
    return here, ()


def _alike(scene: Scene, meant: Scene) -> bool:
    """Whether two states are one picture, wherever the cursor stands in it."""
    heavy = [f.key for f, _ in meant.fields if f.section not in LIGHT]
    return (
        scene.shape == meant.shape and scene.a.spec == meant.a.spec and scene.b is None
    ) and all(scene.values.get(key) == meant.values[key] for key in heavy)
