"""A guided tour of the explorer: at each stop a question first, and then what answers it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc._core.errors import bad_argument
from posenc.learn._content import Draw, Transcript, fill, fresh, run
from posenc.learn.lessons import facts_of, load
from posenc.learn.questions import Choice, choice_of


class Stop(NamedTuple):
    """A stop, its answer included.

    Parameters
    ----------
    id, title, text : str
        Its name, its heading, and a sentence on what is on screen.
    question : str
        What to predict.
    choice : Choice
        The answers, and which of them was proven to hold.
    explanation : str
        What to say once the answer is out.
    state, reveal : mapping of str to str
        The explorer's state, and what of it changes with the answer.
    transcript : Transcript
        The code that decided.
    facts : mapping
        The values that the texts name.
    """

    id: str
    title: str
    text: str
    question: str
    choice: Choice
    explanation: str
    state: Mapping[str, str]
    reveal: Mapping[str, str]
    transcript: Transcript
    facts: Mapping[str, Any]


@functools.cache
def stops() -> tuple[Stop, ...]:
    """The stops of the tour, in their order.

    Returns
    -------
    tuple of Stop
        With all numbers computed.

    Raises
    ------
    DataError
        If a claim of the content does not hold, or a question has not one answer.

    Examples
    --------
    >>> from posenc.learn import stops
    >>> stops()[0].title
    'What does attention see without positions?'
    """
    return tuple(compute(part) for part in load("tour")["stops"])


def stop(n: int, *, revealed: bool = False) -> dict[str, Any]:
    """A stop as the explorer shows it.

    Parameters
    ----------
    n : int
        Its number, from 1.
    revealed : bool
        Whether the answer is out. Before, neither it nor the explanation is in the result.

    Returns
    -------
    dict
        Plain JSON types: `n`, `of`, `title`, `text`, `question`, `choices`, `answered`, `right`,
        `explanation`, the changes of state of `reveal`, and the states of `next` and `previous`.

    Raises
    ------
    ArgumentError
        If there is no such stop.

    Examples
    --------
    >>> from posenc.learn import stop
    >>> stop(1)["right"], stop(1, revealed=True)["right"]
    (None, 'none')
    """
    places = stops()
    if not 1 <= n <= len(places):
        raise bad_argument("learn: tour", f"a stop from 1 to {len(places)}", n)
    here = places[n - 1]
    return {
        "n": n,
        "of": len(places),
        "title": here.title,
        "text": here.text,
        "question": here.question,
        "choices": [{"id": name, "text": text} for name, text in here.choice.options],
        "answered": revealed,
        "right": here.choice.right if revealed else None,
        "explanation": here.explanation if revealed else None,
        "state": state_of(n),
        "reveal": {**here.reveal, "tour": str(n), "reveal": "1"},
        "next": state_of(n + 1) if n < len(places) else None,
        "previous": state_of(n - 1) if n > 1 else None,
    }


def state_of(n: int) -> dict[str, str]:
    """The whole state of a stop before its answer is out."""
    return {**stops()[n - 1].state, "tour": str(n)}


def compute(part: Mapping[str, Any]) -> Stop:
    """The stop of a part of the content."""
    caller = f"learn: tour, {part['id']}"
    namespace = fresh()
    transcript = run(part["code"], namespace, caller)
    facts = facts_of(part, namespace, caller)
    choice = choice_of(part["options"], facts | namespace, facts, caller, "typeset")
    choice = choice._replace(options=tuple(Draw("tour", part["id"]).shuffled(choice.options)))
    return Stop(
        id=part["id"],
        title=fill(part["title"], facts, caller),
        text=fill(part["text"], facts, caller),
        question=fill(part["prompt"], facts, caller),
        choice=choice,
        explanation=fill(
            part["explain"], facts | {"right": dict(choice.options)[choice.right]}, caller
        ),
        state=_filled(part["state"], facts, caller),
        reveal=_filled(part["reveal"], facts, caller),
        transcript=transcript,
        facts=facts,
    )


def _filled(state: Mapping[str, str], facts: Mapping[str, Any], caller: str) -> dict[str, str]:
    """A state; what it has in common with a sentence comes from the same fact."""
    return {key: fill(value, facts, caller, "plain") for key, value in state.items()}
