# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Learned tables against the code that people run: transformers, timm and x-transformers.

Weights are copied from the original, so every row must be equal in every bit; sums of several
tables and interpolated rows agree to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import Tensor, nn

import posenc
from posenc import Concatenated, Learned, Lookup, Magnitude, Sinusoidal
from posenc.torch import PositionTable
from tests.oracles.originals.learned import timm_resample, tiny, transformers
from tests.tolerances import ORIGINAL, RESAMPLED, assert_close

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DIM = 16
BOX = ("x0", "y0", "x1", "y1", "h", "w")
BOX_TABLES = ("x", "y", "x", "y", "h", "w")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def assert_same(got: Tensor, want: Tensor) -> None:
    """Raise unless dtype, shape and every bit agree."""
    torch.testing.assert_close(got, want, rtol=0, atol=0)


def module_with(spec: Any, **weights: Tensor) -> PositionTable:
    """A module that holds the weights of the original, loaded as a state dict."""
    module = PositionTable(spec)
    module.load_state_dict(weights)
    return module.eval()


def boxes(limit: int) -> Tensor:
    """(batch, seq, 4) boxes with x0 <= x1 < limit and y0 <= y1 < limit."""
    corners = torch.randint(0, limit, (2, 5, 2, 2)).sort(dim=2).values
    return corners.flatten(2)


# --- rows -----------------------------------------------------------------------------------------


def test_bert() -> None:
    config = tiny(
        "bert",
        "BertConfig",
        vocab_size=10,
        hidden_size=DIM,
        num_attention_heads=2,
        max_position_embeddings=12,
        hidden_dropout_prob=0.0,
    )
    layer = transformers("bert").BertEmbeddings(config).eval()
    nn.init.zeros_(layer.token_type_embeddings.weight)
    layer.LayerNorm = nn.Identity()
    x = torch.randn(2, 12, DIM)
    module = module_with(Learned(DIM, length=12), weight=layer.position_embeddings.weight.detach())
    assert_same(module(x), layer(inputs_embeds=x))
    late = layer(inputs_embeds=x[:, :4], past_key_values_length=5)
    assert_same(module(x[:, :4], offset=5), late)


def test_bart() -> None:
    table = transformers("bart").BartLearnedPositionalEmbedding(12, DIM)
    spec = Learned(DIM, length=12, start=2)
    assert posenc.init(spec)["weight"].shape == tuple(table.weight.shape)
    ids = torch.zeros(2, 12, dtype=torch.long)
    params = {"weight": table.weight.detach()}
    assert_same(posenc.table(spec, 12, params=params), table(ids)[0])
    late = posenc.table(spec, torch.arange(7, 10), params=params)
    assert_same(late, table(ids[:, :3], past_key_values_length=7)[0])


def test_opt_counts_the_mask_and_reads_row_1_for_padding() -> None:
    table = transformers("opt").OPTLearnedPositionalEmbedding(12, DIM)
    spec = Learned(DIM, length=12, start=2, pad=1)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    positions = posenc.positions.from_mask(mask, pad=-1)
    got = posenc.table(spec, positions, params={"weight": table.weight.detach()})
    assert_same(got, table(mask))


