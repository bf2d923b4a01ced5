"""Models of transformers with exact positions: what changes, what does not, and the way back."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

import posenc

torch = pytest.importorskip("torch", reason="transformers builds its models with it")
transformers = pytest.importorskip("transformers", reason="whose models are adopted")

from posenc.detect.adopt import fitting  # noqa: E402
from posenc.torch import adopt, release  # noqa: E402
from posenc.torch.adopted import AdoptedRotary  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 64, "vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0, "max_position_embeddings": 512,
}  # fmt: skip
LOGITS = 2e-5  # of the largest logit, in float32 at short positions


@pytest.fixture(autouse=True)
def few_positions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of adoption look at few positions, but where they are the subject."""
    if not request.node.name.startswith("test_the_report"):
        monkeypatch.setattr(fitting, "END", 512)


def llama(**more: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**SMALL, **more})
    return transformers.LlamaForCausalLM(config).eval()


def ids(rows: int = 2, length: int = 12) -> Any:
    return torch.randint(3, 99, (rows, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def logits(model: Any, **more: Any) -> Any:
    return model(**{"input_ids": ids(), **more}).logits.float()


def off(a: Any, b: Any) -> float:
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.costly
def test_the_report_says_what_changed_and_from_where_on() -> None:
    model = llama(max_position_embeddings=8192)
    report = adopt(model)
    (row,) = report.replaced
    assert (row.path, row.was, row.last) == ("model.rotary_emb", "LlamaRotaryEmbedding", 8191)
    assert row.spec == posenc.from_hf(model.config)["attention"].spec
    # By hand: classic angles in float32 against exact ones.
    old = model.model.rotary_emb.old
    near = max(row.wrong, row.reach.dense) + 1  # all of these, and the place of the largest change
    every = torch.cat([torch.arange(near), torch.tensor([row.place])])[None]
    exact = posenc.cos_sin(row.spec, every[0], dtype="float64", width="full")
    gaps = [
        (a[0].double() - b).abs() for a, b in zip(old(torch.zeros(1), every), exact, strict=True)
    ]
    gap, largest = torch.maximum(*gaps).amax(dim=-1).split([near, 1])
    # The first that was asked, of one in each stretch beyond those that are all asked.
    first = int(torch.nonzero(gap > 1e-3)[0])
    assert first <= row.wrong
    assert gap[row.wrong] > 1e-3
    assert row.change == pytest.approx(float(largest), abs=2e-7)
    assert gap[: row.reach.dense + 1].max() - 2e-7 <= row.change
    assert str(report).splitlines()[0] == "LlamaForCausalLM: 1 replaced, 0 left"
    assert f"from position {row.wrong:,} on" in str(report)
    assert [line.strip() for line in str(report).splitlines()[3:]] == row.reach.lines()


def test_short_positions_keep_their_logits_and_release_keeps_every_bit() -> None:
    model = llama()
    before, keys, old = logits(model), [*model.state_dict()], model.model.rotary_emb
    adopt(model)
    assert isinstance(model.model.rotary_emb, AdoptedRotary)
    assert [*model.state_dict()] == keys
    assert 0 < off(logits(model), before) < LOGITS
    release(model)
    assert model.model.rotary_emb is old
    assert torch.equal(logits(model), before)


def test_far_positions_do_not_drift() -> None:
    model = llama()
    near, far = torch.arange(12)[None], torch.arange(12)[None] + 1_000_000
    before = off(logits(model, position_ids=far), logits(model, position_ids=near))
    adopt(model)
    assert off(logits(model, position_ids=far), logits(model, position_ids=near)) < 1e-6
    assert before > 1e-4


def test_the_classic_arithmetic_gives_the_old_bits() -> None:
    model = llama()
    before = logits(model)
    adopt(model, phase="float32")
    assert torch.equal(logits(model), before)


def test_left_padding() -> None:
    model = llama()
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[0, :5] = 0
    before = logits(model, attention_mask=mask)
    adopt(model)
    assert off(logits(model, attention_mask=mask)[:, 5:], before[:, 5:]) < LOGITS


@pytest.mark.costly
@pytest.mark.parametrize(
    "way",
    [
        {},
        *(
            pytest.param(way, marks=pytest.mark.slow("detect/adopt", "torch/adopted.py"))
            for way in (
                {"num_beams": 3},
                {"cache_implementation": "static"},
                {"use_cache": False},
                {"prompt_lookup_num_tokens": 3},
            )
        ),
    ],
)
def test_tokens_that_are_generated_are_the_same(way: dict[str, Any]) -> None:
    model = llama()
    rows = 1 if "prompt_lookup_num_tokens" in way else 2
    mask = torch.ones(rows, 12, dtype=torch.int64)
    if rows == 2:
        mask[0, :5] = 0
    given = {"input_ids": ids(rows), "attention_mask": mask, "max_new_tokens": 16}
    given |= {"do_sample": False, "min_new_tokens": 16, "pad_token_id": 0, **way}
    before = model.generate(**given)
    adopt(model)
    assert torch.equal(model.generate(**given), before)
    assert before.shape[1] == 28


@pytest.mark.costly
def test_an_assistant_that_is_adopted() -> None:
    model, helper = llama(), llama(num_hidden_layers=1)
    given = {"input_ids": ids(1), "max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    before = model.generate(**given, assistant_model=helper)
    adopt(model)
    adopt(helper)
    assert torch.equal(model.generate(**given, assistant_model=helper), before)


def test_types_of_layers_have_their_own_encodings() -> None:
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 6, "head_dim": 16})
    model = transformers.Gemma3ForCausalLM(config).eval()
    before = logits(model)
    report = adopt(model)
    bases = {row.layer: row.spec.base for row in report.replaced}
    assert bases == {"sliding_attention": 1e4, "full_attention": 1e6}
    assert off(logits(model), before) < LOGITS


def test_complex_factors() -> None:
    torch.manual_seed(0)
    more = {"num_local_experts": 4, "head_dim": 16, "intermediate_size_mlp": 64}
    model = transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**SMALL, **more)).eval()
    before = logits(model)
    assert adopt(model).replaced
    assert off(logits(model), before) < LOGITS


