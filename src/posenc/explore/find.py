"""Find: which position gave these numbers, by which convention, or how near the nearest comes."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.ladder import LADDERS
from posenc.detect.locate import Fit, Location, locate
from posenc.encodings.table.column_phases import columns_of, inner, sinusoids
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import shown
from posenc.explore.state.scene import Scene
from posenc.plot.columns import source
from posenc.plot.panels.grammar import Link
from posenc.plot.panels.text import number, plural, signed, whole

MOST_VALUES = 64
MOST_TYPED = 16  # of the first numbers of a row
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
VIEWS = ("table", "waves", "distance")


def answers(scene: Scene) -> bool:
    """Whether there is anything to find here."""
    return scene.shape.id in VIEWS and scene.a.entry.kind == "table"


Problems = tuple[tuple[str, str], ...]


def answer(scene: Scene) -> tuple[Mapping[str, Any] | None, Problems]:
    """The answer to the state's question, if it asks one, and what was wrong with it."""
    query = str(scene.values.get("find", "")).replace("\u2212", "-").strip()
    if not query:
        return None, ()
    if not answers(scene):
        return None, (("find", "Find works on tables: open Table, Waves or Distance."),)
    try:
        asked = _read(query, scene.a)
        first, story, hits = _told(scene, asked, _located(scene.a, asked))
    except PosencError as error:
        return None, (("find", str(error)),)
    return {"query": query[:200], "answer": first, "story": story, "hits": hits}, ()


# --- reading the question -------------------------------------------------------------------------


class Query(NamedTuple):
    """Values as they were typed, by their dimensions; and the row that they are, if a whole one."""

    values: tuple[tuple[int, str], ...]
    row: tuple[float, ...] = ()


def _read(query: str, chosen: Chosen) -> Query:
    """Values by dimension, the first ones of a row, or a whole row."""
    width = int(chosen.spec.dim)
    if "@" in query:
        return _values(query, width)
    words = [word for word in re.split(r"[\s,;\[\]()]+", query) if word]
    count = len(words)
    _refuse(count > MOST_NUMBERS, f"At most {MOST_NUMBERS:,} numbers; {whole(count)} came.")
    _refuse(not words or not all(re.fullmatch(NUMERAL, word) for word in words), HOW)
    row, example = tuple(float(word) for word in words), shown(f"{words[0]} @ 0")
    _refuse(count == 1, f"One value needs its dimension: {example}, for example.")
    many = f"{plural(count, 'number')}; the encoding has {width}"
    _refuse(count > width, f"The row has {many}. Raise its width.")
    _refuse(not all(map(math.isfinite, row)), "The row holds numbers that are not finite.")
    table = inner(chosen.spec)
    # A dimension that holds no wave is 0 in every row, and tells nothing.
    telling = columns_of(table).pair >= 0 if sinusoids(table) else np.ones(width, bool)
    return Query(
        tuple((j, word) for j, word in enumerate(words) if telling[j])[:MOST_TYPED],
        row if len(row) == width else (),
    )


def _refuse(wrong: bool, message: str) -> None:
    """Raise where what was typed cannot be looked up."""
    if wrong:
        raise PosencError(message)


def _values(query: str, width: int) -> Query:
    pieces = [piece.strip() for piece in re.split(r"[;\n]|,(?=[^@]*@)", query) if piece.strip()]
    count = len(pieces)
    _refuse(count > MOST_VALUES, f"At most {MOST_VALUES:,} values; {whole(count)} came.")
    matches = [(piece, VALUE.fullmatch(piece)) for piece in pieces or [""]]
    values = {int(match[2]): match[1] for _, match in matches if match}
    wrong = [piece for piece, match in matches if match is None]
    if wrong:
        raise PosencError(f"{shown(wrong[0]) if wrong[0] else 'This'} is no value. {HOW}")
    beyond = next((dimension for dimension in values if dimension >= width), None)
    last = f"the encoding has 0 to {width - 1}. Raise its width."
    _refuse(beyond is not None, f"Dimension {beyond}: {last}")
    return Query(tuple(values.items()))


