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

from posenc._core.io.checkpoints import load
from posenc._core.reading import Layer, Reading
from posenc.detect.explain.config.view import (
    BASES,
    FRACTIONS,
    GLOBAL,
    LOCAL,
    LOCAL_BASES,
    SHARE,
    Keys,
    Notes,
    check_name,
)
from posenc.detect.explain.formats import fitting
from posenc.detect.explain.reader import from_hf
from posenc.detect.explain.rotary.entries import has_rotary, parameters
from posenc.presets.families import ClassDefaults, class_defaults

DIALECTS = ("hf4", "hf5")
# What no dialect states, and code that reads a config must know of the family or be told.
UNSTATED = {
    "pairing": "the pairing of channels",
    "ladder": "the rule of the ladder",
    "arrangement": "how axes share the pairs",
    "magnitude": "where factors on the scores act",
}


class Translation(NamedTuple):
    """A config in another dialect, or another format."""

    config: dict[str, Any]
    lost: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Both as plain JSON types, as `posenc convert-config --json` prints them."""
        return {"config": self.config, "lost": list(self.lost)}


def to_hf(config: Any, dialect: Literal["hf4", "hf5"]) -> Translation:
    """Write the rotary parameters of a config in a dialect of transformers.

    Parameters
    ----------
    config : mapping, str, path, or config object
        What `from_hf` reads, in either dialect, or of another format.
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
    check_name("to_hf: dialect", dialect, DIALECTS, optional=False)
    data = load(config, "to_hf")
    family: dict[str, Any] = {}
    for other in fitting(data)[:1]:
        data, family = other.config, {"model_type": other.format.get("family", "")}
    written = copy.deepcopy(data) | family
    lost: list[str] = []
    _rewrite(written, "", dialect, lost)
    before = from_hf(data, on_error="report")
    lost += [f"the plan of the source is not settled: {text}" for text in before.errors]
    lost += differences(before, from_hf(written, on_error="report"))
    sources = (source for entry in before for source in entry.sources)
    unstated = {source.field for source in sources if source.origin in ("preset", "caller")}
    lost += [
        f"no key of the config states {words}, so code that reads it must know the family"
        for field, words in UNSTATED.items()
        if field in unstated
    ]
    return Translation(written, tuple(dict.fromkeys(lost)))


def _rewrite(data: dict[str, Any], path: str, dialect: str, lost: list[str]) -> None:
    keys = Keys(data, path)
    if has_rotary(keys):
        params = dict(parameters(keys, Notes()).data)
        numbers = Numbers(*map(keys.first, (BASES, LOCAL_BASES, FRACTIONS)))
        known = class_defaults(data.get("model_type"))
        written = (
            _write_hf5(params, numbers, known)
            if dialect == "hf5"
            else _write_hf4(params, numbers, known, path, lost)
        )
        if written is not None:
            gone = {"rope_parameters", "rope_scaling", *BASES, *LOCAL_BASES, *FRACTIONS}
            for key in gone & {*data} - ({"rope_theta"} if dialect == "hf4" else set()):
                del data[key]
            data.update(written)
    for key, value in data.items():
        inner = isinstance(value, dict) and ("model_type" in value or key.endswith("_config"))
        if inner and key != "quantization_config":
            _rewrite(value, f"{path}.{key}" if path else key, dialect, lost)


class Numbers(NamedTuple):
    """What stands beside the dictionary of rotary parameters, each with its key."""

    base: tuple[str, float] | None
    local: tuple[str, float] | None
    fraction: tuple[str, float] | None


def _write_hf5(
    params: dict[str, Any], numbers: Numbers, known: ClassDefaults | None
) -> dict[str, Any]:
    base, local, fraction = numbers
    shared: dict[str, Any] = {} if base is None else {"rope_theta": base[1]}
    shared |= {} if fraction is None else {"partial_rotary_factor": fraction[1]}
    if any(isinstance(value, Mapping) for value in params.values()):
        filled = {
            kind: _typed({**shared, **own}) if own and isinstance(own, Mapping) else own
            for kind, own in params.items()
        }
        return {"rope_parameters": filled}
    if known is not None and known.kinds and (local is None or params):
        return {
            "rope_parameters": {
                kind: _of_kind(params, numbers, known, kind) for kind in known.kinds
            }
        }
    flat = _typed({**shared, **params})
    if local is None:
        return {"rope_parameters": flat}
    return {
        "rope_parameters": {
            GLOBAL: flat,
            LOCAL: {**shared, "rope_theta": local[1], "rope_type": "default"},
        }
    }


