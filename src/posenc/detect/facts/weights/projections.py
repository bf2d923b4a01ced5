"""Which tensors hold queries and keys, and where each head stands in them."""

from __future__ import annotations

import fnmatch
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_data, mismatch, refuse_data
from posenc._core.grouping import grouped
from posenc._core.io.checkpoints import Checkpoint, Header, Stored
from posenc.detect.explain import COUNT_KEYS, Keys
from posenc.detect.facts.arrays import MEND
from posenc.detect.facts.fact import Contradiction, Fact
from posenc.detect.facts.weights.heads import Heads, Model, layer_of, split_name
from posenc.detect.facts.weights.segments import (
    MisfitError,
    NamedTensor,
    Segment,
    channels_of,
    segments_of,
    view,
)
from posenc.encodings.rotary.pairing import Pairing
from posenc.presets.families import projection_names

# The last parts of a name, behind the module: what they are, and the axis that holds the channels.
PARAMETERS: dict[tuple[str, ...], tuple[str, int]] = {
    ("weight",): ("weight", 0),
    ("kernel",): ("weight", -1),
    ("bias",): ("bias", 0),
    ("scale",): ("gain", 0),
    ("lora_A", "weight"): ("inner", 0),
    ("lora_B", "weight"): ("weight", 0),
    ("lora_embedding_A",): ("inner", 0),
    ("lora_magnitude_vector",): ("bias", 0),
    ("lora_magnitude_vector", "weight"): ("bias", 0),
    ("weight_scale",): ("scale", 0),
    ("input_scale",): ("inner", 0),
}
ADAPTER = " (adapter)"  # behind the name of a layer: weights that are added to those of the model
BETWEEN = ("base_layer", "default", "norms", "linear")  # words of a name that say nothing
ADAPTERS = ("lora_A", "lora_B", "lora_magnitude_vector")
MOST_SHOWN = 8
WORDS = ("q", "k", "qkv", "query", "key", "attn", "attention", "attentions")


class HeadTensor(NamedTuple):
    """A tensor that holds heads of queries or keys along one axis."""

    name: str
    kind: str  # weight, bias, gain
    axis: int
    segments: tuple[Segment, ...]
    stored: Stored

    def of(self, part: str) -> tuple[Segment, ...]:
        """Its heads of queries, or of keys."""
        return tuple(s for s in self.segments if s.part == part)

    @property
    def view(self) -> tuple[int, int, int]:
        """Its shape as (before, channels, behind), with the channels of all heads on one axis."""
        return view(self.kind, self.axis, self.stored.tensor.shape)


class AttentionTensors(NamedTuple):
    """The tensors of one layer that turning concerns."""

    name: str
    layer: int | None
    heads: Heads
    tensors: tuple[HeadTensor, ...]
    adapter: bool = False


@functools.lru_cache(16)  # a model asks for one order thousands of times
def order_of(source: Pairing, target: Pairing, rotated: int, width: int) -> np.ndarray:
    """The channel that each channel of a head takes: (width,), int64.

        head'[c] = head[order[c]]

    The first channel of pair j takes the first of pair j, the second the second, and channels that
    do not turn stay.
    """
    order = np.arange(width, dtype=np.int64)
    begin = width - rotated if source.part == "trailing" else 0
    for old, new in zip(source.channels(rotated), target.channels(rotated), strict=True):
        order[[begin + c for c in new]] = [begin + c for c in old]
    order.flags.writeable = False
    return order


# --- names ----------------------------------------------------------------------------------------


def find(
    checkpoint: Checkpoint, model: Model, caller: str, *, alone: tuple[str, ...] = ()
) -> tuple[AttentionTensors, ...]:
    """The attention layers that turn, in the order of their names' numbers."""
    groups = grouped(
        (named.prefix, named)
        for name, stored in checkpoint.tensors.items()
        if (named := _named(name, stored, model)) is not None
    )
    attentions = []
    _join(groups)
    for prefix, group in groups.items():
        roles = {"q", "qkv", *alone, *("k" if prefix.endswith(ADAPTER) else "")}
        layer, there = layer_of(f"{prefix}."), {named.role for named in group}
        if roles & there and (heads := model.heads(layer)) is not None:
            try:
                attentions.append(_attention(prefix, layer, heads, group, model))
            except MisfitError as error:
                raise MisfitError(caller, error.contradiction) from None
    if not attentions:
        raise DataError(_unknown(checkpoint, model, caller, bool(groups)))
    return tuple(sorted(attentions, key=lambda a: (-1 if a.layer is None else a.layer, a.name)))


