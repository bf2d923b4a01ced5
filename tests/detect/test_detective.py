"""What was measured of the detective: pages that show the data, and rates that may only rise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tools.measure import detective

KNOWN = {"found", "other", "refused", "not called", "no function", "no plan", "not built"}


def stored(name: str) -> list[dict[str, Any]]:
    return json.loads((detective.DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", detective.PAGES)
def test_the_pages_show_the_data(name: str) -> None:
    page, text = detective.PAGES[name][0], detective.refreshed(name, stored(name))
    assert not detective.shelf.stale(page, text, long=detective.LONG[name])


def test_locate_was_right_wherever_rounding_is_all_the_noise() -> None:
    rows = stored("locate")
    assert sum(row["of"] for row in rows) >= 9_900
    for row in rows:
        if row["case"] != "noise" or row["options"][1] <= 0.2:
            assert row["right"] == row["of"], row


def test_infer_names_nearly_every_rotary_class() -> None:
    rows = stored("infer")
    states = [row["state"] for row in rows]
    assert set(states) <= KNOWN
    assert states.count("found") >= 0.93 * len(rows)
    for row in rows:
        assert row["state"] == "found" or row["why"], row
        if row.get("probes"):
            assert row["probes"] <= 10, row


@pytest.mark.slow("detect/locate", release=True)
def test_locate_on_a_tenth_of_the_cases() -> None:
    for row in detective.locate(0.1):
        if row["case"] != "noise":
            assert row["right"] == row["of"], row


@pytest.mark.slow("detect/infer", release=True)
@pytest.mark.filterwarnings("ignore")
def test_infer_on_a_tenth_of_the_packages() -> None:
    pytest.importorskip("torch", reason="transformers is written in torch")
    pytest.importorskip("transformers", reason="is what is swept")
    before = {(row["package"], row["name"]): row["state"] for row in stored("infer")}
    for row in detective.infer(0.1):
        if before.get((row["package"], row["name"])) == "found":
            assert row["state"] == "found", row
