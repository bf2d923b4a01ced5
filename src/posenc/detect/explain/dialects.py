"""The same rotary parameters in the other dialect of transformers configs.

Version 4 has `rope_theta` and `partial_rotary_factor` at the top and a `rope_scaling` for all
layers; version 5 has everything in `rope_parameters`, with a dictionary for each type of layer
where they differ. What a translation loses is found by reading both configs and comparing their
plans.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc._core.io.checkpoints import load
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.view import Keys, Notes
from posenc.detect.explain.layers.types import GLOBAL, LOCAL
from posenc.detect.explain.reader import from_hf
from posenc.detect.explain.rotary.entries import has_rotary, parameters
from posenc.detect.explain.spellings import BASES, FRACTIONS, LOCAL_BASES
from posenc.presets.families import ClassDefaults, class_defaults

DIALECTS = ("hf4", "hf5")
# What no dialect states, and a reader must know of the family or be told.
UNSTATED = {
    "pairing": "the pairing of channels",
    "ladder": "the rule of the ladder",
    "arrangement": "how axes share the pairs",
    "magnitude": "where factors on the scores act",
}


class Translation(NamedTuple):
    """A config in another dialect."""

    config: dict[str, Any]
    lost: tuple[str, ...]


def to_hf(config: Any, dialect: Literal["hf4", "hf5"]) -> Translation:
    """Write the rotary parameters of a config in a dialect of transformers.

    Parameters
    ----------
    config : mapping, str, path, or config object
        What `from_hf` reads, in either dialect.
    dialect : {"hf4", "hf5"}
        `hf4`: `rope_theta` and `rope_scaling`. `hf5`: `rope_parameters`.

    Returns
    -------
    Translation
        `config`, a copy in which nothing else is changed; `lost`, a sentence for each thing that
        the dialect cannot say or that no config says.

    Raises
    ------
    ArgumentError
        If the dialect is unknown.
    DataError
        If the config cannot be read.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_scaling": None}
    >>> posenc.to_hf(config, "hf5").config["rope_parameters"]
    {'rope_theta': 10000.0, 'rope_type': 'default'}
    """
    if dialect not in DIALECTS:
        todo = suggest(dialect, DIALECTS)
        raise ArgumentError(mismatch("to_hf: dialect", "one of its names", repr(dialect), todo))
    data = load(config, "to_hf")
    made = copy.deepcopy(data)
    lost: list[str] = []
    _rewrite(made, "", dialect, lost)
    before = from_hf(data, on_error="report")
    after = from_hf(made, on_error="report")
    lost += [f"the plan of the source is not settled: {text}" for text in before.errors]
    lost += _differences(before, after)
    lost += [f"{what} is not stated: a reader must know the family" for what in _unstated(before)]
    return Translation(made, tuple(dict.fromkeys(lost)))


def _rewrite(data: dict[str, Any], path: str, dialect: str, lost: list[str]) -> None:
    keys = Keys(data, path)
    if has_rotary(keys):
        params = dict(parameters(keys, Notes()).data)
        base = keys.first(BASES)
        local = keys.first(LOCAL_BASES)
        fraction = keys.first(FRACTIONS)
        known = class_defaults(data.get("model_type"))
        write = _write_hf5 if dialect == "hf5" else _write_hf4
        written = write(params, base, local, fraction, (path, lost, known))
        if written is not None:
            kept = "rope_theta" if dialect == "hf4" else ""
            for key in ("rope_parameters", "rope_scaling", *BASES, *LOCAL_BASES, *FRACTIONS):
                if key != kept and key in data:
                    del data[key]
            data.update(written)
    for key, value in data.items():
        inner = isinstance(value, dict) and ("model_type" in value or key.endswith("_config"))
        if inner and key != "quantization_config":
            _rewrite(value, f"{path}.{key}" if path else key, dialect, lost)


Number = tuple[str, float] | None
# (path of the part, where what is lost is written, what its class takes for what is left out)
Said = tuple[str, list[str], ClassDefaults | None]


def _write_hf5(
    params: dict[str, Any], base: Number, local: Number, fraction: Number, said: Said
) -> dict[str, Any] | None:
    known = said[2]
    nested = any(isinstance(value, Mapping) for value in params.values())
    shared: dict[str, Any] = {}
    if base is not None:
        shared["rope_theta"] = base[1]
    if fraction is not None:
        shared["partial_rotary_factor"] = fraction[1]
    if nested:
        filled = {
            kind: _typed({**shared, **own}) if own and isinstance(own, Mapping) else own
            for kind, own in params.items()
        }
        return {"rope_parameters": filled}
    flat = _typed({**shared, **params})
    if known is not None and known.kinds and (local is None or params):
        return _by_kind(params, base, local, known)
    if local is None:
        return {"rope_parameters": flat}
    other = {**shared, "rope_theta": local[1], "rope_type": "default"}
    return {"rope_parameters": {GLOBAL: flat, LOCAL: other}}


def _by_kind(
    params: dict[str, Any], base: Number, local: Number, known: ClassDefaults
) -> dict[str, Any]:
    """A dictionary for each type of layer, as the class makes them of a flat one."""
    written: dict[str, Any] = {}
    for kind, own in (known.kinds or {}).items():
        if own is None:
            written[kind] = None
            continue
        reached = kind in known.reach.get("rope_scaling", ())
        stated = [value for value in (base, local) if value and kind in _reached(value[0], known)]
        theta = {"rope_theta": stated[0][1] if stated else own["base"]}
        share = own.get("share_alone", own.get("share", 1.0))
        more = {} if share == 1 else {"partial_rotary_factor": share}
        written[kind] = _typed({**theta, **more, **(params if reached else {})})
    return {"rope_parameters": written}


def _reached(key: str, known: ClassDefaults) -> tuple[str, ...]:
    return tuple(known.reach.get(key, ()))


def _write_hf4(
    params: dict[str, Any], base: Number, local: Number, fraction: Number, said: Said
) -> dict[str, Any] | None:
    nested = {k: v for k, v in params.items() if isinstance(v, Mapping)}
    path, lost, known = said
    if nested:
        own = {k: dict(v) for k, v in nested.items()}
        where = f"{path}: " if path else ""
        first = own.get(GLOBAL, next(iter(own.values())))
        other = own.get(LOCAL)
        plain = other is None or other.get("rope_type", "default") == "default"
        fractions = {v.get("partial_rotary_factor", 1.0) for v in own.values()}
        if set(own) - {GLOBAL, LOCAL} or not plain or len(fractions) > 1 or len(own) < len(params):
            lost.append(
                f"{where}version 4 has one rope_scaling for all layers: {', '.join(params)} stay "
                "in rope_parameters"
            )
            return None
        if known is not None and known.reach and LOCAL not in _reached(LOCAL_BASES[0], known):
            bases = {k: v["base"] for k, v in (known.kinds or {}).items() if v is not None}
            odd = any(v.get("rope_theta", bases.get(k)) != bases.get(k) for k, v in own.items())
            if odd or fractions != {1.0}:  # a share alone would be one dictionary for all types
                what = "base" if odd else "share of a head"
                lost.append(f"{where}version 4 has no key for the {what} of each type of layer")
                return None
            return {"rope_scaling": _scaling_of(first)}
        local = None if other is None else (LOCAL_BASES[0], other["rope_theta"])
        params = first
    made: dict[str, Any] = {}
    params = _typed(dict(params))
    theta = params.pop("rope_theta", None if base is None else base[1])
    if theta is not None:
        made["rope_theta"] = theta
    part = params.pop("partial_rotary_factor", None if fraction is None else fraction[1])
    if part is not None:
        made["partial_rotary_factor"] = part
    if local is not None:
        made[LOCAL_BASES[0]] = local[1]
    made["rope_scaling"] = _scaling_of(params)
    return made


def _scaling_of(params: dict[str, Any]) -> dict[str, Any] | None:
    """What is left for `rope_scaling`, or None."""
    asked = _typed({k: v for k, v in params.items() if k != "rope_theta"})
    return None if asked == {"rope_type": "default"} else asked


def _typed(params: dict[str, Any]) -> dict[str, Any]:
    """With `rope_type` for `type`."""
    kind = params.pop("type", None)
    params.setdefault("rope_type", kind or "default")
    return params


def _differences(before: Reading, after: Reading) -> list[str]:
    """What the second plan says otherwise, or not at all."""
    said = []
    others = {(entry.layer, entry.attention): entry for entry in after}
    for entry in before:
        other = others.get((entry.layer, entry.attention))
        if other is None:
            said.append(f"{_name(entry)} is not read back: {'; '.join(after.errors) or 'no entry'}")
        else:
            said += _changed(entry, other)
    return said


def _changed(entry: Layer, other: Layer) -> list[str]:
    if entry.spec == other.spec and entry.indices == other.indices:
        return []
    if entry.spec is None or other.spec is None or type(entry.spec) is not type(other.spec):
        return [f"{_name(entry)} is read back as another kind"]
    names = [field.name for field in dataclasses.fields(entry.spec)]  # type: ignore[arg-type]
    changed = [n for n in names if getattr(entry.spec, n) != getattr(other.spec, n)]
    return [f"{_name(entry)}: {name} is read back otherwise" for name in changed or ["layers"]]


def _name(entry: Layer) -> str:
    return " ".join(word for word in (entry.layer, entry.attention) if word)


def _unstated(plan: Reading) -> list[str]:
    """Fields that came from the family or the caller, in words."""
    found = {
        source.field
        for entry in plan
        for source in entry.sources
        if source.origin in ("preset", "caller")
    }
    return [words for field, words in UNSTATED.items() if field in found]
