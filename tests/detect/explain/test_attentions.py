"""Attentions of their own inside layers: read, told, and held against the models that have them."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from tools.models import plans

import posenc
from posenc.detect.explain.describe import describe, lines
from posenc.presets.families import families
from tests.tolerances import ORIGINAL

rotations = pytest.importorskip("tools.models.rotations")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

SMALL: dict[str, dict[str, Any]] = rotations.SMALL
TOKENS = rotations.TOKENS
PLACES = {"from 0": np.arange(TOKENS), "far": 4095 + np.arange(TOKENS)}
FROM_ZERO = ("deepseek_v4", "minimax_m3_vl_text")


def plan_of(name: str) -> posenc.Reading:
    return posenc.from_hf({"model_type": name, **copy.deepcopy(SMALL[name])})


def apart(spec: Any, got: Any, places: np.ndarray) -> float:
    """How far the spec is from what a model did, as a part of what it turned."""
    worst = 0.0
    for role, before, after, at in got.sides(torch.as_tensor(places)):
        made = before  # what an attention does that does not turn
        if spec is not None:
            positions = at[:, None].expand(-1, len(spec.axes)) if spec.axes[1:] else at
            made = posenc.rotate(spec, before, positions=positions, role=role)
        worst = max(worst, float((made - after).abs().max() / before.abs().max()))
    return worst


def others(spec: Any) -> dict[str, Any]:
    """The same rotation with one thing otherwise."""
    swapped = {"half": "interleaved", "interleaved": "half"}[spec.channels.order]
    part = {"leading": "trailing", "trailing": "leading"}[spec.channels.part]
    made = {
        "pairing": spec.replace(pairing=spec.channels.replace(order=swapped, output="same")),
        "channels": spec.replace(pairing=spec.channels.replace(part=part)),
        "base": spec.replace(base=1.1 * spec.base),
    }
    if spec.scaling:
        made["scaling"] = spec.replace(scaling=())
    return made


def test_every_row_with_an_attention_inside_has_a_model_here() -> None:
    rows = {n for n, row in families().items() if any("attentions" in r for r in row.entries)}
    # Not in transformers: by their authors' code, and by their classes in MLX.
    elsewhere = {"pangu_ultra_moe", "openpangu_v2", "minimax_m3"}
    elsewhere |= {"deepseek_v41", "deepseek_v41_text", "longcat_flash_sparse"}
    assert rows - elsewhere == set(SMALL)


@pytest.mark.slow("detect/explain", "presets/configs", "presets/rotary.json")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_queries_and_keys_of_both_attentions_turn_as_the_model_turns_them(
    name: str, where: str
) -> None:
    if where == "far" and name in FROM_ZERO:
        pytest.skip("its windows are counted from position 0")
    model = rotations.built(name)
    got = rotations.turned(model, torch.as_tensor(PLACES[where]))
    entries = plan_of(name).at(0)
    assert [entry.attention for entry in entries] == ["", "indexer"]
    assert set(got) == {"", "indexer"}
    for entry in entries:
        turned = got[entry.attention]
        # The model computes angles in float32.
        assert apart(entry.spec, turned, PLACES[where]) < ORIGINAL + 2e-7 * PLACES[where][0]
        for what, other in others(entry.spec).items():
            assert apart(other, turned, PLACES[where]) > 0.01, (entry.attention, what)


@pytest.mark.slow("detect/explain", "presets/configs")
def test_an_indexer_of_a_layer_without_positions_has_none() -> None:
    keys = {"no_rope_layers": [0, 1]}
    got = rotations.turned(rotations.built("mistral_large4_text", **keys), torch.arange(TOKENS))
    plan = posenc.from_hf(
        {"model_type": "mistral_large4_text", **SMALL["mistral_large4_text"], **keys}
    )
    assert [(e.attention, e.kind) for e in plan.at(0)] == [("", "none"), ("indexer", "none")]
    assert [(e.attention, e.kind) for e in plan.at(1)] == [("", "rotary"), ("indexer", "rotary")]
    for entry in plan.at(0):
        assert apart(entry.spec, got[entry.attention], np.arange(TOKENS)) == 0


@pytest.mark.slow("detect/explain", "presets/configs")
def test_the_sweep_sees_what_no_entry_says_and_what_one_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, plan = rotations.built("deepseek_v32"), plan_of("deepseek_v32")
    main, inner = plan.layers
    assert plans.inner(plan, model) == []
    lacking = posenc.Reading((main,))
    assert plans.inner(lacking, model) == ["indexer turns inside attention, and is in no entry"]
    still = posenc.Reading((dataclasses.replace(main, spec=None),))
    assert "DeepseekV32Attention turns, and no entry does" in plans.inner(still, model)
    for entry, where in ((main, "the main attention"), (inner, "indexer")):
        for what, other in others(entry.spec).items():
            wrong = dataclasses.replace(entry, spec=other)
            read = posenc.Reading(tuple(wrong if one is entry else one for one in plan))
            monkeypatch.setattr(posenc, "from_hf", lambda _, read=read: read)
            said = plans.inner(plan, model)
            assert any(f"{where} of a small model turns otherwise" in text for text in said), what


# --- which layers ---------------------------------------------------------------------------------


DSA = {
    "qk_rope_head_dim": 64, "index_head_dim": 128, "rope_theta": 1e4,
    "max_position_embeddings": 4096,
}  # fmt: skip
# (config, layers with an indexer)
LAYERS: dict[str, tuple[dict[str, Any], list[int] | None]] = {
    "all of them": ({"model_type": "deepseek_v32", "num_hidden_layers": 3}, None),
    "by a list": (
        {"model_type": "glm_moe_dsa", "num_hidden_layers": 3,
         "indexer_types": ["full", "shared", "full"]},
        [0, 2],
    ),
    "by a pattern": (
        {"model_type": "glm_moe_dsa", "num_hidden_layers": 4, "index_topk_pattern": "FSSF"},
        [0, 3],
    ),
    "by a period": (
        {"model_type": "glm_moe_dsa", "num_hidden_layers": 8, "index_topk_freq": 3,
         "index_skip_topk_offset": 3},
        [0, 1, 2, 5],
    ),
    "by the period of the class": ({"model_type": "hy_v4", "num_hidden_layers": 10}, [0, 1, 5, 9]),
    "by ratios": (
        {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 4,
         "compress_ratios": [0, 4, 128, 4, 0]},
        [1, 3],
    ),
    "by the pattern of the class": (
        {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 6}, [3, 5],
    ),
    "by numbers": (
        {"model_type": "openpangu_v2", "num_hidden_layers": 4, "index_topk": 64,
         "num_attention_heads": 2, "dsa_layers": [1, 3], "rope_interleave": False},
        [1, 3],
    ),
    "by flags": (
        {"model_type": "minimax_m3_vl_text", "head_dim": 128, "num_hidden_layers": 3,
         "num_attention_heads": 8,
         "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1], "sparse_index_dim": 160}},
        [1, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layers_with_an_indexer(case: str) -> None:
    config, wanted = LAYERS[case]
    plan = posenc.from_hf({**DSA, **config})
    inner = [entry for entry in plan if entry.attention]
    assert [entry.attention for entry in inner] == ["indexer"]
    assert inner[0].indices == (None if wanted is None else tuple(wanted))
    assert plan[inner[0].layer].attention == ""
    count = config["num_hidden_layers"]
    expected = range(count) if wanted is None else wanted
    assert [i for i in range(count) if len(plan.at(i)) == 2] == list(expected)


@pytest.mark.slow("presets/configs")
@pytest.mark.parametrize("case", [c for c in LAYERS if c != "by numbers"])
def test_transformers_makes_the_same_layers(case: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config, wanted = LAYERS[case]
    data = copy.deepcopy({**DSA, **config})
    made = CONFIG_MAPPING[data.pop("model_type")](**data)
    sparse = ("compressed_sparse_attention", "minimax_m3_sparse", "indexed_attention")
    of_types = [kind in sparse for kind in made.layer_types]
    modes = getattr(made, "indexer_types", None) or ["full"] * len(of_types)
    found = [i for i, mode in enumerate(modes) if mode == "full" and of_types[i]]
    assert found == (list(range(len(modes))) if wanted is None else wanted)


def test_the_second_base_and_its_scaling_reach_compressed_layers_alone() -> None:
    config: dict[str, Any] = {
        "model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64,
        "num_hidden_layers": 3, "compress_ratios": [0, 4, 128, 0], "rope_theta": 10000,
        "compress_rope_theta": 40000, "index_head_dim": 128, "max_position_embeddings": 1048576,
        "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536,
                         "rope_theta": 10000},
    }  # fmt: skip
    plan = posenc.from_hf(config)
    specs: list[Any] = [entry.spec for entry in plan]
    assert [(s.dim, s.base, bool(s.scaling), s.attention_factor) for s in specs] == [
        (64, 10000.0, False, 1.0), (64, 40000.0, True, 1.0), (64, 40000.0, True, 1.0),
        (64, 40000.0, True, 1.0),
    ]  # fmt: skip
    assert [entry.attention for entry in plan] == ["", "", "indexer", ""]
    assert any("behind the last one" in note.text for note in plan.notes)
    assert any("rope_scaling.rope_theta=10000 does not reach" in text for text in plan.warnings)
    del config["compress_rope_theta"]
    assert posenc.from_hf(config).at(1)[0].spec.base == 160000.0  # type: ignore[union-attr]


def test_layers_that_predict_further_tokens_are_told() -> None:
    config = {"model_type": "deepseek_v32", **DSA, "num_nextn_predict_layers": 1}
    texts = [note.text for note in posenc.from_hf(config).notes]
    assert any("num_nextn_predict_layers=1: layers behind the last one" in text for text in texts)
    config["num_nextn_predict_layers"] = 0
    assert not any("predict" in note.text for note in posenc.from_hf(config).notes)


# --- pairing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "order"),
    [
        ("deepseek_v32", None, "half"),
        ("deepseek_v32", True, "interleaved"),
        ("glm_moe_dsa", None, "interleaved"),
        ("glm_moe_dsa", True, "interleaved"),
        ("glm_moe_dsa", False, "half"),
    ],
)
def test_pairing_of_the_indexer(name: str, key: bool | None, order: str) -> None:
    more = {} if key is None else {"indexer_rope_interleave": key}
    main, inner = posenc.from_hf({"model_type": name, **DSA, **more})
    assert (main.spec.channels.order, main.spec.channels.part) == ("interleaved", "trailing")  # type: ignore[union-attr]
    assert (inner.spec.channels.order, inner.spec.channels.part) == (order, "leading")  # type: ignore[union-attr]
    told = {source.field: (source.origin, source.where) for source in inner.sources}
    assert told["head"] == ("config", "index_head_dim")


def test_a_pairing_from_the_caller_is_that_of_the_main_attention() -> None:
    main, inner = posenc.from_hf({"model_type": "glm_moe_dsa", **DSA}, pairing="half")
    assert main.spec.channels.order == "half"  # type: ignore[union-attr]
    assert inner.spec.channels.order == "interleaved"  # type: ignore[union-attr]


# (config, [attention, order, part, width, base])
AUTHORS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "bailing_moe_v2": (
        {"head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 6e5},
        [("", "half", "leading", 64, 6e5)],
    ),
    "bailing_moe_linear": (
        {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e3, "layer_group_size": 2,
         "partial_rotary_factor": 0.5},
        [("", "half", "leading", 8, 1e3)],
    ),
    "longcat_flash_ngram": (
        {"qk_rope_head_dim": 8, "rope_theta": 1e3}, [("", "interleaved", "trailing", 8, 1e3)]
    ),
    "kimi_k2": (
        {"qk_rope_head_dim": 64, "rope_theta": 5e4}, [("", "interleaved", "trailing", 64, 5e4)]
    ),
    "PanguEmbedded": (
        {"hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 1.6e7},
        [("", "half", "leading", 128, 1.6e7)],
    ),
    "openpangu_v2": (
        {**DSA, "index_topk": 2048, "rope_interleave": False},
        [("", "half", "trailing", 64, 1e4), ("indexer", "half", "leading", 64, 1e4)],
    ),
    "pangu_ultra_moe": (
        {"qk_rope_head_dim": 64, "rope_theta": 1e4}, [("", "interleaved", "trailing", 64, 1e4)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AUTHORS)
def test_types_that_transformers_lacks_follow_their_authors(name: str) -> None:
    config, wanted = AUTHORS[name]
    plan = posenc.from_hf({"model_type": name, "max_position_embeddings": 4096, **config})
    found = []
    for entry in plan:
        spec: Any = entry.spec
        pairing = spec.channels
        found.append((entry.attention, pairing.order, pairing.part, spec.dim, spec.base))
    assert found == wanted
    assert any("Not in transformers" in note.text for note in plan.notes)


def test_a_share_that_files_must_state() -> None:
    config = {"model_type": "bailing_moe_v2", "head_dim": 128, "rope_theta": 6e5}
    with pytest.raises(
        posenc.DataError, match="partial_rotary_factor is missing: how much of a head turns"
    ):
        posenc.from_hf(config)
    assert posenc.from_hf({**config, "rotary_dim": 64})["attention"].spec.dim == 64  # type: ignore[union-attr]


def test_two_models_of_one_type_are_told_apart() -> None:
    config = {
        "model_type": "bailing_hybrid", "qk_rope_head_dim": 64, "rope_theta": 6e6,
        "num_hidden_layers": 6, "num_attention_heads": 4, "max_position_embeddings": 4096,
    }  # fmt: skip
    for classes, partly in (
        (None, False), (["BailingMoeV3ForCausalLM"], False), (["BailingMoeV2_5ForCausalLM"], True)
    ):  # fmt: skip
        plan = posenc.from_hf({**config, **({} if classes is None else {"architectures": classes})})
        assert any("version 2.5 turns in its layers" in w for w in plan.warnings) == partly
        assert ("in part" in describe(plan)["sure"]) == partly
        assert plan.by_type("full_attention")[0].kind == "rotary"


# --- telling --------------------------------------------------------------------------------------


def test_what_is_told() -> None:
    plan = plan_of("deepseek_v32")
    text = "\n".join(lines(plan))
    main, inner = text.split("indexer, inside attention")
    assert "pairing interleaved" in main
    assert "the trailing ones of the head" in main
    assert "pairing half" in inner
    assert "the leading ones of the head" in inner
    told = json.loads(json.dumps(describe(plan)))
    assert [row.get("attention", "") for row in told["layers"]] == ["", "indexer"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"index_head_dim": 32}, "index_head_dim=32: 64 channels of a head of the indexer turn"),
        ({"index_head_dim": "wide"}, "index_head_dim is missing"),
        ({"indexer_types": ["full"]}, "indexer_types has 1 entries for 4 layers"),
        ({"indexer_rope_interleave": "yes"}, 'indexer_rope_interleave="yes" is none of'),
    ],
)
def test_an_indexer_that_cannot_be_read(more: dict[str, Any], words: str) -> None:
    config = {"model_type": "glm_moe_dsa", "num_hidden_layers": 4, **DSA, **more}
    with pytest.raises(posenc.DataError, match=words):
        posenc.from_hf(config)
    plan = posenc.from_hf(config, on_error="report")
    assert all(not entry.attention for entry in plan)


def test_ratios_that_nobody_knows() -> None:
    config = {"model_type": "deepseek_v4", "head_dim": 512, "compress_ratios": [0, 7]}
    with pytest.raises(posenc.DataError, match="compress_ratios has '7', which is none of 0, 4"):
        posenc.from_hf({**DSA, **config})


@pytest.mark.parametrize("dialect", ["hf4", "hf5"])
def test_dialects_carry_both_attentions(dialect: Any) -> None:
    config = {"model_type": "deepseek_v32", **copy.deepcopy(SMALL["deepseek_v32"])}
    made = posenc.to_hf(config, dialect)
    assert not [text for text in made.lost if "must know the family" not in text]
    assert posenc.from_hf(made.config).layers[1].spec == posenc.from_hf(config).layers[1].spec
