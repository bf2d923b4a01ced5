"""`posenc convert`: what it prints, its exit codes, and that nothing partial is ever left."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

import posenc
from posenc._core.io import headers
from posenc.cli import app
from tests.cli.test_process import COMMAND, environment
from tests.detect.checkpoints import config_of, folder_of, loaded, weights_of


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def model(tmp_path: Path, **choices: object) -> Path:
    config = config_of(2, 2, 8, 8, model_type="llama")
    del config["partial_rotary_factor"]
    return folder_of(tmp_path / "llama", weights_of(2, 2, 8), config, **choices)  # type: ignore[arg-type]


def test_words(tmp_path: Path) -> None:
    source = model(tmp_path)
    (file,) = source.glob("*.safetensors")
    file.chmod(0o600)
    result = run(source, tmp_path / "new", "--pairing", "interleaved")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / file.name).stat().st_mode & 0o777 == 0o600
    for words in (
        "pairing half -> interleaved; half according to the config: model_type 'llama'",
        "model.layers.0.self_attn.q_proj.weight  weight: 2 heads of queries, 8 wide",
        "4 tensors change, 5 are copied byte for byte",
        "config: a config of 'llama' has no key for the pairing",
        "verified: scores of 4 heads in 2 layers, at random inputs, agree to",
    ):
        assert words in result.output


def test_json_and_dry_run(tmp_path: Path) -> None:
    source = model(tmp_path)
    result = run(source, "--pairing", "interleaved", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["pairing"] == ["half", "interleaved"]
    assert found["probe"] is None
    assert len(found["tensors"]) == 4
    assert [p.name for p in tmp_path.iterdir()] == ["llama"]


def test_options_stand_for_a_config(tmp_path: Path) -> None:
    save_file(weights_of(2, 1, 10), tmp_path / "a.safetensors")
    options = [
        "--heads",
        "2",
        "--rotary",
        "4",
        "--side",
        "trailing",
        "--stored",
        "half",
        "--pairing",
        "interleaved",
    ]
    result = run(tmp_path / "a.safetensors", tmp_path / "b.safetensors", *options)
    assert result.exit_code == 0, result.output
    pairing = posenc.Pairing("half", part="trailing")
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(4, pairing=pairing))
    posenc.convert(
        tmp_path / "a.safetensors",
        tmp_path / "c.safetensors",
        pairing="interleaved",
        layout=layout,
    )
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()


def test_names_by_patterns(tmp_path: Path) -> None:
    weights = {f"blocks.0.mix_{n}": np.zeros((16, 12), np.float32) for n in "qk"}
    save_file(weights, tmp_path / "a.safetensors")
    options = [
        "--heads",
        "2",
        "--rotary",
        "8",
        "--stored",
        "half",
        "--pairing",
        "interleaved",
        "--dry-run",
    ]
    result = run(tmp_path / "a.safetensors", *options)
    assert result.exit_code == 1
    assert "blocks.0.mix_q [16, 12]" in result.output
    result = run(tmp_path / "a.safetensors", *options, "--name", "q=*mix_q", "--name", "k=*mix_k")
    assert result.exit_code == 0, result.output
    assert "2 tensors change" in result.output


def test_a_learned_table(tmp_path: Path) -> None:
    save_file({"wpe.weight": np.ones((10, 4), np.float32)}, tmp_path / "a.safetensors")
    target = tmp_path / "b.safetensors"
    options = ["--tensor", "wpe.weight", "--resize", "30", "--method", "linear"]
    result = run(tmp_path / "a.safetensors", target, *options)
    assert result.exit_code == 0, result.output
    assert "wpe.weight  10 rows to 30 (linear)" in result.output
    assert loaded(target)["wpe.weight"].shape == (30, 4)


def test_a_computed_table_by_presets(tmp_path: Path) -> None:
    name = "embed_positions.weight"
    table = np.asarray(posenc.table(posenc.preset("xlm", 8), 12))
    save_file({name: table}, tmp_path / "a.safetensors")
    target = tmp_path / "b.safetensors"
    spec = posenc.to_json(posenc.Sinusoidal(8, order="cos_sin"))
    options = ["--tensor", name, "--from", "xlm", "--to", spec]
    result = run(tmp_path / "a.safetensors", target, *options)
    assert result.exit_code == 0, result.output
    want = np.concatenate([table[:, 1::2], table[:, 0::2]], axis=1)
    assert loaded(target)[name].tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pairing", "halves"], "Did you mean 'half'"),
        ([], "nothing to change"),
        (["--resize", "3", "--pairing", "half"], "are for a table, which --tensor names"),
        (["--pairing", "half", "--rotary", "4"], "--rotary needs --stored"),
        (["--pairing", "half", "--rotary", "5", "--stored", "half"], "even width"),
        (["--pairing", "half", "--name", "q"], "ROLE=PATTERN"),
        (["--pairing", "half", "--config", "nowhere.json"], "is not there"),
        (["--tensor", "x", "--from", "berd", "--resize", "3"], "no JSON, no preset and no file"),
        (["--tensor", "x"], "--to or --resize"),
        (["--tensor", "x", "--resize", "3x"], "expected as many positive numbers"),
        (["--tensor", "x", "--resize", "0"], "expected as many positive numbers"),
    ],
)
def test_mistakes_of_the_command_line(tmp_path: Path, options: list[str], message: str) -> None:
    result = run(model(tmp_path), tmp_path / "new", *options)
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["llama"]


def test_places(tmp_path: Path) -> None:
    source = model(tmp_path)
    assert run(source, "--pairing", "interleaved").exit_code == 2
    assert run(tmp_path / "none", "x", "--pairing", "interleaved").exit_code == 2
    (tmp_path / "new").mkdir()
    result = run(source, tmp_path / "new", "--pairing", "interleaved")
    assert result.exit_code == 2
    assert "--force replaces it" in result.output
    result = run(source, source, "--pairing", "interleaved", "--force")
    assert result.exit_code == 2
    assert "another file than the source" in result.output
    assert run(source, tmp_path / "new", "--pairing", "interleaved", "--force").exit_code == 0


# --- processes ------------------------------------------------------------------------------------


def large(tmp_path: Path, *, shards: int) -> Path:
    """A model of many zeros, which take no room before they are copied."""
    source = tmp_path / "big"
    source.mkdir()
    config = config_of(2, 2, 8, 8, model_type="llama", num_hidden_layers=shards)
    (source / "config.json").write_text(json.dumps(config))
    places = {}
    for shard in range(shards):
        tensors = {
            f"model.layers.{shard}.self_attn.{n}_proj.weight": ("float32", (16, 12)) for n in "qk"
        }
        tensors |= {f"model.layers.{shard}.mlp.weight": ("float32", (2**28, 1))}
        header = headers.safetensors_header(tensors)
        name = f"model-{shard}.safetensors" if shards > 1 else "model.safetensors"
        with (source / name).open("wb") as file:
            file.write(header)
            file.truncate(len(header) + 4 * (2 * 16 * 12 + 2**28))
        places |= dict.fromkeys(tensors, name)
    if shards > 1:
        index = {"weight_map": places}
        (source / "model.safetensors.index.json").write_text(json.dumps(index))
    return source


def killed(tmp_path: Path, number: signal.Signals, shards: int) -> tuple[int, list[str]]:
    """End a conversion when a part of the output is written."""
    source = large(tmp_path, shards=shards)
    target = tmp_path / ("new" if shards > 1 else "new.safetensors")
    given = source if shards > 1 else source / "model.safetensors"
    process = subprocess.Popen(
        [*COMMAND, "convert", str(given), str(target), "--pairing", "interleaved"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    deadline = time.monotonic() + 60
    pattern = f".{target.name}.*.part/*" if shards > 1 else f".{target.name}.*.part"
    while not any(part.stat().st_size > 2**20 for part in tmp_path.glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    process.communicate(timeout=60)
    return process.returncode, sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.costly
@pytest.mark.parametrize("shards", [1, 2])
def test_a_killed_conversion_leaves_no_output(tmp_path: Path, shards: int) -> None:
    code, left = killed(tmp_path, signal.SIGKILL, shards)
    assert code == -signal.SIGKILL
    assert left[-1] == "big"
    assert all(name.startswith(".new") and name.endswith(".part") for name in left[:-1])


@pytest.mark.costly
@pytest.mark.parametrize("shards", [1, 2])
def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path, shards: int) -> None:
    code, left = killed(tmp_path, signal.SIGTERM, shards)
    assert code == 128 + signal.SIGTERM
    assert left == ["big"]


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**21, 2**21))


@pytest.mark.costly
@pytest.mark.parametrize("shards", [1, 2])
def test_a_full_disk_leaves_nothing(tmp_path: Path, shards: int) -> None:
    source = large(tmp_path, shards=shards)
    target = tmp_path / ("new" if shards > 1 else "new.safetensors")
    given = source if shards > 1 else source / "model.safetensors"
    done = subprocess.run(
        [*COMMAND, "convert", str(given), str(target), "--pairing", "interleaved"],
        capture_output=True,
        env=environment(),
        preexec_fn=small_files,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["big"]


MEASURE = """
import sys
import posenc.cli.detective.convert, posenc.detect.convert
from posenc.cli import app

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

