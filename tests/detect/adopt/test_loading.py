"""Models as people load them: weights that are no plain numbers, hooks, and blocks that adopt."""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
from typing import Any

import pytest

import posenc

torch = pytest.importorskip("torch", reason="transformers builds its models with it")
transformers = pytest.importorskip("transformers", reason="whose models are adopted")

from posenc.detect.adopt import fitting, report  # noqa: E402
from posenc.torch import adopt, adopting, release  # noqa: E402
from posenc.torch.adopted import AdoptedRotary  # noqa: E402
from tests.asynchronous import finished  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {
    "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8,
    "vocab_size": 32, "max_position_embeddings": 512,
}  # fmt: skip
LOGITS = 2e-5  # of the largest logit, in float32 at short positions


@pytest.fixture(autouse=True)
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "END", 512)


def llama() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()


@torch.no_grad()
def logits(model: Any) -> Any:
    return model(torch.arange(12)[None]).logits


def assert_near(got: Any, want: Any) -> None:
    assert float((got - want).abs().max() / want.abs().max()) < LOGITS


class Quantised(torch.Tensor):
    """Somebody's tensor that stands for other numbers."""


def with_another_tensor(model: Any) -> None:
    weight = model.lm_head.weight.detach().as_subclass(Quantised)
    model.lm_head.weight = torch.nn.Parameter(weight)


def in_integers(model: Any) -> None:
    weight = model.lm_head.weight.detach().to(torch.int8)
    model.lm_head.weight = torch.nn.Parameter(weight, requires_grad=False)


def quantised(model: Any) -> None:
    model.config.quantization_config = {"quant_method": "bitsandbytes"}
    model.is_quantized = True


def on_two_devices(model: Any) -> None:
    model.hf_device_map = {"model": "cpu", "lm_head": "disk"}


@pytest.mark.parametrize("change", [with_another_tensor, in_integers, quantised, on_two_devices])
def test_weights_of_any_kind_stay(change: Any) -> None:
    model = llama()
    before = logits(model)
    change(model)
    held = dict(model.named_parameters())
    (row,) = adopt(model).replaced
    assert row.path == "model.rotary_emb"
    assert all(value is held[name] for name, value in model.named_parameters())
    if change is not in_integers:  # whose product nobody defined
        assert_near(logits(model).as_subclass(torch.Tensor), before)


def test_tensors_that_stand_for_other_numbers_are_no_tables() -> None:
    module = torch.nn.Module()
    module.register_buffer("rows", torch.zeros(16, 4))
    module.register_buffer("others", torch.zeros(16, 4).as_subclass(Quantised))
    assert [path for path, _, _ in report.row_tensors(module)] == ["rows"]


def test_hooks_of_others_stay_and_see_no_question() -> None:
    model, calls = llama(), []
    rotary = model.model.rotary_emb
    handles = [
        rotary.register_forward_pre_hook(lambda module, _: calls.append(type(module).__name__)),
        rotary.register_forward_hook(
            lambda _, args, kwargs, out: (out[0] * 0 + len(kwargs), out[1]), with_kwargs=True
        ),
    ]
    before = logits(model)
    calls.clear()
    adopt(model)
    assert not calls
    assert_near(logits(model), before)
    assert calls == ["AdoptedRotary"]
    copied = copy.deepcopy(model)
    handles[1].remove()
    assert float((logits(model) - before).abs().max()) > 1e-4  # the hook is gone
    assert_near(logits(copied), before)
    handles[0].remove()
    assert len(calls) == 3
    release(model)
    logits(model)
    assert len(calls) == 3
    assert torch.equal(logits(model), logits(llama()))


class Align:
    """What accelerate puts around a forward: `add_hook_to_module` of an `AlignDevicesHook`."""

    def __init__(self, module: Any) -> None:
        self.calls: list[str] = []
        module._old_forward, module._hf_hook = module.forward, self

        def new_forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            module._hf_hook.calls.append(type(module).__name__)
            return module._old_forward(*args, **kwargs)

        around = functools.partial(new_forward, module)
        module.forward = functools.update_wrapper(around, module._old_forward)


