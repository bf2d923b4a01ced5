"""GGUF files into plans, from their headers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posenc import registry
from posenc._core.errors import DataError, PosencError, explain, suggest
from posenc._core.reading import Layer, Reading
from posenc._core.spec import Spec
from posenc.detect.explain.config_view import Keys
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.reader import check_arguments
from posenc.detect.files import Header, read_header, read_tensor
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import fill
from posenc.presets.families import convention, families, family

__all__ = ["from_gguf"]

FORMAT = "gguf"
WINDOW = "attention.sliding_window"
DEFAULT_BASE = 10_000.0  # of the format: files leave the key out for it
KNOWN = (
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.finetuned",
    "rope.scale_linear",
)
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


def _entries(
    file: Path, header: Header, pairing: str | None, base: float | None, notes: Notes
) -> tuple[list[Layer], str]:
    model = header.keys.get("general.architecture")
    if not isinstance(model, str):
        notes.error("general.architecture is missing")
        return [], ""
    keys = Keys(
        {
            k.removeprefix(f"{model}."): v
            for k, v in header.keys.items()
            if k.startswith(f"{model}.")
        },
        model,
    )
    row = family(model, FORMAT)
    rule: Mapping[str, Any] = {}
    if row is not None:
        rule = row.entries[0]
        if row.note:
            notes.remark(row.note)
    elif pairing is None:
        todo = suggest(model, families(FORMAT))
        hint = f" {todo}" if todo.startswith("Did") else ""
        notes.error(f"the architecture {model!r} is not known, and the pairing with it.{hint}")
    if "refuse" in rule:
        notes.error(str(rule["refuse"]))
        return [], model
    entries = [_entry(file, header, keys, rule, given=(pairing, base), local="", outer=notes)]
    local = rule.get("local", "rope.freq_base_swa")
    if local in keys:
        entries.append(
            _entry(file, header, keys, rule, given=(pairing, base), local=local, outer=notes)
        )
        pattern = _pattern(keys)
        names = ("full_attention", "sliding_attention")
        for place, name in enumerate(names):
            entry = entries[place]
            if entry is not None:
                entries[place] = entry.replace(layer=name, indices=pattern.get(name))
    elif rule.get("windows") == "unscaled" and WINDOW in keys:
        entries = _unscaled_windows(keys, rule, entries, notes)
    elif "local" in rule and "attention.sliding_window" in keys:
        notes.error(
            f"{keys.where(local)} is missing: layers with a sliding window have a base of their "
            "own in this architecture, and the file does not state it"
        )
    whole = entries[0]
    if "windows" not in rule and local not in keys and WINDOW in keys and _scaled(whole):
        notes.warning(
            f"{keys.where(WINDOW)}: partly, because some layers see a window, and whether the "
            "scaling reaches them is not known of this architecture; the plan scales all"
        )
    for key in keys.data:
        if key.startswith("rope.") and key not in KNOWN and key not in keys.read:
            notes.error(f"{keys.where(key)}={keys.data[key]!r} is not understood")
    return [entry for entry in entries if entry is not None], model


def _scaled(entry: Layer | None) -> bool:
    return entry is not None and isinstance(entry.spec, RoPE) and bool(entry.spec.scalings)


def _unscaled_windows(
    keys: Keys, rule: Mapping[str, Any], entries: list[Layer | None], notes: Notes
) -> list[Layer | None]:
    """Layers with and without a window, where the scaling reaches those without alone."""
    whole = entries[0]
    if whole is None or not isinstance(whole.spec, RoPE) or not _scaled(whole):
        return entries
    layers = _pattern(keys, rule.get("every"))
    if not layers:
        notes.warning(
            f"{keys.where('block_count')} is missing: which layers see a window is not known"
        )
    magnitude = whole.spec.magnitude.replace(attention_factor=None)
    plain = whole.spec.replace(scaling=(), magnitude=magnitude)
    kept = tuple(s for s in whole.sources if not s.field.startswith(("scaling", "magnitude")))
    names = ("full_attention", "sliding_attention")
    full = whole.replace(layer=names[0], indices=layers.get(names[0]))
    window = whole.replace(layer=names[1], indices=layers.get(names[1]), spec=plain, sources=kept)
    return [full, window]


def _pattern(keys: Keys, every: int | None = None) -> dict[str, tuple[int, ...]]:
    """The layers of each type, where the header lists or counts them."""
    pattern, count = keys.get("attention.sliding_window_pattern"), keys.integer("block_count")
    pattern = every if pattern is None else pattern
    if isinstance(pattern, list) and all(isinstance(flag, bool) for flag in pattern):
        local = tuple(i for i, flag in enumerate(pattern) if flag)
        count = len(pattern)
    elif isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0 and count:
        local = tuple(i for i in range(count) if i % pattern < pattern - 1)
    else:
        return {}
    rest = tuple(i for i in range(count) if i not in set(local))
    return {"sliding_attention": local, "full_attention": rest}


def _entry(
    file: Path,
    header: Header,
    keys: Keys,
    rule: Mapping[str, Any],
    *,
    given: tuple[str | None, float | None],
    local: str,
    outer: Notes,
) -> Layer | None:
    pairing, base = given
    notes = Notes("sliding_attention" if local else "attention")
    template: dict[str, Any] = {"type": "RoPE"}
    if "rotary" in rule:
        template = {
            k: v for k, v in convention(rule["rotary"]).spec.items() if k not in ("base", "scaling")
        }
        notes.source("pairing", "preset", rule["rotary"])
    if pairing is not None:
        template["pairing"] = pairing
        notes.source("pairing", "caller", "pairing")
    dim = _dim(keys, local, notes)
    found = _base(keys, base, local, notes)
    if dim is not None and "pairing" in template:
        _sections(keys, rule, template, notes)
        scaling, attention = _scaling(file, header, keys, local=local, pairs=dim // 2, notes=notes)
        magnitude = dict(template.get("magnitude", {"type": "RotaryMagnitude"}))
        if attention is not None:
            magnitude["attention_factor"] = attention
        filled = {**template, "dim": dim, "base": found, "magnitude": magnitude}
        if scaling:
            filled["scaling"] = scaling
        entry = None if notes.failed else _built(keys, filled, dim, notes)
    else:
        entry = None
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


def _dim(keys: Keys, local: str, notes: Notes) -> int | None:
    options = ["rope.dimension_count", "attention.key_length"]
    if local:
        options = ["rope.dimension_count_swa", "attention.key_length_swa", *options]
    found = keys.first(options)
    if found is not None:
        notes.source("dim", "config", keys.where(found[0]))
        return int(found[1])
    width, heads = keys.integer("embedding_length"), keys.integer("attention.head_count")
    if width and heads:
        notes.source("dim", "config", "embedding_length // attention.head_count")
        return width // heads
    notes.error(
        f"{keys.where('rope.dimension_count')} is missing, and nothing else gives the width"
    )
    return None


def _base(keys: Keys, given: float | None, local: str, notes: Notes) -> float:
    if given is not None:
        notes.source("base", "caller", "base")
        return float(given)
    key = local or "rope.freq_base"
    value = keys.number(key)
    if value is None:
        notes.warning(f"{keys.where(key)} is missing: {DEFAULT_BASE:g} is the format's default")
        notes.source("base", "format", keys.where(key))
        return DEFAULT_BASE
    if value <= 0:
        notes.error(f"{keys.where(key)}={value:g} is no base: it must be positive")
    notes.source("base", "config", keys.where(key))
    # The header holds float32 numbers, which were written as short decimal ones.
    return float(str(np.float32(value))) if value < np.finfo(np.float32).max else float(value)


def _sections(keys: Keys, rule: Mapping[str, Any], template: dict[str, Any], notes: Notes) -> None:
    if "sections" not in rule:
        return
    key = rule["sections"]["keys"][0]
    sizes = keys.get(key)
    if not isinstance(sizes, list) or len(sizes) < 3:
        notes.error(f"{keys.where(key)} is missing")
        return
    if any(sizes[3:]):
        notes.error(f"{keys.where(key)}={sizes} has a fourth axis, which this family has not")
        return
    notes.source("arrangement.sizes", "config", keys.where(key))
    template["arrangement"] = {**template["arrangement"], "sizes": sizes[:3]}


def _scaling(
    file: Path, header: Header, keys: Keys, *, local: str, pairs: int, notes: Notes
) -> tuple[list[dict[str, Any]], float | None]:
    if local:
        return [], None  # local layers never see a length to extend
    kind = keys.get("rope.scaling.type") or "linear"
    found = keys.first(("rope.scaling.factor", "rope.scale_linear"))
    factor = found[1] if found is not None and found[1] != 0 else 1.0
    factor = float(str(np.float32(factor)))
    if factor < 1:
        notes.error(f"{keys.where('rope.scaling.factor')}={factor:g} is below 1")
        return [], None
    original = keys.integer("rope.scaling.original_context_length")
    attention = keys.number("rope.scaling.attn_factor")
    made: list[dict[str, Any]] = []
    if kind not in ("none", "linear", "yarn", "longrope"):
        known = ("none", "linear", "yarn", "longrope")
        notes.error(
            f"{keys.where('rope.scaling.type')}={kind!r} is not known. {suggest(kind, known)}"
        )
        return [], None
    if kind == "linear" and factor != 1:
        made.append({"type": "Linear", "factor": factor})
    if kind == "yarn":
        made += _yarn(keys, factor, original, notes)
        if attention is not None:
            attention *= 1 + 0.1 * float(np.log(factor))
    if factor != 1 or made:
        notes.source("scaling.factor", "config", keys.where("rope.scaling.factor"))
    made += _tensors(file, header, keys, factor=factor, original=original, pairs=pairs, notes=notes)
    return made, attention


def _yarn(keys: Keys, factor: float, original: int | None, notes: Notes) -> list[dict[str, Any]]:
    key = "rope.scaling.original_context_length"
    if original is None:
        notes.error(f"{keys.where(key)} is missing")
        return []
    made: dict[str, Any] = {"type": "YaRN", "factor": factor, "original_length": original}
    notes.source("scaling.original_length", "config", keys.where(key))
    for name in ("beta_fast", "beta_slow"):
        value = keys.number(f"rope.scaling.yarn_{name}")
        if value is not None:
            made[name] = float(value)
            notes.source(f"scaling.{name}", "config", keys.where(f"rope.scaling.yarn_{name}"))
    return [made]


def _tensors(
    file: Path,
    header: Header,
    keys: Keys,
    *,
    factor: float,
    original: int | None,
    pairs: int,
    notes: Notes,
) -> list[dict[str, Any]]:
    """Factors of frequencies that the file keeps as tensors."""
    made: list[dict[str, Any]] = []
    values = {name: read_tensor(file, header, name) for name in (FACTORS, LONG, SHORT)}
    for name, found in values.items():
        if found is not None and len(found) != pairs:
            notes.error(f"{name} has {len(found)} numbers, and {pairs} pairs turn")
            return []
    factors = values[FACTORS]
    if factors is not None:
        made.append({"type": "Multipliers", "values": factors.tolist(), "use": "divide"})
        notes.source("scaling.values", "config", FACTORS)
    long, short = values[LONG], values[SHORT]
    if long is not None and short is not None:
        trained = keys.integer("context_length")
        if original is None or trained is None:
            key = keys.where("rope.scaling.original_context_length")
            notes.error(f"{key} is missing: it says where {LONG} begins")
            return []
        made.append(
            {
                "type": "LongRoPE",
                "short": short.tolist(),
                "long": long.tolist(),
                "original_length": original,
                "factor": max(1.0, trained / original, factor),
            }
        )
        notes.source("scaling.long", "config", LONG)
    elif long is not None or short is not None:
        notes.error(explain("factors of frequencies", f"{LONG} and {SHORT}", "one of them"))
    return made
