"""Diffusion models with exact positions: whole tiny ones of diffusers, before and after."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

import posenc  # noqa: E402
from posenc import scaling as s  # noqa: E402
from posenc.torch import adopt, release  # noqa: E402
from posenc.torch.adopted_axes import AdoptedAxes  # noqa: E402
from tests.tolerances import assert_close  # noqa: E402

CLOSE = 2e-6  # of the output of a model whose old tables are made of float32 angles


class Tiny(NamedTuple):
    """A class, the sizes of a small one, and what it is called with."""

    cls: str
    sizes: dict[str, Any]
    call: Callable[[], dict[str, Any]]


def noise(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ids(*sizes: int) -> Any:
    lines = [torch.arange(n) for n in sizes]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).reshape(-1, len(sizes))


STEP = torch.tensor([1.0])
VIDEO = {"hidden_states": noise(1, 4, 5, 8, 12), "encoder_hidden_states": noise(1, 7, 16)}
MODELS = (
    Tiny(
        "FluxTransformer2DModel",
        {"patch_size": 1, "in_channels": 4, "num_layers": 1, "num_single_layers": 1,
         "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 32,
         "pooled_projection_dim": 32, "axes_dims_rope": (4, 4, 8)},
        lambda: {"hidden_states": noise(1, 24, 4), "encoder_hidden_states": noise(1, 5, 32),
                 "pooled_projections": noise(1, 32), "img_ids": ids(1, 4, 6),
                 "txt_ids": torch.zeros(5, 3), "timestep": STEP},
    ),
    Tiny(
        "Flux2Transformer2DModel",
        {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "joint_attention_dim": 32, "timestep_guidance_channels": 16,
         "axes_dims_rope": (4, 4, 4, 4)},
        lambda: {"hidden_states": noise(1, 24, 4), "encoder_hidden_states": noise(1, 5, 32),
                 "img_ids": ids(1, 4, 6, 1), "txt_ids": ids(1, 1, 1, 5), "timestep": STEP,
                 "guidance": STEP},
    ),
    Tiny(
        "QwenImageTransformer2DModel",
        {"in_channels": 16, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "joint_attention_dim": 16, "axes_dims_rope": (4, 4, 8)},
        lambda: {"hidden_states": noise(1, 24, 16), "encoder_hidden_states": noise(1, 7, 16),
                 "encoder_hidden_states_mask": torch.ones(1, 7), "timestep": STEP,
                 "img_shapes": [[(1, 4, 6)]]},
    ),
    Tiny(
        "WanTransformer3DModel",
        {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 4, "out_channels": 4,
         "text_dim": 16, "freq_dim": 32, "ffn_dim": 32, "num_layers": 1, "rope_max_seq_len": 32},
        lambda: {**VIDEO, "timestep": STEP},
    ),
    Tiny(
        "HunyuanVideoTransformer3DModel",
        {"in_channels": 4, "out_channels": 4, "num_attention_heads": 2, "attention_head_dim": 16,
         "num_layers": 1, "num_single_layers": 1, "num_refiner_layers": 1, "text_embed_dim": 16,
         "pooled_projection_dim": 8, "rope_axes_dim": (4, 4, 8)},
        lambda: {**VIDEO, "timestep": STEP, "encoder_attention_mask": torch.ones(1, 7),
                 "pooled_projections": noise(1, 8), "guidance": STEP},
    ),
    Tiny(
        "Lumina2Transformer2DModel",
        {"sample_size": 16, "in_channels": 4, "hidden_size": 24, "num_layers": 1,
         "num_refiner_layers": 1, "num_attention_heads": 2, "num_kv_heads": 1, "multiple_of": 16,
         "axes_dim_rope": (4, 4, 4), "axes_lens": (64, 32, 32), "cap_feat_dim": 16},
        lambda: {"hidden_states": noise(2, 4, 8, 12), "encoder_hidden_states": noise(2, 7, 16),
                 "encoder_attention_mask": torch.tensor([[1] * 7, [1] * 4 + [0] * 3]).bool(),
                 "timestep": torch.tensor([1.0, 0.5])},
    ),
    Tiny(
        "CogView4Transformer2DModel",
        {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "text_embed_dim": 16, "time_embed_dim": 16,
         "condition_dim": 8, "rope_axes_dim": (16, 16)},
        lambda: {"hidden_states": noise(1, 4, 8, 12), "encoder_hidden_states": noise(1, 7, 16),
                 "timestep": STEP, "original_size": torch.tensor([[64.0, 96.0]]),
                 "target_size": torch.tensor([[64.0, 96.0]]),
                 "crop_coords": torch.tensor([[0.0, 0.0]])},
    ),
    Tiny(
        "ZImageTransformer2DModel",
        {"in_channels": 4, "dim": 32, "n_layers": 1, "n_refiner_layers": 1, "n_heads": 2,
         "n_kv_heads": 2, "cap_feat_dim": 16, "axes_dims": [4, 4, 8], "axes_lens": [128, 32, 32]},
        lambda: {"x": [noise(4, 1, 8, 12)], "t": STEP, "cap_feats": [noise(7, 16)]},
    ),
    Tiny(
        "CosmosTransformer3DModel",
        {"in_channels": 4, "out_channels": 4, "num_attention_heads": 2, "attention_head_dim": 18,
         "num_layers": 1, "text_embed_dim": 16, "adaln_lora_dim": 4, "max_size": (8, 32, 32),
         "concat_padding_mask": False, "extra_pos_embed_type": None},
        lambda: {**VIDEO, "timestep": STEP, "fps": 16},
    ),
)  # fmt: skip


def build(tiny: Tiny) -> Any:
    torch.manual_seed(0)
    model = getattr(diffusers, tiny.cls)(**tiny.sizes).eval()
    for parameter in model.parameters():  # some begin as zeros, behind which nothing shows
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def run(model: Any, tiny: Tiny) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        answer = model(**tiny.call(), return_dict=False)[0]
    return (answer[0] if isinstance(answer, list) else answer).numpy()


DRAWN = ("FluxTransformer2DModel", "ZImageTransformer2DModel")
each_model = pytest.mark.parametrize(
    "tiny",
    [
        pytest.param(
            tiny,
            marks=() if tiny.cls in DRAWN else pytest.mark.slow("detect/adopt", "torch", "presets"),
        )
        for tiny in MODELS
    ],
    ids=lambda tiny: tiny.cls,
)


@each_model
def test_a_model_answers_as_before_and_with_another_scaling_otherwise(tiny: Tiny) -> None:
    model = build(tiny)
    before, keys = run(model, tiny), {k: v.clone() for k, v in model.state_dict().items()}
    report = adopt(model)
    (row,) = report.replaced
    old = row.path, row.was
    assert row.change < 1e-5, report
    assert isinstance(getattr(model, row.path), AdoptedAxes)
    assert_close(run(model, tiny), before, CLOSE)
    now = model.state_dict()
    assert now.keys() == keys.keys()
    assert all(torch.equal(now[key], keys[key]) for key in keys)
    assert_close(run(copy.deepcopy(model), tiny), before, CLOSE, "a copy")
    release(model)
    assert type(getattr(model, old[0])).__name__ == old[1]
    assert_close(run(model, tiny), before, 0)
    axes = len(row.spec.axes) if row.spec else 0
    report = adopt(model, scaling=s.PerAxis((None,) * (axes - 1) + (s.Linear(3),)))
    assert report.replaced[0].trained == row.spec
    assert abs(run(model, tiny) - before).max() > 1e-5
    release(model)
    assert_close(run(model, tiny), before, 0)


def flux() -> Any:
    return build(MODELS[0])


def test_the_scaling_reaches_the_queries() -> None:
    """The module's answer, channel for channel, against the rotation of the spec."""
    model, where = flux(), ids(2, 5, 40)
    rule = s.PerAxis((None, s.YaRN(2, original_length=32), s.RIFLEx(3, 80)))
    spec: Any = adopt(model, scaling=rule).replaced[0].spec
    cos, sin = model.pos_embed(where)
    ours = posenc.cos_sin(spec, where, width="full", dtype="float32")
    for answer, exact in zip((cos, sin), ours, strict=True):
        assert answer.dtype == torch.float32
        assert_close(answer.numpy(), exact.numpy(), 1e-6)
    assert spec.attention_factors[1] > 1.05


