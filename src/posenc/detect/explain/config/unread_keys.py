"""Keys that a file states and the class of its model type passes over.

A config has many spellings of one quantity, and a class reads one or two of them; the rule of a
class may leave out what others read, such as the share of a head that turns. What classes read is
data, measured by `tools/models/class_reads.py`. A plan follows the class, and says which key it
left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from posenc import presets
from posenc._core.errors import closest, mismatch
from posenc._core.io.yaml_text import Unclear
from posenc.detect.explain.config.view import (
    ABSOLUTE,
    BASES,
    COUNT_KEYS,
    DICTIONARIES,
    FRACTIONS,
    LENGTHS,
    LOCAL_BASES,
    NAMES,
    THETA_KEYS,
    TRAINED,
    WIDTHS,
    Keys,
    Notes,
    is_length,
    is_number,
)
from posenc.detect.explain.layers.non_rotary import words
from posenc.detect.explain.rotary.scaling_rules import READ
from posenc.presets.families import (
    NO_CLASS,
    ClassDefaults,
    ClassParts,
    ReadRule,
    Reads,
    class_parts,
    families,
    family,
    meanings,
)

BESIDE = "^"  # of keys outside a dictionary
HEADS = ("head_dim", "kv_channels")
# What of an entry a key says as it is.
FIELDS = {
    **dict.fromkeys((*BASES, *THETA_KEYS), "base"),
    **dict.fromkeys(ABSOLUTE, "width"),
    **dict.fromkeys(HEADS, "head"),
}
# Beyond these no key of a config means anything, and arithmetic overflows.
SMALLEST, LARGEST = 1e-30, 1e30
EXPECTED = f"0, or a number from {SMALLEST:g} to {LARGEST:g}, of either sign"
# Counts of layers and heads, lengths, and widths.
WHOLE = {*COUNT_KEYS, *TRAINED, *NAMES.findall(" ".join(WIDTHS))}
SPELLINGS = (*BASES, *LOCAL_BASES, *FRACTIONS, *ABSOLUTE, *NAMES.findall(" ".join(WIDTHS)))

# Words in the names of keys that concern positions: such a key is read, or reported.
WORDS = (
    "rope",
    "rotary",
    "theta",
    "alibi",
    "position_embedding_type",
    "relative_attention",
    "yarn",
    "fope",
    "ntk",
    "logn",
    "pos_emb",
    "posemb",
    "positional",
    "abs_pos",
    "rel_pos",
    "relative_bias",
    "sinusoid",
    "nope",
    "index_head_dim",
    "indexer_head_dim",
)
# Keys that name a part which has a file of its own.
TOWERS = ("mm_vision_tower", "mm_audio_tower", "mm_speech_tower")
# Keys with one of those words that say nothing of angles or biases.
SILENT = (
    "rope_interleave",
    "no_rope_layer_interval",
    "rope_feat_sizes",
    "dropout",
    "nope_head_dim",  # channels that do not turn: those that do are stated beside it
    "pos_embed_rescale",  # of coordinates, in training alone
    "num_conv_pos_embedding",  # of a convolution that other keys turn on
)


class Sizes(NamedTuple):
    """What an entry turns by: a base, and so many channels of a head."""

    base: float | None
    head: int | None
    width: int | None


def outside(keys: Keys, rule: ReadRule, notes: Notes) -> tuple[Keys, ReadRule]:
    """A config without the keys that its class passes over, but for those that the row names.

    A file that says in other words alone how wide a head is was written for other code: it is read
    as a whole, by the rule without the class.
    """
    known: ClassDefaults = rule["class"]
    if known.reads is None:
        return keys, rule
    named = {name for word in words(rule) for name in NAMES.findall(word)}
    named |= {BASES[0]} & {*known.reach}
    hidden = {*SPELLINGS, *known.ignores} - known.reads.keys - named
    shown = keys.without(hidden, hidden.intersection((*FRACTIONS, *ABSOLUTE)))
    wide = "head_dim" in rule or any(shown.evaluate(one) is not None for one in WIDTHS)
    other = next((one for one in WIDTHS if not wide and keys.evaluate(one) is not None), None)
    if other is None:
        return shown, rule
    notes.warning(
        f"{keys.where(other)} is not read by the class in transformers {known.version}, and no key "
        "that it reads says how wide a head is: the file was written for other code, and the plan "
        "is that of all its keys"
    )
    return keys, {**rule, "class": NO_CLASS}


def left_out(keys: Keys, known: ClassDefaults, notes: Notes) -> dict[str, Any]:
    """What a class takes for keys that are not stated; those that are get its own names as well."""
    named = {key: alias for alias, key in known.aliases.items() if alias in keys.data}
    stated = {key: keys.data[alias] for key, alias in named.items()}
    for key in (key for key in named if keys.data.get(key, stated[key]) != stated[key]):
        notes.warning(
            f"{keys.where(key)}={repr(keys.data[key])[:80]} is not read by the class in "
            f"transformers {known.version}, which takes {named[key]}={repr(stated[key])[:80]}"
        )
    keys.data = {**keys.data, **stated}
    return known.left_out(keys.data)


def followed(rule: ReadRule, kind: str) -> frozenset[str] | None:
    """The keys that the class reads of a rule of scaling; None where it was not asked."""
    reads: Reads | None = rule["class"].reads
    return None if reads is None else reads.rules.get(kind)


def inside(params: Keys, beside: Keys, kind: str, rule: ReadRule, notes: Notes) -> tuple[Keys, str]:
    """A dictionary of rotary parameters without the keys that the class passes over, and its rule.

    `beside` is the whole of the dictionaries for each type of layer, where there are such.
    """
    if (reads := followed(rule, kind)) is None:
        return params, kind
    if not reads and kind != "default":
        notes.warning(
            f"{params.path} asks for {kind!r}, which the class in transformers "
            f"{rule['class'].version} does not read: it scales nothing; other code may"
        )
        return inside(params, beside, "default", rule, notes)
    own = params.without(READ.get(kind, frozenset()) - reads)
    added = {
        key: beside.data[key]
        for key in READ.get(kind, ())
        if BESIDE + key in reads
        if beside.path != params.path and key in beside.data
    }
    if added:
        hidden = own.hidden
        own = Keys({**own.data, **added}, own.path, own.defaults)
        own.hidden = hidden
    return own, kind


def passed_over(keys: Keys, rule: ReadRule, sizes: Iterable[Sizes], notes: Notes) -> None:
    """Say which hidden keys ask for something else than the plan has."""
    made = [one for one in sizes if one.width is not None]
    for key, value in keys.hidden.items():
        if value is not None and made and not _said(key, value, made):
            told = "" if isinstance(value, Mapping) else f"={repr(value)[:80]}"
            notes.warning(
                f"{keys.where(key)}{told} is not read by the class in transformers "
                f"{rule['class'].version}{_instead(key, made)}; other code may read it"
            )


def _said(key: str, value: Any, made: list[Sizes]) -> bool:
    """Whether a key says nothing else than what is so without it."""
    number = float(value) if is_number(value) else None
    if key in FRACTIONS:
        return number is not None and all(
            int((one.head or 0) * number) == one.width for one in made
        )
    if key in FIELDS:
        return all(getattr(one, FIELDS[key]) == number for one in made)
    # Other names of sizes count where those of the class are not there, and are wanted then.
    return key in SPELLINGS and key not in LOCAL_BASES


def _instead(key: str, made: list[Sizes]) -> str:
    """What the class takes."""
    bases, widths = {one.base for one in made} - {None}, {one.width for one in made}
    if FIELDS.get(key) == "base" and len(bases) == 1:
        return f", which takes {bases.pop():.10g}"
    if key in (*FRACTIONS, *ABSOLUTE, *HEADS) and len(widths) == 1:
        return f", which turns {widths.pop()} channels"
    return ", which scales nothing" if key in DICTIONARIES else ""


def note_unread(keys: Keys, notes: Notes) -> None:
    """Say which keys that concern positions, and which towers with files, were not read."""
    for key in sorted({*meanings()} & {*keys.defaults} - {*keys.data, *keys.defaulted}):
        notes.warning(
            f"{keys.where(key)}={keys.defaults[key]!r}, which the file leaves to the "
            f"class, was not read: {meanings()[key]}"
        )
    for key in TOWERS if not class_parts(keys.data.get("model_type")).types else ():
        if isinstance(keys.data.get(key), str) and keys.data[key]:
            notes.warning(
                f"{keys.where(key)}={keys.data[key][:80]!r} was not read: the tower that it "
                "names has a file of its own, and the plan leaves it out"
            )
    for key in unread(keys):
        notes.warning(told_of(f"{keys.where(key)}={repr(keys.data[key])[:200]} was not read", key))


def told_of(text: str, key: str) -> str:
    """A sentence on a key, with what the key means where that is known."""
    return f"{text}: {meanings()[key]}" if key in meanings() else text


def unclear(value: Any, where: str) -> Iterator[str]:
    """Sentences on what YAML leaves open in a value that was read: aliases, keys given twice."""
    return (
        mismatch(place, "a value", f"{inner}: write out the one that counts")
        for place, inner in _values(value, where)
        if isinstance(inner, Unclear)
    )


def _values(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a value and of what it holds, each with its place."""
    if isinstance(value, (Mapping, list)):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _values(inner, f"{where}.{key}" if where else str(key))
    else:
        yield where, value


