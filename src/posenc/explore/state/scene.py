"""From the texts of a state to what is to be drawn: the view, the encodings, the numbers.

Nothing here raises for a state, however wrong: a bad value is replaced and named, an unknown key is
named and left out.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from posenc._core.errors import PosencError
from posenc.explore.state import catalogue
from posenc.explore.state.entry import NONE, CatalogueEntry, Chosen, Session, made, samples
from posenc.explore.state.fields import (
    MOST_KEYS,
    Field,
    Option,
    Section,
    StateReader,
    choice,
    integer,
    plain,
    shown,
    switch,
    text,
)
from posenc.explore.state.rows import LARGEST_LENGTH, entries
from posenc.plot.columns import width_of
from posenc.plot.panels.text import plural

MOST_CELLS = 4_000_000
LONGEST_FIND = 40_000  # characters: a vector of some thousand numbers
PIN = "b."
VERSION = "1"

START = integer("s", "First position", 0, 0, 2**40, hint="Phases are exact here too.")
LENGTH = integer("L", "Positions", 128, 1, LARGEST_LENGTH, scale="log")
P = integer("p", "Position", 40, 0, 127, section="cursor", gently=True, plays=True)
J = integer("j", "Dimension", 21, 0, 127, section="cursor", gently=True, plays=True)
FIND = text(
    "find",
    "Which position gave",
    "",
    LONGEST_FIND,
    section="find",
    hint="A value and its dimension, such as 0.488814 @ 1088, or a whole row of numbers.",
)
# Keys that every view understands beside its own, in the order of the address.
COMMON = ("k", "v", "enc", "find", "tour", "reveal")


@dataclass(frozen=True)
class ViewShape:
    """What a view is: its name, its question, its keys, and what it starts with.

    A view without `encoding` shows none.
    """

    id: str
    label: str
    title: str
    encoding: str
    fields: tuple[Field, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    cursor: tuple[str, ...] = ("p", "j")
    zoom: tuple[str, ...] = ()
    usual: Callable[[Chosen], Mapping[str, str]] = lambda _: {}
    most: Mapping[str, int] = field(default_factory=dict)
    compares: bool = True
    learns: bool = True
    first: tuple[str, ...] = ("enc", "d", "L")  # the controls that are seen; all others are more
    # The controls that would change nothing, which are not drawn.
    dead: Callable[[Scene], Iterable[str]] = lambda _: ()


@dataclass(frozen=True)
class Scene:
    """A state that has been understood."""

    shape: ViewShape
    values: Mapping[str, Any]
    a: Chosen
    b: Chosen | None
    theme: str
    width: int
    height: int
    session: Session
    fields: tuple[tuple[Field, str], ...] = ()  # with their present texts
    problems: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    asked: Mapping[str, int] = field(default_factory=dict)  # where the cursor was set

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


@dataclass
class Page:
    """What a view makes of a scene."""

    lead: str
    panels: tuple[Any, ...]
    readout: tuple[Any, ...] = ()
    say: str = ""
    cursor: Mapping[str, Any] = field(default_factory=dict)
    zoom: Mapping[str, Any] | None = None
    python: str = ""
    table: Callable[[], Mapping[str, Any]] | Mapping[str, Any] | None = None  # when asked for
    title: str = ""
    problems: tuple[tuple[str, str], ...] = ()
    # The picture of `posenc.plot` that shows the same, and its arguments.
    paper: tuple[str, Mapping[str, Any]] | None = None


def read(state: Mapping[str, str], shapes: Mapping[str, ViewShape], session: Session) -> Scene:
    """Understand a state of any texts at all, with the views by name and what files offer."""
    reader = StateReader(plain(state))
    if len(state) > MOST_KEYS:
        reader.notes.append(f"Only the first {MOST_KEYS:,} keys of the address are read.")
    version = reader.raw.get("k", VERSION)
    if version != VERSION:
        reader.notes.append(
            f"The address is of version {shown(version)}; this page knows version {VERSION}."
        )
    views = tuple(Option(shape.id, shape.label) for shape in shapes.values())
    shape = shapes[reader.take(choice("v", "View", views, next(iter(shapes)), section="view"))]
    width, height, theme = _asked(reader)
    lengths = [f for f in shape.fields if f.key in ("s", "L")]
    for wanted in lengths:
        reader.take(wanted)
    a = _encoding(reader, shape, session, "") if shape.encoding else Chosen(NONE, None, None)
    b = (
        _encoding(reader, shape, session, PIN)
        if (shape.compares and any(key.startswith(PIN) for key in reader.raw))
        else None
    )
    for one in (a, b) if lengths else ():
        _end(reader, one)
    usual = shape.usual(a)
    for wanted in [f for f in shape.fields if f not in lengths]:
        options = wanted.options
        if wanted.kind == "choice" and not options:  # no encoding, or any that the view shows
            options = (
                Option("none", "no positions"),
                *_options(catalogue.offered(shape.id, session.entries)),
            )
        reader.take(replace(wanted, default=usual.get(wanted.key, wanted.default), options=options))
    _cursor(reader, shape, a)
    for wanted in (FIND, TOUR, REVEAL):
        reader.take(wanted)
    _complain_of_unknown(reader, shapes)
    return Scene(
        shape=shape,
        values=reader.values,
        a=a,
        b=None if reader.values.get("loss") else b,  # of the models that were trained alone
        theme=theme,
        width=width,
        height=height,
        session=session,
        fields=tuple(reader.fields),
        problems=tuple(reader.problems),
        notes=tuple(reader.notes),
        asked=reader.asked,
    )


TOUR = integer("tour", "Stop of the tour", 0, 0, 99, gently=True, section="find")
REVEAL = switch("reveal", "Show the answer", section="find")
_WIDTH = integer("w", "w", 640, 16, 8192, gently=True)
_HEIGHT = integer("h", "h", 400, 16, 8192, gently=True)


def _asked(reader: StateReader) -> tuple[int, int, str]:
    width = _WIDTH.parse(reader.raw.get("w")).value
    theme = reader.raw.get("theme", "light")
    return (
        width,
        min(_HEIGHT.parse(reader.raw.get("h")).value, MOST_CELLS // width),
        theme if theme in ("light", "dark") else "light",
    )


# --- encodings ------------------------------------------------------------------------------------


def _encoding(reader: StateReader, shape: ViewShape, session: Session, pin: str) -> Chosen:
    offered = catalogue.offered(shape.id, session.entries, reader.raw.get(f"{pin}enc", ""))
    name, section = ("Compared with", "b") if pin else ("Encoding", "encoding")
    wanted = choice(f"{pin}enc", name, _options(offered), shape.encoding, section=section)
    entry = _entry(reader, wanted, offered, shape, session)
    reader.fields.append((wanted, entry.id))
    own = _fields_of(entry, shape, pin)
    values = {f.key.removeprefix(pin): reader.take(f) for f in own}
    shared = {"s": reader.values.get("s", 0), "L": reader.values.get("L", 128)}
    try:
        return made(entry, {**shared, **values}, learns=shape.learns)
    except PosencError as error:
        reader.problems.append((_blamed(error, own, pin), str(error)))
    usual = {f.key.removeprefix(pin): reader.retake(f.key, f.parse(None).value) for f in own}
    try:
        return made(entry, {**shared, **usual})
    except PosencError:
        # A learned table of more positions than are drawn: one entry always works.
        safe = next(e for e in offered if e.id == shape.encoding)
        return made(
            safe, {**shared, **{f.key: f.parse(None).value for f in _fields_of(safe, shape, "")}}
        )


def _options(offered: Iterable[CatalogueEntry]) -> tuple[Option, ...]:
    return tuple(Option(e.id, e.label, e.group) for e in offered)


def _end(reader: StateReader, one: Chosen | None) -> None:
    """Keep to the positions that a table has."""
    spec = None if one is None else one.spec
    sides = () if spec is None else catalogue.grid_of(spec, reader.values["L"])
    if sides:
        reader.retake("s", 0)
        reader.retake("L", math.prod(sides))
    limits: Any = getattr(spec, "limits", ()) or ()
    if one is None or sides or len(limits) != 1:
        return
    end, first = int(limits[0]), reader.values.get("s", 0)
    if first >= end:
        first = reader.retake("s", 0)
    if first + reader.values["L"] > end:
        if "L" in reader.raw:
            reader.problems.append(
                ("L", f"{one.label} has {plural(end, 'position')}; it is drawn to its end.")
            )
        reader.retake("L", end - first)


def _entry(
    reader: StateReader,
    wanted: Field,
    offered: Iterable[CatalogueEntry],
    shape: ViewShape,
    session: Session,
) -> CatalogueEntry:
    text = reader.raw.get(wanted.key)
    reader.used.add(wanted.key)
    answer = wanted.parse(text)
    reader.values[wanted.key] = answer.value
    drawn = next(entry for entry in offered if entry.id == answer.value)
    if text is not None and answer.problem:
        entry = {
            **catalogue.by_id(),
            **{e.id: e for e in (*session.entries, *catalogue.published_models())},
        }.get(text.strip().lower())
        if entry is None:
            reader.problems.append((wanted.key, f"{answer.problem} Drawn with {drawn.label}."))
        else:
            try:
                why = catalogue.why_not(shape.id, entry) or catalogue.why_not(
                    shape.id, entry, entry.build(samples(entry))
                )
            except PosencError as error:
                why = str(error)
            reader.notes.append(f"{why} Drawn with {drawn.label}.")
    return drawn


def _fields_of(entry: CatalogueEntry, shape: ViewShape, pin: str) -> tuple[Field, ...]:
    """The controls of an encoding, without those that belong to the whole view."""
    section: Section = "b" if pin else "encoding"
    usual = shape.defaults if ":" not in entry.id else {}
    return tuple(
        replace(
            f,
            key=pin + f.key,
            label=f"B: {f.label}" if pin else f.label,
            default=usual.get(f.key, f.default),
            high=min(f.high, shape.most.get(f.key, f.high)),
            section=section,
        )
        for f in entry.fields
        if f.key not in ("L", "s")
    )


def _blamed(error: PosencError, own: Iterable[Field], pin: str) -> str:
    """The field that an error speaks of, by the words of its message."""
    words = {"dim": "d", "width": "d", "base": "n", "heads": "heads", "order": "order"}
    named = (pin + key for word, key in words.items() if re.search(rf"\b{word}\b", str(error)))
    keys = {f.key for f in own}
    return next((key for key in named if key in keys), f"{pin}enc")


# --- the cursor, and what is left over ------------------------------------------------------------


def _cursor(reader: StateReader, shape: ViewShape, a: Chosen) -> None:
    first, length = reader.values.get("s", 0), reader.values.get("L")
    if "p" in shape.cursor:
        last = first + length - 1 if length is not None else 2**40
        named = replace(P, label=shape.defaults.get("p label", P.label))
        reader.take(named.within(first, last, str(min(max(40, first), last))))
        if "p" in shape.zoom:
            _narrowed(reader, "p", first, last + 1)
    if "j" in shape.cursor:
        width = width_of(a.spec)
        reader.take(
            J.within(0, width - 1, str(min(int(shape.defaults.get("j", J.default)), width - 1)))
        )
        if "j" in shape.zoom:
            _narrowed(reader, "j", 0, width)


def _narrowed(reader: StateReader, key: str, low: int, high: int) -> None:
    """The part of a range that is in the picture: `p0` to `p1`, the end excluded."""
    begin, end = (
        integer(f"{key}{n}", f"Shown {what}", default, low, high, gently=True, section="zoom")
        for n, what, default in ((0, "from", low), (1, "to", high))
    )
    if reader.take(begin) >= reader.take(end):
        reader.retake(begin.key, low)
        reader.retake(end.key, high)


@functools.cache
def _known(own: frozenset[str]) -> frozenset[str]:
    """Every key that some view understands, its own keys and those of all."""
    keys = {*own, *(f.key for entry in entries() for f in entry.fields)}
    keys |= {"p", "j", "p0", "p1", "j0", "j1", "emb", *COMMON}
    return frozenset(keys | {PIN + key for key in keys})


def _complain_of_unknown(reader: StateReader, shapes: Mapping[str, ViewShape]) -> None:
    """A key of another view is kept for it, silently; one that nobody knows is named."""
    keys = _known(frozenset(f.key for shape in shapes.values() for f in shape.fields))
    unknown = [key for key in reader.raw if key not in reader.used and key not in keys]
    if unknown:
        listed = ", ".join(shown(key) for key in unknown[:3])
        more = f" and {plural(len(unknown) - 3, 'other')}" if len(unknown) > 3 else ""
        reader.notes.append(f"Ignored in the address: {listed}{more}.")
