# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""The output of attention layers, rebuilt from what their plans say.

A layer of transformers runs in float64 with random weights. Its config is read into a plan, and the
output is built again from its projections: where the plan's spec says that a bias is added, before
or after the scores are divided, and by what, as the plan has it.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from torch.nn.functional import normalize, softplus

import posenc
from tests.originals.test_scores import grid

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.costly,
]

HEADS, WIDTH, LENGTH = 4, 16, 9
# Some originals form a root, a logarithm or a ladder in float32 all the same.
CLOSE = 1e-6


@pytest.fixture(autouse=True)
def float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Original code in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


@dataclasses.dataclass
class Layer:
    """What a layer of transformers made, and what it was made from."""

    config: Any
    output: Any
    q: Any
    k: Any
    v: Any
    params: dict[str, Any] | list[dict[str, Any]]
    finish: Callable[[Any], Any]  # of (batch, seq, width)
    where: Any = None
    content: Any = None  # of a relative encoding that does not look at queries
    causal: bool = False
    scaled: bool = False  # whether the queries come with a scale of their own, learned


def rebuilt(entries: list[posenc.Layer], layer: Layer) -> Any:
    """Attention by the plan: scores, their scale, what is added, softmax, values."""
    specs: list[Any] = [entry.spec for entry in entries]
    scale = next((entry.scale for entry in entries if entry.scale is not None), None)
    if scale is None:
        own = (spec.scale for spec in specs if spec.kind == "relative")
        scale = next(own, layer.q.shape[-1] ** -0.5)
    scale = 1.0 if layer.scaled else scale
    scores = layer.q @ layer.k.mT * scale
    where_of = places(entries, layer)
    for spec, params, where in zip(specs, layer.params, where_of, strict=True):
        if spec.kind == "bias":
            more: dict[str, Any] = {"params": params, "dtype": torch.float64, "xp": torch}
            term = posenc.bias(spec, where, where, **more)
        else:
            content = (layer.q, layer.k) if layer.content is None else layer.content
            term = posenc.relative(spec, *content, where, where, params=params)
        scores = scores + (term * scale if spec.place == "before" else term)
    if layer.causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -math.inf)
    weights = scores.softmax(-1)
    out = weights @ layer.v
    for spec, params, where in zip(specs, layer.params, where_of, strict=True):
        if spec.kind == "relative" and spec.on_values:
            out = out + posenc.relative_values(spec, weights, where, where, params=params)
    return layer.finish(out.transpose(1, 2).flatten(-2))


def places(entries: list[posenc.Layer], layer: Layer) -> list[Any]:
    """The positions for each spec: by the plan, where it says how they are made."""
    given = layer.where if isinstance(layer.where, list) else [layer.where] * len(entries)
    made = []
    for entry, where in zip(entries, given, strict=True):
        rule = entry.positions
        if rule is None or rule.builder == "from_mask":
            made.append(torch.arange(LENGTH) if where is None else where)
            continue
        side = math.isqrt(layer.q.shape[-2])
        sizes = LENGTH if rule.builder == "arange" else {"row": side, "column": side}
        made.append(rule.build(sizes, xp=torch))
        assert where is None or torch.equal(made[-1], where)
    return made


