"""Facts by their names and layers, each with where it was read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import posenc
from tests.detect.checkpoints import folder_of
from tests.detect.explain.test_gguf import BASIC, written
from tests.detect.facts.folders import bert, buffers, config_of, ladder, t5, trained

QWEN = config_of(
    "qwen2", num_hidden_layers=4, use_sliding_window=True, max_window_layers=1, sliding_window=64
)


def told(
    known: posenc.Facts, name: str, layer: str | int | None = None
) -> list[tuple[object, ...]]:
    return [(f.value, f.source, f.rests_on) for f in known.of(name, layer)]  # type: ignore[arg-type]


def test_windows_are_facts_of_layers() -> None:
    known = posenc.facts(QWEN)
    key = "config key sliding_window"
    assert told(known, "window", 0) == [(None, "config", key)]
    assert told(known, "window", 3) == [(64, "config", key)]
    assert [f.layers for f in known.of("window", "attention")] == [(0,), (1, 2, 3)]
    # A key that the class does not read is no window.
    assert told(posenc.facts(config_of(sliding_window=64)), "window") == []
    left_out = posenc.facts({k: v for k, v in QWEN.items() if k != "sliding_window"})
    assert told(left_out, "window", 3) == [(4096, "class", "the class default of sliding_window")]


def test_each_fact_says_where_it_was_read() -> None:
    known = posenc.facts(config_of())
    assert told(known, "pairing") == [("half", "row", "posenc's row for llama")]
    assert told(known, "length") == [(2048, "config", "config key max_position_embeddings")]
    assert told(known, "layers") == [(2, "config", "config key num_hidden_layers")]
    assert told(known, "rows") == told(known, "frequencies") == told(known, "permuted") == []
    (spec,) = known.of("spec", "attention")
    assert spec.value == posenc.RoPE(64, pairing="half")
    assert spec.rests_on == ("config keys rope_theta and head_dim, and by posenc's row for llama")
    assert known.of("spec", "another") == ()
    stated = posenc.facts(config_of(), pairing="interleaved", base=5e5)
    assert told(stated, "pairing") == [("interleaved", "caller", "the caller's pairing")]
    assert stated.settled == ("pairing", "frequencies")


def test_a_stated_pairing_leaves_the_channels_that_turn() -> None:
    """The row of the family says that they are the last ones of a head."""
    config = {"model_type": "deepseek_v4"}
    plain, stated = (posenc.facts(config, pairing=order).plan for order in (None, "half"))
    for entry, other in zip(plain, stated, strict=True):
        if entry.kind == "rotary":
            assert entry.spec.channels.part == "trailing"  # type: ignore[union-attr]
            assert other.spec.channels == entry.spec.channels.replace(order="half")  # type: ignore[union-attr]


def test_headers_and_buffers_are_facts(tmp_path: Path) -> None:
    values = ladder()
    known = posenc.facts(folder_of(tmp_path / "a", {**trained(), **buffers(values)}, config_of()))
    (kept,) = known.of("frequencies")
    np.testing.assert_array_equal(np.float32(kept.value), values)
    assert (kept.source, kept.rests_on) == (
        "buffer", "model.layers.0.self_attn.rotary_emb.inv_freq and 1 more",
    )  # fmt: skip
    rows = posenc.facts(folder_of(tmp_path / "b", *bert()))
    assert told(rows, "rows") == [((512, 16), "header", "embeddings.position_embeddings.weight")]
    buckets = posenc.facts(folder_of(tmp_path / "c", *t5()))
    assert [fact.value for fact in buckets.of("buckets")] == [(32, 4), (32, 4)]
    assert {fact["source"] for fact in json.loads(known.to_json())["facts"]} == {
        "config", "row", "buffer", "weights",
    }  # fmt: skip


def test_numbers_that_are_none_are_one_fact_of_all_layers(tmp_path: Path) -> None:
    values = np.full(32, np.nan, np.float32)
    known = posenc.facts(folder_of(tmp_path, {**trained(), **buffers(values)}, config_of()))
    (found,) = known.contradictions
    assert found.other.rests_on.endswith("inv_freq and 1 more")


def test_nothing_is_read_before_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posenc.detect.facts import model

    folder = folder_of(tmp_path, trained(), config_of())
    monkeypatch.setattr(model, "opened", lambda *_, **__: pytest.fail("it was opened"))
    known = posenc.facts(folder)
    assert known.plan["attention"].spec == posenc.RoPE(64, pairing="half")
    monkeypatch.undo()
    monkeypatch.setattr(model, "examined", lambda *_, **__: pytest.fail("weights were read"))
    assert known.reading == known.plan
    assert told(known, "layers") == [(2, "config", "config key num_hidden_layers")]
    assert known.headers == ()


def test_a_gguf_file(tmp_path: Path) -> None:
    known = posenc.facts(written(tmp_path / "a.gguf", "llama", words=5, **BASIC))
    assert (known.format, known.plan.model) == ("gguf", "llama")
    assert told(known, "layers") == [(4, "config", "config key num_hidden_layers")]
    assert told(known, "permuted") == [("half", "row", "posenc's row for llama.cpp")]


@pytest.mark.costly
def test_a_loaded_model_and_its_file_without_its_pickle(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = {"num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 11}
    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=2, head_dim=32, rope_theta=1e4, **sizes
    )
    model = transformers.LlamaModel(config)
    known = posenc.facts(model)
    assert known.contradictions == ()
    assert [fact.source for fact in known.of("pairing")] == ["row", "weights"]
    config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    assert posenc.facts(tmp_path).of("pairing") == known.of("pairing")
    assert posenc.detect_pairing(model).weights == posenc.detect_pairing(tmp_path).weights
    assert posenc.detect_pairing(model).pairing == "half"
    names, several = [*model.state_dict()], {}
    for number, some in enumerate((names[:5], names[5:])):
        file = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: model.state_dict()[name] for name in some}, tmp_path / file)
        several |= dict.fromkeys(some, file)
    (tmp_path / "pytorch_model.bin").unlink()
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": several}))
    with pytest.raises(posenc.DataError, match="names such as q_proj"):
        posenc.detect_pairing(torch.nn.Linear(2, 2))
    for source in (tmp_path, index, sorted(tmp_path.glob("*.bin"))):
        assert posenc.facts(source).of("pairing") == known.of("pairing")
    model.rotary_emb.inv_freq = model.rotary_emb.inv_freq * 2
    assert [one.one.name for one in posenc.facts(model).contradictions] == ["frequencies"]
    # Between two sides that is a difference.
    assert posenc.diff(config, model).differences


def test_of_several_groups_sixteen_are_asked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        f"model.layers.{layer}.self_attn.{name}_proj.weight": rng.standard_normal((64, 16))
        for layer in range(40)
        for name in "qk"
    }
    sizes = {"num_hidden_layers": 40, "head_dim": 16, "num_attention_heads": 4, "hidden_size": 16}
    folder = folder_of(tmp_path, weights, config_of(**sizes, num_key_value_heads=4))
    (found,) = (fact for fact in posenc.facts(folder).of("pairing") if fact.source == "weights")
    assert "the weights of 16 groups of heads, similarity z " in found.rests_on
    assert posenc.detect_pairing(folder).weights.groups == 160
