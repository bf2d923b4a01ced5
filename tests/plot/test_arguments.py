"""Keywords of pictures: each is checked, whatever the picture, and what is wrong is named."""

from __future__ import annotations

import inspect
import math
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

import posenc
import posenc.plot
from posenc import registry
from posenc._core.errors import ArgumentError, PosencError
from posenc._core.spec.checks import small
from posenc.cli import app
from posenc.plot.rows import PICTURES as ROWS, PictureRow
from posenc.plot.views import table

TABLE, ROPE = posenc.Sinusoidal(16), posenc.RoPE(16, pairing="half")
SUBJECTS: dict[str, tuple[Any, ...]] = {
    "attention": (ROPE,),
    "bias": (posenc.ALiBi(heads=4),),
    "compare": ("table", TABLE, posenc.Sinusoidal(16, base=100)),
    "counter": (TABLE,),
    "find": (TABLE, {0: 0.5, 1: 0.2}),
    "offset": (TABLE,),
    "rotation": (ROPE,),
    "scene": (),
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
    "shift": {"-5", "0"},
    "sample": {"True"},
    "loss": {"True"},
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


GROWING = posenc.RoPE(
    16, pairing="half", scaling=posenc.scaling.DynamicNTK(2.0, original_length=64)
)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS.values() if "length" in {option.argument for option in row.options}],
    ids=lambda row: row.name,
)
def test_a_length_is_what_a_rule_reads_and_nothing_else(row: PictureRow) -> None:
    with pytest.raises(ArgumentError, match=f"length: .* write {row.extent}=7"):
        getattr(posenc.plot, row.name)(*SUBJECTS[row.name], length=7)


def test_a_rule_reads_the_length_and_positions_are_what_is_drawn() -> None:
    usual, far = (table.data(GROWING, length=n).tile for n in (64, 4096))
    assert usual.values.shape == far.values.shape == (128, 16)
    assert (usual.values != far.values).any()


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        ("table --dim 16 --length 5", 5),
        ("table --dim 16 --positions 5", 5),
        ("table --dim 16 --positions 1k", 1024),
        ("table --dim 16 --positions -2:3", 5),
        ("compare table --dim 16 --b-base 100 --length 5", 5),
        ("counter --dim 16 --length 5", 5),
    ],
)
def test_the_command_draws_as_many_by_the_older_spelling_too(words: str, drawn: int) -> None:
    made: list[Any] = []
    with mock.patch("posenc.cli.commands.plot.finish", lambda draw, *_, **__: made.append(draw)):
        result = CliRunner().invoke(app, ["plot", *words.split()])
    assert result.exit_code == 0, result.output
    extent = made[0].keywords["positions"]
    assert (extent if isinstance(extent, int) else extent[1] - extent[0]) == drawn
    assert "length" not in made[0].keywords


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
