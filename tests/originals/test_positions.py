# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Positions and tables from a plan alone, against the code of the model.

Each row has the config of a family. Its plan says how positions are made; what they are made of
(a mask, a grid, the layout of text and pictures) is given to both sides, and whole tables, or
cosines and sines, must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import posenc
from tests.oracles.originals.tables import transformers
from tests.tolerances import ORIGINAL, assert_close

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

Original = Callable[[Any], Any]  # of the module: a table, (table, weights), or (cosines, sines)


class Case(NamedTuple):
    """A config, what the builder of its plan is given, and what the original makes of it."""

    config: dict[str, Any]
    given: Any
    package: str
    original: Original
    entry: str = ""
    pairs: Any = None  # of a rotation: where the original has one entry for each pair


# Padding on the left, on the right, on both sides, and none.
MASK = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0], [1] * 6])
IDS = torch.where(MASK > 0, 5, 1)  # 1 is the token of padding
GRID = {"h": 4, "w": 6}
GRID_XY = {"y": 4, "x": 6}

# Pictures with padding below and right of them, above and left of them, and none.
CELLS = torch.zeros(3, 4, 6, dtype=torch.int64)
CELLS[0, :3, :4] = CELLS[1, 1:, 2:] = CELLS[2] = 1


def of_shape(name: str) -> Original:
    """Classes that take the shape of features, and a mask."""

    def made(module: Any) -> Any:
        layer = getattr(module, name)(32, normalize=True)
        cpu = torch.device("cpu")
        return layer(torch.Size((3, 64, 4, 6)), cpu, torch.float32, CELLS).flatten(2).mT

    return made


def of_pixels(name: str, *args: Any, **more: Any) -> Original:
    """Classes that take features, for their device, and a mask."""

    def made(module: Any) -> Any:
        layer = getattr(module, name)(*args, **more)
        return layer(torch.zeros(3, 64, 4, 6), CELLS).flatten(2).mT

    return made


def of_embeddings(name: str, config: str, **more: Any) -> Original:
    """What the table in a module of embeddings gives, and its weights."""

    def made(module: Any) -> Any:
        sizes = {"vocab_size": 12, "num_attention_heads": 2, **LEARNED, **more}
        layer = getattr(module, name)(getattr(module, config)(**sizes)).eval()
        read: list[Any] = []
        table = layer.position_embeddings
        table.register_forward_hook(lambda _module, _inputs, out: read.append(out))
        layer(IDS)
        return read[0].detach().expand(*MASK.shape, -1), {"weight": table.weight.detach()}

    return made


def of_learned(name: str, rows: int, given: Any) -> Original:
    """Tables that are asked themselves."""

    def made(module: Any) -> Any:
        table = getattr(module, name)(rows, 16)
        return table(given).detach(), {"weight": table.weight.detach()}

    return made


def of_ids(name: str, given: Any = IDS) -> Original:
    """Sinusoids that count what is no padding among their input, or are told positions."""
    return lambda module: getattr(module, name)(20, 16, 1)(given)


def tower(name: str, places: Callable[[Any], Any]) -> Original:
    """The rotation of a tower, at coordinates that `places` makes as the model does."""

    def made(module: Any) -> Any:
        config = SimpleNamespace(
            **TOWER,
            memory_attention_hidden_size=32,
            memory_attention_downsample_rate=1,
            memory_attention_num_attention_heads=1,
            memory_attention_rope_feat_sizes=(6, 4),
        )
        turns = getattr(module, name)(config)(torch.zeros(1), places(module))
        return [turn.reshape(-1, turn.shape[-1]) for turn in turns]

    return made


def shared(merge: int, frames: int = 1, start: int = 0) -> Callable[[Any], Any]:
    """Coordinates by the helper that towers share."""
    time = {"include_temporal": True} if frames > 1 else {}
    grid = torch.tensor([[frames, 4, 6]])
    return lambda module: module.get_vision_position_ids(grid, merge, **time) + start


def columns_first(_module: Any) -> Any:
    """As the image processor of Gemma 4 numbers patches."""
    grid = torch.meshgrid(torch.arange(6), torch.arange(4), indexing="xy")
    return torch.stack(grid, dim=-1).reshape(-1, 2)


def rows_first(_module: Any) -> Any:
    """As Pixtral and MLCD do, in the body of their models."""
    grid = torch.meshgrid(torch.arange(4), torch.arange(6), indexing="ij")
    return torch.stack(grid, dim=-1).reshape(-1, 2)


