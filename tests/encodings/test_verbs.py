"""What verbs refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import ArgumentError, Arrangement, DTypeError, PositionError, Sinusoidal, SpecError
from tests.backends import Backend, each_backend

SPEC = Sinusoidal(8)
GRID = Sinusoidal(8, arrangement=Arrangement(rule="axial", axes=("h", "w")))
X = np.zeros((2, 5, 8), dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: posenc.table(Sinusoidal, 3), ArgumentError, "Construct it first: Sinusoidal"),
        (lambda: posenc.table("Sinusoidal", 3), ArgumentError, "a table such as posenc.Sinus"),
        (lambda: posenc.table(SPEC, -1), ArgumentError, "at least 0, got -1"),
        (lambda: posenc.table(SPEC, 2.5), DTypeError, "integer positions, got float64"),
        (lambda: posenc.table(SPEC, True), DTypeError, "integer positions, got bool"),
        (lambda: posenc.table(SPEC, [0.5]), DTypeError, "bfloat16 beyond 256"),
        (lambda: posenc.table(SPEC, np.zeros(3, "float16")), DTypeError, "got float16"),
        (lambda: posenc.table(SPEC, np.zeros(3, bool)), DTypeError, "got bool"),
        (lambda: posenc.table(SPEC, ["1"]), DTypeError, "integer positions"),
        (lambda: posenc.table(SPEC, [[1], [1, 2]]), ArgumentError, "an array of integers"),
        (lambda: posenc.table(SPEC, [2**63]), PositionError, "9223372036854775807"),
        (lambda: posenc.table(SPEC, [2**70]), PositionError, "1180591620717411303424"),
        (lambda: posenc.table(SPEC, np.array([2**63], "uint64")), PositionError, "922337"),
        (lambda: posenc.table(SPEC, 3, dtype="int32"), DTypeError, "float64 or float32"),
        (lambda: posenc.table(SPEC, 3, dtype="float8"), DTypeError, "got float8"),
        (lambda: posenc.table(SPEC, 3, xp="numpy"), ArgumentError, "an array module"),
        (lambda: posenc.table(GRID, 2), ArgumentError, "got a number of positions"),
        (lambda: posenc.table(GRID, 3), ArgumentError, "coordinates .*'h', 'w'"),
        (lambda: posenc.table(GRID, [1, 2, 3]), ArgumentError, "a trailing axis of 2"),
        (lambda: posenc.add(SPEC, X[..., :6]), ArgumentError, r"\(..., seq, 8\), got shape"),
        (lambda: posenc.add(SPEC, X[0, 0]), ArgumentError, r"\(..., seq, 8\), got shape"),
        (lambda: posenc.add(SPEC, X.tolist()), ArgumentError, "an array of NumPy.*got list"),
        (lambda: posenc.add(SPEC, X.astype(int)), DTypeError, "floating dtype first"),
        (lambda: posenc.add(SPEC, X > 0), DTypeError, "floating dtype first"),
        (lambda: posenc.add(SPEC, X, offset=1, positions=[0] * 5), ArgumentError, "got both"),
        (lambda: posenc.add(SPEC, X, positions=[0] * 4), ArgumentError, r"\(5,\) or \(2, 5\)"),
        (lambda: posenc.add(SPEC, X, positions=[0] * 6), ArgumentError, r"got shape \(6,\)"),
        (lambda: posenc.add(SPEC, X, positions=[[0] * 5] * 3), ArgumentError, r"\(3, 5\)"),
        (lambda: posenc.add(SPEC, X, positions=3), ArgumentError, r"got shape \(\)"),
        (lambda: posenc.add(SPEC, X, offset=[1, 2, 3]), ArgumentError, r"got shape \(3,\)"),
        (lambda: posenc.add(SPEC, X, offset=0.5), DTypeError, "integer positions"),
        (lambda: posenc.add(SPEC, X, offset=2**63), PositionError, "an offset from"),
        (lambda: posenc.add(SPEC, X, seq_dim=-1), ArgumentError, "The last axis holds"),
        (lambda: posenc.add(SPEC, X, seq_dim=1), ArgumentError, "from -3 to -2, got 1"),
        (lambda: posenc.add(SPEC, X, seq_dim=-4), ArgumentError, "from -3 to -2, got -4"),
        (lambda: posenc.add(GRID, X), ArgumentError, "positions: expected 2 axes"),
        (lambda: posenc.add(GRID, X, positions=np.zeros((5, 3), int)), ArgumentError, "of 2"),
        (lambda: posenc.frequencies("x"), ArgumentError, "a spec such as"),
        (lambda: posenc.shift(GRID, 3), ArgumentError, "a trailing axis of 2"),
        (lambda: posenc.shift(SPEC, 0.5), DTypeError, "integer positions"),
        (lambda: posenc.shift(SPEC, [1, 2]), ArgumentError, "one shift|a single"),
        (lambda: posenc.resolution(GRID), SpecError, "one axis"),
        (lambda: posenc.resolution(SPEC, "float8"), DTypeError, "float64 or float32"),
        (lambda: posenc.resolution(SPEC, limit=2**32), ArgumentError, "2 to 2"),
        (lambda: posenc.resolution(SPEC.replace(phase="float32")), SpecError, "exact phases"),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(ArgumentError, match="got MaskedArray"):
        posenc.add(SPEC, np.ma.masked_array(X))


@each_backend
def test_arrays_of_two_libraries_are_refused(backend: Backend) -> None:
    if backend.name == "numpy":
        assert posenc.add(SPEC, X, positions=np.arange(5)).shape == X.shape
        return
    with pytest.raises(ArgumentError, match="Convert one of them"):
        posenc.add(SPEC, X, positions=backend.asarray(np.arange(5)))

    def both(x: Any, where: Any) -> tuple[Any, Any]:
        return posenc.add(SPEC, x, positions=np.arange(5)), posenc.table(SPEC, where)

    carried, table = backend.whole(both)(backend.asarray(X), backend.asarray(np.arange(5)))
    np.testing.assert_array_equal(backend.numpy(carried)[0], backend.numpy(table))


@each_backend
def test_empty_arrays(backend: Backend) -> None:
    shapes = [(0, 8), (0, 5, 8), (3, 0, 8)]
    empty = [backend.asarray(np.zeros(shape, dtype=np.float32)) for shape in shapes]
    sums = backend.whole(lambda *arrays: [posenc.add(SPEC, x) for x in arrays])(*empty)
    assert [tuple(x.shape) for x in sums] == shapes
    nowhere = backend.asarray(np.zeros((0,), dtype=np.int64))
    assert tuple(posenc.table(SPEC, nowhere).shape) == (0, 8)
    assert posenc.table(SPEC, []).shape == (0, 8)
    assert posenc.table(SPEC, 0).shape == (0, 8)


def test_positions_of_any_shape() -> None:
    table = posenc.table(SPEC, 6)
    np.testing.assert_array_equal(posenc.table(SPEC, [[0, 1], [2, 5]]), table[[[0, 1], [2, 5]]])
    np.testing.assert_array_equal(posenc.table(SPEC, np.array(3)), table[3])
    assert posenc.table(GRID, [[[0, 1]]]).shape == (1, 1, 8)


@each_backend
def test_library_and_device_of_a_table(backend: Backend) -> None:
    xp = backend.xp()
    table = posenc.table(SPEC, 3, xp=xp)
    assert type(table) is type(posenc.table(SPEC, backend.asarray([0, 1, 2])))
    np.testing.assert_array_equal(
        backend.numpy(table), backend.numpy(posenc.table(SPEC, backend.asarray([0, 1, 2])))
    )
