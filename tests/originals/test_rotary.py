"""Rotations against the code that people run: within its error, and bit for bit where promised.

Every spec here is written in the papers' words; the other side is called, never copied.
"""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import posenc  # noqa: E402
from posenc import (  # noqa: E402
    Arrangement,
    Ladder,
    Pairing,
    RoPE,
    RotaryMagnitude,
    positions,
    scaling as s,
)
from posenc.torch import RotaryEmbedding  # noqa: E402
from tests.oracles.originals.learned import timm_layer, torchtune_file  # noqa: E402
from tests.oracles.originals.tables import transformers  # noqa: E402
from tests.tolerances import ORIGINAL, assert_close  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

GENERATOR = torch.Generator().manual_seed(0)
Q = torch.randn(2, 4, 18, 32, generator=GENERATOR)  # batch, heads, seq, channels
K = torch.randn(2, 2, 18, 32, generator=GENERATOR)
IDS = torch.arange(18).expand(2, 18)


def peer(name: str) -> Any:
    """A module of another package, or a skip when it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed")


def config(dim: int = 32, **fields: Any) -> Any:
    """What a rotary class of transformers reads of a config."""
    parameters = {"rope_type": "default", "rope_theta": 10000.0, **fields}
    return SimpleNamespace(
        rope_parameters=parameters,
        head_dim=dim,
        hidden_size=dim * 4,
        num_attention_heads=4,
        max_position_embeddings=parameters.pop("max_position_embeddings", 4096),
        standardize_rope_params=lambda: None,
    )


def half_of(full: Any, order: str = "half") -> Any:
    """The entry of each pair, from tables with one for each channel."""
    return full[..., : full.shape[-1] // 2] if order == "half" else full[..., 0::2]


def assert_pairs(spec: RoPE, where: Any, cos: Any, sin: Any, tolerance: float = ORIGINAL) -> None:
    """Our cosines and sines at `where` are theirs."""
    got = posenc.cos_sin(spec, where)
    assert_close(got[0].numpy(), cos.numpy(), tolerance, "cos")
    assert_close(got[1].numpy(), sin.numpy(), tolerance, "sin")


# --- scalings -------------------------------------------------------------------------------------

WIDTHS = (16, 64, 80, 96, 128)
BASES = (10_000.0, 150_000.0, 500_000.0, 1e6)


def factors(dim: int, most: float) -> tuple[float, ...]:
    return tuple(1 + (most - 1) * j / (dim // 2) * 1.0371 for j in range(dim // 2))


def rows(dim: int) -> dict[str, tuple[dict[str, Any], Any, int | None]]:
    """What their config says, what our spec says, and the length."""
    yarn = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
    llama = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    short, long = factors(dim, 1.5), factors(dim, 40)
    longrope = {
        "rope_type": "longrope",
        "short_factor": list(short),
        "long_factor": list(long),
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
    }
    ours = s.LongRoPE(short, long, original_length=4096, factor=32)
    return {
        "linear": ({"rope_type": "linear", "factor": 3.7}, s.Linear(3.7), None),
        "dynamic": (
            {"rope_type": "dynamic", "factor": 2.3},
            s.DynamicNTK(2.3, original_length=4096),
            9_000,
        ),
        "dynamic-short": (
            {"rope_type": "dynamic", "factor": 2.3},
            s.DynamicNTK(2.3, original_length=4096),
            100,
        ),
        "yarn": (yarn, s.YaRN(40, original_length=4096), None),
        "yarn-not-rounded": (
            {**yarn, "truncate": False},
            s.YaRN(40, original_length=4096, rounding="none"),
            None,
        ),
        "yarn-mscales": (
            {**yarn, "mscale": 0.7, "mscale_all_dim": 0.9, "beta_fast": 24.0, "beta_slow": 2.0},
            s.YaRN(
                40, original_length=4096, mscale=0.7, mscale_all_dim=0.9, beta_fast=24, beta_slow=2
            ),
            None,
        ),
        "llama3": (llama, s.Llama3(8, original_length=8192), None),
        "llama3-32": ({**llama, "factor": 32.0}, s.Llama3(32, original_length=8192), None),
        "longrope-short": (longrope, ours, 4096),
        "longrope-long": (longrope, ours, 4097),
        "proportional": (
            {"rope_type": "proportional", "partial_rotary_factor": 0.25},
            s.Proportional(0.25),
            None,
        ),
        "proportional-and-linear": (
            {"rope_type": "proportional", "partial_rotary_factor": 0.7, "factor": 2.0},
            (s.Proportional(0.7), s.Linear(2)),
            None,
        ),
    }


@pytest.mark.parametrize("name", rows(16))
@pytest.mark.parametrize("dim", WIDTHS)
@pytest.mark.parametrize("base", BASES)
def test_frequencies_of_rope_init_functions(name: str, dim: int, base: float) -> None:
    """The same bits under `phase="float32"`; with exact phases their error alone is between us.

    Theirs reaches 4e-6 relative: a ramp is a difference of float32 numbers of like size.
    """
    init = peer("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    fields, scaling, length = rows(dim)[name]
    theirs, factor = init[fields["rope_type"]](
        config(dim, rope_theta=base, **fields), None, seq_len=length
    )
    spec = RoPE(dim, pairing="half", base=base, scaling=scaling, phase="float32")
    spec = spec.at(length or 1)
    assert spec.attention_factor == factor
    # At position 1 the angle is the frequency, in float32 as it is; its sine tells all but zeros.
    one = torch.tensor([1])
    cos, sin = posenc.cos_sin(spec, one)
    assert torch.equal(cos[0], theirs.cos() * factor)
    assert torch.equal(sin[0], theirs.sin() * factor)
    exact = posenc.frequencies(spec.replace(phase="exact"))
    assert_close(theirs.numpy(), exact, 4e-6 * exact + 1e-30, name)


@pytest.mark.costly
def test_bits_of_llama_at_all_positions() -> None:
    """Their class, whole: `float32(position) * float32(frequency)` at positions up to 32,768."""
    model = transformers("llama")
    for fields, scaling in (
        ({}, ()),
        (rows(128)["llama3"][0], s.Llama3(8, original_length=8192)),
        (rows(128)["yarn"][0], s.YaRN(40, original_length=4096)),
    ):
        module = model.LlamaRotaryEmbedding(config(128, **fields))
        ids = torch.arange(32_769)[None]
        cos, sin = module(torch.zeros(1), ids)
        spec = RoPE(128, pairing="half", scaling=scaling, phase="float32")
        ours = posenc.cos_sin(spec, ids)
        assert torch.equal(ours[0], half_of(cos))
        assert torch.equal(ours[1], half_of(sin))


# --- pairings -------------------------------------------------------------------------------------

PAIRINGS = {
    "llama": ("apply_rotary_pos_emb", Pairing("half"), "half"),
    "olmo2": ("apply_rotary_pos_emb", Pairing("half"), "half"),
    "helium": ("apply_rotary_pos_emb", Pairing("interleaved"), "half"),
    "cohere": ("apply_rotary_pos_emb", Pairing("interleaved"), "interleaved"),
    "glm4": ("apply_rotary_pos_emb", Pairing("interleaved"), "half"),
    "mistral4": (
        "apply_rotary_pos_emb_interleave",
        Pairing("interleaved", output="half"),
        "half",
    ),
    "deepseek_v3": (
        "apply_rotary_pos_emb_interleave",
        Pairing("interleaved", output="half"),
        "half",
    ),
    "nanochat": ("apply_rotary_pos_emb", Pairing("half", direction="backward"), "half"),
}


@pytest.mark.parametrize("family", PAIRINGS)
def test_apply_functions(family: str) -> None:
    """`order` is how their full-width table is laid out, which is not the order of their pairs."""
    name, pairing, table = PAIRINGS[family]
    apply = getattr(transformers(family), name)
    spec = RoPE(32, pairing=pairing, phase="float32")
    cos, sin = posenc.cos_sin(spec, IDS)
    if table == "half":
        full = [torch.cat([part, part], dim=-1) for part in (cos, sin)]
    else:
        full = [part.repeat_interleave(2, dim=-1) for part in (cos, sin)]
    theirs = apply(Q, K, *full)
    ours = RotaryEmbedding(spec)(Q, K, IDS)
    for got, want in zip(ours, theirs, strict=True):
        assert_close(got.numpy(), want.numpy(), 4e-7, family)


def test_half_width_tables_of_gpt_oss() -> None:
    model = transformers("gpt_oss")
    fields = {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    }
    module = model.GptOssRotaryEmbedding(config(64, rope_theta=150_000.0, **fields))
    cos, sin = module(torch.zeros(1), IDS)
    scaling = s.YaRN(32, original_length=4096, rounding="none")
    spec = RoPE(64, pairing="half", base=150_000, scaling=scaling, phase="float32")
    ours = posenc.cos_sin(spec, IDS)
    assert torch.equal(ours[0], cos)
    assert torch.equal(ours[1], sin)


def test_partial_rotation_of_gpt_neox() -> None:
    model = transformers("gpt_neox")
    module = model.GPTNeoXRotaryEmbedding(config(32, partial_rotary_factor=0.25))
    cos, sin = module(torch.zeros(1), IDS)
    theirs, _ = model.apply_rotary_pos_emb(Q, K, cos, sin)
    ours = posenc.rotate(RoPE(8, pairing="half"), Q, positions=IDS)
    assert_close(ours.numpy(), theirs.numpy(), ORIGINAL)
    assert torch.equal(ours[..., 8:], Q[..., 8:])


def test_trailing_rotation_of_deepseek_v4() -> None:
    """The last channels turn; queries and the shared keys and values, and back at the output."""
    model = transformers("deepseek_v4")
    cos, sin = posenc.cos_sin(RoPE(8, pairing="interleaved"), IDS)
    theirs = model.apply_rotary_pos_emb(Q, cos, sin)
    spec = RoPE(8, pairing=Pairing("interleaved", part="trailing", targets=("q", "k", "v", "out")))
    ours = posenc.rotate(spec, Q, positions=IDS)
    assert_close(ours.numpy(), theirs.numpy(), ORIGINAL)
    theirs = model.apply_rotary_pos_emb(ours, cos, -sin)
    back = posenc.rotate(spec, ours, positions=IDS, inverse=True)
    assert_close(back.numpy(), theirs.numpy(), ORIGINAL)
    assert_close(back.numpy(), Q.numpy(), ORIGINAL)


def test_values_of_roformer_turn_too() -> None:
    attention = transformers("roformer").RoFormerSelfAttention
    cos, sin = posenc.cos_sin(RoPE(32, pairing="interleaved"), 18)
    table = torch.as_tensor(np.concatenate([sin, cos], axis=-1))[None, None]
    theirs = attention.apply_rotary_position_embeddings(table, Q, K, K)
    spec = RoPE(32, pairing=Pairing("interleaved", targets=("q", "k", "v")))
    ours = RotaryEmbedding(spec)(Q, K, v=K)
    for got, want in zip(ours, theirs, strict=True):
        assert_close(got.numpy(), want.numpy(), ORIGINAL)


def test_temperatures_of_llama4_and_ministral() -> None:
    where = torch.tensor([0, 100, 8190, 8191, 16_383, 100_000])
    scaled = transformers("ministral3").get_llama_4_attn_scale(where[None], 0.1, 16_384)
    ours = posenc.logit_scale(posenc.Temperature(rule="log_floor", length=16_384), where)
    assert_close(ours.numpy(), scaled.reshape(-1).numpy(), 2e-7)
    # A line of its attention layer, as it is no function: attn_scale 0.1, floor_scale 8192.
    theirs = torch.log1p(torch.floor((where.float() + 1.0) / 8192)) * 0.1 + 1.0
    rule = posenc.Temperature(rule="log_floor", length=8192, start=1)
    assert_close(posenc.logit_scale(rule, where).numpy(), theirs.numpy(), 2e-7)


# --- several axes ---------------------------------------------------------------------------------

THW = ("t", "h", "w")
VOLUME = torch.randint(0, 18, (2, 18, 3), generator=GENERATOR)


def test_sections_of_qwen2_vl() -> None:
    model = transformers("qwen2_vl")
    fields = {"rope_theta": 1e6, "mrope_section": [4, 6, 6]}
    cos, sin = model.Qwen2VLRotaryEmbedding(config(32, **fields))(
        torch.zeros(1), VOLUME.permute(2, 0, 1)
    )
    arrangement = Arrangement(rule="sections", axes=THW, sizes=(4, 6, 6))
    spec = RoPE(32, pairing="half", base=1e6, arrangement=arrangement)
    assert_pairs(spec, VOLUME, half_of(cos), half_of(sin))


def test_cyclic_axes_of_qwen3_vl() -> None:
    model = transformers("qwen3_vl")
    for sizes in ((6, 5, 5), (8, 4, 4)):
        fields = {"rope_theta": 5e5, "mrope_section": list(sizes)}
        cos, sin = model.Qwen3VLTextRotaryEmbedding(config(32, **fields))(
            torch.zeros(1), VOLUME.permute(2, 0, 1)
        )
        arrangement = Arrangement(rule="cyclic", axes=THW, sizes=sizes)
        spec = RoPE(32, pairing="half", base=5e5, arrangement=arrangement)
        assert_pairs(spec, VOLUME, half_of(cos), half_of(sin))


def test_alternating_axes_of_ernie() -> None:
    model = transformers("ernie4_5_vl_moe")
    fields = {"rope_theta": 5e5, "mrope_section": [6, 6, 4]}
    module = model.Ernie4_5_VLMoeTextRotaryEmbedding(config(32, **fields))
    cos, sin = module(torch.zeros(1), VOLUME.permute(2, 0, 1))
    arrangement = Arrangement(rule="alternate", axes=THW, order=("h", "w", "t"), sizes=(6, 6, 4))
    spec = RoPE(32, pairing="interleaved", base=5e5, arrangement=arrangement)
    assert_pairs(spec, VOLUME, half_of(cos, "interleaved"), half_of(sin, "interleaved"))


def test_parity_of_pixtral() -> None:
    model = transformers("pixtral")
    module = model.PixtralVisionRotaryEmbedding(config(32, rope_type="axial"))
    where = VOLUME[..., :2]
    cos, sin = module(torch.zeros(1), where.transpose(1, 2))
    spec = RoPE(32, pairing="half", arrangement=Arrangement(rule="parity", axes=("h", "w")))
    assert_pairs(spec, where, half_of(cos), half_of(sin))


def test_axes_of_llama4_vision() -> None:
    """Coordinates start at one, x before y, and the class token stands last and does not turn."""
    model = transformers("llama4")
    vision = SimpleNamespace(
        image_size=15,
        patch_size=3,
        hidden_size=128,
        num_attention_heads=4,
        rope_parameters={"rope_theta": 10000.0},
    )
    freqs = model.Llama4VisionRotaryEmbedding._compute_freqs_ci(vision)[:, 0]
    arrangement = Arrangement(rule="axial", axes=("x", "y"), start=1)
    spec = RoPE(32, pairing="interleaved", arrangement=arrangement)
    grid = torch.as_tensor(positions.grid({"y": 5, "x": 5}, axes=("x", "y")))
    grid = torch.cat([grid, torch.tensor([[-1, -1]])])
    assert_pairs(spec, grid, freqs.real, freqs.imag)
    x = torch.randn(1, 26, 4, 32)
    theirs, _ = model.vision_apply_rotary_emb(x, x, freqs[:, None])
    ours = posenc.rotate(spec, x, positions=grid, seq_dim=-3)
    assert_close(ours.numpy(), theirs.numpy(), ORIGINAL)


def test_pixel_centres_of_dinov3() -> None:
    """A grid of 5 x 7, so that the axes cannot be exchanged."""
    model = transformers("dinov3_vit")
    vision = SimpleNamespace(
        rope_theta=100.0, hidden_size=128, num_attention_heads=4, image_size=112, patch_size=16
    )
    cos, sin = model.DINOv3ViTRopePositionEmbedding(vision).eval()(torch.zeros(1, 3, 80, 112))
    spec = RoPE(
        32,
        pairing="half",
        base=100,
        ladder=Ladder(first=2 * math.pi),
        arrangement=Arrangement(rule="axial", axes=("h", "w")),
        phase="real",
    )
    grid = positions.grid({"h": 5, "w": 7}, start=0.5, normalise="centred", xp=torch)
    assert_pairs(spec, grid, half_of(cos), half_of(sin))


def test_blocks_of_gemma4_vision() -> None:
    model = transformers("gemma4")
    module = model.Gemma4VisionRotaryEmbedding(config(32, rope_type="axial"))
    where = VOLUME[..., :2]
    cos, sin = module(torch.zeros(1), where)
    x = Q.transpose(1, 2)
    theirs = model.apply_multidimensional_rope(x, cos, sin, where)
    spec = RoPE(
        32,
        pairing=Pairing("half", blocks=(8, 8)),
        arrangement=Arrangement(rule="axial", axes=("x", "y")),
    )
    ours = posenc.rotate(spec, x, positions=where, seq_dim=-3)
    assert_close(ours.numpy(), theirs.numpy(), ORIGINAL)


def test_multimodal_positions_of_qwen2_vl() -> None:
    """Their builder leaves the times of a video out when it continues: `after="space"`."""
    model = transformers("qwen2_vl")
    owner = SimpleNamespace(
        config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2))
    )
    owner.get_vision_position_ids = lambda *a, **k: model.Qwen2VLModel.get_vision_position_ids(
        owner, *a, **k
    )
    layout = [3, (1, 2, 3), 2, (9, 2, 1), 4]
    kinds = [0] * 3 + [1] * 6 + [0] * 2 + [2] * 18 + [0] * 4
    ids, delta = model.Qwen2VLModel.get_rope_index(
        owner,
        torch.ones(1, len(kinds), dtype=torch.int64),
        torch.tensor([kinds]),
        image_grid_thw=torch.tensor([[1, 4, 6]]),
        video_grid_thw=torch.tensor([[9, 4, 2]]),
    )
    ours = positions.multimodal(layout, after="space")
    assert_close(ours, ids[:, 0].T.numpy(), 0)
    assert int(ours.max()) + 1 - len(ours) == int(delta)
    assert int(positions.multimodal(layout)[-1, 0]) == 3 + 3 + 2 + 9 + 4 - 1


# --- diffusers ------------------------------------------------------------------------------------


def grid_of(**sizes: int) -> Any:
    return positions.grid(sizes, xp=torch)


@pytest.mark.costly
def test_axes_of_flux() -> None:
    flux = peer("diffusers.models.transformers.transformer_flux")
    ids = torch.randint(0, 18, (20, 3), generator=GENERATOR)
    cos, sin = flux.FluxPosEmbed(10000, [16, 56, 56])(ids)
    spec = RoPE(
        128,
        pairing="interleaved",
        arrangement=Arrangement(rule="axial", axes=("index", "y", "x"), sizes=(8, 28, 28)),
    )
    assert_pairs(spec, ids, half_of(cos, "interleaved"), half_of(sin, "interleaved"), 1.5e-7)


def test_axes_of_wan() -> None:
    wan = peer("diffusers.models.transformers.transformer_wan")
    cos, sin = wan.WanRotaryPosEmbed(128, (1, 2, 2), 32)(torch.zeros(1, 4, 3, 10, 14))
    spec = RoPE(
        128,
        pairing="interleaved",
        arrangement=Arrangement(rule="axial", axes=THW, sizes=(22, 21, 21)),
    )
    where = grid_of(t=3, h=5, w=7)
    cos, sin = (half_of(part[0, :, 0], "interleaved") for part in (cos, sin))
    assert_pairs(spec, where, cos, sin, 1.5e-7)


def test_axes_of_hunyuan_video() -> None:
    video = peer("diffusers.models.transformers.transformer_hunyuan_video")
    cos, sin = video.HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56])(torch.zeros(1, 4, 3, 10, 14))
    spec = RoPE(
        128,
        base=256,
        pairing="interleaved",
        arrangement=Arrangement(rule="axial", axes=THW, sizes=(8, 28, 28)),
    )
    where = grid_of(t=3, h=5, w=7)
    assert_pairs(spec, where, half_of(cos, "interleaved"), half_of(sin, "interleaved"))


@pytest.mark.parametrize("kind", ["linspace", "slice"])
def test_axes_of_cogvideox(kind: str) -> None:
    embeddings = peer("diffusers.models.embeddings")
    cos, sin = embeddings.get_3d_rotary_pos_embed(
        64, ((0, 0), (10, 21)), (5, 7), 3, grid_type=kind, max_size=(9, 9)
    )
    spec = RoPE(
        64,
        pairing="interleaved",
        phase="real",
        arrangement=Arrangement(rule="axial", axes=THW, sizes=(8, 12, 12)),
    )
    sizes = {"t": 3, "h": 5, "w": 7}
    where = positions.grid(sizes, xp=torch)
    if (
        kind == "linspace"
    ):  # a crop of 10 x 21, of which the grid of 5 x 7 is every second and third
        where = positions.grid(sizes, normalise="reference", reference=(3, 10, 21), xp=torch)
    assert_pairs(spec, where, half_of(cos, "interleaved"), half_of(sin, "interleaved"))


def test_width_first_of_hunyuan_dit() -> None:
    embeddings = peer("diffusers.models.embeddings")
    cos, sin = embeddings.get_2d_rotary_pos_embed(32, ((0, 0), (5, 7)), (5, 7))
    spec = RoPE(
        32,
        pairing="interleaved",
        arrangement=Arrangement(rule="axial", axes=("h", "w"), order=("w", "h")),
    )
    where = grid_of(h=5, w=7)
    assert_pairs(spec, where, half_of(cos, "interleaved"), half_of(sin, "interleaved"))


def test_alternating_axes_of_lumina() -> None:
    embeddings = peer("diffusers.models.embeddings")
    freqs = embeddings.get_2d_rotary_pos_embed_lumina(32, 5, 7, linear_factor=2.0, ntk_factor=3.0)
    spec = RoPE(
        32,
        base=30_000,
        pairing="interleaved",
        scaling=s.Linear(2),
        arrangement=Arrangement(rule="axial_cyclic", axes=("h", "w")),
    )
    freqs = freqs.reshape(35, 16)
    assert_pairs(spec, grid_of(h=5, w=7), freqs.real, freqs.imag)


def test_ntk_of_each_axis_of_cosmos() -> None:
    cosmos = peer("diffusers.models.transformers.transformer_cosmos")
    module = cosmos.CosmosRotaryPosEmbed(32, rope_scale=(2.0, 1.5, 3.0))
    cos, sin = module(torch.zeros(1, 4, 3, 10, 14))
    spec = RoPE(
        32,
        pairing="half",
        scaling=s.NTK((2.0, 1.5, 3.0)),
        arrangement=Arrangement(rule="axial", axes=THW, sizes=(6, 5, 5)),
    )
    assert_pairs(spec, grid_of(t=3, h=5, w=7), half_of(cos), half_of(sin))
    cos, sin = module(torch.zeros(1, 4, 3, 10, 14), fps=16)
    seconds = grid_of(t=3, h=5, w=7).double() * torch.tensor([24 / 16, 1, 1])
    assert_pairs(spec.replace(phase="real"), seconds, half_of(cos), half_of(sin))


def test_ascending_frequencies_of_ltx() -> None:
    """Frequencies rise, axes alternate, and the first channels of the head do not turn.

    Their float32 angles reach 15,708, so that their error reaches 1e-3.
    """
    ltx = peer("diffusers.models.transformers.transformer_ltx")
    module = ltx.LTXVideoRotaryPosEmbed(32, base_num_frames=3, base_height=5, base_width=7)
    x = torch.randn(1, 3 * 5 * 7, 32, generator=GENERATOR)
    cos, sin = module(x, 3, 5, 7, rope_interpolation_scale=(1.0, 1.0, 1.0))
    theirs = ltx.apply_rotary_emb(x, (cos, sin))
    spec = RoPE(
        30,
        base=1e-4,
        pairing=Pairing("interleaved", part="trailing"),
        ladder=Ladder(first=math.pi / 2, denominator="n-1"),
        arrangement=Arrangement(rule="axial_cyclic", axes=THW),
        phase="real",
    )
    where = positions.grid({"t": 3, "h": 5, "w": 7}, normalise="centred", xp=torch)
    where64 = positions.grid(
        {"t": 3, "h": 5, "w": 7}, normalise="centred", dtype="float64", xp=torch
    )
    for coordinates in (where, where64):
        ours = posenc.rotate(spec, x, positions=coordinates)
        assert_close(ours.numpy(), theirs.numpy(), 4e-3, "rotation")
        assert torch.equal(ours[..., :2], x[..., :2])


# --- other packages -------------------------------------------------------------------------------


def test_rotary_embedding_torch() -> None:
    package = peer("rotary_embedding_torch")
    theirs = package.RotaryEmbedding(dim=16).rotate_queries_or_keys(Q)
    ours = posenc.rotate(RoPE(16, pairing="interleaved"), Q)
    assert_close(ours.numpy(), theirs.detach().numpy(), 5e-6)


def test_x_transformers() -> None:
    package = peer("x_transformers.x_transformers")
    module = package.RotaryEmbedding(dim=16, interpolation_factor=2.0)
    freqs, _ = module(torch.arange(18))
    theirs = package.apply_rotary_pos_emb(Q, freqs)
    spec = RoPE(16, pairing="interleaved", scaling=s.Linear(2))
    assert_close(posenc.rotate(spec, Q).numpy(), theirs.numpy(), ORIGINAL)


def test_timm_of_two_axes() -> None:
    """Sines first there, over an axial grid of one width; height first."""
    module = timm_layer("pos_embed_sincos").RotaryEmbeddingCat(
        32, max_res=16, feat_shape=[5, 7], in_pixels=False, ref_feat_shape=None
    )
    sin, cos = module.get_embed([5, 7]).chunk(2, dim=-1)
    spec = RoPE(32, pairing="interleaved", arrangement=Arrangement(rule="axial", axes=("h", "w")))
    where = grid_of(h=5, w=7)
    assert_pairs(spec, where, half_of(cos, "interleaved"), half_of(sin, "interleaved"))


def test_torchtune() -> None:
    layer = torchtune_file("modules/position_embeddings.py").RotaryPositionalEmbeddings(32, 64)
    where = torch.tensor([[0, 3, 17, 9], [5, 6, 7, 11]])
    x = torch.randn(2, 4, 3, 32, generator=GENERATOR)  # batch, seq, heads, channels
    ours = posenc.rotate(RoPE(32, pairing="interleaved"), x, positions=where, seq_dim=-3)
    size = float(x.abs().max())
    assert_close(ours.numpy(), layer(x, input_pos=where).numpy(), ORIGINAL * size)


def test_torchtune_of_llama_3() -> None:
    file = torchtune_file("models/llama3_1/_position_embeddings.py")
    layer = file.Llama3ScaledRoPE(128, max_seq_len=64, base=500_000, scale_factor=8)
    spec = RoPE(
        128,
        base=500_000,
        pairing="interleaved",
        scaling=s.Llama3(8, original_length=8192),
    )
    x = torch.randn(2, 18, 3, 128, generator=GENERATOR)
    ours = posenc.rotate(spec, x, seq_dim=-3)
    # The ramp is float32 there, which turns a pair in its middle by another 1e-7 a position.
    assert_close(ours.numpy(), layer(x).numpy(), 8e-6)


def test_xpos_of_x_transformers() -> None:
    package = peer("x_transformers.x_transformers")
    module = package.RotaryEmbedding(dim=16, use_xpos=True, scale_base=512)
    freqs, scale = module(torch.arange(18))
    spec = posenc.XPos(16, pairing="interleaved", centre=9)  # half of the length, there
    for role, power in (("query", 1), ("key", -1)):
        theirs = package.apply_rotary_pos_emb(Q, freqs, scale**power)
        ours = posenc.rotate(spec, Q, role=role)  # type: ignore[arg-type]
        assert_close(ours.numpy(), theirs.numpy(), ORIGINAL, role)


def test_deepseek_magnitude_on_the_softmax() -> None:
    """m(mscale_all_dim) ** 2, computed by their own helper."""
    helper = transformers("deepseek_v3").yarn_get_mscale
    scaling = s.YaRN(40, original_length=4096, mscale=1.0, mscale_all_dim=1.0)
    spec = RoPE(
        64,
        pairing="interleaved",
        scaling=scaling,
        magnitude=RotaryMagnitude(logit_factor="scaling"),
    )
    assert math.isclose(posenc.logit_scale(spec), helper(40, 1.0) ** 2, rel_tol=1e-15)
    assert spec.attention_factor == 1
