"""`posenc mcp`: what a program gets from its tools, and what it cannot reach by them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import posenc
from posenc._core.errors import ArgumentError, DataError
from posenc._core.io import inputs
from posenc.cli import app
from posenc.cli.commands import mcp
from tests.asynchronous import finished

LLAMA = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "num_attention_heads": 2}
LLAMA |= {"max_position_embeddings": 8192, "hidden_size": 128, "num_key_value_heads": 2}
LLAMA |= {"num_hidden_layers": 18}
PORT = """
import numpy as np
open("ran", "w").close()
def rotate(x, positions):
    angles = positions[..., None] * 10_000.0 ** (-np.arange(x.shape[-1] // 2) * 2 / x.shape[-1])
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
"""
RAN = "open('ran', 'w').close()"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder beside a secret, with links that stay inside and links that lead out."""
    top = tmp_path_factory.mktemp("served")
    root = top / "root"
    for name in ("model", "dumps", "linked", "cache/blobs", "cache/snapshot", "pieces", "secret"):
        (top / name if name == "secret" else root / name).mkdir(parents=True)
    for place in (root / "model", top / "secret", root / "cache" / "blobs"):
        (place / "config.json").write_text(json.dumps(LLAMA))
    (root / "other.json").write_text(json.dumps(LLAMA | {"rope_theta": 1e4}))
    (root / "port.py").write_text(PORT)
    for name in ("numpy.py", "json.py", "click.py"):  # which nobody is to import
        (root / name).write_text(RAN)
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype("float32")
    name = "model.layers.0.self_attn.{}_proj.weight"
    save_file({name.format(x): weight for x in "qk"}, root / "model" / "model.safetensors")
    save_file({"inv_freq": 1e4 ** (-np.arange(32) / 32)}, top / "secret" / "m.safetensors")
    # A folder of the hub's cache is links to blobs beside it.
    (root / "cache/snapshot/config.json").symlink_to("../blobs/config.json")
    (root / "linked" / "config.json").symlink_to(top / "secret" / "config.json")
    (root / "out").symlink_to(top / "secret")
    weights = {"inv_freq": "../../secret/m.safetensors"}
    (root / "pieces" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weights})
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 12, 64)).astype("float32")
    for layer in range(18):
        base = 1e4 if layer == 7 else 5e5
        np.save(root / f"dumps/layer{layer}.q.before.npy", x)
        after = posenc.rotate(posenc.RoPE(64, pairing="half", base=base), x)
        np.save(root / f"dumps/layer{layer}.q.after.npy", after)
    return root


# --- what a call becomes --------------------------------------------------------------------------


def test_a_call_becomes_the_words_of_its_command(root: Path) -> None:
    def words(name: str, **arguments: Any) -> list[str]:
        return mcp.command_line(name, arguments, root, allow_code=False)

    assert words("diff", b="preset:llama:64", a="model") == [
        *("diff", "--json", "--", "model", "preset:llama:64")
    ]
    told = words("golden", source=LLAMA, output="new/--force.json", base=5e5, pairing=None)
    assert told == [
        "golden",
        "--json",
        "--output=new/--force.json",
        "--base=500000.0",
        "--",
        json.dumps(LLAMA),
    ]
    assert words("doctor") == ["doctor", "--json", "--"]
    assert words("doctor", engine="model") == ["doctor", "--json", "--", "", "model"]
    assert words("trace", source="dumps", expected="other.json")[2] == "--expected=other.json"
    for inside in ("cache/snapshot", "model/../other.json", str(root / "model"), ".", "new.json"):
        assert words("explain", config=inside)[-1] == inside
    assert words("diff", a="RoPE(64, pairing='half')", b="plan:gemma3")[-1] == "plan:gemma3"
    for table in ("engine:vllm", "engine:llama.cpp@b1=other.json", "engine:sglang other.json"):
        assert words("diff", a="model", b=table)[-1] == table  # a table of numbers runs no code


