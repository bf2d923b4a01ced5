"""The rotary modules of diffusers' transformers, and the positions that its pipelines give them.

A class is built on `meta` at its published size, and the module that it made for its rotation is
made anew on the CPU from the arguments that `__init__` gave it: no weights, and the code decides.
"""

from __future__ import annotations

import functools
import inspect
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

Grid = tuple[int, int, int]
# What classes need beside their name to be built.
FACTORS = {
    key: [1.0 + j / over for j in range(48)]
    for key, over in (("short_factor", 48), ("long_factor", 3))
}
SETTINGS: dict[str, dict[str, Any]] = {
    "CogVideoXTransformer3DModel": {"use_rotary_positional_embeddings": True},
    "ConsisIDTransformer3DModel": {"use_rotary_positional_embeddings": True},
    "EasyAnimateTransformer3DModel": {"patch_size": 2, "in_channels": 16, "out_channels": 16},
    "HiDreamImageTransformer2DModel": {
        "patch_size": 2, "attention_head_dim": 128, "axes_dims_rope": [64, 32, 32],
        "llama_layers": [0], "caption_channels": [8, 8],
    },
    "HunyuanDiT2DModel": {"patch_size": 2, "in_channels": 4},
    "Kandinsky6Transformer3DModel": {
        "axes_dims_a": [16, 24, 24], "model_dim_a": 512, "ff_dim_a": 64, "time_dim_a": 64
    },
    "LuminaNextDiT2DModel": {"num_kv_heads": 32},
    "OmniGenTransformer2DModel": {"rope_scaling": FACTORS},
}  # fmt: skip


