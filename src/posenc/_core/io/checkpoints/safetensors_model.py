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

from posenc._core.errors import bad_data, suggest
from posenc._core.io import files, inputs, tensor_layout
from posenc._core.io.checkpoints.config_json import FILE as CONFIG
from posenc._core.io.checkpoints.config_json import load
from posenc._core.io.checkpoints.index import ENDING, check_total, read_index, shards_of
from posenc._core.io.safetensors import CODES

SINGLE = "model.safetensors"
INDEX = ".safetensors.index.json"
SHARD = re.compile(r"-\d+-of-(\d+)\.(?:safetensors|bin)$")
RECORD = "posenc.conversion"  # the key of the metadata under which a conversion is recorded


@dataclass(frozen=True)
class Stored:
    """A tensor and where its bytes are: a path, or a file that is open."""

    tensor: tensor_layout.Tensor
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
        bits = next(b for b, name, _ in CODES.values() if name == self.tensor.dtype)
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
        data = self.raw(begin * size, count * size)
        kind = self.tensor.stored or f"<u{size}"
        kept = data.view(kind).reshape(-1, width)[:, ::every].reshape(-1)
        return files.decode(kept, self.tensor.dtype).astype(np.float64)

    def array(self) -> np.ndarray:
        """All of it, float64 in its shape."""
        shape = self.tensor.shape
        return self.numbers(0, int(np.prod(shape, dtype=np.int64))).reshape(shape)


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, the files they are in, and the config beside them."""

    path: Path
    folder: Path | None
    layouts: Mapping[str, tensor_layout.Layout]
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
        if any(one != records[0] for one in records[1:]):
            expected = "one conversion recorded in all files"
            raise bad_data(str(self.path), expected, "files of different conversions")
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
    if not path.exists():
        raise bad_data(caller, "a file or folder that exists", repr(str(path)[:200]))
    folder = path if path.is_dir() else None
    chosen = inside(path, caller) if path.is_dir() else path
    index = None
    if chosen.name.endswith(ENDING):
        folder = chosen.parent
        index, layouts = read_shards(chosen, f"{caller}: {chosen.name}")
        _check_index(chosen, index["weight_map"], layouts)
    else:
        layouts = {one.name: _layout(one, caller) for one in (chosen, *others)}
    beside = chosen.parent / CONFIG
    if config is None and beside.is_file():
        config = beside
    read = None if config is None else load(config, caller)
    name = "" if index is None else chosen.name
    return Checkpoint(path, folder, layouts, index, read, name)


def read_shards(path: Path, caller: str) -> tuple[dict[str, Any], dict[str, tensor_layout.Layout]]:
    """An index, and the layouts of its files."""
    index, count = read_index(path, caller), 0
    layouts: dict[str, tensor_layout.Layout] = {}
    for shard in sorted(shards_of(index)):
        layouts[shard] = _layout(path.parent / shard, caller)
        count += len(layouts[shard].tensors)
        check_total(count, caller)
    if not layouts:
        raise bad_data(caller, "a weight_map of names to files", "an empty one")
    return index, layouts


def inside(folder: Path, caller: str) -> Path:
    """The index of a folder, or its one file."""
    indexes = sorted(folder.glob(f"*{INDEX}"))
    singles = sorted(folder.glob("*.safetensors"))
    for paths in (indexes, singles):
        preferred = [p for p in paths if p.name in (SINGLE, f"model{INDEX}")]
        if preferred or len(paths) == 1:
            return (preferred or paths)[0]
        if paths:
            expected = f"a folder with {SINGLE}, an index or one .safetensors file"
            raise bad_data(
                caller, expected, ", ".join(p.name for p in paths[:10]), "Name one of these files."
            )
    todo = "Save the model as safetensors first." if any(folder.glob("*.bin")) else ""
    raise bad_data(caller, "a folder with .safetensors files", repr(str(folder)), todo)


def _layout(path: Path, caller: str) -> tensor_layout.Layout:
    if not path.exists():
        raise bad_data(caller, "the files of the index beside it", f"no {path.name[:80]!r}")
    layout = files.read_layout(path)
    if layout.format != "safetensors":
        raise bad_data(caller, "a .safetensors file", f"{path.name}, a .npy")
    return layout


def _check_index(
    path: Path, places: Mapping[str, str], layouts: Mapping[str, tensor_layout.Layout]
) -> None:
    homes = {name: file for file, layout in layouts.items() for name in layout.tensors}
    count = sum(len(layout.tensors) for layout in layouts.values())
    for name, file in places.items():
        if homes.get(name) != file:
            raise bad_data(
                f"{path.name}: {name[:80]!r}", f"the tensor in {file}", homes.get(name, "nowhere")
            )
    if count != len(places):
        extra = next((n for n in homes if n not in places), "a name that stands twice")
        todo = suggest(extra, list(places)[:1000]) if extra in homes else ""
        raise bad_data(path.name, "every tensor of its files once", repr(extra), todo)