OUTSIDE = (
    "engine:vllm=../secret/config.json",
    "../secret/config.json",
    "/etc/passwd",
    "linked/config.json",
    "out/config.json",
    "..",
)
CODE = (
    "port.py:rotate",
    "os:system",
    "hf:model",
    "engine:mlx",
    "https://example.org/c.json",
    "HF:x",
)


@pytest.mark.parametrize("source", [*OUTSIDE, *CODE, "a\0b"])
@pytest.mark.parametrize(
    ("name", "key", "rest"),
    [
        ("explain", "config", {}),
        ("diff", "a", {"b": "model"}),
        ("diff", "b", {"a": "model"}),
        ("golden", "source", {}),
        ("golden", "output", {"source": "model"}),
        ("doctor", "model", {}),
        ("doctor", "engine", {"model": "model"}),
        ("doctor", "config", {"model": "model"}),
        ("trace", "source", {}),
        ("trace", "expected", {"source": "dumps"}),
    ],
)
def test_no_argument_leads_out_or_names_code(
    root: Path, name: str, key: str, rest: dict[str, str], source: str
) -> None:
    expected = "would run code" if source in CODE else f"expected a file below {root}"
    with pytest.raises(ArgumentError, match=f"{name}: {key}: .*{expected}"):
        mcp.command_line(name, {key: source, **rest}, root, allow_code=False)
    if source in CODE and key != "output":
        assert source in " ".join(mcp.command_line(name, {key: source, **rest}, root, True))


def test_every_parameter_that_names_a_file_is_asked_where_it_is() -> None:
    """What is no source: words of a list, numbers, and the plan of a published model."""
    free = {
        "plan",
        "pairing",
        "base",
        "dialect",
        "library",
        "stored",
        "timeout",
        "tokens",
        "layers",
    }
    asked = {"a", "b", "config", "source", "output", "model", "engine", "expected"}
    keys = [{*mcp.described(name)["input_schema"]["properties"]} for name in mcp.TOOLS]
    assert set.union(*keys) == free | asked | {"start"}


def test_other_mistakes_are_told(root: Path) -> None:
    def told(name: str, **arguments: Any) -> str:
        with pytest.raises(ArgumentError) as caught:
            mcp.command_line(name, arguments, root, allow_code=False)
        return str(caught.value)

    assert told("encode").startswith("posenc mcp: expected a tool, got 'encode'. Known: diff,")
    assert told("golden", source="model", outptu="x").endswith("Did you mean 'output'?")
    for name in ("numpy.py", ".git/hooks/pre-commit", "new", {"a": 1}):
        assert "output: expected a name that ends in .json" in told(
            "golden", source="m", output=name
        )
    assert "Write it to a file." in told("diff", a="model", b="{" + "x" * 100_000)
    assert mcp.command_line("explain", {"config": "{" + "x" * 100_000}, root, allow_code=False)
    assert "'force'" in told("golden", source="model", force=True)
    assert "expected dumps, got the folder of a model" in told("trace", source="model")


def test_a_long_answer_comes_in_parts() -> None:
    text, start, parts = json.dumps([*range(9000)]), 0, []
    while start < len(text):
        part, said = mcp.parted(text, "posenc: error: é" * 500, start)
        assert len(part) + len(said.encode()) <= 20_000
        assert said.startswith(f"characters {start} to {start + len(part)} of {len(text)}: ")
        parts.append(part)
        start += len(part)
    assert "".join(parts) == text
    assert "the last part" in said
    assert mcp.parted("{}", "warning: x\n", 0) == ("{}", "warning: x")
    assert mcp.parted("", "Usage: a\nTry 'b'.\n\nError: c.\n", 0) == ("", "c.")


