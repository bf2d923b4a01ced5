"""GGUF files into plans, from their headers.

A plan says what llama.cpp computes from a file; `configs/gguf.json` has a rule for each
architecture, read at commit 0c1e57098 of ggml-org/llama.cpp: `src/llama-model.cpp` for the types of
rotation and the defaults, `src/models/*.cpp` for windows, layers that do not turn, and scalings.
Rules of encodings that do not turn, and `when`, are those of `posenc.presets.families`; the keys of
a part, such as `attention.head_count`, are expressions. A rotary rule may have

    width         the keys that give the width, instead of the format's
    fixed         the file's base and scaling are not read
    alpha         `rope.scaling.alpha` multiplies the base, raised to d / (d - 2)
    windows       when      layers with a window exist: `window` where the key is above 0, `unless
                            0` also where it is absent, `always`, `listed` by a list that must be
                  without   models without such layers are published, whose files lack the key
                  every     the pattern where no key states one: all but each nth layer
                  first     whether the layer without a window is the first of the n
                  base      of layers with a window: `full` that of the others, `stated` its own
                            key or that of the others, `own` its own key or 10,000
                  scaling   of these layers: `full`, `none`, or `factor` where the frequencies
                            alone go without
                  name      of these layers
    turns         which layers turn: `sliding`; the key of a list; or all but those with
                  i % `skip` == `at`, `alone` where there are windows; `lead` counts first ones
                  that do
    attends       `every`: one layer of so many attends, where no key says so
    indexer       fields of the pairing by which an indexer turns; `types` is a key of its layers
    switch        `rope.scaling.finetuned` turns rotation off
    factors       `llama3`: a scaling may be kept as a tensor; `full`: it is for layers without
                  a window
    reads         keys of YaRN that are read for this architecture, with what they are if absent
    log           `times` the multiplier of the magnitude is m(k)'s k; `same`: also that of the
                  numerator; `scores`: whether scores are multiplied too
    temperature   fields of `Temperature`, as templates; `in` says in which layers
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc import registry
from posenc._core.errors import DataError, PosencError, mismatch, suggest
from posenc._core.reading import Layer, Reading
from posenc._core.spec import Spec
from posenc.detect.explain.config_view import Keys, is_number
from posenc.detect.explain.non_rotary import applies, read_other
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.reader import check_arguments
from posenc.detect.files import Header, read_header, read_tensor
from posenc.encodings.rotary.magnitude import Temperature
from posenc.encodings.rotary.pairing import Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import fill
from posenc.presets.families import convention, families, family

__all__ = ["from_gguf"]

FORMAT = "gguf"
WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"
DEFAULT_BASE = 10_000.0  # of the format: files leave the key out for it
MOST_LAYERS = 4096
LONG_CONTEXT = 131_072  # from which models of rules `llama3` usually have a scaling
YARN = {"yarn_ext_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
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
FACTORS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


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
    check_arguments("from_gguf", pairing, base, on_error)
    file = Path(path)
    header = read_header(file)
    notes = Notes()
    entries, model = _entries(file, header, pairing, base, notes)
    plan = Reading(tuple(entries), notes=tuple(notes.notes), model=model)
    if plan.errors and on_error == "raise":
        todo = 'on_error="report" returns what could be read.'
        raise DataError(f"from_gguf: {'; '.join(plan.errors)}. {todo}")
    return plan


class _Kind(NamedTuple):
    """What layers of one type have in common."""

    attends: bool = True
    window: bool | None = None  # None where the model has no windows
    turns: bool = True
    indexer: bool | None = None


class _File(NamedTuple):
    """A header, and what the caller said."""

    path: Path
    header: Header
    keys: Keys
    rule: Mapping[str, Any]
    pairing: str | None
    base: float | None


def _entries(
    path: Path, header: Header, pairing: str | None, base: float | None, notes: Notes
) -> tuple[list[Layer], str]:
    model = header.keys.get("general.architecture")
    if not isinstance(model, str):
        notes.error("general.architecture is missing")
        return [], ""
    keys = _keys(header, model)
    row = family(model, FORMAT)
    rules = row.entries if row is not None else ({},)
    if row is not None and row.note:
        notes.remark(row.note)
    if row is None and pairing is None:
        todo = suggest(model, families(FORMAT))
        hint = f" {todo}" if todo.startswith("Did") else ""
        notes.error(f"the architecture {model!r} is not known, and the pairing with it.{hint}")
    for key in NUMBERS:
        if (told := keys.wrong([key])) is not None:
            notes.error(f"{told} is no number")
    found: list[Layer] = []
    for rule in rules:
        if not applies(keys, rule):
            continue
        if row is None or "rotary" in rule:
            found += _rotary(_File(path, header, keys, rule, pairing, base), notes)
        else:
            found += read_other(keys, rule, "", notes)
        if row is None or "rotary" in rule or "refuse" in rule:
            break
    for key in keys.data:
        if key.startswith("rope.") and key not in KNOWN and key not in keys.read:
            notes.error(f"{keys.where(key)}={keys.data[key]!r} is not understood")
    return found, model


def _keys(header: Header, model: str) -> Keys:
    """The keys of the architecture, flat and, for expressions, in parts."""
    start = f"{model}."
    data = {k.removeprefix(start): v for k, v in header.keys.items() if k.startswith(start)}
    parts: dict[str, dict[str, Any]] = {}
    for key, value in data.items():
        part, _, name = key.partition(".")
        if name and part not in data:
            parts.setdefault(part, {})[name] = value
    return Keys({**data, **parts}, model)


# --- types of layers ------------------------------------------------------------------------------


def _rotary(file: _File, notes: Notes) -> list[Layer]:
    """An entry for each type of layer that the header tells apart."""
    kinds = _kinds(file, notes)
    specs: dict[bool, Layer | None] = {}
    made: list[Layer] = []
    for kind, indices in kinds.items():
        name = _name(file.rule, kind, kinds)
        if not (kind.attends and kind.turns):
            scale = _temperature(file, kind, notes) if kind.attends else None
            made.append(Layer(name, indices=indices, logit_scale=scale))
            continue
        local = bool(kind.window)
        if local not in specs:
            specs[local] = _entry(file, name, local, notes)
        entry = specs[local]
        if entry is None:
            continue
        entry = entry.replace(layer=name, indices=indices)
        spec = entry.spec
        if isinstance(spec, RoPE) and (scale := _temperature(file, kind, notes)) is not None:
            spec = spec.replace(magnitude=spec.magnitude.replace(temperature=scale))
            entry = entry.replace(spec=spec)
        made.append(entry)
        if kind.indexer and isinstance(spec, RoPE):
            made.append(_indexer(file.rule, entry, spec))
    return made


def _name(rule: Mapping[str, Any], kind: _Kind, kinds: Mapping[_Kind, Any]) -> str:
    if not kind.attends:
        return "without attention"
    if kind.window is None:
        name = "attention"
    else:
        local = rule["windows"].get("name", "sliding_attention")
        name = local if kind.window else "full_attention"
    if not kind.turns and kind._replace(turns=True) in kinds:
        name += ", without positions"
    if kind.indexer is False and kind._replace(indexer=True) in kinds:
        name += ", shared indexer"
    return name


def _indexer(rule: Mapping[str, Any], entry: Layer, spec: RoPE) -> Layer:
    """The rotation of the queries and keys by which an indexer chooses what a layer sees."""
    whole = spec.pairing if isinstance(spec.pairing, Pairing) else Pairing(spec.pairing)
    pairing = whole.replace(**rule["indexer"]["pairing"])
    magnitude = spec.magnitude.replace(logit_factor=1.0, temperature=None)
    turned = spec.replace(pairing=pairing, magnitude=magnitude)
    return entry.replace(spec=turned, attention="indexer")


def _kinds(file: _File, notes: Notes) -> dict[_Kind, tuple[int, ...] | None]:
    """The types of layers, and the layers of each; None where one is all, or it is not known."""
    keys, rule = file.keys, file.rule
    count, drafts = keys.integer("block_count"), keys.integer("nextn_predict_layers") or 0
    if not 0 <= drafts < (MOST_LAYERS if count is None else count) <= MOST_LAYERS:
        notes.error(f"{keys.where('block_count')}={count} with {drafts} draft layers is no depth")
        return {}
    if drafts:
        notes.remark(f"draft layers (nextn_predict_layers={drafts}) are not in the plan")
    windowed = _windowed(keys, rule, notes)
    layered = windowed or "attends" in rule or "turns" in rule or "indexer" in rule
    if count is None:
        if not layered and not isinstance(keys.get("attention.head_count_kv"), list):
            return {_Kind(): None}
        told = "partly, because the types of layers are known and not which are which"
        notes.warning(f"{keys.where('block_count')} is missing: {told}")
        count = 64  # enough for every type to be there
        stated = False
    else:
        count, stated = count - drafts, True
    windows: list[bool | None] = [None] * count
    if windowed:
        windows = _windows(keys, rule, count, notes)
    attends = _attends(keys, rule, count, notes)
    turns = _turns(keys, rule, windows, notes)
    indexers = _indexers(keys, rule, count, notes)
    layers: dict[_Kind, list[int]] = {}
    for index, fields in enumerate(zip(attends, windows, turns, indexers, strict=True)):
        kind = _Kind(*fields) if fields[0] else _Kind(attends=False)
        layers.setdefault(kind, []).append(index)
    if not stated or (len(layers) == 1 and not windowed):
        return dict.fromkeys(layers)
    return {kind: tuple(found) for kind, found in layers.items()}


def _windowed(keys: Keys, rule: Mapping[str, Any], notes: Notes) -> bool:
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
    when, base = rule["windows"]["when"], rule["windows"]["base"]
    some = {"window": bool(size), "unless 0": size != 0}.get(when, True)
    if not some and size is None and "without" not in rule["windows"]:
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


def _windows(keys: Keys, rule: Mapping[str, Any], count: int, notes: Notes) -> list[bool | None]:
    """Whether each layer sees a window."""
    flags = _flags(keys, PATTERN, count, notes)
    if flags is not None:
        return list(flags)
    windows = rule["windows"]
    stated = keys.get(PATTERN)
    every = windows.get("every") if stated is None else stated
    if stated is None and every is not None:
        notes.remark(
            f"{keys.where(PATTERN)} is left out: all but each {every}th layer, llama.cpp's default"
        )
    if type(every) is not int or not 0 <= every <= MOST_LAYERS or windows["when"] == "listed":
        told = "is missing" if stated is None else f"={str(stated)[:80]} is not one"
        notes.error(f"{keys.where(PATTERN)} {told}: a list says which layers see a window")
        return [False] * count
    if every == 0:
        return [True] * count
    full = 0 if windows.get("first") else every - 1
    return [index % every != full for index in range(count)]


def _attends(keys: Keys, rule: Mapping[str, Any], count: int, notes: Notes) -> list[bool]:
    """Whether each layer has attention; the others are recurrences and convolutions."""
    if "attends" in rule:
        recurrent = _flags(keys, "attention.recurrent_layers", count, notes)
        if recurrent is not None:
            return [not flag for flag in recurrent]
        every = keys.integer("full_attention_interval") or rule["attends"]["every"]
        return [(index + 1) % every == 0 for index in range(count)]
    for key in ("attention.head_count_kv", "attention.head_count"):
        heads = keys.get(key)
        if isinstance(heads, list) and any(value == 0 for value in heads):
            return _flags(keys, key, count, notes) or []
    return [True] * count


def _turns(
    keys: Keys, rule: Mapping[str, Any], windows: list[bool | None], notes: Notes
) -> list[bool]:
    """Whether each layer turns queries and keys."""
    count, turns = len(windows), rule.get("turns")
    if rule.get("switch") and keys.get("rope.scaling.finetuned") is False:
        return [False] * count
    if turns is None or (turns.get("alone") and None in windows):
        return [True] * count
    if "list" in turns:
        return _flags(keys, turns["list"], count, notes) or [True] * count
    if "skip" in turns:
        return [index % turns["skip"] != turns["at"] for index in range(count)]
    lead = keys.integer(turns["lead"]) or 0 if "lead" in turns else 0
    return [window is not False or index < lead for index, window in enumerate(windows)]


def _indexers(keys: Keys, rule: Mapping[str, Any], count: int, notes: Notes) -> list[bool | None]:
    """Whether each layer has an indexer; None where the model has none."""
    if "indexer" not in rule or not keys.integer("attention.indexer.head_count"):
        return [None] * count
    if "types" not in rule["indexer"]:
        return [True] * count
    flags = _flags(keys, rule["indexer"]["types"], count, notes)
    if flags is None and (keys.integer("context_length") or 0) >= 2**20:
        notes.warning(
            f"{keys.where(rule['indexer']['types'])} is missing: partly, because some layers may "
            "share the choice of the layer before; the plan gives each an indexer"
        )
    return [True] * count if flags is None else list(flags)


def _temperature(file: _File, kind: _Kind, notes: Notes) -> Temperature | None:
    """A factor on the scores of the layers of a type that grows with the position."""
    told = file.rule.get("temperature")
    if told is None or (told.get("in") == "without positions") == kind.turns:
        return None
    keys = file.keys
    strength = told.get("strength") or _short(keys, "attention.temperature_scale")
    if not strength or (told.get("in") and kind.window is None):
        return None
    length = told.get("length") or next(
        (found for key in told["lengths"] if (found := keys.integer(key))), None
    )
    if length is None or length < 2:
        notes.error(f"{keys.where(told['lengths'][0])} is missing: where the temperature begins")
        return None
    return Temperature(
        rule="log_floor", length=length, strength=strength, start=told.get("start", 0)
    )


# --- the rotation of a type of layer --------------------------------------------------------------


def _short(keys: Keys, key: str) -> float | None:
    """A number as it was written: the header holds float32, of short decimal numbers."""
    value = keys.number(key)
    if value is None or abs(value) > np.finfo(np.float32).max:
        return value
    return float(str(np.float32(value)))


def _entry(file: _File, name: str, local: bool, outer: Notes) -> Layer | None:
    notes = Notes(name)
    rule = file.rule
    template: dict[str, Any] = {"type": "RoPE"}
    if "rotary" in rule:
        template = {
            k: v for k, v in convention(rule["rotary"]).spec.items() if k not in ("base", "scaling")
        }
        notes.source("pairing", "preset", rule["rotary"])
    if file.pairing is not None:
        template["pairing"] = {"type": "Pairing", "order": file.pairing}
        notes.source("pairing", "caller", "pairing")
    dim = _dim(file, local, notes)
    base = _base(file, local, notes)
    entry = None
    if dim is not None and "pairing" in template:
        _sections(file.keys, rule, template, dim // 2, notes)
        magnitude = {**template.get("magnitude", {"type": "RotaryMagnitude"})}
        scaling = _scaling(file, local, dim // 2, magnitude, notes)
        filled = {**template, "dim": dim, "base": base, "magnitude": magnitude}
        if scaling:
            filled["scaling"] = scaling
        entry = None if notes.failed else _built(file.keys, filled, dim, notes)
    outer.notes += [note for note in notes.notes if note not in outer.notes]
    return entry


def _built(keys: Keys, filled: dict[str, Any], dim: int, notes: Notes) -> Layer | None:
    try:
        spec = registry.from_json(json.dumps(fill(filled, {"dim": dim})))
    except PosencError as error:
        notes.error(str(error))
        return None
    if not isinstance(spec, Spec):
        return None
    length = keys.integer("context_length")
    return Layer(notes.layer, spec=spec, length=length, sources=tuple(notes.sources))


def _dim(file: _File, local: bool, notes: Notes) -> int | None:
    keys, rule = file.keys, file.rule
    options = ["rope.dimension_count", "attention.key_length"]
    if local:
        options = ["rope.dimension_count_swa", *options]
    found = keys.first(rule.get("width", options))
    if found is not None:
        notes.source("dim", "config", keys.where(found[0]))
        share = 1 if local else rule.get("share", 1)
        return int(found[1] * share)
    if (head := _head(keys)) is not None:
        notes.source("dim", "config", "embedding_length // attention.head_count")
        return head
    notes.error(
        f"{keys.where('rope.dimension_count')} is missing, and nothing else gives the width"
    )
    return None


def _base(file: _File, local: bool, notes: Notes) -> float:
    keys, rule = file.keys, file.rule
    if file.base is not None:
        notes.source("base", "caller", "base")
        return float(file.base)
    key, fallback = "rope.freq_base", "rope.freq_base"
    if local and rule["windows"]["base"] != "full":
        key = "rope.freq_base_swa"
        fallback = key if rule["windows"]["base"] == "own" else fallback
    key = key if key in keys else fallback
    value = _short(keys, key)
    if "fixed" in rule:
        if value not in (None, DEFAULT_BASE):
            notes.warning(f"{keys.where(key)}={value:g}: llama.cpp takes {DEFAULT_BASE:g} here")
        value = DEFAULT_BASE
    if value is None:
        notes.warning(f"{keys.where(key)} is missing: {DEFAULT_BASE:g} is the format's default")
        notes.source("base", "format", keys.where(key))
        return DEFAULT_BASE
    if value <= 0:
        notes.error(f"{keys.where(key)}={value:g} is no base: it must be positive")
    notes.source("base", "config", keys.where(key))
    alpha = _short(keys, "rope.scaling.alpha") if "alpha" in rule else None
    head = keys.integer("attention.key_length") or _head(keys) if alpha else None
    if alpha and head and head > 2:
        notes.source("base", "config", keys.where("rope.scaling.alpha"))
        return float(value * alpha ** (head / (head - 2)))
    return float(value)


def _head(keys: Keys) -> int | None:
    """The width of a head, where no key states it."""
    width, heads = keys.integer("embedding_length"), keys.get("attention.head_count")
    heads = heads[0] if isinstance(heads, list) and heads else heads
    return width // int(heads) if width and is_number(heads) and heads >= 1 else None


def _sections(
    keys: Keys, rule: Mapping[str, Any], template: dict[str, Any], pairs: int, notes: Notes
) -> None:
    key = "rope.dimension_sections"
    sizes = keys.get(key)
    if "sections" not in rule:
        if isinstance(sizes, list) and any(sizes) and "arrangement" not in template:
            notes.remark(f"{keys.where(key)}={sizes} is not read for text of this architecture")
        return
    if not isinstance(sizes, list) or len(sizes) < 3:
        notes.error(f"{keys.where(key)} is missing")
        return
    if any(sizes[3:]):
        notes.error(f"{keys.where(key)}={sizes} has a fourth axis, which this family has not")
        return
    notes.source("arrangement.sizes", "config", keys.where(key))
    template["arrangement"] = {**template["arrangement"], "sizes": sizes[:3]}
    lost = [
        pair
        for pair in range(pairs if rule["sections"] == "cyclic" else 0)
        if is_number(sizes[pair % 3]) and pair >= 3 * sizes[pair % 3]
    ]
    if lost:
        notes.warning(
            f"{keys.where(key)}={sizes}: llama.cpp gives pairs {', '.join(map(str, lost))} the "
            "fourth position, which is 0 for text; the plan gives them time, as the model was made"
        )


# --- scalings -------------------------------------------------------------------------------------


def _scaling(
    file: _File, local: bool, pairs: int, magnitude: dict[str, Any], notes: Notes
) -> list[dict[str, Any]]:
    """The scalings of a type of layer; `magnitude` gets the factors that come with them."""
    keys, rule = file.keys, file.rule
    reach = rule["windows"]["scaling"] if local else "full"
    kind = keys.get("rope.scaling.type") or "linear"
    known = ("none", "linear", "yarn", "longrope")
    if kind not in known:
        notes.error(
            f"{keys.where('rope.scaling.type')}={kind!r} is not known. {suggest(str(kind), known)}"
        )
        return []
    stated = "rope.scaling.factor" if "rope.scaling.factor" in keys else "rope.scale_linear"
    factor = (_short(keys, stated) or 1.0) if kind != "none" else 1.0
    if factor < 1:
        notes.error(f"{keys.where(stated)}={factor:g} is below 1")
        return []
    if "fixed" in rule or reach == "none":
        return []
    made: list[dict[str, Any]] = []
    attention = _short(keys, "rope.scaling.attn_factor")
    if kind in ("linear", "longrope") and factor != 1:
        made.append({"type": "Linear", "factor": factor})
    if kind == "yarn":
        made += _yarn(file, factor, attention, magnitude, notes)
    elif attention is not None:
        magnitude["attention_factor"] = attention
        notes.source("magnitude.attention_factor", "config", keys.where("rope.scaling.attn_factor"))
    if kind != "yarn" and "log" in rule and rule["log"].get("scores"):
        # The scores of these layers take the factor that YaRN would bring, whatever the rule.
        told = _short(keys, "rope.scaling.yarn_log_multiplier") or 0.0
        k = told * rule["log"]["times"]
        plain = (attention or 1.0) * _m(1, factor) * _m(k, factor)
        magnitude["logit_factor"] = plain**2
    if reach == "factor":
        # Frequencies are as without a scaling; cos and sin keep what cancels YaRN's factor.
        if kind == "yarn":
            whole = registry.from_json(json.dumps(made[-1])).attention_factor()  # type: ignore[attr-defined]
            given = magnitude.get("attention_factor")
            left = (whole if given is None else given) / _m(1, factor)
            magnitude["attention_factor"] = left
        made = []
    elif made:
        notes.source("scaling.factor", "config", keys.where(stated))
    if local and rule.get("factors") == "full":
        return made
    return made + _tensors(file, pairs, magnitude, notes)


def _m(k: float, factor: float) -> float:
    """YaRN's magnitude."""
    return 0.1 * k * math.log(factor) + 1.0