def test_nothing_is_replaced_where_it_cannot_be() -> None:
    handed = diffusers.CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, text_embed_dim=8,
        use_rotary_positional_embeddings=True,
    )  # fmt: skip
    with pytest.raises(posenc.DataError, match="its pipeline hands image_rotary_emb over"):
        adopt(handed)
    model = flux()
    old = model.pos_embed
    with pytest.raises(posenc.SpecError, match="3 rules, one or None for each of the axes"):
        adopt(model, scaling=s.PerAxis((None, s.NTK(2))))
    for other in (
        {"spec": posenc.RoPE(16, pairing="half")},
        {"plan": posenc.from_hf({"_class_name": "FluxTransformer2DModel"})},
    ):
        with pytest.raises(posenc.ArgumentError, match="scaling= for a model of diffusers"):
            adopt(model, **other)
    with pytest.raises(posenc.ArgumentError, match="give its `transformer`"):
        adopt(object())
    with pytest.raises(
        posenc.ArgumentError, match="an answer to a call by ids, got RuntimeError: .*meta"
    ):
        adopt(flux().to("meta"))
    assert model.pos_embed is old


def test_a_module_that_contradicts_its_config_stays() -> None:
    model = flux()
    model.pos_embed.theta = 500
    with pytest.raises(
        posenc.DataError, match="FluxPosEmbed: .*which its config says, got others, off by"
    ):
        adopt(model)
    assert type(model.pos_embed).__name__ == "FluxPosEmbed"


