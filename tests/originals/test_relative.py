# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""Relative encodings of text and speech models against the code that people run.

Sinusoidal tables of distances are float32 there, and their angles lose digits with the distance
(6e-8 of the angle); sums of hundreds of float32 products differ by more than 1e-6 with their order.
So the originals are run in float64, `Tensor.float` included, where agreement shows the arithmetic
rather than its rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import posenc
from posenc import (
    Disentangled,
    ForgetGates,
    GatedBuckets,
    Ladder,
    RelativeSegments,
    Shaw,
    TransformerXL,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CLOSE = 1e-10
# Where an original forms frequencies or a root in float32 all the same.
ROOT = FREQUENCIES = 1e-6


@pytest.fixture
def float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Original code in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


def close(got: Any, exact: Any, tolerance: float = CLOSE) -> None:
    torch.testing.assert_close(got, exact, rtol=tolerance, atol=tolerance)


def randomise(module: Any) -> Any:
    """All parameters float64 and of unit size, so that no term hides another."""
    module = module.double()
    for parameter in module.parameters():
        parameter.data.normal_()
    return module.eval()


# --- XLNet --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("attention_type", ["bi", "uni"])
@pytest.mark.parametrize("clamp", [-1, 3, 40])
@pytest.mark.parametrize("both_ways", [False, True])
def test_xlnet(
    float64: None, memory: int, attention_type: str, clamp: int, both_ways: bool
) -> None:
    from transformers.models.xlnet import modeling_xlnet as code

    config = transformers.XLNetConfig(d_model=12, n_head=3, n_layer=1, d_inner=4, vocab_size=9)
    attention = randomise(code.XLNetRelativeAttention(config))
    rows, keys = 7, 7 + memory
    model = SimpleNamespace(
        d_model=12,
        attn_type=attention_type,
        bi_data=both_ways,
        clamp_len=clamp,
        positional_embedding=code.XLNetModel.positional_embedding,
    )
    table = code.XLNetModel.relative_positional_encoding(model, rows, keys, bsz=2)
    q, k = torch.randn(2, 3, rows, 4), torch.randn(2, 3, keys, 4)
    w_r, u, v = attention.r, attention.r_w_bias, attention.r_r_bias
    r_head = torch.einsum("ibh,hnd->ibnd", table, w_r)
    moved = (q + v[:, None]).permute(2, 0, 1, 3)
    shifted = attention.rel_shift_bnij(torch.einsum("ibnd,jbnd->bnij", moved, r_head), klen=keys)
    theirs = shifted + torch.einsum("nd,bnjd->bnj", u, k)[:, :, None]
    spec = TransformerXL(4, count=3, width=12, clamp=None if clamp < 0 else clamp)
    params = {"u": u, "v": v, "projection": w_r.permute(1, 2, 0)}
    # The second half of a batch reads backwards: its positions run the other way.
    way = torch.tensor([[1], [-1 if both_ways else 1]])
    m, n = torch.arange(memory, keys) * way, torch.arange(keys) * way
    ours = posenc.relative(spec, q, k, m, n, params=params)
    if attention_type == "uni":
        # Its table ends at distance 0: what the shift moves in for the future is masked.
        past = torch.arange(keys)[None] <= torch.arange(memory, keys)[:, None]
        ours, theirs = (torch.where(past, x, 0.0) for x in (ours, theirs))
    close(ours, theirs)


def test_xlnet_segments(float64: None) -> None:
    from transformers.models.xlnet import modeling_xlnet as code

    config = transformers.XLNetConfig(d_model=12, n_head=3, n_layer=1, d_inner=4, vocab_size=9)
    attention = randomise(code.XLNetRelativeAttention(config))
    segments = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 1, 2]])
    # As the model makes them: memory of segment 0 stands before the tokens.
    keys = torch.cat([torch.zeros(2, 3, dtype=torch.long), segments], dim=1)
    other = (segments.T[:, None] != keys.T[None]).long()
    seg_mat = torch.nn.functional.one_hot(other, num_classes=2).double()
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 8, 4)
    moved = q.permute(2, 0, 1, 3) + attention.r_s_bias
    both = torch.einsum("ibnd,snd->ibns", moved, attention.seg_embed)
    theirs = torch.einsum("ijbs,ibns->bnij", seg_mat, both)
    params = {"bias": attention.r_s_bias, "weight": attention.seg_embed.transpose(0, 1)}
    spec = RelativeSegments(4, count=3)
    close(posenc.relative(spec, q, k, segments, keys, params=params), theirs)


