# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""Biases and relative encodings against the code that people run, whole arrays at a time.

The scores of attention modules are theirs minus the products of queries and keys, which are formed
here from the same queries and keys.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import posenc
from posenc import T5, ALiBi, Decomposed, Disentangled, LogCPB, Shaw, WindowTable

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CLOSE = 1e-6


def close(got: Any, exact: Any, tolerance: float = CLOSE) -> None:
    got = torch.as_tensor(np.array(got)) if isinstance(got, np.ndarray) else got
    torch.testing.assert_close(got, exact, rtol=tolerance, atol=tolerance)


def grid(rows: int, columns: int) -> Any:
    pairs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack(pairs, dim=-1).reshape(-1, 2)


# --- ALiBi --------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2, 8, 12, 16, 71, 112])
def test_bloom(heads: int) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])
    theirs = build_alibi_tensor(mask, heads, torch.float32).reshape(3, heads, 1, 7)
    keys = posenc.positions.from_mask(mask)
    # Padding on the left counts as -1 there before it is multiplied by 0; on the right as 0.
    spec = ALiBi(heads, form="key_only")
    close(posenc.bias(spec, keys[:, -1:], keys), theirs)


@pytest.mark.parametrize(("heads", "largest"), [(8, 8), (12, 8), (16, 4), (5, 8)])
def test_mpt(heads: int, largest: int) -> None:
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    theirs = build_mpt_alibi_tensor(heads, 33, largest)
    keys = torch.arange(33) - 32
    spec = ALiBi(heads, max_bias=largest, form="key_only")
    close(posenc.bias(spec, [0], keys), theirs)
    # Its last row is the causal bias of the last query.
    last = posenc.bias(ALiBi(heads, max_bias=largest, form="causal"), torch.tensor([32]), 33)
    close(last, theirs)


def test_falcon() -> None:
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    mask = torch.ones(2, 40, dtype=torch.long)
    theirs = build_alibi_tensor(mask, 8, torch.float32).reshape(2, 8, 1, 40)
    spec = ALiBi(8, form="key_only", added="before")
    ours = posenc.bias(spec, [0], torch.arange(40), dtype="bfloat16").float()
    torch.testing.assert_close(ours.expand(2, -1, -1, -1), theirs, rtol=0, atol=0)
    # Other head counts have slopes that it rounds to bfloat16 before they are multiplied.
    theirs = build_alibi_tensor(mask[:1], 71, torch.float32).reshape(71, 1, 40)
    ours = posenc.bias(ALiBi(71, form="key_only"), [0], torch.arange(40))
    torch.testing.assert_close(ours, theirs, rtol=2.0**-7, atol=0)


def test_x_transformers() -> None:
    module = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is not installed"
    )
    theirs = module.AlibiPositionalBias(heads=12, total_heads=16)(5, 9)
    spec = ALiBi(16, biased=None).replace(heads=16, biased=12)
    close(posenc.bias(spec, torch.arange(4, 9), 9), theirs)


# --- T5 -----------------------------------------------------------------------------------------


FAMILIES = [("t5", "T5"), ("mt5", "MT5"), ("longt5", "LongT5")]


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize(("module", "name"), FAMILIES)
@pytest.mark.parametrize(("buckets", "limit"), [(32, 128), (8, 20), (64, 800)])
def test_t5_bias(module: str, name: str, direction: str, buckets: int, limit: int) -> None:
    import importlib

    code = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    config = getattr(transformers, f"{name}Config")(
        num_heads=3,
        d_model=12,
        d_kv=4,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=limit,
        is_decoder=direction == "causal",
    )
    attention = getattr(code, f"{name}Attention")(
        config, has_relative_attention_bias=True, layer_idx=0
    )
    weight = torch.randn(buckets, 3)
    attention.relative_attention_bias.weight.data = weight
    spec = T5(3, buckets=buckets, max_distance=limit, direction=direction)
    with torch.no_grad():
        theirs = attention.compute_bias(300, 411)[0]
        decoding = attention.compute_bias(4, 900, past_seen_tokens=896)[0]
    params = {"weight": weight}
    torch.testing.assert_close(
        posenc.bias(spec, range(300), 411, params=params), theirs, rtol=0, atol=0
    )
    ours = posenc.bias(spec, torch.arange(896, 900), 900, params=params)
    torch.testing.assert_close(ours, decoding, rtol=0, atol=0)


