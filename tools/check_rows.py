"""Hold every JSON file of `posenc.presets` against the types of its rows: `make check`."""

from __future__ import annotations

import functools
import json
import re
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from posenc._core.errors import bad_spec, suggest
from posenc.presets import PlanRow, Preset, row_types, row_types_gguf
from posenc.presets.families import ClassDefaults, ClassParts, ClassWindows, Packing, Reads

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.rows import diffusers, families, formats

FOLDER = Path(__file__).resolve().parents[1] / "src" / "posenc" / "presets"


class Classes(TypedDict):
    version: str
    reads: list[Reads]
    types: dict[str, ClassDefaults]
    parts: dict[str, ClassParts]


class Windows(TypedDict):
    version: str
    unread: list[str]
    types: dict[str, ClassWindows]


class Packed(TypedDict):
    model_types: list[str]
    modules: dict[str, Packing]
    note: str


class Projections(TypedDict):
    modules: dict[str, list[str]]
    cross: list[str]
    apart: list[str]
    inside: list[str]
    own_keys: list[str]
    families: list[Packed]


# What the files of a folder hold, by the first word of their names.
FILES: dict[str, dict[str, Any]] = {
    ".": dict.fromkeys(("tables", "fourier", "rotary", "grids", "learned"), list[Preset]),
    "layers": {"transformers": list[PlanRow]},
    "configs": {
        "transformers": list[families.TransformersFamily],
        "gguf": list[families.GgufFamily],
        "meanings": list[families.Meaning],
        "engines": dict[str, row_types_gguf.Engine],
        "projections": Projections,
        "classes": Classes,
        "windows": Windows,
        "formats": list[formats.FormatRow],
        "diffusers": list[diffusers.DiffusersRow],
        "vaes": list[diffusers.VaeRow],
    },
}


SHAPES: dict[Any, tuple[type, ...]] = {
    **dict.fromkeys((Mapping, dict), (dict,)),
    **dict.fromkeys((list, tuple, frozenset), (list, tuple)),
    float: (int, float),
}


def meaning(hint: Any) -> tuple[Any, str]:
    """The type of a key and the sentence that describes it; the sentence may follow another type.

    `Annotated[Mapping[str, Any], Builder, "how positions are made"]` is a `Builder` in JSON.
    """
    if get_origin(hint) is Required:
        return meaning(get_args(hint)[0])
    if get_origin(hint) is not Annotated:
        return hint, ""
    kind, *others, text = get_args(hint)
    return (*others, kind)[0], text


@functools.cache
def keys_of(row: type) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """The hint of each key of a row, and the keys that it must have; None for what is no row."""
    if not (hasattr(row, "_fields") or hasattr(row, "__total__")):
        return None
    hints = get_type_hints(row, include_extras=True)
    left_out: Mapping[str, Any] = getattr(row, "_field_defaults", {})
    whole = getattr(row, "__total__", True)
    return hints, frozenset(
        {k for k in hints if whole or get_origin(hints[k]) is Required} - left_out.keys()
    )


def check(hint: Any, value: Any, where: str) -> None:
    """Raise `SpecError` for a value of another type: where it stands, and what is allowed there."""
    kind = meaning(hint)[0]
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    kinds = tuple(one for one in kinds if _has_shape(value, one))
    rows = {row: keys for row in kinds if (keys := keys_of(row))}
    if not kinds:
        raise bad_spec(where, getattr(kind, "__name__", str(kind)), repr(value)[:80])
    if not rows:
        item = (*get_args(kinds[0])[isinstance(value, dict) :], Any)[0]
        lists = enumerate(value) if isinstance(value, (list, tuple)) else ()
        for place, inner in value.items() if isinstance(value, dict) else lists:
            check(item, inner, _at(where, place, inner))
        return
    meant = {row: keys for row, keys in rows.items() if keys[1] <= value.keys()}
    if not meant:
        needed = " or ".join(", ".join(sorted(required)) for _, required in rows.values())
        raise bad_spec(where, f"a row with {needed}", ", ".join(value) or "none")
    row, (hints, _) = min(meant.items(), key=lambda one: len(value.keys() - one[1][0].keys()))
    for key, inner in value.items():
        if key not in hints:
            raise bad_spec(where, f"a key of {row.__name__}", repr(key), suggest(key, hints))
        check(hints[key], inner, f"{where}: {key}")


def _has_shape(value: Any, kind: Any) -> bool:
    """Whether JSON writes a value as it writes those of a type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind is Any or type(value) in (
        (dict,) if keys_of(kind) else SHAPES.get(get_origin(kind) or kind, (kind,))
    )


def _at(where: str, place: object, row: Any) -> str:
    """Where an item stands, by what it is called rather than by its number."""
    names = (row.get("name"), *row.get("model_types", ())) if isinstance(row, dict) else ()
    return f"{where}: {next(filter(None, names), place)}"


def tables() -> str:
    """A table of the keys of each kind of row that people write."""
    lines = ["| kind | key | type | what it says |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *(row for kind in [Preset, PlanRow, *declared()] for row in table(kind))]
    )


def declared() -> list[type]:
    """The kinds of rows that are no classes of their own, those with bases after these."""
    modules = (row_types, row_types_gguf, families, diffusers, formats)
    kinds = {name: kind for module in modules for name, kind in vars(module).items()}
    return [
        kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and not name.startswith("_") and keys_of(kind)
    ]


def table(kind: type) -> list[str]:
    """The keys of a kind of row, with their types and what they mean."""
    hints, required = keys_of(kind) or ({}, ())
    lines = [f"| {kind.__name__} | | | {escaped(first_line(kind))} |"]
    for base in (families.LayersRule, row_types.CommonRule, families.FamilyRow):
        more = (keys_of(base) or ({},))[0]
        if kind is not base and more.keys() < hints.keys():
            lines.append(f"| {kind.__name__} | | | its keys are those of {base.__name__}, and |")
            hints = {key: hint for key, hint in hints.items() if key not in more}
    for key, hint in hints.items():
        shape, text = meaning(hint)
        name = f"**`{key}`**" if key in required else f"`{key}`"
        lines.append(f"| {kind.__name__} | {name} | {written(shape)} | {escaped(text)} |")
    return lines


def first_line(kind: type) -> str:
    """The first line of the docstring of a kind of row."""
    return (kind.__doc__ or "").partition("\n")[0]


def escaped(text: str) -> str:
    """A text in a cell of a table."""
    return text.replace("|", "\\|")


def written(shape: Any) -> str:
    """A type as people write it."""
    text = (
        shape.__name__ if isinstance(shape, type) and not hasattr(shape, "__args__") else str(shape)
    )
    short = re.sub(
        r"\b(typing|collections\.abc|posenc\.presets\.row_types(_gguf)?|tools\.rows\.\w+)\.",
        "",
        text,
    )
    return escaped(f"`{short}`")


def main() -> None:
    """Check each file; the first row that is wrong is an error that names it."""
    for file in sorted(FOLDER.rglob("*.json")):
        kind = FILES[str(file.parent.relative_to(FOLDER))][file.stem.partition("-")[0]]
        check(kind, json.loads(file.read_text("utf-8")), str(file.relative_to(FOLDER)))


if __name__ == "__main__":
    main()