def unknown_names(
    checkpoint: Checkpoint, model: Model, stem: str, complete: set[int], axes: int
) -> list[str]:
    """Tensors below a stem whose names are not understood and which other layers do not have."""
    tensors = checkpoint.tensors
    strange = [
        name
        for name, stored in tensors.items()
        if name.startswith(stem)
        and len(stored.tensor.shape) >= axes
        and _named(name, stored, model) is None
    ]
    if not strange or not complete:
        return strange
    layers = _by_layer(tuple(tensors))
    usual = set().union(*(layers.get(layer, ()) for layer in complete))
    return [name for name in strange if split_name(name)[::2] not in usual]


@functools.lru_cache(1)  # asked for each layer of one checkpoint
def _by_layer(names: tuple[str, ...]) -> dict[int | None, set[tuple[str, ...]]]:
    """The names of each layer, without its number."""
    return {
        layer: {*own}
        for layer, own in grouped((layer_of(name), split_name(name)[::2]) for name in names).items()
    }


def _join(groups: dict[str, list[NamedTensor]]) -> None:
    """Tensors that the caller names join those of their layer whose names are known."""
    for prefix in [p for p in groups if any(named.stated for named in groups[p])]:
        others = (p for p in groups if p != prefix and not p.endswith(ADAPTER))
        homes = [p for p in others if layer_of(f"{p}.") == layer_of(f"{prefix}.")]
        if len(homes) == 1:
            groups[homes[0]] += groups.pop(prefix)


def _named(name: str, stored: Stored, model: Model) -> NamedTensor | None:
    apart = model.apart if model.layout.only == "*" else ()
    if not fnmatch.fnmatchcase(name, model.layout.pattern) or (
        apart and any(word in split_name(name)[0].lower() for word in apart)
    ):
        return None
    for role, pattern in (model.layout.names or {}).items():
        if fnmatch.fnmatchcase(name, pattern):
            plain = "bias" if len(stored.tensor.shape) == 1 else "weight"
            kind, layer = "gain" if role.endswith("gain") else plain, layer_of(name)
            prefix = "layers" if layer is None else f"layers.{layer}"
            return NamedTensor(stored, prefix, role, role, kind, 0, stated=True)
    parts = name.replace("/", ".").split(".")
    data = projection_names()
    if any(word in parts for word in (*data.cross, *data.apart)) or {*data.inside} & {*parts} != {
        model.layout.attention
    } - {""}:
        return None
    at = next((i for i in reversed(range(len(parts))) if parts[i] in data.modules), None)
    if at is None or at == len(parts) - 1:
        return None
    module, prefix = parts[at], ".".join(parts[:at])
    role = data.modules[module]
    tail = [p for p in parts[at + 1 :] if p not in BETWEEN and not p.isdigit()]
    kind, axis = PARAMETERS.get(tuple(tail), ("unknown", 0))
    if role.endswith("gain"):
        kind = {"weight": "gain", "bias": "shift"}.get(kind, kind)
    if kind != "unknown" and any(p.startswith(ADAPTERS) for p in tail):
        prefix += ADAPTER
    return NamedTensor(stored, prefix, module, role, kind, axis)


def listed(checkpoint: Checkpoint, names: list[str]) -> str:
    """Some tensors with their shapes, and how many there are."""
    shown = [f"{n} {list(checkpoint.tensors[n].tensor.shape)}" for n in names[:MOST_SHOWN]]
    return ", ".join(shown) + (f", … ({len(names)} in all)" if len(names) > MOST_SHOWN else "")


