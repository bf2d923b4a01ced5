"""What pictures show: arrays and sentences, against plain loops and the library's own verbs."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.errors import ArgumentError, PosencError, SpecError
from posenc._core.numeric.random_vectors import random_vectors
from posenc.plot.columns import source
from posenc.plot.panels.both import together
from posenc.plot.rows import pictures_of
from posenc.plot.views import (
    attention,
    bias,
    compare,
    counter,
    find,
    offset,
    rotation,
    similarity,
    stretch,
    sum as total,
    table,
    wavelengths,
    waves,
)
from tests.cases import CASES
from tests.tolerances import FLOAT64, assert_close

VIEWS = {
    "attention": attention,
    "table": table,
    "waves": waves,
    "wavelengths": wavelengths,
    "offset": offset,
    "similarity": similarity,
    "counter": counter,
    "sum": total,
    "rotation": rotation,
    "bias": bias,
    "stretch": stretch,
    "find": find,
}


# --- every encoding -------------------------------------------------------------------------------


def asked(name: str, spec: Any) -> dict[str, Any]:
    """Options that suit any encoding: few positions, a small grid, untrained parameters."""
    found: dict[str, Any] = {}
    axes = len(getattr(spec, "axes", ("position",)))
    if name not in ("wavelengths", "stretch", "find"):
        found["params"] = posenc.init(spec) or None
    if name in ("table", "waves", "offset", "similarity", "bias") and axes > 1:
        found["grid"] = (2,) * axes
    if name in ("table", "waves", "similarity", "bias"):
        found["positions"] = 5 if axes == 1 else 2**axes
    if name == "offset":
        found["offsets"] = 20
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_encoding_is_shown_or_refused_with_a_reason(case: Any) -> None:
    spec = case.spec
    able = pictures_of(spec)
    for name, view in VIEWS.items():
        extra = ({0: "0.5"},) if name == "find" else ()
        if name not in able:
            with pytest.raises(SpecError) as refusal:
                view.data(spec, *extra, **asked(name, spec))
            said = str(refusal.value)
            assert "No picture shows it" in said or "Pictures that show it: " in said
            assert all(repr(other) in said for other in able)
            continue
        try:
            made = view.data(spec, *extra, **asked(name, spec))
        except PosencError:
            # What these need besides: whole vectors, offsets within a window, sizes that are 1, all
            # heads at once.
            assert name in ("find", "bias", "counter", "attention")
            continue
        assert made.title
        assert all(isinstance(text, str) and text for text in made.caption)
        assert not any(" nan" in text for text in made.caption)


# --- table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("position", "dim"), [(40, 21), (0, 0), (7, 1), (127, 127), (99, 60)])
def test_a_cell_counts_what_a_loop_counts(position: int, dim: int) -> None:
    found = table.cell(source(posenc.Sinusoidal(128)), position, dim, 5000)
    frequency = 10_000.0 ** (-2 * (dim // 2) / 128)
    wave = math.cos if dim % 2 else math.sin
    same = pair = 0
    others = []
    here = math.sin(position * frequency), math.cos(position * frequency)
    for p in range(5000):
        same += abs(wave(p * frequency) - wave(position * frequency)) <= 0.005
        there = math.sin(p * frequency), math.cos(p * frequency)
        pair += math.dist(here, there) <= 0.005
        if p != position and math.dist(here, there) <= 0.005:
            others.append(p)
    nearest = sorted(others, key=lambda p: (abs(p - position), p > position))[:5]
    assert found.again == tuple(nearest)
    assert (found.same, found.same_pair, found.among) == (same, pair, 5000)
    assert found.value == pytest.approx(wave(position * frequency), abs=1e-12)
    assert found.wavelength == pytest.approx(2 * math.pi / frequency)
    assert found.turned == pytest.approx(math.atan2(*here), abs=1e-12)


def test_a_cell_is_again_only_where_the_range_is() -> None:
    # A pair this slow stands still for two digits, so that every neighbour counts.
    found = table.cell(source(posenc.Sinusoidal(128)), 99, 126, (97, 101))
    assert sorted(found.again) == [97, 98, 100]


def test_a_cell_counts_without_looking_at_positions() -> None:
    held = source(posenc.Sinusoidal(64, base=100))
    found = table.cell(held, 3, 10, (0, 2**40))
    value = math.sin(3 * held.waves.frequency[10])
    exact = found.among * (math.asin(value + 0.005) - math.asin(value - 0.005)) / math.pi
    assert found.same == pytest.approx(exact, rel=1e-3)


def test_arcs_include_both_of_their_ends() -> None:
    quarter = 2**62
    for begin, length, expected in ((quarter, 0, 2), (quarter, quarter, 4), (1, quarter - 2, 0)):
        assert table._hits(quarter, 0, ((begin, length),), 0, 8) == expected


def test_a_cell_of_a_shifted_or_learned_table_says_what_it_is() -> None:
    shifted = source(posenc.preset("fairseq", 16))
    found = table.cell(shifted, 5, 0)
    exact = posenc.table(posenc.preset("fairseq", 16), [5], dtype="float64")[0, 0]
    assert found.value == pytest.approx(exact, abs=1e-13)
    assert found.angle == pytest.approx(5 + posenc.preset("fairseq", 16).arrangement.start)
    spec = posenc.Learned(4, length=10)
    params = posenc.init(spec)
    learned = table.cell(source(spec, params=params), 3, 2, 10)
    assert learned.value == pytest.approx(params["weight"][3, 2])
    assert learned.formula == "entry 2 of row 3"
    assert learned.frequency is None


def test_formulas_are_those_of_the_papers_or_show_the_frequency() -> None:
    plain = table.cell(source(posenc.Sinusoidal(8)), 40, 3)
    assert plain.formula == "cos(40 / 10000^(2/8))"
    other = posenc.Sinusoidal(8, ladder=posenc.Ladder(denominator="n-1"))
    assert "× 0.0464159" in table.cell(source(other), 40, 3).formula


# --- wavelengths ----------------------------------------------------------------------------------


def test_the_last_wavelength_is_the_true_one() -> None:
    ladder = wavelengths.data(posenc.Sinusoidal(512)).ladders[0]
    assert round(ladder.last) == 60_611
    assert ladder.last == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))
    said = " ".join(wavelengths.data(posenc.Sinusoidal(512)).caption)
    assert "60,611" in said
    assert "62,832" in said


def test_widths_are_compared_by_share() -> None:
    found = wavelengths.data([posenc.Sinusoidal(d) for d in (16, 64)], mark=1000)
    for ladder, d in zip(found.ladders, (16, 64), strict=True):
        exact = [2 * math.pi * 10_000 ** (2 * j / d) for j in range(d // 2)]
        assert_close(ladder.wavelengths, np.array(exact), 1e-9 * max(exact))
        assert ladder.finished == sum(x <= 1000 for x in exact)


# --- offset and similarity ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dot", "cosine"])
def test_products_are_those_of_rows(kind: str) -> None:
    spec = posenc.Sinusoidal(20, magnitude=posenc.Magnitude(table_scale=0.5))
    rows = posenc.table(spec, 100, dtype="float64")
    if kind == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = offset.data(spec, 60, kind=kind)
    assert_close(found.mean, rows[30:90] @ rows[30], 1e-12)
    assert found.band == "none"
    assert found.defect == 0
    matrix = similarity.data(spec, 100, kind=kind)
    assert_close(matrix.values, rows @ rows.T, 1e-12)


def test_a_sine_without_its_cosine_breaks_shift_invariance() -> None:
    found = offset.data(posenc.Sinusoidal(5), 40)
    rows = posenc.table(posenc.Sinusoidal(5), 300, dtype="float64")
    assert 0 < found.defect < 0.5
    assert found.band == "positions"
    assert found.low[7] < found.mean[7] < found.high[7]
    s = rows[:256] @ rows[:256].T
    left = sum(((d := np.diagonal(s, k)) - d.mean()) @ (d - d.mean()) for k in range(-255, 256))
    assert found.defect == pytest.approx(math.sqrt(left / ((s - s.mean()) ** 2).sum()))


def test_a_cosine_of_another_frequency_breaks_it_too() -> None:
    spec = posenc.Sinusoidal(8, ladder=posenc.Ladder(cos_shift=1.0))
    found = offset.data(spec, 30)
    assert found.defect > 0.1
    rows = posenc.table(spec, [0, 11], dtype="float64")
    assert found.low[11] <= rows[0] @ rows[1] <= found.high[11]


def test_a_random_table_knows_no_distance() -> None:
    spec = posenc.Learned(16, length=256)
    weight = np.random.default_rng(3).standard_normal((256, 16)).astype("float32")
    held = source(spec, params={"weight": weight})
    moved = source(spec, params={"weight": weight + np.float32(3.0)})
    assert offset.defect(held) > 0.6
    assert offset.defect(moved) == pytest.approx(offset.defect(moved, "dot"))
    found = offset.data(spec, 10_000, params={"weight": weight})
    assert found.offsets[-1] == 255
    assert found.rises is None
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()


def test_offsets_far_out_are_exact() -> None:
    spec = posenc.Sinusoidal(64)
    found = offset.data(spec, (2**31 - 5, 2**31 - 1))
    exact = posenc.similarity(spec, np.arange(2**31 - 5, 2**31 - 1))
    assert_close(found.mean, exact, 32 * 2e-19 * 2**31 + 1e-12)
    log = offset.data(spec, 2**31 - 1, axis="log", pixels=200)
    assert log.offsets[0] == 1
    assert log.offsets[-1] == 2**31 - 2
    assert_close(log.mean[:5], posenc.similarity(spec, log.offsets[:5]), 1e-9)


def test_a_long_similarity_is_the_filtered_matrix() -> None:
    spec = posenc.Sinusoidal(16)
    found = similarity.data(spec, 2000, pixels=50)
    f = posenc.frequencies(spec)
    at = (np.arange(50) + 0.5) * 40 - 0.5
    u = np.clip(np.log(2 * np.pi / f / 40 / 2) / np.log(4), 0, 1)
    share = u * u * (3 - 2 * u)
    exact = (np.cos((at[:, None, None] - at[None, :, None]) * f) * share**2).sum(axis=-1)
    assert_close(found.values, exact, 1e-9)


# --- counter, sum ---------------------------------------------------------------------------------


def test_150_in_binary_at_width_8() -> None:
    found = counter.data(posenc.Sinusoidal(8), at=150)
    assert found.digits == "10010110"
    assert_close(found.row, posenc.table(posenc.Sinusoidal(8), [150], dtype="float64")[0], 1e-13)
    column = 150 - found.positions[0]
    assert "".join(str(b) for b in found.bits[:, column]) == "10010110"
    by_period = {p.period: p for p in found.partners}
    assert by_period[8].pair == 0
    assert by_period[64].pair == 1
    assert by_period[2].pair is None
    assert "shortest wavelength is 6.283" in by_period[2].why


def test_partners_are_the_nearest_waves() -> None:
    spec = posenc.Sinusoidal(128)
    found = counter.data(spec, 64)
    waves_ = posenc.wavelengths(spec)
    for line, partner in enumerate(found.partners):
        octaves = np.abs(np.log2(waves_ / partner.period))
        if octaves.min() > 0.5:
            assert partner.pair is None
            assert np.isnan(found.waves[line]).all()
        else:
            assert partner.pair == octaves.argmin()
            exact = np.sin(found.places * 2 * np.pi / waves_[partner.pair])
            assert_close(found.waves[line], exact, 1e-12)


def test_the_sum_is_what_add_gives() -> None:
    spec = posenc.Sinusoidal(16, magnitude=posenc.Magnitude(embedding_scale="sqrt_dim"))
    found = total.data(spec, "the book the", seed=3, offset=5)
    assert_close(found.total, posenc.add(spec, found.embedding, offset=5), FLOAT64)
    assert_close(found.scaled + found.encoding, found.total, FLOAT64)
    assert found.scale == 4.0
    np.testing.assert_array_equal(found.embedding[0], found.embedding[2])
    assert "not from a model" in found.origin
    given = total.data(spec, "a b", embeddings=np.zeros((2, 16)))
    assert_close(given.total, posenc.table(spec, 2, dtype="float64"), FLOAT64)
    with pytest.raises(ArgumentError, match=r"shape \(3, 16\)"):
        total.data(spec, "a b c", embeddings=np.zeros((2, 16)))


# --- rotation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["half", "interleaved"])
def test_scores_are_sums_over_pairs_and_know_the_distance(order: str) -> None:
    rope = posenc.RoPE(16, pairing=order, base=100)
    found = rotation.data(rope, (9, 4), seed=2)
    q, k = random_vectors(["query", "key"], 16, 2).astype(np.float64)
    exact = [
        sum(
            (q[a] * k[a] + q[b] * k[b]) * math.cos(5 * f)
            + (q[a] * k[b] - q[b] * k[a]) * math.sin(5 * f)
            for a, b, f in [(*pair, 100 ** (-2 * j / 16))]
        )
        for j, pair in enumerate(rope.channels.channels(16))
    ]
    assert_close(found.terms, np.array(exact), 1e-12)
    assert found.score == pytest.approx(sum(exact))
    assert found.moved == pytest.approx(found.score, abs=1e-11)
    assert found.scores[0].values[5] == pytest.approx(found.score, abs=1e-12)
    mixed, later = found.scores[2].values, found.scores[3].values
    assert np.abs(mixed - later).max() > 0.1


def test_dials_are_the_query_and_the_key_themselves_at_their_angles() -> None:
    rope = posenc.RoPE(8, pairing="half")
    found = rotation.data(rope, (50, 8), pairs=[0, 3], seed=4)
    sides = random_vectors(["query", "key"], 8, 4).astype(np.float64)
    for dial, f in zip(found.dials, (1.0, 10_000 ** (-6 / 8)), strict=True):
        assert dial.members == (dial.pair, dial.pair + 4)
        for side, at, arrow in zip(sides, (50, 8), (dial.query, dial.key), strict=True):
            exact = complex(*side[list(dial.members)]) * np.exp(1j * at * f)
            assert_close(np.array(arrow), np.array([exact.real, exact.imag]), 1e-12)
        assert math.hypot(*dial.query) == pytest.approx(math.hypot(*sides[0, list(dial.members)]))
        assert dial.term == pytest.approx(np.dot(dial.query, dial.key), abs=1e-12)
        assert dial.term == pytest.approx(found.terms[dial.pair], abs=1e-12)
        assert math.cos(dial.between) == pytest.approx(math.cos(42 * f), abs=1e-12)
        assert math.sin(dial.between) == pytest.approx(math.sin(42 * f), abs=1e-12)


def test_a_rotation_far_out_is_exact() -> None:
    rope = posenc.RoPE(16, pairing="half")
    near, far = rotation.data(rope, (5, 2)), rotation.data(rope, (2**31 - 1996, 2**31 - 1999))
    assert far.score == pytest.approx(near.score, abs=1e-7)


# --- bias -----------------------------------------------------------------------------------------


def test_biases_are_those_of_the_verb() -> None:
    spec = posenc.ALiBi(heads=12)
    found = bias.data(spec, 40)
    assert_close(found.values, posenc.bias(spec, 40, dtype="float64"), FLOAT64)
    assert found.by_offset
    assert_close(found.slopes, spec.arrays["slopes"], FLOAT64)
    for place in range(12):
        for k in (-39, -3, 0, 17):
            at = found.curves[place][found.offsets == k][0]
            assert at == pytest.approx(-spec.arrays["slopes"][place] * abs(k))


def test_masks_leave_no_number() -> None:
    found = bias.data(posenc.ALiBi(heads=1), 10, mask="causal", softmax="rows")
    upper = np.triu(np.ones((10, 10), dtype=bool), 1)
    np.testing.assert_array_equal(np.isnan(found.values[0]), upper)
    assert_close(np.nansum(found.values[0], axis=1), np.ones(10), 1e-12)
    row = np.exp(0.5**8 * -np.arange(10)[::-1])
    assert_close(found.values[0, 9], row / row.sum(), 1e-12)


def test_masks_of_pixels_are_those_of_all_their_entries() -> None:
    found = bias.data(posenc.ALiBi(heads=1), 600, mask="causal", pixels=60)
    upper = np.triu(np.ones((60, 60), dtype=bool), 1)
    np.testing.assert_array_equal(found.masked, upper)
    np.testing.assert_array_equal(np.isnan(found.values[0]), upper)


def test_buckets_have_their_edges() -> None:
    spec = posenc.T5(heads=2)
    params = posenc.init(spec, 5)
    found = bias.data(spec, 100, params=params)
    assert_close(found.values, posenc.bias(spec, 100, params=params, dtype="float64"), 1e-7)
    buckets = spec.bucket(-np.arange(100))
    np.testing.assert_array_equal(found.edges, 1 + np.flatnonzero(np.diff(buckets)))


def test_a_long_bias_is_filtered() -> None:
    found = bias.data(posenc.ALiBi(heads=1), 600, pixels=60)
    at = (np.arange(60) + 0.5) * 10 - 0.5
    exact = -(0.5**8) * np.abs(at[:, None] - at[None, :])
    inside = slice(9, -9)
    off = np.abs(found.values[0] - exact)[inside, inside]
    far = np.abs(np.arange(42)[:, None] - np.arange(42)) > 16
    assert off[far].max() < 1e-3
    with pytest.raises(ArgumentError, match="at most"):
        bias.data(posenc.ALiBi(heads=1), 100_000)


def test_a_bias_of_keys_alone_is_no_function_of_the_offset() -> None:
    found = bias.data(posenc.ALiBi(heads=1, form="key_only"), 20)
    assert not found.by_offset
    assert "more than the offset" in " ".join(found.caption)


# --- stretch --------------------------------------------------------------------------------------


def test_counts_are_those_of_a_loop() -> None:
    found = stretch.data(posenc.RoPE(128, pairing="half"), original_length=4096, factor=8)
    before = [2 * math.pi * 10_000 ** (2 * j / 128) for j in range(64)]
    slow = [j for j in range(64) if before[j] > 4096]
    fast = [j for j in range(64) if before[j] < 4096 / 32]
    assert (found.slow, found.fast) == (len(slow), len(fast)) == (18, 21)
    by_name = {rule.name: rule for rule in found.rules}
    expected = {
        "none": (18, 0),
        "linear": (0, 21),
        "ntk": (17, 20),
        "yarn": (0, 0),
        "llama3": (0, 0),
    }
    for name, counts in expected.items():
        assert (by_name[name].effect.unseen, by_name[name].effect.lost) == counts, name
    # The two ramps: the paper's is linear in turns, the code's in the index.
    assert by_name["yarn_paper"].stretch[36] == pytest.approx(4.99, abs=0.01)
    assert by_name["yarn"].stretch[36] == pytest.approx(2.17, abs=0.01)
    assert by_name["yarn"].effect.attention_factor == pytest.approx(0.1 * math.log(8) + 1)
    np.testing.assert_allclose(by_name["dynamic"].stretch, by_name["ntk"].stretch, rtol=1e-12)


def test_the_scaling_of_a_spec_is_shown_beside_the_others() -> None:
    llama = posenc.preset("llama3", 128)
    found = stretch.data(llama)
    assert found.rules[-1].name == "given"
    assert_close(found.rules[-1].wavelengths, posenc.wavelengths(llama), 1e-6)
    longrope = posenc.RoPE(
        8,
        pairing="half",
        scaling=posenc.scaling.LongRoPE(
            (1.0,) * 4, (1.0, 2.0, 4.0, 8.0), original_length=64, factor=8.0
        ),
    )
    given = stretch.data(longrope).rules[-1]
    assert_close(given.stretch, np.array([1.0, 2.0, 4.0, 8.0]), 1e-9)


def test_pairs_light_up_where_their_angles_are_new() -> None:
    rope = posenc.RoPE(32, pairing="half")
    found = stretch.data(rope, rules=("linear",), loss=True).loss
    assert found is not None
    dim, trained, length = found.losses.dim, found.losses.trained, found.losses.length
    shares = found.unseen["none"]
    every = length // shares.shape[1]
    for pair in range(dim // 2):
        wave = 2 * math.pi * 10_000 ** (2 * pair / dim)
        for column in range(shares.shape[1]):
            count = every * (column + 1)
            new = sum(wave > trained and n % wave >= trained for n in range(count))
            assert shares[pair, column] == pytest.approx(new / count)
    assert found.slow == (shares[:, -1] > 0).sum() == 11
    assert not found.unseen["linear"].any(), "pressed positions have no angle that is new"
    assert "linear" in found.caption[2]
    assert len(list(stretch.rows(stretch.data(rope, loss=True))[1])) == 8 * 16


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"factor": 4}, "no length and no factor"),
        ({"original_length": 64}, "no length and no factor"),
        ({"rules": ("yarn_paper",)}, "Losses were measured under"),
        ({"dim": 8}, r"trained with, RoPE\(32, pairing=.*\), got RoPE\(8, "),
        ({"base": 500.0}, r"got RoPE\(32, .*base=500.0\)\. Pass that one"),
    ],
)
def test_losses_are_those_of_the_models_that_were_trained(asked: Any, message: str) -> None:
    trained = posenc.RoPE(32, pairing="half")
    own = {key: asked.pop(key) for key in ("dim", "base") if key in asked}
    with pytest.raises(ArgumentError, match=message):
        stretch.data(trained.replace(**own), loss=True, **asked)
    found = stretch.data(trained.replace(pairing="interleaved"), loss=True)
    assert [panel.id for panel in stretch.panels(found)] == ["loss", "pairs"]


def test_a_rule_that_cannot_be_is_left_out_with_its_reason() -> None:
    found = stretch.data(posenc.RoPE(2, pairing="half"))
    assert "ntk" in found.left_out
    assert any("left out" in text for text in found.caption)


# --- find, compare --------------------------------------------------------------------------------


def test_candidates_have_error_bars_of_their_digits() -> None:
    spec = posenc.Sinusoidal(16, base=100)
    found = find.data(spec, {3: "0.85"}, within=(0, 200), conventions="stated")
    frequency = 100 ** (-2 / 16)
    line = found.candidates[0]
    expected = [p for p in range(201) if 0.845 <= math.cos(p * frequency) <= 0.855]
    assert list(line.positions) == expected
    for p, (below, above) in zip(line.positions, line.errors, strict=True):
        inside = [math.cos((p + t) * frequency) for t in (-below, above)]
        for value in inside:
            assert min(abs(value - 0.845), abs(value - 0.855)) < 1e-6


def test_no_position_is_an_answer_too() -> None:
    found = find.data(posenc.Sinusoidal(8), {7: "0.5"}, within=(0, 10), conventions="stated")
    assert found.candidates == ()
    assert found.caption


def test_a_whole_row_has_no_error_bars() -> None:
    spec = posenc.Sinusoidal(8)
    found = find.data(spec, posenc.table(spec, 16)[9], within=(0, 15), conventions="stated")
    assert [(line.positions, line.errors.tolist()) for line in found.candidates] == [
        ((9,), [[0.0, 0.0]])
    ]


def test_differences_have_one_scale() -> None:
    a, b = posenc.Sinusoidal(8), posenc.Sinusoidal(8, base=100)
    found = compare.data("table", a, b, 16)
    assert_close(
        found.difference,
        posenc.table(a, 16, dtype="float64") - posenc.table(b, 16, dtype="float64"),
        1e-13,
    )
    assert found.limit == 1
    none = compare.data("table", a, posenc.Sinusoidal(10), 16)
    assert none.difference is None
    assert "16×8" in none.why
    with pytest.raises(ArgumentError, match="Did you mean 'table'"):
        compare.data("tabel", a, b)
    with pytest.raises(SpecError):
        compare.data("bias", a, b)


def test_what_a_picture_says_of_its_scale_alone_is_not_said_beside_another() -> None:
    biases = compare.data("bias", posenc.ALiBi(8), posenc.ALiBi(8, form="causal"), 16)
    assert "own" not in " ".join(biases.caption)
    assert biases.caption[-1].startswith("One scale for all heads")
    counters = compare.data("counter", posenc.Sinusoidal(8), posenc.Sinusoidal(16))
    assert "laid over" not in " ".join(counters.caption)


def test_every_view_that_compares_has_its_module() -> None:
    for name in compare.VIEWS:
        assert callable(importlib.import_module(f"posenc.plot.views.{name}").data)


def test_curves_lie_over_each_other_unless_there_are_several_and_none_is_in_front() -> None:
    spec, data = posenc.RoPE(16, pairing="half"), rotation.data
    alone = rotation.panels(data(spec))[-1:]  # the first of its curves is in front
    plain = tuple(replace(s, front=False) for s in alone[0].series)
    several = (replace(alone[0], series=plain),)
    assert len(plain) > 1
    assert [len(together(x, x)) for x in (alone, several)] == [1, 2]
    assert len(together(several, (replace(several[0], series=plain[:1]),))) == 1
