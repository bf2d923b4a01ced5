"""The index of a model in several files.

    model.safetensors.index.json    {"weight_map": {name of a tensor: name of a file}}

It is somebody else's claim: nothing that it names is opened before the name is known to be that of
a file beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posenc._core.errors import bad_data
from posenc._core.io import inputs

ENDING = ".index.json"
MOST_SHARDS = 4096
MOST_TENSORS = 2**19  # of all files together; the largest published model has 300,000


def read_index(path: Path, caller: str) -> dict[str, Any]:
    """The index, its `weight_map` checked."""
    data = inputs.parse(inputs.text_of(path, inputs.INDEX), caller, inputs.INDEX)
    names = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise bad_data(caller, "a weight_map of names to files", repr(names)[:80])
    shards = shards_of(data)
    if len(shards) > MOST_SHARDS:
        raise bad_data(caller, f"at most {MOST_SHARDS} files", len(shards))
    for shard in shards:
        outside = "/" in shard or "\\" in shard or shard in ("", ".", "..") or "\0" in shard
        if outside or shard.endswith(ENDING):  # an index of indexes may name itself
            raise bad_data(caller, "files beside the index", repr(shard[:80]))
    return dict(data)


def check_total(count: int, caller: str) -> None:
    """Raise if the files of a model hold too many tensors together."""
    if count > MOST_TENSORS:
        raise bad_data(caller, f"at most {MOST_TENSORS} tensors in all files", count)


def shards_of(index: dict[str, Any]) -> list[str]:
    """The names of the files, each once, in the order of the index."""
    return list(dict.fromkeys(index["weight_map"].values()))
