"""Models of pictures and films, wrappers, and attentions inside which nothing is seen."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("diffusers")

from torch import nn  # noqa: E402

import posenc  # noqa: E402
from posenc.torch import trace  # noqa: E402
from tests.oracles.originals import diffusion as theirs  # noqa: E402
from tests.originals.test_diffusion_models import MODELS  # noqa: E402
from tests.trace import broken, models as m  # noqa: E402
from tests.trace.breaks import angles  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ROPE = posenc.RoPE(16, pairing="half")
# What is not compared of them, and why.
LEFT = {
    "HunyuanVideoTransformer3DModel": "it is not turned, and positions along its axes",
    "LTXVideoTransformer3DModel": "no angles of whole ones",
}
ORDINARY = ("Ideogram4Transformer2DModel",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ORDINARY else pytest.mark.slow("detect/trace"))
        for name in MODELS
    ],
)
def test_diffusion(name: str) -> None:
    """A model of diffusers is held against its own config, at positions that its angles tell."""
    torch.manual_seed(0)
    model = getattr(theirs.classes(), name)(**MODELS[name].config).eval()
    seen = trace(model, MODELS[name].call(model))
    assert seen.findings == ()
    assert any(layer.query.pairs for layer in seen.layers) or name in LEFT
    assert all(name in LEFT and LEFT[name] in text for text in seen.unseen), seen
    assert bool(seen.unseen) == (name in LEFT)


def test_channels_of_all_heads() -> None:
    """LTX turns the channels of all heads as one: with its positions, too, nothing is blamed."""
    name = "LTXVideoTransformer3DModel"
    model = getattr(theirs.classes(), name)(**MODELS[name].config).eval()
    places = torch.rand(1, 72, 3)
    seen = trace(model, MODELS[name].call(model), positions=places)
    assert (seen.findings, seen.verdict) == ((), "not compared")
    assert "30 channels turn, which are more than a head has" in seen.unseen[0]


def windows(size: int) -> Any:
    """A tower of Qwen2.5-VL whose layers but the last see windows alone."""
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as module
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig

    torch.manual_seed(0)
    config = Qwen2_5_VLVisionConfig(
        depth=3, hidden_size=64, intermediate_size=48, num_heads=4, patch_size=4, window_size=size,
        temporal_patch_size=1, spatial_merge_size=2, out_hidden_size=64, fullatt_block_indexes=[2],
    )  # fmt: skip
    return module.Qwen2_5_VisionTransformerPretrainedModel._from_config(config).eval()


def test_windows() -> None:
    """Each window of a layer is an attention by itself, at positions of its own."""
    model = windows(8)
    inputs = {"hidden_states": torch.randn(16, 48), "grid_thw": torch.tensor([[1, 4, 4]])}
    seen = trace(model, inputs)
    assert (seen.verdict, len(seen.layers)) == ("agrees", 9)


class LastAxis(nn.Module):
    """A model whose ids have their axes last."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, position_ids: Any, **more: Any) -> Any:
        return self.model(position_ids=position_ids.movedim(-1, 0), **more)


def test_axes_of_ids() -> None:
    """Ids of several axes have these first, as in transformers, or last."""
    case = broken.qwen2_vl("sdpa")
    inputs = case.calls[0]
    last = {**inputs, "position_ids": inputs["position_ids"].movedim(0, -1)}
    for seen in (trace(case.model, inputs), trace(LastAxis(case.model), last)):
        assert seen.verdict == "agrees", seen
        assert seen.layers[0].query.positions[0, 8].tolist() == [6, 6, 8]  # type: ignore[index]


class Both(nn.Module):
    """A tower of pictures and a model of text, in one run."""

    def __init__(self, text: Any, tower: Any) -> None:
        super().__init__()
        self.text, self.tower = text, tower

    def forward(self, picture: Any, **more: Any) -> Any:
        return self.tower(**picture), self.text(**more)


def test_text_beside_a_tower() -> None:
    """Layers of text are held against the text of a config, whose tower has as many pairs."""
    both = {
        "model_type": "qwen2_vl", "text_config": broken.qwen2_vl("sdpa").expected,
        "vision_config": m.qwen_vision("sdpa").expected,
    }  # fmt: skip
    case = broken.qwen2_vl("sdpa")
    assert trace(case.model, {"input_ids": m.ids()}, expected=both).verdict == "agrees"
    angles.base(case.model)
    found = trace(case.model, {"input_ids": m.ids()}, expected=both).findings
    assert {(finding.layer, finding.field) for finding in found} == {(1, "base")}
    tower = m.qwen_vision("sdpa")  # of 24 cells, beside ids of 20 tokens
    ids = torch.arange(20).expand(3, 1, 20)
    inputs = {"input_ids": m.ids(1, 20), "position_ids": ids, "picture": tower.calls[0]}
    seen = trace(Both(broken.qwen2_vl("sdpa").model, tower.model), inputs, expected=both)
    assert (seen.verdict, len(seen.layers)) == ("agrees", 6)


# --- wrappers -------------------------------------------------------------------------------------


