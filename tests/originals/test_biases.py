# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""Biases of documents, images, proteins and audio against the code that people run."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import posenc
from posenc import T5, ClippedTable, ComplexOffsets, OffsetTable, Quadratic, SpatialBuckets
from tests.oracles.originals.learned import timm_definition
from tests.originals.test_scores import close, grid

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def same(got: Any, exact: Any) -> None:
    torch.testing.assert_close(got, exact, rtol=0, atol=0)


@pytest.mark.parametrize("family", ["v2", "v3"])
def test_layoutlm(family: str) -> None:
    import importlib

    name = f"layoutlm{family}"
    code = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    config = getattr(transformers, f"LayoutLM{family}Config")(
        hidden_size=12,
        num_attention_heads=3,
        num_hidden_layers=1,
        intermediate_size=8,
        has_relative_attention_bias=True,
        has_spatial_attention_bias=True,
    )
    encoder = getattr(code, f"LayoutLM{family}Encoder")(config).eval()
    generator = torch.Generator().manual_seed(0)
    boxes = torch.randint(0, 1001, (2, 40, 4), generator=generator)
    positions = torch.arange(40).expand(2, 40)
    for table in (encoder.rel_pos_bias, encoder.rel_pos_x_bias, encoder.rel_pos_y_bias):
        table.weight.data.normal_()
    with torch.no_grad():
        if family == "v2":
            text = encoder._calculate_1d_position_embeddings(positions)
            page = encoder._calculate_2d_position_embeddings(boxes)
        else:
            text, page = encoder._cal_1d_pos_emb(positions), encoder._cal_2d_pos_emb(boxes)
    # The left edge and the bottom of a box are its coordinates.
    where = torch.stack([positions, boxes[..., 0], boxes[..., 3]], dim=-1)
    params = {
        "weight": encoder.rel_pos_bias.weight.detach().T,
        "x_weight": encoder.rel_pos_x_bias.weight.detach().T,
        "y_weight": encoder.rel_pos_y_bias.weight.detach().T,
    }
    spec = SpatialBuckets(
        3,
        buckets=config.rel_pos_bins,
        max_distance=config.max_rel_pos,
        spatial_buckets=config.rel_2d_pos_bins,
        max_spatial_distance=config.max_rel_2d_pos,
        added="after" if family == "v2" else "before",
    )
    close(posenc.bias(spec, where, params=params), text + page)


@pytest.mark.parametrize("resolution", [4, 7])
def test_levit(resolution: int) -> None:
    from transformers.models.levit.modeling_levit import LevitAttention

    module = LevitAttention(12, 4, 3, 2, resolution)
    module.attention_biases.data.normal_()
    params = {"weight": module.attention_biases.detach()}
    theirs = module.get_attention_biases("cpu").detach()
    spec = OffsetTable(3, size=(resolution, resolution))
    same(posenc.bias(spec, grid(resolution, resolution), params=params), theirs)


@pytest.mark.parametrize(("size", "stride"), [(8, 2), (7, 2), (9, 3)])
def test_levit_where_the_grid_is_reduced(size: int, stride: int) -> None:
    from transformers.models.levit.modeling_levit import LevitAttentionSubsample

    out = (size - 1) // stride + 1
    module = LevitAttentionSubsample(12, 16, 4, 3, 2, stride, size, out)
    module.attention_biases.data.normal_()
    theirs = module.get_attention_biases("cpu").detach()
    params = {"weight": module.attention_biases.detach()}
    spec = OffsetTable(3, size=(size, size))
    ours = posenc.bias(spec, grid(out, out) * stride, grid(size, size), params=params)
    same(ours, theirs)


