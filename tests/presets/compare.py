"""How a preset is held against the code it describes: for the tests and for the page of presets."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import numpy as np

import posenc
from posenc import presets
from posenc.encodings.table.base import TableSpec
from tests.presets.originals import GOLDEN, Original


def spec_of(original: Original, dim: int) -> TableSpec:
    """The preset at a width, with the fields that the original's own arguments change."""
    spec = presets.preset(original.preset, dim)
    assert isinstance(spec, TableSpec)
    if original.changes is None:
        return spec
    data = json.loads(posenc.to_json(spec))
    changed = posenc.from_json(json.dumps({**data, **original.changes(dim)}))
    assert isinstance(changed, TableSpec)
    return changed


def positions_of(original: Original, given: tuple[Any, ...]) -> Any:
    """The positions of the preset, by its own description."""
    row = presets.row(original.preset)
    return row.place(*given, **(original.more or {})) if row.positions else given[0]


def values(array: Any) -> np.ndarray:
    """A tensor or array as float64."""
    array = array.detach().numpy() if hasattr(array, "detach") else array
    return np.asarray(array).astype(np.float64)


def difference(original: Original, dim: int) -> float:
    """max |preset - original|."""
    given, made, *rest = original.make(dim)
    params = {name: value.detach() for name, value in rest[0].items()} if rest else None
    table = posenc.table(spec_of(original, dim), positions_of(original, given), params=params)
    want = values(made)
    assert table.shape == want.shape, f"{table.shape} for {want.shape}"
    return float(np.abs(values(table) - want).max())


def differing_bits(original: Original, dim: int) -> int:
    """Entries of the classic arithmetic that are not the original's, bit for bit, in torch."""
    import torch

    given, made = original.make(dim)
    spec = spec_of(original, dim).replace(phase="float32")
    positions = torch.tensor(np.asarray(positions_of(original, given)))
    table = posenc.table(spec, positions)
    assert table.dtype == made.dtype == torch.float32
    assert table.shape == made.shape
    bits = torch.int32
    return int((table.contiguous().view(bits) != made.contiguous().view(bits)).sum())


def version_of(original: Original) -> str:
    """The package of the original with the version that gave its numbers."""
    if original.status == "golden":
        stored = json.loads(GOLDEN.read_text(encoding="utf-8")).values()
        found = {row["package"]: row["version"] for row in stored}
        return f"{original.package} {found[original.package]}"
    if original.status == "read":
        return original.package
    return f"{original.package} {importlib.metadata.version(original.package)}"