def _unknown(checkpoint: Checkpoint, model: Model, caller: str, skipped: bool) -> str:
    if skipped:
        return mismatch(caller, "layers that turn", "none: the config says that they do not")
    named = [
        name
        for name, stored in checkpoint.tensors.items()
        if len(stored.tensor.shape) >= 2 and fnmatch.fnmatchcase(name, model.layout.pattern)
    ]
    close = [n for n in named if any(w in n.lower() for w in WORDS[2:])] or named
    return mismatch(
        caller,
        "names such as q_proj and k_proj, or qkv_proj",
        listed(checkpoint, close) or "no matrices",
        'Say which they are: names={"q": PATTERN, "k": PATTERN} or {"qkv": PATTERN}.',
    )


# --- heads ----------------------------------------------------------------------------------------


def _attention(
    name: str, layer: int | None, heads: Heads, group: list[NamedTensor], model: Model
) -> AttentionTensors:
    if strange := next((n for n in group if n.kind == "unknown"), None):
        raise bad_data(
            strange.stored.tensor.name,
            "a weight, bias, gain or adapter",
            strange.module,
            "Weights that are packed or scaled in blocks cannot be reordered: convert before.",
        )
    for part in "qk":
        both = [
            named.stored.tensor.name
            for named in group
            if named.kind == "weight" and named.role in (part, f"one_{part}", "qkv")
        ]
        refuse_data(
            len(both) > 1,
            name,
            f"one tensor of {'queries' if part == 'q' else 'keys'}",
            " and ".join(both),
            "Leave one out: `layout=Projections(only=)`, or names= for what they are.",
        )
    refuse_data(heads.rotated % 2, name, "an even rotated width", heads.rotated)
    if any(named.role == "one_k" for named in group):
        # A latent projection: heads of queries have a width that no key of a config says.
        heads = heads._replace(kv=None, width=None)
    laid: dict[str, tuple[Segment, ...]] = {}
    width = heads.width
    # Queries first: they settle the width of a head, which keys are counted by.
    for role in ("q", "qkv", "k", "one_k"):
        for named in group:
            if named.role == role and named.kind in ("weight", "bias"):
                count = channels_of(named)
                segments = segments_of(named, count, heads, width, model)
                if laid.setdefault(named.module, segments) != segments:
                    expected = sum(s.width for s in laid[named.module])
                    raise bad_data(
                        named.stored.tensor.name,
                        f"{expected} channels, as its weight has",
                        count,
                    )
                width = next((s.width for s in segments if s.part == "q"), width)
    tensors = [
        HeadTensor(n.stored.tensor.name, n.kind, n.axis, laid[n.module], n.stored)
        for n in group
        if n.module in laid and n.kind in ("weight", "bias")
    ]
    tensors += _scales(group, laid)
    tensors += _gains(group, width)
    return AttentionTensors(name, layer, heads, tuple(tensors), name.endswith(ADAPTER))


def _scales(
    group: list[NamedTensor], laid: Mapping[str, tuple[Segment, ...]]
) -> Iterator[HeadTensor]:
    """Scales of quantised weights: one for all rows stays, one for each row moves with it."""
    for named in group:
        if named.kind == "scale" and (segments := laid.get(named.module)) is not None:
            shape = named.stored.tensor.shape
            if (size := math.prod(shape)) == 1:
                continue
            refuse_data(
                size != shape[0] or size != segments[-1].begin + segments[-1].width,
                named.stored.tensor.name,
                "one scale, or one for each row",
                list(shape),
                "Scales of blocks hold no order of rows: convert before quantising.",
            )
            yield HeadTensor(named.stored.tensor.name, "scale", 0, segments, named.stored)


def _gains(group: list[NamedTensor], width: int | None) -> Iterator[HeadTensor]:
    """Gains and shifts of the norms of queries and keys: for one head, or for each."""
    for named in (named for named in group if named.kind in ("gain", "shift")):
        name, size = named.stored.tensor.name, math.prod(named.stored.tensor.shape)
        if width is None or size % width:
            todo = "" if width is not None else "No weight of the layer says how wide they are."
            raise bad_data(
                name, f"a multiple of the {width} channels of a head", f"{size} numbers", todo
            )
        part, count = named.role[0], size // width
        yield HeadTensor(
            name,
            named.kind,
            0,
            tuple(Segment(part, i * width, width) for i in range(count)),
            named.stored,
        )


# --- whether the layers of weights are those that the config counts -------------------------------

