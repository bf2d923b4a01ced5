"""The keys of a state: what each may be, and what becomes of a text that is none of it.

A field never raises. It gives a value that can be drawn, the text that the address should hold, and
one sentence where the two differ from what came.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
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


# --- parsing --------------------------------------------------------------------------------------


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
    value = _number_in(field, text)
    if value is None:
        kind = "a whole number" if field.kind == "integer" else "a number"
        drawn = _of_number(field, field.default)
        came = shown(text) if text.strip() else "nothing"
        return drawn._replace(
            problem=f"{field.label}: expected {kind}, got {came}. Drawn with {drawn.text}."
        )
    kept = min(max(value, field.low), field.high)
    kept = int(kept) if field.kind == "integer" else float(kept)
    written = str(kept) if field.kind == "integer" else short(kept)
    if kept == value or field.gently:
        return Parsed(kept, written)
    bound = "at least" if value < field.low else "at most"
    say = whole if field.kind == "integer" else number
    came = say(value) if abs(value) < 1e15 else shown(text)
    return Parsed(
        kept, written, f"{field.label} must be {bound} {say(kept)}; {came} came. Drawn with it."
    )


def short(value: float) -> str:
    """A number with every digit that it needs."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _of_choice(field: Field, text: str) -> Parsed:
    options = {option.value: option for option in field.options}
    if text in options:
        return Parsed(text, text)
    folded = {value.lower(): value for value in options}
    if text.strip().lower() in folded:
        option = folded[text.strip().lower()]
        return Parsed(option, option)
    default = field.default if field.default in options or not options else next(iter(options))
    todo = suggest(text[:SHOWN], options) if len(options) < 12 else ""
    message = f"{field.label}: {shown(text)} is not offered here. {todo}".strip()
    return Parsed(default, default, message)


def _of_switch(field: Field, text: str) -> Parsed:
    words = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}
    value = words.get(text.strip().lower())
    if value is None:
        value = field.default == "1"
        return Parsed(value, str(int(value)), f"{field.label}: expected 1 or 0, got {shown(text)}.")
    return Parsed(value, str(int(value)))


def _of_text(field: Field, text: str) -> Parsed:
    # Half a surrogate pair is no text: it could be written neither to JSON nor to a file.
    whole_text = text.encode("utf-8", "replace").decode("utf-8")
    if len(whole_text) <= field.high:
        return Parsed(whole_text, whole_text)
    cut = whole_text[: int(field.high)]
    longest = plural(int(field.high), "character")
    return Parsed(cut, cut, f"{field.label}: only the first {longest} are used.")


_PARSERS: dict[str, Callable[[Field, str], Parsed]] = {
    "integer": _of_number,
    "real": _of_number,
    "choice": _of_choice,
    "switch": _of_switch,
    "text": _of_text,
}
