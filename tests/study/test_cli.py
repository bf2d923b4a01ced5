"""The command: a tiny grid from end to end, interruption, and mistakes of users."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import posenc
import posenc_study
from posenc_study.claims.registered import claims
from posenc_study.commands import options
from posenc_study.commands.study import command
from posenc_study.grid import TIERS, Narrowing, cells, factors_of, seeds_of
from posenc_study.model.encodings import kebab
from posenc_study.results.store import read_store

FOLDERS = [str(Path(package.__file__).parents[1]) for package in (posenc, posenc_study)]
SOURCES = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])
TINY = ["steps=2", "batch=2", "width=8", "heads=2", "hidden=8", "examples=4"]
SET = [part for text in TINY for part in ("--set", text)]


def invoke(*args: str) -> Result:
    return CliRunner().invoke(command, list(args))


@pytest.mark.costly
def test_a_tiny_grid_from_run_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`smoke` with almost no steps: run, run again, look, report, export, report of the export."""
    run = ("run", "smoke", *SET, "--workers", "1", "--json")
    monkeypatch.chdir(tmp_path)
    words = ("study", *run)
    monkeypatch.setattr("sys.argv", ["posenc", *words])
    done = invoke(*run)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "store": "study.sqlite", "finished": 4, "failed": 0, "skipped": 0, "deaths": 0
    }  # fmt: skip
    assert "4 of 4 cells" in done.stderr
    results = read_store(tmp_path / "study.sqlite")
    assert {r.cell.encoding for r in results.records} == set(TIERS["smoke"][0].encodings)
    assert results.provenances[0]["posenc"] == posenc.__version__
    assert results.provenances[0]["command"] == shlex.join(["posenc", *words])

    again = invoke(*run)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["skipped"] == 4

    store = str(tmp_path / "study.sqlite")
    status = json.loads(invoke("status", "smoke", "--store", store, "--json").output)
    assert status["tasks"] == {"order": {"finished": 4, "failed": 0}}
    assert status["left"] == 4, "cells of other settings are others"

    out = tmp_path / "out"
    told = invoke("report", "--store", store, "-o", str(out), "--json")
    assert told.exit_code == 0, told.output
    assert [v["claim"] for v in json.loads(told.output)["verdicts"]] == [c.id for c in claims()]
    assert invoke("export", "--store", store, "-o", str(tmp_path / "csv")).exit_code == 0
    other = tmp_path / "other"
    assert invoke("report", "--from", str(tmp_path / "csv"), "-o", str(other)).exit_code == 0
    page = (out / "study.md").read_text(encoding="utf-8")
    assert f"posenc-study\n{shlex.join(['posenc', *words])}\nposenc study report" in page
    assert "1 seed, where a verdict takes at least 2" in page
    for name in ("study.md", "study.html", "img/study-order.png"):
        assert (out / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.costly
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow("cli"))])
def test_an_interrupted_run_says_how_to_go_on(workers: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    arguments = (
        "run",
        "quick",
        "--tasks",
        "order",
        *SET,
        "--set",
        "steps=25",
        "--workers",
        workers,
    )
    with subprocess.Popen(
        [sys.executable, "-m", "posenc.cli", "study", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as driver:
        store = tmp_path / "study.sqlite"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if store.exists() and read_store(store).records:
                break
            time.sleep(0.2)
        # As a terminal does it: to the workers as well.
        os.killpg(driver.pid, signal.SIGINT)
        _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGINT, errors
    kept = len(read_store(store).records)
    assert 0 < kept < 96
    assert f"{kept} of 96 cells are finished and in study.sqlite." in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "standrad"), "Did you mean 'standard'"),
        (("run", "smoke", "--tasks", "ordr"), "Did you mean 'order'"),
        (("run", "smoke", "--encodings", "rop"), "Did you mean 'rope'"),
        (("run", "smoke", "--seeds", "a"), "--seeds"),
        (("run", "smoke", "--seeds", "0"), "--seeds"),
        (("run", "smoke", "--seeds", "40"), "at most 22 seeds"),
        (("run", "smoke", "--lengths", "1,x"), "--lengths"),
        (("run", "smoke", "--set", "stps=3"), "Did you mean 'steps'"),
        (("run", "smoke", "--set", "steps"), "NAME=VALUE"),
        (("run", "smoke", "--set", "steps=many"), "is no number"),
        (("run", "smoke", "--set", "data=abc"), "--data"),
        (("run", "smoke", "--workers", "2", "--cluster", "tcp://a:1"), "one of them"),
        (("run", "smoke", "--data", "FILE"), "name the task"),
        (("status", "--store", "none.sqlite"), "no store at none.sqlite"),
        (("report", "--store", "none.sqlite"), "no store at none.sqlite"),
        (("report", "--store", "FILE"), "a store of the study"),
        (("report", "--format", "pfd"), "'pfd'"),
        (("export", "--store", "FILE", "-o", "x"), "a store of the study"),
    ],
)
def test_mistakes_are_told_in_a_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("a text\n")
    found = invoke(*arguments)
    # A file that is no store is a mistake of the data, whatever the command line was.
    assert found.exit_code == (1 if message == "a store of the study" else 2)
    told = found.output + str(found.exception)
    assert message in told
    assert "Traceback" not in found.output
    assert {path.name for path in tmp_path.iterdir()} == {"FILE"}


def test_packages_that_are_absent_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def absent(name: str) -> None:
        return None

    monkeypatch.setattr(options.importlib.util, "find_spec", absent)
    monkeypatch.chdir(tmp_path)
    for arguments in (("run", "smoke"), ("report",)):
        found = invoke(*arguments)
        assert found.exit_code != 0
        assert "pip install posenc-study" in str(found.exception)


