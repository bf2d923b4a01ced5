"""Tables that plans compute, against the code of the models, number by number.

Specs come from `from_hf` on small configs; positions of pictures are those of the rows' presets.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.presets.families import class_parts
from tests.tolerances import assert_close

torch = pytest.importorskip("torch", reason="the originals are written in it")
transformers = pytest.importorskip("transformers", reason="has the originals")

vision_utils = pytest.importorskip("transformers.vision_utils", reason="resizes their tables")

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 24
FLOAT32_PHASES = 5e-6  # of originals at positions this small


def module(package: str) -> Any:
    return importlib.import_module(f"transformers.models.{package}.modeling_{package}")


def config(model_type: str, **changes: Any) -> Any:
    return transformers.CONFIG_MAPPING[model_type](**changes)


def spec(made: Any, layer: str) -> Any:
    read = posenc.from_hf(made, on_error="report")
    return read[layer].spec


# (model type, changes, layer, original rows, first position)
Original = Callable[[Any], Any]
SEQUENCES: dict[str, tuple[str, dict[str, Any], str, Original, int]] = {
    "musicgen": (
        "musicgen_decoder",
        {"hidden_size": 16, "num_attention_heads": 2},
        "embeddings",
        lambda c: module("musicgen").MusicgenSinusoidalPositionalEmbedding(ROWS, 16).weights,
        0,
    ),
    "ctrl": (
        "ctrl",
        {"n_embd": 16},
        "embeddings",
        lambda c: module("ctrl").positional_encoding(ROWS, 16, torch.float32),
        0,
    ),
    "time series": (
        "time_series_transformer",
        {"d_model": 16, "prediction_length": 12, "context_length": 12},
        "embeddings",
        lambda c: (
            module("time_series_transformer")
            .TimeSeriesSinusoidalPositionalEmbedding(ROWS, 16)
            .create_weight()
        ),
        0,
    ),
    "pegasus_x": (
        "pegasus_x",
        {"d_model": 16},
        "embeddings",
        lambda c: module("pegasus_x").PegasusXSinusoidalPositionalEmbedding(16)(
            torch.zeros(1, ROWS, 16)
        )[0],
        0,
    ),
    "marian": (
        "marian",
        {"d_model": 16},
        "embeddings",
        lambda c: module("marian").MarianSinusoidalPositionalEmbedding(ROWS, 16, 1).create_weight(),
        0,
    ),
    "m2m_100": (
        "m2m_100",
        {"d_model": 16},
        "embeddings",
        lambda c: module("m2m_100").M2M100SinusoidalPositionalEmbedding(ROWS, 16, 1).weights,
        -2,
    ),
    "trocr": (
        "trocr",
        {"d_model": 16, "use_learned_position_embeddings": False},
        "embeddings",
        lambda c: module("trocr").TrOCRSinusoidalPositionalEmbedding(ROWS, 16, 1).weights,
        -2,
    ),
    "xglm": (
        "xglm",
        {"d_model": 16, "attention_heads": 2},
        "embeddings",
        lambda c: module("xglm").XGLMSinusoidalPositionalEmbedding(ROWS, 16, 1).weights,
        -2,
    ),
    "kosmos-2": (
        "kosmos_2_text_model",
        {"embed_dim": 16},
        "embeddings",
        lambda c: module("kosmos2").Kosmos2TextSinusoidalPositionalEmbedding(ROWS, 16, 1).weights,
        -2,
    ),
    "seamless, text": (
        "seamless_m4t",
        {"hidden_size": 16, "encoder_attention_heads": 2, "speech_encoder_attention_heads": 2},
        "text encoder",
        lambda c: (
            module("seamless_m4t").SeamlessM4TSinusoidalPositionalEmbedding(ROWS, 16, 0).weights
        ),
        -1,
    ),
    "tips": (
        "tipsv2_text_model",
        {"hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": ROWS},
        "embeddings",
        lambda c: module("tipsv2").Tipsv2SinusoidalPositionalEmbedding(c).weights,
        0,
    ),
    "videoprism": (
        "videoprism_text_model",
        {"hidden_size": 16},
        "embeddings",
        lambda c: module("videoprism").create_sinusoidal_positions(ROWS, 16),
        0,
    ),
    "canary": (
        "canary_decoder",
        {"hidden_size": 16, "num_attention_heads": 2},
        "embeddings",
        lambda c: module("canary").CanaryPositionalEmbedding(ROWS, 16)(torch.arange(ROWS)),
        0,
    ),
    "whisper": (
        "whisper",
        {"d_model": 16},
        "encoder",
        lambda c: module("whisper").sinusoids(ROWS, 16),
        0,
    ),
    "frames": (
        "qwen2_5_omni_audio_encoder",
        {"d_model": 16},
        "frames",
        lambda c: module("qwen2_5_omni").SinusoidsPositionEmbedding(ROWS, 16).positional_embedding,
        0,
    ),
    "stacked frames": (
        "fun_asr_nano_encoder",
        {"num_mel_bins": 8, "num_stacked_frames": 2, "hidden_size": 32},
        "frames",
        lambda c: module("fun_asr_nano").FunAsrNanoPositionEmbedding(ROWS + 1, 16)(
            torch.zeros(1, ROWS, 16)
        ),
        0,
    ),
    "speecht5, text": (
        "speecht5",
        {"hidden_size": 16, "encoder_attention_heads": 2},
        "text encoder",
        lambda c: module("speecht5").SpeechT5ScaledPositionalEncoding(0.0, 16, ROWS).pe[0],
        0,
    ),
    "timesfm": (
        "timesfm",
        {"hidden_size": 16, "use_positional_embedding": True},
        "patches",
        lambda c: module("timesfm").TimesFmPositionalEmbedding(c)(seq_length=ROWS)[0],
        0,
    ),
    "videomae": (
        "videomae",
        {"hidden_size": 16},
        "embeddings",
        lambda c: module("videomae").get_sinusoid_encoding_table(ROWS, 16)[0],
        0,
    ),
    "frames of films": (
        "kimi_k25_vision",
        {"hidden_size": 16, "pos_emb_time": ROWS, "num_attention_heads": 2},
        "time",
        lambda c: (
            module("kimi_k25").Kimi_K25VisionPositionEmbeddings(c).time_position_embeddings[1:]
        ),
        0,
    ),
}


@pytest.mark.parametrize("case", sorted(SEQUENCES))
def test_tables_of_sequences(case: str) -> None:
    model_type, changes, layer, original, first = SEQUENCES[case]
    made = config(model_type, **changes)
    exact = np.asarray(original(made).detach())
    encoding = spec(made, layer)
    positions = np.arange(first, first + len(exact))
    if first < 0:  # the rows before the first position belong to padding
        keep = positions >= (-1 if encoding.arrangement.pad is not None else 0)
        positions, exact = positions[keep], exact[keep]
    params = posenc.init(encoding) if encoding.parameters() else None
    got = posenc.table(encoding, positions, params=params)
    assert got.shape == exact.shape
    assert_close(got, exact, FLOAT32_PHASES)


def cells(height: int, width: int) -> np.ndarray:
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)
    return grid.reshape(-1, 2)


def mae(c: Any, height: int, width: int) -> Any:
    table = module("vit_mae").build_2d_sinusoidal_position_embedding(height, width, c.hidden_size)
    half = c.hidden_size // 2
    return torch.cat([table[:, half:], table[:, :half]], dim=-1)


GRIDS: dict[str, tuple[str, dict[str, Any], str, Callable[[Any, int, int], Any]]] = {
    "mae": ("vit_mae", {"hidden_size": 16}, "embeddings", mae),
    "aimv2": ("aimv2_vision_model", {"hidden_size": 16, "is_native": True}, "embeddings", mae),
    "connector": (
        "granite_docling_vision",
        {"out_hidden_size": 16},
        "connector",
        lambda c, h, w: module("granite_docling").GraniteDoclingPositionEmbedding.build(16, h),
    ),
    **{
        package: (
            package,
            {"encoder_hidden_dim": 16, "positional_encoding_temperature": 5000},
            "encoder",
            lambda c, h, w, package=package: module(package).build_2d_sinusoidal_position_embedding(
                h, w, 16, temperature=c.positional_encoding_temperature
            ),
        )
        for package in ("rt_detr", "rt_detr_v2", "d_fine", "deimv2", "pp_doclayout_v3")
    },
}


@pytest.mark.parametrize("case", sorted(GRIDS))
def test_tables_of_grids(case: str) -> None:
    model_type, changes, layer, original = GRIDS[case]
    made = config(model_type, **changes)
    height, width = (4, 4) if case == "connector" else (3, 5)
    exact = np.asarray(original(made, height, width))
    got = posenc.table(spec(made, layer), cells(height, width))
    assert_close(got, exact, 1e-6)


MASKED = {
    "detr": ("d_model", lambda c: module("detr").DetrSinePositionEmbedding(8, normalize=True)),
    "conditional_detr": (
        "d_model",
        lambda c: module("conditional_detr").ConditionalDetrSinePositionEmbedding(
            8, normalize=True
        ),
    ),
    "sam2_vision_model": (
        "fpn_hidden_size",
        lambda c: module("sam2").Sam2SinePositionEmbedding(8, normalize=True),
    ),
}


@pytest.mark.parametrize("model_type", sorted(MASKED))
def test_tables_of_pictures_in_units_of_their_size(model_type: str) -> None:
    key, original = MASKED[model_type]
    made = config(model_type, **{key: 16})
    shape = torch.Size((1, 16, 3, 5))
    exact = original(made)(shape, torch.device("cpu"), torch.float32)
    encoding = spec(made, "neck" if key == "fpn_hidden_size" else "features")
    positions = posenc.presets.row("detr-normalised").place(np.ones((3, 5), dtype=bool))
    got = posenc.table(encoding, positions)
    assert_close(got, np.asarray(exact[0].permute(1, 2, 0)).reshape(got.shape), 1e-5)


# --- parts ----------------------------------------------------------------------------------------

# Towers as files have them: without a type, and without a base.
WIDTHS = {
    "hidden_size": 64,
    "embed_dim": 64,
    "num_heads": 4,
    "num_attention_heads": 4,
    "head_dim": 16,
    "adapter_in_dim": 64,
    "depth": 1,
    "num_position_embeddings": 25,
    "pos_emb_height": 5,
    "pos_emb_width": 5,
    "deepstack_visual_indexes": [0],
}
NAMES = (
    "cohere_compass dots3_note ernie4_5_vl_moe exaone4_5 glm4v glm5_next glm_ocr kimi_k25 "
    "minimax_m3_vl muse_glimmer muse_spark paddleocr_vl qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe "
    "qwen3_vl qwen3_vl_moe qwen4_exp step3p7 video_llama_3"
)
TOWERS = NAMES.split()
# How the tables of towers are resized to the grid of a picture, which notes of the rows say.
RESIZED = {
    "cohere_compass": "linear_corners",
    "qwen3_5": "linear_corners",
    "qwen3_5_moe": "linear_corners",
    "qwen3_vl": "linear_corners",
    "qwen3_vl_moe": "linear_corners",
    "qwen4_exp": "linear_corners",
    "kimi_k25": "cubic",
}


def tower(model_type: str) -> tuple[posenc.Reading, Any]:
    """The plan of a tower in a file that says little of it, and the config of its class."""
    kind = class_parts(model_type).types["vision_config"]
    fields = {field.name for field in dataclasses.fields(transformers.CONFIG_MAPPING[kind])}
    stated = {key: value for key, value in WIDTHS.items() if key in fields}
    plan = posenc.from_hf({"model_type": model_type, "vision_config": stated}, on_error="report")
    return plan.part("vision"), config(kind, **stated)


@pytest.mark.parametrize("name", TOWERS)
def test_angles_of_towers(name: str) -> None:
    plan, made = tower(name)
    encoding = next(entry.spec for entry in plan if entry.kind == "rotary")
    assert isinstance(encoding, posenc.RoPE)
    of_class = next(
        cls for word, cls in vars(module(name)).items() if word.endswith("VisionRotaryEmbedding")
    )
    places = np.random.default_rng(5).integers(0, 40, (30, len(encoding.axes)))
    exact = of_class(made)(torch.zeros(1), torch.tensor(places))
    for mine, theirs in zip(posenc.cos_sin(encoding, places), exact, strict=True):
        assert_close(mine, np.asarray(theirs).reshape(30, -1)[:, : encoding.pairs], FLOAT32_PHASES)


@pytest.mark.parametrize("name", sorted(RESIZED))
def test_tables_of_towers(name: str) -> None:
    plan, made = tower(name)
    encoding = plan["embeddings"].spec
    assert isinstance(encoding, posenc.Learned)
    assert RESIZED[name] in next(n.text for n in plan.notes if n.text.startswith("The table"))
    package = module(name)
    if name == "kimi_k25":
        whole = package.Kimi_K25VisionPositionEmbeddings(made)
        table = whole.position_embeddings
    else:
        whole = next(
            cls
            for cls in vars(package).values()
            if getattr(cls, "config_class", None) is type(made) and hasattr(cls, "forward")
        )(made)
        table = whole.pos_embed.weight
    weight = np.asarray(table.detach()).reshape(25, 64)
    taps, weights = vision_utils.get_vision_interpolation_indices_and_weights(
        torch.tensor([[1, 4, 6]]),
        num_grid_per_side=5,
        mode=whole.interpolation_mode,
        align_corners=whole.interpolation_align_corners,
    )
    exact = (torch.tensor(weight)[taps] * weights[:, :, None]).sum(1)
    assert encoding.length == (5, 5)
    method: Any = RESIZED[name]
    resized, params = posenc.resize(encoding, {"weight": weight}, (4, 6), method=method)
    got = posenc.table(resized, np.arange(24), params=params)
    assert_close(got, np.asarray(exact), 2e-6)


def test_atoms_of_proteins() -> None:
    """Real coordinates and whole numbers, with a base of each."""
    of_class = module("esmfold2").EsmFold2RotaryEmbedding
    part = config("esmfold2").atom_encoder
    rotary = of_class(part)
    encoding = spec(config("esmfold2"), "atom_encoder.attention")
    places = np.random.default_rng(3).normal(0, 8, (5, 3)).astype(np.float32)
    residues = np.array([0, 1, 5, 77, 900])
    cos, sin = rotary(torch.tensor(places)[None], torch.tensor(residues)[None], torch.float32)
    got = posenc.cos_sin(encoding, np.column_stack([places, residues.astype(np.float32)]))
    for mine, theirs in zip(got, (cos, sin), strict=True):
        both = np.concatenate([mine, mine], axis=-1)  # in halves
        assert_close(both, np.asarray(theirs[0]), 1e-4)


def test_pictures_without_a_tower() -> None:
    """A table for each axis; both are one tensor, of position, axis and channel."""
    package = module("gemma4_unified")
    made = config("gemma4_unified_vision", mm_embed_dim=16, mm_posemb_size=9, patch_size=2)
    text = config("gemma4_unified_text", hidden_size=16, num_attention_heads=2)
    embedder = package.Gemma4UnifiedVisionEmbedder(made, text)
    torch.manual_seed(2)
    torch.nn.init.normal_(embedder.pos_embedding)
    embedder.patch_ln2 = embedder.pos_norm = torch.nn.Identity()
    embedder.patch_dense = torch.nn.Linear(108, 16)
    embedder.patch_dense.weight.data.zero_()
    embedder.patch_dense.bias.data.zero_()
    embedder.multimodal_embedder = torch.nn.Identity()
    places = np.random.default_rng(4).integers(0, 9, (11, 2))
    exact = embedder(torch.zeros(1, 11, 108), torch.tensor(places)[None], return_dict=True)
    encoding = spec(made, "embeddings")
    tables = np.asarray(embedder.pos_embedding.detach())
    names = sorted(encoding.parameters())
    params = {name: tables[:, axis] for axis, name in enumerate(names)}
    got = posenc.table(encoding, places, params=params)
    assert_close(got, np.asarray(exact.pooler_output[0].detach()), 1e-6)
