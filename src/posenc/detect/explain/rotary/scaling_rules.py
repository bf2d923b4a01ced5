"""The scaling that a dictionary of rotary parameters asks for, key by key.

Each rule names the keys it reads. What stands beside them is reported: a key that nobody knows is
an error, as it may change every angle; a key of another rule is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from posenc import scaling
from posenc._core.annotations import show
from posenc._core.errors import suggest
from posenc.detect.explain.config.view import (
    ATTENTION_KEYS,
    ORIGINAL_KEYS,
    SHARE,
    THETA_KEYS,
    Keys,
    Notes,
    UnsettledError,
    noted,
    unsettled_if,
)
from posenc.presets.families import meanings

TYPE_KEYS = ("rope_type", "type")
MSCALES = ("mscale", "mscale_all_dim")
SECTION_KEYS = ("mrope_section", "xdrope_section", "mrope_interleaved")

# Other people's words for the rules.
TYPES = {
    "default": "default",
    "none": "default",
    "axial": "default",
    "mrope": "default",
    "linear": "linear",
    "dynamic": "dynamic",
    "dynamic_ntk": "dynamic",
    "ntk": "ntk",
    "ntk_alpha": "ntk",
    "yarn": "yarn",
    "deepseek_yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
    "llama3": "llama3",
    "proportional": "proportional",
}

# Keys without a meaning for angles.
SILENT = ("finetuned", "max_position_embeddings")


class Lengths(NamedTuple):
    """What the config says of lengths outside its rotary parameters."""

    trained: int | None
    trained_key: str
    original: int | None
    original_key: str


class Asked(NamedTuple):
    """What the parameters ask for."""

    scaling: tuple[scaling.Scaling, ...] = ()
    attention_factor: float | None = None


@noted
def rope_type(params: Keys, notes: Notes) -> str:  # noqa: ARG001
    """The rule by its canonical name; None, with an error, where it is unknown."""
    named = {params.where(key): params.get(key) for key in TYPE_KEYS if key in params}
    words = [str(value).lower().replace("-", "_") for value in named.values()]
    # transformers 5 adds `rope_type: default` to the `type: mrope` of a file.
    stated = " and ".join(f"{where}={show(value, 40)}" for where, value in named.items())
    unsettled_if(
        len({TYPES.get(word, str(v)) for word, v in zip(words, named.values(), strict=True)}) > 1,
        f"{stated} contradict each other",
    )
    for word, (where, value) in zip(words, named.items(), strict=True):
        if word not in TYPES:
            known = suggest(str(value), TYPES)
            raise UnsettledError(
                f"{where}={show(str(value), 40)} is no known rule of scaling. {known}"
            )
    return TYPES[words[0]] if words else "default"


def read_scaling(params: Keys, rule: str, lengths: Lengths, pairs: int, notes: Notes) -> Asked:
    """The scalings of `rule`, with notes on every key."""
    wrong = params.wrong(sorted(READ[rule] - NO_NUMBERS))  # which is not left out
    unsettled_if(wrong is not None, f"{wrong} is not a number")
    asked = RULES[rule](params, notes, lengths, pairs)
    for key, value in params.data.items():
        if key in params.read or key in SILENT or value is None:
            continue
        stated, meaning = (
            f"{params.where(key)}={show(value, 40)}",
            meanings(in_rope_parameters=True),
        )
        if key in KNOWN:
            notes.warning(f"{stated} is not used: it has no meaning for the rule {rule!r}")
        elif key in meaning:
            notes.error(f"{stated} is not understood: {meaning[key]}")
        else:
            todo = suggest(key, KNOWN) if isinstance(key, str) else ""
            notes.error(f"{stated} is not understood. {todo}")
    return asked


def attention_of(
    params: Keys, factor: float | None, fields: dict[str, Any], notes: Notes
) -> float | None:
    """The attention factor if it is given; else `mscale` and `mscale_all_dim` as fields."""
    given = params.first(ATTENTION_KEYS)
    m, all_dim = map(params.number, MSCALES)
    if m and all_dim:
        fields |= {name: number_of(params, name, f"scaling.{name}", notes) for name in MSCALES}
    elif m not in (None, 1, 0) or all_dim:
        only, other = MSCALES if m else MSCALES[::-1]
        notes.warning(
            f"{params.where(only)} stands without {other}: transformers ignores it, other code "
            "does not"
        )
    if given is None:
        return None
    key, value = given
    notes.source("magnitude.attention_factor", params.origin(key), params.where(key))
    asked = (
        yarn_magnitude(m, factor) / yarn_magnitude(all_dim, factor)
        if m and all_dim and factor
        else value
    )
    if not math.isclose(asked, value, rel_tol=1e-6):
        notes.warning(
            f"{params.where(key)}={value:g} is used, although mscale and mscale_all_dim ask for "
            f"{asked:.6g}"
        )
    return float(value)


def yarn_magnitude(k: float, factor: float) -> float:
    """YaRN's factor on cosines and sines, under a factor from 1 on."""
    return 0.1 * k * math.log(factor) + 1.0