def heads(x: Any, count: int = HEADS) -> Any:
    """(batch, seq, width) -> (batch, heads, seq, dim)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def module_of(package: str, name: str = "") -> Any:
    return importlib.import_module(f"transformers.models.{package}.modeling_{name or package}")


def randomise(module: Any) -> Any:
    """All parameters float64, large enough that no term hides another."""
    module.double().eval()  # LeViT's answers nothing
    for parameter in module.parameters():
        parameter.data.normal_(std=0.5)
    return module


def states(*shape: int) -> Any:
    return torch.randn(*(shape or (2, LENGTH, WIDTH)))


def config_of(name: str, **fields: Any) -> Any:
    """A config of transformers, for code that is not fused."""
    config = getattr(transformers, name)(**fields)
    config._attn_implementation = "eager"
    return config


def identity(out: Any) -> Any:
    return out


def triangle(mark: Any) -> Any:
    """An additive mask of the future."""
    return torch.zeros(1, 1, LENGTH, LENGTH).masked_fill(
        torch.ones(LENGTH, LENGTH).triu(1) > 0, mark
    )


# --- biases ---------------------------------------------------------------------------------------


def bloom() -> Layer:
    code = module_of("bloom")
    config = config_of("BloomConfig", n_head=HEADS, hidden_size=WIDTH, hidden_dropout=0.0)
    layer, x = randomise(code.BloomAttention(config, layer_idx=0)), states()
    mask = torch.ones(2, LENGTH)
    alibi = code.build_alibi_tensor(mask, HEADS, torch.float64)
    more = {"residual": torch.zeros_like(x), "alibi": alibi}
    out = layer(x, attention_mask=triangle(-math.inf), **more)[0]
    q, k, v = layer._reshape(layer.query_key_value(x))
    return Layer(config, out, q, k, v, [{}], layer.dense, causal=True)


def falcon() -> Layer:
    code = module_of("falcon")
    config = config_of(
        "FalconConfig",
        num_attention_heads=HEADS,
        hidden_size=WIDTH,
        alibi=True,
        multi_query=False,
        new_decoder_architecture=False,
    )
    layer, x = randomise(code.FalconAttention(config, layer_idx=0)), states()
    alibi = code.build_alibi_tensor(torch.ones(2, LENGTH), HEADS, torch.float64)
    out = layer(x, alibi=alibi, attention_mask=triangle(-1e30))[0]
    q, k, v = (y.transpose(1, 2) for y in layer._split_heads(layer.query_key_value(x)))
    return Layer(config, out, q, k, v, [{}], layer.dense, causal=True)


def mpt(softmax_scale: float | None = None) -> Layer:
    code = module_of("mpt")
    attention = {"alibi": True, "softmax_scale": softmax_scale, "attn_pdrop": 0}
    config = config_of("MptConfig", n_heads=HEADS, d_model=WIDTH, attn_config=attention)
    layer, x = randomise(code.MptAttention(config, layer_idx=0)), states()
    alibi = code.build_mpt_alibi_tensor(HEADS, LENGTH, 8)
    future = torch.ones(1, 1, LENGTH, LENGTH).triu(1) > 0
    out = layer(x, position_bias=alibi, attention_mask=future)[0]
    q, k, v = (heads(y) for y in layer.Wqkv(x).chunk(3, dim=-1))
    return Layer(config, out, q, k, v, [{}], layer.out_proj, causal=True)


def t5(package: str, name: str, stack: str = "encoder", names: str = "q k v o") -> Layer:
    fields = {"d_model": WIDTH, "hidden_size": WIDTH, "d_kv": 4, "num_heads": HEADS}
    config = config_of(f"{name}Config", **fields, dropout_rate=0.0, dropout=0.0)
    config.is_decoder = stack == "decoder"
    kind = getattr(module_of(package), f"{name.removesuffix('Text')}Attention", None)
    kind = getattr(module_of(package), f"{name}Attention") if kind is None else kind
    layer = randomise(kind(config, has_relative_attention_bias=True, layer_idx=0))
    x, causal = states(), stack == "decoder"
    mask = triangle(-math.inf) if causal else torch.zeros(1, 1, LENGTH, LENGTH)
    given = {"attention_mask": mask} if package == "umt5" else {"mask": mask}
    out = layer(x, **given)[0]
    q, k, v, o = (getattr(layer, part) for part in names.split())
    params = [{"weight": layer.relative_attention_bias.weight}]
    return Layer(config, out, heads(q(x)), heads(k(x)), heads(v(x)), params, o, causal=causal)


def mpnet() -> Layer:
    code = module_of("mpnet")
    config = config_of("MPNetConfig", hidden_size=WIDTH, num_attention_heads=HEADS)
    encoder, x = randomise(code.MPNetEncoder(config)), states()
    layer = encoder.layer[0].attention.attn
    out = layer(x, position_bias=encoder.compute_position_bias(x))[0]
    params = [{"weight": encoder.relative_attention_bias.weight}]
    return Layer(
        config, out, heads(layer.q(x)), heads(layer.k(x)), heads(layer.v(x)), params, layer.o
    )


def cpmant() -> Layer:
    code = module_of("cpmant")
    config = config_of("CpmAntConfig", hidden_size=WIDTH, num_attention_heads=HEADS, dim_head=4)
    layer, x = randomise(code.CpmAntAttention(config)), states()
    table = randomise(code.CpmAntSegmentPositionEmbedding(config))
    where, same = torch.arange(LENGTH).expand(2, -1), torch.zeros(2, LENGTH, dtype=torch.int32)
    out = layer(x, x, torch.ones(2, LENGTH, LENGTH) > 0, table(where, where, same, same))[0]
    weight = table.relative_attention_bias[: config.position_bias_num_buckets]
    q, k, v = (heads(y(x)) for y in (layer.project_q, layer.project_k, layer.project_v))
    return Layer(config, out, q, k, v, [{"weight": weight}], layer.attention_out)


def swin(package: str, name: str) -> Layer:
    config = config_of(
        f"{name}Config",
        embed_dim=WIDTH,
        depths=[1],
        num_heads=[HEADS],
        window_size=3,
        image_size=48,
    )
    code = module_of(package)
    x, cells = states(), grid(3, 3)
    layer = randomise(getattr(code, f"{name}Attention")(config, WIDTH, HEADS, 3))
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    weight = layer.relative_position_bias.relative_position_bias_table
    return Layer(config, layer(x)[0], q, k, v, [{"weight": weight}], layer.o_proj, where=cells)


def swin_of(package: str, name: str, config: str, **fields: Any) -> Layer:
    """Copies of Swin's first code."""
    made = config_of(config, depths=[1], window_size=3, **fields)
    layer = getattr(module_of(*package.split()), f"{name}SelfAttention")
    layer, x = randomise(layer(made, WIDTH, HEADS, 3)), states()
    q, k, v = (heads(y(x)) for y in (layer.query, layer.key, layer.value))
    params = [{"weight": layer.relative_position_bias_table}]
    return Layer(made, layer(x)[0], q, k, v, params, identity, where=grid(3, 3))