# Keys of configs whose layers share weights, so that files hold some of them once.
SHARING = re.compile(r"hidden_groups|(?=.*(layer|block))(?=.*(share|sharing|tied?_|repeat))")

BLOCK = re.compile(r"blk\.(\d{1,9})\.")


def counted(
    checkpoint: Checkpoint,
    attentions: tuple[AttentionTensors, ...],
    model: Model,
    *,
    whole: bool | None = True,
) -> Contradiction | None:
    """The layers of the config against the numbers in the names of tensors.

    Modules are numbered from 0 on, so a list of them that lacks a number was renamed or cut. Only
    of weights that are `whole` the last layers are missed; None misses none. A layer that does not
    turn may be anywhere, and of several lists with the same numbers, as of encoder and decoder, one
    is enough.
    """
    key, more = model.part.first(COUNT_KEYS), model.more
    own = [(a.name, a.layer) for a in attentions if a.layer is not None and not a.adapter]
    keys = model.part.data
    if key is None or not own or any(keys[key] for key in keys if SHARING.search(key)):
        return None
    count = int(key[1])
    stated = Fact("layers", count, source="config", rests_on=f"config key {key[0]}")
    stems = grouped((split_name(f"{name}.")[0], layer) for name, layer in own)
    lists: dict[str, set[int]] = {stem: {*layers} for stem, layers in stems.items()}
    for stem, number, _ in map(split_name, checkpoint.tensors):
        if number and stem in lists:
            lists[stem].add(int(number))
    # What an underline stands before is a name, as of the one attention of a convolutional part.
    lists = {stem: own for stem, own in lists.items() if stem[-1:] != "_"} or lists
    every = set().union(*lists.values())
    distinct = sum(map(len, lists.values())) == len(every)
    if distinct and max(every) >= count + more:
        stem = next(stem for stem in lists if max(every) in lists[stem])
        return _against(stated, max(every) + 1, f", up to {stem}{max(every)}")
    for stem, numbers in sorted(
        lists.items() if whole is not None else (), key=lambda one: -len(one[1])
    ):
        last = min(max(every) + 1, count) if distinct else max(numbers)
        # A list may be of layers behind the last alone.
        gaps = {*range(0 if min(numbers) >= count else last)} - numbers
        gaps |= {*range(count)} - every if whole else set()
        if lacking := sorted(n for n in gaps if model.heads(n) is not None):
            first = lacking[0]
            place = next((f", but {other}{first}" for other in lists if first in lists[other]), "")
            return _against(stated, len(numbers), f": none begins with {stem}{first}{place}")
    return None


def counted_blocks(header: Header) -> Contradiction | None:
    """The block count of a GGUF file against the numbers in the names of its tensors.

    A part of a file, an adapter, a file without its table of tokens, and one of nothing but blocks
    that predict further tokens may lack blocks. Any may lack such blocks, and those without heads.
    """
    start, keys = header.keys.get("general.architecture"), Keys(header.keys)
    names = ("block_count", "nextn_predict_layers")
    count, drafts = (keys.integer(f"{start}.{name}") or 0 for name in names)
    numbers = {int(match[1]) for match in map(BLOCK.match, header.tensors) if match}
    if not numbers or count < 1:
        return None
    stated = Fact("layers", count, source="header", rests_on=f"key {start}.{names[0]}")
    if max(numbers) >= count:
        return _against(stated, max(numbers) + 1, f", up to blk.{max(numbers)}")
    heads = keys.get(f"{start}.attention.head_count")  # in a list where layers differ
    idle = {n for n, own in enumerate(heads) if own == 0} if isinstance(heads, list) else set()
    begins = min(numbers) < count - drafts and "token_embd.weight" in header.tensors
    whole = begins and (keys.integer("split.count") or 1) < 2
    # One by one, as a file may claim any number.
    first = next(
        (n for n in range(count - drafts if whole else 0) if n not in numbers | idle), None
    )
    return (
        None if first is None else _against(stated, len(numbers), f": none begins with blk.{first}")
    )


def _against(stated: Fact, number: int, names: str) -> Contradiction:
    other = Fact("layers", number, source="header", rests_on=f"the names of tensors{names}")
    return Contradiction(stated, other, MEND)