# --- tiers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
def test_the_cells_of_a_tier(tier: str) -> None:
    found = cells(tier)
    assert len(set(found)) == len(found)
    seeds = [cell.seed for cell in found]
    assert seeds == sorted(seeds), "a run that is cut short has whole seeds"
    counts = {(c.task, c.encoding): 0 for c in found}
    for cell in found:
        counts[cell.task, cell.encoding] += 1
    assert set(counts.values()) <= ({1} if tier == "smoke" else {4, 6, 8, 16})


def test_each_tier_holds_the_one_before() -> None:
    keys = [{(c.task, c.encoding) for c in cells(tier)} for tier in TIERS]
    assert keys[0] < keys[1] < keys[2] < keys[3]
    assert set(cells("standard")) < set(cells("full"))


def test_narrowing() -> None:
    found = cells("quick", Narrowing(tasks=("order",), encodings=("rope", "cope"), seeds=(3, 5)))
    assert [(c.encoding, c.seed) for c in found] == [
        ("rope", 3), ("cope", 3), ("rope", 5), ("cope", 5)
    ]  # fmt: skip
    found = cells("smoke", Narrowing(factors=(1.0, 2.0), settings={"steps": 9}))
    assert {(c.setting("factors"), c.setting("steps")) for c in found} == {("1 2", 9)}
    assert [str(c) for c in cells("smoke", Narrowing(tasks=("copy",), encodings=("rope",)))] == [
        "copy, rope, seed 0"
    ]


def test_encodings_by_class_and_as_json(tmp_path: Path) -> None:
    slow = '{"type": "RoPE", "ladder": {"type": "Ladder", "last": null}, "base": 100}'
    store = str(tmp_path / "own.sqlite")
    run = ("run", "smoke", "--encodings", f"TransformerXL,{slow}", "--store", store)
    assert invoke(*run, "--workers", "1", *SET).exit_code == 0
    found = read_store(Path(store))
    spec = json.dumps(json.loads(slow), sort_keys=True)
    assert [r.cell.encoding for r in found.records] == ["transformer-xl", spec]
    assert found.provenances[0][f"encoding {spec}"].startswith(f"posenc {posenc.__version__}: {{")
    assert "encoding transformer-xl" not in found.provenances[0]
    assert invoke("status", store).output == "order          2 finished\n"
    for text, words in (("{}", 'its "type"'), ('{"type": "RoPEE"}', "'rope'"), ("RoPEE", "'rope'")):
        refused = invoke("run", "smoke", "--encodings", text, "--store", store)
        assert refused.exit_code == 2, refused.output
        assert words in refused.output
    assert kebab("LinearRoPE") == "linear-rope"


def test_seeds_and_lengths_as_people_write_them() -> None:
    assert seeds_of("3") == (0, 1, 2)
    assert seeds_of("3,5") == (3, 5)
    assert seeds_of("4:6") == (4, 5)
    assert seeds_of("0,4:6,5") == (0, 4, 5)
    assert factors_of("1,2L,1.5") == (1.0, 1.5, 2.0)
    assert factors_of("L,4L") == (1.0, 4.0)


def test_durations() -> None:
    assert [options.duration(s) for s in (4, 600, 7500)] == ["4 s", "10 min", "2 h 5 min"]


# --- one model ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "text", "more"),
    [
        ("order", "john likes Jane?", ()),
        ("order-causal", "um John well likes er Jane", ()),
        ("text-lm", "The value", ("--beams", "2", "--length", "5")),
        ("copy", "3 1 4", ("--length", "6")),
        ("reverse", "3 1 4", ("--beams", "3", "--length", "6")),
    ],
)
def test_a_trained_model_is_asked(tmp_path: Path, task: str, text: str, more: tuple) -> None:
    model = str(tmp_path / "model")
    tiny = [*SET, "--set", "factors=1 2", "--set", "warmup=1"]
    trained = invoke("train", task, "rope", "-o", model, "--seed", "4", *tiny, "--json")
    assert trained.exit_code == 0, trained.output
    assert json.loads(json.loads(trained.output)["cell"])["seed"] == 4
    found = invoke("generate", model, text, *more, "--json")
    assert found.exit_code == 0, found.output + repr(found.exception)
    said = json.loads(found.output)
    assert all(0 <= one["probability"] <= 1 for one in said)
    assert [one["probability"] for one in said] == sorted(
        (one["probability"] for one in said), reverse=True
    )
    if task.startswith("order"):
        assert {one["text"] for one in said} == {"John", "Jane"}
    if task == "text-lm":
        assert [len(one["text"]) for one in said] == [5, 5]


def test_a_model_without_positions_answers_both_sentences_alike(tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    assert invoke("train", "order", "none", "-o", model, *SET).exit_code == 0
    answers = [
        json.loads(invoke("generate", model, text, "--json").output)
        for text in ("John likes Jane", "Jane likes John")
    ]
    for a, b in zip(*answers, strict=True):
        assert a["text"] == b["text"]
        assert a["probability"] == pytest.approx(b["probability"], rel=1e-6)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trained model, to be read alone."""
    model = str(tmp_path_factory.mktemp("order") / "model")
    assert invoke("train", "order", "rope", "-o", model, *SET).exit_code == 0
    return model


@pytest.mark.parametrize(
    ("text", "message"),
    [("John liks Jane", "Did you mean 'likes'"), (" ", "a text"), ("John likes John", "two of")],
)
def test_words_that_a_model_does_not_know(small_model: str, text: str, message: str) -> None:
    found = invoke("generate", small_model, text)
    assert found.exit_code != 0
    assert message in str(found.exception)