def test_longt5_local_blocks() -> None:
    from transformers.models.longt5 import modeling_longt5 as code

    config = transformers.LongT5Config(num_heads=3, d_model=12, d_kv=4)
    attention = code.LongT5LocalAttention(config, has_relative_attention_bias=True)
    weight = torch.randn(32, 3)
    attention.relative_attention_bias.weight.data = weight
    with torch.no_grad():
        theirs = attention.compute_bias(9)[0, 0]
    ours = posenc.bias(T5(3), torch.arange(9), torch.arange(-9, 18), params={"weight": weight})
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "limit"), [(32, 128), (32, 2**15), (48, 777), (256, 1000)])
def test_t5_buckets_of_far_distances(bidirectional: bool, buckets: int, limit: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    rel = torch.arange(-(2**16), 2**16)
    theirs = T5Attention._relative_position_bucket(rel, bidirectional, buckets, limit)
    direction = "bidirectional" if bidirectional else "causal"
    spec = T5(1, buckets=buckets, max_distance=limit, direction=direction)
    np.testing.assert_array_equal(spec.bucket(rel.numpy()), theirs.numpy())


# --- windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [(7, 7), (2, 5), (4, 3)])
def test_swin(window: tuple[int, int]) -> None:
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    module = SwinRelativePositionBias(3, window)
    module.relative_position_bias_table.data.normal_()
    with torch.no_grad():
        theirs = module()
    params = {"weight": module.relative_position_bias_table.detach()}
    ours = posenc.bias(WindowTable(3, window=window), grid(*window), params=params)
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), rtol=0, atol=0)


def test_beit_with_a_class_token() -> None:
    from transformers.models.beit.modeling_beit import BeitRelativePositionBias

    config = transformers.BeitConfig(image_size=(32, 48), patch_size=16, num_attention_heads=3)
    window = (2, 3)
    index = BeitRelativePositionBias.generate_relative_position_index(window)
    weight = torch.randn(3 * 5 + 3, 3)
    theirs = weight[index].permute(2, 0, 1)
    assert BeitRelativePositionBias(config).relative_position_bias_table.shape == weight.shape
    tokens = torch.cat([torch.tensor([[-1, -1]]), grid(*window)])
    spec = WindowTable(3, window=window, extra="class_token")
    ours = posenc.bias(spec, tokens, params={"weight": weight})
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(("window", "trained"), [((8, 8), None), ((3, 5), None), ((6, 4), (4, 3))])
def test_swin_v2(window: tuple[int, int], trained: tuple[int, int] | None) -> None:
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    config = SimpleNamespace(attention_probs_dropout_prob=0.0, qkv_bias=True)
    attention = Swinv2SelfAttention(config, 12, 3, window, trained or [0, 0])
    mlp = attention.continuous_position_bias_mlp
    with torch.no_grad():
        table = mlp(attention.relative_coords_table).view(-1, 3)
        index = attention.relative_position_index.view(-1)
        cells = window[0] * window[1]
        theirs = 16 * torch.sigmoid(table[index].view(cells, cells, 3).permute(2, 0, 1))
        params = {
            "hidden_weight": mlp[0].weight,
            "hidden_bias": mlp[0].bias,
            "head_weight": mlp[2].weight,
        }
        spec = LogCPB(3, window=window, trained_window=trained)
        close(posenc.bias(spec, grid(*window), params=params), theirs)


# --- relative -----------------------------------------------------------------------------------


def test_deberta() -> None:
    from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention

    torch.manual_seed(0)
    config = transformers.DebertaConfig(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=16,
        hidden_dropout_prob=0.0,
    )
    attention = DisentangledSelfAttention(config).eval()
    table = torch.randn(32, 12)
    for length in (9, 40):
        q, k = torch.randn(2, 2, 3, length, 4)
        scaled = q / (4 * 3) ** 0.5
        with torch.no_grad():
            rel = torch.arange(length)[:, None] - torch.arange(length)[None, :]
            theirs = attention.disentangled_att_bias(scaled, k, rel[None], table, 3)
            params = {
                "key": attention.transpose_for_scores(attention.pos_proj(table[None]))[0],
                "query": attention.transpose_for_scores(attention.pos_q_proj(table[None]))[0],
            }
        spec = Disentangled(4, count=3, max_distance=16)
        close(posenc.relative(spec, q, k, params=params) * spec.scale, theirs)