def swin_2(package: str, name: str) -> Layer:
    """Cosines of queries and keys, by a learned number of each head."""
    config = config_of(
        f"{name}Config",
        embed_dim=WIDTH,
        depths=[1],
        num_heads=[HEADS],
        window_size=3,
        image_size=48,
    )
    layer = randomise(
        getattr(module_of(package), f"{name}SelfAttention")(config, WIDTH, HEADS, (3, 3))
    )
    x, mlp = states(), layer.continuous_position_bias_mlp
    q, k, v = (heads(y(x)) for y in (layer.query, layer.key, layer.value))
    q = normalize(q, dim=-1) * layer.logit_scale.clamp(max=math.log(100)).exp()
    params = [
        {"hidden_weight": mlp[0].weight, "hidden_bias": mlp[0].bias, "head_weight": mlp[2].weight}
    ]
    k = normalize(k, dim=-1)
    return Layer(config, layer(x)[0], q, k, v, params, identity, where=grid(3, 3), scaled=True)


def beit(package: str, name: str) -> Layer:
    config = config_of(
        f"{name}Config",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        image_size=32,
        patch_size=16,
        use_relative_position_bias=True,
    )
    code = module_of(*package.split())
    x, cells = states(2, 5, WIDTH), torch.cat([torch.tensor([[-1, -1]]), grid(2, 2)])
    table = getattr(code, f"{name}RelativePositionBias")
    if package == "beit":
        layer, table = randomise(code.BeitAttention(config)), randomise(table(config))
        out = layer(x, attention_mask=table((2, 2)))[0]
        parts, finish = (layer.q_proj, layer.k_proj, layer.v_proj), layer.o_proj
    else:
        layer = randomise(getattr(code, f"{name}SelfAttention")(config))
        table = randomise(table(config, (2, 2)))
        out = layer(x, relative_position_bias=table((2, 2)))[0]
        parts, finish = (layer.query, layer.key, layer.value), identity
    q, k, v = (heads(part(x)) for part in parts)
    params = [{"weight": table.relative_position_bias_table}]
    return Layer(config, out, q, k, v, params, finish, where=cells)


