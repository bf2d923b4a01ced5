"""`diff` names the field that differs, says how far it looked, and is silent of what is alike."""

from __future__ import annotations

from typing import Any

import pytest

import posenc
from tests.detect.contract.bugs import BUGS, TABLES, Bug


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_named_by_its_field(name: str) -> None:
    bug: Bug = BUGS[name]
    found = posenc.diff(bug.config, bug.engine())
    assert found.verdict == "differs", found.lines()
    first = found.differences[0]
    assert (first.field, bug.where in first.where) == (bug.field, True), found.lines()
    assert found.exit_code == 1
    # The other way round it is the same difference.
    back = posenc.diff(bug.engine(), bug.config).differences[0]
    assert (back.field, back.a, back.b) == (first.field, first.b, first.a)


@pytest.mark.parametrize("name", TABLES)
def test_a_bug_of_a_table_is_named_by_its_field(name: str) -> None:
    _, kind, engine, field = TABLES[name]
    spec: Any = getattr(posenc, kind)(64)
    assert posenc.diff(spec, engine()).differences[0].field == field
