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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import posenc
from posenc._core.json_classes import values_inside
from posenc._core.spec import Value
from posenc.registry import SPECS, VALUES, lookup
from tests.cases import CASES, Case, RotaryCase, ScoreCase

TESTS = Path(__file__).parent
Choice = tuple[str, str, Any]  # class, field, word

# (class, field, word, or None for all): the test of what rows do not show, and what that is.
ELSEWHERE: dict[tuple[str, str, Any], tuple[str, str]] = {}


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
    offered = {f.name: tuple(words_of(hints[f.name])) for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return {name: words for name, words in offered.items() if words}


CHOICES: tuple[Choice, ...] = tuple(
    (name, field, word)
    for name, cls in sorted(classes().items())
    for field, words in fields_of(cls).items()
    for word in words
)


# --- what rows tell apart -------------------------------------------------------------------------


def exchanged(value: Any) -> Iterator[tuple[Choice, Any, Any]]:
    """A choice in a spec, another word, and the spec with that word or why there is none."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            for choice, other, made in exchanged(item):
                yield choice, other, (*value[:index], made, *value[index + 1 :])
    if not isinstance(value, Value):
        return
    offered = fields_of(type(value))
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        word = getattr(value, field.name)
        for choice, other, made in exchanged(word):
            yield choice, other, attempt(value, field.name, made)
        if not isinstance(word, (Value, tuple)) and word in offered.get(field.name, ()):
            for other in offered[field.name]:
                if other != word:
                    choice = (type(value).__name__, field.name, word)
                    yield choice, other, attempt(value, field.name, other)


def attempt(value: Value, field: str, word: Any) -> Any:
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
        for choice, other, spec in exchanged(case.spec):
            if (choice, other) in pairs:
                continue
            plain = plain or numbers(case, case.spec)
            if isinstance(spec, Exception) or differs(case, plain, spec):
                pairs.add((choice, other))
    return pairs


def excuse(choice: Choice) -> tuple[str, str] | None:
    name, field, word = choice
    return ELSEWHERE.get(choice) or ELSEWHERE.get((name, field, None))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(map(str, choice)))
def test_every_choice_has_a_row_or_a_reason(choice: Choice) -> None:
    name, field, word = choice
    others = [other for other in fields_of(classes()[name])[field] if other != word]
    unseen = [other for other in others if (choice, other) not in noticed()]
    if excuse(choice) is None:
        assert not unseen, f"no row shows {name}({field}={word!r}) apart from {unseen}"


def test_no_reason_is_left_over() -> None:
    """A reason names a test that exists, and a choice that no row shows."""
    for key, (test, why) in ELSEWHERE.items():
        file, _, function = test.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert function in [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)], test
        assert why
        concerned = [c for c in CHOICES if c[:2] == key[:2] and key[2] in (None, c[2])]
        assert concerned, key
        shown = [
            all((c, o) in noticed() for o in fields_of(classes()[c[0]])[c[1]] if o != c[2])
            for c in concerned
        ]
        assert not all(shown), f"{key}: rows show it"
