"""Small whole transformers of diffusers: queries turn from their forward as the plan says.

The first attention of a forward is watched. It runs once as it is, and once with cosines that are 1
and sines that are 0: queries before the turn. Every part of a scene must follow, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("diffusers", reason="diffusers is not installed")
from torch.overrides import TorchFunctionMode  # noqa: E402

import posenc  # noqa: E402
from tests.oracles.originals import diffusion as theirs  # noqa: E402
from tests.tolerances import DIFFUSERS, assert_close  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Watch(TorchFunctionMode):
    """The queries of the first attention over as many tokens."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens, self.queries = tokens, None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        more = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and self.queries is None:
            query = args[0] if args else more["query"]
            if query.shape[-2] == self.tokens:
                self.queries = query.detach().clone()
        return func(*args, **more)


def still(_: Any, __: Any, output: Any) -> Any:
    """Angles of 0 in the form of an output of a rotary module."""
    if isinstance(output, tuple):
        if output[0].is_complex():
            return tuple(torch.ones_like(one) for one in output)
        return torch.ones_like(output[0]), torch.zeros_like(output[1])
    return torch.ones_like(output)


@contextmanager
def hooked(module: Any) -> Iterator[None]:
    handle = module.register_forward_hook(still)
    try:
        yield
    finally:
        handle.remove()


class Small(NamedTuple):
    """A model with few channels, and what one call of it takes."""

    config: dict[str, Any]
    call: Callable[[Any], dict[str, Any]]
    scene: list[tuple[str, Any]]
    module: str
    facts: Mapping[str, Any] = MappingProxyType({})
    pipeline: str = ""
    ordinary: bool = False


TEXT, GRID = 5, (1, 4, 6)
REFERENCE = (1, 3, 6)
CELLS, MORE = 24, 18
FLUX = {
    "in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
    "num_attention_heads": 2, "joint_attention_dim": 8, "axes_dims_rope": [4, 6, 6],
}  # fmt: skip
STEP = torch.tensor([0.5])


