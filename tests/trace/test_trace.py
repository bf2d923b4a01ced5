"""Broken models are named, healthy ones are not blamed, and a model is left as it was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("diffusers")

from tools.models import adopt as zoo  # noqa: E402
from tools.models.small_inputs import INPUTS  # noqa: E402

from posenc.detect.adopt import fitting  # noqa: E402
from posenc.detect.trace.findings import (  # noqa: E402
    Judgement,
    UnstatedScale,
    compare_layers,
)
from posenc.torch import TracedLayer, TracedTensor, trace, tracing  # noqa: E402
from tests.trace import broken, models as m  # noqa: E402
from tests.trace.breaks import angles, scores  # noqa: E402
from tests.trace.breaks.means import layer, with_angles  # noqa: E402
from tests.trace.broken import ROWS, Row  # noqa: E402
from tests.trace.judged import complaint, traced  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CASES = [(row, path) for row in ROWS for path in row.paths]
QUICK = (
    "Qwen2: heads exchanged",
    "T5: one direction",
    "Gemma 2: scale",
    "Llama 4: a layer that has none",
)
FAST = [(row, row.paths[number % len(row.paths)]) for number, row in enumerate(ROWS)
        if row.name in QUICK]  # fmt: skip
TYPES = {row["model_type"]: row for row in json.loads(Path(zoo.DATA).read_text())["rows"]}
TOKENS = torch.randint(3, 61, (2, 16), generator=torch.Generator().manual_seed(0))


def name_of(case: Any) -> str:
    return case if isinstance(case, str) else case.name


# --- broken and healthy models --------------------------------------------------------------------


def check(row: Row, path: str) -> None:
    """The twin has no finding, and those of the broken model are what is right to say."""
    healthy = traced(row.healthy(path))
    assert (healthy.findings, healthy.unseen) == ((), ())
    assert not complaint(row.right, traced(row.broken(path)).findings)


@pytest.mark.costly
@pytest.mark.parametrize(("row", "path"), FAST, ids=name_of)
def test_broken(row: Row, path: str) -> None:
    check(row, path)


@pytest.mark.slow("detect/trace", "detect/fit")
@pytest.mark.parametrize(("row", "path"), CASES, ids=name_of)
def test_every_broken_model(row: Row, path: str) -> None:
    check(row, path)


# Types of which something is not compared, and why: a convolution of four tokens makes its keys.
NOT_COMPARED = {"zaya": "each token reads 512 numbers for 128 channels"}


@pytest.mark.slow("detect/trace", release=True)
@pytest.mark.parametrize("path", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "name",
    [
        "moonshine",
        *sorted(n for n, r in TYPES.items() if r["state"] == "held" and n not in INPUTS),
    ],
)
def test_every_small_model(name: str, path: str) -> None:
    """Small models of transformers, with random weights, turn as their configs say."""
    model = zoo.built(name)
    try:
        model.set_attn_implementation(path)
        inputs = zoo.given(model)
    except Exception as error:  # noqa: BLE001 - other people's classes raise anything
        pytest.skip(f"it does not run so: {error}")
    seen = trace(model, inputs)
    assert seen.findings == ()
    why = NOT_COMPARED.get(name, "")
    assert all(why and why in text for text in seen.unseen), seen


# --- ways to run ----------------------------------------------------------------------------------


def llama(path: str = "sdpa") -> Any:
    return m.text("Llama", num_hidden_layers=2)(path).model


def without_gradients(model: Any) -> Any:
    with torch.no_grad():
        return trace(model, TOKENS)


def in_inference_mode(model: Any) -> Any:
    with torch.inference_mode():
        return trace(model, TOKENS)


def under_autocast(model: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return trace(model, TOKENS)


def frozen(model: Any) -> Any:
    return trace(model.requires_grad_(requires_grad=False), TOKENS)


def checkpointed(model: Any) -> Any:
    model.gradient_checkpointing_enable()
    return trace(model.train(), TOKENS)


def in_half_precision(model: Any) -> Any:
    rotary = model.model.rotary_emb
    frequencies = rotary.inv_freq.clone()
    model.bfloat16()
    rotary.inv_freq = frequencies  # as loading in this dtype leaves them
    return trace(model, TOKENS)


def adopted(model: Any) -> Any:
    posenc.torch.adopt(model)
    return trace(model, TOKENS)


def padded(model: Any) -> Any:
    mask = torch.ones_like(TOKENS)
    mask[0, :5] = 0
    return trace(model, {"input_ids": TOKENS, "attention_mask": mask})


def generating(model: Any) -> Any:
    with tracing(model) as result:
        model.generate(TOKENS, max_new_tokens=2, min_new_tokens=2, do_sample=False)
    return result


def compiled(model: Any) -> Any:
    return trace(torch.compile(model, backend="eager"), TOKENS)


WAYS: list[Callable[[Any], Any]] = [
    without_gradients, in_inference_mode, under_autocast, frozen, checkpointed, in_half_precision,
    adopted, padded, generating, compiled,
]  # fmt: skip
ALIKE = (without_gradients, frozen, checkpointed)  # as in inference mode, in which the others run


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=pytest.mark.slow("detect/trace") if way in ALIKE else ())
        for way in WAYS
    ],
    ids=lambda way: way.__name__,
)
def test_ways_to_run(way: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """However a model runs, its broken layer is named, all is seen, and no other is blamed."""
    monkeypatch.setattr(fitting, "END", 512)  # of what is adopted
    model = llama()
    if way is not in_half_precision:  # the break hands over cosines in float32
        angles.base(model)
    seen = way(model)
    blamed = {finding.layer % 2 for finding in seen.findings}
    assert (blamed, seen.unseen, len(seen.layers) % 2) == ({1} - {way is in_half_precision}, (), 0)
    assert "base" in {finding.field for finding in seen.findings} or not blamed


# --- what is left, and what is not vouched for ----------------------------------------------------


def state_of(model: Any) -> Any:
    tensors = {**model.state_dict(), **dict(model.named_buffers())}
    copies = {key: (value.data_ptr(), value.clone()) for key, value in tensors.items()}
    flags = [(p.requires_grad, p.grad) for p in model.parameters()]
    hooks = [
        (len(x._forward_hooks), len(x._forward_pre_hooks), x.training) for x in model.modules()
    ]
    rng = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    return copies, flags, hooks, rng


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


class Writes(torch.nn.Module):
    """A forward that writes to its buffers, its attributes and random states, and may fail."""

    def __init__(self, model: Any, fails: bool) -> None:
        super().__init__()
        self.model, self.fails = model, fails
        self.config = model.config
        self.register_buffer("count", torch.zeros(2))
        self.kept = [torch.zeros(3)]

    def forward(self, ids: Any) -> Any:
        self.count += 1
        self.kept[0][:] = torch.rand(3)
        self.last = random.random() + np.random.rand()  # noqa: NPY002
        answer = self.model(ids)
        if self.fails:
            raise RuntimeError("it fails")
        return answer


@pytest.mark.parametrize("fails", [False, True])
def test_left_as_it_was(fails: bool) -> None:
    model = Writes(llama(), fails)
    before, logits = state_of(model), model.model(TOKENS).logits
    if fails:
        with pytest.raises(posenc.DataError, match="it fails"):
            trace(model, TOKENS)
    else:
        assert trace(model, TOKENS).verdict == "agrees"
    assert same(state_of(model), before)
    assert torch.equal(model.kept[0], torch.zeros(3))
    assert not hasattr(model, "last")
    assert torch.equal(model.model(TOKENS).logits, logits)


def test_a_cache_from_before() -> None:
    """Its keys come from no product of this run, so they are not vouched for."""
    model, cache = llama(), transformers.DynamicCache()
    with torch.no_grad():
        model(TOKENS, past_key_values=cache)
    seen = trace(model, {"input_ids": TOKENS[:, :3], "past_key_values": cache})
    assert (seen.findings, seen.verdict, seen.exit_code) == ((), "not compared", 3)
    assert "16 keys, because they come from no product" in seen.unseen[0]
    assert cache.get_seq_length() == 19
    assert not cache.layers[0].keys.requires_grad
    with pytest.raises(posenc.DataError, match="no product of this run"):
        bool(seen)


def test_nothing_to_see() -> None:
    with pytest.raises(posenc.DataError, match="no product of queries and keys"):
        trace(torch.nn.Linear(4, 4), torch.zeros(2, 4))
    with pytest.raises(posenc.ArgumentError, match="expected"):
        trace(llama(), TOKENS, expected=3)
    model = llama()
    with tracing(model) as early:
        model(TOKENS)
        with pytest.raises(posenc.DataError, match="inside it"):
            _ = early.findings


@pytest.mark.slow("detect/trace")
def test_flex_attention() -> None:
    """On a CPU it has no gradients: the error says what to do."""
    model = llama()
    model.set_attn_implementation("flex_attention")
    with pytest.raises(posenc.DataError, match=r"FlexAttention .* Set its attention to sdpa"):
        trace(model, TOKENS)


def test_what_no_run_tells() -> None:
    """Where no turn would look the same, or nothing is expected, nothing is vouched for."""
    model = llama()
    whole, part = trace(model, TOKENS), trace(model, TOKENS, layers=[1])
    unseen = {
        "turns by no more than roundings": [
            trace(model, TOKENS[:, :1]), trace(model, TOKENS, positions=2**31 - 16 + np.arange(16))
        ],
        "layer 0, query and key: nothing is expected": [trace(model, TOKENS, expected=part)],
    }  # fmt: skip
    for text, traces in unseen.items():
        for seen in traces:
            assert (seen.verdict, text in seen.unseen[0]) == ("not compared", True), seen
    with pytest.raises(posenc.DataError, match="turn alike"):
        trace(model, TOKENS[:, :1]).save("no.json")
    assert trace(model, TOKENS[:, :2]).verdict == "agrees"
    assert trace(llama(), TOKENS, expected=whole).verdict == "agrees"


def test_a_trace_as_expectation() -> None:
    """A layer that did not turn is expected not to; a bias that no spec says is no finding."""
    case = broken.smol("eager")
    healthy = trace(case.model, case.calls[0])
    scores.turns_at(3, 1)(case.model)
    found = trace(case.model, case.calls[0], expected=healthy).findings
    assert {(f.layer, f.field) for f in found} == {(3, "kind")}
    case = broken.bloom("eager")
    own = trace(case.model, case.calls[0])
    assert trace(case.model, case.calls[0], expected=own).verdict == "agrees"


@pytest.mark.parametrize("path", ["eager", "sdpa"])
def test_numbers_that_are_none(path: str) -> None:
    """A layer whose cosines hold NaN is named, and no other; so is one without a scale."""
    model = llama(path)

    def damaged(cos: Any, sin: Any) -> Any:
        cos = cos.clone()
        cos[..., 7, 3] = float("nan")
        return cos, sin

    with_angles(layer(model), damaged)
    found = trace(model, TOKENS).findings
    assert {(f.layer, f.found) for f in found} == {(1, "numbers that are NaN or infinite")}
    model = llama(path)
    model.model.layers[1].self_attn.scaling = 0.0
    expected = None if path == "eager" else posenc.RoPE(m.WIDTH, pairing="half")
    found = trace(model, TOKENS, expected=expected).findings
    assert [(f.layer, f.field, f.found) for f in found] == [(1, "scale", "0")]


def test_frequencies_in_half_precision() -> None:
    """All layers are off by less than a position: that is no harmless shift."""
    found = trace(llama().half(), m.ids(1, 20)).findings
    assert {f.found for f in found} == {"frequencies in float16"}


# Widths, scales, and the layers that are blamed: of two rules, fewer layers break one.
SCALES: dict[str, tuple[Any, Any, set[int]]] = {
    "by width": ((192, 192, 256), (192**-0.5, 192**-0.5, 256**-0.5), set()),
    "one number": ((192, 192, 256), (0.05, 0.05, 0.05), set()),
    "neither": ((192, 192, 256), (192**-0.5, 192**-0.5, 0.05), {2}),
    "either": ((16, 64, 256), (0.5, 0.25, 0.25), {0}),
    "no majority": ((16, 32, 64), (0.25, 0.25, 0.3), {2}),
    "none": ((16, 16, 16), (0.25, 0.0, 0.25), {1}),
    "half of the layers": ((16, 16), (0.25, 0.5), set()),
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_of_layers(name: str) -> None:
    """What no config states is what most layers do."""
    widths, scales, blamed = SCALES[name]
    nothing: Any = dict.fromkeys(("query", "key", "value", "output"), TracedTensor())
    layers = [
        Judgement(TracedLayer(n, "", 0, **nothing), scale=UnstatedScale(scale, w**-0.5, 1e-3))
        for n, (w, scale) in enumerate(zip(widths, scales, strict=True))
    ]
    compare_layers({0: layers}, read=True, stated=False)
    assert {n for n, one in enumerate(layers) if one.findings} == blamed


def test_result() -> None:
    model = llama()
    angles.base(model)
    seen = trace(model, TOKENS, layers=[1])
    assert [layer.index for layer in seen.layers] == [1]
    assert str(seen.first) == "layer 1, query: base: expected 10000, found 500000"
    assert json.loads(json.dumps(seen.to_dict()))["findings"][0]["found"] == "500000"
    np.testing.assert_array_equal(seen.layers[0].query.positions, [[*range(16)]] * 2)
    assert seen.layers[0].scale == m.WIDTH**-0.5


def test_positions_that_jump() -> None:
    ids = 1000 * torch.arange(16)[None].expand(2, 16)
    model = llama()
    inputs = {"input_ids": TOKENS, "position_ids": ids}
    assert trace(model, inputs).verdict == "agrees"
    # The same run, held against others.
    moved = trace(model, inputs, positions=ids + 1)
    assert {f.found for f in moved.findings} == {"position p - 1"}


def test_other_arguments() -> None:
    calls: Any = (
        (lambda: trace(llama(), TOKENS, layers=[3]), "expected 0 to 1, of the attentions that ran"),
        (lambda: trace(llama(), TOKENS, positions=np.arange(7)), r"\(2, 16\), got \(2, 7\)"),
        (lambda: trace(llama(), TOKENS, positions=np.full(16, np.nan)), "positions: expected num"),
        (lambda: trace(llama(), TOKENS, expected=posenc.RoPE), "what it is held against"),
        (lambda: posenc.trace(llama(), tokens="8"), "tokens: expected an integer or None, got '8'"),
        (
            lambda: posenc.trace(llama(), tokens=True),
            "tokens: expected an integer or None, got True",
        ),
        (lambda: trace(llama()), "a value for inputs, got none"),
        (lambda: trace(llama(), input_ids=TOKENS), "got input_ids=. Did you mean 'inputs'"),
        (lambda: trace(llama(), TOKENS, TOKENS), "got 3 arguments by place"),
        (lambda: tracing(), "a value for model, got none"),
        (lambda: posenc.trace(llama(), token=3), "got token="),
    )
    for layers in ([], [-1], [True], [1.0], "01", 3, [[1]]):  # before anything runs
        calls += ((lambda own=layers: trace(not_run, TOKENS, layers=own), "numbers of layers"),)
    for call, text in calls:
        with pytest.raises(posenc.ArgumentError, match=text):
            call()
    half = torch.arange(16).bfloat16()
    assert trace(llama(), TOKENS, positions=half).verdict == "agrees"


def not_run(_: Any) -> None:
    raise AssertionError("it ran")
