"""Which layers of a GGUF file are alike: windows, attention, rotation, indexers."""

from __future__ import annotations

from typing import NamedTuple

from posenc.detect.explain.config.view import Keys, Notes, UnsettledError, noted
from posenc.presets.row_types_gguf import GgufRotaryRule

WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"
MOST_LAYERS = 4096


class LayerKind(NamedTuple):
    """What layers of one type have in common."""

    attends: bool = True
    window: bool | None = None  # None where the model has no windows
    turns: bool = True
    indexer: bool | None = None


@noted
def kinds_of(
    keys: Keys, rule: GgufRotaryRule, notes: Notes
) -> dict[LayerKind, tuple[int, ...] | None]:
    """The types of layers, and the layers of each; None where one is all, or it is not known."""
    count, drafts = keys.integer("block_count"), keys.integer("nextn_predict_layers") or 0
    if not 0 <= drafts < (MOST_LAYERS if count is None else count) <= MOST_LAYERS:
        raise UnsettledError(
            f"{keys.where('block_count')}={count} with {drafts} draft layers is no depth"
        )
    if drafts:
        notes.remark(f"draft layers (nextn_predict_layers={drafts}) are not in the plan")
    windowed = _has_windows(keys, rule, notes)
    layered = (
        windowed or "full_attention_every" in rule or "rope_layers" in rule or "indexer" in rule
    )
    if count is None:
        if not layered and not isinstance(keys.get("attention.head_count_kv"), list):
            return {LayerKind(): None}
        notes.warning(
            f"{keys.where('block_count')} is missing: partly, because the types of layers are "
            "known and not which are which"
        )
    number = 64 if count is None else count - drafts  # enough for every type to be there
    windows: list[bool | None] = [None] * number
    windows = _windows(keys, rule, number, notes) if windowed else windows
    fields = (
        _attends(keys, rule, number, notes),
        windows,
        _turns(keys, rule, windows, notes),
        _indexers(keys, rule, number, notes),
    )
    layers: dict[LayerKind, list[int]] = {}
    for index, own in enumerate(zip(*fields, strict=True)):
        kind = LayerKind(*own) if own[0] else LayerKind(attends=False)
        layers.setdefault(kind, []).append(index)
    if count is None or (len(layers) == 1 and not windowed):
        return dict.fromkeys(layers)
    return {kind: tuple(found) for kind, found in layers.items()}


def _has_windows(keys: Keys, rule: GgufRotaryRule, notes: Notes) -> bool:
    """Whether some layers see a window."""
    size, own = keys.number(WINDOW), "rope.freq_base_swa"
    unread = f"{keys.where(own)} is not read by llama.cpp for this architecture"
    if "windows" not in rule:
        if "rotary" not in rule and (size or own in keys):
            notes.warning(
                f"{keys.where(own if own in keys else WINDOW)}: partly, because some layers see a "
                "window, and what they turn by is not known of this architecture; the plan has one "
                "entry for all"
            )
        elif own in keys:
            notes.warning(unread)
        return False
    when, base = rule["windows"]["present"], rule["windows"]["base"]
    some = {"window": bool(size), "unless 0": size != 0}.get(when, True)
    if not some and size is None and "optional" not in rule["windows"]:
        notes.warning(
            f"{keys.where(WINDOW)} is missing: models of this architecture have layers with a "
            "window, and which they are, and by what they turn, this header does not show. "
            "llama.cpp takes all layers alike, and so does the plan"
        )
    if base == "full" and keys.number(own) not in (None, keys.number("rope.freq_base")):
        notes.warning(unread)
    elif not some and own in keys:
        notes.warning(
            f"{keys.where(own)} is for layers with a window, of which llama.cpp has none here, as "
            f"{keys.where(WINDOW)} is {'missing' if size is None else '0'}"
        )
    return some


def _flags(keys: Keys, key: str, count: int, notes: Notes) -> list[bool] | None:
    """A list with a truth value for each layer; None where there is none."""
    value = keys.get(key)
    if not isinstance(value, list):
        return None
    if len(value) < count or not all(isinstance(flag, int) for flag in value):
        notes.error(f"{keys.where(key)} is not a list of {count} truth values, one for each layer")
        return [False] * count
    return [bool(flag) for flag in value[:count]]


def _windows(keys: Keys, rule: GgufRotaryRule, count: int, notes: Notes) -> list[bool | None]:
    """Whether each layer sees a window."""
    if (flags := _flags(keys, PATTERN, count, notes)) is not None:
        return list(flags)
    windows, stated = rule["windows"], keys.get(PATTERN)
    every = windows.get("every") if stated is None else stated
    if stated is None and every is not None:
        notes.remark(
            f"{keys.where(PATTERN)} is left out: all but each {every}th layer, llama.cpp's default"
        )
    if type(every) is not int or not 0 <= every <= MOST_LAYERS or windows["present"] == "listed":
        told = "is missing" if stated is None else f"={str(stated)[:80]} is not one"
        notes.error(f"{keys.where(PATTERN)} {told}: a list says which layers see a window")
        return [False] * count
    full = 0 if windows.get("full_first") else every - 1
    return [every == 0 or index % every != full for index in range(count)]


def _attends(keys: Keys, rule: GgufRotaryRule, count: int, notes: Notes) -> list[bool]:
    """Whether each layer has attention; the others are recurrences and convolutions."""
    if "full_attention_every" in rule:
        if (recurrent := _flags(keys, "attention.recurrent_layers", count, notes)) is not None:
            return [not flag for flag in recurrent]
        every = keys.integer("full_attention_interval") or rule["full_attention_every"]
        return [(index + 1) % every == 0 for index in range(count)]
    for key in ("attention.head_count_kv", "attention.head_count"):
        heads = keys.get(key)
        if isinstance(heads, list) and any(value == 0 for value in heads):
            return _flags(keys, key, count, notes) or []
    return [True] * count


def _turns(
    keys: Keys, rule: GgufRotaryRule, windows: list[bool | None], notes: Notes
) -> list[bool]:
    """Whether each layer turns queries and keys."""
    count, turns = len(windows), rule.get("rope_layers")
    if rule.get("finetuned_switch") and keys.get("rope.scaling.finetuned") is False:
        return [False] * count
    if turns is None or (turns.get("only_without_windows") and None in windows):
        return [True] * count
    if "flags" in turns:
        return _flags(keys, turns["flags"], count, notes) or [True] * count
    if "skip_every" in turns:
        return [index % turns["skip_every"] != turns["skip_at"] for index in range(count)]
    lead = keys.integer(turns["leading"]) or 0 if "leading" in turns else 0
    return [window is not False or index < lead for index, window in enumerate(windows)]


def _indexers(keys: Keys, rule: GgufRotaryRule, count: int, notes: Notes) -> list[bool | None]:
    """Whether each layer has an indexer; None where the model has none."""
    if "indexer" not in rule or not keys.integer("attention.indexer.head_count"):
        return [None] * count
    if "flags" not in rule["indexer"]:
        return [True] * count
    flags = _flags(keys, rule["indexer"]["flags"], count, notes)
    if flags is None and (keys.integer("context_length") or 0) >= 2**20:
        notes.warning(
            f"{keys.where(rule['indexer']['flags'])} is missing: partly, because some layers may "
            "share the choice of the layer before; the plan gives each an indexer"
        )
    return [True] * count if flags is None else list(flags)
