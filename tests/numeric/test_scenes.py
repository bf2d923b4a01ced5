"""Positions of a scene: rules as expressions, their order, facts of the call, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc
from posenc import ScenePart, SceneRule

GRID = ("t", "h", "w")


def rule(**more: Any) -> SceneRule:
    parts = (ScenePart("text", ("i", "0", "0")), ScenePart("image", ("text.tokens", "h", "w")))
    return SceneRule(GRID, parts, **more)


EXPRESSIONS: list[tuple[str, list[float]]] = [
    ("i", [0, 1, 2, 3, 4, 5]),
    ("t + 10 * h + 100 * w", [0, 100, 200, 10, 110, 210]),
    ("frames + rows * columns", [7] * 6),
    ("h - (rows - rows // 2)", [-1, -1, -1, 0, 0, 0]),
    ("max(h, w) - min(h, 1)", [0, 1, 2, 0, 0, 1]),
    ("w / 2", [0, 0.5, 1, 0, 0.5, 1]),
    ("-w % 4", [0, 3, 2, 0, 3, 2]),
    ("round(rows / 3) + h", [1, 1, 1, 2, 2, 2]),
    ("w * 7 if rows == 2 else w", [0, 7, 14, 0, 7, 14]),
    ("w if rows > 2 else h", [0, 0, 0, 1, 1, 1]),
    ("w if rows < 2 else h", [0, 0, 0, 1, 1, 1]),
    ("w if fps is None else w / fps", [0, 1, 2, 0, 1, 2]),
    ("sizes[1] + h", [5, 5, 5, 6, 6, 6]),
    ("text.tokens + 100 * other.rows", [4] * 6),
    ("largest.columns + picture + 10 * pictures + 100 * number", [13] * 6),
    ("next + w", [4, 5, 6, 4, 5, 6]),
]


@pytest.mark.parametrize(("text", "numbers"), EXPRESSIONS)
def test_a_coordinate_is_what_its_expression_says(text: str, numbers: list[float]) -> None:
    parts = (ScenePart("text", ("i",)), ScenePart("image", (text,)), ScenePart("other"))
    made = SceneRule(("x",), parts, facts=(("fps", None), ("sizes", (4.0, 5.0))))
    placed = made.build([("text", 4), ("image", (1, 2, 3))])
    np.testing.assert_array_equal(placed["image"], numbers)
    whole = all(float(number).is_integer() for number in numbers)
    assert placed["image"].dtype == (np.int64 if whole and "sizes" not in text else np.float64)


def test_parts_stand_in_the_order_of_the_model_or_of_the_scene() -> None:
    scene = [("image", (1, 1, 2)), ("text", 3), ("image", (1, 2, 1))]
    assert rule().build(scene).order == ("text", "image", "image 2")
    own = rule(order="scene").build(scene)
    assert own.order == ("image", "text", "image 2")
    assert {name: rows.shape for name, rows in own.items()} == {
        "image": (2, 3), "text": (3, 3), "image 2": (2, 3)
    }  # fmt: skip


def test_what_does_not_turn_has_a_place_and_no_positions() -> None:
    made = SceneRule(("h", "w"), (ScenePart("text"), ScenePart("image", ("h", "w"))))
    placed = made.build([("text", 3), ("image", (1, 1, 2))])
    assert placed.order == ("text", "image")
    assert [*placed] == ["image"]


def test_padding_counts_on_behind_a_text_and_stands_at_0_behind_a_grid() -> None:
    parts = (
        ScenePart("text", ("1 + i", "0"), multiple=4),
        ScenePart("image", ("9", "w"), multiple=4),
    )
    placed = SceneRule(("t", "w"), parts).build([("text", 3), ("image", (1, 1, 3))])
    np.testing.assert_array_equal(placed["text"], [[1, 0], [2, 0], [3, 0], [4, 0]])
    np.testing.assert_array_equal(placed["image"], [[9, 0], [9, 1], [9, 2], [0, 0]])


def test_times_of_frames_may_be_given() -> None:
    placed = SceneRule(GRID, (ScenePart("video", GRID),)).build([("video", ([3, 8], 1, 2))])
    np.testing.assert_array_equal(placed["video"][:, 0], [3, 3, 8, 8])


def test_facts_of_the_call_have_defaults_or_are_asked_for() -> None:
    parts = (ScenePart("video", ("t / fps",)), ScenePart("text", ("i * step",)))
    made = SceneRule(("t",), parts, facts=(("fps", 2.0), ("step", "required")))
    film = [("video", (3, 1, 1))]
    np.testing.assert_array_equal(made.build(film)["video"], [0, 0.5, 1])
    np.testing.assert_array_equal(made.build(film, fps=4)["video"], [0, 0.25, 0.5])
    np.testing.assert_array_equal(made.build([("text", 2)], step=3)["text"], [0, 3])
    with pytest.raises(posenc.ArgumentError, match="step=, a fact of the call that 'text' needs"):
        made.build([("text", 2)])
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'fps'"):
        made.build(film, fp=3)
    with pytest.raises(
        posenc.ArgumentError, match="facts: none, as its model takes no facts, got 'fps'$"
    ):
        rule().build([("text", 2)], fps=3)


def test_a_table_ends() -> None:
    made = rule(ends=(300, 4, None))
    last = made.build([("text", 3), ("image", (1, 4, 900))])
    assert last["image"].max() == 899
    with pytest.raises(
        posenc.ArgumentError, match="below 4 on axis 'h', the end of its table, got 4"
    ):
        made.build([("text", 3), ("image", (1, 5, 4))])


def test_pixels_become_tokens() -> None:
    made = rule(pixels=(4, 16, 8))
    assert made.cells(height=64, width=64) == (1, 4, 8)
    assert made.cells(height=16, width=8, frames=81) == (21, 1, 1)
    for wrong, told in (
        ({"height": 65, "width": 64}, "height: expected a multiple of 16 pixels, got 65"),
        ({"height": 64, "width": 0}, "width: expected a multiple of 8"),
        ({"height": 64, "width": 64, "frames": 80}, "one more than a multiple of 4, got 80"),
        ({"height": 64.0, "width": 64}, "height: expected a multiple of 16"),
    ):
        with pytest.raises(posenc.ArgumentError, match=told):
            made.cells(**wrong)
    with pytest.raises(posenc.ArgumentError, match="vae/config.json lies beside"):
        rule().cells(height=64, width=64)


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        ([("imag", (1, 2, 3))], "a part of text, image, got 'imag'. Did you mean 'image'"),
        ([("reference", (1, 2, 3))], "OtherPipeline has it: read its folder"),
        ([("image", 7)], "a grid for 'image', got 7 tokens"),
        ([("image", (1, 2))], "three of a grid"),
        ([("image", (1, 0, 2))], "three of a grid"),
        ([("image", (0, 2, 2))], "image: expected a number of tokens, or three of a grid"),
        ([("image", (["a"], 2, 2))], "frames or their times"),
        ([("image", (1, 2.5, 2))], "three of a grid"),
        ([("text", -1)], "a number of tokens"),
        ([("text", 2**24 + 1)], "at most 16,777,216 tokens, got 16777217"),
        ([("image", (10**9,) * 3)], "image: expected at most 16,777,216 tokens"),
        ([("text", True)], "a number of tokens"),
        ([("text",)], "pairs of a name and a size"),
        ([7], "pairs of a name and a size"),
        ("text", "a list of parts"),
        (7, "a list of parts"),
    ],
)
def test_what_is_no_scene_is_told(scene: Any, told: str) -> None:
    made = rule(elsewhere=(("reference", "OtherPipeline"),))
    with pytest.raises(posenc.ArgumentError, match=told):
        made.build(scene)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ScenePart("text", ("i +",)), "expressions, got 'i \\+'"),
        (lambda: SceneRule(GRID, (ScenePart("a", ("i",)),)), "a coordinate for each of the axes"),
        (lambda: SceneRule(("x",), (ScenePart("a"), ScenePart("a"))), "each name once"),
        (lambda: SceneRule(("x",), (), ends=(1, 2)), "one for each axis"),
        (lambda: SceneRule(("x",), (), pixels=(1, 2)), "frames, rows and columns"),
        (lambda: SceneRule(("x",), (), pixels=(1, 0, 2)), "each at least 1"),
        (lambda: SceneRule(("x",), (), order="text"), "Known: parts, scene"),  # type: ignore[arg-type]
        (lambda: ScenePart("text", ("",)), "expressions, got ''"),
    ],
)
def test_what_is_no_rule_is_told(make: Any, told: str) -> None:
    with pytest.raises(posenc.SpecError, match=told):
        make()


@pytest.mark.parametrize(
    "text", ["__import__('os')", "i.real", "open(i)", "i ** i", "[i]", "lambda: i"]
)
def test_an_expression_runs_no_code(text: str) -> None:
    with pytest.raises((posenc.SpecError, ValueError)):
        SceneRule(("x",), (ScenePart("text", (text,)),)).build([("text", 2)])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("w / t", "divide by zero"),
        ("w // (fps - 24)", "divide by zero"),
        ("1 // 0", "ZeroDivisionError"),
        ("1e999", "infinity"),
        ("w * step", "infinity"),
        ("none + w", "TypeError"),
        ("w + pair", "could not be broadcast"),
        ("pair[2]", "IndexError"),
        ("w if h else t", "ambiguous"),
        ("'a'", "no expression"),
    ],
)
def test_an_expression_without_a_finite_number_is_told(text: str, told: str) -> None:
    facts = (("fps", 24.0), ("step", None), ("none", None), ("pair", (1.0, 2.0)))
    made = SceneRule(("x",), (ScenePart("image", (text,)),), facts=facts)
    with pytest.raises(posenc.ArgumentError, match=f"image: expected numbers of .*{told}"):
        made.build([("image", (1, 2, 3))], step=np.nan)


@pytest.mark.parametrize("text", ["texts.tokens", "text.token", "fpss", "k + i"])
def test_a_name_that_nothing_has_is_told(text: str) -> None:
    with pytest.raises(posenc.SpecError, match="expected parts, sizes"):
        SceneRule(("x",), (ScenePart("text", (text,)),), facts=(("fps", 1.0),))


def test_a_rule_is_its_json() -> None:
    made = rule(facts=(("fps", 24.0), ("step", "required")), ends=(3, None, 4), pixels=(4, 8, 8))
    assert posenc.from_json(posenc.to_json(made)) == made
    assert str(made) == "text tokens at (i, 0, 0), image tokens at (text.tokens, h, w)"
