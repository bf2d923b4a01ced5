"""Checkpoints as large as those that people have: the right answers, and what they cost.

`published` makes them: headers, indexes and configs of 1 to 406 billion parameters in 1 to 191
files, almost all of it holes. Two layers hold queries and keys whose pairing can be told.
"""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
from posenc._core.io import files
from posenc._core.io.checkpoints import open_checkpoint
from posenc.cli import app
from tests.sizes.other_formats import SCALES, make_bin, make_gguf
from tests.sizes.published import MODELS, Made, make, tensors_of

MEMORY = 300 * 2**20  # bytes beyond the start of a command that reads headers
HEADERS = 2**23  # bytes that such a command reads of files
SUBJECTS = (
    "_core/io",
    "_core/io/checkpoints",
    "detect/convert",
    "detect/identify",
    "detect/explain",
)


def of(*drawn: str) -> pytest.MarkDecorator:
    """All models, in the ordinary tests those that are named."""
    slow = pytest.mark.slow(*SUBJECTS)
    names = [pytest.param(name, marks=() if name in drawn else slow) for name in MODELS]
    return pytest.mark.parametrize("made", names, indirect=True)


each = of("llama-3.2-1b", "llama-3.1-405b")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, makes sparse files")
pytestmark = linux


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A checkpoint, made once for all tests of it."""
    return make(tmp_path_factory.mktemp(request.param.replace(".", "-")), request.param)


def cost(work: Callable[[], Any]) -> tuple[Any, int, int]:
    """What some work gives, the bytes that it reads, and its memory beyond the start."""
    work_ = Path("/proc/self")

    def now() -> tuple[int, int]:
        read = int((work_ / "io").read_text().split()[1])
        lines = (work_ / "status").read_text().splitlines()
        return read, 1024 * int(next(n.split()[1] for n in lines if n.startswith("VmHWM")))

    (work_ / "clear_refs").write_text("5")
    read, memory = now()
    result = work()
    read_after, memory_after = now()
    return result, read_after - read, memory_after - memory


# --- what was made --------------------------------------------------------------------------------


@each
def test_a_made_checkpoint_is_as_large_as_the_real_one_and_takes_no_room(made: Made) -> None:
    shapes = tensors_of(made.model)
    count = sum(math.prod(shape) for name, (_, shape) in shapes.items() if "scale" not in name)
    assert round(count / 1e9, 1) == made.model.parameters
    paths = list(made.path.glob("*.safetensors"))
    assert len(paths) == made.model.shards
    assert sum(p.stat().st_blocks for p in paths) * 512 < 2**28
    longest = max(made.begins.values(), key=lambda place: place[2] - place[1])
    assert longest[2] - longest[1] > 2**27


# --- headers alone --------------------------------------------------------------------------------


@each
def test_every_tensor_lies_where_its_header_says(made: Made) -> None:
    opened = functools.partial(open_checkpoint, made.path, config=None, caller="test")
    checkpoint, read, memory = cost(opened)
    found = {n: (s.file, s.tensor.begin, s.tensor.end) for n, s in checkpoint.tensors.items()}
    assert found == dict(made.begins)
    assert (read < HEADERS, memory < MEMORY) == (True, True)


@pytest.mark.costly
@of("llama-3.2-1b")
def test_the_plan_of_a_conversion_reads_what_tells_the_pairing(made: Made) -> None:
    plan, read, memory = cost(lambda: posenc.convert(made.path, pairing="interleaved"))
    assert plan.pairing == ("half", "interleaved")
    layers = made.model.config["num_hidden_layers"]
    ours = [name for name in made.begins if any(f"{n}_proj" in name for n in "qk")]
    ours += [name for name in made.begins if "query_key_value" in name]
    assert sorted(plan.tensors) == sorted(ours)
    assert len(ours) % layers == 0
    assert plan.copied == len(made.begins) - len(ours)
    assert (read <= looked_at(made), memory < MEMORY) == (True, True)


@each
def test_explain_and_golden_read_the_config(made: Made) -> None:
    explained, read, memory = cost(lambda: posenc.from_hf(made.path))
    [layer] = explained
    c = made.model.config
    width = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    assert layer.spec.dim == int(width * c.get("rotary_pct", 1))
    assert layer.spec.base == c.get("rotary_emb_base") or c["rope_theta"]
    assert layer.spec.channels.order == "half"
    contract, more, memory_ = cost(lambda: posenc.golden(made.path))
    assert contract.parts[0].spec == layer.spec
    assert read < HEADERS
    assert more < HEADERS + looked_at(made)  # the weights say their pairing
    assert max(memory, memory_) < MEMORY
    assert not posenc.diff(made.path, made.path).differences


# --- tensors that are read ------------------------------------------------------------------------


def looked_at(made: Made) -> int:
    """Bytes of the queries and keys of 16 layers."""
    layers = made.model.config["num_hidden_layers"]
    names = ("q_proj", "k_proj", "query_key_value")
    ours = [b - a for n, (_, a, b) in made.begins.items() if any(name in n for name in names)]
    return min(16, layers) * sum(ours) // layers + HEADERS


@pytest.mark.costly
@of("llama-3.2-1b")
def test_the_weights_say_their_pairing(made: Made) -> None:
    found, read, memory = cost(lambda: posenc.detect_pairing(made.path))
    assert (found.pairing, found.decided_by) == ("half", "config")
    if made.model.dtype == "float8_e4m3":  # which NumPy has not
        assert found.weights.groups == 0
    else:
        assert found.claim == "half"
        assert min(found.weights.similarity, found.weights.balance) > 4.5
    assert read <= looked_at(made)
    assert memory < MEMORY


@pytest.mark.slow("_core/io", "_core/io/checkpoints", "detect/convert")
@pytest.mark.parametrize("name", ["llama-3.2-1b", "llama-2-7b", "llama-3.1-405b"])
def test_weights_in_the_other_order_are_told(name: str, tmp_path: Path) -> None:
    source = make(tmp_path / "model", name, pairing="interleaved")
    found = posenc.detect_pairing(source.path)
    assert (found.pairing, found.stated, found.claim) == ("unknown", "half", "interleaved")


@pytest.fixture
def few_open_files() -> Iterator[None]:
    """Sixteen more files than are open: fewer than an index names."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (now + 16, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@each