def test_a_process_reads_below_one_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "below", [str(root)])
    read = inputs.text_of(root / "cache" / "snapshot" / "config.json", inputs.CONFIG)
    assert json.loads(read) == LLAMA
    for outside in ("linked/config.json", "../secret/config.json"):
        with pytest.raises(DataError, match="expected a file below .*, got one outside it"):
            inputs.opened(root / outside)
    # The file itself counts, where its name means another by the time that it is asked.
    monkeypatch.setattr(os.path, "realpath", _moved(os.path.realpath, root))
    with pytest.raises(DataError, match="got one outside it"):
        inputs.opened(root / "linked" / "config.json")


def _moved(resolved: Any, root: Path) -> Any:
    return lambda name: resolved(name) if str(name).startswith("/proc") else str(root / "model")


def test_without_the_protocol_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp", "mcp.server"):
        monkeypatch.setitem(sys.modules, name, None)
    done = CliRunner().invoke(app, ["mcp"])
    assert (done.exit_code, done.stderr) == (
        1, "posenc: error: mcp needs its protocol: pip install 'posenc[mcp]'\n",
    )  # fmt: skip


def test_the_root_is_a_folder() -> None:
    done = CliRunner().invoke(app, ["mcp", "--root", __file__])
    assert done.exit_code == 2
    assert "--root: expected a folder, got" in done.stderr


# --- what a program gets, over standard input and output ------------------------------------------

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "what does the model do about positions": ("explain", {"config": "model"}),
    "a config that the program has at hand": ("explain", {"config": LLAMA | {"rope_alpha": 2}}),
    "the same for transformers 5": ("explain", {"config": "model/config.json", "dialect": "hf5"}),
    "do two configs agree": ("diff", {"a": "model", "b": "other.json"}),
    "a config of the hub's cache": ("diff", {"a": "cache/snapshot", "b": "model"}),
    "reference numbers for a port": ("golden", {"source": "model", "output": "new.json"}),
    "the same again": ("golden", {"source": "other.json", "output": "new.json"}),
    "what a contract of it would hold": ("golden", {"source": "preset:llama3:128"}),
    "do weights and config agree": ("doctor", {"model": "model", "engine": "other.json"}),
    "which layer of the dumps is wrong": (
        "trace",
        {"source": "dumps", "expected": "model/config.json"},
    ),
    "the rest of it": (
        "trace",
        {"source": "dumps", "expected": "model/config.json", "start": mcp.MOST},
    ),
    "a link that leads out": ("explain", {"config": "linked"}),
    "an index that leads out": ("diff", {"a": "pieces/model.safetensors.index.json", "b": "model"}),
    "code": ("diff", {"a": "model", "b": "port.py:rotate"}),
    "a file that is not there": ("diff", {"a": "model", "b": "modle"}),
    "what works here": ("doctor", {}),
}


def served(root: Path, calls: dict[str, tuple[str, dict[str, Any]]], *flags: str) -> dict[str, Any]:
    """The answers of a server in a fresh process, asked by the protocol's own client."""
    from mcp import Client, StdioServerParameters, stdio_client

    source = str(Path(posenc.__file__).parents[1])
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "posenc.cli", "mcp", *flags],  # as a script that is installed
        env={"PYTHONPATH": source},
        cwd=root,
    )

    async def ask() -> dict[str, Any]:
        async with Client(stdio_client(server, errlog=sys.__stderr__)) as client:
            tools = (await client.list_tools()).tools
            answers = {name: await client.call_tool(*call) for name, call in calls.items()}
            return {"tools": tools, **answers}

    return finished(ask())


@pytest.fixture(scope="module")
def answers(root: Path) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        yield served(root, TASKS)


def facts(answers: dict[str, Any], task: str) -> Any:
    assert not answers[task].is_error, answers[task]
    return json.loads(answers[task].content[0].text)


SLOW = pytest.mark.slow("cli/commands/mcp.py", "cli/_app.py", "_core/io/inputs.py")


