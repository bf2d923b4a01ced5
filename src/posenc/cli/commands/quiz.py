"""`posenc quiz`: questions about positional encodings, and the code that answers them."""

from __future__ import annotations

import io
import secrets
import sys
from typing import Any, TextIO

import click

from posenc import learn
from posenc._core.errors import suggest
from posenc.cli.options.common import as_json, count_of, refuse
from posenc.cli.output.lines import (
    print_definitions,
    print_json,
    print_lines,
)
from posenc.learn.answers import letters
from posenc.learn.questions import blocks

MOST = 200
LONGEST_LINE = 4096  # of which one character too many is enough to refuse it
PATIENCE = 5  # lines that are no answer, before a question is given up: `yes '' | posenc quiz` ends
COMMANDS = {"?": "help", "s": "skip", "q": "quit"}


@click.command(
    epilog="""\b
Examples:
  posenc quiz
  posenc quiz frequencies --seed 7
  posenc quiz rope --show
  posenc quiz --list
"""
)
@click.argument("topic", required=False)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Which questions and numbers.")
@click.option(
    "--count", type=click.IntRange(1, MOST), default=5, help="How many questions. [default: 5]"
)
@click.option("--list", "list_", is_flag=True, help="List the topics.")
@click.option("--show", is_flag=True, help="Print the questions with their answers; ask nothing.")
@as_json
def command(
    *, topic: str | None, seed: int | None, count: int, list_: bool, show: bool, json_: bool
) -> None:
    """Answer questions about positional encodings.

    Each question was proven to have one answer before it is asked, and the code that proves it is
    shown with its output afterwards. The same --seed asks the same questions on any machine. No
    score is kept.
    """
    refuse(
        topic is not None and topic not in learn.topics(),
        f"{topic!r} is no topic. {suggest(topic, learn.topics())}",
    )
    if list_:
        _list(topic, json_)
        return
    seed = secrets.randbelow(100_000) if seed is None else seed
    asked = learn.quiz(topic, seed=seed, count=count)
    if json_:
        print_json({"topic": topic, "seed": seed, "questions": [_described(q) for q in asked]})
        return
    again = f"posenc quiz{f' {topic}' if topic else ''} --seed {seed} --count {count}"
    print_lines([f"{count_of(asked, 'question')}; for the same again: {again}"])
    if show:
        for number, question in enumerate(asked, 1):
            _put(question, number, len(asked))
            _solve(question, "Answer:")
        return
    click.echo("s skips a question, q ends, ? says what can be typed.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # whatever bytes come
    _ask_all(asked, io.StringIO() if sys.stdin is None else sys.stdin)


def _list(topic: str | None, json_: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "topic": name,
            "title": learn.lesson(name).title,
            "lead": learn.lesson(name).lead,
            "questions": list(learn.question_ids(name)),
        }
        for name in ([topic] if topic else learn.topics())
    ]
    if json_:
        print_json({"topics": rows})
    else:
        leads = [
            (row["topic"], f"{row['lead']} ({len(row['questions'])} questions)") for row in rows
        ]
        print_definitions({"": leads})


def _described(question: learn.Question) -> dict[str, Any]:
    answer = question.answer
    if isinstance(answer, learn.Choice):
        options = [{"id": name, "text": text} for name, text in answer.options]
        about: dict[str, Any] = {"kind": "choice", "options": options, "right": answer.right}
    else:
        about = {"kind": "number", "right": answer.value, "margin": answer.margin}
    return {
        "topic": question.topic,
        "id": question.id,
        "prompt": question.prompt,
        **about,
        "picture": question.picture and question.picture._asdict(),
        "explanation": question.explanation,
        "check": str(question.transcript),
    }


# --- a dialogue -----------------------------------------------------------------------------------


def _ask_all(asked: tuple[learn.Question, ...], lines: TextIO) -> None:
    for number, question in enumerate(asked, 1):
        _put(question, number, len(asked))
        outcome = _answer(question, lines)
        if outcome in {"end", "quit"}:
            click.echo("" if outcome == "quit" else "\nNo more answers came; that was all.")
            return
        _solve(question, {"right": "Right.", "wrong": "No.", "skip": "The answer:"}[outcome])


def _put(question: learn.Question, number: int, total: int) -> None:
    click.echo()
    click.echo(click.style(f"{number} of {total}, {question.topic}", dim=True))
    print_lines([question.prompt])
    if question.picture is not None:
        click.echo(f"\n{blocks(question.picture)}\n")
    answer = question.answer
    if isinstance(answer, learn.Choice):
        texts = dict(answer.options)
        for letter, name in letters(answer).items():
            print_lines([f"  {letter}) {texts[name]}"])
    else:
        click.echo(f"  ({answer.stated})")


def _answer(question: learn.Question, lines: TextIO) -> str:
    """The word for what came: right, wrong, skip, quit, or end."""
    for _ in range(PATIENCE):
        click.echo("> ", nl=False)
        if (line := _line(lines)) is None:
            return "end"
        word = COMMANDS.get(line.strip().lower())
        if word in {"skip", "quit"}:
            return word
        verdict = learn.judge(question, line)
        if word == "help":
            print_lines([_help(question)])
        elif verdict.kind != "unreadable":
            return verdict.kind
        else:
            print_lines([f"Not counted: {verdict.reason}"])
    click.echo("That is enough of those; on to the answer.")
    return "skip"


def _line(lines: TextIO) -> str | None:
    """The next line, cut where it is longer than any answer; None where there is none."""
    rest = line = lines.readline(LONGEST_LINE)
    while rest and not rest.endswith("\n"):
        rest = lines.readline(LONGEST_LINE)
    return line.rstrip("\n") if line else None


def _help(question: learn.Question) -> str:
    if isinstance(question.answer, learn.Choice):
        return f"Type one of {', '.join(letters(question.answer))}, or s, or q."
    return f"Type a number ({question.answer.stated}), such as -1.5 or 2e3, or s, or q."


def _solve(question: learn.Question, verdict: str) -> None:
    answer = question.answer
    if isinstance(answer, learn.Choice):
        letter = next(letter for letter, name in letters(answer).items() if name == answer.right)
        right = f"{letter}) {dict(answer.options)[answer.right]}"
    else:
        right = f"{answer.value:.6g}" if isinstance(answer.value, float) else str(answer.value)
    print_lines([f"{verdict} {right}", question.explanation, ""])
    for line in str(question.transcript).splitlines():
        click.echo(f"    {line}")
