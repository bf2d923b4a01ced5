"""The command: what it prints, what it writes, and how it says no."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import re
import signal
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
from posenc import presets
from posenc._core.numeric.random_vectors import random_vectors
from posenc._names import SPECS
from posenc.cli import _app, app
from posenc.cli.commands.doctor import probe
from posenc.cli.output import lines as _lines, show as _show, stream as _stream
from posenc.kernels import KERNELS, plans

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in an empty folder; it must exit with the code given, 0 by default."""
    monkeypatch.chdir(tmp_path)

    def call(
        *args: str, code: int = 0, stdin: str | bytes | None = None, columns: int | None = None
    ) -> Result:
        screen = {"COLUMNS": None if columns is None else str(columns)}
        result = CliRunner(env=screen).invoke(app, list(args), input=stdin)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


def array(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def names() -> list[str]:
    """What stands in the current folder."""
    return sorted(path.name for path in Path().iterdir())


# --- a text ---------------------------------------------------------------------------------------


def test_text_as_json(run: Run) -> None:
    result = run("encode", "classify the book", "--dim", "16", "--base", "100", "--json")
    found = json.loads(result.stdout)
    spec = posenc.Sinusoidal(16, base=100)
    assert found["tokens"] == ["classify", "the", "book"]
    assert found["positions"] == [0, 1, 2]
    assert found["spec"] == spec.to_dict()
    embedding = np.array(found["embedding"], dtype="float32")
    np.testing.assert_array_equal(embedding, random_vectors(found["tokens"], 16, 0))
    np.testing.assert_array_equal(found["encoding"], posenc.table(spec, 3))
    np.testing.assert_array_equal(found["sum"], posenc.add(spec, embedding))
    assert "random" in found["embedding_source"]


def test_text_as_strips_is_labelled_and_fits_80_columns(run: Run) -> None:
    lines = run("encode", "the book the").output.splitlines()
    assert lines[0] == "Sinusoidal(8)"
    assert any(line.startswith("embedding: random vectors") and "seed 0" in line for line in lines)
    assert max(map(len, lines)) <= 80
    start = lines.index("encoding")
    assert lines[start + 1].split() == ["token", "pos", *map(str, range(8))]
    assert lines[start + 3].split() == [
        *("book", "1", "0.84", "0.54", "0.10", "1.00", "0.01", "1.00", "0.00", "1.00"),
        "█▇▅█▅█▅█",
    ]


def test_wide_rows_are_elided_and_columns_stay_aligned(run: Run) -> None:
    output = run("encode", "a 中文 e\u0301t\u0301", "--dim", "512", "--offset", "1000000").output
    lines = [line for line in output.splitlines() if "█" in line or "▁" in line]
    rows = [line for line in lines if "1000" in line]
    assert len(rows) == 9
    assert all("…" in line for line in rows)
    assert {_lines.columns_of(line) for line in rows} == {_lines.columns_of(rows[0])}
    assert _lines.columns_of(rows[0]) <= 80


def test_wide_characters_take_two_columns() -> None:
    assert _lines.columns_of("a中文e\u0301") == 6
    assert _show.fit("中文", 6) == "中文  "
    assert _show.fit("中文字", 6) == "中文字"
    assert _show.fit("中文字母", 6) == "中文… "


def test_long_texts_are_elided_in_the_middle(run: Run) -> None:
    output = run("encode", "w " * 100).output
    assert "… 60 more rows" in output
    assert " 99 " in output
    assert " 50 " not in output


def test_equal_tokens_have_equal_vectors_and_seeds_differ() -> None:
    a, b, again = random_vectors(["x", "y", "x"], 64, 0)
    np.testing.assert_array_equal(a, again)
    assert (a != b).any()
    assert (random_vectors(["x"], 64, 1)[0] != a).any()
    # Frozen: these are the vectors of every machine and every later version.
    assert (random_vectors(["the"], 3, 0)[0] * 2**23).tolist() == [4497175, 2804646, -6309483]
    many = random_vectors([str(i) for i in range(50)], 1000, 0)
    assert -1 <= many.min() < -0.999
    assert 0.999 < many.max() < 1
    assert abs(many.mean()) < 0.01


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3,1,4", [3, 1, 4]),
        ("0:3", [0, 1, 2]),
        ("-3:0", [-3, -2, -1]),
        ("10:0:-4", [10, 6, 2]),
        ("0:2,9223372036854775807", [0, 1, 2**63 - 1]),
    ],
)
def test_positions(run: Run, text: str, expected: list[int]) -> None:
    found = json.loads(run("encode", "a b c", "--positions", text, "--json").stdout)
    assert found["positions"] == expected
    np.testing.assert_array_equal(found["encoding"], posenc.table(posenc.Sinusoidal(8), expected))


