"""Which layers see only the keys near the query, and how near, by what their class reads."""

from __future__ import annotations

from typing import Any

from posenc._core.reading import Layer
from posenc.detect.explain.config.view import Keys
from posenc.detect.explain.layers.groups import LIMITED
from posenc.detect.explain.layers.types import (
    GLOBAL,
    LOCAL,
    OTHER,
    TYPE_KEYS,
    layer_count,
    types_of,
)
from posenc.detect.explain.notes import Notes
from posenc.presets.families import ClassDefaults, ClassWindows, class_windows

KEY, SWITCH, START = "sliding_window", "use_sliding_window", "max_window_layers"
Windows = tuple[tuple[int | None, tuple[int, ...] | None], ...]


def with_windows(
    keys: Keys, called: str | None, known: ClassDefaults | None, entries: list[Layer], notes: Notes
) -> list[Layer]:
    """The entries of a part, each with what its layers see, as far as the class is known."""
    row, stated, where = class_windows(called), keys.data.get(KEY), keys.where(KEY)
    told = f"{where}={stated!r} is in the config"
    if row is None or row.how == "none":
        if row is None and stated and keys.data.get(SWITCH, True):
            notes.warning(f"{told}; whether the class reads it is not known here")
        elif stated is not None and row is not None:
            notes.remark(f"{told}; the class in transformers {row.version} does not read it")
        return entries
    size = row.size if KEY not in keys.data else stated
    if row.switch is not None and not keys.data.get(SWITCH, row.switch):
        size = None
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        notes.warning(f"{where}={repr(size)[:80]} is no number of keys: no window was read")
        return entries
    other = [key for key in row.unless if keys.data.get(key)]
    if size is not None and other:
        changed = " and ".join(map(keys.where, other))
        notes.warning(f"{where}={size}: what it means beside {changed} is not known here")
        return entries
    count = layer_count(keys)
    types = None if size is None else _types(keys, row, known, count)
    made = [entry.replace(windows=_windows(entry, size, types, row.how)) for entry in entries]
    if size is not None and any(_attends(entry) and not entry.windows for entry in made):
        notes.warning(f"{where}={size}: which layers have the window is not known here")
    return made


def _types(
    keys: Keys, row: ClassWindows, known: ClassDefaults | None, count: int
) -> list[str] | None:
    """The type of each layer, as the class makes them where the file lists none."""
    listed = any(keys.data.get(key) for key in TYPE_KEYS)
    if (row.listed if listed and row.listed else row.how) == "all":
        return [LOCAL] * count if count else [LOCAL]
    if not listed and row.start is not None:
        start = keys.integer(START) if START in keys.data else row.start
        return None if start is None else [LOCAL if i >= start else GLOBAL for i in range(count)]
    if not listed and row.type:
        return [row.type] * count
    rule: dict[str, Any] = {"class": known, "nope": {"types": (LOCAL,)}}
    return types_of(keys, rule, Notes(""))


def type_of(name: str) -> str:
    """The type of layer that an entry is named after."""
    return name.partition(":")[0].rpartition(".")[2].partition(",")[0]


def _attends(entry: Layer) -> bool:
    attends = entry.kind not in ("table", "convolution") and type_of(entry.layer) not in OTHER
    return attends and not entry.attention


def _windows(entry: Layer, size: int | None, types: list[str] | None, how: str) -> Windows:
    """What the layers of an entry see; empty where that is not known."""
    if not _attends(entry):
        return ()
    if size is None:
        return ((None, None),)
    own = range(len(types or ())) if entry.indices is None else entry.indices
    if not types or any(index >= len(types) for index in own):
        sizes = {LOCAL: size, GLOBAL: None}
        kind = LOCAL if how == "all" else type_of(entry.layer)
        return ((sizes[kind], None),) if kind in sizes else ()
    if any(types[index] not in (LOCAL, GLOBAL) for index in own):
        return ()
    near = tuple(index for index in own if types[index] == LOCAL)
    far = tuple(index for index in own if types[index] != LOCAL)
    if not near or not far:
        return ((size if near else None, None),)
    return tuple(sorted(((size, near), (None, far)), key=lambda pair: pair[1]))


def has_window(entry: Layer) -> bool:
    """Whether no layer of an entry sees the whole sequence."""
    if entry.windows:
        return all(size is not None for size, _ in entry.windows)
    return type_of(entry.layer) in LIMITED


def window_words(size: int | None) -> str:
    """What layers see, in words."""
    return "the whole sequence" if size is None else f"keys less than {size} positions away"