@noted
def factor_list(params: Keys, key: str, pairs: int, notes: Notes) -> tuple[float, ...] | None:
    """A list with a factor for each pair; None, with an error, where it is none."""
    values, where = params.get(key), params.where(key)
    unsettled_if(values is None, f"{where} is missing")
    unsettled_if(
        not isinstance(values, list)
        or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values),
        f"{where} is not a list of numbers",
    )
    unsettled_if(
        len(values) != pairs,
        f"{where} has {len(values)} numbers and needs {pairs}, one for each pair that turns",
    )
    notes.source(f"scaling.{key.removesuffix('_factor')}", "config", where)
    return tuple(map(float, values))


def number_of(params: Keys, key: str, field: str, notes: Notes) -> float | None:
    """A number of the rotary parameters, noted as the source of a field."""
    if (value := params.number(key)) is not None:
        notes.source(field, params.origin(key), params.where(key))
    return None if value is None else float(value)


def factor_by_lengths(original: int | None, lengths: Lengths, notes: Notes) -> float | None:
    """The factor that reaches the length that the config claims, if both lengths are known."""
    if not original or lengths.trained is None:
        return None
    notes.source("scaling.factor", "config", f"{lengths.trained_key} / original length")
    return lengths.trained / original


@noted
def factor_of(
    params: Keys,
    notes: Notes,
    *,
    original: int | None = None,
    lengths: Lengths | None = None,
) -> float | None:
    """The factor of an extension; by the lengths where it is left out, if they are given."""
    where, factor = params.where("factor"), params.number("factor")
    if factor is None and lengths is not None:
        factor = factor_by_lengths(original, lengths, notes)
    elif factor is not None:
        notes.source("scaling.factor", params.origin("factor"), where)
    if factor is None:
        raise UnsettledError(f"{where} is missing")
    faster = f": a Ladder(first={1 / factor:g}) turns that much faster" if factor > 0 else ""
    unsettled_if(
        factor < 1, f"{where}={factor:g} is below 1: a scaling extends, it never shortens{faster}"
    )
    return float(factor)


@noted
def original_length(params: Keys, lengths: Lengths, notes: Notes) -> int | None:
    """The length of training before the extension."""
    where, inner = params.where(ORIGINAL_KEYS[0]), params.integer(ORIGINAL_KEYS[0])
    outer = lengths.original
    unsettled_if(
        inner is not None and outer not in (None, inner),
        f"{where}={inner} and {lengths.original_key}={outer} contradict each other",
    )
    value = inner if inner is not None else outer
    if value is None:
        instead = (
            f" (transformers takes {lengths.trained_key}={lengths.trained} in its place, which"
            " is right only if that is the length before the extension)"
        )
        raise UnsettledError(
            f"{where} is missing: the length of training before the extension"
            f"{'' if lengths.trained is None else instead}"
        )
    unsettled_if(value < 1, f"{where}={value} is no length")
    notes.source(
        "scaling.original_length",
        params.origin(ORIGINAL_KEYS[0]),
        where if inner is not None else lengths.original_key,
    )
    return value


def compare_lengths(
    params: Keys, factor: float, original: int, lengths: Lengths, notes: Notes
) -> None:
    """Whether the factor reaches the length that the config claims."""
    if lengths.trained is None or lengths.trained == original:
        return
    reach = lengths.trained / original
    told = (
        f"{params.where('factor')}={factor:g}, while {lengths.trained_key}={lengths.trained} is "
        f"{reach:g} times the original length {original}"
    )
    if reach > factor * (1 + 1e-9):
        notes.contradiction(
            f"{told}: contradiction, the extension does not reach that length. transformers warns, "
            'and uses the factor: on_error="report" returns that plan; a factor of '
            f"{reach:g}, or {lengths.trained_key}={math.floor(original * factor)}, settles it"
        )
    elif reach < factor * (1 - 1e-9):
        notes.warning(f"{told}; the factor is used")


# --- the rules ------------------------------------------------------------------------------------


def _linear(params: Keys, notes: Notes, *_: Any) -> Asked:
    factor = factor_of(params, notes)
    return Asked(() if factor is None else (scaling.Linear(factor),))


def _dynamic(params: Keys, notes: Notes, lengths: Lengths, *_: Any) -> Asked:
    if (alpha := number_of(params, "alpha", "scaling.factor", notes)) is not None:
        for key in ("factor", "beta_fast", "beta_slow", *MSCALES):
            params.get(key)  # files with a fixed alpha carry them without a meaning
        return Asked((scaling.NTK(alpha),))
    factor = factor_of(params, notes)
    if lengths.trained is None:
        notes.error(f"{lengths.trained_key} is missing: dynamic scaling starts from it")
        return Asked()
    if (original := params.integer(ORIGINAL_KEYS[0])) not in (None, lengths.trained):
        notes.warning(
            f"{params.where(ORIGINAL_KEYS[0])}={original} is not used: dynamic scaling in "
            f"transformers starts from {lengths.trained_key}={lengths.trained}"
        )
    if factor is None:
        return Asked()
    notes.source("scaling.original_length", "config", lengths.trained_key)
    return Asked((scaling.DynamicNTK(factor, original_length=lengths.trained),))