def layoutlm(version: str) -> Layer:
    name = f"LayoutLM{version}"
    config = config_of(
        f"{name}Config",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        has_relative_attention_bias=True,
        has_spatial_attention_bias=True,
    )
    encoder = randomise(getattr(module_of(name.lower()), f"{name}Encoder")(config))
    x, where = states(), torch.arange(LENGTH).expand(2, -1)
    boxes = torch.randint(0, 1000, (2, LENGTH, 4))
    if version == "v2":
        of_text = encoder._calculate_1d_position_embeddings(where)
        of_page = encoder._calculate_2d_position_embeddings(boxes)
    else:
        of_text, of_page = encoder._cal_1d_pos_emb(where), encoder._cal_2d_pos_emb(boxes)
    layer = encoder.layer[0].attention.self
    mask = torch.zeros(1, 1, 1, LENGTH)
    out = layer(x, attention_mask=mask, rel_pos=of_text, rel_2d_pos=of_page)[0]
    made = (
        (layer.query(x), layer.key(x), layer.value(x)) if version == "v3" else layer.compute_qkv(x)
    )
    tables = {"": encoder.rel_pos_bias, "x_": encoder.rel_pos_x_bias, "y_": encoder.rel_pos_y_bias}
    params = [{f"{axis}weight": table.weight.T for axis, table in tables.items()}]
    places = torch.stack([where, boxes[..., 0], boxes[..., 3]], dim=-1)
    return Layer(config, out, *map(heads, made), params, identity, where=places)


def levit() -> Layer:
    config = config_of(
        "LevitConfig", hidden_sizes=[WIDTH] * 3, num_attention_heads=[HEADS] * 3, image_size=48
    )
    config.key_dim = [4] * 3
    layer, x = randomise(module_of("levit").LevitAttention(WIDTH, 4, HEADS, 2, 3)), states()
    made = layer.queries_keys_values(x).unflatten(-1, (HEADS, -1)).split([4, 4, 8], dim=-1)
    finish = lambda out: layer.projection(layer.activation(out))  # noqa: E731
    params = [{"weight": layer.attention_biases}]
    q, k, v = (y.transpose(1, 2) for y in made)
    return Layer(config, layer(x), q, k, v, params, finish, where=grid(3, 3))


def phi4_audio() -> Layer:
    code = module_of("phi4_multimodal")
    config = config_of(
        "Phi4MultimodalAudioConfig",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        bias_max_distance=4,
    )
    layer, x = randomise(code.Phi4MultimodalAudioAttention(config)), states()
    table = randomise(code.Phi4MultimodalAudioRelativeAttentionBias(config))
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    out, params = layer(x, attention_mask=table(x)), [{"weight": table.bias_values.weight}]
    return Layer(config, out, q, k, v, params, layer.o_proj)


# --- relative encodings ---------------------------------------------------------------------------


def shaw(package: str, name: str, config: str, **fields: Any) -> Layer:
    """Conformers with a table of clipped distances."""
    clip = {"left_max_position_embeddings": 3, "right_max_position_embeddings": 2}
    made = config_of(
        config, hidden_size=WIDTH, position_embeddings_type="relative_key", **clip, **fields
    )
    layer, x = randomise(getattr(module_of(package), name)(made)), states()
    q, k, v = (heads(y(x)) for y in (layer.linear_q, layer.linear_k, layer.linear_v))
    params = [{"keys": layer.distance_embedding.weight}]
    return Layer(made, layer(x)[0], q, k, v, params, layer.linear_out)


def conformer(package: str, name: str, config: str, **fields: Any) -> Layer:
    """Conformers with the distances of Transformer-XL."""
    made = config_of(config, hidden_size=WIDTH, position_embeddings_type="relative", **fields)
    code = module_of(package)
    layer, x = randomise(getattr(code, f"{name}SelfAttention")(made)), states()
    rows = getattr(code, f"{name}RelPositionalEmbedding")(made)(x)
    out = layer(x, relative_position_embeddings=rows)[0]
    q, k, v = (heads(y(x)) for y in (layer.linear_q, layer.linear_k, layer.linear_v))
    params = [
        {
            "u": layer.pos_bias_u,
            "v": layer.pos_bias_v,
            "projection": layer.linear_pos.weight.unflatten(0, (HEADS, -1)),
        }
    ]
    return Layer(made, out, q, k, v, params, layer.linear_out)


def fastspeech2() -> Layer:
    code = module_of("fastspeech2_conformer")
    config = config_of(
        "FastSpeech2ConformerConfig",
        hidden_size=WIDTH,
        encoder_num_attention_heads=HEADS,
        decoder_num_attention_heads=HEADS,
    )
    more = {
        "num_attention_heads": HEADS,
        "attention_dropout_rate": 0.0,
        "positional_dropout_rate": 0.0,
    }
    layer = randomise(code.FastSpeech2ConformerAttention(config, more))
    x, rows = code.FastSpeech2ConformerRelPositionalEncoding(config, more)(states() / WIDTH)
    q, k, v = (heads(y(x)) for y in (layer.linear_q, layer.linear_k, layer.linear_v))
    projection = layer.linear_pos.weight.unflatten(0, (HEADS, -1))
    params = [{"u": layer.pos_bias_u, "v": layer.pos_bias_v, "projection": projection}]
    return Layer(config, layer(x, pos_emb=rows)[0], q, k, v, params, layer.linear_out)


