"""Fields that several rules of scaling share: the factor, lengths, magnitudes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from posenc.detect.explain.config.view import Keys, Notes, UnsettledError, noted
from posenc.detect.explain.spellings import ATTENTION_KEYS, ORIGINAL_KEYS


class Lengths(NamedTuple):
    """What the config says of lengths outside its rotary parameters."""

    trained: int | None
    trained_key: str
    original: int | None
    original_key: str


def shortened(value: Any) -> str:
    """A value in at most 40 characters."""
    text = repr(value)
    return text if len(text) < 40 else text[:37] + "..."


def attention_of(
    params: Keys, factor: float | None, fields: dict[str, Any], notes: Notes
) -> float | None:
    """The attention factor if it is given; else `mscale` and `mscale_all_dim` as fields."""
    given = params.first(ATTENTION_KEYS)
    m, all_dim = params.number("mscale"), params.number("mscale_all_dim")
    if m and all_dim:
        for name in ("mscale", "mscale_all_dim"):
            fields[name] = number_of(params, name, f"scaling.{name}", notes)
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


@noted
def factor_list(params: Keys, key: str, pairs: int, notes: Notes) -> tuple[float, ...] | None:
    """A list with a factor for each pair; None, with an error, where it is none."""
    values = params.get(key)
    where = params.where(key)
    if values is None:
        raise UnsettledError(f"{where} is missing")
    numbers = isinstance(values, list) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in values
    )
    if not numbers:
        raise UnsettledError(f"{where} is not a list of numbers")
    if len(values) != pairs:
        raise UnsettledError(f"{where} has {len(values)} numbers, and {pairs} pairs turn")
    notes.source(f"scaling.{key.removesuffix('_factor')}", "config", where)
    return tuple(map(float, values))


def number_of(params: Keys, key: str, field: str, notes: Notes) -> float | None:
    """A number of the rotary parameters, noted as the source of a field."""
    value = params.number(key)
    if value is None:
        return None
    notes.source(field, params.origin(key), params.where(key))
    return float(value)


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
    where = params.where("factor")
    factor = params.number("factor")
    if factor is None and params.data.get("factor") is not None:
        raise UnsettledError(f"{where}={shortened(params.data['factor'])} is not a number")
    if factor is None and lengths is not None:
        factor = factor_by_lengths(original, lengths, notes)
    elif factor is not None:
        notes.source("scaling.factor", params.origin("factor"), where)
    if factor is None:
        raise UnsettledError(f"{where} is missing")
    if factor < 1:
        faster = f": a Ladder(first={1 / factor:g}) turns that much faster" if factor > 0 else ""
        raise UnsettledError(
            f"{where}={factor:g} is below 1: a scaling extends, it never shortens{faster}"
        )
    return float(factor)


@noted
def original_length(params: Keys, lengths: Lengths, notes: Notes) -> int | None:
    """The length of training before the extension."""
    where = params.where(ORIGINAL_KEYS[0])
    inner = params.integer(ORIGINAL_KEYS[0])
    outer = lengths.original
    if inner is not None and outer is not None and inner != outer:
        told = f"{where}={inner} and {lengths.original_key}={outer}"
        raise UnsettledError(f"{told} contradict each other")
    value = inner if inner is not None else outer
    if value is None:
        told = f"{where} is missing: the length of training before the extension"
        if lengths.trained is not None:
            told += (
                f" (transformers takes {lengths.trained_key}={lengths.trained} in its place, which"
                " is right only if that is the length before the extension)"
            )
        raise UnsettledError(told)
    if value < 1:
        raise UnsettledError(f"{where}={value} is no length")
    key = where if inner is not None else lengths.original_key
    notes.source("scaling.original_length", params.origin(ORIGINAL_KEYS[0]), key)
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
