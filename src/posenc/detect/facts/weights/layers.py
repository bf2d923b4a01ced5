"""Whether the layers that weights have are those that the config counts."""

from __future__ import annotations

import re

from posenc._core.io.checkpoints import Checkpoint
from posenc.detect.explain import COUNT_KEYS
from posenc.detect.facts.arrays import MEND
from posenc.detect.facts.fact import Contradiction, Fact
from posenc.detect.facts.weights.heads import Model, split_name
from posenc.detect.facts.weights.projections import AttentionTensors

# Keys of configs whose layers share weights, so that files hold some of them once.
SHARING = re.compile(r"hidden_groups|(?=.*(layer|block))(?=.*(share|sharing|tied?_|repeat))")


def counted(
    checkpoint: Checkpoint,
    attentions: tuple[AttentionTensors, ...],
    model: Model,
    *,
    whole: bool = True,
) -> Contradiction | None:
    """The layers of the config against the numbers in the names of tensors.

    Modules are numbered from 0 on, so a list of them that lacks a number was renamed or cut. Only
    of weights that are `whole` the last layers are missed. A layer that does not turn may be
    anywhere, and of several lists with the same numbers, as of encoder and decoder, one is enough.
    """
    stated, more = model.part.first(COUNT_KEYS), model.more
    own = [(a.name, a.layer) for a in attentions if a.layer is not None and not a.adapter]
    keys = model.part.data
    if stated is None or not own or any(keys[key] for key in keys if SHARING.search(key)):
        return None
    count = int(stated[1])
    lists: dict[str, set[int]] = {}
    for name, layer in own:
        lists.setdefault(split_name(f"{name}.")[0], set()).add(layer)
    for stem, number, _ in map(split_name, checkpoint.tensors):
        if number and stem in lists:
            lists[stem].add(int(number))
    every = set().union(*lists.values())
    distinct = sum(map(len, lists.values())) == len(every)
    if distinct and max(every) >= count + more:
        stem = next(stem for stem in lists if max(every) in lists[stem])
        return _against(stated, max(every) + 1, f", up to {stem}{max(every)}")
    for stem, numbers in sorted(lists.items(), key=lambda one: -len(one[1])):
        last = min(max(every) + 1, count) if distinct else max(numbers)
        ahead = min(numbers) >= count  # of layers behind the last
        gaps = {*range(0 if ahead else last)} - numbers
        gaps |= {*range(count)} - every if whole else set()
        if lacking := sorted(n for n in gaps if model.heads(n) is not None):
            first = lacking[0]
            place = next((f", but {other}{first}" for other in lists if first in lists[other]), "")
            return _against(stated, len(numbers), f": none begins with {stem}{first}{place}")
    return None


def _against(stated: tuple[str, float], number: int, names: str) -> Contradiction:
    key, count = stated
    one = Fact("layers", int(count), source="config", rests_on=f"config key {key}")
    other = Fact("layers", number, source="header", rests_on=f"the names of tensors{names}")
    return Contradiction(one, other, MEND)