@pytest.mark.parametrize("pad", [1, 0])
def test_row_6_roberta_counts_from_padding_idx_plus_1(pad: int) -> None:
    config = tiny(
        "roberta",
        "RobertaConfig",
        vocab_size=10,
        hidden_size=DIM,
        num_attention_heads=2,
        max_position_embeddings=14,
        pad_token_id=pad,
        hidden_dropout_prob=0.0,
    )
    layer = transformers("roberta").RobertaEmbeddings(config).eval()
    for unused in (layer.token_type_embeddings, layer.word_embeddings):
        nn.init.zeros_(unused.weight)
    layer.LayerNorm = nn.Identity()
    spec = Learned(DIM, length=14 - pad - 1, start=pad + 1, pad=pad)
    module = module_with(spec, weight=layer.position_embeddings.weight.detach())
    ids = torch.tensor([[pad, pad, 5, 6, 7], [5, 6, 7, 8, 9], [5, 6, pad, pad, pad]])
    positions = posenc.positions.from_mask(ids != pad, pad=-1)
    zeros = torch.zeros(3, 5, DIM)
    assert_same(module(zeros, positions=positions), layer(ids))
    long = torch.full((1, 14 - pad), 5)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        layer(long)  # one more than the usable length, and nothing says so
    with pytest.raises(posenc.PositionError, match=f"usable length is {13 - pad}, got position"):
        module(torch.zeros(1, 14 - pad, DIM))


def test_layoutlm_sums_tables_that_axes_share() -> None:
    config = tiny(
        "layoutlm",
        "LayoutLMConfig",
        vocab_size=10,
        hidden_size=DIM,
        num_attention_heads=2,
        max_position_embeddings=8,
        max_2d_position_embeddings=30,
        hidden_dropout_prob=0.0,
    )
    layer = transformers("layoutlm").LayoutLMEmbeddings(config).eval()
    nn.init.zeros_(layer.token_type_embeddings.weight)
    layer.LayerNorm = nn.Identity()
    spec = Learned(
        DIM,
        length=(8, *[30] * 6),
        lookup=Lookup("factorised", axes=("position", *BOX), tables=("position", *BOX_TABLES)),
    )
    names = ("position", "x", "y", "h", "w")
    tables = {
        f"{name}_weight": getattr(
            layer, "position_embeddings" if name == "position" else f"{name}_position_embeddings"
        ).weight.detach()
        for name in names
    }
    box = boxes(30)
    sides = torch.stack([box[..., 3] - box[..., 1], box[..., 2] - box[..., 0]], dim=-1)
    count = torch.arange(5).expand(2, 5)[..., None]
    x = torch.randn(2, 5, DIM)
    got = module_with(spec, **tables)(x, positions=torch.cat([count, box, sides], dim=-1))
    assert_close(got.detach(), layer(inputs_embeds=x, bbox=box).detach(), ORIGINAL)


def test_layoutlmv3_puts_slices_side_by_side() -> None:
    config = tiny(
        "layoutlmv3",
        "LayoutLMv3Config",
        vocab_size=10,
        hidden_size=DIM,
        coordinate_size=3,
        shape_size=2,
        max_2d_position_embeddings=30,
        num_attention_heads=2,
    )
    layer = transformers("layoutlmv3").LayoutLMv3TextEmbeddings(config).eval()
    spec = Learned(
        DIM,
        length=(30,) * 6,
        lookup=Lookup("concatenated", axes=BOX, tables=BOX_TABLES, sizes=(3, 3, 3, 3, 2, 2)),
    )
    tables = {
        f"{name}_weight": getattr(layer, f"{name}_position_embeddings").weight.detach()
        for name in ("x", "y", "h", "w")
    }
    box = boxes(30)
    sides = torch.stack([box[..., 3] - box[..., 1], box[..., 2] - box[..., 0]], dim=-1)
    got = posenc.table(spec, torch.cat([box, sides], dim=-1), params=tables)
    assert_same(got, layer.calculate_spatial_position_embeddings(box).detach())


def test_pix2struct_sums_a_row_and_a_column() -> None:
    config = tiny(
        "pix2struct",
        "Pix2StructVisionConfig",
        hidden_size=DIM,
        patch_embed_hidden_size=DIM,
        seq_len=9,
        dropout_rate=0.0,
    )
    layer = transformers("pix2struct").Pix2StructVisionEmbeddings(config).eval()
    layer.patch_projection = nn.Identity()
    spec = Learned(DIM, length=(9, 9), lookup=Lookup("factorised", axes=("row", "column")))
    tables = {
        "row_weight": layer.row_embedder.weight.detach(),
        "column_weight": layer.column_embedder.weight.detach(),
    }
    where = torch.randint(0, 9, (2, 5, 2))
    x = torch.randn(2, 5, DIM)
    got = module_with(spec, **tables)(x, positions=where)
    want = layer(torch.cat([where.float(), x], dim=-1))
    assert_close(got.detach(), want.detach(), ORIGINAL)


