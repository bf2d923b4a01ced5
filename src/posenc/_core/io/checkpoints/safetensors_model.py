"""The weights of a model in safetensors: one file, or many with an index; only headers are read.

    model.safetensors                   one file
    model.safetensors.index.json        {"weight_map": {name of a tensor: name of a file}}
    FOLDER                              either of the two, and a config.json

Everything else works on `Checkpoint` and `Stored`: another format needs another `open_checkpoint`.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from posenc._core.errors import bad_data, refuse_data, suggest
from posenc._core.io import files, headers, inputs

SINGLE = "model.safetensors"
ENDING = ".index.json"
INDEX = f".safetensors{ENDING}"
SHARD = re.compile(r"-\d+-of-(\d+)\.(?:safetensors|bin)$")
RECORD = "posenc.conversion"  # the key of the metadata under which a conversion is recorded
MOST_SHARDS = 4096
MOST_TENSORS = 2**19  # of all files together; the largest published model has 300,000


@dataclass(frozen=True)
class Stored:
    """A tensor and where its bytes are: a path, or a file that is open."""

    tensor: headers.Tensor
    file: Path | IO[bytes]

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file, without a buffer."""
        if isinstance(self.file, Path):
            with inputs.opened(self.file) as file:
                yield file
        else:
            yield self.file

    @property
    def itemsize(self) -> int:
        """Bytes of one number; raises where numbers share bytes."""
        bits = next(b for b, name, _ in headers.CODES.values() if name == self.tensor.dtype)
        if bits % 8:
            raise bad_data(
                f"{self.tensor.name}: dtype", "numbers of whole bytes", self.tensor.dtype
            )
        return bits // 8

    def raw(self, begin: int, count: int) -> np.ndarray:
        """`count` bytes from byte `begin` of the tensor, uint8."""
        with self.opened() as file:
            return files.read(file, self.tensor.begin + begin, count, "|u1")

    def numbers(self, begin: int, count: int, *, width: int = 1, every: int = 1) -> np.ndarray:
        """`count` numbers from number `begin`, float64; bytes where NumPy lacks the dtype.

        Of rows of a `width`, only the first of `every` so many columns are kept.
        """
        size = self.itemsize
        return files.decode(
            self.raw(begin * size, count * size)
            .view(self.tensor.stored or f"<u{size}")
            .reshape(-1, width)[:, ::every]
            .reshape(-1),
            self.tensor.dtype,
        ).astype(np.float64)

    def array(self) -> np.ndarray:
        """All of it, float64 in its shape."""
        shape = self.tensor.shape
        return self.numbers(0, int(np.prod(shape, dtype=np.int64))).reshape(shape)


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, the files they are in, and the config beside them."""

    path: Path
    folder: Path | None
    layouts: Mapping[str, headers.Layout]
    index: dict[str, Any] | None
    config: dict[str, Any] | None
    index_name: str = ""

    @functools.cached_property
    def tensors(self) -> dict[str, Stored]:
        """All tensors by name."""
        return {
            name: Stored(tensor, layout.path)
            for layout in self.layouts.values()
            for name, tensor in layout.tensors.items()
        }

    @property
    def whole(self) -> bool:
        """Whether it is not one file of several, as its name would say."""
        match = SHARD.search(self.path.name)
        return self.folder is not None or match is None or int(match[1]) < 2

    @property
    def record(self) -> dict[str, Any]:
        """What an earlier conversion recorded; empty where there was none."""
        records = [record_of(layout.metadata) for layout in self.layouts.values() if layout.tensors]
        refuse_data(
            any(one != records[0] for one in records[1:]),
            str(self.path),
            "one conversion recorded in all files",
            "files of different conversions",
        )
        return records[0] if records else {}


def record_of(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The conversion that the metadata of a file record; empty where they record none."""
    record = inputs.parse(metadata.get(RECORD, "{}"), f"metadata {RECORD!r}", inputs.RECORD)
    if not isinstance(record, dict):
        raise bad_data(f"metadata {RECORD!r}", "a JSON object", metadata[RECORD][:80])
    return record


