"""The kinds of rows of the JSON files beside this one: every key with its type and its meaning.

`make check` holds the files against these types (`tools/check_rows.py`), and refuses a key that its
type lacks. `docs/rows.md` shows them as tables.

An expression is written in keys of the config: `image_size[0] // patch_size[0]`, or a number. Of
several, the first that has a value counts. A template is JSON in which an `Expression`, a
`ConfigNumber`, a `ConfigChoice` or `ConfigIntegers` stands for a value.
"""

from typing import Annotated, Any, Literal, Required, TypedDict

Expressions = list[str]

# --- what rows share ------------------------------------------------------------------------------
SourceRow = TypedDict(
    "SourceRow",
    {
        "symbol": Required[Annotated[str, "the class or function, or the section of a paper"]],
        "repository": Annotated[str, "on GitHub, `owner/name`"],
        "path": Annotated[str, "of the file in it"],
        "version": Annotated[str, "a release or commit, where the source has one"],
        "paper": Annotated[str, "in place of a repository"],
    },
    total=False,
)
Recognise = TypedDict(
    "Recognise",
    {
        "model_types": Required[Annotated[list[str], "as configs spell them"]],
        "classes": Annotated[list[str], "as modules are called"],
    },
    total=False,
)
Expression = TypedDict(
    "Expression",
    {
        "expression": Annotated[str, "integers, names of sizes, `+ - * //` and parentheses"],
    },
)
ConfigNumber = TypedDict(
    "ConfigNumber",
    {
        "key": Required[Annotated[str | Expressions, "the expressions that give it"]],
        "default": Annotated[float | None, "where none has a value"],
        "add": Annotated[float, "what is added to either"],
    },
    total=False,
)
ConfigChoice = TypedDict(
    "ConfigChoice",
    {
        "match": Required[Annotated[str, "the key that holds the word"]],
        "cases": Required[
            Annotated[dict[str, Any], "the value of each word, `c2p|p2c` for a list"]
        ],
        "absent": Annotated[Any, "the value where the key is not there"],
        "otherwise": Annotated[Any, "the value for any other word"],
    },
    total=False,
)
ConfigIntegers = TypedDict(
    "ConfigIntegers",
    {
        "integers": Annotated[str, "the key of the list"],
    },
)
When = TypedDict(
    "When",
    {
        "key": Required[Annotated[str, "the key"]],
        "one_of": Annotated[list[Any], "it holds where the value is one of these"],
        "none_of": Annotated[list[Any], "it holds where the value is none of these"],
        "contains": Annotated[list[str], "it holds where a list has all of these words"],
        "excludes": Annotated[str, "it holds where a list lacks this word"],
        "absent": Annotated[bool, "whether it holds where the key is not there"],
    },
    total=False,
)

# --- presets and plans ----------------------------------------------------------------------------
Builder = TypedDict(
    "Builder",
    {
        "builder": Annotated[str, "a function of `posenc.positions`"],
        "takes": Annotated[str, "what it takes from the caller, in words"],
        "arguments": Annotated[dict[str, Any], "what the family gives it"],
    },
)
PlanEntry = TypedDict(
    "PlanEntry",
    {
        "name": Required[Annotated[str, "which the pattern repeats"]],
        "specs": Annotated[list[dict[str, Any]], "what its layers turn or add by"],
        "convolution": Annotated[str, "what stands for positions"],
        "window": Annotated[Expression | int, "keys that a query sees"],
        "share": Annotated[str, "who shares its parameters"],
        "scale": Annotated[float, "what scores are multiplied by"],
        "temperature": Annotated[dict[str, Any], "the JSON of a `Temperature`"],
    },
    total=False,
)

