"""The sweep over transformers: it may gain classes that agree, and lose none."""

from __future__ import annotations

import json

import pytest
from tools import sweep


def test_the_page_shows_the_data() -> None:
    found = json.loads(sweep.DATA.read_text(encoding="utf-8"))
    assert sweep.PAGE.read_text(encoding="utf-8") == sweep.page(found)
    assert sum(found["counts"].values()) == len(found["rows"])


def test_every_row_that_did_not_agree_has_a_reason() -> None:
    found = json.loads(sweep.DATA.read_text(encoding="utf-8"))
    for row in found["rows"]:
        if row["state"] != "agreed":
            assert row["why"], row
        if row["state"] == "disagreed":
            assert row["name"] in sweep.FINDINGS, row


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_counts_do_not_shrink() -> None:
    pytest.importorskip("torch", reason="transformers is written in torch")
    transformers = pytest.importorskip("transformers", reason="is what is swept")
    stored = json.loads(sweep.DATA.read_text(encoding="utf-8"))
    if transformers.__version__ != stored["versions"]["transformers"]:
        pytest.skip(f"the data are of transformers {stored['versions']['transformers']}")
    found = sweep.data(sweep.sweep())
    agreed = {(row["package"], row["name"]) for row in found["rows"] if row["state"] == "agreed"}
    before = {(row["package"], row["name"]) for row in stored["rows"] if row["state"] == "agreed"}
    assert before - agreed == set()
    assert found["equal_bits"] >= stored["equal_bits"]
    assert found["counts"]["disagreed"] <= stored["counts"]["disagreed"]