# --- the answer -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _located(chosen: Chosen, asked: Query) -> Location | None:
    """Where the numbers come from; None of the first numbers of a learned row, which is no rule."""
    spec, params = chosen.spec, chosen.params
    location = locate(spec, np.array(asked.row), params=params) if asked.row else None
    if params is not None or (location is not None and location.fits):
        return location
    # A row that was printed short is none to the last digit, but each of its values fits.
    typed = locate(spec, dict(asked.values))
    return typed if typed.fits or location is None else location


def _told(
    scene: Scene, asked: Query, location: Location | None
) -> tuple[str, list[str], list[Link]]:
    """The answer in one sentence, what it rests on, and where to look."""
    lines = [] if location is None else list(location.story)
    if location is not None and location.fits:
        hits = [link for fit in location.fits[:6] for link in _links(scene, fit)]
        return lines[0], lines, hits[:MOST_HITS]
    reasons, (best, *others) = _nearest(scene.a, asked)
    hits = [Link(text, _go(scene, at)) for text, at in (best, *others)]
    answer = f"The nearest is {best[0]}."
    return f"No position gives this. {answer}" if lines else answer, [*lines, *reasons], hits


def _links(scene: Scene, fit: Fit) -> list[Link]:
    changes, words = _convention(scene, fit), "; ".join(fit.convention) or "as stated"
    off = f", off by {number(fit.residual, 2)}"
    return [
        Link(
            f"position {whole(int(position))} ({words}{'' if place else off})",
            {} if changes is None else {**changes, **_go(scene, int(position))},
        )
        for place, position in enumerate(fit.positions[:4])
        if isinstance(position, (int, np.integer))
    ]


def _convention(scene: Scene, fit: Fit) -> dict[str, str | None] | None:
    """The changes of the state that show a sibling; None where no control can say it."""
    if not fit.convention:
        return {}
    stated: Any = scene.a.spec
    spec: Any = fit.spec
    changes: dict[str, str | None] = {}
    if spec.ladder != stated.ladder:
        changes["ladder"] = next(
            (name for name, ladder in LADDERS.items() if ladder == spec.ladder), None
        )
    if spec.order != stated.order:
        changes["order"] = spec.order
    keys = {field.key for field in scene.a.entry.fields}
    return changes if changes.keys() <= keys and None not in changes.values() else None


def _go(scene: Scene, position: int) -> dict[str, str | None]:
    """The changes of the state that put the cursor on a position."""
    if not 0 <= position <= LAST:
        return {}
    first, length = scene.values.get("s", 0), scene.values.get("L", 128)
    place = {"s": str(max(0, position - 64)), "L": "128", "p0": None, "p1": None}
    return {"p": str(position), **({} if first <= position < first + length else place)}


def _nearest(chosen: Chosen, asked: Query) -> tuple[list[str], list[tuple[str, int]]]:
    """The nearest three positions, and how far off they are."""
    table = source(chosen.spec, params=chosen.params)
    among = min(NEAREST_AMONG, table.end or NEAREST_AMONG)
    if asked.row:
        among = min(among, max(1024, 2**22 // table.width))
        dims, wanted = np.arange(table.width), np.array(asked.row, dtype=np.float64)
    else:
        dims = np.array([int(dimension) for dimension, _ in asked.values])
        wanted = np.array([float(value) for _, value in asked.values])
    off = np.abs(table.values(np.arange(among), dims) - wanted).max(axis=1)
    lines, largest = [], float(np.abs(wanted).max())
    if table.waves is not None and largest > table.waves.amplitude * (1 + 1e-12):
        reach = f"No wave of this table exceeds {number(table.waves.amplitude)}"
        lines.append(f"{reach}; {signed(largest)} was asked for.")
    lines.append(f"The nearest of the first {whole(among)} positions:")
    return lines, [
        (f"position {whole(at)}, off by {number(float(off[at]), 3)}", at)
        for at in np.argsort(off, kind="stable")[:3].tolist()
    ]