def parakeet() -> Layer:
    code = module_of("parakeet")
    sizes = {"num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    config = config_of("ParakeetEncoderConfig", hidden_size=WIDTH, **sizes)
    layer, x = randomise(code.ParakeetEncoderAttention(config, 0)), states()
    out = layer(x, position_embeddings=code.ParakeetEncoderRelPositionalEncoding(config)(x))[0]
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    projection = layer.relative_k_proj.weight.unflatten(0, (HEADS, -1))
    params = [{"u": layer.bias_u, "v": layer.bias_v, "projection": projection}]
    return Layer(config, out, q, k, v, params, layer.o_proj)


def speecht5() -> Layer:
    code = module_of("speecht5")
    sizes = {"encoder_attention_heads": HEADS, "encoder_max_relative_position": 4}
    config = config_of("SpeechT5Config", hidden_size=WIDTH, **sizes)
    layer, x = randomise(code.SpeechT5Attention(WIDTH, HEADS)), states()
    table = randomise(code.SpeechT5RelativePositionalEncoding(4, 4))
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    out, params = layer(x, position_bias=table(x))[0], [{"keys": table.pe_k.weight}]
    return Layer(config, out, q, k, v, params, layer.out_proj)


def vits() -> Layer:
    config = config_of("VitsConfig", hidden_size=WIDTH, num_attention_heads=HEADS, window_size=2)
    layer, x = randomise(module_of("vits").VitsAttention(config)), states()
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    params = [{"keys": layer.emb_rel_k[0], "values": layer.emb_rel_v[0]}]
    return Layer(config, layer(x)[0], q, k, v, params, layer.out_proj)


def granite_speech5() -> Layer:
    """One block of context."""
    config = config_of(
        "GraniteSpeech5EncoderConfig",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=4,
        context_size=LENGTH,
        max_position_embeddings=12,
    )
    layer, x = (
        randomise(module_of("granite_speech5").GraniteSpeech5EncoderAttention(config, 0)),
        states(),
    )
    seq = torch.arange(LENGTH)
    out = layer(x, seq[:, None] - seq[None] + 12)[0]
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    return Layer(config, out, q, k, v, [{"keys": layer.rel_pos_emb.weight}], layer.o_proj)


def inkling(package: str, name: str, **fields: Any) -> Layer:
    """A vector beside the query looks at distances; keys and values pass a convolution."""
    code = module_of(package)
    config = config_of(
        f"{name}TextConfig",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=4,
        d_rel=6,
        rel_extent=5,
        num_hidden_layers=1,
        log_scaling_n_floor=None,
        **fields,
    )
    layer, x = randomise(getattr(code, f"{name}Attention")(config, 0)), states()
    read: list[Any] = []
    for norm in (layer.q_norm, layer.k_norm):
        norm.register_forward_hook(lambda _module, _inputs, out: read.append(out.transpose(1, 2)))
    layer.v_sconv.register_forward_hook(lambda _module, _inputs, out: read.append(out))
    out = layer(x, attention_mask=triangle(-math.inf))[0]
    made = {"v": heads(read[0]), "q": read[1], "k": read[2]}
    mixed = heads(layer.r_proj(x))
    params = [{"keys": layer.rel_logits_proj.proj.T.flip(0)}]
    content = (mixed, torch.zeros_like(mixed))
    return Layer(
        config, out, **made, params=params, finish=layer.o_proj, content=content, causal=True
    )


def deberta(package: str, name: str) -> Layer:
    fields: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 12,
        "max_position_embeddings": 12,
        "position_buckets": 4,
        "share_att_key": True,
    }
    config = config_of(f"{name}Config", **fields)
    layer, x = randomise(module_of(package).DisentangledSelfAttention(config)), states()
    span = 12 if package == "deberta" else 4
    table, seq = states(2 * span, WIDTH), torch.arange(LENGTH)
    mask = torch.ones(2, 1, LENGTH, LENGTH)
    if package == "deberta":
        steps = (seq[:, None] - seq)[None]
        out = layer(x, mask > 0, relative_pos=steps, rel_embeddings=table)[0]
        q, k, v = layer.transpose_for_scores(layer.in_proj(x)).chunk(3, dim=-1)
        q = q + layer.transpose_for_scores(layer.q_bias[None, None])
        v = v + layer.transpose_for_scores(layer.v_bias[None, None])
        keys, queries = layer.pos_proj(table), layer.pos_q_proj(table)
    else:
        out = layer(x, mask > 0, rel_embeddings=table)[0]
        q, k, v = (heads(y(x)) for y in (layer.query_proj, layer.key_proj, layer.value_proj))
        keys, queries = layer.key_proj(table), layer.query_proj(table)
    params = [{"key": heads(keys[None])[0], "query": heads(queries[None])[0]}]
    return Layer(config, out, q, k, v, params, identity)


