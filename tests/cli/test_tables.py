"""The command with every kind of table: appended, learned, of real positions, of several axes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import posenc
from posenc import (
    Arrangement,
    Concatenated,
    Fourier,
    Learned,
    Lookup,
    Magnitude,
    Sinusoidal,
    Timestep,
    positions,
    presets,
)
from posenc.cli import app
from posenc.cli.output import stream as _stream
from tests.cli.test_process import MEASURE, environment, zeros

Run = Callable[..., Result]

GRID = Sinusoidal(8, arrangement=Arrangement(rule="axial", axes=("h", "w")))
APPENDED = Concatenated(4, table=Sinusoidal(6), magnitude=Magnitude(embedding_scale=3))
LEARNED = Learned(4, length=8, start=2)
TWO = Learned(4, length=(2, 3), lookup=Lookup("factorised", axes=("row", "column")))
SCALED = Sinusoidal(4, magnitude=Magnitude(learned="table_scale"))
TIME = Timestep(4)
XY = Fourier(8, arrangement=Arrangement(rule="axial", axes=("x", "y")))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in an empty folder; it must exit with the code given, 0 by default."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(args))
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 40 numbers, so that small arrays are cut along both axes."""
    monkeypatch.setattr(_stream, "RUN", 16)
    for name in ("add_to_file", "write_rows"):
        whole = getattr(_stream, name)

        def cut(*args: Any, whole: Any = whole, **options: Any) -> None:
            whole(*args, **{**options, "size": 40})

        monkeypatch.setattr(_stream, name, cut)


