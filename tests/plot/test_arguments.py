"""Keywords of pictures: each is checked, whatever the picture, and what is wrong is named."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import posenc
import posenc.plot
from posenc import registry
from posenc._core.errors import ArgumentError, PosencError
from posenc._core.spec.example import small
from posenc.cli import app

TABLE, ROPE = posenc.Sinusoidal(16), posenc.RoPE(16, pairing="half")
SUBJECTS: dict[str, tuple[Any, ...]] = {
    "attention": (ROPE,),
    "bias": (posenc.ALiBi(heads=4),),
    "compare": ("table", TABLE, posenc.Sinusoidal(16, base=100)),
    "counter": (TABLE,),
    "find": (TABLE, {0: 0.5, 1: 0.2}),
    "offset": (TABLE,),
    "rotation": (ROPE,),
    "similarity": (TABLE,),
    "stretch": (ROPE,),
    "sum": (TABLE,),
    "table": (TABLE,),
    "wavelengths": (TABLE,),
    "waves": (TABLE,),
}
PICTURES = sorted({*posenc.plot.__all__} - {"Picture"})
ORDINARY = {"table", "rotation"}  # the others are of the slow tier
WRONG = (-5, 0, "ten", True, math.nan, 1.5, 2**80, [], {}, "", object())
# What some keyword takes of these: what a picture is of, a seed, a place, a switch, a factor.
TAKEN = {
    "params": {"{}"},
    "a_params": {"{}"},
    "b_params": {"{}"},
    "at": {"0"},
    "seed": {"-5", "0", str(2**80)},
    "factor": {"1.5"},
    "tokens": {"'ten'"},
    "offset": {"-5", "0"},
    "sample": {"True"},
}


def keywords(name: str) -> list[str]:
    parameters = inspect.signature(getattr(posenc.plot, name)).parameters.values()
    own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [*own, "width", *(["height", "length", "positions"] if name == "compare" else [])]


def test_every_picture_has_a_subject() -> None:
    assert sorted(SUBJECTS) == PICTURES


def refusal(name: str, key: str, value: Any) -> str | None:
    """What a picture says against a value of a keyword; None where it draws."""
    try:
        getattr(posenc.plot, name)(*SUBJECTS[name], **{key: value})
    except PosencError as error:
        return str(error)
    return None


@pytest.mark.costly
@pytest.mark.parametrize(
    "name",
    [
        name if name in ORDINARY else pytest.param(name, marks=pytest.mark.slow("plot"))
        for name in PICTURES
    ],
)
def test_a_keyword_of_another_kind_is_refused(name: str) -> None:
    for key in keywords(name):
        texts = {repr(value): refusal(name, key, value) for value in WRONG}
        assert {value for value, text in texts.items() if text is None} <= TAKEN.get(key, set()), (
            key
        )
        texts.pop(str(2**80))  # a whole number, which some arithmetic refuses by its own name
        word = key.removeprefix("a_").removeprefix("b_")
        assert all(text is None or word in text for text in texts.values()), key


@pytest.mark.parametrize("name", PICTURES)
def test_an_unknown_keyword_is_refused(name: str) -> None:
    near = next(
        key for key in ("positions", "offsets", "title") if key in [*keywords(name), "title"]
    )
    for key, advice in (("nonsense", ""), (near[:-1], f"Did you mean '{near}'?")):
        with pytest.raises(TypeError, match=f"has no argument '{key}'") as raised:
            getattr(posenc.plot, name)(*SUBJECTS[name], **{key: 5})
        assert advice in str(raised.value)


@pytest.mark.costly
@pytest.mark.parametrize("name", ["table", "waves", "similarity", "counter", "compare"])
def test_a_length_is_what_is_drawn_as_the_command_has_it(name: str) -> None:
    draw = getattr(posenc.plot, name)
    by_length = draw(*SUBJECTS[name], length=7)
    by_positions = draw(*SUBJECTS[name], positions=7)
    assert by_length.to_bytes("svg").count(b"<") == by_positions.to_bytes("svg").count(b"<")
    assert by_length.figure.axes[0].get_ylim() == by_positions.figure.axes[0].get_ylim()
    # Positions that are given are drawn, whatever the length.
    both = draw(*SUBJECTS[name], positions=7, length=100)
    assert both.figure.axes[0].get_ylim() == by_positions.figure.axes[0].get_ylim()


def test_the_rows_that_a_length_draws() -> None:
    assert posenc.plot.table(TABLE, length=5).data.tile.values.shape == (5, 16)
    assert posenc.plot.table(TABLE).data.tile.values.shape == (128, 16)
    with pytest.raises(IndexError):
        posenc.plot.table(
            posenc.Learned(8, length=4), params={"weight": np.zeros((4, 8))}, length=5
        )


def test_the_command_draws_as_many(tmp_path: Any) -> None:
    output = tmp_path / "table.png"
    arguments = ["plot", "table", "--dim", "16", "--length", "5", "-o", str(output), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert (
        "5 positions" in result.output or "5 x 16" in result.output or '"rows": 5' in result.output
    )


@pytest.mark.parametrize("key", ["width", "height"])
@pytest.mark.parametrize("value", [0, -5, "5", 1.5])
def test_sides_are_whole_and_positive(key: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{key}: expected a whole number from 1 on"):
        posenc.plot.table(TABLE, **{key: value})


@pytest.mark.parametrize("name", ["Shaw", "CoPE", "TransformerXL"])
def test_what_no_picture_shows_is_refused_with_parameters_too(name: str) -> None:
    spec = small(registry.lookup(name))
    with pytest.raises(posenc.SpecError, match=f"a bias on attention scores, got {name}"):
        posenc.plot.bias(spec, params=posenc.init(spec))
