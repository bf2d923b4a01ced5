"""GGUF files into plans, from their headers.

A plan says what llama.cpp computes from a file; `configs/gguf.json` has a rule for each
architecture, read at commit 0c1e57098 of ggml-org/llama.cpp: `src/llama-model.cpp` for the types of
rotation and the defaults, `src/models/*.cpp` for windows, layers that do not turn, and scalings.
The kinds of rules are declared in `posenc.presets.row_types`; the keys of a part, such as
`attention.head_count`, are expressions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from posenc._core.errors import suggest
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Header, read_header
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.view import Keys, Notes, check_arguments, settled
from posenc.detect.explain.gguf.layers import WINDOW, LayerKind, kinds_of
from posenc.detect.explain.gguf.rotation import HeaderFile, rotation_of, temperature_of
from posenc.detect.explain.layers.non_rotary import applies, read_other
from posenc.encodings.rotary.pairing import Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.presets.families import families, family
from posenc.presets.row_types_gguf import GgufRotaryRule

FORMAT = "gguf"
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
    file, notes = inputs.named(path, "from_gguf"), Notes()
    entries, model = _entries(file, read_header(file), pairing, base, notes)
    plan = Reading(tuple(entries), notes=tuple(notes.notes), model=model)
    return settled(plan, "from_gguf", on_error)


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
        notes.error(f"the architecture {model!r} is not known, and the pairing with it.{hint}")
    for key in NUMBERS:
        if (told := keys.wrong([key])) is not None:
            notes.error(f"{told} is no number")
    entries: list[Layer] = []
    for rule in (rule for rule in rules if applies(keys, rule)):
        turning = row is None or "rotary" in rule
        if turning:
            entries += _rotary(HeaderFile(path, header, keys, rule, pairing, base), notes)
        else:
            entries += read_other(keys, rule, "", notes)
        if turning or "refused_because" in rule:
            break
    for key in keys.data:
        if key.startswith("rope.") and key not in KNOWN and key not in keys.read:
            notes.error(f"{keys.where(key)}={keys.data[key]!r} is not understood")
    return entries, model


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


def _rotary(file: HeaderFile, notes: Notes) -> list[Layer]:
    """An entry for each type of layer that the header tells apart."""
    kinds = kinds_of(file.keys, file.rule, notes) or {}
    specs: dict[bool, Layer | None] = {}
    made: list[Layer] = []
    for kind, indices in kinds.items():
        name = _name(file.rule, kind, kinds)
        if not (kind.attends and kind.turns):
            scale = temperature_of(file, kind, notes) if kind.attends else None
            made.append(Layer(name, indices=indices, logit_scale=scale))
            continue
        if (local := bool(kind.window)) not in specs:
            specs[local] = rotation_of(file, name, local, notes)
        if (entry := specs[local]) is None:
            continue
        spec = entry.spec
        if isinstance(spec, RoPE) and (scale := temperature_of(file, kind, notes)) is not None:
            spec = spec.replace(magnitude=spec.magnitude.replace(temperature=scale))
        seen = _window(file, kind)
        entry = entry.replace(layer=name, indices=indices, windows=seen, spec=spec)
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
    more = ", without positions" if still else ""
    return f"{name}{more}, shared indexer" if shared else f"{name}{more}"


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
