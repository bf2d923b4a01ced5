"""The kinds of rows of families that say more than how queries and keys turn."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from posenc.presets.row_types import CommonRule, ConfigNumber, Expressions, RotaryRule
from posenc.presets.row_types_gguf import GgufRotaryRule

Called = TypedDict(
    "Called",
    {
        "key": Annotated[str, "the key of a list with a word for each layer"],
        "word": Annotated[str, "theirs"],
    },
)
_LayersRule = TypedDict(
    "_LayersRule",
    {
        "stages": Annotated[
            str, "the key of a list of depths: an entry for each, whose number is `i`"
        ],
        "layers_in": Annotated[str, "the key of a list of those layers"],
        "layers_not_in": Annotated[str, "the key of a list of the other layers"],
        "layer_count": Annotated[Expressions, "how many layers there are, for either list"],
        "layers_called": Annotated[Called, "layers that a list calls by a word"],
        "length": Annotated[Expressions, "the number of positions"],
        "scale": Annotated[
            float | ConfigNumber,
            "what scores are multiplied by, where the spec does not say it",
        ],
    },
    total=False,
)


class LayersRule(_LayersRule, CommonRule, total=False):
    """Which layers a rule without rotation is of."""


_TableRule = TypedDict(
    "_TableRule",
    {
        "table": Required[Annotated[str, "the preset"]],
        "width": Required[Annotated[Expressions, "its size"]],
        "fields": Annotated[dict[str, Any], "a template of further fields"],
    },
    total=False,
)


class TableRule(_TableRule, LayersRule, total=False):
    """The spec is that of a preset."""


class SpecRule(LayersRule, total=False):
    """The spec is a template: constants, and what the config says."""

    spec: Required[Annotated[dict[str, Any], "the template"]]


class ConvolutionRule(LayersRule, total=False):
    """A convolution stands for positions."""

    convolution: Required[
        Annotated[
            str | list[str],
            "what it is, with expressions in braces; the first of which all have a value",
        ]
    ]


class NoPositionsRule(LayersRule, total=False):
    """There are no positions."""

    no_positions: Required[Annotated[Literal[True], "that there are none"]]


class RefusedRule(CommonRule, total=False):
    """Nothing here can say what the code does."""

    refused_because: Required[Annotated[str, "the reason"]]


class UnknownRule(CommonRule, total=False):
    """The config does not say what the model is."""

    unknown_because: Required[Annotated[str, "the reason"]]


Meaning = TypedDict(
    "Meaning",
    {
        "keys": Required[Annotated[list[str], "keys of configs that no entry of a plan can say"]],
        "means": Required[Annotated[str, "what they mean, in a sentence"]],
        "in_rope_parameters": Annotated[bool, "whether they stand among the rotary parameters"],
    },
    total=False,
)
FamilyRow = TypedDict(
    "FamilyRow",
    {
        "model_types": Required[Annotated[list[str], "how configs name the family, exactly"]],
        "note": Annotated[str, "what a person should know, in a sentence"],
    },
    total=False,
)
AnyRule = TableRule | SpecRule | ConvolutionRule | NoPositionsRule | RefusedRule | UnknownRule
_TransformersFamily = TypedDict(
    "_TransformersFamily",
    {
        "entries": Required[
            Annotated[list[RotaryRule | AnyRule], "a rule for each encoding it has"]
        ],
        "parts": Annotated[
            dict[str, str], "the family of a sub-config, by its key, whatever it says"
        ],
    },
    total=False,
)


class TransformersFamily(_TransformersFamily, FamilyRow, total=False):
    """A family of configs: `configs/transformers*.json`."""


_GgufFamily = TypedDict(
    "_GgufFamily",
    {
        "entries": Required[
            Annotated[list[GgufRotaryRule | AnyRule], "the first that holds counts"]
        ],
    },
    total=False,
)


class GgufFamily(_GgufFamily, FamilyRow, total=False):
    """An architecture of GGUF files: `configs/gguf.json`."""