def _original(keys: Keys, notes: Notes) -> int | None:
    key = "rope.scaling.original_context_length"
    original = keys.integer(key)
    if original:
        notes.source("scaling.original_length", "config", keys.where(key))
        return original
    length = keys.integer("context_length")
    if length is None:
        notes.error(f"{keys.where(key)} is missing")
        return None
    notes.warning(f"{keys.where(key)} is missing: llama.cpp takes context_length={length}")
    notes.source("scaling.original_length", "format", keys.where("context_length"))
    return length


def _yarn(
    file: _File,
    factor: float,
    attention: float | None,
    magnitude: dict[str, Any],
    notes: Notes,
) -> list[dict[str, Any]]:
    keys, rule = file.keys, file.rule
    original = _original(keys, notes)
    if original is None:
        return []
    made: dict[str, Any] = {"type": "YaRN", "factor": factor, "original_length": original}
    reads = rule.get("reads", {})
    for name, default in YARN.items():
        key = f"rope.scaling.{name}"
        value = _short(keys, key)
        taken = reads.get(name, default) if value is None or name not in reads else value
        if value is not None and value != taken:
            notes.warning(
                f"{keys.where(key)}={value:g} is not read by llama.cpp for this architecture, "
                f"which takes {taken:g}"
            )
        elif value is not None and name in reads:
            notes.source(f"scaling.{name.removeprefix('yarn_')}", "config", keys.where(key))
        if name == "yarn_ext_factor" and taken != 1:
            notes.error(f"{keys.where(key)}={taken:g} is not understood: 1 is YaRN")
        elif name != "yarn_ext_factor":
            made[name.removeprefix("yarn_")] = taken
    log = rule.get("log", {})
    key = "rope.scaling.yarn_log_multiplier"
    told = _short(keys, key)
    if told is not None and not log:
        notes.warning(f"{keys.where(key)}={told:g} is not read by llama.cpp for this architecture")
    k = float(str(np.float32((told or 0.0) * log.get("times", 0.0))))
    if k:
        made |= {"mscale": k if log.get("same") else 1.0, "mscale_all_dim": k}
        notes.source("scaling.mscale_all_dim", "config", keys.where(key))
    first, own = made.get("mscale", 1.0), attention or 1.0
    stated = _short(keys, key := "rope.scaling.yarn_attn_factor")
    taken = _m(first, factor) / _m(k, factor)
    if stated is not None and abs(stated - taken) > 1e-4 * taken:
        notes.warning(f"{keys.where(key)}={stated:g} is not read by llama.cpp: it takes {taken:g}")
    if attention is not None:
        magnitude["attention_factor"] = own * _m(first, factor) / _m(k, factor)
        notes.source("magnitude.attention_factor", "config", keys.where("rope.scaling.attn_factor"))
    if log.get("scores"):
        exact = first == k and attention is None
        magnitude["logit_factor"] = "scaling" if exact else (own * _m(first, factor)) ** 2
    return [made]


