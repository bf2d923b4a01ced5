"""`posenc.ask`: one way to ask anybody's code, held against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import posenc
from posenc.detect.subject import CannotAsk
from posenc.detect.subject.arrays import followed
from tests.detect.subject import shapes
from tests.tolerances import ORIGINAL, assert_close

POSITIONS = np.array([[0, 5, 3, 3, 9, 100], [1, 2, 3, 4, 5, 6]])
X = np.random.default_rng(0).normal(size=(2, 3, 6, 64)).astype(np.float32)
HALF = shapes.loops(X.astype(np.float64), POSITIONS)
PAIRS = shapes.loops(X.astype(np.float64), POSITIONS, pairs=True)


@pytest.mark.parametrize("name", shapes.ROTATIONS)
def test_a_rotation_in_any_shape_answers_as_plain_loops_do(name: str) -> None:
    subject = posenc.ask(shapes.ROTATIONS[name])
    assert subject.kind == "rotary"
    want = PAIRS if name.endswith("pairs") else HALF
    assert_close(subject.rotate(X, POSITIONS), want, 20 * ORIGINAL, name)


def test_rotations_of_jax_answer_as_plain_loops_do() -> None:
    jax = pytest.importorskip("jax")
    with jax.numpy_rank_promotion("allow"):
        _rotations_of_jax()


def _rotations_of_jax() -> None:
    for name, function in shapes.jax_shapes().items():
        assert_close(posenc.ask(function).rotate(X, POSITIONS), HALF, 20 * ORIGINAL, name)


@pytest.mark.parametrize("name", shapes.COSINES)
def test_cosines_and_sines_come_as_pairs(name: str) -> None:
    subject = posenc.ask(shapes.COSINES[name])
    assert subject.kind == ("angles" if name == "angles" else "cos_sin")
    places = np.array([0, 7, 7, 250, 3])
    angle = places[:, None] * shapes.INV
    for got, want in zip(subject.cos_sin(places), (np.cos(angle), np.sin(angle)), strict=True):
        assert_close(got, want, ORIGINAL, name)
    assert_close(subject.frequencies(), shapes.INV, ORIGINAL, name) if name == "inv_freq" else None


@pytest.mark.parametrize("name", shapes.TABLES)
def test_rows_of_a_table(name: str) -> None:
    places = np.array([0, 7, 7, 250, 3])
    subject = posenc.ask(shapes.TABLES[name])
    assert subject.kind == "table"
    assert_close(subject.rows(places), shapes.sinusoids(places), ORIGINAL, name)


@pytest.mark.parametrize("name", shapes.BIASES)
def test_biases_of_any_queries_and_keys(name: str) -> None:
    subject = posenc.ask(shapes.BIASES[name])
    q, k = np.array([4, 0, 9]), np.array([2, 2, 7, 0])
    assert_close(subject.bias(q, k), shapes.alibi(q, k), ORIGINAL, name)
    assert_close(subject.bias([11], np.arange(12)), shapes.alibi([11], np.arange(12)), ORIGINAL)


def test_finding_a_named_form_takes_few_calls() -> None:
    everything = {**shapes.ROTATIONS, **shapes.COSINES, **shapes.TABLES, **shapes.BIASES}
    calls = [posenc.ask(target).calls for target in everything.values()]
    assert np.median(calls) <= 5
    assert max(calls) <= 600


NO_ENCODINGS: dict[str, Any] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": torch.nn.LayerNorm(64),
    "relu": torch.nn.functional.relu,
    "identity": lambda x: x,
    "linear": torch.nn.Linear(64, 64),
    "dropout": torch.nn.Dropout(0.5),
    "running sum": lambda x: np.cumsum(x, -2),
    "sort": lambda x: np.sort(x, -1),
    "noise": lambda x, positions: np.random.default_rng().normal(size=x.shape),
    "len": len,
    "scalar sine": __import__("math").sin,
    "sine": np.sin,
    "nothing": lambda x, positions: None,
    "constant": lambda positions: np.zeros((len(positions), 64)),
    "mask": lambda n: np.tril(np.ones((n, n))),
    "attention": torch.nn.functional.scaled_dot_product_attention,
    "scaled": lambda x, positions: x * np.asarray(positions)[:, None],
    "shifted": lambda x, positions: x + np.asarray(positions)[:, None],
    "fails": lambda q, positions: 1 / 0,
    "fourier": lambda x: np.fft.fft(x),
    "product": lambda a, b: a @ b,
    "sum": lambda a, b: a + b,
    "a text": "text",
    "a number": 3,
    "other buffers": {"weight": np.ones(3)},
    "recurrent": torch.nn.GRU(64, 64),
}


@pytest.mark.parametrize("name", NO_ENCODINGS)
def test_what_is_no_encoding_is_refused_in_words(name: str) -> None:
    with pytest.raises(CannotAsk, match=r"^ask: .{30,}") as refused:
        posenc.ask(NO_ENCODINGS[name])
    assert isinstance(refused.value, posenc.ArgumentError)


def test_what_was_never_called_has_no_error_of_its_own() -> None:
    with pytest.raises(CannotAsk, match="in 0 calls .* no form of a call .* hand over a pair"):
        posenc.ask(shapes.apply_cos_sin)


def test_a_bias_without_a_name_is_one_by_kind() -> None:
    def without(a: Any, b: Any) -> np.ndarray:
        return shapes.alibi(a, b)

    with pytest.raises(CannotAsk):
        posenc.ask(without)
    q, k = np.array([4, 0]), np.array([2, 7, 0])
    assert_close(posenc.ask(without, kind="bias").bias(q, k), shapes.alibi(q, k), ORIGINAL)


def test_another_instance_remembers_nothing() -> None:
    class Growing:
        def __init__(self, dim: int) -> None:
            self.seen = 0

        def __call__(self, x: Any, positions: Any) -> Any:
            self.seen += len(x)
            return shapes.numpy_line(x, positions if self.seen < 40 else positions + 1)

    subject = posenc.ask(Growing)
    first = subject.rotate(X[:1], POSITIONS[0])
    for _ in range(40):
        last = subject.rotate(X[:1], POSITIONS[0])
    assert np.abs(last - first).max() > 0.1
    assert_close(subject.fresh().rotate(X[:1], POSITIONS[0]), first, 0.0)
    with pytest.raises(CannotAsk, match="no other object of it"):
        posenc.ask(shapes.bhsd_line).fresh()


def test_what_counts_tokens_is_asked_at_their_places() -> None:
    subject = posenc.ask(shapes.counted)
    places = np.array([7, 7, 0, 4000])
    x = X[:1, :, :4]
    assert_close(subject.rotate(x, places), shapes.loops(x, places[None]), 20 * ORIGINAL)
    with pytest.raises(CannotAsk, match="counts tokens"):
        subject.rotate(x, places + 16_384)


def test_a_question_of_another_kind_is_refused() -> None:
    with pytest.raises(CannotAsk, match="is a rotation, and the question is for a table"):
        posenc.ask(shapes.bhsd_line).rows([1])


def test_a_recording_answers_for_what_was_recorded() -> None:
    subject = posenc.ask((X, HALF, POSITIONS[:, None]))
    assert_close(subject.rotate(X[:1, :2, 1:3], POSITIONS[0, 1:3]), HALF[:1, :2, 1:3], 0.0)
    with pytest.raises(CannotAsk, match="no such token"):
        subject.rotate(X, POSITIONS + 1)


def test_a_spec_is_refused_with_what_to_hand_over() -> None:
    with pytest.raises(CannotAsk, match="of_spec"):
        posenc.ask(posenc.RoPE(64, pairing="half"))


class Layer(torch.nn.Module):
    """As a model holds what turns; `config` says that it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.config, self.inner = {}, torch.nn.ModuleList([shapes.Rotary(64)])


