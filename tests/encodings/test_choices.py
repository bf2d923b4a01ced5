"""Every word of every `Literal` field changes the numbers of a row, or says what tests it instead.

A choice is told from another by a row whose oracle it meets with the one and would not with the
other. So a new word in a rule that several encodings share needs a row in each of them.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import posenc
from posenc._core.spec.json_classes import values_inside
from posenc._core.spec.spec import Value
from posenc._names import SPECS, VALUES
from posenc.registry import lookup
from tests.cases import CASES, Case, RotaryCase, ScoreCase
from tests.tolerances import assert_close

TESTS = Path(__file__).parents[1]
Choice = tuple[str, str, Any]  # class, field, word

# (class, field, word, or None for all): the test of what rows do not show, and what that is.
PAIRING = "encodings/test_rotary.py::test_every_pairing"
BITS = "encodings/test_choices.py::test_float32_phases_are_those_of_published_code"
PLACE = "encodings/test_choices.py::test_what_is_added_says_where"
FIRST = "encodings/test_choices.py::test_first_values"
SIZES = "encodings/test_choices.py::test_words_for_sizes"
ELSEWHERE: dict[tuple[str, str, Any], tuple[str, str]] = {
    ("Pairing", "part", None): (PAIRING, "rows of rotations have the width of their spec"),
    ("Pairing", "output", None): (PAIRING, "an oracle of a row puts pairs back where they were"),
    ("Pairing", "direction", None): (PAIRING, "an oracle of a row turns forward"),
    ("Pairing", "targets", None): (
        "torch_modules/test_rotary.py::test_values_turn_where_the_targets_name_them",
        "which of the arrays of a layer turn",
    ),
    **{
        (name, "phase", "float32"): (BITS, "the numbers are those of one library and expression")
        for name in ("Sinusoidal", "Fourier", "Timestep", "GridCells", "XPos", "RoPE")
    },
    **{(name, "phase", "exact"): (BITS, "near 0 it is the same to float32") for name in ("RoPE",)},
    ("Ladder", "expression", None): (BITS, "exact phases have no expression"),
    **{
        (name, "added", None): (PLACE, "the verb gives what is added, and attention adds it")
        for name in ("ALiBi", "T5", "ClippedTable", "SpatialBuckets", "Decomposed", "Shaw")
    },
    ("T5", "layers", None): (
        "encodings/test_choices.py::test_layers_share",
        "whether layers learn one table",
    ),
    ("Init", "rule", None): (
        "encodings/test_learned.py::test_init_follows_its_rule",
        "the first values",
    ),
    ("MixedRoPE", "init", None): (FIRST, "the first values"),
    ("STRING", "start", None): (FIRST, "the first values"),
    ("PoPE", "offset", "zero"): (FIRST, "the first values"),
    ("PoPE", "offset", "uniform"): (FIRST, "the first values"),
    ("Magnitude", "embedding_scale", None): (SIZES, "a factor on embeddings"),
    ("TENER", "scaling", None): (SIZES, "a factor on all scores"),
    ("RotaryMagnitude", "at", "softmax"): (SIZES, "a factor on all scores"),
    ("RotaryMagnitude", "at", "none"): (SIZES, "a factor on all scores"),
    ("RotaryMagnitude", "logit_factor", None): (SIZES, "a factor on all scores"),
    ("Temperature", "rule", None): (
        "encodings/test_rotary.py::test_temperatures",
        "a factor on all scores",
    ),
    ("Sinusoidal", "odd", "error"): (
        "core/test_spec.py::test_bad_fields",
        "an odd width is refused",
    ),
    ("Arrangement", "rule", "single"): (
        "core/test_spec.py::test_sizes_must_add_up",
        "other rules give one axis the same pairs",
    ),
}


@functools.cache
def classes() -> dict[str, type[Value]]:
    """The encodings, the scalings, and the values that their fields hold."""
    scalings = [name for name, module in VALUES.items() if module.startswith("posenc.scaling")]
    found: dict[str, type[Value]] = {}
    waiting = [lookup(name) for name in (*SPECS, *scalings)]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ not in found:
            found[cls.__name__] = cls
            waiting += values_inside(cls)
    return found


def words_of(hint: Any) -> Iterator[Any]:
    """The words of the `Literal` in an annotation, inside unions and tuples too."""
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    elif typing.get_origin(hint) in (typing.Union, types.UnionType, tuple):
        for inner in typing.get_args(hint):
            yield from words_of(inner)


@functools.cache
def fields_of(cls: type[Value]) -> dict[str, tuple[Any, ...]]:
    """The fields of a class that offer words, and the words."""
    hints = typing.get_type_hints(cls)
    offered = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        words = tuple(words_of(hints[field.name]))
        stored = {w for inner in held(hints[field.name]) for w in words_of_class(inner)}
        if words and not set(words) <= stored:  # else they are short for such a value
            offered[field.name] = words
    return offered


def held(hint: Any) -> Iterator[type[Value]]:
    """The classes of values in an annotation."""
    for inner in (hint, *typing.get_args(hint)):
        if isinstance(inner, type) and issubclass(inner, Value) and inner is not Value:
            yield inner


def words_of_class(cls: type[Value]) -> Iterator[Any]:
    if dataclasses.is_dataclass(cls):
        for hint in typing.get_type_hints(cls).values():
            yield from words_of(hint)


CHOICES: tuple[Choice, ...] = tuple(
    (name, field, word)
    for name, cls in sorted(classes().items())
    for field, words in fields_of(cls).items()
    for word in words
)


def others_of(cls: type[Value], field: str, word: Any) -> list[Any]:
    """The other words of a field, or the default of one that has a single word."""
    others = [other for other in fields_of(cls)[field] if other != word]
    return others or [cls.__dataclass_fields__[field].default]  # type: ignore[attr-defined]


# --- what rows tell apart -------------------------------------------------------------------------


def exchanged(value: Any) -> Iterator[tuple[Choice, Any, Callable[[], Any]]]:
    """A choice in a spec, another word, and what makes the spec with it, or says why it cannot."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            for choice, other, made in exchanged(item):
                yield choice, other, partial(inserted, value, index, made)
    if not isinstance(value, Value):
        return
    offered = fields_of(type(value))
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        word = getattr(value, field.name)
        for choice, other, made in exchanged(word):
            yield choice, other, partial(attempt, value, field.name, made)
        if not isinstance(word, (Value, tuple)) and word in offered.get(field.name, ()):
            for other in others_of(type(value), field.name, word):
                if other is not dataclasses.MISSING:
                    choice = (type(value).__name__, field.name, word)
                    make = partial(attempt, value, field.name, partial(identity, other))
                    yield choice, other, make


