"""Keys of the text that stand in the config of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc._core.reading import Note
from posenc.detect.explain.config.unread_keys import DICTIONARIES, SPELLINGS
from posenc.detect.explain.config.view import Keys
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.rotary.entries import TRAINED
from posenc.presets.families import ClassParts, class_parts


def note_repeated(keys: Keys, text: str, inner: Mapping[str, Any], name: str) -> list[Note]:
    """Notes on keys beside the part for text, which its class reads alone, that say otherwise."""
    notes = Notes(name)
    for key in (*SPELLINGS, *TRAINED, *DICTIONARIES):
        if key in keys.data and keys.get(key) not in (None, inner.get(key)):
            notes.warning(
                f"{keys.where(key)}={repr(keys.get(key))[:80]} is not read by the class in "
                f"transformers {class_parts(None).version}, which takes what "
                f"{keys.where(text)} says of it, {repr(inner.get(key))[:80]}"
            )
    return notes.notes


def note_flat(keys: Keys, made: ClassParts, name: str, flat: str) -> list[Note]:
    """What to say of a text whose keys are those of the whole."""
    notes = Notes(name)
    if made.flat == flat:
        text_of = "keys of the text stand in the config of the whole, where its class reads them"
        notes.remark(text_of)
    else:
        notes.warning(
            "keys of the text stand in the config of the whole, while the class in "
            f"transformers {made.version} reads {keys.where(flat)} alone: they are read as "
            f"those of type {made.types[flat]!r}"
        )
    return notes.notes
