"""Small models of every kind, adopted: five types always, the others in the slow tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="transformers builds its models with it")
transformers = pytest.importorskip("transformers", reason="whose models are adopted")

from tools.models import adopt as zoo  # noqa: E402

from posenc.detect.adopt import fitting  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DATA: dict[str, Any] = json.loads(Path(zoo.DATA).read_text(encoding="utf-8"))
ROWS = {row["model_type"]: row for row in DATA["rows"]}
# Interleaved pairs and a split head; a rule with sinks; two sets of frequencies; part of a head; a
# table's rows. Three axes and a tower are the last of the others.
ALWAYS = ("deepseek_v3", "gpt_oss", "phi3", "stablelm", "xglm")
CHANGED = ("cohere", "falcon", "gemma3_text", "gptj", "llama", "minimax", "qwen2_vl")
OTHERS = sorted(
    {name for name, row in ROWS.items() if row["state"] == "held"} - {*ALWAYS, *CHANGED}
)


def check(name: str) -> None:
    if DATA["versions"]["transformers"] != transformers.__version__:
        pytest.skip(f"the rows are of transformers {DATA['versions']['transformers']}")
    row = zoo.row(name)
    assert (row.state, row.why) == ("held", "")
    # A class may name its types of layers in any order.
    assert sorted(row.replaced) == sorted(ROWS[name]["replaced"])
    assert sorted(row.left) == sorted(ROWS[name]["left"])


@pytest.mark.costly
@pytest.mark.parametrize("name", ALWAYS)
def test_a_small_model_that_is_adopted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A few tokens say whether the likeliest are the same, and the rows need no exact distance.
    monkeypatch.setattr(zoo, "NEW", 8)
    monkeypatch.setattr(fitting, "END", 512)
    check(name)


@pytest.mark.slow("detect/adopt", "torch/adopted.py")
@pytest.mark.parametrize("name", CHANGED)
def test_a_small_model_that_is_adopted_if_that_changed(name: str) -> None:
    check(name)


@pytest.mark.slow("detect/adopt", "torch/adopted.py", release=True)
@pytest.mark.parametrize("name", OTHERS)
def test_every_small_model_that_is_adopted(name: str) -> None:
    check(name)


@pytest.mark.slow("detect/adopt", release=True)
@pytest.mark.parametrize("name", sorted(n for n, r in ROWS.items() if r["state"] == "refused"))
def test_every_small_model_that_is_refused(name: str) -> None:
    assert zoo.row(name).state == "refused"


def test_how_many_are_adopted_and_hold() -> None:
    states = [row["state"] for row in ROWS.values()]
    assert states.count("held") >= 140
    assert all(row["why"] for row in ROWS.values() if row["state"] != "held")
