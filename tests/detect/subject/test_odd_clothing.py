"""Right functions in odd clothing: no false alarm, and the tools say the same of them."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import pytest

import posenc
from tests.detect.subject.odd_clothing import Dressed
from tests.detect.subject.odd_clothing_more import CLOTHING
from tests.drawing import drawn

ROWS = drawn(CLOTHING, 2, "detect/subject", by=lambda row: (row.library, type(row.spec)))
FEWEST = 28  # of those that are understood


def quietly(call: Any) -> Any:
    """Without what the function prints and warns of."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def asked(row: Dressed) -> Any:
    if row.library != "numpy":
        pytest.importorskip(row.library)
    return posenc.ask(row.target(), **row.options)


@pytest.mark.costly
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_survey_raises_no_alarm(row: Dressed) -> None:
    try:
        subject = quietly(lambda: asked(row))
    except posenc.CannotAsk:
        return  # counted below
    survey = quietly(lambda: subject.survey(row.spec, seconds=5))
    assert survey.agrees, survey


@pytest.mark.costly
def test_nearly_all_are_understood() -> None:
    refused = {}
    for row in CLOTHING:
        try:
            quietly(lambda row=row: asked(row))
        except posenc.CannotAsk as error:
            refused[row.name] = str(error)
    assert len(CLOTHING) - len(refused) >= FEWEST, refused


@pytest.mark.slow("detect/subject", "detect/infer")
@pytest.mark.parametrize("row", CLOTHING, ids=lambda row: row.name)
def test_infer_names_its_spec(row: Dressed) -> None:
    try:
        subject = quietly(lambda: asked(row))
    except posenc.CannotAsk:
        return
    found = quietly(lambda: posenc.infer_spec(subject))
    assert found.spec == row.spec, found
    assert found.matches is True, found
