"""Whether a model is there as a whole: queries with their keys, and every layer that turns.

A conversion that misses a tensor writes a model that is neither in the old order nor in the new
one. So what is missing is an error, with the tensors that it may be. Adapters are parts of a model,
and so is one file of several.
"""

from __future__ import annotations

import re

from posenc._core.errors import bad_data
from posenc._core.io.checkpoints import Checkpoint
from posenc.detect.facts.weights.heads import Model, split_name
from posenc.detect.facts.weights.projections import WORDS, AttentionTensors, listed, unknown_names

THEIRS = {"q", "k", "qk", "qkv", "query", "key", "queries", "keys"}  # words of names
SAY = (
    'Say which they are: `layout=Projections(names={"q": PATTERN, "k": PATTERN})`, or which names '
    "count: `layout=Projections(only=PATTERN)`."
)
CORRECT = "If the number is wrong, correct the config."


def check_whole(
    checkpoint: Checkpoint, attentions: tuple[AttentionTensors, ...], model: Model, caller: str
) -> None:
    """Raise `DataError` where queries have no keys, keys no queries, or a layer neither."""
    own = [a for a in attentions if not a.adapter]
    for attention in own:
        _check_sides(checkpoint, attention, own, model, caller)
        _check_vectors(checkpoint, attention, model, caller)
    families: dict[str, set[int]] = {}
    for attention in own:
        if attention.layer is not None:
            families.setdefault(split_name(f"{attention.name}.")[0], set()).add(attention.layer)
    if families:
        _check_layers(checkpoint, families, own, model, caller)


def _check_sides(
    checkpoint: Checkpoint,
    attention: AttentionTensors,
    own: list[AttentionTensors],
    model: Model,
    caller: str,
) -> None:
    for kinds, axes, words in (
        (("weight",), 2, ("queries", "keys")),
        (("gain", "shift"), 1, ("gains of queries", "gains of keys")),
    ):
        there, norms = _sides(attention, kinds), "gain" in kinds
        if (
            len(there) == 2
            or (norms and not there)
            or ("k" not in there and model.borrows(attention.layer))
            # An indexer may have a norm of its keys alone.
            or (norms and there == {"k"} and model.layout.attention)
        ):
            continue
        have, miss = words if "q" in there else words[::-1]
        expected = f"{miss} beside its {have}" if there else "weights of queries and keys"
        complete = {a.layer for a in own if a.layer is not None and len(_sides(a, kinds)) == 2}
        close = unknown_names(checkpoint, model, f"{attention.name}.", complete, axes)
        raise bad_data(f"{caller}: {attention.name}", expected, _shown(checkpoint, close), SAY)


def _check_vectors(
    checkpoint: Checkpoint, attention: AttentionTensors, model: Model, caller: str
) -> None:
    """Raise where a vector beside queries and keys is called theirs by a name that is not known."""
    tensors = checkpoint.tensors
    sizes = {s.width for h in attention.tensors for s in h.segments if s.part in ("q", "k")}
    sizes |= {h.view[1] for h in attention.tensors}
    sizes |= {sum(s.width for s in h.of(part)) for h in attention.tensors for part in "qk"}
    strange = [
        name
        for name in unknown_names(checkpoint, model, f"{attention.name}.", set(), 1)
        if len(tensors[name].tensor.shape) == 1
        and tensors[name].tensor.shape[0] in sizes
        and THEIRS & set(re.split(r"[._]", name[len(attention.name) + 1 :]))
    ]
    if strange:
        expected = "known names of biases and norms of queries and keys"
        todo = 'Say which they are: names={"q_gain": PATTERN, "q": PATTERN, …}, or rename them.'
        raise bad_data(caller, expected, _shown(checkpoint, strange), todo)


def _sides(attention: AttentionTensors, kinds: tuple[str, ...]) -> set[str]:
    return {s.part for h in attention.tensors if h.kind in kinds for s in h.segments} & {"q", "k"}


def _check_layers(
    checkpoint: Checkpoint,
    families: dict[str, set[int]],
    own: list[AttentionTensors],
    model: Model,
    caller: str,
) -> None:
    everywhere = set().union(*families.values())
    count, more, last = model.counted, model.more, max(everywhere)
    if count is not None and last >= count + more:
        name = next(a.name for a in own if a.layer == last)
        expected = f"the {count + more} layers that the config counts"
        raise bad_data(caller, expected, f"layer {last}: {name}", f"{CORRECT} {SAY}")
    shapes = {h.stored.tensor.shape for a in own for h in a.tensors if h.kind == "weight"}
    for stem, layers in families.items():
        for layer in range(last + 1 if count is None else count):
            inside = min(layers) < layer < max(layers)
            if (
                layer in layers
                or (layer in everywhere and not inside)
                or (count is not None and model.heads(layer) is None)
            ):
                continue
            begin = f"{stem}{layer}"
            there = [n for n in checkpoint.tensors if re.match(rf"{re.escape(begin)}[./_]", n)]
            # A layer of another kind, a recurrence for instance, has nothing that looks like heads.
            close = [
                name
                for name in unknown_names(checkpoint, model, begin, everywhere, 2)
                if name in there
                and (
                    checkpoint.tensors[name].tensor.shape in shapes
                    or any(word in name.lower() for word in WORDS[2:])
                )
            ]
            if close or (count is not None and not there):
                expected = f"queries and keys of layer {layer}, as in {len(layers)} others"
                todo = SAY if close else f"{CORRECT} {SAY}"
                raise bad_data(caller, expected, _shown(checkpoint, close), todo)


def _shown(checkpoint: Checkpoint, names: list[str]) -> str:
    return f"none of a known name; perhaps {listed(checkpoint, names)}" if names else "none"