def check_numbers(keys: Keys, notes: Notes) -> bool:
    """Whether what was read are values with which arithmetic has a meaning; notes where not."""
    for key in (*TRAINED, *LENGTHS):
        if key in keys.read and not is_length(keys.data.get(key)):
            notes.warning(
                f"{keys.where(key)}={repr(keys.data[key])[:80]} is no length: it is not used"
            )
    # Another dictionary is a part, which is read as one.
    read = {
        key: keys.data[key]
        for key in sorted(keys.read & keys.data.keys())
        if key in DICTIONARIES or not isinstance(keys.data[key], Mapping)
    }
    wrong = [
        mismatch(where, EXPECTED, repr(value)[:40])
        for where, value in _values(read, keys.path)
        if is_number(value) and value and not SMALLEST <= abs(value) <= LARGEST
    ]
    wrong += [
        mismatch(keys.where(key), "a whole number", repr(keys.data[key]))
        for key in sorted(read.keys() & WHOLE)
        if keys.number(key) is not None and keys.integer(key) is None
    ]
    wrong += unclear(read, keys.path)
    for text in wrong:
        notes.error(text)
    return not wrong


def unread(keys: Keys) -> list[str]:
    """Keys of a part that sound as if they meant positions, and that nobody read."""
    return [
        key
        for key, value in keys.data.items()
        if key not in keys.read
        and value not in (None, False, "absolute")
        and not isinstance(value, Mapping)
        and any(word in key.lower() for word in WORDS)
        and not any(word in key for word in SILENT)
    ]


