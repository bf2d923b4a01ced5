"""Position builders, each against a brute-force twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import posenc
from posenc import Arrangement, Sinusoidal, positions
from tests.backends import Backend, each_backend

INT64_MAX = 2**63 - 1


def rows_of_mask(mask: list[list[bool]], pad: int) -> list[list[int]]:
    """Count the real tokens before each real token."""
    return [
        [sum(row[:i]) if real else pad for i, real in enumerate(row)]
        for row in ([bool(m) for m in line] for line in mask)
    ]


def within(lengths: list[int]) -> list[int]:
    """Each token's place in its own sequence."""
    return [i for length in lengths for i in range(length)]


def masks_of(
    widths: st.SearchStrategy[int], least: int, most: int
) -> st.SearchStrategy[list[list[bool]]]:
    """Masks of some widths, with so many rows."""
    return widths.flatmap(
        lambda width: st.lists(
            st.lists(st.booleans(), min_size=width, max_size=width), min_size=least, max_size=most
        )
    )


# JAX compiles each operation for each shape, so there few shapes meet many values.
MASKS = {True: masks_of(st.sampled_from([0, 5]), 3, 3), False: masks_of(st.integers(0, 6), 1, 4)}
LENGTHS = {
    True: st.permutations([0, 3, 0, 2, 1]) | st.just([]),
    False: st.lists(st.integers(0, 5), max_size=6),
}
COUNTS = {True: st.sampled_from([0, 1, 20]), False: st.integers(0, 20)}
FIRST = st.integers(-(2**31), 2**31 - 10)
STARTS = {
    True: st.tuples(st.just(6), st.lists(FIRST, min_size=3, max_size=3))
    | st.tuples(st.just(0), st.lists(FIRST, min_size=1, max_size=1)),
    False: st.tuples(st.integers(0, 6), st.lists(FIRST, max_size=4)),
}
FEW_LENGTHS = {
    True: st.permutations([0, 1, 3]),
    False: st.lists(st.integers(0, 3), max_size=3),
}


@each_backend
@given(st.data(), st.integers(-(2**31), 2**31 - 30))
@settings(max_examples=25)
def test_arange(backend: Backend, data: st.DataObject, start: int) -> None:
    length = data.draw(COUNTS[backend.name == "jax"])
    got = positions.arange(length, start=start, xp=backend.xp())
    assert backend.numpy(got).tolist() == [start + i for i in range(length)]


@each_backend
@given(st.data())
@settings(max_examples=25)
def test_offset_per_row(backend: Backend, data: st.DataObject) -> None:
    length, offsets = data.draw(STARTS[backend.name == "jax"])
    given_offsets = backend.asarray(np.array(offsets, dtype=np.int64))
    got = backend.numpy(positions.offset(length, given_offsets))
    assert got.shape == (len(offsets), length)
    assert got.tolist() == [[o + i for i in range(length)] for o in offsets]


@each_backend
@given(st.data(), st.integers(-3, 3))
@settings(max_examples=25)
def test_from_mask(backend: Backend, data: st.DataObject, pad: int) -> None:
    mask = data.draw(MASKS[backend.name == "jax"])
    for kind in (bool, np.int32):
        array = backend.asarray(np.array(mask, dtype=kind).reshape(len(mask), len(mask[0])))
        got = backend.numpy(positions.from_mask(array, pad=pad))
        assert got.tolist() == rows_of_mask(mask, pad)


def test_fairseq_like_tables() -> None:
    """padding_idx + 1, 2, … for real tokens, padding_idx for padding, whose row is zero."""
    padding_idx = 1
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 0, 1, 0]])
    spec = Sinusoidal(6, arrangement=Arrangement(start=padding_idx + 1, pad=padding_idx))
    table = posenc.table(spec, positions.from_mask(mask, pad=-1))
    for row, line in zip(table, mask, strict=True):
        count = padding_idx
        for vector, real in zip(row, line, strict=True):
            count += int(real)
            absolute = posenc.table(Sinusoidal(6), [count])[0] if real else np.zeros(6)
            np.testing.assert_array_equal(vector, absolute)


@each_backend
@given(st.data())
@settings(max_examples=25)
def test_packed(backend: Backend, data: st.DataObject) -> None:
    lengths = data.draw(LENGTHS[backend.name == "jax"])
    ends = backend.asarray(np.cumsum([0, *lengths]))
    got = backend.numpy(positions.packed(ends))
    assert got.tolist() == within(lengths)
    total = sum(lengths) + 3
    got = backend.numpy(positions.packed(ends, total))
    assert got.tolist() == [*within(lengths), 0, 1, 2]