@pytest.mark.parametrize(
    ("rule", "longer"),
    [
        ({"rope_type": "dynamic", "factor": 4.0}, {}),
        (
            {
                "rope_type": "longrope",
                "factor": 8.0,
                "short_factor": [1.0] * 8,
                "long_factor": [2.0] * 8,
            },
            {"original_max_position_embeddings": 64},
        ),
        ({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}, {}),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
            {"original_max_position_embeddings": 64},
        ),
    ],
)
def test_scalings_and_lengths(rule: dict[str, Any], longer: dict[str, Any]) -> None:
    longest = 64 * (8 if "original_max_position_embeddings" in {**rule, **longer} else 1)
    rule = {**rule, **longer}
    model = llama(rope_theta=1e4, rope_scaling=rule, max_position_embeddings=longest, **longer)
    short, long = {"input_ids": ids(1, 40)}, {"input_ids": ids(1, 90)}
    before = [logits(model, **given) for given in (short, long, short)]
    adopt(model)
    after = [logits(model, **given) for given in (short, long, short)]
    assert max(off(a, b) for a, b in zip(after, before, strict=True)) < LOGITS


def test_asking_the_old_module_leaves_no_trace() -> None:
    rule = {"rope_type": "dynamic", "factor": 4.0}
    model = llama(rope_theta=1e4, rope_scaling=rule, max_position_embeddings=64)
    old = model.model.rotary_emb

    def inside() -> str:
        things = {key: value for key, value in vars(old).items() if key != "config"}
        return str({k: sorted(v) if isinstance(v, set) else v for k, v in things.items()})

    before = inside()
    numbers = {key: buffer.clone() for key, buffer in old.named_buffers()}
    adopt(model)
    release(model)
    assert before == inside()
    assert all(torch.equal(buffer, numbers[key]) for key, buffer in old.named_buffers())


