"""Caches whose keys move, held against keys rotated once, in float64, where they stand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import posenc

torch = pytest.importorskip("torch")
hf = pytest.importorskip("transformers")

from posenc.torch.cache import (  # noqa: E402
    evict,
    merge,
    reuse,
    shift,
    stream,
    streaming,
    switch,
    track,
    verify,
    write,
)
from tests.tolerances import assert_close  # noqa: E402
from tests.torch_modules.small_caches import (  # noqa: E402
    ORIGINAL,
    SIZES,
    SMALL,
    WINDOW,
    catching,
    model,
    powers,
    rotated,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

COUNT = 52
SCORES = 2e-6  # of the largest score, as the model's own angles in float32 allow
KEEP = [*range(4), *range(20, COUNT)]
NEW = 12  # tokens that are generated
each_model = pytest.mark.parametrize("name", SMALL)


def filled(name: str, count: int = COUNT, seed: int = 0, **call: Any) -> tuple[Any, Any, Any]:
    """A model, its cache after a prompt, and what was caught."""
    made = model(name)
    tokens = torch.randint(0, 80, (1, count), generator=torch.Generator().manual_seed(seed))
    layers = made.config.get_text_config().num_hidden_layers
    with catching(made, layers) as caught, torch.no_grad():
        cache = made(tokens, use_cache=True, **call).past_key_values
    return made, cache, caught


def step(made: Any, cache: Any, tokens: list[int]) -> Any:
    """What a model hands to its rotation in a step behind a cache."""
    with catching(made, len(cache)) as caught, torch.no_grad():
        made(
            torch.tensor([tokens]),
            past_key_values=cache,
            position_ids=cache.next_positions(len(tokens)),
        )
    return caught


def check(name: str, cache: Any, keys: list[Any], positions: Any, query: Any, values: Any) -> None:
    """Scores and outputs of attention to a cache, against the oracle's keys, in float64."""
    where, length = np.asarray(positions), int(np.max(positions)) + 1
    for layer, (pair, before) in enumerate(zip(cache, keys, strict=True)):
        received = pair[SMALL[name].side].double().numpy()
        stored = received.shape[2]
        expected = rotated(name, layer, before, where, length)[:, :, -stored:]
        groups = query[layer].shape[1] // received.shape[1]
        q = rotated(name, layer, query[layer], where[-1:], length)
        scores = [q @ np.repeat(k, groups, axis=1).swapaxes(-1, -2) for k in (received, expected)]
        assert_close(scores[0], scores[1], SCORES * np.abs(scores[1]).max(), f"{name} {layer}")
        other = pair[1 - SMALL[name].side]
        assert torch.equal(other, values[layer][:, :, -stored:])  # the very bits
        chance = [np.exp(s - s.max(axis=-1, keepdims=True)) for s in scores]
        rows = np.repeat(other.double().numpy(), groups, axis=1)
        seen = [p / p.sum(axis=-1, keepdims=True) @ rows for p in chance]
        assert_close(seen[0], seen[1], 2 * SCORES * np.abs(seen[1]).max(), f"{name} {layer}")


def still(name: str, cache: Any) -> list[Any]:
    """What does not turn in each layer."""
    return [(layer.keys, layer.values)[1 - SMALL[name].side].clone() for layer in cache.layers]


# --- the oracle -----------------------------------------------------------------------------------


@pytest.mark.costly
@each_model
def test_evicted_shifted_and_generating_on(name: str) -> None:
    made, cache, caught = filled(name)
    begin = 0 if name != "gemma3" else COUNT - WINDOW + 1
    values = [v[:, :, [i - (COUNT - v.shape[2]) for i in KEEP if i >= COUNT - v.shape[2]]]
              for v in still(name, cache)]  # fmt: skip
    assert begin >= 0
    moved = shift(evict(track(cache, made), KEEP), 5)
    more = step(made, copy.deepcopy(moved), [7])
    queries = [more.query(layer) for layer in range(len(moved))]
    keys = [caught.keys(layer)[:, :, KEEP] for layer in range(len(moved))]
    check(name, moved, keys, np.arange(len(KEEP)) + 5, queries, values)

    closed = evict(track(cache, made), KEEP)
    prompt = torch.randint(1, 80, (1, len(KEEP) + 3), generator=torch.Generator().manual_seed(1))
    if name == "phi3":  # beyond the original length, where generation drops a shorter cache
        prompt = torch.cat([prompt, prompt], dim=1)
        with torch.no_grad():
            made(prompt[:, len(KEEP) : ORIGINAL + 2], past_key_values=closed)
    if name == "qwen3_vl":
        made.model.rope_deltas = closed.delta
    length = prompt.shape[1] + NEW
    plain = write(copy.deepcopy(closed), into=hf.DynamicCache(config=made.config))
    with catching(made, len(closed)) as later:
        asked = {
            "max_new_tokens": NEW,
            "do_sample": False,
            "attention_mask": prompt.new_ones(prompt.shape),
        }
        ours = made.generate(prompt, past_key_values=closed, **asked)
    theirs = made.generate(prompt, past_key_values=plain, **asked)
    assert ours.shape[1] == length
    assert torch.equal(ours, theirs)
    assert len(closed.ledger) == length - 1  # the last token was not read
    assert closed.ledger.current.flatten().tolist()[-1] == length - 2 or name == "qwen3_vl"
    if name != "phi3":
        whole = [torch.cat([keys[i], later.keys(i)], 2) for i in range(len(closed))]
        kept = [torch.cat([values[i], still(name, closed)[i][:, :, values[i].shape[2] :]], 2)
                if closed.layers[i].form.window is None else still(name, closed)[i]
                for i in range(len(closed))]  # fmt: skip
        last = [later.query(i) for i in range(len(closed))]
        check(name, closed, whole, np.arange(length - 1), last, kept)