@pytest.mark.parametrize("text", ["3:1", "3:3", "1:3:-1", "5,3:1", "0:4:0"])
def test_a_range_without_positions_is_refused(run: Run, text: str) -> None:
    told = run("table", "--dim", "4", "--positions", text, code=2).output
    assert ("has a step of 0" if ":0" in text[1:]
            else "has no positions") in told  # fmt: skip
    assert (
        len(json.loads(run("table", "--dim", "4", "--positions", "3:4", "--json").output)["table"])
        == 1
    )


def test_offset(run: Run) -> None:
    assert json.loads(run("encode", "a b", "--offset", "7", "--json").stdout)["positions"] == [7, 8]


def test_standard_input(run: Run) -> None:
    found = json.loads(run("encode", "-", "--json", stdin="\ufeffgrüß\n dich ".encode()).stdout)
    assert found["tokens"] == ["grüß", "dich"]


def test_standard_input_must_be_utf8(run: Run) -> None:
    assert "0xff at 1" in run("encode", "-", stdin=b"a\xff", code=1).output


def test_spec_and_preset(run: Run) -> None:
    spec = posenc.Sinusoidal(6, order="sin_cos", magnitude=posenc.Magnitude(embedding_scale=3.0))
    text = posenc.to_json(spec)
    Path("spec.json").write_text(text)
    for given in (text, "spec.json"):
        found = json.loads(run("encode", "a b", "--spec", given, "--json").stdout)
        assert found["spec"] == spec.to_dict()
        np.testing.assert_array_equal(
            found["sum"], posenc.add(spec, np.array(found["embedding"], "float32"))
        )
    found = json.loads(run("encode", "a", "--preset", "whisper", "--dim", "6", "--json").stdout)
    assert found["spec"] == presets.preset("whisper", 6).to_dict()


def test_the_scale_on_embeddings_is_shown(run: Run) -> None:
    output = run("encode", "a", "--preset", "vaswani2017", "--dim", "4").output
    assert "sum = embedding * 2 + encoding" in output


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_sum_of_a_text_goes_to_a_file(run: Run, suffix: str) -> None:
    found = json.loads(run("encode", "a b", "-o", f"x{suffix}", "--json").stdout)
    got = np.load("x.npy") if suffix == ".npy" else load_file("x.safetensors")["sum"]
    np.testing.assert_array_equal(got, np.array(found["sum"], "float32"))
    assert got.dtype == np.float32


def test_rows_of_a_file_are_tokens_in_order(run: Run) -> None:
    rows = array(3, 6)
    np.save("e.npy", rows)
    found = json.loads(run("encode", "a b c", "--embeddings", "e.npy", "--json").stdout)
    np.testing.assert_array_equal(found["embedding"], rows)
    assert found["embedding_source"] == "rows of e.npy"
    assert found["spec"]["dim"] == 6
    output = run("encode", "a b", "--embeddings", "e.npy", code=1).output
    assert "expected 2 rows, one for each token, got 3" in output


def test_rows_of_a_tensor_in_bfloat16(run: Run) -> None:
    rows = array(2, 4, dtype=ml_dtypes.bfloat16)
    save_file({"a": rows, "b": array(2, 4)}, "e.safetensors")
    found = json.loads(
        run("encode", "x y", "--embeddings", "e.safetensors", "--tensor", "a", "--json").stdout
    )
    np.testing.assert_array_equal(found["embedding"], rows.astype("float32"))
    assert "several: a, b" in run("encode", "x y", "--embeddings", "e.safetensors", code=2).output