def gptj() -> Any:
    torch.manual_seed(0)
    more = {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 16, "vocab_size": 99}
    return transformers.GPTJForCausalLM(transformers.GPTJConfig(**more)).eval()


def xglm() -> Any:
    torch.manual_seed(0)
    more = {"d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "vocab_size": 99}
    return transformers.XGLMForCausalLM(transformers.XGLMConfig(**more)).eval()


@pytest.mark.parametrize(
    ("make", "where"),
    [(gptj, "transformer.h.0.attn.embed_positions"), (xglm, "model.embed_positions.weights")],
)
def test_rows_that_a_module_keeps(make: Any, where: str, tmp_path: Path) -> None:
    model = make()
    if where not in dict(model.named_buffers()):
        pytest.skip("transformers 4 keeps these rows as a plain attribute")
    before, old, keys = logits(model), model.get_buffer(where), [*model.state_dict()]
    row = adopt(model).replaced[0]
    assert (row.path, row.what, row.wrong) == (where, "rows", None)
    places = torch.arange(len(old))
    if make is gptj:
        exact = torch.cat(posenc.cos_sin(row.spec, places, dtype="float64")[::-1], dim=-1)
    else:
        places = places - row.spec.arrangement.start
        exact = posenc.table(row.spec, places, dtype="float64")
    assert torch.equal(model.get_buffer(where), exact.float())
    assert row.change == pytest.approx(float((old - exact).abs().max()))
    assert 0 < off(logits(model), before) < LOGITS
    assert [*model.state_dict()] == keys
    with pytest.raises(posenc.ArgumentError, match="adopted before"):
        adopt(model)
    other = copy.deepcopy(model)
    release(other)
    assert torch.equal(logits(other), before)
    model.to(torch.bfloat16).to(torch.float32)
    release(model)
    assert torch.equal(model.get_buffer(where), old)
    model = make()
    old = model.get_buffer(where)
    adopt(model)
    release(model)
    assert model.get_buffer(where) is old


SMALLEST = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}


def seq2seq(name: str, *, width: int = 64, **more: Any) -> Any:
    torch.manual_seed(0)
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = getattr(transformers, f"{name}Config")
    sizes = {"d_model": width, **SMALLEST, **heads, **tokens, **more}
    return getattr(transformers, f"{name}Model")(config(**sizes)).eval()


@pytest.mark.costly
def test_rows_that_are_saved_with_the_model_are_exact_inside_of_it_alone(tmp_path: Path) -> None:
    model = seq2seq("Whisper")
    where = "encoder.embed_positions.weight"
    old = model.encoder.embed_positions.weight
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert not old.requires_grad
    report = adopt(model)
    (row,) = report.replaced
    assert (row.path, row.layer, row.what, row.last) == (where, "encoder", "rows", 1499)
    assert "decoder: Learned, 448 rows that are weights, which stay" in report.left
    exact = torch.from_numpy(posenc.table(row.spec, len(old), dtype="float64"))
    now = model.encoder.embed_positions.weight
    assert torch.equal(now, exact.float())
    assert row.change == pytest.approx(float((old - exact).abs().max()))
    assert row.change > 1e-5
    # Saved and loaded as if nothing had been put in.
    after = model.state_dict()
    assert [*after] == [*before]
    assert all(torch.equal(after[key], value) for key, value in before.items())
    model.save_pretrained(tmp_path)
    fresh = transformers.WhisperModel.from_pretrained(tmp_path)
    assert torch.equal(fresh.encoder.embed_positions.weight, old)
    model.load_state_dict(before)
    assert torch.equal(now, exact.float())
    other = copy.deepcopy(model)
    release(other)
    assert all(torch.equal(other.state_dict()[key], value) for key, value in before.items())
    assert not any(m._state_dict_hooks or m._load_state_dict_pre_hooks for m in other.modules())
    # Rows of another checkpoint are that checkpoint's, and stay.
    model.load_state_dict({**before, where: before[where] + 1})
    assert torch.equal(model.state_dict()[where], before[where] + 1)
    release(model)
    assert torch.equal(model.encoder.embed_positions.weight, before[where] + 1)
    model = seq2seq("Whisper")
    old = model.encoder.embed_positions.weight
    adopt(model)
    release(model)
    assert model.encoder.embed_positions.weight is old