@each_model
def test_merged_reused_and_streamed(name: str) -> None:
    made, one, first = filled(name, 20, seed=1)
    _, two, second = filled(name, 24, seed=2)
    tracked = [track(one, made), track(two, made)]
    assert reuse(tracked[1], 100).next_positions().flatten()[-1] == 124
    whole = merge([tracked[0], reuse(tracked[1], 7), tracked[0]])
    assert whole.next_positions().flatten()[-1] == 64
    values = [
        torch.cat([a, b, a], 2) for a, b in zip(still(name, one), still(name, two), strict=True)
    ]
    keys = [torch.cat([first.keys(i), second.keys(i), first.keys(i)], 2) for i in range(len(whole))]
    queries = [second.query(i) for i in range(len(whole))]
    check(name, whole, keys, np.arange(64), queries, values)
    short = stream(whole, 2, 13)
    kept = [0, 1, *range(51, 64)]
    assert short.ledger.current[..., 0].tolist() == [list(range(15))]
    values = [v[:, :, [i - (64 - v.shape[2]) for i in kept if i >= 64 - v.shape[2]]]
              for v in still(name, whole)]  # fmt: skip
    check(name, short, [k[:, :, kept] for k in keys], np.arange(15), queries, values)
    assert stream(short, 2, 13).next_positions().flatten()[0] == 15


def test_longrope_across_its_original_length() -> None:
    made, cache, caught = filled("phi3", ORIGINAL - 2)
    values = still("phi3", cache)
    tracked = track(cache, made)
    before = [k for k, _ in tracked]
    assert torch.equal(before[0], cache.layers[0].keys)
    switched = switch(tracked, ORIGINAL + 1)
    queries = [caught.query(i) for i in range(2)]
    for layer, (k, _) in enumerate(switched):
        expected = rotated("phi3", layer, caught.keys(layer), np.arange(ORIGINAL - 2), ORIGINAL + 1)
        assert_close(k.numpy(), expected, 2e-6 * np.abs(expected).max())
    more = step(made, tracked, [5, 6, 7, 8])  # the model passes to the long factors by itself
    keys = [torch.cat([caught.keys(i), more.keys(i)], 2) for i in range(2)]
    values = [torch.cat([v, still("phi3", tracked)[i][:, :, -4:]], 2) for i, v in enumerate(values)]
    queries = [more.query(i) for i in range(2)]
    check("phi3", tracked, keys, np.arange(ORIGINAL + 2), queries, values)
    shorter = evict(tracked, [0, 1, 65])  # and back
    expected = rotated("phi3", 0, keys[0][:, :, [0, 1, 65]], np.arange(3), ORIGINAL + 2)
    assert_close(next(iter(shorter))[0].numpy(), expected, 3e-6 * np.abs(expected).max())


def test_three_axes_close_and_go_on_where_models_keep_a_delta() -> None:
    """Two tokens of text, a picture of 3 x 4, three of text; two rows of the picture go."""
    grid = posenc.positions.multimodal([2, (1, 3, 4), 3])
    made, cache, caught = filled(
        "qwen3_vl", len(grid), position_ids=torch.from_numpy(grid.T[:, None].copy())
    )
    tracked = track(cache, made, positions=grid.T[:, None])
    assert tracked.delta.tolist() == [[int(grid.max()) + 1 - len(grid)]]
    keep = [0, 1, *range(2, 6), 14, 15, 16]
    moved = evict(tracked, keep)
    # The rows at coordinates 3 and 4 are gone, but columns stand there: nothing closes up.
    expected = grid[keep]
    assert moved.ledger.current[0].tolist() == expected.tolist()
    narrow = [0, 1, 2, 6, 10, 14, 15, 16]  # one column stays: coordinate 5 is nobody's any more
    moved = evict(tracked, narrow)
    expected = grid[narrow] - (grid[narrow] > 5)
    assert moved.ledger.current[0].tolist() == expected.tolist()
    more = step(made, copy.deepcopy(moved), [3])
    queries = [more.query(i) for i in range(2)]
    values = [v[:, :, narrow] for v in still("qwen3_vl", cache)]
    check(
        "qwen3_vl",
        moved,
        [caught.keys(i)[:, :, narrow] for i in range(2)],
        expected,
        queries,
        values,
    )
    made.model.rope_deltas = moved.delta
    with torch.no_grad():
        implied = made(torch.tensor([[3]]), past_key_values=copy.deepcopy(moved)).logits
        given = made(torch.tensor([[3]]), past_key_values=moved,
                     position_ids=moved.next_positions()).logits  # fmt: skip
    assert torch.equal(implied, given)


def test_another_base() -> None:
    made, cache, caught = filled("qwen3")
    spec = posenc.RoPE(16, pairing="half", base=5e5)
    moved = switch(shift(track(cache, made), 3), spec)
    f = 5e5 ** (-np.arange(8) / 8)
    for layer, (k, v) in enumerate(moved):
        x = caught.keys(layer).numpy()
        angles = (np.arange(COUNT) + 3)[:, None] * f
        a, b, cos, sin = x[..., :8], x[..., 8:], np.cos(angles), np.sin(angles)
        expected = np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        assert_close(k.numpy(), expected, 2e-6 * np.abs(expected).max())
        assert v is cache.layers[layer].values
    with pytest.raises(posenc.SpecError, match="one width, pairing and axes"):
        switch(moved, posenc.RoPE(8, pairing="half"))
    with pytest.raises(posenc.ArgumentError, match="depends on the length, got none"):
        switch(moved, 4096)


# --- many moves -----------------------------------------------------------------------------------

ROPE = posenc.RoPE(128, pairing="half")


def wide_keys(dtype: Any, rope: Any = ROPE) -> tuple[np.ndarray, Any]:
    """Keys before their rotation, and as cached at 2000 and on."""
    x = np.random.default_rng(0).standard_normal((1, 2, 64, rope.dim)).astype("float32")
    cached = posenc.rotate(rope, torch.from_numpy(x), offset=2000).to(dtype)
    return x, cached


def relative(received: Any, x: np.ndarray, rope: Any, offset: int) -> float:
    expected = posenc.rotate(rope, x.astype("float64"), offset=offset)
    off = received.double().numpy() - expected
    return float(np.sqrt((off**2).mean() / (expected**2).mean()))


