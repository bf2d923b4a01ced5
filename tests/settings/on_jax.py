"""The settings of JAX, each a function of a subject that raises where a result is not right.

They run in a process of their own: eight virtual devices and 64 bits are chosen when JAX starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import NamedSharding, PartitionSpec

from tests.settings.subjects import Subject
from tests.tolerances import SETTINGS as BOUNDS, assert_close

LENGTH = 6
LENGTHS = (5, 9, 12)
SETTINGS: dict[str, Callable[[Subject], None]] = {}


def setting(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
    """Enter a setting under the name of its function."""
    SETTINGS[check.__name__] = check
    return check


def given(subject: Subject, length: int = LENGTH, dtype: str = "float32") -> tuple[Any, Any]:
    """Inputs in a dtype, parameters as a model holds them, and positions."""
    half = dtype in ("float16", "bfloat16")
    floats = {
        name: jnp.asarray(value, "float32" if half and "." in name else dtype)
        for name, value in subject.floats(length).items()
    }
    where = subject.where(length)
    wide = jax.config.jax_enable_x64
    return floats, jnp.asarray(where if wide else where.astype(where.dtype.kind + "4"))


def close(got: Any, exact: np.ndarray, bound: float, what: str) -> None:
    """Whole arrays, what is masked too."""
    finite, result = np.isfinite(exact), np.asarray(got, dtype="float64")
    np.testing.assert_array_equal(result[~finite], exact[~finite])
    result, exact = (np.where(finite, a, 0) for a in (result, exact))
    assert_close(result, exact, bound * (1 + np.abs(exact)), what)


def compare(subject: Subject, got: Any, floats: Any, where: Any) -> None:
    """A whole result beside the reference, which takes the same rounded inputs."""
    assert got.dtype == floats["x"].dtype
    exact = subject.exact({n: np.asarray(v) for n, v in floats.items()}, np.asarray(where))
    close(got, exact, BOUNDS[str(got.dtype)], subject.name)


def whole(subject: Subject) -> Callable[[Any, Any], Any]:
    """Compiled as one, which takes a tenth of what the operations take one by one."""
    return jax.jit(subject.__call__)


def plain(subject: Subject, dtype: str, length: int = LENGTH) -> None:
    floats, where = given(subject, length, dtype)
    compare(subject, whole(subject)(floats, where), floats, where)


@setting
def float32(subject: Subject) -> None:
    """Operation by operation."""
    floats, where = given(subject)
    compare(subject, subject(floats, where), floats, where)


@setting
def float16(subject: Subject) -> None:
    plain(subject, "float16")


@setting
def bfloat16(subject: Subject) -> None:
    plain(subject, "bfloat16")


@setting
def empty(subject: Subject) -> None:
    floats, where = given(subject, 0)
    compare(subject, subject(floats, where), floats, where)


@setting
def one_token(subject: Subject) -> None:
    plain(subject, "float32", 1)


@setting
def strict_ranks(subject: Subject) -> None:
    """No rank and no dtype is raised silently."""
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        plain(subject, "float32")


@setting
def jit(subject: Subject) -> None:
    run = whole(subject)
    for length in LENGTHS[:2]:
        floats, where = given(subject, length)
        compare(subject, run(floats, where), floats, where)


@setting
def vmap(subject: Subject) -> None:
    """Over two of everything, positions too."""
    floats, where = given(subject)
    two = {n: np.stack([v, np.asarray(v) + np.float32(0.03125)]) for n, v in floats.items()}
    both = np.stack([where, subject.where(LENGTH + 1)[1:].astype(where.dtype)])
    got = np.asarray(jax.jit(jax.vmap(subject.__call__))(two, both))
    for i in range(2):
        compare(subject, got[i], {n: v[i] for n, v in two.items()}, both[i])


@setting
def exported(subject: Subject) -> None:
    """With a length that the program leaves open."""
    (n,) = export.symbolic_shape("n")
    floats, where = given(subject, 5)

    def opened(name: str, value: Any) -> Any:
        shape = list(value.shape)
        if "." not in name:
            shape[-2] = n
            if subject.spec.kind == "bias":
                shape[-1] = n
        return jax.ShapeDtypeStruct(shape, value.dtype)

    shapes = {name: opened(name, value) for name, value in floats.items()}
    places = jax.ShapeDtypeStruct((n, *where.shape[1:]), where.dtype)
    program = export.export(whole(subject))(shapes, places)
    program = export.deserialize(program.serialize())
    for length in LENGTHS:
        floats, where = given(subject, length)
        compare(subject, program.call(floats, where), floats, where)


def placed(subject: Subject, floats: Any, mesh: Any, heads: bool) -> Any:
    """Inputs divided by batch, or inputs and parameters by heads."""
    by_head = getattr(subject.spec, "by_head", {})
    divided = {}
    for name, value in floats.items():
        axes: list[str | None] = [None] * value.ndim
        if "." not in name and value.ndim > 2:
            axes[1 if heads else 0] = "devices"
        axis = by_head.get(name.removeprefix("params."))
        if "." in name and heads and axis is not None:
            axes[axis] = "devices"
        axes = [a if d % mesh.size == 0 else None for a, d in zip(axes, value.shape, strict=True)]
        divided[name] = jax.device_put(value, NamedSharding(mesh, PartitionSpec(*axes)))
    return divided


@setting
def explicit_mesh(subject: Subject) -> None:
    """Inputs divided by batch, then inputs and parameters by heads; traced and at once."""
    floats, where = given(subject)
    for heads, call in (
        (False, whole(subject)),
        (True, subject.__call__),
        (True, whole(subject)),
    ):
        mesh = jax.make_mesh(
            (4 if heads else 2,), ("devices",), axis_types=(jax.sharding.AxisType.Explicit,)
        )
        with jax.set_mesh(mesh):
            got = call(placed(subject, floats, mesh, heads), where)
        compare(subject, got, floats, where)


def float_total(subject: Subject, where: Any) -> Callable[[Any], Any]:
    def loss(floats: Any) -> Any:
        got = subject(floats, where)
        return jnp.sin(jnp.where(jnp.isfinite(got), got, 0)).sum()

    return loss


@setting
def grad(subject: Subject) -> None:
    """Beside torch's in float64, whole."""
    from tests.settings import on_torch

    floats, where = given(subject)
    got = jax.jit(jax.grad(float_total(subject, where)))(floats)
    wide, there = on_torch.given(subject, dtype=on_torch.torch.float64)
    want = on_torch.gradient_of(subject, there)(wide)
    for name, value in got.items():
        exact = want[name].numpy()
        scale = 1 + np.abs(exact).max(initial=0)
        close(np.asarray(value) / scale, exact / scale, 10 * BOUNDS["float32"], name)


@setting
def x64(subject: Subject) -> None:
    """64 bits on: float64, and float32 beside them; traced too."""
    with jax.enable_x64(True):
        for dtype in ("float64", "float32"):
            floats, where = given(subject, dtype=dtype)
            compare(subject, whole(subject)(floats, where), floats, where)
            if dtype == "float64":
                compare(subject, subject(floats, where), floats, where)
