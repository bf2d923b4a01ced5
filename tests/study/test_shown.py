"""What posenc shows of the study without it: true of the committed rows, and little."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tools.measure import trained_losses

import posenc
from posenc.detect.extend import extension
from posenc.plot import trained
from posenc_study.claims.registered import claims
from posenc_study.claims.verdicts import judge
from posenc_study.results.records import read_csv

SOURCE = Path(posenc.__file__).parent
DATA = Path(__file__).resolve().parents[2] / "docs" / "data"
# What `posenc extend` says was contradicted -> the claim.
SAID = {
    "that the order ranks rules by their loss": "extend-order",
    "that its first rule reads long texts better than every other": "extend-recommended",
}


@pytest.mark.costly
def test_what_extend_says_of_the_study_is_its_verdict() -> None:
    verdicts = {v.claim.id: v.word for v in judge(read_csv(DATA), claims())}
    start = "A registered study of small models contradicted two claims: "
    assert start + ", and ".join(SAID) in extension.ORDER
    assert {verdicts[claim] for claim in SAID.values()} == {"contradicted"}


def test_what_posenc_holds_of_the_study_is_little() -> None:
    files = [tomllib.loads(path.read_text("utf-8")) for path in SOURCE.glob("learn/content/*.toml")]
    quoted = [entry for file in files for entry in file.get("quoted", {}).values()]
    lessons = [entry for entry in quoted if "study" in entry]
    data = [path for path in SOURCE.glob("plot/data/*") if path.suffix in (".json", ".npz")]
    assert len(lessons) > 12
    assert len(data) == 4
    assert sum(path.stat().st_size for path in data) <= 44_000
    assert len(json.dumps(lessons)) + len(extension.ORDER) <= 7_000


def test_the_losses_that_posenc_shows_are_those_of_the_committed_rows() -> None:
    text = trained_losses.written(trained_losses.losses(read_csv(DATA)))
    assert text == trained.LOSSES.read_text(encoding="utf-8")
    losses = trained.trained_losses()
    assert (losses.trained, losses.length, losses.dim) == (64, 512, 32)
    for curve in losses.curves.values():
        assert curve.seeds >= 2
        assert len(curve.mean) == 16
        assert ((curve.least <= curve.mean) & (curve.mean <= curve.largest)).all()
    # What the view is about: all learn, sinusoids and unchanged RoPE fail, YaRN and ALiBi do not.
    ends = {name: (curve.mean[1], curve.mean[-1]) for name, curve in losses.curves.items()}
    assert all(start < 1.9 for name, (start, _) in ends.items() if name != "linear")
    assert {name for name, (_, end) in ends.items() if end > 3} >= {"none", "sinusoidal", "learned"}
    assert max(ends["yarn"][1], ends["alibi"][1]) < 2.1