def test_rows_that_are_exact_already_or_trained_are_left() -> None:
    rows = "encoder.embed_positions.weight: its 64 rows are the exact ones of embeddings"
    model = seq2seq("Marian", max_position_embeddings=64, decoder_vocab_size=99)
    old = model.encoder.embed_positions.weight.clone()
    with pytest.raises(posenc.DataError, match=rows):
        adopt(model)
    assert torch.equal(model.encoder.embed_positions.weight, old)
    model = seq2seq("Whisper")
    model.encoder.embed_positions.requires_grad_(True)
    with pytest.raises(
        posenc.DataError, match="its rows are trained, made in code, or not what the config says"
    ):
        adopt(model)


@pytest.mark.slow("detect/adopt", "encodings/bias")
def test_biases_that_models_make_in_code_are_the_exact_ones() -> None:
    # So nothing is put in their place. Falcon makes its own in bfloat16, and was trained so.
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.falcon import modeling_falcon
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
    from transformers.models.t5 import modeling_t5

    kind = modeling_t5.T5Attention
    behind = torch.arange(2**20 + 1)
    sizes = [(32, 128), (64, 128), (128, 256), (256, 512), (512, 2048), (32, 20), (320, 800),
             (48, 200), (34, 100)]  # fmt: skip
    for buckets, longest in sizes:
        for both in (True, False):
            options = {"num_buckets": buckets, "max_distance": longest, "bidirectional": both}
            direction = "bidirectional" if both else "causal"
            spec = posenc.T5(1, buckets=buckets, max_distance=longest, direction=direction)
            (name,) = spec.shapes
            table = torch.arange(float(buckets)).reshape(spec.shapes[name])
            for at in (behind[-1:], behind[:1]):
                ours = posenc.bias(spec, at, behind, params={name: table})
                theirs = kind._relative_position_bucket(behind - at, **options)
                assert torch.equal(ours.flatten().long(), theirs)
    seen = torch.ones(1, 4096, dtype=torch.int64)
    for heads in (4, 12, 16, 71, 112):
        spec = posenc.ALiBi(heads, form="key_only")
        exact = posenc.bias(spec, behind[:1], behind[:4096], dtype="float64")[:, 0]
        bloom = build_alibi_tensor(seen, heads, torch.float32)
        mpt = build_mpt_alibi_tensor(heads, 4096)
        largest = exact.abs().max()
        assert (bloom[:, 0] - exact).abs().max() < 1e-7 * largest
        assert (mpt[:, 0] - (exact - exact[:, -1:])).abs().max() < 1e-7 * largest
        falcon = modeling_falcon.build_alibi_tensor(seen, heads, torch.float32)
        assert 1e-3 < (falcon[:, 0] - exact).abs().max() / largest < 6e-3


# --- positions that change ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_positions_that_change_between_cosines_and_attention(mode: Any) -> None:
    # A static buffer that the next step fills while layers of this one still run.
    model = llama()
    adopt(model)
    with mode():
        where = torch.arange(12)[None]
        expected = model(ids(), position_ids=where).logits

        def overwritten(*_: Any) -> None:
            buffer.add_(1000)

        for view in (False, True):
            buffer = torch.arange(24)[None] if view else torch.arange(12)[None]
            hooks = [layer.register_forward_pre_hook(overwritten) for layer in model.model.layers]
            received = model(ids(), position_ids=buffer[:, :12]).logits
            for hook in hooks:
                hook.remove()
            assert int(buffer[0, 0]) == 2000
            assert torch.equal(received, expected)


