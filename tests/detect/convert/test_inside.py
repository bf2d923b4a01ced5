"""Attentions inside layers keep their own pairing, and are converted by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from tests.detect.checkpoints import HIDDEN, folder_of, interleaved_from_half, loaded

HEADS, WIDE, TURN = 2, 12, 4
CONFIG = {
    "model_type": "deepseek_v32", "num_attention_heads": 3, "num_key_value_heads": 3,
    "num_hidden_layers": 1, "qk_nope_head_dim": 6, "qk_rope_head_dim": TURN, "kv_lora_rank": 5,
    "rope_theta": 10000.0, "index_head_dim": WIDE, "index_n_heads": HEADS,
    "max_position_embeddings": 64,
}  # fmt: skip
AT = "model.layers.0.self_attn"
INDEXER = posenc.Projections(attention="indexer")


def weights(**more: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "q_b_proj.weight": (3 * 10, 5),
        "kv_a_proj_with_mqa.weight": (9, HIDDEN),
        "kv_b_proj.weight": (30, 5),
        "indexer.wq_b.weight": (HEADS * WIDE, 5),
        "indexer.wk.weight": (WIDE, HIDDEN),
        "indexer.k_norm.weight": (WIDE,),
        "indexer.k_norm.bias": (WIDE,),
        "indexer.weights_proj.weight": (HEADS, HIDDEN),
        **more,
    }
    return {f"{AT}.{n}": rng.standard_normal(s) for n, s in shapes.items() if s}


def test_the_main_attention_leaves_the_other_and_says_so(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights(), CONFIG)
    made = posenc.convert(source, tmp_path / "b", pairing="half")
    assert made.pairing == ("interleaved", "half")
    assert set(made.tensors) == {f"{AT}.q_b_proj.weight", f"{AT}.kv_a_proj_with_mqa.weight"}
    told = [text for text in made.config if "indexer" in text]
    assert len(told) == 1
    assert "pairs half, and its 5 tensors stay as they are" in told[0]
    found = loaded(tmp_path / "b")
    for name, value in weights().items():
        assert (found[name].tobytes() == value.tobytes()) == (name not in made.tensors), name


def test_the_attention_inside_is_converted_by_itself_and_back(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights(), CONFIG)
    with pytest.raises(posenc.DataError, match="half, which it is already"):
        posenc.convert(source, pairing="half", layout=INDEXER)
    made = posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=INDEXER)
    assert made.probe is not None
    assert (made.probe.layers, made.probe.heads, made.probe.unverified) == (1, HEADS, {})
    inner = f"{AT}.indexer"
    assert set(made.tensors) == {
        f"{inner}.{end}" for end in ("wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias")
    }
    assert made.config == ("indexer_rope_interleave becomes true",)
    found, before = loaded(tmp_path / "b"), weights()
    rows = [
        row
        for head in range(HEADS)
        for row in interleaved_from_half(list(range(head * WIDE, (head + 1) * WIDE)), 0, TURN)
    ]
    name = f"{inner}.wq_b.weight"
    assert found[name].tobytes() == before[name][rows].tobytes()
    for end in ("wk.weight", "k_norm.weight", "k_norm.bias"):
        name = f"{inner}.{end}"
        assert found[name].tobytes() == before[name][rows[:WIDE]].tobytes()
    # Either attention remembers its own pairing, whichever was converted first.
    both = posenc.convert(tmp_path / "b", tmp_path / "c", pairing="half")
    assert both.pairing == ("interleaved", "half")
    again = posenc.convert(tmp_path / "c", tmp_path / "d", pairing="half", layout=INDEXER)
    assert again.source_of_pairing == "the record of a conversion in the file"
    posenc.convert(tmp_path / "d", tmp_path / "e", pairing="interleaved")
    assert {n: v.tobytes() for n, v in loaded(tmp_path / "e").items()} == {
        n: v.tobytes() for n, v in before.items()
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"indexer.wk.weight": (), "indexer.k_proj.weight": ()}, "keys beside its queries"),
        ({"indexer.wq_b.weight": (), "indexer.qk.weight": (36, 5)}, "queries beside its keys"),
        ({"indexer.wq_b.weight": (), "indexer.wk.weight": (), "indexer.k_norm.weight": (),
          "indexer.k_norm.bias": (), "indexer.index_qk_proj.weight": (36, 5)}, "index_qk_proj"),
        ({"indexer.wq_b.weight": (HEADS * WIDE - 1, 5)}, "2 heads of 12 channels by"),
    ],
)  # fmt: skip
def test_an_attention_that_is_not_there_as_a_whole(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    source = folder_of(tmp_path / "a", weights(**more), CONFIG)
    with pytest.raises(posenc.DataError, match=words):
        posenc.convert(source, tmp_path / "b", pairing="interleaved", layout=INDEXER)
    assert not (tmp_path / "b").exists()


def test_an_attention_that_no_row_knows_is_told(tmp_path: Path) -> None:
    config = {k: v for k, v in CONFIG.items() if not k.startswith("index")}
    source = folder_of(tmp_path / "a", weights(), {**config, "model_type": "deepseek_v3"})
    made = posenc.convert(source, pairing="half")
    assert any("pairs in a way that is not known here" in text for text in made.config)
    with pytest.raises(posenc.DataError, match="the config says that they do not"):
        posenc.convert(source, pairing="half", layout=INDEXER)
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'indexer'"):
        posenc.convert(source, pairing="half", layout=posenc.Projections(attention="indxer"))


def test_pairing_is_told_of_each(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", weights(), CONFIG)
    assert posenc.detect_pairing(source).stated == "interleaved"
    assert posenc.detect_pairing(source, layout=INDEXER).stated == "half"


@pytest.mark.slow("detect/convert", "presets/configs")
@pytest.mark.parametrize("name", ["deepseek_v32", "glm_moe_dsa", "hy_v4", "minimax_m3_vl_text"])
def test_scores_of_a_converted_indexer_under_the_other_pairing(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rotations = pytest.importorskip("tools.models.rotations")
    model = rotations.built(name)
    model.save_pretrained(tmp_path / "a")
    plan = posenc.from_hf(json.loads((tmp_path / "a" / "config.json").read_text()))
    main, inner = (entry.spec for entry in plan.at(0))
    other = {"half": "interleaved", "interleaved": "half"}[inner.channels.order]
    posenc.convert(tmp_path / "a", tmp_path / "b", pairing=other, layout=INDEXER)
    again = transformers.AutoModel.from_pretrained(
        tmp_path / "b", attn_implementation="eager", dtype=torch.float32
    ).eval()
    places = torch.arange(rotations.TOKENS)
    got, want = (rotations.turned(m, places) for m in (again, model))
    swapped = inner.replace(pairing=inner.channels.replace(order=other, output="same"))
    scores = []
    for spec, turned in ((swapped, got["indexer"]), (inner, want["indexer"])):
        q, k = (posenc.rotate(spec, side[0], positions=places) for side in (turned.q, turned.k))
        scores.append(q @ k.mT)
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=2e-5)
    plain = got["indexer"].q[1] @ got["indexer"].k[1].mT
    assert (plain - scores[1]).abs().max() > 0.05  # as it was, the model would be wrong
    assert main is not None
    torch.testing.assert_close(got[""].q[1], want[""].q[1], rtol=0, atol=0)
