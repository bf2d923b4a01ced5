"""Frames that a page makes by itself, in Node, against those of Python: tiles and texts equal."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import local_data

from posenc.explore.frame import frame
from posenc.explore.server.document import makes
from posenc.explore.server.protocol import unpack
from posenc.explore.views import SHAPES
from posenc.learn import lesson, topics
from posenc.learn.tour import stop, stops
from tests.explore.node import node
from tests.explore.test_page import COMPUTE, STATIC

CHECK = Path(__file__).parents[1] / "browser" / "frames.check.mjs"
VIEWS = local_data.VIEWS
# What needs Python and is not in the page, or says which encodings, views and options it has.
APART = ("python", "command", "compares", "save", "views", "id", "arrays", "controls")
CURVE = 1e-6  # of a float32 curve, beside its largest value


def lessons() -> Iterator[dict[str, str]]:
    yield from (dict(lesson(topic).see.state) for topic in topics())


def stops_of_the_tour() -> Iterator[dict[str, str]]:
    for n in range(1, len(stops()) + 1):
        yield {**stop(n)["state"], "tour": str(n)}
        yield {**stop(n)["state"], **stop(n, revealed=True)["reveal"]}


def drawn(count: int = 60) -> Iterator[dict[str, str]]:
    """States at random of all views, by what their controls reach."""
    rng = random.Random(0)
    for n in range(count):
        view = VIEWS[n % len(VIEWS)]
        shape = SHAPES[view]
        names = [e for e in local_data.ENTRIES if view in local_data._entry(e)["views"]]
        entry = local_data._entry(rng.choice(names))
        state = {"v": view, "enc": entry["id"], "w": str(rng.choice((320, 640, 901))), "h": "300"}
        for field in [*local_data._shape(shape)["fields"], *entry["fields"]]:
            if field["key"] in ("find", "parts", "loss") or rng.random() < 0.4:
                continue
            state[field["key"]] = _value(rng, field, shape.most)
        if state.get("ladder") == "halves":
            state |= {"d": "32", "n": "2"}  # of more octaves few fit into float32
        if rng.random() < 0.7:
            state |= {"p": str(rng.randrange(200)), "j": str(rng.randrange(64))}
        yield state


# Numbers that an encoding does not take, and more rows than are drawn one by one.
ENDS = (
    {"v": "distance", "enc": "learned", "d": "3", "L": "1"},
    {"v": "distance", "enc": "learned", "d": "60", "s": "200", "L": "600", "metric": "cosine"},
    {"v": "distance", "enc": "learned", "d": "64", "L": "100000"},
    {"v": "table", "enc": "preset:mae", "d": "34", "L": "70", "s": "3"},
    {"v": "table", "enc": "preset:mae", "d": "800", "L": "500", "p0": "50", "p1": "300", "h": "90"},
    {"v": "table", "enc": "preset:mae", "d": "32", "L": "80000"},
    {"v": "table", "enc": "preset:mae", "d": "32", "L": "16777216", "p": "19"},
)


def _value(rng: random.Random, field: dict[str, Any], most: Mapping[str, int]) -> str:
    if field["kind"] == "switch":
        return rng.choice("01")
    if field["key"] == "prec":
        return "float64"  # the last digit of a sum in float32 is the machine's; lessons have that
    if field["kind"] == "choice":
        return str(rng.choice(field["options"])["value"] if field["options"] else "none")
    if field["kind"] == "text":
        return {"text": "the dog saw the cat and Jane saw John", "perm": ""}[field["key"]]
    high = min(field["high"], most.get(field["key"], field["high"]), 3000)
    if field["key"] == "d":
        return str(2 * rng.randrange(1, int(min(high, 300)) // 2))
    if field["kind"] == "real":
        return f"{rng.choice((20, 100, 500, 10000, 123456.0)):g}"
    return str(rng.randrange(int(max(field["low"], -300)), int(high)))


def whole(node_: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(node_, str) and node_ in arrays:
        return arrays[node_]
    if isinstance(node_, list):
        return [whole(one, arrays) for one in node_]
    if isinstance(node_, dict):
        return {key: whole(one, arrays) for key, one in node_.items()}
    return node_


def python(state: Mapping[str, str]) -> dict[str, Any]:
    message = unpack(frame(state))
    answer: dict[str, Any] = whole(message.header, message.arrays)
    return answer


def differences(own: Any, python: Any, path: str = "") -> Iterator[str]:
    """Where a frame of the page is not that of Python."""
    if isinstance(python, np.ndarray):
        if not isinstance(own, dict) or "array" not in own:
            yield f"{path}: no array but {own!r}"
            return
        values = np.array([float(x) for x in own["numbers"]]).reshape(own["shape"])
        if values.shape != python.shape:
            yield f"{path}: shape {values.shape}, not {python.shape}"
            return
        bound = 0.0 if python.dtype.kind in "ui" else CURVE * np.nanmax(np.abs(python), initial=1)
        apart = ~np.isclose(values, python, rtol=0, atol=bound, equal_nan=True)
        if apart.any():
            first = np.argwhere(apart)[0].tolist()
            both = f"{values[tuple(first)]}, not {python[tuple(first)]}"
            yield f"{path}: {apart.sum()} of {apart.size} differ, first at {first}: {both}"
    elif isinstance(python, dict):
        if not isinstance(own, dict) or own.keys() != python.keys():
            keys = set(python) ^ set(own) if isinstance(own, dict) else own
            yield f"{path}: other keys: {keys}"
            return
        for key in python:
            yield from differences(own[key], python[key], f"{path}/{key}")
    elif isinstance(python, list):
        if not isinstance(own, list) or len(own) != len(python):
            yield f"{path}: {str(own)[:200]}, not {str(python)[:200]}"
            return
        for n, (a, b) in enumerate(zip(own, python, strict=True)):
            yield from differences(a, b, f"{path}[{n}]")
    elif isinstance(python, float) and isinstance(own, (int, float)) and own is not True:
        if not np.isclose(own, python, rtol=1e-9, atol=1e-9):
            yield f"{path}: {own}, not {python}"
    elif own != python:
        yield f"{path}: {own!r}, not {python!r}"


def controls(header: dict[str, Any]) -> list[dict[str, Any]]:
    """Controls without the options that only one of the two has."""
    own = {"enc", "e1", "e2", "e4", "ladder", "qk", "find", "parts", "loss"}
    return [control for control in header["controls"] if control["key"] not in own]


def compared(own: dict[str, Any], state: Mapping[str, str]) -> list[str]:
    theirs = python(state)
    apart = list(
        differences(
            {k: v for k, v in own.items() if k not in APART},
            {k: v for k, v in theirs.items() if k not in APART},
        )
    )
    return [*apart, *differences(controls(own), controls(theirs), "/controls")]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "package.json").write_text('{"type": "module"}')
    for name in (*COMPUTE, "transport.js"):
        shutil.copy(STATIC / name, folder)
    (folder / "data.json").write_text(json.dumps(local_data.data()))
    return folder


def made(folder: Path, states: list[dict[str, str]], *brief: str) -> list[dict[str, Any]]:
    file = folder / "states.json"
    file.write_text(json.dumps([{"numbers": "1", **state} for state in states]))
    answers: list[dict[str, Any]] = json.loads(
        node(CHECK, folder, folder / "data.json", file, *brief, timeout=400)
    )
    return answers


def reached(state: Mapping[str, str], header: dict[str, Any]) -> Iterator[dict[str, str]]:
    """States that the controls of a frame lead to: every option, and numbers far and near."""
    own = {key: text for key, text in state.items() if key not in ("tour", "reveal")}
    for control in header["controls"]:
        key, value = control["key"], control["value"]
        texts = [option["value"] for option in control["options"]]
        if control["kind"] == "switch":
            texts = ["01"[value == "0"]]
        elif control["kind"] == "number":
            low, high = control["min"], min(control["max"], 600)
            texts = [str(low), f"{float(value) + max(control['step'], 1):g}", str(high)]
        yield from ({**own, key: text} for text in texts if text != value)


@pytest.mark.slow("explore")
def test_nothing_that_a_control_of_a_lesson_or_stop_reaches_is_refused(modules: Path) -> None:
    begun = [*lessons(), *stops_of_the_tour()]
    frames = [answer["frame"] for answer in made(modules, begun)]
    some = {json.dumps(r): r for s, f in zip(begun, frames, strict=True) for r in reached(s, f)}
    answers = made(modules, list(some.values()), "made")
    refused = [(s, a) for s, a in zip(some.values(), answers, strict=True) if "frame" not in a]
    assert len(some) > 200
    assert not refused, refused[:5]


def test_what_the_page_cannot_make_is_refused(modules: Path) -> None:
    states = [
        {"v": "layers"},
        {"v": "table", "enc": "learned"},
        {"v": "table", "b.enc": "rope"},
        {"v": "table", "parts": "1"},
        {"v": "attention", "qk": "file"},
        {"v": "table", "enc": "no such"},
        {"v": "attention", "e1": "t5"},
        {"v": "stretch", "loss": "1"},
    ]
    answers = made(modules, states)
    assert not any(makes(state) for state in states)
    assert [answer.get("kind") for answer in answers] == ["NotStored"] * len(states)
    assert all(answer["refused"].startswith("This page does not compute ") for answer in answers)


@pytest.mark.parametrize(
    ("script", "text", "other"),
    [
        ("columns.js", "const [FADE, FULL] = [2, 8]", "const [FADE, FULL] = [2, 8.01]"),
        ("numbers.js", "digits - 1 - Math.floor", "digits - Math.floor"),
        ("heads.js", "+ 1e-5)", "+ 1e-3)"),
        ("local_waves.js", "const BIT = 0.55;", "const BIT = 0.5;"),
        ("local_stored.js", "bits >>> 9", "bits >>> 8"),
    ],
)
def test_a_constant_that_is_off_makes_other_frames(
    script: str, text: str, other: str, modules: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "modules"
    shutil.copytree(modules, folder)
    code = (folder / script).read_text()
    assert text in code
    (folder / script).write_text(code.replace(text, other, 1))
    states = [
        {"v": "waves", "d": "8", "n": "16", "L": "256", "p": "150", "counter": "1"},
        {"v": "table", "d": "50", "L": "45000"},
        {"v": "attention"},
        {"v": "distance", "enc": "learned", "d": "4"},
    ]
    answers = zip(states, made(folder, states), strict=True)
    assert any(compared(answer["frame"], state) for state, answer in answers)


@pytest.mark.costly
@pytest.mark.parametrize("parts", [4, pytest.param(1, marks=pytest.mark.slow("explore", "learn"))])
def test_frames_are_those_of_python(parts: int, modules: Path) -> None:
    every = [*lessons(), *stops_of_the_tour(), *ENDS, *drawn()]
    assert all(makes(state) for state in every)
    states = every[::parts]
    assert {state["v"] for state in states} == {*VIEWS}
    wrong = {}
    for state, answer in zip(states, made(modules, states), strict=True):
        apart = [answer["refused"]] if "frame" not in answer else compared(answer["frame"], state)
        if apart:
            wrong[json.dumps(state)] = apart[:6]
    assert not wrong, f"{len(wrong)} of {len(states)}: " + json.dumps(wrong, indent=1)[:6000]
