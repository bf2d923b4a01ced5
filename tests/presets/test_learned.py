"""Every preset of a learned table reads the rows that its original reads."""

from __future__ import annotations

import numpy as np
import pytest

import posenc
from posenc import presets
from tests.presets.compare import positions_of, spec_of, values
from tests.presets.learned import LEARNED
from tests.presets.originals import Original
from tests.tolerances import ORIGINAL, assert_close

each_row = pytest.mark.parametrize(
    ("original", "dim"),
    [(original, dim) for original in LEARNED for dim in original.dims],
    ids=[f"{original.preset}-{dim}" for original in LEARNED for dim in original.dims],
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_every_preset_of_a_learned_table_has_an_original() -> None:
    learned = {name for name in presets.names() if presets.row(name).spec["type"] == "Learned"}
    assert {original.preset for original in LEARNED} == learned


@each_row
def test_preset_reads_what_the_original_reads(original: Original, dim: int) -> None:
    given, made, weights = original.make(dim)  # type: ignore[misc]
    spec = spec_of(original, dim)
    params = {name: value.detach().numpy() for name, value in weights.items()}
    where = values(positions_of(original, given)).astype(np.int64)
    assert_close(posenc.table(spec, where, params=params), values(made), ORIGINAL, original.name)


@each_row
def test_other_rows_are_other_numbers(original: Original, dim: int) -> None:
    given, made, weights = original.make(dim)  # type: ignore[misc]
    params = {name: value.detach().numpy() for name, value in weights.items()}
    where = values(positions_of(original, given)).astype(np.int64)
    moved = np.where(where > 0, where - 1, where + 1)
    wrong = posenc.table(spec_of(original, dim), moved, params=params)
    assert np.abs(wrong - values(made)).max() > 0.01
