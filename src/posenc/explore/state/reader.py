"""A state as text, read key by key."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The texts of a state, without what is no text or too much."""
    return {
        key: value
        for key, value in list(state.items())[:MOST_KEYS]
        if isinstance(key, str) and isinstance(value, str)
    }
