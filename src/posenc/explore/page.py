"""What a state means, drawn by its view; and what is said of it at a stop of the guided tour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posenc._core.errors import PosencError
from posenc._core.spec.answers import brief
from posenc.explore.state.entry import Chosen, Session
from posenc.explore.state.fields import plain
from posenc.explore.state.scene import PIN, REVEAL, TOUR, Page, Scene, read
from posenc.explore.views import SHAPES, SHOW
from posenc.learn.tour import stop
from posenc.plot.columns import width_of
from posenc.plot.panels.both import together
from posenc.plot.panels.grammar import Heading


def page_of(state: Mapping[str, str], session: Session) -> tuple[Scene, Page]:
    """What a state means, and what its view makes of it."""
    scene = read(opened(state), SHAPES, session)
    try:
        return scene, _drawn(scene)
    except PosencError as error:
        # The encoding exists, but not at these numbers: draw what the view starts with.
        safe = {"v": scene.shape.id, "w": str(scene.width), "h": str(scene.height)}
        plainer = read({**safe, "theme": scene.theme}, SHAPES, session)
        page = _drawn(plainer)
        return plainer, replace(
            page,
            problems=(
                *page.problems,
                ("enc", f"{error} Drawn with the first settings of {scene.shape.label} instead."),
            ),
        )


def _drawn(scene: Scene) -> Page:
    show = SHOW[scene.shape.id]
    return show(scene) if scene.b is None else _beside(scene, scene.b, show)


LONGEST = 80
FACTS = 10  # blocks of the readout that are shown of B


def _beside(scene: Scene, b: Chosen, draw: Callable[[Scene], Page]) -> Page:
    """The page of both encodings; `draw` draws each.

    Tables stand side by side on one scale with their difference; curves lie on each other, B
    dashed; what can be neither comes below.
    """
    narrow = replace(scene, width=max(16, scene.width // 3)) if scene.shape.id == "table" else scene
    page = draw(narrow)
    other = draw(replace(narrow, a=b, b=None, values=_values_of_b(scene, b)))
    # Both snippets, with what they share said once.
    lines = [line for line in other.python.splitlines() if line and not line.startswith("import ")]
    return replace(
        page,
        panels=tuple(together(page.panels, other.panels)),
        lead=f"A: {words(scene.a)}. B: {words(b)}.",
        readout=(*page.readout, Heading(f"B: {b.label}"), *other.readout[:FACTS]),
        say=f"A: {page.say}. B: {other.say}",
        python="\n".join([page.python, "", "# B", *lines]),
        problems=(
            *page.problems,
            *((f"{PIN}enc" if key == "enc" else key, problem) for key, problem in other.problems),
        ),
    )


def words(chosen: Chosen) -> str:
    """An encoding as it is written, or by its name where that is long."""
    written = "" if chosen.spec is None else brief(chosen.spec)
    return written if 0 < len(written) <= LONGEST and ":" not in chosen.entry.id else chosen.label


def _values_of_b(scene: Scene, b: Chosen) -> dict[str, Any]:
    """The numbers of the view, held within what B has."""
    values, own, wide = dict(scene.values), width_of(scene.a.spec), width_of(b.spec)
    if "j" in values:
        values["j"] = min(values["j"], wide - 1)
    if "j1" in values:
        values["j1"] = wide if values["j1"] == own else min(values["j1"], wide)
        values["j0"] = values["j0"] if values["j0"] < values["j1"] else 0
    return values


# --- the guided tour ------------------------------------------------------------------------------

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


def stop_of(scene: Scene) -> tuple[dict[str, Any] | None, tuple[tuple[str, str], ...]]:
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
