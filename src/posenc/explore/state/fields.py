"""The keys of a state: what each may be, and what becomes of a text that is none of it.

A field never raises. It gives a value that can be drawn, the text that the address should hold, and
one sentence where the two differ from what came.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from posenc._core.errors import suggest
from posenc.plot.panels.text import number, plural, whole

Kind = Literal["integer", "real", "choice", "text", "switch"]
# Controls of the section `page` stand in the picture itself.
Section = Literal["encoding", "view", "cursor", "b", "find", "zoom", "page"]

SHOWN = 40  # characters of a wrong text that a message repeats
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL = re.compile(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")


class Option(NamedTuple):
    """A choice: what the state holds, what people read, and the heading it stands under."""

    value: str
    label: str
    group: str = ""


class Parsed(NamedTuple):
    """What a text means: a value that can be drawn, its plain text, and what was wrong with it."""

    value: Any
    text: str
    problem: str = ""


@dataclass(frozen=True)
class Field:
    """One key of the state.

    Parameters
    ----------
    key, label : str
        The key in the address, the label on the page.
    kind : str
        What it holds.
    default : str
        The text that stands for a key that is absent.
    low, high : float
        The range of a number; of a text, `high` is its longest length.
    scale : {"linear", "log"}
        How a slider runs.
    options : tuple of Option
        What may be chosen.
    section : str
        Where its control stands.
    """

    key: str
    label: str
    kind: Kind
    default: str
    low: float = 0
    high: float = 0
    scale: Literal["linear", "log"] = "linear"
    options: tuple[Option, ...] = ()
    section: Section = "view"
    hint: str = ""
    step: float = 1
    gently: bool = False  # out of range is no mistake: the cursor of a larger picture
    plays: bool = False  # whether a button moves it, value by value

    def parse(self, text: str | None) -> Parsed:
        """What a text means; None stands for an absent key."""
        return _PARSERS[self.kind](self, self.default if text is None else text)

    def within(self, low: float, high: float, default: str | None = None) -> Field:
        """The same field with another range."""
        return replace(
            self, low=low, high=high, default=self.default if default is None else default
        )

    def control(self, value: str) -> dict[str, Any]:
        """What the page shows of it, with its present text."""
        return {
            "key": self.key,
            "label": self.label,
            "kind": "number" if self.kind in ("integer", "real") else self.kind,
            "value": value,
            "min": self.low,
            "max": self.high,
            "step": self.step,
            "scale": self.scale,
            "options": [option._asdict() for option in self.options],
            "hint": self.hint,
            "section": self.section,
            "plays": self.plays,
        }


def integer(key: str, label: str, default: int, low: int, high: int, **more: Any) -> Field:
    """A field that holds a whole number."""
    return Field(key, label, "integer", str(default), low, high, **more)


def real(key: str, label: str, default: float, low: float, high: float, **more: Any) -> Field:
    """A field that holds a number."""
    return Field(key, label, "real", short(default), low, high, **{"step": 0, **more})


def choice(key: str, label: str, options: tuple[Option, ...], default: str, **more: Any) -> Field:
    """A field that holds one of some words."""
    return Field(key, label, "choice", default, options=options, **more)


def switch(key: str, label: str, default: str = "0", **more: Any) -> Field:
    """A field that is on or off."""
    return Field(key, label, "switch", default, **more)


def text(key: str, label: str, default: str, longest: int, **more: Any) -> Field:
    """A field that holds a text."""
    return Field(key, label, "text", default, high=longest, **more)


# --- parsing -------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """A text of somebody else, fit for a message: short, in one line, all of it visible."""
    visible = "".join(
        c if unicodedata.category(c)[0] not in "CZ" or c == " " else "?" for c in text[:SHOWN]
    )
    return f"‘{visible}’" + ("…" if len(text) > SHOWN else "")


def _number_in(field: Field, text: str) -> float | int | None:
    """The number that a text writes, in ASCII digits alone; None where it writes none."""
    plain = text.strip(" \t").replace("\u2212", "-").replace("\u202f", "").replace(" ", "")
    if WHOLE.fullmatch(plain):
        return int(plain)
    if not DECIMAL.fullmatch(plain):
        return None
    value = float(plain)
    if field.kind == "integer" and math.isfinite(value):
        return int(value) if value == int(value) else None
    return value


def _of_number(field: Field, text: str) -> Parsed:
    value, integral = _number_in(field, text), field.kind == "integer"
    if value is None:
        kind = "a whole number" if integral else "a number"
        drawn = _of_number(field, field.default)
        came = shown(text) if text.strip() else "nothing"
        return drawn._replace(
            problem=f"{field.label}: expected {kind}, got {came}. Drawn with {drawn.text}."
        )
    bounded = min(max(value, field.low), field.high)
    kept = int(bounded) if integral else float(bounded)
    written = str(kept) if integral else short(kept)
    if kept == value or field.gently:
        return Parsed(kept, written)
    bound = f"{field.label} must be {'at least' if value < field.low else 'at most'}"
    say = whole if integral else number
    came = say(value) if abs(value) < 1e15 else shown(text)
    return Parsed(kept, written, f"{bound} {say(kept)}; {came} came. Drawn with it.")


def short(value: float) -> str:
    """A number with every digit that it needs."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _of_choice(field: Field, text: str) -> Parsed:
    options = {option.value: option for option in field.options}
    folded = {value.lower(): value for value in options}
    option = text if text in options else folded.get(text.strip().lower())
    if option is not None:
        return Parsed(option, option)
    default = field.default if field.default in options or not options else next(iter(options))
    todo = suggest(text[:SHOWN], options) if len(options) < 12 else ""
    return Parsed(
        default, default, f"{field.label}: {shown(text)} is not offered here. {todo}".strip()
    )