def test_convit() -> None:
    module = timm_definition("models/convit.py", "GPSA")(16, num_heads=4, locality_strength=2.0)
    torch.manual_seed(0)
    indices = module.get_rel_indices(25)
    first = {
        "weight": module.pos_proj.weight.detach()[:, [1, 0, 2]],
        "shift": module.pos_proj.bias.detach(),
    }
    with torch.no_grad():
        theirs = module.pos_proj(indices).permute(0, 3, 1, 2)[0]
    # Columns come first there.
    spec = Quadratic(4, form="free", sharpness=2.0)
    close(posenc.bias(spec, grid(5, 5), params=first), theirs)
    # The attention of an untrained model looks at the cells that the heads begin with.
    module.local_init()
    begun = posenc.init(spec)
    torch.testing.assert_close(
        torch.from_numpy(begun["weight"]), module.pos_proj.weight.detach()[:, [1, 0, 2]]
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_phi4_audio(symmetric: bool) -> None:
    from types import SimpleNamespace

    from transformers.models.phi4_multimodal.modeling_phi4_multimodal import (
        Phi4MultimodalAudioRelativeAttentionBias,
    )

    # The symmetric table lacks the row of the farthest distance, so shorter sequences are compared.
    length = 6 if symmetric else 20
    config = SimpleNamespace(bias_max_distance=6, bias_symmetric=symmetric, num_attention_heads=3)
    module = Phi4MultimodalAudioRelativeAttentionBias(config)
    theirs = module(torch.zeros(1, length, 1)).detach()[0]
    form: Any = "absolute" if symmetric else "signed"
    spec = ClippedTable(3, clip=(-5, 5) if symmetric else (-6, 5), form=form)
    params = {"weight": module.bias_values.weight.detach()}
    same(posenc.bias(spec, length, params=params, xp=torch), theirs)


def test_esmfold() -> None:
    from types import SimpleNamespace

    from transformers.models.esm.modeling_esmfold import EsmFoldRelativePosition

    module = EsmFoldRelativePosition(SimpleNamespace(position_bins=4, pairwise_state_dim=5))
    residues = torch.tensor([[0, 1, 2, 30, 31], [5, 9, 8, 7, 100]])
    theirs = module(residues).detach().permute(0, 3, 1, 2)
    # Its first row is that of pairs which a mask removes.
    params = {"weight": module.embedding.weight.detach()[1:]}
    same(posenc.bias(ClippedTable(5, clip=4), residues, params=params), theirs)


def test_esmfold2() -> None:
    from types import SimpleNamespace

    from transformers.models.esmfold2.modeling_esmfold2 import EsmFold2RelativePositionEncoding

    config = SimpleNamespace(
        num_relative_residx_bins=4, num_relative_chain_bins=2, pairwise_hidden_size=5
    )
    module = EsmFold2RelativePositionEncoding(config)
    generator = torch.Generator().manual_seed(0)
    sizes = {"chain": 4, "residue": 12, "token": 30, "entity": 2, "copy": 6}
    where = {
        name: torch.randint(0, size, (2, 40), generator=generator) for name, size in sizes.items()
    }
    # Tokens of one residue, which chance alone does not give.
    for axis in ("chain", "residue"):
        where[axis][:, 20:30] = where[axis][:, :10]
    with torch.no_grad():
        theirs = module(
            residue_index=where["residue"],
            asym_id=where["chain"],
            sym_id=where["copy"],
            entity_id=where["entity"],
            token_index=where["token"],
        ).permute(0, 3, 1, 2)
    tables = module.embed.weight.detach().T.split([10, 10, 1, 6])
    spec = ComplexOffsets(5, residues=4)
    params = {
        "residue_weight": tables[0],
        "token_weight": tables[1],
        "chain_weight": tables[3],
        "entity_weight": tables[2][0],
    }
    positions = torch.stack([where[axis] for axis in spec.axes], dim=-1)
    close(posenc.bias(spec, positions, params=params), theirs)


def test_longt5_side_bias() -> None:
    from transformers.models.longt5 import modeling_longt5 as code

    config = transformers.LongT5Config(
        num_heads=3, d_model=12, d_kv=4, encoder_attention_type="transient-global"
    )
    attention = code.LongT5TransientGlobalAttention(config, has_relative_attention_bias=True)
    weight = torch.randn(32, 3)
    attention.global_relative_attention_bias.weight.data = weight
    mask = torch.ones(2, 50, dtype=torch.long)
    blocks, segments = code._make_global_fixed_block_ids(mask, config.global_block_size)
    with torch.no_grad():
        theirs = attention.compute_side_bias(mask, segments)
    assert (theirs > -1e9).all()
    keys = torch.arange(segments.shape[-1]).expand(2, -1)
    same(posenc.bias(T5(3), blocks, keys, params={"weight": weight}), theirs)
