"""Find: which position gave these numbers, by which convention, or how near the nearest comes."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.ladder import LADDERS
from posenc._core.spec import Spec
from posenc.detect.locate import Fit, Location, locate
from posenc.explore.entry import Chosen, initial
from posenc.explore.fields import shown
from posenc.explore.panels import Link
from posenc.explore.scene import Scene
from posenc.explore.text import number, plural, signed, thin, whole
from posenc.plot.columns import source

__all__ = ["Answer", "answer", "answers"]

MOST_VALUES = 64
MOST_NUMBERS = 16_384
MOST_HITS = 12
NEAREST_AMONG = 2**18  # positions that are tried for the nearest, where none fits
LAST = 2**40
NUMERAL = r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?"
VALUE = re.compile(rf"({NUMERAL})\s*@\s*([0-9]{{1,7}})")
HOW = (
    "Write a value and its dimension, such as 0.488814 @ 1088, several of them with ; between, or "
    "paste a whole row."
)
VIEWS = ("table", "waves", "sentence", "distance")


@dataclass(frozen=True)
class Answer:
    """What Find says: its part of the header, and what was wrong with the question."""

    header: Mapping[str, Any] | None
    problems: tuple[tuple[str, str], ...] = ()


def answers(scene: Scene) -> bool:
    """Whether there is anything to find here."""
    return scene.shape.id in VIEWS and scene.a.entry.kind == "table"


def answer(scene: Scene) -> Answer:
    """The answer to the state's question, if it asks one."""
    query = str(scene.values.get("find", "")).replace("\u2212", "-").strip()
    if not query:
        return Answer(None)
    if not answers(scene):
        advice = "Find works on tables: open Table, Waves, Sentence or Distance."
        return Answer(None, (("find", advice),))
    try:
        asked = _read(query, scene.a)
        story, location = _found(scene.a, asked)
        lines, hits = _told(scene, asked, story, location)
    except PosencError as error:
        return Answer(None, (("find", str(error)),))
    return Answer({"query": query[:200], "story": [thin(line) for line in lines], "hits": hits})


# --- reading the question -------------------------------------------------------------------------

Asked = tuple[tuple[int, str], ...] | tuple[float, ...]


def _read(query: str, chosen: Chosen) -> Asked:
    """Values by dimension, as they were typed; or a row."""
    width = int(chosen.spec.dim)
    if "@" in query:
        pieces = [piece.strip() for piece in re.split(r"[;\n]|,(?=[^@]*@)", query) if piece.strip()]
        if len(pieces) > MOST_VALUES:
            raise PosencError(f"At most {MOST_VALUES} values; {whole(len(pieces))} came.")
        matches = [(piece, VALUE.fullmatch(piece)) for piece in pieces]
        wrong = [piece for piece, match in matches if match is None]
        if wrong or not matches:
            raise PosencError(f"{shown(wrong[0]) if wrong else 'This'} is no value. {HOW}")
        values = {int(match[2]): match[1] for _, match in matches if match}
        for dimension in values:
            if dimension >= width:
                raise PosencError(
                    f"Dimension {dimension}: the encoding has 0 to {width - 1}. Raise its width."
                )
        return tuple(values.items())
    words = [word for word in re.split(r"[\s,;\[\]()]+", query) if word]
    if len(words) > MOST_NUMBERS:
        raise PosencError(f"At most {MOST_NUMBERS} numbers; {whole(len(words))} came.")
    if not words or not all(re.fullmatch(NUMERAL, word) for word in words):
        raise PosencError(HOW)
    row = tuple(float(word) for word in words)
    if len(row) == 1:
        raise PosencError(
            f"One value needs its dimension: {shown(words[0] + ' @ 0')}, for example."
        )
    if len(row) != width:
        raise PosencError(f"The row has {plural(len(row), 'number')}; the encoding has {width}.")
    if not all(math.isfinite(value) for value in row):
        raise PosencError("The row holds numbers that are not finite.")
    return row


# --- the answer -----------------------------------------------------------------------------------


