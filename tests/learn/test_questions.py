"""Questions: the proven answer is that of an oracle, is accepted, and others are not."""

from __future__ import annotations

import copy
import doctest
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

import posenc
from posenc.learn import Choice, Number, judge, question, question_ids, questions, quiz, topics
from posenc.learn.answers import LONGEST, letters
from posenc.learn.lessons import load
from tests.learn.texts import fields
from tests.oracles import learn_formulas, learn_questions as oracle

ALL = [(topic, name) for topic in topics() for name in question_ids(topic)]
SEEDS = range(12)
RELATIVE = 2e-6


def test_every_question_has_an_oracle() -> None:
    assert set(ALL) == set(oracle.ANSWERS)
    assert len(ALL) == len(set(ALL)) > 36
    assert min(len(question_ids(topic)) for topic in topics()) >= 2
    assert sum(question(topic, name).picture is not None for topic, name in ALL) >= 6


@pytest.mark.parametrize(("topic", "name"), ALL, ids=["-".join(pair) for pair in ALL])
def test_answers_are_right(topic: str, name: str) -> None:
    for seed in SEEDS:
        asked = question(topic, name, seed)
        right = oracle.ANSWERS[topic, name](asked.drawn)
        if isinstance(asked.answer, Choice):
            assert asked.answer.right == right, (seed, asked.prompt)
        else:
            close = math.isclose(asked.answer.value, right, rel_tol=RELATIVE)
            assert close, (seed, asked.prompt, right)


@pytest.mark.parametrize(("topic", "name"), ALL, ids=["-".join(pair) for pair in ALL])
def test_what_else_it_says_is_right(topic: str, name: str) -> None:
    part = template(topic, name)
    texts = [part["prompt"], part["explain"], *(o["text"] for o in part.get("options", []))]
    named = set().union(*map(fields, texts)) - set(part.get("draw", {})) - {"answer", "right"}
    said = oracle.SAID.get((topic, name), lambda x: {})
    for seed in SEEDS:
        asked = question(topic, name, seed)
        known = {**asked.drawn, **asked.facts}
        right = said(known)
        assert set(right) == named
        for key, value in right.items():
            if isinstance(value, str):
                assert known[key] == value, (seed, key)
            else:
                assert math.isclose(known[key], value, rel_tol=RELATIVE), (seed, key)


@pytest.mark.parametrize(("topic", "name"), ALL, ids=["-".join(pair) for pair in ALL])
def test_right_is_accepted_and_wrong_is_not(topic: str, name: str) -> None:
    for seed in range(3):
        asked = question(topic, name, seed)
        for line, kind in answers_to(asked):
            assert judge(asked, line).kind == kind, (asked.prompt, line)


def answers_to(asked: questions.Question) -> list[tuple[str, str]]:
    """Lines, and what each is worth."""
    answer = asked.answer
    if isinstance(answer, Choice):
        texts = dict(answer.options)
        lines = []
        for letter, option in letters(answer).items():
            kind = "right" if option == answer.right else "wrong"
            lines += [(line, kind) for line in (letter, f" {letter.upper()}) ", texts[option])]
        return lines
    value, margin = answer.value, answer.margin
    lines = [(repr(value), "right"), (f"{value:+}\r\n", "right"), (f"{value:e}", "right")]
    if margin:
        lines += [(repr(value + 0.99 * margin * sign), "right") for sign in (1, -1)]
        lines += [(repr(value + 1.01 * margin * sign), "wrong") for sign in (1, -1)]
    else:
        lines = [(str(value), "right"), (f"{value}.0", "right"), (f"{value:,}", "right")]
        lines += [(str(value + 1), "wrong"), (str(value - 1), "wrong"), (f"{value}.5", "wrong")]
    return lines


@pytest.mark.parametrize("topic", topics())
def test_checks_run_as_they_are_printed(topic: str) -> None:
    report: list[str] = []
    for name in question_ids(topic):
        for seed in range(2):
            text = str(question(topic, name, seed).transcript)
            assert text.count(">>> ") >= 2
            shown = [line for line in text.splitlines() if line[:4] in (">>> ", "... ")]
            assert max(map(len, shown)) <= 124
            test = doctest.DocTestParser().get_doctest(text, {}, f"{topic} {name}", None, None)
            doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "\n".join(report)


