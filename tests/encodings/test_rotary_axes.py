"""Rules for single axes: each on its own pairs, and what was one rule with a factor for each."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import Arrangement, RoPE, RotaryMagnitude, scaling as s
from posenc.registry import from_json
from tests.backends import Backend, each_backend
from tests.tolerances import assert_close

AXES = ("t", "h", "w")
GRID = Arrangement(rule="axial", axes=AXES, sizes=(2, 4, 6))
RULES: tuple[Any, ...] = (s.RIFLEx(2, 66), s.DyPE(4, 0.7, original_length=8), None)
FACTOR = 0.1 * np.log(4) + 1  # of DyPE
PLAIN = RoPE(24, pairing="half", base=256, arrangement=GRID)
SPEC = PLAIN.replace(scaling=s.PerAxis(RULES))
WHERE = np.array([[3, 2, 1], [0, 9, 200], [41, 0, 5]])


def alone(axis: int) -> RoPE:
    """The pairs of one axis as a rotation of their own."""
    rule = RULES[axis]
    return RoPE(2 * (2, 4, 6)[axis], pairing="half", base=256, scaling=rule or ())


def test_each_axis_turns_as_it_would_alone() -> None:
    cos, sin = posenc.cos_sin(SPEC, WHERE, dtype="float64")
    parts = [posenc.cos_sin(alone(a), WHERE[:, a], dtype="float64") for a in range(3)]
    for ours, theirs in ((cos, 0), (sin, 1)):
        assert_close(ours, np.concatenate([part[theirs] for part in parts], axis=-1), 0)


@each_backend
def test_every_verb_has_the_factor_on_the_pairs_of_its_axis(backend: Backend) -> None:
    """The verbs of all libraries, against rotations of each axis alone."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(3, 24)).astype(np.float32) for _ in range(2))
    halves = np.arange(24).reshape(2, 12)
    blocks = [halves[:, a:b].ravel() for a, b in ((0, 2), (2, 6), (6, 12))]

    def verbs(x: Any, where: Any) -> tuple[Any, ...]:
        turned = posenc.rotate(SPEC, x, positions=where)
        back = posenc.rotate(SPEC, turned, positions=where, inverse=True)
        moved = posenc.rerotate(SPEC, turned, old_positions=where, new_positions=where + 2)
        return turned, back, moved

    results = backend.whole(verbs)(backend.asarray(x), backend.asarray(WHERE))
    turned, back, moved = map(backend.numpy, results)
    assert_close(back, x, 2e-6)
    for axis, channels in enumerate(blocks):
        own = x[:, channels]
        assert_close(
            turned[:, channels], posenc.rotate(alone(axis), own, positions=WHERE[:, axis]), 1e-6
        )
        later = posenc.rotate(alone(axis), own, positions=WHERE[:, axis] + 2)
        assert_close(moved[:, channels], later, 4e-6)
    scores = posenc.relative_score(SPEC, backend.asarray(x[0]), backend.asarray(y[0]), WHERE)
    query = posenc.rotate(SPEC, x[:1], positions=np.zeros((1, 3), int), kernel="reference")
    keys = posenc.rotate(SPEC, y[[0, 0, 0]], positions=WHERE, kernel="reference")
    expected = keys @ query[0]
    assert_close(backend.numpy(scores), np.asarray(expected), 1e-5)


def test_factors_by_axis_have_no_one_number() -> None:
    assert SPEC.attention_factors == (1.0, FACTOR, 1.0)
    assert SPEC.uneven
    with pytest.raises(posenc.ArgumentError, match="one number for all pairs.*attention_factors"):
        SPEC.attention_factor  # noqa: B018
    one = SPEC.replace(magnitude=RotaryMagnitude(attention_factor=1.2))
    assert (one.attention_factors, one.attention_factor, one.uneven) == ((1.2,) * 3, 1.2, False)
    even = PLAIN.replace(scaling=s.PerAxis((s.RIFLEx(2, 66), None, s.NTK(3))))
    assert (even.attention_factors, even.attention_factor) == ((1.0,) * 3, 1.0)


