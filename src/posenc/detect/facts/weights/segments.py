"""Where each head stands in a tensor of queries and keys."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from posenc._core.errors import DataError, bad_data, refuse_data
from posenc._core.io.checkpoints import Stored
from posenc.detect.facts.arrays import MEND
from posenc.detect.facts.fact import Contradiction, Fact
from posenc.detect.facts.weights.heads import Heads, Model
from posenc.presets.families import Packing, packing


class Segment(NamedTuple):
    """One head, or another stretch of channels of a tensor."""

    part: str  # q, k, or anything else, which stays as it is
    begin: int
    width: int

    def turning(self, heads: Heads, times: int = 1) -> int:
        """Where the channels that turn begin, or some times as many on the same side of it."""
        trailing = heads.channels.part == "trailing"
        return self.begin + (self.width - times * heads.rotated if trailing else 0)


class MisfitError(DataError):
    """Rows that the stated heads cannot have, as two facts of a model."""

    def __init__(self, caller: str, contradiction: Contradiction) -> None:
        self.contradiction = contradiction
        super().__init__(f"{caller}: {contradiction.text}")


def _misfit(tensor: str, stated: str, rows: int, model: Model) -> MisfitError:
    one = Fact("heads", stated, source="config", rests_on="the config")
    if model.layout.heads or model.layout.rope:
        one = replace(one, source="caller", rests_on="what the caller says")
    other = Fact("heads", f"{rows} rows", source="header", rests_on=tensor)
    return MisfitError(tensor, Contradiction(one, other, MEND))


class NamedTensor(NamedTuple):
    """A tensor by the parts of its name."""

    stored: Stored
    prefix: str
    module: str
    role: str
    kind: str
    axis: int
    stated: bool = False  # by the caller


def view(kind: str, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """A shape as (before, channels, behind), with the channels of all heads on one axis."""
    if kind != "weight":  # a vector, perhaps with heads on an axis of their own
        return 1, math.prod(shape), 1
    behind = math.prod(shape[1:])
    return (shape[0], behind, 1) if axis == -1 else (1, shape[0], behind)  # inputs first, or last


def channels_of(named: NamedTensor) -> int:
    """The channels of all heads together."""
    shape = named.stored.tensor.shape
    refuse_data(
        len(shape) < (2 if named.kind == "weight" else 1),
        named.stored.tensor.name,
        "a matrix" if named.kind == "weight" else "a vector",
        f"shape {list(shape)}",
    )
    return view(named.kind, named.axis, shape)[1]


def segments_of(
    named: NamedTensor, count: int, heads: Heads, width: int | None, model: Model
) -> tuple[Segment, ...]:
    """The heads of a tensor, and what else lies between them; raises where they do not fit."""
    caller = named.stored.tensor.name
    if named.role == "one_k":
        _fits(caller, count, heads, 1)
        return (Segment("k", 0, count),)
    if named.role == "qkv":
        return _packed(named, count, heads, model)
    if named.role == "k":
        kv = heads.kv
        refuse_data(
            width is None and kv is None,
            caller,
            "the number of heads of keys",
            "none stated",
            "Give `layout=Projections(kv_heads=)`.",
        )
        each = count // (kv or 1) if width is None else width
        if count % each or heads.q % (count // each) or (kv is not None and count != kv * each):
            number = f"{kv} heads" if kv is not None else f"a divisor of {heads.q} heads"
            raise _misfit(caller, f"{number} of keys of {each} channels", count, model)
        _fits(caller, each, heads, count // each)
        return tuple(Segment("k", i * each, each) for i in range(count // each))
    rule = packing(model.model_type, named.module)
    if rule is not None:  # each head of queries with something of its width
        return _repeated(caller, count, rule, heads, heads.kv or heads.q, model)
    each, rest = divmod(count, heads.q)
    if rest or each != (heads.width or each):
        size = f" of {heads.width} channels" if heads.width else ""
        raise _misfit(caller, f"{heads.q} heads{size}", count, model)
    _fits(caller, each, heads, heads.q)
    return tuple(Segment("q", i * each, each) for i in range(heads.q))


def _fits(caller: str, width: int, heads: Heads, count: int) -> None:
    refuse_data(
        width < heads.rotated,
        caller,
        f"heads of at least {heads.rotated} channels, which turn",
        f"{count} of {width}",
    )


def _packed(named: NamedTensor, count: int, heads: Heads, model: Model) -> tuple[Segment, ...]:
    caller, fused = named.stored.tensor.name, model.layout.fused
    if (kv := heads.kv) is None and heads.width and count % heads.width == 0:
        kv = (count // heads.width - heads.q) // 2  # values have as many heads as keys
    rule = packing(model.model_type, named.module)
    if fused is not None:
        rule = Packing(("q", "k", "v"), 1 if fused == "blocks" else "kv_heads")
    if rule is None:
        todo = (
            'Say `layout=Projections(fused="blocks")` for all queries, all keys, all values, or '
            '"groups" for one head of keys with its queries and values after the other.'
        )
        raise bad_data(
            caller,
            "a family whose packing of queries, keys and values is known",
            repr(model.model_type or "none"),
            todo,
        )
    return _repeated(caller, count, rule, heads, kv or heads.q, model)


def _repeated(
    caller: str, count: int, rule: Packing, heads: Heads, kv: int, model: Model
) -> tuple[Segment, ...]:
    """The heads of a module that packs several parts."""
    repeats = {"heads": heads.q, "kv_heads": kv}.get(str(rule.repeats), rule.repeats)
    numbers = {"q": heads.q, "gate": heads.q, "k": kv, "v": kv}
    total = sum(numbers[part] for part in rule.order)
    each, rest = divmod(count, total)
    uneven = any(numbers[part] % int(repeats) for part in rule.order)
    wrong = heads.width is not None and heads.width != each
    if rest or uneven or heads.q % kv or wrong:
        width = f" of {heads.width} channels" if wrong else ""
        raise _misfit(caller, f"{heads.q} heads of queries and {kv} of keys{width}", count, model)
    _fits(caller, each, heads, total)
    once = [part for part in rule.order for _ in range(numbers[part] // int(repeats))]
    return tuple(Segment(part, i * each, each) for i, part in enumerate(once * int(repeats)))
