"""For each preset of a learned table, rows as the original reads them from random weights.

Like `presets_originals.py`, with the weights as a third part of what `make` returns. Nothing here
imports posenc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.presets.originals import Original, hf, of_hf, torch

Made = tuple[Any, Any, dict[str, Any]]


def ids(length: int) -> Any:
    """Positions 0 to length - 1, for one row."""
    return torch().arange(length)


def mask() -> Any:
    """Left padding, none, right padding."""
    return torch().tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])


def embeddings(family: str, layer: str, config: str, **fields: Any) -> Any:
    """A layer of embeddings with its normalisation taken off."""
    modeling = hf(family)
    made = getattr(modeling, layer)(getattr(modeling, config)(**fields)).eval()
    made.LayerNorm = torch().nn.Identity()
    return made


def bert(dim: int) -> Made:
    layer = embeddings("bert", "BertEmbeddings", "BertConfig", hidden_size=dim)
    torch().nn.init.zeros_(layer.token_type_embeddings.weight)
    made = layer(inputs_embeds=torch().zeros(1, 65, dim))[0]
    return (ids(65),), made, {"weight": layer.position_embeddings.weight}


def roberta(dim: int) -> Made:
    layer = embeddings(
        "roberta",
        "RobertaEmbeddings",
        "RobertaConfig",
        hidden_size=dim,
        max_position_embeddings=514,
    )
    for unused in (layer.token_type_embeddings, layer.word_embeddings):
        torch().nn.init.zeros_(unused.weight)
    tokens = torch().where(mask() == 1, 5, layer.padding_idx)
    return (mask(),), layer(tokens), {"weight": layer.position_embeddings.weight}


def bart(dim: int) -> Made:
    layer = hf("bart").BartLearnedPositionalEmbedding(1024, dim)
    made = layer(torch().zeros(1, 65, dtype=torch().long))[0]
    return (ids(65),), made, {"weight": layer.weight}


def opt(dim: int) -> Made:
    layer = hf("opt").OPTLearnedPositionalEmbedding(2048, dim)
    return (mask(),), layer(mask()), {"weight": layer.weight}


def boxes() -> Any:
    """(2, 5, 4): x0 <= x1 and y0 <= y1."""
    generator = torch().Generator().manual_seed(3)
    corners = torch().randint(0, 1000, (2, 5, 2, 2), generator=generator)
    return corners.sort(dim=2).values.flatten(2)


def with_sides(box: Any) -> Any:
    """A box with its height and width."""
    sides = [box[..., 3] - box[..., 1], box[..., 2] - box[..., 0]]
    return torch().cat([box, torch().stack(sides, dim=-1)], dim=-1)


def layoutlm(dim: int) -> Made:
    layer = embeddings(
        "layoutlm", "LayoutLMEmbeddings", "LayoutLMConfig", hidden_size=dim, vocab_size=10
    )
    torch().nn.init.zeros_(layer.token_type_embeddings.weight)
    box = boxes()
    made = layer(inputs_embeds=torch().zeros(2, 5, dim), bbox=box)
    where = torch().cat([ids(5).expand(2, 5)[..., None], with_sides(box)], dim=-1)
    weights = {f"{n}_weight": getattr(layer, f"{n}_position_embeddings").weight for n in "xyhw"}
    return (where,), made, {"position_weight": layer.position_embeddings.weight, **weights}


def layoutlmv3(dim: int) -> Made:
    modeling = hf("layoutlmv3")
    config = modeling.LayoutLMv3Config(
        vocab_size=10, hidden_size=dim, coordinate_size=dim // 6, shape_size=dim // 6
    )
    layer = modeling.LayoutLMv3TextEmbeddings(config).eval()
    box = boxes()
    weights = {f"{n}_weight": getattr(layer, f"{n}_position_embeddings").weight for n in "xyhw"}
    return (with_sides(box),), layer.calculate_spatial_position_embeddings(box), weights


def pix2struct(dim: int) -> Made:
    modeling = hf("pix2struct")
    config = modeling.Pix2StructVisionConfig(hidden_size=dim, patch_embed_hidden_size=dim)
    layer = modeling.Pix2StructVisionEmbeddings(config).eval()
    layer.patch_projection = torch().nn.Identity()
    where = torch().tensor([[1, 1], [1, 2], [2, 1], [64, 3], [4095, 0]])
    patches = torch().cat([where.float(), torch().zeros(5, dim)], dim=-1)
    weights = {
        "row_weight": layer.row_embedder.weight,
        "column_weight": layer.column_embedder.weight,
    }
    return (where,), layer(patches[None])[0], weights


def grid(height: int, width: int) -> Any:
    """Row and column of each cell, row after row."""
    return torch().cartesian_prod(torch().arange(height), torch().arange(width))


def detr(dim: int) -> Made:
    layer = hf("detr").DetrLearnedPositionEmbedding(dim // 2)
    made = layer(torch().Size([1, 3, 5, 7]), device="cpu", dtype=torch().float32)
    made = made[0] if made.shape[1] == 35 else made[0].flatten(1).T
    weights = {
        "row_weight": layer.row_embeddings.weight,
        "column_weight": layer.column_embeddings.weight,
    }
    return (grid(5, 7),), made, weights


def vit(dim: int) -> Made:
    modeling = hf("vit")
    layer = modeling.ViTEmbeddings(
        modeling.ViTConfig(hidden_size=dim, num_attention_heads=2)
    ).eval()
    layer.position_embeddings.data.normal_()
    for unused in (layer.cls_token, *layer.patch_embeddings.parameters()):
        unused.data.zero_()
    made = layer(torch().zeros(1, 3, 224, 224))[0]
    return (ids(197),), made, {"weight": layer.position_embeddings[0]}


def siglip2(dim: int) -> Made:
    modeling = hf("siglip2")
    config = modeling.Siglip2VisionConfig(hidden_size=dim, num_attention_heads=2, num_patches=256)
    layer = modeling.Siglip2VisionEmbeddings(config).eval()
    for unused in layer.patch_embedding.parameters():
        unused.data.zero_()
    pixels = torch().zeros(1, 256, config.patch_size**2 * config.num_channels)
    made = layer(pixels, torch().tensor([[16, 16]]))[0]
    return (ids(256),), made, {"weight": layer.position_embedding.weight}


def row(preset: str, family: str, symbol: str, make: Callable[[int], Made]) -> Original:
    """A comparison with transformers."""
    return Original(preset, of_hf(family, symbol), "transformers", make, (12, 24))  # type: ignore[arg-type]


LEARNED = (
    row("bert-learned", "bert", "BertEmbeddings", bert),
    row("roberta-learned", "roberta", "RobertaEmbeddings", roberta),
    row("bart-learned", "bart", "BartLearnedPositionalEmbedding", bart),
    row("opt-learned", "opt", "OPTLearnedPositionalEmbedding", opt),
    row("layoutlm-learned", "layoutlm", "LayoutLMEmbeddings", layoutlm),
    row("layoutlmv3-learned", "layoutlmv3", "LayoutLMv3TextEmbeddings", layoutlmv3),
    row("pix2struct-learned", "pix2struct", "Pix2StructVisionEmbeddings", pix2struct),
    row("detr-learned", "detr", "DetrLearnedPositionEmbedding", detr),
    row("vit-learned", "vit", "ViTEmbeddings", vit),
    row("siglip2-learned", "siglip2", "Siglip2VisionEmbeddings", siglip2),
)
