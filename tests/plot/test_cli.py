"""`posenc plot`: what it writes, what it prints, and how it says no."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib")

import posenc
from posenc.cli import app
from posenc.plot.rows import PICTURES as ROWS
from posenc.plot.views import find
from tests.tolerances import assert_close

Run = Callable[..., Result]

# Those that are drawn of one encoding; a search and a comparison need more.
PICTURES = [name for name in ROWS if name not in ("find", "compare")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `posenc plot` in an empty folder; it must exit with the code given, 0 by default."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["plot", *args])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return call


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_drawn_unasked(run: Run, name: str) -> None:
    size = ("--dim", "8") if name not in ("bias", "rotation", "scene", "stretch") else ()
    result = run(name, *size, "-o", "x.svg", "--theme", "dark", "--json")
    found = json.loads(result.stdout)
    assert found["output"] == "x.svg"
    assert found["parameters"]["plot"] == name
    assert found["parameters"]["theme"] == "dark"
    assert found["caption"]
    assert names() == ["x.svg"]


@pytest.mark.costly
def test_find_and_compare_need_what_they_are_about(run: Run) -> None:
    lines = find.data(posenc.Sinusoidal(512), {20: "0.9"}, within=(0, 9999))
    first = find.words_of(lines.candidates[0])
    assert first == "as stated: 3, 12, 21, 30 …; only the first 40 are drawn"
    few = find.data(posenc.Sinusoidal(512), {20: "0.900"}, within=(0, 9999))
    assert "drawn" not in find.words_of(few.candidates[0])
    result = run("find", "--dim", "5120", "--value", "0.488814", "--at", "1088")
    assert "Position 7, if the exponent is i/d" in result.output
    run("compare", "table", "--dim", "8", "--b-base", "100", "-o", "x.png", "--numbers", "x.csv")
    assert names() == ["x.csv", "x.png"]
    assert "--value and --at" in run("find", "--dim", "8", code=2).output
    assert "say what B is" in run("compare", "table", code=2).output
    assert "Did you mean 'table'" in run("compare", "tabel", "--b-base", "1", code=2).output
    assert "Known: attention, bias" in run("compare", "scene", code=2).output


@pytest.mark.costly
def test_the_figures_of_the_sources(run: Run) -> None:
    run("table", "--dim", "64", "--length", "16", "-o", "16x64.png")
    run("table", "--dim", "50", "--length", "20", "-o", "20x50.png")
    result = run("wavelengths", "--each-dim", "64,128,512", "-o", "widths.svg")
    assert "60,611" in result.output
    asked = ("table", "--dim", "50", "--length", "45000", "--height", "670", "--json")
    honest = json.loads(run(*asked, "-o", "period.png").stdout)
    assert honest["facts"]["tile.blank"] == 18
    shown = json.loads(run(*asked, "--sample", "-o", "illusion.png").stdout)
    assert "not in the table" in " ".join(shown["caption"])
    assert Path("period.png").read_bytes() != Path("illusion.png").read_bytes()
    assert "10010110" in run("counter", "--dim", "8", "--position", "150", "-o", "150.png").output


@pytest.mark.costly
def test_a_length_is_no_longer_named_beside_positions(run: Run) -> None:
    asked = ("table", "--dim", "8", "--length", "5", "--positions", "0:3")
    assert "write --positions 5." in run(*asked, code=2).output
    asked = ("compare", "wavelengths", "--dim", "8", "--b-dim", "16", "--length", "300")
    assert "within 300" in run(*asked, "-o", "x.png").output


def test_numbers_go_to_files(run: Run) -> None:
    run("table", "--dim", "8", "--length", "5", "--numbers", "x.npz")
    with np.load("x.npz") as found:
        exact = posenc.table(posenc.Sinusoidal(8), 5, dtype="float64")
        assert_close(found["tile.values"], exact, 1e-13)
    run("offset", "--dim", "8", "--offsets", "4", "--axis", "linear", "--numbers", "x.csv")
    lines = Path("x.csv").read_text().splitlines()
    assert lines[0] == "offset,mean,low,high"
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]
    assert names() == ["x.csv", "x.npz"]


def test_outputs_are_never_replaced_unasked(run: Run) -> None:
    Path("x.png").write_bytes(b"precious")
    assert "--force" in run("table", "--dim", "8", "-o", "x.png", code=2).output
    Path("y.csv").write_bytes(b"precious")
    run("table", "--dim", "8", "-o", "z.png", "--numbers", "y.csv", code=2)
    assert Path("x.png").read_bytes() == Path("y.csv").read_bytes() == b"precious"
    assert names() == ["x.png", "y.csv"]
    run("table", "--dim", "8", "-o", "x.png", "--force")
    assert Path("x.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.costly
def test_a_run_again_writes_the_same_file(run: Run) -> None:
    for name in ("a.png", "b.png"):
        run("table", "--dim", "16", "--length", "700", "-o", name)
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()


# --- encodings ------------------------------------------------------------------------------------


@pytest.mark.costly
def test_encodings_come_by_name_options_json_preset_and_file(run: Run) -> None:
    cases = {
        ("--encoding", "timestep", "--dim", "10"): posenc.Timestep(10),
        ("--dim", "9", "--odd", "zero_pad"): posenc.Sinusoidal(9, odd="zero_pad"),
        ("--spec", '{"type": "Sinusoidal", "dim": 6}'): posenc.Sinusoidal(6),
        ("--preset", "tensor2tensor", "--dim", "12"): posenc.preset("tensor2tensor", 12),
        ("--pairing", "half", "--dim", "16"): posenc.RoPE(16, pairing="half"),
        (
            "--encoding", "RoPE", "--dim", "8", "--field",
            'scaling={"type": "Linear", "factor": 4}',
        ): posenc.RoPE(8, pairing="half", scaling=posenc.scaling.Linear(4.0)),
        ("--dim", "8", "--field", "base=50"): posenc.Sinusoidal(8, base=50),
    }  # fmt: skip
    for words, spec in cases.items():
        found = json.loads(run("table", *words, "--length", "4", "--json").stdout)
        assert posenc.from_json(json.dumps(found["parameters"]["spec"])) == spec
    Path("spec.json").write_text(posenc.to_json(posenc.Sinusoidal(6)))
    run("table", "--spec", "spec.json", "--length", "3")


@pytest.mark.costly
def test_tables_come_from_files(run: Run) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype("float32")
    np.save("rows.npy", rows)
    np.savez("rows.npz", other=np.zeros(3), table=rows)
    save_file({"wpe": rows, "bias": np.zeros(4, "float32")}, "rows.safetensors")
    for name in ("rows.npy", "rows.npz", "rows.safetensors"):
        run("table", "--table", name, "--numbers", f"{name}.csv")
        lines = Path(f"{name}.csv").read_text().splitlines()[1:]
        found = np.array([[float(x) for x in line.split(",")[1:]] for line in lines])
        assert_close(found, rows, 0)
    save_file({"a": rows, "b": rows}, "two.safetensors")
    assert "several: a, b" in run("table", "--table", "two.safetensors", code=2).output
    run("similarity", "--table", "two.safetensors", "--tensor", "b")
    assert "not there" in run("table", "--table", "none.npy", code=2).output
    run("offset", "--table", "rows.npy", "--offsets", "20", "-o", "x.svg")
    Path("junk.npy").write_bytes(b"junk")
    assert "junk.npy" in run("table", "--table", "junk.npy", code=1).output
    np.save("cube.npy", np.zeros((2, 3, 4), "float32"))
    run("table", "--table", "cube.npy", code=2)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("scaling", "more", "trained"),
    [
        (None, (), "Trained on 8,192 positions, stretched ×8 to 65,536."),
        (None, ("--original-length", "1024"), "Trained on 1,024 positions, stretched ×8 to 8,192."),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, (),
         "Trained on 2,048 positions, stretched ×4 to 8,192."),
    ],
)  # fmt: skip
def test_the_trained_length_is_that_of_the_config(
    run: Run, scaling: dict[str, Any] | None, more: tuple[str, ...], trained: str
) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2}
    config |= {"max_position_embeddings": 8192, "rope_theta": 1e4, "rope_scaling": scaling}
    Path("config.json").write_text(json.dumps(config))
    drawn = run("stretch", "--spec", "config.json", *more, "--rules", "none,linear").output
    assert trained in drawn
    assert re.search(r"^Slow pairs, of (\d), that meet .*: unchanged \1; linear 0\.$", drawn, re.M)
    assert "Trained on 4,096" in run("stretch", "--spec", "RoPE(32, pairing='half')").output


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("attention", "--encoding", "NoPE"), 2, "has attention without positions"),
        (("waves", "--dim", "64", "--dims", "0,1"), 0, "\nWavelength λ 6.283 positions."),
        (("waves", "--dim", "64", "--dims", "0,5"), 0, "\nWavelengths λ from 6.283 to 11.17 posi"),
    ],
)
def test_what_is_said_of_one_wavelength_and_of_no_encoding(
    run: Run, arguments: tuple[str, ...], code: int, says: str
) -> None:
    assert says in run(*arguments, code=code).output


def test_fields_that_nobody_gave_are_those_of_the_example(run: Run) -> None:
    for words in (
        ("table", "--encoding", "GridCells", "--grid", "x=3,y=3", "--output", "grid.svg"),
        ("bias", "--encoding", "ClippedTable", "--init-seed", "0", "--output", "clipped.svg"),
        ("waves", "--encoding", "Concatenated", "--output", "both.svg"),
    ):
        run(*words)
        assert Path(words[-1]).exists()


@pytest.mark.costly
def test_learned_encodings_need_their_numbers(run: Run) -> None:
    assert "--init-seed" in run("bias", "--encoding", "T5", code=2).output
    result = run("bias", "--encoding", "T5", "--heads", "2", "--init-seed", "1")
    assert "untrained" in result.output
    assert "'bias'" in run("table", "--encoding", "T5", code=2).output
    spec = posenc.Learned(4, length=9)
    save_file(posenc.init(spec, 3), "learned.safetensors")
    asked = ("--encoding", "Learned", "--dim", "4", "--field", "length=9")
    run("table", *asked, "--params", "learned.safetensors", "--numbers", "x.csv")
    assert len(Path("x.csv").read_text().splitlines()) == 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tabel",), "Did you mean 'table'"),
        (("table", "--encoding", "sinusiodal"), "Did you mean 'Sinusoidal'"),
        (("table", "--preset", "wisper"), "Did you mean 'whisper'"),
        (("table", "--theme", "drak"), "Did you mean 'dark'"),
        (("table", "--positions", "many"), "FROM:TO"),
        (("table", "--dims", "100"), "for the first 100 --dims 0:100"),
        (("table", "--dims", "5"), "--dims 0:5"),
        (("table", "--length", "0"), "x>=1"),
        (("table", "--dims", "0:200"), "dimensions 0 to 127"),
        (("table", "-o", "x.xyz"), ".png or .svg or .pdf"),
        (("table", "--title", "A table", "--no-title"), "not both"),
        (("table", "--size", "84"), "a width with its unit"),
        (("table", "--dpi", "-1"), "18 to 2,400"),
        (("table", "--numbers", "x.txt"), ".npz or .csv"),
        (("table", "--spec", "{}", "--dim", "4"), "leave out --dim"),
        (("table", "--preset", "mae"), "the number of cells along each"),
        (("table", "--heads", "4"), "--encoding"),
        (("table", "--field", "nonsense"), "NAME=JSON"),
        (("table", "--field", "nonsense=1"), "known keys only"),
        (("table", "--preset", "llama", "--spec", "{}"), "not both"),
        (("table", "--tensor", "x"), "--table"),
        (("waves", "--dims", "9-1"), "rising"),
        (("wavelengths", "--encoding", "ALiBi"), "'bias'"),
        (("wavelengths", "--each-base", "ten"), "100,1e4"),
        (("rotation", "--query-key", "1"), "two whole numbers"),
        (("scene", "--image", "8"), "--image: write two whole numbers"),
        (("scene", "--reference", "8,0"), "two sides of 0 to 512 tokens"),
        (("scene", "--dim", "8"), "No such option"),
        (("bias", "--dim", "8"), "dim"),
        (("bias", "--show-heads", "8"), "heads from 0 to 7"),
        (("stretch", "--rules", "yarm"), "Did you mean 'yarn'"),
        (("offset", "--positions", "0:4"), "--offsets"),
        (("sum", "", "--dim", "8"), "tokens"),
        (("counter", "--length", "10000"), "at most 4,096"),
        (("table", "--encoding", "RoPE", "--field", "dim=7"), "even width"),
    ],
)
def test_mistakes_are_named_in_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words, code=2)
    assert said in result.output
    assert names() == []


def test_pictures_are_listed(run: Run) -> None:
    listed = json.loads(run("--json").stdout)
    assert list(listed) == [*ROWS, "extend"]
    assert "Draw an encoding." in run().output
    assert "after the name" in run("--json", "table", code=2).output


@pytest.mark.costly
def test_positions_are_ranges(run: Run) -> None:
    for text, expected in (("0:7", (0, 7)), ("3:9", (3, 9)), ("1_000:1,010", (1000, 1010))):
        found = json.loads(run("table", "--dim", "4", "--positions", text, "--json").stdout)
        got = found["facts"]["tile.positions.0"], found["facts"]["tile.positions.1"]
        assert got == expected
    far = run("table", "--dim", "4", "--positions", "2147483640:2147483647", "--numbers", "x.csv")
    assert "7 positions" in far.output


@pytest.mark.costly
def test_one_position_of_one_dimension(run: Run) -> None:
    run("table", "--dim", "1", "--length", "1", "-o", "x.png")
    run("similarity", "--dim", "1", "--length", "1", "-o", "y.png")
    run("waves", "--dim", "1", "--length", "1", "-o", "z.png")
    run("offset", "--dim", "1", "--offsets", "1", "-o", "o.png")
    run("wavelengths", "--dim", "1", "-o", "w.png")


@pytest.mark.costly
def test_a_huge_table_is_drawn(run: Run) -> None:
    asked = ("table", "--dim", "65536", "--length", "16777216")
    found = json.loads(run(*asked, "--height", "200", "--width", "300", "--json").stdout)
    assert found["facts"]["tile.method"] == "gain"
    assert "pairs, sines and cosines apart" in " ".join(found["caption"])


def frames(path: str) -> list[np.ndarray]:
    from PIL import Image, ImageSequence

    with Image.open(path) as picture:
        return [np.asarray(one.convert("RGB")) for one in ImageSequence.Iterator(picture)]


@pytest.mark.costly
def test_a_shift_is_played(run: Run) -> None:
    asked = ("attention", "--dim", "16", "--width", "120", "--play")
    moves, stays = ("--encoding", "Sinusoidal"), ("--encoding", "RoPE", "--no-title")
    assert run(*asked, "shift=0:12:4", *moves, "-o", "moves.gif").output == "moves.gif\n"
    run(*asked, "shift=0:12:4", *stays, "--pairing", "half", "-o", "stays.gif")
    moving, still = frames("moves.gif"), frames("stays.gif")
    assert (len(moving), len(still)) == (3, 1), "equal pictures are one, shown for longer"
    below = slice(80, None)  # the title
    assert not any((moving[0][below] == other[below]).all() for other in moving[1:])
    longer = ("table", "--dim", "16", "--width", "240", "--play", "length=1:66:32", "-o")
    run(*longer, "longer.gif")
    run(*longer, "longer.svg")
    sizes = [
        [float(n) for n in found]
        for found in re.findall(
            r'<svg [^>]*?width="(\S+)" height="(\S+)" viewBox', Path("longer.svg").read_text()
        )
    ]
    assert sizes[0] == [max(each) for each in zip(*sizes[1:], strict=True)]
    assert len({height for _, height in sizes}) > 1
    run(
        "table",
        "--dim",
        "16",
        "--width",
        "240",
        "--no-caption",
        "--length",
        "65",
        "-o",
        "whole.png",
    )
    last, whole = frames("longer.gif")[-1], frames("whole.png")[0]
    assert last.shape[0] >= whole.shape[0] - 40, "it is as large as its largest picture"
    colours, drawn = (np.unique(one.reshape(-1, 3), axis=0).astype(int) for one in (last, whole))
    assert np.abs(drawn[:, None] - colours).max(axis=2).min(axis=1).max() < 24
    run(*asked, "shift", *moves, "-o", "moves.svg", "--title", "Sines")
    text = Path("moves.svg").read_text()
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= set(names)
    titles = re.findall(r"Sines shift (\d+)", text)
    assert titles == [str(n) for n in range(0, 64, 4)]
    assert text.count('<g class="frame"') == 16
    assert (
        "exists: --force replaces it"
        in run(*asked, "shift", *moves, "-o", "moves.svg", code=2).output
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--play", "softmax", "-o", "x.gif"), "attention plays shift."),
        (("--play", "shift=3", "-o", "x.gif"), "2 to 240 numbers; got '3'"),
        (("--play", "shift=0:9:0", "-o", "x.gif"), "2 to 240 numbers; got '0:9:0'"),
        (("--play", "shift=abc:9", "-o", "x.gif"), "2 to 240 numbers; got 'abc:9'"),
        (("--play", "shift=0:999", "-o", "x.gif"), "2 to 240 numbers; got '0:999'"),
        (("--play", "shift"), "give -o"),
        (("--play", "shift", "-o", "x.gif", "--json"), "without --numbers and --json"),
        (("--play", "shift", "-o", "x.png"), "must end in .gif or .svg"),
    ],
)
def test_what_cannot_be_played_is_refused(run: Run, asked: tuple[str, ...], words: str) -> None:
    assert words in " ".join(run("attention", *asked, code=2).output.split())
    assert not names()