def array(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(got: Any, expected: Any) -> None:
    """Raise unless dtype, shape and every bit agree."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    kind = f"u{got.dtype.itemsize}"
    left, right = (np.ascontiguousarray(a).view(kind) for a in (got, expected))
    np.testing.assert_array_equal(left, right)


def as_array(found: Any) -> np.ndarray:
    return np.array(found, dtype="float32")


def spec_of(spec: Any) -> list[str]:
    return ["--spec", posenc.to_json(spec)]


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


# --- appended -------------------------------------------------------------------------------------


def test_appended_to_a_text(run: Run) -> None:
    found = json.loads(run("encode", "a b c", *spec_of(APPENDED), "--json").stdout)
    plain = json.loads(run("encode", "a b c", "--dim", "4", "--json").stdout)
    assert list(found) == list(plain)
    embedding = as_array(plain["embedding"])
    same(as_array(found["embedding"]), embedding)
    same(as_array(found["encoding"]), posenc.table(Sinusoidal(6), 3))
    same(as_array(found["sum"]), posenc.add(APPENDED, embedding))
    assert as_array(found["sum"]).shape == (3, 10)


def test_strips_of_an_appended_table(run: Run) -> None:
    lines = run("encode", "a b c", *spec_of(APPENDED)).output.splitlines()
    heads = {h: lines[lines.index(h) + 1].split() for h in lines if h.startswith("e")}
    assert [h.partition(":")[0] for h in heads] == [
        "embedding", "encoding", "embedding * 3 | encoding",
    ]  # fmt: skip
    assert [head[-1] for head in heads.values()] == ["3", "5", "9"]
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "shape", [(7, 4), (3, 7, 4), (2, 3, 5, 4), (5, 1, 4), (0, 3, 4), (3, 0, 4)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4"])
def test_appended_to_a_npy(run: Run, shape: tuple[int, ...], dtype: str) -> None:
    x = array(*shape, dtype=dtype)
    np.save("x.npy", x)
    run("encode", "x.npy", *spec_of(APPENDED), "-o", "y.npy", "--offset", "5")
    native = x.astype(x.dtype.newbyteorder("="))
    same(np.load("y.npy"), posenc.add(APPENDED, native, offset=5))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_appended_in_a_safetensors_moves_the_others(run: Run, dtype: Any, name: str) -> None:
    x = array(2, 7, 4, dtype=dtype)
    others = {"b": np.arange(5, dtype="int8"), "n": array(3, 3), "o": np.zeros((0, 2), "int64")}
    save_file({**others, name: x}, "x.safetensors", {"key": "value"})
    args = ["encode", "x.safetensors", "--tensor", name, *spec_of(APPENDED), "-o"]
    report = json.loads(run(*args, "y.safetensors", "--json").stdout)
    assert report["shape"] == [2, 7, 10]
    found = load_file("y.safetensors")
    same(found.pop(name), posenc.add(APPENDED, x))
    assert set(found) == set(others)
    for key, value in others.items():
        same(found[key], value)
    with safe_open("y.safetensors", "numpy") as file:
        assert file.metadata() == {"key": "value"}


@pytest.mark.parametrize(("source", "target"), [("npy", "safetensors"), ("safetensors", "npy")])
def test_appended_in_the_other_format(run: Run, source: str, target: str) -> None:
    x = array(5, 4)
    np.save("x.npy", x)
    save_file({"embeddings": x}, "x.safetensors")
    out = f"y.{target}"
    text = run("encode", f"x.{source}", *spec_of(APPENDED), "-o", out).output
    assert "5x10 float32" in text
    assert "side by side" in text
    found = np.load(out) if target == "npy" else load_file(out)["embeddings"]
    same(found, posenc.add(APPENDED, x))


@pytest.mark.costly
def test_a_wider_result_takes_little_memory(tmp_path: Path) -> None:
    zeros(tmp_path / "x.npy", (4, 16384, 128))
    spec = Concatenated(128, table=Sinusoidal(384))
    runs = [["encode", "x.npy", "-o", "y.npy", *spec_of(spec)]]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(runs)],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
        timeout=120,
        check=True,
    )
    code, before, after = map(float, done.stdout.split()[-3:])
    assert code == 0
    assert after - before < 64
    assert np.load(tmp_path / "y.npy", mmap_mode="r").shape == (4, 16384, 512)


def test_rows_of_an_appended_table_are_what_it_appends(run: Run) -> None:
    found = json.loads(run("table", *spec_of(APPENDED), "--length", "3", "--json").stdout)
    assert found["shape"] == [3, 6]
    same(as_array(found["table"]), posenc.table(APPENDED, 3))
    run("table", *spec_of(APPENDED), "--length", "3", "-o", "t.npy")
    same(np.load("t.npy"), posenc.table(APPENDED, 3))


# --- learned --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [LEARNED, SCALED], ids=["table", "factor"])
def test_untrained_parameters_are_called_so(run: Run, spec: Any) -> None:
    args = ["encode", "a b c", *spec_of(spec), "--init-seed", "3"]
    found = json.loads(run(*args, "--json").stdout)
    params = posenc.init(spec, 3)
    same(as_array(found["encoding"]), posenc.table(spec, 3, params=params))
    x = as_array(found["embedding"])
    same(as_array(found["sum"]), posenc.add(spec, x, params=params))
    assert found["parameters"] == "untrained: posenc.init(spec, seed=3)"
    assert "untrained: posenc.init(spec, seed=3)" in run(*args).output.splitlines()[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_parameters_of_a_safetensors_go_by_name(run: Run, dtype: Any) -> None:
    params = {"row_weight": array(2, 4, dtype=dtype), "column_weight": array(3, 4, dtype=dtype)}
    save_file({**params, "other": array(1)}, "p.safetensors")
    x = array(2, 6, 4, seed=1)
    np.save("x.npy", x)
    args = [*spec_of(TWO), "--params", "p.safetensors", "--grid", "2x3"]
    report = run("encode", "x.npy", *args, "-o", "y.npy").output
    assert "parameters of p.safetensors" in report
    assert "untrained" not in report
    where = positions.grid([2, 3])
    same(np.load("y.npy"), posenc.add(TWO, x, positions=where, params=params))


@pytest.mark.parametrize("order", ["C", "F"])
def test_parameters_of_a_npy(run: Run, order: Any) -> None:
    weight = array(10, 4)
    np.save("p.npy", np.asarray(weight, order=order))
    args = [*spec_of(LEARNED), "--params", "p.npy", "--positions", "7,0"]
    found = json.loads(run("table", *args, "--json").stdout)
    same(as_array(found["table"]), weight[[9, 2]])
    assert found["parameters"] == "parameters of p.npy"


def test_a_learned_factor_of_an_appended_table(run: Run) -> None:
    spec = Concatenated(4, table=Sinusoidal(4), magnitude=Magnitude(learned="table_scale"))
    np.save("p.npy", np.float32(2))
    found = json.loads(run("encode", "a b", *spec_of(spec), "--params", "p.npy", "--json").stdout)
    same(as_array(found["sum"])[:, 4:], 2 * posenc.table(Sinusoidal(4), 2))


def test_learned_tables_shorter_than_the_default_are_shown_whole(run: Run) -> None:
    args = ["table", *spec_of(Learned(4, length=5)), "--init-seed", "0", "--json"]
    assert json.loads(run(*args).stdout)["positions"] == [0, 1, 2, 3, 4]
    assert json.loads(run(*args, "--offset", "3").stdout)["positions"] == [3, 4]
    assert len(json.loads(run("table", "--json").stdout)["positions"]) == 16


@pytest.mark.parametrize("where", [["--offset", "6"], ["--positions", "0,1,8"]])
def test_positions_past_the_table_leave_nothing(run: Run, where: list[str]) -> None:
    np.save("x.npy", array(3, 4))
    args = ["encode", "x.npy", *spec_of(LEARNED), "--init-seed", "0", "-o", "y.npy", *where]
    output = run(*args, code=1).output
    assert "position 8" in output
    assert "usable length is 8" in output
    assert names() == ["x.npy"]


def test_counting_past_the_table_is_seen_before_any_work(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stream, "add_to_file", lambda *_, **__: pytest.fail("too late"))
    np.save("x.npy", array(9, 4))
    args = ["encode", "x.npy", *spec_of(LEARNED), "--init-seed", "0", "-o", "y.npy"]
    assert "position 8" in run(*args, code=1).output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (spec_of(LEARNED), "learns weight 10x4: give them with --params FILE"),
        (spec_of(LEARNED), "--init-seed N"),
        (spec_of(SCALED), "learns scale ()"),
        ([*spec_of(LEARNED), "--params", "p.npy", "--init-seed", "1"], "not both"),
        ([*spec_of(LEARNED), "--params", "absent.npy"], "is not there"),
        ([*spec_of(LEARNED), "--init-seed", "-1"], "--init-seed"),
        (["--params", "p.npy"], "--params is for learned tables; Sinusoidal learns nothing"),
        (["--init-seed", "1"], "--init-seed is for learned tables"),
    ],
)
@pytest.mark.parametrize("command", [["encode", "a"], ["table"]], ids=["encode", "table"])
def test_parameters_that_are_not_said(
    run: Run, command: list[str], args: list[str], message: str
) -> None:
    np.save("p.npy", array(10, 4))
    assert message in run(*command, *args, code=2).output


@pytest.mark.parametrize(
    ("spec", "tensors", "message"),
    [
        (LEARNED, {"weight": array(8, 4)}, "expected shape (10, 4), got shape (8, 4)"),
        (LEARNED, {"weigth": array(10, 4)}, "Did you mean 'weigth'?"),
        (LEARNED, {"weight": np.ones((10, 4), "int32")}, "int32"),
        (LEARNED, {"weight": np.full((10, 4), np.nan, "float32")}, "nan at index [0, 0]"),
        (TWO, {"row_weight": array(2, 4)}, "'column_weight'"),
    ],
)
def test_parameters_that_do_not_fit(
    run: Run, spec: Any, tensors: dict[str, np.ndarray], message: str
) -> None:
    save_file(tensors, "p.safetensors")
    args = [*spec_of(spec), "--params", "p.safetensors", "--positions", "0:1"]
    if spec is TWO:
        args[-1] = "0,0"
    assert message in run("encode", "a", *args, code=1).output


def test_a_npy_holds_one_parameter(run: Run) -> None:
    np.save("p.npy", array(2, 4))
    args = [*spec_of(TWO), "--params", "p.npy", "--positions", "0,0"]
    assert "a .npy, which holds one array" in run("encode", "a", *args, code=1).output


def test_a_table_too_large_to_learn_is_refused(run: Run) -> None:
    args = [*spec_of(Learned(2**10, length=2**20)), "--init-seed", "0"]
    assert "learned numbers" in run("encode", "a", *args, code=1).output


def test_infinity_is_no_json(run: Run) -> None:
    np.save("p.npy", np.float32(1e5))
    args = [*spec_of(SCALED), "--params", "p.npy", "--dtype", "float16", "--json"]
    with np.errstate(over="ignore"):
        assert "got NaN or infinity" in run("table", *args, code=1).output


# --- real positions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5,1.25,-3", [0.5, 1.25, -3]),
        ("1e-3,.5,2.", [0.001, 0.5, 2]),
        ("0:2,7", [0, 1, 7]),
        ("9223372036854775807,0,1", [2**63 - 1, 0, 1]),
    ],
)
def test_real_positions(run: Run, text: str, expected: list[float]) -> None:
    found = json.loads(run("encode", "a b c", *spec_of(TIME), "--positions", text, "--json").stdout)
    assert found["positions"] == expected
    same(as_array(found["encoding"]), posenc.table(TIME, np.array(expected)))
    x = as_array(found["embedding"])
    same(as_array(found["sum"]), posenc.add(TIME, x, positions=np.array(expected)))


def test_real_positions_beside_the_strips(run: Run) -> None:
    lines = run("encode", "a b", *spec_of(TIME), "--positions", "0.5,1.25").output.splitlines()
    start = lines.index("encoding") + 2
    assert [line.split()[:2] for line in lines[start : start + 2]] == [["a", "0.5"], ["b", "1.25"]]


@pytest.mark.usefixtures("small_tiles")
def test_real_positions_of_a_file(run: Run) -> None:
    x = array(3, 7, 4)
    np.save("x.npy", x)
    where = np.linspace(-1, 2, 7)
    text = ",".join(map(repr, where.tolist()))
    run("encode", "x.npy", *spec_of(TIME), f"--positions={text}", "-o", "y.safetensors")
    same(load_file("y.safetensors")["embeddings"], posenc.add(TIME, x, positions=where))


def test_times_count_where_nothing_is_said(run: Run) -> None:
    found = json.loads(run("encode", "a b", *spec_of(TIME), "--json").stdout)
    assert found["positions"] == [0, 1]


# --- several axes ---------------------------------------------------------------------------------


def test_positions_of_two_axes(run: Run) -> None:
    args = ["encode", "a b c", *spec_of(GRID), "--positions", "0,0 0,1 -2,0"]
    found = json.loads(run(*args, "--json").stdout)
    assert found["positions"] == [[0, 0], [0, 1], [-2, 0]]
    same(as_array(found["encoding"]), posenc.table(GRID, [[0, 0], [0, 1], [-2, 0]]))
    assert any(line.split()[:2] == ["c", "-2,0"] for line in run(*args).output.splitlines())


def test_real_positions_of_two_axes(run: Run) -> None:
    where = [[0.5, -0.25], [1, 2]]
    args = ["table", *spec_of(XY), "--positions", "0.5,-.25 1,2"]
    found = json.loads(run(*args, "--json").stdout)
    assert found["positions"] == where
    same(as_array(found["table"]), posenc.table(XY, where))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("shape", [(12, 8), (3, 12, 8), (2, 2, 12, 8)])
def test_a_grid_of_a_file(run: Run, shape: tuple[int, ...]) -> None:
    x = array(*shape)
    np.save("x.npy", x)
    output = run("encode", "x.npy", *spec_of(GRID), "--grid", "3x4", "-o", "y.npy").output
    assert "grid h=3, w=4" in output
    same(np.load("y.npy"), posenc.add(GRID, x, positions=positions.grid({"h": 3, "w": 4})))


def test_a_grid_of_a_text(run: Run) -> None:
    found = json.loads(
        run("encode", "a b c d e f", *spec_of(GRID), "--grid", "2x3", "--json").stdout
    )
    assert found["positions"] == positions.grid([2, 3]).tolist()


def test_height_comes_first_whatever_the_order_of_axes(run: Run) -> None:
    spec = Sinusoidal(8, arrangement=Arrangement(rule="axial", axes=("w", "h")))
    expected = positions.grid({"h": 2, "w": 3}, axes=("w", "h")).tolist()
    for grid in ("2x3", "h=2,w=3"):
        found = json.loads(run("table", *spec_of(spec), "--grid", grid, "--json").stdout)
        assert found["positions"] == expected
    found = json.loads(run("table", *spec_of(spec), "--grid", "w=3,h=2", "--json").stdout)
    assert found["positions"] == positions.grid({"w": 3, "h": 2}, axes=("w", "h")).tolist()


def test_x_and_y_keep_the_order_of_the_spec(run: Run) -> None:
    found = json.loads(run("table", *spec_of(XY), "--grid", "2x3", "--json").stdout)
    assert found["positions"] == positions.grid({"x": 2, "y": 3}).tolist()


GRIDS = [
    (name, presets.row(name))
    for name in presets.names()
    if presets.row(name).kind == "table"
    and presets.row(name).positions.get("builder") in ("grid", "from_grid_mask")
]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(("name", "family"), GRIDS, ids=[name for name, _ in GRIDS])
def test_a_preset_says_how_its_grid_becomes_positions(run: Run, name: str, family: Any) -> None:
    dim = {"perceiver": 258}.get(name, 96)
    spec = presets.preset(name, dim)
    assert isinstance(spec, Sinusoidal | Fourier)
    sides = (2, 3, 5)[-len(spec.axes) :]
    if family.positions["builder"] == "grid":
        # The sentence of the row names its sides, the slowest first.
        told = [n for n in ("t", "h", "w", "x", "y", "z") if f"'{n}'" in family.positions["takes"]]
        where = family.place(dict(zip(told, sides, strict=True)))
    else:
        where = family.place(np.ones(sides, bool))
    grid = "x".join(map(str, sides))
    run("table", "--preset", name, "--dim", str(dim), "--grid", grid, "-o", "t.npy")
    same(np.load("t.npy"), posenc.table(spec, where.reshape(-1, len(spec.axes))))


def test_a_table_of_several_axes_as_csv(run: Run) -> None:
    run("table", *spec_of(GRID), "--grid", "2x2", "-o", "t.csv")
    with Path("t.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["h", "w", *(f"c{c}" for c in range(8))]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    same(as_array([row[2:] for row in rows]), posenc.table(GRID, positions.grid([2, 2])))


def test_a_grid_larger_than_the_memory_is_elided(run: Run) -> None:
    output = run("table", *spec_of(GRID), "--grid", "1000000x1000000").output
    assert "999999,999999" in output
    assert "more rows" in output


def test_an_appended_learned_grid(run: Run) -> None:
    spec = Concatenated(5, table=TWO)
    x = array(2, 6, 5)
    np.save("x.npy", x)
    run("encode", "x.npy", *spec_of(spec), "--grid", "2x3", "--init-seed", "1", "-o", "y.npy")
    where, params = positions.grid([2, 3]), posenc.init(spec, 1)
    same(np.load("y.npy"), posenc.add(spec, x, positions=where, params=params))


@pytest.mark.parametrize(
    ("spec", "args", "message"),
    [
        (GRID, [], "the spec has the axes h, w: give --grid 3x4, or --positions with 2"),
        (GRID, ["--offset", "1"], "give --grid 3x4"),
        (GRID, ["--grid", "2x2", "--offset", "1"], "not both"),
        (GRID, ["--grid", "2x2", "--positions", "0,0"], "not both"),
        (GRID, ["--grid", "2"], "'2' has 1 side, the spec 2 axes (h, w)"),
        (GRID, ["--grid", "2xx"], "has 3 sides"),
        (GRID, ["--grid", "2x"], "'' is no side"),
        (GRID, ["--grid", "0x2"], "'0' is no side"),
        (GRID, ["--grid", "2x99999999999"], "is no side"),
        (GRID, ["--grid", "h=2,z=1"], "the axes h, w, not h, z"),
        (GRID, ["--grid", "2x2"], "--grid: 4 positions for 1 token"),
        (GRID, ["--positions", "0,0,0"], "'0,0,0' has 3 numbers: write 2"),
        (GRID, ["--positions", "0"], "'0' has 1 number: write 2"),
        (GRID, ["--positions", "0,0.5"], "'0.5' is no position; Sinusoidal takes integers"),
        (GRID, ["--positions", "0,"], "'' is no position"),
        (GRID, ["--positions", "0,9223372036854775808"], "beyond 2**63"),
        (GRID, ["--positions", "0,0 0,1"], "2 positions for 1 token"),
        (GRID, ["--positions", " "], "0 positions for 1 token"),
        (TIME, ["--positions", "nan"], "'nan' is no position"),
        (TIME, ["--positions", "1e999"], "no position"),
        (TIME, ["--positions", "9007199254740993,0.5"], "9007199254740993 is too large"),
        (Sinusoidal(4), ["--positions", "1.5"], "'1.5' is no position; Sinusoidal takes integers"),
    ],
)
def test_positions_that_cannot_be(run: Run, spec: Any, args: list[str], message: str) -> None:
    assert message in run("encode", "a", *spec_of(spec), *args, code=2).output


def test_positions_of_a_family_that_has_no_grid(run: Run) -> None:
    args = ["table", "--preset", "box-queries", "--dim", "32", "--grid", "1x1x1x1"]
    assert (
        "takes no grid, as its positions are made by posenc.positions.boxes"
        in run(*args, code=2).output
    )


def test_a_grid_or_a_length(run: Run) -> None:
    args = ["table", *spec_of(GRID), "--grid", "2x2", "--length", "4"]
    assert "--length or --grid, not both" in run(*args, code=2).output


def test_a_grid_must_fill_the_sequence(run: Run) -> None:
    np.save("x.npy", array(11, 8))
    args = ["encode", "x.npy", *spec_of(GRID), "--grid", "3x4", "-o", "y.npy"]
    assert "12 positions for 11 tokens" in run(*args, code=2).output
    assert names() == ["x.npy"]


def test_what_does_not_fit_leaves_nothing_of_a_wider_file(run: Run) -> None:
    x = array(3, 4, dtype="float16")
    x[1, 2] = np.inf
    np.save("x.npy", x)
    args = ["encode", "x.npy", *spec_of(APPENDED), "-o", "y.npy"]
    assert "inf at index [1, 2]" in run(*args, code=1).output
    assert names() == ["x.npy"]
    run(*args, "--allow-nonfinite")
    same(np.load("y.npy"), posenc.add(APPENDED, x))
