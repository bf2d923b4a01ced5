"""Lessons as Markdown, and the quiz as a page; `tools/learn_pages.py` writes those of the docs.

Blocks of code carry the output that they had here, so that the tests of the documentation, which
run them again, see any difference. The build of the documentation writes `see/TOPIC.png`,
`../seen/TOPIC.html` and `quiz.html` beside the pages, and the pictures of questions into them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import Any

from posenc.learn._content import Transcript
from posenc.learn.lessons import Lesson, See, lesson, topics
from posenc.learn.questions import Choice, Question, Sketch, question, question_ids, svg

FENCE = "```"
SEEDS = range(1, 5)  # draws of each question of the quiz in the browser; 0 is that of the lessons


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
    imported = {source for part in text.sections for source, _ in part.transcript.steps}
    return joined([*_lesson(text), *_questions(topic, imported)])


def _lesson(content: Lesson) -> list[str]:
    parts = [f"# {content.title}", content.lead]
    for section in content.sections:
        parts.append(f"## {section.title}")
        shown = str(section.transcript)
        block = f"{FENCE}python\n{shown}\n{FENCE}" if shown else ""
        formula = f"{FENCE}text\n{section.formula}\n{FENCE}" if section.formula else ""
        parts += [part for part in (section.before, formula, block, section.after) if part]
        if section.title == content.see.after:
            parts.append(_figure(content.topic, content.see))
    return [*parts, "## Sources", "\n".join(f"- {source}" for source in content.sources)]


def _figure(topic: str, see: See) -> str:
    """The figure of a lesson: a picture, which a script of the pages replaces by the live one."""
    plot = f",\nor with <code>posenc plot {escape(see.plot)} -o picture.png</code>"
    return (
        f'<figure class="lesson" data-live="../seen/{topic}.html">\n'
        f'<img src="see/{topic}.png" alt="{escape(see.alt)}">\n'
        f"<figcaption>{escape(see.text[0].upper() + see.text[1:])}. See it "
        f'<a href="../seen/{topic}.html">alone</a>,\n'
        f"in <code>posenc explore</code> at <code>{escape(see.address)}</code>"
        f"{plot if see.plot else ''}.\n"
        "</figcaption>\n</figure>"
    )


def _questions(topic: str, imported: set[str]) -> list[str]:
    parts = [
        "## Questions",
        f'Also <a href="quiz.html#{topic}">in the browser</a>, and as `posenc quiz {topic}`.',
    ]
    for number, name in enumerate(question_ids(topic), 1):
        parts += _asked(question(topic, name), number, imported)
    return parts


def _asked(asked: Question, number: int, imported: set[str]) -> list[str]:
    """A question, and its answer where it can be unfolded; a page imports a module once."""
    prompt = f"**{number}.** {asked.prompt}"
    if asked.picture is not None:
        file = f"../_generated/questions/{asked.topic}-{asked.id}.html"
        prompt += f"\n\n{FENCE}{{raw}} html\n:file: {file}\n{FENCE}"
    steps = asked.transcript.steps
    imports = {source for source, _ in steps if source.startswith("import ")}
    transcript = Transcript(tuple(s for s in steps if s[0] not in imports & imported))
    imported |= imports
    answer = asked.answer
    if isinstance(answer, Choice):
        options = "\n".join(f"- {text}" for _, text in answer.options)
        right = dict(answer.options)[answer.right]
    else:
        options, right = f"({answer.stated.capitalize()}.)", f"{answer.value:.6g}"
    return [
        prompt,
        options,
        f"<details><summary>Answer</summary>\n\n**{right}** {asked.explanation}",
        f"{FENCE}python\n{transcript}\n{FENCE}",
        "</details>",
    ]


def drawn(picture: Sketch) -> str:
    """The picture of a question as HTML, its numbers folded away for readers who do not see it."""
    rows = "".join(
        f"<li>{escape(label)}: {', '.join(f'{value:.3g}' for value in values)}</li>"
        for label, values in picture.rows
    )
    return (
        f"<figure>{svg(picture)}<figcaption>{escape(picture.title)}</figcaption></figure>"
        f"<details><summary>The numbers of the picture</summary><ul>{rows}</ul></details>"
    )


# --- the quiz in the browser ----------------------------------------------------------------------


def quiz_page() -> str:
    """All questions as one page that needs neither Python nor a network.

    Several draws of each were made and proven here; the page only compares what is typed.

    Returns
    -------
    str
        HTML; `#TOPIC` behind its address asks the questions of one topic.

    Examples
    --------
    >>> from posenc.learn import quiz_page
    >>> "https://" in quiz_page()
    False
    """
    draws = [
        question(topic, name, seed)
        for topic in topics()
        for name in question_ids(topic)
        for seed in SEEDS
    ]
    data = {
        "titles": {topic: lesson(topic).title for topic in topics()},
        # Draws of few values come again.
        "questions": list({(q.prompt, q.picture): _described(q) for q in draws}.values()),
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    html = (resources.files("posenc.learn") / "quiz.html").read_text(encoding="utf-8")
    for name in ("style", "script"):
        inner = html.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        html = html.replace(f"HASH-OF-{name.upper()}", digest)
    return html.replace("QUESTIONS", text, 1)


def _described(asked: Question) -> dict[str, Any]:
    """A question as the page has it."""
    return {
        "topic": asked.topic,
        "id": asked.id,
        "prompt": asked.prompt,
        "picture": "" if asked.picture is None else drawn(asked.picture),
        **asked.answer._asdict(),
        "explanation": asked.explanation,
        "check": str(asked.transcript),
    }


def joined(parts: list[str]) -> str:
    """The parts of a page, a line apart."""
    return "\n\n".join(parts) + "\n"
