# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""The rotary verbs under JAX's transformations, with 64-bit types off."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp

import posenc
from posenc import MixedRoPE, Pairing, RoPE, XPos, scaling as s
from tests.tolerances import ABSOLUTE, assert_close

pytestmark = pytest.mark.skipif(
    jax.config.jax_enable_x64, reason="JAX_ENABLE_X64 is set; these tests are about its absence"
)

SPECS: dict[str, Any] = {
    "plain": RoPE(16, pairing="half"),
    "rich": RoPE(
        12,
        pairing=Pairing("interleaved", part="trailing", output="half"),
        scaling=s.YaRN(4, original_length=64),
    ),
    "float32": RoPE(
        16,
        pairing="half",
        phase="float32",
        scaling=s.LongRoPE((1,) * 8, (2,) * 8, original_length=64),
    ).at(65),
    "xpos": XPos(16, pairing="half"),
}
each_spec = pytest.mark.parametrize("name", SPECS)
X = np.random.default_rng(0).normal(size=(2, 3, 5, 16)).astype(np.float32)
NEAR = np.array([[0, 1, 2, -3, 500], [7, 65, 5, 0, -1]], np.int32)


def close(got: Any, want: Any, most: float = 1.0) -> None:
    assert_close(
        np.asarray(got, np.float64), np.asarray(want, np.float64), 12 * most * ABSOLUTE["float32"]
    )


# Without jit each operation is compiled by itself, of every spec the same ones.
HOW = [
    ("plain", "eager"),
    *((name, how) for name in SPECS for how in ("jit", "jit(vmap)")),
    *(
        pytest.param(
            name, "eager", marks=pytest.mark.slow("encodings/rotary", "functional/_rotate.py")
        )
        for name in SPECS
        if name != "plain"
    ),
]


@pytest.mark.parametrize(("name", "how"), HOW)
@pytest.mark.costly
def test_rotate_is_what_numpy_gives(name: str, how: str) -> None:
    spec = SPECS[name]
    verb = lambda x, p: posenc.rotate(spec, x, positions=p)  # noqa: E731
    verb = {"jit": jax.jit(verb), "jit(vmap)": jax.jit(jax.vmap(verb))}.get(how, verb)
    got = verb(jnp.asarray(X), jnp.asarray(NEAR))
    assert got.dtype == jnp.float32
    close(got, posenc.rotate(spec, X.astype(np.float64), positions=NEAR), 6)


def test_far_positions() -> None:
    far = np.array([2**31 - 1, -(2**31), 0, 2**24 + 1, -5])
    spec = SPECS["plain"]
    got = jax.jit(partial(posenc.rotate, spec))(
        jnp.asarray(X), positions=jnp.asarray(far, jnp.int32)
    )
    close(got, posenc.rotate(spec, X.astype(np.float64), positions=far), 2)
    with pytest.raises(posenc.PositionError):
        posenc.rotate(spec, jnp.asarray(X), positions=[2**31, 0, 0, 0, 0])


def test_keys_that_move_further_than_int32_holds() -> None:
    spec, x = SPECS["plain"], X.astype(np.float64)
    old, new = [-2_000_000_000] * X.shape[2], [2_000_000_000] * X.shape[2]
    close(posenc.rerotate(spec, jnp.asarray(X), old, new), posenc.rerotate(spec, x, old, new), 2)


def test_a_spec_is_a_static_argument() -> None:
    verb = jax.jit(posenc.rotate, static_argnums=0, static_argnames=("length",))
    dynamic = RoPE(16, pairing="half", scaling=s.DynamicNTK(2, original_length=4))
    got = verb(dynamic, jnp.asarray(X), length=9)
    close(got, posenc.rotate(dynamic, X, length=9), 2)


@each_spec
@pytest.mark.costly
def test_gradients_are_the_opposite_rotation(name: str) -> None:
    spec = SPECS[name]
    x = jnp.asarray(X)
    upstream = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    got = jax.jit(jax.grad(lambda x: (posenc.rotate(spec, x) * upstream).sum()))(x)
    basis = np.eye(16, dtype=np.float32).reshape(16, 1, 16)
    for t in range(5):
        matrix = posenc.rotate(spec, basis, positions=[t])[:, 0]  # rows: images of the channels
        close(got[:, :, t], upstream[:, :, t] @ matrix.T, 4)


@pytest.mark.costly
def test_learned_frequencies_learn() -> None:
    spec = MixedRoPE(16, heads=3, pairing="half")
    matrix = np.random.default_rng(0).normal(size=(3, 2, 8)).astype(np.float32)
    grid = jnp.asarray([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1]])

    def loss(matrix: Any) -> Any:
        turned = posenc.rotate(spec, jnp.asarray(X), positions=grid, params={"frequencies": matrix})
        return (turned * X[::-1]).sum()

    slope, run = np.asarray(jax.jit(jax.grad(loss))(matrix)), jax.jit(loss)
    for where in ((0, 0, 0), (2, 1, 5)):
        step = np.zeros_like(matrix)
        step[where] = 1e-2
        assert float(slope[where]) == pytest.approx(
            float(run(matrix + step) - run(matrix - step)) / 2e-2, rel=2e-2, abs=2e-3
        )


@pytest.mark.costly
def test_the_other_verbs() -> None:
    spec, x = SPECS["plain"], jnp.asarray(X)
    cached = jax.jit(partial(posenc.rotate, spec))(x, positions=jnp.asarray(NEAR))
    moved = jax.jit(partial(posenc.rerotate, spec))(
        cached, jnp.asarray(NEAR), jnp.asarray(NEAR + 9)
    )
    close(moved, posenc.rotate(spec, X.astype(np.float64), positions=NEAR + 9), 4)
    cos, sin = jax.jit(partial(posenc.cos_sin, spec))(jnp.asarray(NEAR))
    close(jax.jit(partial(posenc.apply_rotary, pairing="half"))(x, cos, sin), cached, 2)
    got = jax.jit(partial(posenc.relative_score, spec))(X[0, 0, 0], X[0, 0, 1], jnp.arange(4))
    want = posenc.relative_score(spec, X[0, 0, 0].astype(float), X[0, 0, 1].astype(float), range(4))
    close(got, want, 20)
    with pytest.raises(posenc.ArgumentError, match="inplace"):
        posenc.rotate(spec, x, inplace=True)
