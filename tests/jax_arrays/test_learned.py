# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""Learned tables under JAX's transformations: parameters are a pytree, and nothing is clamped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp

import posenc
from posenc import Init, Learned, Lookup, Magnitude

SPEC = Learned(4, length=6, start=2, pad=1, init=Init(scale=1.0))
GRID = Learned(
    4,
    length=(3, 5),
    lookup=Lookup("factorised", axes=("row", "column")),
    magnitude=Magnitude(learned="table_scale"),
)
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), jnp.float32)


def given(spec: Any) -> dict[str, Any]:
    """First parameters as arrays of JAX."""
    return {name: jnp.asarray(value) for name, value in posenc.init(spec).items()}


@pytest.mark.costly
def test_jit_takes_the_parameters_as_a_pytree() -> None:
    params = given(GRID)
    positions = jnp.asarray([[0, 4], [2, 0], [1, 1]])
    run = jax.jit(lambda p, x: posenc.add(GRID, x, params=p, positions=positions))
    plain, where = posenc.init(GRID), np.asarray(positions)
    want = posenc.add(GRID, np.asarray(X), params=plain, positions=where)
    np.testing.assert_allclose(run(params, X), want, rtol=0, atol=1e-7)


@pytest.mark.usefixtures("nan_results")
def test_positions_outside_are_nan_under_jit() -> None:
    run = jax.jit(lambda p, where: posenc.table(SPEC, where, params=p))
    rows = run(given(SPEC), jnp.asarray([0, 5, -1, -2, 6, 2**31 - 1, -(2**31)]))
    np.testing.assert_array_equal(
        np.isnan(rows).any(axis=1), [False, False, False, True, True, True, True]
    )
    assert not np.isnan(rows[:3]).any()


def test_lengths_are_known_under_jit_and_checked() -> None:
    with pytest.raises(posenc.PositionError, match=r"usable length is 6, got position 6"):
        jax.jit(lambda p: posenc.add(SPEC, jnp.zeros((1, 7, 4)), params=p))(given(SPEC))


@pytest.mark.costly
def test_grad_reaches_the_rows_that_were_read() -> None:
    where = jnp.asarray([0, 3, 3, -1])
    loss = lambda p: posenc.table(SPEC, where, params=p).sum()  # noqa: E731
    for run in (jax.grad(loss), jax.jit(jax.grad(loss))):
        expected = np.zeros((8, 4), np.float32)
        expected[2], expected[5] = 1, 2  # padding, row 1, learns nothing
        np.testing.assert_array_equal(run(given(SPEC))["weight"], expected)


@pytest.mark.costly
def test_grad_of_a_learned_factor() -> None:
    params = given(GRID)
    where = jnp.asarray([[0, 4], [2, 0]])
    grads = jax.jit(jax.grad(lambda p: posenc.table(GRID, where, params=p).sum()))(params)
    rows, columns = (np.asarray(params[name]) for name in ("row_weight", "column_weight"))
    sums = rows[[0, 2]] + columns[[4, 0]]
    np.testing.assert_allclose(grads["scale"], sums.sum(), rtol=1e-6)
    assert grads["scale"].shape == ()


@pytest.mark.usefixtures("nan_results")
def test_a_sum_with_nan_rows_does_not_poison_gradients() -> None:
    where = jnp.asarray([0, 99])
    grad = jax.jit(jax.grad(lambda p: jnp.nan_to_num(posenc.table(SPEC, where, params=p)).sum()))(
        given(SPEC)
    )["weight"]
    expected = np.zeros((8, 4), np.float32)
    expected[2] = 1
    np.testing.assert_array_equal(grad, expected)


@pytest.mark.costly
def test_vmap_over_positions_and_tables() -> None:
    params = given(SPEC)
    where = jnp.asarray([[0, 1], [4, 5]])
    rows = jax.jit(jax.vmap(lambda p: posenc.table(SPEC, p, params=params)))(where)
    want = posenc.table(SPEC, np.asarray(where), params=posenc.init(SPEC))
    np.testing.assert_array_equal(rows, want)
    stack = np.stack([params["weight"], 2 * np.asarray(params["weight"])])
    rows = jax.jit(jax.vmap(lambda w: posenc.table(SPEC, where[0], params={"weight": w})))(stack)
    np.testing.assert_array_equal(rows, stack[:, 2:4])