# --- rules of families: configs of transformers, headers of GGUF files ----------------------------
CommonRule = TypedDict(
    "CommonRule",
    {
        "name": Annotated[str, "of the entry"],
        "when": Annotated[When | list[When], "conditions, all of which hold"],
        "source": Annotated[
            list[str], "where the convention was read: `file: symbol` of the package"
        ],
        "note": Annotated[str, "a remark on this rule alone, such as where it was read"],
        "warning": Annotated[str, "a sentence that goes with the entry, such as one on other code"],
        "partial_because": Annotated[str, "what the code does about positions that no entry says"],
        "ignored_keys": Annotated[list[str], "keys of the config without a meaning for its plan"],
        "own_positions": Annotated[bool, "of the first rule: it is of the whole, beside its parts"],
        "positions": Annotated[
            dict[str, Any] | None,
            "a template of the arguments of a `builder` of `posenc.positions`, beside those of the "
            "preset; null where it is not known how positions are made",
        ],
    },
    total=False,
)
NoRope = TypedDict(
    "NoRope",
    {
        "types": Annotated[list[str], "layers of these types"],
        "only_if": Annotated[str, "the key without which layers of these types turn, too"],
        "indices": Annotated[str, "the key of a list of those layers"],
        "blocks": Annotated[str, "the key of a list of a dictionary for each layer"],
        "block_part": Annotated[str, "the key of the attention in such a dictionary"],
        "block_flags": Annotated[
            list[str], "keys in that, of which a true one leaves the layer out"
        ],
        "flags": Annotated[str, "the key of a list that is false for those layers"],
        "interval": Annotated[str, "the key of n: each nth layer"],
        "default_interval": Annotated[int, "n, where nothing is stated"],
    },
    total=False,
)
ByLayer = TypedDict(
    "ByLayer",
    {
        "key": Annotated[str, "the key of the list; `part.key` in a dictionary"],
        "cases": Annotated[dict[str, str], "the type for each word"],
    },
)
ScaledTypes = TypedDict(
    "ScaledTypes",
    {
        "key": Annotated[str, "the key of their list"],
        "absent": Annotated[list[str], "those where it is not there"],
    },
)
Sections = TypedDict(
    "Sections",
    {
        "keys": Annotated[list[str], "the keys that may hold them"],
        "default": Annotated[list[int], "what they are where none does"],
    },
)
GrowingScores = TypedDict(
    "GrowingScores",
    {
        "rule": Required[Annotated[str, "of `Temperature`"]],
        "length": Required[Annotated[str | int, "where it begins"]],
        "strength": Annotated[str | float, "how fast it grows"],
        "start": Annotated[str | int, "what is added to positions"],
        "layers": Required[Annotated[Literal["with_rope", "without_rope"], "which it is of"]],
        "only_if": Annotated[str, "the key that turns it on"],
    },
    total=False,
)
InnerLayers = TypedDict(
    "InnerLayers",
    {
        "flags": Required[Annotated[list[str], "keys of lists with a word for each layer"]],
        "flagged": Annotated[list[Any], "the words of those layers"],
        "indices": Annotated[str, "the key of a list of those layers"],
        "every": Annotated[str, "the key of n: each nth layer"],
        "start": Annotated[str, "the key of the layer from which they are counted"],
        "default_every": Annotated[int, "n, where nothing is stated"],
        "default_start": Annotated[int, "the first layer, where nothing is stated"],
        "start_offset": Annotated[int, "what is taken off the first layer"],
    },
    total=False,
)
InnerAttention = TypedDict(
    "InnerAttention",
    {
        "name": Required[Annotated[str, "of the attention"]],
        "rotary": Required[Annotated[str | ConfigChoice, "a preset"]],
        "head_size": Required[Annotated[Expressions, "how wide its heads are"]],
        "head_count": Required[Annotated[Expressions, "how many it has"]],
        "types": Annotated[list[str], "types of the layers that have it"],
        "layers": Annotated[
            InnerLayers,
            "which layers have an attention inside, by the first of these that is there",
        ],
        "when": Annotated[When, "a condition on a key of the config"],
    },
    total=False,
)
_RotaryRule = TypedDict(
    "_RotaryRule",
    {
        "rotary": Required[
            Annotated[str | ConfigChoice, "the preset with pairing and what no config states"]
        ],
        "base": Annotated[float, "fixed in the code of the family"],
        "base_keys": Annotated[Expressions, "in place of the usual spellings of `rope_theta`"],
        "base_keys_by_type": Annotated[dict[str, list[str]], "the same for types of layers"],
        "adds": Annotated[
            dict[str, dict[str, Any]],
            "what code without a class in transformers takes for keys of rotary parameters that "
            "are left out, by the rule",
        ],
        "author_code_keys": Annotated[
            list[str], "keys of the base that only its authors' code reads"
        ],
        "head_dim": Annotated[
            Expressions, "the width of what may turn, in place of the usual ones"
        ],
        "head_dim_by_type": Annotated[dict[str, Expressions], "the same for types of layers"],
        "head_dim_equals": Annotated[Expressions, "numbers from which that width may not differ"],
        "rotary_dim_keys": Annotated[list[str], "further keys of the width that turns"],
        "partial_rotary_factor": Annotated[
            float, "the share of a head that turns, whatever is stated"
        ],
        "partial_rotary_factor_keys": Annotated[
            list[str], "in place of the usual keys of that share"
        ],
        "partial_rotary_factor_lists": Annotated[list[str], "keys with a share for each layer"],
        "partial_rotary_factor_required": Annotated[
            bool, "whether the config must state that share"
        ],
        "max_partial_rotary_factor": Annotated[float, "the largest share that fits; 1"],
        "rope_parameters_names": Annotated[
            dict[str, str], "name in `rope_parameters`, by type of layer"
        ],
        "layer_types_from": Annotated[ByLayer, "types of layers where no list names them"],
        "full_attention_every": Annotated[
            str, "the key of n: the first of n layers is of full attention"
        ],
        "no_rope": Annotated[
            NoRope, "which layers of a rotary rule do not turn, by the first of these that is there"
        ],
        "scaled_layer_types": Annotated[ScaledTypes, "types of layers that the scaling reaches"],
        "scaled_layers": Annotated[str, "the key of a list of layers that the scaling reaches"],
        "mrope_section": Annotated[Sections, "sizes of the sections of several axes"],
        "temperature": Annotated[
            GrowingScores,
            "a factor on scores that grows with the position: fields of `Temperature`, or keys",
        ],
        "attentions": Annotated[
            list[InnerAttention], "an attention inside a layer, such as an indexer"
        ],
    },
    total=False,
)


class RotaryRule(_RotaryRule, CommonRule, total=False):
    """Queries and keys turn."""
