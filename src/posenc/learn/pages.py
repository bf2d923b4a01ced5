"""Lessons as Markdown, for the documentation: `python -m posenc.learn docs/learn`.

Blocks of code carry the output that they had here, so that the tests of the documentation, which
run them again, see any difference.
"""

from __future__ import annotations

from pathlib import Path

from posenc.learn.lessons import Lesson, lesson, load, topics
from posenc.learn.questions import Choice, Question, question, question_ids

__all__ = ["index", "page", "write"]

FENCE = "```"


def page(topic: str) -> str:
    """The page of a topic: its lesson, then its questions with their answers folded away.

    Parameters
    ----------
    topic : str
        One of `posenc.learn.topics()`.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> from posenc.learn import page
    >>> page("frequencies").splitlines()[0]
    '# Frequencies and wavelengths'
    """
    made = lesson(topic)
    return "\n\n".join([*_lesson(made), *_questions(topic)]) + "\n"


def index() -> str:
    """The page that leads to all others."""
    lines = [f"- [{lesson(topic).title}]({topic}.md): {lesson(topic).lead}" for topic in topics()]
    count = sum(len(question_ids(topic)) for topic in topics())
    toctree = [f"{FENCE}{{toctree}}", ":maxdepth: 1", ":hidden:", "", *topics(), FENCE]
    data = load("index")
    return (
        "\n\n".join(
            [
                f"# {data['title']}",
                data["text"].strip().format(questions=count, topics=len(topics())),
                "\n".join(lines),
                "\n".join(toctree),
            ]
        )
        + "\n"
    )


def write(folder: Path) -> list[Path]:
    """Write every page into a folder, and say which they are."""
    texts = {"index": index(), **{topic: page(topic) for topic in topics()}}
    written = []
    for name, text in texts.items():
        written.append(folder / f"{name}.md")
        written[-1].write_text(text, encoding="utf-8")
    return written


def _lesson(made: Lesson) -> list[str]:
    parts = [f"# {made.title}", made.lead]
    for section in made.sections:
        parts.append(f"## {section.title}")
        shown = str(section.transcript)
        block = f"{FENCE}python\n{shown}\n{FENCE}" if shown else ""
        formula = f"{FENCE}text\n{section.formula}\n{FENCE}" if section.formula else ""
        parts += [part for part in (section.before, formula, block, section.after) if part]
    sources = load(made.topic).get("quoted", {})
    if sources:
        listed = [f"- {entry['text']}: {entry['source']}" for entry in sources.values()]
        parts += ["## Quoted, not computed", "\n".join(listed)]
    return parts


def _questions(topic: str) -> list[str]:
    parts = ["## Questions", f"With other numbers each time: `posenc quiz {topic}`."]
    for number, name in enumerate(question_ids(topic), 1):
        parts += _asked(question(topic, name), number)
    return parts


def _asked(asked: Question, number: int) -> list[str]:
    """A question, and its answer where it can be unfolded."""
    answer = asked.answer
    if isinstance(answer, Choice):
        options = "\n".join(f"- {text}" for _, text in answer.options)
        right = dict(answer.options)[answer.right]
    else:
        options, right = f"({answer.stated.capitalize()}.)", f"{answer.value:.6g}"
    return [
        f"**{number}.** {asked.prompt}",
        options,
        f"<details><summary>Answer</summary>\n\n**{right}** {asked.explanation}",
        f"{FENCE}python\n{asked.transcript}\n{FENCE}",
        "</details>",
    ]