@pytest.mark.parametrize(("buckets", "limit"), [(-1, 16), (8, 40), (16, 512)])
@pytest.mark.parametrize("terms", ["c2p", "p2c", "c2p_p2c"])
def test_deberta_v2(buckets: int, limit: int, terms: str) -> None:
    from transformers.models.deberta_v2 import modeling_deberta_v2 as code

    torch.manual_seed(0)
    config = transformers.DebertaV2Config(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=terms.split("_"),
        max_relative_positions=limit,
        position_buckets=buckets,
        share_att_key=True,
        hidden_dropout_prob=0.0,
    )
    attention = code.DisentangledSelfAttention(config).eval()
    span = attention.pos_ebd_size
    table, length = torch.randn(2 * span, 12), 77
    q, k = torch.randn(2, 2, 3, length, 4)
    with torch.no_grad():
        theirs = attention.disentangled_attention_bias(
            q.reshape(6, length, 4), k.reshape(6, length, 4), None, table, 1 + len(terms.split("_"))
        ).reshape(2, 3, length, length)
        split = lambda x: attention.transpose_for_scores(x[None], 3)  # noqa: E731
        projected = {
            "key": split(attention.key_proj(table)),
            "query": split(attention.query_proj(table)),
        }
    names = {"c2p": ["key"], "p2c": ["query"], "c2p_p2c": ["key", "query"]}[terms]
    spec = Disentangled(
        4, count=3, max_distance=limit, buckets=None if buckets < 0 else buckets, terms=terms
    )
    params = {name: projected[name] for name in names}
    close(posenc.relative(spec, q, k, params=params) * spec.scale, theirs)


@pytest.mark.parametrize(("buckets", "limit"), [(8, 40), (16, 512), (256, 512), (64, 1024)])
def test_deberta_v2_buckets(buckets: int, limit: int) -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    rel = torch.arange(-2000, 2001)
    theirs = make_log_bucket_position(rel, buckets, limit).long().clamp(-buckets, buckets - 1)
    spec = Disentangled(4, count=1, max_distance=limit, buckets=buckets)
    ours = spec._row(rel.numpy(), spec.arrays, np) - buckets
    np.testing.assert_array_equal(ours, theirs.numpy())


def test_speecht5() -> None:
    from transformers.models.speecht5.modeling_speecht5 import SpeechT5RelativePositionalEncoding

    table = SpeechT5RelativePositionalEncoding(4, 6)
    q = torch.randn(2, 3, 20, 4)
    with torch.no_grad():
        rows = table(torch.zeros(1, 20, 1))
        theirs = torch.einsum("bhqd,qkd->bhqk", q, rows)
    spec = Shaw(4, clip=(-6, 5), acts_on="keys", distance="query-key", added="after")
    close(posenc.relative(spec, q, q, params={"keys": table.pe_k.weight.detach()}), theirs)


@pytest.mark.parametrize("size", [(5, 5), (3, 6)])
def test_decomposed_grids(size: tuple[int, int]) -> None:
    from transformers.models.sam import modeling_sam as sam
    from transformers.models.vitdet.modeling_vitdet import add_decomposed_relative_positions

    rows, columns = size
    row, column = torch.randn(2 * rows - 1, 4), torch.randn(2 * columns - 1, 4)
    q = torch.randn(6, rows * columns, 4)
    zeros = torch.zeros(6, rows * columns, rows * columns)
    theirs = add_decomposed_relative_positions(zeros, q, row, column, size, size)
    spec, places = Decomposed(4, size=size), grid(rows, columns)
    ours = posenc.relative(
        spec, q[:, None], q[:, None], places, places, params={"row": row, "column": column}
    )
    close(ours[:, 0], theirs)
    holder = SimpleNamespace()
    holder.get_rel_pos = lambda *a: sam.SamVisionAttention.get_rel_pos(holder, *a)
    again = sam.SamVisionAttention.get_decomposed_rel_pos(holder, q, row, column, size, size)
    close(ours[:, 0], again.reshape(theirs.shape))
