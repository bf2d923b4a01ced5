"""Which keys of a config the rotary classes of transformers read: what changes their angles.

`python tools/models/class_defaults.py` writes what is measured here. A rotary class is made from
two
configs that differ in one key; where frequencies, cosines and sines stay, the key is not read. The
keys are those that `posenc.from_hf` would follow, so that it knows which of them a class passes
over: `partial_rotary_factor` under the plain rule of most classes, above all.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from posenc.detect.explain.config.view import (
    ABSOLUTE,
    BASES,
    FRACTIONS,
    LISTED,
    LOCAL_BASES,
    NAMES,
    WIDTHS,
)

CLASS = re.compile(r"Rotary|Rope|RoPE")
THETA, PLAIN, SHARE, FACTOR = 54_321.0, 10_000.0, 0.75, 3.0
OTHER_SHARES = (0.5, 0.25)  # where the first makes an odd width
LENGTH = 256  # of training, before an extension by four
POSITIONS = (0, 7)
LAST = (8, 3 * LENGTH // 2, 2**17)  # below, between and beyond the lengths
SIZES = tuple(dict.fromkeys(NAMES.findall(" ".join(WIDTHS))))
HEADS = ("head_dim", "kv_channels")
COUNTS = tuple(key for key in SIZES if key.endswith(("heads", "head")))
BREADTHS = tuple(key for key in SIZES if key not in (*HEADS, *COUNTS))
BESIDE = "^"  # of keys outside the dictionary of rotary parameters
# Keys that a class may need before a rule can be tried: wherever a first attempt fails.
COMPLETED: tuple[dict[str, Any], ...] = ({}, {"short_mscale": 1.25, "long_mscale": 1.5})


class Rule(NamedTuple):
    """A rule of scaling: what its dictionary must state, and what else the reader may follow."""

    must: Mapping[str, Any]
    may: Mapping[str, Any]
    outside: tuple[str, ...] = ()


BOTH = {"partial_rotary_factor": SHARE, "rope_theta": THETA, "theta": THETA, "base": THETA}
ATTENTION = {"attention_factor": 1.75, "attn_factor": 1.75}
ORIGINAL = {"original_max_position_embeddings": 2 * LENGTH}
OUTSIDE = ("original_max_position_embeddings",)


def rules(pairs: int) -> dict[str, Rule]:
    """The rules by name, for a rotation of so many pairs."""
    lists = [[times + i / 100 for i in range(pairs)] for times in (1.0, 2.0, 1.5, 2.5)]
    extended = {"factor": FACTOR, "original_max_position_embeddings": LENGTH}
    factors = {"short_factor": lists[0], "long_factor": lists[1]}
    bounds = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return {
        "default": Rule({}, BOTH),
        "linear": Rule({"factor": FACTOR}, {**BOTH, "factor": 5.0}),
        "dynamic": Rule({"factor": FACTOR}, {**BOTH, "factor": 5.0, "alpha": 50.0}),
        "yarn": Rule(
            extended,
            {
                **BOTH,
                **ATTENTION,
                **ORIGINAL,
                "factor": 5.0,
                "mscale": 0.75,
                "truncate": False,
                "beta_fast": 16.0,
                "beta_slow": 3.0,
            },
            (*OUTSIDE, "truncate"),
        ),
        "longrope": Rule(
            {**extended, **factors},
            {
                **BOTH,
                **ATTENTION,
                **ORIGINAL,
                "factor": 5.0,
                "short_factor": lists[2],
                "long_factor": lists[3],
                "short_mscale": 1.3,
            },
            OUTSIDE,
        ),
        "llama3": Rule(
            {**extended, **bounds},
            {**BOTH, **ORIGINAL, "factor": 5.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0},
            OUTSIDE,
        ),
        "proportional": Rule(
            {"partial_rotary_factor": 0.25}, {**BOTH, "partial_rotary_factor": SHARE, "factor": 5.0}
        ),
    }


# Keys that count only beside another.
WITH = {"mscale": {"mscale_all_dim": 0.5}, "short_mscale": {"long_mscale": 1.4}}


def made(cls: Any, **keys: Any) -> Any:
    """A config of the class, or None where it refuses."""
    try:
        return cls(**keys)
    except Exception:  # noqa: BLE001 - whatever a class of somebody else raises
        return None


def value(config: Any, key: str) -> Any:
    """The value of a key; None where there is none, or each layer has one of its own."""
    try:
        return getattr(config, key, None)
    except Exception:  # noqa: BLE001 - likewise
        return None


def parameters(config: Any) -> dict[str, Any]:
    """Its rotary parameters."""
    params = getattr(config, "rope_parameters", None)
    return params if isinstance(params, dict) else {}


def rotary_classes(config: Any) -> list[Any]:
    """The rotary classes that take a class of configs: those that name it, else any that fits."""
    found = [each for file in modelings(config) for each in _inside(file)]
    own = [cls for cls in found if config in _named(cls)]
    kin = [cls for cls in found if any(issubclass(config, each) for each in _named(cls))]
    return list(dict.fromkeys(own or kin or found))


def modelings(config: Any) -> list[Any]:
    """The files of models of the package of a class of configs, or that of its plain model."""
    package = config.__module__.rpartition(".")[0]
    folder = Path(importlib.import_module(package).__path__[0])
    names = [f"{package}.{file.stem}" for file in sorted(folder.glob("modeling_*.py"))]
    if not names:
        mapping = importlib.import_module("transformers").MODEL_MAPPING
        names = [mapping[config].__module__] if config in mapping else []
    return [importlib.import_module(name) for name in names]


@functools.cache
def _inside(file: Any) -> tuple[Any, ...]:
    return tuple(
        cls
        for name, cls in vars(file).items()
        if inspect.isclass(cls) and CLASS.search(name) and not name.endswith("Attention")
        if "config" in inspect.signature(cls.__init__).parameters
    )


@functools.cache
def _named(cls: Any) -> tuple[Any, ...]:
    """The classes of configs in the annotation of a rotary class."""
    try:
        hints = typing.get_type_hints(cls.__init__)
    except Exception:  # noqa: BLE001 - names that only type checkers import
        return ()
    kinds = [kind for kind in hints.values() if inspect.isclass(kind)]
    return tuple(k for k in kinds if k.__module__.startswith("transformers.models"))


def angles(classes: list[Any], config: Any) -> tuple[Any, ...] | None:
    """All that rotary classes compute for a config; None where none can be made of it."""
    from tools.models import config_oracle

    found: list[Any] = []
    for cls in classes if config is not None else ():
        try:
            module = cls(config)
        except Exception:  # noqa: BLE001 - whatever a class of somebody else raises
            continue
        for name in config_oracle.frequency_names(module):
            kind = name.removesuffix("inv_freq").rstrip("_")
            pairs = getattr(module, name).numel()
            size = value(module, f"{kind}_attention_scaling" if kind else "attention_scaling")
            for last in LAST:
                cos, sin = config_oracle.angles(module, kind, [*POSITIONS, last], pairs)
                table = size if cos is None else (cos.tolist(), sin.tolist())
                found.append((kind, getattr(module, name).tolist(), table))
    return tuple(found) or None


def pairs_of(result: tuple[Any, ...]) -> int:
    """The most pairs that turn."""
    return max(len(frequencies) for _, frequencies, *_ in result)


class Asked:
    """A class of configs that is asked which keys change the angles of its model."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        alone = parameters(made(cls))
        self.classes = rotary_classes(cls)
        self.kinds = {k: v for k, v in alone.items() if isinstance(v, dict)}
        self.still = {k: v for k, v in alone.items() if v is None} if self.kinds else {}
        one = alone if not self.kinds else {}
        # Sections of axes stay: without them the angles of several axes do not fit.
        self.kept = {key: value for key, value in one.items() if "section" in key}
        # What was asked, by its words: the keys that a file would state, and the angles.
        self.answers: dict[str, tuple[dict[str, Any], tuple[Any, ...] | None]] = {}

    def result(self, **keys: Any) -> tuple[Any, ...] | None:
        """The angles where a file states some keys."""
        told = repr(keys)
        if told not in self.answers:
            result = angles(self.classes, made(self.cls, **copy.deepcopy(keys)))
            self.answers[told] = (keys, result)
        return self.answers[told][1]

    def dictionary(self, rule: str, keys: Mapping[str, Any]) -> dict[str, Any]:
        """Rotary parameters of a rule, for each type of layer where the class has them so."""
        one = {"rope_type": rule, "rope_theta": PLAIN, **self.kept, **keys}
        return {**{kind: dict(one) for kind in self.kinds}, **self.still} if self.kinds else one


