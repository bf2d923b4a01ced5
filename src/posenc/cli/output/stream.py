"""Arrays through a verb in tiles: memory stays the same however large the file is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from posenc._core.errors import bad_data, refuse_data
from posenc._core.io import files, headers, inputs, outputs
from posenc.cli.options.common import OutputChoice
from posenc.cli.options.encodings import table_width
from posenc.cli.options.places import PositionSequence
from posenc.encodings.table.base import TableSpec

TILE = 2**20  # elements worked on at a time; about 30 bytes each while they are
RUN = 2**17  # elements of one sequence in a tile, so that many sequences share their rows

SUFFIXES = (".npy", ".safetensors")


def _opened(target: OutputChoice) -> contextlib.AbstractContextManager[IO[bytes]]:
    """The file, which appears when it is complete."""
    return outputs.replacing(target.path, existing=target.existing)


def check_source(layout: headers.Layout, tensor: headers.Tensor) -> None:
    """Raise unless the tensor holds embeddings: floating, (..., seq, dim), in C order."""
    caller = f"{layout.path}" + (f": {tensor.name!r}" if tensor.name else "")
    shape = f"shape {tensor.shape}"
    for wrong, expected, received, todo in (
        (
            tensor.dtype not in files.FLOATS,
            f"numbers of {', '.join(files.FLOATS)}",
            tensor.dtype,
            "Convert it to a floating dtype first.",
        ),
        (len(tensor.shape) < 2, "shape (..., seq, dim)", shape, ""),
        (tensor.shape[-1:] == (0,), "a width of at least 1", shape, ""),
        (
            tensor.order == "F",
            "the last axis together (C order)",
            "Fortran order",
            "Save it with numpy.ascontiguousarray(array).",
        ),
    ):
        refuse_data(wrong, caller, expected, received, todo)


class RowBlock(NamedTuple):
    """Some leading rows, some positions of each."""

    rows: slice
    seq: slice


def tiles(rows: int, seq: int, dim: int, size: int = TILE) -> Iterator[RowBlock]:
    """Cut (rows, seq, dim) into tiles of about `size` elements, in the order of the file.

    A tile takes the same stretch of several sequences where it can: the encoding of that stretch is
    then computed once for all of them.
    """
    stretch = max(1, min(seq, min(RUN, size) // dim))
    together = max(1, min(rows, size // (stretch * dim)))
    for row in range(0, rows, together):
        for begin in range(0, seq, stretch):
            yield RowBlock(
                slice(row, min(row + together, rows)), slice(begin, min(begin + stretch, seq))
            )


def add_to_file(
    spec: TableSpec,
    layout: headers.Layout,
    tensor: headers.Tensor,
    target: OutputChoice,
    *,
    places: PositionSequence,
    params: Mapping[str, np.ndarray] | None = None,
    finite: bool,
    progress: Callable[[int], object],
    size: int = TILE,
) -> None:
    """Add an encoding to a tensor of a file, or append it, and write the file anew."""
    stored = tensor.stored
    if stored is None:
        raise bad_data(str(layout.path), "a dtype that NumPy can hold", tensor.dtype)
    kept = target.format == layout.format and spec.width == spec.dim
    new_stored = stored if kept else np.dtype(stored).newbyteorder("<").str
    *lead, seq, dim = tensor.shape
    lines, item = math.prod(lead), np.dtype(stored).itemsize
    with _opened(target) as sink, inputs.unchanged(layout.path, layout.state) as source:
        at = _front(layout, tensor, target, spec.width, (source, sink))
        for tile in tiles(lines, seq, spec.width, size):
            rows, steps = tile.rows.stop - tile.rows.start, tile.seq.stop - tile.seq.start
            begins = [row * seq + tile.seq.start for row in range(lines)[tile.rows]]  # in tokens
            if tile.seq == slice(0, seq):  # whole sequences lie side by side
                begins, steps = begins[:1], steps * len(begins)
            pieces = [
                files.read(source, tensor.begin + begin * dim * item, steps * dim, stored)
                for begin in begins
            ]
            x = (np.concatenate(pieces) if len(pieces) > 1 else pieces[0]).reshape(rows, -1, dim)
            y = _result(spec, files.decode(x, tensor.dtype), places.array(tile.seq), params)
            done = files.encode(y, tensor.dtype, new_stored)
            if finite:
                _check_finite(str(layout.path), x, done, tensor, tile)
            for begin, piece in zip(begins, done.reshape(len(begins), -1), strict=True):
                files.write(sink, at + begin * spec.width * item, piece)
            progress(x.size)


def _front(
    layout: headers.Layout,
    tensor: headers.Tensor,
    target: OutputChoice,
    width: int,
    streams: tuple[IO[bytes], IO[bytes]],
) -> int:
    """Write all that stands around the tensor; where its bytes begin."""
    source, sink = streams
    shape = (*tensor.shape[:-1], width)
    if target.format == layout.format and shape == tensor.shape:
        files.copy(source, 0, tensor.begin, sink, 0)
        files.copy(source, tensor.end, layout.size, sink, tensor.end)
        return tensor.begin
    if target.format == layout.format == "safetensors":
        return _moved(layout, tensor, shape, source, sink)
    header = _header(target, tensor.name or "embeddings", tensor.dtype, shape, layout.metadata)
    return _begun(sink, header)


def _begun(sink: IO[bytes], header: bytes) -> int:
    """Write what a file begins with; where the bytes after it begin."""
    files.write(sink, 0, header)
    return len(header)


def _moved(
    layout: headers.Layout,
    tensor: headers.Tensor,
    shape: tuple[int, ...],
    source: IO[bytes],
    sink: IO[bytes],
) -> int:
    """Copy the other tensors to where a wider one leaves room; where its bytes begin."""
    in_order = sorted(layout.tensors.values(), key=lambda t: (t.begin, t.end))
    shapes = {t.name: (t.dtype, shape if t is tensor else t.shape) for t in in_order}
    at = first = _begun(sink, headers.safetensors_header(shapes, layout.metadata))
    for other in in_order:
        if other is tensor:
            first = at
            at += math.prod(shape) * np.dtype(tensor.stored).itemsize
            continue
        files.copy(source, other.begin, other.end, sink, at)
        at += other.end - other.begin
    return first


def _header(
    target: OutputChoice, name: str, dtype: str, shape: tuple[int, ...], metadata: Mapping[str, str]
) -> bytes:
    if target.format == "npy":
        return headers.npy_header(dtype, shape)
    return headers.safetensors_header({name: (dtype, shape)}, metadata)


def _result(
    spec: TableSpec, x: np.ndarray, positions: np.ndarray, params: Mapping[str, np.ndarray] | None
) -> np.ndarray:
    from posenc.functional import add

    with np.errstate(over="ignore", invalid="ignore"):  # looked for below, with a place
        return add(spec, x, positions=positions, params=params)


def _check_finite(
    caller: str, x: np.ndarray, y: np.ndarray, tensor: headers.Tensor, tile: RowBlock
) -> None:
    # NaN and infinity survive the sum, so one look at the result covers both.
    values, what = files.decode(y, tensor.dtype), f"sums that fit {tensor.dtype}"
    if np.isfinite(values).all():
        return
    before = files.decode(x, tensor.dtype)
    if not np.isfinite(before).all():
        values, what = before, "finite numbers (or --allow-nonfinite)"
    row, step, channel = (int(n) for n in np.argwhere(~np.isfinite(values))[0])
    *lead, _, _ = tensor.shape
    place = [int(n) for n in np.unravel_index(tile.rows.start + row, lead)] if lead else []
    index = [*place, tile.seq.start + step, channel]
    raise bad_data(caller, what, f"{values[row, step, channel]} at index {index}")


# --- arrays that are computed ---------------------------------------------------------------------


def write_array(target: OutputChoice, name: str, values: np.ndarray) -> None:
    """Write an array of native numbers under a name."""
    dtype, stored = values.dtype.name, values.dtype.newbyteorder("<").str
    with _opened(target) as sink:
        at = _begun(sink, _header(target, name, dtype, values.shape, {}))
        files.write(sink, at, files.encode(values, dtype, stored))


def write_rows(
    spec: TableSpec,
    places: PositionSequence,
    target: OutputChoice,
    *,
    params: Mapping[str, np.ndarray] | None = None,
    dtype: str,
    progress: Callable[[int], object],
    size: int = TILE,
) -> None:
    """Write the rows of a table, (positions, columns), as an array or as lines of numbers."""
    lines = target.format == "csv"
    stored = "<u2" if dtype == "bfloat16" else np.dtype(dtype).newbyteorder("<").str
    width = table_width(spec)
    fronts = spec.axes if len(spec.axes) > 1 else ("position",)
    header = ",".join([*fronts, *(f"c{c}" for c in range(width))]).encode() + b"\n"
    if not lines:
        header = _header(target, "table", dtype, (len(places), width), {})
    with _opened(target) as sink:
        at = _begun(sink, header)
        for _, part in tiles(1, len(places), width, size):
            positions = places.array(part)
            rows = rows_as(spec, positions, dtype, params)
            data: Any = _csv(positions, rows) if lines else files.encode(rows, dtype, stored)
            files.write(sink, at, data)
            at += len(data) if lines else data.nbytes
            progress(rows.size)


def rows_as(
    spec: TableSpec,
    positions: np.ndarray,
    dtype: str,
    params: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Rows of a table with the precision of a dtype; bfloat16 comes as float32."""
    from posenc.functional import table

    if dtype != "bfloat16":
        return table(spec, positions, params=params, dtype=dtype)
    return files.from_bfloat16(files.to_bfloat16(table(spec, positions, params=params)))


def _csv(positions: np.ndarray, rows: np.ndarray) -> bytes:
    """Lines in the fewest digits that read back as the same numbers."""
    together = zip(positions.reshape(len(rows), -1), rows, strict=True)
    lines = (",".join(map(str, (*position, *row))) for position, row in together)
    return ("\n".join(lines) + "\n").encode()
