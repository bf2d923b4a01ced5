"""The sweep over transformers: it may gain classes that agree, and lose none."""

from __future__ import annotations

import json

import pytest
from tools.models import sweep
from tools.pages import shelf


def test_the_page_shows_the_data() -> None:
    found = json.loads(sweep.DATA.read_text(encoding="utf-8"))
    assert shelf.stale(sweep.PAGE, sweep.page(found)) == []
    assert sum(found["counts"].values()) == len(found["rows"])


def test_every_row_that_did_not_agree_has_a_reason() -> None:
    found = json.loads(sweep.DATA.read_text(encoding="utf-8"))
    for row in found["rows"]:
        if row["state"] != "agreed":
            assert row["why"], row
        if row["state"] == "disagreed":
            assert row["name"] in sweep.FINDINGS, row


@pytest.mark.slow("presets", release=True)
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


@pytest.mark.slow("detect/explain", release=True)
@pytest.mark.filterwarnings("ignore")
def test_default_configs_survive_both_dialects() -> None:
    pytest.importorskip("transformers", reason="has the configs")
    import posenc

    read = 0
    for config in sweep.default_configs():
        plan = posenc.from_hf(config, on_error="report")
        if not any(entry.kind == "rotary" for entry in plan):
            continue
        old = posenc.to_hf(config, "hf4").config
        new = posenc.to_hf(old, "hf5").config
        for other in (old, new):
            again = posenc.from_hf(other, on_error="report")
            assert [(e.layer, e.spec, e.indices) for e in again] == [
                (e.layer, e.spec, e.indices) for e in plan
            ], config["model_type"]
        assert posenc.from_json(posenc.to_json(plan)) == plan
        read += 1
    assert read >= 350
