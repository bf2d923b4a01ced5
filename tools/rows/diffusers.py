"""The kinds of rows of diffusers: its transformers, how they place a scene, and its VAEs.

A row of a transformer says in one line what the class turns and in another where tokens stand; a
plan of it is built as that of any other family. Numbers of the config stand in braces in the
expressions of `ScenePart`: `t * {patch_size_t}`; of several with a bar between them the first that
has a value counts.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from tools.rows.families import ConvolutionRule, NoPositionsRule, RefusedRule, SpecRule

from posenc.presets.row_types import CommonRule, Expressions, When

PlaceRow = TypedDict(
    "PlaceRow",
    {
        "coordinates": Required[
            Annotated[Expressions, "an expression for each axis, or one for all of them"]
        ],
        "multiple": Annotated[int, "the model pads the part to a multiple of so many tokens"],
        "after": Annotated[str, "`next` behind the part, where it is not the largest and one"],
    },
    total=False,
)
Places = dict[str, Expressions | PlaceRow]
_SceneKeys = TypedDict(
    "_SceneKeys",
    {
        "parts": Annotated[
            Places, "the parts of a scene in the order of the model; those without axes stand still"
        ],
        "order": Annotated[Literal["scene"], "the model keeps the order of the scene"],
        "facts": Annotated[
            dict[str, float | list[float] | None],
            "facts of the call by their names in `forward`, with what it takes for them",
        ],
        "needs": Annotated[list[str], "facts of the call without which there is no coordinate"],
        "ends": Annotated[
            int | str | list[Any],
            "rows of the table of the class: a number or an expression, a key of a list, or one "
            "for each axis",
        ],
        "patch": Annotated[
            str | Expressions,
            "latents in a token: of rows and columns, or of frames, rows and columns",
        ],
        "pipelines": Annotated[
            dict[str, Places], "parts that one pipeline alone has, by its class"
        ],
        "module": Annotated[str, "the attribute of the model that holds its rotary module"],
        "modules": Annotated[dict[str, str], "the same, by class"],
    },
    total=False,
)


class PresetNames(TypedDict):
    """The preset that a rule names; base and shares of the axes are the defaults of the class."""

    spec: Annotated[dict[str, Any], "the JSON of the spec without `dim`, as a template"]
    note: Annotated[str, "what the spec cannot say, in a sentence"]


class PresetRule(_SceneKeys, CommonRule, total=False):
    """The spec is that of a preset, with what the config says of it."""

    preset: Required[Annotated[str, "its name"]]
    names: Annotated[
        PresetNames, "the preset, where this rule is what it names: other rules may name it, too"
    ]
    width: Required[Annotated[str, "an expression of how many channels turn, or of a table's size"]]
    base: Annotated[float | str, "in place of that of the preset: a number or an expression"]
    axes: Annotated[list[str], "in place of those of the preset"]
    pairs: Annotated[
        str | list[Any], "of each axis: the key of a list of channels, or expressions of pairs"
    ]
    fields: Annotated[dict[str, Any], "a template of further fields"]


class PlacedSpecRule(_SceneKeys, SpecRule, total=False):
    """The spec is a template, and positions those of a scene."""


PartialRule = TypedDict(
    "PartialRule",
    {
        "name": Annotated[str, "of the entry"],
        "when": Annotated[When | list[When], "conditions, all of which hold"],
        "partial_because": Required[
            Annotated[str, "what the class does beside what other rules say, as no entry can"]
        ],
        "source": Annotated[list[str], "where it was read: `file: symbol`"],
    },
    total=False,
)
DiffusersRule = (
    PresetRule | PlacedSpecRule | ConvolutionRule | NoPositionsRule | RefusedRule | PartialRule
)
DiffusersRow = TypedDict(
    "DiffusersRow",
    {
        "classes": Required[Annotated[list[str], "as configs name them"]],
        "entries": Required[Annotated[list[DiffusersRule], "a rule for each encoding they have"]],
        "defaults": Annotated[dict[str, Any], "what the classes take for keys that are read"],
        "own": Annotated[dict[str, dict[str, Any]], "defaults of one of the classes, by its name"],
        "argument": Annotated[str, "of `forward`, by which the pipeline hands over the rotation"],
        "note": Annotated[str, "what a person should know, in a sentence"],
    },
    total=False,
)
VaeRow = TypedDict(
    "VaeRow",
    {
        "classes": Required[Annotated[list[str], "as configs name them"]],
        "space": Required[Annotated[str, "an expression of pixels in a row or column of latents"]],
        "time": Annotated[str, "an expression of frames of a film in a frame of latents"],
        "defaults": Annotated[dict[str, Any], "what the classes take for keys that are left out"],
    },
    total=False,
)
