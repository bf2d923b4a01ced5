"""The model of the study: masks, padding, decoding and first weights, with every encoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the model is torch's")

import posenc  # noqa: E402
from posenc.encodings import api  # noqa: E402
from posenc.registry import SPECS  # noqa: E402
from posenc.torch.learned import LearnedModule  # noqa: E402
from posenc_study.generation.search import beam, greedy  # noqa: E402
from posenc_study.model.encodings import ENCODINGS, UNSUITED, encoding, kebab  # noqa: E402
from posenc_study.model.fitting import FittedSizes, for_heads  # noqa: E402
from posenc_study.model.inputs import Cache, Scheme, Shape, Tokens  # noqa: E402
from posenc_study.model.transformer import Transformer  # noqa: E402

SIZES = FittedSizes(width=24, heads=2, layers=2, length=16, longest=40)
CLOSE = 1e-12  # in float64, where rounding gives about 2e-15
EVERY = sorted(ENCODINGS)


def made(
    name: str, stacks: str = "encoder-decoder", norm: str = "pre", sizes: FittedSizes = SIZES
) -> Transformer:
    """A model in float64 whose weights are all moved, as zeros would hide what they belong to."""
    shape = Shape(stacks, 20, sizes.width, sizes.heads, sizes.layers, 2 * sizes.width, norm)
    model = Transformer(shape, encoding(name).scheme(sizes), seed=0).double().eval()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.2 * torch.randn(p.shape, generator=noise, dtype=p.dtype)
    return model


def drawn(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 20, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def _plain() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(
        1
    )  # as the study has it; more threads than cores would wait on each other
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


# --- every encoding -------------------------------------------------------------------------------


def test_every_encoding_of_the_registry_has_a_place_or_a_reason() -> None:
    for name in SPECS:
        assert (kebab(name) in ENCODINGS) != (kebab(name) in UNSUITED), name
    assert not set(UNSUITED) - {kebab(name) for name in SPECS}


@pytest.mark.parametrize("field", ["count", "arms", "heads"])
def test_a_class_gets_the_heads_of_the_model_whatever_its_field_is_called(field: str) -> None:
    """And no other field of that number changes."""

    class Body(api.RelativeSpec):
        heads = property(lambda self: getattr(self, field))

        def score(self, q: Any, k: Any, at: Any, constants: Any, *, dtype: Any, xp: Any) -> Any:
            return api.product(q, xp.matrix_transpose(k), xp=xp)

    spec: Any = posenc.PoPE(24, heads=4, pairing="half")  # rotations say so by `per_head`
    if field != "heads":
        fields = [("dim", int), ("clip", int), (field, int)]
        spec = make_dataclass("Own", fields, bases=(Body,), frozen=True)(24, 4, 4)
    assert for_heads(spec, 2) == spec.replace(**{field: 2})
    assert for_heads(posenc.Shaw(24, clip=4), 2) == posenc.Shaw(24, clip=4)


@pytest.mark.parametrize("name", EVERY)
def test_decoding_token_by_token_is_prefilling(name: str) -> None:
    model, target = made(name), drawn(3, 10)
    seen = torch.arange(7) < torch.tensor([7, 5, 6])[:, None]
    memory = model.encode(Tokens(drawn(3, 7, 1), seen=seen))
    whole = model.decode(Tokens(target), memory)
    cache, parts = Cache(), []
    for first, end in ((0, 3), (3, 4), (4, 5), (5, 8), (8, 10)):
        new = Tokens(target[:, first:end], torch.arange(first, end))
        parts.append(model.decode(new, memory, cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("name", EVERY)
def test_the_future_does_not_change_the_past(name: str) -> None:
    model, target = made(name, "decoder"), drawn(2, 9)
    other = target.clone()
    other[:, 6:] = drawn(2, 3, 2)
    before, after = model(Tokens(target)), model(Tokens(other))
    torch.testing.assert_close(after[:, :6], before[:, :6], atol=0, rtol=0)
    assert (after[:, 6:] - before[:, 6:]).abs().max() > 0.01


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_nothing(name: str) -> None:
    model, source = made(name, "encoder"), drawn(2, 8)
    seen = torch.ones(2, 11, dtype=torch.bool)
    seen[:, 8:] = False
    longer = torch.cat([source, drawn(2, 3, 3)], dim=1)
    found = model(Tokens(longer, seen=seen))[:, :8]
    torch.testing.assert_close(found, model(Tokens(source)), atol=CLOSE, rtol=0)


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"none"}))
def test_an_encoding_makes_a_difference(name: str) -> None:
    # By positions: the last token of a sequence whose others have changed places.
    model, tokens = made(name, "encoder"), drawn(1, 12)
    if encoding(name).drawn:
        scheme = model.scheme
        assert scheme.drawn is not None
        assert scheme.drawn >= SIZES.longest
    changed = tokens[:, [3, 1, 2, 0, *range(4, 12)]]
    assert (tokens != changed).any()
    apart = (model(Tokens(tokens)) - model(Tokens(changed)))[:, -1].abs().max()
    assert apart > 1e-6


def test_without_positions_an_encoder_cannot_know_the_order() -> None:
    model, tokens = made("none", "encoder"), drawn(1, 12)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(4))
    found = model(Tokens(tokens[:, order]))
    torch.testing.assert_close(found, model(Tokens(tokens))[:, order], atol=CLOSE, rtol=0)


def test_without_positions_a_decoder_still_knows_something_of_it() -> None:
    model, tokens = made("none", "decoder"), drawn(1, 12)
    changed = tokens[:, [3, 1, 2, 0, *range(4, 12)]]
    # In the second layer, what the other tokens say depends on what stood before them.
    assert (model(Tokens(tokens)) - model(Tokens(changed)))[:, -1].abs().max() > 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_the_longest_test_can_be_run(name: str) -> None:
    model, found = made(name, "decoder"), drawn(1, SIZES.longest)
    assert model(Tokens(found)).isfinite().all()


@pytest.mark.parametrize("name", EVERY)
def test_first_weights_are_those_of_no_positions(name: str) -> None:
    shape = Shape("encoder-decoder", 20, 24, 2, 2, 48)
    model = Transformer(shape, encoding(name).scheme(SIZES), seed=5)
    plain = dict(Transformer(shape, encoding("none").scheme(SIZES), seed=5).named_parameters())
    own = {id(p) for m in model.modules() if isinstance(m, LearnedModule) for p in m.parameters()}
    for parameter_name, p in model.named_parameters():
        if id(p) not in own and "pos_join" not in parameter_name:
            torch.testing.assert_close(p, plain.pop(parameter_name), atol=0, rtol=0)
    assert not plain


def test_first_weights_follow_the_seed() -> None:
    shape, scheme = Shape("decoder", 20, 24, 2, 2, 48), encoding("t5").scheme(SIZES)
    one, other = (Transformer(shape, scheme, seed=seed).state_dict() for seed in (1, 2))
    assert not torch.equal(one["embedding.weight"], other["embedding.weight"])
    bias = "decoder.positions.with.bias.weight"
    assert not torch.equal(one[bias], other[bias])


# --- the parts of the architecture ----------------------------------------------------------------


def test_an_attention_layer_by_hand() -> None:
    """One layer, one head, no positions: every step of the paper written out."""
    model = made("none", "decoder", sizes=FittedSizes(8, 1, 1, 16, 40))
    tokens = drawn(1, 5)
    layer, state = model.decoder.layers[0], torch.nn.functional
    x = model.embedding.weight[tokens[0]] * 8**0.5

    def norm(y: torch.Tensor, module: torch.nn.LayerNorm) -> torch.Tensor:
        centred = y - y.mean(-1, keepdim=True)
        size = (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / size * module.weight + module.bias

    y = norm(x, layer.self_norm)
    q, k, v = (
        y @ p.weight.T + p.bias
        for p in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
    )
    scores = (q @ k.T / 8**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    out = layer.self_attn.o_proj
    x = x + scores.softmax(-1) @ v @ out.weight.T + out.bias
    y = norm(x, layer.mlp_norm)
    hidden = state.gelu(y @ layer.up.weight.T + layer.up.bias)
    x = x + hidden @ layer.down.weight.T + layer.down.bias
    want = norm(x, model.decoder.final_norm) @ model.embedding.weight.T
    torch.testing.assert_close(model(Tokens(tokens))[0], want, atol=CLOSE, rtol=0)


def test_norms_after_the_sums() -> None:
    model = made("rope", norm="post")
    for stack in (model.encoder, model.decoder):
        assert isinstance(stack.final_norm, torch.nn.Identity)
    target, source = Tokens(drawn(2, 6)), Tokens(drawn(2, 5, 1))
    found = model(target, source)
    layer = model.decoder.layers[-1].mlp_norm
    layer.weight.zero_()
    layer.bias.zero_()
    assert found.abs().max() > 0.1
    assert model(target, source).abs().max() == 0  # the last norm is the last thing that happens


def test_tables_stand_at_both_inputs_and_embeddings_are_scaled() -> None:
    model = made("sinusoidal")
    tokens = drawn(1, 6)
    table = torch.from_numpy(posenc.table(posenc.Sinusoidal(24), 6, dtype="float64"))
    want = model.embedding.weight[tokens] * 24**0.5 + table
    for stack in (model.encoder, model.decoder):
        x = model.embedding(tokens) * 24**0.5
        torch.testing.assert_close(stack.embed(x, torch.arange(6), 1), want, atol=1e-12, rtol=0)


def test_an_appended_table_is_brought_back_to_the_width() -> None:
    model = Transformer(
        Shape("decoder", 20, 24, 2, 2, 48), encoding("concatenated").scheme(SIZES), seed=0
    )
    assert model.decoder.pos_join.weight.shape == (24, 48)
    torch.testing.assert_close(model.decoder.pos_join.weight[:, :24], torch.eye(24))
    assert model(Tokens(drawn(1, 4))).shape == (1, 4, 20)


def test_a_schedule_gives_each_layer_its_own() -> None:
    plan = encoding("rope-and-none").scheme(SIZES).decoder
    assert [entry.name for entry in (plan[0], plan[1])] == ["with", "without"]
    assert plan[0].window == SIZES.half
    assert not plan[1].specs


def test_shared_parameters_stand_once() -> None:
    model = made("t5", "decoder")
    names = [name for name, _ in model.named_parameters() if "positions" in name]
    assert names == ["decoder.positions.with.bias.weight"]
    names = [name for name, _ in made("kerple", "decoder").named_parameters() if "layer_1" in name]
    assert names


@pytest.mark.parametrize("vocabulary", [1, 3])
def test_odd_sizes(vocabulary: int) -> None:
    sizes = FittedSizes(width=9, heads=3, layers=1, length=5, longest=7)
    for name in ("none", "sinusoidal", "learned", "alibi", "t5", "kerple", "fire", "shaw"):
        shape = Shape("encoder-decoder", vocabulary, 9, 3, 1, 5)
        model = Transformer(shape, encoding(name).scheme(sizes), seed=0)
        one = Tokens(torch.zeros(1, 1, dtype=torch.int64))
        assert model(one, one).shape == (1, 1, vocabulary)


def test_left_padding_with_positions_of_its_own() -> None:
    model, tokens = made("learned", "decoder"), drawn(1, 5)
    padded = torch.cat([torch.zeros(1, 2, dtype=torch.int64), tokens], dim=1)
    seen = torch.tensor([[False, False, True, True, True, True, True]])
    at = torch.tensor([[0, 0, 0, 1, 2, 3, 4]])
    found = model(Tokens(padded, at, seen))[:, 2:]
    torch.testing.assert_close(found, model(Tokens(tokens)), atol=CLOSE, rtol=0)
    cache = Cache()  # and the same, a part at a time
    model(Tokens(padded[:, :4], at[:, :4], seen[:, :4]), cache=cache)
    rest = model(Tokens(padded[:, 4:], at[:, 4:], seen[:, 4:]), cache=cache)
    torch.testing.assert_close(rest, found[:, 2:], atol=CLOSE, rtol=0)


# --- decoding -------------------------------------------------------------------------------------


def likelihood(model: Transformer, start: torch.Tensor, said: tuple[int, ...]) -> float:
    """The log-likelihood of what was said, by one pass without a cache."""
    row = torch.cat([start, torch.tensor(said)])[None]
    logits = model(Tokens(row[:, :-1])).float().log_softmax(-1)[0, len(start) - 1 :]
    return float(logits[torch.arange(len(said)), torch.tensor(said)].sum())


@pytest.mark.parametrize("name", ["none", "sinusoidal", "rope", "t5", "transformer-xl", "cope"])
def test_a_beam_is_never_less_likely_than_greed(name: str) -> None:
    model, start = made(name, "decoder"), drawn(3, 4)
    plain = greedy(model, start, steps=6)
    several = beam(model, start, steps=6, width=3)
    for i, (one, found) in enumerate(zip(plain, several, strict=True)):
        assert found[0].score >= one.score - 1e-5
        assert len(found) == 3
        for spoken in (one, *found):
            want = likelihood(model, start[i], spoken.tokens)
            assert spoken.score == pytest.approx(want, abs=1e-3)


def test_a_beam_as_wide_as_everything_finds_the_best() -> None:
    model, start = made("rope", "decoder"), drawn(1, 3)
    best = beam(model, start, steps=2, width=20)[0][0]
    every = torch.cartesian_prod(torch.arange(20), torch.arange(20))
    rows = torch.cat([start.expand(400, -1), every], dim=1)
    logs = model(Tokens(rows[:, :-1])).float().log_softmax(-1)[:, 2:]
    scores = logs.gather(2, every[..., None]).sum(dim=(1, 2))
    assert best.tokens == tuple(every[scores.argmax()].tolist())
    assert best.score == pytest.approx(scores.max().item(), abs=1e-4)


def test_an_end_ends() -> None:
    model, start = made("alibi", "decoder"), drawn(2, 3)
    first = greedy(model, start, steps=5)
    end = first[0].tokens[2]
    found = greedy(model, start, steps=5, end=end)[0]
    assert found.tokens == first[0].tokens[: first[0].tokens.index(end)]
    for several in beam(model, start, steps=5, end=end, width=4):
        assert all(end not in spoken.tokens for spoken in several)


def test_drawn_positions_serve_generation() -> None:
    model = made("randomised-sinusoidal")
    source = Tokens(drawn(2, 5, 1))
    start = drawn(2, 2)
    once = greedy(model, start, steps=4, source=source, seed=3)
    assert once == greedy(model, start, steps=4, source=source, seed=3)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "divides the width 24"),
        ({"layers": 0}, "at least 1"),
        ({"norm": "middle"}, "pre"),
        ({"stacks": "decoders"}, "encoder-decoder"),
    ],
)
def test_impossible_shapes(change: dict[str, object], message: str) -> None:
    sizes = {"stacks": "decoder", "vocabulary": 20, "width": 24, "heads": 2, "layers": 2}
    with pytest.raises(posenc.ArgumentError, match=message):
        Shape(**{**sizes, "hidden": 48, **change})


def test_mistakes_are_explained() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'alibi'"):
        encoding("albii")
    with pytest.raises(posenc.ArgumentError, match="sphere"):
        encoding("SphericalHarmonics")
    assert encoding("TransformerXL") is ENCODINGS["transformer-xl"]
    plan = encoding("none").scheme(SIZES).decoder
    with pytest.raises(posenc.ArgumentError, match="plan of 3 layers"):
        Transformer(Shape("decoder", 20, 24, 2, 3, 48), Scheme(plan, plan))
    table = posenc.Entry("table", specs=(posenc.Sinusoidal(24),))
    wrong = posenc.Plan((table,), layers=("table", "table"))
    with pytest.raises(posenc.ArgumentError, match="stands at the embeddings"):
        Transformer(Shape("decoder", 20, 24, 2, 2, 48), Scheme(wrong, wrong))
    with pytest.raises(posenc.ArgumentError, match="expected a source"):
        made("none")(Tokens(drawn(1, 2)))
    with pytest.raises(posenc.ArgumentError, match="at least one in each"):
        greedy(made("none", "decoder"), drawn(1, 2)[:, :0], steps=1)
    with pytest.raises(posenc.ArgumentError, match="a decoder"):
        greedy(made("none", "encoder"), drawn(1, 2), steps=1)


# --- what is fitted to the length -----------------------------------------------------------------


@pytest.mark.parametrize(("length", "reach"), [(64, 32), (20, 10), (8, 8), (1, 8)])
def test_reach_is_half_the_trained_length_or_eight(length: int, reach: int) -> None:
    sizes = FittedSizes(width=64, heads=4, layers=2, length=length, longest=512)
    (t5,) = ENCODINGS["t5"].scheme(sizes).decoder[0].specs
    (shaw,) = ENCODINGS["shaw"].scheme(sizes).decoder[0].specs
    assert (t5.max_distance, shaw.clip) == (reach, reach)