def _of_switch(field: Field, text: str) -> Parsed:
    value = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}.get(
        text.strip().lower()
    )
    drawn = field.default == "1" if value is None else value
    return Parsed(
        drawn,
        str(int(drawn)),
        f"{field.label}: expected 1 or 0, got {shown(text)}." if value is None else "",
    )


def _of_text(field: Field, text: str) -> Parsed:
    # Half a surrogate pair is no text: it could be written neither to JSON nor to a file.
    whole_text, most = text.encode("utf-8", "replace").decode("utf-8"), int(field.high)
    cut, longest = whole_text[:most], plural(most, "character")
    return Parsed(
        cut, cut, f"{field.label}: only the first {longest} are used." if cut != whole_text else ""
    )


_PARSERS: dict[str, Callable[[Field, str], Parsed]] = {
    "integer": _of_number,
    "real": _of_number,
    "choice": _of_choice,
    "switch": _of_switch,
    "text": _of_text,
}


# --- reading --------------------------------------------------------------------------------------


MOST_KEYS = 80
FARTHEST = 10**15  # places of a cursor
ASKED = ("w", "h", "theme", "since", "numbers")  # of one request, no part of the state


class StateReader:
    """One reading of a state: values, texts and complaints as they are found."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self.raw = raw
        self.used: set[str] = {"k", *ASKED}
        self.values: dict[str, Any] = {}
        self.fields: list[tuple[Field, str]] = []
        self.problems: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.asked: dict[str, int] = {}

    def take(self, wanted: Field) -> Any:
        """The value of a field, kept with its text."""
        text, key = self.raw.get(wanted.key), wanted.key
        answer = wanted.parse(text)
        self.used.add(key)
        if answer.problem:
            self.problems.append((key, answer.problem))
        elif wanted.section == "cursor" and text is not None:
            place = wanted.within(-FARTHEST, FARTHEST).parse(text).value
            if abs(place) < FARTHEST:
                self.asked[key] = place
            else:
                self.problems.append(
                    (key, f"{wanted.label} {shown(text)} is farther than anything that is drawn.")
                )
        self.values[key] = answer.value
        self.fields.append((wanted, answer.text))
        return answer.value

    def retake(self, key: str, value: Any) -> Any:
        """Put another value in the place of one that was taken."""
        self.values[key] = value
        text = short(value) if isinstance(value, float) else str(value)
        self.fields = [(f, text if f.key == key else t) for f, t in self.fields]
        return value


def plain(state: Mapping[Any, Any]) -> dict[str, str]:
    """The texts of a state, without what is no text or too much, under the names of today."""
    texts = {
        key: value
        for key, value in list(state.items())[:MOST_KEYS]
        if isinstance(key, str) and isinstance(value, str)
    }
    moved = MOVED.get(texts.get("v", ""))
    return texts if moved is None else moved(texts)


def _of_sentence(texts: dict[str, str]) -> dict[str, str]:
    """Attention with what reaches the model; two words that change places are an order of words."""
    now = {**SENTENCE, **texts, "v": "attention", "qw": texts.get("t", "1")}
    for gone in ("t", "scale"):
        now.pop(gone, "")
    count = len(now["text"].split())
    order = list(range(count))
    asked = [now.pop(key, usual) for key, usual in (("one", "1"), ("two", "4"))]
    if now.pop("swap", "0") == "1" and count > 1:
        inside = all(text.isdecimal() and int(text) < count for text in asked)
        one, two = map(int, asked) if inside else (0, count - 1)
        order[one], order[two] = two, one
        now["perm"] = ".".join(map(str, order))
    return now


SENTENCE = {
    "text": "the dog chased the cat",
    "enc": "sinusoidal",
    "e2": "rope",
    "d": "32",
    "qk": "random",
    "shift": "0",
    "sum": "1",
}
# Views that others have taken in, by the names that old addresses call them.
MOVED: Mapping[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "sentence": _of_sentence,
    "spectrum": lambda texts: {**texts, "v": "table", "parts": "1"},
}
