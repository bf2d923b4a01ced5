"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Two shared cores: a first call may compile or import, and no test of this suite is timed.
settings.register_profile(
    "posenc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("posenc"), max_examples=1000)
settings.load_profile("posenc")
