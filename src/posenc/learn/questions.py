"""Questions, drawn by a seed and proven before they are asked, and the small pictures of some.

A question of a content file holds

    id        its name
    draw      names and the values one of which each takes: a list, or {from, to}
    where     expressions of the draws that must hold, or another draw is made
    derive    names and expressions of the draws
    code      the check, with `$name` for what was drawn or derived
    proof     expressions that must hold, or the draw is thrown away
    facts     names and expressions for the prose
    prompt    the question
    answer    an expression, for a number; with `relative` or `absolute`, or exact
    options   for a choice: id, text, and `holds`, which is true of one option alone
    picture   title, and an expression for the rows: a dictionary of labels and numbers
    explain   what to say after the answer
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Literal, NamedTuple

from posenc._core.errors import bad_data, one_of, refuse_data
from posenc.learn._content import Draw, Transcript, evaluate, fill, fresh, run
from posenc.learn.lessons import TOPICS, content_of, facts_of

MOST = 64  # points of a row: as many as a line of a terminal has room for
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, GAP, LEFT = 480, 56, 14, 64


class Sketch(NamedTuple):
    """Rows of numbers, drawn one above the other on one scale.

    Parameters
    ----------
    title : str
        What is drawn, and over what.
    rows : tuple of (str, tuple of float)
        The label of each row, and its numbers.

    Examples
    --------
    >>> from posenc.learn import question
    >>> picture = question("rope", "which-score").picture
    >>> [label for label, values in picture.rows]
    ['A', 'B', 'C']
    """

    title: str
    rows: tuple[tuple[str, tuple[float, ...]], ...]


def sketch_of(title: str, rows: Mapping[str, Sequence[float]], caller: str) -> Sketch:
    """The picture of rows that were computed."""
    picture = Sketch(title, tuple((k, tuple(map(float, v))) for k, v in rows.items()))
    lengths = [len(values) for _, values in picture.rows] or [0]
    fits = 2 <= min(lengths) <= max(lengths) <= MOST
    refuse_data(not fits, caller, f"rows of 2 to {MOST:,} numbers", lengths)
    return picture


def svg(picture: Sketch) -> str:
    """The picture as SVG in the colour of the text around it, on a line of its own."""
    height = len(picture.rows) * (HEIGHT + GAP)
    shapes = []
    for row, (label, heights) in enumerate(_scaled(picture)):
        top = row * (HEIGHT + GAP) + GAP / 2
        step = (WIDTH - LEFT) / (len(heights) - 1)
        points = " ".join(
            f"{LEFT + i * step:.1f},{top + HEIGHT * (1 - y):.1f}" for i, y in enumerate(heights)
        )
        shapes.append(
            f'<text x="0" y="{top + HEIGHT / 2 + 5:.0f}" fill="currentColor">{escape(label)}</text>'
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        )
    return (
        f'<svg viewBox="0 -4 {WIDTH + 4} {height + 8}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(picture.title)}" font-size="15">{"".join(shapes)}</svg>'
    )


def blocks(picture: Sketch) -> str:
    """The picture as a line of block characters for each row."""
    wide = max(len(label) for label, _ in picture.rows)
    lines = [picture.title]
    for label, heights in _scaled(picture):
        marks = "".join(BLOCKS[min(int(y * len(BLOCKS)), len(BLOCKS) - 1)] for y in heights)
        lines.append(f"{label.ljust(wide)}  {marks}")
    return "\n".join(lines)


def _scaled(picture: Sketch) -> Iterator[tuple[str, list[float]]]:
    """The rows between 0 and 1, all on one scale."""
    every = [value for _, values in picture.rows for value in values]
    low, span = min(every), (max(every) - min(every)) or 1.0
    for label, values in picture.rows:
        yield label, [(value - low) / span for value in values]


TRIES = 200  # draws, until one has an answer that is the only one


class Choice(NamedTuple):
    """An answer to be chosen.

    Parameters
    ----------
    options : tuple of (str, str)
        Name and text of each, in the order shown.
    right : str
        The name of the one that holds; the others have been proven not to.

    Examples
    --------
    >>> from posenc.learn import question
    >>> question("offsets", "elsewhere").answer.right
    'offset'
    """

    options: tuple[tuple[str, str], ...]
    right: str


class Number(NamedTuple):
    """An answer to be typed.

    Parameters
    ----------
    value : float or int
        The answer.
    margin : float
        How far off an answer may be; 0 for whole numbers.
    stated : str
        The margin in words.

    Examples
    --------
    >>> from posenc.learn import question
    >>> question("formula", "value").answer.stated
    'to within 0.005'
    """

    value: float
    margin: float
    stated: str


class Question(NamedTuple):
    """A question with its answer, which has been proven to exist and to be the only one.

    Parameters
    ----------
    topic, id : str
        Where it stands in the content.
    drawn : mapping
        What the seed decided.
    prompt : str
        The question.
    answer : Choice or Number
        The answer, and what counts as right.
    explanation : str
        What to say afterwards.
    transcript : Transcript
        The check, as it ran.
    facts : mapping
        The values that its texts name besides what was drawn.
    picture : Sketch, optional
        What the question is about, where it is about a picture.

    Examples
    --------
    >>> from posenc.learn import question
    >>> print(question("frequencies", "last-wavelength", seed=1).prompt)
    Width 64, base 1000: how many positions does the slowest pair take to a whole turn?
    """

    topic: str
    id: str
    drawn: Mapping[str, Any]
    prompt: str
    answer: Choice | Number
    explanation: str
    transcript: Transcript
    facts: Mapping[str, Any]
    picture: Sketch | None = None


def question_ids(topic: str) -> tuple[str, ...]:
    """The names of the questions of a topic.

    Parameters
    ----------
    topic : str
        One of `posenc.learn.topics()`.

    Returns
    -------
    tuple of str
        In the order of the content.

    Examples
    --------
    >>> from posenc.learn import question_ids
    >>> "last-wavelength" in question_ids("frequencies")
    True
    """
    return tuple(_templates(topic))


@functools.lru_cache(maxsize=1024)
def question(topic: str, id: str, seed: int = 0) -> Question:  # noqa: A002
    """A question of the content, drawn by a seed.

    Parameters
    ----------
    topic : str
        One of `posenc.learn.topics()`.
    id : str
        One of `question_ids(topic)`.
    seed : int
        Decides the numbers in it, on any machine in the same way.

    Returns
    -------
    Question
        With a proven answer.

    Raises
    ------
    ArgumentError
        If there is no such topic or question.
    DataError
        If the content has no draw whose answer can be proven.

    Examples
    --------
    >>> from posenc.learn import question
    >>> asked = question("biases", "alibi-distance", seed=1)
    >>> asked.answer.value < 0
    True
    """
    templates = _templates(topic)
    one_of(id, templates, f"learn: {topic}", "a question")
    return make(topic, templates[id], seed)


def quiz(topic: str | None = None, *, seed: int = 0, count: int = 5) -> tuple[Question, ...]:
    """Questions in an order that the seed decides, all different.

    Parameters
    ----------
    topic : str, optional
        One of `posenc.learn.topics()`; all of them by default.
    seed : int
        Decides which questions, and the numbers in them.
    count : int
        How many; fewer come where the content has no more that differ.

    Returns
    -------
    tuple of Question
        The questions.

    Examples
    --------
    >>> from posenc.learn import quiz
    >>> quiz("rope", seed=3, count=2) == quiz("rope", seed=3, count=2)
    True
    """
    draw = Draw("quiz", topic or "", seed)
    pool = [(t, i) for t in ([topic] if topic else TOPICS) for i in question_ids(t)]
    questions: dict[str, Question] = {}  # by their prompts
    for turn in range(1 + count):  # a question may come again, with other numbers
        before = len(questions)
        for name, which in draw.shuffled(pool):
            if len(questions) == count:
                return tuple(questions.values())
            asked = question(name, which, seed + turn)
            questions.setdefault(asked.prompt, asked)
        if len(questions) == before:
            break
    return tuple(questions.values())


def _templates(topic: str) -> dict[str, Mapping[str, Any]]:
    return {template["id"]: template for template in content_of(topic)["questions"]}


# --- one question ---------------------------------------------------------------------------------


def make(topic: str, template: Mapping[str, Any], seed: int) -> Question:
    """The question of a template, for the first draw whose answer is proven."""
    caller = f"learn: {topic}, question {template['id']}"
    draw = Draw("question", topic, template["id"], seed)
    for _ in range(TRIES):
        drawn = _drawn(template, draw, caller)
        if drawn is None:
            continue
        namespace = fresh() | drawn
        code = string.Template(template.get("code", ""))
        transcript = run(code.substitute(drawn), namespace, caller)
        if all(evaluate(proof, namespace, caller) for proof in template.get("proof", ())):
            computed = facts_of(template, namespace, caller)
            facts = drawn | computed
            answer, more = _answer(template, namespace, facts, draw, caller)
            return Question(
                topic=topic,
                id=template["id"],
                drawn=drawn,
                prompt=fill(template["prompt"], facts, caller, "plain"),
                answer=answer,
                explanation=fill(template["explain"], facts | more, caller, "plain"),
                transcript=transcript,
                facts=computed,
                picture=_picture(template, namespace, facts, caller),
            )
    raise bad_data(caller, "a draw whose answer is proven", f"none in {TRIES} draws")


def _picture(
    template: Mapping[str, Any], namespace: dict[str, Any], facts: dict[str, Any], caller: str
) -> Sketch | None:
    if "picture" not in template:
        return None
    title = fill(template["picture"]["title"], facts, caller, "plain")
    return sketch_of(
        title, evaluate(template["picture"]["rows"], facts | namespace, caller), caller
    )


def _drawn(template: Mapping[str, Any], draw: Draw, caller: str) -> dict[str, Any] | None:
    """What chance and the derived expressions give; None where `where` does not hold."""
    drawn: dict[str, Any] = {
        name: draw.choice(
            range(values["from"], values["to"] + 1) if isinstance(values, Mapping) else values
        )
        for name, values in template.get("draw", {}).items()
    }
    if not all(evaluate(condition, drawn, caller) for condition in template.get("where", ())):
        return None
    for name, expression in template.get("derive", {}).items():
        drawn[name] = evaluate(expression, drawn, caller)
    return drawn


def _answer(
    template: Mapping[str, Any],
    namespace: dict[str, Any],
    facts: dict[str, Any],
    draw: Draw,
    caller: str,
) -> tuple[Choice | Number, dict[str, Any]]:
    """The answer, and what the explanation may say of it."""
    if "options" in template:
        choice = choice_of(template["options"], facts | namespace, facts, caller, "plain")
        right = {"right": dict(choice.options)[choice.right]}
        if "picture" in template:  # whose labels stand in their order
            return choice, right
        return choice._replace(options=tuple(draw.shuffled(choice.options))), right
    number = _number(template, facts | namespace, caller)
    return number, {"answer": number.value}


def choice_of(
    options: list[Mapping[str, str]],
    namespace: dict[str, Any],
    facts: Mapping[str, Any],
    caller: str,
    signs: Literal["typeset", "plain"],
) -> Choice:
    """The options with their texts, and the one that holds."""
    texts = [fill(option["text"], facts, caller, signs) for option in options]
    true = [option["id"] for option in options if evaluate(option["holds"], namespace, caller)]
    refuse_data(len(true) != 1, caller, "one option that holds", true)
    refuse_data(len(set(texts)) < len(texts), caller, "options that read differently", texts)
    return Choice(tuple(zip((o["id"] for o in options), texts, strict=True)), true[0])


def _number(template: Mapping[str, Any], namespace: dict[str, Any], caller: str) -> Number:
    value = evaluate(template["answer"], namespace, caller)
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    refuse_data(
        not plain or not math.isfinite(value), caller, "a finite number as the answer", repr(value)
    )
    if "relative" in template:
        part = template["relative"]
        return Number(value, part * abs(value), f"to within {100 * part:g} %")
    if "absolute" in template:
        return Number(value, template["absolute"], f"to within {template['absolute']:g}")
    if not isinstance(value, int):
        raise bad_data(caller, "a whole number, as no margin is stated", repr(value))
    return Number(value, 0, "a whole number")
