"""Positions of serving, held against the code that uses them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
from posenc import positions

GOLDEN = Path(__file__).parents[1] / "golden" / "draft_tree.json"


# --- drafts ---------------------------------------------------------------------------------------


def test_a_draft_tree_stands_where_medusa_puts_it() -> None:
    """The numbers are of the authors' code, which `GOLDEN` names with its commit."""
    theirs = json.loads(GOLDEN.read_text())
    assert positions.tree(theirs["parents"]).tolist() == theirs["positions"]
    begun = positions.tree(theirs["parents"], start=[100, 7])
    assert begun.tolist() == [
        [p + 100 for p in theirs["positions"]],
        [p + 7 for p in theirs["positions"]],
    ]
    for nodes in theirs["paths"]:
        # Their paths end in -1 + 1 = 0 or less where a branch is short; the root is place 0.
        branch = [nodes[0], *[node for node in nodes[1:] if node > 0]]
        assert positions.path(theirs["parents"], branch[-1]).tolist() == branch


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_a_node_stands_one_behind_its_parent(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(-1, node)) if node else -1 for node in range(count)]
    places = positions.tree(parents, start=5)
    assert all(places[n] == (places[p] + 1 if p >= 0 else 5) for n, p in enumerate(parents))
    nodes = positions.path(parents, count - 1)
    assert places[nodes].tolist() == list(range(5, 5 + len(nodes)))
    assert nodes[-1] == count - 1


def test_an_accepted_branch_stays_in_a_cache_without_moving() -> None:
    torch = pytest.importorskip("torch")
    from posenc.torch.cache import evict, track

    rope, x = posenc.RoPE(8, pairing="half"), np.random.default_rng(0).standard_normal((1, 2, 9, 8))
    parents = [-1, 0, 0, 1, 2]
    where = [*range(4), *positions.tree(parents, start=4).tolist()]
    keys = torch.from_numpy(posenc.rotate(rope, x, positions=where))
    cache = track([(keys, keys)], rope, positions=where)
    kept = [*range(4), *(4 + positions.path(parents, 4))]
    cache = evict(cache, kept)
    assert cache.next_positions().item() == positions.following(len(kept))[0] == 7
    assert torch.equal(next(iter(cache))[0], keys[:, :, kept])


# --- decode steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("context", "shift"), [(20, -3), (7, 0), (100, 12)])
def test_the_next_positions_are_those_of_vllm(context: int, shift: int) -> None:
    """`range(context_len + delta, seq_len + delta)` on three axes, as its rotary layer has it."""
    theirs = [list(range(context + shift, context + 4 + shift)) for _ in range(3)]
    assert positions.following(context, 4, delta=shift, axes=3).T.tolist() == theirs
    assert positions.following(context, 4).tolist() == list(range(context, context + 4))


def test_rows_go_on_by_their_own_delta() -> None:
    torch = pytest.importorskip("torch")
    shift = torch.tensor([[-3], [2]])
    both = positions.following(10, 2, delta=shift, axes=3)
    assert both[..., 0].tolist() == [[7, 8], [12, 13]]
    assert positions.following([4, 9], delta=[[1], [0]][0][0]).tolist() == [[5], [10]]