def identity(word: Any) -> Any:
    return word


def inserted(values: tuple[Any, ...], index: int, make: Callable[[], Any]) -> Any:
    return (*values[:index], make(), *values[index + 1 :])


def attempt(value: Value, field: str, make: Callable[[], Any]) -> Any:
    word = make()
    if isinstance(word, Exception):
        return word
    try:
        return value.replace(**{field: word})
    except posenc.PosencError as error:
        return error


def numbers(case: Any, spec: Any) -> list[np.ndarray]:
    """What a spec gives where a row looks."""
    if isinstance(case, Case):
        return [np.asarray(posenc.table(spec, case.positions, params=case.params, dtype="float64"))]
    if isinstance(case, RotaryCase):
        x = np.random.default_rng(0).normal(size=(1, len(case.positions), spec.dim))
        return [np.asarray(posenc.rotate(spec, x, positions=case.positions, params=case.params))]
    if isinstance(case, ScoreCase):
        params = case.params or None
        return [np.asarray(posenc.bias(spec, case.queries, case.keys, params=params))]
    q, k = case.content()
    where = {"q_positions": case.queries, "k_positions": case.keys, "params": case.params or None}
    return [np.asarray(posenc.relative(spec, q, k, **where))]


def differs(case: Any, plain: list[np.ndarray], spec: Any) -> bool:
    """Whether a row would notice another spec in place of its own."""
    try:
        other = numbers(case, spec)
    except posenc.PosencError:
        return True
    return any(
        a.shape != b.shape or not np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        for a, b in zip(plain, other, strict=True)
    )


@functools.cache
def noticed() -> set[tuple[Choice, Any]]:
    """The pairs of words that a row tells apart."""
    pairs: set[tuple[Choice, Any]] = set()
    for case in CASES:
        plain: list[np.ndarray] = []
        for choice, other, make in exchanged(case.spec):
            if (choice, other) in pairs:
                continue
            spec = make()
            plain = plain or numbers(case, case.spec)
            if isinstance(spec, Exception) or differs(case, plain, spec):
                pairs.add((choice, other))
    return pairs


def excuse(choice: Choice) -> tuple[str, str] | None:
    return ELSEWHERE.get(choice) or ELSEWHERE.get((*choice[:2], None))


@pytest.mark.costly
def test_every_choice_has_a_row_or_a_reason() -> None:
    unseen = []
    for choice in CHOICES:
        name, field, word = choice
        others = others_of(classes()[name], field, word)
        unknown = [other for other in others if (choice, other) not in noticed()]
        if unknown and excuse(choice) is None:
            unseen.append(f"no row shows {name}({field}={word!r}) apart from {unknown}")
    assert unseen == []