def noise(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def flux(_: Any) -> dict[str, Any]:
    ids = torch.cat([theirs.plane(GRID), theirs.plane(REFERENCE, frame=1)])
    return {"hidden_states": noise(1, CELLS + MORE, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "pooled_projections": noise(1, 8), "timestep": STEP, "img_ids": ids,
            "txt_ids": torch.zeros(TEXT, 3)}  # fmt: skip


def ovis(_: Any) -> dict[str, Any]:
    ids = torch.zeros(TEXT, 3)
    ids[:, 1] = ids[:, 2] = torch.arange(TEXT)
    return {"hidden_states": noise(1, CELLS, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "timestep": STEP, "img_ids": theirs.plane(GRID), "txt_ids": ids}  # fmt: skip


def longcat(_: Any) -> dict[str, Any]:
    ids = theirs.pipeline("longcat_image", "pipeline_longcat_image_edit", "prepare_pos_ids")
    image = {"type": "image", "start": (TEXT, TEXT), "width": 6}
    pictures = [ids(1, height=4, **image), ids(2, height=3, **image)]
    return {"hidden_states": noise(1, CELLS + MORE, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "timestep": STEP, "img_ids": torch.cat(pictures),
            "txt_ids": ids(0, type="text", num_token=TEXT)}  # fmt: skip


def flux2(_: Any) -> dict[str, Any]:
    made = theirs.pipeline("flux2", "pipeline_flux2", "Flux2Pipeline")
    image = made._prepare_latent_ids(torch.empty(1, 0, *GRID[1:]))
    more = made._prepare_image_ids([torch.empty(1, 0, *REFERENCE[1:])])
    return {"hidden_states": noise(1, CELLS + MORE, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "timestep": STEP, "img_ids": torch.cat([image, more], 1),
            "txt_ids": made._prepare_text_ids(torch.empty(1, TEXT, 0)),
            "guidance": torch.ones(1)}  # fmt: skip


def qwen(_: Any) -> dict[str, Any]:
    return {"hidden_states": noise(1, CELLS + MORE, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "encoder_hidden_states_mask": torch.ones(1, TEXT, dtype=torch.bool),
            "timestep": STEP, "img_shapes": [[GRID, REFERENCE]]}  # fmt: skip


def film(channels: int, text: int, **more: Any) -> Any:
    def call(_: Any) -> dict[str, Any]:
        return {"hidden_states": noise(1, channels, 3, 8, 12), "timestep": torch.tensor([3]),
                "encoder_hidden_states": noise(1, TEXT, text), **more}  # fmt: skip

    return call


def ltx(_: Any) -> dict[str, Any]:
    return {"hidden_states": noise(1, 72, 4), "encoder_hidden_states": noise(1, TEXT, 8),
            "timestep": torch.tensor([3]), "encoder_attention_mask": torch.ones(1, TEXT),
            "num_frames": 3, "height": 4, "width": 6,
            "rope_interpolation_scale": (0.32, 32.0, 32.0)}  # fmt: skip


def cogview4(_: Any) -> dict[str, Any]:
    size = torch.tensor([[64, 96]])
    return {"hidden_states": noise(1, 4, 8, 12), "encoder_hidden_states": noise(1, TEXT, 8),
            "timestep": torch.tensor([3]), "original_size": size, "target_size": size,
            "crop_coords": torch.zeros(1, 2)}  # fmt: skip


def ideogram(_: Any) -> dict[str, Any]:
    make = theirs.pipeline("ideogram4", "pipeline_ideogram4", "Ideogram4Pipeline")._prepare_ids
    ids, segments, indicator = make([TEXT], 4, 6, TEXT, "cpu")
    return {"hidden_states": noise(1, TEXT + CELLS, 4), "timestep": STEP,
            "encoder_hidden_states": noise(1, TEXT + CELLS, 8), "position_ids": ids,
            "segment_ids": segments, "indicator": indicator}  # fmt: skip


def lumina2(_: Any) -> dict[str, Any]:
    return {"hidden_states": noise(1, 4, 8, 12), "timestep": STEP,
            "encoder_hidden_states": noise(1, TEXT, 8),
            "encoder_attention_mask": torch.ones(1, TEXT, dtype=torch.int64)}  # fmt: skip


ALL = [("text", TEXT), ("image", GRID), ("reference", REFERENCE)]
VIDEO = [("video", (3, 4, 6))]
MODELS = {
    "FluxTransformer2DModel": Small(
        {**FLUX, "pooled_projection_dim": 8}, flux, ALL, "pos_embed",
        pipeline="FluxKontextPipeline", ordinary=True,
    ),
    "OvisImageTransformer2DModel": Small({**FLUX, "out_channels": 4}, ovis, ALL[:2], "pos_embed"),
    "LongCatImageTransformer2DModel": Small(
        {**FLUX, "pooled_projection_dim": 8}, longcat, ALL, "pos_embed",
        pipeline="LongCatImageEditPipeline",
    ),
    "Flux2Transformer2DModel": Small(
        {**FLUX, "axes_dims_rope": [4, 4, 4, 4], "timestep_guidance_channels": 8}, flux2, ALL,
        "pos_embed",
    ),
    "QwenImageTransformer2DModel": Small(
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "joint_attention_dim": 8, "axes_dims_rope": [4, 6, 6]},
        qwen, ALL, "pos_embed",
    ),
    "WanTransformer3DModel": Small(
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 24,
         "num_attention_heads": 2, "text_dim": 8, "freq_dim": 8, "ffn_dim": 8,
         "rope_max_seq_len": 32}, film(4, 8), VIDEO, "rope", ordinary=True,
    ),
    "HunyuanVideoTransformer3DModel": Small(
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "num_single_layers": 1,
         "num_refiner_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2,
         "text_embed_dim": 8, "pooled_projection_dim": 8, "rope_axes_dim": [4, 6, 6]},
        film(4, 8, encoder_attention_mask=torch.ones(1, TEXT), pooled_projections=noise(1, 8),
             guidance=torch.ones(1)),
        [*VIDEO, ("text", TEXT)], "rope",
    ),
    "LTXVideoTransformer3DModel": Small(
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "cross_attention_dim": 32, "caption_channels": 8}, ltx, VIDEO,
        "rope", facts={"rope_interpolation_scale": (0.32, 32.0, 32.0)},
    ),
    "CogView4Transformer2DModel": Small(
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "text_embed_dim": 8, "time_embed_dim": 8, "condition_dim": 4},
        cogview4, ALL[:2], "rope",
    ),
    "Ideogram4Transformer2DModel": Small(
        {"in_channels": 4, "num_layers": 1, "attention_head_dim": 32, "num_attention_heads": 2,
         "intermediate_size": 8, "adaln_dim": 8, "llm_features_dim": 8,
         "mrope_section": [6, 4, 4]}, ideogram, ALL[:2], "rotary_emb",
    ),
}  # fmt: skip
# Their float32 is off by more than the bound: the class computes 65,536 times a frequency, or 10⁴.
NOISY = {"LTXVideoTransformer3DModel": 4e-3, "Ideogram4Transformer2DModel": 1e-2}
SLOW = pytest.mark.slow("presets", "detect/explain/diffusers.py", "_core/positions")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if m.ordinary else SLOW) for n, m in MODELS.items()]
)
def test_queries_of_a_whole_model_turn_as_its_plan_says(name: str) -> None:
    small = MODELS[name]
    torch.manual_seed(0)
    model = getattr(theirs.classes(), name)(**small.config).eval()
    config: dict[str, Any] = {"_class_name": name, **model.config}
    if small.pipeline:
        config = {"_class_name": small.pipeline, "transformer": config}
    entry: Any = posenc.from_hf(config).layers[0]
    placed = entry.positions.build(small.scene, **small.facts)
    sizes = {part: int(np.prod(size)) for part, size in small.scene}
    inside = [part for part in placed.order if part in sizes]
    with torch.no_grad():
        with Watch(sum(sizes.values())) as turned:
            model(**small.call(model))
        with Watch(sum(sizes.values())) as before, hooked(getattr(model, small.module)):
            model(**small.call(model))
    assert turned.queries is not None
    after, x = (one.queries.transpose(1, 2).double() for one in (turned, before))
    wide = entry.spec.dim > x.shape[-1]  # over the whole hidden width, before heads
    after, x = (one.flatten(2)[:, :, None] if wide else one for one in (after, x))
    assert not torch.equal(after, x)
    begin, bound = 0, NOISY.get(name, DIFFUSERS)
    for part in inside:
        rows = slice(begin, begin := begin + sizes[part])
        mine = x[:, rows].numpy()
        if part in placed:
            mine = posenc.rotate(entry.spec, mine, positions=placed[part], seq_dim=-3)
        assert_close(mine, after[:, rows].numpy(), bound * float(x.abs().max()), f"{name} {part}")


