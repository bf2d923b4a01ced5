"""Lessons as Markdown, for the documentation: `python -m posenc.learn docs/learn`.

Blocks of code carry the output that they had here, so that the tests of the documentation, which
run them again, see any difference.
"""

from __future__ import annotations

from pathlib import Path

from posenc.learn._prose import fill
from posenc.learn._snippets import Transcript
from posenc.learn.lessons import Lesson, See, lesson, load, topics
from posenc.learn.questions import Choice, Number, Question, question, question_ids
from posenc.learn.tour import stops

__all__ = ["index", "page", "tour", "write"]

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
    text = lesson(topic)
    return _joined([*_lesson(text), *_questions(topic)])


def index() -> str:
    """The page that leads to all others."""
    data = load("index")
    values = {
        "questions": sum(len(question_ids(topic)) for topic in topics()),
        "topics": len(topics()),
        "stops": len(stops()),
    }
    lines = [f"- [{lesson(topic).title}]({topic}.md): {lesson(topic).lead}" for topic in topics()]
    lines.append(f"- [{data['tour']['title']}](tour.md): {data['tour']['lead']}")
    toctree = [f"{FENCE}{{toctree}}", ":maxdepth: 1", ":hidden:", "", *topics(), "tour", FENCE]
    text = fill(data["text"], values, "learn: index")
    return _joined([f"# {data['title']}", text, "\n".join(lines), "\n".join(toctree)])


def tour() -> str:
    """The page of the tour: its stops without their pictures."""
    data = load("index")["tour"]
    parts = [f"# {data['title']}", data["lead"], data["text"].strip()]
    for number, here in enumerate(stops(), 1):
        parts += [f"## {number}. {here.title}", here.text]
        parts += _folded(here.question, here.choice, here.explanation, here.transcript)
    return _joined(parts)


def write(folder: Path) -> list[Path]:
    """Write every page into a folder, and say which they are."""
    texts = {"index": index(), "tour": tour(), **{topic: page(topic) for topic in topics()}}
    written = []
    for name, text in texts.items():
        written.append(folder / f"{name}.md")
        written[-1].write_text(text, encoding="utf-8")
    return written


def _lesson(content: Lesson) -> list[str]:
    parts = [f"# {content.title}", content.lead]
    for section in content.sections:
        parts.append(f"## {section.title}")
        shown = str(section.transcript)
        block = f"{FENCE}python\n{shown}\n{FENCE}" if shown else ""
        formula = f"{FENCE}text\n{section.formula}\n{FENCE}" if section.formula else ""
        parts += [part for part in (section.before, formula, block, section.after) if part]
    parts += ["## See it", _pictures(content.see)]
    sources = load(content.topic).get("quoted", {})
    if sources:
        listed = [f"- {entry['text']}: {entry['source']}" for entry in sources.values()]
        parts += ["## Quoted, not computed", "\n".join(listed)]
    return parts


def _pictures(see: See) -> str:
    """Where there is a picture of a lesson."""
    return (
        f"{see.text[0].upper()}{see.text[1:]}: `posenc explore` at `{see.address}`, or as a file:\n"
        f"`posenc plot {see.plot} -o picture.png`."
    )


def _questions(topic: str) -> list[str]:
    parts = ["## Questions", f"With other numbers each time: `posenc quiz {topic}`."]
    for number, name in enumerate(question_ids(topic), 1):
        parts += _asked(question(topic, name), number)
    return parts


def _asked(asked: Question, number: int) -> list[str]:
    prompt = f"**{number}.** {asked.prompt}"
    return _folded(prompt, asked.answer, asked.explanation, asked.transcript)


def _folded(
    prompt: str, answer: Choice | Number, explanation: str, transcript: Transcript
) -> list[str]:
    """A question, and its answer where it can be unfolded."""
    if isinstance(answer, Choice):
        options = "\n".join(f"- {text}" for _, text in answer.options)
        right = dict(answer.options)[answer.right]
    else:
        options, right = f"({answer.stated.capitalize()}.)", f"{answer.value:.6g}"
    return [
        prompt,
        options,
        f"<details><summary>Answer</summary>\n\n**{right}** {explanation}",
        f"{FENCE}python\n{transcript}\n{FENCE}",
        "</details>",
    ]


def _joined(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"
