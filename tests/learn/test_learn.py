"""The lessons: every number in their prose is computed, and right; every claim is tried."""

from __future__ import annotations

import copy
import doctest
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tools import learn_pages
from tools.pages import explorer_pictures, shelf

import posenc
from posenc.learn import lesson, lessons, page, topics
from posenc.learn._content import Draw, Transcript, evaluate, fill, fresh, run
from posenc.learn.lessons import load
from tests.learn.texts import digits_typed, fields
from tests.oracles import learn as oracle

ROOT = Path(__file__).resolve().parents[2]
CONTENT = Path(lessons.__file__).parent / "content"
# SHA-256 of b"quiz\0rope\x007\0" and "1" to "6", modulo 1000.
GOLDEN = [833, 295, 669, 863, 654, 500]
# Facts come from float32 tables in places; printed are at most six digits.
RELATIVE = 2e-6
# `locate` widens its arcs a little, so that no position is lost to rounding.
LOOSER = {"chance": 1e-3}


@pytest.fixture(scope="module")
def expected() -> dict[str, list[dict[str, Any]]]:
    return oracle.facts()


def words(text: str) -> str:
    return " ".join(text.split())


def templates(topic: str) -> list[tuple[str, str]]:
    """(where, text) of every sentence of a content file."""
    data = load(topic)
    if topic == "index":
        return [(k, v) for k, v in {**data, **data["tour"]}.items() if isinstance(v, str)]
    found = []
    if topic != "tour":
        found = [("title", data["title"]), ("lead", data["lead"])]
        found += [("see", data["see"][key]) for key in ("text", "alt")]
    for part in data.get("sections", []):
        found += [(part["title"], part[k]) for k in ("title", "text", "then") if k in part]
    for part in [*data.get("questions", []), *data.get("stops", [])]:
        keys = ("title", "text", "prompt", "explain")
        found += [(part["id"], part[k]) for k in keys if k in part]
        found += [(part["id"], option["text"]) for option in part.get("options", [])]
        found += [(part["id"], part["picture"]["title"])] if "picture" in part else []
    return found


# --- content --------------------------------------------------------------------------------------


def test_every_content_file_is_used() -> None:
    names = {path.stem for path in CONTENT.glob("*.toml")}
    assert names == {*topics(), "index", "tour"}
    assert [path.name for path in CONTENT.iterdir() if path.suffix != ".toml"] == []


@pytest.mark.costly
@pytest.mark.parametrize("topic", topics())
def test_facts_are_right(topic: str, expected: dict[str, list[dict[str, Any]]]) -> None:
    got = [dict(section.facts) for section in lesson(topic).sections]
    assert [set(part) for part in got] == [set(part) for part in expected[topic]]
    for part, right in zip(got, expected[topic], strict=True):
        for name, value in part.items():
            if isinstance(value, str):
                assert value == right[name], name
            else:
                margin = LOOSER.get(name, RELATIVE)
                close = math.isclose(value, right[name], rel_tol=margin, abs_tol=1e-12)
                assert close, f"{name}: {value}, where {right[name]} is right"


@pytest.mark.parametrize("topic", [*topics(), "index", "tour"])
def test_no_author_typed_a_number(topic: str) -> None:
    typed = {where: found for where, text in templates(topic) if (found := digits_typed(text))}
    assert not typed


def test_typed_numbers_would_be_found() -> None:
    assert digits_typed("The last wavelength is 60,611 positions.") == ["60,611"]
    assert digits_typed("Position 7 fits.") == ["7"]
    assert (
        digits_typed("The last wavelength is {last:,.0f}, 2π times as much; see [x](a1.md).") == []
    )


@pytest.mark.parametrize("topic", topics())
def test_every_fact_and_quotation_is_used(topic: str) -> None:
    data = load(topic)
    used: set[str] = set(fields(data["lead"]))
    for part in data["sections"]:
        here = fields(part.get("text", "")) | fields(part.get("then", ""))
        other = " ".join(part.get("facts", {}).values())
        unused = [
            name
            for name in part.get("facts", {})
            if name not in here | fields(data["lead"]) and not re.search(rf"\b{name}\b", other)
        ]
        assert not unused, part["title"]
        used |= here
    quoted = data.get("quoted", {})
    assert set(quoted) <= used
    kinds = ({"text", "source"}, {"text", "study"})
    assert all(set(entry) in kinds for entry in quoted.values())