def open_checkpoint(source: Any, *, config: Any, caller: str) -> Checkpoint:
    """The layout of a file, a folder, or a list of files; no tensor is read."""
    several = source if isinstance(source, (list, tuple)) and source else (source,)
    path, *others = (inputs.named(one, caller) for one in several)
    refuse_data(not path.exists(), caller, "a file or folder that exists", repr(str(path)[:200]))
    folder, index, name = path if path.is_dir() else None, None, ""
    chosen = path if folder is None else inside(path, caller)
    if chosen.name.endswith(ENDING):
        folder, name = chosen.parent, chosen.name
        index, layouts = read_shards(chosen, f"{caller}: {name}")
        _check_index(chosen, index["weight_map"], layouts)
    else:
        layouts = {one.name: _layout(one, caller) for one in (chosen, *others)}
    beside = chosen.parent / inputs.CONFIG_FILE
    config = beside if config is None and beside.is_file() else config
    return Checkpoint(
        path, folder, layouts, index, None if config is None else inputs.load(config, caller), name
    )


def read_index(path: Path, caller: str) -> dict[str, Any]:
    """The index, its `weight_map` checked.

    It is somebody else's claim: nothing that it names is opened before the name is known to be that
    of a file beside it.
    """
    data = inputs.parse(inputs.text_of(path, inputs.INDEX), caller, inputs.INDEX)
    names = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise bad_data(caller, "a weight_map of names to files", repr(names)[:80])
    shards = shards_of(data)
    refuse_data(len(shards) > MOST_SHARDS, caller, f"at most {MOST_SHARDS:,} files", len(shards))
    for shard in shards:
        outside = "/" in shard or "\\" in shard or shard in ("", ".", "..") or "\0" in shard
        refuse_data(
            outside or shard.endswith(ENDING), caller, "files beside the index", repr(shard[:80])
        )
    return dict(data)


def shards_of(index: dict[str, Any]) -> list[str]:
    """The names of the files, each once, in the order of the index."""
    return list(dict.fromkeys(index["weight_map"].values()))


def read_shards(path: Path, caller: str) -> tuple[dict[str, Any], dict[str, headers.Layout]]:
    """An index, and the layouts of its files."""
    index, count = read_index(path, caller), 0
    layouts: dict[str, headers.Layout] = {}
    for shard in sorted(shards_of(index)):
        layouts[shard] = _layout(path.parent / shard, caller)
        count += len(layouts[shard].tensors)
        refuse_data(
            count > MOST_TENSORS, caller, f"at most {MOST_TENSORS:,} tensors in all files", count
        )
    refuse_data(not layouts, caller, "a weight_map of names to files", "an empty one")
    return index, layouts


def inside(folder: Path, caller: str) -> Path:
    """The index of a folder, or its one file."""
    for paths in (sorted(folder.glob(f"*{INDEX}")), sorted(folder.glob("*.safetensors"))):
        preferred = [p for p in paths if p.name in (SINGLE, f"model{INDEX}")]
        if preferred or len(paths) == 1:
            return (preferred or paths)[0]
        refuse_data(
            paths,
            caller,
            f"a folder with {SINGLE}, an index or one .safetensors file",
            ", ".join(p.name for p in paths[:10]),
            "Name one of these files.",
        )
    raise bad_data(
        caller,
        "a folder with .safetensors files",
        repr(str(folder)),
        "Save the model as safetensors first." if any(folder.glob("*.bin")) else "",
    )


def _layout(path: Path, caller: str) -> headers.Layout:
    refuse_data(
        not path.exists(),
        caller,
        "each file that the index or the list names",
        f"no {path.name[:80]!r}",
    )
    layout = files.read_layout(path)
    refuse_data(
        layout.format != "safetensors", caller, "a .safetensors file", f"{path.name}, a .npy"
    )
    return layout


def _check_index(
    path: Path, places: Mapping[str, str], layouts: Mapping[str, headers.Layout]
) -> None:
    homes = {name: file for file, layout in layouts.items() for name in layout.tensors}
    for name, file in places.items():
        refuse_data(
            homes.get(name) != file,
            f"{path.name}: {name[:80]!r}",
            f"the tensor in {file}",
            homes.get(name, "nowhere"),
        )
    if sum(len(layout.tensors) for layout in layouts.values()) != len(places):
        extra = next((n for n in homes if n not in places), "a name that stands twice")
        raise bad_data(
            path.name,
            "every tensor of its files once",
            repr(extra),
            suggest(extra, list(places)[:1000]) if extra in homes else "",
        )