def mae(module: Any) -> Any:
    """As `ViTMAEEmbeddings` stores it: the halves of the helper exchanged."""
    table = module.build_2d_sinusoidal_position_embedding(4, 6, 32, cls_token=True)
    return torch.cat([table[:, 16:], table[:, :16]], dim=-1)


def kimi_time(frames: int) -> Original:
    """The times of a film, or of a still picture."""

    def made(module: Any) -> Any:
        sizes = {"pos_emb_height": 2, "pos_emb_width": 2, "pos_emb_time": 8}
        layer = module.Kimi_K25VisionPositionEmbeddings(SimpleNamespace(hidden_size=32, **sizes))
        return layer.time_position_embeddings[
            module.get_vision_frame_index(torch.tensor([[frames, 1, 1]]))
        ]

    return made


def dinov3(module: Any) -> Any:
    """The layer of rotations, shown a picture of 4 times 6 patches."""
    config = module.DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=2)
    return module.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 8, 12))


def llama4(module: Any) -> Any:
    """Complex numbers of the patches; the class token, which comes last, does not turn."""
    config = SimpleNamespace(**TOWER, image_size=32, patch_size=8)
    turns = module.Llama4VisionRotaryEmbedding._compute_freqs_ci(config)
    assert bool((turns[-1] == 1).all())
    return turns[:-1, 0].real, turns[:-1, 0].imag


def loftr(module: Any) -> Any:
    """Rows and columns that are sums of ones."""
    rungs = 1 / 10000.0 ** (torch.arange(0, 32, 4).float() / 32)
    angles = module.compute_embeddings(rungs, 4, 6, 32).reshape(24, 16)
    return angles.cos(), angles.sin()


def decoder(module: Any) -> Any:
    """Angles of a whole small model that is given a mask, and no positions."""
    config = module.LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        num_hidden_layers=1,
        vocab_size=12,
        intermediate_size=8,
    )
    model = module.LlamaModel(config).eval()
    kept: list[Any] = []
    model.rotary_emb.register_forward_hook(lambda _module, _inputs, out: kept.append(out))
    model(IDS, attention_mask=MASK)
    return [turn[0].detach() for turn in kept[0]]


# Text, a picture, text, a film of three pairs of frames, text; tokens of pictures are merged by 2.
LAYOUT = [3, (1, 2, 3), 2, (3, 2, 1), 4]
SPACED = [3, (1, 2, 3), 2, ((0, 8, 16), 2, 1), 4]  # 4 steps a second, 2 seconds for a pair
STAMPED = [3, (1, 2, 3), 2, (1, 2, 1), 2, (1, 2, 1), 2, (1, 2, 1), 4]  # a time in text each


def rope_index(family: str, layout: list[Any], **more: Any) -> Original:
    """Angles of text, pictures and films in one sequence, with padding on both sides."""

    def made(module: Any) -> Any:
        model, config = f"{family}Model", {"spatial_merge_size": 2, "tokens_per_second": 4}
        owner = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(**config)))
        whole = getattr(module, model)
        owner.get_vision_position_ids = lambda *a, **k: whole.get_vision_position_ids(
            owner, *a, **k
        )
        kinds, films = [], 0
        for part in layout:
            if isinstance(part, int):
                kinds += [0] * part
                continue
            kind = 1 if part[2] == 3 else 2
            frames = part[0] if isinstance(part[0], int) else len(part[0])
            kinds += [kind] * (frames * part[1] * part[2])
            films += kind == 2
        row = torch.tensor([[0] * 2 + kinds + [0]])
        mask = torch.tensor([[0] * 2 + [1] * len(kinds) + [0]])
        ids, _ = whole.get_rope_index(
            owner,
            torch.ones_like(row),
            row,
            image_grid_thw=torch.tensor([[1, 4, 6]]),
            video_grid_thw=torch.tensor([[3, 4, 2]]),
            attention_mask=mask,
            **more,
        )
        return ids[:, 0, mask[0] > 0].T

    return made


