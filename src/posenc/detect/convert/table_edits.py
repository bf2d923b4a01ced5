"""Position tables in checkpoints: another order of channels, other rows, another length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.resample import METHODS, Method
from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.io import files
from posenc._core.io.checkpoints import Stored
from posenc.detect.convert.tensor_edits import Change, Move, New
from posenc.detect.facts.weights.heads import check_name
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.learned import Learned
from posenc.functional import reorder, resize, table

How = Method | Literal["tile", "sinusoidal"]
EXTENSIONS = ("tile", "sinusoidal")
# A table in bfloat16, or of float32 phases at some thousand positions, is nearer than this to its
# formula; a table of another formula is further by an order of magnitude.
NEAR = 0.05


def table_change(
    name: str, stored: Stored, source: TableSpec, target: TableSpec, how: How
) -> Change:
    """What turns a stored table of one spec into that of another."""
    for spec in (source, target):
        if not isinstance(spec, TableSpec):
            received = type(spec).__name__
            raise ArgumentError(mismatch(f"convert: tables[{name!r}]", "two tables", received))
    check_name("convert: method", how, (*METHODS, *EXTENSIONS), optional=False)
    if isinstance(source, Learned) != isinstance(target, Learned):
        received = f"{type(source).__name__} to {type(target).__name__}"
        todo = "A computed table that was stored is learned as well: give its rows."
        expected = "two learned tables, or two computed ones"
        raise ArgumentError(mismatch(f"convert: tables[{name!r}]", expected, received, todo))
    shape = stored.tensor.shape
    if len(shape) < 2 or any(n != 1 for n in shape[:-2]):
        raise DataError(mismatch(f"{name}: shape", "(rows, dim)", list(shape)))
    if isinstance(source, Learned) and isinstance(target, Learned):
        return _learned(name, stored, source, target, how)
    return _columns(name, stored, source, target)


# --- computed tables ------------------------------------------------------------------------------


def _columns(name: str, stored: Stored, source: Any, target: Any) -> Move:
    rows, width = stored.tensor.shape[-2:]
    if width != source.dim:
        raise DataError(mismatch(f"{name}: shape", f"rows of {source.dim}", width))
    order = reorder(source, target)
    if len(source.axes) == 1:
        _compare(name, stored, source, rows)
    changed = int((order != np.arange(width)).sum())
    return Move(name, f"{changed} of {width} channels change places", (rows, width, 1), order)


def _compare(name: str, stored: Stored, source: Any, rows: int) -> None:
    """Raise unless the tensor holds the table of the source, from its first or a reserved row."""
    count = min(rows, 4096)
    values = stored.numbers(0, count * source.dim).reshape(count, source.dim)
    size = max(1e-30, float(np.sqrt(np.mean(np.square(values)) * 2)))
    arrangement = getattr(source, "arrangement", None)
    starts = {0, -(arrangement.start if arrangement is not None else 0)}
    worst = min(
        float(np.abs(values - table(source, first + np.arange(count), dtype="float64")).max())
        for first in starts
    )
    if not worst <= NEAR * size:
        received = f"a table that differs by up to {worst:.3g}"
        todo = "Channels of tables that do not hold what is claimed are not moved."
        raise DataError(mismatch(name, "the table that the source spec computes", received, todo))


# --- learned tables -------------------------------------------------------------------------------


def _learned(name: str, stored: Stored, source: Learned, target: Learned, how: How) -> Change:
    shapes = {key: p.shape for key, p in source.parameters().items() if p.shape}
    if len(shapes) != 1:
        expected = "one table; give those of each axis by itself"
        raise ArgumentError(mismatch(f"convert: tables[{name!r}]", expected, ", ".join(shapes)))
    ((key, shape),) = shapes.items()
    if stored.tensor.shape[-2:] != shape:
        expected = f"{list(shape)}, as the source spec has"
        raise DataError(mismatch(f"{name}: shape", expected, list(stored.tensor.shape)))
    if target.dim != source.dim or target.lookup != source.lookup:
        expected = "the same width and lookup in both specs"
        raise ArgumentError(
            mismatch(f"convert: tables[{name!r}]", expected, f"{source} and {target}")
        )
    rows = shape[0] - source.start
    same = target.lengths == source.lengths
    if not same:
        longer, _ = _resized(source, {key: np.zeros(shape, np.float32)}, target, how)
        rows = longer.parameters()[key].shape[0] - source.start

    def make(stored: Stored) -> np.ndarray:
        tensor = stored.tensor
        size = stored.itemsize * source.dim
        patterns = stored.raw(0, shape[0] * size).reshape(shape[0], size)
        kept, body = patterns[: source.start], patterns[source.start :]
        if not same:
            if tensor.stored is None or tensor.dtype not in files.FLOATS:
                raise DataError(mismatch(f"{name}: dtype", "floating numbers", tensor.dtype))
            values = files.decode(patterns.reshape(-1).view(tensor.stored), tensor.dtype)
            # Half precision is interpolated in float32 and rounded once.
            values = values.astype(np.result_type(values.dtype, np.float32)).reshape(shape)
            _, resized = _resized(source, {key: values}, target, how)
            data = files.encode(resized[key][source.start :], tensor.dtype, tensor.stored)
            body = data.reshape(rows, source.dim).view(np.uint8).reshape(rows, size)
            if how in EXTENSIONS:  # rows that stay are not even rounded
                body[: shape[0] - source.start] = patterns[source.start :]
        front = np.zeros((target.start, size), dtype=np.uint8)
        moved = min(source.start, target.start)
        front[target.start - moved :] = kept[source.start - moved :]
        if target.pad is not None and target.pad < target.start:
            old = source.pad if source.pad is not None and source.pad < source.start else None
            front[target.pad] = 0 if old is None else kept[old]
        return np.concatenate([front, body])

    front = stored.tensor.shape[:-2]
    shape_now = (*front, target.start + rows, source.dim)
    what = f"{shape[0]} rows to {target.start + rows}"
    if not same:
        what += f" ({how})"
    if target.start != source.start:
        what += f", {target.start} of them reserved instead of {source.start}"
    return New(name, what, shape_now, make)


def _resized(
    source: Learned, params: Mapping[str, Any], target: Learned, how: How
) -> tuple[Learned, dict[str, Any]]:
    word: Any = {"how" if how in EXTENSIONS else "method": how}
    return resize(source, params, target.length, **word)