def test_a_tokenizer_gives_ids_that_pick_rows(run: Run) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="makes a tokenizer.json")
    model = tokenizers.models.WordLevel({"[U]": 0, "the": 4, "book": 2}, unk_token="[U]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save("t.json")
    rows = array(5, 4)
    np.save("e.npy", rows)
    args = ["encode", "the book!", "--tokenizer", "t.json"]
    found = json.loads(run(*args, "--embeddings", "e.npy", "--json").stdout)
    assert found["tokens"] == ["the", "book", "[U]"]
    assert found["ids"] == [4, 2, 0]
    np.testing.assert_array_equal(found["embedding"], rows[[4, 2, 0]])
    np.save("e.npy", rows[:4])
    assert "a row for ID 4, got 4 rows" in run(*args, "--embeddings", "e.npy", code=1).output
    Path("t.json").write_text("{}")
    assert "a tokenizer.json" in run(*args, code=1).output


def test_an_absent_tokenizers_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("t.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    output = run("encode", "a", "--tokenizer", "t.json", code=1).output
    assert "pip install 'posenc[tokenizers]'" in output


def test_control_characters_are_not_printed(run: Run) -> None:
    output = run("encode", "a\x1b[31mb \x07").output
    assert "\x1b[31m" not in output
    assert "\x07" not in output


def test_bytes_that_are_no_text_survive(run: Run) -> None:
    word = os.fsdecode(b"a\xff")
    assert json.loads(run("encode", word, "--json").stdout)["tokens"] == [word]
    assert "a\N{REPLACEMENT CHARACTER}" in run("encode", word).output


# --- a file ---------------------------------------------------------------------------------------


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 40 elements, so that small arrays are cut along both axes."""
    add_to_file = _stream.add_to_file
    monkeypatch.setattr(_stream, "RUN", 16)

    def cut(*args: Any, **options: Any) -> None:
        add_to_file(*args, **{**options, "size": 40})

    monkeypatch.setattr(_stream, "add_to_file", cut)


SHAPES = [(7, 4), (3, 7, 4), (2, 3, 5, 4), (5, 2, 4), (2, 3, 50), (1, 1, 1), (0, 3, 4), (3, 0, 4)]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4", ">f8"])
def test_npy_file(run: Run, shape: tuple[int, ...], dtype: str) -> None:
    x = array(*shape, dtype=dtype)
    np.save("x.npy", x)
    run("encode", "x.npy", "-o", "y.npy", "--offset", "5")
    expected = posenc.add(
        posenc.Sinusoidal(shape[-1]), x.astype(x.dtype.newbyteorder("=")), offset=5
    )
    got = np.load("y.npy")
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, expected)
    assert names() == ["x.npy", "y.npy"]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_safetensors_file_keeps_everything_else(run: Run, dtype: str) -> None:
    x = array(3, 7, 4).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    others = {"a": np.arange(5), "z": array(2, dtype="float16"), "m": np.array([True])}
    save_file({**others, "x": x}, "x.safetensors", metadata={"format": "pt", "note": "ü"})
    run("encode", "x.safetensors", "--tensor", "x", "-o", "y.safetensors", "--preset", "fairseq")
    expected = posenc.add(presets.preset("fairseq", 4), x)  # type: ignore[arg-type]
    got = load_file("y.safetensors")
    np.testing.assert_array_equal(bits(got.pop("x")), bits(expected))
    for name, other in others.items():
        np.testing.assert_array_equal(got.pop(name), other)
    assert got == {}
    with safe_open("y.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt", "note": "ü"}
    assert "several: a, m, x, z" in run("encode", "x.safetensors", "-o", "n.npy", code=2).output


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["float32", ">f8"])
def test_the_suffix_chooses_the_format(run: Run, dtype: str) -> None:
    x = array(3, 7, 4, dtype=dtype)
    np.save("x.npy", x)
    run("encode", "x.npy", "-o", "y.safetensors")
    run("encode", "y.safetensors", "-o", "z.npy", "--order", "cos_sin")
    native = x.astype(x.dtype.newbyteorder("="))
    once = posenc.add(posenc.Sinusoidal(4), native)
    np.testing.assert_array_equal(load_file("y.safetensors")["embeddings"], once)
    twice = posenc.add(posenc.Sinusoidal(4, order="cos_sin"), once)
    np.testing.assert_array_equal(np.load("z.npy"), twice)


def test_tensors_left_out_are_told(run: Run) -> None:
    save_file({"a": array(2, 4), "b": array(1), "c": array(1)}, "x.safetensors")
    result = run("encode", "x.safetensors", "--tensor", "a", "-o", "y.npy")
    assert "2 other tensors left out" in result.stderr


@pytest.mark.usefixtures("small_tiles")
def test_positions_of_a_file(run: Run) -> None:
    x = array(2, 5, 4)
    np.save("x.npy", x)
    run("encode", "x.npy", "-o", "y.npy", "--positions", "9,0:3,-4")
    expected = posenc.add(posenc.Sinusoidal(4), x, positions=[9, 0, 1, 2, -4])
    np.testing.assert_array_equal(np.load("y.npy"), expected)


def test_report_of_a_file(run: Run) -> None:
    np.save("x.npy", array(2, 5, 4))
    found = json.loads(run("encode", "x.npy", "-o", "y.npy", "--json").stdout)
    assert found == {
        "output": "y.npy",
        "tensor": None,
        "shape": [2, 5, 4],
        "dtype": "float32",
        "spec": posenc.Sinusoidal(4).to_dict(),
    }
    output = run("encode", "x.npy", "-o", "y.npy", "--force").output
    assert output == "y.npy: 2x5x4 float32, sum of x.npy and Sinusoidal(4)\n"


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(3, 7, 4), (7, 4), (2, 2, 5, 4)])
def test_nonfinite_values_are_named(run: Run, bad: float, shape: tuple[int, ...]) -> None:
    x = array(*shape)
    index = tuple(n - 1 for n in shape)
    x[index] = bad
    np.save("x.npy", x)
    output = run("encode", "x.npy", "-o", "y.npy", code=1).output
    assert f"{bad} at index {list(index)}" in output
    assert names() == ["x.npy"]
    run("encode", "x.npy", "-o", "y.npy", "--allow-nonfinite")
    np.testing.assert_array_equal(np.load("y.npy"), posenc.add(posenc.Sinusoidal(4), x))


def test_a_sum_that_does_not_fit_is_named(run: Run) -> None:
    x = np.full((2, 3, 4), 60000, dtype="float16")
    np.save("x.npy", x)
    output = run("encode", "x.npy", "-o", "y.npy", "--preset", "vaswani2017", code=1).output
    assert "sums that fit float16, got inf at index [0, 0, 0]" in output


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda: np.save("x.npy", np.ones(4, "float32")), 1, "shape (..., seq, dim)"),
        (lambda: np.save("x.npy", np.float32(1)), 1, "shape (..., seq, dim)"),
        (lambda: np.save("x.npy", np.ones((3, 0), "float32")), 1, "a width of at least 1"),
        (lambda: np.save("x.npy", np.ones((3, 4), "int64")), 1, "numbers of float64"),
        (lambda: np.save("x.npy", np.ones((3, 4), "complex64")), 1, "got complex64"),
        (lambda: np.save("x.npy", np.ones((4, 3), "float32").T), 1, "Fortran order"),
        (lambda: np.save("x.npy", np.array([{}]), allow_pickle=True), 1, "pickled"),
        (lambda: Path("x.npy").write_bytes(b""), 1, "0 bytes"),
        (lambda: Path("x.npy").write_text("hello, world"), 1, "a .npy or .safetensors file"),
        (lambda: Path("x.npy").mkdir(), 1, "a folder"),
        (lambda: None, 2, "'x.npy' is not there"),
    ],
)
def test_files_that_cannot_be_encoded(
    run: Run, make: Callable[[], Any], code: int, message: str
) -> None:
    make()
    before = names()
    assert message in run("encode", "x.npy", "-o", "y.npy", code=code).output
    assert names() == before


def test_a_truncated_file_is_refused(run: Run) -> None:
    np.save("x.npy", array(30, 4))
    content = Path("x.npy").read_bytes()
    for length in (3, 9, 60, 128, 200, len(content) - 1):
        Path("x.npy").write_bytes(content[:length])
        run("encode", "x.npy", "-o", "y.npy", code=1)
        assert names() == ["x.npy"]


def test_an_output_that_exists_is_kept(run: Run) -> None:
    np.save("x.npy", array(3, 4))
    Path("y.npy").write_text("precious")
    assert "--force" in run("encode", "x.npy", "-o", "y.npy", code=2).output
    assert Path("y.npy").read_text() == "precious"
    run("encode", "x.npy", "-o", "y.npy", "--force")
    assert np.load("y.npy").shape == (3, 4)


def test_the_output_is_not_the_input(run: Run) -> None:
    np.save("x.npy", array(3, 4))
    before = Path("x.npy").read_bytes()
    Path("same.npy").hardlink_to("x.npy")
    Path("link.npy").symlink_to("x.npy")
    for name in ("x.npy", "./x.npy", "same.npy", "link.npy"):
        assert (
            "the output is the input"
            in run("encode", "x.npy", "-o", name, "--force", code=2).output
        )
    assert Path("x.npy").read_bytes() == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "-o OUT"),
        (["-o", "y.txt"], ".npy or .safetensors"),
        (["-o", "none/y.npy"], "No such file"),
        (["-o", "x.npy/y.npy"], "Not a directory"),
        (["-o", "y.npy", "--seed", "3"], "--seed is for a text"),
        (["-o", "y.npy", "--tokenizer", "x.npy"], "--tokenizer is for a text"),
        (["-o", "y.npy", "--dim", "8"], "--dim is 8, but the data are 4 wide"),
        (["-o", "y.npy", "--positions", "1,2"], "2 positions for 3 tokens"),
        (["-o", "y.npy", "--offset", str(2**63 - 2)], "beyond 2**63"),
    ],
)
def test_options_that_do_not_fit_a_file(run: Run, args: list[str], message: str) -> None:
    np.save("x.npy", array(3, 4))
    assert message in run("encode", "x.npy", *args, code=2).output
    assert names() == ["x.npy"]


def test_a_spec_of_another_width_contradicts_the_data(run: Run) -> None:
    np.save("x.npy", array(3, 4))
    spec = posenc.to_json(posenc.Sinusoidal(8))
    output = run("encode", "x.npy", "-o", "y.npy", "--spec", spec, code=2).output
    assert "data 8 wide, as the spec, got 4" in output


def test_bfloat16_does_not_go_into_npy(run: Run) -> None:
    save_file({"x": array(3, 4, dtype=ml_dtypes.bfloat16)}, "x.safetensors")
    assert "cannot name bfloat16" in run("encode", "x.safetensors", "-o", "y.npy", code=2).output


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_permission_denied(run: Run) -> None:
    np.save("x.npy", array(3, 4))
    Path("x.npy").chmod(0)
    assert "Permission denied" in run("encode", "x.npy", "-o", "y.npy", code=1).output


@pytest.mark.parametrize(
    ("rows", "seq", "dim", "size"),
    [(1, 10, 4, 8), (7, 3, 5, 100), (5, 100, 3, 64), (2, 0, 4, 8), (0, 4, 4, 8), (3, 4, 50, 10)],
)
def test_tiles_cover_everything_once_and_stay_small(
    rows: int, seq: int, dim: int, size: int
) -> None:
    seen = np.zeros((rows, seq), int)
    for tile in _stream.tiles(rows, seq, dim, size):
        seen[tile.rows, tile.seq] += 1
        area = (tile.rows.stop - tile.rows.start) * (tile.seq.stop - tile.seq.start)
        assert area == 1 or area * dim <= size
    assert (seen == 1).all()


# --- table ----------------------------------------------------------------------------------------


def test_table_as_text(run: Run) -> None:
    lines = run("table", "--dim", "4", "--length", "3").output.splitlines()
    assert lines[0] == "Sinusoidal(4)"
    assert lines[3].split()[:5] == ["0", "0.00", "1.00", "0.00", "1.00"]
    assert lines[5].split()[:5] == ["2", "0.91", "-0.42", "0.02", "1.00"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_table_as_json(run: Run, dtype: str) -> None:
    args = ["--dim", "6", "--base", "100", "--positions", "3,1", "--dtype", dtype, "--json"]
    found = json.loads(run("table", *args).stdout)
    expected = posenc.table(posenc.Sinusoidal(6, base=100), [3, 1], dtype=dtype)
    np.testing.assert_array_equal(found["table"], expected.astype("float64"))
    assert found["positions"] == [3, 1]
    assert found["dtype"] == dtype
    assert found["shape"] == [2, 6]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("suffix", [".npy", ".csv", ".safetensors"])
def test_table_in_a_file(
    run: Run, suffix: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stream, "RUN", 16)
    args = ["--dim", "5", "--length", "11", "--offset", "-4", "--dtype", dtype]
    if (suffix, dtype) == (".npy", "bfloat16"):
        assert "cannot name bfloat16" in run("table", *args, "-o", "t.npy", code=2).output
        return
    run("table", *args, "-o", f"t{suffix}")
    known = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    expected = posenc.table(posenc.Sinusoidal(5), np.arange(-4, 7), dtype=known)
    if suffix == ".csv":
        rows = list(csv.reader(Path("t.csv").read_text().splitlines()))
        assert rows[0] == ["position", "c0", "c1", "c2", "c3", "c4"]
        assert [row[0] for row in rows[1:]] == [str(p) for p in range(-4, 7)]
        got = np.array([[float(v) for v in row[1:]] for row in rows[1:]]).astype(known)
    else:
        got = np.load("t.npy") if suffix == ".npy" else load_file("t.safetensors")["table"]
    assert got.dtype == known
    np.testing.assert_array_equal(bits(got), bits(expected))


def test_table_elides_a_billion_rows(run: Run) -> None:
    output = run("table", "--length", str(2**40)).output
    assert f"… {2**40 - 40} more rows" in output
    assert str(2**40 - 1) in output
    assert "Write them to a file" in run("table", "--length", str(2**40), "--json", code=1).output


def test_table_of_no_rows(run: Run) -> None:
    assert json.loads(run("table", "--length", "0", "--json").stdout)["table"] == []
    run("table", "--length", "0")


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tabel"], "Did you mean 'table'"),
        (["encode"], "Missing argument"),
        (["encode", "a", "--bsae", "3"], "--base"),
        (["encode", "a", "--order", "interleave"], "Did you mean 'interleaved'"),
        (["encode", "a", "--odd", "zeropad"], "Did you mean 'zero_pad'"),
        (["encode", "a", "--preset", "wisper"], "Did you mean 'whisper'"),
        (["encode", "a", "--preset", "whisper", "--dim", "7"], "--dim 7"),
        (
            ["encode", "a", "--preset", "whisper", "--base", "3"],
            "--preset says everything: leave out --base",
        ),
        (["encode", "a", "--spec", "{}", "--dim", "3"], "leave out --dim"),
        (
            ["encode", "a", "--spec", "{}", "--preset", "x", "--odd", "cut"],
            "--preset or --spec, not both",
        ),
        (["encode", "a", "--spec", "{"], "not JSON"),
        (["encode", "a", "--spec", "{}"], "a key 'type'"),
        (["encode", "a", "--spec", '{"type": "Sinusoidl"}'], "Did you mean 'Sinusoidal'"),
        (["encode", "a", "--spec", '{"type": "Ladder"}'], "is no table"),
        (["encode", "a", "--spec", "absent.json"], "'absent.json' is not there"),
        (["encode", "a", "--dim", "0"], "--dim"),
        (["encode", "a", "--dim", "99999999"], "--dim"),
        (["encode", "a", "--base", "0"], "a finite number above 0"),
        (["encode", "a", "--base", "nan"], "a finite number above 0"),
        (["encode", "a", "--positions", "1,2", "--offset", "1"], "not both"),
        (["encode", "a", "--positions", "1,2"], "2 positions for 1 token"),
        (["encode", "a", "--positions", "x"], "'x' is no position"),
        (["encode", "a", "--positions", "1.5"], "no position"),
        (["encode", "a", "--positions", ""], "no position"),
        (["encode", "a", "--positions", "0:9:0"], "step of 0"),
        (["encode", "a", "--positions", "0:99999999999"], "more than"),
        (["encode", "a", "--positions", "9223372036854775808"], "beyond 2**63"),
        (["encode", "a", "--positions", f"{1 - 2**63}:{2**63 - 1}"], "more than"),
        (["encode", "a", "--positions", "9" * 5000], "beyond 2**63"),
        (["encode", "a", "--offset", "9223372036854775808"], "beyond 2**63"),
        (
            ["encode", "a", "--seed", "1", "--embeddings", "notes.txt"],
            "--seed draws random vectors",
        ),
        (["encode", "a", "--tensor", "x"], "--tensor"),
        (["encode", "a", "--embeddings", "absent.npy"], "'absent.npy' is not there"),
        (["encode", "a", "--tokenizer", "absent.json"], "is not there"),
        (["encode", "a", "-o", "x.txt"], ".npy or .safetensors"),
        (["encode", "./"], "is a folder"),
        (["encode", "notes.txt"], "posenc encode - < notes.txt"),
        (["table", "--length", "-1"], "--length"),
        (["table", "--length", "3", "--positions", "1"], "not both"),
        (["table", "--spec", ""], "--spec is empty"),
        (["table", "--dtype", "int8"], "'int8' is none of"),
        (["table", "-o", "x.txt"], ".csv"),
        (["table", "-o", "notes.txt/x.npy"], "Not a directory"),
        (["cite", "sinusoidl"], "Did you mean 'Sinusoidal'"),
        (["cite"], "Missing argument"),
    ],
)
def test_mistakes_of_usage(run: Run, args: list[str], message: str) -> None:
    Path("notes.txt").write_text("words")
    assert message in run(*args, code=2).output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["encode", ""], "at least one token"),
        (["encode", " \n"], "at least one token"),
        (["encode", "a " * 100, "--dim", "100000"], "a text of at most"),
        (["encode", "a", "--spec", "notes.txt"], "not JSON"),
    ],
)
def test_mistakes_in_the_data(run: Run, args: list[str], message: str) -> None:
    Path("notes.txt").write_text("words")
    assert message in run(*args, code=1).output


def test_specs_of_several_axes_need_positions(run: Run) -> None:
    arrangement = posenc.Arrangement(rule="axial", axes=("h", "w"))
    spec = posenc.to_json(posenc.Sinusoidal(8, arrangement=arrangement))
    assert "give --grid 3x4, or --positions" in run("encode", "a", "--spec", spec, code=2).output


def test_a_word_that_is_also_a_file_is_a_word(run: Run) -> None:
    Path("book").write_text("other words")
    assert json.loads(run("encode", "book", "--json").stdout)["tokens"] == ["book"]


def test_internal_errors_are_one_line_unless_debugging(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(_lines, "print_json", fail)
    output = run("encode", "a", "--json", code=1).output
    assert "ZeroDivisionError: oh" in output
    assert "POSENC_DEBUG=1" in output
    assert output.count("\n") == 1
    monkeypatch.setenv("POSENC_DEBUG", "1")
    result = CliRunner().invoke(app, ["encode", "a", "--json"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_the_first_signal_cleans_up_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored = []
    monkeypatch.setattr(_app.signal, "signal", lambda number, what: ignored.append((number, what)))
    with pytest.raises(_app.Interrupted):
        _app._interrupt(signal.SIGTERM, None)
    ignore = signal.SIG_IGN
    assert set(ignored) == {(n, ignore) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def test_out_of_memory_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(_lines, "print_json", fail)
    assert "out of memory" in run("encode", "a", "--json", code=1).output


# --- list, cite, doctor, help ---------------------------------------------------------------------


def test_list_has_everything(run: Run) -> None:
    found = json.loads(run("list", "--json").stdout)
    assert [row["name"] for row in found["encodings"]] == list(SPECS)
    assert [row["name"] for row in found["presets"]] == list(presets.names())
    assert all(row["summary"] and row["kind"] for row in found["encodings"])
    formula = "-r1[h] ln(1 + r2[h] |m - n|)"
    assert formula in run("list", "kerple").output
    assert "least : float" in run("list", "KERPLE").output
    assert formula not in run("list", "bias").output
    output = run("list").output
    for name in (*SPECS, *presets.names()):
        assert re.search(rf"[ ,]{re.escape(name)}[,\n]", output), name
    assert f"{len(SPECS)} encodings" in output
    assert f"{len(presets.names())} presets" in output
    page = run("list", columns=80).output.splitlines()
    assert len(page) <= 45
    assert max(map(len, page)) <= 80


def test_cite(run: Run) -> None:
    for name in ("Sinusoidal", "sinusoidal"):
        assert run("cite", name).output == posenc.Sinusoidal.bibtex + "\n"
    assert json.loads(run("cite", "Sinusoidal", "--json").stdout)["bibtex"] == (
        posenc.Sinusoidal.bibtex
    )
    both = run("cite", "Sinusoidal", "kerple", "sinusoidal").output
    assert both == f"{posenc.Sinusoidal.bibtex}\n\n{posenc.KERPLE.bibtex}\n"
    assert len(json.loads(run("cite", "RoPE", "T5", "--json").stdout)) == 2
    output = run("cite", "whisper").output
    assert output.startswith("% whisper: openai/whisper")
    assert output.endswith(posenc.Sinusoidal.bibtex + "\n")


def test_a_table_is_named_as_in_plot(run: Run) -> None:
    words = ("--encoding", "fourier", "--dim", "6", "--positions", "3,", "--json")
    found = json.loads(run("table", *words).stdout)
    assert found["spec"]["type"] == "Fourier"
    assert found["positions"] == [3]
    far = json.loads(run("table", "--dim", "4", "--positions", "128k:131073", "--json").stdout)
    assert far["positions"] == [131072]
    assert "RoPE is no table" in run("table", "--encoding", "rope", code=2).output


def test_without_a_command_the_help_is_printed_as_it_is(run: Run) -> None:
    assert run(code=2).output == run("--help").output
    assert "Error: No such command" in run("nonesuch", code=2).output


def test_a_file_alone_is_explained_or_identified(run: Run) -> None:
    Path("config.json").write_text('{"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}')
    np.save("table.npy", posenc.table(posenc.Sinusoidal(16), 40))
    for name, verb in (("config.json", "explain"), ("table.npy", "identify"), (".", "explain")):
        alone, named = run(name), run(verb, name)
        assert alone.stderr == f"posenc: {name} is there, so this runs: posenc {verb}\n"
        assert alone.stdout == named.stdout
    told = ["plot wavelengths --force -o a.svg --spec", "config.json", "."]
    drawn = [run(*told[0].split(), of).stdout for of in told[1:]]
    assert drawn[0] == drawn[1]
    for name in ("none.json", "config.jsn", "./none", "owner/model-8b"):
        told = run(name, code=2).output
        assert f"No such command {name!r}, and no file or folder of that name" in told
    for word, way in (("nonesuch", ". Known: "), ("lists", ". Did you mean 'list'?")):
        assert f"No such command {word!r}{way}" in run(word, code=2).output


def test_cite_without_a_reference(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posenc.Sinusoidal, "bibtex", "")
    assert "a paper" in run("cite", "Sinusoidal", code=1).output


def test_version(run: Run) -> None:
    assert run("--version").output == f"posenc, version {posenc.__version__}\n"


def test_help_documents_the_exit_codes_and_all_commands(run: Run) -> None:
    output = run("--help").output
    for line in ("  0      done", "  1      the data", "  2      the command line", "  128+n"):
        assert line in output
    unwrapped = "".join(output.split())
    for name, (_, summary) in _app.COMMANDS.items():
        assert f"  {name}" in output
        assert "".join(summary.split()) in unwrapped
        assert run(name, "--help").output.startswith("Usage: ")


@pytest.mark.parametrize("line", ["study", "study --help", "study run smoke --workers 2"])
def test_a_command_that_is_not_installed_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    told = "posenc study: expected the package posenc-study, got no such package. Install it: pip"
    assert f"{told} install posenc-study\n" in run(*line.split(), code=2).output
    assert "  study  " in run("--help").output


def test_a_command_of_another_distribution_is_its_entry_point(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "posenc_study-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: posenc-study\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[posenc.commands]\nstudy = other_study:command\n")
    text = "import click\ncommand = click.Command('study', callback=lambda: click.echo('other'))\n"
    (tmp_path / "other_study.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert run("study").output == "other\n"


def test_summaries_are_those_of_the_commands() -> None:
    context = app.make_context("posenc", ["list"])
    for name, (_, summary) in _app.COMMANDS.items():
        command = app.get_command(context, name)
        assert command is not None
        assert (command.help or "").partition("\n")[0] == summary
        assert name == "mcp" or any("--json" in each.opts for each in command.params)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("__version__ = '1.2'", "works", None),
        ("raise OSError('libfoo.so: cannot open')", "broken", "OSError: libfoo.so: cannot open"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "broken", "ended by SIGSEGV"),
        ("import os; os._exit(3)", "broken", "no message"),
        ("print('noise'); __version__ = '1.2'", "works", None),
    ],
)
def test_doctor_reports_a_broken_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, status: str, reason: str | None
) -> None:
    (tmp_path / "shaky.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = probe("shaky", imported=True)
    assert found["status"] == status
    assert found["version"] == ("1.2" if status == "works" else None)
    assert (reason is None and found["reason"] is None) or str(reason) in str(found["reason"])
    assert probe("no_such_package_anywhere", imported=True)["status"] == "absent"
    unseen = {"status": "installed", "version": None, "reason": None}
    assert probe("shaky", imported=False) == unseen


@pytest.mark.costly
def test_doctor_imports_nothing_that_no_reason_needs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions come from the metadata: what is installed may break, or take seconds, unseen."""
    here = Path(posenc.__file__).parent.parent
    for name in ("torch", "jax", "matplotlib", "triton"):
        (tmp_path / f"{name}.py").write_text("raise OSError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{here}")
    from posenc.kernels.choose import gpu_device

    found = json.loads(run("doctor", "--json", code=int(gpu_device())).stdout)
    rows = {row["name"]: row for row in found["libraries"]}
    assert rows["torch"]["status"] == rows["jax"]["status"] == "installed"
    assert rows["jax"]["version"] == importlib.metadata.version("jax")
    assert rows["numpy"]["status"] == "works"
    broken = json.loads(run("doctor", "--import", "--json", code=1).stdout)["broken"]
    assert broken == ["torch", "jax", "triton", "matplotlib"]


def test_what_installs_again_goes_round_the_cache_of_pip() -> None:
    """It keeps the package that was built without a compiler."""
    root = Path(__file__).resolve().parents[2]
    assert "--no-cache-dir" in plans.AGAIN
    for path in (root / "pyproject.toml", *(root / "docs").glob("*.md"), root / "README.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "--force-reinstall" not in line or "--no-cache-dir" in line, path


@pytest.mark.costly
def test_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.cli.commands import doctor

    answers = {"jax": "broken", "torch": "absent"}

    def answer(name: str, *, imported: bool) -> dict[str, str | None]:
        status = answers.get(name, "works")
        reason = "ImportError: no jaxlib" if status == "broken" else None
        return {"status": status, "version": "1" if status == "works" else None, "reason": reason}

    monkeypatch.setattr(doctor, "probe", answer)
    found = json.loads(run("doctor", "--json", code=1).stdout)
    assert found["broken"] == ["jax"]
    assert found["system"]["posenc"] == posenc.__version__
    kernels = {(row["op"], row["kernel"]): row for row in found["kernels"]}
    verbs = ("table", "add", "rotate", "rerotate", "cos_sin", "bias")
    assert set(kernels) == {
        ("relative", "reference"),
        *((verb, kernel) for verb in verbs for kernel in set(KERNELS) - {"auto"}),
    }
    assert all(row["reason"] for row in kernels.values())
    assert all(row["runs"] for row in kernels.values() if row["kernel"] == "reference")
    output = run("doctor", code=1).output
    assert "ImportError: no jaxlib" in output
    assert "not working: jax" in output
    answers.clear()
    run("doctor")
    answers["numpy"] = "absent"
    assert "not working: numpy" in run("doctor", code=1).output


@pytest.mark.costly
def test_doctor_outlives_kernels_that_do_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posenc.cli.commands import doctor

    here = Path(posenc.__file__).parent.parent
    shaky = tmp_path / "sitecustomize.py"
    works = {"status": "works", "version": "1", "reason": None}
    monkeypatch.setattr(doctor, "probe", lambda _, imported: works)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{here}")
    # A module that cannot be loaded, and one whose instructions this processor has not.
    for body, reason in (
        ("import sys; sys.modules['posenc.kernels'] = None", "ModuleNotFoundError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "ended by SIGILL"),
    ):
        shaky.write_text(body)
        found = json.loads(run("doctor", "--json", code=1).stdout)
        assert found["kernels"] == []
        (broken,) = found["broken"]
        assert broken.startswith("posenc.kernels (")
        assert reason in broken


@pytest.mark.costly
def test_doctor_asks_about_the_gpu_as_torch_sees_it() -> None:
    from posenc.cli.commands.doctor import kernels

    rows, reason = kernels(with_torch=True)
    assert reason is None
    triton = {row["reason"] for row in rows if row["kernel"] == "triton" and row["op"] == "rotate"}
    assert triton <= {"no GPU", "triton is not installed", "tensors on a GPU", "interpreted"}
    assert rows == kernels_here()


def kernels_here() -> list[dict[str, Any]]:
    """The same in this process."""
    import torch  # noqa: F401 - whether there is a GPU is one of the reasons

    from posenc.kernels import report

    return report()