def note_repeated(keys: Keys, text: str, inner: Mapping[str, Any], notes: Notes) -> None:
    """Notes on keys beside the part for text, which its class reads alone, that say otherwise."""
    for key in (*SPELLINGS, *TRAINED, *DICTIONARIES):
        if key in keys.data and keys.get(key) not in (None, inner.get(key)):
            notes.warning(
                f"{keys.where(key)}={repr(keys.get(key))[:80]} is not read by the class in "
                f"transformers {class_parts(None).version}, which takes what "
                f"{keys.where(text)} says of it, {repr(inner.get(key))[:80]}"
            )


def note_flat(keys: Keys, made: ClassParts, flat: str, notes: Notes) -> None:
    """What to say of a text whose keys are those of the whole."""
    if made.flat == flat:
        notes.remark(
            "keys of the text model stand at the top of the config, where its class reads them"
        )
    else:
        notes.warning(
            "keys of the text model stand at the top of the config, where the class in "
            f"transformers {made.version} does not look: it reads {keys.where(flat)}. posenc reads "
            f"them as keys of type {made.types[flat]!r}"
        )


NOTHING = "nothing in the config says what the model does about positions"
MORE_WORDS = (*WORDS, "rot", "axes_dim", "position", "qk_rope", "fourier", "pos_enc", "posenc")
OF_TOKENS = ("pad", "type_vocab")
MOST, DEEPEST = 6, 4  # keys that are named, levels that are searched
EXTENDS = ("extends", "bases", "_base_", "includes", "inherits", "inherit_from")
# Keys that name the model whose config says more.
MODELS = (
    "base_model",
    "model_name_or_path",
    "pretrained_model_name_or_path",
    "hf_assets_path",
    "hf_config_path",
)


def nothing_said(data: Mapping[str, Any], model: str) -> str:
    """The sentences of a refusal."""
    base, class_name = data.get("base_model_name_or_path"), data.get("_class_name")
    if isinstance(base, str) and base and ("peft_type" in data or not model):
        return (
            f"this is the config of an adapter, whose positions are those of its base model: read "
            f"the config of {base[:200]!r}"
        )
    if "_use_default_values" in data and class_name is None:
        return (
            "this is the config of an object of diffusers, which leaves its class out: read "
            "{**model.config, '_class_name': type(model).__name__}"
        )
    text = "; ".join((NOTHING, *islice(unclear(data, ""), MOST)))
    called = class_name if isinstance(class_name, str) and not model else model
    if called and family(called) is None:
        text += f", and {called[:80]!r} is no known family"
    if spoken := [f"{path}={json.dumps(value)[:60]}" for path, value in _speaking(data, "", 1)]:
        more = f", and {len(spoken) - MOST} more" if len(spoken) > MOST else ""
        text += ". These keys speak of positions, and no rule reads them: "
        text += f"{', '.join(spoken[:MOST])}{more}; posenc.infer_spec of the code does"
    near = closest(model, families()) if model and family(model) is None else None
    text += f". Did you mean {near!r}?" if near else ""
    row = _preset(called) if called else None
    text += f". The nearest preset is {row!r}: posenc.preset({row!r}, dim)" if row else ""
    return text


def elsewhere(data: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    """Sentences on files and models that a config names for what it does not state itself."""
    return (
        f"{key}={json.dumps(data[key])[:80]} says where more of the model stands, which was not "
        "read: read that, or write its keys into one file"
        for key in keys
        if isinstance(data.get(key), (str, list)) and data[key]
    )


def _speaking(data: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Keys, with where they stand, whose names or words speak of positions."""
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            yield from _speaking(value, where, depth + 1) if depth < DEEPEST else ()
        elif speaks(str(key)) and value not in (None, False, ""):
            yield where, value


def speaks(key: str) -> bool:
    """Whether the name of a key speaks of positions."""
    low = key.lower()
    return any(word in low for word in MORE_WORDS) and not any(word in low for word in OF_TOKENS)


def _preset(called: str) -> str | None:
    """The preset whose name is that of a class, or the beginning of it, if there is one."""
    low = re.sub("[-_]", "", called.lower())
    names = {re.sub("[-_]", "", name.lower()): name for name in presets.names()}
    begins = [name for name in names if len(name) > 2 and low.startswith(name)]
    near = max(begins, key=len) if begins else closest(low, names, cutoff=0.8)
    return None if near is None else names[near]
