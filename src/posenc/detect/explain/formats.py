"""Configs that are not of transformers, told by their keys and put into words of transformers.

A row of `configs/formats.json` says how a format is known, how it spells each key, what its code
takes for keys that are left out, and what it does: a translated config is read as that of a family.
A key that its format does not know, and that speaks of positions, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from posenc._core.annotations import show
from posenc._core.io.yaml_text import Unclear
from posenc._core.reading import Note, Reading, Source
from posenc.detect.explain.config.unread_keys import EXTENDS, MODELS, elsewhere, speaks, unclear
from posenc.detect.explain.config.view import NAMES, Keys, Notes, noted
from posenc.detect.explain.layers.non_rotary import applies, filled, words
from posenc.presets.families import PREFIX, ConfigFormat, config_formats

FEWEST = 2  # keys of a format that a config of it has


class Translated(NamedTuple):
    """A config of a format in words of transformers."""

    format: ConfigFormat
    config: dict[str, Any]
    words: Mapping[str, str]  # word of transformers -> the key of the file
    notes: Sequence[Note]
    keys: Sequence[str]  # of the part of the file that has those of the format


def fitting(data: Mapping[str, Any]) -> list[Translated]:
    """The config in each format whose keys it has."""
    rows = ((row, *_spelled_in(row, data)) for row in config_formats().values())
    return [_translated(row, spelled, data, path) for row, path, spelled in rows if spelled]


def _at(data: Any, path: str) -> Mapping[str, Any]:
    """A part of a config, by the keys that lead to it; empty where there is none."""
    for key in path.split(".") if path else ():
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _spelled_in(
    row: ConfigFormat, data: Mapping[str, Any]
) -> tuple[str, dict[str, tuple[str, Any]]]:
    """The first part of a config that has the keys of a format, and these; none without one."""
    parts = ((path, _spelled(row, _at(data, path))) for path in row.get("parts", ("",)))
    return next((part for part in parts if part[1]), ("", {}))


def _spelled(row: ConfigFormat, part: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """The keys of a part of a file, if it has those of a format: as its row has them -> its own."""
    names = {_plain(key): value for key, value in part.items()}
    there = all(not names.keys().isdisjoint(either.split("|")) for either in row["all"])
    if not there or any(names.get(key) is not None for key in row.get("none", ())):
        return {}
    return _flat(part, "") if applies(Keys(names), row) else {}


def _plain(key: str) -> str:
    """A key as rows have it: `a_b` for `--a-b`."""
    return key.removeprefix("--").replace("-", "_")


def _flat(part: Mapping[str, Any], before: str) -> dict[str, tuple[str, Any]]:
    """Keys as rows have them, those of a dictionary behind its own."""
    flat: dict[str, tuple[str, Any]] = {}
    for key, value in part.items():
        plain = before + _plain(key)
        twice = flat.get(plain, ("", value))[1] != value
        flat[plain] = f"{before}{key}", Unclear("two values") if twice else value
        if isinstance(value, Mapping) and not before:
            flat |= _flat(value, f"{plain}.")
    return flat


def _translated(
    row: ConfigFormat, spelled: Mapping[str, tuple[str, Any]], data: Mapping[str, Any], path: str
) -> Translated:
    """A config of a format, whose keys stand in a part of it."""
    keys, notes = Keys({plain: value for plain, (_, value) in spelled.items()}), Notes()
    config: dict[str, Any] = {"model_type": PREFIX + row["name"]}
    words: dict[str, str] = {}
    for word, names in row["names"].items():
        stated = {spelled[n][0]: spelled[n][1] for n in names if keys.get(n) is not None}
        if stated:
            words[word], config[word] = next(iter(stated.items()))
        if len({*map(json.dumps, stated.values())}) > 1:
            text = " and ".join(f"{key}={show(value)}" for key, value in stated.items())
            notes.error(f"{text} contradict each other")
    for rule in row.get("writes", ()):
        _write(rule, keys, config, notes)
    if (variants := row.get("variants")) is not None:
        name = keys.get(variants["key"])
        config |= next((one["write"] for one in variants["cases"] if name in one["names"]), {})
    switches = keys.read & spelled.keys() - {*map(_plain, words.values())}
    for text in (
        *(text for key in sorted(switches) for text in unclear(*reversed(spelled[key]))),
        *elsewhere(dict(spelled.values()), EXTENDS),
        *_unknown(row, spelled),
        *_beside(row, spelled, data, path),
    ):
        notes.error(text)
    whole = [key for key, _ in spelled.values() if "." not in key]
    return Translated(row, {**row.get("defaults", {}), **config}, words, notes.notes, whole)


@noted
def _write(rule: ConfigFormat, keys: Keys, config: dict[str, Any], notes: Notes) -> None:
    """The words that a rule makes of several keys."""
    if applies(keys, rule):
        config |= filled(keys, rule["write"], "", 0, Notes())
        if "warning" in rule:
            notes.warning(rule["warning"])


def _beside(
    row: ConfigFormat, spelled: Mapping[str, tuple[str, Any]], data: Mapping[str, Any], path: str
) -> Iterator[str]:
    """Keys that say otherwise beside the part of a file that was read."""
    whole, silent = spellings(row), {*row.get("silent", ())}
    return (
        f"{key}={json.dumps(value)[:60]} stands outside {path or 'the top'}, the part that "
        f"{row['title']} reads, and says otherwise: take out what is not so"
        for other in {"", *row.get("parts", ())} - {path}
        for key, value in _at(data, other).items()
        if (plain := _plain(key)) not in silent and (plain in whole or speaks(plain))
        if not isinstance(value, Mapping) and value not in (None, False, "", [])
        if spelled.get(plain, ("", None))[1] != value
    )


def _unknown(row: ConfigFormat, spelled: Mapping[str, tuple[str, Any]]) -> Iterator[str]:
    """Keys that speak of positions and that the format does not know, with who knows them."""
    whole, mentioned = {*spellings(row), *row.get("silent", ())}, {*words(row)}
    for plain, (key, value) in spelled.items():
        in_row = plain in mentioned or whole & {plain, plain.partition(".")[0]}
        # What is in a dictionary is looked at for itself.
        if in_row or isinstance(value, Mapping) or value in (None, False, "", []):
            continue
        if speaks(plain) or "sliding" in plain:
            others = [one["title"] for one in config_formats().values() if plain in spellings(one)]
            hint = f"; {' and '.join(others[:2])} has such a key" if others else ""
            yield (
                f"{row['title']} does not know {key}={json.dumps(value)[:60]}, which speaks of "
                f"positions{hint}. Take it out, if no code reads it"
            )


def spellings(row: ConfigFormat) -> set[str]:
    """The keys that a format spells."""
    return {name for names in row["names"].values() for name in names}


def nearest(data: Mapping[str, Any]) -> str:
    """Sentences on what a config names, and on the format that most of its keys are of."""
    flat, most = _flat(data, ""), (FEWEST, "")
    for row in config_formats().values():
        missing = [e for e in row["all"] if not {*e.split("|")} & flat.keys()]
        count = len((spellings(row) - row["names"].keys()) & flat.keys())
        if missing and len(missing) <= 2 and count > most[0]:
            needs = " and ".join(missing).replace("|", " or ")
            most = count, f"The nearest format is {row['title']}, which has {needs} too"
    sentences = (*elsewhere(data, (*EXTENDS, *MODELS)), *filter(None, most[1:]))
    return "".join(f". {text}" for text in sentences)


# --- what was read, in the words of the file ------------------------------------------------------


def in_words(text: str, words: Mapping[str, str]) -> str:
    """A text with the words of a file for those of transformers."""
    return NAMES.sub(lambda match: words.get(match[0], match[0]), text)


def in_own_words(plan: Reading, translated: Translated) -> Reading:
    """A plan with the keys of the file in its sources and notes."""
    row, words = translated.format, translated.words

    def source_of(source: Source) -> Source:
        if source.origin != "config":
            return source
        if all(word in words for word in NAMES.findall(source.where)):
            return source.replace(where=in_words(source.where, words))
        return source.replace(origin="format", where=f"{source.where}, as {row['title']} has it")

    layers = (entry.replace(sources=tuple(map(source_of, entry.sources))) for entry in plan)
    code = " ".join(row["source"][0][key] for key in ("repository", "path", "version"))
    read = Note("remark", f"read as {row['title']}, as {code} does")
    own = (note.replace(text=in_words(note.text, words)) for note in plan.notes)
    notes = (read, *translated.notes, *own)
    return plan.replace(layers=tuple(layers), notes=notes, model=row["title"])


def agreed(plans: list[Reading], read: list[Translated]) -> Reading:
    """The plan of a file; an error where it fits several formats that read it differently."""
    numbers = [[(e.layer, e.spec, e.indices, e.windows) for e in plan] for plan in plans]
    if all(other == numbers[0] for other in numbers):
        return plans[0]
    titles = " and ".join(one.format["title"] for one in read)
    keys = "; ".join(
        f"{one.format['title']} has {', '.join(one.format['all'][-2:])}" for one in read
    )
    error = f"the file fits {titles}, which read it differently. {keys}: take out what is not so"
    return plans[0].replace(notes=(Note("error", error), *plans[0].notes))
