"""`posenc quiz`: a dialogue that ends well whatever comes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import posenc
from posenc.cli import app
from posenc.learn import Choice, question_ids, quiz, topics
from posenc.learn.answers import letters

COMMAND = [sys.executable, "-m", "posenc.cli", "quiz"]


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["quiz", *arguments], input=text)


def lines_for(topic: str | None, seed: int, count: int) -> list[str]:
    """The right line for each question."""
    typed = []
    for asked in quiz(topic, seed=seed, count=count):
        answer = asked.answer
        if isinstance(answer, Choice):
            typed.append(next(k for k, name in letters(answer).items() if name == answer.right))
        else:
            typed.append(repr(answer.value))
    return typed


def test_every_answer_right() -> None:
    typed = lines_for(None, 3, 12)
    result = run("--seed", "3", "--count", "12", text="\n".join(typed) + "\n")
    assert result.exit_code == 0
    assert result.output.count("Right. ") == 12
    assert "No. " not in result.output
    for asked in quiz(seed=3, count=12):
        assert asked.prompt in " ".join(result.output.split())
        for line in str(asked.transcript).splitlines():
            assert f"    {line}\n" in result.output


def test_a_wrong_answer_shows_the_right_one() -> None:
    result = run("biases", "--seed", "4", "--count", "5", text="12345.678\nb\n" * 5)
    assert result.exit_code == 0
    for asked in quiz("biases", seed=4, count=5)[:1]:
        assert asked.explanation in " ".join(result.output.split())
    assert "No. " in result.output


@pytest.mark.parametrize("topic", topics())
def test_topics(topic: str) -> None:
    count = len(question_ids(topic))
    typed = lines_for(topic, 11, count)
    result = run(topic, "--seed", "11", "--count", str(count), text="\n".join(typed) + "\n")
    assert result.exit_code == 0
    assert result.output.count("Right. ") == count


def test_the_end_of_the_input() -> None:
    result = run("rope", "--seed", "1", text="")
    assert result.exit_code == 0
    assert result.output.endswith("No more answers came; that was all.\n")
    typed = lines_for("rope", 1, 2)
    result = run("rope", "--seed", "1", "--count", "2", text=typed[0])  # no newline at the end
    assert result.output.count("Right. ") == 1
    assert result.output.endswith("that was all.\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "an empty line answers nothing; type a number."),
        ("abc", "'abc' is no number"),
        ("nan", "'nan' is no number"),
        ("1e999", "'1e999' is too large"),
        ("7" * 5000, "more than 80 characters"),
        ("\x1b[2J", "is no number"),
        ("1,5", "a comma that can mean two things"),
    ],
)
def test_hostile_lines_are_asked_again(line: str, reason: str) -> None:
    right = lines_for("frequencies", 3, 1)[0]
    arguments = ("frequencies", "--seed", "3", "--count", "1")
    result = run(*arguments, text=f"{line}\n{right}\n")
    assert result.exit_code == 0
    assert "Not counted: " in result.output
    assert reason in result.output
    assert "Right. " in result.output
    assert "\x1b" not in result.output
    assert max(map(len, result.output.splitlines())) < 140


def test_nonsense_without_end_comes_to_an_end() -> None:
    result = run("rope", "--seed", "1", "--count", "2", text="\n" * 1000)
    assert result.exit_code == 0
    assert result.output.count("Not counted") == 10
    assert result.output.count("on to the answer") == 2


def test_skip_help_and_quit() -> None:
    result = run("rope", "--seed", "1", "--count", "3", text="?\ns\nQ\n")
    assert result.exit_code == 0
    assert result.output.count("The answer: ") == 1
    assert re.search(r"> Type (a number|one of)", result.output)
    assert "3 of 3" not in result.output


def test_show() -> None:
    result = run("models", "--show", "--seed", "2", "--count", "4")
    assert result.exit_code == 0
    assert result.output.count("Answer: ") == 4
    assert "s skips" not in result.output
    assert result.output == run("models", "--show", "--seed", "2", "--count", "4").output
    assert "--seed 2 --count 4" in result.output


@pytest.mark.costly
def test_list() -> None:
    result = run("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines() if line[0] != " "] == [*topics()]
    one = json.loads(run("rope", "--list", "--json").output)["topics"]
    assert [row["questions"] for row in one] == [list(question_ids("rope"))]


def test_json() -> None:
    made = json.loads(run("--seed", "9", "--count", "20", "--json").output)
    assert made["seed"] == 9
    assert [row["id"] for row in made["questions"]] == [q.id for q in quiz(seed=9, count=20)]
    for row in made["questions"]:
        if row["kind"] == "choice":
            assert row["right"] in {option["id"] for option in row["options"]}
        else:
            assert isinstance(row["right"], (int, float))
        assert row["check"].startswith(">>> ")


def test_a_seed_is_drawn_and_told() -> None:
    first, second = (run("--count", "1", "--show").output for _ in range(2))
    seeds = [re.search(r"--seed (\d+)", text) for text in (first, second)]
    assert all(seeds)
    again = run("--count", "1", "--show", "--seed", seeds[0][1]).output
    assert again == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ropes"], "Did you mean 'rope'?"),
        (["--count", "0"], "0 is not in the range"),
        (["--count", "1000"], "1000 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--seed", "x"], "'x' is not a valid integer"),
    ],
)
def test_mistakes(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


# --- as a process ---------------------------------------------------------------------------------


def environment(**more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**inherited, "PYTHONPATH": str(Path(posenc.__file__).parents[1]), **more}


@pytest.mark.costly
def test_the_same_questions_in_another_process() -> None:
    calls = [["--seed", "1", "--json"], ["rope", "--seed", "1", "--json"]]
    script = f"""
from click.testing import CliRunner
from posenc.cli import app
print("".join(CliRunner().invoke(app, ["quiz", *words]).output for words in {calls}), end="")
"""
    done = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            env=environment(PYTHONHASHSEED=seed),
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert done[0] == done[1] == "".join(run(*words).output for words in calls).encode()


@pytest.mark.costly
def test_bytes_that_are_no_text_and_a_stream_without_unicode() -> None:
    done = subprocess.run(
        [*COMMAND, "rope", "--seed", "1", "--count", "1"],
        input=b"\xff\xfe\x00\n",
        capture_output=True,
        env=environment(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii:strict"),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert b"Not counted" in done.stdout
    assert done.stderr == b""
    assert b"\x1b" not in done.stdout  # no colour in a pipe


@pytest.mark.costly
def test_a_closed_keyboard() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "rope", "--seed", "1"],
        capture_output=True,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b"that was all.\n")


@pytest.mark.costly
def test_ctrl_c() -> None:
    process = subprocess.Popen(
        [*COMMAND, "rope", "--seed", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        seen = b""
        deadline = time.monotonic() + 60
        while not seen.endswith(b"> ") and time.monotonic() < deadline:
            seen += process.stdout.read(1)
        assert seen.endswith(b"> ")
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert error == b"posenc: stopped by SIGINT; no unfinished file is left\n"