def decomposed(package: str, name: str, config: Any, *given: Any) -> Layer:
    """Rows and columns of a grid, each with a table."""
    layer = randomise(getattr(module_of(package), name)(config, *given))
    x = states(2, 3, 3, WIDTH)
    made = layer.qkv(x).flatten(1, 2).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    out = layer(x)[0].flatten(1, 2)
    params = [{"row": layer.rel_pos_h, "column": layer.rel_pos_w}]
    q, k, v = made
    return Layer(config, out, q, k, v, params, layer.proj, where=grid(3, 3))


def sam() -> Layer:
    fields = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "window_size": 3}
    config = config_of("SamVisionConfig", **fields, image_size=48, patch_size=16)
    return decomposed("sam", "SamVisionAttention", config, 3)


def vitdet() -> Layer:
    fields = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "window_size": 3}
    config = config_of(
        "VitDetConfig",
        **fields,
        image_size=48,
        patch_size=16,
        use_relative_position_embeddings=True,
    )
    return decomposed("vitdet", "VitDetAttention", config, (3, 3))


def seggpt() -> Layer:
    fields = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "image_size": (48, 48)}
    config = config_of(
        "SegGptConfig", **fields, patch_size=16, use_relative_position_embeddings=True
    )
    return decomposed("seggpt", "SegGptAttention", config)


def wavlm() -> Layer:
    """Gates that look at the input of the layer, cut into heads."""
    sizes = {"num_buckets": 16, "max_bucket_distance": 40}
    config = config_of("WavLMConfig", hidden_size=WIDTH, num_attention_heads=HEADS, **sizes)
    layer = randomise(module_of("wavlm").WavLMAttention(WIDTH, HEADS, 0.0, 16, 40))
    x = states()
    params = [
        {
            "weight": layer.rel_attn_embed.weight,
            "gate_weight": layer.gru_rel_pos_linear.weight,
            "gate_bias": layer.gru_rel_pos_linear.bias,
            "factor": layer.gru_rel_pos_const.flatten(),
        }
    ]
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    content = (heads(x), heads(x))
    return Layer(config, layer(x)[0], q, k, v, params, layer.out_proj, content=content)


def xlnet() -> Layer:
    """Distances and segments in one layer; the residual and the norm are undone."""
    code = module_of("xlnet")
    config = config_of(
        "XLNetConfig", d_model=WIDTH, n_head=HEADS, n_layer=1, d_inner=4, vocab_size=9
    )
    layer, x = randomise(code.XLNetRelativeAttention(config)), states()
    model = SimpleNamespace(
        d_model=WIDTH,
        attn_type="bi",
        bi_data=False,
        clamp_len=-1,
        positional_embedding=code.XLNetModel.positional_embedding,
    )
    rows = code.XLNetModel.relative_positional_encoding(model, LENGTH, LENGTH, bsz=2)
    segments = torch.tensor([[0] * 4 + [1] * 5, [0] * 6 + [1] * 3])
    other = (segments.T[:, None] != segments.T[None]).long()
    pairs = torch.nn.functional.one_hot(other, num_classes=2).double()
    layer.post_attention = lambda h, made: made  # (seq, batch, heads, dim)
    out = layer(x.transpose(0, 1), None, None, None, rows, pairs)[0].transpose(0, 1).flatten(-2)
    q, k, v = (torch.einsum("bih,hnd->bnid", x, w) for w in (layer.q, layer.k, layer.v))
    params: list[dict[str, Any]] = [
        {"u": layer.r_w_bias, "v": layer.r_r_bias, "projection": layer.r.permute(1, 2, 0)},
        {"bias": layer.r_s_bias, "weight": layer.seg_embed.transpose(0, 1)},
    ]
    where = [torch.arange(LENGTH), segments]
    return Layer(config, out, q, k, v, params, identity, where=where)


