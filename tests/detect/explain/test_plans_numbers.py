"""Tables that plans compute, against the code of the models, number by number.

Specs come from `from_hf` on small configs; positions of pictures are those of the rows' presets.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from tests.tolerances import assert_close

torch = pytest.importorskip("torch", reason="the originals are written in it")
transformers = pytest.importorskip("transformers", reason="has the originals")

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

# (model type, changes, layer, the class of its angles, cells of a picture in its own order)
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
TOWER = {"hidden_size": 64, "num_heads": 4}


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
