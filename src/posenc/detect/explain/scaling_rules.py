"""The scaling that a dictionary of rotary parameters asks for, key by key.

Each rule names the keys it reads. What stands beside them is reported: a key that nobody knows is
an error, as it may change every angle; a key of another rule is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from posenc._core.errors import suggest
from posenc.detect.explain.config_view import Keys
from posenc.detect.explain.notes import Notes
from posenc.scaling.base import Scaling

__all__ = ["READ", "Asked", "Lengths", "read_scaling", "rope_type"]

TYPE_KEYS = ("rope_type", "type")
THETA_KEYS = ("rope_theta", "theta", "base")
FRACTION_KEYS = ("partial_rotary_factor",)
ORIGINAL_KEYS = ("original_max_position_embeddings",)
ATTENTION_KEYS = ("attention_factor", "attn_factor")
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

# Keys of Fourier position embedding, and why no plan says it.
SERIES = ("use_fope", "fope_init_factor", "fope_sep_head", "num_inv_freq")
WAVES = (
    "each pair turns by a series of waves, whose weights are in the checkpoint, and more pairs do "
    "than the half that FoPE turns"
)
# Keys without a meaning for angles.
SILENT = ("finetuned", "max_position_embeddings")


class Lengths(NamedTuple):
    """What the config says of lengths outside its rotary parameters."""

    trained: int | None
    trained_key: str
    original: int | None
    original_key: str


class Case(NamedTuple):
    """What a rule sees."""

    params: Keys
    lengths: Lengths
    pairs: int
    notes: Notes


class Asked(NamedTuple):
    """What the parameters ask for."""

    scaling: tuple[Scaling, ...]
    attention_factor: float | None
    whole_head: (
        bool  # whether the partial factor is the rule's own, on the ladder of the whole head
    )


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
    """The scalings of `rule`, with notes on every key.

    Parameters
    ----------
    params : Keys
        The rotary parameters.
    rule : str
        A canonical name.
    lengths : Lengths
        What the rest of the config says.
    pairs : int
        Pairs of the rotation, which lists of factors must match.
    notes : Notes
        Where remarks go.
    """
    asked = RULES[rule](Case(params, lengths, pairs, notes))
    _report_unread(params, rule, notes)
    return asked


def _report_unread(params: Keys, rule: str, notes: Notes) -> None:
    for key, value in params.data.items():
        if key in params.read or key in SILENT or value is None:
            continue
        where = params.where(key)
        if key in KNOWN:
            notes.warning(f"{where}={_brief(value)} has no meaning for the rule {rule!r}: not used")
        elif isinstance(key, str) and key in SERIES:
            notes.error(f"{where}={_brief(value)} is not understood: {WAVES}")
        else:
            todo = suggest(key, KNOWN) if isinstance(key, str) else ""
            notes.error(f"{where}={_brief(value)} is not understood. {todo}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else text[:37] + "..."


# --- the rules ------------------------------------------------------------------------------------


def _default(case: Case) -> Asked:  # noqa: ARG001
    # Files of older versions keep a dictionary whose factor nobody uses.
    return Asked((), None, False)


def _linear(case: Case) -> Asked:
    from posenc.scaling import Linear

    params, notes = case.params, case.notes
    factor = _factor(params, notes)
    return Asked(() if factor is None else (Linear(factor),), None, False)


def _dynamic(case: Case) -> Asked:
    from posenc.scaling import NTK, DynamicNTK

    params, lengths, notes = case.params, case.lengths, case.notes
    alpha = params.number("alpha")
    if alpha is not None:
        for key in ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            params.get(key)  # files with a fixed alpha carry them without a meaning
        notes.source("scaling.factor", params.origin("alpha"), params.where("alpha"))
        return Asked((NTK(float(alpha)),), None, False)
    factor = _factor(params, notes)
    if lengths.trained is None:
        notes.error(f"{lengths.trained_key} is missing: dynamic scaling starts from it")
        return Asked((), None, False)
    original = params.integer("original_max_position_embeddings")
    if original not in (None, lengths.trained):
        key = params.where("original_max_position_embeddings")
        told = f"{key}={original} and {lengths.trained_key}={lengths.trained}"
        notes.warning(f"{told} differ; dynamic scaling starts from the latter in transformers")
    if factor is None:
        return Asked((), None, False)
    notes.source("scaling.original_length", "config", lengths.trained_key)
    return Asked((DynamicNTK(factor, original_length=lengths.trained),), None, False)


def _ntk(case: Case) -> Asked:
    from posenc.scaling import NTK

    params, notes = case.params, case.notes
    found = params.first(("alpha", "factor"))
    if found is None:
        notes.error(f"{params.where('factor')} is missing")
        return Asked((), None, False)
    notes.source("scaling.factor", params.origin(found[0]), params.where(found[0]))
    return Asked((NTK(float(found[1])),), None, False)


def _proportional(case: Case) -> Asked:
    from posenc.scaling import Linear, Proportional

    params, notes = case.params, case.notes
    fraction = params.number("partial_rotary_factor")
    if fraction is None:
        fraction = 1.0
        key = params.where("partial_rotary_factor")
        notes.warning(f"{key} is missing: every pair turns, and the rule does nothing")
    else:
        notes.source(
            "scaling.fraction",
            params.origin("partial_rotary_factor"),
            params.where("partial_rotary_factor"),
        )
    made: tuple[Scaling, ...] = (Proportional(float(fraction)),)
    factor = params.number("factor")
    if factor not in (None, 1):
        made += (Linear(float(factor or 1)),)
    return Asked(made, None, True)


def _yarn(case: Case) -> Asked:
    from posenc.scaling import YaRN

    params, lengths, notes = case.params, case.lengths, case.notes
    original = _original(params, lengths, notes)
    factor = _factor(params, notes, original=original, lengths=lengths)
    fields: dict[str, Any] = {}
    for key in ("beta_fast", "beta_slow"):
        value = params.number(key)
        if value:
            fields[key] = float(value)
            notes.source(f"scaling.{key}", params.origin(key), params.where(key))
        else:
            notes.source(f"scaling.{key}", "format", key)
    truncate = params.get("truncate")
    # A null that is stated is false, as for code that asks for its truth.
    left_out = "truncate" not in {**params.data, **params.defaults}
    fields["rounding"] = "outward" if truncate or left_out else "none"
    if left_out:
        notes.source("scaling.rounding", "format", "truncate")
    else:
        notes.source("scaling.rounding", params.origin("truncate"), params.where("truncate"))
    attention = _attention(params, factor, fields, notes)
    if factor is None or original is None:
        return Asked((), None, False)
    _compare_lengths(params, factor, original, lengths, notes)
    return Asked((YaRN(factor, original_length=original, **fields),), attention, False)


def _attention(
    params: Keys, factor: float | None, fields: dict[str, Any], notes: Notes
) -> float | None:
    """The attention factor if it is given; else `mscale` and `mscale_all_dim` as fields."""
    given = params.first(ATTENTION_KEYS)
    m, all_dim = params.number("mscale"), params.number("mscale_all_dim")
    if m and all_dim:
        fields["mscale"], fields["mscale_all_dim"] = float(m), float(all_dim)
        notes.source("scaling.mscale", params.origin("mscale"), params.where("mscale"))
        notes.source(
            "scaling.mscale_all_dim",
            params.origin("mscale_all_dim"),
            params.where("mscale_all_dim"),
        )
    elif m not in (None, 1, 0) or all_dim:
        only, other = ("mscale", "mscale_all_dim") if m else ("mscale_all_dim", "mscale")
        told = f"{params.where(only)} stands without {other}"
        notes.warning(f"{told}: transformers ignores it, other code does not")
    if given is None:
        return None
    key, value = given
    notes.source("magnitude.attention_factor", params.origin(key), params.where(key))
    if m and all_dim and factor:

        def size(k: float) -> float:
            return 0.1 * k * math.log(factor) + 1 if factor > 1 else 1.0

        if not math.isclose(size(m) / size(all_dim), value, rel_tol=1e-6):
            told = f"{params.where(key)}={value:g}, while mscale and mscale_all_dim ask for"
            notes.warning(f"{told} {size(m) / size(all_dim):.6g}; the former is used")
    return float(value)


def _llama3(case: Case) -> Asked:
    from posenc.scaling import Llama3

    params, lengths, notes = case.params, case.lengths, case.notes
    original = _original(params, lengths, notes)
    factor = _factor(params, notes)
    bounds = {}
    for key in ("low_freq_factor", "high_freq_factor"):
        value = params.number(key)
        if value is None:
            notes.error(f"{params.where(key)} is missing")
            continue
        bounds[key] = float(value)
        notes.source(f"scaling.{key}", params.origin(key), params.where(key))
    if factor is None or original is None or len(bounds) < 2:
        return Asked((), None, False)
    return Asked((Llama3(factor, original_length=original, **bounds),), None, False)


def _longrope(case: Case) -> Asked:
    from posenc.scaling import LongRoPE

    params, lengths, pairs, notes = case.params, case.lengths, case.pairs, case.notes
    original = _original(params, lengths, notes)
    lists = [_factors(params, key, pairs, notes) for key in ("short_factor", "long_factor")]
    factor = params.number("factor")
    if factor is not None:
        notes.source("scaling.factor", params.origin("factor"), params.where("factor"))
    elif original is not None and lengths.trained is not None:
        factor = lengths.trained / original
        notes.source("scaling.factor", "config", f"{lengths.trained_key} / original length")
    else:
        notes.error(f"{params.where('factor')} is missing, and so is a length to find it from")
    magnitudes: dict[str, Any] = {}
    for key, field in (("short_mscale", "short_factor"), ("long_mscale", "long_factor")):
        value = params.number(key)
        if value is not None:
            magnitudes[field] = float(value)
            notes.source(f"scaling.{field}", params.origin(key), params.where(key))
    attention = params.first(ATTENTION_KEYS)
    if attention is not None:
        notes.source("magnitude.attention_factor", "config", params.where(attention[0]))
    short, long = lists
    if original is None or factor is None or short is None or long is None:
        return Asked((), None, False)
    made = LongRoPE(
        short, long, original_length=original, factor=max(1.0, float(factor)), **magnitudes
    )
    notes.remark(
        f"two sets of frequencies, one up to {original} positions and one beyond: the length is an "
        "argument of every verb"
    )
    return Asked((made,), None if attention is None else float(attention[1]), False)


def _factors(params: Keys, key: str, pairs: int, notes: Notes) -> tuple[float, ...] | None:
    values = params.get(key)
    where = params.where(key)
    if values is None:
        notes.error(f"{where} is missing")
        return None
    numbers = isinstance(values, list) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in values
    )
    if not numbers:
        notes.error(f"{where} is not a list of numbers")
        return None
    if len(values) != pairs:
        notes.error(f"{where} has {len(values)} numbers, and {pairs} pairs turn")
        return None
    notes.source(f"scaling.{key.removesuffix('_factor')}", "config", where)
    return tuple(map(float, values))


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
        *FRACTION_KEYS,
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
PLAIN = frozenset({*THETA_KEYS, *FRACTION_KEYS})
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


# --- fields that several rules share --------------------------------------------------------------


def _factor(
    params: Keys,
    notes: Notes,
    *,
    original: int | None = None,
    lengths: Lengths | None = None,
) -> float | None:
    where = params.where("factor")
    factor = params.number("factor")
    if factor is None and params.data.get("factor") is not None:
        notes.error(f"{where}={_brief(params.data['factor'])} is not a number")
        return None
    if factor is None and original and lengths is not None and lengths.trained is not None:
        factor = lengths.trained / original
        notes.source("scaling.factor", "config", f"{lengths.trained_key} / original length")
    elif factor is None:
        notes.error(f"{where} is missing")
        return None
    else:
        notes.source("scaling.factor", params.origin("factor"), where)
    if factor < 1:
        faster = f": a Ladder(first={1 / factor:g}) turns that much faster" if factor > 0 else ""
        notes.error(f"{where}={factor:g} is below 1: a scaling extends, it never shortens{faster}")
        return None
    return float(factor)


def _original(params: Keys, lengths: Lengths, notes: Notes) -> int | None:
    """The length of training before the extension."""
    where = params.where(ORIGINAL_KEYS[0])
    inner = params.integer(ORIGINAL_KEYS[0])
    outer = lengths.original
    if inner is not None and outer is not None and inner != outer:
        told = f"{where}={inner} and {lengths.original_key}={outer}"
        notes.error(f"{told} contradict each other")
        return None
    value = inner if inner is not None else outer
    if value is None:
        told = f"{where} is missing: the length of training before the extension"
        if lengths.trained is not None:
            told += (
                f" (transformers takes {lengths.trained_key}={lengths.trained} in its place, which"
                " is right only if that is the length before the extension)"
            )
        notes.error(told)
        return None
    if value < 1:
        notes.error(f"{where}={value} is no length")
        return None
    key = where if inner is not None else lengths.original_key
    notes.source("scaling.original_length", params.origin(ORIGINAL_KEYS[0]), key)
    return value


def _compare_lengths(
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