@each_backend
@given(st.data(), st.integers(0, 1))
@settings(max_examples=10)
def test_packed_mask(backend: Backend, data: st.DataObject, more: int) -> None:
    lengths = data.draw(FEW_LENGTHS[backend.name == "jax"])
    owners = [n for n, length in enumerate([*lengths, more]) for _ in range(length)]
    ends, total = backend.asarray(np.cumsum([0, *lengths])), len(owners)
    assert backend.numpy(positions.segments(ends, total)).tolist() == owners
    own = [[a == b for b in owners] for a in owners]
    got = positions.packed_mask(ends, total, direction="bidirectional")
    assert backend.numpy(got).reshape(total, total).tolist() == own
    got = backend.numpy(positions.packed_mask(ends, total)).reshape(total, total)
    assert got.tolist() == [[own[i][j] and j <= i for j in range(total)] for i in range(total)]


@each_backend
@given(st.data(), st.sampled_from(["causal", "bidirectional"]))
@settings(max_examples=10)
def test_padding_mask(backend: Backend, data: st.DataObject, direction: str) -> None:
    mask = data.draw(MASKS[backend.name == "jax"])
    keys = len(mask[0])
    rows = data.draw(st.sampled_from([0, 2, keys]) if backend.name == "jax" else st.integers(0, 6))
    rows = min(rows, keys)
    array = backend.asarray(np.array(mask, dtype=np.int32).reshape(len(mask), keys))
    got = backend.numpy(positions.padding_mask(array, queries=rows, direction=direction))
    assert got.shape == (len(mask), 1, rows, keys)
    for b, i, j in np.ndindex(len(mask), rows, keys):
        at = keys - rows + i
        seen = mask[b][j] and (direction == "bidirectional" or j <= at)
        assert got[b, 0, i, j] == (seen or at == j)


def test_packed_rows_equal_separate_rows() -> None:
    spec, lengths = Sinusoidal(8), [3, 1, 4]
    packed = posenc.table(spec, positions.packed(np.cumsum([0, *lengths])))
    separate = np.concatenate([posenc.table(spec, n) for n in lengths])
    np.testing.assert_array_equal(packed, separate)


def test_left_padded_rows_equal_rows_without_padding() -> None:
    spec = Sinusoidal(8)
    table = posenc.table(spec, positions.from_mask([[0, 0, 1, 1, 1]]))
    np.testing.assert_array_equal(table[0, 2:], posenc.table(spec, 3))


