"""What is known of a model: from where, what excludes what, and who stops at it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc._core.errors import DataError
from posenc.cli import app
from tests.detect.checkpoints import folder_of
from tests.detect.facts.folders import CONTRADICTORY, config_of, trained

HALF = config_of()
VERBS: dict[str, Callable[[Path], Any]] = {
    "explain": posenc.explain,
    "golden": posenc.golden,
    "diff": lambda folder: posenc.diff(folder, HALF),
    "extend_context": lambda folder: posenc.extend_context(folder, factor=2),
}
# What no answer of a tool depends on stops nothing there, and is told.
PRINTS = {("extend_context", name) for name in ("pairing", "rows", "buckets")}


@pytest.mark.parametrize("case", CONTRADICTORY)
def test_a_contradictory_folder_stops_every_tool_with_one_sentence(
    tmp_path: Path, case: str
) -> None:
    name, words, make = CONTRADICTORY[case]
    make(folder := tmp_path / "m")
    known = posenc.facts(folder)
    assert {one.one.name for one in known.contradictions} == {name}
    sentence = known.contradictions[0].text
    assert all(word in sentence for word in words), sentence
    rotary = name in ("pairing", "frequencies")
    for verb, ask in VERBS.items():
        if verb == "extend_context" and not rotary:
            continue  # such a model has no rotation to extend
        if (verb, name) in PRINTS:
            assert sentence in ask(folder).notes
            continue
        with pytest.raises(DataError) as caught:
            ask(folder)
        assert str(caught.value).endswith(f": {sentence}")
    shown = CliRunner().invoke(app, ["explain", str(folder)])
    assert (shown.exit_code, sentence in shown.output) == (1, True)


@pytest.mark.costly
def test_a_converted_folder_is_read_as_converted_by_every_verb(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", trained(), HALF)
    posenc.convert(source, new := tmp_path / "b", pairing="interleaved")
    pairing = posenc.explain(new)["attention"].spec.channels.order
    assert pairing == posenc.detect_pairing(new).pairing == "interleaved"
    assert posenc.golden(new).parts[0].spec.channels.order == "interleaved"
    assert [d.field for d in posenc.diff(source, new).differences] == ["pairing.order"]
    assert not posenc.diff(source, HALF).differences
    assert posenc.extend_context(new, factor=2).layers[0].option("none").spec.channels.order == (
        "interleaved"
    )
    fact = posenc.facts(new).of("pairing", "attention")[0]
    assert (fact.value, fact.source) == ("interleaved", "stamp")
    told = json.loads(posenc.facts(new).to_json())
    assert [f["source"] for f in told["facts"] if f["name"] == "pairing"] == [
        "stamp", "row", "weights",
    ]  # fmt: skip
    stated = posenc.facts(new, pairing="half")
    assert stated.reading["attention"].spec.channels.order == "half"
    assert stated.contradictions == ()