def _ntk(params: Keys, notes: Notes, *_: Any) -> Asked:
    key = "factor" if params.number("alpha") is None else "alpha"
    if (factor := number_of(params, key, "scaling.factor", notes)) is None:
        notes.error(f"{params.where('factor')} is missing")
    return Asked(() if factor is None else (scaling.NTK(factor),))


def _proportional(params: Keys, notes: Notes, *_: Any) -> Asked:
    if (fraction := number_of(params, SHARE, "scaling.fraction", notes)) is None:
        notes.warning(
            f"{params.where(SHARE)} is missing: every pair turns, and the rule does nothing"
        )
    first = scaling.Proportional(1.0 if fraction is None else fraction)
    factor = params.number("factor")
    return Asked((first,) if factor in (None, 1) else (first, scaling.Linear(float(factor or 1))))


def _yarn(params: Keys, notes: Notes, lengths: Lengths, *_: Any) -> Asked:
    original = original_length(params, lengths, notes)
    factor = factor_of(params, notes, original=original, lengths=lengths)
    fields: dict[str, Any] = {}
    for key in ("beta_fast", "beta_slow"):
        if params.number(key):
            fields[key] = number_of(params, key, f"scaling.{key}", notes)
        else:
            notes.source(f"scaling.{key}", "format", key)
    truncate = params.get("truncate")
    # A null that is stated is false, as for code that asks for its truth.
    left_out = "truncate" not in {**params.data, **params.defaults}
    fields["rounding"] = "outward" if truncate or left_out else "none"
    notes.source(
        "scaling.rounding",
        "format" if left_out else params.origin("truncate"),
        "truncate" if left_out else params.where("truncate"),
    )
    attention = attention_of(params, factor, fields, notes)
    if factor is None or original is None:
        return Asked()
    compare_lengths(params, factor, original, lengths, notes)
    return Asked((scaling.YaRN(factor, original_length=original, **fields),), attention)


def _llama3(params: Keys, notes: Notes, lengths: Lengths, *_: Any) -> Asked:
    original = original_length(params, lengths, notes)
    factor = factor_of(params, notes)
    bounds: dict[str, Any] = {}
    for key in ("low_freq_factor", "high_freq_factor"):
        bounds[key] = number_of(params, key, f"scaling.{key}", notes)
        if bounds[key] is None:
            notes.error(f"{params.where(key)} is missing")
    if factor is None or original is None or None in bounds.values():
        return Asked()
    return Asked((scaling.Llama3(factor, original_length=original, **bounds),))


def _longrope(params: Keys, notes: Notes, lengths: Lengths, pairs: int) -> Asked:
    original = original_length(params, lengths, notes)
    short, long = (factor_list(params, f"{k}_factor", pairs, notes) for k in ("short", "long"))
    if (factor := number_of(params, "factor", "scaling.factor", notes)) is None:
        factor = factor_by_lengths(original, lengths, notes)
    if factor is None:
        notes.error(f"{params.where('factor')} is missing, and no length says what it is")
    pairs_of = (("short_mscale", "short_factor"), ("long_mscale", "long_factor"))
    magnitudes: dict[str, Any] = {
        field: value
        for key, field in pairs_of
        if (value := number_of(params, key, f"scaling.{field}", notes)) is not None
    }
    if (attention := params.first(ATTENTION_KEYS)) is not None:
        notes.source("magnitude.attention_factor", "config", params.where(attention[0]))
    if original is None or factor is None or short is None or long is None:
        return Asked()
    made = scaling.LongRoPE(
        short, long, original_length=original, factor=max(1.0, float(factor)), **magnitudes
    )
    notes.remark(
        f"two sets of frequencies, one up to {original} positions and one beyond: the length is an "
        "argument of every verb"
    )
    return Asked((made,), None if attention is None else float(attention[1]))


RULES: dict[str, Callable[..., Asked]] = {
    # Files of older versions keep a dictionary whose factor nobody uses.
    "default": lambda *_: Asked(),
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}

# The keys that each rule reads, of its dictionary; and those of them whose values are others.
NO_NUMBERS = frozenset({"truncate", "short_factor", "long_factor"})
PLAIN = frozenset({*THETA_KEYS, SHARE})
READ: dict[str, frozenset[str]] = {
    "default": PLAIN,
    "linear": PLAIN | {"factor"},
    "dynamic": PLAIN | {"factor", "alpha"},
    "ntk": PLAIN | {"factor", "alpha"},
    "yarn": PLAIN
    | {*ORIGINAL_KEYS, *ATTENTION_KEYS, "factor", "beta_fast", "beta_slow", "truncate", *MSCALES},
    "longrope": PLAIN
    | {*ORIGINAL_KEYS, *ATTENTION_KEYS, "factor", "short_factor", "long_factor"}
    | {"short_mscale", "long_mscale"},
    "llama3": PLAIN | {*ORIGINAL_KEYS, "factor", "low_freq_factor", "high_freq_factor"},
    "proportional": PLAIN | {"factor"},
}
KNOWN = frozenset({*TYPE_KEYS, *SECTION_KEYS}.union(*READ.values()))
