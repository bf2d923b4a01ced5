"""What posenc shows of the study without it: true of the committed rows, and little."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import posenc
from posenc.detect.extend import extension
from posenc_study.claims.registered import claims
from posenc_study.claims.verdicts import judge
from posenc_study.results.records import read_csv

SOURCE = Path(posenc.__file__).parent
DATA = Path(__file__).resolve().parents[2] / "docs" / "data"
# What `posenc extend` says was contradicted -> the claim.
SAID = {
    "that it ranks rules by their loss": "extend-order",
    "that its first rule reads long texts better than every other": "extend-recommended",
}


@pytest.mark.costly
def test_what_extend_says_of_the_study_is_its_verdict() -> None:
    verdicts = {v.claim.id: v.word for v in judge(read_csv(DATA), claims())}
    start = "A registered study of small models contradicted the claims "
    assert start + " and ".join(SAID) in extension.ORDER
    assert {verdicts[claim] for claim in SAID.values()} == {"contradicted"}


def test_what_posenc_holds_of_the_study_is_little() -> None:
    files = [tomllib.loads(path.read_text("utf-8")) for path in SOURCE.glob("learn/content/*.toml")]
    quoted = [entry for file in files for entry in file.get("quoted", {}).values()]
    lessons = [entry for entry in quoted if "study" in entry]
    heads = [*SOURCE.glob("plot/data/heads.*")]
    assert len(lessons) > 12
    assert len(heads) == 2
    size = sum(path.stat().st_size for path in heads)
    assert size + len(json.dumps(lessons)) + len(extension.ORDER) <= 40_000