@pytest.mark.costly
def test_a_thousand_moves_cost_one_rounding() -> None:
    x, keys = wide_keys(torch.bfloat16)
    cache = track([(keys, keys)], ROPE, positions=range(2000, 2064))
    for _ in range(1000):
        cache = shift(cache, -1)
    [(k, v)] = cache
    assert relative(k, x, ROPE, 1000) <= 0.003
    assert v is keys
    assert cache.roundings == 0
    assert cache.ledger.original.flatten()[0] == 2000
    assert cache.next_positions().item() == 1064


@pytest.mark.parametrize("moves", [1, 16, 100])
def test_each_write_is_one_rounding_and_is_counted(moves: int) -> None:
    far = 10**6
    x = np.random.default_rng(0).standard_normal((1, 2, 64, 128)).astype("float32")
    keys = posenc.rotate(ROPE, torch.from_numpy(x), offset=far).to(torch.bfloat16)
    cache = track([(keys, keys)], ROPE, positions=range(far, far + 64))
    for _ in range(moves):
        cache = write(shift(cache, -997))
    assert cache.roundings == moves
    assert cache.error == pytest.approx(0.0016 * moves**0.5)
    received = relative(next(iter(cache))[0], x, ROPE, far - 997 * moves)
    assert 0.9 < received / (0.0016 * (moves + 1) ** 0.5) < 1.2  # the first is the model's own
    assert write(cache).roundings == moves  # nothing moved since


@pytest.mark.filterwarnings("error")
def test_a_write_that_some_pairs_cannot_follow_warns() -> None:
    _, keys = wide_keys(torch.bfloat16)
    cache = track([(keys, keys)], ROPE, positions=range(2000, 2064))
    with pytest.warns(UserWarning, match="write: a move by 1 in bfloat16 turns .* of 64 pairs"):
        write(shift(cache, -1))
    write(shift(cache, -500))
    [*shift(cache, -1)]  # a read loses nothing


def test_only_what_moved_is_rounded() -> None:
    _, keys = wide_keys(torch.bfloat16)
    cache = track([(keys, keys)], ROPE)
    cache = write(evict(cache, [*range(10), *range(20, 64)]))
    assert cache.ledger.roundings.tolist() == [0] * 10 + [1] * 44
    assert torch.equal(next(iter(cache))[0][:, :, :10], keys[:, :, :10])


