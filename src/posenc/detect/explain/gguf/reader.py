"""GGUF files into plans, from their headers.

A plan says what llama.cpp computes from a file; `configs/gguf.json` has a rule for each
architecture, read at commit 0c1e57098 of ggml-org/llama.cpp: `src/llama-model.cpp` for the types of
rotation and the defaults, `src/models/*.cpp` for windows, layers that do not turn, and scalings.
The keys of a part, such as `attention.head_count`, are expressions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from posenc._core.calls import checked_call
from posenc._core.errors import suggest
from posenc._core.grouping import grouped
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Header, read_header
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.view import (
    Keys,
    Notes,
    UnsettledError,
    check_base,
    noted,
    settled,
    unsettled_if,
)
from posenc.detect.explain.gguf.rotation import HeaderFile, rotation_of, short_number
from posenc.detect.explain.layers.non_rotary import applies, read_other
from posenc.encodings.rotary.magnitude import Temperature
from posenc.encodings.rotary.pairing import Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.presets.families import families, family
from posenc.presets.row_types_gguf import GgufRotaryRule

FORMAT = "gguf"
WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"
MOST_LAYERS = 4096
NUMBERS = (
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "rope.scale_linear",
    "context_length",
    "block_count",
    "nextn_predict_layers",
    WINDOW,
)
KNOWN = (*NUMBERS, "rope.dimension_sections", "rope.scaling.type", "rope.scaling.finetuned")


@checked_call
def from_gguf(
    path: str | os.PathLike[str],
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    on_error: Literal["raise", "report"] = "raise",
) -> Reading:
    """Read the header of a GGUF file into a plan.

    Only the header is read, and the few factors of frequencies that some files keep as a tensor.
    The pairing follows from the architecture: converters permute weights to fit it.

    Parameters
    ----------
    path : path
        A GGUF file of version 2 or 3, little-endian.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels, for architectures that are not known.
    base : float, optional
        The base; it overrides the file's.
    on_error : {"raise", "report"}
        As in `posenc.from_hf`.

    Returns
    -------
    Reading
        An entry for each type of layer that the header tells apart.

    Raises
    ------
    DataError
        If the file is no GGUF file, or something that changes numbers is left open.

    Examples
    --------
    >>> import pathlib, struct, tempfile, posenc
    >>> def text(s): return struct.pack("<Q", len(s)) + s.encode()
    >>> data = b"GGUF" + struct.pack("<IQQ", 3, 0, 3)  # version, tensors, keys
    >>> data += text("general.architecture") + struct.pack("<I", 8) + text("qwen2")
    >>> data += text("qwen2.rope.dimension_count") + struct.pack("<II", 4, 64)
    >>> data += text("qwen2.rope.freq_base") + struct.pack("<If", 6, 1e6)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.gguf"
    >>> path.write_bytes(data) > 0
    True
    >>> posenc.from_gguf(path)["attention"].spec == posenc.RoPE(64, base=1e6, pairing="half")
    True
    """
    check_base("from_gguf", base)
    file, notes = inputs.named(path, "from_gguf"), Notes()
    entries, model = _entries(file, read_header(file), pairing, base, notes)
    return settled(
        Reading(tuple(entries), notes=tuple(notes.notes), model=model), "from_gguf", on_error
    )


def _entries(
    path: Path, header: Header, pairing: str | None, base: float | None, notes: Notes
) -> tuple[list[Layer], str]:
    model = header.keys.get("general.architecture")
    if not isinstance(model, str):
        notes.error("general.architecture is missing")
        return [], ""
    keys = _keys(header, model)
    row = family(model, FORMAT)
    rules: Any = row.entries if row is not None else ({},)
    if row is not None and row.note:
        notes.remark(row.note)
    if row is None and pairing is None:
        todo = suggest(model, families(FORMAT))
        hint = f" {todo}" if todo.startswith("Did") else ""
        notes.error(f"the architecture {model!r} is not known, nor how it pairs channels.{hint}")
    for key in NUMBERS:
        if (told := keys.wrong([key])) is not None:
            notes.error(f"{told} is no number")
    entries: list[Layer] = []
    for rule in (rule for rule in rules if applies(keys, rule)):
        turning = row is None or "rotary" in rule
        entries += (
            _rotary(HeaderFile(path, header, keys, rule, pairing, base), notes)
            if turning
            else read_other(keys, rule, "", notes)
        )
        if turning or "refused_because" in rule:
            break
    for key in keys.data:
        if key.startswith("rope.") and key not in KNOWN and key not in keys.read:
            notes.error(f"{keys.where(key)}={repr(keys.data[key])[:80]} is not understood")
    return entries, model


def _keys(header: Header, model: str) -> Keys:
    """The keys of the architecture, flat and, for expressions, in parts."""
    start = f"{model}."
    data = {k.removeprefix(start): v for k, v in header.keys.items() if k.startswith(start)}
    split = ((*key.partition("."), value) for key, value in data.items())
    parts = grouped((part, (name, value)) for part, _, name, value in split if name)
    inner = {part: dict(own) for part, own in parts.items() if part not in data}
    return Keys(data | inner, model)


class LayerKind(NamedTuple):
    """What layers of one type have in common."""

    attends: bool = True
    window: bool | None = None  # None where the model has no windows
    turns: bool = True
    indexer: bool | None = None


def _rotary(file: HeaderFile, notes: Notes) -> list[Layer]:
    """An entry for each type of layer that the header tells apart."""
    kinds = _kinds_of(file.keys, file.rule, notes) or {}
    specs: dict[bool, Layer | None] = {}
    made: list[Layer] = []
    for kind, indices in kinds.items():
        name = _name(file.rule, kind, kinds)
        if not (kind.attends and kind.turns):
            scale = _temperature_of(file, kind, notes) if kind.attends else None
            made.append(Layer(name, indices=indices, logit_scale=scale))
            continue
        if (local := bool(kind.window)) not in specs:
            specs[local] = rotation_of(file, name, local, notes)
        if (entry := specs[local]) is None:
            continue
        spec = entry.spec
        if isinstance(spec, RoPE) and (scale := _temperature_of(file, kind, notes)) is not None:
            spec = spec.replace(magnitude=spec.magnitude.replace(temperature=scale))
        entry = entry.replace(layer=name, indices=indices, windows=_window(file, kind), spec=spec)
        made.append(entry)
        if kind.indexer and isinstance(spec, RoPE):
            made.append(_indexer(file.rule, entry, spec))
    return made


def _name(rule: GgufRotaryRule, kind: LayerKind, kinds: Mapping[LayerKind, Any]) -> str:
    if not kind.attends:
        return "without attention"
    local = rule.get("windows", {}).get("name", "sliding_attention")
    name = {None: "attention", True: local, False: "full_attention"}[kind.window]
    still = not kind.turns and kind._replace(turns=True) in kinds
    shared = kind.indexer is False and kind._replace(indexer=True) in kinds
    return f"{name}{', without positions' * still}{', shared indexer' * shared}"


def _window(file: HeaderFile, kind: LayerKind) -> tuple[tuple[int | None, None], ...]:
    """What layers see; empty where the architecture has no windows, or chunks, or half of each."""
    size, rule = file.keys.integer(WINDOW), file.rule.get("windows", {})
    if kind.window is None or not size or size < 1 or "name" in rule or "symmetric" in rule:
        return ()
    return ((size if kind.window else None, None),)


def _indexer(rule: GgufRotaryRule, entry: Layer, spec: RoPE) -> Layer:
    """The rotation of the queries and keys by which an indexer chooses what a layer sees."""
    whole = spec.pairing if isinstance(spec.pairing, Pairing) else Pairing(spec.pairing)
    return entry.replace(
        spec=spec.replace(
            pairing=whole.replace(**rule["indexer"]["pairing"]),
            magnitude=spec.magnitude.replace(logit_factor=1.0, temperature=None),
        ),
        attention="indexer",
        permuted="",
        windows=(),
    )


@noted
def _temperature_of(file: HeaderFile, kind: LayerKind, notes: Notes) -> Temperature | None:  # noqa: ARG001
    """A factor on the scores of the layers of a type that grows with the position."""
    told = file.rule.get("temperature")
    if told is None or (told.get("layers") == "without_rope") == kind.turns:
        return None
    keys, start = file.keys, told.get("start", 0)
    strength = told.get("strength") or short_number(keys, "attention.temperature_scale")
    if not strength or (told.get("layers") and kind.window is None):
        return None
    stated = (keys.integer(key) for key in told.get("lengths", ()))
    length = told.get("length") or next(filter(None, stated), None)
    if length is None or length < 2:
        raise UnsettledError(
            f"{keys.where(told['lengths'][0])} is missing: it says where the temperature begins"
        )
    return Temperature(rule="log_floor", length=length, strength=strength, start=start)


# --- which layers are alike: windows, attention, rotation, indexers -------------------------------


@noted
def _kinds_of(
    keys: Keys, rule: GgufRotaryRule, notes: Notes
) -> dict[LayerKind, tuple[int, ...] | None]:
    """The types of layers, and the layers of each; None where one is all, or it is not known."""
    count, drafts = keys.integer("block_count"), keys.integer("nextn_predict_layers") or 0
    unsettled_if(
        not 0 <= drafts < (MOST_LAYERS if count is None else count) <= MOST_LAYERS,
        f"{keys.where('block_count')}={count} with {drafts} draft layers is no number of layers",
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
            f"{keys.where('block_count')} is missing: read in part, because the types of layers "
            "are known, and which layer has which is not"
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
    layers: dict[LayerKind, list[int]] = grouped(
        (LayerKind(*own) if own[0] else LayerKind(attends=False), index)
        for index, own in enumerate(zip(*fields, strict=True))
    )
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
                f"{keys.where(own if own in keys else WINDOW)}: read in part, because some layers "
                "see a window, and what they turn by is not known of this architecture; the plan "
                "has one entry for all"
            )
        elif own in keys:
            notes.warning(unread)
        return False
    when, base = rule["windows"]["present"], rule["windows"]["base"]
    some = {"window": bool(size), "unless 0": size != 0}.get(when, True)
    if not some and size is None and "optional" not in rule["windows"]:
        notes.warning(
            f"{keys.where(WINDOW)} is missing: models of this architecture have layers with a "
            "window, and this header does not say which layers, nor by which base they turn. "
            "llama.cpp treats all layers alike, and so does the plan"
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
            f"{keys.where(PATTERN)} is left out: all but every {every}th layer, llama.cpp's default"
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
            f"{keys.where(rule['indexer']['flags'])} is missing: read in part, because some layers "
            "may share the choice of the layer before; the plan gives each an indexer"
        )
    return [True] * count if flags is None else list(flags)
