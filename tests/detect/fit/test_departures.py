"""Rules of rounded, odd and reversed numbers: one engine, whoever asks it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc
from posenc import RoPE
from posenc._core.io.files import rounded
from posenc.detect.fit.frequencies import Departures, departures, explained
from posenc.detect.fit.rotations.rotation_specs import usual_rules
from posenc.detect.fit.tolerances import dtype_of, seen
from posenc.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    MixedNTK,
    Multipliers,
    Proportional,
    YaRN,
)
from tests.detect.infer.test_infer import short  # noqa: F401 - a fixture
from tests.drawing import drawn

# (width, fields of the spec, what the frequencies are rounded to)
LONG = Multipliers(tuple(round(1 + 1.2 * j, 2) for j in range(24)), use="divide")
SETS: list[tuple[int, dict[str, Any], str]] = [
    (64, {}, "float32"),
    (64, {}, "bfloat16"),
    (64, {}, "float16"),
    (64, {"base": 5e5}, "float32"),
    (64, {"base": 5e5}, "bfloat16"),
    (64, {"base": 1e6}, "float16"),
    (64, {"base": 123_456.0}, "float64"),
    (64, {"scaling": Linear(4)}, "float32"),
    (64, {"scaling": Linear(4)}, "bfloat16"),
    (64, {"scaling": Linear(4)}, "float16"),
    (64, {"scaling": NTK(8)}, "float32"),
    (64, {"scaling": DynamicNTK(2, original_length=4096, length=8192)}, "float32"),
    (64, {"scaling": MixedNTK(4)}, "float32"),
    (64, {"scaling": YaRN(40, original_length=4096)}, "float32"),
    (64, {"scaling": YaRN(40, original_length=4096)}, "bfloat16"),
    (64, {"scaling": YaRN(4, original_length=4096, ramp="turns")}, "float16"),
    (64, {"base": 5e5, "scaling": Llama3(8, original_length=8192)}, "float32"),
    (64, {"base": 5e5, "scaling": Llama3(8, original_length=8192)}, "bfloat16"),
    (64, {"base": 5e5, "scaling": Llama3(8, original_length=8192)}, "float16"),
    (48, {"scaling": LONG}, "float32"),
    (96, {"base": 1e6, "scaling": Proportional(0.25)}, "float32"),
    (96, {"base": 1e6, "scaling": Proportional(0.25)}, "bfloat16"),
]
WIDE = (64, {"base": 1e6, "scaling": YaRN(4, original_length=32768)}, "float32")
# What a list of frequencies at one length cannot tell apart from its rule.
ALIKE = {DynamicNTK(2, original_length=4096, length=8192): NTK(3.0)}


def numbers(width: int, fields: dict[str, Any], dtype: str) -> np.ndarray:
    return rounded(np.asarray(posenc.frequencies(RoPE(width, pairing="half", **fields))), dtype)


def rotation(frequencies: np.ndarray, factor: float = 1.0) -> Any:
    """Halves turned by these frequencies, in float64."""

    def turn(x: Any, positions: Any) -> Any:
        a, b = np.split(x, 2, axis=-1)
        angle = positions[:, None] * frequencies
        cos, sin = factor * np.cos(angle), factor * np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    return turn


def rule(spec: Any) -> tuple[float, Any, Any]:
    return spec.base, spec.ladder, spec.scalings


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "case", drawn(SETS, 6, "detect/fit"), ids=lambda case: f"{case[1].get('scaling', 'plain')}"
)
def test_two_tools_name_one_rule(case: tuple[int, dict[str, Any], str]) -> None:
    width, fields, dtype = case
    f = numbers(*case)
    spec = RoPE(width, pairing="half", **fields)
    factor = float(np.prod([scaling.attention_factor() for scaling in spec.scalings]))
    [finding] = posenc.identify({"inv_freq": f}).findings
    inferred = posenc.infer_spec(rotation(f, factor), dim=width, framework="numpy")
    assert finding.verdict == "claimed"
    assert inferred.spec is not None
    assert rule(inferred.spec) == rule(finding.spec)
    if dtype in ("float32", "float64"):
        want = tuple(ALIKE.get(scaling, scaling) for scaling in spec.scalings)
        assert rule(inferred.spec) == (spec.base, spec.ladder, want)
    half = (f"frequencies in {dtype}",) if dtype in ("bfloat16", "float16") else ()
    assert inferred.departures == half
    assert finding.remarks[: len(half)] == half
    assert inferred.difference <= inferred.tolerance  # with the rounding taken into account
    assert inferred.matches == (not half)


# --- one number that is another -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "pair"),
    [
        (case, (5 * number) % 21)
        for number, case in enumerate(SETS)
        if case[1].get("scaling") != LONG
    ],
)
def test_a_pair_that_is_off_is_named(case: tuple[int, dict[str, Any], str], pair: int) -> None:
    f = numbers(*case)
    pair %= int((f > 0).sum())
    factor = 0.95 if case[2] in ("bfloat16", "float16") else 1.01
    f[pair] = rounded(f[pair : pair + 1] * factor, case[2])[0]
    best = explained(f, dtype=case[2])[0]
    found = departures(f, best.rungs, dtype=case[2])
    assert found is not None
    [(odd, by)] = found.odd
    assert odd == pair
    assert abs(by / factor - 1) < 0.01
    plain = explained(numbers(*case), dtype=case[2])[0]
    assert type(best.scaling) is type(plain.scaling)
    assert np.allclose(best.rungs, plain.rungs, rtol=0.01, atol=0)


@pytest.mark.parametrize(
    ("count", "fields", "odd"),
    [
        (64, {}, {2: 1.05, 3: 1.05, 4: 1.05, 5: 1.05}),
        (32, {}, {5: 1.3, 9: 0.5, 12: 2.0}),
        (32, {}, {12: 1.01, 13: 1.01, 14: 1.01, 15: 1.01}),
        (128, {"base": 1e6, "scaling": YaRN(4, original_length=32768)}, {3: 1.01, 11: 0.98}),
    ],
)
def test_pairs_that_are_off_together_are_named(
    count: int, fields: dict[str, Any], odd: dict[int, float]
) -> None:
    f = numbers(count, fields, "float32")
    plain = explained(f, dtype="float32")[0]
    f[[*odd]] *= [*odd.values()]
    f = rounded(f, "float32")
    best = explained(f, dtype="float32")[0]
    assert (best.base, best.scaling) == (plain.base, plain.scaling)
    found = departures(f, best.rungs, dtype="float32")
    assert found is not None
    assert {j: round(by, 4) for j, by in found.odd} == odd
    f[::3] *= 1.01  # a third of them are no few
    [*rest] = explained(f, dtype="float32")[:1]
    assert all(fit.scaling != plain.scaling or fit.base != plain.base for fit in rest)


def near(f: np.ndarray, kind: str, size: float, rng: np.random.Generator) -> np.ndarray:
    """Frequencies near a rule that follow none."""
    x = np.linspace(0, 1, len(f))
    some = rng.choice(len(f), int(rng.integers(2, 6)), replace=False)
    signs = rng.choice([-1, 1], len(f)) * rng.uniform(1, 3, len(f))
    return {
        "noise": f * np.exp(size * rng.normal(size=len(f))),
        "some": f * (1 + size * signs * np.isin(np.arange(len(f)), some)),
        "bend": f * np.exp(10 * size * x**2),
        "ramp": f * np.exp(-20 * size * (1 - np.cos(np.pi * np.clip((x - 0.3) / 0.4, 0, 1)))),
        "added": f + 10 * size * f.min(),
        "wave": f * (1 + size * np.sin(9 * x)),
    }[kind]


@pytest.mark.costly
@pytest.mark.parametrize("seed", drawn(range(50), 2, "detect/fit"))
def test_nothing_is_claimed_near_a_rule(seed: int) -> None:
    """300 arrays in all, each off by more than its dtype; few numbers that are off are named."""
    rng = np.random.default_rng(seed)
    for kind in ("noise", "some", "bend", "ramp", "added", "wave"):
        case = SETS[int(rng.integers(len(SETS) - 3))]
        half = case[2] in ("bfloat16", "float16")
        size = 10 ** (rng.uniform(-1.5, -1) if half else rng.uniform(-4, -2))
        rule_ = numbers(*case)
        f = rounded(near(rule_, kind, size, rng), case[2])
        dtype = dtype_of(f, "float64")
        for fit in explained(f, dtype=dtype)[:1]:
            found = departures(f, fit.rungs, dtype=dtype)
            assert kind == "some"
            assert found is not None
            assert found.odd
            assert {j for j, _ in found.odd} <= set(np.flatnonzero(f != rule_))
            assert np.allclose(fit.rungs, numbers(*case[:2], "float64"), rtol=0.01, atol=0), (
                case,
                kind,
                size,
            )


@pytest.mark.parametrize("pairs", [(2, 20), (5, 6), (1, 9, 17), (0, 8, 15, 30)])
@pytest.mark.parametrize("number", drawn([0, 4, 6, 11, 15], 2, "detect/fit"))
def test_few_pairs_that_are_off_are_named(number: int, pairs: tuple[int, ...]) -> None:
    _, fields, dtype = SETS[number]
    f = numbers(64, fields, dtype)
    f[list(pairs)] = rounded(f[list(pairs)] * np.resize([1.05, 0.93], len(pairs)), dtype)
    best = explained(f, dtype=dtype)[0]
    found = departures(f, best.rungs, dtype=dtype)
    assert found is not None
    assert tuple(j for j, _ in found.odd) == pairs
    assert best.scaling == explained(numbers(64, fields, dtype), dtype=dtype)[0].scaling


def test_a_list_comes_last() -> None:
    """Factors of four decimals would give a pair that is off by a ten-thousandth too."""
    f = numbers(64, {"scaling": Linear(4)}, "float32")
    f[9] *= 1.0001
    best = explained(f, dtype="float32")[0]
    assert (best.base, best.scaling) == (1e4, (Linear(4),))
    assert explained(numbers(48, {"scaling": LONG}, "float32"), dtype="float32")[0].scaling == (
        LONG,
    )


ODD: dict[str, tuple[Any, str]] = {
    "faster": (lambda f: f * (1 + 0.01 * (np.arange(32) == 20)), "pair 20 turns 1 % faster"),
    "slower": (lambda f: f * (1 - 0.02 * (np.arange(32) == 7)), "pair 7 turns 2 % slower"),
    "twice": (lambda f: f * (1 + (np.arange(32) == 7)), "pair 7 turns 2 times as fast"),
    "still": (lambda f: f * (np.arange(32) != 7), "pair 7 does not turn"),
    "backward": (lambda f: f * (1 - 2 * (np.arange(32) == 5)), "pair 5 turns backward"),
    "two": (
        lambda f: f * (1 + 0.01 * np.isin(np.arange(32), (5, 20))),
        "pair 5 turns 1 % faster; pair 20 turns 1 % faster",
    ),
    "exchanged": (lambda f: f[[0, 2, 1, *range(3, 32)]], "pairs 1 and 2 are exchanged"),
    "mixed": (
        lambda f: np.roll(f, 1),
        "pairs 0, 1, 2, 3, … (32) turn as pairs 31, 0, 1, 2, … (32) do",
    ),
    "several": (lambda f: f * (-1) ** np.arange(32), "pairs 1, 3, 5, 7, … (16) turn backward"),
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", drawn([*ODD], 5, "detect/fit"))
def test_three_tools_name_one_pair(name: str) -> None:
    change, words = ODD[name]
    spec = RoPE(64, pairing="half", base=5e5)
    f = change(np.asarray(posenc.frequencies(spec)))
    inferred = posenc.infer_spec(rotation(f), dim=64, framework="numpy")
    assert inferred.spec == spec
    assert inferred.departures == tuple(words.split("; "))
    assert not inferred.matches
    assert inferred.reach.position == 2**20
    assert f"but: {inferred.departures[0]}" in str(inferred)
    [difference] = posenc.diff(spec, CosSin(f)).differences
    assert (difference.field, difference.b) == ("frequencies", words)
    if name != "several":
        [finding] = posenc.identify({"inv_freq": f}).findings
        assert (finding.verdict, finding.spec) == ("close", spec)
        assert finding.remarks[: len(inferred.departures)] == inferred.departures


class CosSin:
    """Cosines and sines of some frequencies."""

    def __init__(self, frequencies: np.ndarray) -> None:
        self.f = frequencies

    def cos_sin(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle = positions[:, None] * self.f
        return np.cos(angle), np.sin(angle)


@pytest.mark.usefixtures("short")
def test_three_tools_name_one_slope() -> None:
    slopes = posenc.ALiBi(12).arrays["slopes"].astype(np.float64)
    slopes[3] *= 1.02

    def bias(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
        return -slopes[:, None, None] * np.abs(q_positions[:, None] - k_positions)

    [finding] = posenc.identify({"slopes": slopes}).findings
    assert (finding.verdict, finding.spec, finding.remarks) == (
        "close",
        posenc.ALiBi(12),
        ("slope 3 is 2 % off",),
    )
    inferred = posenc.infer_spec(bias, framework="numpy")
    assert inferred.spec == posenc.ALiBi(12)
    assert inferred.departures == ("slope 3 is 2 % off",)
    assert inferred.difference <= inferred.tolerance  # with the slope taken into account
    assert not inferred.matches
    [difference] = posenc.diff(posenc.ALiBi(12), bias).differences
    assert (difference.field, difference.b) == ("slopes", "slope 3 is 2 % off")
    slopes[4] *= 1.02
    [finding] = posenc.identify({"slopes": slopes}).findings
    assert finding.remarks == ("slope 3 is 2 % off", "slope 4 is 2 % off")
    slopes[5:7] *= 1.02  # a third of them are not few
    assert posenc.identify({"slopes": slopes}).findings[0].verdict == "unknown"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda slopes: -slopes, "slopes 0, 1, 2, 3, … (8) have the other sign"),
        (lambda slopes: slopes * np.where(np.arange(8) == 1, -1, 1), "slope 1 has the other sign"),
        (lambda slopes: slopes[[1, 0, *range(2, 8)]], "slopes 0 and 1 are exchanged"),
        (lambda slopes: slopes[::-1],
         "slopes 0, 1, 2, 3, … (8) are those of heads 7, 6, 5, 4, … (8)"),
        (lambda slopes: rounded(slopes[:7] ** 1.1, "bfloat16"), ""),
    ],
)  # fmt: skip
def test_slopes_have_words_of_their_own(change: Any, words: str) -> None:
    rule_ = posenc.ALiBi(8).arrays["slopes"].astype(np.float64)
    found = change(rule_)
    told = departures(found, rule_[: len(found)] ** (1 if words else 1.1), dtype="bfloat16")
    assert told is not None
    assert told.sentences(slopes=True) == (words or "slopes in bfloat16",)
    if words:
        bias = lambda q, k: -found[:, None, None] * np.abs(q[:, None] - k)  # noqa: E731
        assert posenc.diff(posenc.ALiBi(8), bias).differences[0].b == words


def half_angles(positions: np.ndarray, f: np.ndarray) -> np.ndarray:
    return rounded(rounded(positions, "bfloat16")[:, None] * rounded(f, "bfloat16"), "bfloat16")


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (lambda p, f: np.pi / 2 - p[:, None] * f, "frequencies", "cosine and sine are exchanged"),
        (half_angles, "dtype", "angles in bfloat16"),
        (lambda p, f: (p - p.min())[:, None] * 500.0 ** (-np.arange(32) / 32), "base", "500"),
    ],
)
def test_what_differs_has_its_words(change: Any, field: str, words: str) -> None:
    spec = RoPE(64, pairing="half", base=5e5)

    class Code:
        def cos_sin(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            angle = change(positions.astype(np.float64), posenc.frequencies(spec))
            return np.cos(angle), np.sin(angle)

    difference = posenc.diff(spec, Code()).differences[0]
    assert (difference.field, difference.b) == (field, words)


# --- precision ------------------------------------------------------------------------------------


def test_the_precision_is_seen_in_the_digits() -> None:
    f = np.asarray(posenc.frequencies(RoPE(64, pairing="half")))
    for dtype in ("bfloat16", "float16", "float32", "float64"):
        assert seen(rounded(f, dtype)) == dtype_of(rounded(f, dtype), "float64") == dtype
    assert dtype_of(f, "float16") == "float16"
    assert seen(np.exp(1j * f)) == "float64"
    assert seen(np.append(rounded(f, "bfloat16"), -np.inf)) == "bfloat16"
    # Measured numbers tell it only where they are surer than it is coarse.
    assert seen(rounded(f, "bfloat16") * (1 + 1e-7), 1e-6) == "bfloat16"
    assert seen(f, 1e-6) == "float64"
    assert seen(f, 1e-2) == "float64"


def test_departures_of_a_rule() -> None:
    rule = np.asarray(posenc.frequencies(RoPE(64, pairing="half")))
    for dtype in ("float64", "bfloat16"):
        assert departures(rule, rule, dtype=dtype) == Departures()
    half = rounded(rule, "bfloat16")
    assert departures(half, rule, dtype="bfloat16") == Departures("bfloat16")
    assert departures(half, rule, dtype="float32") is None
    half[3] *= -1
    assert departures(half, rule, dtype="bfloat16") == Departures("bfloat16", (3,))
    many = rule * np.where(np.arange(32) < 5, 1.01, 1.0)
    assert departures(many, rule, dtype="float64") is None
    mixed = departures(np.roll(half, 1), rule, dtype="bfloat16")
    assert mixed is not None
    assert mixed.moved == tuple((j, (j - 1) % 32) for j in range(32))
    assert mixed.backward == (4,)


# --- recordings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("order", ["half", "interleaved"])
@pytest.mark.parametrize(
    "case",
    drawn([SETS[n] for n in (0, 3, 13, 16)] + [WIDE], 2, "detect/fit"),
    ids=lambda c: f"{c[1]}",
)
def test_recordings_of_half_precision(dtype: str, order: Any, case: Any) -> None:
    """Outputs are rounded, and in the second half of them cosines and sines before."""
    spec = RoPE(64, pairing=order, **case[1])
    x = rounded(np.random.default_rng(1).normal(size=(4, 300, 64)), dtype)
    for begin in (0, 1000):
        positions = np.arange(begin, begin + 300)
        found = posenc.infer_spec(
            (x, rounded(posenc.rotate(spec, x, positions=positions), dtype), positions)
        )
        assert found.spec == spec
        assert found.matches
        cos, sin = (rounded(v, dtype) for v in posenc.cos_sin(spec, positions, dtype="float64"))
        first, second = np.array(spec.channels.channels(64)).T
        y = x.copy()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        found = posenc.infer_spec((x, rounded(y, dtype), positions))
        assert found.spec == spec
        assert found.matches


def test_a_rule_of_models_fits_every_pair() -> None:
    """However well the others fit, a pair that is eight errors off is none of the rule."""
    rule, error = np.array(posenc.frequencies(RoPE(64, pairing="half"))), np.full(32, 1e-6)
    assert usual_rules(rule, error, 1.0, 1e-3) == [(10_000.0, ())]
    rule[20] += 8 * error[20]
    assert usual_rules(rule, error, 1.0, 1e-3) == []


def test_whole_turns_that_nobody_sees_are_no_departure() -> None:
    """Coordinates of a picture of 3 x 5 patches: the fastest pair turns by any number of turns."""
    xy = posenc.Arrangement(rule="axial", axes=("h", "w"))
    ladder = posenc.Ladder(first=2 * np.pi)
    spec = RoPE(64, pairing="half", base=100, ladder=ladder, arrangement=xy, phase="real")
    places = np.stack(np.meshgrid([-2 / 3, 0, 2 / 3], [-0.8, -0.4, 0, 0.4, 0.8]), -1).reshape(-1, 2)
    x = np.random.default_rng(0).normal(size=(8, len(places), 64))
    y = posenc.rotate(spec, x, positions=places)
    found = posenc.infer_spec((x, y, places), axes=("h", "w"))
    assert found.spec == spec
    assert found.departures == ()
    assert found.matches