before = peak()
try:
    app.main(sys.argv[1:], prog_name="posenc")
except SystemExit as error:
    print(error.code or 0, before, peak())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.costly
def test_memory_is_that_of_pieces(tmp_path: Path) -> None:
    """64 MiB, of which half are one matrix of queries, through a few MiB."""
    import sys

    rows = 2**12
    tensors = {f"layers.0.attn.{n}_proj.weight": ("bfloat16", (rows, rows)) for n in "qk"}
    header = headers.safetensors_header(tensors)
    with (tmp_path / "a.safetensors").open("wb") as file:
        file.write(header)
        file.truncate(len(header) + 4 * rows**2)
    options = ["--heads", "64", "--rotary", "64", "--stored", "half", "--pairing", "interleaved"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, "convert", "a.safetensors", "b.safetensors", *options],
        cwd=tmp_path,
        capture_output=True,
        env=environment(OMP_NUM_THREADS="1"),
        timeout=120,
        check=True,
    )
    code, before, after = map(float, done.stdout.split()[-3:])
    assert code == 0
    assert after - before < 24


def test_a_source_that_may_not_be_written(tmp_path: Path) -> None:
    source = model(tmp_path)
    for path in (*source.iterdir(), source):
        path.chmod(0o555)
    try:
        result = run(source, tmp_path / "new", "--pairing", "interleaved")
    finally:
        source.chmod(0o755)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "config.json").exists()
    assert run(tmp_path / "new", tmp_path / "back", "--pairing", "half").exit_code == 0
