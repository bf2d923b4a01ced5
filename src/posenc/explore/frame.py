"""`frame`: a state in, one consistent picture out. Pure: no clock, no file, no memory of the last.

Everything that a person reads on the page, ticks and numbers included, is in what it returns.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any

from posenc.explore import find
from posenc.explore.page import opened, page_of, stop_of, words
from posenc.explore.save import command_of, formats
from posenc.explore.server.protocol import Envelope, Head
from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.entry import Session
from posenc.explore.state.fields import ASKED, plain
from posenc.explore.state.scene import LONGEST_FIND, PIN, Page, Scene
from posenc.explore.views import SHAPES
from posenc.plot import palette
from posenc.plot.panels.text import whole

KEPT = 32  # headers, of a few dozen readers
LONGEST_KEPT = 200  # characters of a key that belongs to another view


def frame(state: Mapping[str, str], session: Session | None = None) -> bytes:
    """One picture of the explorer.

    Parameters
    ----------
    state : mapping of str to str
        Keys and texts as they stand in the address; what is absent takes its default. `w` and `h`
        are the device pixels of the main picture, `theme` is `light` or `dark`.
    session : Session, optional
        The encodings and embeddings of files.

    Returns
    -------
    bytes
        A header in JSON and its arrays, as `posenc.explore.unpack` reads them. No state raises:
        what cannot be drawn is replaced by a default and named in `problems`.

    Examples
    --------
    >>> from posenc.explore import frame, unpack
    >>> header = unpack(frame({"v": "table", "d": "0"})).header
    >>> header["problems"][0]
    {'field': 'd', 'message': 'Model size d must be at least 1; 0 came. Drawn with it.'}
    """
    state = {"numbers": "1", **state}
    return Envelope(header_of(state, Session() if session is None else session)).whole()


def header_of(state: Mapping[str, str], session: Session) -> dict[str, Any]:
    """All that a picture says and is drawn from, before it is bytes.

    The table of numbers, which few read, is there where `numbers` asks for it.
    """
    scene, page = page_of(state, session)
    header = _header(scene, page, plain(opened(state)))
    if state.get("numbers"):
        header["data_table"] = page.table() if callable(page.table) else page.table
    return header


class Steps:
    """Pictures for clients that hold the one before: what differs from it is all that they get.

    The headers of the last pictures are kept, without their arrays. A client whose picture is
    among them gets a step; any other, and one that names none, the whole picture.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.heads: dict[str, Head] = {}  # the least recently used first
        self.lock = threading.Lock()

    def frame(self, state: Mapping[str, str]) -> bytes:
        """The picture of a state, or the step to it from the one that `since` names."""
        picture, before = Envelope(header_of(state, self.session)), state.get("since", "")
        with self.lock:
            head = self.heads.pop(before, None)
            if head is not None:
                self.heads[before] = head
            self.heads[picture.id] = picture.head
            while len(self.heads) > KEPT:
                del self.heads[next(iter(self.heads))]
        return picture.whole() if head is None else picture.since(head)


def _header(scene: Scene, page: Page, raw: Mapping[str, str]) -> dict[str, Any]:
    answer, wrong = find.answer(scene)
    stop, astray = stop_of(scene)
    chosen = [c for c in (scene.a, scene.b) if c is not None and scene.shape.learns]
    return {
        "k": 1,
        "view": scene.shape.id,
        "state": _state(scene, raw),
        "address": _address(scene, raw),
        # What an absent key stands for; no second encoding, where `b.enc` is absent.
        "defaults": {f.key: "" if f.key == f"{PIN}enc" else f.default for f, _ in scene.fields},
        "views": VIEWS,
        "title": page.title or scene.shape.title,
        "lead": page.lead,
        "controls": _controls(scene),
        "panels": page.panels,
        "readout": page.readout,
        "problems": [
            {"field": key, "message": message}
            for key, message in [*scene.problems, *page.problems, *wrong, *astray]
        ],
        "notes": [
            *scene.notes,
            # What people should know of the encodings: random numbers, what a preset cannot say.
            *dict.fromkeys(f"{c.label}: {c.entry.note}" for c in chosen if c.entry.note),
            *_moved(scene, page),
        ],
        "say": page.say,
        "cursor": {"x": None, "y": None, **page.cursor},
        "zoom": page.zoom,
        "python": page.python,
        "command": command_of(scene, page),
        "find": answer,
        "compares": scene.shape.compares and not scene.values.get("loss"),
        "compare": None if scene.b is None else {"a": words(scene.a), "b": words(scene.b)},
        "tour": stop,
        "palette": {
            "diverging": palette.diverging(scene.theme),
            "sequential": palette.sequential(scene.theme),
            "parts": palette.parts(scene.theme),
            "series": SERIES[scene.theme],
        },
        "save": formats(),
        "data_table": page.table is not None,
    }


VIEWS = [{"id": s.id, "label": s.label, "title": s.title} for s in SHAPES.values()]
SERIES = {
    theme: [{"color": s.colour, "dash": list(s.dash)} for s in palette.series(theme)]
    for theme in ("light", "dark")
}


def _address(scene: Scene, raw: Mapping[str, str]) -> dict[str, str]:
    """What the address should hold: all that was set, as it was set.

    What this view cannot show of it, or would have chosen itself, another may need as it came.
    """
    own = {field.key: text for field, text in scene.fields}
    kept = {}
    for key, value in raw.items():
        printable = (key + value).encode(errors="replace").decode() == key + value
        if printable and len(value) <= (LONGEST_FIND if key in own else LONGEST_KEPT):
            kept[key] = value
        elif key in own:
            kept[key] = own[key]
    if scene.b is not None and not any(key.startswith(PIN) for key in kept):
        kept[f"{PIN}enc"] = own[f"{PIN}enc"]  # what asked for it cannot stand in an address
    return {key: v for key, v in kept.items() if key not in (*ASKED, "k")} | {"v": scene.shape.id}


def _state(scene: Scene, raw: Mapping[str, str]) -> dict[str, str]:
    """What is drawn: this view's keys with their texts, and those of others as they came."""
    own = {field.key: text for field, text in scene.fields}
    keys = own.keys() | _known()
    return {
        "k": "1",
        **{key: value for key, value in _address(scene, raw).items() if key in keys},
        **own,
    }


@functools.cache
def _known() -> frozenset[str]:
    """Keys that one view may keep for another."""
    return frozenset({f.key for shape in SHAPES.values() for f in shape.fields} | {"p", "j"})


SECTIONS = ("encoding", "b", "view", "cursor", "find", "page")  # in the order of their controls


def _controls(scene: Scene) -> list[Any]:
    hidden = {"v", "tour", "reveal", *scene.shape.dead(scene)}
    hidden |= set() if find.answers(scene) else {"find"}
    hidden |= {"s"} if scene.a.spec is not None and grid_of(scene.a.spec, 1) else set()
    shown = [pair for pair in scene.fields if pair[0].key not in hidden]
    return [
        field.control(text) | {"more": field.key.removeprefix(PIN) not in scene.shape.first}
        for section in SECTIONS
        for field, text in shown
        if field.section == section
    ]


def _moved(scene: Scene, page: Page) -> list[str]:
    """Where the cursor stands, if that is not where it was set."""
    labels = {field.key: field.label for field, _ in scene.fields}
    return [
        f"{labels[key]} {whole(scene.asked[key])} is not drawn here; the cursor stands at "
        f"{whole(place['value'])}, of {whole(place['min'])} to {whole(place['max'])}."
        for place in page.cursor.values()
        if place and (key := place["key"]) in scene.asked and scene.asked[key] != place["value"]
    ]
