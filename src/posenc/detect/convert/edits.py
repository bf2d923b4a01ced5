"""What a conversion does to single tensors, in pieces of a few MiB, and to the config beside them.

Channels change places; position tables get another order of channels, other rows, another length.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

from posenc._core.arrays.resample import METHODS, Method
from posenc._core.errors import bad_argument, bad_data, refuse_data
from posenc._core.io import files, headers, inputs
from posenc._core.io.checkpoints import RECORD, Stored
from posenc.detect.explain import TRAINED, check_name, to_hf
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.learned import Learned
from posenc.functional import reorder, resize, table
from posenc.presets import row as preset_row
from posenc.presets.families import family

How = Method | Literal["tile", "sinusoidal"]
EXTENSIONS = ("tile", "sinusoidal")
# A table in bfloat16, or of float32 phases at some thousand positions, is nearer than this to its
# formula; a table of another formula is further by an order of magnitude.
NEAR = 0.05
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


# --- position tables ------------------------------------------------------------------------------


def table_change(
    name: str, stored: Stored, source: TableSpec, target: TableSpec, how: How
) -> Change:
    """What turns a stored table of one spec into that of another."""
    caller, shape = f"convert: tables[{name!r}]", stored.tensor.shape
    for spec in (source, target):
        if not isinstance(spec, TableSpec):
            raise bad_argument(caller, "two tables", type(spec).__name__)
    check_name("convert: method", how, (*METHODS, *EXTENSIONS), optional=False)
    if isinstance(source, Learned) != isinstance(target, Learned):
        raise bad_argument(
            caller,
            "two learned tables, or two computed ones",
            f"{type(source).__name__} to {type(target).__name__}",
            "A computed table that was stored is learned as well: give its rows.",
        )
    refuse_data(
        len(shape) < 2 or any(n != 1 for n in shape[:-2]),
        f"{name}: shape",
        "(rows, dim)",
        list(shape),
    )
    if isinstance(source, Learned) and isinstance(target, Learned):
        return _learned(name, stored, source, target, how)
    return _columns(name, stored, source, target)


# --- computed tables ------------------------------------------------------------------------------


def _columns(name: str, stored: Stored, source: Any, target: Any) -> Move:
    rows, width = stored.tensor.shape[-2:]
    refuse_data(width != source.dim, f"{name}: shape", f"rows of {source.dim}", width)
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
    start = getattr(getattr(source, "arrangement", None), "start", 0)
    worst = min(
        float(np.abs(values - table(source, first + np.arange(count), dtype="float64")).max())
        for first in {0, -start}
    )
    refuse_data(
        not worst <= NEAR * size,
        name,
        "the table that the source spec computes",
        f"a table that differs by up to {worst:.3g}",
        "Channels of tables that do not hold what is claimed are not moved.",
    )


# --- learned tables -------------------------------------------------------------------------------


def _learned(name: str, stored: Stored, source: Learned, target: Learned, how: How) -> Change:
    shapes = {key: p.shape for key, p in source.parameters().items() if p.shape}
    caller = f"convert: tables[{name!r}]"
    if len(shapes) != 1:
        raise bad_argument(
            caller, "one table; give those of each axis by itself", ", ".join(shapes)
        )
    ((key, shape),) = shapes.items()
    refuse_data(
        stored.tensor.shape[-2:] != shape,
        f"{name}: shape",
        f"{list(shape)}, as the source spec has",
        list(stored.tensor.shape),
    )
    if target.dim != source.dim or target.lookup != source.lookup:
        raise bad_argument(
            caller, "the same width and lookup in both specs", f"{source} and {target}"
        )
    rows, same = shape[0] - source.start, target.lengths == source.lengths
    if not same:
        longer, _ = _resized(source, {key: np.zeros(shape, np.float32)}, target, how)
        rows = longer.parameters()[key].shape[0] - source.start

    def make(stored: Stored) -> np.ndarray:
        tensor, size = stored.tensor, stored.itemsize * source.dim
        patterns = stored.raw(0, shape[0] * size).reshape(shape[0], size)
        kept, body = patterns[: source.start], patterns[source.start :]
        if not same:
            if tensor.stored is None or tensor.dtype not in files.FLOATS:
                raise bad_data(f"{name}: dtype", "floating numbers", tensor.dtype)
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

    shape_now = (*stored.tensor.shape[:-2], target.start + rows, source.dim)
    by, moved = "" if same else f" ({how})", target.start != source.start
    kept = f", {target.start} of them reserved instead of {source.start}" if moved else ""
    return New(name, f"{shape[0]} rows to {target.start + rows}{by}{kept}", shape_now, make)


def _resized(
    source: Learned, params: Mapping[str, Any], target: Learned, how: How
) -> tuple[Learned, dict[str, Any]]:
    word: Any = {"how" if how in EXTENSIONS else "method": how}
    return resize(source, params, target.length, **word)


def changed_config(
    config: Mapping[str, Any] | None,
    *,
    pairing: str | None,
    attention: str = "",
    tables: Mapping[str, tuple[Any, Any]] | None,
    dialect: Literal["hf4", "hf5"] | None,
) -> tuple[dict[str, Any] | None, list[str]]:
    """The new config, None where nothing in it changes; and remarks for people."""
    if config is None:
        return None, []
    changed, remarks = copy.deepcopy(dict(config)), []
    if pairing is not None:
        remarks = _state_pairing(changed, pairing, attention, "") or [
            (
                f"a config of {changed.get('model_type')!r} has no key for the pairing: code that "
                f"reads the result must pair {pairing}; the metadata of the weights record it"
            )
        ]
    for source, target in (tables or {}).values():
        if isinstance(source, Learned) and isinstance(target, Learned):
            remarks += _state_length(changed, source, target)
    if dialect is not None:
        translation = to_hf(changed, dialect)
        changed = translation.config
        remarks += [f"lost in the dialect {dialect}: {sentence}" for sentence in translation.lost]
    return (None if changed == dict(config) else changed), remarks


def _state_pairing(data: dict[str, Any], pairing: str, attention: str, path: str) -> list[str]:
    """Set the key of each family that has one for its pairing."""
    notes, row = [], family(data.get("model_type"))
    rules: Any = () if row is None else row.entries
    if attention:
        rules = [r for rule in rules for r in rule.get("attentions", ()) if r["name"] == attention]
    for choice in (rule.get("rotary") for rule in rules):
        for word, name in choice["cases"].items() if isinstance(choice, Mapping) else ():
            value = preset_row(name).spec.get("pairing", "half")
            if pairing == (value["order"] if isinstance(value, Mapping) else value):
                data[choice["match"]] = json.loads(word)
                notes.append(f"{path}{choice['match']} becomes {word}")
    for key, value in data.items():
        if isinstance(value, dict):
            notes += _state_pairing(value, pairing, attention, f"{path}{key}.")
    return notes


def _state_length(data: dict[str, Any], source: Learned, target: Learned) -> list[str]:
    """Change the key that holds the number of rows, or of positions, of a table that grew."""
    before, after = (next(iter(s.parameters().values())).shape[0] for s in (source, target))
    # Some families count reserved rows, some do not: the number in the config tells.
    numbers = {before: after, source.limits[0]: target.limits[0]}
    for key in TRAINED:
        old = data.get(key)
        if isinstance(old, int) and old in numbers and old != numbers[old]:
            data[key] = numbers[old]
            return [f"{key}={old} becomes {numbers[old]}"]
    return []
