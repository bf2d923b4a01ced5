"""Every preset of a table against the code it describes; some of them to every bit."""

from __future__ import annotations

import numpy as np
import pytest

import posenc
from posenc import presets
from tests.presets.compare import difference, differing_bits, positions_of, spec_of, values
from tests.presets.originals import ORIGINALS, Original, sam
from tests.tolerances import ORIGINAL, assert_close

ROWS = [(original, dim) for original in ORIGINALS for dim in original.dims]
each_row = pytest.mark.parametrize(
    ("original", "dim"), ROWS, ids=[f"{o.name}-{o.package}-{dim}" for o, dim in ROWS]
)
each_classic = pytest.mark.parametrize(
    ("original", "dim"),
    [row for row in ROWS if row[0].bits],
    ids=[f"{o.name}-{dim}" for o, dim in ROWS if o.bits],
)
# The numbers of other tables are weights; tests of learned tables hold them to their sources.
COMPUTED = ("Sinusoidal", "Fourier", "Timestep")


def test_every_preset_of_a_computed_table_has_an_original() -> None:
    computed = {name for name in presets.names() if presets.row(name).spec["type"] in COMPUTED}
    assert {original.preset for original in ORIGINALS} == computed


@each_row
def test_preset_equals_the_original(original: Original, dim: int) -> None:
    given, made = original.make(dim)
    spec, positions = spec_of(original, dim), positions_of(original, given)
    for dtype in ("float32", "float64"):
        got = posenc.table(spec, positions, dtype=dtype)
        assert_close(got, values(made), ORIGINAL, original.name)


@each_row
def test_the_comparison_can_fail(original: Original, dim: int) -> None:
    """Neighbouring conventions are far away, so that agreement means something."""
    given, made = original.make(dim)
    spec = spec_of(original, dim)
    wrong = spec.replace(order="cos_sin" if spec.order != "cos_sin" else "sin_cos")
    table = posenc.table(wrong, positions_of(original, given))
    assert np.abs(values(table) - values(made)).max() > 0.2


@each_classic
def test_classic_arithmetic_has_every_bit(original: Original, dim: int) -> None:
    pytest.importorskip("torch", reason="bits are promised in torch")
    assert differing_bits(original, dim) == 0


def test_random_features_of_great_frequency() -> None:
    """A checkpoint's matrix is 128 times as large: the original's own error is then what differs.

    Its coordinates and its product are float32, at angles of a thousand radians.
    """
    pytest.importorskip("transformers", reason="holds the published code")
    original = next(o for o in ORIGINALS if o.preset == "sam")
    given, made = sam(128.0)(16)
    rows = np.array(spec_of(original, 16).ladder.rows) * 128  # type: ignore[attr-defined]
    matrix = posenc.FrequencyMatrix(rows.tolist(), unit="turns")
    spec = spec_of(original, 16).replace(ladder=matrix)
    row = presets.row("sam")
    exact = posenc.table(spec, row.place(*given, dtype="float64"), dtype="float64")
    assert np.abs(posenc.table(spec, row.place(*given, dtype="float64")) - exact).max() < 1.5e-7
    assert 1e-5 < np.abs(values(made) - exact).max() < 5e-3


def test_positions_of_a_preset_without_a_builder() -> None:
    with pytest.raises(posenc.ArgumentError, match="a family that builds positions"):
        presets.row("nerf").place()


def test_differences_are_measured() -> None:
    """The number that the page shows is the one that the tests hold."""
    original = next(o for o in ORIGINALS if o.preset == "vaswani2017")
    assert 0 < difference(original, 16) < 1.5e-7
