"""`posenc locate`: what it prints, what it returns, and what it says of mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

import posenc
from posenc._core.io.files import to_bfloat16
from posenc._core.io.headers import safetensors_header
from posenc.cli import app


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["locate", *arguments], input=text)


def test_the_exercise() -> None:
    result = run("--dim", "5120", "--base", "10000", "--value", "0.488814", "--at", "1088")
    assert result.exit_code == 0
    assert result.output.startswith(
        "Position 7, if the exponent is i/d and the digits are cut, not rounded.\n"
    )
    assert "0.835354 at position 7, and 0.488814 nowhere before 929,505" in result.output


def test_json() -> None:
    result = run("--dim", "5120", "--value", "0.488814", "--at", "1088", "--json")
    found = json.loads(result.output)
    assert found["position"] == 7
    assert found["settled"] is False  # 783 positions have these digits
    assert found["fits"][0]["convention"][0] == "the exponent is i/d"
    spec = posenc.from_json(json.dumps(found["fits"][0]["spec"]))
    assert spec == posenc.Sinusoidal(5120, ladder=posenc.Ladder(denominator="d"))


def test_vectors_of_files(tmp_path: Path) -> None:
    rows = posenc.table(posenc.Sinusoidal(64), [5, 123_456, 7])
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "one.npy", rows[1])
    np.save(tmp_path / "fortran.npy", np.asfortranarray(rows))
    for arguments in (("rows.npy", "--row", "1"), ("one.npy",), ("fortran.npy", "--row", "1")):
        result = run(str(tmp_path / arguments[0]), *arguments[1:])
        assert result.exit_code == 0
        assert result.output.startswith("Position 123,456.\n"), arguments
    header = safetensors_header({"pe": ("bfloat16", rows.shape)})
    header = header if isinstance(header, bytes) else header[0]
    (tmp_path / "rows.safetensors").write_bytes(header + to_bfloat16(rows).tobytes())
    result = run(str(tmp_path / "rows.safetensors"), "--row", "1", "--tensor", "pe")
    assert result.output.startswith("Position 123,456.\n")


def test_what_stood_there_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 64)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "sum.npy", posenc.add(posenc.Sinusoidal(64), x, offset=777))
    before = ["--before", str(tmp_path / "x.npy")]
    result = run(str(tmp_path / "sum.npy"), *before)
    assert result.output.startswith("Position 777.\n")
    both = {"other": x, "sum": posenc.add(posenc.Sinusoidal(64), x, offset=778)}
    save_file(both, tmp_path / "both.safetensors")
    # The name is that of a tensor of the first file alone.
    result = run(str(tmp_path / "both.safetensors"), "--tensor", "sum", *before)
    assert result.output.startswith("Position 778.\n")
    rope = posenc.RoPE(64, pairing="half")
    np.save(tmp_path / "turned.npy", posenc.rotate(rope, x, positions=[31]))
    result = run(str(tmp_path / "turned.npy"), *before, "--spec", posenc.to_json(rope))
    assert result.output.startswith("Position 31.\n")


@pytest.mark.costly
def test_numbers_from_standard_input() -> None:
    printed = "0.84 0.54 0.53 0.85 0.31 0.95 0.18 0.98 0.10 1.00 0.06 1.00 0.03 1.00 0.02 1.00"
    result = run("-", "--base", "100", text=printed)
    assert result.exit_code == 0
    assert result.output.startswith("Position 1.\n")
    brackets = "[" + printed.replace(" ", ", ") + "]"
    assert run("-", "--base", "100", text=brackets).output == result.output


@pytest.mark.parametrize("width", [2, 4, 16])
def test_a_short_row_is_rounded_as_it_was_printed(width: int) -> None:
    """Each of its numbers is known to its last digit; of too many numbers none is a row."""
    row = posenc.table(posenc.Sinusoidal(width), [7], dtype="float64")[0].round(3)
    assert run("-", text=" ".join(map(str, row))).output.startswith("Position 7.\n")
    assert posenc.locate(posenc.Sinusoidal(width), row).position == 7
    wrong = np.append(row[:-1], 0.5)
    assert "No such position" in run("-", text=" ".join(map(str, wrong))).output


def test_no_position_is_exit_code_1(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=64))
    result = run(str(tmp_path / "x.npy"), "--conventions", "stated")
    assert result.exit_code == 1
    assert "No such position" in result.output


def test_the_range() -> None:
    arguments = ["--dim", "64", "--value", "0.5", "--at", "0", "--conventions", "stated"]
    found = json.loads(run(*arguments, "--within", "-20:20", "--json").output)
    assert found["within"] == [-20, 20]
    assert all(-20 <= p <= 20 for p in found["fits"][0]["positions"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give a VECTOR"),
        (["--dim", "8", "--value", "0.5"], 2, "--value 0.5 has no --at"),
        (["--dim", "8", "--value", "1", "--at", "1", "--at", "2"], 2, "--at 2 has no --value"),
        (["--dim", "8", "--value", "0.5", "0.4"], 2, "go with --value and --at"),
        (["--value", "0.5", "--at", "1"], 2, "--dim"),
        (["--dim", "8", "--value", "x", "--at", "1"], 2, "a number with its digits"),
        (["--dim", "8", "--value", "0.5", "--at", "8"], 2, "dimensions from 0 to 7"),
        (["--dim", "8", "--value", "1", "--at", "1", "--within", "9:1"], 2, "LOW:HIGH"),
        (["--dim", "8", "--value", "1", "--at", "1", "--row", "1"], 2, "is for a VECTOR"),
        (["--dim", "8", *(["--value", "1", "--at", "1"] * 2)], 2, "one value for each"),
        (["nowhere.npy"], 2, "is not there"),
        (["-"], 1, "expected numbers"),
        (["-", "--spec", '{"type": "ALiBi", "heads": 2}'], 2, "bias knows the distance"),
        (["-", "--dim", "9"], 2, "width 9"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str) -> None:
    text = "one two" if arguments == ["-"] else "1 2 3"
    result = run(*arguments, text=text)
    assert result.exit_code == code, result.output
    assert words in result.output
    assert "Traceback" not in result.output


def test_several_rows_need_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((3, 8), "float32"))
    assert "--row says which" in run(str(path)).output
    assert "has rows 0 to 2" in run(str(path), "--row", "3").output
    integers = tmp_path / "integers.npy"
    np.save(integers, np.zeros(8, np.int64))
    result = run(str(integers))
    assert result.exit_code == 1
    assert "int64" in result.output


def test_learned_tables_need_their_rows(tmp_path: Path) -> None:
    spec: Any = posenc.Learned(8, length=5)
    weight = posenc.init(spec)["weight"]
    np.save(tmp_path / "weight.npy", weight)
    arguments = [str(tmp_path / "weight.npy"), "--row", "3", "--spec", posenc.to_json(spec)]
    result = run(*arguments, "--params", str(tmp_path / "weight.npy"))
    assert result.output.startswith("Position 3.\n")
    assert run(*arguments).exit_code == 2