@pytest.mark.parametrize("rule", [s.Linear, s.NTK])
def test_a_factor_for_each_axis_is_a_rule_for_each(rule: Any) -> None:
    """As code and JSON had it; a factor of 1 changes nothing."""
    expected = s.PerAxis((None, rule(2), rule(3)))
    assert rule((1, 2, 3)) == rule(factor=[1, 2, 3]) == expected
    old = PLAIN.replace(scaling=rule(2)).to_dict()
    old["scaling"] = [{"type": rule.__name__, "factor": [1.0, 2.0, 3.0]}]
    spec = posenc.from_json(json.dumps(old))
    assert spec == PLAIN.replace(scaling=expected)
    frequencies = np.split(posenc.frequencies(spec), [2, 6])
    for factor, width, own in zip((1, 2, 3), (4, 8, 12), frequencies, strict=True):
        whole = RoPE(width, pairing="half", base=256, scaling=rule(factor))
        assert_close(own, posenc.frequencies(whole), 0)
    with pytest.raises(posenc.SpecError, match="factor: expected a number, got True"):
        rule((True, 2))
    with pytest.raises(TypeError, match="2 arguments by place"):
        rule((1, 2), 3)


def test_lengths_that_are_open_on_single_axes() -> None:
    rules = (
        s.LongRoPE((1, 1), (2, 3), original_length=64, factor=2),
        s.DynamicNTK(2, original_length=100),
        None,
    )
    spec = PLAIN.replace(scaling=s.PerAxis(rules))
    assert spec.lengths == (64, None)
    assert s.PerAxis(rules[:1]).lengths == (64, 65)
    fixed = spec.at(300)
    assert fixed.scalings == (s.PerAxis(tuple(rule and rule.at(300) for rule in rules)),)
    x = np.random.default_rng(0).normal(size=(3, 24))
    by_length = posenc.rotate(spec, x, positions=WHERE, length=300)
    assert_close(by_length, posenc.rotate(fixed, x, positions=WHERE), 0)
    with pytest.raises(posenc.ArgumentError, match="`length=`, on which its frequencies"):
        posenc.rotate(spec, x, positions=WHERE)


def test_copies_and_descriptions() -> None:
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    assert pickle.loads(pickle.dumps(s.Linear(2))) == s.Linear(2)
    assert posenc.from_json(posenc.to_json(SPEC)) == SPEC
    assert "PerAxis((RIFLEx(2, 66), DyPE(4.0, 0.7, original_length=8), None))" in repr(SPEC)


# --- the authors' code, run -----------------------------------------------------------------------

# In float64, with nine digits; RIFLEx and DyPE are scripts that no package installs.
STORED = json.loads((Path(__file__).parents[1] / "golden" / "originals_scalings.json").read_text())
MASKS = 2e-7  # those of DyPE are float32 in its code


@pytest.mark.parametrize("row", STORED["rows"], ids=lambda row: row["name"])
def test_rules_of_films_and_large_pictures_are_the_authors(row: dict[str, Any]) -> None:
    spec: Any = from_json(json.dumps(row["spec"]))
    ours = posenc.cos_sin(spec, np.array(row["positions"]), dtype="float64")
    off = max(np.abs(a - np.array(row[b])).max() for a, b in zip(ours, ("cos", "sin"), strict=True))
    # Where the ramp of their code is turned around, a picture without noise is stretched.
    assert off > 0.1 if row["name"] == "dype-yarn-0.005" else off < MASKS
    assert len(row["commit"]) == 40


def test_without_noise_nothing_is_stretched() -> None:
    plain = RoPE(56, pairing="half")
    for noise in (0, 1e-200, 0.005):
        rule = s.DyPE(4, noise, original_length=64)
        frequencies = posenc.frequencies(plain.replace(scaling=rule))
        assert_close(frequencies, posenc.frequencies(plain), 0)