@functools.cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.costly
def test_no_reason_is_left_over() -> None:
    """A reason names a test that exists, and a choice that no row shows."""
    for key, (test, why) in ELSEWHERE.items():
        file, _, function = test.partition("::")
        assert function in functions_of(file), test
        assert why
        concerned = [c for c in CHOICES if c[:2] == key[:2] and key[2] in (None, c[2])]
        assert concerned, key
        shown = [
            all((c, o) in noticed() for o in others_of(classes()[c[0]], c[1], c[2]))
            for c in concerned
        ]
        assert not all(shown), f"{key}: rows show it"


# --- what rows do not show ------------------------------------------------------------------------


def a_spec(name: str) -> Any:
    return next(case.spec for case in CASES if type(case.spec).__name__ == name)


@pytest.mark.parametrize("name", [n for n in SPECS if "added" in fields_of(lookup(n))], ids=str)
@pytest.mark.parametrize("added", ["after", "before"])
def test_what_is_added_says_where(name: str, added: str) -> None:
    """`attend` adds by `place`; `test_attend_puts_biases_after_or_before_the_scale` is its test."""
    assert a_spec(name).replace(added=added).place == added


def test_layers_share() -> None:
    """No verb asks: it is for those who build a model from a config."""
    assert posenc.T5(2).layers == "shared"
    own = posenc.T5(2, layers="own")
    assert posenc.init(own)["weight"].shape == posenc.init(posenc.T5(2))["weight"].shape
    assert posenc.from_json(posenc.to_json(own)) == own != posenc.T5(2)


def powers(count: int, divisor: float, base: float) -> np.ndarray:
    """1 / base ** (j / divisor) in float32, as most code has it."""
    return 1.0 / np.float32(base) ** (np.arange(count, dtype=np.float32) / np.float32(divisor))