class Wrapper(nn.Module):
    """As adapters do, it hands on what it gets, and adds low ranks to a projection."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        for layer in model.model.layers:
            own = layer.self_attn
            own.q_proj = Adapted(own.q_proj)

    def forward(self, *args: Any, **more: Any) -> Any:
        return self.model(*args, **more)


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.dropout = base, nn.Dropout(0.1)
        self.a = nn.Linear(base.in_features, 4, bias=False)
        self.b = nn.Linear(4, base.out_features, bias=False)

    def forward(self, x: Any) -> Any:
        return self.base(x) + self.b(self.a(self.dropout(x))) * 2.0


def test_adapters() -> None:
    """An adapter around a model and its projections is no matter of positions."""
    model = m.text("Llama", num_hidden_layers=2)("sdpa").model
    wrapped = Wrapper(model)
    assert posenc.trace(wrapped, tokens=8).verdict == "agrees"
    angles.base(model)
    found = posenc.trace(wrapped, tokens=24).findings
    assert {(finding.layer, finding.field) for finding in found} == {(1, "base")}


class Prefixed(nn.Module):
    """Learned keys and values before the text, as of prefix tuning."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self.prefix = nn.Embedding(4, 2 * 2 * 2 * 16)

    def forward(self, input_ids: Any) -> Any:
        own = self.prefix(torch.arange(4)).view(4, 2, 2, 2, 16).permute(1, 2, 3, 0, 4)
        cache = transformers.DynamicCache()
        for layer, (key, value) in enumerate(own):
            cache.update(key[None], value[None], layer)
        return self.model(input_ids, past_key_values=cache)


def test_learned_keys() -> None:
    """Keys that no token made are not vouched for, nor blamed for standing still."""
    seen = trace(Prefixed(m.text("Llama", num_hidden_layers=2)("sdpa").model), m.ids())
    assert seen.findings == ()
    assert len(seen.unseen) == 2
    assert all("key: 4 keys, because they come from no product" in text for text in seen.unseen)


# --- what is not seen -----------------------------------------------------------------------------


class Heads(nn.Module):
    """Two heads of queries, keys and values, and a function that attends."""

    def __init__(self, attend: Any, constant: bool = False) -> None:
        super().__init__()
        self.embed, self.qkv = nn.Embedding(20, 32), nn.Linear(32, 96)
        self.attend, self.constant = attend, constant

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        q, k, v = (y.unflatten(-1, (2, 16)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        return self.attend(torch.ones_like(q).detach() if self.constant else q, k, v)


class Fused(nn.Module):
    """An attention of `torch.nn`."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention = nn.Embedding(20, 32), nn.MultiheadAttention(32, 2)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        return self.attention(x, x, x)[0]


class Beside(nn.Module):
    """One that is seen, and another."""

    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.seen, self.other = Heads(nn.functional.scaled_dot_product_attention), other

    def forward(self, ids: Any) -> Any:
        return self.seen(ids).sum() + self.other(ids).sum()


def flash(q: Any, k: Any, v: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]


UNSEEN = {
    "MultiheadAttention": (Fused, "multi_head_attention_forward is one function"),
    "a kernel": (lambda: Heads(flash), "flash_attention_for_cpu is one function"),
    "no product": (
        lambda: Heads(nn.functional.scaled_dot_product_attention, constant=True),
        "queries or keys come from no product",
    ),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_attentions_that_are_not_seen(name: str) -> None:
    """By itself it is an error; beside another, a line, and no agreement."""
    build, text = UNSEEN[name]
    tokens = m.ids(2, 9) % 20
    with pytest.raises(posenc.DataError, match=text):
        trace(build(), tokens, expected=ROPE)
    nothing = trace(Beside(Heads(nn.functional.scaled_dot_product_attention)), tokens)
    assert nothing.unseen == ()
    seen = trace(Beside(build()), tokens, expected=trace(Beside(build()), tokens))
    assert (seen.verdict, seen.findings) == ("not compared", ())
    assert "other" in seen.unseen[0]
    assert text in seen.unseen[0]


def one_of_expanded(q: Any, k: Any, v: Any) -> Any:
    """Keys of one head for all, of which the second is not turned."""
    k = k[:, :1].expand_as(q)
    turned = posenc.rotate(ROPE, k)
    k = torch.cat([turned[:, :1], k[:, 1:]], dim=1)
    return nn.functional.scaled_dot_product_attention(posenc.rotate(ROPE, q), k, v)


def test_expanded_heads() -> None:
    """Heads that read the same numbers may still be turned otherwise."""
    found = trace(Heads(one_of_expanded), m.ids(1, 9) % 20, expected=ROPE).findings
    assert [(f.tensor, f.heads, f.field) for f in found] == [("key", (1,), "kind")]


def test_sorts_of_expectation() -> None:
    """A config, its reading and its facts are one thing."""
    case = broken.llama("sdpa")
    about = posenc.facts(case.expected)
    traces = [trace(case.model, m.ids(1, 6), expected=own) for own in (about, about.reading)]
    assert [str(seen).partition("held")[0] for seen in traces] == [
        "agrees: 3 attentions ran on 6 tokens at positions 0 to 5, "
    ] * 2
