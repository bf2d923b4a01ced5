"""What is known of a model: from where, what excludes what, and who stops at it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

import posenc
import posenc.torch
from posenc._core.errors import DataError
from posenc.cli import app
from posenc.detect.facts import ASKED, Fact
from posenc.detect.facts.fact import Name
from posenc.detect.facts.plan import stamped
from posenc.explore.state.catalogue import read_model
from tests.detect.checkpoints import folder_of
from tests.detect.facts.folders import (
    CONTRADICTORY,
    HEADS,
    NINE,
    buffers,
    config_of,
    ladder,
    trained,
    turned,
)
from tests.drawing import drawn

HALF = config_of()


def loaded(folder: Path) -> Any:
    """A model in memory with the tensors and the config of a folder."""
    torch = pytest.importorskip("torch")
    config = json.loads((folder / "config.json").read_text())
    model = torch.nn.Module()
    model.config = SimpleNamespace(to_dict=lambda: config, model_type=config["model_type"])
    for file in sorted(folder.glob("*.safetensors")):
        for name, values in load_file(file).items():
            module, (*path, last) = model, name.split(".")
            for part in path:
                if part not in dict(module.named_children()):
                    module.add_module(part, torch.nn.Module())
                module = getattr(module, part)
            module.register_buffer(last, torch.tensor(values))
    return model


VERBS: dict[str, Callable[[Path], Any]] = {
    "explain": posenc.explain,
    "golden": posenc.golden,
    "diff": lambda folder: posenc.diff(folder, HALF),
    "extend": lambda folder: posenc.extend(folder, factor=2),
    "convert": lambda folder: posenc.convert(folder, pairing="interleaved"),
    "adopt": lambda folder: posenc.torch.adopt(loaded(folder)),
}
ALL: tuple[Name, ...] = ASKED
DEPENDS: dict[str, tuple[Name, ...]] = {
    "explain": ALL, "golden": ALL, "diff": ALL,
    "extend": ("spec", "frequencies", "length", "window", "heads"),
    "convert": ("pairing", "heads", "layers"), "adopt": ALL,
}  # fmt: skip


def contradicted(case: str, folder: Path) -> tuple[str, posenc.Facts]:
    """The sentence of a folder that contradicts itself in one fact alone."""
    name, words, make = CONTRADICTORY[case]
    make(folder)
    known = posenc.facts(folder)
    assert {one.one.name for one in known.contradictions} == {name}
    sentence = known.contradictions[0].text
    assert all(word in sentence for word in words), sentence
    return sentence, known


def stops(verb: str, name: Name, known: posenc.Facts) -> bool | None:
    """Whether a verb depends on a fact; None where it has no question to such a model."""
    turns = any(entry.kind == "rotary" for entry in known.plan)
    found = known.contradictions[0]
    recorded = found.other.source == "stamp" or known.stamp
    # Of a model in memory some layers may be taken out; none may be too many.
    forgotten = recorded or (name == "layers" and found.other.value <= found.one.value)
    if (verb in ("extend", "convert") and not turns) or (verb == "adopt" and forgotten):
        return None  # nor does it keep the record of a conversion
    return name in DEPENDS[verb]


@pytest.mark.parametrize("case", drawn([*CONTRADICTORY], 14, "detect"))
def test_a_contradictory_folder_stops_every_tool_with_one_sentence(
    tmp_path: Path, case: str
) -> None:
    sentence, known = contradicted(case, folder := tmp_path / "m")
    name = CONTRADICTORY[case][0]
    for verb, ask in VERBS.items():
        stopped = stops(verb, name, known)
        if stopped is None and name == "layers":
            assert posenc.facts(loaded(folder)).contradictions == ()
        elif stopped is False:  # what no answer depends on is told
            answer = ask(folder)
            assert sentence in (answer.config if verb == "convert" else answer.notes)
        elif stopped:
            with pytest.raises(DataError) as caught:
                ask(folder)
            assert f": {sentence}" in str(caught.value)
    assert sentence in {note.text for note in read_model(folder).notes}
    diagnosis = posenc.doctor(folder)
    assert sentence in [fault.text for fault in diagnosis.faults]
    if name == "heads":
        with pytest.raises(DataError) as caught:
            posenc.detect_pairing(folder)
        assert str(caught.value) == f"pairing: {sentence}"
    if name == "pairing":
        with contextlib.suppress(DataError):  # two records that exclude each other
            answer = posenc.detect_pairing(folder)
            assert (answer.pairing, answer.contradiction.text) == ("unknown", sentence)  # type: ignore[union-attr]
    if case in NINE:
        shown = CliRunner().invoke(app, ["explain", str(folder)])
        assert (shown.exit_code, sentence in shown.output) == (1, True)
    with pytest.raises(DataError) as caught:
        known.require("golden", *ASKED)
    assert str(caught.value) == f"golden: {sentence}"
    assert sentence in known.require("golden", *(one for one in ASKED if one != name))
    assert sentence in json.loads(known.to_json())["contradictions"]


def test_what_the_caller_states_settles_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a", turned(trained()), HALF)
    stated = posenc.explain(folder, pairing="interleaved")
    assert (stated.errors, stated["attention"].spec.channels.order) == ((), "interleaved")  # type: ignore[union-attr]
    assert posenc.golden(folder, pairing="half").parts[0].spec.channels.order == "half"  # type: ignore[union-attr]
    kept = folder_of(tmp_path / "b", {**trained(), **buffers(ladder(1e6))}, HALF)
    assert posenc.facts(kept, pairing="half").contradictions
    assert posenc.explain(kept, base=1e6).errors == ()
    made = posenc.convert(kept, tmp_path / "c", pairing="interleaved")
    assert posenc.facts(kept).contradictions[0].text in made.config
    shown = CliRunner().invoke(app, ["golden", str(folder), "--pairing", "interleaved"])
    assert shown.exit_code == 0


def test_forty_folders_that_contradict_themselves() -> None:
    assert len(CONTRADICTORY) >= 40
    assert {*NINE} <= {*CONTRADICTORY}


@pytest.mark.costly
def test_a_converted_folder_is_read_as_converted_by_every_verb(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", trained(), HALF)
    posenc.convert(source, new := tmp_path / "b", pairing="interleaved")
    pairing = posenc.explain(new)["attention"].spec.channels.order
    assert pairing == posenc.detect_pairing(new).pairing == "interleaved"
    assert posenc.golden(new).parts[0].spec.channels.order == "interleaved"
    assert [d.field for d in posenc.diff(source, new).differences] == ["pairing.order"]
    assert not posenc.diff(source, HALF).differences
    assert posenc.extend(new, factor=2).layers[0].option("none").spec.channels.order == (
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


def test_towers_beside_the_text_are_no_part_of_it(tmp_path: Path) -> None:
    """Their queries are of another width, and stay as they are."""
    config = {"model_type": "gemma3", "text_config": config_of("gemma3_text"),
              "vision_config": {"model_type": "siglip_vision_model"}}  # fmt: skip
    text = {name.replace("model.", "language_model.model."): v for name, v in trained().items()}
    tower = {f"vision_tower.layers.0.self_attn.{n}_proj.weight": np.ones((48, 8)) for n in "qk"}
    folder = folder_of(tmp_path / "a", {**text, **tower}, config)
    made = posenc.convert(folder, tmp_path / "b", pairing="interleaved")
    assert {*made.tensors} == {*text}
    assert made.probe is not None
    assert made.probe.heads == 2 * HEADS
    evidence = posenc.facts(folder).evidence
    assert evidence is not None
    assert (evidence.claim, evidence.stated) == ("half", "half")
    new = posenc.facts(tmp_path / "b").of("pairing", "text.sliding_attention")
    assert new[0].value == "interleaved"
    turned_too = {**turned(text), **tower}
    wrong = posenc.facts(folder_of(tmp_path / "c", turned_too, config))
    assert [one.one.name for one in wrong.contradictions] == ["pairing"]


NAMES = {"all": "*", "text": "model.language_model.*", "inner": "*.indexer.*", "other": "x.*"}


@pytest.mark.parametrize(
    ("model_type", "records", "pairings"),
    [
        ("mistral3", {"all": "interleaved"}, ["interleaved", "interleaved"]),
        ("mistral3", {"text": "interleaved"}, ["interleaved", "half"]),
        ("mistral3", {"all": "interleaved", "text": "half"}, ["half", "interleaved"]),
        ("mistral3", {"other": "interleaved"}, ["half", "half"]),
        ("glm_moe_dsa", {"all": "half"}, ["half", "interleaved"]),
        ("deepseek_v32", {"inner": "interleaved"}, ["interleaved", "interleaved"]),
        ("deepseek_v32", {"all": "half", "inner": "interleaved"}, ["half", "interleaved"]),
        ("deepseek_v3", {"other": "half"}, ["half"]),
    ],
)
def test_whose_pairing_a_record_states(
    model_type: str, records: dict[str, Any], pairings: list[str]
) -> None:
    facts = [
        Fact("pairing", order, source="stamp", rests_on="a record", layer=NAMES[name])
        for name, order in records.items()
    ]
    before = posenc.from_hf({"model_type": model_type})
    plan = stamped(before, tuple(facts))
    orders = [e.spec.channels.order for e in plan if e.kind == "rotary"]  # type: ignore[union-attr]
    assert orders == pairings
    told = [text for text in plan.warnings if "x.* pairs" in text]
    assert bool(told) == ("other" in records and len(pairings) > 1)
    assert stamped(before, ()) == before