# --- Funnel Transformer -------------------------------------------------------------------------


def pooled(positions: list[int], block: int, config: Any) -> list[int]:
    """The positions of a block after the first, as the paper pools them."""
    if not config.separate_cls:
        return positions[::2]
    rest = positions[1:-1] if config.truncate_seq else positions[1:]
    return [1 - 2**block, *rest[::2]]


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["relative_shift", "factorized"])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("queries_only", [False, True])
def test_funnel(
    float64: None,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    separate: bool,
    truncate: bool,
    queries_only: bool,
) -> None:
    from transformers.models.funnel import modeling_funnel as code

    config = transformers.FunnelConfig(
        vocab_size=9,
        d_model=12,
        n_head=3,
        d_head=4,
        d_inner=8,
        block_sizes=[1, 1, 1],
        attention_type=kind,
        separate_cls=separate,
        truncate_seq=truncate,
        pool_q_only=queries_only,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    encoder = code.FunnelEncoder(config).eval()
    for parameter in encoder.parameters():
        parameter.data.normal_(std=0.3)
    seen: list[Any] = []
    original = code.FunnelRelMultiheadAttention.forward
    parts = code.FunnelRelMultiheadAttention

    def watched(self: Any, query: Any, key: Any, value: Any, inputs: Any, **more: Any) -> Any:
        q = self.q_head(query).unflatten(-1, (3, 4)) * self.scale
        table, segments, _, _ = inputs
        seen.append(
            (
                self,
                q,
                parts.relative_positional_attention(self, table, q, key.shape[1], None),
                parts.relative_token_type_attention(self, segments, q, None),
            )
        )
        return original(self, query, key, value, inputs, **more)

    monkeypatch.setattr(parts, "forward", watched)
    length = 16
    tokens = torch.tensor([[2] + [0] * 6 + [1] * 9])
    encoder(torch.randn(1, length, 12), torch.ones(1, length), token_type_ids=tokens)
    places = [list(range(length))]
    kinds = [tokens[0]]
    for block in (1, 2):
        places.append(pooled(places[-1], block, config))
        index = pooled(list(range(len(places[-2]))), 0, config)
        kinds.append(kinds[-1][[max(i, 0) for i in index]])
    # A class token by itself gets and gives nothing by position there; its place is not pooled.
    free = 1 if separate else 0
    assert len(seen) == 3
    for block, (layer, q, by_place, by_segment) in enumerate(seen):
        before = block - 1 if block and queries_only else block
        m, n = (torch.tensor(places[b]) for b in (block, before))
        assert by_place.shape[-2:] == (len(m), len(n))
        asked = q.transpose(1, 2) / layer.scale
        keys = torch.zeros(1, 3, len(n), 4)
        params = {
            "u": torch.zeros(3, 4),
            "v": layer.r_r_bias,
            "projection": layer.r_kernel.permute(1, 2, 0),
        }
        spec = TransformerXL(4, count=3, width=12)
        ours = posenc.relative(spec, asked, keys, m, n, params=params) * spec.scale
        close(ours[..., free:, free:], by_place[..., free:, free:])
        weight = layer.seg_embed.flip(0).transpose(0, 1)
        of_segments = RelativeSegments(4, count=3, common=2)
        sides = kinds[block], kinds[before]
        given = {"bias": layer.r_s_bias, "weight": weight}
        ours = posenc.relative(of_segments, asked, keys, *sides, params=given) * of_segments.scale
        close(ours, by_segment)


# --- WavLM --------------------------------------------------------------------------------------


def test_wavlm(float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.wavlm import modeling_wavlm as code

    attention = randomise(code.WavLMAttention(12, 3, num_buckets=32, max_distance=80))
    found = {}

    def caught(self: Any, hidden: Any, mask: Any, bias: Any) -> Any:
        found["bias"] = bias
        return hidden, None

    monkeypatch.setattr(code.WavLMAttention, "torch_multi_head_self_attention", caught)
    x = torch.randn(2, 120, 12)
    attention(x)
    theirs = found["bias"].unflatten(0, (2, 3))
    params = {
        "weight": attention.rel_attn_embed.weight,
        "gate_weight": attention.gru_rel_pos_linear.weight,
        "gate_bias": attention.gru_rel_pos_linear.bias,
        "factor": attention.gru_rel_pos_const.flatten(),
    }
    # Its gates see the input of the layer, cut into heads.
    content = x.unflatten(-1, (3, 4)).transpose(1, 2)
    spec = GatedBuckets(4, count=3, buckets=32, max_distance=80)
    close(posenc.relative(spec, content, content, params=params), theirs)


# --- Conformers ---------------------------------------------------------------------------------


def conformer(attention: Any, names: tuple[str, str, str], dim: int = 4) -> dict[str, Any]:
    """The parameters of a Conformer's attention, with three heads, by our names."""
    u, v, projection = names
    return {
        "u": getattr(attention, u).reshape(3, dim),
        "v": getattr(attention, v).reshape(3, dim),
        "projection": getattr(attention, projection).weight.reshape(3, dim, 12),
    }


@pytest.mark.parametrize("length", [1, 11, 300])
def test_wav2vec2_conformer(float64: None, length: int) -> None:
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as code

    config = transformers.Wav2Vec2ConformerConfig(
        hidden_size=12,
        num_attention_heads=3,
        position_embeddings_type="relative",
        max_source_positions=64,
        attention_dropout=0.0,
    )
    attention = randomise(code.Wav2Vec2ConformerSelfAttention(config))
    rows = code.Wav2Vec2ConformerRelPositionalEmbedding(config)(torch.zeros(1, length, 12))
    q, k = torch.randn(2, 2, 3, length, 4)
    moved, scaled = code._apply_relative_position_encoding(attention, q, k, rows)
    theirs = moved @ k.mT * attention.scaling + scaled
    params = conformer(attention, ("pos_bias_u", "pos_bias_v", "linear_pos"))
    spec = TransformerXL(4, count=3, width=12, order="interleaved")
    ours = (q @ k.mT + posenc.relative(spec, q, k, params=params)) * spec.scale
    close(ours, theirs)


def weights_of(attention: Any, *given: Any, **more: Any) -> Any:
    """The attention weights of a module that returns them second."""
    return attention(*given, **more)[1]


def test_fastspeech2_conformer(float64: None) -> None:
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as code

    config = transformers.FastSpeech2ConformerConfig(hidden_size=12)
    module: Any = {
        "num_attention_heads": 3,
        "attention_dropout_rate": 0.0,
        "positional_dropout_rate": 0.0,
    }
    attention = randomise(code.FastSpeech2ConformerAttention(config, module))
    x, rows = code.FastSpeech2ConformerRelPositionalEncoding(config, module)(
        torch.randn(2, 21, 12) / 12
    )
    theirs = weights_of(attention, x, pos_emb=rows, output_attentions=True)
    q, k = (
        layer(x).unflatten(-1, (3, 4)).transpose(1, 2)
        for layer in (attention.linear_q, attention.linear_k)
    )
    params = conformer(attention, ("pos_bias_u", "pos_bias_v", "linear_pos"))
    spec = TransformerXL(4, count=3, width=12, order="interleaved")
    scores = (q @ k.mT + posenc.relative(spec, q, k, params=params)) * spec.scale
    close(scores.softmax(-1), theirs)


def test_parakeet(float64: None) -> None:
    from transformers.models.parakeet import modeling_parakeet as code

    config = transformers.ParakeetEncoderConfig(
        hidden_size=12, num_attention_heads=3, num_key_value_heads=3, attention_dropout=0.0
    )
    config._attn_implementation = "eager"
    attention = randomise(code.ParakeetEncoderAttention(config, 0))
    x = torch.randn(2, 21, 12)
    rows = code.ParakeetEncoderRelPositionalEncoding(config)(x)
    theirs = weights_of(attention, x, position_embeddings=rows)
    q, k = (
        layer(x).unflatten(-1, (3, 4)).transpose(1, 2)
        for layer in (attention.q_proj, attention.k_proj)
    )
    params = conformer(attention, ("bias_u", "bias_v", "relative_k_proj"))
    spec = TransformerXL(4, count=3, width=12, order="interleaved")
    scores = (q @ k.mT + posenc.relative(spec, q, k, params=params)) * spec.scale
    close(scores.softmax(-1), theirs, FREQUENCIES)


def test_gemma3n_audio(float64: None) -> None:
    """Blocks of queries, each with its own stretch of keys: a matter of positions."""
    from transformers.models.gemma3n import modeling_gemma3n as code

    left, chunk = 6, 4
    config = transformers.Gemma3nAudioConfig(
        hidden_size=12,
        conf_num_attention_heads=3,
        conf_attention_chunk_size=chunk,
        conf_attention_context_left=left,
        conf_attention_context_right=0,
    )
    module = randomise(code.Gemma3nAudioRelativePositionEmbedding(config))
    keys = chunk + left - 1
    q, k = torch.randn(2, 5, chunk, 3, 4), torch.randn(2, 5, keys, 3, 4)
    theirs = module(q, k).transpose(1, 2)
    spec = TransformerXL(4, count=3, width=12, ladder=Ladder(denominator="n-1"))
    params = {
        "u": torch.zeros(3, 4),
        "v": torch.zeros(3, 4),
        "projection": module.pos_proj.weight.reshape(3, 4, 12),
    }
    m, n = torch.arange(left - 1, keys), torch.arange(keys)
    q, k = q.transpose(2, 3), k.transpose(2, 3)
    ours = q @ k.mT + posenc.relative(spec, q, k, m, n, params=params)
    # Beyond its horizons it has no rows, and masks what is there.
    rel = m[:, None] - n[None, :]
    near = (rel >= 0) & (rel < left)
    close(torch.where(near, ours, 0.0), torch.where(near, theirs, 0.0), FREQUENCIES)


# --- Shaw in blocks, and content of its own -----------------------------------------------------


@pytest.mark.parametrize("length", [10, 23])
def test_granite_speech(float64: None, length: int) -> None:
    """The layer as it is installed: blocks of the context, and its output from ours."""
    from torch.nn.functional import pad, scaled_dot_product_attention
    from transformers.models.granite_speech import modeling_granite_speech as code

    config = transformers.GraniteSpeechEncoderConfig(
        hidden_dim=12, num_heads=3, dim_head=4, context_size=10, max_pos_emb=12, dropout=0.0
    )
    attention = randomise(code.GraniteSpeechConformerAttention(config))
    seq = torch.arange(10)
    distances = torch.clamp(seq.view(-1, 1) - seq.view(1, -1), -10, 10) + config.max_pos_emb
    x = torch.randn(2, length, 12)
    theirs = attention(x, distances)
    blocks = -(-length // 10)
    inside = pad(attention.pre_norm(x), (0, 0, 0, blocks * 10 - length))
    q, k, v = (
        y.reshape(2, blocks, 10, 3, 4).transpose(2, 3)
        for y in (attention.to_q(inside), *attention.to_kv(inside).chunk(2, dim=-1))
    )
    spec = Shaw(4, clip=12, acts_on="keys", distance="query-key")
    params = {"keys": attention.rel_pos_emb.weight}
    added = posenc.relative(spec, q, k, seq, seq, params=params) * spec.scale
    real = (torch.arange(blocks * 10) < length).reshape(blocks, 1, 10)
    both = real.unsqueeze(-1) & real.unsqueeze(-2)
    added = torch.where(both, added, -torch.finfo(torch.float64).max)
    out = scaled_dot_product_attention(q, k, v, attn_mask=added, scale=spec.scale)
    out = out.transpose(2, 3).reshape(2, blocks * 10, 12)[:, :length]
    close(attention.to_out(out), theirs)


def test_inkling(float64: None) -> None:
    """Profiles over past distances, mixed by a vector of each token: Shaw's term on that vector."""
    from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

    module = randomise(InklingRelativeLogits(5, 9))
    states = torch.randn(2, 7, 3, 5)
    m, n = torch.arange(20, 27), torch.arange(27)
    theirs = module(states, m, n)
    spec = Shaw(5, clip=(-8, 0), acts_on="keys", outside="zero", added="after")
    content = states.transpose(1, 2)
    keys = torch.zeros(2, 3, 27, 5)
    params = {"keys": module.proj.T.flip(0)}
    close(posenc.relative(spec, content, keys, m, n, params=params), theirs)


def test_forgetting_transformer(float64: None) -> None:
    module = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is not installed"
    )
    gates = randomise(module.DataDependentAlibi(12, 3))
    x = torch.randn(2, 40, 12)
    theirs = gates(x)
    linear = gates.to_forget_gates[0]
    spec = ForgetGates(12, count=3)
    content = x[:, None].expand(-1, 3, -1, -1)
    params = {"weight": linear.weight, "bias": linear.bias}
    ours = posenc.relative(spec, content, content, params=params)
    past = torch.ones(40, 40).tril() > 0
    close(torch.where(past, ours, 0.0), torch.where(past, theirs, 0.0))


# --- DeBERTa, fewer queries than keys -----------------------------------------------------------


def deberta(terms: str) -> tuple[Any, Any, dict[str, Any]]:
    from transformers.models.deberta_v2 import modeling_deberta_v2 as code

    config = transformers.DebertaV2Config(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=terms.split("_"),
        max_relative_positions=40,
        position_buckets=8,
        share_att_key=True,
        hidden_dropout_prob=0.0,
    )
    attention = randomise(code.DisentangledSelfAttention(config))
    table = torch.randn(16, 12)
    split = lambda x: attention.transpose_for_scores(x[None], 3)  # noqa: E731
    params = {
        "key": split(attention.key_proj(table)),
        "query": split(attention.query_proj(table)),
    }
    return attention, table, params


def test_deberta_v2_with_fewer_queries_than_keys(float64: None) -> None:
    attention, table, params = deberta("c2p")
    q, k = torch.randn(6, 23, 4), torch.randn(6, 77, 4)
    theirs = attention.disentangled_attention_bias(q, k, None, table, 2).reshape(2, 3, 23, 77)
    spec = Disentangled(4, count=3, max_distance=40, buckets=8, terms="c2p")
    q, k = (x.unflatten(0, (2, 3)) for x in (q, k))
    given = {"key": params["key"]}
    ours = posenc.relative(spec, q, k, torch.arange(23), torch.arange(77), params=given)
    close(ours * spec.scale, theirs, ROOT)


def test_deberta_v2_rows_of_some_queries(float64: None) -> None:
    """Its position-to-content term takes square scores alone: some of their rows, then."""
    attention, table, params = deberta("c2p_p2c")
    q, k = torch.randn(2, 6, 77, 4)
    theirs = attention.disentangled_attention_bias(q, k, None, table, 3).reshape(2, 3, 77, 77)
    with pytest.raises(RuntimeError):
        attention.disentangled_attention_bias(q[:, 50:], k, None, table, 3)
    spec = Disentangled(4, count=3, max_distance=40, buckets=8)
    q, k = (x.unflatten(0, (2, 3)) for x in (q, k))
    rows = torch.arange(50, 77)
    ours = posenc.relative(spec, q[:, :, rows], k, rows, torch.arange(77), params=params)
    close(ours * spec.scale, theirs[:, :, rows], ROOT)
