"""Configs of diffusers: every door that takes one, what is unused, what is no transformer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.io import inputs
from posenc.presets import diffusion

FLUX = {
    "_class_name": "FluxTransformer2DModel",
    "attention_head_dim": 16,
    "axes_dims_rope": [4, 6, 6],
}
SCENE = [("text", 7), ("image", (1, 8, 6)), ("reference", (1, 6, 6))]


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """The folder of a pipeline, as it is published."""
    parts = {
        "transformer": FLUX,
        "vae": {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8, 8, 8]},
        "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler"},
    }
    listed = {name: ["diffusers", part["_class_name"]] for name, part in parts.items()}
    write(tmp_path / "model_index.json", {"_class_name": "FluxKontextPipeline", **listed})
    for name, config in parts.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name / "config.json", config)
    return tmp_path


def write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data), "utf-8")


def test_each_door_takes_a_dictionary_a_file_and_a_folder(pipeline: Path) -> None:
    spec = posenc.from_hf(FLUX).layers[0].spec
    file = pipeline / "transformer" / "config.json"
    for source in (
        FLUX,
        json.dumps(FLUX),
        file,
        file.parent,
        pipeline,
        pipeline / "model_index.json",
    ):
        assert posenc.explain(source).layers[0].spec == spec
        assert posenc.facts(source).of("spec")[0].value == spec
        assert posenc.golden(source)["attention"].spec == spec
        assert not posenc.diff(source, source).rows
    assert posenc.extend(pipeline, 4096, trained=2048).rules


def test_the_pipeline_decides_about_references(pipeline: Path) -> None:
    alone: Any = posenc.from_hf(FLUX).layers[0].positions
    with pytest.raises(posenc.ArgumentError, match="FluxKontext.*Pipeline has it: read its folder"):
        alone.build(SCENE)
    for source in (pipeline, pipeline / "transformer"):
        placed = posenc.from_hf(source)["attention"].positions.build(SCENE)  # type: ignore[union-attr]
        assert placed.order == ("text", "image", "reference")
        np.testing.assert_array_equal(placed["reference"][-1], [1, 5, 5])
    write(pipeline / "model_index.json", {"_class_name": "FluxPipeline"})
    with pytest.raises(posenc.ArgumentError, match="a part of text, image, got 'reference'"):
        posenc.from_hf(pipeline / "transformer").layers[0].positions.build(SCENE)  # type: ignore[union-attr]


def test_pixels_become_tokens_by_the_vae_beside(pipeline: Path) -> None:
    rule: Any = posenc.from_hf(pipeline).layers[0].positions
    assert rule.cells(height=1024, width=768) == (1, 64, 48)
    (pipeline / "vae" / "config.json").unlink()
    rule = posenc.from_hf(pipeline).layers[0].positions
    with pytest.raises(posenc.ArgumentError, match="vae/config.json"):
        rule.cells(height=1024, width=768)


@pytest.mark.parametrize(("stages", "pixels"), [(4, 16), (65, 2**65), (66, None), (0, None)])
def test_a_vae_halves_a_picture_so_many_times(stages: int, pixels: int | None) -> None:
    vae = {"_class_name": "AutoencoderKL", "block_out_channels": [8] * stages}
    plan = posenc.from_hf({"_class_name": "P", "transformer": FLUX, "vae": vae}, on_error="report")
    rule: Any = plan.layers[0].positions
    assert getattr(rule, "pixels", None) == (pixels and (1, pixels, pixels))
    no_value = ["2 ** (block_out_channels.length - 1) has no value" in e for e in plan.errors]
    assert no_value == [True] * (pixels is None)


def test_a_text_encoder_of_a_pipeline_is_in_no_entry() -> None:
    encoder = {"model_type": "t5", "d_kv": 64}
    plan = posenc.from_hf({"_class_name": "P", "transformer": FLUX, "text_encoder_2": encoder})
    assert [entry.layer for entry in plan] == ["attention"]
    assert any("text_encoder_2 is a model of transformers" in note.text for note in plan.notes)


def test_presets_of_diffusion_models_are_names_of_rows() -> None:
    """At the width of the class a preset is the spec that its config has."""
    stated: dict[str, dict[str, Any]] = {
        "HunyuanDiT2DModel": {"patch_size": 2},
        "CogVideoXTransformer3DModel": {"use_rotary_positional_embeddings": True},
    }
    named = {
        rule["preset"]: row["classes"][0]
        for row in diffusion.transformers().values()
        for rule in row["entries"]
        if "names" in rule
    }
    assert {*named} == {
        "flux", "wan", "hunyuan-video", "cogvideox", "cosmos", "ltx", "lumina", "kandinsky5",
        "hunyuan-dit",
    }  # fmt: skip
    for name, cls in named.items():
        plan = posenc.from_hf({"_class_name": cls, **stated.get(cls, {})})
        spec: Any = next(entry.spec for entry in plan if entry.spec is not None)
        made: Any = posenc.preset(name, spec.dim)
        if name == "kandinsky5":  # whose call may scale positions
            made = made.replace(phase="real")
        assert made == spec


def test_a_pipeline_may_have_two_transformers() -> None:
    wan = {"_class_name": "WanTransformer3DModel"}
    plan = posenc.from_hf({"_class_name": "WanPipeline", "transformer": wan, "transformer_2": wan})
    assert [entry.layer for entry in plan] == ["transformer.attention", "transformer_2.attention"]


def test_a_key_that_the_class_does_not_read_is_unused() -> None:
    plan = posenc.from_hf({**FLUX, "rope_theta": 500.0, "pos_embed_max_size": 3, "num_layers": 2})
    assert plan.layers[0].spec.base == 10_000  # type: ignore[union-attr]
    told = [
        text.partition(" is unused: FluxTransformer2DModel in diffusers")[0]
        for text in plan.warnings
    ]
    assert told == ["rope_theta=500.0", "pos_embed_max_size=3"]
    read = posenc.from_hf({"_class_name": "BriaTransformer2DModel", "rope_theta": 500.0})
    assert read.layers[0].spec.base == 500  # type: ignore[union-attr]
    assert not read.warnings


def test_what_a_config_leaves_out_is_the_default_of_its_class() -> None:
    plan = posenc.from_hf({"_class_name": "FluxTransformer2DModel"})
    origins = {source.field: source.origin for source in plan.layers[0].sources}
    assert origins["dim"] == origins["arrangement.sizes"] == "class"
    assert any("axes_dims_rope is left out: [16, 56, 56]" in note.text for note in plan.notes)
    null = posenc.from_hf({"_class_name": "PRXTransformer2DModel", "axes_dim": None})
    assert (
        null.layers[0].spec
        == posenc.from_hf({"_class_name": "PRXTransformer2DModel"}).layers[0].spec
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"_class_name": "AutoencoderKL"},
            "a VAE, which has no positions of tokens: read the folder",
        ),
        ({"_class_name": "DDIMScheduler"}, "a scheduler: read the folder of the pipeline"),
        ({"_class_name": "UNet2DConditionModel"}, "a UNet, of which nothing is read"),
        ({"_class_name": "FluxControlNetModel"}, "a ControlNet, of which nothing is read"),
        ({"_class_name": "FluxPipeline"}, "a pipeline, and no transformer of it is here"),
        (
            {"_class_name": "FluxTransformer2D"},
            r"0.42.1 \(did you mean 'FluxTransformer2DModel'\?\)\. ",
        ),
        ({**FLUX, "axes_dims_rope": [4, 12]}, "expected 3 counts of pairs, got \\(2, 6\\)"),
        ({**FLUX, "axes_dims_rope": [4, 6, 5]}, "axes_dims_rope is not a list of even numbers"),
        ({**FLUX, "axes_dims_rope": "16"}, "axes_dims_rope is not a list"),
        ({**FLUX, "attention_head_dim": 18}, "expected 9 pairs in all"),
        ({**FLUX, "attention_head_dim": 2**20}, "more than any model has"),
        ({"_class_name": "OmniGenTransformer2DModel"}, "rope_scaling.short_factor is not a list"),
        ({"_class_name": "EasyAnimateTransformer3DModel"}, "patch_size is missing"),
        (
            {"_class_name": "PixArtTransformer2DModel", "patch_size": 0},
            "sample_size=128 and patch_",
        ),
        ({"_class_name": "LatteTransformer3DModel"}, "patch_size is missing"),
        (
            {"_class_name": "TransformerTemporalModel", "positional_embeddings": "rope"},
            "has no rule for positional_embeddings='rope'",
        ),
        (
            {"_class_name": "FluxKontextPipeline", "transformer": {"_class_name": ["a"]}},
            "a pipeline, and no transformer of it is here",
        ),
        ({"_class_name": "ErnieImageTransformer2DModel"}, "it turns by no rotation"),
        ({"_class_name": "MochiTransformer3DModel"}, "its frequencies are learned"),
    ],
)
def test_what_has_no_plan_says_why(config: dict[str, Any], told: str) -> None:
    with pytest.raises(posenc.DataError, match=told):
        posenc.from_hf(config)
    with pytest.raises(posenc.DataError, match=told):
        posenc.golden(config)


def test_a_fact_of_the_call_that_is_missing_is_asked_for() -> None:
    rule: Any = posenc.from_hf({"_class_name": "LTXVideoTransformer3DModel"}).layers[0].positions
    with pytest.raises(posenc.ArgumentError, match="rope_interpolation_scale=, a fact of the call"):
        rule.build([("video", (2, 3, 4))])
    placed = rule.build([("video", (2, 3, 4))], rope_interpolation_scale=(0.32, 32, 32))
    np.testing.assert_allclose(placed["video"][-1], [0.32 / 10 - 1, 2 / 32 - 1, 3 / 32 - 1])


def test_pairing_and_base_are_not_the_callers() -> None:
    with pytest.raises(
        posenc.ArgumentError, match="a config of diffusers without pairing= and base="
    ):
        posenc.from_hf(FLUX, pairing="half")


def test_a_golden_file_holds_positions_of_a_scene(tmp_path: Path, pipeline: Path) -> None:
    contract = posenc.golden(pipeline)
    checks = {check["case"]: check for check in contract.of("attention", "positions")}
    assert [*checks] == ["scene: text", "scene: image", "scene: reference"]
    assert checks["scene: image"]["order"] == "text, image, reference"
    rows = checks["scene: reference"]["positions"].reshape(checks["scene: reference"]["shape"])
    np.testing.assert_array_equal(rows[-1], [1, 2, 5])
    for ending in ("json", "safetensors"):
        file = tmp_path / f"flux.{ending}"
        contract.save(file)
        assert posenc.golden(file) == contract


def test_a_scene_of_a_golden_file_may_lie_beyond_a_small_table() -> None:
    small = posenc.golden({"_class_name": "WanTransformer3DModel", "rope_max_seq_len": 2})
    assert small.of("attention", "positions")[0]["positions"].max() == 5


def test_positions_that_a_rule_does_not_give_are_refused(tmp_path: Path) -> None:
    files = __import__("posenc.detect.contract.files", fromlist=["text_of"])
    data = posenc.golden(FLUX).to_dict()
    (check,) = [one for one in data["checks"] if one.get("case") == "scene: image"]
    check["positions"][-1] += 1
    contract = posenc.golden(FLUX)
    own = next(one for one in contract.checks if one.data.get("case") == "scene: image")
    own.data["positions"].setflags(write=True)
    own.data["positions"][-1] += 1
    (tmp_path / "wrong.json").write_text(files.text_of(contract), "utf-8")
    with pytest.raises(posenc.DataError, match="the records of the spec of 'attention'"):
        posenc.golden(tmp_path / "wrong.json")


@pytest.mark.parametrize("name", diffusion.transformers())
def test_every_row_is_a_plan_or_a_reason(name: str) -> None:
    """Each reads back from its JSON, and its parts and facts can be asked for."""
    assert inputs.PIPELINE == "model_index.json"
    more: dict[str, Any] = {"patch_size": 2}
    if name.startswith("OmniGen"):
        more = {"rope_scaling": {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}}
    if name.startswith("HiDream"):
        more["axes_dims_rope"] = [64, 32, 32]
    row = diffusion.transformers()[name]
    own = {**row.get("defaults", {}), **row.get("own", {}).get(name, {})}
    more = {key: value for key, value in more.items() if key not in own or key[0] == "a"}
    if name == "Transformer2DModel":
        more["sample_size"] = 64
    plan = posenc.from_hf({"_class_name": name, **more}, on_error="report")
    refused = any("refused_because" in rule and "when" not in rule for rule in row["entries"])
    assert bool(plan.errors) == refused
    assert posenc.from_json(posenc.to_json(plan)) == plan
    print(plan)
    for entry in plan:
        rule: Any = entry.positions
        if rule is not None:
            sizes = [(part.name, (1, 3, 2) if part.is_grid else 4) for part in rule.parts]
            needed = {fact: (1.0, 2.0, 3.0) for fact, usual in rule.facts if usual == "required"}
            placed = rule.build(sizes, **needed)
            assert {*placed} <= {*placed.order} == {part for part, _ in sizes}
            axes = len(entry.spec.axes)  # type: ignore[union-attr]
            assert all(rows.shape[1:] == ((axes,) if axes > 1 else ()) for rows in placed.values())