def studied() -> dict[str, str]:
    """What `docs/study.md` shows: "task order, accuracy, none, 1L" and the number."""
    cells, task, metric, lengths = {}, "", "", []
    for line in shelf.whole(ROOT / "docs" / "study.md").splitlines():
        if line.startswith("## "):
            task = line.removeprefix("## Task ")
        elif line.startswith("In ") and line[3:].startswith(("accuracy", "nats", "exact", "apart")):
            last = " over the last 32" if "the last 32" in line else ""
            metric = re.split(r"[:,]| over", line[3:])[0] + last
            metric += " after training" if "after a short" in line else ""
        elif line.startswith("| encoding |"):
            lengths = [cell.split()[0] for cell in line.split("|")[2:-2]]
        elif line.startswith("|") and lengths:
            name, *numbers = [cell.strip() for cell in line.strip("|").split("|")]
            for length, number in zip(lengths, numbers, strict=False):
                place = f"task {task}, {metric}, {name}, {length}"
                cells[place] = number.split(" ±")[0]
        else:
            lengths = [] if not line.startswith("|") else lengths
    return cells


def test_what_is_quoted_of_the_study_stands_in_it() -> None:
    cells = studied()
    quotations = [
        (entry["study"], entry["text"])
        for topic in topics()
        for entry in load(topic).get("quoted", {}).values()
        if "study" in entry
    ]
    assert len(quotations) > 12
    assert {place: cells.get(place) for place, _ in quotations} == dict(quotations)


@pytest.mark.parametrize("topic", topics())
def test_every_lesson_names_its_sources(topic: str) -> None:
    assert any(re.search(r"arXiv:\d{4}\.\d{5}", source) for source in lesson(topic).sources)


@pytest.mark.parametrize("topic", [topic for topic in topics() if "configs" in load(topic)])
def test_configs_of_lessons_are_published_ones(topic: str) -> None:
    """Each key that a lesson copies out of a config has that value in the corpus."""
    rows = (ROOT / "tests" / "golden" / "configs" / "rows.jsonl").read_text("utf-8").splitlines()
    corpus = {row["id"]: row for row in map(json.loads, rows)}
    names: dict[str, Any] = fresh()
    for part in load(topic)["sections"]:
        run(part.get("code", ""), names, "test")
    for name, key in load(topic)["configs"].items():
        row = corpus[key]
        assert row["kind"] == "published"
        assert within(names[name], row["config"]), name
        said = next(s for s in lesson(topic).sources if f"`{name}`:" in s)
        assert row["repository"] in said
        assert row["commit"][:7] in said


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


@pytest.mark.parametrize("topic", topics())
def test_claims_are_in_the_prose(topic: str) -> None:
    for part in load(topic)["sections"]:
        prose = words(part.get("text", "") + " " + part.get("then", ""))
        claims = part.get("claims", {})
        assert all(words(claim) in prose for claim in claims), part["title"]
        assert claims or part.get("facts"), f"{part['title']}: nothing of it is checked"


def test_claims_of_the_tour_are_in_its_prose() -> None:
    for part in load("tour")["stops"]:
        assert all(claim in part["explain"] for claim in part.get("claims", {})), part["id"]


# --- content that is wrong ------------------------------------------------------------------------


def every_claim() -> list[tuple[str, int, str]]:
    return [
        (topic, i, claim)
        for topic in topics()
        for i, part in enumerate(load(topic)["sections"])
        for claim in part.get("claims", {})
    ]


@pytest.mark.parametrize("topic", topics())
def test_a_claim_that_fails_is_an_error(topic: str) -> None:
    names = fresh()
    for part in load(topic)["sections"]:
        run(part.get("code", ""), names, topic)
        for claim, expression in part.get("claims", {}).items():
            wrong = {**part, "claims": {claim: f"not ({expression})"}}
            with pytest.raises(posenc.DataError, match="holds"):
                lessons.facts_of(wrong, names, topic)
    data = copy.deepcopy(load(topic))
    claims = next(part["claims"] for part in data["sections"] if part.get("claims"))
    claims |= {claim: f"not ({expression})" for claim, expression in claims.items()}
    with pytest.raises(posenc.DataError, match="holds"):
        lessons.compute(topic, data)


def test_there_are_claims() -> None:
    assert len(every_claim()) > 60


SEE: dict[str, Any] = {
    "text": "S",
    "alt": "A",
    "after": "S",
    "state": {"v": "table"},
    "plot": "table",
}
HEAD: dict[str, Any] = {"title": "T", "lead": "L", "see": SEE}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"text": "{lasr}", "facts": {"last": "1"}}, "Did you mean 'last'"),
        ({"text": "{last:d}", "facts": {"last": "1.5"}}, "formats that fit"),
        ({"code": "1 / 0"}, "ZeroDivisionError"),
        ({"code": "1 +"}, "expected Python"),
        ({"facts": {"last": "nowhere"}}, "NameError"),
        ({"claims": {"it grows": "False"}}, "'it grows' holds"),
    ],
)
def test_mistakes_of_authors(part: dict[str, Any], message: str) -> None:
    data = {**HEAD, "sections": [{"title": "S", **part}]}
    with pytest.raises(posenc.DataError, match=re.escape(message)):
        lessons.compute("made up", data)


