"""The kinds of rows of `configs/formats.json`: configs that are not of transformers."""

from __future__ import annotations

from typing import Annotated, Any, Required, TypedDict

from tools.rows.families import AnyRule

from posenc.presets.row_types import RotaryRule, SourceRow, When

Names = list[str]

Writes = TypedDict(
    "Writes",
    {
        "when": Annotated[When | list[When], "conditions on keys of the file, all of which hold"],
        "write": Required[
            Annotated[dict[str, Any], "a template of keys of transformers, in keys of the file"]
        ],
        "warning": Annotated[str, "what a reader should know where it holds"],
    },
    total=False,
)
Variant = TypedDict(
    "Variant",
    {
        "names": Annotated[Names, "words of the file"],
        "write": Annotated[dict[str, Any], "what they stand for, in keys of transformers"],
    },
)
Variants = TypedDict(
    "Variants",
    {
        "key": Annotated[str, "the key of the file that holds the word"],
        "cases": Annotated[list[Variant], "what the code has for each"],
    },
)
FormatRow = TypedDict(
    "FormatRow",
    {
        "name": Required[Annotated[str, "in code and on the command line"]],
        "title": Required[Annotated[str, "what the file is, for people"]],
        "source": Required[Annotated[list[SourceRow], "the code that reads such a file"]],
        "parts": Annotated[Names, "where in the file its keys may lie: `model.model_config`"],
        "all": Required[Annotated[Names, "keys that every such file has; `a|b` is either"]],
        "none": Annotated[Names, "keys that no such file has"],
        "when": Annotated[When | list[When], "what else holds of its keys"],
        "names": Annotated[dict[str, Names], "its spellings of a key of transformers"],
        "defaults": Annotated[
            dict[str, Any], "what its code takes for what is left out, in keys of transformers"
        ],
        "writes": Annotated[list[Writes], "keys of transformers that several keys make"],
        "variants": Annotated[Variants, "numbers that a word of the file stands for"],
        "silent": Annotated[Names, "keys that speak of positions and change no number"],
        "entries": Required[Annotated[list[RotaryRule | AnyRule], "rules of what it does"]],
        "family": Annotated[str, "the model_type that says most of this in transformers"],
        "written": Annotated[
            dict[str, dict[str, Any]],
            "keys that a config written in it has besides, by pairing; none where none is written",
        ],
        "windows": Annotated[str, "which layers `sliding_window` is of: `all`, or `types`"],
    },
    total=False,
)
