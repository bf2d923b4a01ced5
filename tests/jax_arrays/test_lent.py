# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""Eager arrays of JAX by the compiled kernels: bits, devices, and what stays with the reference."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")
if importlib.util.find_spec("posenc.kernels._native") is None:
    pytest.skip("the compiled kernels were not built (make build)", allow_module_level=True)

import jax.numpy as jnp

import posenc

ROPE, ALIBI, T5 = posenc.RoPE(8, pairing="half"), posenc.ALiBi(4), posenc.T5(4)
X = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype("float32")
HERE = np.array([[1, 2, 3, 4, 5], [100, 7, 102, -1, 2]], np.int32)
WEIGHT = posenc.init(T5)
# Each gets an array of numbers, one of positions, and what one library makes of others.
VERBS: dict[str, Callable[[Any, Any, Callable[[Any], Any]], Any]] = {
    "rotate": lambda x, p, _: posenc.rotate(ROPE, x, positions=p, kernel="cpu"),
    "from an offset": lambda x, _, __: posenc.rotate(ROPE, x, offset=3, kernel="cpu"),
    "packed": lambda x, p, _: posenc.rotate(
        ROPE, x[0, 0], cu_seqlens=p[0, [0, 4]] - 1 + p[0, [0, 0]] * np.int32([0, 1]), kernel="cpu"
    ),
    "rerotate": lambda x, p, _: posenc.rerotate(ROPE, x, p, p + 1000),
    "to another base": lambda x, p, _: posenc.rerotate(ROPE, x, p, p, ROPE.replace(base=500.0)),
    "add": lambda x, p, _: posenc.add(posenc.Sinusoidal(8), x, positions=p, kernel="cpu"),
    "table": lambda _, p, __: posenc.table(posenc.Sinusoidal(8), p, kernel="cpu"),
    "cos_sin": lambda _, p, __: posenc.cos_sin(ROPE, p, kernel="cpu")[0],
    "ALiBi": lambda _, p, __: posenc.bias(ALIBI, p[0], p[1], kernel="cpu"),
    "T5": lambda _, p, own: posenc.bias(
        T5, p[0], p[1], params={"weight": own(WEIGHT["weight"])}, kernel="cpu"
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_bits_are_those_of_numpy(verb: Callable[..., Any], dtype: str) -> None:
    x = jnp.asarray(X, dtype)
    got = verb(x, jnp.asarray(HERE), jnp.asarray)
    want = verb(np.asarray(x), HERE, lambda value: value)
    assert isinstance(got, jax.Array)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert np.asarray(got).tobytes() == want.tobytes()


def test_a_result_that_jax_takes_over_stays_what_it_is() -> None:
    x = jnp.asarray(np.random.default_rng(1).standard_normal((4096, 8)), "float32")
    results = [posenc.rotate(ROPE, x, offset=n, kernel="cpu") for n in range(4)]
    for n, got in enumerate(results):
        want = posenc.rotate(ROPE, np.asarray(x), offset=n)
        assert np.array_equal(np.asarray(got), want)


def test_results_are_as_committed_as_inputs() -> None:
    free, bound = jnp.asarray(X), jax.device_put(X, jax.devices("cpu")[0])
    for x in (free, bound):
        got = posenc.rotate(ROPE, x, kernel="cpu")
        assert (got.committed, got.sharding) == (x.committed, x.sharding)


def test_explicit_transfers_are_all_it_needs() -> None:
    x = jnp.asarray(X)
    with jax.transfer_guard("disallow"):
        posenc.rotate(ROPE, x, offset=3, kernel="cpu")


FOLLOWED: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jit": lambda f: jax.jit(f)(X),
    "vmap": lambda f: jax.vmap(f)(X),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(jnp.asarray(X)),
}


@pytest.mark.parametrize("follow", FOLLOWED.values(), ids=FOLLOWED)
def test_what_jax_follows_is_refused(follow: Callable[..., Any]) -> None:
    with pytest.raises(posenc.ArgumentError, match="an array that JAX traces"):
        follow(functools.partial(posenc.rotate, ROPE, kernel="cpu"))


def test_traced_positions_are_refused() -> None:
    x = jnp.asarray(X)
    with pytest.raises(posenc.ArgumentError, match="an array that JAX traces"):
        jax.jit(lambda p: posenc.rotate(ROPE, x, positions=p, kernel="cpu"))(HERE)
    with pytest.raises(posenc.ArgumentError, match="that JAX traces"):
        jax.jit(lambda p: posenc.bias(ALIBI, jnp.asarray(HERE[0]), p, kernel="cpu"))(HERE[1])


def test_those_who_look_for_nan_are_told_by_jax() -> None:
    with jax.debug_nans(False):
        x = jnp.asarray(X).at[0, 0, 0, 0].set(jnp.nan)
        assert bool(jnp.isnan(posenc.rotate(ROPE, x, kernel="cpu")).any())
    with jax.debug_nans(True):
        with pytest.raises(posenc.ArgumentError, match="jax_debug_nans"):
            posenc.rotate(ROPE, x, kernel="cpu")
        with pytest.raises(FloatingPointError):
            posenc.rotate(ROPE, x)
