"""The kinds of rows of diffusers: its transformers, how they place a scene, and its VAEs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from posenc.presets.row_types import (
    ConvolutionRule,
    Expressions,
    NoPositionsRule,
    RefusedRule,
    SpecRule,
    TableRule,
)

PlaceRow = TypedDict(
    "PlaceRow",
    {
        "coordinates": Required[
            Annotated[
                Expressions,
                "an expression of `ScenePart` for each axis, with keys of the config in braces",
            ]
        ],
        "multiple": Annotated[int, "the model pads the part to a multiple of so many tokens"],
        "after": Annotated[str, "`next` behind the part, where it is not the largest and one"],
    },
    total=False,
)
Places = dict[str, Expressions | PlaceRow]
SceneRow = TypedDict(
    "SceneRow",
    {
        "parts": Required[Annotated[Places, "the parts of a scene in the order of the model"]],
        "order": Annotated[Literal["scene"], "the model keeps the order of the scene"],
        "facts": Annotated[
            dict[str, float | None], "facts of the call: what `forward` takes for them, or null"
        ],
        "ends": Annotated[list[Any], "rows of the table of the class, for each axis"],
        "patch": Annotated[
            Expressions, "frames, rows and columns of latents in a token, as expressions"
        ],
        "pipelines": Annotated[
            dict[str, Places], "parts that one pipeline alone has, by its class"
        ],
    },
    total=False,
)


class PlacedTableRule(TableRule, total=False):
    """The spec is that of a preset, and positions those of a scene."""

    scene: Annotated[SceneRow, "how positions are made"]


class PlacedSpecRule(SpecRule, total=False):
    """The spec is a template, and positions those of a scene."""

    scene: Annotated[SceneRow, "how positions are made"]


DiffusersRule = PlacedTableRule | PlacedSpecRule | ConvolutionRule | NoPositionsRule | RefusedRule
DiffusersClass = TypedDict(
    "DiffusersClass",
    {
        "defaults": Annotated[dict[str, Any], "what the class takes for keys that are read"],
        "module": Annotated[str, "the attribute that holds its rotary module"],
    },
    total=False,
)
DiffusersRow = TypedDict(
    "DiffusersRow",
    {
        "classes": Required[Annotated[dict[str, DiffusersClass], "as configs name them"]],
        "entries": Required[Annotated[list[DiffusersRule], "a rule for each encoding they have"]],
        "note": Annotated[str, "what a person should know, in a sentence"],
    },
    total=False,
)
VaeRow = TypedDict(
    "VaeRow",
    {
        "classes": Required[Annotated[list[str], "as configs name them"]],
        "space": Required[Annotated[Expressions, "pixels in a row or column of latents"]],
        "time": Annotated[Expressions, "frames of a film in a frame of latents; 1 by default"],
        "defaults": Annotated[dict[str, Any], "what the classes take for keys that are left out"],
    },
    total=False,
)
