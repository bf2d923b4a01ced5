"""`posenc.identify`: what it finds, what it must not claim, and what the command prints."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tools.measure import detective_identify as detective

import posenc
from posenc import Arrangement, Ladder, Magnitude
from posenc.cli import app
from posenc.detect.fit.tables.layout import Placement
from posenc.detect.fit.tables.table import fit_table
from posenc.detect.identify.identify import in_memory
from posenc.detect.identify.verdicts.table import judge_table

DTYPES = detective.DTYPES


def only(source: Any, **more: Any) -> Any:
    [finding] = posenc.identify(source, **more).findings
    return finding


def rebuilt(finding: Any, rows: int) -> np.ndarray:
    return np.asarray(
        posenc.table(finding.spec, finding.placement.positions(0, rows), dtype="float64")
    )


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(detective.presets())))
def test_tables_of_presets(number: int) -> None:
    # Each preset at one base, width and dtype, dealt out so that all of them occur.
    base = detective.BASES[number % 5]
    case = detective.preset_case(detective.presets()[number], base, detective.WIDTHS[number % 3])
    table = detective.rounded(case.table, DTYPES[number % 3])
    finding = only(table)
    assert detective.recovered(case, finding) in ("named", "ratio")
    made = rebuilt(finding, len(table))
    assert np.abs(made - table).max() == pytest.approx(finding.measures["residual"], rel=1e-6)
    assert np.abs(made - case.table).max() <= 2.0**-8


@pytest.mark.slow("detect/identify", release=True)
def test_all_tables_of_presets() -> None:
    counts = detective.count_presets(list(detective.preset_cases()))
    for dtype, outcomes in counts.items():
        assert set(outcomes) <= {"named", "ratio"}, (dtype, outcomes)


@pytest.mark.slow("detect/identify", release=True)
def test_drawn_tables_are_found_or_not_claimed() -> None:
    rng = np.random.default_rng(1)
    counts = detective.count_presets([detective.drawn_case(rng) for _ in range(150)])
    for dtype, outcomes in counts.items():
        assert outcomes["wrong"] == 0, (dtype, outcomes)
        assert outcomes["silent"] <= 20, (dtype, outcomes)


@pytest.mark.costly
def test_a_few_drawn_tables() -> None:
    rng = np.random.default_rng(2)
    counts = detective.count_presets([detective.drawn_case(rng) for _ in range(3)])
    for dtype, outcomes in counts.items():
        assert outcomes["wrong"] == 0, (dtype, outcomes)
        assert outcomes["silent"] <= 1, (dtype, outcomes)


@pytest.mark.parametrize(
    "spec",
    [
        posenc.Sinusoidal(63),
        posenc.Sinusoidal(63, order="sin_cos"),
        posenc.Sinusoidal(63, order="cos_sin"),
        posenc.Sinusoidal(63, order="sin_cos", odd="zero_pad"),
        posenc.Sinusoidal(63, odd="cut"),
        posenc.Sinusoidal(64, magnitude=Magnitude(table_scale="rsqrt_dim")),
        posenc.Sinusoidal(64, magnitude=Magnitude(table_scale=0.25)),
        posenc.Sinusoidal(64, arrangement=Arrangement(start=2, pad=5)),
        posenc.Sinusoidal(64, arrangement=Arrangement(start=-1, pad=-1)),
        posenc.Sinusoidal(64, arrangement=Arrangement(start=2_000_000)),
        posenc.Sinusoidal(64, base=1e9, ladder=Ladder(denominator="n-1")),
        posenc.Sinusoidal(64, base=2.5),
        posenc.Sinusoidal(64, ladder=Ladder(first=math.pi / 2)),
        posenc.Sinusoidal(64, base=0.0001, ladder=Ladder(first=0.0001)),
        posenc.Sinusoidal(64, phase="float32"),
    ],
    ids=str,
)
def test_every_field_is_found(spec: posenc.Sinusoidal) -> None:
    found = only(np.asarray(posenc.table(spec, 400)))
    assert found.verdict == "claimed"
    assert found.spec == spec
    assert found.placement.words() == "positions 0 to 399, a row each"


def test_positions_that_fall() -> None:
    positions = posenc.positions.descending(100, -100)
    found = only(np.asarray(posenc.table(posenc.Sinusoidal(64), positions)))
    assert found.spec == posenc.Sinusoidal(64)
    assert found.placement.words() == "positions 100 to -100, a row each"
    assert np.array_equal(found.placement.positions(0, 201), positions)


def test_positions_between_integers() -> None:
    spec = posenc.Fourier(64, ladder=Ladder(denominator="n"), order="cos_sin")
    found = only(np.asarray(posenc.table(spec, np.arange(200) + 0.5)))
    assert found.verdict == "claimed"
    assert found.placement.starts == (0.5,)
    assert np.array_equal(posenc.frequencies(found.spec), posenc.frequencies(spec))


def test_grids() -> None:
    arrangement = Arrangement(rule="axial", axes=("t", "h", "w"), order=("w", "t", "h"))
    spec = posenc.Sinusoidal(96, order="cos_sin", arrangement=arrangement)
    grid = posenc.positions.grid({"t": 3, "h": 7, "w": 5}, start=1)
    table = np.asarray(posenc.table(spec, grid))
    found = only(table)
    assert found.spec == spec
    assert np.array_equal(found.placement.positions(0, len(grid)), grid)
    assert (
        found.placement.words()
        == "a grid of 3 x 7 x 5 (t, h, w), the last axis fastest, counted from 1"
    )
    assert found.to_dict()["positions"] == {
        "sizes": {"t": 3, "h": 7, "w": 5},
        "start": 1.0,
        "prefix": 0,
    }
    # As an image, channels first.
    turned = only(np.ascontiguousarray(table.T.reshape(1, 96, 3, 35)))
    assert turned.spec == spec


def test_coordinates_divided_by_the_size_of_the_grid() -> None:
    case = detective.preset_case("detr-normalised", 1e4, 64)
    found = only(case.table)
    assert found.verdict == "claimed"
    firsts = [ladder.first for ladder in found.spec.ladder]
    assert firsts == pytest.approx([2 * math.pi / n for n in detective.SIZES[2]], rel=1e-6)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_numbers_that_were_widened(kind: str) -> None:
    table = detective.rounded(np.asarray(posenc.table(posenc.Sinusoidal(64), 300)), kind)
    found = only(table.astype(np.float32))
    assert found.verdict == "claimed"
    assert found.spec == posenc.Sinusoidal(64)
    assert f"its numbers were rounded to {kind} before they were stored" in found.remarks


def test_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="makes the arrays of this test")
    table = torch.from_numpy(np.asarray(posenc.table(posenc.Sinusoidal(64), 300)))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = only(torch.nn.Parameter(table.to(dtype)))
        assert found.spec == posenc.Sinusoidal(64)
        assert found.dtype == str(dtype).removeprefix("torch.")


def test_more_rows_than_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.detect.identify.verdicts.table.MOST_ENTRIES", 64 * 100)
    table = np.asarray(posenc.table(posenc.Sinusoidal(64), 350))
    found = only(table)
    assert found.verdict == "claimed"
    assert found.placement.sizes == (350,)
    table = table.copy()
    table[340] = 0
    found = only(table)
    assert found.verdict == "close"
    assert "rows from 300 on are others" in found.remarks


def test_where_a_long_table_differs_most_is_looked_for_in_all_rows() -> None:
    table = np.asarray(posenc.table(posenc.Sinusoidal(64), 4096, dtype="float32"))
    table[3000, 5] += 1e-3
    found = only(table)
    assert found.verdict == "close"
    assert found.remarks[0].endswith("most in row 3000, column 5")
    size = np.sqrt(np.mean(table.astype("float64") ** 2) * table.size)
    assert found.measures["relative_rms"] == pytest.approx(1e-3 / size, rel=1e-2)


# --- what is no table -----------------------------------------------------------------------------


@pytest.mark.costly
def test_no_claim_about_what_is_no_table() -> None:
    # Each kind in one dtype, dealt out so that all of them occur.
    kinds = set()
    for number, (kind, table) in enumerate(detective.non_tables(np.random.default_rng(3))):
        numbers = detective.rounded(table, DTYPES[number % 3])
        found = judge_table(in_memory("array", numbers), named=False)
        assert found is None or found.verdict != "claimed", (kind, numbers.dtype)
        kinds.add(kind)
    assert len(kinds) >= 12


@pytest.mark.slow("detect/identify")
def test_no_claim_about_what_is_no_table_in_any_dtype() -> None:
    counts = detective.count_claims(np.random.default_rng(3), 12)
    assert all(outcomes["claimed"] == 0 for outcomes in counts.values()), counts


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "claimed"), (1e-3, "unclear")])
def test_a_far_start_needs_more_than_three_phases_that_are_near(off: float, verdict: str) -> None:
    frequency = 3495.0 ** (-np.arange(3) / 3)
    phase = 2_899_389 * frequency + off * np.array([1, -1, 1])
    angle = np.arange(169)[:, None] * frequency + phase
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(169, 6)
    [finding] = posenc.identify(table.astype(np.float32))
    assert finding.verdict == verdict


@pytest.mark.slow("detect/identify", release=True)
def test_no_claim_about_a_thousand_that_are_no_tables() -> None:
    counts = detective.count_claims(np.random.default_rng(4), 1000)
    assert all(outcomes["claimed"] == 0 for outcomes in counts.values()), counts


@pytest.mark.costly
def test_one_wrong_entry_is_no_claim() -> None:
    table = np.asarray(posenc.table(posenc.Sinusoidal(64), 300)).copy()
    table[211, 17] += 1e-4
    found = only(table)
    assert found.verdict == "close"
    assert found.spec == posenc.Sinusoidal(64)
    assert "row 211, column 17" in found.remarks[0]


@pytest.mark.costly
def test_a_few_rows_are_too_little() -> None:
    assert only(np.asarray(posenc.table(posenc.Sinusoidal(4), 2))).verdict != "claimed"
    table = np.asarray(posenc.table(posenc.Sinusoidal(4), 3))
    assert only(detective.rounded(table, "bfloat16")).verdict != "claimed"
    slow = posenc.Sinusoidal(8, ladder=Ladder(first=1e-5))
    assert only(np.asarray(posenc.table(slow, 12))).verdict != "claimed"


@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
@pytest.mark.parametrize("sizes", [(8, 12, 12), (16, 24, 24), (4, 6, 6), (12, 6, 6), (2, 9, 5)])
def test_grids_of_unequal_shares(order: Any, sizes: tuple[int, ...]) -> None:
    arrangement = posenc.Arrangement(rule="axial", axes=("t", "h", "w"), sizes=sizes)
    spec = posenc.Sinusoidal(2 * sum(sizes), order=order, arrangement=arrangement)
    made = posenc.table(spec, posenc.positions.grid({"t": 4, "h": 6, "w": 7}))
    found = only(made)
    assert (found.verdict, found.spec) == ("claimed", spec)
    assert np.abs(found.rebuild() - made).max() < 1e-6


LINEAR = posenc.Ladder(spacing="linear", first=1.0, last=32.0)
OCTAVES = posenc.Ladder(spacing="octave", first=np.pi)


@pytest.mark.parametrize("blocks", ["all", "axis", "band"])
@pytest.mark.parametrize("raw", ["none", "first", "last"])
@pytest.mark.parametrize(("ladder", "bands"), [(LINEAR, 32), (OCTAVES, 6)])
def test_bands_of_coordinates(ladder: Any, bands: int, raw: Any, blocks: Any) -> None:
    rule: Any = "axial_cyclic" if blocks == "band" else "axial"
    for order in ("sin_cos", "cos_sin", "interleaved"):
        spec = posenc.Fourier(
            4 * bands + (0 if raw == "none" else 2),
            ladder=ladder,
            order=order,  # type: ignore[arg-type]
            raw=raw,
            blocks=blocks,
            arrangement=posenc.Arrangement(rule=rule, axes=("h", "w")),
        )
        where = posenc.positions.grid({"h": 12, "w": 18}, normalise="centred", ends="points")
        made = posenc.table(spec, where)
        found = only(made)
        assert found.verdict == "claimed"
        assert found.placement.words() == (
            "a grid of 12 x 18 coordinates: h from -1 to 1, w from -1 to 1"
        )
        assert np.abs(found.rebuild() - made).max() < 4e-6


@pytest.mark.slow("detect/identify")
def test_the_bands_of_perceiver() -> None:
    """Fast bands turn by more than half a turn from point to point; rows beyond 4M entries too."""
    spec = posenc.preset("perceiver", 258)
    where = posenc.positions.grid({"h": 224, "w": 224}, normalise="centred", ends="points")
    made = posenc.table(spec, where)
    found = only(made)
    assert found.verdict == "claimed"
    ladder = spec.ladder[0]
    assert found.spec == spec.replace(ladder=ladder)
    assert found.placement.rows == len(made)
    assert np.abs(found.rebuild() - made).max() < 4e-5
    made[-3, 7] += 0.01
    assert only(made).verdict == "close"


@pytest.mark.parametrize("ends", [(0.125, 1.0), (0.5, 0.0625), (2.0, 0.25)])
@pytest.mark.parametrize("sign", [1, -1])
def test_slopes_that_are_evenly_spaced(ends: tuple[float, float], sign: int) -> None:
    slopes = sign * np.linspace(*ends, 8, dtype=np.float32)
    found = only({"slopes": slopes})
    assert found.verdict == "claimed"
    assert np.abs(found.rebuild() / np.abs(slopes) - 1).max() < 1e-6
    bias = posenc.bias(found.spec, [0], 2, dtype="float64")
    assert np.abs(bias[:, 0, 1] + np.abs(slopes)).max() < 1e-6


@pytest.mark.parametrize("recipe", ["powers", "even"])
def test_the_decay_of_retention(recipe: Any) -> None:
    spec = posenc.Decay(6, recipe=recipe)
    found = only({"rel_pos_bias": posenc.bias(spec, 40, 40)})
    assert (found.verdict, found.spec) == ("claimed", spec)
    assert (found.rebuild()[:, 0, 1:] == -np.inf).all()


@pytest.mark.parametrize(
    "numbers",
    [
        posenc.table(posenc.Sinusoidal(64), 100)[::-1],
        posenc.table(posenc.Sinusoidal(64), np.arange(500, 400, -1)),
        posenc.table(posenc.Sinusoidal(64, base=500), np.arange(7, 90)),
    ],
)
def test_a_finding_rebuilds_what_was_found(numbers: np.ndarray) -> None:
    found = only(numbers)
    assert found.verdict == "claimed"
    assert np.abs(found.rebuild() - numbers).max() < 1e-6
    assert np.abs(found.rebuild(10) - numbers[:10]).max() < 1e-6
    assert found.rebuild(len(numbers) + 5).shape == (len(numbers) + 5, 64)


def test_what_no_rule_gives_is_not_rebuilt() -> None:
    found = only({"pos_embed": np.random.default_rng(0).normal(size=(40, 16))})
    assert found.verdict == "unknown"
    with pytest.raises(posenc.ArgumentError, match="expected a rule, got unknown"):
        found.rebuild()


@pytest.mark.costly
def test_tables_of_no_known_rule_are_measured() -> None:
    rng = np.random.default_rng(0)
    smooth = np.cumsum(rng.normal(size=(200, 3)), axis=0) @ rng.normal(size=(3, 64))
    found = only(smooth)
    assert found.verdict == "unknown"
    assert found.measures["effective_rank"] < 3
    assert found.measures["smoothness"] > only(rng.normal(size=(200, 64))).measures["smoothness"]
    assert only(np.zeros((50, 16))).remarks == ("all its entries are 0",)


# --- frequencies, slopes, biases ------------------------------------------------------------------


def test_frequencies() -> None:
    scaling = posenc.scaling.YaRN(16, original_length=16384)
    rope = posenc.RoPE(128, pairing="half", base=1e6, scaling=scaling)
    f = posenc.frequencies(rope).astype(np.float32)
    found = only({"model.inv_freq": f, "norm.weight": np.ones(64), "mlp": np.eye(64)})
    assert (found.verdict, found.spec) == ("claimed", rope)
    assert any("pairs" in remark or "pair" in remark for remark in found.remarks)
    # Without a telling name too; with noise, never.
    assert only({"buffer": f}).spec == rope
    noisy = f * (1 + 1e-4 * np.random.default_rng(0).normal(size=64))
    assert posenc.identify({"buffer": noisy}).findings == ()
    assert only({"inv_freq": noisy}).verdict == "unknown"


YARN = posenc.scaling.YaRN(4, original_length=4096)


@pytest.mark.parametrize(
    ("spec", "columns", "words"),
    [
        (posenc.RoPE(32, pairing="half"), lambda x: x.astype("float16"), "pair j has column j "),
        (posenc.RoPE(32, pairing="half", base=5e5), lambda x: np.tile(x, 2), "j and j + d/2"),
        (posenc.RoPE(32, pairing="half", scaling=YARN), lambda x: np.repeat(x, 2, -1), "2j + 1"),
    ],
)
def test_cosines_and_sines(spec: Any, columns: Any, words: str) -> None:
    cos, sin = map(columns, posenc.cos_sin(spec, 600))
    finding = only({"rope.cos_cached": cos, "rope.sin_cached": sin})
    assert (finding.verdict, finding.spec) == ("claimed", spec)
    assert words in finding.remarks[-1]
    assert "2 of 2 arrays hold positions" in str(posenc.identify({"cos": cos, "sin": sin}))
    # A factor that no rule has, and another first position.
    finding = only({"cos": 2 * cos[9:], "sin": 2 * sin[9:]})
    assert finding.verdict == "close"
    assert finding.remarks[-2].startswith("they are multiplied by 2")
    assert finding.remarks[-1].startswith("row p is taken for position p, and row 0 is off by")


def test_no_claim_about_what_is_no_pair() -> None:
    angles = np.random.default_rng(0).normal(size=(60, 32))
    for nothing in (angles, angles[0], angles[:1, 0], angles[:3], angles[:, :2]):
        assert not posenc.identify({"cos": nothing, "sin": nothing}).findings
    finding = only({"cos": np.cos(angles), "sin": np.sin(angles)})
    assert (finding.verdict, finding.spec) == ("unknown", None)
    cos, sin = posenc.cos_sin(posenc.RoPE(32, pairing="half"), 600)
    sin[400, 3] = -sin[400, 3]  # one wrong entry, far behind those that tell the frequencies
    assert only({"cos": cos, "sin": sin}).verdict == "close"
    for alone in (cos, sin):
        assert "both tell it together" in only(alone).remarks[-1]
    for wrong in (np.nan, np.inf):
        sin[400, 3] = wrong
        finding = only({"cos": cos, "sin": sin})
        assert (finding.name, finding.verdict) == ("cos, sin", "unread")
        assert finding.remarks == ("row 400 holds NaN or infinity",)
    finding = only({"cos": cos, "sin": sin[:20]})
    assert finding.remarks == ("cosines of shape (600, 16) beside sines of (20, 16)",)


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(1e-4, 0.02, 1000),
        np.linspace(0, 0.3, 24),
        np.geomspace(80, 0.002, 40),
        np.ones(64),
        1 / np.arange(1, 40),
        np.arange(1, 40) ** -0.5,
        np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)),
    ],
)
def test_schedules_and_rates_are_no_frequencies(values: np.ndarray) -> None:
    for dtype in DTYPES:
        assert posenc.identify({"buffer": detective.rounded(values, dtype)}).claims == ()


def test_searched_divisors_are_claimed_of_frequencies_alone() -> None:
    divisors = tuple(float(v) for v in np.round(np.linspace(1, 20, 32) ** 1.1, 2))
    searched = posenc.scaling.Multipliers(divisors, use="divide")
    rope = posenc.RoPE(64, pairing="half", scaling=searched)
    f = posenc.frequencies(rope).astype(np.float32)
    assert only({"inv_freq": f}).spec == rope
    assert posenc.identify({"buffer": f}).claims == ()


def test_divisors_of_frequencies(tmp_path: Path) -> None:
    from tests.detect.files.test_store import gguf_file

    scaled = posenc.RoPE(
        128, pairing="half", base=5e5, scaling=posenc.scaling.Llama3(8, original_length=8192)
    )
    plain = posenc.frequencies(posenc.RoPE(128, pairing="half", base=5e5))
    divisors = (plain / posenc.frequencies(scaled)).astype(np.float32)
    path = gguf_file(tmp_path / "a.gguf", {"rope_freqs.weight": (0, (64,), divisors.tobytes())})
    found = only(path)
    assert (found.verdict, found.spec) == ("claimed", scaled)
    assert found.remarks[0] == "divisors of frequencies with base 500000, which the header states"
    # Without a header nothing states the base, so there is no claim.
    assert only({"rope_freqs.weight": divisors}).verdict != "claimed"


@pytest.mark.parametrize("heads", [8, 12, 20, 32])
@pytest.mark.parametrize("recipe", ["paper", "geometric"])
def test_slopes(heads: int, recipe: Any) -> None:
    spec = posenc.ALiBi(heads, recipe=recipe)
    slopes = spec.arrays["slopes"].astype(np.float32)
    found = only({"slopes": -slopes[:, None, None]})
    assert found.verdict == "claimed"
    assert "stored with a minus sign" in found.remarks
    if heads in (8, 32):
        recipe = "paper"
    assert found.spec == posenc.ALiBi(heads, recipe=recipe)
    assert only({"buffer": slopes}).spec == found.spec
    perturbed = slopes * np.exp(1e-3 * np.random.default_rng(0).normal(size=heads))
    assert only({"slopes": perturbed.astype(np.float32)}).verdict == "unknown"


def test_biases_written_out() -> None:
    alibi = np.asarray(posenc.bias(posenc.ALiBi(8, form="causal"), 40, 40))
    assert only({"alibi": alibi[None]}).spec == posenc.ALiBi(8, form="causal")
    for spec in (posenc.T5(4), posenc.T5(4, direction="causal", buckets=16, max_distance=64)):
        written = np.asarray(posenc.bias(spec, 180, 180, params=posenc.init(spec, 0)))
        found = only({"relative_attention_bias": written})
        assert found.verdict == "claimed"
        assert found.spec == spec
    random = np.random.default_rng(0).normal(size=(4, 30, 30))
    assert only({"relative_attention_bias": random}).verdict == "unclear"


def test_biases_by_name() -> None:
    rng = np.random.default_rng(0)
    found = only({"block.0.relative_attention_bias.weight": rng.normal(size=(32, 12))})
    assert (found.verdict, found.spec) == ("by_name", posenc.T5(12))
    found = only({"relative_position_bias_table": rng.normal(size=(169, 3))})
    assert (found.verdict, found.spec) == ("by_name", posenc.WindowTable(3, window=(7, 7)))


# --- arguments ------------------------------------------------------------------------------------


def test_wrong_arguments() -> None:
    with pytest.raises(posenc.ArgumentError, match="a path, an array"):
        posenc.identify(3)
    with pytest.raises(posenc.ArgumentError, match=r"Did you mean 'inv_freq'"):
        posenc.identify({"inv_freq": np.ones(4)}, tensor="inv_frq")
    with pytest.raises(posenc.DTypeError, match="real numbers"):
        posenc.identify(np.ones((4, 4), dtype=complex))
    assert only(np.ones((4, 4), dtype=np.int64)).verdict == "unread"


def test_a_placement_goes_on_along_its_slowest_axis() -> None:
    place = Placement(("h", "w"), (2, 3), (3, 1), (0.0, 0.0), 1, 1)
    assert place.positions(0, 9).tolist() == [
        [-1, -1],
        *([h, w] for h in range(2) for w in range(3)),
        [2, 0],
        [2, 1],
    ]


def test_fits_to_noise_are_kept_apart() -> None:
    table = np.asarray(posenc.table(posenc.Sinusoidal(64), 200), dtype=np.float64)
    noisy = table + 0.01 * np.random.default_rng(0).normal(size=table.shape)
    assert fit_table(noisy, eps=2.0**-24) == ()
    assert fit_table(noisy, eps=2.0**-24, noise=0.1)[0].spec == posenc.Sinusoidal(64)


# --- the tool -------------------------------------------------------------------------------------


def test_the_page_shows_the_counts() -> None:
    found = json.loads(detective.DATA.read_text(encoding="utf-8"))
    text = detective.PAGE.read_text(encoding="utf-8")
    assert detective.refreshed(text, found) == text
    for dtype in DTYPES:
        tables, others = found["tables"][dtype], found["non_tables"][dtype]
        whole = found["presets"] * len(found["bases"]) * len(found["widths"])
        assert tables.get("named", 0) + tables.get("ratio", 0) == whole
        assert found["draws"][dtype].get("wrong", 0) == 0
        assert others.get("claimed", 0) == 0
        assert sum(others.values()) >= 1000


# --- the command ----------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["identify", *arguments])


@pytest.fixture
def model(tmp_path: Path) -> str:
    from tests.detect.files.test_store import safetensors_file

    arrays = {
        "pos_embed": np.asarray(posenc.table(posenc.Sinusoidal(32), 100))[None],
        "wpe.weight": np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32),
        "fc.weight": np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32),
    }
    arrays |= {
        f"layers.{i}.inv_freq": posenc.frequencies(posenc.RoPE(64, pairing="half")).astype("f4")
        for i in range(8)
    }
    return str(safetensors_file(tmp_path / "a.safetensors", arrays))


def test_many_findings_are_a_table(model: str) -> None:
    result = run(model)
    assert result.exit_code == 0
    assert result.output.startswith(f"{model}: 10 of 11 arrays hold or could hold positions\n")
    assert "  pos_embed          Sinusoidal(32)\n" in result.output
    assert "  wpe.weight         table of positions: no rule that posenc knows\n" in result.output
    assert "--tensor NAME explains one" in result.output
    assert "fc.weight" not in result.output


def test_one_finding_is_explained(model: str) -> None:
    result = run(model, "--tensor", "pos_embed")
    for words in (
        "pos_embed  1 x 100 x 32 float32: table of positions",
        "  Sinusoidal(32)\n",
        "positions 0 to 99, a row each",
        "every entry is rebuilt: largest difference",
        "bits of evidence; 16 bits state the spec",
        "is the same ladder",
    ):
        assert words in result.output
    unruled = run(model, "--tensor", "fc.weight").output
    assert "no rule that posenc knows rebuilds it" in unruled
    assert unruled.startswith(f"{model}: 1 of 11 arrays could hold positions\n")
    ruled = run(model, "--tensor", "pos_embed").output
    assert ruled.startswith(f"{model}: 1 of 11 arrays holds positions\n")


@pytest.mark.costly
def test_json_and_specs(model: str) -> None:
    found = json.loads(run(model, "--json").output)
    assert found["arrays"] == 11
    by_name = {finding["name"]: finding for finding in found["findings"]}
    spec = json.dumps(by_name["pos_embed"]["spec"])
    assert posenc.from_json(spec) == posenc.Sinusoidal(32)
    assert by_name["pos_embed"]["positions"] == {"first": 0, "step": 1, "count": 100}
    lines = run(model, "--tensor", "pos_embed", "--spec").output.splitlines()
    assert [posenc.from_json(line) for line in lines] == [posenc.Sinusoidal(32)]


def test_errors_have_their_codes(model: str, tmp_path: Path) -> None:
    assert run(str(tmp_path / "nothing")).exit_code == 2
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(SystemExit) as caught:
        app.main(["identify", str(tmp_path / "b.npy")])
    assert caught.value.code == 1
    with pytest.raises(SystemExit) as caught:
        app.main(["identify", model, "--tensor", "pos_embde"])
    assert caught.value.code == 2


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    from tests.detect.files.test_store import safetensors_file

    table = np.asarray(posenc.table(posenc.Sinusoidal(32), 100))
    path = safetensors_file(tmp_path / "a.safetensors", {"\x1b[2Jpos_embed": table})
    assert "\x1b" not in run(str(path)).output