class Engine:
    """What stands for an engine: an object with a method of its name, and no arguments named x."""

    def apply_rope(self, query: Any, *, start_pos: int) -> Any:
        places = start_pos + np.arange(query.shape[-2])
        return shapes.numpy_line(query, places)


def test_models_their_modules_and_engines_are_subjects() -> None:
    places = np.array([3, 4, 5])
    angle = places[:, None] * shapes.INV
    for target in (Layer(), (Layer(), "inner.0"), (Layer(), "inner.0.forward")):
        assert_close(posenc.ask(target).cos_sin(places)[0], np.cos(angle), 20 * ORIGINAL)
    engine, x = posenc.ask(Engine()), X[:1, :, :3]
    assert_close(engine.rotate(x, places), shapes.loops(x, places[None]), 20 * ORIGINAL)
    with pytest.raises(CannotAsk, match=r"path of a module of Layer, got 'inner\.1"):
        posenc.ask((Layer(), "inner.1"))


def test_a_model_without_such_a_module_is_refused_at_once() -> None:
    class Model(torch.nn.Module):
        config: Any = None

        def get_input_embeddings(self) -> None: ...

    with pytest.raises(CannotAsk, match="a module of a model"):
        posenc.ask(Model())


def test_positions_and_widths_that_are_none_are_refused_in_words() -> None:
    for dim in (0, None, "64", 2**16 + 1):
        with pytest.raises(posenc.ArgumentError, match="ask: dim: expected 1 to 65,536, got "):
            posenc.ask(shapes.numpy_line, dim=dim)
    subject = posenc.ask(shapes.numpy_line, dim=np.int64(64))
    for positions, tokens in (([], 0), ([1, 2], 3), (5, 1)):
        with pytest.raises(posenc.ArgumentError, match="ask: positions: expected"):
            subject.rotate(np.ones((1, 1, tokens, 64)), positions)


