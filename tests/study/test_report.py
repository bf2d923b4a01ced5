"""The report: its words, tables and curves, and the page of the committed rows."""

from __future__ import annotations

import csv
import itertools
import math
import random
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from tools.pages import shelf

from posenc_study.cell import Cell
from posenc_study.claims.registered import claims, registrations
from posenc_study.claims.verdicts import judge
from posenc_study.report.claims import probability
from posenc_study.report.document import Paragraph, SectionHeading, TextTable, as_html, as_markdown
from posenc_study.report.figures import apart
from posenc_study.report.pages import curves, document, write_report
from posenc_study.results.records import Record, Results, Row, read_csv
from posenc_study.statistics import detectable, interval
from tests.study.test_claims import LENGTHS, WHERE

DOCS = Path(__file__).resolve().parents[2] / "docs"


def some() -> Results:
    """Results of real names, with a failure."""
    records = []
    for e, encoding in enumerate(("none", "sinusoidal", "rope", "alibi")):
        for seed in range(6):
            draw = np.random.default_rng([e, seed])
            for task, metric in (("order", "accuracy"), ("text-lm", "nats")):
                rows = tuple(
                    Row(metric, bucket, length, float(draw.random()))
                    for bucket, length in LENGTHS.items()
                )
                cell = Cell.of(task, encoding, seed=seed, settings={"steps": 5, "length": 8})
                records.append(Record(cell, rows, 1.0, 5, 100 + e, 0.5))
    failed = Record(Cell.of("order", "t5", seed=0, settings={}), reason="a | <b>")
    return Results.of([*records, failed], [WHERE])


@pytest.mark.costly
def test_the_report_is_a_function_of_the_rows(tmp_path: Path) -> None:
    found = some()
    shuffled = list(found.records)
    random.Random(1).shuffle(shuffled)
    again = Results.of(shuffled, found.provenances)
    one = write_report(found, claims(), tmp_path / "a")
    two = write_report(again, claims(), tmp_path / "b")
    assert [path.name for path in one] == [path.name for path in two]
    assert {path.name for path in one} == {
        "study.md", "study.html", "study-order.png", "study-text-lm.png", "study.png"
    }  # fmt: skip
    for a, b in zip(one, two, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name


def test_the_report_shows_the_rows(tmp_path: Path) -> None:
    found = some()
    values = list(found.values("order", "rope", "accuracy", "2L").values())
    half = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    text = as_markdown(document(found, claims()))
    shown = f"{np.mean(values):.3f} ± {(half.high - half.low) / 2:.3f}"
    line = next(line for line in text.splitlines() if line.startswith("| rope |"))
    assert line.split("|")[3].strip() == shown
    for part in ("c0ffee", "Not expected at this size", "Cells that failed", "a \\| <b>"):
        assert part in text
    for claim in claims():
        assert claim.text in text
        assert claim.unexpected in text


class Counting(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_is_whole_and_escaped() -> None:
    parser = Counting()
    parser.feed(as_html(document(some(), claims()), "a & b"))
    assert not parser.open
    assert "a | <b>" in parser.text
    made = as_html(
        [SectionHeading(1, "x"), Paragraph("`a<b` **c**"), TextTable(("d",), (("e",),))], "t"
    )
    assert "<code>a&lt;b</code> <strong>c</strong>" in made


def test_nothing_measured_is_a_report_too(tmp_path: Path) -> None:
    text = as_markdown(document(Results((), ()), claims()))
    assert "Nothing has been measured yet" in text
    assert text.count("**not run**") == len(claims())


def test_curves_have_their_lengths_in_order() -> None:
    found = {curve.encoding: curve for curve in curves(some(), "order", "accuracy")}
    assert list(found) == ["none", "sinusoidal", "rope", "alibi"]
    assert found["rope"].lengths == (8, 16)


def test_labels_are_moved_apart_and_no_further() -> None:
    assert apart([0.0, 1.0, 2.0], 0.5) == [0.0, 1.0, 2.0]
    assert apart([1.0, 1.0], 0.5) == [0.75, 1.25]
    found = apart([0.0, 0.1, 0.1, 0.5, 3.0], 0.4)
    assert all(b - a >= 0.4 - 1e-9 for a, b in itertools.pairwise(found))
    assert found[-1] == 3.0


def test_probabilities_are_never_zero() -> None:
    assert [probability(p) for p in (0.0, 0.00123, 0.04, 1.0)] == [
        "< 0.0001", "0.0012", "0.04", "1.00"
    ]  # fmt: skip


@pytest.mark.costly
def test_length_is_judged_by_the_last_characters() -> None:
    for claim in claims():
        for part in claim.parts:
            beyond = any(s.bucket != "1L" for s in part.left.scores + part.right.scores)
            if beyond and part.metric.startswith("nats"):
                assert "last" in part.metric, claim.id
                assert all("last" not in p.metric for p in claim.as_registered().parts)
    rows = DOCS / "data"
    found = {v.claim.id: v for v in judge(read_csv(rows), claims())}["alibi-flat"]
    assert found.word != "reproduced"
    # The mean over seeds of what the file says, by hand.
    with (rows / "study_cells.csv").open() as file:
        alibi = {
            row["number"]: row["seed"]
            for row in csv.DictReader(file)
            if (row["task"], row["encoding"]) == ("text-lm", "alibi")
        }
    last: dict[str, list[float]] = {"1L": [], "4L": []}
    with (rows / "study_metrics.csv").open() as file:
        for row in csv.DictReader(file):
            if row["cell"] in alibi and row["metric"] == "nats-last" and row["bucket"] in last:
                last[row["bucket"]].append(float(row["value"]))
    expected = np.mean(last["4L"]) - np.mean(last["1L"])
    assert expected > 0.03
    difference = found.findings[1].difference
    assert difference is not None
    assert difference.mean == pytest.approx(expected)


@pytest.mark.costly
def test_the_report_says_how_blindly_its_claims_were_made() -> None:
    text = as_markdown(document(read_csv(DOCS / "data"), claims()))
    assert "a pilot on the same tasks" in text
    first, second, _ = (datetime.fromisoformat(version.time) for version in registrations())
    assert first < second < datetime(2026, 11, 20, 19, tzinfo=UTC)
    for version in registrations():
        assert re.fullmatch("[0-9a-f]{64}", version.sha256)
        assert f"| {version.time} | `{version.sha256}` |" in text
    assert "This was decided after the run" in text
    assert "invented" in text
    assert "give the same" not in text


def test_what_could_be_detected_is_what_is_mostly_found() -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=8)
    sample = (sample - sample.mean()) / sample.std(ddof=1)
    size = detectable(interval(list(sample)), alpha=0.05)
    drawn = rng.normal(size, 1, size=(4000, 8))
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / 8**0.5)
    assert (np.abs(t) > 2.3646).mean() == pytest.approx(0.8, abs=0.04)
    assert detectable(interval([1.0]), alpha=0.05) == math.inf


@pytest.mark.costly
def test_the_page_is_that_of_the_committed_rows() -> None:
    """`posenc study report --from docs/data -o docs --format md,png` writes it again.

    `python tools/pages/shelf.py docs/study.md --long 3 --keep 1` makes its long tables files.
    """
    docs = Path(__file__).resolve().parents[2] / "docs"
    if not (docs / "data" / "study_cells.csv").exists():
        pytest.skip("no rows are committed")
    text = as_markdown(document(read_csv(docs / "data"), claims()))
    assert shelf.stale(docs / "study.md", text, long=3, keep=1) == []
    for picture in re.findall(r"\]\((img/[^)]+)\)", text):
        assert (docs / picture).exists(), picture