def test_nothing_but_modules_is_exchanged() -> None:
    model = llama()
    adopt(model)
    cos, sin = model.model.rotary_emb(torch.zeros(1, 12, 64), torch.arange(12)[None])
    assert not vars(cos)
    assert not vars(sin)
    assert not [m for m in model.modules() if "forward" in vars(m)]


# --- what people do with models -----------------------------------------------------------------


def test_dtypes_and_the_meta_device() -> None:
    model = llama()
    adopt(model)
    whole = logits(model)
    model.to(torch.bfloat16)
    cos, sin = model.model.rotary_emb(
        torch.zeros(1, 1, 1, dtype=torch.bfloat16), torch.arange(9)[None]
    )
    exact = posenc.cos_sin(model.model.rotary_emb.forms[None].spec, 9, width="full")
    assert cos.dtype == sin.dtype == torch.bfloat16
    assert torch.equal(cos[0], torch.from_numpy(exact[0]).bfloat16())
    model.to(torch.float32)
    weights = {key: value.clone() for key, value in llama().state_dict().items()}
    model.to("meta").to_empty(device="cpu").load_state_dict(weights)
    assert torch.equal(logits(model), whole)


def test_a_model_in_bfloat16_whose_frequencies_were_rounded() -> None:
    model = llama().to(torch.bfloat16)
    (row,) = adopt(model).replaced
    assert row.spec == posenc.from_hf(model.config)["attention"].spec
    assert row.change > 0.05
    assert row.wrong is not None
    assert row.wrong < 32


def test_a_model_on_the_meta_device() -> None:
    weights = llama().state_dict()
    with torch.device("meta"):
        model = llama()
    assert adopt(model).replaced
    model.load_state_dict(weights, assign=True)
    assert off(logits(model), logits(llama())) < LOGITS


def test_copies_files_and_the_way_back_from_them(tmp_path: Path) -> None:
    model = llama()
    before = logits(model)
    adopt(model)
    after = logits(model)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(stream, weights_only=False),
    ):
        assert torch.equal(logits(other), after)
        release(other)
        assert torch.equal(logits(other), before)
    assert torch.equal(logits(model), after)
    model.save_pretrained(tmp_path)
    fresh = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(fresh), before)


