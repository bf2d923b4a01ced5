"""From whatever people call a config to a plain dictionary, and a clear error for what is none."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc._core.errors import DataError, explain

__all__ = ["load"]

DEEPEST = 64  # of a config; composite models nest four or five deep
LARGEST = 64 * 2**20  # bytes of a text; configs have some kilobytes
FILE = "config.json"
BLANK = "\ufeff \t\r\n"  # before the text, a byte order mark among them


def load(config: Any, who: str) -> dict[str, Any]:
    """The config as a dictionary of plain JSON types.

    Parameters
    ----------
    config : mapping, str, path, or object with `to_dict`
        A dictionary, JSON text, the path of a JSON file or of a folder that holds a `config.json`,
        or a config object.
    who : str
        The name of the caller, for messages.

    Returns
    -------
    dict
        A copy; the caller's object is left as it was.
    """
    if isinstance(config, Mapping):
        return _checked(dict(config), who)
    if isinstance(config, str) and config.lstrip(BLANK)[:1] in ("{", "["):
        return _parsed(config.lstrip(BLANK), who, "the text")
    if isinstance(config, (str, Path)):
        return _read(Path(config), who)
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        return load(to_dict(), who)
    todo = "Pass a dictionary, the text or path of a config.json, or a config object."
    raise DataError(explain(who, "a config", type(config).__name__, todo))


def _read(path: Path, who: str) -> dict[str, Any]:
    if path.is_dir():
        inside = path / FILE
        if not inside.is_file():
            raise DataError(explain(who, f"a folder that holds {FILE}", repr(str(path))))
        path = inside
    if not path.exists():
        todo = "A text is taken for JSON if it begins with a brace."
        raise DataError(explain(who, "a file that exists", repr(str(path)[:200]), todo))
    if path.stat().st_size > LARGEST:
        raise DataError(explain(who, f"at most {LARGEST} bytes of JSON", path.stat().st_size))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{who}: {path.name} is not UTF-8 text: {error.reason}") from None
    return _parsed(text, who, path.name)


def _parsed(text: str, who: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, who))
    except RecursionError:
        raise DataError(f"{who}: {where} is nested deeper than {DEEPEST} levels") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{who}: {where} is not JSON: {error}") from None
    except DataError:  # also a ValueError
        raise
    except ValueError:  # a number of thousands of digits, which Python refuses
        raise DataError(f"{who}: {where} holds a number of too many digits") from None
    if not isinstance(data, dict):
        raise DataError(explain(who, "a JSON object", type(data).__name__))
    return _checked(data, who)


def _unique(pairs: list[tuple[str, Any]], who: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise DataError(explain(who, "each key once", f"{twice} more than once"))
    return data


def _checked(data: dict[str, Any], who: str) -> dict[str, Any]:
    try:
        return {str(key): _plain(value, str(key), who, 1) for key, value in data.items()}
    except RecursionError:
        raise DataError(f"{who}: nested deeper than {DEEPEST} levels") from None


def _plain(value: Any, where: str, who: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise DataError(f"{who}: nested deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{where}.{k}", who, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, where, who, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        # Python's JSON writes NaN and Infinity; a mask value may be one, an angle may not.
        return None if "rope" not in where and "theta" not in where else _refuse(where, value, who)
    return value


def _refuse(where: str, value: float, who: str) -> None:
    raise DataError(explain(f"{who}: {where}", "a finite number", value))