def reads(cls: Any) -> dict[str, Any] | None:
    """The keys that change angles; None for a class without a rotary module of its own."""
    return answered(Asked(cls))


def answered(asked: Asked) -> dict[str, Any] | None:
    """The same of a class that is asked.

    `keys` are those outside the dictionary; `rules` has those in it, by the rule: none where the
    rule is passed over, and no rule that the class refuses. A key that is refused counts as read.
    """
    plain = asked.result(rope_parameters=asked.dictionary("default", {})) or asked.result()
    if plain is None:
        return None
    found: dict[str, Any] = {"keys": sorted(_outside(asked, pairs_of(plain))), "rules": {}}
    default = None
    for name, rule in rules(pairs_of(plain)).items():
        case = _case(asked, name, rule, pairs_of(plain))
        if case is None:
            continue
        if name == "default":
            default = case.base
        elif case.base == default:
            # Without tables, what changes while a class runs is not seen.
            seen = name != "dynamic" or all(isinstance(table, tuple) for *_, table in case.base)
            if seen or found["rules"].get("linear") == []:
                found["rules"][name] = []
            continue
        found["rules"][name] = sorted(_followed(asked, case))
    return found


def _outside(asked: Asked, pairs: int) -> Iterator[str]:
    """Keys outside the dictionary that change angles, with a scaling or without."""
    config = made(asked.cls)
    scaled = {"rope_scaling": {"rope_type": "linear", "factor": FACTOR}}
    values: dict[str, Any] = dict.fromkeys((*BASES, *LOCAL_BASES), THETA)
    values |= dict.fromkeys(FRACTIONS, SHARE)
    values |= dict.fromkeys(HEADS, 10 * pairs) | dict.fromkeys(ABSOLUTE, pairs - pairs % 2)
    for key in (*COUNTS, *BREADTHS):
        size = value(config, key)
        values[key] = 2 * size if isinstance(size, int) and size else 2048 if key in BREADTHS else 4
    for key, stated in values.items():
        bases: list[dict[str, Any]] = [{}, scaled]
        bases += [{"head_dim": None}] if key in (*COUNTS, *BREADTHS) else []
        forms = [stated] if key in FRACTIONS else [stated, int(stated)]  # some take whole numbers
        for base in bases:
            plain = asked.result(**base)
            results = [asked.result(**base, **{key: form}) for form in forms]
            refused = all(result is None for result in results)
            if plain is not None and (not base if refused else _matters(results, plain)):
                yield key
                break


