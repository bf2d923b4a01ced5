# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""Biases and relative encodings under JAX: jit, gradients, and what has no value yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

import posenc
from tests.cases_scores import BIASES, RELATIVES, RelativeCase, ScoreCase
from tests.drawing import drawn, kind
from tests.tolerances import assert_close


def rows(cases: Any) -> Any:
    """A row of every other encoding, as JAX compiles each; NumPy meets all."""
    kinds = list(dict.fromkeys(map(kind, cases)))
    found = drawn(cases, 1, by=lambda case: kinds.index(kind(case)) // 2)
    return pytest.mark.parametrize("case", found, ids=lambda case: case.name)


@rows(BIASES)
def test_bias_under_jit(case: ScoreCase) -> None:
    q, k = (jnp.array(side, dtype=jnp.int32) for side in (case.queries, case.keys))
    params = {name: jnp.asarray(value) for name, value in case.params.items()} or None
    verb = jax.jit(lambda q, k, params: posenc.bias(case.spec, q, k, params=params))
    exact = posenc.bias(case.spec, case.queries, case.keys, params=dict(case.params) or None)
    got = np.asarray(verb(q, k, params))
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    got, exact = (np.where(finite, x, 0) for x in (got, exact))
    assert_close(got, exact, 3e-6 * (1 + np.abs(exact)))


@rows(RELATIVES)
def test_relative_under_jit(case: RelativeCase) -> None:
    q, k = case.content()
    m, n = (jnp.array(side, dtype=jnp.int32) for side in (case.queries, case.keys))
    params = {name: jnp.asarray(value) for name, value in case.params.items()}

    def verb(q: Any, k: Any, m: Any, n: Any, params: Any) -> Any:
        return posenc.relative(case.spec, q, k, m, n, params=params)

    got = np.asarray(jax.jit(verb)(jnp.asarray(q), jnp.asarray(k), m, n, params))
    exact = posenc.relative(case.spec, q, k, case.queries, case.keys, params=case.params)
    assert_close(got, exact, 1e-5 * (1 + np.abs(exact)))


@pytest.mark.parametrize("name", ["t5", "kerple-log", "kerple-power", "fire", "alibi-learned"])
@pytest.mark.costly
def test_gradients_of_learned_biases(name: str) -> None:
    case = next(case for case in BIASES if case.name == name)
    q, k = np.array([0, 7]), np.array([0, 2, 30])
    params = {key: jnp.asarray(value) for key, value in case.params.items()}

    def total(params: Any) -> Any:
        return jnp.sum(posenc.bias(case.spec, jnp.asarray(q), jnp.asarray(k), params=params))

    found = jax.jit(jax.grad(total))(params)
    for key, value in case.params.items():
        flat = np.asarray(found[key], dtype=np.float64).ravel()
        assert np.isfinite(flat).all()
        for place in range(min(flat.size, 4)):
            sides = []
            for step in (-1e-3, 1e-3):
                moved = value.astype(np.float64).copy()
                moved.flat[place] += step
                wide = {**case.params, key: moved}
                sides.append(posenc.bias(case.spec, q, k, params=wide, dtype="float64").sum())
            slope = (sides[1] - sides[0]) / 2e-3
            assert flat[place] == pytest.approx(slope, rel=2e-3, abs=2e-3)
