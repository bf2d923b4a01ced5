"""What a picture shows as files of numbers: every array in a .npz, one table in a .csv."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from posenc._core.spec import Value
from posenc.plot.columns import TableSource

__all__ = ["arrays", "facts", "to_csv", "to_npz"]


def arrays(data: Any) -> dict[str, np.ndarray]:
    """Every array of a picture's data by its name: `tile.values`, `curves.0.mean`."""
    return {name: value for name, value in _leaves(data, "") if isinstance(value, np.ndarray)}


def facts(data: Any) -> dict[str, Any]:
    """Every number and word of a picture's data by its name."""
    plain = (str, int, float, bool, type(None))
    return {name: value for name, value in _leaves(data, "") if isinstance(value, plain)}


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, TableSource | Value):
        return
    front = f"{name}." if name else ""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), front + field.name)
    elif isinstance(value, tuple) and value and not all(isinstance(v, str) for v in value):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{front}{place}")
    elif isinstance(value, np.generic):
        yield name, value.item()
    else:
        yield name, value


def to_npz(data: Any) -> bytes:
    """Every array in one file, with the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in arrays(data).items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(value), allow_pickle=False)
            # A member without a date: that of the format's beginning.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def to_csv(name: str, data: Any) -> bytes:
    """The main table of a picture, in the fewest digits that read back as the same numbers."""
    header, rows = _TABLES[name](data)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([_cell(entry) for entry in row])
    return text.getvalue().encode()


def _cell(entry: Any) -> Any:
    if isinstance(entry, np.generic):
        entry = entry.item()
    return "" if isinstance(entry, float) and entry != entry else entry  # noqa: PLR0124 - NaN


Table = tuple[list[str], Any]


def _matrix(front: str, places: Any, names: Any, values: np.ndarray) -> Table:
    pairs = zip(places, values, strict=True)
    return [front, *map(str, names)], ([place, *row] for place, row in pairs)


def _table(data: Any) -> Table:
    tile = data.tile
    return _matrix("position", tile.places, (f"c{c}" for c in tile.columns), tile.values)


def _waves(data: Any) -> Table:
    parts = [
        (f"{what}{c.dim}", getattr(c, what))
        for c in data.curves
        for what in ("mean", "low", "high")
    ]
    columns = np.stack([values for _, values in parts], axis=1)
    return _matrix("position", data.curves[0].middle, (name for name, _ in parts), columns)


def _wavelengths(data: Any) -> Table:
    rows = (
        [ladder.label, pair, value]
        for ladder in data.ladders
        for pair, value in enumerate(ladder.wavelengths)
    )
    return ["encoding", "pair", "wavelength"], rows


def _offset(data: Any) -> Table:
    columns = np.stack([data.mean, data.low, data.high], axis=1)
    return _matrix("offset", data.offsets, ("mean", "low", "high"), columns)


def _similarity(data: Any) -> Table:
    start, stop = data.positions
    places = start + np.floor((np.arange(len(data.values)) + 0.5) * data.per_pixel).astype(np.int64)
    del stop
    return _matrix("position", places, (f"p{p}" for p in places), data.values)


def _counter(data: Any) -> Table:
    start, stop = data.positions
    names = (f"bit{p.bit}" for p in data.partners)
    return _matrix("position", range(start, stop), names, data.bits.T)


def _sum(data: Any) -> Table:
    rows = (
        [token, place, c, data.scaled[place, c], data.encoding[place, c], data.total[place, c]]
        for place, token in enumerate(data.tokens)
        for c in range(min(data.scaled.shape[1], data.encoding.shape[1]))
    )
    return ["token", "place", "dimension", "embedding", "encoding", "input"], rows


def _rotation(data: Any) -> Table:
    columns = np.stack([scores.values for scores in data.scores], axis=1)
    names = (scores.label for scores in data.scores)
    return _matrix("offset", data.offsets, names, columns)


def _bias(data: Any) -> Table:
    if len(data.offsets):
        return _matrix("offset", data.offsets, (f"head{h}" for h in data.heads), data.curves.T)
    rows = (
        [head, place, *row]
        for head, matrix in zip(data.heads, data.values, strict=True)
        for place, row in enumerate(matrix)
    )
    return ["head", "row", *(f"k{k}" for k in range(data.values.shape[2]))], rows


def _stretch(data: Any) -> Table:
    rows = (
        [rule.label, pair, rule.wavelengths[pair], rule.stretch[pair]]
        for rule in data.rules
        for pair in range(len(rule.wavelengths))
    )
    return ["rule", "pair", "wavelength", "stretch"], rows


def _find(data: Any) -> Table:
    rows = (
        [line.label, position, *line.errors[place]]
        for line in data.candidates
        for place, position in enumerate(line.positions)
    )
    return ["convention", "position", "below", "above"], rows


def _compare(data: Any) -> Table:
    both = []
    for name, side in (("A", data.a), ("B", data.b)):
        header, rows = _TABLES[data.view](side)
        both.append((header, [[name, *row] for row in rows]))
    longest = max(both, key=lambda part: len(part[0]))[0]
    return ["encoding", *longest], [row for _, rows in both for row in rows]


_TABLES: dict[str, Any] = {
    "table": _table,
    "waves": _waves,
    "wavelengths": _wavelengths,
    "offset": _offset,
    "similarity": _similarity,
    "counter": _counter,
    "sum": _sum,
    "rotation": _rotation,
    "bias": _bias,
    "stretch": _stretch,
    "find": _find,
    "compare": _compare,
}
