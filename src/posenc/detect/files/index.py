"""The index of a model in several files.

    model.safetensors.index.json    {"weight_map": {name of a tensor: name of a file}}

It is somebody else's claim: nothing that it names is opened before the name is known to be that of
a file beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from posenc._core.errors import DataError, explain

__all__ = ["ENDING", "read_index", "shards_of"]

ENDING = ".index.json"
MOST_SHARDS = 4096


def read_index(path: Path, who: str, *, largest: int) -> dict[str, Any]:
    """The index of at most `largest` bytes, its `weight_map` checked.

    Raises
    ------
    DataError
        If it is no index, or names what is no file beside it.
    """
    size = path.stat().st_size
    if size > largest:
        raise DataError(explain(who, f"at most {largest} bytes", size))
    try:
        data = json.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise DataError(explain(who, "a JSON object", str(error)[:200])) from None
    names = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise DataError(explain(who, "a weight_map of names to files", repr(names)[:80]))
    shards = shards_of(data)
    if len(shards) > MOST_SHARDS:
        raise DataError(explain(who, f"at most {MOST_SHARDS} files", len(shards)))
    for shard in shards:
        outside = "/" in shard or "\\" in shard or shard in ("", ".", "..") or "\0" in shard
        if outside or shard.endswith(ENDING):  # an index of indexes may name itself
            raise DataError(explain(who, "files beside the index", repr(shard[:80])))
    return dict(data)


def shards_of(index: dict[str, Any]) -> list[str]:
    """The names of the files, each once, in the order of the index."""
    return list(dict.fromkeys(index["weight_map"].values()))
