"""Modules for Flax NNX and Equinox, held under jit, grad and sharding: python jax_modules.py."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # four CPU devices

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

import posenc

# --- Flax NNX ---


class Rotary(nnx.Module):
    def __init__(self, spec):
        self.spec = spec  # frozen and hashable, so a static part of the module

    def __call__(self, q, k, offset=0):
        return tuple(posenc.rotate(self.spec, x, offset=offset) for x in (q, k))


class Bias(nnx.Module):
    def __init__(self, spec, rngs):
        seed = int(jax.random.randint(rngs.params(), (), 0, 2**31 - 1))
        self.spec = spec
        self.params = nnx.data(
            {name: nnx.Param(jnp.asarray(x)) for name, x in posenc.init(spec, seed).items()}
        )

    def __call__(self, q_positions, k_positions):
        params = {name: param[...] for name, param in self.params.items()}
        return posenc.bias(self.spec, q_positions, k_positions, params=params)


# --- Equinox ---


class EqxRotary(eqx.Module):
    spec: posenc.RoPE = eqx.field(static=True)

    def __call__(self, q, k, offset=0):
        return tuple(posenc.rotate(self.spec, x, offset=offset) for x in (q, k))


class EqxBias(eqx.Module):
    spec: posenc.T5 = eqx.field(static=True)
    params: dict[str, jax.Array]

    def __init__(self, spec, seed):
        self.spec = spec
        self.params = {name: jnp.asarray(x) for name, x in posenc.init(spec, seed).items()}

    def __call__(self, q_positions, k_positions):
        return posenc.bias(self.spec, q_positions, k_positions, params=self.params)


# --- what holds ---


def loss(modules, q, k):
    rotary, bias = modules
    q, k = rotary(q, k, offset=7)
    at = jnp.arange(q.shape[-2])
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) + bias(at, at)[None]
    return (jax.nn.softmax(scores) ** 2).mean()


def close(a, b):
    return all(
        map(lambda x, y: jnp.allclose(x, y, atol=1e-6), jax.tree.leaves(a), jax.tree.leaves(b))
    )


rope, t5 = posenc.RoPE(16, pairing="half"), posenc.T5(4, direction="causal")
q, k = jax.random.normal(jax.random.key(0), (2, 8, 4, 12, 16))  # batch, heads, seq, dim
devices = jax.make_mesh((4,), ("batch",))
place = NamedSharding(devices, PartitionSpec("batch"))
rows = [jax.device_put(x, place) for x in (q, k)]

flax = (Rotary(rope), Bias(t5, nnx.Rngs(0)))
equinox = (EqxRotary(rope), EqxBias(t5, seed=0))
for name, modules, jit, grad in (
    ("Flax NNX", nnx.List(flax), nnx.jit, nnx.grad),
    ("Equinox", equinox, eqx.filter_jit, eqx.filter_grad),
):
    value, slope = loss(modules, q, k), jit(grad(loss))(modules, q, k)
    learned = any(bool(jnp.any(x != 0)) for x in jax.tree.leaves(slope))
    whole = close(jit(loss)(modules, *rows), value)
    sharded = jit(modules[0])(*rows)
    print(name)
    print("  jit gives what eager mode gives:", bool(close(jit(loss)(modules, q, k), value)))
    print("  the bias learns, under jit:", learned)
    print("  four devices, a part of the batch each:", bool(whole))
    print("  rotated queries stay where they are:", sharded[0].sharding.is_equivalent_to(place, 4))
