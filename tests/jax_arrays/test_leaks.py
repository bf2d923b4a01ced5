# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""No tracer outlives its trace: what posenc keeps between calls is made of no traced value."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp

import posenc
from posenc._core.spec.checks import small
from posenc._names import SPECS
from posenc.registry import lookup
from tests.settings.subjects import Subject

LENGTH = 6
MASK = np.ones((2, 5), np.int32)
ENDS = np.array([0, 2, 5], np.int32)
BUILDERS: tuple[tuple[Callable[[Any], Any], np.ndarray], ...] = (
    (lambda first: posenc.positions.offset(3, first), ENDS),
    (lambda mask: posenc.positions.from_mask(mask, pad=-1), MASK),
    (lambda mask: posenc.positions.padding_mask(mask, queries=2), MASK),
    (lambda ends: posenc.positions.packed(ends, total=7), ENDS),
    (lambda ends: posenc.positions.packed_mask(ends, 7), ENDS),
    (lambda ends: posenc.positions.segments(ends, 7), ENDS),
    (posenc.positions.from_grid_mask, MASK[None]),
    (posenc.positions.boxes, np.array([[1, 2, 3, 4]], np.float32)),
)


@contextmanager
def no_leaks() -> Iterator[None]:
    """Begin as a new process does, without what earlier tests computed; end with no new tracer."""
    for name, module in list(sys.modules.items()):
        if name.startswith("posenc."):
            for value in list(vars(module).values()):
                if str(getattr(value, "__module__", "")).startswith("posenc."):
                    getattr(value, "cache_clear", lambda: None)()
    before = {id(tracer) for tracer in tracers()}
    yield
    assert [str(tracer) for tracer in tracers() if id(tracer) not in before] == []


def tracers() -> list[Any]:
    """All that something still refers to."""
    gc.collect()
    return [value for value in gc.get_objects() if issubclass(type(value), jax.core.Tracer)]


def others(subject: Subject) -> Iterator[Callable[[Any, Any], Any]]:
    """The other verbs that take arrays: functions of inputs and parameters, and of positions."""
    spec = subject.spec

    def params(floats: Any) -> Any:
        own = {name: value for name, value in floats.items() if name.startswith("params.")}
        return {name.removeprefix("params."): value for name, value in own.items()} or None

    if spec.kind == "table":
        yield lambda f, p: posenc.table(spec, p, params=params(f))
    elif spec.kind == "rotary":
        yield lambda f, p: posenc.cos_sin(spec, p, params=params(f))
        yield lambda f, p: posenc.rerotate(spec, f["x"], p, p[::-1])
        yield lambda f, p: posenc.relative_score(spec, *f["x"][0, 0, :2], p)
    elif spec.kind == "relative":
        yield lambda f, p: posenc.relative_values(spec, f["x"] @ f["k"].mT, p, params=params(f))


def total(call: Callable[[Any, Any], Any], floats: Any, where: Any) -> Any:
    """A number that every entry of the results is part of."""
    return sum(jnp.where(jnp.isfinite(x), x, 0).sum() for x in jax.tree.leaves(call(floats, where)))


def shapes(values: Any, *lead: int) -> Any:
    """What a trace needs of arrays, with more axes in front."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*lead, *x.shape), x.dtype), values)


def twice(call: Callable[..., Any], *values: Any) -> None:
    """Trace as jit does; the second would trip over a tracer of the first."""
    for _ in range(2):
        jax.make_jaxpr(lambda *traced: call(*traced))(*shapes(values))


@pytest.mark.costly
def test_no_encoding_keeps_a_tracer() -> None:
    failed, specs = [], [small(lookup(name)) for name in SPECS]
    kinds = set()
    with no_leaks():
        for spec in specs:
            subject = Subject(type(spec).__name__, spec)
            floats, where = subject.floats(LENGTH), subject.where(LENGTH)
            where = where.astype(where.dtype.kind + "4")
            try:
                twice(subject, floats, where)
                if spec.kind not in kinds:
                    slopes = jax.vmap(jax.grad(lambda f, p, call=subject: total(call, f, p)))
                    jax.make_jaxpr(slopes)(*shapes((floats, where), 2))
                kinds.add(spec.kind)
                for verb in others(subject):
                    try:
                        twice(verb, floats, where)
                    except posenc.PosencError as error:  # a verb that this encoding does not have
                        with pytest.raises(type(error)):
                            verb(floats, where)
            except Exception as error:  # noqa: BLE001 - all that fail are told together
                failed.append(f"{subject.name}: {type(error).__name__}: {error}"[:300])
        assert failed == []


@pytest.mark.costly
def test_no_builder_of_positions_keeps_a_tracer() -> None:
    with no_leaks():
        for build, given in BUILDERS:
            twice(build, given)