def test_training_with_and_without_checkpoints() -> None:
    losses = []
    for saved in (False, True):
        model = llama().train()
        if saved:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        adopt(model)
        loss = model(input_ids=ids(), labels=ids()).loss
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        assert all(g is not None and torch.isfinite(g).all() for g in gradients)
        losses.append([loss.item(), *(float(g.norm()) for g in gradients)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


class Lora(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Low-rank weights beside a layer, as PEFT puts them in."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.down = torch.nn.Linear(base.in_features, 2, bias=False)
        self.up = torch.nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Any) -> Any:
        return self.base_layer(x) + self.up(self.down(x))


class Wrapper(torch.nn.Module):  # type: ignore[misc, name-defined]
    """What PEFT and others put around a model: attributes are those of the model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.base_model = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base_model, name)

    def forward(self, *args: Any, **more: Any) -> Any:
        return self.base_model(*args, **more)


@pytest.mark.parametrize("first", [True, False])
def test_low_rank_weights_are_put_in_before_or_after(first: bool) -> None:
    model = llama()
    if first:
        adopt(model)
    for layer in model.model.layers:
        torch.manual_seed(1)
        layer.self_attn.q_proj = Lora(layer.self_attn.q_proj)
    wrapped = Wrapper(model)
    if not first:
        adopt(wrapped)
    wrapped(input_ids=ids(), labels=ids()).loss.backward()
    assert all(layer.self_attn.q_proj.up.weight.grad.norm() > 0 for layer in model.model.layers)
    after = logits(wrapped)
    release(wrapped)
    assert 0 < off(logits(wrapped), after) < LOGITS


@pytest.mark.slow("detect/adopt", "torch/adopted.py")
@pytest.mark.parametrize("first", [True, False])
def test_low_rank_weights_of_peft_itself(first: bool, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="tried by hand, with PEFT in another environment")
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)

    def wrapped(model: Any) -> Any:
        torch.manual_seed(3)
        return peft.get_peft_model(model, config).eval()

    theirs, model = wrapped(llama()), llama()
    if first:
        adopt(model)
    ours = wrapped(model)
    if not first:
        adopt(ours)
    before = logits(theirs)
    assert 0 < off(logits(ours), before) < LOGITS
    gradients = []
    for one in (theirs, ours):
        one(input_ids=ids(), labels=ids()).loss.backward()
        gradients.append([p.grad for p in one.parameters() if p.requires_grad])
    assert len(gradients[0]) == len(gradients[1]) == 8
    assert max(off(a, b) for a, b in zip(*gradients, strict=True)) < LOGITS
    ours.save_pretrained(tmp_path)
    assert torch.equal(logits(peft.PeftModel.from_pretrained(llama(), tmp_path).eval()), before)
    merged = ours.merge_and_unload()
    release(merged)
    assert torch.equal(logits(merged), logits(theirs.merge_and_unload()))


@pytest.mark.costly
def test_graphs_do_not_break() -> None:
    from torch._dynamo.utils import counters

    model = llama(num_hidden_layers=1)
    adopt(model)
    eager = logits(model)
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert off(logits(compiled), eager) < LOGITS
    assert not counters["graph_break"]
    release(model)  # and the graph notices
    assert torch.equal(logits(compiled), logits(llama(num_hidden_layers=1)))


# --- what is refused ------------------------------------------------------------------------------


class Own(transformers.LlamaForCausalLM):  # type: ignore[misc, name-defined]
    """Somebody's subclass, with a forward of its own."""

    def forward(self, *args: Any, **more: Any) -> Any:
        return super().forward(*args, **more)


def changed_base(model: Any, layer: str = "") -> None:
    rules = getattr(model.config, "rope_parameters", None)  # since transformers 5
    if rules is None:
        model.config.rope_theta = 5e5
    else:
        (rules[layer] if layer else rules)["rope_theta"] = 5e5


def changed_width(model: Any) -> None:
    model.config.head_dim = 32


def of_remote_code(model: Any) -> None:
    model.config.auto_map = {"AutoModel": "modeling_x.X"}


def adopted_before(model: Any) -> None:
    adopt(model)


def called_otherwise(model: Any) -> None:
    model.model.rotary_emb.forward = lambda *_: None


def without_a_config(model: Any) -> None:
    del model.config


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (changed_base, posenc.DataError, "frequencies of attention: .* but .*rotary_emb.inv_freq"),
        (changed_width, posenc.DataError, "frequencies of attention: .* 16 of them .* 8 of them"),
        (of_remote_code, posenc.DataError, "code that came with a checkpoint"),
        (adopted_before, posenc.ArgumentError, "release"),
        (called_otherwise, posenc.DataError, "a forward of its own"),
        (without_a_config, posenc.ArgumentError, "which has a config"),
    ],
)
def test_a_refusal_leaves_the_model_as_it_was(change: Any, error: Any, words: str) -> None:
    model = llama()
    change(model)
    modules = dict(model.named_modules())
    with pytest.raises(error, match=words):
        adopt(model)
    assert all(model.get_submodule(path) is module for path, module in modules.items() if path)


