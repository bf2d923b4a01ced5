"""What is known of a model: from where, what excludes what, and who stops at it."""

from __future__ import annotations

from pathlib import Path

import pytest

import posenc
from posenc._core.errors import DataError
from tests.detect.facts.folders import CONTRADICTORY


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
    with pytest.raises(DataError) as caught:
        posenc.explain(folder)
    assert str(caught.value) == f"explain: {sentence}"