@pytest.mark.parametrize(
    "rope",
    [
        posenc.RoPE(32, pairing=posenc.Pairing("interleaved", part="trailing")),
        posenc.RoPE(32, pairing=posenc.Pairing("half", direction="backward")),
        posenc.RoPE(32, pairing=posenc.Pairing("half", blocks=(6, 10)), phase="float32"),
        posenc.RoPE(32, pairing="half", scaling=posenc.scaling.YaRN(8, original_length=64)),
        posenc.XPos(32, pairing="interleaved"),
    ],
    ids=["trailing", "backward", "blocks", "yarn", "xpos"],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_rotation_of_pairs_and_partial_widths(rope: Any, dtype: Any) -> None:
    x = torch.randn(2, 3, 9, 48, dtype=dtype)
    keys = posenc.rotate(rope, x, role="key")
    cache = shift(track([(keys, x)], rope), 11)
    expected = posenc.rotate(rope, x.double(), offset=11, role="key")
    assert_close(
        next(iter(cache))[0].numpy(), expected.numpy(), 1e-5 if dtype == torch.float32 else 2e-6
    )


def test_layers_of_several_kinds_from_a_plan() -> None:
    local = posenc.Entry("local", specs=(posenc.RoPE(8, pairing="half"),), window=5)
    wide = posenc.Entry("wide", specs=(posenc.RoPE(8, pairing="half", base=1e6),))
    plan = posenc.Plan((local, wide, posenc.Entry("nope")), layers=("local", "wide", "nope"))
    x = torch.randn(1, 2, 12, 8)
    turned = [posenc.rotate(e.spec("rotary"), x) if e.specs else x for e in plan]
    pairs = [
        (k[:, :, -4:] if i == 0 else k, k[:, :, -4:] if i == 0 else k) for i, k in enumerate(turned)
    ]
    cache = shift(track(pairs, plan), 3)
    for layer, (k, _) in enumerate(cache):
        spec = plan[layer].spec("rotary")
        expected = x if spec is None else posenc.rotate(spec, x, offset=3)
        assert_close(k.numpy(), expected[:, :, -k.shape[2] :].numpy(), 2e-6)
    assert [layer.stored for layer in cache.layers] == [4, 12, 12]
    new = torch.randn(1, 2, 1, 8)
    sizes = [cache.update(new, new, layer)[0].shape[2] for layer in range(3)]
    assert sizes == [5, 13, 13]
    assert [layer.stored for layer in cache.layers] == [4, 13, 13]


# --- what models and engines do -------------------------------------------------------------------


def test_left_padding_rows_evict_their_own_tokens() -> None:
    made = model("qwen3")
    rows = torch.randint(1, 80, (2, 12), generator=torch.Generator().manual_seed(3))
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[0, :5] = 0
    ids = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        cache = made(rows, attention_mask=mask, position_ids=ids, use_cache=True).past_key_values
        alone = made(rows[:1, 5:], use_cache=True).past_key_values
    tracked = track(cache, made, mask=mask)
    assert tracked.next_positions(2).tolist() == [[7, 8], [12, 13]]
    keep = torch.ones(2, 12, dtype=torch.bool)
    keep[0, [7, 8]] = False
    keep[1, [0, 3]] = False
    moved = evict(tracked, keep)
    kept = mask[keep].reshape(2, -1)
    assert moved.next_positions().tolist() == [[5], [10]]
    lone = evict(track(alone, made), keep[0, 5:])
    token = torch.tensor([[9], [9]])
    with torch.no_grad():
        both = made(token, past_key_values=moved, position_ids=moved.next_positions(),
                    attention_mask=torch.cat([kept, kept.new_ones(2, 1)], 1)).logits  # fmt: skip
        one = made(token[:1], past_key_values=lone).logits
    assert_close(both[:1].numpy(), one.numpy(), 2e-5 * float(one.abs().max()))
    with pytest.raises(posenc.ArgumentError, match="as many tokens"):
        evict(tracked, torch.tensor([[True] * 12, [True] * 11 + [False]]))


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_gaps_that_stay(name: str) -> None:
    """The model goes on as if nothing was gone; in windows there must be no gap."""
    made, cache, _ = filled(name)
    first = COUNT - WINDOW + 1
    keep = [0, 1, *range(first, COUNT)]
    moved = evict(track(cache, made), keep, gaps="keep")
    assert moved.get_seq_length() == COUNT
    assert moved.ledger.current.flatten().tolist() == keep
    with torch.no_grad():
        implied = made(torch.tensor([[3, 4]]), past_key_values=copy.deepcopy(moved)).logits
        given = made(torch.tensor([[3, 4]]), past_key_values=moved,
                     position_ids=torch.tensor([[COUNT, COUNT + 1]])).logits  # fmt: skip
    assert torch.equal(implied, given)
    if name == "gemma3":
        with pytest.raises(posenc.ArgumentError, match="no gap within the window of layer 0"):
            evict(track(cache, made), KEEP[:-2] + KEEP[-1:], gaps="keep")


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_static_caches_are_filled_where_they_are(name: str) -> None:
    made = model(name)
    tokens = torch.randint(1, 80, (1, 30), generator=torch.Generator().manual_seed(4))
    static = hf.StaticCache(config=made.config, max_cache_len=48)
    with torch.no_grad():
        made(tokens, past_key_values=static)
    memory = [layer.keys.data_ptr() for layer in static.layers]
    keep = [*range(2), *range(12, 30)]
    moved = evict(track(static, made), keep)
    expected = [tuple(t.clone() for t in pair) for pair in moved]
    assert write(moved, into=static) is static
    assert [layer.keys.data_ptr() for layer in static.layers] == memory
    with torch.no_grad():
        last = made(torch.tensor([[3]]), past_key_values=static).logits
        ours = made(torch.tensor([[3]]), past_key_values=moved).logits
    assert_close(last.numpy(), ours.numpy(), 2e-6 * float(ours.abs().max()))
    for (k, v), (k0, v0) in zip(moved, expected, strict=True):
        count = min(k0.shape[2], k.shape[2] - 1)
        assert torch.equal(k[:, :, -1 - count : -1], k0[:, :, -count:])
        assert torch.equal(v[:, :, -1 - count : -1], v0[:, :, -count:])


def test_beams_and_cropping_follow_the_ledger() -> None:
    made, cache, _ = filled("llama")
    moved = evict(track(cache, made), KEEP)
    other = copy.deepcopy(moved)
    other.batch_repeat_interleave(3)
    other.reorder_cache(torch.tensor([2, 0, 1]))
    other.batch_select_indices(torch.tensor([1]))
    other.crop(-4)
    assert other.next_positions().item() == len(KEEP) - 4
    assert torch.equal(next(iter(other))[0], next(iter(moved))[0][:, :, :-4])
    prompt = torch.ones(1, len(KEEP) + 1, dtype=torch.int64)
    moved.batch_repeat_interleave(2)
    answer = made.generate(prompt, past_key_values=moved, num_beams=2, max_new_tokens=5)
    assert answer.shape[1] == len(KEEP) + 6


def test_tokens_that_stand_elsewhere_are_announced() -> None:
    made, cache, _ = filled("llama")
    moved = track(cache, made)
    moved.expect([[80, 81]])
    with torch.no_grad():
        made(torch.tensor([[1, 2]]), past_key_values=moved, position_ids=torch.tensor([[80, 81]]))
    assert moved.ledger.current.flatten().tolist()[-3:] == [COUNT - 1, 80, 81]
    moved.expect([[90]])
    with pytest.raises(posenc.ArgumentError, match="expected 1 tokens, got 2"):
        made(torch.tensor([[1, 2]]), past_key_values=moved)


# --- what is refused ------------------------------------------------------------------------------


def tiny(kind: str, **more: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "n_embd": 32, "n_head": 4, "n_layer": 2}
    config = getattr(hf, f"{kind}Config")(**{**sizes, **more})
    cls = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    return getattr(hf, cls)(config).eval()


def test_a_learned_table_stays_where_it_is() -> None:
    made = tiny("GPT2")
    cache = made(torch.arange(9)[None], use_cache=True).past_key_values
    tracked = track(cache, made)
    for move in (
        lambda: shift(tracked, 1),
        lambda: evict(tracked, [0, 3]),
        lambda: reuse(tracked, 5),
        lambda: merge([tracked, tracked]),
        lambda: switch(tracked, ROPE),
    ):
        with pytest.raises(posenc.DataError, match="a learned table added to the embeddings"):
            move()
    assert len(evict(tracked, [0, 3, 8], gaps="keep").ledger) == 3


def test_alibi_moves_by_positions_alone() -> None:
    made = tiny("Bloom")
    cache = made(torch.arange(9)[None], use_cache=True).past_key_values
    moved = evict(track(cache, made), [0, 1, 5, 6, 7, 8])
    assert moved.ledger.current.flatten().tolist() == list(range(6))
    assert torch.equal(next(iter(moved))[0], cache.layers[0].keys[:, :, [0, 1, 5, 6, 7, 8]])
    answer = made.generate(torch.arange(8)[None], past_key_values=moved, max_new_tokens=4,
                           do_sample=False)  # fmt: skip
    assert answer.shape[1] == 12


@pytest.mark.costly
def test_keys_that_are_not_what_was_computed() -> None:
    keys = torch.zeros(1, 2, 6, 8)
    with pytest.raises(posenc.DataError, match="quantised keys"):
        track([(keys.to(torch.uint8), keys)], posenc.RoPE(8, pairing="half"))
    with pytest.raises(posenc.DataError, match="quantised keys"):
        track([(keys.to(torch.float8_e4m3fn), keys)], posenc.RoPE(8, pairing="half"))
    for kind in ("DeepseekV32", "Qwen3Next"):
        from tools.models.small_models import built

        made = built({"DeepseekV32": "deepseek_v32", "Qwen3Next": "qwen3_next"}[kind])
        cache = made(torch.arange(6)[None], use_cache=True).past_key_values
        before = [getattr(layer, "keys", None) for layer in cache.layers]
        with pytest.raises(posenc.DataError, match=r"an indexer's beside|a state that tokens"):
            track(cache, made)
        assert [getattr(layer, "keys", None) for layer in cache.layers] == before


def in_four_bits() -> Any:
    """A cache of groups of 16 numbers in 4 bits, the last 8 tokens as they come."""
    from transformers.cache_utils import QuantizedLayer

    class FourBits(QuantizedLayer):  # type: ignore[misc, valid-type]
        def _quantize(self, tensor: Any, axis: int) -> Any:
            groups = tensor.unflatten(-1, (-1, 16))
            scales = groups.abs().amax(-1, keepdim=True) / 7
            return (groups / scales).round().to(torch.int8), scales

        def _dequantize(self, stored: Any) -> Any:
            return (stored[0] * stored[1]).flatten(-2)

    cache = hf.DynamicCache(config=model("llama").config)
    cache.__class__ = hf.QuantizedCache
    cache.layers = [FourBits(residual_length=8) for _ in cache.layers]
    return cache


@pytest.mark.parametrize(
    ("make", "least", "most"),
    [
        (lambda: hf.QuantizedCache("fp8", model("llama").config), 0.01, 0.04),
        (in_four_bits, 0.05, 0.15),
    ],
    ids=["fp8", "4 bits"],
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_quantised_keys_move_and_are_quantised_again(make: Any, least: float, most: float) -> None:
    try:
        stored = make()
    except (ValueError, TypeError):
        pytest.skip("transformers before 5 has no fp8 cache")
    made = model("llama")
    tokens = torch.randint(0, 80, (1, COUNT), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for part in (tokens[:, :48], tokens[:, 48:]):
            made(part, past_key_values=stored, use_cache=True)
        plain = made(tokens, use_cache=True).past_key_values
    tracked = track(stored, made)
    assert stored.get_seq_length() == len(tracked.ledger) == COUNT
    moved, exact = (evict(cache, KEEP) for cache in (tracked, track(plain, made)))

    def off(pair: Any) -> float:
        return max(float((a - b).norm() / b.norm()) for a, b in zip(*pair, strict=True))

    once = max(map(off, zip(moved, exact, strict=True)))
    assert least < once < most
    assert write(moved, into=stored) is stored
    assert stored.get_seq_length() == len(KEEP)
    assert least < moved.requantised < most
    twice = max(map(off, zip(track(stored, made), exact, strict=True)))
    assert once < twice < 1.7 * once  # about the root of two
    with torch.no_grad():  # and the model goes on
        ours, theirs = (made(tokens[:, :2], past_key_values=c).logits for c in (stored, exact))
    assert float((ours - theirs).norm() / theirs.norm()) < 3 * most
    assert stored.get_seq_length() == len(KEEP) + 2


def test_asking_a_model_leaves_it_as_it_was() -> None:
    """A rule that remembers the longest sequence, of which the model has had one."""
    torch.manual_seed(0)
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    lengths = {"max_position_embeddings": 32, "rope_parameters": rope}
    made = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, **lengths)).train()
    cache = made(torch.arange(60)[None], use_cache=True).past_key_values
    module = made.model.rotary_emb
    before = {k: v.clone() for k, v in module.named_buffers()}, int(module.max_seq_len_cached)
    assert track(cache, made).rules[0].needs_length
    assert made.training
    assert int(module.max_seq_len_cached) == before[1] == 60
    for name, value in module.named_buffers():
        assert torch.equal(value, before[0][name])


def test_a_model_that_does_not_do_what_its_plan_says() -> None:
    made, cache, _ = filled("llama")
    with pytest.raises(
        posenc.DataError, match="keys of layer 0 .* got tensors that change otherwise than by"
    ):
        track(cache, made, plan=posenc.RoPE(16, pairing="interleaved"))
    with pytest.raises(
        posenc.DataError, match="keys of layer 0 .* got tensors that change otherwise than the plan"
    ):
        track(cache, made, plan=posenc.ALiBi(4))
    rounded = model("llama").bfloat16()  # its frequencies too
    with torch.no_grad():
        halved = rounded(torch.arange(6)[None], use_cache=True).past_key_values
    for weight in rounded.model.rotary_emb.buffers():
        weight.mul_(1.02)  # neither those of its config, nor these in half precision
    with pytest.raises(posenc.DataError, match=r"posenc\.torch\.adopt\(model\) before the prompt"):
        track(halved, rounded)
    from tools.models.small_models import built

    normed = built("hunyuan_v1_dense")  # it normalises keys after they are rotated
    for layer in normed.model.layers:
        torch.nn.init.uniform_(layer.self_attn.key_layernorm.weight, 0.5, 2.0)
    cache = normed(torch.arange(6)[None], use_cache=True).past_key_values
    with pytest.raises(posenc.DataError, match="keys of layer 0 that turn with the position"):
        track(cache, normed)


def test_a_model_whose_stretched_frequencies_were_rounded() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4,
            "original_max_position_embeddings": 64}  # fmt: skip
    config = hf.LlamaConfig(**SIZES, rope_parameters=yarn, max_position_embeddings=256)
    torch.manual_seed(0)
    rounded = hf.LlamaForCausalLM(config).bfloat16().eval()
    with torch.no_grad():
        cache = rounded(torch.arange(6)[None], use_cache=True).past_key_values
    with pytest.warns(UserWarning, match="rounded to half precision"):
        tracked = track(cache, rounded)
    spec = tracked.rules[0]
    assert spec.attention_factor == posenc.from_hf(config).at(0)[0].spec.attention_factor != 1
    [before, after] = (next(iter(c))[0].norm() for c in (tracked, shift(tracked, 9)))
    assert abs(float(after / before) - 1) < 0.01