def test_a_config_that_was_changed_after_the_model_was_adopted() -> None:
    model = llama()
    before, old = logits(model), model.model.rotary_emb
    adopt(model)
    after = logits(model)
    changed_base(model)
    assert torch.equal(logits(model), after)
    with pytest.raises(posenc.ArgumentError, match="was changed since, and no longer says RoPE"):
        adopt(model)
    assert torch.equal(logits(model), after)
    with pytest.warns(UserWarning, match="changed since"):
        release(model)
    assert model.model.rotary_emb is old
    assert torch.equal(logits(model), before)


def test_the_config_of_another_model() -> None:
    model = llama()
    model.config = transformers.GPT2Config()
    with pytest.raises(posenc.DataError, match="rows of embeddings: .* but none by"):
        adopt(model)


def test_a_subclass_with_a_forward_of_its_own() -> None:
    config = transformers.LlamaConfig(**SMALL)
    with pytest.raises(posenc.DataError, match="Own with a forward of its own"):
        adopt(Own(config))
    model = llama()
    model.model.layers[0].mlp.__class__ = type(
        "Mlp", (type(model.model.layers[0].mlp),), {"forward": lambda self, x: x}
    )
    with pytest.raises(posenc.DataError, match=r"model\.layers\.0\.mlp is Mlp"):
        adopt(model)


def test_what_is_no_model_or_has_no_rotations() -> None:
    with pytest.raises(posenc.ArgumentError, match="the class LlamaForCausalLM"):
        adopt(transformers.LlamaForCausalLM)
    wrapped = torch.nn.Module()
    wrapped.module = llama()
    with pytest.raises(posenc.ArgumentError, match="Give the model inside"):
        adopt(wrapped)
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=9)
    with pytest.raises(posenc.DataError, match="1,024 rows that are weights"):
        adopt(transformers.GPT2Model(config))
    with pytest.raises(posenc.ArgumentError, match="in which nothing was"):
        release(llama())
    with pytest.raises(posenc.ArgumentError, match="phase"):
        adopt(llama(), phase="fast")


def test_a_failure_midway_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 6, "head_dim": 16})
    model = transformers.Gemma3TextModel(config)
    changed_base(model, "full_attention")  # one type of layer alone
    old = model.rotary_emb
    with pytest.raises(posenc.DataError, match="full_attention"):
        adopt(model)
    assert model.rotary_emb is old


# --- another encoding, on purpose -----------------------------------------------------------------

ROPE = posenc.RoPE(16, pairing="half")


def test_another_base() -> None:
    model, other = llama(), llama(rope_theta=5e5)
    wanted, before = logits(other), logits(model)
    report = adopt(model, spec=ROPE.replace(base=5e5))
    assert off(logits(model), wanted) < LOGITS < off(before, wanted)
    assert report.replaced[0].trained == ROPE
    assert "weights were not trained for RoPE" in report.remarks[0]
    assert "on purpose" in str(report)
    release(model)
    assert torch.equal(logits(model), before)


@pytest.mark.costly
def test_no_positions_in_some_layers_and_another_base_in_others() -> None:
    model = llama()
    before = logits(model)
    config = transformers.SmolLM3Config(
        **SMALL,
        no_rope_layers=[1, 0],
        rope_theta=5e5,
        use_sliding_window=False,
        tie_word_embeddings=False,
    )
    oracle = transformers.SmolLM3ForCausalLM(config).eval()
    oracle.load_state_dict(model.state_dict())
    entries = (posenc.Entry("far", specs=(ROPE.replace(base=5e5),)), posenc.Entry("nope"))
    plan = posenc.Plan(entries, layers=("far", "nope"))
    adopt(model, plan=plan)
    assert off(logits(model), logits(oracle)) < LOGITS
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[0, :5] = 0
    given = {"input_ids": ids(), "attention_mask": mask, "max_new_tokens": 8, "do_sample": False}
    given["eos_token_id"] = None
    other = copy.deepcopy(model)
    assert torch.equal(other.generate(**given), oracle.generate(**given))
    for one in (model, other):
        release(one)
        assert torch.equal(logits(one), before)
        assert not any(
            m._forward_pre_hooks or m._forward_pre_hooks_with_kwargs for m in one.modules()
        )
    # A reading of an edited config says the same; without positions in any layer no hook is needed.
    adopt(model, plan=posenc.from_hf(config))
    assert off(logits(model), logits(oracle)) < LOGITS
    release(model)
    adopt(model, plan=posenc.Plan((posenc.Entry("nope"),), layers=("nope", "nope")))
    for layer in oracle.model.layers:
        layer.self_attn.use_rope = False
    assert off(logits(model), logits(oracle)) < LOGITS