def _of_kind(
    params: dict[str, Any], numbers: Numbers, known: ClassDefaults, kind: str
) -> dict[str, Any] | None:
    """The dictionary of a type of layer, as the class makes it of a flat one."""
    if (own := (known.kinds or {})[kind]) is None:
        return None
    stated = (pair[1] for pair in numbers[:2] if pair and kind in known.reach.get(pair[0], ()))
    share = own.get("share_alone", own.get("share", 1.0))
    more = {} if share == 1 else {"partial_rotary_factor": share}
    return _typed(
        {
            "rope_theta": next(stated, own["base"]),
            **more,
            **(params if kind in known.reach.get("rope_scaling", ()) else {}),
        }
    )


def _write_hf4(
    params: dict[str, Any],
    numbers: Numbers,
    known: ClassDefaults | None,
    path: str,
    lost: list[str],
) -> dict[str, Any] | None:
    base, local, fraction = numbers
    if own := {k: dict(v) for k, v in params.items() if isinstance(v, Mapping)}:
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
        if known is not None and known.reach and LOCAL not in known.reach.get(LOCAL_BASES[0], ()):
            bases = {k: v["base"] for k, v in (known.kinds or {}).items() if v is not None}
            odd = any(v.get("rope_theta", bases.get(k)) != bases.get(k) for k, v in own.items())
            if odd or fractions != {1.0}:  # a share alone would be one dictionary for all types
                what = "base" if odd else "share of a head"
                lost.append(f"{where}version 4 has no key for the {what} of each type of layer")
                return None
            return {"rope_scaling": _scaling_of(first)}
        local = None if other is None else (LOCAL_BASES[0], other["rope_theta"])
        params = first
    params = _typed(dict(params))
    beside = {
        "rope_theta": params.pop("rope_theta", None if base is None else base[1]),
        SHARE: params.pop(SHARE, None if fraction is None else fraction[1]),
        LOCAL_BASES[0]: None if local is None else local[1],
    }
    return {
        **{key: value for key, value in beside.items() if value is not None},
        "rope_scaling": _scaling_of(params),
    }


def _scaling_of(params: dict[str, Any]) -> dict[str, Any] | None:
    """What is left for `rope_scaling`, or None."""
    asked = _typed({k: v for k, v in params.items() if k != "rope_theta"})
    return None if asked == {"rope_type": "default"} else asked


def _typed(params: dict[str, Any]) -> dict[str, Any]:
    """With `rope_type` for `type`."""
    params.setdefault("rope_type", params.pop("type", None) or "default")
    return params


def differences(before: Reading, after: Reading) -> list[str]:
    """What the second plan says otherwise, or not at all."""
    others = {(entry.layer, entry.attention): entry for entry in after}
    pairs = [(entry, others.get((entry.layer, entry.attention))) for entry in before]
    why = "; ".join(after.errors) or "no entry"
    return [text for entry, other in pairs for text in _changed(entry, other, why)]


def _changed(entry: Layer, other: Layer | None, why: str) -> list[str]:
    name = " ".join(word for word in (entry.layer, entry.attention) if word)
    if other is None:
        return [f"{name} is not read back: {why}"]
    if type(entry.spec) is not type(other.spec):
        return [f"{name} reads back as another kind"]
    changed = [
        word
        for word, one, its in (
            ("layers", entry.indices, other.indices),
            ("windows", *map(_limits, (entry, other))),
            ("logit_scale", entry.logit_scale, other.logit_scale),
        )
        if one != its
    ]
    if entry.spec is not None:
        fields = (field.name for field in dataclasses.fields(entry.spec))  # type: ignore[arg-type]
        changed += [n for n in fields if getattr(entry.spec, n) != getattr(other.spec, n)]
    return [f"{name}: {field} reads back as another" for field in changed]


def _limits(entry: Layer) -> list[Any]:
    """The windows of an entry, without those of layers that see everything."""
    return [window for window in entry.windows if window[0] is not None]
