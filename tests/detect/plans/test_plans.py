"""Plans of published models: rows against their configs and code, and the sweep over all types."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools.models import plans
from tools.pages import shelf

import posenc
from posenc.cli import app
from posenc.detect.explain.describe import plan_lines
from posenc.presets import plan, plan_names, plan_row
from posenc.presets.families import families

# Sizes of the default config, where the row has those of a published model.
DEFAULTS = {"bloom": {"layers": 2, "heads": 8}}
# How a plan calls a window that the config states in other words.
WINDOWS = {"modernbert": ("local_attention", lambda width: width // 2 + 1)}


def default(model_type: str) -> dict[str, Any]:
    transformers = pytest.importorskip("transformers", reason="has the default configs")
    return dict(transformers.CONFIG_MAPPING[model_type]().to_dict())


# --- rows -----------------------------------------------------------------------------------------


def test_there_are_plans_for_the_schedules_that_papers_name() -> None:
    wanted = "llama4 smollm3 cohere2 gemma2 gemma3 modernbert gpt-oss wav2vec2 t5-encoder bloom"
    assert set(wanted.split()) <= set(plan_names())


@pytest.mark.parametrize("name", plan_names())
def test_plans_are_their_json_and_say_where_they_were_read(name: str) -> None:
    made = plan(name)
    assert posenc.from_json(posenc.to_json(made)) == made
    assert len(made) == plan_row(name).sizes["layers"]
    assert plan_row(name).sources
    for source in plan_row(name).sources:
        assert {"repository", "path", "symbol", "version"} <= set(source)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in plan_names() if plan_row(n).recognise["model_types"]])
def test_plans_do_what_readers_find_in_the_configs(name: str) -> None:
    for model_type in plan_row(name).recognise["model_types"]:
        config = default(model_type)
        made = plan(name, **DEFAULTS.get(name, {}))
        read = posenc.from_hf(config)
        assert len(made) == config.get("num_hidden_layers", config.get("n_layer"))
        for index in range(len(made)):
            entry, found = made[index], read.at(index)
            if made.embeddings is not None:
                assert made.embeddings.convolution == found[0].convolution
                continue
            assert entry.specs == tuple(one.spec for one in found if one.spec is not None)
            warm = [one.logit_scale for one in found if one.logit_scale is not None]
            assert (warm or [None])[0] == entry.temperature
            kinds = config.get("layer_types")
            if entry.window is not None:
                assert kinds is not None
                assert kinds[index] == "sliding_attention"
                key, width = WINDOWS.get(name, ("sliding_window", int))
                assert entry.window == width(config[key])
            elif kinds is not None:
                assert kinds[index] != "sliding_attention"


def test_sizes_may_be_changed_and_are_checked() -> None:
    made = plan("llama4", layers=5, dim=64)
    assert made.layers == ("rope", "rope", "rope", "nope", "rope")
    spec = made[0].specs[0]
    assert isinstance(spec, posenc.RoPE)
    assert spec.dim == 64
    wide = plan("gemma4", dim=128)
    assert [entry.specs[0].dim for entry in wide.entries] == [128, 256]  # type: ignore[attr-defined]
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'layers'"):
        plan("llama4", layer=8)
    with pytest.raises(posenc.ArgumentError, match="an integer"):
        plan("llama4", layers=2.5)  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'llama4'"):
        plan("llama-4")


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("llama4", "48 layers: (3 rope, 1 nope) repeated 12 times"),
        ("gemma3", "26 layers: (5 local, 1 global) repeated 4 times; then 2 local"),
        ("bloom", "70 layers: 70 alibi"),
        ("modernbert", "22 layers: (1 global, 2 local) repeated 7 times; then 1 global"),
    ],
)
def test_schedules_in_words(name: str, first: str) -> None:
    assert plan_lines(plan(name))[0] == first


def test_the_command_explains_a_plan() -> None:
    result = CliRunner().invoke(app, ["explain", "--plan", "llama4"])
    assert result.exit_code == 0
    for words in (
        "llama4: 48 layers: (3 rope, 1 nope) repeated 12 times",
        "rope (layers 0, 1, 2, 4, 5, 6, 8, 9, …; 36 in all)",
        "nope (layers 3, 7,",
        "no positions",
        "scores of a query grow with its position: Temperature(rule='log_floor', length=8192",
        "chunks of 8192 positions",
        "models/llama4/modeling_llama4.py Llama4TextAttention",
    ):
        assert words in result.output
    result = CliRunner().invoke(app, ["explain", "--plan", "wav2vec2"])
    assert (
        "a convolution takes the place of positions: grouped convolution, kernel 128"
        in result.output
    )
    result = CliRunner().invoke(app, ["explain", "--plan", "gemma2"])
    assert "attends to keys less than 4,096 positions away" in result.output
    result = CliRunner().invoke(app, ["explain", "--plan", "t5-encoder"])
    assert "its layers share one set of parameters" in result.output
    assert "scores are multiplied by 1, not divided" in result.output
    told = json.loads(CliRunner().invoke(app, ["explain", "--plan", "gemma3", "--json"]).output)
    assert posenc.from_json(json.dumps(told["plan"])) == plan("gemma3")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "or --plan NAME"),
        ([__file__, "--plan", "llama4"], "or --plan NAME"),
        (["--plan", "llama4", "--pairing", "half"], "are for a CONFIG"),
    ],
)
def test_the_command_refuses_what_does_not_go_together(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["explain", *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_the_list_shows_every_plan() -> None:
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).output)
    assert [row["name"] for row in listed["plans"]] == list(plan_names())
    assert "rope rope rope nope" in CliRunner().invoke(app, ["list", "rope"]).output


# --- where rows were read -------------------------------------------------------------------------


def test_sources_of_rules_exist() -> None:
    transformers = pytest.importorskip("transformers", reason="is where they were read")
    root = Path(transformers.__file__).parent
    seen = 0
    for row in {id(row): row for row in families().values()}.values():
        for rule in row.entries:
            for source in rule.get("source", ()):
                file, _, symbol = source.partition(": ")
                if re.match(r"transformers 4|(vLLM|SGLang|mlx-\w+) \d|\S+/\S+ [0-9a-f]{7},", file):
                    continue  # of an older version, another package, or a repository at a commit
                text = (root / file).read_text(encoding="utf-8")
                assert re.search(rf"^\s*(class|def) {symbol}\b", text, re.MULTILINE), source
                seen += 1
    assert seen > 150


def test_rules_with_a_spec_say_where_they_were_read() -> None:
    for name, row in families().items():
        for rule in row.entries:
            if {"table", "convolution"} & set(rule) or ("spec" in rule and "rotary" not in rule):
                assert rule.get("source") or name in ("falcon", "blip_2_qformer"), name


# --- the sweep ------------------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    return dict(json.loads(plans.DATA.read_text(encoding="utf-8")))


def test_the_page_shows_the_data() -> None:
    found = stored()
    assert shelf.stale(plans.PAGE, plans.page(found)) == []
    assert sum(found["counts"].values()) == sum(found["checks"].values()) == len(found["rows"])


def test_what_is_left_open_has_a_reason_and_what_differs_a_finding() -> None:
    for row in stored()["rows"]:
        if row["state"] != "planned":
            assert len(row["why"]) > 20, row
        # What is planned in part agrees in part at most.
        assert row["check"] != "agreed" or row["state"] == "planned", row
        if row["check"] == "differs":
            assert row["model_type"] in plans.FINDINGS, row


def test_counts() -> None:
    found = stored()
    assert len(found["rows"]) >= 804
    assert found["counts"]["planned"] >= 725
    assert found["counts"]["unknown"] <= 22
    # Sinusoids alone, which are no parameters, are compared by tests and not by the page.
    agreed = found["checks"]["agreed"] + found["checks"]["not compared"]
    assert found["checks"]["agreed"] >= 634
    assert agreed >= 653
    assert agreed + found["checks"]["partly"] >= 698
    assert all(row["compared"] for row in found["rows"] if row["check"] == "agreed")
    assert found["checks"]["differs"] <= len(plans.FINDINGS)
    kinds = found["kinds"]
    for kind in ("bias: WindowTable", "relative: Shaw", "relative: TransformerXL", "convolution"):
        assert kinds[kind] >= 5, kind


# What one knows of some models, by hand.
SAMPLES: Mapping[str, list[posenc.Spec | str]] = {
    "bert": [posenc.Learned(768, length=512)],
    "roberta": [posenc.Learned(768, length=510, start=2, pad=1)],
    "opt": [posenc.Learned(768, length=2048, start=2, pad=1)],
    "xlnet": [
        posenc.TransformerXL(64, count=16, width=1024),
        posenc.RelativeSegments(64, count=16),
    ],
    "funnel": [
        posenc.TransformerXL(64, count=12, width=768),
        posenc.RelativeSegments(64, count=12, common=2),
    ],
    "levit": [
        *(posenc.OffsetTable(4 * n, size=(size, size)) for n, size in ((1, 14), (2, 7), (3, 4))),
        posenc.OffsetTable(8, size=(14, 14)),
        posenc.OffsetTable(16, size=(7, 7)),
    ],
    "wavlm": ["convolution", posenc.GatedBuckets(64, count=12)],
    "phi4_multimodal_audio": [posenc.ClippedTable(16, clip=(-1000, 999))],
    "gemma3n_audio": [
        posenc.TransformerXL(192, count=8, width=1536, ladder=posenc.Ladder(denominator="n-1"))
    ],
    "gemma4_audio": [
        posenc.TransformerXL(128, count=8, width=1024, ladder=posenc.Ladder(denominator="n-1"))
    ],
    "inkling_text": [
        posenc.Shaw(16, clip=(-past, 0), acts_on="keys", outside="zero", added="after")
        for past in (511, 1023)
    ],
    "swin": [posenc.WindowTable(heads, window=(7, 7)) for heads in (3, 6, 12, 24)],
    "sew-d": [
        "convolution",
        posenc.Disentangled(64, count=12, max_distance=512, buckets=256),
    ],
    "wav2vec2-bert": [posenc.Shaw(64, clip=(-64, 8), acts_on="keys")],
    "bloom": [posenc.ALiBi(8, form="key_only")],
    "mpnet": [posenc.Learned(768, length=510, start=2, pad=1), posenc.T5(12)],
    "sam_vision_model": [
        posenc.Learned(768, length=(64, 64)),
        posenc.Decomposed(64, size=(14, 14)),
        posenc.Decomposed(64, size=(64, 64)),
    ],
    "vit": [posenc.Learned(768, length=(14, 14), lookup=posenc.Lookup(prefix=1))],
    "data2vec-audio": ["convolution"],
    "mamba": ["none"],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples(name: str) -> None:
    found = posenc.from_hf(default(name))
    assert [entry.spec or entry.kind for entry in found] == SAMPLES[name]


@pytest.mark.filterwarnings("ignore")
def test_layers_of_windows_and_of_the_whole_picture() -> None:
    found = posenc.from_hf(default("sam_vision_model"))
    assert found["global"].indices == (2, 5, 8, 11)
    assert found["windows"].indices == (0, 1, 3, 4, 6, 7, 9, 10)


# The last entry of configs whose keys choose another spec, or another field of it.
CHOSEN: list[tuple[str, dict[str, Any], posenc.Spec]] = [
    ("layoutlmv2", {}, posenc.SpatialBuckets(12)),
    ("layoutlmv3", {}, posenc.SpatialBuckets(12, added="before")),
    (
        "layoutlmv3",
        {"has_spatial_attention_bias": False},
        posenc.T5(12, direction="bidirectional", added="before"),
    ),
    (
        "layoutlmv2",
        {"has_relative_attention_bias": False},
        posenc.T5(12, buckets=64, max_distance=256, direction="bidirectional", added="after"),
    ),
    (
        "phi4_multimodal_audio",
        {"bias_symmetric": True, "bias_max_distance": 6},
        posenc.ClippedTable(16, clip=(-5, 5), form="absolute"),
    ),
    (
        "esm",
        {"is_folding_model": True, "vocab_size": 33, "vocab_list": ["a"]},
        posenc.ClippedTable(128, clip=32),
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "more", "wanted"), CHOSEN)
def test_keys_that_choose(name: str, more: dict[str, Any], wanted: posenc.Spec) -> None:
    transformers = pytest.importorskip("transformers", reason="has the default configs")
    config = dict(transformers.CONFIG_MAPPING[name](**more).to_dict())
    assert list(posenc.from_hf(config))[-1].spec == wanted


@pytest.mark.filterwarnings("ignore")
def test_distances_of_xlnet_that_are_cut() -> None:
    found = posenc.from_hf({**default("xlnet"), "clamp_len": 7})
    assert found["attention"].spec == posenc.TransformerXL(64, count=16, width=1024, clamp=7)


@pytest.mark.filterwarnings("ignore")
def test_pairs_of_a_complex_are_read_beside_the_rotation_of_its_atoms() -> None:
    found = posenc.from_hf(default("esmfold2"))
    assert found["pairs"].spec == posenc.ComplexOffsets(256)
    atoms = found["atom_encoder.attention"].spec
    assert isinstance(atoms, posenc.RoPE)
    assert atoms.base == (20, 20, 20, 10_000)
    config = default("esmfold2")
    config["atom_encoder"]["num_uid_rope_pairs"] = 6
    told = posenc.from_hf(config).warnings
    assert any("expected 16 pairs in all, got (2, 2, 2, 6)" in text for text in told)


@pytest.mark.filterwarnings("ignore")
def test_layers_called_by_a_word_or_listed() -> None:
    config = default("inkling_text")
    found = posenc.from_hf(config)
    assert found["global"].indices == tuple(range(5, 66, 6))
    assert found["local"].indices == tuple(i for i in range(66) if i % 6 != 5)
    listed = {**config, "layer_types": None, "local_layer_ids": [0, 3], "num_hidden_layers": 5}
    found = posenc.from_hf(listed)
    assert found["global"].indices == (1, 2, 4)
    assert found["local"].indices == (0, 3)
    told = posenc.from_hf({**default("inkling2_text"), "layer_types": None}, on_error="report")
    assert any("layer_types is not a list of a word" in text for text in told.errors)
    told = posenc.from_hf({**config, "log_scaling_n_floor": 8}, on_error="report")
    assert any("no Temperature has that rule" in text for text in told.errors)


def test_some_rows_are_merged_into_those_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="its version is stored with the rows")
    pytest.importorskip("transformers", reason="its version is stored with the rows")
    rows = [plans.Row("a", "planned", ["none"], "agreed"), plans.Row("b", why="for a reason")]
    monkeypatch.setattr(plans, "DATA", tmp_path / "plans.json")
    plans.DATA.write_text(json.dumps(plans.data(rows)), encoding="utf-8")
    fresh = plans.Row("b", "planned", ["bias: T5"], "agreed", 1)
    assert plans.merged([fresh]) == [rows[0], fresh]
    with pytest.raises(ValueError, match="no row of c: sweep all"):
        plans.merged([plans.Row("c")])
    monkeypatch.setattr(plans, "versions", lambda: {"transformers": "0", "torch": "0"})
    with pytest.raises(ValueError, match="sweep all"):
        plans.merged([fresh])


@pytest.mark.slow("detect/explain", "presets", release=True)
@pytest.mark.filterwarnings("ignore")
def test_counts_do_not_shrink() -> None:
    pytest.importorskip("torch", reason="the models are built with it")
    transformers = pytest.importorskip("transformers", reason="is what is swept")
    before = stored()
    if transformers.__version__ != before["versions"]["transformers"]:
        pytest.skip(f"the data are of transformers {before['versions']['transformers']}")
    after = plans.data(plans.sweep())
    assert Counter(row["state"] for row in after["rows"]) == Counter(before["counts"])
    planned = {row["model_type"]: row["kinds"] for row in after["rows"]}
    assert planned == {row["model_type"]: row["kinds"] for row in before["rows"]}
    assert after["checks"]["differs"] <= before["checks"]["differs"]
