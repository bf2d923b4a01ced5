"""Lessons: sections of prose, the code that computes what the prose says, and claims that hold."""

from __future__ import annotations

import functools
import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple

from posenc._core.errors import one_of, refuse_data
from posenc.learn._content import Transcript, evaluate, fill, fresh, run

# In the order in which they are best read.
TOPICS = (
    "attention",
    "why",
    "formula",
    "adding",
    "frequencies",
    "binary",
    "offsets",
    "extrapolation",
    "learned",
    "rope",
    "biases",
    "grids",
    "models",
    "stretching",
    "inverse",
    "mistakes",
)


class Section(NamedTuple):
    """A part of a lesson.

    Parameters
    ----------
    title : str
        Its heading.
    before : str
        The prose before the code, in Markdown, numbers filled in.
    formula : str
        An equation as a paper prints it, or nothing.
    transcript : Transcript
        The code and what it printed.
    after : str
        The prose after the code.
    facts : mapping
        The values that the prose names.

    Examples
    --------
    >>> from posenc.learn import lesson
    >>> section = lesson("binary").sections[0]
    >>> section.title, section.facts["digits"]
    ('The bits of a position', '10010110')
    """

    title: str
    before: str
    formula: str
    transcript: Transcript
    after: str
    facts: Mapping[str, Any]


class See(NamedTuple):
    """The figure of a lesson.

    Parameters
    ----------
    text : str
        What it shows, as a caption.
    alt : str
        What it looks like, for readers who do not see it.
    after : str
        The title of the section that it stands behind.
    state : mapping of str to str
        Its state of the explorer.
    plot : str, optional
        What `posenc plot` draws it with.
    picture : str, optional
        Where it has no plot, its picture in the documentation.

    Examples
    --------
    >>> from posenc.learn import lesson
    >>> lesson("rope").see.address
    '#v=rotate&d=64&m=40&off=7'
    """

    text: str
    alt: str
    after: str
    state: Mapping[str, str]
    plot: str = ""
    picture: str = ""

    @property
    def address(self) -> str:
        """The state as it stands in the address."""
        return "#" + urllib.parse.urlencode(self.state, quote_via=urllib.parse.quote)


class Lesson(NamedTuple):
    """What there is to know about a topic.

    Parameters
    ----------
    topic : str
        One of `posenc.learn.topics()`.
    title, lead : str
        The heading, and the answer in a sentence.
    sections : tuple of Section
        In their order.
    see : See
        Its figure, which is a state of the explorer.
    sources : tuple of str
        Papers, studies and files, each with its place.

    Examples
    --------
    >>> from posenc.learn import lesson
    >>> lesson("why").title, len(lesson("why").sections)
    ('Why positions', 4)
    """

    topic: str
    title: str
    lead: str
    sections: tuple[Section, ...]
    see: See
    sources: tuple[str, ...]


def topics() -> tuple[str, ...]:
    """The topics, in the order in which they are best read.

    Returns
    -------
    tuple of str
        Names for `lesson`, `page` and `quiz`.

    Examples
    --------
    >>> from posenc.learn import topics
    >>> topics()[:4]
    ('attention', 'why', 'formula', 'adding')
    """
    return TOPICS


@functools.cache
def load(name: str) -> dict[str, Any]:
    """A content file as it stands, templates unfilled."""
    file = resources.files("posenc.learn") / "content" / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


@functools.cache
def lesson(topic: str) -> Lesson:
    """A lesson, computed.

    Parameters
    ----------
    topic : str
        One of `topics()`.

    Returns
    -------
    Lesson
        Its sections, with numbers and output filled in.

    Raises
    ------
    ArgumentError
        If there is no such topic; the message suggests the nearest one.
    DataError
        If a claim of the content does not hold.

    Examples
    --------
    >>> from posenc.learn import lesson
    >>> lesson("frequencies").sections[0].facts["last"] > 60_000
    True
    """
    return compute(topic, content_of(topic))


def content_of(topic: str) -> dict[str, Any]:
    """The content file of a topic; raises for what is none."""
    one_of(topic, TOPICS, "learn", "a topic")
    return load(topic)


def compute(topic: str, data: Mapping[str, Any]) -> Lesson:
    """The lesson of a content file that has been read."""
    namespace = fresh()
    quoted = {name: entry["text"] for name, entry in data.get("quoted", {}).items()}
    sections = []
    for i, part in enumerate(data["sections"]):
        caller = f"learn: {topic}, section {i + 1}"
        transcript = run(part.get("code", ""), namespace, caller)
        facts = facts_of(part, namespace, caller)
        values = quoted | facts
        before, after = (fill(part.get(key, ""), values, caller) for key in ("text", "then"))
        formula = part.get("formula", "").strip("\n")
        sections.append(Section(part["title"], before, formula, transcript, after, facts))
    everything = quoted | {k: v for section in sections for k, v in section.facts.items()}
    lead = fill(data["lead"], everything, f"learn: {topic}")
    refuse_data(
        data["see"]["after"] not in {section.title for section in sections},
        f"learn: {topic}",
        f"the figure after one of {[section.title for section in sections]}",
        repr(data["see"]["after"]),
    )
    see = {**data["see"], "alt": fill(data["see"]["alt"], everything, f"learn: {topic}, alt")}
    return Lesson(topic, data["title"], lead, tuple(sections), See(**see), tuple(_sources(data)))


def _sources(data: Mapping[str, Any]) -> Iterator[str]:
    """Papers first, then what else was quoted, with what it says."""
    yield from data.get("sources", ())
    studied: dict[str, list[str]] = {}
    for entry in data.get("quoted", {}).values():
        if "study" in entry:
            task, metric, where = entry["study"].split(", ", 2)
            studied.setdefault(f"{task}, {metric}", []).append(f"{entry['text']} ({where})")
        else:
            yield f"{entry['text']}: {entry['source']}"
    for measured, numbers in studied.items():
        yield f"[The study](../study.md), {measured}: {'; '.join(numbers)}; L is the trained length"


def facts_of(part: Mapping[str, Any], namespace: dict[str, Any], caller: str) -> dict[str, Any]:
    """The facts of a part of a content file, once its claims have been found to hold."""
    facts: dict[str, Any] = {}
    # A fact may be called as a variable of the code is; expressions mean the variable.
    for name, expression in part.get("facts", {}).items():
        facts[name] = evaluate(expression, facts | namespace, f"{caller}, {name}")
    for words, expression in part.get("claims", {}).items():
        refuse_data(
            not evaluate(expression, facts | namespace, f"{caller}, {words!r}"),
            caller,
            f"that {words!r} holds",
            f"{expression} is false",
        )
    return facts