def turned(positions: np.ndarray, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of float32 products."""
    angles = positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)
    return np.cos(angles), np.sin(angles)


FAR = np.array([0, 1, 17, 12_345, 1_000_003, 2**24 + 1])
HALVES: dict[str, tuple[Any, np.ndarray]] = {
    "Sinusoidal": (posenc.Sinusoidal(8, order="cos_sin"), powers(4, 4, 1e4)),
    "Timestep": (posenc.Timestep(8, order="cos_sin"), powers(4, 4, 1e4)),
    "Fourier": (
        posenc.Fourier(8, order="cos_sin", ladder=posenc.Ladder(spacing="octave", first=0.3)),
        np.array([0.3, 0.6, 1.2, 2.4], dtype=np.float32),
    ),
    "exp": (
        posenc.Sinusoidal(8, order="cos_sin", ladder=posenc.Ladder(expression="exp")),
        np.exp(np.arange(4, dtype=np.float32) * np.float32(-(np.log(1e4) / 4))),
    ),
    "exp_quotient": (
        posenc.Sinusoidal(8, order="cos_sin", ladder=posenc.Ladder(expression="exp_quotient")),
        np.exp(np.float32(-np.log(1e4)) * np.arange(4, dtype=np.float32) / np.float32(4)),
    ),
    "three fifths": (
        posenc.Sinusoidal(10, order="cos_sin", base=500.0),
        powers(5, 5, 500.0),
    ),
    "three fifths, exp": (
        posenc.Sinusoidal(10, order="cos_sin", base=500.0, ladder=posenc.Ladder(expression="exp")),
        np.exp(np.arange(5, dtype=np.float32) * np.float32(-(np.log(500.0) / 5))),
    ),
}


@pytest.mark.parametrize("name", [*HALVES, "RoPE", "XPos", "GridCells"])
def test_float32_phases_are_those_of_published_code(name: str) -> None:
    """The bits of NumPy, where `exact` gives others; torch's are in `test_originals_table.py`."""
    if name in HALVES:
        spec, frequencies = HALVES[name]
        cos, sin = turned(FAR, frequencies)
        rows = posenc.table(spec.replace(phase="float32"), FAR)
        assert_close(rows, np.concatenate([cos, sin], axis=-1), 0, name)
        assert np.abs(rows - posenc.table(spec.replace(phase="exact"), FAR)).max() > 1e-4
        return
    if name == "GridCells":
        spec = posenc.GridCells(6, shortest=3.0, longest=3.0, phase="float32")
        where = np.array([[0.0, 0.0], [1.0, 2.0], [12_345.0, 7.0]], dtype=np.float32)
        thirds = 2 * np.pi * np.arange(3) / 3
        across = (np.stack([np.cos(thirds), np.sin(thirds)]) / 3).astype(np.float32)
        angles = where[:, :1] * across[:1] + where[:, 1:] * across[1:]
        rows = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(3, 6)
        assert_close(posenc.table(spec, where), rows, 0, name)
        return
    spec = getattr(posenc, name)(8, pairing="half", phase="float32")
    near = FAR[:4]
    cos, sin = turned(near, powers(4, 4, 1e4))
    size = np.ones_like(cos)
    if name == "XPos":
        share = (2 * np.arange(4) / 8 + 0.4) / 1.4
        size = share ** (near[:, None] / 512.0)
    for part, plain in zip(posenc.cos_sin(spec, near), (cos, sin), strict=True):
        # The sizes of xPos are float64 numbers, rounded once, and fade to 0.
        bound = 0 if name == "RoPE" else 1e-6 * np.abs(plain * size) + 1e-30
        assert_close(part, plain * size, bound, name)


def test_first_values() -> None:
    """Those of the papers: `MixedRoPE`, `STRING` and `PoPE` begin as their words say."""
    sizes = 10.0 ** (-np.arange(2) / 2)
    made = {
        init: posenc.init(posenc.MixedRoPE(8, heads=50, pairing="half", init=init), seed=1)
        for init in ("rotated", "axial", "normal")
    }
    x, y = np.moveaxis(made["rotated"]["frequencies"], 1, 0)
    assert_close(np.hypot(x, y), np.tile(sizes, (50, 2)), 1e-6)
    assert_close(x[:, :2] * x[:, 2:] + y[:, :2] * y[:, 2:], np.zeros((50, 2)), 1e-6)
    assert np.ptp(np.arctan2(y[:, 0], x[:, 0])) > np.pi  # heads have directions of their own
    axial = np.array([[*sizes, 0, 0], [0, 0, *sizes]])
    assert_close(made["axial"]["frequencies"], np.broadcast_to(axial, (50, 2, 4)), 1e-7)
    drawn = made["normal"]["frequencies"]
    assert abs(drawn.mean()) < 0.2
    assert abs(drawn.std() - 1) < 0.2
    for start in ("repeated", "axial"):
        spec = posenc.STRING(8, heads=1, pairing="half", start=start)
        each = 100.0 ** (-np.arange(4) / 4) if start == "repeated" else 100.0 ** (-np.arange(2) / 2)
        zeros = np.zeros(2)
        rows = [each, each] if start == "repeated" else [[*each, *zeros], [*zeros, *each]]
        assert_close(posenc.init(spec, seed=1)["frequencies"][0], np.array(rows), 1e-7)
    spec = posenc.PoPE(64, heads=2, pairing="half", offset="zero")
    assert not posenc.init(spec, seed=1)["delta"].any()
    delta = posenc.init(spec.replace(offset="uniform"), seed=1)["delta"]
    assert -2 * np.pi <= delta.min() < -6
    assert -0.3 < delta.max() <= 0


def test_words_for_sizes() -> None:
    x = np.random.default_rng(0).normal(size=(3, 16))
    for word, factor in (("sqrt_dim", 4.0), ("rsqrt_dim", 0.25), (2.5, 2.5)):
        spec = posenc.Sinusoidal(16, magnitude=posenc.Magnitude(embedding_scale=word))
        rows = posenc.table(posenc.Sinusoidal(16), 3, dtype="float64")
        assert_close(posenc.add(spec, x), factor * x + rows, 1e-14)
    assert posenc.TENER(16, count=2).scale == 1.0
    assert posenc.TENER(16, count=2, scaling="root").scale == 0.25
    scaling = posenc.scaling.YaRN(40, original_length=4096)
    size = 0.1 * np.log(40) + 1
    for at, on_waves, on_scores in (
        ("cos_sin", size, 1.0), ("softmax", 1.0, size**2), ("none", 1.0, 1.0)
    ):  # fmt: skip
        magnitude = posenc.RotaryMagnitude(at=at)
        spec = posenc.RoPE(16, pairing="half", scaling=scaling, magnitude=magnitude)
        cos, sin = posenc.cos_sin(spec, 5, dtype="float64")
        assert_close(np.hypot(cos, sin), np.full(cos.shape, on_waves), 1e-14)
        assert abs(posenc.logit_scale(spec) - on_scores) < 1e-14
    scaling = posenc.scaling.YaRN(40, original_length=4096, mscale=0.707, mscale_all_dim=0.707)
    magnitude = posenc.RotaryMagnitude(logit_factor="scaling")
    spec = posenc.RoPE(16, pairing="half", scaling=scaling, magnitude=magnitude)
    assert abs(posenc.logit_scale(spec) - (0.0707 * np.log(40) + 1) ** 2) < 1e-14
