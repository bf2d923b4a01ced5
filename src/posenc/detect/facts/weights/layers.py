"""Whether the layers that weights have are those that the config counts."""

from __future__ import annotations

import re

from posenc._core.grouping import grouped
from posenc._core.io.checkpoints import Checkpoint, Header
from posenc.detect.explain import COUNT_KEYS, Keys
from posenc.detect.facts.arrays import MEND
from posenc.detect.facts.fact import Contradiction, Fact
from posenc.detect.facts.weights.heads import Model, split_name
from posenc.detect.facts.weights.projections import AttentionTensors

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
