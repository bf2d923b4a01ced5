"""Hidden faults, by somebody who did not write the sampler: met, or not claimed to be absent."""

from __future__ import annotations

import re
from typing import Any

import pytest

import posenc
from tests.detect.subject.faulty.others import FAULTS
from tests.detect.subject.faulty.rotations import Fault
from tests.detect.subject.test_odd_clothing import quietly
from tests.drawing import drawn

MET = [row for row in FAULTS if row.met]
# Drawn far away, or too narrow to be met but by chance.
BY_CHANCE = [row for row in FAULTS if not row.met]


def surveyed(row: Fault) -> Any:
    options: dict[str, Any] = {} if row.kind is None else {"kind": row.kind}
    if row.kind == "bias":
        options["heads"] = row.spec.heads
    subject = quietly(lambda: posenc.ask(row.target(), **options))
    return quietly(lambda: subject.survey(row.spec))


@pytest.mark.costly
@pytest.mark.parametrize(
    "row", drawn(MET, 4, "detect/subject", by=lambda row: type(row.spec)), ids=lambda row: row.name
)
def test_a_survey_meets_it(row: Fault) -> None:
    pytest.importorskip("torch")
    survey = surveyed(row)
    assert not survey.agrees
    assert "smallest call: " in str(survey)
    assert re.search(row.says, str(survey)), survey


@pytest.mark.costly
@pytest.mark.parametrize(
    "row",
    drawn([row for row in FAULTS if row.names], 2, "detect/subject", "detect/infer"),
    ids=lambda row: row.name,
)
def test_infer_names_the_number_that_is_off(row: Fault) -> None:
    found = quietly(lambda: posenc.infer_spec(row.target(), dim=64, kind=row.kind))
    assert found.matches is not True
    assert re.search(row.names, str(found)), found


@pytest.mark.slow("detect/subject")
@pytest.mark.parametrize("row", BY_CHANCE, ids=lambda row: row.name)
def test_what_is_not_met_is_not_claimed(row: Fault) -> None:
    survey = surveyed(row)
    assert survey.reach.differs is not None or survey.agrees
    if survey.agrees and row.name == "777 tokens":
        assert 777 not in survey.reach.lengths