MM: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen2_vl": ("qwen2_vl", "Qwen2VLModel", {"video": "whole"}),
    "qwen2_5_vl": ("qwen2_5_vl", "Qwen2_5_VLModel", {"video": "whole", "interval": [1.2, 3.0]}),
    "qwen3_vl": ("qwen3_vl", "Qwen3VLModel", {"video": "frames"}),
    "glm4v": ("glm4v", "Glm4vModel", {"video": "frames"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MM)
def test_prompts_with_pictures_stand_where_transformers_puts_them(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import importlib

    folder, cls, options = MM[name]
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    images, videos = [[1, 4, 6], [1, 8, 4]], [[3, 4, 4], [2, 6, 4]]
    film = [2] * 4, [2] * 6
    if options["video"] == "frames":  # text between the frames
        films = [*film[0], 0, *film[0], 0, *film[0]], [*film[1], 0, *film[1]]
    else:
        films = film[0] * 3, film[1] * 2
    rows = [
        [0] * 3 + [1] * 6 + [0] * 2 + films[0] + [0] * 4,
        [0] * 1 + films[1] + [0] + [1] * 8 + [0] * 2,
    ]
    size = max(map(len, rows)) + 1
    types = torch.tensor([[0] * (size - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (size - len(row)) + [1] * len(row) for row in rows])
    whole = getattr(module, cls)
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=2)
    model = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    model.get_vision_position_ids = whole.get_vision_position_ids.__get__(model)
    grids = {"image_grid_thw": torch.tensor(images), "video_grid_thw": torch.tensor(videos)}
    more = {"second_per_grid_ts": [0.6, 1.5]} if name == "qwen2_5_vl" else {}
    theirs, shift = whole.get_rope_index(
        model, types, mm_token_type_ids=types, attention_mask=mask, **grids, **more
    )
    ours = positions.from_token_types(types, images, videos, mask=mask, **options)
    assert torch.equal(ours.movedim(-1, 0), theirs)
    assert positions.delta(ours, mask).tolist() == shift.tolist()
    lists = positions.from_token_types(
        types.tolist(), images, videos, mask=mask.tolist(), **options
    )
    assert lists.tolist() == ours.tolist()


# --- shards, pages, packed rows -------------------------------------------------------------------


def test_striped_and_zigzag_shards() -> None:
    sequence = np.arange(24)
    # reshape(seqlen // world, world), transposed: what ring attention in stripes cuts.
    theirs = sequence.reshape(-1, 4).T
    ours = [positions.shard(24, world=4, rank=r, layout="striped").tolist() for r in range(4)]
    assert ours == theirs.tolist()
    for rank in range(3):
        same = [positions.shard(24, world=3, rank=rank, layout=n) for n in ("zigzag", "head_tail")]
        assert same[0].tolist() == same[1].tolist()
    with pytest.raises(posenc.ArgumentError, match="'contiguous' or .*'striped', got 'random'"):
        positions.shard(8, world=2, rank=0, layout="random")  # type: ignore[arg-type]


def test_pages_hold_what_the_slot_mapping_says() -> None:
    rng = np.random.default_rng(0)
    table, size, length = rng.permutation(9)[:5], 4, 18
    held = positions.paged(table, size, length=length, pool=9).reshape(-1)
    p = np.arange(length)
    slots = table[p // size] * size + p % size  # as vLLM computes where a token goes
    assert held[slots].tolist() == p.tolist()
    assert (np.delete(held, slots) == -1).all()


@pytest.mark.parametrize("padding", [-1, 0, 7])
def test_a_padded_block_table_is_that_of_the_used_pages(padding: int) -> None:
    """A row of an engine's block table has room for the longest sequence."""
    used = [4, 2, 7]
    row = np.array([*used, *[padding] * 29], dtype=np.int32)
    expected = positions.paged(used, 4, length=11, pool=9)
    assert positions.paged(row, 4, length=11, pool=9).tolist() == expected.tolist()
    # Of those that are used, each is still looked at.
    for wrong in ([4, 4, 7], [4, -1, 7], [4, 9, 7]):
        with pytest.raises(posenc.PosencError):
            positions.paged([*wrong, *[padding] * 5], 4, length=11, pool=9)


def test_without_entries() -> None:
    assert positions.tree([]).dtype == np.int64
    assert positions.tree([]).shape == (0,)
    assert positions.tree([], start=5).shape == (0,)
    assert positions.paged([], 4, length=0, pool=2).tolist() == [[-1] * 4] * 2
    with pytest.raises(posenc.PosencError, match="at least 1 pages"):
        positions.paged([], 4, length=1, pool=2)


@pytest.mark.parametrize("tail", [None, 0, -1])
def test_packed_rows_with_a_padded_tail(tail: int | None) -> None:
    torch = pytest.importorskip("torch")
    ends = torch.tensor([0, 3, 3, 8])
    expected = [0, 1, 2, 0, 1, 2, 3, 4, *(range(4) if tail is None else [tail] * 4)]
    assert positions.packed(ends, 12, tail=tail).tolist() == expected


BAD: dict[str, tuple[Any, str]] = {
    "parent": (lambda: positions.tree([-1, 2, 0]), "from -1 to 0 for node 1"),
    "self": (lambda: positions.tree([0]), "from -1 to -1 for node 0"),
    "node": (lambda: positions.path([-1], 1), "from -1 to 0"),
    "floats": (lambda: positions.tree([0.5]), "integers"),
    "axes": (lambda: positions.following(3, axes=0), "at least 1"),
    "missing": (lambda: positions.from_token_types([[0, 1, 1]]), "a grid of 2 tokens for those"),
    "other": (lambda: positions.from_token_types([[0, 1]], [[1, 2, 4]]), "got one of 2"),
    "more": (lambda: positions.from_token_types([[0]], [[1, 2, 2]]), "1 images and 0 videos"),
    "merge": (lambda: positions.from_token_types([[1]], [[1, 3, 2]]), "that 2 divides"),
    "video": (lambda: positions.from_token_types([[0]], video="x"), "'frames' or 'whole'"),
    "mask": (lambda: positions.from_token_types([[0]], mask=[[1, 1]]), "mask"),
    "empty": (lambda: positions.delta([[[1]]], [[0]]), "a real token in each row"),
    "twice": (lambda: positions.paged([1, 1], 2, length=3, pool=4), "each once"),
    "few": (lambda: positions.paged([1], 2, length=3, pool=4), "at least 2 pages"),
    "pool": (lambda: positions.paged([7], 2, length=1, pool=4), "pages from 0 to 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told(case: str) -> None:
    call, text = BAD[case]
    with pytest.raises(posenc.PosencError, match=text):
        call()