def test_a_loaded_model_is_held_against_its_config() -> None:
    small = MODELS["FluxTransformer2DModel"]
    model = theirs.classes().FluxTransformer2DModel(**small.config)
    config = {"_class_name": "FluxTransformer2DModel", **small.config}
    assert posenc.from_hf(model).layers == posenc.from_hf(config).layers
    alike = posenc.diff(model, config)
    assert alike.compared
    assert not alike.rows
    other = posenc.diff(model, {**config, "axes_dims_rope": [8, 4, 4]})
    assert {row.where for row in other.rows} == {"attention"}
    model.pos_embed.theta = 500
    (row,) = posenc.diff(model, config).rows
    assert row.field == "frequencies"
    assert "smallest call: of several axes, [[[" in str(row.call)
    model.rope, model.pos_embed = model.pos_embed, None
    absent = posenc.diff(model, config)
    assert not absent.compared
    assert any("no module 'pos_embed', which its class has" in text for text in absent.not_compared)


@SLOW
def test_a_module_that_takes_latents_is_asked_for_a_grid() -> None:
    small = MODELS["WanTransformer3DModel"]
    model = theirs.classes().WanTransformer3DModel(**small.config)
    config = {"_class_name": "WanTransformer3DModel", **small.config}
    assert "position 31" in posenc.diff(model, config).compared[0]  # where its table ends
    assert not posenc.diff(model, config).rows
    assert posenc.diff(model, {**config, "attention_head_dim": 36}).rows


def test_a_rotation_that_is_handed_over_is_said_to_be_so() -> None:
    model = theirs.model("CogVideoXTransformer3DModel")
    made = posenc.diff(model, {"_class_name": "CogVideoXTransformer3DModel", **model.config})
    assert not made.compared
    assert any("the rotation is handed to its forward" in text for text in made.not_compared)