@pytest.mark.parametrize("topic", topics())
def test_questions_read_well(topic: str) -> None:
    for name in question_ids(topic):
        for seed in range(3):
            asked = question(topic, name, seed)
            for text in (asked.prompt, asked.explanation):
                assert text == text.strip()
                assert text[-1] in ".?)", text
                assert "{" not in text or "}" not in text
                assert "np." not in text
                assert "array(" not in text
            assert "$" not in str(asked.transcript)


def test_seeds() -> None:
    first = question("frequencies", "last-wavelength", 1)
    assert first.prompt == SEED_1
    prompts = {question("frequencies", "last-wavelength", seed).prompt for seed in range(20)}
    assert len(prompts) > 8
    assert quiz(seed=5, count=20) == quiz(seed=5, count=20)
    assert quiz(seed=5, count=20) != quiz(seed=6, count=20)
    assert [(q.topic, q.id) for q in quiz(seed=5, count=3)] == SEED_5


SEED_1 = "Width 64, base 1000: how many positions does the slowest pair take to a whole turn?"
SEED_5 = [("biases", "which-head"), ("rope", "both-moved"), ("inverse", "convention")]


def test_quizzes_do_not_repeat_themselves() -> None:
    for topic in (None, "rope", "learned"):
        asked = quiz(topic, seed=1, count=40)
        prompts = [q.prompt for q in asked]
        assert len(set(prompts)) == len(prompts)
        assert {q.topic for q in asked} <= ({topic} if topic else set(topics()))
    assert len(quiz("rope", seed=1, count=5)) == 5
    first = {q.id for q in quiz("rope", seed=1, count=5)}
    assert first == set(question_ids("rope"))
    assert len(quiz(seed=1, count=40)) == 40


@pytest.mark.parametrize("call", [lambda: quiz("ropes"), lambda: question("ropes", "partner")])
def test_unknown_topics(call: Any) -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'rope'"):
        call()


def test_unknown_questions() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'partner'"):
        question("rope", "partnre")


# --- what the generator refuses -------------------------------------------------------------------


def template(topic: str, name: str) -> dict[str, Any]:
    found = next(t for t in load(topic)["questions"] if t["id"] == name)
    return copy.deepcopy(dict(found))


def test_two_answers_are_refused() -> None:
    wrong = template("frequencies", "which-end")
    wrong["options"][1]["holds"] = wrong["options"][0]["holds"]
    with pytest.raises(posenc.DataError, match=r"one option that holds, got \['first', 'last'\]"):
        questions.make("frequencies", wrong, 0)


def test_no_answer_is_refused() -> None:
    wrong = template("frequencies", "which-end")
    wrong["options"][0]["holds"] = "False"
    with pytest.raises(posenc.DataError, match=r"one option that holds, got \[\]"):
        questions.make("frequencies", wrong, 0)


def test_options_that_read_alike_are_refused() -> None:
    wrong = template("frequencies", "which-end")
    wrong["options"][1]["text"] = wrong["options"][0]["text"]
    with pytest.raises(posenc.DataError, match="options that read differently"):
        questions.make("frequencies", wrong, 0)


@pytest.mark.costly
def test_ambiguous_inverse_questions_are_drawn_again() -> None:
    """With two digits, and without the proof, several positions would have the value."""
    proven = template("inverse", "from-a-value")
    proven["derive"]["value"] = proven["derive"]["value"].replace(".4f", ".2f")
    loose = {**proven, "proof": []}
    several = 0
    for seed in range(30):
        asked = questions.make("inverse", loose, seed)
        x = asked.drawn
        found = learn_formulas.matching({x["at"]: x["value"]}, x["d"], x["n"], x["limit"], 2)
        several += len(found) != 1
        certain = questions.make("inverse", proven, seed).drawn
        value = {certain["at"]: certain["value"]}
        found = learn_formulas.matching(value, certain["d"], certain["n"], certain["limit"], 2)
        assert found == [certain["p"]]
    assert several > 5


