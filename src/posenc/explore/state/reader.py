"""A state as text, read key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from posenc.explore.state.fields import (
    Field,
    short,
    shown,
)

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
        answer = wanted.parse(self.raw.get(wanted.key))
        self.used.add(wanted.key)
        if answer.problem:
            self.problems.append((wanted.key, answer.problem))
        if wanted.section == "cursor" and wanted.key in self.raw and not answer.problem:
            text = self.raw[wanted.key]
            place = wanted.within(-FARTHEST, FARTHEST).parse(text).value
            if abs(place) < FARTHEST:
                self.asked[wanted.key] = place
            else:
                message = f"{wanted.label} {shown(text)} is farther than anything that is drawn."
                self.problems.append((wanted.key, message))
        self.values[wanted.key] = answer.value
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
    now = {**SENTENCE, **texts, "v": "attention"}
    now["qw"] = now.pop("t", "1")
    now.pop("scale", "")
    count = len(now["text"].split())
    order = list(range(count))
    asked = [now.pop(key, usual) for key, usual in (("one", "1"), ("two", "4"))]
    if now.pop("swap", "0") == "1" and count > 1:
        inside = all(text.isdecimal() and int(text) < count for text in asked)
        one, two = map(int, asked) if inside else (0, count - 1)
        order[one], order[two] = two, one
        now["perm"] = ".".join(map(str, order))
    return now


SENTENCE = {"text": "the dog chased the cat", "enc": "sinusoidal", "e2": "rope", "d": "32"}
SENTENCE |= {"qk": "random", "shift": "0", "sum": "1"}
# Views that others have taken in, by the names that old addresses call them.
MOVED: Mapping[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "sentence": _of_sentence,
    "spectrum": lambda texts: {**texts, "v": "table", "parts": "1"},
}
