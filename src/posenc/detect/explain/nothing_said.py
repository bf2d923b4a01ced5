"""Why a config gives no plan: what it is, and which of its keys speak of positions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from posenc import presets
from posenc._core.errors import closest
from posenc.detect.explain.config.unread_keys import WORDS
from posenc.presets.families import families, family

NOTHING = "nothing in the config says what the model does about positions"
MORE_WORDS = (*WORDS, "rot", "axes_dim", "position", "qk_rope", "fourier", "pos_enc", "posenc")
SILENT = ("pad", "type_vocab")
MOST, DEEPEST = 6, 4  # keys that are speaks, levels that are searched


def nothing_said(data: Mapping[str, Any], model: str) -> str:
    """The sentences of a refusal."""
    base, class_name = data.get("base_model_name_or_path"), data.get("_class_name")
    if isinstance(base, str) and base and ("peft_type" in data or not model):
        return (
            f"this is the config of an adapter, whose positions are those of its base model: read "
            f"the config of {base[:200]!r}"
        )
    text = NOTHING
    called = class_name if isinstance(class_name, str) and not model else model
    if called == class_name and called:
        text = f"this is a config of diffusers, of {class_name[:80]!r}, and that format is not read"
    elif called and family(called) is None:
        text += f", and {called[:80]!r} is no known family"
    spoken = [f"{path}={json.dumps(value)[:60]}" for path, value in _speaking(data, "", 1)]
    if spoken:
        more = f", and {len(spoken) - MOST} more" if len(spoken) > MOST else ""
        speaks = f"{', '.join(spoken[:MOST])}{more}"
        text += f". These keys speak of positions, and no rule reads them: {speaks}"
    unknown = model and family(model) is None
    near = closest(model, families()) if unknown else None
    text += f". Did you mean {near!r}?" if near else ""
    row = _preset(called) if called else None
    text += f". The nearest preset is {row!r}: posenc.preset({row!r}, dim)" if row else ""
    return text


def _speaking(data: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Keys, with where they stand, whose names or words speak of positions."""
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            if depth < DEEPEST:
                yield from _speaking(value, where, depth + 1)
            continue
        low = str(key).lower()
        speaks = any(word in low for word in MORE_WORDS) and not any(w in low for w in SILENT)
        if speaks and value not in (None, False, ""):
            yield where, value


def _preset(called: str) -> str | None:
    """The preset whose name is that of a class, or the beginning of it, if there is one."""
    low = called.lower().replace("_", "").replace("-", "")
    names = {name.lower().replace("_", "").replace("-", ""): name for name in presets.names()}
    begins = [name for name in names if len(name) > 2 and low.startswith(name)]
    near = max(begins, key=len) if begins else closest(low, names, cutoff=0.8)
    return None if near is None else names[near]
