"""Plans: their JSON, their look-ups, and what they refuse."""

from __future__ import annotations

import pytest

import posenc
from posenc import Layer, Reading
from posenc._core.reading import Note, Source
from posenc.detect.explain.describe import describe, lines

ROPE = posenc.RoPE(8, pairing="half", scaling=posenc.scaling.Linear(2))
PLAN = Reading(
    (
        Layer("sliding", spec=ROPE, indices=(0, 1), sources=(Source("base", origin="config"),)),
        Layer("full", indices=(2,), logit_scale=posenc.Temperature(rule="log", length=64)),
        Layer("embeddings", spec=posenc.Sinusoidal(8), positions=posenc.Positions("arange")),
        Layer("encoder", convolution="grouped, 128 wide"),
    ),
    notes=(Note("error", "no base"), Note("warning", "odd", layer="full")),
    model="test",
)


def test_a_plan_is_its_json() -> None:
    assert posenc.from_json(posenc.to_json(PLAN)) == PLAN


def test_kinds() -> None:
    assert [entry.kind for entry in PLAN] == ["rotary", "none", "table", "convolution"]


def test_layers_by_number_and_by_name() -> None:
    assert [entry.layer for entry in PLAN.at(2)] == ["full", "embeddings", "encoder"]
    assert PLAN["sliding"].spec == ROPE
    with pytest.raises(posenc.SpecError, match="Did you mean 'sliding'"):
        PLAN["slidng"]


def test_layers_by_type_and_parts() -> None:
    plan = Reading(
        (
            Layer("text.sliding", spec=ROPE, indices=(0, 1)),
            Layer("text.full", indices=(2,)),
            Layer("vision.sliding", spec=ROPE),
            Layer("projector", convolution="one"),
        ),
        notes=(Note("error", "no base"), Note("warning", "odd", layer="text.full"),
               Note("warning", "even", layer="vision")),
        model="test",
    )  # fmt: skip
    assert [entry.layer for entry in plan.by_type("sliding")] == ["text.sliding", "vision.sliding"]
    assert plan.by_type("projector")[0].convolution == "one"
    text = plan.part("text")
    assert [entry.layer for entry in text] == ["sliding", "full"]
    assert text["sliding"] == Layer("sliding", spec=ROPE, indices=(0, 1))
    assert text.notes == (Note("error", "no base"), Note("warning", "odd", layer="full"))
    assert plan.part("vision").warnings == ("even",)
    with pytest.raises(posenc.SpecError, match="by_type.*Did you mean 'sliding'"):
        plan.by_type("slidng")
    with pytest.raises(posenc.SpecError, match="part.*Did you mean 'vision'"):
        plan.part("visoin")
    with pytest.raises(posenc.SpecError, match="one part: ask the plan itself"):
        PLAN.part("text")


def test_an_attention_inside_a_layer() -> None:
    main = Layer("text.sparse", spec=ROPE, indices=(1,))
    inner = Layer("text.sparse", spec=ROPE.replace(base=5.0), indices=(1,), attention="indexer")
    plan = Reading((main, inner, Layer("text.full", indices=(0,))))
    again = posenc.from_json(posenc.to_json(plan))
    assert again == plan
    assert again["text.sparse"] == main
    assert plan.by_type("sparse") == plan.at(1) == (main, inner)
    assert [entry.attention for entry in plan.part("text").at(1)] == ["", "indexer"]
    told = describe(plan)["layers"]
    assert [row.get("attention") for row in told] == [None, "indexer", None]
    assert "indexer, inside text.sparse (layer 1; 1 in all)" in lines(plan)
    for layers in ((inner,), (inner, main), (main, inner.replace(indices=(0, 1)))):
        with pytest.raises(posenc.SpecError, match=r"'text.sparse' before its 'indexer'"):
            Reading(layers)


def test_notes_by_level() -> None:
    assert PLAN.errors == ("no base",)
    assert PLAN.warnings == ("odd",)


def test_an_entry_is_one_encoding() -> None:
    with pytest.raises(posenc.SpecError, match="two entries"):
        Layer("x", spec=ROPE, convolution="y")


def test_layers_are_asked_alike_of_readings_and_plans() -> None:
    reading = Reading((Layer("text.a", spec=ROPE, indices=(0, 2)), Layer("text.b", indices=(1,))))
    a, b = posenc.Entry("text.a", specs=(ROPE,)), posenc.Entry("text.b")
    plan = posenc.Plan((a, b), layers=("text.a", "text.b", "text.a"))
    assert reading[2] == reading.at(2) == (reading["text.a"],)
    assert plan.at(2) == (plan[2],) == (plan["text.a"],)
    assert (len(reading), list(reading)) == (2, list(reading.layers))
    assert (len(plan), list(plan)) == (3, [a, b, a])
    assert plan.by_type("b") == (b,)
    assert [entry.layer for entry in reading.by_type("b")] == ["text.b"]
    assert plan.part("text")[1] == posenc.Entry("b")
    assert plan.part("text").layers == ("a", "b", "a")
    assert plan[-1] == a
    inner = posenc.Entry("indexer")
    assert posenc.Plan((b.replace(attentions=(inner,)),), layers=("text.b",)).at(0)[1] == inner
    for asked in (reading, plan):
        with pytest.raises(posenc.SpecError, match=r"Did you mean 'text\.[ab]'"):
            asked["text.c"]
        with pytest.raises(posenc.SpecError, match="by_type.*Known: a, b"):
            asked.by_type("c")
        with pytest.raises(posenc.SpecError, match="part.*Did you mean 'text'"):
            asked.part("txt")
        for wrong in (3, -4):
            with pytest.raises(posenc.PositionError, match="from 0 to 2"):
                asked[wrong]
            assert asked.at(wrong) == ()
        for odd in (1.0, None):
            with pytest.raises(TypeError):
                asked[odd]  # type: ignore[call-overload, index]
    # An entry that all layers share acts in each.
    assert Reading((Layer("attention", spec=ROPE),))[7][0].spec == ROPE
