"""Builders of positions on grids, of boxes and of offsets, against loops written out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
from posenc import positions
from tests.backends import Backend, each_backend
from tests.tolerances import assert_close

# JAX compiles each operation for each shape, so there few shapes meet all the options.
SIZES = {
    True: st.sampled_from([[2, 3, 4], [0, 3]]),
    False: st.lists(st.integers(0, 5), min_size=1, max_size=3),
}
COUNTS = {True: st.sampled_from([0, 7]), False: st.integers(0, 30)}
rules = st.sampled_from(["none", "unit", "centred", "reference"])


def brute_grid(
    lengths: list[int],
    order: str = "row_major",
    start: float = 0,
    normalise: str = "none",
    ends: str = "cells",
    reference: float = 1,
    scale: float = 1,
) -> list[list[float]]:
    """Token by token."""
    tokens = list(itertools.product(*(range(n) for n in lengths)))
    if order == "column_major":
        tokens.sort(key=lambda token: token[::-1])
    rows = []
    for token in tokens:
        row = []
        for i, size in zip(token, lengths, strict=True):
            span = size if ends == "cells" else max(size - 1, 1)
            value = i + start
            if normalise == "unit":
                value = value / span
            elif normalise == "centred":
                value = 2 * value / span - 1
            elif normalise == "reference":
                value = value * reference / size
            row.append(value / scale)
        rows.append(row)
    return rows


@each_backend
@given(
    data=st.data(),
    order=st.sampled_from(["row_major", "column_major"]),
    start=st.sampled_from([0, 1, 0.5, 0.25]),
    normalise=rules,
    ends=st.sampled_from(["cells", "points"]),
    scale=st.sampled_from([1, 1.875, 0.5]),
)
def test_grid_is_the_loop(
    backend: Backend,
    data: st.DataObject,
    order: Any,
    start: float,
    normalise: Any,
    ends: Any,
    scale: float,
) -> None:
    lengths = data.draw(SIZES[backend.name == "jax"])
    reference = 16 if normalise == "reference" else None
    options = {"order": order, "start": start, "normalise": normalise, "ends": ends}
    got = positions.grid(lengths, **options, reference=reference, scale=scale, xp=backend.xp())
    if normalise == "none" and scale == 1 and isinstance(start, int):
        assert "int" in backend.dtype_of(got)
    else:
        assert backend.dtype_of(got) == "float32"
    want = brute_grid(lengths, reference=reference or 1, scale=scale, **options)
    shape = (int(np.prod(lengths)), len(lengths))
    assert_close(backend.numpy(got), np.array(want).reshape(shape), 4e-6, backend.name)
    if "float64" in backend.dtypes:
        wide = positions.grid(
            lengths, **options, reference=reference, scale=scale, xp=backend.xp(), dtype="float64"
        )
        assert backend.dtype_of(wide) == "float64"
        assert_close(backend.numpy(wide), np.array(want).reshape(shape), 2e-14, backend.name)


def test_axes_by_name() -> None:
    hw = positions.grid({"h": 2, "w": 3})
    np.testing.assert_array_equal(hw, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    np.testing.assert_array_equal(positions.grid({"h": 2, "w": 3}, axes=("w", "h")), hw[:, ::-1])
    columns = positions.grid({"h": 2, "w": 3}, order="column_major")
    np.testing.assert_array_equal(columns, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]])


def test_numbers_for_each_axis_follow_the_order_of_the_sizes() -> None:
    stretched = positions.grid(
        {"h": 2, "w": 4}, normalise="reference", reference=(8, 2), scale=(2, 1), axes=("w", "h")
    )
    np.testing.assert_array_equal(stretched[-1], [1.5, 2.0])


def test_a_class_token_has_a_row_of_zeros() -> None:
    spec = posenc.Sinusoidal(
        8,
        order="sin_cos",
        arrangement=posenc.Arrangement(rule="axial", axes=("h", "w"), pad=-1),
    )
    table = posenc.table(spec, positions.grid({"h": 2, "w": 3}, prefix=1))
    assert table.shape == (7, 8)
    assert not table[0].any()
    np.testing.assert_array_equal(table[1:], posenc.table(spec, positions.grid({"h": 2, "w": 3})))
    assert table[1:].any(axis=1).all()


@each_backend
@given(data=st.data())
def test_from_grid_mask_is_the_loop(backend: Backend, data: st.DataObject) -> None:
    batch, height, width = 2, 3, 4
    bits = st.lists(st.booleans(), min_size=batch * height * width, max_size=batch * height * width)
    mask = np.array(data.draw(bits)).reshape(batch, height, width)
    want = np.zeros((batch, height * width, 2))
    for b, y, x in itertools.product(range(batch), range(height), range(width)):
        want[b, y * width + x] = mask[b, : y + 1, x].sum(), mask[b, y, : x + 1].sum()
    for given_mask in (mask, mask.astype(np.int64)):
        got = positions.from_grid_mask(backend.asarray(given_mask))
        assert "int" in backend.dtype_of(got)
        np.testing.assert_array_equal(backend.numpy(got), want)
    last = np.stack(
        [
            np.repeat(mask.sum(axis=1)[:, None, :], height, axis=1).reshape(batch, -1),
            np.repeat(mask.sum(axis=2)[:, :, None], width, axis=2).reshape(batch, -1),
        ],
        axis=-1,
    )
    unit = positions.from_grid_mask(backend.asarray(mask), normalise="unit")
    assert backend.dtype_of(unit) == "float32"
    assert_close(backend.numpy(unit), want / (last + 1e-6), 2e-7, backend.name)


def test_from_grid_mask_of_three_axes() -> None:
    mask = np.ones((2, 3, 4), dtype=bool)
    got = positions.from_grid_mask(mask, axes=3)
    want = positions.grid((2, 3, 4), start=1)
    np.testing.assert_array_equal(got, want)


@each_backend
@given(st.data(), st.integers(-20, 20), st.one_of(st.none(), st.integers(0, 5)))
def test_descending(backend: Backend, data: st.DataObject, last: int, clip: int | None) -> None:
    count = data.draw(COUNTS[backend.name == "jax"])
    first = last + count - 1
    want = [first - i for i in range(count)]
    want = [max(-clip, min(clip, v)) for v in want] if clip is not None else want
    got = backend.numpy(positions.descending(first, last, clip=clip, xp=backend.xp()))
    assert got.tolist() == want


def test_signed_offsets_tell_past_from_future() -> None:
    """Tables of signed offsets once lost their sign: rows r and -r must differ."""
    table = posenc.table(posenc.Sinusoidal(16), positions.descending(9, -9))
    assert table.shape == (19, 16)
    for r in range(1, 10):
        assert np.abs(table[9 - r] - table[9 + r]).max() > 0.1


@each_backend
def test_boxes(backend: Backend) -> None:
    corners = np.array([[0, 0, 640, 480], [10, 20, 30, 200]], dtype=np.float32)
    for form in ("centre", "corners", "corners_and_size"):
        want = []
        for x0, y0, x1, y1 in corners.tolist():
            box = {"centre": [(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0]}
            box["corners"] = [x0, y0, x1, y1]
            box["corners_and_size"] = [x0, y0, x1, y1, x1 - x0, y1 - y0]
            want.append(box[form])
        got = positions.boxes(backend.asarray(corners), form=form)  # type: ignore[arg-type]
        assert_close(backend.numpy(got), np.array(want), 0, form)
        whole = positions.boxes(backend.asarray(corners.astype(np.int64)), form=form)  # type: ignore[arg-type]
        assert ("int" in backend.dtype_of(whole)) == (form != "centre")
        assert_close(backend.numpy(whole), np.array(want), 0, form)
        unit = positions.boxes(backend.asarray(corners), form=form, size=(640, 480))  # type: ignore[arg-type]
        scale = np.array([640, 480, 640, 480, 640, 480][: len(want[0])])
        assert_close(backend.numpy(unit), np.array(want) / scale, 1e-6, form)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: positions.grid(5), "one size for each axis"),  # type: ignore[arg-type]
        (lambda: positions.grid([]), "at least one size"),
        (lambda: positions.grid([3, -1]), "each of 0 or more"),
        (lambda: positions.grid([3, 2.0]), "each of 0 or more"),  # type: ignore[list-item]
        (lambda: positions.grid([3, 2], axes=("h", "w")), "sizes with names"),
        (lambda: positions.grid({"h": 3}, axes=("w",)), "the names"),
        (lambda: positions.grid([3], order="rows"), "'row_major' or 'column_major'"),  # type: ignore[arg-type]
        (lambda: positions.grid([3], normalise="centered"), "Did you mean 'centred'"),  # type: ignore[arg-type]
        (lambda: positions.grid([3], ends="both"), "'cells' or 'points'"),  # type: ignore[arg-type]
        (lambda: positions.grid([3], reference=4), "unless normalise='reference'"),
        (lambda: positions.grid([3], normalise="reference"), "unless normalise='reference'"),
        (lambda: positions.grid([3], scale=0), "a positive number"),
        (lambda: positions.grid([3, 2], scale=(1,)), "or 2 of them"),
        (lambda: positions.grid([3], prefix=1, normalise="unit"), "coordinates count"),
        (lambda: positions.from_grid_mask([1, 1]), "at least 2 axes"),
        (lambda: positions.from_grid_mask([[0.0, -np.inf]]), "a mask of 0 and 1"),
        (lambda: positions.descending(0, 5), "above the last"),
        (lambda: positions.descending(0.5, 0), "two integers"),  # type: ignore[arg-type]
        (lambda: positions.descending(3, 0, clip=-1), "at least 0"),
        (lambda: positions.boxes([1, 2, 3]), r"shape \(..., 4\)"),
        (lambda: positions.boxes([[5, 0, 1, 1]]), "end after they begin"),
        (lambda: positions.boxes([[0, 0, 1, 1]], form="center"), "Did you mean 'centre'"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call: Any, match: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=match):
        call()


@pytest.mark.costly
def test_grids_under_compile_and_jit() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    spec = posenc.Fourier(16, arrangement=posenc.Arrangement(rule="axial", axes=("h", "w")))

    def rows(x: Any, xp: Any) -> Any:
        where = positions.grid(
            {"h": x.shape[0], "w": x.shape[1]}, start=0.5, normalise="unit", xp=xp
        )
        return posenc.table(spec, where)

    compiled = torch.compile(rows, fullgraph=True, dynamic=True, backend="eager")
    jitted = jax.jit(lambda x: rows(x, jax.numpy))
    for shape in ((3, 5), (4, 7)):
        want = rows(np.zeros(shape), np)
        assert_close(compiled(torch.zeros(shape), torch), want, 4e-6)
        assert_close(jitted(jax.numpy.zeros(shape)), want, 4e-6)
