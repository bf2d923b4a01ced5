"""Which tensors hold queries and keys, and where each head stands in them."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from posenc._core.errors import DataError, mismatch
from posenc.detect.convert.heads import Heads, Model, layer_of
from posenc.detect.files import Checkpoint, Stored
from posenc.encodings.rotary.pairing import Pairing
from posenc.presets.projections import Packing, names, packing

__all__ = ["AttentionTensors", "HeadTensor", "Segment", "find", "order_of", "unknown_names"]

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
ADAPTERS = ("lora_A", "lora_B", "lora_magnitude_vector")
WORDS = ("q", "k", "qkv", "query", "key", "attn", "attention", "attentions")


class Segment(NamedTuple):
    """One head, or another stretch of channels of a tensor."""

    part: str  # q, k, or anything else, which stays as it is
    begin: int
    width: int


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
        return _view(self.kind, self.axis, self.stored.tensor.shape)


class AttentionTensors(NamedTuple):
    """The tensors of one layer that turning concerns."""

    name: str
    layer: int | None
    heads: Heads
    tensors: tuple[HeadTensor, ...]
    adapter: bool = False


class _NamedTensor(NamedTuple):
    """A tensor by the parts of its name."""

    stored: Stored
    prefix: str
    module: str
    role: str
    kind: str
    axis: int
    stated: bool = False  # by the caller


def _view(kind: str, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if kind != "weight":  # a vector, perhaps with heads on an axis of their own
        return 1, math.prod(shape), 1
    if axis == -1:  # inputs first
        return shape[0], math.prod(shape[1:]), 1
    return 1, shape[0], math.prod(shape[1:])


def order_of(source: Pairing, target: Pairing, rotated: int, width: int) -> np.ndarray:
    """The channel that each channel of a head takes: (width,), int64.

        head'[c] = head[order[c]]

    The first channel of pair j takes the first of pair j, the second the second, and channels that
    do not turn stay.
    """
    order = np.arange(width, dtype=np.int64)
    begin = width - rotated if source.part == "trailing" else 0
    pairs = zip(source.channels(rotated), target.channels(rotated), strict=True)
    for old, new in pairs:
        order[[begin + c for c in new]] = [begin + c for c in old]
    return order


# --- names ----------------------------------------------------------------------------------------


def find(
    checkpoint: Checkpoint, model: Model, caller: str, *, alone: tuple[str, ...] = ()
) -> tuple[AttentionTensors, ...]:
    """The attention layers that turn, in the order of their names' numbers.

    Parameters
    ----------
    checkpoint : Checkpoint
        The tensors.
    model : Model
        What is known of their heads.
    caller : str
        The caller, for messages.
    alone : tuple of str
        Roles that count without queries: else keys or norms alone are of another module.

    Raises
    ------
    DataError
        If no name is understood, with the candidates; if a name is understood in part; if widths
        do not fit the heads.
    """
    groups: dict[str, list[_NamedTensor]] = {}
    for name, stored in checkpoint.tensors.items():
        named = _named(name, stored, model)
        if named is not None:
            groups.setdefault(named.prefix, []).append(named)
    attentions = []
    _join(groups)
    for prefix, group in groups.items():
        roles = ("q", "qkv", *alone, *(("k",) if prefix.endswith(ADAPTER) else ()))
        if not any(named.role in roles for named in group):
            continue
        layer = layer_of(f"{prefix}.")
        heads = model.heads(layer)
        if heads is not None:
            attentions.append(_attention(prefix, layer, heads, group, model))
    if not attentions:
        raise DataError(_unknown(checkpoint, model, caller, bool(groups)))
    return tuple(sorted(attentions, key=lambda a: (-1 if a.layer is None else a.layer, a.name)))


def unknown_names(
    checkpoint: Checkpoint, model: Model, stem: str, complete: set[int], axes: int
) -> list[str]:
    """Tensors below a stem whose names are not understood and which other layers do not have.

    Parameters
    ----------
    checkpoint : Checkpoint
        The tensors.
    model : Model
        What the caller says of names.
    stem : str
        What their names begin with.
    complete : set of int
        Layers with queries and keys: what these have besides is something else.
    axes : int
        The least number of axes of what is looked for.
    """
    tensors = checkpoint.tensors
    usual = {_anywhere(name) for name in tensors if layer_of(name) in complete}
    return [
        name
        for name, stored in tensors.items()
        if name.startswith(stem)
        and len(stored.tensor.shape) >= axes
        and _anywhere(name) not in usual
        and _named(name, stored, model) is None
    ]


def _anywhere(name: str) -> str:
    """A name without the number of its layer."""
    return re.sub(r"(?<![^./_])\d+(?=[./])", "*", name, count=1)


def _join(groups: dict[str, list[_NamedTensor]]) -> None:
    """Tensors that the caller names join those of their layer whose names are known."""
    for prefix in [p for p in groups if any(named.stated for named in groups[p])]:
        layer = layer_of(f"{prefix}.")
        homes = [p for p in groups if p != prefix and layer_of(f"{p}.") == layer]
        homes = [p for p in homes if not p.endswith(ADAPTER)]
        if len(homes) == 1:
            groups[homes[0]] += groups.pop(prefix)


def _named(name: str, stored: Stored, model: Model) -> _NamedTensor | None:
    if not fnmatch.fnmatchcase(name, model.layout.pattern):
        return None
    patterns = model.layout.names or {}
    for role, pattern in patterns.items():
        if fnmatch.fnmatchcase(name, pattern):
            kind = "gain" if role.endswith("gain") else "weight"
            kind = "bias" if kind == "weight" and len(stored.tensor.shape) == 1 else kind
            layer = layer_of(name)
            prefix = "layers" if layer is None else f"layers.{layer}"
            return _NamedTensor(stored, prefix, role, role, kind, 0, stated=True)
    parts = name.replace("/", ".").split(".")
    data = names()
    if any(word in parts for word in (*data.cross, *data.apart)):
        return None
    if {*data.inside} & {*parts} != {model.layout.attention} - {""}:
        return None
    at = next((i for i in reversed(range(len(parts))) if parts[i] in data.modules), None)
    if at is None or at == len(parts) - 1:
        return None
    module, prefix = parts[at], ".".join(parts[:at])
    role = data.modules[module]
    tail = [p for p in parts[at + 1 :] if p not in ("base_layer", "default", "norms", "linear")]
    tail = [p for p in tail if not p.isdigit()]
    parameter = PARAMETERS.get(tuple(tail))
    if parameter is None:
        return _NamedTensor(stored, prefix, module, role, "unknown", 0)
    kind, axis = parameter
    if role.endswith("gain") and kind in ("weight", "bias"):
        kind = "gain" if kind == "weight" else "shift"
    if any(p.startswith(ADAPTERS) for p in tail):
        prefix += ADAPTER
    return _NamedTensor(stored, prefix, module, role, kind, axis)


def _unknown(checkpoint: Checkpoint, model: Model, caller: str, skipped: bool) -> str:
    if skipped:
        return mismatch(caller, "layers that turn", "none: the config says that they do not")
    named = [
        name
        for name, stored in checkpoint.tensors.items()
        if len(stored.tensor.shape) >= 2 and fnmatch.fnmatchcase(name, model.layout.pattern)
    ]
    close = [n for n in named if any(w in n.lower() for w in WORDS[2:])] or named
    shown = ", ".join(f"{n} {list(checkpoint.tensors[n].tensor.shape)}" for n in close[:8])
    more = f", … ({len(close)} in all)" if len(close) > 8 else ""
    todo = 'Say which they are: names={"q": PATTERN, "k": PATTERN} or {"qkv": PATTERN}.'
    expected = "names such as q_proj and k_proj, or qkv_proj"
    return mismatch(caller, expected, f"{shown}{more}" if shown else "no matrices", todo)


# --- heads ----------------------------------------------------------------------------------------


def _attention(
    name: str, layer: int | None, heads: Heads, group: list[_NamedTensor], model: Model
) -> AttentionTensors:
    strange = next((n for n in group if n.kind == "unknown"), None)
    if strange is not None:
        expected = "a weight, bias, gain or adapter"
        todo = "Weights that are packed or scaled in blocks cannot be reordered: convert before."
        raise DataError(mismatch(strange.stored.tensor.name, expected, strange.module, todo))
    for part in "qk":
        both = [n for n in group if n.kind == "weight" and n.role in (part, f"one_{part}", "qkv")]
        if len(both) > 1:
            expected = f"one tensor of {'queries' if part == 'q' else 'keys'}"
            received = " and ".join(named.stored.tensor.name for named in both)
            todo = "Leave one out: `layout=Projections(only=)`, or names= for what they are."
            raise DataError(mismatch(name, expected, received, todo))
    if heads.rotated % 2:
        raise DataError(mismatch(name, "an even rotated width", heads.rotated))
    if any(named.role == "one_k" for named in group):
        # A latent projection: heads of queries have a width that no key of a config says.
        heads = heads._replace(kv=None, width=None)
    laid: dict[str, tuple[Segment, ...]] = {}
    width = heads.width
    # Queries first: they settle the width of a head, which keys are counted by.
    for role in ("q", "qkv", "k", "one_k"):
        for named in group:
            if named.role == role and named.kind in ("weight", "bias"):
                count = _channels(named)
                segments = _segments(named, count, heads, width, model)
                if laid.setdefault(named.module, segments) != segments:
                    expected = (
                        f"{sum(s.width for s in laid[named.module])} channels, as its weight has"
                    )
                    raise DataError(mismatch(named.stored.tensor.name, expected, count))
                width = next((s.width for s in segments if s.part == "q"), width)
    tensors = [
        HeadTensor(n.stored.tensor.name, n.kind, n.axis, laid[n.module], n.stored)
        for n in group
        if n.module in laid and n.kind in ("weight", "bias")
    ]
    tensors += _scales(group, laid)
    tensors += _gains(group, width)
    return AttentionTensors(name, layer, heads, tuple(tensors), name.endswith(ADAPTER))


def _channels(named: _NamedTensor) -> int:
    shape = named.stored.tensor.shape
    if len(shape) < (2 if named.kind == "weight" else 1):
        what = "a matrix" if named.kind == "weight" else "a vector"
        raise DataError(mismatch(named.stored.tensor.name, what, f"shape {list(shape)}"))
    return _view(named.kind, named.axis, shape)[1]


def _segments(
    named: _NamedTensor, count: int, heads: Heads, width: int | None, model: Model
) -> tuple[Segment, ...]:
    caller = named.stored.tensor.name
    if named.role == "one_k":
        _fits(caller, count, heads, 1)
        return (Segment("k", 0, count),)
    if named.role == "qkv":
        return _packed(named, count, heads, model)
    if named.role == "k":
        kv = heads.kv
        each = width if width is not None else None if kv is None else count // kv
        if each is None:
            todo = "Give `layout=Projections(kv_heads=)`."
            raise DataError(mismatch(caller, "the number of heads of keys", "none stated", todo))
        if count % each or heads.q % (count // each) or (kv is not None and count != kv * each):
            stated = f"{kv} heads" if kv is not None else f"heads that divide {heads.q}"
            expected = f"{stated} of {each} channels, as the queries have"
            raise DataError(mismatch(caller, expected, f"{count} rows"))
        _fits(caller, each, heads, count // each)
        return tuple(Segment("k", i * each, each) for i in range(count // each))
    rule = packing(model.model_type, named.module)
    if rule is not None:  # each head of queries with something of its width
        return _repeated(caller, count, rule, heads, heads.kv or heads.q)
    each, rest = divmod(count, heads.q)
    if rest or each != (heads.width or each):
        size = f" of {heads.width} channels" if heads.width else ""
        raise DataError(mismatch(caller, f"rows for {heads.q} heads{size}", f"{count} rows"))
    _fits(caller, each, heads, heads.q)
    return tuple(Segment("q", i * each, each) for i in range(heads.q))


def _fits(caller: str, width: int, heads: Heads, count: int) -> None:
    if width < heads.rotated:
        expected = f"heads of at least {heads.rotated} channels, which turn"
        raise DataError(mismatch(caller, expected, f"{count} of {width}"))


def _packed(named: _NamedTensor, count: int, heads: Heads, model: Model) -> tuple[Segment, ...]:
    caller, fused = named.stored.tensor.name, model.layout.fused
    kv = heads.kv
    if kv is None and heads.width and count % heads.width == 0:
        kv = (count // heads.width - heads.q) // 2  # values have as many heads as keys
    kv = kv or heads.q
    if fused is not None:
        rule: Packing | None = Packing(("q", "k", "v"), 1 if fused == "blocks" else "kv_heads")
    else:
        rule = packing(model.model_type, named.module)
    if rule is None:
        todo = (
            'Say `layout=Projections(fused="blocks")` for all queries, all keys, all values, or '
            '"groups" for one head of keys with its queries and values after the other.'
        )
        expected = "a family whose packing of queries, keys and values is known"
        raise DataError(mismatch(caller, expected, repr(model.model_type or "none"), todo))
    return _repeated(caller, count, rule, heads, kv)


def _repeated(caller: str, count: int, rule: Packing, heads: Heads, kv: int) -> tuple[Segment, ...]:
    """The heads of a module that packs several parts."""
    repeats = {"heads": heads.q, "kv_heads": kv}.get(str(rule.repeats), rule.repeats)
    numbers = {"q": heads.q, "gate": heads.q, "k": kv, "v": kv}
    total = sum(numbers[part] for part in rule.order)
    each, rest = divmod(count, total)
    uneven = any(numbers[part] % int(repeats) for part in rule.order)
    wrong = heads.width is not None and heads.width != each
    if rest or uneven or heads.q % kv or wrong:
        stated = f"{heads.q} heads of queries and {kv} of keys"
        width = f" of {heads.width} channels" if wrong else ""
        raise DataError(mismatch(caller, f"rows for {stated}{width}", f"{count} rows"))
    _fits(caller, each, heads, total)
    segments, at = [], 0
    for _ in range(int(repeats)):
        for part in rule.order:
            for _ in range(numbers[part] // int(repeats)):
                segments.append(Segment(part, at, each))
                at += each
    return tuple(segments)


def _scales(
    group: list[_NamedTensor], laid: Mapping[str, tuple[Segment, ...]]
) -> Iterator[HeadTensor]:
    """Scales of quantised weights: one for all rows stays, one for each row moves with it."""
    for named in group:
        if named.kind == "scale" and (segments := laid.get(named.module)) is not None:
            shape = named.stored.tensor.shape
            size = math.prod(shape)
            if size == 1:
                continue
            if size != shape[0] or size != segments[-1].begin + segments[-1].width:
                expected = "one scale, or one for each row"
                todo = "Scales of blocks hold no order of rows: convert before quantising."
                raise DataError(mismatch(named.stored.tensor.name, expected, list(shape), todo))
            yield HeadTensor(named.stored.tensor.name, "scale", 0, segments, named.stored)


def _gains(group: list[_NamedTensor], width: int | None) -> Iterator[HeadTensor]:
    """Gains and shifts of the norms of queries and keys: for one head, or for each."""
    for named in group:
        if named.kind not in ("gain", "shift"):
            continue
        name, shape = named.stored.tensor.name, named.stored.tensor.shape
        size = math.prod(shape)
        if width is None or size % width:
            todo = "" if width is not None else "No weight of the layer says how wide they are."
            expected = f"a multiple of the {width} channels of a head"
            raise DataError(mismatch(name, expected, f"{size} numbers", todo))
        part = named.role[0]
        segments = tuple(Segment(part, i * width, width) for i in range(size // width))
        yield HeadTensor(name, named.kind, 0, segments, named.stored)