def classes() -> Any:
    """The module that lists the transformers of diffusers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("diffusers", reason="diffusers is not installed")
        return pytest.importorskip("diffusers.models.transformers")


def names() -> list[str]:
    """Every transformer class of the installed diffusers."""
    models, mixin = classes(), __import__("diffusers").ModelMixin
    offered = {name: getattr(models, name) for name in dir(models)}
    return sorted(k for k, v in offered.items() if inspect.isclass(v) and issubclass(v, mixin))


@contextmanager
def recorded() -> Iterator[None]:
    """Have modules remember the arguments that they were made with."""
    made = torch.nn.Module.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        code = None if caller is None else getattr(type(self).__init__, "__code__", None)
        if caller is not None and caller.f_code is code:
            names = code.co_varnames[1 : code.co_argcount]
            vars(self)["made_with"] = {name: caller.f_locals[name] for name in names}

    torch.nn.Module.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.__init__ = made  # type: ignore[method-assign]


def model(name: str) -> Any:
    """A class at its published size, without numbers."""
    return _model(name, json.dumps(SETTINGS.get(name, {})))


@functools.cache
def _model(name: str, settings: str) -> Any:
    cls: Any = getattr(classes(), name)
    with recorded(), torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**json.loads(settings))


def module(name: str, path: str) -> Any:
    """The rotary module of a class, made anew on the CPU."""
    made = getattr(model(name), path)
    if not isinstance(made, torch.nn.Module):  # a plain class, that keeps what it was given
        return type(made)(made.theta, made.axes_dims, made.axes_lens)
    return type(made)(**vars(made)["made_with"])


@contextmanager
def in_doubles() -> Iterator[None]:
    """Have the code that says float32 compute in float64."""
    floats = mock.patch.object(torch.Tensor, "float", torch.Tensor.double)
    with mock.patch.object(torch, "float32", torch.float64), floats:
        yield


def cis(cos: Any, sin: Any, order: str) -> np.ndarray:
    """One complex number for each pair, from tables with one for each channel."""
    half = cos.shape[-1] // 2
    pick = (lambda t: t[..., :half]) if order == "half" else (lambda t: t[..., 0::2])
    return np.asarray(torch.complex(pick(cos).double(), pick(sin).double()))


def of_matrices(rows: Any) -> np.ndarray:
    """One complex number for each pair, from matrices of two rows and columns."""
    return np.asarray(torch.complex(rows[..., 0, 0].double(), rows[..., 1, 0].double()))


def latents(grid: Grid, patch: tuple[int, ...], flat: bool = False) -> Any:
    """Latents without channels, whose size alone is read."""
    sizes = [size * step for size, step in zip(grid, patch, strict=True)]
    return torch.empty(1, 0, *sizes[flat:])


# --- tables by class: (text tokens, grid) -> part -> (tokens, pairs) ------------------------------
Tables = dict[str, np.ndarray]


def pipeline(folder: str, file: str, cls: str) -> Any:
    """A pipeline, or the module where a function of it stands."""
    found = pytest.importorskip(f"diffusers.pipelines.{folder}.{file}")
    return getattr(found, cls) if cls else found


def plane(grid: Grid, *, frame: int = 0) -> Any:
    """Ids (frame, row, column) of a picture, as most pipelines make them."""
    flux = pipeline("flux", "pipeline_flux", "FluxPipeline")
    ids = flux._prepare_latent_image_ids(1, *grid[1:], "cpu", torch.float32)
    ids[..., 0] = frame
    return ids


def by_ids(name: str, path: str, ids: dict[str, Any], order: str = "interleaved") -> Tables:
    rope = module(name, path)
    return {part: cis(*rope(one.float()), order) for part, one in ids.items()}


def flux(name: str, path: str, text: int, grid: Grid) -> Tables:
    ids = {"text": torch.zeros(text, 3), "image": plane(grid)}
    if name == "FluxTransformer2DModel":  # as FluxKontextPipeline.prepare_latents
        ids["reference"] = plane((1, grid[1] + 1, grid[2]), frame=1)
    return by_ids(name, path, ids)


def krea(name: str, path: str, text: int, grid: Grid) -> Tables:
    made = pipeline("krea2", "pipeline_krea2", "Krea2Pipeline")
    ids = made.prepare_position_ids(text, *grid[1:], "cpu")
    return by_ids(name, path, {"text": ids[:text], "image": ids[text:]})


def ovis(name: str, path: str, text: int, grid: Grid) -> Tables:
    ids = torch.zeros(text, 3)
    ids[:, 1] = ids[:, 2] = torch.arange(text)  # as `_prepare_prompt_embeds` writes them
    return by_ids(name, path, {"text": ids, "image": plane(grid)})


def longcat(name: str, path: str, text: int, grid: Grid) -> Tables:
    ids = pipeline("longcat_image", "pipeline_longcat_image_edit", "prepare_pos_ids")
    start = {"start": (text, text), "type": "image", "width": grid[2]}
    parts = {
        "text": ids(modality_id=0, type="text", start=(0, 0), num_token=text),
        "image": ids(modality_id=1, height=grid[1], **start),
        "reference": ids(modality_id=2, height=grid[1] + 1, **start),
    }
    return by_ids(name, path, parts)


def flux2(name: str, path: str, text: int, grid: Grid) -> Tables:
    made = pipeline("flux2", "pipeline_flux2", "Flux2Pipeline")
    references = [torch.empty(1, 0, grid[1] + 1 + k, grid[2]) for k in range(2)]
    one, two = made._prepare_image_ids(references)[0].split(
        [r.shape[2] * r.shape[3] for r in references]
    )
    parts = {
        "text": made._prepare_text_ids(torch.empty(1, text, 0))[0],
        "image": made._prepare_latent_ids(torch.empty(1, 0, *grid[1:]))[0],
        "reference": one,
        "reference 2": two,
    }
    return by_ids(name, path, parts)


def hidream(name: str, path: str, text: int, grid: Grid) -> Tables:
    rope = module(name, path)
    parts = {"image": plane(grid), "text": torch.zeros(text, 3)}
    return {part: of_matrices(rope(ids[None])[0, :, 0]) for part, ids in parts.items()}


def z_image(name: str, path: str, text: int, grid: Grid) -> Tables:
    rope, cls = module(name, path), getattr(classes(), name)
    pad, image = -text % 32, -(grid[0] * grid[1] * grid[2]) % 32
    _, texts, *_ = cls._pad_with_ids(
        cls, torch.empty(text, 0), (text + pad, 1, 1), (1, 0, 0), "cpu"
    )
    count = grid[0] * grid[1] * grid[2]
    _, cells, *_ = cls._pad_with_ids(
        cls, torch.empty(count, 0), grid, (text + pad + 1, 0, 0), "cpu"
    )
    ids = {"text": texts[: text + pad], "image": cells[: count + image]}
    return {part: np.asarray(rope(one)).astype(complex) for part, one in ids.items()}


def fibo2(name: str, path: str, text: int, grid: Grid) -> Tables:
    rope, cls = module(name, path), getattr(classes(), name)
    most = model(name).config.max_num_gist_tokens
    starts = {"gist": ((text, 1, 1), 1), "image": (grid, most + 1), "reference": (grid, most + 2)}
    ids = {
        k: cls.create_coordinate_grid(s, (t, 0, 0)).flatten(0, 2) for k, (s, t) in starts.items()
    }
    return {part: np.asarray(rope(one)).astype(complex) for part, one in ids.items()}


def prx(name: str, path: str, text: int, grid: Grid) -> Tables:
    ids = pytest.importorskip("diffusers.models.transformers.transformer_prx").get_image_ids
    made = module(name, path)(ids(1, *grid[1:], 1, "cpu"))
    return {"image": of_matrices(made[0, 0])}


def lumina2(name: str, path: str, text: int, grid: Grid) -> Tables:
    picture, mask = (
        torch.empty(1, 0, 2 * grid[1], 2 * grid[2]),
        torch.ones(1, text, dtype=torch.int64),
    )
    _, texts, cells, *_ = module(name, path)(picture, mask)
    return {
        "text": np.asarray(texts[0]).astype(complex),
        "image": np.asarray(cells[0]).astype(complex),
    }


def qwen(name: str, path: str, text: int, grid: Grid) -> Tables:
    rope = module(name, path)
    shapes = [grid] if "Nucleus" in name else [grid, (1, grid[1] + 3, grid[2]), (1, 3, 2)]
    cells, texts = rope([shapes], max_txt_seq_len=text, device=torch.device("cpu"))
    parts = dict(zip(("image", "reference", "reference 2"), _split(cells, shapes), strict=False))
    return {"text": np.asarray(texts).astype(complex), **parts}


def layered(name: str, path: str, text: int, grid: Grid) -> Tables:
    kind = pytest.importorskip("diffusers.models.transformers.transformer_qwenimage")
    shapes = [grid, grid, (1, grid[1] + 3, grid[2])]
    rope = kind.QwenEmbedLayer3DRope(10000, [16, 56, 56], scale_rope=True)
    cells, texts = rope([shapes], text, device=torch.device("cpu"))
    parts = dict(zip(("image", "image 2", "reference"), _split(cells, shapes), strict=True))
    return {"text": np.asarray(texts).astype(complex), **parts}


def qwen21(name: str, path: str, text: int, grid: Grid) -> Tables:
    other = (1, grid[1] + 3, grid[2])
    counts = [text, other[1] * other[2], text + 1, grid[1] * grid[2]]
    mask = torch.cat([torch.full((n,), bool(k % 2)) for k, n in enumerate(counts)])
    rows = module(name, path)([other, (1, *grid[1:])], mask, torch.device("cpu"))
    pieces = rows.split(counts)
    return dict(
        zip(
            ("text", "reference", "text 2", "image"),
            (np.asarray(one).astype(complex) for one in pieces),
            strict=True,
        )
    )


def _split(rows: Any, shapes: list[Grid]) -> list[np.ndarray]:
    counts = [int(np.prod(shape)) for shape in shapes]
    return [np.asarray(one).astype(complex) for one in rows.split(counts)]


def joy(name: str, path: str, text: int, grid: Grid) -> Tables:
    made = model(name)
    with torch.device("cpu"):
        cells, texts = made.get_rotary_pos_embed(list(grid), text)
    turning = {"video": cells} | ({"text": texts} if made.config.rope_type == "mrope" else {})
    return {part: cis(*tables, "interleaved") for part, tables in turning.items()}


def joy_plus(name: str, path: str, text: int, grid: Grid) -> Tables:
    made, other = model(name), (1, grid[1] + 1, grid[2])
    stops = {"image": ((0, 0, 0), grid), "reference": ((grid[0], 0, 0), (grid[0] + 1, *other[1:]))}
    return {
        part: cis(*made._get_rotary_pos_embed_for_range(*ends), "interleaved")
        for part, ends in stops.items()
    }


def film(patch: tuple[int, int, int], order: str = "interleaved", part: str = "video") -> Any:
    def tables(name: str, path: str, text: int, grid: Grid) -> Tables:
        cos, sin = module(name, path)(latents(grid, patch))
        return {part: cis(cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, sin.shape[-1]), order)}

    return tables


def picture(patch: tuple[int, int, int], order: str = "interleaved") -> Any:
    def tables(name: str, path: str, text: int, grid: Grid) -> Tables:
        return {"image": cis(*module(name, path)(latents(grid, patch, flat=True)), order)}

    return tables


def frames(name: str, path: str, text: int, grid: Grid) -> Tables:
    times = torch.arange(grid[0]) + 7
    made = module(name, path)
    if "Helios" in name:
        rows = made(times[None], *grid[1:], "cpu")[0].flatten(1).transpose(0, 1)
        return {"video": cis(*rows.chunk(2, dim=-1), "interleaved")}
    return {"video": cis(*made(times, 2 * grid[1], 2 * grid[2], "cpu"), "interleaved")}


def anyflow(name: str, path: str, text: int, grid: Grid) -> Tables:
    rows = module(name, path)._forward_full_frame(*grid, torch.device("cpu"))
    return {"video": np.asarray(rows.flatten(0, 2)).astype(complex)}


def sana_wm(name: str, path: str, text: int, grid: Grid) -> Tables:
    return {"video": np.asarray(module(name, path)(grid, "cpu")[0, 0]).astype(complex)}


def animate2(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = pytest.importorskip("diffusers.models.transformers.transformer_wan_animate_2")
    made = model(name)
    config = made.config
    x = torch.zeros(1, int(np.prod(grid)), 1, config.dim // config.num_heads)
    x[..., 0::2] = 1.0
    stated = (config.refer_offset_t, config.refer_offset_h, config.refer_offset_w)
    behind = tuple(size if at < 0 else at for at, size in zip(stated, grid, strict=True))
    turned = {}
    for part, offsets, stride in (
        ("video", (0, 0, 0), 1), ("reference", behind, config.refer_stride)
    ):  # fmt: skip
        made.rope_freqs_cache.clear()
        freqs = made._rope_freqs(offsets, torch.device("cpu"))
        rows = code.rope_apply(x, torch.tensor([grid]), freqs, stride)
        turned[part] = np.asarray(
            torch.view_as_complex(rows[0, :, 0].double().unflatten(-1, (-1, 2)))
        )
    return turned


def kandinsky(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = model(name)
    places = tuple(torch.arange(size) for size in grid)
    visual = module(name, "visual_rope_embeddings")
    if "5" in name:
        rows = visual((1, *grid), places, (1.0, 2.0, 2.0))[0]
        texts = module(name, "text_rope_embeddings")(torch.arange(text))
        return {
            "visual:video": of_matrices(rows.flatten(0, 2)[:, 0]),
            "text:text": of_matrices(texts[:, 0]),
        }
    rows = of_matrices(visual(places, code.config.scale_factor).flatten(0, 2)[:, 0])
    if not hasattr(code, "video_text_rope_embeddings"):
        return {"video": rows}
    one_axis = {
        "text:text": "video_text_rope_embeddings",
        "audio:audio": "audio_rope_embeddings",
        "audio_text:text": "audio_text_rope_embeddings",
    }
    counted = {
        k: of_matrices(module(name, p)(torch.arange(text))[:, 0]) for k, p in one_axis.items()
    }
    return {"visual:video": rows, **counted}


def cogvideo(name: str, path: str, text: int, grid: Grid) -> Tables:
    file = ("consisid", "pipeline_consisid", "ConsisIDPipeline")
    file = file if "ConsisID" in name else ("cogvideo", "pipeline_cogvideox", "CogVideoXPipeline")
    config = model(name).config
    holder = SimpleNamespace(vae_scale_factor_spatial=8, transformer=SimpleNamespace(config=config))
    make = pipeline(*file)._prepare_rotary_positional_embeddings
    return {"video": cis(*make(holder, 16 * grid[1], 16 * grid[2], grid[0], "cpu"), "interleaved")}


def hunyuan_dit(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = pipeline("hunyuandit", "pipeline_hunyuandit", "")
    crop = code.get_resize_crop_region_for_grid(grid[1:], 32)
    width = model(name).config.attention_head_dim
    return {"image": cis(*code.get_2d_rotary_pos_embed(width, crop, grid[1:]), "interleaved")}


def lumina(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = pipeline("lumina", "pipeline_lumina", "")
    rows = code.get_2d_rotary_pos_embed_lumina(model(name).head_dim, 384, 384)
    return {"image": np.asarray(rows[: grid[1], : grid[2]].flatten(0, 1)).astype(complex)}


def allegro(name: str, path: str, text: int, grid: Grid) -> Tables:
    make = pipeline(
        "allegro", "pipeline_allegro", "AllegroPipeline"
    )._prepare_rotary_positional_embeddings
    holder = SimpleNamespace(
        vae_scale_factor_spatial=8, transformer=SimpleNamespace(config=model(name).config)
    )
    tables, places = make(holder, 1, 16 * grid[1], 16 * grid[2], grid[0], "cpu")
    rows = [cis(*t, "half")[p[0].numpy()] for t, p in zip(tables, places, strict=True)]
    return {"video": np.concatenate(rows, axis=-1)}


def cosmos(name: str, path: str, text: int, grid: Grid) -> Tables:
    return {"video": cis(*module(name, path)(latents(grid, (1, 2, 2)), fps=30), "half")}


def steps(folder: str) -> Any:
    """The module where a modular pipeline makes positions."""
    return pytest.importorskip(f"diffusers.modular_pipelines.{folder}.before_denoise")


def flux3(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = steps("flux3")
    references = [code._prepare_image_ids(grid[1] + 1 + k, grid[2], 0.5, -1 - k) for k in range(2)]
    ids = {
        "text": code.Flux3TextRoPEInputsStep._prepare_text_ids(torch.empty(1, text, 0)),
        "image": code._prepare_image_ids(*grid[1:], 0.5),
        "reference": references[0], "reference 2": references[1],
    }  # fmt: skip
    return by_ids(name, path, ids)


def minimax_h3(name: str, path: str, text: int, grid: Grid) -> Tables:
    make = steps("minimax_h3").MiniMaxH3PrepareLayoutStep.build_packed_sequence
    sizes = (grid[0], 2 * grid[1], 2 * grid[2], text, (1, 2, 2), 2, 2, 0)
    ids = make(torch.ones(text), *sizes, ("first", "last"))[0]
    cells = grid[1] * grid[2]
    counts = [text, cells, cells, 2 * text, grid[0] * cells]
    rows = torch.from_numpy(cis(*module(name, path)(ids), "half")).split(counts)
    return dict(
        zip(("text", "first", "last", "audio", "video"), map(np.asarray, rows), strict=True)
    )


def ideogram(name: str, path: str, text: int, grid: Grid) -> Tables:
    make = pipeline("ideogram4", "pipeline_ideogram4", "Ideogram4Pipeline")._prepare_ids
    ids = make([text], *grid[1:], text + 3, "cpu")[0][0, 3:]
    rows = cis(*(one[0] for one in module(name, path)(ids[None])), "half")
    return {"text": rows[:text], "image": rows[text:]}


def cosmos3(name: str, path: str, text: int, grid: Grid) -> Tables:
    code = pipeline("cosmos", "pipeline_cosmos3_omni", "")
    texts, after = code.get_3d_mrope_ids_text_tokens(text, 0)
    config = model(name).config
    start = after + config.unified_3d_mrope_temporal_modality_margin
    cells, _ = code.get_3d_mrope_ids_vae_tokens(*grid, start, fps=30.0, base_fps=config.base_fps)
    rope = module(name, path)
    return {
        part: cis(*(one[0] for one in rope(ids[:, None], "cpu", torch.float32)), "half")
        for part, ids in (("text", texts), ("video", cells))
    }


def ltx(name: str, path: str, text: int, grid: Grid) -> Tables:
    cos, sin = module(name, path)(
        torch.empty(1, 0), *grid, rope_interpolation_scale=(8 / 25, 32, 32)
    )
    rows = cis(cos[0], sin[0], "interleaved")
    config = model(name).config
    return {"video": rows[:, config.num_attention_heads * config.attention_head_dim % 6 // 2 :]}


def ltx2(name: str, path: str, text: int, grid: Grid) -> Tables:
    rope = module(name, "rope")

    def pairs(answer: Any) -> np.ndarray:
        if answer[0].ndim < 4:
            return cis(*(one[0] for one in answer), "interleaved")
        cos, sin = (one[0].double().transpose(0, 1).flatten(1) for one in answer)  # "split": heads
        return np.asarray(torch.complex(cos, sin))

    coords = rope.prepare_video_coords(1, *grid, torch.device("cpu"), fps=30.0)
    rows = {"video:video": pairs(rope(coords))}
    if "Refiner" not in name:
        audio = module(name, "audio_rope")
        sound = audio.prepare_audio_coords(1, text, torch.device("cpu"))
        places = {
            "audio:audio": ("audio_rope", sound),
            "cross.video:video": ("cross_attn_rope", coords[:, 0:1]),
            "cross.audio:audio": ("cross_attn_audio_rope", sound[:, 0:1]),
        }
        for entry, (one, where) in places.items():
            rows[entry] = pairs(module(name, one)(where))
    return rows


def one_axis(name: str, path: str, text: int, grid: Grid) -> Tables:
    kind = model(name)
    if "AceStep" in name:
        code = pytest.importorskip("diffusers.models.transformers.ace_step_transformer")
        rows = code._ace_step_rotary_freqs(
            text, kind.head_dim, kind.rope_theta, "cpu", torch.float32
        )
        return {"audio": cis(*rows, "half")}
    if "StableAudioDiT" in name:
        code = pipeline("stable_audio", "pipeline_stable_audio", "")
        rows = code.get_1d_rotary_pos_embed(
            kind.config.attention_head_dim // 2,
            text + 1,
            use_real=True,
            repeat_interleave_real=False,
        )
        made = cis(*rows, "half")
        return {"condition": made[:1], "audio": made[1:]}
    rope = module(name, path)
    if "StableAudio3" in name:
        before = kind.config.num_memory_tokens
        angles = rope(text + before, "cpu")
        return {"audio": cis(angles.cos(), angles.sin(), "half")[before:]}
    if "LongCat" in name:
        made = cis(*rope(torch.empty(1, text, 0)), "half")
        return {"attention:audio": made, "cross:text": made}
    return {"audio": cis(*rope(text, torch.device("cpu")), "half")}


def omnigen(name: str, path: str, text: int, grid: Grid) -> Tables:
    total = text + 1 + grid[1] * grid[2]
    rows = cis(*module(name, path)(torch.empty(0), torch.arange(total)[None]), "half")
    return {"attention:text": rows[:text], "attention:image": rows[text + 1 :]}


WAN, HUNYUAN = film((1, 2, 2)), film((1, 2, 2))
TABLES: dict[str, Callable[[str, str, int, Grid], Tables]] = {
    **{f"{name}Transformer2DModel": flux for name in ("Flux", "Chroma", "Bria", "BriaFibo")},
    "Krea2Transformer2DModel": krea,
    "OvisImageTransformer2DModel": ovis,
    "LongCatImageTransformer2DModel": longcat,
    "Flux2Transformer2DModel": flux2,
    "Flux3Transformer2DModel": flux3,
    "HiDreamImageTransformer2DModel": hidream,
    "ZImageTransformer2DModel": z_image,
    "BriaFibo2Transformer2DModel": fibo2,
    "PRXTransformer2DModel": prx,
    "Lumina2Transformer2DModel": lumina2,
    "QwenImageTransformer2DModel": qwen,
    "QwenImage21Transformer2DModel": qwen21,
    "NucleusMoEImageTransformer2DModel": qwen,
    "JoyImageEditTransformer3DModel": joy,
    "JoyImageEditPlusTransformer3DModel": joy_plus,
    **{
        f"{name}Transformer3DModel": film((1, 2, 2))
        for name in ("Wan", "WanVACE", "WanAnimate", "SkyReelsV2", "SanaVideo", "ChronoEdit")
    },
    **{f"{name}Transformer3DModel": film((1, 2, 2)) for name in ("HunyuanVideo", "MotifVideo")},
    "HunyuanVideo15Transformer3DModel": film((1, 1, 1)),
    "HunyuanVideoFramepackTransformer3DModel": frames,
    "HeliosTransformer3DModel": frames,
    "HunyuanImageTransformer2DModel": picture((1, 1, 1)),
    "AnyFlowTransformer3DModel": anyflow,
    "AnyFlowFARTransformer3DModel": anyflow,
    "SanaWMTransformer3DModel": sana_wm,
    "WanAnimate2Transformer3DModel": animate2,
    "Kandinsky5Transformer3DModel": kandinsky,
    "Kandinsky6Transformer3DModel": kandinsky,
    "Kandinsky6SRTransformer3DModel": kandinsky,
    "CogVideoXTransformer3DModel": cogvideo,
    "ConsisIDTransformer3DModel": cogvideo,
    "EasyAnimateTransformer3DModel": film((1, 2, 2)),
    "HunyuanDiT2DModel": hunyuan_dit,
    "LuminaNextDiT2DModel": lumina,
    "AllegroTransformer3DModel": allegro,
    "CogView4Transformer2DModel": picture((1, 2, 2), "half"),
    "GlmImageTransformer2DModel": picture((1, 2, 2), "half"),
    "CosmosTransformer3DModel": cosmos,
    "MiniMaxH3Transformer3DModel": minimax_h3,
    "Ideogram4Transformer2DModel": ideogram,
    "Cosmos3OmniTransformer": cosmos3,
    "LTXVideoTransformer3DModel": ltx,
    "LTX2VideoTransformer3DModel": ltx2,
    "SanaWMLTX2RefinerTransformer3DModel": ltx2,
    **dict.fromkeys(
        (
            "AceStepTransformer1DModel",
            "LongCatAudioDiTTransformer",
            "MiniMaxMusic3Transformer1DModel",
            "StableAudioDiTModel",
            "StableAudio3DiTModel",
        ),
        one_axis,
    ),
    "OmniGenTransformer2DModel": omnigen,
}
