"""The kinds of rows of GGUF files, of engines, and of what tools write of classes."""

from typing import Annotated, Any, Literal, Required, TypedDict

from posenc.presets.row_types import CommonRule

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


# --- engines --------------------------------------------------------------------------------------
EngineRule = TypedDict(
    "EngineRule",
    {
        "follows": Annotated[str, "the rule whose formulas give the engine's numbers"],
        "reads": Annotated[list[str], "keys that it reads for them"],
        "passes": Annotated[list[str], "keys that were tried and change nothing"],
        "needs": Annotated[list[str], "keys without which it stops"],
        "unlike": Annotated[list[str], "keys with which no rule of ours gives its numbers"],
        "integers": Annotated[list[str], "keys whose numbers it cuts to whole ones"],
        "stops": Annotated[str, "what it raises for the rule"],
        "kinds": Annotated[dict[str, Any], "such a row for each kind of layers, where they differ"],
    },
    total=False,
)
EngineFamily = TypedDict(
    "EngineFamily",
    {
        "sources": Required[
            Annotated[dict[str, str], "types of models, with the class that was run; all if empty"]
        ],
        "rules": Annotated[dict[str, int], "the row of each rule that is known, by its number"],
        "as_transformers": Annotated[bool, "it runs the class of transformers"],
        "absent": Annotated[
            dict[str, Any],
            "what it takes for a key that a config lacks, where posenc's row differs",
        ],
    },
    total=False,
)
Since = TypedDict(
    "Since",
    {
        "keys": Annotated[list[str], "the keys"],
        "except_types": Annotated[list[str], "types of models that read them in every release"],
        "text": Annotated[str, "what to say of them"],
    },
)
Scores = TypedDict(
    "Scores",
    {
        "config_key": Annotated[str, "a key that such models have"],
        "model_types": Annotated[list[str], "their types"],
        "source": Annotated[str, "where that was read"],
    },
)
Engine = TypedDict(
    "Engine",
    {
        "release": Required[Annotated[str, "whose code was run"]],
        "source": Required[Annotated[str, "how"]],
        "since": Annotated[Since, "keys that other releases of an engine read otherwise"],
        "scores": Annotated[Scores, "models whose scores a scaling changes too"],
        "draft": Annotated[str, "what becomes of a rule in the draft model of speculation"],
        "windows": Annotated[
            dict[str, int | Literal["none"]],
            "type of model -> what its windows have more than those of the config, or none of any "
            "size, as attentions get them",
        ],
        "scales": Annotated[
            list[str], "types of models whose softmax scale grows with a scaling as ours does"
        ],
        "rules": Required[Annotated[list[EngineRule], "what becomes of a rule, each once"]],
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
