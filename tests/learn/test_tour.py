"""The tour: every stop opens in the explorer, every question is answered, right and wrong."""

from __future__ import annotations

import copy
import doctest
import functools
import json
import math
import shlex
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc.cli import app
from posenc.explore import frame, unpack
from posenc.learn import lesson, stop, stops, topics, tour
from posenc.learn.lessons import load
from tests.learn.texts import fields
from tests.oracles import learn as oracle

COUNT = len(load("tour")["stops"])
NUMBERS = range(1, COUNT + 1)
RELATIVE = 2e-6


def opened(state: dict[str, str]) -> dict[str, Any]:
    """What the explorer shows of a state; tests read it and leave it as it is."""
    return _opened(tuple(state.items()))


@functools.cache
def _opened(state: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return dict(unpack(frame(dict(state))).header)


expected_stops = functools.cache(oracle.stops)


def revealed(n: int) -> dict[str, str]:
    """The state of a stop with its answer."""
    before = stop(n)
    return {**before["state"], **before["reveal"]}


def test_there_are_about_eight() -> None:
    assert 8 <= COUNT <= 10
    assert len({s.id for s in stops()}) == COUNT


@pytest.mark.parametrize("n", NUMBERS)
def test_a_stop_opens(n: int) -> None:
    for state, answered in ((stop(n)["state"], False), (revealed(n), True)):
        header = opened(state)
        assert header["problems"] == []
        assert header["notes"] == []
        assert header["view"] == state["v"]
        kept = {key: header["state"].get(key) for key in state}
        assert kept == state
        told = stop(n, revealed=answered)
        # Where the answer changes the picture, the sentence on it is about what was there before.
        changed = answered and n in (1, 4, 5, 6, 9)
        before = "Before the answer: " if changed else ""
        assert header["tour"] == {**told, "text": before + told["text"]}


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("answered", [False, True])
def test_the_number_of_a_stop_alone_opens_its_picture(n: int, answered: bool) -> None:
    whole = revealed(n) if answered else stop(n)["state"]
    alone = {"tour": str(n), **({"reveal": "1"} if answered else {})}
    assert frame(alone) == frame(whole)


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize(
    "other",
    [{"v": "bias", "enc": "alibi"}, {"v": "waves", "d": "30"}, {"b.enc": "learned"}, {"L": "77"}],
)
def test_a_stop_says_nothing_of_another_picture(n: int, other: dict[str, str]) -> None:
    header = opened({**stop(n)["state"], **other})
    told, expected = header["tour"], stop(n)["state"]
    mine = opened(expected)
    if header["panels"] == mine["panels"]:  # a key that this view does not have
        assert told["question"] == stop(n)["question"]
        return
    assert told["question"] == ""
    assert told["text"] != stop(n)["text"]
    assert told["here"] == expected
    assert opened(told["here"])["tour"] == stop(n)


def test_a_cursor_that_has_moved_is_told() -> None:
    header = opened({**stop(3)["state"], "p": "50"})
    assert header["tour"]["text"].endswith("Moved since: Position 50.")
    assert header["tour"]["question"] == stop(3)["question"]


@pytest.mark.parametrize("topic", topics())
def test_what_a_lesson_points_at_opens(topic: str) -> None:
    see = lesson(topic).see
    state = dict(urllib.parse.parse_qsl(see.address.removeprefix("#")))
    assert state == see.state
    header = opened(state)
    assert header["problems"] == []
    assert not [note for note in header["notes"] if "address" in note]
    assert {key: header["state"].get(key) for key in state} == state


@pytest.mark.parametrize("topic", topics())
def test_a_lesson_has_a_picture_without_a_script(topic: str) -> None:
    see = lesson(topic).see
    if see.picture:
        assert not see.plot
        assert (Path(__file__).resolve().parents[2] / "docs" / see.picture).is_file()
    else:
        assert see.plot


@pytest.mark.parametrize("topic", [topic for topic in topics() if "plot" in load(topic)["see"]])
def test_the_command_of_a_lesson_draws(topic: str) -> None:
    result = CliRunner().invoke(app, ["plot", *shlex.split(lesson(topic).see.plot)])
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) >= 2  # what it is of, and what it shows


@pytest.mark.parametrize("n", NUMBERS)
def test_the_answer_moves_the_picture(n: int) -> None:
    before, after = opened(stop(n)["state"]), opened(revealed(n))
    assert (before["readout"], before["find"]) != (after["readout"], after["find"])


