"""Rows of diffusers against the classes: tables of positions of a scene, pairing, keys, defaults.

The other side is the code that people run: the rotary module of a class, the functions by which its
pipelines make positions, what its attention does with them. Where that code computes in float32
what needs more, it is run in float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("diffusers", reason="diffusers is not installed")

import posenc  # noqa: E402
from posenc.presets import diffusion  # noqa: E402
from tests.oracles.originals import diffusion as theirs  # noqa: E402
from tests.oracles.originals.diffusion_turns import turn_of  # noqa: E402
from tests.tolerances import DIFFUSERS, ORIGINAL, assert_close  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ROWS = diffusion.transformers()
SIZES = [(7, (1, 4, 6)), (33, (1, 5, 9)), (19, (1, 31, 16)), (33, (1, 12, 3)), (7, (7, 8, 5))]
PICTURES = 4  # the sizes of one frame, which stand first
# One of each way to count, in the tier that runs always.
DRAWN = (
    "FluxTransformer2DModel", "Flux2Transformer2DModel", "ZImageTransformer2DModel",
    "QwenImageTransformer2DModel", "QwenImage21Transformer2DModel", "WanTransformer3DModel",
    "ChronoEditTransformer3DModel", "Kandinsky6Transformer3DModel", "CogVideoXTransformer3DModel",
    "HunyuanDiT2DModel", "AllegroTransformer3DModel", "CogView4Transformer2DModel",
    "CosmosTransformer3DModel", "Ideogram4Transformer2DModel", "LTX2VideoTransformer3DModel",
    "StableAudio3DiTModel",
)  # fmt: skip
# Their float32 is off by more than the bound: 4e-3 for LTX, 1e-3 for LTX-2, 4e-3 for Ideogram 4.
IN_DOUBLES = (
    "LTXVideoTransformer3DModel", "LTX2VideoTransformer3DModel", "Ideogram4Transformer2DModel",
    "SanaWMLTX2RefinerTransformer3DModel", "Cosmos3OmniTransformer", "OmniGenTransformer2DModel",
    "BriaFibo2Transformer2DModel",
)  # fmt: skip
FACTS: dict[str, Any] = {
    "fps": 30,
    "rope_interpolation_scale": (8 / 25, 32, 32),
    "scale_factor": (1.0, 2.0, 2.0),
}
PIPELINES = {
    "FluxTransformer2DModel": "FluxKontextPipeline",
    "LongCatImageTransformer2DModel": "LongCatImageEditPipeline",
}
FILMS = ("Framepack", "Helios")


def tiers(names: Any, drawn: tuple[str, ...] = DRAWN) -> list[Any]:
    slow = pytest.mark.slow("presets", "detect/explain/diffusers.py", "_core/positions")
    return [pytest.param(one, marks=() if one in drawn else slow, id=one) for one in names]


def reading(name: str, **more: Any) -> posenc.Reading:
    config = {"_class_name": name, **theirs.SETTINGS.get(name, {}), **more}
    if name in PIPELINES:
        config = {"_class_name": PIPELINES[name], "transformer": config}
    return posenc.from_hf(config)


def scene_of(name: str, rule: Any, text: int, grid: tuple[int, int, int]) -> list[tuple[str, Any]]:
    """The scene that the other side was asked for."""
    more = 3 if "Qwen" in name else 1
    other = (1, grid[1] + more, grid[2])
    if name == "QwenImage21Transformer2DModel":
        return [("text", text), ("reference", other), ("text", text + 1), ("image", (1, *grid[1:]))]
    film: Any = (range(7, 7 + grid[0]), *grid[1:]) if any(n in name for n in FILMS) else grid
    alike = name in ("BriaFibo2Transformer2DModel", "WanAnimate2Transformer3DModel")
    sizes = {"condition": 1, "image": grid, "video": film, "reference": grid if alike else other}
    scene = [(part.name, sizes.get(part.name, text)) for part in rule.parts]
    scene = [one for one in scene if one[0] not in ("clean", "history")]
    if name == "OmniGenTransformer2DModel":
        scene.remove(("reference", other))
    if name == "MiniMaxH3Transformer3DModel":
        one = (1, *grid[1:])
        return [("text", text), ("first", one), ("last", one), ("audio", 2 * text), ("video", grid)]
    if name in ("Flux2Transformer2DModel", "Flux3Transformer2DModel"):
        scene.append(("reference", (1, grid[1] + 2, grid[2])))
    if name == "QwenImageTransformer2DModel":
        scene.append(("reference", (1, 3, 2)))
    return scene


def ours(plan: posenc.Reading, name: str, text: int, grid: tuple[int, int, int]) -> dict[str, Any]:
    """(tokens, pairs) of each part that turns, as complex numbers."""
    tables = {}
    for entry in plan:
        spec, rule = entry.spec, entry.positions
        if not isinstance(spec, posenc.RoPE):
            continue
        asked = {fact: FACTS[fact] for fact, _ in rule.facts}
        placed = rule.build(scene_of(name, rule, text, grid), **asked)
        for part, rows in placed.items():
            fixed = spec.at(int(rows.max()) + 1) if spec.needs_length else spec
            cos, sin = posenc.cos_sin(fixed, rows, dtype="float64")
            tables[f"{entry.layer}:{part}"] = tables[part] = cos + 1j * sin
    return tables


def tables_of(name: str, text: int, grid: tuple[int, int, int]) -> Mapping[str, np.ndarray]:
    entry = ROWS[name]["entries"][0]
    path = entry.get("modules", {}).get(name, entry.get("module", ""))
    if name in IN_DOUBLES:
        with theirs.in_doubles():
            return theirs.TABLES[name](name, path, text, grid)
    return theirs.TABLES[name](name, path, text, grid)


def assert_tables(plan: posenc.Reading, name: str, text: int, grid: tuple[int, int, int]) -> None:
    made = ours(plan, name, text, grid)
    for part, table in tables_of(name, text, grid).items():
        assert_close(made[part].real, table.real, DIFFUSERS, f"{name} {part} cos")
        assert_close(made[part].imag, table.imag, DIFFUSERS, f"{name} {part} sin")


def test_every_class_has_a_row() -> None:
    assert {*ROWS} == {*theirs.names()}
    turning = {n for n, row in ROWS.items() if any(_turns(rule) for rule in row["entries"])}
    assert turning == {*theirs.TABLES}
    assert len(turning) + len([n for n in ROWS if n not in turning]) == len(ROWS) == 75


def _turns(rule: Any) -> bool:
    preset = rule.get("preset", "")
    return rule.get("spec", {}).get("type") == "RoPE" or preset in _rotary()


def _rotary() -> set[str]:
    return {name for name in posenc.presets.names() if posenc.presets.row(name).kind == "rotary"}


@pytest.mark.parametrize("name", tiers(theirs.TABLES))
def test_cosines_and_sines_of_a_scene_are_those_of_the_class(name: str) -> None:
    plan = reading(name)
    sizes = SIZES[:PICTURES] if "2D" in name else SIZES
    for text, grid in sizes if name not in DRAWN else (*sizes[1:2], sizes[-1]):
        assert_tables(plan, name, text, grid)


@pytest.mark.slow("presets", "_core/positions")
@pytest.mark.parametrize("name", tiers(DRAWN))
def test_drawn_classes_agree_at_every_size(name: str) -> None:
    for text, grid in SIZES[:PICTURES] if "2D" in name else SIZES:
        assert_tables(reading(name), name, text, grid)


@pytest.mark.parametrize("name", tiers(theirs.TABLES))
def test_pairs_of_channels_turn_as_attention_turns_them(name: str) -> None:
    spec: Any = next(entry.spec for entry in reading(name) if isinstance(entry.spec, posenc.RoPE))
    spec = spec.at(9) if spec.needs_length else spec
    rng = np.random.default_rng(0)
    places = rng.integers(0, 9, (5, len(spec.axes)) if len(spec.axes) > 1 else 5)
    cos, sin = posenc.cos_sin(spec, places)
    x = rng.standard_normal((1, 5, 1, spec.dim)).astype(np.float32)
    turned = turn_of(name)(torch.from_numpy(x.copy()), cos + 1j * sin.astype(np.float64))
    # One processor rounds what it turned to bfloat16.
    bound = 2e-2 if turned.dtype == torch.bfloat16 else 5 * ORIGINAL
    assert_close(posenc.rotate(spec, x, positions=places, seq_dim=-3), turned.float(), bound, name)


def test_layers_of_a_picture_count_as_the_class_counts_them() -> None:
    name = "QwenImageTransformer2DModel"
    rule: Any = reading(name, use_layer3d_rope=True).layers[0]
    scene = [("text", 7), ("image", (1, 4, 6)), ("image", (1, 4, 6)), ("reference", (1, 7, 6))]
    for part, rows in rule.positions.build(scene).items():
        cos, sin = posenc.cos_sin(rule.spec, rows)
        table = theirs.layered(name, "", 7, (1, 4, 6))[part]
        assert_close(cos, table.real, DIFFUSERS, part)
        assert_close(sin, table.imag, DIFFUSERS, part)


@pytest.mark.parametrize("name", ROWS)
def test_defaults_are_those_of_the_class(name: str) -> None:
    row = ROWS[name]
    taken = inspect.signature(getattr(theirs.classes(), name).__init__).parameters
    stated = {**row.get("defaults", {}), **row.get("own", {}).get(name, {})}
    special = {"axes_dim": [32, 32]}  # which PRX takes where it is None
    for key, value in stated.items():
        if key in special and taken[key].default is None:
            assert value == special[key]
            continue
        default = taken[key].default
        assert value == (list(default) if isinstance(default, tuple) else default), key


TABLES: dict[str, dict[str, Any]] = {
    "DiTTransformer2DModel": {},
    "PixArtTransformer2DModel": {},
    "SD3Transformer2DModel": {},
    "SanaTransformer2DModel": {"interpolation_scale": 2},
    "LatteTransformer3DModel": {"patch_size": 2, "in_channels": 4, "caption_channels": 8},
    "Transformer2DModel": {
        "patch_size": 2, "in_channels": 4, "sample_size": 64, "norm_type": "ada_norm_zero",
        "num_attention_heads": 4, "attention_head_dim": 8, "num_embeds_ada_norm": 10,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_patches_are_those_of_the_class(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(theirs.SETTINGS, name, TABLES[name])
    entry: Any = reading(name)["embeddings"]
    embed = theirs.module(name, "patch_embed" if "Sana" in name else "pos_embed")
    for weights in embed.proj.parameters():
        torch.nn.init.zeros_(weights)  # what is left is the table alone
    step = embed.patch_size
    rows = embed(torch.zeros(1, embed.proj.in_channels, 10 * step, 7 * step))[0].detach()
    placed = entry.positions.build([("image", (1, 10, 7))])["image"]
    assert_close(posenc.table(entry.spec, positions=placed), rows, ORIGINAL, name)


@pytest.mark.slow("presets", "_core/positions")
def test_tables_that_classes_make_themselves() -> None:
    entry: Any = reading("CogView3PlusTransformer2DModel")["embeddings"]
    placed = entry.positions.build([("text", 5), ("image", (1, 10, 7))])
    assert [*placed] == ["image"]
    rows = theirs.module("CogView3PlusTransformer2DModel", "patch_embed").pos_embed[:10, :7]
    ours = posenc.table(entry.spec, positions=placed["image"])
    assert_close(ours, rows.flatten(0, 1), ORIGINAL, "CogView3Plus")
    entry = reading("OmniGenTransformer2DModel")["embeddings"]
    placed = entry.positions.build([("image", (1, 10, 7)), ("reference", (1, 6, 8))])
    embed = theirs.module("OmniGenTransformer2DModel", "patch_embedding")
    for part, (_, height, width) in (("image", (1, 10, 7)), ("reference", (1, 6, 8))):
        ours = posenc.table(entry.spec, positions=placed[part])
        assert_close(ours, embed._cropped_pos_embed(2 * height, 2 * width)[0], ORIGINAL, part)


def test_frames_of_latte_have_a_table_of_their_own() -> None:
    embeddings = pytest.importorskip("diffusers.models.embeddings")
    entry: Any = reading("LatteTransformer3DModel", patch_size=2)["frames"]
    placed = entry.positions.build([("video", (16, 1, 1))])["video"]
    rows = embeddings.get_1d_sincos_pos_embed_from_grid(
        1408, torch.arange(16)[:, None], output_type="pt"
    )
    assert_close(posenc.table(entry.spec, positions=placed), rows, ORIGINAL, "Latte")


@pytest.mark.slow("presets", "_core/positions")
def test_a_film_of_cogvideox_without_rotation_adds_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "CogVideoXTransformer3DModel"
    monkeypatch.setitem(theirs.SETTINGS, name, {})
    entry: Any = reading(name)["embeddings"]
    embed = theirs.module(name, "patch_embed")
    rows = embed._get_positional_embeddings(60, 90, 49)[0, 226:]
    placed = entry.positions.build([("text", 226), ("video", (13, 30, 45))])["video"]
    assert_close(posenc.table(entry.spec, positions=placed), rows, ORIGINAL, name)


@pytest.mark.parametrize("name", diffusion.vaes())
def test_a_vae_has_as_many_pixels_in_a_latent_as_its_class_says(name: str) -> None:
    """By the properties and keys that pipelines read of it."""
    cls = getattr(pytest.importorskip("diffusers"), name)
    config: dict[str, Any] = {"block_out_channels": [64, 64, 128, 128]}
    taken = inspect.signature(cls.__init__).parameters
    config = {k: v for k, v in config.items() if k in taken}
    if "KLHunyuanImage" in name and "Refiner" not in name:
        config |= {"spatial_compression_ratio": 32}
    row = diffusion.vaes()[name]
    for key, value in row.get("defaults", {}).items():
        default = taken[key].default
        listed = list(default) if isinstance(default, tuple) else default
        # LTX: None there, and then worked out of the blocks.
        assert value == listed or (default is None and value == {"s": 32, "t": 8}[key[0]])
    pipeline = {
        "_class_name": "AnyPipeline",
        "vae": {"_class_name": name, **config},
        "transformer": {"_class_name": "GlmImageTransformer2DModel", "patch_size": 1},
    }
    rule: Any = posenc.from_hf(pipeline).layers[0].positions
    time, rows, columns = rule.pixels
    assert rows == columns
    published = {
        "AutoencoderKLMagvit": (4, 8), "AutoencoderDC": (1, 32), "AutoencoderKLMochi": (6, 8),
        "AutoencoderKLCosmos": (8, 8), "AutoencoderKLQwenImage21": (8, 16),
        "AutoencoderKLHunyuanImage": (1, 32), "AutoencoderKLHunyuanVideo15": (4, 16),
        "AutoencoderKLHunyuanImageRefiner": (4, 16), "AutoencoderKLLTXVideo": (8, 32),
        "AutoencoderKLLTX2Video": (8, 32), "AutoencoderKLHunyuanVideo": (4, 8),
        "AutoencoderKLWan": (4, 8), "AutoencoderKLCogVideoX": (4, 8),
        "AutoencoderKLAllegro": (4, 8),
    }  # fmt: skip
    assert (time, rows) == published.get(name, (1, 8))


def moved(widths: list[int]) -> list[int]:
    """Widths of axes with the same sum."""
    return [widths[0] + 8, *widths[1:-1], widths[-1] - 8]


# Another value for each key that a row reads. What says sizes of tables and patches, and names of
# ways to count, is tried elsewhere.
OTHERS: dict[str, Any] = {
    **dict.fromkeys(("rope_theta", "theta", "rope_base"), lambda base: base * 3),
    **dict.fromkeys(
        ("axes_dims_rope", "axes_dim_rope", "axes_dims", "axes_dim", "rope_axes_dim", "rope_dim",
         "rope_dim_list", "axes_dims_a"),
        moved,
    ),
    **dict.fromkeys(
        ("interpolation_scale_t", "interpolation_scale_h", "interpolation_scale_w",
         "audio_freqs_scaling"),
        lambda scale: scale * 1.5,
    ),
    "rope_scale": lambda scale: [scale[0] * 1.5, 2.0, 3.0],
    "scale_factor": lambda factor: [2.0, 3.0, 4.0],
    "rope_temporal_skip_len": lambda length: length + 3,
    "mrope_section": lambda sizes: [sizes[0], sizes[1] - 3, sizes[2] - 5],
    "rope_type": {"rope": "mrope", "interleaved": "split"}.get,
    "max_num_gist_tokens": lambda count: count - 64,
    "rope_freq_dim": lambda count: count - 4,
    **dict.fromkeys(
        ("refer_offset_t", "refer_offset_h", "refer_offset_w", "refer_stride"), lambda at: 3 - at
    ),
    "rotary_dim": lambda width: width // 2,
    "num_memory_tokens": lambda count: count + 5,
    "base_fps": lambda fps: fps + 6,
    "unified_3d_mrope_temporal_modality_margin": lambda margin: margin - 5000,
    "vae_scale_factors": lambda scales: [4, 16, 8],
    "pos_embed_max_pos": lambda most: most + 7,
    "base_height": lambda size: size // 2,
    "base_width": lambda size: size // 4,
    "causal_offset": lambda offset: offset + 2,
    "audio_scale_factor": lambda factor: factor * 2,
    "audio_pos_embed_max_pos": lambda most: most + 9,
    "audio_sampling_rate": lambda rate: rate * 2,
    "audio_hop_length": lambda length: length * 2,
    "sample_height": lambda size: size + 12,
    "sample_width": lambda size: size - 10,
    "original_max_position_embeddings": lambda length: length * 2,
    "max_position_embeddings": lambda length: length // 2,
}  # fmt: skip
WIDER = {
    "attention_head_dim": (
        "WanTransformer3DModel", "SanaVideoTransformer3DModel", "CogVideoXTransformer3DModel",
        "CogView4Transformer2DModel", "GlmImageTransformer2DModel", "CosmosTransformer3DModel",
        "AllegroTransformer3DModel", "HunyuanDiT2DModel", "StableAudioDiTModel",
        "LTXVideoTransformer3DModel", "LTX2VideoTransformer3DModel",
        "EasyAnimateTransformer3DModel",
    ),
    "head_dim": ("AceStepTransformer1DModel",),
    "linear_head_dim": ("SanaWMTransformer3DModel",),
    "num_attention_heads": ("LTXVideoTransformer3DModel", "LTX2VideoTransformer3DModel",
                            "SanaWMLTX2RefinerTransformer3DModel", "LuminaNextDiT2DModel"),
    "hidden_size": ("LuminaNextDiT2DModel",),
    "dit_dim": ("LongCatAudioDiTTransformer",),
    "dit_heads": ("LongCatAudioDiTTransformer",),
    "embed_dim": ("StableAudio3DiTModel",),
    "dim": ("WanAnimate2Transformer3DModel",),
    **dict.fromkeys(
        ("audio_attention_head_dim", "audio_num_attention_heads", "audio_cross_attention_dim"),
        ("LTX2VideoTransformer3DModel",),
    ),
}  # fmt: skip
TRIED = [
    (name, key)
    for name in theirs.TABLES
    for key in {**ROWS[name].get("defaults", {}), **ROWS[name].get("own", {}).get(name, {})}
    if key in OTHERS or name in WIDER.get(key, ())
]


@pytest.mark.slow("presets", "detect/explain/diffusers.py", "_core/positions")
@pytest.mark.parametrize(("name", "key"), TRIED)
def test_another_value_of_a_key_is_read_as_the_class_reads_it(
    name: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = theirs.SETTINGS.get(name, {})
    usual = {**ROWS[name].get("defaults", {}), **ROWS[name].get("own", {}).get(name, {}), **more}
    value = OTHERS[key](usual[key]) if key in OTHERS else usual[key] * 3 // 2
    monkeypatch.setitem(theirs.SETTINGS, name, {**more, key: value})
    text, grid = (
        (7, (2, 5, 9))
        if "skip" in key or key.endswith(("scale_t", "fps", "stride"))
        else (19, (1, 6, 9))
    )
    before = tables_of(name, text, grid)
    assert_tables(reading(name), name, text, grid)
    monkeypatch.setitem(theirs.SETTINGS, name, more)
    after = tables_of(name, text, grid)
    unlike = [part for part in after if before[part].shape != after[part].shape]
    # A way to pair is in no table; parts that turn are.
    unlike += [*(before.keys() - after.keys()), *["pairs"] * (value == "split")]
    assert unlike or any((before[part] != after[part]).any() for part in after), "it says nothing"


@pytest.mark.parametrize(
    ("name", "key", "value", "rows"),
    [
        ("WanTransformer3DModel", "rope_max_seq_len", 40, lambda m: [len(m.freqs_cos)] * 3),
        ("Lumina2Transformer2DModel", "axes_lens", [30, 20, 10], lambda m: map(len, m.freqs_cis)),
        ("ZImageTransformer2DModel", "axes_lens", [99, 20, 10], lambda m: m.axes_lens),
        ("CosmosTransformer3DModel", "max_size", [16, 60, 40], lambda m: [max(m.max_size)] * 3),
    ],
)
def test_a_table_ends_where_that_of_the_class_ends(
    name: str, key: str, value: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(theirs.SETTINGS, name, {key: value})
    entry = ROWS[name]["entries"][0]
    rule: Any = reading(name).layers[0].positions
    assert rule.ends == tuple(rows(theirs.module(name, entry["module"])))


@pytest.mark.parametrize("name", ROWS)
def test_patches_are_counted_in_latents(name: str) -> None:
    """The size of a token is that of the VAE times each key of patches that the class has."""
    taken = inspect.signature(getattr(theirs.classes(), name).__init__).parameters
    patches = {"patch_size", "patch_size_t", "latent_patch_size"} & taken.keys()
    own = {**ROWS[name].get("defaults", {}), **ROWS[name].get("own", {}).get(name, {})}
    for key in patches & own.keys():
        larger = [3, 5, 6] if isinstance(own[key], list) else 6
        larger = larger[-len(own[key]) :] if isinstance(own[key], list) else larger
        plans = [
            posenc.from_hf(
                {"_class_name": "P", "transformer": config, "vae": vae}, on_error="report"
            )
            for vae in [{"_class_name": "AutoencoderKLWan"}]
            for config in (
                {"_class_name": name, "use_rotary_positional_embeddings": True, **more}
                for more in ({"interpolation_scale": 2}, {"interpolation_scale": 2, key: larger})
            )
        ]
        usual, other = (plan.layers[0].positions.pixels for plan in plans)  # type: ignore[union-attr]
        assert usual != other, key