TOWER: dict[str, Any] = {
    "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0},
    "hidden_size": 64,
    "embed_dim": 64,
    "num_heads": 2,
    "num_attention_heads": 2,
    "head_dim": 32,
    "spatial_merge_size": 2,
}
MROPE = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [4, 6, 6],
    },
    "hidden_size": 64,
    "num_attention_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 64,
}
DETR = {"d_model": 64, "hidden_size": 64}
LEARNED = {"hidden_size": 16, "max_position_embeddings": 20, "pad_token_id": 1}
WIDE = {"d_model": 16, "hidden_size": 16, "max_position_embeddings": 18, "pad_token_id": 1}
HALF, EVEN, ALL = slice(0, 16), slice(0, None, 2), slice(None)
SPEECH = {"max_source_positions": 6, "max_target_positions": 6}

CASES = {
    # Cells of pictures.
    "deformable detr": Case(
        {"model_type": "deformable_detr", **DETR},
        CELLS,
        "deformable_detr",
        of_shape("DeformableDetrSinePositionEmbedding"),
    ),
    "detr": Case(
        {"model_type": "detr", **DETR}, CELLS, "detr", of_shape("DetrSinePositionEmbedding")
    ),
    "conditional detr": Case(
        {"model_type": "conditional_detr", **DETR},
        CELLS,
        "conditional_detr",
        of_shape("ConditionalDetrSinePositionEmbedding"),
    ),
    "table transformer": Case(
        {"model_type": "table-transformer", **DETR},
        CELLS,
        "table_transformer",
        of_pixels("TableTransformerSinePositionEmbedding", 32, normalize=True),
    ),
    "grounding dino": Case(
        {"model_type": "grounding-dino", "positional_embedding_temperature": 20, **DETR},
        CELLS,
        "grounding_dino",
        of_pixels(
            "GroundingDinoSinePositionEmbedding",
            SimpleNamespace(d_model=64, positional_embedding_temperature=20),
        ),
    ),
    "mae": Case(
        {"model_type": "vit_mae", "hidden_size": 32, "decoder_hidden_size": 32},
        GRID,
        "vit_mae",
        mae,
        "embeddings",
    ),
    "rt-detr": Case(
        {
            "model_type": "rt_detr",
            "encoder_hidden_dim": 32,
            "positional_encoding_temperature": 10000,
        },
        GRID,
        "vit_mae",
        lambda module: module.build_2d_sinusoidal_position_embedding(4, 6, 32),
        "encoder",
    ),
    # Padding of text.
    "roberta": Case(
        {"model_type": "roberta", **LEARNED},
        MASK,
        "roberta",
        of_embeddings("RobertaEmbeddings", "RobertaConfig"),
    ),
    "esm": Case(
        {"model_type": "esm", "position_embedding_type": "absolute", **LEARNED},
        MASK,
        "esm",
        of_embeddings("EsmEmbeddings", "EsmConfig", mask_token_id=11),
    ),
    "mpnet": Case(
        {"model_type": "mpnet", **LEARNED},
        MASK,
        "mpnet",
        of_embeddings("MPNetEmbeddings", "MPNetConfig"),
        "embeddings",
    ),
    "bert": Case(
        {"model_type": "bert", **LEARNED},
        6,
        "bert",
        of_embeddings("BertEmbeddings", "BertConfig"),
    ),
    "opt": Case(
        {"model_type": "opt", "word_embed_proj_dim": 16, **WIDE},
        MASK,
        "opt",
        of_learned("OPTLearnedPositionalEmbedding", 18, MASK),
    ),
    "biogpt": Case(
        {"model_type": "biogpt", **WIDE},
        MASK,
        "biogpt",
        of_learned("BioGptLearnedPositionalEmbedding", 18, MASK),
    ),
    "bart": Case(
        {"model_type": "bart", **WIDE},
        6,
        "bart",
        of_learned("BartLearnedPositionalEmbedding", 18, IDS),
    ),
    "whisper, decoder": Case(
        {"model_type": "whisper", **WIDE, **SPEECH},
        6,
        "whisper",
        of_learned("WhisperPositionalEmbedding", 6, IDS),
        "decoder",
    ),
    "whisper, encoder": Case(
        {"model_type": "whisper", **WIDE, **SPEECH},
        6,
        "whisper",
        lambda module: module.sinusoids(6, 16),
        "encoder",
    ),
    "m2m": Case(
        {"model_type": "m2m_100", **WIDE},
        MASK,
        "m2m_100",
        of_ids("M2M100SinusoidalPositionalEmbedding"),
    ),
    "speech to text": Case(
        {"model_type": "speech_to_text", **WIDE},
        MASK,
        "speech_to_text",
        of_ids("Speech2TextSinusoidalPositionalEmbedding"),
    ),
    "xglm": Case(
        {"model_type": "xglm", **WIDE},
        6,
        "xglm",
        of_ids("XGLMSinusoidalPositionalEmbedding", torch.arange(6).expand(4, 6)),
    ),
    "llama": Case(
        {"model_type": "llama", "head_dim": 32, "rope_theta": 10000.0, "num_attention_heads": 2},
        6,
        "llama",
        decoder,
        pairs=HALF,
    ),
    # Turned patches.
    "qwen2-vl, vision": Case(
        {"model_type": "qwen2_vl_vision", **TOWER},
        GRID,
        "qwen2_vl",
        tower("Qwen2VLVisionRotaryEmbedding", shared(2)),
        pairs=HALF,
    ),
    "paddleocr, vision": Case(
        {"model_type": "paddleocr_vl_vision", **TOWER, "image_size": 32, "patch_size": 8},
        GRID,
        "paddleocr_vl",
        tower("PaddleOCRVisionRotaryEmbedding", shared(1)),
        "vision",
        HALF,
    ),
    "step 3.5, vision": Case(
        {"model_type": "step3p5_vision", **TOWER, "image_size": 32, "patch_size": 8},
        GRID,
        "step3p7",
        tower("Step3p7VisionRotaryEmbedding", shared(1)),
        "vision",
        HALF,
    ),
    "kimi, vision": Case(
        {"model_type": "kimi_k25_vision", **TOWER},
        GRID,
        "kimi_k25",
        tower("Kimi_K25VisionRotaryEmbedding", shared(1)),
        "vision",
        HALF,
    ),
    "inkling, vision": Case(
        {"model_type": "inkling2_vision", **TOWER},
        GRID,
        "inkling2",
        tower("Inkling2VisionRotaryEmbedding", shared(2, start=1)),
        "vision",
        EVEN,
    ),
    "minimax, vision": Case(
        {"model_type": "minimax_m3_vl_vision", **TOWER},
        {"t": 2, **GRID},
        "minimax_m3_vl",
        tower("MiniMaxM3VLVisionRotaryEmbedding", shared(2, frames=2)),
        pairs=slice(0, 15),
    ),
    "pixtral": Case(
        {"model_type": "pixtral", **TOWER},
        GRID,
        "pixtral",
        tower("PixtralVisionRotaryEmbedding", rows_first),
        pairs=HALF,
    ),
    "mlcd": Case(
        {"model_type": "mlcd_vision_model", **TOWER},
        GRID,
        "mlcd",
        tower("MLCDRotaryEmbedding", rows_first),
        pairs=HALF,
    ),
    "gemma 4, vision": Case(
        {"model_type": "gemma4_vision", **TOWER},
        GRID_XY,
        "gemma4",
        tower("Gemma4VisionRotaryEmbedding", lambda module: columns_first(module)[None]),
        "vision",
        [*range(8), *range(16, 24)],
    ),
    "sam 2, memory": Case(
        {
            "model_type": "sam2_video",
            "memory_attention_hidden_size": 32,
            "memory_attention_downsample_rate": 1,
            "memory_attention_num_attention_heads": 1,
            "rope_parameters": TOWER["rope_parameters"],
        },
        GRID_XY,
        "sam2_video",
        tower("Sam2VideoVisionRotaryEmbedding", columns_first),
        "memory attention",
        EVEN,
    ),
    "dinov3": Case(
        {"model_type": "dinov3_vit", **TOWER, "rope_theta": 100.0, "rope_parameters": None},
        GRID,
        "dinov3_vit",
        dinov3,
        pairs=HALF,
    ),
    "llama 4, vision": Case(
        {"model_type": "llama4_vision_model", **TOWER, "image_size": 32, "patch_size": 8},
        {"y": 4, "x": 4},
        "llama4",
        llama4,
        "vision",
        ALL,
    ),
    "efficientloftr": Case(
        {
            "model_type": "efficientloftr",
            "hidden_size": 32,
            "num_attention_heads": 1,
            # Half of the width for each axis; the class's 4 is that for its 8 heads.
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            },
        },
        {"row": 4, "column": 6},
        "efficientloftr",
        loftr,
        pairs=ALL,
    ),
    "kimi, a still picture": Case(
        {"model_type": "kimi_k25_vision", **TOWER, "hidden_size": 32, "pos_emb_time": 8},
        1,
        "kimi_k25",
        kimi_time(1),
        "time",
    ),
    "kimi, a film": Case(
        {"model_type": "kimi_k25_vision", **TOWER, "hidden_size": 32, "pos_emb_time": 8},
        3,
        "kimi_k25",
        kimi_time(3),
        "time",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_positions_and_table_of_a_plan_are_those_of_the_model(name: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    plan = posenc.from_hf(case.config, on_error="report")
    layer = plan[case.entry] if case.entry else next(entry for entry in plan if entry.spec)
    assert layer.spec is not None
    assert layer.positions is not None
    where = np.asarray(layer.positions.build(case.given))
    made = case.original(transformers(case.package))
    if case.pairs is not None:
        for ours, theirs in zip(posenc.cos_sin(layer.spec, where), made, strict=True):
            assert_close(np.asarray(ours), theirs[..., case.pairs].numpy(), ORIGINAL, name)
        return
    rows, weights = made if isinstance(made, tuple) else (made, None)
    table = np.asarray(posenc.table(layer.spec, where, params=_numpy(weights)))
    # Where a whole line is padding, Deformable DETR divides -1/2 by 1e-6: an angle of 3 million
    # radians, of which float32 keeps quarters.
    far = np.abs(where.reshape(*where.shape[: table.ndim - 1], -1)).max(-1, keepdims=True) > 1e5
    bound = np.where(far, 0.25, ORIGINAL)
    assert_close(np.broadcast_to(table, rows.shape), rows.numpy(), bound, name)


def _numpy(weights: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if weights is None else {key: value.numpy() for key, value in weights.items()}


@pytest.mark.parametrize(
    ("family", "package", "model", "rotary", "layout", "more"),
    [
        ("qwen2_vl", "qwen2_vl", "Qwen2VL", "Qwen2VLRotaryEmbedding", LAYOUT, {}),
        (
            "qwen2_5_vl",
            "qwen2_5_vl",
            "Qwen2_5_VL",
            "Qwen2_5_VLRotaryEmbedding",
            SPACED,
            {"second_per_grid_ts": torch.tensor([2.0])},
        ),
        ("qwen3_vl_text", "qwen3_vl", "Qwen3VL", "Qwen3VLTextRotaryEmbedding", STAMPED, {}),
    ],
    ids=["frame after frame", "times in seconds", "times in text"],
)
def test_text_pictures_and_films_in_one_sequence(
    family: str, package: str, model: str, rotary: str, layout: list[Any], more: dict[str, Any]
) -> None:
    """Left and right padding stands outside what is counted."""
    layer = next(iter(posenc.from_hf({"model_type": family, **MROPE})))
    assert layer.spec is not None
    assert layer.positions is not None
    where = layer.positions.build(layout)
    module = transformers(package)
    ids = rope_index(model, layout, **more)(module)
    assert_close(where, ids.numpy(), 0, family)
    config = SimpleNamespace(**MROPE, standardize_rope_params=lambda: None)
    turns = getattr(module, rotary)(config)(torch.zeros(1), ids.T[:, None])
    for ours, theirs in zip(posenc.cos_sin(layer.spec, where), turns, strict=True):
        assert_close(ours, theirs[0, :, HALF].numpy(), ORIGINAL, family)


@pytest.mark.parametrize(
    ("config", "package", "function"),
    [
        ({"model_type": "bloom", "n_head": 4, "hidden_size": 16}, "bloom", "build_alibi_tensor"),
        (
            {"model_type": "falcon", "alibi": True, "num_attention_heads": 4, "hidden_size": 16},
            "falcon",
            "build_alibi_tensor",
        ),
    ],
    ids=["bloom", "falcon"],
)
def test_biases_of_keys_that_do_not_count_padding(
    config: dict[str, Any], package: str, function: str
) -> None:
    layer = next(iter(posenc.from_hf(config)))
    assert layer.spec is not None
    assert layer.positions is not None
    theirs = getattr(transformers(package), function)(MASK, 4, torch.float32)
    for row, mask in enumerate(MASK):
        where = layer.positions.build(mask.numpy())
        ours = posenc.bias(layer.spec, where[:1], where)
        # Falcon rounds slopes and products to bfloat16.
        bound = ORIGINAL if package == "bloom" else 2**-7 * np.abs(ours)
        assert_close(ours, theirs.reshape(4, 4, 1, 6)[row].float().numpy(), bound, package)