@SLOW
@pytest.mark.filterwarnings("default")
def test_ten_tasks_of_a_program(root: Path, answers: dict[str, Any]) -> None:
    assert [tool.name for tool in answers["tools"]] == [*mcp.TOOLS]
    assert answers["tools"][1].input_schema["required"] == ["a", "b"]

    plan = facts(answers, "what does the model do about positions")
    plan.pop("described")
    assert plan == json.loads(json.dumps(posenc.explain(str(root / "model")).to_dict()))
    at_hand = facts(answers, "a config that the program has at hand")
    assert at_hand["layers"] == plan["layers"]
    assert [note["text"] for note in at_hand["notes"]] == ["rope_alpha=2 was not read"]
    written = facts(answers, "the same for transformers 5")
    assert written["config"]["rope_parameters"]["rope_theta"] == 5e5

    both = facts(answers, "do two configs agree")
    assert [row["field"] for row in both["differences"]] == ["base"]
    assert facts(answers, "a config of the hub's cache")["verdict"] == "nothing differs"

    golden = facts(answers, "reference numbers for a port")
    assert golden["output"] == ["new.json"]
    contract = posenc.golden(str(root / "model"))
    assert golden["fingerprint"] == contract.fingerprint
    assert posenc.diff(str(root / "new.json"), str(root / "model")).verdict == "nothing differs"
    assert answers["the same again"].content[0].text == "new.json exists: name another file."
    summary = facts(answers, "what a contract of it would hold")
    assert summary["output"] == []
    assert summary["fingerprint"] == posenc.golden("preset:llama3:128").fingerprint

    doctor = facts(answers, "do weights and config agree")
    assert doctor["verdict"] == "differs"
    first, said = (part.text for part in answers["which layer of the dumps is wrong"].content)
    rest = answers["the rest of it"].content[0].text
    assert f"call again with start={mcp.MOST} for the rest" in said
    trace = json.loads(first + rest)
    assert trace == json.loads(
        json.dumps(
            posenc.trace(str(root / "dumps"), expected=str(root / "model/config.json")).to_dict()
        )
    )
    assert {finding["layer"] for finding in trace["findings"]} == {7}
    assert facts(answers, "what works here")["system"]["posenc"] == posenc.__version__


@SLOW
@pytest.mark.filterwarnings("default")
def test_what_they_cannot_reach(root: Path, answers: dict[str, Any]) -> None:
    for task in (
        "a link that leads out",
        "an index that leads out",
        "code",
        "a file that is not there",
    ):
        assert answers[task].is_error, task
        [text] = answers[task].content
        assert "Traceback" not in text.text
    assert "expected a file below" in answers["a link that leads out"].content[0].text
    assert not (root / "ran").exists()  # neither the port nor a module of the folder
    assert not (root / "summary").exists()
    sizes = [
        sum(len(part.text.encode()) for part in a.content)
        for n, a in answers.items()
        if n != "tools"
    ]
    assert max(sizes) <= 20_000


@SLOW
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_waits(root: Path, number: int) -> None:
    command = [sys.executable, "-P", "-m", "posenc.cli", "mcp"]
    source = str(Path(posenc.__file__).parents[1])
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=root, env={"PYTHONPATH": source}, **pipes) as server:
        assert server.stdin
        assert server.stdout
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a"}}
        hello["clientInfo"] |= {"version": "1"}  # type: ignore[operator]
        call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        server.stdin.write(json.dumps(call).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "posenc"
        server.send_signal(number)
        assert server.wait(timeout=20) == -number


@SLOW
@pytest.mark.filterwarnings("default")
def test_code_runs_where_it_is_allowed(root: Path) -> None:
    calls = {
        "port": ("diff", {"a": "model", "b": "port.py:rotate", "timeout": 30}),
        "line": ("doctor", {"model": "model", "engine": "port.py:rotate"}),
        "outside": ("explain", {"config": "../secret/config.json"}),
    }
    try:
        answers = served(root, calls, "--allow-code")
    finally:
        (root / "ran").unlink(missing_ok=True)
    assert facts(answers, "port")["differences"][0]["field"] == "base"
    assert "line 5" in answers["line"].content[0].text
    assert answers["outside"].is_error
