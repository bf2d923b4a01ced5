"""From whatever people call a config to a plain dictionary, and a clear error for what is none."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc._core.errors import DataError, bad_data
from posenc._core.io import inputs

DEEPEST = 64  # of a config; composite models nest four or five deep
FILE = "config.json"
ADAPTER = "adapter_config.json"  # which names the model that it adapts
BLANK = "\ufeff \t\r\n"  # before the text, a byte order mark among them


def load(config: Any, caller: str) -> dict[str, Any]:
    """The config as a dictionary of plain JSON types."""
    if isinstance(config, Mapping):
        return _checked(dict(config), caller)
    if isinstance(config, str) and config.lstrip(BLANK)[:1] in ("{", "["):
        return _parsed(config.lstrip(BLANK), caller, "the text")
    if isinstance(config, (str, Path)):
        return _read(inputs.named(config, caller), caller)
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        return load(to_dict(), caller)
    todo = "Pass a dictionary, the text or path of a config.json, or a config object."
    raise bad_data(caller, "a config", type(config).__name__, todo)


def folder_of(config: Any) -> Path | None:
    """The folder that the file of a config lies in; None for what is no file."""
    is_text = isinstance(config, str) and config.lstrip(BLANK)[:1] in ("{", "[")
    if is_text or not isinstance(config, (str, Path)):
        return None
    return Path(config) if Path(config).is_dir() else Path(config).parent


def _read(path: Path, caller: str) -> dict[str, Any]:
    if path.is_dir():
        files = [path / FILE, path / ADAPTER]
        inside = next((file for file in files if file.is_file()), None)
        if inside is None:
            raise bad_data(caller, f"a folder that holds {FILE}", repr(str(path)))
        path = inside
    if not path.exists():
        todo = "A text is taken for JSON if it begins with a brace."
        raise bad_data(caller, "a file that exists", repr(str(path)[:200]), todo)
    return _parsed(inputs.text_of(path, inputs.CONFIG), caller, path.name)


def _parsed(text: str, caller: str, source: str) -> dict[str, Any]:
    data = inputs.parse(text, f"{caller}: {source}", inputs.CONFIG)
    if not isinstance(data, dict):
        raise bad_data(caller, "a JSON object", type(data).__name__)
    return _checked(data, caller)


def _checked(data: dict[str, Any], caller: str) -> dict[str, Any]:
    try:
        return {str(key): _plain(value, str(key), caller, 1) for key, value in data.items()}
    except RecursionError:
        raise DataError(f"{caller}: nested deeper than {DEEPEST} levels") from None


def _plain(value: Any, key: str, caller: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise DataError(f"{caller}: nested deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{key}.{k}", caller, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, key, caller, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        # Python's JSON writes NaN and Infinity; a mask value may be one, an angle may not.
        return None if "rope" not in key and "theta" not in key else _refuse(key, value, caller)
    if type(value) is int and abs(value) > sys.float_info.max:
        return "an integer beyond every float"  # a text, so that whoever reads it finds no number
    return value


def _refuse(key: str, value: float, caller: str) -> None:
    raise bad_data(f"{caller}: {key}", "a finite number", value)