@pytest.mark.costly
def test_a_bias_in_place_of_rotations() -> None:
    # By hand: nothing turns, and the slopes of four heads are in a mask that is added to scores.
    model = llama(attn_implementation="eager")
    before = logits(model)
    slopes = torch.tensor([2.0 ** -(2 * h) for h in range(1, 5)])
    places = torch.arange(12)
    behind = (places[:, None] - places[None]).float()
    added = (-slopes[:, None, None] * behind).masked_fill(behind < 0, torch.finfo().min)
    adopt(model, plan=posenc.Plan((posenc.Entry("nope"),), layers=("nope", "nope")))
    wanted = logits(model, attention_mask=added[None].expand(2, 4, 12, 12))
    release(model)
    report = adopt(model, spec=posenc.ALiBi(4))
    assert report.replaced[0].spec is None
    assert off(logits(model), wanted) < LOGITS
    steps = model(ids()[:, :8], use_cache=True).past_key_values
    last = model(ids()[:, 8:], past_key_values=steps).logits
    assert off(last, wanted[:, 8:]) < LOGITS
    release(model)
    assert model.config._attn_implementation == "eager"
    assert torch.equal(logits(model), before)

    # Attention stays registered as long as a model asks for it, copies included.
    def names() -> list[str]:
        table = transformers.AttentionInterface._global_mapping
        return [name for name in table if name.startswith("posenc_")]

    assert not names()
    adopt(model, spec=posenc.ALiBi(4))
    after = logits(model)
    stored = pickle.dumps(model)
    other = copy.deepcopy(model)
    release(model)
    assert len(names()) == 1
    assert torch.equal(logits(other), after)
    release(other)
    assert not names()
    other = pickle.loads(stored)
    assert torch.equal(logits(other), after)
    del other
    gc.collect()
    assert not names()
    # One layer has a bias, the other turns.
    entries = (posenc.Entry("turns", specs=(ROPE,)), posenc.Entry("bias", specs=(posenc.ALiBi(4),)))
    adopt(model, plan=posenc.Plan(entries, layers=("turns", "bias")))
    assert off(logits(model), wanted) > LOGITS
    assert off(logits(model), before) > LOGITS
    release(model)
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"spec": posenc.RoPE(32, pairing="half")}, "8 pairs along one axis, as its heads have"),
        ({"spec": posenc.RoPE(16, pairing="interleaved")}, "as its code turns"),
        ({"spec": posenc.Sinusoidal(64)}, "a rotation, or a bias"),
        ({"spec": posenc.ALiBi(8)}, "4 heads"),
        ({"plan": posenc.Plan((posenc.Entry("nope"),), layers=())}, "layers"),
        (
            {"plan": posenc.Plan((posenc.Entry("a", specs=(ROPE,)), posenc.Entry("b")),
                                 layers=("a", "b", "b"))},
            "one for each of the layers",
        ),
        ({"plan": "nope"}, "a Plan or a Reading"),
        ({"spec": ROPE, "plan": posenc.Plan((), layers=())}, "both"),
    ],
)  # fmt: skip
def test_what_a_model_cannot_compute(given: dict[str, Any], words: str) -> None:
    model = llama()
    before, old = logits(model), model.model.rotary_emb
    with pytest.raises(posenc.ArgumentError, match=words):
        adopt(model, **given)
    assert model.model.rotary_emb is old
    assert torch.equal(logits(model), before)
