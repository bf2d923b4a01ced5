"""Plans of configs whose code is that of their authors: what rests on a class that does not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from posenc._core.errors import PosencError
from posenc._core.reading import Layer, Source
from posenc.detect.explain.config.modelling_file import Modelling
from posenc.detect.explain.config.parts import HEAD_COUNTS
from posenc.detect.explain.config.unread_keys import unread
from posenc.detect.explain.config.view import Keys
from posenc.detect.explain.layers.non_rotary import applies
from posenc.detect.explain.notes import Notes
from posenc.encodings.bias.alibi import ALiBi
from posenc.presets.families import Family, class_parts

KINDS = {"rotary": "a rotation", "table": "a table"}
# Words of keys that ask for a kind by themselves.
WORDS = {"ALiBi": "alibi", "bias": "relative", "relative": "relative"}
SAID = ("ALiBi", *KINDS.values())


def by_file(
    keys: Keys, row: Family, entries: list[Layer], file: Modelling, notes: Notes
) -> list[Layer]:
    """The entries of a part that rest on its keys, or on what the file of its authors says.

    An entry that rests on what the class of transformers would take for keys that are left out is
    an error, as that class does not run.
    """
    biased = any(isinstance(entry.spec, ALiBi) for entry in entries)
    if file.says == ("ALiBi",) and not biased and not any(e.kind == "rotary" for e in entries):
        return _alibi(keys, file, notes)
    conditions = [rule["when"] for rule in row.entries if "when" in rule and applies(keys, rule)]
    asked = [one for when in conditions for one in (when if isinstance(when, list) else [when])]
    by_key = any(keys.data.get(one["key"]) is not None for one in asked) and not unread(keys)
    kept = []
    for entry in entries:
        kind = "ALiBi" if isinstance(entry.spec, ALiBi) else KINDS.get(entry.kind, entry.kind)
        left = sorted({s.field for s in entry.sources if s.origin == "class"})
        settled = by_key or file.says == (kind,) or _spelled(keys, WORDS.get(kind, ""))
        if entry.kind != "rotary" and not settled:
            left.append("the kind of encoding")
        if len(file.says) == 1 and file.says != (kind,) and kind in SAID:
            notes.error(
                f"auto_map names {file.name}, whose code has {file.says[0]}, while the config and "
                f"the row of its type have {kind}: see what the code does"
            )
        elif left:
            notes.error(
                f"{keys.where('auto_map')} names {file.name}, whose code runs instead of the class "
                f"in transformers {class_parts(None).version}, and the config leaves out "
                f"{', '.join(left)}, which only that class would settle. See {file.name} "
                f"({file.found})"
            )
        else:
            kept.append(_named(entry, file) if file.says == (kind,) else entry)
    return kept


def _spelled(keys: Keys, word: str) -> bool:
    """Whether a key of the config, or of a dictionary in it, asks for a kind by its name."""
    inner = [value for value in keys.data.values() if isinstance(value, Mapping)]
    pairs = [pair for one in (keys.data, *inner) for pair in one.items()]
    return bool(word) and any(word in str(key) and value for key, value in pairs)


def _named(entry: Layer, file: Modelling) -> Layer:
    """An entry whose kind the file says too."""
    return replace(entry, sources=(*entry.sources, Source("kind", origin="file", where=file.name)))


def _alibi(keys: Keys, file: Modelling, notes: Notes) -> list[Layer]:
    """The entry of a file that has slopes, and neither a table nor a rotation."""
    heads = keys.first(HEAD_COUNTS)
    if heads is None:
        notes.error(
            f"{file.name} has ALiBi, and the config counts no heads: {HEAD_COUNTS[0]} is missing"
        )
        return []
    for key in unread(keys):
        keys.get(key)  # of the code, whose slopes are those of any length
    try:
        spec = ALiBi(heads=heads[1])  # type: ignore[arg-type]
    except PosencError as error:
        notes.error(f"{keys.where(heads[0])}: {error}")
        return []
    notes.warning(
        f"{file.name}, which auto_map names, was read as text: it has ALiBi, and no table and no "
        "rotation; that its slopes are those of the paper was not looked at"
    )
    fields = (("kind", "file", file.name), ("heads", "config", keys.where(heads[0])))
    sources = tuple(Source(field, origin=origin, where=at) for field, origin, at in fields)  # type: ignore[arg-type]
    return [Layer(notes.layer or "attention", spec=spec, sources=sources)]
