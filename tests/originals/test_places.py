"""Tables of times, places and trees against numbers that their authors' code gave.

The numbers are stored with repository, commit and symbol, as none of that code is a package. Where
the code needs TensorFlow 1 its lines ran on NumPy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.registry import from_json
from tests.tolerances import assert_close

STORED = json.loads((Path(__file__).parents[1] / "golden" / "originals_places.json").read_text())
each_row = pytest.mark.parametrize("row", STORED["tables"], ids=lambda row: row["name"])


@each_row
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_table_equals_the_original(row: dict[str, Any], dtype: str) -> None:
    spec: Any = from_json(json.dumps(row["spec"]))
    params = {name: np.array(value, dtype=np.float32) for name, value in row["params"].items()}
    got = posenc.table(spec, np.array(row["positions"]), params=params or None, dtype=dtype)
    want = np.array(row["values"])
    # The values are stored as float32; the original's own error was measured with them.
    own = 2 * row["largest_difference"] + 2.0**-23 * np.maximum(np.abs(want), 1)
    assert_close(got, want, own if dtype == "float64" else own + 1e-6, row["name"])


def test_every_row_says_where_it_is_from() -> None:
    for row in STORED["tables"]:
        assert all(row[key] for key in ("repository", "path", "symbol"))
        assert len(row["commit"]) == 40
        assert row["largest_difference"] < 5e-6


def test_the_ladder_of_times_is_the_original_one() -> None:
    """1 / 10 ** linspace(0, 9): what temporal graph networks begin with."""
    row = next(row for row in STORED["tables"] if row["name"] == "tgat")
    spec: Any = from_json(json.dumps(row["spec"]))
    begun = posenc.init(spec)
    np.testing.assert_array_equal(begun["frequency"], np.float32(row["params"]["frequency"]))
    np.testing.assert_array_equal(begun["shift"], np.zeros(6, np.float32))
