"""The kinds of rows of GGUF files, of engines, and of what tools write of classes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from posenc.presets.row_types import AnyRule, CommonRule, FamilyRow

# --- GGUF files -----------------------------------------------------------------------------------

Windows = TypedDict(
    "Windows",
    {
        "present": Required[
            Annotated[
                Literal["window", "unless 0", "always", "listed"],
                "whether there are such: where the key is above 0, also where it is absent, "
                "always, or as a list says",
            ]
        ],
        "base": Required[
            Annotated[
                Literal["full", "stated", "own"],
                "theirs: that of the others; its own key or that; its own key or 10,000",
            ]
        ],
        "scaling": Required[
            Annotated[
                Literal["full", "none", "factor"],
                "theirs; `factor` where the frequencies alone go without",
            ]
        ],
        "every": Annotated[int, "n, where no key states a pattern: all but each nth layer"],
        "full_first": Annotated[bool, "whether the layer without a window is the first of the n"],
        "optional": Annotated[
            bool, "models without such layers are published, whose files lack the key"
        ],
        "name": Annotated[str, "of these layers, whose key holds no window"],
        "symmetric": Annotated[bool, "whether half of it lies before a query and half behind"],
    },
    total=False,
)
RopeLayers = TypedDict(
    "RopeLayers",
    {
        "by": Annotated[Literal["sliding"], "those with a window"],
        "leading": Annotated[str, "the key of a number of first layers that turn besides"],
        "flags": Annotated[str, "the key of a list that is true for those that turn"],
        "skip_every": Annotated[int, "n: all but one of n layers"],
        "skip_at": Annotated[int, "which of the n does not"],
        "only_without_windows": Annotated[bool, "where there are windows every layer turns"],
    },
    total=False,
)
GgufIndexer = TypedDict(
    "GgufIndexer",
    {
        "pairing": Required[Annotated[dict[str, str], "fields of the pairing by which it turns"]],
        "flags": Annotated[str, "the key of a list that is true for layers that have one"],
    },
    total=False,
)
LogMultiplier = TypedDict(
    "LogMultiplier",
    {
        "scale": Required[Annotated[float, "k by the number of the file"]],
        "mscale_too": Annotated[bool, "whether the numerator has the same k"],
        "scores": Annotated[bool, "whether scores are multiplied too"],
    },
    total=False,
)
GgufTemperature = TypedDict(
    "GgufTemperature",
    {
        "layers": Annotated[
            Literal["without_rope"], "those; the layers that turn where it is left out"
        ],
        "length": Annotated[int, "where it begins"],
        "lengths": Annotated[list[str], "keys of that"],
        "strength": Annotated[float, "how fast it grows; `attention.temperature_scale`"],
        "start": Annotated[int, "what is added to positions"],
    },
    total=False,
)
_GgufRotaryRule = TypedDict(
    "_GgufRotaryRule",
    {
        "rotary": Required[Annotated[str, "the preset"]],
        "permuted": Annotated[
            Literal["half"],
            "how the weights were paired before the converter of llama.cpp reordered the channels",
        ],
        "rotary_dim": Annotated[list[str], "keys of the width, in place of the format's"],
        "partial_rotary_factor": Annotated[
            float, "the share that turns in layers without a window"
        ],
        "fixed_base": Annotated[bool, "the base and scaling of the file are not read"],
        "ntk_alpha": Annotated[
            bool, "`rope.scaling.alpha` multiplies the base, raised to d / (d - 2)"
        ],
        "rope_freqs": Annotated[
            Literal["llama3", "full"],
            "a scaling may be kept as a tensor: for all layers, or for those without a window",
        ],
        "yarn_keys": Annotated[
            dict[str, float], "keys of YaRN that are read, with what they are if left"
        ],
        "yarn_log_multiplier": Annotated[
            LogMultiplier,
            "what `rope.scaling.yarn_log_multiplier` is, of m(k) = 0.1 k ln(factor) + 1",
        ],
        "mrope_section": Annotated[str, "the rule by which axes share the pairs"],
        "finetuned_switch": Annotated[bool, "`rope.scaling.finetuned` turns rotation off"],
        "full_attention_every": Annotated[
            int, "one layer of so many attends, where no key says so"
        ],
        "rope_layers": Annotated[RopeLayers, "which layers of a GGUF file turn"],
        "windows": Annotated[Windows, "layers of a GGUF file with a window"],
        "indexer": Annotated[GgufIndexer, "an indexer of a GGUF file"],
        "temperature": Annotated[
            GgufTemperature, "a factor on scores of a GGUF file that grows with the position"
        ],
    },
    total=False,
)


class GgufRotaryRule(_GgufRotaryRule, CommonRule, total=False):
    """Queries and keys turn, as llama.cpp computes it."""


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


# --- engines --------------------------------------------------------------------------------------
EngineFamily = TypedDict(
    "EngineFamily",
    {
        "model_types": Required[Annotated[list[str], "of which families; empty for all others"]],
        "source": Required[Annotated[str, "where that was read"]],
        "config_keys": Annotated[list[str], "keys of a config that decide for this row"],
        "rope_type": Annotated[str, "the rule that it follows, whatever is asked"],
        "default_rope_type": Annotated[str, "the rule that it follows for `default`"],
        "reads": Annotated[list[str], "keys that it reads, in place of those of the rule"],
        "integers": Annotated[list[str], "keys whose numbers it cuts to whole ones"],
        "as_transformers": Annotated[bool, "it runs the class of transformers"],
    },
    total=False,
)
Since = TypedDict(
    "Since",
    {
        "keys": Annotated[list[str], "the keys"],
        "text": Annotated[str, "what to say of them"],
    },
)
Engine = TypedDict(
    "Engine",
    {
        "release": Required[Annotated[str, "whose code was read"]],
        "source": Required[Annotated[str, "where"]],
        "always_read": Annotated[list[str], "keys that it reads for every rule"],
        "reads": Annotated[dict[str, list[str]], "keys that it reads, by the rule"],
        "since": Annotated[Since, "keys that other releases of an engine read otherwise"],
        "families": Required[
            Annotated[
                list[EngineFamily], "what an engine makes of the rotary parameters of some families"
            ]
        ],
    },
    total=False,
)

# --- classes of transformers: written by tools ----------------------------------------------------
LayerPattern = TypedDict(
    "LayerPattern",
    {
        "pattern": Required[Annotated[list[str], "which repeats; empty where it has none"]],
        "first": Annotated[list[str], "types before it"],
        "last": Annotated[str, "the type of the last layer"],
        "always_last": Annotated[str, "that type where the class has it whatever a file lists"],
        "no_rope": Annotated[
            list[str], "types that do not turn where `layer_rope_theta` is left out"
        ],
        "reversed": Annotated[bool, "whether the pattern begins at the last layer"],
        "period": Annotated[str, "the key of its length"],
        "depends_on": Annotated[list[str], "keys that change it"],
    },
    total=False,
)
TypeDefaults = TypedDict(
    "TypeDefaults",
    {
        "base": Required[Annotated[float, "the base"]],
        "share": Annotated[float, "the share of a head that turns"],
        "share_alone": Annotated[
            float, "that share where there is no dictionary of rotary parameters"
        ],
        "share_scaled": Annotated[float, "that share where a dictionary asks for a scaling"],
        "rope_type": Annotated[str, "the scaling where there is no dictionary"],
        "parameters": Annotated[dict[str, Any], "the dictionary that it takes where there is none"],
    },
    total=False,
)