def test_a_recording_by_its_names_and_rows_of_positions() -> None:
    recorded = {"input": X, "output": HALF, "positions": POSITIONS}
    assert_close(posenc.ask(recorded).rotate(X, POSITIONS), HALF, 0.0)


@pytest.mark.parametrize("integers", ["int32", "list"])
def test_positions_of_other_whole_numbers_are_asked(integers: str) -> None:
    def rotate(x: Any, positions: Any) -> Any:
        if getattr(positions, "dtype", "list") != integers:
            raise TypeError(f"positions are not {integers}")
        return shapes.numpy_line(x, np.asarray(positions))

    subject = posenc.ask(rotate)
    assert_close(subject.rotate(X, POSITIONS), HALF, 20 * ORIGINAL)


def test_a_padding_index_is_no_position() -> None:
    def table(n_position: int, d_hid: int, padding_idx: int | None = None) -> Any:
        rows = shapes.sinusoids(np.arange(n_position))
        rows[padding_idx if padding_idx is not None else []] = 0.0
        return rows

    subject = posenc.ask(table)
    assert "padding_idx" not in subject.how
    assert_close(subject.rows([0, 7, 7]), shapes.sinusoids(np.array([0, 7, 7])), ORIGINAL)


def test_a_type_of_layer_is_named_by_its_buffers() -> None:
    class Layered(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("near_inv_freq", torch.from_numpy(shapes.INV))

        def forward(self, x: Any, position_ids: Any, layer_type: str) -> Any:
            angle = position_ids[..., None] * getattr(self, f"{layer_type}_inv_freq")
            return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

    angle = np.arange(3)[:, None] * shapes.INV
    assert_close(posenc.ask(Layered()).cos_sin(np.arange(3))[1], np.sin(angle), 20 * ORIGINAL)


def test_a_speed_is_known_better_the_farther_it_is_followed() -> None:
    frequencies = 10_000.0 ** (-np.arange(8) / 8)
    places = [0, *(2**k for k in range(12))]
    noise = np.random.default_rng(0).normal(size=(13, 8)) * 1e-3
    noise[0] = 0
    turns = np.exp(1j * (np.outer(places, frequencies) + noise))
    assert np.abs(followed(turns, places) - frequencies).max() < 1e-5


def test_further_forms_are_looked_for_in_the_library_of_the_first() -> None:
    """What code remembers of calls does not depend on which libraries are loaded."""
    seen: set[str] = set()

    def half(x: Any, offset: int = 0) -> Any:
        seen.add(type(x).__module__)
        _, _, _, _ = x.shape  # which leaves calls for other libraries
        angle = (np.arange(x.shape[-2]) + offset)[:, None] * shapes.INV
        a, b = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    assert len(posenc.ask(half).forms()) > 1
    assert seen == {"numpy"}


@pytest.mark.parametrize("slower", [1, 1000])
def test_a_slow_rotation_is_one_whatever_it_scales(slower: float) -> None:
    """Of a part of a head, with a factor; with a scale that grows, in another order of channels."""

    def rotation(x: Any, positions: Any, grows: float) -> Any:
        angle = np.asarray(positions)[..., None] / slower * shapes.INV[::2]
        cos, sin = (1.3 * (1 + grows * angle) * each for each in (np.cos(angle), np.sin(angle)))
        a, b, rest = np.split(x, [16, 32], axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)

    def part(x: Any, positions: Any) -> Any:
        return rotation(x, positions, 0.0)

    def growing(x: Any, positions: Any) -> Any:
        return rotation(x, positions, 0.05)

    def moved(x: Any, positions: Any) -> Any:
        angle = np.asarray(positions)[..., None] / slower * shapes.INV
        return shapes._n_turn(x, angle)[..., ::-1]

    assert [posenc.ask(each).kind for each in (part, growing, moved)] == ["rotary"] * 3
