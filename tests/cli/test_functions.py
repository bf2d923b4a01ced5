"""A command that answers has a function of its name, with its options and with its JSON."""

from __future__ import annotations

import inspect
import json
import typing
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import posenc
from posenc.cli import app
from posenc.cli._app import COMMANDS

# What no function answers: pages, lessons, lists, a protocol. The functions of `encode` and `table`
# take arrays and give arrays, so their options and JSON are those of files.
PAGES = {"plot", "explore", "list", "mcp", "quiz", "study"}
ALONE = {"encode", "table", *PAGES}
# Where and how an answer is written, and how long code may run.
OUTPUT = {"json_", "output", "force", "formats", "markdown", "dry_run", "as_spec", "listed"}
OUTPUT |= {"timeout", "imported"}
PROJECTIONS = {"heads", "kv_heads", "rotary", "side", "fused", "patterns", "only", "part"}
PROJECTIONS |= {"attention", "stored"}
SPEC = {"dim", "base", "order", "odd", "preset", "spec", "encoding", "heads", "pairing", "field"}
# Several options that make one argument. Of `locate` they pick numbers of files, in Python those of
# arrays; of `explain`, what the functions `posenc.presets.plan` and `posenc.to_hf` do.
MADE: dict[str, dict[str, set[str]]] = {
    "pairing": {"layout": PROJECTIONS},
    "convert": {"layout": PROJECTIONS, "tables": {"tensor", "before", "after", "length"}},
    "locate": {"spec": SPEC, "x": {"values", "row", "name"}, "at": {"at"}},
    "explain": {"source": {"name", "dialect"}},
}
ANSWERING = sorted(COMMANDS.keys() - ALONE)


def keywords(name: str) -> set[str]:
    """The parameters of a function; `check` hands those of code on to `adapt`."""
    found = {*inspect.signature(getattr(posenc, name.replace("-", "_"))).parameters}
    return found | (
        {*inspect.signature(posenc.testing.adapt).parameters} if name == "check" else set()
    )


@pytest.mark.parametrize("name", ANSWERING)
def test_its_options_are_keywords(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    options = {str(p.name) for p in command.params if isinstance(p, click.Option)} - OUTPUT
    known = keywords(name)
    for keyword, made_of in MADE.get(name, {}).items():
        assert keyword in known
        options -= made_of
    assert options <= known


LLAMA = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "num_attention_heads": 2}
LLAMA |= {"max_position_embeddings": 4096, "hidden_size": 128, "num_key_value_heads": 2}
ROPE = posenc.RoPE(8, pairing="half")
VALUES = {2: "0.97", 3: "0.21"}
ANSWERS: dict[str, tuple[str, Any]] = {
    "cite": ("cite whisper", lambda: posenc.cite("whisper")),
    "check": (
        "check SPEC --library numpy --laws shift",
        lambda: posenc.check(ROPE, library="numpy", laws=["shift"]),
    ),
    "convert": (
        "convert model --dry-run --pairing interleaved",
        lambda: posenc.convert("model", pairing="interleaved"),
    ),
    "convert-config": (
        "convert-config params.json --to hf",
        lambda: posenc.convert_config("params.json", "hf"),
    ),
    "diff": ("diff config.json spec.json", lambda: posenc.diff("config.json", "spec.json")),
    "doctor": ("doctor config.json", lambda: posenc.doctor("config.json")),
    "explain": ("explain config.json", lambda: posenc.explain("config.json")),
    "extend": (
        "extend config.json 16k --rule yarn",
        lambda: posenc.extend("config.json", "16k", rule="yarn"),
    ),
    "golden": ("golden config.json", lambda: posenc.golden("config.json")),
    "identify": ("identify table.npy", lambda: posenc.identify("table.npy")),
    "infer": (
        "infer mine_of_the_functions.py:table --dim 8",
        lambda: posenc.infer(posenc.testing.load("mine_of_the_functions.py:table"), dim=8),
    ),
    "locate": (
        "locate --dim 16 --value 0.97 --at 2 --value 0.21 --at 3",
        lambda: posenc.locate(posenc.Sinusoidal(16), VALUES),
    ),
    "trace": (
        "trace dumps --expected config.json",
        lambda: posenc.trace("dumps", expected="config.json"),
    ),
    "pairing": ("pairing model", lambda: posenc.pairing("model")),
}
CODE = """
import numpy as np
def table(positions):
    angles = np.asarray(positions, dtype=np.float64)[:, None] * 100.0 ** (-np.arange(4) / 4)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(LLAMA))
    Path("params.json").write_text('{"dim": 64, "n_heads": 4, "n_layers": 2, "rope_base": 5e5}')
    Path("spec.json").write_text(posenc.to_json(ROPE))
    Path("mine_of_the_functions.py").write_text(CODE)
    np.save("table.npy", posenc.table(posenc.Sinusoidal(16), 40))
    Path("dumps").mkdir()
    x = np.random.default_rng(0).standard_normal((1, 2, 12, 64)).astype("float32")
    np.save("dumps/layer0.q.before.npy", x)
    np.save("dumps/layer0.q.after.npy", posenc.rotate(posenc.RoPE(64, pairing="half"), x))
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps(LLAMA))
    rows = np.random.default_rng(0).standard_normal((128, 128)).astype("float32")
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight")
    save_file(dict.fromkeys(names, rows), "model/model.safetensors")


def test_every_answer_is_held() -> None:
    assert sorted(ANSWERS) == ANSWERING
    assert all(
        callable(getattr(posenc, name.replace("-", "_"))) for name in COMMANDS.keys() - PAGES
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ANSWERS)
def test_its_json_is_that_of_its_result(name: str) -> None:
    words, call = ANSWERS[name]
    typed = [posenc.to_json(ROPE) if word == "SPEC" else word for word in words.split()]
    result = CliRunner().invoke(app, [*typed, "--json"])
    assert result.exit_code in (0, 1, 3), result.output
    told, found = json.loads(result.stdout), json.loads(json.dumps(call().to_dict()))
    if name == "check":  # the command says which words named it
        told["name"] = found["name"]
    if name == "infer":
        told["reach"].pop("seconds"), found["reach"].pop("seconds")
    if name == "golden":  # a file has digests of what is in it, which cannot be in there
        assert told["fingerprint"] == call().fingerprint
        told = {key: told[key] for key in found}
    if name == "explain":  # the numbers that follow from the plan are no part of it
        assert told.pop("described")["sure"].startswith("settled")
    assert told == found


def test_older_names_work_and_are_not_shown() -> None:
    table = {"pe": posenc.table(posenc.Sinusoidal(16), 40)}
    assert posenc.identify(table, name="pe") == posenc.identify(table, tensor="pe")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got tensors=. Did you mean 'tensor'"):
        posenc.identify(table, tensors="pe")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got name="):
        posenc.identify(table, tensor="pe", name="other")  # type: ignore[call-arg]
    assert getattr(posenc, "extend_context") is posenc.extend  # noqa: B009 - not typed
    assert "extend_context" not in dir(posenc)


@pytest.mark.parametrize("call", [(10,), (10, "tile")], ids=len)
def test_extend_teaches_who_hands_it_a_table(call: tuple[Any, ...]) -> None:
    learned = posenc.Learned(4, length=8)
    with pytest.raises(posenc.ArgumentError, match=r"posenc\.resize\(spec, params, length"):
        posenc.extend(learned, typing.cast("Any", posenc.init(learned)), *call)
    with pytest.raises(TypeError, match="got factors=. Did you mean 'factor'"):
        posenc.extend(LLAMA, factors=2)
