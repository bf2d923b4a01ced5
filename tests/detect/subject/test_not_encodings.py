"""What encodes no position is refused in words, soon and after few calls."""

from __future__ import annotations

import functools
import time
from typing import Any

import pytest

import posenc
from tests.detect.subject.not_encodings import NOT_ENCODINGS, SLOW, leaves, of_torch

SECONDS = 10.0
CALLS = 1_500


class Counted:
    """What is handed over, called through here."""

    def __init__(self, target: Any) -> None:
        self.target, self.calls = target, 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self.target(*arguments, **named)


def refusal(target: Any) -> str:
    """What is wrong with how it is refused; empty where nothing is."""
    begun = time.perf_counter()
    try:
        subject = posenc.ask(target)
    except posenc.CannotAsk as error:
        text = str(error)
    else:
        return f"taken for {subject.kind}: {subject.how}"
    if (taken := time.perf_counter() - begun) > SECONDS:
        return f"refused after {taken:.1f} s"
    return "" if len(text.split()) > 6 and "Traceback" not in text else f"no sentence: {text}"


@pytest.mark.costly
def test_what_encodes_nothing_is_refused_in_words() -> None:
    refusals = {name: refusal(target) for name, target in NOT_ENCODINGS.items()}
    assert not {name: words for name, words in refusals.items() if words}


@pytest.mark.costly
def test_over_torch_too() -> None:
    pytest.importorskip("torch")
    refusals = {name: refusal(target) for name, target in of_torch().items()}
    assert not {name: words for name, words in refusals.items() if words}


@pytest.mark.slow("detect/subject")
@pytest.mark.parametrize("name", SLOW)
def test_what_takes_long_is_given_up(name: str) -> None:
    assert not refusal(SLOW[name])


def test_code_that_ends_the_process_is_named() -> None:
    with pytest.raises(posenc.EndedError, match="leaves"):
        posenc.ask(leaves)


def test_a_refusal_has_the_error_of_the_function() -> None:
    with pytest.raises(posenc.CannotAsk, match="no such luck"):
        posenc.ask(NOT_ENCODINGS["raises"])


def test_a_refusal_takes_few_calls() -> None:
    for name in ("layer norm", "attention", "relu", "adds", "cumsum"):
        counted = Counted(NOT_ENCODINGS[name])
        functools.update_wrapper(counted, counted.target)
        with pytest.raises(posenc.CannotAsk):
            posenc.ask(counted)
        assert counted.calls <= CALLS, name