def drawn_keys(mean: float, at: Any, seed: int = 0) -> Any:
    """Keys about a mean of their own channels, turned where tokens stand."""
    draw = torch.Generator().manual_seed(seed)
    means, noise = (torch.randn(1, 4, n, 32, generator=draw) for n in (1, len(at)))
    return posenc.rotate(posenc.RoPE(32, pairing="half"), mean * means + noise, positions=at)


def test_keys_are_turned_as_they_claim() -> None:
    rope, at, chunks = posenc.RoPE(32, pairing="half"), torch.arange(256), (64,) * 4
    for seed in range(8):
        assert verify(drawn_keys(1, at, seed), at, rope, chunks=chunks)
        unknown = verify(drawn_keys(0, at, seed), at, rope, chunks=chunks)
        assert not unknown
        assert unknown.answer == "unknown"
        for by in (-128, 1, 128):
            turned = at + by * ((at >= 128) & (at < 192))
            found = verify(drawn_keys(1, turned, seed), at, rope, chunks=chunks)
            assert found.answer == "differs"
            assert abs(found.chunks[2].by - by) <= 1
            assert "tokens 128 to 191 fit the others" in str(found)
    assert verify(drawn_keys(1, at).bfloat16(), 7 + at, rope).answer == "agrees"
    assert verify(drawn_keys(1, at), at, rope.replace(base=100.0)).answer != "agrees"
    for wrong in ({"chunks": (1, 255)}, {"chunks": (256,)}, {"positions": at[1:]}):
        with pytest.raises(posenc.ArgumentError, match="verify"):
            verify(drawn_keys(1, at), **{"positions": at, "spec": rope, **wrong})
    far = torch.cat([at[:128], at[128:] + 2**30])
    with pytest.raises(posenc.ArgumentError, match="reach: expected 1 to 1,048,576 positions"):
        verify(drawn_keys(1, far), far, rope)
    assert verify(drawn_keys(1, far), far, rope, reach=64).answer == "agrees"


