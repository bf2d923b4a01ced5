"""What sides of engines take from a model, with stand-ins for the engine."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
from posenc.cli import app
from posenc.detect.contract.comparison import held
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides import mlx
from posenc.detect.contract.sides.mlx import RotationInUse, used
from posenc.detect.contract.sides.side import Comparand, Implementation
from posenc.detect.contract.sides.sides import ENGINES, of_engine
from posenc.detect.facts.engines import asked
from tests.tolerances import FLOAT64, ORIGINAL, assert_close

ROPE = posenc.RoPE(8, pairing="half")
X = np.random.default_rng(0).normal(size=(1, 2, 5, 8)).astype(np.float32)


def test_a_table_of_an_engine_says_nothing_of_towers() -> None:
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    config = {
        "model_type": "qwen2_5_vl",
        "text_config": {"model_type": "qwen2_5_vl_text", "hidden_size": 1024,
                        "num_attention_heads": 8, "num_hidden_layers": 2, "rope_parameters": rope},
        "vision_config": {"hidden_size": 1280, "num_heads": 16, "depth": 2},
    }  # fmt: skip
    parts = [part.name for part in of_engine("vllm", "engine:vllm", config).parts]
    assert [name for name in parts if "vision" in name] == []
    assert parts
    assert any(layer.label.startswith("vision") for layer in posenc.explain(config))


def turned(x: np.ndarray, offset: Any = 0) -> np.ndarray:
    """A rotation as MLX has it: rows from their offsets on, or all rows from one."""
    starts = np.broadcast_to(np.asarray(offset), x.shape[:1])
    rows = [
        posenc.rotate(ROPE, row, positions=start + np.arange(row.shape[-2]))
        for row, start in zip(x, starts, strict=True)
    ]
    return np.stack(rows).astype(x.dtype)


def largest(x: np.ndarray, offset: Any = 0) -> np.ndarray:
    """One that takes the largest of several offsets, as that of Jina VLM in mlx-vlm does."""
    return turned(x, int(np.max(offset)))


def alone(x: np.ndarray, offset: int = 0) -> np.ndarray:
    """One that takes no array of offsets."""
    if isinstance(offset, np.ndarray):
        raise TypeError("one offset")
    return turned(x, offset)


@pytest.mark.parametrize("function", [turned, largest, alone])
@pytest.mark.parametrize("places", [[3, 4, 5, 6, 7], [7, 0, 7, 2, 5]], ids=["run", "jumps"])
def test_a_rotation_is_asked_where_tokens_stand(function: Any, places: list[int]) -> None:
    turn = RotationInUse("layers.0.rope", 0, function, 8)
    out = mlx._rotate(np, turn, X, np.array(places))
    assert_close(out, posenc.rotate(ROPE, X, positions=np.array(places)), ORIGINAL)


def test_tables_for_each_axis_are_those_of_text() -> None:
    """The classes of GLM-4V take positions of three axes alone, and cut sections afterwards."""

    def tables(_: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = ids[:, :, :, None] * posenc.frequencies(ROPE)
        return np.cos(angles), np.sin(angles)

    turn = RotationInUse("rotary_emb", None, tables, 8, tables=True, apart=3)
    cos, sin = mlx._tables(np, turn, np.arange(5))
    angles = np.arange(5)[:, None] * posenc.frequencies(ROPE)
    assert_close(cos[0], np.cos(angles), FLOAT64)
    assert_close(sin[0], np.sin(angles), FLOAT64)


class Module(dict[str, Any]):
    """A module of MLX, which is a dictionary, as far as a run asks."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def __call__(self, x: Any, *_: Any, **__: Any) -> Any:
        return self.call(x)


class RoPEAttention(Module):
    """An attention, whose name says that it turns."""


class Rotary(Module):
    """What turns inside of it."""


def test_what_turns_is_no_attention_and_no_call_of_its_own() -> None:
    """Phixtral's attention is called RoPEAttention; LLaDA calls MLX's rotation without a module."""
    inside = Rotary(lambda x: x + 1)
    attention = RoPEAttention(lambda x: inside(x[None, None]))
    core = SimpleNamespace(
        array=np.array, eval=None, async_eval=None,
        fast=SimpleNamespace(rope=lambda x, dims, *, traditional, offset=0: x + dims + offset),
    )  # fmt: skip
    bare = Module(lambda x: core.fast.rope(x[None, None], 2, traditional=False, offset=1))

    class Model(Module):
        def named_modules(self) -> Any:
            return [("layers.0.attn", attention), ("layers.0.attn.rope", inside),
                    ("layers.1.attn", bare), ("", self)]  # fmt: skip

        def modules(self) -> Any:
            return [attention, inside, bare, self]

    turns = used(Model(lambda x: (attention(x), bare(x))), core)
    assert [(turn.path, turn.layer) for turn in turns] == [
        ("layers.0.attn.rope", 0), ("layers.1.attn", 1),
    ]  # fmt: skip
    direct = turns[1].function
    assert isinstance(direct, functools.partial)
    assert direct(np.zeros((1, 1, 1, 2)), offset=3).tolist() == [[[[5.0, 5.0]]]]
    assert "__call__" in vars(Module)
    assert vars(Rotary).get("__call__") is None


@pytest.mark.parametrize("name", ["vision", "thinker.audio", "talker.text", "code2wav"])
def test_a_run_of_tokens_reaches_no_tower(name: str) -> None:
    turn = RotationInUse("layers.0.rope", 0, turned, 8)
    part = Part(name, kind="rotary", spec=ROPE)
    text = Part("thinker.text", kind="rotary", spec=ROPE)
    assert not turn.acts_in(part, [part.name, text.name])
    assert turn.acts_in(text, [part.name, text.name])


