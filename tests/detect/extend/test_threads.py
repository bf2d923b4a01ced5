"""Rows of public threads about engines: what the tables say of the same configs."""

from __future__ import annotations

from typing import Any

import pytest

import posenc
from posenc._core.errors import DataError
from posenc.detect.contract.sides.sides import TABLES
from posenc.detect.facts.engines import as_read
from tests.detect.extend.threads import DRAFTS, LLAMA, ROWS, Row


def stated(row: Row) -> dict[str, Any]:
    """The config of a row."""
    config = {**row.config, "max_position_embeddings": row.length}
    return config if row.scaling is None else {**config, "rope_scaling": row.scaling}


def why_unknown(row: Row) -> str:
    """Why nothing is known of what an engine makes of a config, which our reader may refuse too."""
    try:
        reading = as_read(TABLES[row.engine], stated(row))
    except DataError as error:
        return str(error)
    assert reading.config is None
    return reading.why


@pytest.mark.parametrize("row", ROWS, ids=[f"{r.engine}: {r.thread}" for r in ROWS])
def test_a_thread_and_the_table_say_the_same(row: Row) -> None:
    config = stated(row)
    if not row.known:
        assert row.says in why_unknown(row)
        return
    found = posenc.diff(config, f"engine:{row.engine}")
    assert {one.field for one in found.differences} == {*row.differs}
    assert found.compared
    assert row.says in " ".join(found.remarks)


@pytest.mark.parametrize(("thread", "engine", "words"), DRAFTS, ids=[row[0] for row in DRAFTS])
def test_a_line_says_what_becomes_of_a_draft(thread: str, engine: str, words: str) -> None:
    del thread  # the source
    lines, remarks = posenc.extend(
        {**LLAMA, "max_position_embeddings": 8192}, factor=2, rule="yarn"
    ).written()
    assert engine in lines
    assert words in " ".join(remarks)
