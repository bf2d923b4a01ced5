"""The scaling that a dictionary of rotary parameters asks for, key by key.

Each rule names the keys it reads. What stands beside them is reported: a key that nobody knows is
an error, as it may change every angle; a key of another rule is a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from posenc._core.errors import suggest
from posenc.detect.explain.config.view import Keys, Notes
from posenc.detect.explain.rotary.scaling_fields import (
    Lengths,
    attention_of,
    compare_lengths,
    factor_by_lengths,
    factor_list,
    factor_of,
    number_of,
    original_length,
    shortened,
)
from posenc.detect.explain.spellings import ATTENTION_KEYS, ORIGINAL_KEYS, SHARE, THETA_KEYS
from posenc.presets.families import meanings
from posenc.scaling.base import Scaling

TYPE_KEYS = ("rope_type", "type")
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


class Case(NamedTuple):
    """What a rule sees."""

    params: Keys
    lengths: Lengths
    pairs: int
    notes: Notes


class Asked(NamedTuple):
    """What the parameters ask for."""

    scaling: tuple[Scaling, ...] = ()
    attention_factor: float | None = None


def rope_type(params: Keys, notes: Notes) -> str | None:
    """The rule by its canonical name; None, with an error, where it is unknown."""
    named = {key: params.get(key) for key in TYPE_KEYS if key in params}
    values = {str(value) for value in named.values()}
    # transformers 5 adds `rope_type: default` to the `type: mrope` of a file.
    if len({TYPES.get(_word(value), value) for value in values}) > 1:
        told = " and ".join(f"{params.where(key)}={value!r}" for key, value in named.items())
        notes.error(f"{told} contradict each other")
        return None
    if not values:
        return "default"
    word = values.pop()
    if _word(word) not in TYPES:
        key = params.where(next(iter(named)))
        notes.error(f"{key}={word!r} is no rule of scaling that is known. {suggest(word, TYPES)}")
        return None
    return TYPES[_word(word)]


def _word(text: str) -> str:
    return text.lower().replace("-", "_")


def read_scaling(params: Keys, rule: str, lengths: Lengths, pairs: int, notes: Notes) -> Asked:
    """The scalings of `rule`, with notes on every key."""
    asked = RULES[rule](Case(params, lengths, pairs, notes))
    _report_unread(params, rule, notes)
    return asked


def _report_unread(params: Keys, rule: str, notes: Notes) -> None:
    for key, value in params.data.items():
        if key in params.read or key in SILENT or value is None:
            continue
        where = params.where(key)
        if key in KNOWN:
            notes.warning(
                f"{where}={shortened(value)} has no meaning for the rule {rule!r}: not used"
            )
        elif key in meanings(in_rope_parameters=True):
            means = meanings(in_rope_parameters=True)[key]
            notes.error(f"{where}={shortened(value)} is not understood: {means}")
        else:
            todo = suggest(key, KNOWN) if isinstance(key, str) else ""
            notes.error(f"{where}={shortened(value)} is not understood. {todo}")


# --- the rules ------------------------------------------------------------------------------------


def _default(case: Case) -> Asked:  # noqa: ARG001
    # Files of older versions keep a dictionary whose factor nobody uses.
    return Asked()


def _linear(case: Case) -> Asked:
    from posenc.scaling import Linear

    params, notes = case.params, case.notes
    factor = factor_of(params, notes)
    return Asked(() if factor is None else (Linear(factor),))


def _dynamic(case: Case) -> Asked:
    from posenc.scaling import NTK, DynamicNTK

    params, lengths, notes = case.params, case.lengths, case.notes
    alpha = number_of(params, "alpha", "scaling.factor", notes)
    if alpha is not None:
        for key in ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            params.get(key)  # files with a fixed alpha carry them without a meaning
        return Asked((NTK(alpha),))
    factor = factor_of(params, notes)
    if lengths.trained is None:
        notes.error(f"{lengths.trained_key} is missing: dynamic scaling starts from it")
        return Asked()
    original = params.integer("original_max_position_embeddings")
    if original not in (None, lengths.trained):
        key = params.where("original_max_position_embeddings")
        told = f"{key}={original} and {lengths.trained_key}={lengths.trained}"
        notes.warning(f"{told} differ; dynamic scaling starts from the latter in transformers")
    if factor is None:
        return Asked()
    notes.source("scaling.original_length", "config", lengths.trained_key)
    return Asked((DynamicNTK(factor, original_length=lengths.trained),))


def _ntk(case: Case) -> Asked:
    from posenc.scaling import NTK

    params, notes = case.params, case.notes
    key = "factor" if params.number("alpha") is None else "alpha"
    factor = number_of(params, key, "scaling.factor", notes)
    if factor is None:
        notes.error(f"{params.where('factor')} is missing")
        return Asked()
    return Asked((NTK(factor),))


def _proportional(case: Case) -> Asked:
    from posenc.scaling import Linear, Proportional

    params, notes = case.params, case.notes
    fraction = number_of(params, "partial_rotary_factor", "scaling.fraction", notes)
    if fraction is None:
        key = params.where("partial_rotary_factor")
        notes.warning(f"{key} is missing: every pair turns, and the rule does nothing")
    first = Proportional(1.0 if fraction is None else fraction)
    factor = params.number("factor")
    return Asked((first,) if factor in (None, 1) else (first, Linear(float(factor or 1))))


def _yarn(case: Case) -> Asked:
    from posenc.scaling import YaRN

    params, lengths, notes = case.params, case.lengths, case.notes
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
    origin = "format" if left_out else params.origin("truncate")
    notes.source("scaling.rounding", origin, "truncate" if left_out else params.where("truncate"))
    attention = attention_of(params, factor, fields, notes)
    if factor is None or original is None:
        return Asked()
    compare_lengths(params, factor, original, lengths, notes)
    return Asked((YaRN(factor, original_length=original, **fields),), attention)


def _llama3(case: Case) -> Asked:
    from posenc.scaling import Llama3

    params, lengths, notes = case.params, case.lengths, case.notes
    original = original_length(params, lengths, notes)
    factor = factor_of(params, notes)
    bounds: dict[str, Any] = {}
    for key in ("low_freq_factor", "high_freq_factor"):
        bounds[key] = number_of(params, key, f"scaling.{key}", notes)
        if bounds[key] is None:
            notes.error(f"{params.where(key)} is missing")
    if factor is None or original is None or None in bounds.values():
        return Asked()
    return Asked((Llama3(factor, original_length=original, **bounds),))


def _longrope(case: Case) -> Asked:
    from posenc.scaling import LongRoPE

    params, lengths, pairs, notes = case.params, case.lengths, case.pairs, case.notes
    original = original_length(params, lengths, notes)
    short, long = (factor_list(params, f"{k}_factor", pairs, notes) for k in ("short", "long"))
    factor = number_of(params, "factor", "scaling.factor", notes)
    if factor is None:
        factor = factor_by_lengths(original, lengths, notes)
    if factor is None:
        notes.error(f"{params.where('factor')} is missing, and so is a length to find it from")
    pairs_of = (("short_mscale", "short_factor"), ("long_mscale", "long_factor"))
    stated = {f: number_of(params, key, f"scaling.{f}", notes) for key, f in pairs_of}
    magnitudes: dict[str, Any] = {f: value for f, value in stated.items() if value is not None}
    attention = params.first(ATTENTION_KEYS)
    if attention is not None:
        notes.source("magnitude.attention_factor", "config", params.where(attention[0]))
    if original is None or factor is None or short is None or long is None:
        return Asked()
    made = LongRoPE(
        short, long, original_length=original, factor=max(1.0, float(factor)), **magnitudes
    )
    notes.remark(
        f"two sets of frequencies, one up to {original} positions and one beyond: the length is an "
        "argument of every verb"
    )
    return Asked((made,), None if attention is None else float(attention[1]))


RULES: dict[str, Callable[[Case], Asked]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}

KNOWN = frozenset(
    {
        *TYPE_KEYS,
        *THETA_KEYS,
        SHARE,
        *ORIGINAL_KEYS,
        *ATTENTION_KEYS,
        *SECTION_KEYS,
        "alpha",
        "factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "low_freq_factor",
        "high_freq_factor",
        "short_factor",
        "long_factor",
        "short_mscale",
        "long_mscale",
    }
)

# The keys that each rule reads, of its dictionary.
PLAIN = frozenset({*THETA_KEYS, SHARE})
READ: dict[str, frozenset[str]] = {
    "default": PLAIN,
    "linear": PLAIN | {"factor"},
    "dynamic": PLAIN | {"factor", "alpha"},
    "ntk": PLAIN | {"factor", "alpha"},
    "yarn": PLAIN
    | {*ORIGINAL_KEYS, *ATTENTION_KEYS, "factor", "beta_fast", "beta_slow", "truncate"}
    | {"mscale", "mscale_all_dim"},
    "longrope": PLAIN
    | {*ORIGINAL_KEYS, *ATTENTION_KEYS, "factor", "short_factor", "long_factor"}
    | {"short_mscale", "long_mscale"},
    "llama3": PLAIN | {*ORIGINAL_KEYS, "factor", "low_freq_factor", "high_freq_factor"},
    "proportional": PLAIN | {"factor"},
}