@pytest.mark.usefixtures("few_open_files")
def test_identify_glances_at_matrices_and_keeps_no_file_open(made: Made) -> None:
    path = made.path / ("model.safetensors" if made.model.shards == 1 else "")
    found, read, memory = cost(lambda: posenc.identify(path))
    assert found.arrays == len(made.begins)
    claimed = [f for f in found if f.verdict == "claimed"]
    rotations = [n for n in made.begins if n.endswith("inv_freq")]
    assert [f.name for f in claimed] == rotations
    assert [f.spec for f in claimed] == [posenc.RoPE(24, pairing="half")] * len(rotations)
    assert read < HEADERS + 2**21 * len(made.begins)
    assert memory < MEMORY


@each
def test_encode_reads_the_rows_of_its_tokens(made: Made, tmp_path: Path) -> None:
    """Rows from the end of the table, beyond 2^31 bytes of the file where it is large."""
    tokenizers = pytest.importorskip("tokenizers")
    name = next(name for name in made.begins if "embed_" in name)
    dtype, (rows, width) = tensors_of(made.model)[name]
    words = {f"w{i}": i for i in (0, 1, rows - 2, rows - 1)}
    level = tokenizers.models.WordLevel(words, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(level)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    path, _, end = made.begins[name]
    values = np.linspace(-2, 2, 2 * width, dtype=np.float32)
    stored = files.encode(values, dtype, {"bfloat16": "<u2", "float16": "<f2"}.get(dtype, "<f4"))
    with path.open("r+b") as file:
        file.seek(end - stored.nbytes)
        file.write(stored.tobytes())
    options = ["--embeddings", path, "--tensor", name, "--tokenizer", tmp_path / "tokenizer.json"]
    arguments = ["encode", f"w{rows - 2} w{rows - 1}", *options, "--json"]
    result, read, memory = cost(lambda: CliRunner().invoke(app, [str(a) for a in arguments]))
    assert result.exit_code == 0, result.output
    got = np.array(json.loads(result.output)["embedding"], dtype=np.float32)
    assert (got.reshape(-1) == files.decode(stored, dtype).astype(np.float32)).all()
    assert (read < HEADERS, memory < MEMORY) == (True, True)


# --- commands, each in a process of its own -------------------------------------------------------

COMMANDS = ("identify", "pairing", "convert", "explain", "golden", "diff")
DRAWN = ("identify", "explain")


@pytest.mark.costly
@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=() if c in DRAWN else pytest.mark.slow(*SUBJECTS)) for c in COMMANDS],
)
@pytest.mark.parametrize("made", ["llama-3.1-405b"], indirect=True)
def test_a_command_on_405_billion(command: str, made: Made) -> None:
    """The exit code and the words."""
    name = made.path.name
    arguments = {
        "convert": ["convert", name, "--pairing", "interleaved", "--dry-run"],
        "golden": ["golden", name],
        "diff": ["diff", name, name],
    }.get(command, [command, name])
    words = {
        "identify": "0 of 1137 arrays",
        "pairing": "half",
        "convert": "252 tensors change, 885 are copied",
        "explain": "128 channels of each head turn",
        "golden": "500000",
        "diff": "nothing differs",
    }
    done = subprocess.run(
        [sys.executable, "-m", "posenc.cli", *arguments],
        cwd=made.path.parent, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert words[command] in done.stdout


# --- other formats --------------------------------------------------------------------------------


def test_the_made_files_of_torch_are_those_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(6, dtype="<f4")
    made = make_bin(tmp_path / "a.bin", {"x": ("float32", (2, 3), values)})
    [(name, tensor)] = torch.load(made, weights_only=True).items()
    assert (name, tensor.tolist()) == ("x", values.reshape(2, 3).tolist())


@pytest.mark.costly
def test_a_file_of_torch_beyond_4_gib(tmp_path: Path) -> None:
    """Llama 2's, whose rotary modules still had buffers; one storage is itself beyond 4 GiB."""
    rotary = (1 / 10000 ** (np.arange(64) / 64)).astype("<f4")
    contents: dict[str, Any] = {"embed": ("float16", (32000, 4096), None)}
    for layer in range(32):
        at = f"model.layers.{layer}.self_attn"
        for name in "qkvo":
            contents[f"{at}.{name}_proj.weight"] = ("float16", (4096, 4096), None)
    contents["large"] = ("float32", (2**17, 2**14), None)
    contents["model.layers.31.self_attn.rotary_emb.inv_freq"] = ("float32", (64,), rotary)
    path = make_bin(tmp_path / "pytorch_model.bin", contents)
    assert path.stat().st_size > 2**33
    found, read, memory = cost(lambda: posenc.identify(path))
    assert found.arrays == len(contents)
    [finding] = found
    assert (finding.verdict, finding.spec) == ("claimed", posenc.RoPE(128, pairing="half"))
    assert read < 2**23 + 2**19 * len(contents)
    assert memory < MEMORY


@pytest.mark.costly
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(1, id="float16"),
        pytest.param(
            24, id="int8", marks=pytest.mark.slow("_core/io/checkpoints", "detect/explain")
        ),
        pytest.param(
            30, id="bfloat16", marks=pytest.mark.slow("_core/io/checkpoints", "detect/explain")
        ),
    ],
)
def test_a_gguf_with_the_vocabulary_of_gemma(kind: int, tmp_path: Path) -> None:
    config = MODELS["llama-3.1-70b"].config
    path = make_gguf(tmp_path / "a.gguf", config, tokens=262_144, merges=514_906, kind=kind)
    assert path.stat().st_size > 2**36
    [layer], read, memory = cost(lambda: posenc.from_gguf(path))
    assert (layer.spec.dim, layer.spec.base) == (128, 500000.0)
    assert np.allclose(layer.spec.scaling[0].values, SCALES, rtol=1e-6)  # from the end of the file
    assert (read < 2**25, memory < MEMORY) == (True, True)
    [finding] = posenc.identify(path)
    assert finding.verdict == "claimed"
    assert finding.spec.scaling == (posenc.scaling.Llama3(8.0, original_length=8192),)
    assert posenc.golden(path).parts[0].spec == layer.spec


# --- models built on meta -------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("llama-3.1-405b"),
        pytest.param("qwen2.5-72b", marks=pytest.mark.slow("detect/adopt")),
        pytest.param("mixtral-8x22b", marks=pytest.mark.slow("detect/adopt")),
        pytest.param("gpt-neox-20b", marks=pytest.mark.slow("detect/adopt")),
    ],
)
def test_a_model_on_meta_is_adopted(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from posenc.torch import adopt

    config = dict(MODELS[name].config)
    kind = config.pop("model_type")
    built = transformers.AutoConfig.for_model(kind, **config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(built)
    report, _, memory = cost(lambda: adopt(model))
    assert str(report).startswith(f"{type(model).__name__}: 1 replaced, 0 left")
    assert memory < MEMORY
    assert all(p.is_meta for p in model.parameters())