@pytest.mark.parametrize("n", NUMBERS)
def test_nothing_is_given_away(n: int) -> None:
    before = stop(n)
    assert before["right"] is None
    assert before["explanation"] is None
    assert before["answered"] is False
    after = stop(n, revealed=True)
    told = json.dumps({k: v for k, v in before.items() if k != "state"}, ensure_ascii=False)
    assert after["explanation"] not in told
    assert len({choice["text"] for choice in before["choices"]}) == len(before["choices"])


@pytest.mark.parametrize("n", NUMBERS)
def test_every_answer(n: int) -> None:
    """Each choice is right or wrong as the oracle has it."""
    right, _ = expected_stops()[stops()[n - 1].id]
    after = stop(n, revealed=True)
    outcomes = {choice["id"]: choice["id"] == after["right"] for choice in after["choices"]}
    assert outcomes.pop(right) is True
    assert outcomes
    assert not any(outcomes.values())
    assert after["explanation"][-1] == "."


def test_the_right_answer_has_no_fixed_place() -> None:
    places = {
        [choice["id"] for choice in stop(n)["choices"]].index(stop(n, revealed=True)["right"])
        for n in NUMBERS
    }
    assert len(places) > 2


@pytest.mark.parametrize("n", NUMBERS)
def test_facts_are_right(n: int) -> None:
    here = stops()[n - 1]
    _, expected = expected_stops()[here.id]
    assert set(here.facts) == set(expected)
    for name, value in here.facts.items():
        if isinstance(value, str):
            assert value == expected[name]
        else:
            assert math.isclose(value, expected[name], rel_tol=RELATIVE), name


@pytest.mark.parametrize("n", NUMBERS)
def test_every_fact_is_used(n: int) -> None:
    part = load("tour")["stops"][n - 1]
    texts = [part[k] for k in ("title", "text", "prompt", "explain")]
    texts += [option["text"] for option in part["options"]]
    texts += [*part["state"].values(), *part["reveal"].values()]
    assert set(part.get("facts", {})) == set().union(*map(fields, texts)) - {"right"}


def test_the_way_through() -> None:
    state: dict[str, str] | None = stop(1)["state"]
    seen = []
    while state is not None:
        shown = stop(int(state["tour"]))
        seen.append(shown["n"])
        assert shown["of"] == COUNT
        if shown["previous"] is not None:
            assert shown["previous"] == stop(shown["n"] - 1)["state"]
        assert "reveal" not in state
        state = shown["next"]
    assert seen == list(NUMBERS)


def test_what_a_newcomer_takes_home() -> None:
    said = {here.id: f"{here.text} {here.explanation}" for here in stops()}
    assert "Dimension 0 turns once in 6.28 positions" in said["fast-end"]
    assert "so 93 it is" in said["repeat"]
    assert "18 are slowed by the whole factor" in said["yarn"]
    assert "At distance 100, the first head adds −50" in said["alibi"]


@pytest.mark.parametrize("n", NUMBERS)
def test_its_code_runs(n: int) -> None:
    report: list[str] = []
    text = str(stops()[n - 1].transcript)
    test = doctest.DocTestParser().get_doctest(text, {}, "stop", None, None)
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "\n".join(report)


@pytest.mark.parametrize("n", [0, -1, COUNT + 1, 99])
def test_no_such_stop(n: int) -> None:
    with pytest.raises(posenc.ArgumentError, match=f"a stop from 1 to {COUNT}"):
        stop(n)


@pytest.mark.parametrize("n", NUMBERS)
def test_a_stop_that_is_wrong_is_an_error(n: int) -> None:
    part = load("tour")["stops"][n - 1]
    right = stops()[n - 1].choice.right
    for option in range(len(part["options"])):
        wrong = copy.deepcopy(part)
        holds = wrong["options"][option]["id"] == right
        wrong["options"][option]["holds"] = str(not holds)
        with pytest.raises(posenc.DataError, match="one option that holds"):
            tour.compute(wrong)
    for claim, expression in part.get("claims", {}).items():
        wrong = copy.deepcopy(part)
        wrong["claims"][claim] = f"not ({expression})"
        with pytest.raises(posenc.DataError, match="holds"):
            tour.compute(wrong)
