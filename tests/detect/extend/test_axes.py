"""Larger pictures and longer films: axis by axis, against rotations of one axis and plain loops."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import posenc
from posenc import scaling as s
from posenc.cli import app
from posenc.detect.extend import AxesExtension, Baseline, extend
from posenc.detect.extend.axes import DYPE
from posenc.detect.extend.options import layer_extension

FLUX = {"_class_name": "FluxTransformer2DModel"}
WAN = {"_class_name": "WanTransformer3DModel"}
LARGER = {"size": "128x96", "trained": "64x64", "tokens": True}
VAE = {"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512]}


def folder(path: Path) -> Path:
    """A pipeline of Flux, without its weights."""
    index = {"_class_name": "FluxPipeline", "transformer": ["diffusers", FLUX["_class_name"]],
             "vae": ["diffusers", VAE["_class_name"]]}  # fmt: skip
    (path / "model_index.json").write_text(json.dumps(index))
    for name, config in (("transformer", FLUX), ("vae", VAE)):
        (path / name).mkdir()
        (path / name / "config.json").write_text(json.dumps(config))
    return path


def call(*words: Any) -> Result:
    return CliRunner().invoke(app, ["extend", *map(str, words)])


def test_each_axis_has_the_numbers_of_a_rotation_of_its_own() -> None:
    found: Any = extend(FLUX, **LARGER)
    assert isinstance(found, AxesExtension)
    assert found.axes == ("t", "y", "x")
    assert (found.trained, found.length, found.rule) == (64, 128, "")
    assert [axis.name for axis in found.layers] == ["y", "x"]
    for axis, length in zip(found.layers, (96, 128), strict=True):
        alone = posenc.RoPE(56, pairing="half")
        more = {"dype": DYPE}
        expected = layer_extension("", Baseline(alone, 64), length, window=False, more=more)
        assert axis.options == expected.options
    first = next(j for j in range(28) if 64 * 1e4 ** (-2 * j / 56) < 2 * math.pi)
    assert f"x: pairs {first} to 27 meet unseen angles" in found.notes
    dype: Any = found.layers[1].option("dype")
    assert dype.spec.scalings == (s.DyPE(2, 1, original_length=64),)


@pytest.mark.parametrize(
    ("name", "trained", "k"),
    # Latent frames of training, and --k in the README of thu-ml/RIFLEx at 18e0bc3.
    [("HunyuanVideoTransformer3DModel", 33, 4), ("CogVideoXTransformer3DModel", 13, 2)],
)
def test_the_pair_of_riflex_is_that_of_its_authors(name: str, trained: int, k: int) -> None:
    config = {"_class_name": name, "use_rotary_positional_embeddings": True}
    found: Any = extend(config, frames=2 * trained, trained=trained, tokens=True)
    (time,) = found.layers
    assert time.option("riflex").spec.scalings == (s.RIFLEx(k, 2 * trained),)
    assert f"PerAxis((posenc.scaling.RIFLEx({k}, {2 * trained})," in found.lines("riflex")["posenc"]
    assert extend(FLUX, **LARGER).layers[0].option("riflex") is None


@pytest.mark.parametrize("name", ["linear", "ntk", "dynamic", "yarn", "llama3", "dype"])
def test_a_line_puts_the_rule_on_the_axes_that_grow(name: str) -> None:
    """Evaluated, and turned: the frequencies are those of the table."""
    found: Any = extend(FLUX, **LARGER)
    text = found.lines(name)["posenc"].partition("scaling=")[2].removesuffix(")")
    spec: Any = posenc.from_hf(FLUX).layers[0].spec
    spec = spec.replace(scaling=eval(text, {"posenc": posenc}))
    t, *grown = np.split(posenc.frequencies(spec), [8, 36])
    np.testing.assert_array_equal(t, posenc.frequencies(posenc.RoPE(16, pairing="half")))
    for axis, own in zip(found.layers, grown, strict=True):
        # A base that is written down has six digits.
        expected = posenc.frequencies(axis.option(name).spec)
        np.testing.assert_allclose(own, expected, rtol=1e-5 if name == "ntk" else 1e-12)


def test_an_axis_with_a_rule_of_its_own_has_no_line() -> None:
    """Cosmos was trained with NTK on time; `adopt` adds rules, and refuses a second one there."""
    cosmos = {"_class_name": "CosmosTransformer3DModel"}
    found: Any = extend(cosmos, frames=40, trained=20, tokens=True)
    assert [option.name for option in found.layers[0].options] == ["none", "given"]
    assert found.lines("given") == found.lines("none") == {}


def test_pixels_become_tokens_by_the_vae(tmp_path: Path) -> None:
    asked = ("--size", "2048x1536", "--trained", "1024x1024", "--rule", "yarn")
    printed = call(folder(tmp_path), *asked)
    assert printed.exit_code == 0, printed.output
    for words in (
        "trained on 64 positions, asked for 128",
        "y: 28 pairs",
        "no rule is recommended",
        "PerAxis((None, posenc.scaling.YaRN(1.5, original_length=64), posenc.scaling.YaRN(2.0,",
    ):
        assert words in " ".join(printed.output.split())
    written = json.loads(call(tmp_path, *asked, "--json").output)
    assert [layer["layer"] for layer in written["layers"]] == ["y", "x"]
    assert (written["recommended"], written["rule"]) == (None, "yarn")


def test_where_the_table_of_a_class_ends() -> None:
    ends = extend(WAN, frames=1500, trained=21, tokens=True).notes
    assert "t: the table of the class ends at 1,024 rows, where 1,500 are needed" in ends
    assert not any(
        "ends" in note for note in extend(WAN, frames=1024, trained=21, tokens=True).notes
    )


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no training": (FLUX, {"size": "9x9"}, "trained: expected width x height.*None. No config"),
    "one number": (FLUX, {"size": "12", "trained": "1x1"}, "size: expected width x height.*'12'"),
    "other numbers": (WAN, {"frames": 9, "trained": "3x4"}, "trained: expected frames"),
    "zero": (FLUX, {"size": "0x5", "trained": "1x1"}, "size: expected width x height"),
    "many": (FLUX, {**LARGER, "size": "4097x4096"}, r"16,777,216 tokens, got \(1, 4096, 4097\)"),
    "no vae": (FLUX, {"size": "9x9", "trained": "8x8"}, "vae/config.json lies beside"),
    "no more": (FLUX, {"size": "8x4", "trained": "8x8", "tokens": True}, "more than that of train"),
    "no rule": (FLUX, {**LARGER, "rule": "riflex"}, "a rule that applies to the model"),
    "one ladder": (
        {"_class_name": "Ideogram4Transformer2DModel"},
        {"size": "90x90", "trained": "64x64", "tokens": True},
        "axes with ladders of their own, got one that they share",
    ),
    "a length": (FLUX, {"size": "9x9", "to": 9}, "size= and frames= alone"),
    "text": (
        {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2},
        {"size": "9x9", "trained": "8x8"},
        "a picture or film in the scene of a model",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_sizes_that_cannot_be(name: str) -> None:
    source, how, message = WRONG[name]
    with pytest.raises((posenc.ArgumentError, posenc.DataError), match=message):
        extend(source, **how)


def test_the_command_writes_no_config_that_nobody_reads(tmp_path: Path) -> None:
    target = tmp_path / "longer.json"
    answer = call(folder(tmp_path), "--size", "2048x2048", "--trained", "1024x1024", "-o", target)
    assert answer.exit_code == 2
    assert "no code of diffusers reads a rule from a config" in " ".join(answer.output.split())
    assert not target.exists()
    assert call(tmp_path, "--size", "2048x2048", "99").exit_code == 2


# --- the other way: positions that are moved ------------------------------------------------------


def test_a_scale_brings_a_larger_picture_to_the_positions_of_training() -> None:
    """As scaled and shifted ids of ComfyUI (ScaleROPE), from its start in equal steps."""
    rule: Any = posenc.from_hf(WAN).layers[0].positions
    film = [("video", (3, 4, 5))]
    scale, shift = (0.5, 0.75, 2.0), (0, 1.5, -2)
    moved = rule.build(film, scale=scale, shift=shift)["video"]
    lines = [
        np.linspace(start, start + step * (count - 1), count)
        for count, step, start in zip((3, 4, 5), scale, shift, strict=True)
    ]
    expected = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 3)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-15)
    plain = rule.build(film)["video"]
    assert rule.build(film, scale=2, shift=1)["video"].dtype == np.int64
    np.testing.assert_array_equal(rule.build(film, scale=2, shift=1)["video"], 2 * plain + 1)
    spec: Any = posenc.from_hf(WAN).layers[0].spec
    halves = posenc.cos_sin(spec.replace(phase="real"), rule.build(film, scale=0.5)["video"])
    linear = posenc.cos_sin(spec.replace(scaling=s.Linear(2)), plain)
    np.testing.assert_allclose(halves, linear, rtol=0, atol=1e-6)


def test_only_grids_are_moved() -> None:
    rule: Any = posenc.from_hf({"_class_name": "OvisImageTransformer2DModel"}).layers[0].positions
    scene = [("text", 4), ("image", (1, 2, 2))]
    plain, moved = rule.build(scene), rule.build(scene, scale=3, shift=(0, 7, 0))
    np.testing.assert_array_equal(moved["text"], plain["text"])
    np.testing.assert_array_equal(moved["image"], 3 * plain["image"] + [0, 7, 0])


@pytest.mark.parametrize("name", ["scale", "shift"])
@pytest.mark.parametrize("value", [(1, 2), "2", None, [True] * 3, np.nan, (1, 1, np.inf)])
def test_maps_that_are_none(name: str, value: Any) -> None:
    rule: Any = posenc.from_hf(WAN).layers[0].positions
    with pytest.raises(posenc.ArgumentError, match=f"{name}: expected a number, or one for each"):
        rule.build([("video", (1, 2, 2))], **{name: value})
