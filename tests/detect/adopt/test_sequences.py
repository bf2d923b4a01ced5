"""Rotary modules that count the tokens of their input themselves, and those that place pictures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import posenc

torch = pytest.importorskip("torch", reason="transformers builds its models with it")
hf = pytest.importorskip("transformers", reason="whose models are adopted")

from posenc.detect.adopt import fitting  # noqa: E402
from posenc.detect.facts import arrays  # noqa: E402
from posenc.torch import adopt, release  # noqa: E402
from posenc.torch.adopted import AdoptedSequence, SequenceRotary  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = {
    "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16,
}  # fmt: skip
EXACT = 3e-7  # cosines in float32
LENGTH = 3001


@pytest.fixture(autouse=True)
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "END", 512)


def conformer(**more: Any) -> Any:
    """The encoder of Wav2Vec2-Conformer, behind small convolutions; frequencies are saved."""
    torch.manual_seed(0)
    config = hf.Wav2Vec2ConformerConfig(
        **SIZES, conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3),
        conv_depthwise_kernel_size=3, position_embeddings_type="rotary", **more,
    )  # fmt: skip
    return hf.Wav2Vec2ConformerModel(config).eval()


def bert_conformer() -> Any:
    torch.manual_seed(0)
    config = hf.Wav2Vec2BertConfig(
        **SIZES, feature_projection_input_dim=8, conv_depthwise_kernel_size=3,
        position_embeddings_type="rotary",
    )  # fmt: skip
    return hf.Wav2Vec2BertModel(config).eval()


def clvp() -> Any:
    """The encoders of CLVP, whose module returns angles."""
    torch.manual_seed(0)
    sizes = {**SIZES, "hidden_size": 64, "vocab_size": 32, "bos_token_id": 1}
    config = hf.ClvpEncoderConfig(**sizes, projection_dim=64)
    return hf.models.clvp.modeling_clvp.ClvpEncoder(config).eval()


CASES = {
    "wav2vec2-conformer": (conformer, torch.zeros(1, 400), "encoder.embed_positions", 1e4),
    "wav2vec2-bert": (bert_conformer, torch.zeros(1, 9, 8), "encoder.embed_positions", 1e4),
    "clvp": (clvp, torch.arange(9)[None] + 3, "rotary_pos_emb", 1e4),
}
each = pytest.mark.parametrize("name", CASES)


def made(name: str) -> tuple[Any, Any, Any]:
    """A model, an input, and its rotary module."""
    make, given, path, _ = CASES[name]
    model = make()
    if given.is_floating_point():
        given = torch.randn(given.shape, generator=torch.Generator().manual_seed(1))
    return model, given, model.get_submodule(path)


@torch.no_grad()
def answer(model: Any, given: Any) -> Any:
    return model(given)[0]


def phasors(module: Any, count: int) -> np.ndarray:
    """Cosines + i sines of so many tokens."""
    with torch.no_grad():
        result = module(torch.zeros(1, count, 16)).double()
    if result.ndim == 3:
        return np.exp(1j * result[0].numpy())
    return (result[0] + 1j * result[1])[:, 0, 0].numpy()


def expected(width: int, base: float, count: int) -> np.ndarray:
    """By the paper, in float64."""
    steps = base ** (-np.arange(0, width, 2) / width)
    return np.tile(np.exp(1j * np.arange(count)[:, None] * steps), 2)


@each
def test_a_module_that_counts_tokens_is_exact_far_away(name: str) -> None:
    model, given, old = made(name)
    keys, before = [*model.state_dict()], answer(model, given)
    (row,) = adopt(model).replaced
    new = model.get_submodule(row.path)
    assert isinstance(new, AdoptedSequence)
    exact = expected(phasors(new, 3).shape[-1], CASES[name][3], LENGTH)
    assert np.abs(phasors(new, LENGTH) - exact).max() < EXACT
    assert np.abs(phasors(old, LENGTH) - exact).max() > 1e-5  # float32 angles
    calls: list[Any] = []
    hook = new.register_forward_hook(lambda *call: calls.append(call))
    after = answer(model, given)
    hook.remove()
    assert len(calls) == 1
    assert float((after - before).abs().max() / before.abs().max()) < 2e-5
    assert [*model.state_dict()] == keys
    again = copy.deepcopy(model)
    again.set_submodule(row.path, pickle.loads(pickle.dumps(new)))
    assert torch.equal(answer(again, given), after)
    release(model)
    assert model.get_submodule(row.path) is old
    assert torch.equal(answer(model, given), before)


@each
def test_it_follows_the_dtype_and_a_cast_of_frequencies_is_made_good(name: str) -> None:
    model, _, _ = made(name)
    model.bfloat16()
    (row,) = adopt(model).replaced
    assert row.change > 0.1  # frequencies of 8 bits
    new = model.get_submodule(row.path)
    exact = expected(phasors(new, 3).shape[-1], CASES[name][3], 600)
    assert np.abs(phasors(new, 600) - exact).max() < EXACT
    if name != "clvp":  # whose model takes cosines of angles in float32
        half = new(torch.zeros(1, 5, 16, dtype=torch.bfloat16))
        assert (half.dtype, half.shape) == (torch.bfloat16, (2, 5, 1, 1, 8))


@each
def test_a_model_on_the_meta_device(name: str) -> None:
    with torch.device("meta"):
        model = CASES[name][0]()
    (row,) = adopt(model).replaced
    new = model.get_submodule(row.path).to_empty(device="cpu")
    exact = expected(phasors(new, 3).shape[-1], CASES[name][3], 600)
    assert np.abs(phasors(new, 600) - exact).max() < EXACT
    # Memory that was empty is nothing that saved frequencies could be unlike; what they fill is.
    saved = {key.removeprefix(f"{row.path}."): value for key, value in made(name)[0].state_dict()
             .items() if key.startswith(f"{row.path}.")}  # fmt: skip
    new.load_state_dict(saved)
    assert all(torch.equal(new.state_dict()[key], saved[key]) for key in saved)
    if "inv_freq" in saved:
        with pytest.raises(RuntimeError, match="inv_freq: other frequencies"):
            new.load_state_dict({"inv_freq": saved["inv_freq"] * 2})


def test_asking_leaves_what_it_remembers_of_the_last_sequence() -> None:
    model, given, old = made("wav2vec2-conformer")
    answer(model, given)
    kept = old.cached_sequence_length, old.cached_rotary_positional_embedding
    adopt(model)
    assert old.cached_sequence_length == kept[0]
    assert old.cached_rotary_positional_embedding is kept[1]


def test_saved_frequencies_are_loaded_where_they_are_the_same() -> None:
    model, given, _ = made("wav2vec2-conformer")
    adopt(model)
    after, state = answer(model, given), copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    assert torch.equal(answer(model, given), after)
    state["encoder.embed_positions.inv_freq"] *= 2
    with pytest.raises(RuntimeError, match=r"inv_freq: other frequencies.*posenc.torch.release"):
        model.load_state_dict(state)


def test_frequencies_of_another_base_contradict_the_config() -> None:
    model, _, old = made("wav2vec2-conformer")
    old.inv_freq.mul_(1.5)
    with pytest.raises(posenc.DataError, match="inv_freq"):
        adopt(model)
    assert model.encoder.embed_positions is old


def dino() -> Any:
    """DINOv3, whose module is called with pictures; they need not be square."""
    torch.manual_seed(0)
    config = hf.DINOv3ViTConfig(**SIZES, image_size=32, patch_size=8)
    return hf.DINOv3ViTModel(config).eval()


def of_patches(module: Any, dtype: Any = torch.float32) -> np.ndarray:
    """Cosines + i sines of a picture of 9 x 5 patches."""
    cos, sin = module(torch.zeros(2, 3, 72, 40, dtype=dtype))
    assert cos.dtype == sin.dtype == dtype
    return torch.complex(cos.float(), sin.float()).numpy()


def of_centres() -> np.ndarray:
    """The same by the centres of patches, from -1 to 1 along each side, in float64."""
    lines = [(2 * np.arange(n) + 1) / n - 1 for n in (9, 5)]
    centres = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2, 1)
    angles = 2 * np.pi * centres * 100.0 ** -np.array([0, 0.5])
    return np.tile(np.exp(1j * angles).reshape(len(centres), 4), 2)


@pytest.mark.parametrize("place", ["float32", "bfloat16", "meta"])
def test_a_module_that_places_patches_is_exact(place: str) -> None:
    if place == "meta":
        with torch.device("meta"):
            model = dino()
    else:
        model = dino().to(getattr(torch, place))
    old = model.rope_embeddings
    (row,) = adopt(model).replaced
    assert (row.path, row.change > 1e-4) == ("rope_embeddings", place == "bfloat16")
    new = copy.deepcopy(model.rope_embeddings).to_empty(device="cpu")
    new = pickle.loads(pickle.dumps(new))
    assert np.abs(of_patches(new) - of_centres()).max() < 1.2e-7
    half = np.abs(of_patches(new, torch.bfloat16) - of_centres()).max()
    assert half < 2**-8
    release(model)
    assert model.rope_embeddings is old


def test_patches_that_are_moved_in_training_are_those_of_the_model() -> None:
    model = dino()
    old = model.rope_embeddings
    adopt(model)
    model.train()
    turned = []
    for module in (model.rope_embeddings, old):
        torch.manual_seed(3)
        turned.append(of_patches(module))
    assert np.array_equal(*turned)
    assert np.abs(turned[0] - of_centres()).max() > 0.1  # drawn, and not at their centres


def test_patches_of_another_base_contradict_the_config_and_other_tokens_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = dino()
    old = model.rope_embeddings
    assert not posenc.facts(model).contradictions
    old.inv_freq.mul_(1.5)
    assert posenc.facts(model).contradictions
    with pytest.raises(posenc.DataError, match="rope_embeddings.inv_freq. One of the two is wrong"):
        adopt(model)
    assert model.rope_embeddings is old
    plain = type(old).forward
    monkeypatch.setattr(
        type(old), "forward", lambda self, pixel_values: [t[1:] for t in plain(self, pixel_values)]
    )
    with pytest.raises(
        posenc.DataError, match="it is called with pixel_values, and places"
    ) as error:
        adopt(dino())
    assert "contradicts" not in str(error.value)


def test_frequencies_of_a_time_condition_turn_no_heads() -> None:
    shapes = {"time_embedding.inv_freq": (4,), "rotary_emb.inv_freq": (4,)}
    (fact,) = arrays.of_buffers(shapes, lambda _: np.ones(4))
    assert fact.rests_on == "rotary_emb.inv_freq"


def test_a_module_that_does_not_count_tokens_is_told_and_what_it_remembers_is_not_asked() -> None:
    class Remembering(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.full((1, 2, 3), 7.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.kept is not None and self.kept.shape[1] == x.shape[1]:
                return self.kept
            return torch.zeros(1, x.shape[1], 3)

    asked = SequenceRotary(Remembering())
    assert not asked.answer(torch.zeros(1), 2).any()
    with pytest.raises(ValueError, match="for 2 tokens"):
        SequenceRotary(torch.nn.Flatten()).answer(torch.zeros(1), 2)