def test_lists_and_scalars() -> None:
    assert positions.offset(3, [1, 2]).tolist() == [[1, 2, 3], [2, 3, 4]]
    assert positions.offset(2, np.int32(7)).tolist() == [7, 8]
    assert positions.offset(2, np.array(7)).tolist() == [7, 8]
    assert positions.packed([0]).tolist() == []
    assert positions.arange(0).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: positions.arange(-1), posenc.ArgumentError, "at least 0, got -1"),
        (lambda: positions.arange(2.0), posenc.ArgumentError, "at least 0, got 2.0"),
        (lambda: positions.arange(True), posenc.ArgumentError, "at least 0, got True"),
        (lambda: positions.arange(2, start=INT64_MAX), posenc.PositionError, str(INT64_MAX)),
        (lambda: positions.arange(2, start=2**70), posenc.PositionError, str(2**70)),
        (
            lambda: positions.arange(2, start=-(2**63) - 1),
            posenc.PositionError,
            "-9223372036854775809",
        ),
        (lambda: positions.offset(2, [INT64_MAX]), posenc.PositionError, "positions up to"),
        (lambda: positions.offset(2, [[1]]), posenc.ArgumentError, "one number, or one per row"),
        (lambda: positions.offset(2, 1.5), posenc.DTypeError, "integer positions, got float64"),
        (lambda: positions.offset(2, True), posenc.DTypeError, "integer positions, got bool"),
        (lambda: positions.from_mask([[0, 2]]), posenc.ArgumentError, "a mask of 0 and 1"),
        (lambda: positions.padding_mask([[0, 2]]), posenc.ArgumentError, "a mask of 0 and 1"),
        (lambda: positions.padding_mask([0, 1]), posenc.ArgumentError, "shape .batch, seq."),
        (lambda: positions.padding_mask([[1]], queries=2), posenc.ArgumentError, "KV cache"),
        (
            lambda: positions.padding_mask([[1]], direction="left"),
            posenc.ArgumentError,
            "'causal' or 'bidirectional', got 'left'",
        ),
        (lambda: positions.packed_mask([1, 2]), posenc.ArgumentError, "cumulative lengths from 0"),
        (lambda: positions.from_mask([[0.0, -np.inf]]), posenc.ArgumentError, "mask == 0"),
        (lambda: positions.from_mask(1), posenc.ArgumentError, "a scalar"),
        (lambda: positions.packed([1, 2]), posenc.ArgumentError, "from 0, never falling"),
        (lambda: positions.packed([0, 3, 2]), posenc.ArgumentError, "from 0, never falling"),
        (lambda: positions.packed([]), posenc.ArgumentError, "shape .sequences"),
        (lambda: positions.packed([[0, 1]]), posenc.ArgumentError, "shape .sequences"),
        (lambda: positions.packed([0, 5], 3), posenc.ArgumentError, "at least 5, got 3"),
        (lambda: positions.packed([0.0, 5.0]), posenc.DTypeError, "integer positions"),
    ],
)
def test_bad_input(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()  # type: ignore[operator]


def test_jax_refuses_what_would_wrap() -> None:
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(posenc.PositionError, match="2147483645"):
        positions.arange(3, start=2**31 - 2, xp=jnp)
    assert positions.arange(2, start=2**31 - 2, xp=jnp).tolist() == [2**31 - 2, 2**31 - 1]
    with pytest.raises(posenc.PositionError, match="2147483647"):
        positions.offset(3, jnp.asarray([2**31 - 2]))
    with pytest.raises(posenc.PositionError, match="x64"):
        positions.offset(3, np.array([2**40]), xp=jnp)


def test_jit_needs_the_total_of_a_packed_row() -> None:
    jax = pytest.importorskip("jax")
    ends = jax.numpy.asarray([0, 2, 5])
    with pytest.raises(posenc.ArgumentError, match="under tracing"):
        jax.jit(positions.packed)(ends)
    packed = jax.jit(positions.packed, static_argnums=1)(ends, 5)
    assert packed.tolist() == [0, 1, 0, 1, 2]


# --- builders as values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "given", "expected", "text"),
    [
        (posenc.Positions("arange", start=2), 3, [2, 3, 4], "arange(length, start=2)"),
        (posenc.Positions("from_mask", pad=-1), [[0, 1, 1]], [[-1, 0, 1]], None),
        (
            posenc.Positions("grid", axes=("w", "h")),
            {"h": 1, "w": 2},
            [[0, 0], [1, 0]],
            "grid(sizes, axes=('w', 'h'))",
        ),
        (
            posenc.Positions("from_grid_mask", start=0.5),
            [[1, 1, 0]],
            [[0.5, 0.5], [0.5, 1.5], [-0.5, 1.5]],
            None,
        ),
        (posenc.Positions("multimodal", start=1), [1, (1, 1, 1)], [[1] * 3, [2] * 3], None),
        (posenc.Positions("boxes", form="corners"), [[1, 2, 3, 4]], [[1, 2, 3, 4]], None),
    ],
    ids=lambda value: value.builder if isinstance(value, posenc.Positions) else "",
)
def test_a_rule_builds_and_is_its_json(
    rule: posenc.Positions, given: object, expected: object, text: str | None
) -> None:
    np.testing.assert_array_equal(rule.build(given), np.asarray(expected))
    assert posenc.from_json(posenc.to_json(rule)) == rule
    assert "null" not in posenc.to_json(rule)
    assert text is None or str(rule) == text


def test_a_rule_takes_the_arguments_of_its_builder_alone() -> None:
    with pytest.raises(
        posenc.SpecError, match=r"arange: expected arguments start, single, got pad=1"
    ):
        posenc.Positions("arange", pad=1)


@each_backend
def test_blocks_of_patches_and_still_pictures(backend: Backend) -> None:
    sizes = {"t": 2, "h": 4, "w": 6}
    found = positions.grid(sizes, block=2, xp=backend.xp())
    blocks = [
        (t, 2 * row + i, 2 * column + j)
        for t in range(2)
        for row in range(2)
        for column in range(3)
        for i in range(2)
        for j in range(2)
    ]
    np.testing.assert_array_equal(backend.numpy(found), blocks)
    for frames, times in ((1, [-1]), (3, [0, 1, 2])):
        found = positions.arange(frames, single=-1, xp=backend.xp())
        np.testing.assert_array_equal(backend.numpy(found), times)


@pytest.mark.parametrize("more", [{"block": 3}, {"block": 2, "order": "column_major"}])
def test_refused_blocks(more: dict[str, object]) -> None:
    with pytest.raises(posenc.ArgumentError):
        positions.grid([4, 4], **more)  # type: ignore[arg-type]
