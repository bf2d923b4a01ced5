"""What a typed line answers: right, wrong, or not an answer, and why."""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from posenc.learn.questions import Choice, Number, Question

LONGEST = 80
SIGNS = str.maketrans(
    {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "_": "", "\N{NO-BREAK SPACE}": ""}
)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)


class Verdict(NamedTuple):
    """What a line was worth.

    Parameters
    ----------
    kind : {"right", "wrong", "unreadable"}
        Whether it answers the question.
    reason : str
        What was expected, where it is no answer at all.

    Examples
    --------
    >>> from posenc.learn import judge, question
    >>> judge(question("adding", "length"), "")
    Verdict(kind='unreadable', reason='an empty line answers nothing; type a number.')
    """

    kind: Literal["right", "wrong", "unreadable"]
    reason: str = ""


def letters(choice: Choice) -> dict[str, str]:
    """The letter of each option, to its name: a, b, c in the order shown."""
    return {chr(ord("a") + i): name for i, (name, _) in enumerate(choice.options)}


def judge(question: Question, line: str) -> Verdict:
    """Whether a line answers a question.

    Parameters
    ----------
    question : Question
        What was asked.
    line : str
        What was typed: a number, or the letter of an option or its whole text.

    Returns
    -------
    Verdict
        Right, wrong, or unreadable with the reason.

    Examples
    --------
    >>> from posenc.learn import judge, question
    >>> asked = question("biases", "alibi-distance", seed=1)
    >>> judge(asked, str(asked.answer.value)).kind, judge(asked, "minus a lot").kind
    ('right', 'unreadable')
    """
    if len(line) > LONGEST:
        return Verdict("unreadable", f"that line has more than {LONGEST:,} characters.")
    text = line.strip()
    answer = question.answer
    return _chosen(answer, text) if isinstance(answer, Choice) else _typed(answer, text)


def _chosen(choice: Choice, text: str) -> Verdict:
    named = letters(choice)
    listed = ", ".join(named)
    if not text:
        return Verdict("unreadable", f"an empty line answers nothing; type one of {listed}.")
    texts = {" ".join(shown.lower().split()): name for name, shown in choice.options}
    name = named.get(text.lower().rstrip(".)")) or texts.get(" ".join(text.lower().split()))
    return (
        Verdict("unreadable", f"{_shown(text)} is none of {listed}.")
        if name is None
        else Verdict("right" if name == choice.right else "wrong")
    )


def _typed(number: Number, text: str) -> Verdict:
    if not text:
        return Verdict("unreadable", "an empty line answers nothing; type a number.")
    plain = text.translate(SIGNS)
    if THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    if not NUMBER.fullmatch(plain):
        why = (
            "has a comma that can mean two things; write 0.5 with a point, and 1,000 or 1000."
            if "," in plain
            else "is no number, such as -1.5 or 2e3."
        )
        return Verdict("unreadable", f"{_shown(text)} {why}")
    value = float(plain)
    if not math.isfinite(value):
        return Verdict("unreadable", f"{_shown(text)} is too large to be a number here.")
    return Verdict("right" if abs(value - number.value) <= number.margin else "wrong")


def _shown(text: str) -> str:
    """A typed text, fit to be shown again."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return repr(clean if len(clean) <= 24 else clean[:23] + "…")