def test_a_question_without_a_provable_draw_is_an_error() -> None:
    wrong = {**template("inverse", "from-a-value"), "proof": ["False"], "code": "1"}
    with pytest.raises(posenc.DataError, match="a draw whose answer is proven"):
        questions.make("inverse", wrong, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [("math.inf", "a finite number"), ("'8'", "a finite number"), ("True", "a finite number")],
)
def test_answers_that_are_no_numbers_are_refused(answer: str, message: str) -> None:
    wrong = {**template("adding", "more-weights"), "answer": answer}
    with pytest.raises(posenc.DataError, match=message):
        questions.make("adding", wrong, 0)


def test_a_margin_is_needed_where_the_answer_is_no_whole_number() -> None:
    wrong = template("adding", "length")
    del wrong["relative"]
    with pytest.raises(posenc.DataError, match="no margin is stated"):
        questions.make("adding", wrong, 0)


# --- hostile lines --------------------------------------------------------------------------------

NUMBER = questions.Question("t", "i", {}, "?", Number(2.5, 0.1, "to within 0.1"), "", None, {})
CHOICE = questions.Question(
    "t", "i", {}, "?", Choice((("x", "Yes"), ("y", "No")), "y"), "", None, {}
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "empty line"),
        (" \t\n", "empty line"),
        ("abc", "is no number"),
        ("nan", "is no number"),
        ("inf", "is no number"),
        ("-infinity", "is no number"),
        ("1e999", "too large"),
        ("9" * 79, "wrong"),
        ("9" * 81, f"more than {LONGEST} characters"),
        ("2,5", "a comma that can mean two things"),
        ("1,00", "a comma that can mean two things"),
        ("2.5.", "is no number"),
        ("0x10", "is no number"),
        ("٢", "is no number"),
        ("2.5; import os", "is no number"),
        ("\x1b[31m2", "\N{REPLACEMENT CHARACTER}[31m2"),
        ("2.5", "right"),
        ("2.45", "right"),
        ("+2.5e0", "right"),
        ("\N{MINUS SIGN}2.5", "wrong"),
        ("2,500", "wrong"),
        ("2_500", "wrong"),
    ],
)
def test_lines_for_a_number(line: str, reason: str) -> None:
    verdict = judge(NUMBER, line)
    assert reason in (verdict.kind, *([verdict.reason] if verdict.reason else [])) or (
        verdict.kind == "unreadable" and reason in verdict.reason
    )
    assert "\x1b" not in verdict.reason
    assert (verdict.kind == "unreadable") == bool(verdict.reason)


@pytest.mark.parametrize(
    ("line", "kind"),
    [("b", "right"), ("B.", "right"), ("no", "right"), ("a", "wrong"), ("yes", "wrong")]
    + [(line, "unreadable") for line in ("", "c", "ab", "1", "x", "y", "n" * 100)],
)
def test_lines_for_a_choice(line: str, kind: str) -> None:
    assert judge(CHOICE, line).kind == kind


@pytest.mark.costly
@given(st.text(max_size=100))
def test_no_line_breaks_it(line: str) -> None:
    for asked in (NUMBER, CHOICE):
        verdict = judge(asked, line)
        assert verdict.kind in {"right", "wrong", "unreadable"}
        assert all(c.isprintable() for c in verdict.reason)


@pytest.mark.slow("learn", release=True)
@pytest.mark.parametrize(("topic", "name"), ALL, ids=["-".join(pair) for pair in ALL])
def test_many_seeds(topic: str, name: str) -> None:
    for seed in range(1000, 1150):
        asked = question(topic, name, seed)
        right = oracle.ANSWERS[topic, name](asked.drawn)
        if isinstance(asked.answer, Choice):
            assert asked.answer.right == right, (seed, asked.prompt)
        else:
            assert math.isclose(asked.answer.value, right, rel_tol=RELATIVE), (seed, asked.prompt)