def test_detr_puts_the_column_before_the_row() -> None:
    layer = transformers("detr").DetrLearnedPositionEmbedding(DIM // 2)
    spec = Learned(
        DIM,
        length=(50, 50),
        lookup=Lookup("concatenated", axes=("row", "column"), order=("column", "row")),
    )
    tables = {
        "row_weight": layer.row_embeddings.weight.detach(),
        "column_weight": layer.column_embeddings.weight.detach(),
    }
    theirs = layer(torch.Size((1, DIM, 3, 5)), torch.device("cpu"), torch.float32)
    cells = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(5), indexing="ij"), dim=-1)
    got = posenc.table(spec, cells, params=tables)
    assert_same(got, theirs[0].permute(1, 2, 0).detach())


def test_x_transformers_learns_a_factor_on_a_sinusoid() -> None:
    x_transformers = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is not installed"
    )
    layer = x_transformers.ScaledSinusoidalEmbedding(DIM)
    spec = Sinusoidal(
        DIM,
        order="sin_cos",
        magnitude=Magnitude(table_scale="rsqrt_dim", learned="table_scale"),
    )
    assert_close(posenc.init(spec)["scale"], layer.scale.detach().numpy()[0], 1e-8)
    with torch.no_grad():
        layer.scale.fill_(0.7)
    got = module_with(spec, scale=layer.scale.detach().reshape(()))(torch.zeros(1, 65, DIM))
    assert_close(got[0].detach(), layer(torch.zeros(1, 65, DIM)).detach(), ORIGINAL)


# --- other image sizes (PEERS.md, section 2, row 18) ----------------------------------------------

SIZES = [(4, 4), (3, 7), (7, 3), (9, 9), (8, 20), (1, 2), (37, 53)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)


def image(prefix: int, side: int = 4) -> tuple[Learned, Tensor]:
    """The spec of a square grid with prefix tokens, and weights of size up to 1."""
    spec = Learned(DIM, length=(side, side), lookup=Lookup(prefix=prefix))
    return spec, torch.rand(1, prefix + side * side, DIM) * 2 - 1


def resized(spec: Learned, weight: Tensor, size: tuple[int, int], method: Any) -> Tensor:
    """The rows after resizing."""
    new, params = posenc.resize(spec, {"weight": weight[0]}, size, method=method)
    assert new.length == size
    return params["weight"]


@each_size
@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize("kernel", ["cubic", "linear"])
@pytest.mark.parametrize("variant", ["", "_antialias"])
def test_row_18_timm(size: tuple[int, int], prefix: int, kernel: str, variant: str) -> None:
    resample = timm_resample()
    spec, weight = image(prefix)
    theirs = resample(
        weight,
        list(size),
        old_size=[4, 4],
        num_prefix_tokens=prefix,
        interpolation={"cubic": "bicubic", "linear": "bilinear"}[kernel],
        antialias=variant != "",
    )
    got = resized(spec, weight, size, kernel + variant)
    assert_same(got[:prefix], weight[0, :prefix])
    assert_close(got, theirs[0], RESAMPLED)


@each_size
def test_row_18_timm_by_default_and_in_half_precision(size: tuple[int, int]) -> None:
    spec, weight = image(1)
    theirs = timm_resample()(weight.half(), list(size))
    new, params = posenc.resize(spec, {"weight": weight[0].half()}, size)
    assert params["weight"].dtype == torch.float16
    assert_close(params["weight"], theirs[0], 2.0**-11)  # a tie may round either way
    assert new.length == size


