"""Settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# JAX as strictly as people set it, in all tests; it reads this when it is imported.
for name, value in (
    ("JAX_NUMPY_RANK_PROMOTION", "raise"),
    ("JAX_NUMPY_DTYPE_PROMOTION", "strict"),
    ("JAX_DEBUG_NANS", "1"),
):
    os.environ.setdefault(name, value)

# Two shared cores: a first call may compile or import, and no test of this suite is timed.
settings.register_profile(
    "posenc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("posenc"), max_examples=1000)
settings.load_profile("posenc")


@pytest.fixture
def nan_results() -> Iterator[None]:
    """For tests in which NaN under JAX is the right result, which `jax_debug_nans` would refuse."""
    try:
        import jax
    except ImportError:
        yield
        return
    with jax.debug_nans(False):
        yield


@pytest.fixture(autouse=True)
def tracers_stay_inside(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the files about JAX a tracer that outlives its trace is an error.

    The check traces anew what a cache would have kept, so the other files go without.
    """
    if "jax" not in request.path.stem:
        yield
        return
    jax = pytest.importorskip("jax", reason="jax is not installed")
    with jax.checking_leaks():
        yield