def _matters(results: list[tuple[Any, ...] | None], plain: tuple[Any, ...]) -> bool:
    """Whether some form of a key changes the angles, or the class takes none of them."""
    made_ = [result for result in results if result is not None]
    return not made_ or any(result != plain for result in made_)


class Case(NamedTuple):
    """A rule under which a class makes angles."""

    name: str
    rule: Rule
    must: Mapping[str, Any]
    keys: Mapping[str, Any]
    base: tuple[Any, ...]

    def result(self, asked: Asked, more: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The angles with more keys in the dictionary."""
        stated = asked.dictionary(self.name, {**self.must, **more})
        return asked.result(rope_parameters=stated, **self.keys)


def _case(asked: Asked, name: str, rule: Rule, pairs: int) -> Case | None:
    """A rule with the keys that had to be added for it; None where the class refuses it."""
    for inner in COMPLETED if name == "longrope" else ({},):
        for outer in ({}, {"head_dim": 2 * pairs}):
            must = {**rule.must, **inner}
            keys = {"max_position_embeddings": 4 * LENGTH, **outer}
            stated = asked.dictionary(name, must)
            if (base := asked.result(rope_parameters=stated, **keys)) is not None:
                return Case(name, rule, must, keys, base)
    return None


def _followed(asked: Asked, case: Case) -> Iterator[str]:
    """The keys of a rule that change the angles."""
    found: set[str] = set()
    for key, stated in case.rule.may.items():
        beside = WITH.get(key, {})
        results: list[tuple[Any, ...] | None] = []
        for form in (stated, *(OTHER_SHARES if key == "partial_rotary_factor" else ())):
            more = {**beside, key: form}
            if case.name == "longrope" and key == "partial_rotary_factor":
                more |= _lists(asked, case, form)
            results.append(case.result(asked, more))
        found |= {key, *beside} if _matters(results, case.base) else set()
    for key in case.rule.outside:
        params, keys = asked.dictionary(case.name, case.must), dict(case.keys)
        if key == "truncate":
            params = {**params, key: False} if asked.kinds else params
        else:
            keys[key] = 2 * LENGTH
        result = asked.result(rope_parameters=params, **keys)
        found |= {BESIDE + key} if result not in (None, case.base) else set()
    yield from found


def _lists(asked: Asked, case: Case, share: float) -> dict[str, Any]:
    """Lists of as many factors as pairs turn of a share of a head."""
    for name, more in (("linear", {"factor": FACTOR}), ("default", {})):
        params = asked.dictionary(name, {**more, "partial_rotary_factor": share})
        if (result := asked.result(rope_parameters=params, **case.keys)) is not None:
            must = rules(pairs_of(result))["longrope"].must
            return {key: value for key, value in must.items() if isinstance(value, list)}
    return {}


def listed(cls: Any) -> str:
    """What a list of a number for each layer is: `each` base, or a `switch`; empty if unread.

    A model of two layers is made without weights, and its rotary modules once more with numbers.
    """
    if LISTED not in {field.name for field in dataclasses.fields(cls)}:
        return ""
    lists = ([PLAIN, PLAIN], [PLAIN, THETA])
    plain, other = (_turned(made(cls, num_hidden_layers=2, layer_rope_theta=one)) for one in lists)
    return "switch" if plain == other else "each"


def _turned(config: Any) -> set[tuple[float, ...]]:
    """The frequencies of every rotary module of a model."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):
        modules = [m for m in AutoModel.from_config(config).modules() if hasattr(m, "inv_freq")]
    return {tuple(type(m)(m.config).inv_freq.tolist()) for m in modules}


def shares(cls: Any) -> dict[str, tuple[float, float]]:
    """The share that turns where a dictionary states none, by the type of layers; "" for all.

    Without a scaling, and with one: a rule of the class may take another than the common rules.
    """
    asked = Asked(cls)
    found: dict[str, list[float]] = {}
    for name, more in (("default", {}), ("linear", {"factor": FACTOR})):
        bare = asked.result(rope_parameters=asked.dictionary(name, more))
        whole = {**more, "partial_rotary_factor": 1.0}
        full = asked.result(rope_parameters=asked.dictionary(name, whole))
        for one, other in zip(bare or (), full or (), strict=False):
            found.setdefault(one[0], []).append(len(one[1]) / len(other[1]))
    return {kind: (values[0], values[-1]) for kind, values in found.items()}
