"""Configs that are not of transformers, told by their keys and put into words of transformers.

A row of `configs/formats.json` says how a format is known, how it spells each key, what its code
takes for keys that are left out, and what it does: a translated config is read as that of a family.
A key that its format does not know, and that speaks of positions, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from posenc._core.reading import Layer, Note, Reading, Source
from posenc.detect.explain.config.unread_keys import speaks
from posenc.detect.explain.config.view import NAMES, Keys, Notes, UnsettledError
from posenc.detect.explain.layers.non_rotary import applies, filled
from posenc.presets.config_formats import PREFIX, ConfigFormat, config_formats


class Translated(NamedTuple):
    """A config of a format in words of transformers."""

    format: ConfigFormat
    config: dict[str, Any]
    words: Mapping[str, str]  # word of transformers -> the key of the file
    notes: tuple[Note, ...]


def config_of(data: dict[str, Any]) -> dict[str, Any]:
    """A config in words of transformers, whatever format it has."""
    return next((one.config for one in fitting(data)), data)


def fitting(data: Mapping[str, Any]) -> list[Translated]:
    """The config in each format whose keys it has."""
    every = (_translated(row, data) for row in config_formats().values())
    return [one for one in every if one is not None]


def _translated(row: ConfigFormat, data: Mapping[str, Any]) -> Translated | None:
    """The config as one of this format; None where it is none."""
    parts = (_flat(part) for path in row.parts if (part := _at(data, path)) is not None)
    spelled = next((keys for keys in parts if _fits(row, keys)), None)
    if spelled is None:
        return None
    keys, notes = Keys({plain: value for plain, (_, value) in spelled.items()}), Notes()
    config: dict[str, Any] = {"model_type": PREFIX + row.name}
    words: dict[str, str] = {}
    for word, names in row.names.items():
        stated = {name: value for name in names if (value := keys.get(name)) is not None}
        if stated:
            first = next(iter(stated))
            config[word], words[word] = stated[first], spelled[first][0]
        if len({json.dumps(value) for value in stated.values()}) > 1:
            told = " and ".join(f"{spelled[name][0]}={value!r}" for name, value in stated.items())
            notes.error(f"{told} contradict each other")
    for rule in row.writes:
        try:
            if applies(keys, rule):
                config |= filled(keys, rule["write"], "", 0, notes)
                if "warning" in rule:
                    notes.warning(rule["warning"])
        except UnsettledError as error:
            notes.error(str(error))
    for word, value in row.defaults.items():
        config.setdefault(word, value)
    for text in _unknown(row, keys, spelled):
        notes.error(text)
    return Translated(row, config, words, tuple(notes.notes))


def _at(data: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """A part of a config, by the keys that lead to it."""
    part: Any = data
    for key in path.split(".") if path else ():
        part = part.get(key) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else None


def _flat(part: Mapping[str, Any], before: str = "") -> dict[str, tuple[str, Any]]:
    """Keys as rows write them, `a_b` for `--a-b`, those of a dictionary behind its own."""
    flat: dict[str, tuple[str, Any]] = {}
    for key, value in part.items():
        plain = before + key.removeprefix("--").replace("-", "_")
        flat[plain] = f"{before}{key}", value
        if isinstance(value, Mapping) and not before:
            flat |= _flat(value, f"{plain}.")
    return flat


def _fits(row: ConfigFormat, spelled: Mapping[str, Any]) -> bool:
    """Whether a part of a file has the keys of a format."""
    there = all(any(key in spelled for key in either.split("|")) for either in row.all)
    absent = not any(key in spelled for key in row.none)
    keys = Keys({plain: value for plain, (_, value) in spelled.items()})
    return there and absent and applies(keys, {"when": row.when})


def _unknown(
    row: ConfigFormat, keys: Keys, spelled: Mapping[str, tuple[str, Any]]
) -> Iterator[str]:
    """Keys that speak of positions and that the format does not know, with who knows them."""
    for plain, (key, value) in spelled.items():
        outer = plain.partition(".")[0]
        known = {plain, outer} & {*keys.read, *row.silent} or f"{plain}." in str(keys.read)
        told = speaks(plain) or "sliding" in plain
        if not known and told and value not in (None, False, "", [], {}):
            others = [one.title for one in config_formats().values() if plain in _words(one)]
            hint = f"; {' and '.join(others[:2])} has such a key" if others else ""
            yield (
                f"{row.title} does not know {key}={json.dumps(value)[:60]}, which speaks of "
                f"positions{hint}. Take it out, if no code reads it"
            )


def _words(row: ConfigFormat) -> set[str]:
    """The keys that a format spells."""
    return {name for names in row.names.values() for name in names}


# --- what was read, in the words of the file ------------------------------------------------------


def in_own_words(plan: Reading, translated: Translated) -> Reading:
    """A plan with the keys of the file in its sources and notes."""
    row, words = translated.format, translated.words

    def own(text: str) -> str:
        return NAMES.sub(lambda match: words.get(match[0], match[0]), text)

    def source_of(source: Source) -> Source:
        if source.origin != "config":
            return source
        stated = all(word in words for word in NAMES.findall(source.where))
        return source.replace(
            origin="config" if stated else "format",
            where=own(source.where) if stated else f"{source.where}, as {row.title} has it",
        )

    layers = (entry.replace(sources=tuple(map(source_of, entry.sources))) for entry in plan)
    read = f"read as {row.title}, as {row.read_from} does"
    notes = (note.replace(text=own(note.text)) for note in plan.notes)
    return plan.replace(
        layers=tuple(layers), notes=(Note("remark", read), *translated.notes, *notes)
    )


def agreed(plans: list[Reading], read: list[Translated]) -> Reading:
    """The plan of a file; an error where it fits several formats that read it differently."""
    first, *others = ([_numbers(entry) for entry in plan] for plan in plans)
    titles = " and ".join(one.format.title for one in read)
    if all(other == first for other in others):
        return plans[0]
    keys = (f"{one.format.title} has {', '.join(one.format.all[-2:])}" for one in read)
    error = (
        f"the file fits {titles}, which read it differently. {'; '.join(keys)}: state what is so"
    )
    return plans[0].replace(notes=(Note("error", error), *plans[0].notes))


def _numbers(entry: Layer) -> tuple[Any, ...]:
    """What two readings of one layer are compared by."""
    return entry.layer, entry.spec, entry.indices, entry.windows