def _tensors(
    file: _File, pairs: int, magnitude: dict[str, Any], notes: Notes
) -> list[dict[str, Any]]:
    """Factors of frequencies that the file keeps as tensors."""
    keys = file.keys
    values = {name: read_tensor(file.path, file.header, name) for name in (FACTORS, LONG, SHORT)}
    if all(found is None for found in values.values()):
        _no_tensors(file, notes)
    for name, found in values.items():
        # Where a type of layer turns a share of the width, it reads the first numbers.
        longer = found is not None and "share" in file.rule and len(found) > pairs
        if found is not None and len(found) != pairs and not longer:
            notes.error(f"{name} has {len(found)} numbers, and {pairs} pairs turn")
            return []
    factors = values[FACTORS]
    if factors is not None:
        notes.source("scaling.values", "config", FACTORS)
        return [{"type": "Multipliers", "values": factors[:pairs].tolist(), "use": "divide"}]
    long, short = values[LONG], values[SHORT]
    if long is None and short is None:
        return []
    if long is None or short is None:
        notes.error(mismatch("factors of frequencies", f"{LONG} and {SHORT}", "one of them"))
        return []
    original = _original(keys, notes)
    if original is None:
        return []
    if "attention_factor" not in magnitude:
        key = keys.where("rope.scaling.attn_factor")
        notes.warning(f"{key} is missing: llama.cpp takes 1, where LongRoPE has a factor above 1")
        magnitude["attention_factor"] = 1.0
    notes.source("scaling.long", "config", LONG)
    trained = keys.integer("context_length") or original
    made = {"type": "LongRoPE", "short": short[:pairs].tolist(), "long": long[:pairs].tolist()}
    return [{**made, "original_length": original, "factor": max(1.0, trained / original)}]


def _no_tensors(file: _File, notes: Notes) -> None:
    """A remark where a scaling might be kept as a tensor that this file lacks."""
    if "factors" not in file.rule:
        return
    keys, tensors = file.keys, f"{FACTORS} and {LONG}"
    parts = file.header.keys.get("split.count")
    if isinstance(parts, int) and parts > 1 and not file.header.tensors:
        notes.warning(
            f"split.count={parts}: partly, because {tensors} may lie in another part of the model"
        )
    elif (keys.integer("context_length") or 0) >= LONG_CONTEXT and not keys.get(
        "rope.scaling.type"
    ):
        notes.warning(
            f"{FACTORS} is missing: converters write the scaling 'llama3' as this tensor, and "
            "wrote nothing before July 2024. llama.cpp scales nothing, and so does the plan"
        )