def gemma_audio() -> Layer:
    """Queries come scaled; one block of queries and its keys, under a cap that bends nothing."""
    code = module_of("gemma4")
    config = config_of(
        "Gemma4AudioConfig",
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_chunk_size=LENGTH,
        attention_context_left=LENGTH + 1,
        attention_context_right=0,
        attention_logit_cap=1e9,
    )
    layer, x = randomise(code.Gemma4AudioAttention(config, 0)), states()
    layer.softcap.fill_(1e9)
    rows = code.Gemma4AudioRelPositionalEncoding(config)(x)
    past = torch.arange(layer.context_size)[None] - layer.max_past_horizon
    seen = (past >= 0) & (past <= torch.arange(LENGTH)[:, None])
    out = layer(x, rows, attention_mask=(~seen).double())[0]
    q, k, v = (heads(y(x)) for y in (layer.q_proj, layer.k_proj, layer.v_proj))
    zeros = torch.zeros(HEADS, 4)
    projection = layer.relative_k_proj.weight.unflatten(0, (HEADS, -1))
    params = [{"u": zeros, "v": zeros, "projection": projection}]
    q = q * layer.q_scale * softplus(layer.per_dim_scale)
    return Layer(config, out, q, k * layer.k_scale, v, params, layer.post, causal=True)