@pytest.mark.parametrize("cast", [False, True], ids=["float32", "rounded frequencies"])
def test_a_model_that_accelerate_dispatched(cast: bool) -> None:
    model = llama()
    model = model.bfloat16() if cast else model
    rotary = model.model.rotary_emb
    hook = Align(rotary)
    before = logits(model)
    assert hook.calls.pop() == "LlamaRotaryEmbedding"
    adopt(model)
    assert not hook.calls
    after = logits(model)
    assert hook.calls.pop() == "AdoptedRotary"
    if not cast:
        assert_near(after, before)
    copied = copy.deepcopy(model)
    assert torch.equal(logits(copied), after)
    assert (hook.calls, copied.model.rotary_emb._hf_hook.calls) == ([], ["AdoptedRotary"])
    release(model)
    assert model.model.rotary_emb is rotary
    assert torch.equal(logits(model), before)
    assert hook.calls.pop() == "LlamaRotaryEmbedding"


# --- blocks ---------------------------------------------------------------------------------------


def is_adopted(model: Any) -> bool:
    return isinstance(model.model.rotary_emb, AdoptedRotary)


def test_models_of_a_block_are_adopted_when_it_ends(tmp_path: Any) -> None:
    plain, before = transformers.PreTrainedModel.post_init, llama()
    before.save_pretrained(tmp_path)
    with adopting(phase="float32") as reports:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
        with adopting():
            inner = llama()
        assert (is_adopted(inner), is_adopted(loaded), reports) == (True, False, [])
        other: list[Any] = []
        thread = threading.Thread(target=lambda: other.append(llama()))
        thread.start()
        thread.join()
        llama()  # nobody holds it
    assert transformers.PreTrainedModel.post_init is plain
    assert [is_adopted(model) for model in (loaded, before, *other)] == [True, False, False]
    (report,) = reports
    assert report.replaced[0].spec.phase == "float32"
    assert_near(logits(loaded), logits(before))


def test_a_block_that_fails_adopts_nothing() -> None:
    plain, models = transformers.PreTrainedModel.post_init, []

    def block() -> None:
        with adopting():
            models.append(llama())
            models.append(llama())
            raise RuntimeError("of the block")

    with pytest.raises(RuntimeError, match="of the block"):
        block()
    assert not any(map(is_adopted, models))
    reports: list[Any] = []

    def of_two() -> None:
        with adopting() as found:
            models.append(llama())
            models.append(transformers.BertModel(transformers.BertConfig(**SMALL)))
        reports.append(found)

    with pytest.raises(posenc.DataError, match="none"):
        of_two()
    assert not reports
    assert not any(is_adopted(model) for model in models[:3])
    assert transformers.PreTrainedModel.post_init is plain


class HalfBuilt(transformers.LlamaForCausalLM):  # type: ignore[name-defined, misc]
    def __init__(self, config: Any) -> None:
        transformers.PreTrainedModel.__init__(self, config)
        raise RuntimeError("of a model")


class SaysItTwice(transformers.LlamaForCausalLM):  # type: ignore[name-defined, misc]
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.post_init()


def test_a_block_adopts_what_was_built_once_and_wholly() -> None:
    config, kept = transformers.LlamaConfig(**SMALL), []
    with adopting() as reports:
        try:
            HalfBuilt(config)
        except RuntimeError as error:
            kept.append(error)  # which holds the model
        model = SaysItTwice(config)
    assert (len(reports), is_adopted(model)) == (1, True)


def test_blocks_of_tasks_and_generators_are_their_own() -> None:
    plain = transformers.PreTrainedModel.post_init

    async def with_block(built: Any, other: Any) -> list[Any]:
        with adopting() as reports:
            models = [llama()]
            built.set()
            await other.wait()
            models.append(await asyncio.to_thread(llama))
        return [len(reports), *map(is_adopted, models)]

    async def without(built: Any, other: Any) -> bool:
        await built.wait()
        model = llama()
        other.set()
        return is_adopted(model)

    async def both() -> list[Any]:
        events = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(with_block(*events), without(*events))

    assert finished(both()) == [[1, True, False], False]

    def block() -> Any:
        with adopting() as reports:
            yield reports

    first, second = block(), block()
    reports = [next(first), next(second)]
    list(first)  # before the one that began after it
    model = llama()
    list(second)
    assert ([*map(len, reports)], is_adopted(model)) == ([0, 1], True)
    with adopting() as found:
        left = block()
        next(left)
        thread = threading.Thread(target=left.close)  # as a collector of garbage may
        thread.start()
        thread.join()
        model = llama()
    assert (len(found), is_adopted(model)) == (1, True)
    assert transformers.PreTrainedModel.post_init is plain