def test_caches_that_do_not_belong_together() -> None:
    made, cache, _ = filled("llama")
    other, second, _ = filled("llama", seed=5)
    tracked = track(cache, made)
    with pytest.raises(posenc.ArgumentError, match="caches of two models"):
        merge([tracked, track(second, other)])
    with pytest.raises(posenc.ArgumentError, match="other rotations"):
        merge([tracked, track(cache, posenc.RoPE(16, pairing="half", base=5e5))])
    half = [(k.bfloat16(), v.bfloat16()) for k, v in tracked]
    with pytest.raises(posenc.ArgumentError, match=r"torch\.bfloat16"):
        merge([tracked, track(half, tracked.rules[0])])
    with pytest.raises(posenc.ArgumentError, match="at least one cache, got none"):
        merge([])


@pytest.mark.costly
def test_what_others_moved_is_noticed() -> None:
    made, cache, _ = filled("llama")
    tracked = track(cache, made)
    moved = shift(tracked, 4)
    cache.layers[1].keys[0, 0, 0, 0] += 1  # in place, behind everybody's back
    for call in (lambda: [*moved], lambda: evict(tracked, [0]), lambda: write(moved)):
        with pytest.raises(
            posenc.DataError, match="keys and values of layer 1 as the ledger knows"
        ):
            call()
    made, cache, _ = filled("llama")
    cache.layers[1].keys = cache.layers[1].keys[:, :, :-3]
    cache.layers[1].values = cache.layers[1].values[:, :, :-3]
    with pytest.raises(posenc.DataError, match="Others cut or moved the cache"):
        track(cache, made)
    made, cache, _ = filled("gemma3")
    cache.layers[0].keys = cache.layers[0].keys[:, :, :-3]
    cache.layers[0].values = cache.layers[0].values[:, :, :-3]
    with pytest.raises(posenc.DataError, match="Others cut it"):
        track(cache, made)


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "mask": (lambda c: evict(c, [True] * 3), posenc.ArgumentError, f"entry for each of {COUNT}"),
    "order": (lambda c: evict(c, [3, 1]), posenc.ArgumentError, "rising indices"),
    "beyond": (lambda c: evict(c, [0, COUNT]), posenc.ArgumentError, "rising indices"),
    "floats": (lambda c: evict(c, [0.5]), posenc.DTypeError, "integers"),
    "rows": (lambda c: evict(c, [[0], [1], [2]]), posenc.ArgumentError, "indices of tokens"),
    "gaps": (lambda c: evict(c, [0], gaps="fill"), posenc.ArgumentError, "'close' or 'keep'"),
    "by": (lambda c: shift(c, [1, 2]), posenc.ArgumentError, r"shift: by.*shape \(2,\)"),
    "half": (lambda c: shift(c, 0.5), posenc.DTypeError, "integers"),
    "at": (lambda c: reuse(c, -1), posenc.ArgumentError, "from 0 to"),
    "sinks": (lambda c: stream(c, -1, 4), posenc.ArgumentError, "sinks"),
    "nothing": (lambda c: stream(c, 0, 0), posenc.ArgumentError, "at least one token"),
    "length": (lambda c: switch(c, 0), posenc.ArgumentError, "depends on the length"),
    "new": (lambda c: switch(c, posenc.ALiBi(4)), posenc.SpecError, "a rotation in layer 0"),
    "layers": (lambda c: switch(c, posenc.Plan((), layers=())), posenc.ArgumentError, "2 layers"),
    "again": (lambda c: track(c, ROPE), posenc.ArgumentError, "without a ledger"),
    "expect": (lambda c: c.expect([[[1]]]), posenc.ArgumentError, r"\(rows, count\)"),
    "into": (lambda c: write(c, into=[]), posenc.ArgumentError, "a cache of transformers"),
    "crop": (lambda c: c.crop(3), posenc.ArgumentError, "to 0"),
    "gap": (lambda c: write(shift(c, 3), into=hf.DynamicCache()), posenc.ArgumentError, "layers"),
}  # fmt: skip


@pytest.fixture(scope="module")
def llama_cache() -> Any:
    made, cache, _ = filled("llama")
    return made, cache


@pytest.mark.costly
@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_the_cache_as_it_was(llama_cache: Any, case: str) -> None:
    made, cache = llama_cache
    tracked = track(cache, made)
    call, error, text = BAD[case]
    before, ledger = [t.clone() for pair in tracked for t in pair], tracked.ledger
    with pytest.raises(error, match=text):
        call(tracked)
    assert tracked.ledger is ledger
    assert all(
        torch.equal(a, b) for a, b in zip(before, [t for p in tracked for t in p], strict=True)
    )


