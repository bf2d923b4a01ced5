"""What the heads of a layer look like: how many, how wide, which channels turn, paired how."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from posenc._core.errors import DataError, bad_argument, bad_data, refuse_data, suggest
from posenc._core.io.checkpoints import Checkpoint, Stored
from posenc._core.reading import Reading
from posenc.detect.explain import (
    COUNT_KEYS,
    MORE_LAYERS,
    PAIRINGS,
    Keys,
    beside,
    check_name,
    part_at,
)
from posenc.detect.facts.plan import ALL, conflicts, is_inside, of_records, width_at
from posenc.encodings.api import Pairing, RotarySpec
from posenc.presets.families import projection_names

FUSED = ("blocks", "groups")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "kv_n_heads",
    "multi_query_group_num",
)
SAY = "Or say what is stored: `layout=Projections(stored=)`."
RECORDED = "the record of a conversion in the file"
SHARED_KEYS = "num_kv_shared_layers"  # the last layers, which use the keys of earlier ones


class Projections(NamedTuple):
    """What the caller says of a checkpoint, where its config does not or is absent.

    Parameters
    ----------
    heads : int, optional
        Heads of queries.
    kv_heads : int, optional
        Heads of keys, where one module holds queries and keys.
    rope : RotarySpec, optional
        The rotation: its width, which channels of a head turn, and their pairing, unless a
        conversion of the file has recorded another.
    stored : {"half", "interleaved"}, optional
        The pairing of the weights as they are.
    fused : {"blocks", "groups"}, optional
        How a module packs queries, keys and values: all of each after the other, or one head of
        keys with its queries and values after the other.
    names : mapping of str to str, optional
        Patterns for names that are not known: `{"q": "*.query.w", "k": "*.key.w"}`; the keys are
        `q`, `k`, `qkv`, `q_gain` and `k_gain`.
    only : str
        A pattern for the names that are looked at: `model.language_model.*`.
    part : str, optional
        The part of a config that speaks of several models: `text`.
    attention : str
        The attention that is meant where layers have another one inside, as `Layer.attention` names
        it: `indexer`; the main one by default.

    Examples
    --------
    >>> import posenc
    >>> posenc.Projections(heads=32, rope=posenc.RoPE(128, pairing="half")).only
    '*'
    """

    heads: int | None = None
    kv_heads: int | None = None
    rope: RotarySpec | None = None
    stored: Literal["half", "interleaved"] | None = None
    fused: Literal["blocks", "groups"] | None = None
    names: Mapping[str, str] | None = None
    only: str = "*"
    part: str | None = None
    attention: str = ""

    @property
    def pattern(self) -> str:
        """The names that are looked at."""
        return f"*.{self.attention}.*" if self.attention and self.only == "*" else self.only


class Heads(NamedTuple):
    """The heads of one layer."""

    q: int
    kv: int | None  # None: to be counted from the rows of the keys
    width: int | None  # of a head, where it is stated
    rotated: int
    channels: Pairing


class Model(NamedTuple):
    """What was read of a model, layer by layer."""

    layout: Projections
    model_type: str
    part: Keys
    reading: Reading | None
    source: str  # where the pairing comes from, in words
    apart: tuple[str, ...] = ()  # words in the names of tensors of other parts

    @property
    def order(self) -> str:
        """The pairing that the config has for all that is meant; empty where it says none."""
        orders = {
            entry.spec.channels.order
            for entry in self.reading or ()
            if entry.attention == self.layout.attention and isinstance(entry.spec, RotarySpec)
            and not any((s.field, s.origin) == ("pairing", "caller") for s in entry.sources)
        }  # fmt: skip
        return orders.pop() if len(orders) == 1 else ""

    @property
    def counted(self) -> int | None:
        """The layers that the config counts."""
        return None if (key := self.part.first(COUNT_KEYS)) is None else _count(*key)

    @property
    def more(self) -> int:
        """Layers behind these, of which the config speaks as well."""
        return int((self.part.first(MORE_LAYERS) or ("", 0))[1])

    def borrows(self, layer: int | None) -> bool:
        """Whether a layer has no keys of its own, as the config says."""
        shared, count = self.part.integer(SHARED_KEYS), self.counted
        return None not in (shared, count, layer) and layer >= count - shared  # type: ignore[operator]

    def heads(self, layer: int | None) -> Heads | None:
        """The heads of a layer; None if it does not turn. Those behind the last are like it."""
        if layer is not None and self.counted is not None:
            layer = min(layer, self.counted - 1)
        spec = self.layout.rope or self._spec(layer)
        if spec is None:
            return None
        inside = self._read_at(layer, "heads")
        heads = self.layout.heads or self._head_count(HEADS if inside is None else (inside,))
        kv = 1 if inside is not None and self.layout.attention else self.layout.kv_heads
        if kv is None:
            # The flag of a family wins over the number it ignores; some classes ignore it always.
            flag = self.part.data.get("multi_query") and not self.part.data.get(
                "new_decoder_architecture"
            )
            stated = None if self.model_type in projection_names().own_keys else _keys(self.part)
            kv = 1 if flag else None if stated is None else _count(*stated)
        # The width from which the rotated one came, where the config says it.
        source = self._read_at(layer, "head") or self._read_at(layer, "dim")
        width = self.part.integer("head_dim") if source is None else width_at(self.part, source)
        channels = spec.channels.replace(order=self.layout.stored or spec.channels.order)
        return Heads(heads, kv, width, spec.dim, channels)

    def _read_at(self, layer: int | None, field: str) -> str | None:
        """Where a number of the rotation was read."""
        entries = [] if self.reading is None else self.reading.layers
        here = (e for e in entries if layer is None or e.indices is None or layer in e.indices)
        own = (e for e in here if e.kind == "rotary" and e.attention == self.layout.attention)
        return next((s.where for e in own for s in e.sources if s.field == field), None)

    def _spec(self, layer: int | None) -> RotarySpec | None:
        if self.reading is None:
            raise bad_data(
                "the checkpoint",
                "a config beside it",
                "none",
                "Give `config`, or what it would say: `layout=Projections(heads=, rope=)`.",
            )
        entries = self.reading.layers if layer is None else self.reading.at(layer)
        own = [e for e in entries if e.attention == self.layout.attention]
        specs = [e.spec for e in own if isinstance(e.spec, RotarySpec)]
        kinds = {(s.dim, s.channels) for s in specs}
        if len(kinds) > 1:
            rotations = "; ".join(f"width {dim}, {c.order}" for dim, c in sorted(kinds, key=str))
            raise bad_data(
                "the config",
                "one rotation for each layer",
                rotations,
                "Name a part of the model: `layout=Projections(part=, only=)`.",
            )
        return specs[0] if specs else None

    def _head_count(self, keys: tuple[str, ...]) -> int:
        for key in keys:
            if (number := self.part.evaluate(key)) is not None:
                return _count(key, number)
        raise bad_data(
            "the config",
            f"the number of heads ({', '.join(keys[:2])}, …)",
            "none of them",
            "Give `layout=Projections(heads=)`.",
        )


def _count(key: str, value: float) -> int:
    refuse_data(value != int(value) or value < 1, f"the config: {key}", "a positive integer", value)
    return int(value)


def _keys(part: Keys) -> tuple[str, float] | None:
    """The stated heads of keys; some families keep what concerns attention one level down."""
    inner = (Keys(value) for value in part.data.values() if isinstance(value, Mapping))
    return next(filter(None, (keys.first(KV_HEADS) for keys in (part, *inner))), None)


def split_name(name: str) -> tuple[str, str, str]:
    """What stands before the number of a layer in the name of a tensor, the number, and the rest.

    The number is the first part that is one; empty, with the rest, where there is none.
    """
    before, number, behind = [*re.split(r"(?<![^./_])(\d+)(?=[./])", name, maxsplit=1), "", ""][:3]
    return before, number, behind


def layer_of(name: str) -> int | None:
    """The number of the layer in the name of a tensor."""
    return int(number) if (number := split_name(name)[1]) else None


# What stands before layers beside those of text, and keys of heads that only some layers have.
TOWERS = re.compile(r"vis|audio|video|image|tower|project|former\.")
SEVERAL = re.compile(r"lora_rank|(swa|linear|local|global|sliding)_.*head")


def tells_heads(name: str, tensors: Mapping[str, Stored], keys: Keys) -> bool:
    """Whether the heads of a config are those of a tensor, whose rows all layers share.

    It is of the layers that a checkpoint has most of; neither it nor the config is of a tower.
    """
    stem, _, behind = split_name(name)
    stems = Counter(one for one, _ in {split_name(n)[:2] for n in tensors})
    shapes = {
        one.tensor.shape for n, one in tensors.items() if split_name(n)[::2] == (stem, behind)
    }
    several = len(shapes) > 1 or any(map(SEVERAL.search, keys.data))
    is_tower = TOWERS.search(f"{stem} {keys.data.get('model_type')}")
    return not (several or is_tower) and stems[stem] == max(stems.values())


# --- reading --------------------------------------------------------------------------------------


def read_model(checkpoint: Checkpoint, plan: Reading, layout: Projections, caller: str) -> Model:
    """What the caller, the record of an earlier conversion and the plan say, in this order."""
    _check(layout, caller)
    source = "the config" if layout.stored is None and layout.rope is None else "the caller"
    if layout.stored is None and (recorded := recorded_pairing(checkpoint, layout, caller)):
        layout, source = layout._replace(stored=recorded), RECORDED
    if (config := checkpoint.config) is None:
        return Model(layout, "", Keys({}), None, source)
    part, keys, reading = _part(config, plan, checkpoint.tensors, layout, caller)
    if source == "the config":
        source = f"the config: {_pairing_source(reading, keys)}"
    return Model(
        layout,
        str(keys.data.get("model_type") or ""),
        keys,
        reading,
        source,
        _apart(config, part, checkpoint.tensors),
    )


def _apart(config: Mapping[str, Any], part: str, tensors: Iterable[str]) -> tuple[str, ...]:
    """How the names of tensors of parts beside a part begin; none where they would be all."""
    words = tuple(sorted(name[:3] for name in beside(config, part)))
    stems = {stem.lower() for stem, layer, _ in map(split_name, tensors) if layer}
    return words if any(not any(word in stem for word in words) for stem in stems) else ()


def recorded_pairing(
    checkpoint: Checkpoint, layout: Projections, caller: str
) -> Literal["half", "interleaved"] | None:
    """The pairing that an earlier conversion recorded for the same tensors; None if it did not."""
    stamp = tuple(of_records(checkpoint.layouts))
    for one in conflicts(stamp):
        raise DataError(f"{caller}: {one.text} {SAY}")
    only, parts = layout.pattern, {fact.layer: fact.value for fact in stamp}
    others = {p: o for p, o in parts.items() if p not in (only, ALL) and not is_inside(p)}
    if others and only not in parts and not layout.attention:
        listed = ", ".join(f"{pattern} {pairing}" for pattern, pairing in others.items())
        raise bad_data(
            caller,
            "one conversion of all tensors",
            f"of parts: {listed}",
            "Name one of these: `layout=Projections(only=)`, or say `stored=`.",
        )
    return parts.get(only, None if layout.attention else parts.get(ALL))


def _check(layout: Projections, caller: str) -> None:
    attention, inside = layout.attention, projection_names().inside
    if attention not in ("", *inside):
        raise bad_argument(
            f"{caller}: attention",
            "the name of an attention inside a layer",
            repr(attention),
            suggest(attention, inside),
        )
    check_name(f"{caller}: stored", layout.stored, PAIRINGS)
    check_name(f"{caller}: fused", layout.fused, FUSED)
    for field in ("heads", "kv_heads"):
        value = getattr(layout, field)
        count = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is not None and not count:
            raise bad_argument(f"{caller}: {field}", "a positive integer", repr(value))
    roles = ("q", "k", "qkv", "q_gain", "k_gain")
    for role in (role for role in layout.names or {} if role not in roles):
        raise bad_argument(f"{caller}: names", "roles as keys", repr(role), suggest(role, roles))


def text_of(tensors: Iterable[str], parts: list[str]) -> tuple[str, str]:
    """The part for text of several, and a pattern for the names of its tensors."""
    text = next((part for part in parts if "text" in part), parts[0])
    others = [part.rpartition(".")[2][:3] for part in parts if part != text]
    stems = {stem[:-1] for stem, layer, _ in map(split_name, tensors) if layer}
    own = [stem for stem in stems if not any(other in stem.lower() for other in others)]
    return text, f"{min(own, key=len)}.*" if own else "*"


def _part(
    config: Mapping[str, Any],
    plan: Reading,
    tensors: Iterable[str],
    layout: Projections,
    caller: str,
) -> tuple[str, Keys, Reading | None]:
    """The part of a config whose layers turn, its keys, and its plan."""
    if layout.rope is not None and layout.heads is not None:
        return "", Keys(config), None
    places = {e.layer: part_at(config, e.layer) for e in plan if e.kind == "rotary"}
    parts = {name: Keys(data) for name, data in places.values()}
    if layout.part is not None:
        if layout.part not in parts:
            todo = suggest(layout.part, [name for name in parts if name] or ["(none)"])
            raise bad_argument(f"{caller}: part", "a part of the config", layout.part, todo)
        parts = {layout.part: parts[layout.part]}
    if len(parts) > 1:
        text, only = text_of(tensors, [*parts])
        todo = (
            f"Name one, and its tensors: --part {text} --only '{only}', "
            f"`layout=Projections(part={text!r}, only={only!r})`."
        )
        raise bad_data(caller, "one part that turns", ", ".join(parts), todo)
    for name, keys in parts.items():
        return name, keys, plan.part(name) if name else plan
    if layout.rope is not None:
        return "", Keys(config), None
    if plan.errors:
        todo = "Say what it does not: `layout=Projections(stored=, rope=)`."
        raise DataError(f"{caller}: the config leaves open: {'; '.join(plan.errors)}. {todo}")
    raise bad_data(
        caller,
        "a config of a model that turns queries and keys",
        "none",
        "Say what turns: `layout=Projections(heads=, rope=)`.",
    )


def _pairing_source(reading: Reading | None, keys: Keys) -> str:
    sources = (source for entry in reading or () for source in entry.sources)
    stated = next((source for source in sources if source.field == "pairing"), None)
    if stated is not None and stated.origin == "preset":
        family = keys.data.get("model_type")
        same = "" if family == stated.where else f", of the family {stated.where!r}"
        return f"model_type {family!r}{same}"
    return "its family" if stated is None else f"{stated.where}"
