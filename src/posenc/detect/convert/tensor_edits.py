"""What a conversion does to single tensors, and the writing of files, in pieces of a few MiB."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from posenc._core.io import files, headers, inputs
from posenc._core.io.checkpoints import RECORD, Stored

Progress = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class Move:
    """A tensor whose channels change places."""

    name: str
    what: str
    view: tuple[int, int, int]
    order: np.ndarray

    def write(self, source: Stored, sink: IO[bytes], at: int, done: Progress) -> None:
        """The tensor in its new order to byte `at` of a file."""
        before, channels, behind = self.view
        row = behind * source.itemsize
        if before > 1:
            step = max(1, files.PIECE // max(1, channels * row))
            for start in range(0, before, step):
                count = min(step, before - start)
                data = source.raw(start * channels * row, count * channels * row)
                moved = data.reshape(count, channels, row)[:, self.order]
                files.write(sink, at + start * channels * row, np.ascontiguousarray(moved))
                done(moved.size)
            return
        for begin, end in self._closed(max(1, files.PIECE // max(1, row))):
            data = source.raw(begin * row, (end - begin) * row).reshape(end - begin, row)
            moved = data[self.order[begin:end] - begin]
            files.write(sink, at + begin * row, np.ascontiguousarray(moved))
            done(moved.size)

    def _closed(self, most: int) -> list[tuple[int, int]]:
        """Stretches of channels that the order maps onto themselves, of about `most` each."""
        reach = np.maximum.accumulate(self.order)
        cuts = (np.flatnonzero(reach == np.arange(len(reach))) + 1).tolist()
        runs, begin, last = [], 0, 0
        for cut in cuts:
            if cut - begin > most and last > begin:
                runs.append((begin, last))
                begin = last
            last = cut
        return [*runs, (begin, last)] if last > begin else runs


@dataclass(frozen=True, eq=False)
class New:
    """A tensor that is written anew, of another shape or of other rows."""

    name: str
    what: str
    shape: tuple[int, ...]
    make: Callable[[Stored], np.ndarray]

    def write(self, source: Stored, sink: IO[bytes], at: int, done: Progress) -> None:
        """The new tensor to byte `at` of a file."""
        data = self.make(source)
        files.write(sink, at, np.ascontiguousarray(data))
        done(data.nbytes)


Change = Move | New


def header(
    layout: headers.Layout, changes: Mapping[str, Change], record: Mapping[str, Any]
) -> bytes:
    """The header of the new file: names, dtypes and metadata as they were, and the record."""
    tensors = {}
    for tensor in sorted(layout.tensors.values(), key=lambda t: (t.begin, t.end, t.name)):
        change = changes.get(tensor.name)
        shape = change.shape if isinstance(change, New) else tensor.shape
        tensors[tensor.name] = (tensor.dtype, shape)
    metadata = {**layout.metadata, RECORD: json.dumps(record)}
    return headers.safetensors_header(tensors, metadata)


def write_file(
    layout: headers.Layout,
    changes: Mapping[str, Change],
    record: Mapping[str, Any],
    sink: IO[bytes],
    done: Progress,
) -> None:
    """A whole file: its header, changed tensors, and the bytes of all others as they are."""
    text = header(layout, changes, record)
    files.write(sink, 0, text)
    at = len(text)
    with inputs.unchanged(layout.path, layout.state) as file:
        for tensor in sorted(layout.tensors.values(), key=lambda t: (t.begin, t.end, t.name)):
            change = changes.get(tensor.name)
            size = tensor.end - tensor.begin
            if change is None:
                files.copy(file, tensor.begin, tensor.end, sink, at)
                done(size)
            else:
                source = Stored(tensor, file)
                change.write(source, sink, at, done)
                if isinstance(change, New):
                    size = int(np.prod(change.shape, dtype=np.int64)) * source.itemsize
            at += size
