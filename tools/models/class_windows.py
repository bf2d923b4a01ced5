"""Write `presets/configs/windows.json`: what the classes of transformers make of `sliding_window`.

    python tools/models/class_windows.py           whether the file is that of the installed version
    python tools/models/class_windows.py --write   write it

The modelling file of a class says which layers have the window, and its config class says what it
takes for keys that a file leaves out. A class whose masks are made in another way is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.models.class_reads import made, value

from posenc.presets.families import families

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "posenc" / "presets" / "configs" / "windows.json"
COUNTS = (12, 13, 37, 60)  # of layers
ALL = re.compile(
    r"create_causal_mask\s+if (self\.)?config\.sliding_window is None"
    r"\s+else create_sliding_window_causal_mask"
)
TYPES = re.compile(
    r'"sliding_attention"(\]\s*=|:)\s*(lambda: )?create_sliding_window_causal_mask\('
)
MASKS = re.compile(r'"sliding_attention"(?:\]\s*=|:) (?:lambda: )?create_\w+\(')
ANOTHER = ("blt_local_encoder", "blt_patcher")  # whose window the config of the whole sets
LOCAL, FULL = "sliding_attention", "full_attention"
SWITCH, START, BOTH = "use_sliding_window", "max_window_layers", "use_bidirectional_attention"


def row(cls: Any) -> dict[str, Any] | None:
    """How a class reads the window; None where that is not seen."""
    module = cls.__module__.replace("configuration_", "modeling_")
    try:
        path = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        path = None
    if path is None or path.origin is None:
        return None
    code = Path(path.origin).read_text("utf-8")
    if "sliding_window" not in code:
        return {"layers": "none"}
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    if "sliding_window" not in fields:
        return None
    on = {SWITCH: True} if SWITCH in fields else {}
    size = value(made(cls, **on), "sliding_window")
    if (size is None) != (fields["sliding_window"] is None):
        return None  # layers have windows of their own, or the key has another name
    found: dict[str, Any] = {"layers": "", "size": size}
    every = ALL.search(code) and not TYPES.search(code)
    if on and (off := made(cls, **{SWITCH: False})) is not None:
        kinds = LOCAL if every else value(off, "layer_types") or ()
        if value(off, "sliding_window") is None or LOCAL not in kinds:
            found["switch"] = bool(fields[SWITCH])
    if BOTH in fields:
        found["unclear_with"] = [BOTH]
    if every:
        return {**found, "layers": "all"}
    made_so = len(TYPES.findall(code)) == len(MASKS.findall(code)) > 0
    if not made_so or "layer_types" not in fields:
        return None
    found["layers"] = "layer_types"
    listed = [value(made(cls, num_hidden_layers=n, **on), "layer_types") for n in COUNTS]
    kinds = {kind for types in listed for kind in types or ()}
    if START in fields:
        config = made(cls, num_hidden_layers=37, sliding_window=8, **{START: 5}, **on)
        if config is not None and list(config.layer_types) == [FULL] * 5 + [LOCAL] * 32:
            return {**found, "start": fields[START]}
    if len(kinds) == 1:
        found["type"] = kinds.pop()
    return found


def rows() -> dict[str, Any]:
    """A row for each type whose class is seen through."""
    from transformers import CONFIG_MAPPING

    found = {}
    for name in sorted(({*families()} & {*CONFIG_MAPPING}) - {*ANOTHER}):
        if (known := row(CONFIG_MAPPING[name])) is not None:
            found[name] = known
    if "mistral" in found and "ministral" in found:  # by `AutoConfig`, where types are listed
        found["mistral"]["listed"] = found["ministral"]["layers"]
    return found


def text() -> str:
    """The file: a line for each type that reads the window, and the names of those that do not."""
    import transformers

    found = rows()
    unread = sorted(name for name, known in found.items() if known["layers"] == "none")
    lines = [f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in found.items() if n not in unread]
    head = f'"version": {json.dumps(transformers.__version__)},\n"unread": {json.dumps(unread)}'
    body = ",\n".join(lines)
    return f'{{\n{head},\n"types": {{\n{body}\n}}\n}}\n'


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    fresh = text()
    if parser.parse_args().write:
        DATA.write_text(fresh, encoding="utf-8")
        return 0
    same = DATA.read_text(encoding="utf-8") == fresh
    print("as written" if same else f"{DATA.name} is of another version: run with --write")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