CASES: dict[str, tuple[Callable[[], Layer], tuple[str, ...]]] = {
    "bloom": (bloom, ("model",)),
    "falcon": (falcon, ("model",)),
    "mpt": (mpt, ("model",)),
    "mpt, a scale of its own": (lambda: mpt(0.3), ("model",)),
    "t5, encoder": (lambda: t5("t5", "T5"), ("encoder",)),
    "t5, decoder": (lambda: t5("t5", "T5", "decoder"), ("decoder",)),
    "mt5": (lambda: t5("mt5", "MT5"), ("encoder",)),
    "umt5": (lambda: t5("umt5", "UMT5"), ("encoder",)),
    "switch": (lambda: t5("switch_transformers", "SwitchTransformers"), ("encoder",)),
    "pop2piano": (lambda: t5("pop2piano", "Pop2Piano"), ("encoder",)),
    "longt5": (lambda: t5("longt5", "LongT5", "decoder"), ("decoder",)),
    "udop": (lambda: t5("udop", "Udop", "decoder"), ("decoder",)),
    "pix2struct": (
        lambda: t5("pix2struct", "Pix2StructText", "decoder", "query key value output"),
        ("decoder",),
    ),
    "mpnet": (mpnet, ("attention",)),
    "cpmant": (cpmant, ("model",)),
    "swin": (lambda: swin("swin", "Swin"), ("stage 0",)),
    "clap": (
        lambda: swin_of(
            "clap", "ClapAudio", "ClapAudioConfig", num_attention_heads=[HEADS], hidden_size=WIDTH
        ),
        ("stage 0",),
    ),
    "donut": (
        lambda: swin_of(
            "donut donut_swin", "DonutSwin", "DonutSwinConfig", num_heads=[HEADS], embed_dim=WIDTH
        ),
        ("stage 0",),
    ),
    "maskformer": (
        lambda: swin_of(
            "maskformer maskformer_swin",
            "MaskFormerSwin",
            "MaskFormerSwinConfig",
            num_heads=[HEADS],
            embed_dim=WIDTH,
        ),
        ("stage 0",),
    ),
    "swin v2": (lambda: swin_2("swinv2", "Swinv2"), ("stage 0",)),
    "swin2sr": (lambda: swin_2("swin2sr", "Swin2SR"), ("stage 0",)),
    "beit": (lambda: beit("beit", "Beit"), ("attention",)),
    "data2vec": (lambda: beit("data2vec data2vec_vision", "Data2VecVision"), ("attention",)),
    "layoutlm v2": (lambda: layoutlm("v2"), ("attention",)),
    "layoutlm v3": (lambda: layoutlm("v3"), ("attention",)),
    "levit": (levit, ("stage 0",)),
    "phi4, audio": (phi4_audio, ("attention",)),
    "wav2vec2-bert, keys": (
        lambda: shaw(
            "wav2vec2_bert",
            "Wav2Vec2BertSelfAttention",
            "Wav2Vec2BertConfig",
            num_attention_heads=HEADS,
        ),
        ("attention",),
    ),
    "seamless v2": (
        lambda: shaw(
            "seamless_m4t_v2",
            "SeamlessM4Tv2ConformerSelfAttention",
            "SeamlessM4Tv2Config",
            speech_encoder_attention_heads=HEADS,
        ),
        ("speech encoder",),
    ),
    "speecht5": (speecht5, ("encoder",)),
    "vits": (vits, ("attention",)),
    "granite speech 5": (granite_speech5, ("attention",)),
    "inkling": (
        lambda: inkling("inkling", "Inkling", layer_types=["hybrid"]),
        ("global",),
    ),
    "wav2vec2-conformer": (
        lambda: conformer(
            "wav2vec2_conformer",
            "Wav2Vec2Conformer",
            "Wav2Vec2ConformerConfig",
            num_attention_heads=HEADS,
        ),
        ("attention",),
    ),
    "wav2vec2-bert": (
        lambda: conformer(
            "wav2vec2_bert", "Wav2Vec2Bert", "Wav2Vec2BertConfig", num_attention_heads=HEADS
        ),
        ("attention",),
    ),
    "seamless": (
        lambda: conformer(
            "seamless_m4t",
            "SeamlessM4TConformer",
            "SeamlessM4TConfig",
            speech_encoder_attention_heads=HEADS,
        ),
        ("speech encoder",),
    ),
    "fastspeech2": (fastspeech2, ("encoder",)),
    "parakeet": (parakeet, ("attention",)),
    "gemma 4, audio": (gemma_audio, ("attention",)),
    "xlnet": (xlnet, ("attention", "segments")),
    "deberta": (lambda: deberta("deberta", "Deberta"), ("attention",)),
    "deberta v2": (lambda: deberta("deberta_v2", "DebertaV2"), ("attention",)),
    "sew-d": (lambda: deberta("sew_d", "SEWD"), ("attention",)),
    "sam": (sam, ("windows",)),
    "vitdet": (vitdet, ("windows",)),
    "seggpt": (seggpt, ("attention",)),
    "wavlm": (wavlm, ("attention",)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_output_of_a_layer_is_what_its_plan_says(name: str) -> None:
    build, names = CASES[name]
    layer = build()
    plan = posenc.from_hf(layer.config, on_error="report")
    exact, got = layer.output, rebuilt([plan[entry] for entry in names], layer)
    torch.testing.assert_close(got, exact, rtol=0, atol=CLOSE * float(exact.abs().max()))


@pytest.mark.parametrize(
    "name", ["bloom", "falcon", "layoutlm v3", "speecht5", "sam", "phi4, audio"]
)
def test_the_other_place_is_another_output(name: str) -> None:
    """What the rows above hold can fail."""
    build, (entry,) = CASES[name]
    layer = build()
    said = posenc.from_hf(layer.config, on_error="report")[entry]
    assert said.spec is not None
    other = "after" if said.spec.place == "before" else "before"  # type: ignore[attr-defined]
    wrong = said.replace(spec=said.spec.replace(added=other))
    assert (rebuilt([wrong], layer) - layer.output).abs().max() > 1e-3 * layer.output.abs().max()


SPECS: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "funnel": (
        "FunnelConfig",
        {"d_model": 12, "n_head": 3, "d_head": 4},
        "attention",
        posenc.TransformerXL(4, count=3, width=12),
    ),
    "funnel, segments": (
        "FunnelConfig",
        {"d_model": 12, "n_head": 3, "d_head": 4},
        "segments",
        posenc.RelativeSegments(4, count=3, common=2),
    ),
    "granite speech": (
        "GraniteSpeechEncoderConfig",
        {"hidden_dim": 12, "num_heads": 3, "dim_head": 4, "max_pos_emb": 12},
        "attention",
        posenc.Shaw(4, clip=12, acts_on="keys", distance="query-key"),
    ),
    "gemma 3n, audio": (
        "Gemma3nAudioConfig",
        {"hidden_size": 12, "conf_num_attention_heads": 3},
        "attention",
        posenc.TransformerXL(4, count=3, width=12, ladder=posenc.Ladder(denominator="n-1")),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_plans_of_layers_that_the_file_on_relative_encodings_rebuilds(name: str) -> None:
    config, fields, entry, spec = SPECS[name]
    assert posenc.from_hf(config_of(config, **fields), on_error="report")[entry].spec == spec