def test_golden_takes_what_an_engine_makes_of_a_config(tmp_path: Path) -> None:
    """SGLang drops the linear scaling of Gemma: its numbers are those of the plain rotation."""
    config = {"model_type": "gemma", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64,
              "num_hidden_layers": 2, "max_position_embeddings": 512}  # fmt: skip
    scaled = {**config, "rope_parameters": {"rope_type": "linear", "factor": 4.0,
                                            "rope_theta": 1e4}}  # fmt: skip
    plain = {**config, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(scaled))
    found, own = posenc.golden(f"engine:sglang={path}"), posenc.golden(plain)
    assert [part.spec for part in found.parts] == [part.spec for part in own.parts]
    assert [part.spec for part in posenc.golden(scaled).parts] != [p.spec for p in own.parts]
    written = CliRunner().invoke(app, ["golden", f"engine:sglang={path}", "-o", f"{path}.golden"])
    assert written.exit_code == 0, written.output
    for source, says in (
        (f"engine:sglang@0.1={path}", "engine:sglang@0.5.23 asks for this one"),
        ("engine:vllm", "Write engine:vllm=CONFIG"),
        (f"engine:jax={path}", "one of vllm, sglang, llama.cpp, mlx, got 'engine:jax="),
    ):
        with pytest.raises(posenc.PosencError, match=says) as refused:
            posenc.golden(source)
        assert str(refused.value).startswith("golden: ")
    path.write_text(json.dumps({**config, "model_type": "nonesuch"}))
    with pytest.raises(posenc.DataError, match="golden: engine:vllm: expected a config of which"):
        posenc.golden(f"engine:vllm={path}")


@pytest.mark.parametrize(
    ("turns", "spec"),
    [(1.0, ROPE), (0.5, ROPE.replace(scaling=posenc.scaling.Linear(2))), ("squares", None)],
)
def test_golden_takes_what_a_class_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: Any, spec: Any
) -> None:
    """Of its config, of none but itself, or of nothing that a spec gives."""

    def rotate(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        places = positions * (positions % 7 if turns == "squares" else turns)
        own = ROPE.replace(phase="real")
        return np.asarray(posenc.rotate(own, x, positions=places.astype(float)))

    def of_class(config: Any, name: str, *, caller: str) -> Comparand:
        assert caller == "golden"
        code = Implementation(SimpleNamespace(rotate=rotate, head_dim=8))
        return Comparand(name, whole=False, answers=lambda *_: [code], remarks=("its class",))

    monkeypatch.setitem(ENGINES, "mlx", of_class)
    monkeypatch.setattr(held, "SECONDS", 0.2)  # of a survey
    config = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 1e4}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    if spec is None:
        with pytest.raises(posenc.DataError, match="rotations that a spec gives, got .*position"):
            posenc.golden(f"engine:mlx={path}")
        return
    found = posenc.golden(f"engine:mlx={path}")
    assert [part.spec for part in found.parts] == [spec]
    assert [part.positions for part in found.parts] == [None]
    assert "its class" in {note.text for note in found.notes}


@pytest.mark.parametrize("sign", ["=", " "])
def test_a_path_of_an_engine_may_have_spaces(sign: str) -> None:
    called = ("vllm", "my dir/a=b/config.json")
    assert asked(f"engine:vllm{sign}{called[1]}", "golden", ["vllm"]) == called


@pytest.mark.parametrize(
    ("engine", "kind", "window"),
    [("sglang", "mistral", "the whole sequence"), ("vllm", "mistral", None),
     ("vllm", "cohere2", "4097"), ("sglang", "gemma2", "4096")],
)  # fmt: skip
def test_windows_are_those_that_attentions_of_an_engine_get(
    tmp_path: Path, engine: str, kind: str, window: str | None
) -> None:
    """SGLang's Mistral gets none; the settings of vLLM's cache, which were not run, have one."""
    config = {"model_type": kind, "hidden_size": 512, "num_attention_heads": 4, "head_dim": 128,
              "num_hidden_layers": 4, "sliding_window": 4096, "rope_theta": 1e4,
              "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
              "max_position_embeddings": 8192}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = posenc.diff(path, f"engine:{engine}")
    rows = [(row.a, row.b) for row in found.rows if row.field == "window"]
    assert rows == ([("4096", window)] if window not in (None, "4096") else [])
    assert any("window, which only one side states" in w for w in found.not_compared) == (
        window is None
    )
    part = posenc.golden(f"engine:{engine}={path}").parts[0]
    assert (part.whole, str(part.window)) == (
        (True, "None") if window == "the whole sequence" else (False, str(window))
    )


def test_a_scale_that_was_not_asked_is_said(tmp_path: Path) -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048,
            "mscale": 0.7, "mscale_all_dim": 1.3, "rope_theta": 1e4}  # fmt: skip
    latent = {"hidden_size": 512, "num_attention_heads": 4, "qk_rope_head_dim": 64,
              "num_hidden_layers": 2, "max_position_embeddings": 8192,
              "rope_parameters": rope}  # fmt: skip
    told = {
        kind: " ".join(posenc.diff({**latent, "model_type": kind}, "engine:vllm").remarks)
        for kind in ("deepseek_v3", "minicpm3")
    }
    assert ["softmax scale" in words for words in told.values()] == [False, True]
