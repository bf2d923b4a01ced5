"""Keys that a file states and the class of its model type passes over.

A config has many spellings of one quantity, and a class reads one or two of them; the rule of a
class may leave out what others read, such as the share of a head that turns. What classes read is
data, measured by `tools/models/class_reads.py`. A plan follows the class, and says which key it
left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from posenc._core.errors import mismatch
from posenc.detect.explain.config.view import NAMES, Keys, is_number
from posenc.detect.explain.layers.non_rotary import words
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.rotary.fields import BASES, LOCAL_BASES
from posenc.detect.explain.rotary.scaling_rules import READ, THETA_KEYS
from posenc.detect.explain.rotary.widths import ABSOLUTE, FRACTIONS, WIDTHS
from posenc.presets.families import ClassDefaults, Reads, class_parts

BESIDE = "^"  # of keys outside a dictionary
SHARE, THETA = FRACTIONS[0], BASES[0]
DICTIONARIES = ("rope_scaling", "rope_parameters")
HEADS = ("head_dim", "kv_channels")
# Beyond these no key of a config means anything, and arithmetic overflows.
SMALLEST, LARGEST = 1e-30, 1e30
EXPECTED = f"0, or a number from {SMALLEST:g} to {LARGEST:g}, of either sign"
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
# What a key means that no entry of a plan can say.
CHUNKS = (
    "Dual Chunk Attention, which engines such as vLLM and SGLang run, counts the positions of far "
    "keys anew in every chunk: no entry can say it, and scores beyond the first chunk are others"
)
INDEXER = (
    "an indexer chooses which keys are seen by scores of its own, and what it does about positions "
    "is in no entry"
)
MEANINGS = {
    "index_head_dim": INDEXER,
    "indexer_head_dim": INDEXER,
    "dual_chunk_attention_config": CHUNKS,
}
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


def reads_of(rule: Mapping[str, Any]) -> Reads | None:
    """What the class of a rule reads; None where it was not asked."""
    known: ClassDefaults | None = rule.get("class")
    return None if known is None else known.reads


def outside(keys: Keys, rule: Mapping[str, Any], notes: Notes) -> tuple[Keys, Mapping[str, Any]]:
    """A config without the keys that its class passes over, but for those that the row names.

    A file that says in other words alone how wide a head is was written for other code: it is read
    as a whole, by the rule without the class.
    """
    known: ClassDefaults | None = rule.get("class")
    if known is None or known.reads is None:
        return keys, rule
    named = {name for word in words(rule) for name in NAMES.findall(word)}
    named |= {THETA} if THETA in known.reach else set()
    hidden = {*SPELLINGS, *known.ignores} - known.reads.keys - named
    shown = keys.without(hidden, hidden.intersection((*FRACTIONS, *ABSOLUTE)))
    if "width" in rule or any(shown.evaluate(one) is not None for one in WIDTHS):
        return shown, rule
    other = next((one for one in WIDTHS if keys.evaluate(one) is not None), None)
    if other is None:
        return shown, rule
    notes.warning(
        f"{keys.where(other)} is not read by the class in transformers {known.version}, and no key "
        "that it reads says how wide a head is: the file was written for other code, and the plan "
        "is that of all its keys"
    )
    return keys, {**rule, "class": None}


def inside(
    params: Keys, beside: Keys, kind: str, rule: Mapping[str, Any], notes: Notes
) -> tuple[Keys, str]:
    """A dictionary of rotary parameters without the keys that the class passes over, and its rule.

    `beside` is the whole of the dictionaries for each type of layer, where there are such.
    """
    reads = reads_of(rule)
    followed = None if reads is None else reads.rules.get(kind)
    if followed is None:
        return params, kind
    if not followed and kind != "default":
        notes.warning(
            f"{params.path} asks for {kind!r}, which the class in transformers "
            f"{rule['class'].version} does not read: it scales nothing; other code may"
        )
        return inside(params, beside, "default", rule, notes)
    own = params.without(READ.get(kind, frozenset()) - followed)
    added = {
        key: beside.data[key]
        for key in READ.get(kind, ())
        if BESIDE + key in followed
        if beside.path != params.path and key in beside.data
    }
    if added:
        hidden = own.hidden
        own = Keys({**own.data, **added}, own.path, own.defaults)
        own.hidden = hidden
    return own, kind


def passed_over(keys: Keys, rule: Mapping[str, Any], sizes: Iterable[Sizes], notes: Notes) -> None:
    """Say which hidden keys ask for something else than the plan has."""
    known: ClassDefaults | None = rule.get("class")
    made = [one for one in sizes if one.width is not None]
    for key, value in keys.hidden.items():
        if value is None or known is None or not made or _said(key, value, made):
            continue
        told = "" if isinstance(value, Mapping) else f"={repr(value)[:80]}"
        text = f"{keys.where(key)}{told} is not read by the class in transformers {known.version}"
        notes.warning(f"{text}{_instead(key, made)}; other code may read it")


def _said(key: str, value: Any, made: list[Sizes]) -> bool:
    """Whether a key says nothing else than what is so without it."""
    number = float(value) if is_number(value) else None
    if key in (*BASES, *THETA_KEYS):
        return all(one.base == number for one in made)
    if key in FRACTIONS:
        return number is not None and all(
            int((one.head or 0) * number) == one.width for one in made
        )
    if key in ABSOLUTE:
        return all(one.width == number for one in made)
    if key in HEADS:
        return all(one.head == number for one in made)
    # Other names of sizes count where those of the class are not there, and are wanted then.
    return key in SPELLINGS and key not in LOCAL_BASES


def _instead(key: str, made: list[Sizes]) -> str:
    """What the class takes."""
    bases, widths = ({getattr(one, name) for one in made} for name in ("base", "width"))
    bases -= {None}
    if key in (*BASES, *THETA_KEYS) and len(bases) == 1:
        return f", which takes {bases.pop():.10g}"
    if key in (*FRACTIONS, *ABSOLUTE, *HEADS) and len(widths) == 1:
        return f", which turns {widths.pop()} channels"
    return ", which scales nothing" if key in DICTIONARIES else ""


def note_unread(keys: Keys, notes: Notes) -> None:
    """Say which keys that concern positions, and which towers with files, were not read."""
    left = {*MEANINGS} & {*keys.defaults} - {*keys.data, *keys.defaulted}
    for key in sorted(left):
        notes.warning(
            f"{keys.where(key)}={keys.defaults[key]!r}, which the file leaves to the "
            f"class, was not read: {MEANINGS[key]}"
        )
    for key in TOWERS if not class_parts(keys.data.get("model_type")).types else ():
        if isinstance(keys.data.get(key), str) and keys.data[key]:
            notes.warning(
                f"{keys.where(key)}={keys.data[key][:80]!r} was not read: the tower that it "
                "names has a file of its own, and is in no entry"
            )
    for key in unread(keys):
        told = f"{keys.where(key)}={repr(keys.data[key])[:200]} was not read"
        notes.warning(f"{told}: {MEANINGS[key]}" if key in MEANINGS else told)


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    """The numbers of a value and of what it holds, each with its place."""
    if isinstance(value, (Mapping, list)):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in pairs:
            yield from _numbers(inner, f"{where}.{key}")
    elif is_number(value):
        yield where, value


def check_numbers(keys: Keys, lengths: Iterable[str], notes: Notes) -> bool:
    """Whether every number that was read lies where arithmetic has a meaning; notes where not."""
    for key in lengths:
        if key in keys.read and (keys.number(key) or 0) < 0:
            notes.warning(f"{keys.where(key)}={keys.data[key]!r} is no length: it is not used")
    wrong = [
        mismatch(where, EXPECTED, repr(value)[:40])
        for key in sorted(keys.read & keys.data.keys())
        # Another dictionary is a part, which is read as one.
        if key in DICTIONARIES or not isinstance(keys.data[key], Mapping)
        for where, value in _numbers(keys.data[key], keys.where(key))
        if value and not SMALLEST <= abs(value) <= LARGEST
    ]
    for text in wrong:
        notes.error(text)
    return not wrong


def unread(keys: Keys) -> list[str]:
    """Keys of a part that sound as if they meant positions, and that nobody read."""
    found = []
    for key, value in keys.data.items():
        if key in keys.read or value in (None, False) or isinstance(value, Mapping):
            continue
        said = value != "absolute" and any(word in key.lower() for word in WORDS)
        if said and not any(word in key for word in SILENT):
            found.append(key)
    return found
