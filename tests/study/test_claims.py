"""Claims, and verdicts on effects that are planted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from posenc._core.errors import DataError
from posenc_study.cell import Cell
from posenc_study.claims.registered import BETTER, Claim, claims, read_claims
from posenc_study.claims.verdicts import ALPHA, differences, finding, judge
from posenc_study.grid import TIERS
from posenc_study.report.pages import UNITS
from posenc_study.results.records import Record, Results, Row
from posenc_study.statistics import holm

WHERE = {"posenc": "0", "commit": "c0ffee", "sources": "aa"}
LENGTHS = {"1L": 8, "2L": 16}

PLAIN = """
[[claim]]
id = "{id}"
text = "a is better"
source = "nobody 2000"
task = "order"
metric = "{metric}"
[[claim.part]]
kind = "{kind}"
left = "{left}"
right = "{right}"
margin = {margin}
"""


def registered(tmp_path: Path, *rows: dict) -> tuple[Claim, ...]:
    usual = {"metric": "accuracy", "kind": "better", "left": "a@1L", "right": "b@1L", "margin": 0}
    text = "".join(PLAIN.format(**{"id": f"claim-{i}", **usual, **r}) for i, r in enumerate(rows))
    path = tmp_path / "claims.toml"
    path.write_text(text)
    return read_claims(path)


def results(scores: dict[str, np.ndarray], metric: str = "accuracy", bucket: str = "1L") -> Results:
    """Scores of each encoding by seed."""
    return Results.of(
        [
            Record(
                Cell.of("order", encoding, seed=seed, settings={"steps": 1}),
                (Row(metric, bucket, LENGTHS[bucket], float(value)),),
                parameters=10,
            )
            for encoding, values in scores.items()
            for seed, value in enumerate(values)
        ],
        [WHERE],
    )


def noisy(mean: float, seed: int = 0, count: int = 8) -> np.ndarray:
    return mean + 0.02 * np.random.default_rng(seed).normal(size=count)


def word(tmp_path: Path, found: Results, **row) -> str:
    return judge(found, registered(tmp_path, row))[0].word


# --- planted effects ------------------------------------------------------------------------------


def test_a_planted_effect_is_found_and_its_opposite_contradicted(tmp_path: Path) -> None:
    found = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)})
    assert word(tmp_path, found) == "reproduced"
    assert word(tmp_path, found, left="b@1L", right="a@1L") == "contradicted"
    # Of nats less is better.
    found = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)}, "nats")
    assert word(tmp_path, found, metric="nats") == "contradicted"
    assert word(tmp_path, found, metric="nats", left="b@1L", right="a@1L") == "reproduced"


def test_a_planted_null_stays_undecided(tmp_path: Path) -> None:
    """Of 200 nulls about one in twenty may pass a test at 0.05 that is not adjusted."""
    claim = registered(tmp_path, {})
    words = [
        judge(results({"a": noisy(0.8, 2 * i), "b": noisy(0.8, 2 * i + 1)}), claim)[0].word
        for i in range(200)
    ]
    assert words.count("undecided") >= 180
    assert words.count("undecided") < 200, "a test that never errs has no power"


def test_the_margin_is_what_a_difference_has_to_exceed(tmp_path: Path) -> None:
    found = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)})
    assert word(tmp_path, found, margin=0.05) == "reproduced"
    assert word(tmp_path, found, margin=0.1) == "undecided"
    assert word(tmp_path, found, margin=0.2) == "contradicted"


def test_equality_within_a_margin(tmp_path: Path) -> None:
    near = results({"a": noisy(0.9, 1) / 10, "b": noisy(0.9, 2) / 10})
    assert word(tmp_path, near, kind="equal", margin=0.02) == "reproduced"
    far = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)})
    assert word(tmp_path, far, kind="equal", margin=0.02) == "contradicted"
    wide = results({"a": noisy(0.9, 1) * 5, "b": noisy(0.9, 2) * 5})
    assert word(tmp_path, wide, kind="equal", margin=0.02) == "undecided"


def test_a_number_is_a_side(tmp_path: Path) -> None:
    found = results({"a": np.full(8, 0.5)})
    text = PLAIN.replace('right = "{right}"', "right = 0.5").format(
        id="x", metric="accuracy", kind="equal", left="a@1L", margin=0.02
    )
    path = tmp_path / "claims.toml"
    path.write_text(text)
    assert judge(found, read_claims(path))[0].word == "reproduced"


def test_a_condition_that_fails_leaves_the_claim_undecided(tmp_path: Path) -> None:
    found = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)})
    claim = registered(tmp_path, {}, {"kind": "condition", "left": "b@1L", "right": "a@1L"})
    both = dataclasses.replace(claim[0], parts=claim[0].parts + claim[1].parts)
    assert judge(found, [both])[0].word == "undecided"
    assert judge(found, claim[:1])[0].word == "reproduced"


def test_all_parts_have_to_hold(tmp_path: Path) -> None:
    scores = {"a": noisy(0.9, 1), "b": noisy(0.8, 2), "c": noisy(0.9, 3)}
    parts = registered(tmp_path, {}, {"right": "c@1L"}, {"right": "d@1L"}, {"left": "b@1L"})

    def joined(*numbers: int) -> Claim:
        return dataclasses.replace(
            parts[0], parts=tuple(part for i in numbers for part in parts[i].parts)
        )

    found = results(scores)
    assert judge(found, [joined(0)])[0].word == "reproduced"
    assert judge(found, [joined(0, 1)])[0].word == "undecided"
    assert judge(found, [joined(0, 2)])[0].word == "undecided", "a part without data"
    assert judge(found, [joined(2)])[0].word == "not run"
    opposite = registered(tmp_path, {"left": "b@1L", "right": "a@1L"})[0]
    both = dataclasses.replace(parts[0], parts=parts[0].parts + opposite.parts)
    assert judge(found, [both])[0].word == "contradicted"


def test_few_seeds_settle_nothing(tmp_path: Path) -> None:
    for count, expected in ((5, "undecided"), (6, "reproduced")):
        found = results({"a": noisy(0.9, 1, count), "b": noisy(0.2, 2, count)})
        assert word(tmp_path, found) == expected
        near = results({"a": noisy(0.9, 1, count) / 99, "b": noisy(0.9, 2, count) / 99})
        assert word(tmp_path, near, kind="equal", margin=0.02) == expected


def test_p_values_are_adjusted_over_all_claims_run_or_not(tmp_path: Path) -> None:
    rows = [{}, {"right": "c@1L"}, {"left": "x@1L"}, {"left": "y@1L"}]
    scores = {"a": noisy(0.84, 1), "b": noisy(0.80, 2), "c": noisy(0.79, 3)}
    found = judge(results(scores), registered(tmp_path, *rows))
    raw = [scipy.stats.ttest_rel(scores["a"], scores[name]).pvalue for name in "bc"]
    assert [v.p for v in found[:2]] == pytest.approx(holm([*raw, 1.0, 1.0])[:2])
    assert [v.word for v in found[2:]] == ["not run"] * 2


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    found = results({"a": np.arange(6) / 10, "b": np.arange(8) / 20})
    part = registered(tmp_path, {})[0].parts[0]
    assert differences(found, part) == pytest.approx(list(np.arange(6) / 20))
    # A difference of differences.
    rows = [
        dataclasses.replace(r, rows=(*r.rows, Row("accuracy", "2L", 16, r.rows[0].value - drop)))
        for r in results({"a": noisy(0.9, 1), "b": noisy(0.9, 2)}).records
        for drop in [0.1 if r.cell.encoding == "a" else 0.4]
    ]
    claim = registered(tmp_path, {"left": "a@2L - a@1L", "right": "b@2L - b@1L", "margin": 0.2})
    both = Results.of(rows, [WHERE])
    assert differences(both, claim[0].parts[0]) == pytest.approx([0.3] * 8)
    assert judge(both, claim)[0].word == "reproduced"


def test_a_claim_may_be_tested_on_some_seeds_only(tmp_path: Path) -> None:
    # The effect stands in seeds 0 to 7 alone.
    found = results(
        {"a": np.r_[noisy(0.9, 1), noisy(0.5, 3)], "b": np.r_[noisy(0.5, 2), noisy(0.5, 4)]}
    )
    for seeds, expected in (("0, 8", "reproduced"), ("8, 16", "undecided"), ("16, 24", "not run")):
        text = PLAIN.format(
            id="x", metric="accuracy", kind="better", left="a@1L", right="b@1L", margin=0
        )
        path = tmp_path / "claims.toml"
        path.write_text(text.replace("[[claim.part]]", f"seeds = [{seeds}]\n[[claim.part]]"))
        assert judge(found, read_claims(path))[0].word == expected
    path.write_text(text.replace("[[claim.part]]", "seeds = [8, 8]\n[[claim.part]]"))
    with pytest.raises(DataError, match="two rising numbers"):
        read_claims(path)


def test_a_part_alone(tmp_path: Path) -> None:
    found = results({"a": noisy(0.9, 1), "b": noisy(0.8, 2)})
    told = finding(found, registered(tmp_path, {})[0].parts[0])
    assert told.difference is not None
    assert told.difference.mean == pytest.approx(0.1, abs=0.03)
    assert told.holds < ALPHA < told.fails
    assert told.flips == 2 / 256


# --- claims ---------------------------------------------------------------------------------------


def test_the_registered_claims_name_what_the_tiers_run() -> None:
    from posenc_study.model.encodings import ENCODINGS
    from posenc_study.tasks import TASKS

    cells = {(block.task, e) for block in TIERS["full"] for e in block.encodings}
    for claim in claims():
        for part in claim.parts:
            factors = TASKS[part.task].complete({})["factors"]
            for score in part.left.scores + part.right.scores:
                assert score.encoding in ENCODINGS, claim.id
                assert (part.task, score.encoding) in cells, claim.id
                assert score.bucket.removesuffix("L") in str(factors).split(), claim.id
    assert any(claim.unexpected for claim in claims())
    assert set(BETTER) == set(UNITS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "nicer"}, "better or equal or condition"),
        ({"metric": "bleu"}, "one of accuracy"),
        ({"left": "a"}, "left and right"),
        ({"left": "a@1L - b@1L - c@1L"}, "left and right"),
        ({"kind": "equal"}, "margin"),
        ({"margin": -1}, "margin"),
    ],
)
def test_claims_that_say_nothing(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        registered(tmp_path, change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tables"),
        ("[claim", "TOML"),
        ("claim = 1", "tables"),
        ("[[claim]]\nid = 'x'\ntext = 'x'\nsource = 'x'", "claim.part"),
        ("[[claim]]\nidd = 'x'", "Did you mean 'id'"),
        (2 * PLAIN.format(id="x", metric="nats", kind="better", left="a@1L", right="b@1L",
                          margin=0), "a different id"),
        (PLAIN.replace('left = "{left}"', "left = 1").replace('right = "{right}"', "right = 2")
         .format(id="x", metric="nats", kind="better", margin=0), "a score in each part"),
    ],
)  # fmt: skip
def test_files_that_hold_no_claims(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_claims(path)