@pytest.mark.parametrize("keep", [[], [False] * 3])
@pytest.mark.parametrize("gaps", ["close", "keep"])
def test_nothing_is_kept(keep: list[bool], gaps: Any) -> None:
    keys = torch.ones(1, 1, 3, 4)
    empty = evict(track([(keys, keys)], posenc.RoPE(4, pairing="half")), keep, gaps=gaps)
    assert [tuple(k.shape) for k, _ in empty] == [(1, 1, 0, 4)]
    assert empty.next_positions().tolist() == shift(empty, 5).next_positions().tolist() == [[0]]


def test_bad_caches_are_told(llama_cache: Any) -> None:
    made, cache = llama_cache
    for call, text in (
        (lambda: track(cache), "Pass the model, or plan="),
        (lambda: track(hf.DynamicCache(), made), "an empty one"),
        (lambda: track([], ROPE), "an empty one"),
        (lambda: track(type("Own", (hf.DynamicCache,), {})(), made), "one of DynamicCache"),
        (lambda: track(torch.zeros(3), made), "a transformers.Cache, or a list"),
        (lambda: track([(torch.zeros(2), torch.zeros(2))], ROPE), "tensors"),
        (lambda: track(cache, made, positions=[1, 2]), rf"shape \({COUNT},\)"),
        (lambda: track(cache, made, mask=[[1, 1]]), "mask"),
        (lambda: track(cache, posenc.RoPE(128, pairing="half")), "at least 128 channels"),
        (
            lambda: track(hf.EncoderDecoderCache(cache, hf.DynamicCache()), made),
            "self_attention_cache",
        ),
        (lambda: evict(cache, [0]), "makes one of any cache"),
    ):
        with pytest.raises(posenc.PosencError, match=text):
            call()


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_whose_frequencies_were_rounded_is_moved_by_these(dtype: torch.dtype) -> None:
    small = model("llama").to(dtype)
    own = small.model.rotary_emb.inv_freq.double().numpy()
    with torch.no_grad():
        cache = small(torch.arange(6)[None], use_cache=True).past_key_values
    with pytest.warns(UserWarning, match=r"rounded to half precision, as keys of one token show"):
        tracked = track(cache, small)
    spec = tracked.rules[0]
    assert_close(posenc.frequencies(spec), own, 1e-15 * own)
    assert not np.array_equal(own, powers(1e4))
    wide = small.float()  # frequencies stay as they were rounded
    with pytest.warns(UserWarning, match="rounded"):
        moved = shift(track(wide(torch.arange(6)[None]).past_key_values, wide), 900)
    with torch.no_grad():
        there = wide(torch.arange(6)[None], position_ids=torch.arange(6)[None] + 900)
    for (ours, _), layer in zip(moved, there.past_key_values.layers, strict=True):
        assert_close(ours.detach().numpy(), layer.keys.numpy(), 1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: evict(c, "all"),
        lambda c: evict(c, None),
        lambda c: evict(c, 2),
        lambda c: evict(c, b"\0\1"),
        lambda c: evict(c, {0: 1}),
        lambda c: evict(c, [0.0, 1.0]),
        lambda c: evict(c, [float("nan")]),
        lambda c: evict(c, [0, 2**70]),
        lambda c: evict(c, [-1]),
        lambda c: evict(c, [[0, 1], [1]]),
        lambda c: evict(c, [True] * 5),
        lambda c: evict(c, torch.zeros(2, device="meta", dtype=torch.int64)),
        lambda c: shift(c, "5"),
        lambda c: shift(c, None),
        lambda c: shift(c, 2**70),
        lambda c: shift(c, -(2**70)),
        lambda c: shift(c, 2**62 + 1),
        lambda c: shift(c, 2**63 - 1),
        lambda c: shift(c, 1.5),
        lambda c: shift(c, True),
        lambda c: shift(c, float("nan")),
        lambda c: shift(c, [1, 2]),
        lambda c: shift(c, np.array(2**63, dtype=np.uint64)),
        lambda c: reuse(c, 2**70),
        lambda c: reuse(c, "0"),
        lambda c: switch(c, 2**70),
        lambda c: switch(c, "8"),
        lambda c: switch(c, None),
        lambda c: stream(c, 1, 2**70 + 0.5),
        lambda c: stream(c, None, 3),
        lambda c: merge(None),
        lambda c: merge(c),
        lambda c: merge(["a"]),
        lambda c: write(c, into="x"),
        lambda c: c.next_positions(-1),
        lambda c: c.next_positions("1"),
        lambda c: c.expect("0"),
        lambda c: c.expect([[2**63 - 1]]),
        lambda c: c.reorder_cache(torch.tensor([0, 1])),
        lambda c: c.reorder_cache(None),
        lambda c: c.batch_repeat_interleave(0),
        lambda c: c.batch_repeat_interleave("2"),
        lambda c: c.batch_select_indices([3]),
        lambda c: c.update(torch.ones(2, 1, 1, 4), torch.ones(1, 1, 1, 4), 0),
        lambda c: c.update(torch.ones(1, 1, 1, 6), torch.ones(1, 1, 1, 4), 0),
        lambda c: c.update(torch.ones(1, 1, 4), torch.ones(1, 1, 4), 0),
        lambda c: track(list(c), c.rules[0], mask="real"),
        lambda c: track(list(c), c.rules[0], mask=[[0.0, 0.0, 0.0, -float("inf")]]),
        lambda c: track(list(c), c.rules[0], mask=[[float("nan")] * 4]),
        lambda c: track(list(c), c.rules[0], positions="0123"),
        lambda c: track(list(c), c.rules[0], positions=[0, 1, 2, 2**63 - 1]),
        lambda c: track(list(c), c.rules[0], length="4"),
        lambda c: track(list(c), c.rules[0], length=-4),
    ],
)
def test_what_fits_no_cache_is_refused_and_changes_nothing(call: Any) -> None:
    keys = torch.ones(1, 1, 4, 4)
    cache = track([(keys, keys)], posenc.RoPE(4, pairing="half"))
    with pytest.raises(posenc.PosencError):
        call(cache)
    assert cache.ledger.current.flatten().tolist() == [0, 1, 2, 3]
    assert torch.equal(next(iter(cache))[0], keys)