def test_a_module_that_changes_later_is_told_in_its_next_call() -> None:
    model = flux()
    adopt(model)
    model.pos_embed(ids(1, 4, 6))
    model.pos_embed.original.theta = 500
    with pytest.raises(posenc.DataError, match="FluxPosEmbed.*which its config says.*release"):
        model.pos_embed(ids(1, 4, 6))


def test_a_compiled_module_answers_the_same_in_one_graph() -> None:
    model, where = flux(), ids(1, 4, 6)
    adopt(model, scaling=s.PerAxis((None, s.NTK(2), s.RIFLEx(3, 80))))
    compiled = torch.compile(model.pos_embed, backend="eager", fullgraph=True)
    for answer, plain in zip(compiled(where), model.pos_embed(where), strict=True):
        assert torch.equal(answer, plain)
    model.pos_embed.original.theta = 500
    torch._dynamo.reset()
    with pytest.raises(posenc.DataError, match="FluxPosEmbed: expected cosines and sines"):
        compiled(where)


@pytest.mark.slow("torch/adopted_axes.py")
@pytest.mark.parametrize("number", [2, 3, 6])  # complex; of films; of half the width
def test_a_compiled_model_is_one_graph(number: int) -> None:
    model = build(MODELS[number])
    adopt(model)
    expected = run(model, MODELS[number])
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert_close(run(compiled, MODELS[number]), expected, CLOSE)


def test_twice_is_refused_and_once_undone() -> None:
    model = flux()
    adopt(model)
    with pytest.raises(posenc.ArgumentError, match="pos_embed was adopted before"):
        adopt(model)
    assert "AdoptedAxes(RoPE(16" in repr(model)
    assert "in place of FluxPosEmbed" in repr(model)
    assert pickle.loads(pickle.dumps(model.pos_embed)).spec == model.pos_embed.spec
    release(model)
    with pytest.raises(posenc.ArgumentError, match="nothing was adopted"):
        release(model)


# --- every class ----------------------------------------------------------------------------------

# What is asked in a way of its own, or answers what no rotation of a spec is: why it stays.
STAY = {
    "AnyFlowTransformer3DModel": "layout_cfg",
    "AnyFlowFARTransformer3DModel": "far_cfg",
    "HunyuanVideoFramepackTransformer3DModel": "frame_indices",  # and averages its history
    "HeliosTransformer3DModel": "no cosines and sines",
    "LTXVideoTransformer3DModel": "no cosines and sines",
    "LTX2VideoTransformer3DModel": "coords",
    "SanaWMLTX2RefinerTransformer3DModel": "coords",
    "StableAudio3DiTModel": "no cosines and sines",
    "OmniGenTransformer2DModel": "the length of the sequence",
}


class Shell(torch.nn.Module):
    """A model of which nothing is there but its rotary module."""

    def __init__(self, leaf: str, module: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        object.__setattr__(self, leaf, module)


@pytest.mark.slow("detect/adopt", "torch/adopted_axes.py", "presets")
def test_every_module_that_a_row_names_can_be_asked_or_says_why_not() -> None:
    from posenc.detect.adopt.fitting import _asked
    from posenc.presets.diffusion import rotary_modules, transformers
    from tests.oracles.originals import diffusion as originals

    stay: dict[str, list[str]] = {}
    asked = 0
    for name in transformers():
        for leaf in rotary_modules(name):
            config = {**originals.model(name).config, "_class_name": name}
            shell = Shell(leaf, originals.module(name, leaf))
            why = []
            for layer in posenc.from_hf(config, on_error="report"):
                if not isinstance(layer.spec, posenc.RoPE):
                    continue
                try:
                    _asked(shell, leaf, layer.spec, None, "exact")
                except posenc.PosencError as error:
                    why.append(str(error))
                else:
                    asked += 1
                    break
            else:
                stay.setdefault(name, []).extend(why)
    assert asked >= 44
    assert stay.keys() == STAY.keys()
    for name, words in STAY.items():
        assert any(words in text for text in stay[name]), (name, stay[name])