def _found(chosen: Chosen, asked: Asked) -> tuple[tuple[str, ...], Location]:
    if chosen.entry.params is None:
        return _located(chosen.spec, asked)
    return _locate(chosen.spec, asked, chosen.params)


@functools.lru_cache(maxsize=32)
def _located(spec: Spec, asked: Asked) -> tuple[tuple[str, ...], Location]:
    return _locate(spec, asked, initial(spec) if spec.shapes else None)


def _locate(
    spec: Spec, asked: Asked, params: Mapping[str, np.ndarray] | None
) -> tuple[tuple[str, ...], Location]:
    if isinstance(asked[0], tuple):
        location = locate(spec, dict(asked))
    else:
        location = locate(spec, np.array(asked), params=params)
    return location.story, location


def _told(
    scene: Scene, asked: Asked, story: tuple[str, ...], location: Location
) -> tuple[list[str], list[Link]]:
    lines = list(story)
    hits = [link for fit in location.fits[:6] for link in _links(scene, fit)]
    if location.fits:
        return lines, hits[:MOST_HITS]
    lines, near = lines or ["No position fits."], _nearest(scene.a, asked)
    lines += near[0]
    return lines, [Link(text, _go(scene, position)) for text, position in near[1]]


def _links(scene: Scene, fit: Fit) -> list[Link]:
    changes = _convention(scene, fit)
    words = "; ".join(fit.convention) or "as stated"
    links = []
    for position in fit.positions[:4]:
        if isinstance(position, (int, np.integer)):
            place = whole(int(position))
            off = f", off by {number(fit.residual, 2)}" if position == fit.positions[0] else ""
            state = {} if changes is None else {**changes, **_go(scene, int(position))}
            links.append(Link(f"position {place} ({words}{off})", state))
    return links


def _convention(scene: Scene, fit: Fit) -> dict[str, str | None] | None:
    """The changes of the state that show a sibling; None where no control can say it."""
    if not fit.convention:
        return {}
    stated: Any = scene.a.spec
    spec: Any = fit.spec
    keys = {field.key for field in scene.a.entry.fields}
    changes: dict[str, str | None] = {}
    if spec.ladder != stated.ladder:
        name = next((name for name, ladder in LADDERS.items() if ladder == spec.ladder), None)
        if name is None or "ladder" not in keys:
            return None
        changes["ladder"] = name
    if spec.order != stated.order:
        if "order" not in keys:
            return None
        changes["order"] = spec.order
    return changes


def _go(scene: Scene, position: int) -> dict[str, str | None]:
    """The changes of the state that put the cursor on a position."""
    if not 0 <= position <= LAST:
        return {}
    first, length = scene.values.get("s", 0), scene.values.get("L", 128)
    if first <= position < first + length:
        return {"p": str(position)}
    start = str(max(0, position - 64))
    return {"p": str(position), "s": start, "L": "128", "p0": None, "p1": None}


def _nearest(chosen: Chosen, asked: Asked) -> tuple[list[str], list[tuple[str, int]]]:
    """The nearest three positions, and how far off they are."""
    table = source(chosen.spec, params=chosen.params)
    among = min(NEAREST_AMONG, table.end or NEAREST_AMONG)
    if isinstance(asked[0], tuple):
        dims = np.array([int(dimension) for dimension, _ in asked])
        wanted = np.array([float(value) for _, value in asked])
    else:
        among = min(among, max(1024, 2**22 // table.width))
        dims, wanted = np.arange(table.width), np.array(asked, dtype=np.float64)
    off = np.abs(table.values(np.arange(among), dims) - wanted).max(axis=1)
    best = np.argsort(off, kind="stable")[:3]
    reach = 1.0 if table.waves is None else table.waves.amplitude
    lines = []
    if table.waves is not None and np.abs(wanted).max() > reach * (1 + 1e-12):
        largest = signed(float(np.abs(wanted).max()))
        lines.append(f"No wave of this table exceeds {number(reach)}; {largest} was asked for.")
    lines.append(f"The nearest of the first {whole(among)} positions:")
    return lines, [
        (f"position {whole(int(at))}, off by {number(float(off[at]), 3)}", int(at)) for at in best
    ]
