"""For each preset of a table, the numbers of the code it describes. Nothing here imports posenc.

An `Original` says what the preset's builder of positions is given and what the published code then
makes, at positions up to 64. Three statuses, and what each is worth:

    ran      the code was called as it is installed here
    golden   the code was run once from its release on PyPI (`golden/make_presets.py`); the numbers
             are stored with version and symbol
    read     the code could not be run; the formula is told again here, from its source
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import math
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "presets.json"
LENGTH = 65
SIZES = (5, 7)  # never square


@dataclass(frozen=True)
class Original:
    """What published code makes of some positions."""

    preset: str
    symbol: str
    package: str  # "transformers", "diffusers", …; its version is read where it runs
    make: Callable[[int], tuple[Any, Any]]  # width -> (what `place` is given, the numbers)
    dims: tuple[int, ...]
    status: str = "ran"
    bits: bool = False  # whether phase="float32" repeats every bit, in torch
    changes: Callable[[int], dict[str, Any]] | None = None  # width -> JSON of changed fields
    more: dict[str, Any] | None = None  # arguments for `place`
    wider: Callable[[int], float] | None = None  # width -> a bound above 1.5e-6, with a reason
    why: str = ""

    @property
    def name(self) -> str:
        """What a test is called."""
        return f"{self.preset}: {self.symbol.rpartition('.')[2]}"


def module(name: str) -> Any:
    """A module, or a skip when its package is not installed."""
    pytest.importorskip("torch", reason="the published code is written in torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what packages say of their own dependencies
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name.partition('.')[0]} is not installed")


def hf(family: str) -> Any:
    """The module `modeling_<family>` of transformers."""
    return module(f"transformers.models.{family}.modeling_{family}")


def config(**fields: Any) -> Any:
    """A stand-in for a config object."""
    return types.SimpleNamespace(**fields)


def torch() -> Any:
    """torch, imported when it is needed."""
    return module("torch")


def counted(length: int = LENGTH, start: int = 0) -> tuple[Any, ...]:
    """Positions start, start + 1, …."""
    return (np.arange(start, start + length),)


def golden(key: str) -> Callable[[int], tuple[Any, Any]]:
    """Stored numbers."""

    def make(dim: int) -> tuple[Any, Any]:
        stored = json.loads(GOLDEN.read_text(encoding="utf-8"))[key]
        values = np.array(stored["values"][str(dim)], dtype=np.float32)
        given = [np.array(item) if isinstance(item, list) else item for item in stored["given"]]
        return tuple(given), values

    return make


# --- one axis -------------------------------------------------------------------------------------


def vaswani(dim: int) -> tuple[Any, Any]:
    """Section 3.5, channel by channel."""
    rows = [
        [
            (math.sin if c % 2 == 0 else math.cos)(p / 10000 ** ((c - c % 2) / dim))
            for c in range(dim)
        ]
        for p in range(LENGTH)
    ]
    return counted(), np.array(rows)


def marian_nmt(dim: int) -> tuple[Any, Any]:
    """The C++ loops, in double: timescale 10000 ** (j / (n - 1)), sines before cosines."""
    n = dim // 2
    rows = [
        [
            f(p * math.exp(j * -math.log(10000.0) / (n - 1)))
            for f in (math.sin, math.cos)
            for j in range(n)
        ]
        for p in range(LENGTH)
    ]
    return counted(), np.array(rows)


def annotated(dim: int) -> tuple[Any, Any]:
    """exp(2i * -(ln 10000 / d)) in float32, times the position."""
    th = torch()
    frequencies = th.exp(th.arange(0, dim, 2).float() * -(math.log(10000.0) / dim))
    angles = th.arange(LENGTH).float()[:, None] * frequencies
    return counted(), th.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def speech_to_text(dim: int) -> tuple[Any, Any]:
    rows = hf("speech_to_text").Speech2TextSinusoidalPositionalEmbedding.get_embedding(
        LENGTH + 2, dim, 1
    )
    mask = np.ones((1, LENGTH), dtype=np.int64)
    mask[0, :3] = 0
    order = np.array([1] * 3 + list(range(2, LENGTH - 1)))
    return (mask,), rows[order][None]


def speecht5(dim: int) -> tuple[Any, Any]:
    embed = hf("speecht5").SpeechT5SinusoidalPositionalEmbedding(LENGTH, dim, padding_idx=1)
    tokens = torch().full((2, 12), 9)
    tokens[0, :4] = 1
    return ((tokens != 1).numpy(),), embed(tokens)


def pegasus_x(dim: int) -> tuple[Any, Any]:
    embed = hf("pegasus_x").PegasusXSinusoidalPositionalEmbedding(dim)
    return counted(), embed(torch().zeros(1, LENGTH, dim))[0]


def xlm(dim: int) -> tuple[Any, Any]:
    out = torch().empty(LENGTH, dim)
    hf("xlm").create_sinusoidal_embeddings(LENGTH, dim, out)
    return counted(), out


def marian(dim: int) -> tuple[Any, Any]:
    embedding = hf("marian").MarianSinusoidalPositionalEmbedding(LENGTH, dim)
    return counted(), embedding.create_weight()


def conformer(dim: int) -> tuple[Any, Any]:
    embed = hf("wav2vec2_conformer").Wav2Vec2ConformerRelPositionalEmbedding(
        config(max_source_positions=LENGTH, hidden_size=dim)
    )
    return (40, -40), embed(torch().zeros(1, 41, dim))[0]


def fastspeech2(dim: int) -> tuple[Any, Any]:
    embed = hf("fastspeech2_conformer").FastSpeech2ConformerRelPositionalEncoding(
        config(hidden_size=dim), {"positional_dropout_rate": 0.0}
    )
    return (40, -40), embed(torch().zeros(1, 41, dim))[1][0]


def xlnet(dim: int) -> tuple[Any, Any]:
    cls = hf("xlnet").XLNetModel
    stand_in = config(d_model=dim, attn_type="bi", bi_data=False, clamp_len=-1)
    stand_in.positional_embedding = cls.positional_embedding
    found = cls.relative_positional_encoding(stand_in, qlen=30, klen=50)
    return (50, -29), found[:, 0]


def funasr(dim: int) -> tuple[Any, Any]:
    embed = hf("fun_asr_nano").FunAsrNanoPositionEmbedding(LENGTH, dim)
    return counted(LENGTH - 1), embed(torch().zeros(1, LENGTH - 1, dim))


def x_transformers(dim: int) -> tuple[Any, Any]:
    embed = module("x_transformers.x_transformers").ScaledSinusoidalEmbedding(dim)
    return counted(), embed(torch().zeros(1, LENGTH, dim)).detach()


def timesfm(dim: int) -> tuple[Any, Any]:
    embed = hf("timesfm").TimesFmPositionalEmbedding(
        config(min_timescale=1, max_timescale=10000, hidden_size=dim)
    )
    return counted(), embed(LENGTH)[0]


def positional_encodings_1d(dim: int) -> tuple[Any, Any]:
    encode = module("positional_encodings.torch_encodings").PositionalEncoding1D(dim)
    return counted(), encode(torch().zeros(1, LENGTH, dim))[0]


# --- grids ----------------------------------------------------------------------------------------

HW = {"h": SIZES[0], "w": SIZES[1]}


def mae(dim: int) -> tuple[Any, Any]:
    th, (h, w) = torch(), SIZES
    grid = th.stack(th.meshgrid(th.arange(w).float(), th.arange(h).float(), indexing="xy"))
    made = module("diffusers.models.embeddings").get_2d_sincos_pos_embed_from_grid(dim, grid)
    return (HW,), th.cat([th.zeros(1, dim), made.float()])


def rt_detr(dim: int) -> tuple[Any, Any]:
    made = hf("rt_detr").build_2d_sinusoidal_position_embedding(*SIZES, dim, cls_token=True)
    return (HW,), made


def omdet(dim: int) -> tuple[Any, Any]:
    build = hf("omdet_turbo").OmDetTurboHybridEncoder.build_2d_sincos_position_embedding
    return (HW,), build(width=SIZES[1], height=SIZES[0], embed_dim=dim)[0]


def timm_sincos(dim: int) -> tuple[Any, Any]:
    """Three functions cut out of the installed package, whose import needs torchvision."""
    package = importlib.util.find_spec("timm")
    if package is None or package.origin is None:
        pytest.skip("timm is not installed")
    scope: dict[str, Any] = {"torch": torch(), "List": list, "Optional": Optional, "Tuple": tuple}
    layers = Path(package.origin).parent / "layers"
    wanted = ("ndgrid", "freq_bands", "build_sincos2d_pos_embed")
    for file in ("grid.py", "pos_embed_sincos.py"):
        tree = ast.parse((layers / file).read_text(encoding="utf-8"))
        found = [node for node in tree.body if getattr(node, "name", None) in wanted]
        exec(compile(ast.Module(found, []), file, "exec"), scope)
    return (HW,), scope["build_sincos2d_pos_embed"](list(SIZES), dim=dim)


def positional_encodings_2d(dim: int) -> tuple[Any, Any]:
    encode = module("positional_encodings.torch_encodings").PositionalEncoding2D(dim)
    return ({"x": 5, "y": 7},), encode(torch().zeros(1, 5, 7, dim))[0].flatten(0, 1)


def positional_encodings_3d(dim: int) -> tuple[Any, Any]:
    encode = module("positional_encodings.torch_encodings").PositionalEncoding3D(dim)
    made = encode(torch().zeros(1, 3, 5, 7, dim))[0].flatten(0, 2)
    return ({"x": 3, "y": 5, "z": 7},), made


def grid_mask() -> Any:
    """Images of 7 x 9 and 5 x 6 in a batch of 7 x 9."""
    mask = np.zeros((2, 7, 9), dtype=np.int64)
    mask[0], mask[1, :5, :6] = 1, 1
    return mask


def channels_last(made: Any) -> Any:
    """(batch, channels, h, w) -> (batch, cells, channels)."""
    return made.flatten(2).transpose(1, 2) if made.ndim == 4 else made


def detr(normalize: bool) -> Callable[[int], tuple[Any, Any]]:
    def make(dim: int) -> tuple[Any, Any]:
        th = torch()
        embed = hf("detr").DetrSinePositionEmbedding(dim // 2, normalize=normalize)
        mask = grid_mask()
        made = embed(
            shape=th.Size((2, 3, 7, 9)), device="cpu", dtype=th.float32, mask=th.tensor(mask)
        )
        return (mask,), channels_last(made)

    return make


def dab_detr(dim: int) -> tuple[Any, Any]:
    fields = {"temperature_height": 20, "temperature_width": 20}
    embed = hf("dab_detr").DabDetrSinePositionEmbedding(
        config(hidden_size=dim, sine_position_embedding_scale=None, **fields)
    )
    return (grid_mask(),), channels_last(embed(torch().zeros(1), torch().tensor(grid_mask())))


def dab_detr_two(dim: int) -> tuple[Any, Any]:
    fields = {"temperature_height": 20, "temperature_width": 31}
    embed = hf("dab_detr").DabDetrSinePositionEmbedding(
        config(hidden_size=dim, sine_position_embedding_scale=None, **fields)
    )
    return (grid_mask(),), channels_last(embed(torch().zeros(1), torch().tensor(grid_mask())))


def grounding_dino(dim: int) -> tuple[Any, Any]:
    embed = hf("grounding_dino").GroundingDinoSinePositionEmbedding(
        config(d_model=dim, positional_embedding_temperature=20)
    )
    return (grid_mask(),), channels_last(embed(torch().zeros(1), torch().tensor(grid_mask())))


CORNERS = np.array([[0, 0, 640, 480], [10, 20, 30, 200], [320, 100, 321, 479]], dtype=np.float32)


def box_queries(dim: int) -> tuple[Any, Any]:
    x0, y0, x1, y1 = (CORNERS / np.array([640, 480, 640, 480], np.float32)).T
    references = np.stack([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0], axis=-1)
    encode = hf("grounding_dino").encode_sinusoidal_position_embedding
    return (CORNERS,), encode(torch().tensor(references), num_pos_feats=dim // 4)


def diffusers_2d(dim: int) -> tuple[Any, Any]:
    build = module("diffusers.models.embeddings").get_2d_sincos_pos_embed
    return (HW,), build(dim, SIZES, base_size=16)


def diffusers_2d_scaled(dim: int) -> tuple[Any, Any]:
    build = module("diffusers.models.embeddings").get_2d_sincos_pos_embed
    return (HW,), build(dim, SIZES, base_size=9, interpolation_scale=1.7)


def diffusers_3d(scales: tuple[float, float]) -> Callable[[int], tuple[Any, Any]]:
    def make(dim: int) -> tuple[Any, Any]:
        space, time = scales
        made = module("diffusers.models.embeddings").get_3d_sincos_pos_embed(
            dim, (7, 5), 3, spatial_interpolation_scale=space, temporal_interpolation_scale=time
        )
        return ({"t": 3, "h": 5, "w": 7},), made.flatten(0, 1)

    return make


# --- Fourier features -----------------------------------------------------------------------------


def perceiver(dim: int) -> tuple[Any, Any]:
    encode = hf("perceiver").PerceiverFourierPositionEncoding((dim - 2) // 4, SIZES)
    made = encode(list(SIZES), 1, device="cpu", dtype=torch().float32)
    return (HW,), made[0]


def perceiver_changes(dim: int) -> dict[str, Any]:
    band = {"type": "Ladder", "spacing": "linear", "first": math.pi}
    return {"ladder": [{**band, "last": math.pi * size / 2} for size in SIZES]}


def nerf(dim: int) -> tuple[Any, Any]:
    """`Embedder`, told again: the input, then sin and cos of 2 ** k times it, band by band."""
    x = np.random.default_rng(0).uniform(-1, 1, (20, 3)).astype(np.float32)
    bands = 2.0 ** np.arange((dim - 3) // 6, dtype=np.float32)
    parts = [x] + [f(x * band) for band in bands for f in (np.sin, np.cos)]
    return (x,), np.concatenate(parts, axis=-1)


def gaussian(axes: int, pairs: int, sigma: float) -> list[list[float]]:
    """A matrix that stands for that of a checkpoint."""
    drawn = np.random.default_rng(7).normal(0.0, sigma, (axes, pairs)).astype(np.float32)
    return drawn.tolist()


def matrix(axes: int, sigma: float) -> Callable[[int], dict[str, Any]]:
    def changes(dim: int) -> dict[str, Any]:
        rows = gaussian(axes, dim // 2, sigma)
        return {"ladder": {"type": "FrequencyMatrix", "rows": rows, "unit": "turns"}}

    return changes


def sam(sigma: float) -> Callable[[int], tuple[Any, Any]]:
    def make(dim: int) -> tuple[Any, Any]:
        th, (h, w) = torch(), SIZES
        embed = hf("sam").SamPositionalEmbedding(config(scale=sigma, num_pos_feats=dim // 2))
        embed.positional_embedding.data = th.tensor(gaussian(2, dim // 2, sigma))
        ys, xs = th.meshgrid((th.arange(h) + 0.5) / h, (th.arange(w) + 0.5) / w, indexing="ij")
        return (HW,), embed(th.stack([xs, ys], dim=-1)).detach().flatten(0, 1)

    return make


def gaussian_time(dim: int) -> tuple[Any, Any]:
    th = torch()
    project = module("diffusers.models.embeddings").GaussianFourierProjection(dim // 2, log=True)
    project.weight.data = th.tensor(gaussian(1, dim // 2, 1.0)[0])
    levels = th.linspace(0.01, 5.0, 20)
    return (th.log(levels).numpy(),), project(levels).detach()


TIMES = np.concatenate([np.arange(65), np.linspace(0, 64, 40)]).astype(np.float32)


def timestep(**arguments: Any) -> Callable[[int], tuple[Any, Any]]:
    def make(dim: int) -> tuple[Any, Any]:
        embed = module("diffusers.models.embeddings").get_timestep_embedding
        return (TIMES,), embed(torch().tensor(TIMES), dim, **arguments)

    return make


HFM = "transformers.models."
DFM = "diffusers.models.embeddings."


def of_hf(family: str, symbol: str) -> str:
    return f"{HFM}{family}.modeling_{family}.{symbol}"


def generator(family: str, symbol: str) -> Callable[[int], tuple[Any, Any]]:
    """A function (length, dim) of transformers."""
    return lambda dim: (counted(), getattr(hf(family), symbol)(LENGTH, dim))


EVEN, ODD = (8, 16), (8, 9, 16, 17)
ORIGINALS: tuple[Original, ...] = (
    Original("vaswani2017", "section 3.5", "arXiv:1706.03762", vaswani, ODD, "read"),
    Original(
        "tensor2tensor",
        "tensor2tensor.layers.common_attention.get_timing_signal_1d",
        "tensor2tensor",
        golden("tensor2tensor"),
        ODD,
        "golden",
    ),
    Original(
        "fairseq",
        of_hf("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding"),
        "transformers",
        speech_to_text,
        ODD,
        bits=True,
    ),
    Original(
        "fairseq",
        "fairseq.modules.sinusoidal_positional_embedding.SinusoidalPositionalEmbedding",
        "fairseq",
        golden("fairseq"),
        ODD,
        "golden",
    ),
    Original(
        "whisper",
        of_hf("whisper", "sinusoids"),
        "transformers",
        generator("whisper", "sinusoids"),
        EVEN,
        bits=True,
    ),
    Original(
        "whisper", "whisper.model.sinusoids", "openai-whisper", golden("whisper"), EVEN, "golden"
    ),
    Original("marian-nmt", "sinusoidalPositionEmbeddings", "marian-dev", marian_nmt, EVEN, "read"),
    Original(
        "marian-transformers",
        of_hf("marian", "MarianSinusoidalPositionalEmbedding"),
        "transformers",
        marian,
        ODD,
    ),
    Original(
        "pegasus-original",
        of_hf("pegasus_x", "PegasusXSinusoidalPositionalEmbedding"),
        "transformers",
        pegasus_x,
        EVEN,
        bits=True,
    ),
    Original(
        "annotated-transformer",
        "PositionalEncoding",
        "annotated-transformer",
        annotated,
        EVEN,
        "read",
        bits=True,
    ),
    Original("xlm", of_hf("xlm", "create_sinusoidal_embeddings"), "transformers", xlm, ODD),
    Original(
        "speecht5-speech",
        of_hf("speecht5", "SpeechT5SinusoidalPositionalEmbedding"),
        "transformers",
        speecht5,
        ODD,
        bits=True,
    ),
    Original(
        "conformer-relative",
        of_hf("wav2vec2_conformer", "Wav2Vec2ConformerRelPositionalEmbedding"),
        "transformers",
        conformer,
        EVEN,
        bits=True,
    ),
    Original(
        "conformer-relative",
        of_hf("fastspeech2_conformer", "FastSpeech2ConformerRelPositionalEncoding"),
        "transformers",
        fastspeech2,
        EVEN,
        bits=True,
    ),
    Original(
        "conformer-relative",
        "espnet.nets.pytorch_backend.transformer.embedding.RelPositionalEncoding",
        "espnet",
        golden("espnet"),
        EVEN,
        "golden",
    ),
    Original(
        "transformer-xl",
        of_hf("xlnet", "XLNetModel.relative_positional_encoding"),
        "transformers",
        xlnet,
        EVEN,
        bits=True,
    ),
    Original(
        "videoprism",
        of_hf("gptj", "create_sinusoidal_positions"),
        "transformers",
        generator("gptj", "create_sinusoidal_positions"),
        EVEN,
        bits=True,
    ),
    Original(
        "funasr-nano",
        of_hf("fun_asr_nano", "FunAsrNanoPositionEmbedding"),
        "transformers",
        funasr,
        EVEN,
        bits=True,
    ),
    Original(
        "qwen-omni-audio",
        of_hf("qwen2_5_omni", "SinusoidsPositionEmbedding"),
        "transformers",
        lambda dim: (counted(), hf("qwen2_5_omni").SinusoidsPositionEmbedding(LENGTH, dim)(LENGTH)),
        EVEN,
        bits=True,
    ),
    Original(
        "positional-encodings",
        "positional_encodings.torch_encodings.PositionalEncoding1D",
        "positional-encodings",
        positional_encodings_1d,
        ODD,
        bits=True,
    ),
    Original(
        "x-transformers",
        "x_transformers.x_transformers.ScaledSinusoidalEmbedding",
        "x-transformers",
        x_transformers,
        EVEN,
    ),
    Original(
        "keras-hub",
        "keras_hub.layers.SinePositionEncoding",
        "keras-hub",
        golden("keras-hub"),
        ODD,
        "golden",
    ),
    Original(
        "timesfm",
        of_hf("timesfm", "TimesFmPositionalEmbedding"),
        "transformers",
        timesfm,
        EVEN,
        bits=True,
    ),
    Original(
        "mae",
        DFM + "get_2d_sincos_pos_embed_from_grid",
        "diffusers",
        mae,
        (16, 24),
        more={"prefix": 1},
    ),
    Original(
        "rt-detr",
        of_hf("rt_detr", "build_2d_sinusoidal_position_embedding"),
        "transformers",
        rt_detr,
        (16, 24),
        more={"prefix": 1},
    ),
    Original(
        "simple-vit",
        "vit_pytorch.simple_vit.posemb_sincos_2d",
        "vit-pytorch",
        golden("simple-vit"),
        (16, 24),
        "golden",
    ),
    Original(
        "omdet-turbo",
        of_hf("omdet_turbo", "OmDetTurboHybridEncoder.build_2d_sincos_position_embedding"),
        "transformers",
        omdet,
        (16, 24),
        bits=True,
    ),
    Original(
        "timm-sincos-2d",
        "timm.layers.build_sincos2d_pos_embed",
        "timm",
        timm_sincos,
        (16, 24),
        bits=True,
    ),
    Original(
        "tensor2tensor-2d",
        "tensor2tensor.layers.common_attention.add_timing_signal_nd",
        "tensor2tensor",
        golden("tensor2tensor-2d"),
        (16, 18),
        "golden",
    ),
    Original(
        "positional-encodings-2d",
        "positional_encodings.torch_encodings.PositionalEncoding2D",
        "positional-encodings",
        positional_encodings_2d,
        (6, 10, 12, 16),
        bits=True,
    ),
    Original(
        "positional-encodings-3d",
        "positional_encodings.torch_encodings.PositionalEncoding3D",
        "positional-encodings",
        positional_encodings_3d,
        (6, 10, 12, 18),
        bits=True,
    ),
    Original(
        "detr",
        of_hf("detr", "DetrSinePositionEmbedding"),
        "transformers",
        detr(normalize=False),
        (16, 24),
    ),
    Original(
        "detr-normalised",
        of_hf("detr", "DetrSinePositionEmbedding"),
        "transformers",
        detr(normalize=True),
        (16, 24),
    ),
    Original(
        "dab-detr",
        of_hf("dab_detr", "DabDetrSinePositionEmbedding"),
        "transformers",
        dab_detr,
        (16, 24),
    ),
    Original(
        "dab-detr",
        of_hf("dab_detr", "DabDetrSinePositionEmbedding, two temperatures"),
        "transformers",
        dab_detr_two,
        (16,),
        changes=lambda _: {"base": [20.0, 31.0]},
    ),
    Original(
        "grounding-dino",
        of_hf("grounding_dino", "GroundingDinoSinePositionEmbedding"),
        "transformers",
        grounding_dino,
        (16, 24),
    ),
    Original(
        "box-queries",
        of_hf("grounding_dino", "encode_sinusoidal_position_embedding"),
        "transformers",
        box_queries,
        (16, 32),
        more={"size": (640, 480)},
    ),
    Original("diffusers-2d", DFM + "get_2d_sincos_pos_embed", "diffusers", diffusers_2d, (16, 24)),
    Original(
        "diffusers-2d",
        DFM + "get_2d_sincos_pos_embed, interpolated",
        "diffusers",
        diffusers_2d_scaled,
        (16,),
        more={"reference": 9, "scale": 1.7},
    ),
    Original(
        "diffusers-3d",
        DFM + "get_3d_sincos_pos_embed",
        "diffusers",
        diffusers_3d((1.0, 1.0)),
        (16, 32),
    ),
    Original(
        "diffusers-3d",
        DFM + "get_3d_sincos_pos_embed, interpolated",
        "diffusers",
        diffusers_3d((1.875, 0.5)),
        (32,),
        more={"scale": (0.5, 1.875, 1.875)},
    ),
    Original(
        "perceiver",
        of_hf("perceiver", "PerceiverFourierPositionEncoding"),
        "transformers",
        perceiver,
        (18, 26),
        changes=perceiver_changes,
    ),
    Original("nerf", "Embedder", "bmild/nerf", nerf, (27, 39), "read"),
    Original(
        "sam",
        of_hf("sam", "SamPositionalEmbedding"),
        "transformers",
        sam(1.0),
        (16,),
        changes=matrix(2, 1.0),
    ),
    Original(
        "gaussian-fourier-time",
        DFM + "GaussianFourierProjection",
        "diffusers",
        gaussian_time,
        (16,),
        changes=matrix(1, 1.0),
    ),
    Original(
        "ddpm-timestep", DFM + "get_timestep_embedding", "diffusers", timestep(), ODD, bits=True
    ),
    Original(
        "diffusion-timestep",
        DFM + "get_timestep_embedding, flipped",
        "diffusers",
        timestep(flip_sin_to_cos=True, downscale_freq_shift=0),
        ODD,
        bits=True,
    ),
)