@each_size
@pytest.mark.parametrize("family", ["vit", "dinov2"])
def test_row_18_transformers(size: tuple[int, int], family: str) -> None:
    name = {"vit": "ViT", "dinov2": "Dinov2"}[family]
    config = tiny(
        family, f"{name}Config", hidden_size=DIM, image_size=16, patch_size=4, num_attention_heads=2
    )
    layer = getattr(transformers(family), f"{name}Embeddings")(config).eval()
    spec, weight = image(1)
    layer.position_embeddings.data.copy_(weight)
    tokens = torch.zeros(1, 1 + size[0] * size[1], DIM)
    theirs = layer.interpolate_pos_encoding(tokens, 4 * size[0], 4 * size[1])
    got = resized(spec, weight, size, "cubic")
    assert_close(got, theirs[0].detach(), RESAMPLED)
    if size == (4, 4):
        assert_same(got, weight[0])


@each_size
def test_row_18_siglip2(size: tuple[int, int]) -> None:
    embeddings = transformers("siglip2").Siglip2VisionEmbeddings
    spec, weight = image(0)
    theirs = embeddings.resize_positional_embeddings(
        weight.reshape(4, 4, DIM), torch.tensor([size]), max_length=size[0] * size[1]
    )
    got = resized(spec, weight, size, "linear_antialias")
    assert_close(got, theirs[0], RESAMPLED)


@each_size
def test_row_18_qwen3_vl_interpolates_between_the_corners(size: tuple[int, int]) -> None:
    vision = pytest.importorskip(
        "transformers.vision_utils", reason="this transformers keeps it elsewhere"
    )
    spec, weight = image(0)
    index, share = vision.get_vision_interpolation_indices_and_weights(
        torch.tensor([[1, *size]]), num_grid_per_side=4, mode="bilinear", align_corners=True
    )
    theirs = (weight[0][index] * share[:, :, None]).sum(1)
    assert_close(resized(spec, weight, size, "linear_corners"), theirs, RESAMPLED)


def test_row_25_the_resized_table_is_another_one() -> None:
    spec, weight = image(1)
    kept = weight.clone()
    first = resized(spec, weight, (8, 20), "cubic")
    resized(spec, weight, (3, 3), "cubic")
    assert_same(resized(spec, weight, (8, 20), "cubic"), first)
    assert_same(weight, kept)
    new, params = posenc.resize(spec, {"weight": weight[0]}, (8, 20), method="cubic")
    assert new != spec
    x = torch.zeros(1, 161, DIM)
    assert_same(posenc.add(new, x, params=params)[0], first)
    appended = Concatenated(3, table=new)
    assert_same(posenc.add(appended, x[..., :3], params=params)[0, :, 3:], first)


def test_a_whole_vision_transformer_at_another_size() -> None:
    config = tiny(
        "vit",
        "ViTConfig",
        hidden_size=DIM,
        image_size=16,
        patch_size=4,
        num_attention_heads=2,
        hidden_dropout_prob=0.0,
    )
    layer = transformers("vit").ViTEmbeddings(config).eval()
    layer.position_embeddings.data.uniform_(-1, 1)
    nn.init.zeros_(layer.cls_token)
    pixels = torch.randn(2, 3, 12, 28)
    theirs = layer(pixels, interpolate_pos_encoding=True).detach().numpy()
    spec = Learned(DIM, length=(4, 4), lookup=Lookup(prefix=1))
    params = {"weight": layer.position_embeddings.detach()[0].numpy()}
    spec, params = posenc.resize(spec, params, (3, 7), method="cubic")
    patches = layer.patch_embeddings(pixels).detach().numpy()
    tokens = np.concatenate([np.zeros((2, 1, DIM), np.float32), patches], axis=1)
    assert_close(posenc.add(spec, tokens, params=params), theirs, ORIGINAL)
