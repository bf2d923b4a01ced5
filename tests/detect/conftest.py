"""Surveys of code make fewer calls than users have them make, but where they are the subject."""

from __future__ import annotations

import pytest

from posenc.detect.subject import plan

FEWER = {"DRAWN": 6, "STRETCHES": 6, "SCATTERED": 3, "EDGES": plan.EDGES[::4]}
WHOLE = ("subject", "doctor", "locate")


@pytest.fixture(autouse=True)
def few_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds of calls are all there; `whole_surveys` is for what only many calls meet."""
    whole = "whole_surveys" in request.fixturenames or request.path.parent.name in WHOLE
    for name, value in FEWER.items() if not whole else ():
        monkeypatch.setattr(plan, name, value)


@pytest.fixture
def whole_surveys() -> None:
    """For a test of what only a whole survey meets, or says."""
