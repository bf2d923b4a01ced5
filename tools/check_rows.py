"""Hold every JSON file of `posenc.presets` against the types of its rows: `make check`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypedDict

from posenc.presets import (
    PlanRow,
    Preset,
    row_types,
    row_types_diffusers,
    row_types_formats,
    row_types_gguf,
)
from posenc.presets._rows import check, keys_of, meaning
from posenc.presets.families import ClassDefaults, ClassParts, ClassWindows, Packing, Reads

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
    families: list[Packed]


# What the files of a folder hold, by the first word of their names.
FILES: dict[str, dict[str, Any]] = {
    ".": dict.fromkeys(("tables", "fourier", "rotary", "grids", "learned"), list[Preset]),
    "layers": {"transformers": list[PlanRow]},
    "configs": {
        "transformers": list[row_types.TransformersFamily],
        "gguf": list[row_types_gguf.GgufFamily],
        "meanings": list[row_types.Meaning],
        "engines": dict[str, row_types_gguf.Engine],
        "projections": Projections,
        "classes": Classes,
        "windows": Windows,
        "formats": list[row_types_formats.FormatRow],
        "diffusers": list[row_types_diffusers.DiffusersRow],
        "vaes": list[row_types_diffusers.VaeRow],
    },
}


def tables() -> str:
    """A table of the keys of each kind of row that people write."""
    lines = ["| kind | key | type | what it says |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *(row for kind in [Preset, PlanRow, *declared()] for row in table(kind))]
    )


def declared() -> list[type]:
    """The kinds of rows that are no classes of their own, those with bases after these."""
    modules = (row_types, row_types_gguf, row_types_diffusers, row_types_formats)
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
    for base in (row_types.LayersRule, row_types.CommonRule, row_types.FamilyRow):
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
    short = re.sub(r"\b(typing|collections\.abc|posenc\.presets\.row_types(_gguf)?)\.", "", text)
    return escaped(f"`{short}`")


def main() -> None:
    """Check each file; the first row that is wrong is an error that names it."""
    for file in sorted(FOLDER.rglob("*.json")):
        kind = FILES[str(file.parent.relative_to(FOLDER))][file.stem.partition("-")[0]]
        check(kind, json.loads(file.read_text("utf-8")), str(file.relative_to(FOLDER)))


if __name__ == "__main__":
    main()