def test_a_photograph_of_a_lesson_is_of_its_state() -> None:
    photographed = {
        f"img/explorer/{name}.png": dict(parse_qsl(state))
        for name, (state, *_) in explorer_pictures.PICTURES.items()
    }
    lessons = {topic: load(topic)["see"] for topic in topics()}
    own = {topic: see for topic, see in lessons.items() if "picture" in see}
    assert own
    assert {topic: photographed[see["picture"]] for topic, see in own.items()} == {
        topic: see["state"] for topic, see in own.items()
    }


def test_a_figure_stands_behind_a_section() -> None:
    data = {**HEAD, "see": {**SEE, "after": "T"}, "sections": [{"title": "S"}]}
    with pytest.raises(posenc.DataError, match="the figure after one of"):
        lessons.compute("made up", data)


def test_unknown_topics() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'formula'"):
        lesson("formul")


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*topics(), "index", "tour"])
def test_pages_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / "learn" / f"{name}.md").read_text(encoding="utf-8")
    made = {"index": learn_pages.index, "tour": learn_pages.tour}.get(name, lambda: page(name))()
    assert text == made, "write them anew: python tools/learn_pages.py docs/learn"


@pytest.mark.costly
def test_writing_the_pages(tmp_path: Path) -> None:
    written = learn_pages.write(tmp_path)
    assert {path.name for path in written} == {
        f"{name}.md" for name in [*topics(), "index", "tour"]
    }
    kept = {path.name for path in (ROOT / "docs" / "learn").iterdir()}
    assert kept == {path.name for path in written}


def test_no_braces_are_left() -> None:
    for topic in topics():
        for section in lesson(topic).sections:
            assert not re.search(r"\{\w+(:[^}]*)?\}", section.before + section.after)


# --- parts ----------------------------------------------------------------------------------------


def test_transcripts_are_what_doctest_reads() -> None:
    code = """
def double(x):
    # a comment
    return 2 * x

double(4)
print("one", 2)
print("a\\n\\nb")
[double(x)
 for x in (1, 2)]
np.arange(3)
"""
    transcript = run(code, fresh(), "test")
    parsed = doctest.DocTestParser().get_doctest(str(transcript), {}, "made", None, None)
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(parsed, out=lambda text: None) == doctest.TestResults(0, 7)
    assert str(transcript).startswith(">>> import numpy as np\n")
    assert "<BLANKLINE>" in str(transcript)
    assert str(Transcript()) == ""


def test_code_does_not_see_what_it_did_not_make() -> None:
    with pytest.raises(posenc.DataError, match="NameError"):
        run("oracle", fresh(), "test")
    namespace = fresh()
    run("a = 1", namespace, "test")
    assert evaluate("a + 1", namespace, "test") == 2
    assert evaluate("np.float64(1.5)", namespace, "test") == 1.5
    assert type(evaluate("np.float64(1.5)", namespace, "test")) is float
    assert "print" not in namespace


def test_prose() -> None:
    assert fill("{a:.1f} and {b}", {"a": -1.25, "b": "x-y"}, "test") == "−1.2 and x-y"
    assert fill("{a:.1f}", {"a": -1.25}, "test", "plain") == "-1.2"


def test_draws_are_the_same_everywhere() -> None:
    draw = Draw("quiz", "rope", 7)
    assert [draw.below(1000) for _ in range(6)] == GOLDEN
    assert sorted(Draw(1).shuffled(range(50))) == list(range(50))
    assert Draw(1).shuffled(range(50)) != Draw(2).shuffled(range(50))
    counts = [0] * 6
    draw = Draw("fair")
    for _ in range(6000):
        counts[draw.below(6)] += 1
    assert min(counts) > 880
    assert max(counts) < 1120


ALONE = """
import sys
from posenc.learn import lesson, question, question_ids, stops, topics
for topic in topics():
    lesson(topic)
    for name in question_ids(topic):
        question(topic, name)
stops()
heavy = {"torch", "jax", "matplotlib", "scipy", "starlette", "transformers"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.costly
def test_learning_needs_numpy_alone() -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE],
        capture_output=True,
        text=True,
        env={**inherited, "PYTHONPATH": str(ROOT / "src")},
        timeout=120,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert done.stderr == ""
