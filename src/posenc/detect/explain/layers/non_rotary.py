"""Entries that do not turn: tables, biases, relative encodings, convolutions, and none.

The rows of families say what keys of a config mean; `tools/rows` declares them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from posenc import presets, registry
from posenc._core.annotations import show
from posenc._core.errors import suggest
from posenc._core.positions.builder import Positions
from posenc._core.reading import Layer, Origin
from posenc._core.spec.spec import Spec
from posenc.detect.explain.config.view import (
    WIDEST,
    Keys,
    Notes,
    UnsettledError,
    is_length,
    is_number,
    noted,
    unsettled_if,
)

MOST_STAGES = 64  # of a pyramid; a list of more is no list of stages
MOST_LAYERS = 4096
WORD = re.compile(r"(?<![.\w])[A-Za-z_]{2,}\w*(?!\w|\()")  # of a key in an expression


def applies(keys: Keys, rule: Mapping[str, Any]) -> bool:
    """Whether a rule holds for this config: some families choose by their keys."""
    when = rule.get("when", ())
    return all(_holds(keys, one) for one in ([when] if isinstance(when, Mapping) else when))


def words(rule: Any) -> Iterator[str]:
    """Every word of a rule, keys of configs among them."""
    if isinstance(rule, str):
        yield rule
    elif isinstance(rule, (Mapping, list)):
        for value in rule.values() if isinstance(rule, Mapping) else rule:
            yield from words(value)


def _holds(keys: Keys, when: Mapping[str, Any]) -> bool:
    if (value := keys.get(when["key"])) is None:
        return bool(when.get("absent", False))
    if "contains" in when:
        parts = value.split("|") if isinstance(value, str) else value
        return isinstance(parts, list) and all(word in parts for word in when["contains"])
    if "excludes" in when:
        return isinstance(value, list) and when["excludes"] not in value
    return value not in when["none_of"] if "none_of" in when else value in when["one_of"]


def read_other(keys: Keys, rule: Mapping[str, Any], name: str, notes: Notes) -> list[Layer]:
    """The entries of a rule that is not rotary; none, with a note, where it cannot be said."""
    made: list[Layer] = []
    for stage, layers in _stages(keys, rule, notes):
        said = str(rule.get("name", "")).replace("{i}", str(stage))
        own = Notes(".".join(part for part in (name, said) if part) or "model", notes.notes)
        entry = _entry(keys, rule, stage, indices=layers, notes=own)
        made += [] if entry is None else [entry]
    return made


def _stages(
    keys: Keys, rule: Mapping[str, Any], notes: Notes
) -> list[tuple[int, tuple[int, ...] | None]]:
    """(number, layers) of each stage of a pyramid; one without layers for other models."""
    if "stages" not in rule:
        return [(0, _layers(keys, rule, notes))]
    depths = keys.get(rule["stages"])
    fits = (
        isinstance(depths, list)
        and 0 < len(depths) <= MOST_STAGES
        and all(type(depth) is int and 0 <= depth <= MOST_LAYERS for depth in depths)
    )
    if not fits:
        notes.error(f"{keys.where(rule['stages'])} is not a list of the layers of each stage")
        return []
    return [
        (stage, tuple(range(end - depth, end)))
        for stage, (depth, end) in enumerate(zip(depths, accumulate(depths), strict=True))
    ]


@noted
def _layers(keys: Keys, rule: Mapping[str, Any], notes: Notes) -> tuple[int, ...] | None:  # noqa: ARG001
    """The layers of a rule that holds for those in a list of the config, or for the others."""
    if "layers_called" in rule:
        return _called(keys, **rule["layers_called"])
    for word in ("layers_in", "layers_not_in"):
        if word not in rule:
            continue
        listed, count = keys.get(rule[word]), _number(keys, rule["layer_count"], None)
        if not isinstance(listed, list) or count is None or not 0 < count <= MOST_LAYERS:
            stated = " and ".join((rule[word], rule["layer_count"][0]))
            raise UnsettledError(
                f"{keys.where(rule[word])}: {stated} do not say which layers these are"
            )
        return tuple(i for i in range(count) if (i in listed) == (word == "layers_in"))
    return None


def _called(keys: Keys, *, key: str, word: str) -> tuple[int, ...]:
    """The layers that a list of the config, with a word for each, calls by a word."""
    words = keys.get(key)
    unsettled_if(
        not isinstance(words, list) or not 0 < len(words) <= MOST_LAYERS,
        f"{keys.where(key)} is not a list of a word for each layer",
    )
    return tuple(index for index, said in enumerate(words) if said == word)


@noted
def _entry(
    keys: Keys,
    rule: Mapping[str, Any],
    stage: int,
    *,
    indices: tuple[int, ...] | None,
    notes: Notes,
) -> Layer | None:
    if "refused_because" in rule:
        raise UnsettledError(str(rule["refused_because"]))
    if "unknown_because" in rule:
        # Of a part it is a warning: what is read of the other parts holds.
        (notes.warning if keys.path else notes.error)(f"unknown, because {rule['unknown_because']}")
        return None
    for source in rule.get("source", ()):
        notes.source("kind", "preset", source)
    if "no_positions" in rule:
        return Layer(notes.layer, indices=indices, sources=tuple(notes.sources))
    if "convolution" in rule:
        return Layer(
            notes.layer,
            convolution=_sentence(keys, rule["convolution"], stage),
            indices=indices,
            sources=tuple(notes.sources),
        )
    # Fields of a spec are constants, or numbers, words and lists of the config.
    spec = (
        _table(keys, rule, stage, notes)
        if "table" in rule
        else _built(filled(keys, rule["spec"], "", stage, notes))
    )
    length = _number(keys, rule["length"], stage) if "length" in rule else None
    scale = None
    try:
        scale = filled(keys, rule.get("scale"), "scale", stage, notes)
    except UnsettledError as error:
        notes.warning(f"what scores are multiplied by is unknown, because {error}")
    return Layer(
        notes.layer,
        spec=spec,
        indices=indices,
        length=length if is_length(length) else None,
        scale=scale,
        positions=positions_of(keys, rule, spec, notes, stage),
        sources=tuple(notes.sources),
    )


def positions_of(
    keys: Keys, rule: Mapping[str, Any], spec: Spec, notes: Notes, stage: int = 0
) -> Positions | None:
    """How a family makes the positions of an entry; None where its row does not know.

    A rule says so itself, in whole or in arguments beside those of its preset; a preset that says
    nothing counts every token from 0.
    """
    name = rule.get("rotary", rule.get("table"))
    preset = presets.row(name).positions if isinstance(name, str) else {}
    counts = name is not None and getattr(spec, "axes", ("position",)) == ("position",)
    usual: dict[str, Any] = {"builder": "arange"} if counts else {}
    if preset:
        usual = {"builder": preset["builder"], **preset["arguments"]}
    said, own = None, Notes()
    with contextlib.suppress(UnsettledError):
        said = filled(keys, rule.get("positions", {}), "positions", stage, own)
    if said is None or not (said or usual):
        return None
    notes.sources += [source for source in own.sources if "." in source.field]
    return Positions(**(said if "builder" in said else {**usual, **said}))


def _sentence(keys: Keys, texts: str | list[str], stage: int) -> str:
    """The first text whose words in braces are all numbers of the config."""
    for text in [texts] if isinstance(texts, str) else texts:
        words = [part.partition("}")[0] for part in text.split("{")[1:]]
        numbers = {word: _number(keys, [word], stage) for word in words}
        if None not in numbers.values():
            told = text
            for word, number in numbers.items():
                told = told.replace(f"{{{word}}}", str(number))
            return told
    raise UnsettledError(missing(keys, words))


def _table(keys: Keys, rule: Mapping[str, Any], stage: int, notes: Notes) -> Spec:
    """The preset of a rule at the width that the config states, with fields of the rule."""
    row = presets.row(rule["table"])
    if (width := _number(keys, rule["width"], stage)) is None:
        raise UnsettledError(missing(keys, rule["width"]))
    notes.source(row.size, keys.origin(rule["width"][0]), rule["width"][0])
    notes.source("convention", "preset", row.name)
    _check_sizes({row.size: width})
    template = presets.fill(row.spec, {row.size: width})
    return _built(
        {**template, **filled(keys, rule.get("fields", {}), "", stage, notes), row.size: width}
    )


def _built(filled: Mapping[str, Any]) -> Spec:
    _check_sizes(filled)
    spec = registry.from_json(json.dumps(filled))
    if not isinstance(spec, Spec):
        raise UnsettledError(f"{filled['type']} is no encoding")
    return spec


def _check_sizes(filled: Mapping[str, Any]) -> None:
    """Raise for sizes whose constants would take minutes, or more memory than there is."""
    for field in ("dim", "heads", "count", "width"):
        unsettled_if(
            (size := filled.get(field, 0)) > WIDEST,
            f"{field}={size:g} is more than any model has ({WIDEST:,} at most)",
        )


# --- templates ------------------------------------------------------------------------------------


def filled(keys: Keys, template: Any, field: str, stage: int, notes: Notes) -> Any:
    """The template with what the config says in the places that name its keys."""
    if isinstance(template, list):
        return [filled(keys, item, field, stage, notes) for item in template]
    if not isinstance(template, Mapping):
        return template
    if "key" in template:
        return _of_key(keys, template, field, stage, notes)
    if "match" in template:
        return _by_word(keys, template, field, stage, notes)
    if "repeat" in template:
        value, times = (_number(keys, [template[key]], stage) for key in ("repeat", "times"))
        return [value] * (times or 0)
    if "dealt" in template:
        return _dealt(keys, **template)
    if "integers" in template or "numbers" in template:
        return _of_list(keys, template, field, notes)
    return {
        key: filled(keys, value, f"{field}.{key}" if field else key, stage, notes)
        for key, value in template.items()
    }


def _of_key(
    keys: Keys, template: Mapping[str, Any], field: str, stage: int, notes: Notes
) -> float | None:
    names = template["key"] if isinstance(template["key"], list) else [template["key"]]
    if (read := _evaluated(keys, names, stage)) is None and "default" not in template:
        raise UnsettledError(missing(keys, names))
    origin = "preset" if read is None else keys.origin(read[0])
    key = read[0] if read is not None and origin == "class" else names[0]
    notes.source(field, origin, f"{key} is absent" if read is None else keys.where(key))
    value: float | None = template["default"] if read is None else read[1]
    return value if value is None else value + template.get("add", 0)


def _by_word(keys: Keys, template: Mapping[str, Any], field: str, stage: int, notes: Notes) -> Any:
    """A field that a word, truth value or list of words of the config chooses."""
    key, cases = template["match"], template["cases"]
    value = keys.get(key)
    word, absent = _word(value), value is None and "absent" in template
    if not absent and word not in cases and "otherwise" not in template:
        known, stated = ", ".join(cases), f"{keys.where(key)}={show(value)}"
        if value is None:
            raise UnsettledError(f"{missing(keys, [key])}: it is one of {known}")
        raise UnsettledError(f"{stated} is none of {known}. {suggest(word, cases)}")
    chosen = template["absent"] if absent else cases.get(word, template.get("otherwise"))
    origin: Origin = "preset" if absent else "config"
    notes.source(field, origin, f"{key} is absent" if absent else keys.where(key))
    return filled(keys, chosen, field, stage, notes)


def _word(value: Any) -> str:
    """How a row spells a value; words of a list are sorted, with bars between them."""
    if isinstance(value, list) or (isinstance(value, str) and "|" in value):
        return "|".join(sorted(map(str, value.split("|") if isinstance(value, str) else value)))
    return value if isinstance(value, str) else json.dumps(value)


def _of_list(keys: Keys, template: Mapping[str, Any], field: str, notes: Notes) -> list[Any]:
    """A list of whole numbers, or of any: of a key, or of `part.key` in a dictionary."""
    kind, over = ("numbers", "integers")["integers" in template], template.get("over", 1)
    path = template[kind]
    value = functools.reduce(
        lambda part, key: part.get(key) if isinstance(part, Mapping) else None,
        path.split(".")[1:],
        keys.get(path.partition(".")[0]),
    )
    whole = kind == "integers"
    fits = isinstance(value, (list, tuple)) and all(
        is_number(item) and (not whole or (type(item) is int and item % over == 0))
        for item in value
    )
    adjective = "" if not whole else "whole " if over == 1 else "even "
    unsettled_if(not fits, f"{keys.where(path)} is not a list of {adjective}numbers")
    notes.source(field, keys.origin(path.partition(".")[0]), keys.where(path))
    return [item // over if whole else float(item) for item in value]


def _dealt(keys: Keys, *, dealt: str, axes: int, pairs: str) -> list[int]:
    """Axes, or rungs, of pairs that axes take in turn; those that are over stand still and lead."""
    count = _number(keys, [pairs], None) or 0
    taken = range(count - count % axes)
    rest = [0 if dealt == "axis" else -1] * (count % axes)
    return rest + [pair % axes if dealt == "axis" else pair // axes for pair in taken]


def missing(keys: Keys, expressions: Sequence[str]) -> str:
    """Why no expression has a value: what is missing, and what is spelled most like it."""
    words = {text: list(dict.fromkeys(WORD.findall(text))) for text in expressions}
    text = next((t for t in expressions if any(key in keys for key in words[t])), expressions[0])
    stated = {**keys.defaults, **keys.data}
    for key in words[text]:
        if (value := stated.get(key)) is None and key in stated:
            return f"{keys.where(key)} is null or no finite number"
        if value is None:
            others = [other for other in expressions if words[other] != words[text]]
            or_others = f" (or {', or '.join(others)})" if others else ""
            known = [name for name in keys.data if name not in words[text]]
            hints = [suggest(name, known) for name in (key, *others) if known]
            did = (hint for hint in hints[:3] if hint.startswith("Did"))
            return ". ".join([f"{keys.where(key)} is missing{or_others}", *did])
        if not is_number(value) and not isinstance(value, list | dict):
            return f"{keys.where(key)}={show(value)} is not a number"
    values = " and ".join(f"{keys.where(key)}={show(stated[key])}" for key in words[text])
    return f"{text} has no value with {values}"


def _number(keys: Keys, expressions: list[str], stage: int | None) -> int | None:
    found = _evaluated(keys, expressions, stage)
    return None if found is None else int(found[1])


def _evaluated(keys: Keys, expressions: list[str], stage: int | None) -> tuple[str, float] | None:
    """The first expression that has a value; two names of one quantity may not differ.

    What the config states goes before what its class takes for keys that it leaves out.
    """
    found = {t: value for t in expressions if (value := keys.stated(t, stage)) is not None}
    named = {text: value for text, value in found.items() if text.isidentifier()}
    told = " and ".join(f"{keys.where(text)}={value:g}" for text, value in named.items())
    unsettled_if(len(set(named.values())) > 1, f"{told} contradict each other")
    taken = ((t, value) for t in expressions if (value := keys.evaluate(t, stage)) is not None)
    return next(iter(found.items() if found else taken), None)