def test_the_farthest_and_oddest_of_what_fits() -> None:
    keys = torch.ones(1, 1, 4, 4)
    cache = track([(keys, keys)], posenc.RoPE(4, pairing="half"))
    far = shift(cache, 2**62 - 3)
    assert int(far.next_positions()) == 2**62 + 1
    assert int(shift(far, -(2**62) + 3).ledger.current[0, -1, 0]) == 3
    assert torch.equal(next(iter(shift(far, -(2**62) + 3)))[0], keys)
    assert int(reuse(cache, 2**62 - 3).ledger.first()) == 2**62 - 3
    for keep in ((0, 3), range(0, 4, 3), iter([0, 3]), np.array([0, 3], np.uint8), [True, 0, 0, 1]):
        if isinstance(keep, list):
            keep = [True, False, False, True]
        assert evict(cache, keep).ledger.original.flatten().tolist() == [0, 3]
    assert len(evict(cache, []).ledger) == 0
    assert (
        track([(keys, keys)], posenc.ALiBi(1), mask=[[0.0, 1.0, 1.0, 1.0]]).ledger.real.sum() == 3
    )


def test_a_cache_streams_while_a_model_generates() -> None:
    # Of one layer, keys have read nothing: a prompt of the tokens that stayed is an oracle.
    config = hf.LlamaConfig(
        vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
        intermediate_size=8, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(config).double().eval()
    prompt = torch.arange(12).reshape(2, 6) + 1
    cache = streaming(model, sinks=2, window=5)
    assert len(cache.ledger) == 0
    answer = model.generate(
        prompt, past_key_values=cache, max_new_tokens=14, do_sample=False,
        attention_mask=torch.ones_like(prompt), output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    rows = answer.sequences
    for step, logits in enumerate(answer.logits):
        end = 6 + step
        seen = torch.cat([rows[:, : min(2, end)], rows[:, max(2, end - 6) : end]], dim=1)
        with torch.no_grad():
            expected = model(seen).logits[:, -1]
        assert_close(logits.numpy(), expected.float().numpy(), 1e-6)
    assert cache.ledger.original.flatten().tolist() == [0, 1, *range(14, 19)]
    assert cache.movable[0].keys.shape == (2, 2, 7, 8)
    assert len(evict(cache, [0, 1, 4]).ledger) == 3
    windows = track(*filled("gemma3")[1::-1])
    with pytest.raises(posenc.ArgumentError, match=f"a window of at least {WINDOW - 1}, as layer"):
        streaming(windows, 2, 5)


@pytest.mark.costly
def test_a_compiler_follows_a_layer_without_a_break() -> None:
    rope, keys = posenc.RoPE(4, pairing="half"), torch.randn(1, 2, 6, 4)
    ours, other = (evict(track([(keys, keys)], rope), [0, 3, 4, 5]) for _ in range(2))
    step = torch.compile(lambda k: ours.update(k, k, 0), backend="eager", fullgraph=True)
    for new in torch.randn(3, 1, 2, 1, 4):
        assert torch.equal(step(new)[0], other.update(new, new, 0)[0])
    assert not torch.equal(next(iter(ours))[0], ours.movable[0].keys)
    assert ours.ledger.current.flatten().tolist() == list(range(7))
    assert ours.ledger.original.flatten().tolist() == [0, 3, 4, 5, 4, 5, 6]


@pytest.mark.slow("torch/cache")
@pytest.mark.parametrize("moves", [False, True])
def test_a_compiler_follows_a_cache_without_a_break(moves: bool) -> None:
    model, cache, _ = filled("llama")
    ours = evict(track(cache, model), KEEP) if moves else track(cache, model)
    other = copy.deepcopy(ours)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        for token in torch.arange(3)[:, None, None]:
            step = compiled(token, past_key_values=ours).logits
            assert torch.equal(step, model(token, past_key_values=other).logits)
    assert torch.equal(ours.ledger.current, other.ledger.current)
    next(iter(shift(ours, 3)))
    ours.movable[0].keys.add_(1)
    with pytest.raises(posenc.DataError, match="others"):
        shift(ours, 1)


def test_beams_over_a_cache_of_one_row() -> None:
    small, cache, _ = filled("llama", 9)
    prompt = torch.arange(12)[None] + 1
    beams = {"num_beams": 2, "max_new_tokens": 4, "do_sample": False,
             "attention_mask": torch.ones_like(prompt)}  # fmt: skip
    tracked = track(cache, small)
    two = track([(torch.ones(2, 1, 3, 4),) * 2], posenc.RoPE(4, pairing="half"))
    with pytest.raises(posenc.ArgumentError, match=r"\(2, 1, 4\).*got \(1, 1, 4\)$"):
        two.movable[0].update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
    plain = write(copy.deepcopy(tracked), into=hf.DynamicCache(config=small.config))
    plain.batch_repeat_interleave(2)
    ours = small.generate(prompt, past_key_values=tracked, **beams)
    assert torch.equal(ours, small.generate(prompt, past_key_values=plain, **beams))


@pytest.mark.slow("torch/cache")
def test_keys_that_are_divided_over_heads(tmp_path: Any) -> None:
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/at", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        rope, keys = posenc.RoPE(8, pairing="half"), torch.randn(1, 2, 6, 8)
        other = posenc.RoPE(8, pairing="half", base=5e5)
        for place in (Shard(1), Replicate()):
            parts = DTensor.from_local(keys, mesh, [place])
            caches = [track([(k, k)], rope) for k in (parts, keys)]
            for change in (
                lambda c: evict(c, [0, 1, 4]),
                lambda c: shift(c, 5),
                lambda c: merge([c, c]),
                lambda c: write(switch(c, other)),
            ):
                (divided, _), (plain, _) = (next(iter(change(c))) for c in caches)
                assert torch.equal(divided.full_tensor(), plain)
        cache = track([(DTensor.from_local(keys, mesh, [Shard(3)]),) * 2], rope)
        with pytest.raises(posenc.ArgumentError, match="divided over heads"):
            list(shift(cache, 5))
    finally:
        dist.destroy_process_group()
