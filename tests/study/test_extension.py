"""A longer context in the study: its rules and rows, what it claims, and what its pages say."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

torch = pytest.importorskip("torch", reason="the model is torch's")

import posenc  # noqa: E402
from posenc_study.cell import Cell  # noqa: E402
from posenc_study.claims.registered import BETTER, Claim, claims  # noqa: E402
from posenc_study.claims.verdicts import finding, judge, untrained  # noqa: E402
from posenc_study.report.document import as_markdown  # noqa: E402
from posenc_study.report.extension import COLUMNS, FAMILY, RULES, extension_words  # noqa: E402
from posenc_study.report.pages import document  # noqa: E402
from posenc_study.results.records import Record, Results, Row, read_csv  # noqa: E402
from posenc_study.statistics import holm, rank_correlation  # noqa: E402
from posenc_study.training.extension import INDICATORS, compared, distinct  # noqa: E402
from posenc_study.training.run import Run  # noqa: E402

DOCS = Path(__file__).resolve().parents[2] / "docs"
OWN = tuple(claim for claim in claims() if claim.family == FAMILY)
TINY = {"steps": 1, "width": 16, "heads": 1, "hidden": 16, "layers": 2, "length": 16}


# --- rows -----------------------------------------------------------------------------------------


def test_a_rank_correlation_is_kendalls() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        x, y = rng.integers(0, 4, 6), rng.normal(size=6)
        expected = scipy.stats.kendalltau(x, y, variant="b").statistic
        received = rank_correlation(list(x), list(y))
        assert received == pytest.approx(expected) if np.ptp(x) else received is None
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_the_rules_are_those_of_the_planner_once_each() -> None:
    for length, base in ((64, 100.0), (256, 10_000.0)):
        spec = posenc.RoPE(32, pairing="half", base=base)
        rules, best = distinct(spec, length, 4 * length)
        assert tuple(rule.name for rule in rules) == tuple(RULES)
        config = {"model_type": "llama", "head_dim": 32, "rope_theta": base}
        plan = posenc.extend(config, 4 * length, trained=length)
        assert best == plan.rule
        for rule in rules:
            assert rule.effect == plan.layers[0].option(rule.name).effect
        # What is left out has the angles of one that is there.
        assert set(plan.rules) - set(RULES) == {"dynamic"}


@pytest.mark.costly
def test_the_rows_are_those_of_a_model_built_with_each_rule() -> None:
    settings = {**TINY, "examples": 32, "factors": "1 4"}
    run = Run(Cell.of("extension-64", "rope-100", seed=3, settings=settings))
    rows = {(row["metric"], row["bucket"]): row["value"] for row in compared(run)}
    spec = posenc.RoPE(16, pairing="half", base=100.0)
    rules, best = distinct(spec, 16, 64)
    (_, test) = run.task.tests()
    (batch,) = test.batches
    last, within = {}, {}
    for rule in rules:
        changed = dataclasses.replace(run.encoding, make=lambda *_, rule=rule: rule.spec)
        model = type(run.model)(run.task.shape, changed.scheme(run.sizes), seed=3)
        model.load_state_dict(run.model.state_dict())
        with torch.no_grad():
            logs = model(batch.target).double().log_softmax(-1)
        nats = -logs.gather(-1, batch.answers[..., None])[..., 0].mean(0)
        last[rule.name], within[rule.name] = nats[-32:].mean().item(), nats[:16].mean().item()
        assert rows["nats-last." + rule.name, "4L"] == pytest.approx(last[rule.name], abs=1e-5)
        along = [rows[f"nats-4L.{rule.name}", f"{k / 2:g}L"] for k in range(1, 9)]
        assert along == pytest.approx(nats.view(8, 8).mean(1).tolist(), abs=1e-5)
    assert len({round(value, 6) for value in last.values()}) == len(rules)

    def expected(name: str, scores: dict[str, float]) -> float:
        some = [rule for rule in rules if rule.name in scores]
        order = [getattr(rule.effect, name) for rule in some]
        return scipy.stats.kendalltau(order, [scores[rule.name] for rule in some]).statistic

    for metric, field in (("unseen", "unseen"), ("arc", "arc"), ("short", "change")):
        assert rows[f"rank-{metric}", "4L"] == pytest.approx(expected(field, last), abs=1e-6)
    del within["none"]
    assert rows["rank-within", "4L"] == pytest.approx(expected("change", within), abs=1e-6)
    others = min(value for name, value in last.items() if name != best)
    assert rows["regret", "4L"] == pytest.approx(last[best] - others, abs=1e-5)
    assert ("rank-lost", "4L") not in rows, "no pair is fast, so nothing is ranked"


def test_an_encoding_that_no_rule_extends_is_read_as_it_stands() -> None:
    run = Run(Cell.of("extension-64", "alibi", seed=0, settings={**TINY, "factors": "1 4"}))
    rows = {(row["metric"], row["bucket"]): row["value"] for row in compared(run)}
    assert {metric for metric, _ in rows} == {"nats-last.none", "nats-4L.none"}
    (_, test) = run.task.tests()
    with torch.no_grad():
        logs = run.model(test.batches[0].target).double().log_softmax(-1)
    nats = -logs.gather(-1, test.batches[0].answers[..., None])[..., 0].mean(0)
    along = [rows["nats-4L.none", f"{k / 2:g}L"] for k in range(1, 9)]
    assert along == pytest.approx(nats.view(8, 8).mean(1).tolist(), abs=1e-5)


# --- claims ---------------------------------------------------------------------------------------


def test_the_claims_name_every_place_and_every_indicator() -> None:
    metrics = {part.metric for claim in OWN for part in claim.parts}
    assert metrics == {f"rank-{name}" for name in INDICATORS} | {"rank-within", "regret"}
    assert metrics <= set(BETTER)
    for claim in OWN:
        tasks = {part.task for part in claim.parts}
        assert len({(p.task, str(p.left)) for p in claim.parts}) == 9 * len(tasks)
        assert all(part.kind == "better" and not part.right.scores for part in claim.parts)
        # At 64 characters no pair is fast, so that claim is about 256 alone.
        assert len(tasks) == (1 if claim.id == "extend-lost" else 2)


def planted(value: float, claim: Claim) -> Results:
    """Every part of a claim at some value, in 8 seeds."""
    rows: dict[tuple[str, str], list[Row]] = {}
    for part in claim.parts:
        (score,) = part.left.scores
        row = Row(part.metric, score.bucket, 8, value)
        rows.setdefault((part.task, score.encoding), []).append(row)
    records = [
        Record(Cell.of(*place, seed=seed, settings={}), tuple(each), parameters=9, final_loss=1.0)
        for place, each in rows.items()
        for seed in range(8)
    ]
    return Results.of(records, [{"posenc": "0"}])


def test_a_family_is_adjusted_by_itself() -> None:
    results = planted(0.35, OWN[0])
    p = max(finding(results, part).holds for part in OWN[0].parts)
    (own,) = (v for v in judge(results, claims()) if v.claim.id == OWN[0].id)
    assert own.p == pytest.approx(holm([p] + [1.0] * (len(OWN) - 1))[0])
    alone = judge(results, OWN)
    assert [v.p for v in alone] == [v.p for v in judge(results, claims())[-len(OWN) :]]


def test_the_planner_page_gives_a_correlation_only_where_its_claim_holds() -> None:
    named = {claim.id: claim for claim in OWN}
    for value, word in ((0.6, "reproduced"), (0.1, "contradicted")):
        for name, (metric, _) in COLUMNS.items():
            assert {part.metric for part in named[name].parts} == {metric}
            results = planted(value, named[name])
            text = extension_words(results, judge(results, claims()))
            (line,) = (line for line in text.splitlines() if f"| {word} |" in line)
            assert line.startswith(f"| {COLUMNS[name][1]} |")
            assert (f"{value:+.3f}" in line) == (word == "reproduced")
            assert ("did not hold" in line) == (word != "reproduced")
    assert "not been measured" in extension_words(Results((), ()), judge(Results((), ()), claims()))


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.costly
def test_the_page_of_the_planner_is_that_of_the_committed_rows() -> None:
    results = read_csv(DOCS / "data")
    text = extension_words(results, judge(results, claims()))
    assert text in (DOCS / "extend.md").read_text(encoding="utf-8")


@pytest.mark.costly
def test_every_claim_says_what_it_rests_on() -> None:
    results = read_csv(DOCS / "data")
    page = as_markdown(document(results, claims()))
    for claim in claims():
        rows = [line for line in page.splitlines() if line.startswith(f"| {claim.text} |")]
        tasks = {part.task for part in claim.parts}
        if claim.family != FAMILY:
            assert all(f"{task}" in rows[0] and "rate 0.00" in rows[0] for task in tasks)
        assert ("an invented grammar" in rows[0]) == (tasks == {"seq2seq"})
    assert "all encodings of a task are trained at one rate" in page.lower()


@pytest.mark.costly
def test_a_model_that_did_not_train_is_told_and_left_out() -> None:
    results = read_csv(DOCS / "data")
    lost = untrained(results)
    for record in lost:
        same = [
            r.final_loss
            for r in results.finished(record.cell.task)
            if r.cell.encoding == record.cell.encoding
        ]
        assert record.final_loss > max(2 * np.median(same), np.median(same) + 0.1)
    assert "order, kerple, seed 3" in map(str, (record.cell for record in lost))
    page = as_markdown(document(results, claims()))
    _, _, section = page.partition("## Without the models that did not train")
    table = re.findall(
        r"^\| (.+?) \| . \*\*(.+?)\*\* \|.*?\*\*(.+?)\*\*", section.split("\n## ")[0], re.M
    )
    kept = Results(tuple(r for r in results.records if r not in lost), results.provenances)
    words = {v.claim.text: v.word for v in judge(kept, claims())}
    assert table
    for text, before, after in table:
        assert after == words[text]
        assert before == {v.claim.text: v.word for v in judge(results, claims())}[text]
