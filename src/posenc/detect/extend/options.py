"""The rules for each kind of layer, and the one to take."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from posenc._core.errors import PosencError, bad_argument
from posenc.detect.extend.rules import (
    RULES,
    Baseline,
    Effect,
    ExtendingRule,
    belongs,
    effect,
    enlarged,
    smallest_factor,
    stretching,
)

Rules = Mapping[str, ExtendingRule]
OFFERED = ("none", "linear", "ntk", "dynamic", "yarn", "llama3")


@dataclass(frozen=True)
class TriedRule:
    """One rule for one kind of layer.

    Parameters
    ----------
    name, label : str
        A name of a rule, and what it is called.
    spec : RotarySpec
        The rotation under the rule.
    factor : float
        By which it stretches; for a larger base, the stretch of the slowest pair.
    base : float or None
        The base that a config states, where the rule is a larger one.
    smallest : float or None
        The smallest factor with which no pair meets an unseen angle; None where none does.
    effect : Effect
        Its numbers.
    """

    name: str
    label: str
    spec: Any
    factor: float
    base: float | None
    smallest: float | None
    effect: Effect


@dataclass(frozen=True)
class LayerExtension:
    """A kind of layer, and the rules for it.

    Parameters
    ----------
    name : str
        As in the plan.
    baseline : Baseline
        Its rotation as trained.
    options : tuple of TriedRule
        The rules.
    left_out : dict
        Rules that do not apply, and why.
    window : bool
        Whether the layers have a window: distances stay within it, and they need no rule.
    """

    name: str
    baseline: Baseline
    options: tuple[TriedRule, ...]
    left_out: dict[str, str]
    window: bool

    def option(self, name: str) -> TriedRule | None:
        """The rule of a name, or None."""
        return next((option for option in self.options if option.name == name), None)


def layer_extension(
    name: str, baseline: Baseline, length: int, *, window: bool, more: Rules | None = None
) -> LayerExtension:
    """The rules for one kind of layer; `more` are offered besides those of texts."""
    rows: list[TriedRule] = []
    left_out: dict[str, str] = {}
    for maker in _makers(baseline, length, more):
        try:
            rows.append(_option(maker, baseline, length))
        except PosencError as error:
            left_out[maker.name] = str(error)
    if (own := stretching(baseline.spec)) is not None and len(rows) == 1:
        left_out["given"] = (
            f"{type(own).__name__} has no factor that could grow: its divisors fit one length"
        )
    return LayerExtension(name, baseline, tuple(rows), left_out, window)


def _option(maker: _Maker, baseline: Baseline, length: int) -> TriedRule:
    smallest = smallest_factor(baseline, length, maker.make)
    spec, factor = maker.make(maker.factor), maker.factor
    if maker.name == "base":
        if smallest is None:
            raise bad_argument(
                "larger base",
                "a base with which no pair meets an unseen angle",
                "none up to a factor of 2**20",
            )
        spec, factor = maker.make(smallest), smallest
    return TriedRule(
        maker.name, maker.label, spec, factor,
        spec.base if maker.name in ("base", "ntk") else None,
        smallest, effect(baseline, spec, length),
    )  # fmt: skip


class _Maker(NamedTuple):
    name: str
    label: str
    factor: float
    make: Any


def _makers(baseline: Baseline, length: int, more: Rules | None) -> list[_Maker]:
    """The rules that can be tried on a rotation, each as a factor -> rotation."""
    spec, trained = baseline.spec, baseline.trained
    grown, own = length / trained, stretching(spec)
    unchanged = _Maker("none", RULES["none"].label, 1.0, lambda _: spec)
    if own is not None:
        # A rule whose length was fixed, or that has a divisor for each pair, has nothing to grow.
        if (
            getattr(own, "length", None) is not None
            or not hasattr(own, "factor")
            or isinstance(own.factor, tuple)
        ):
            return [unchanged]

        def larger(factor: float) -> Any:
            new, magnitude = own.replace(factor=own.factor * factor), spec.magnitude
            # Stated for the trained factor, so it goes with it.
            if belongs(magnitude.attention_factor, own):
                magnitude = magnitude.replace(attention_factor=new.attention_factor())
            return spec.replace(
                scaling=tuple(new if s is own else s for s in spec.scalings), magnitude=magnitude
            )

        return [unchanged, _Maker("given", f"{type(own).__name__}, larger factor", grown, larger)]

    def with_base(factor: float) -> Any:
        return spec.replace(base=enlarged(spec, factor))

    def scaled(name: str, factor: float) -> Any:
        return spec.replace(scaling=(*spec.scalings, rules[name].make(factor, trained)))

    rules = {name: RULES[name] for name in OFFERED[1:]} | dict(more or {})
    makes = {name: functools.partial(scaled, name) for name in rules} | {"ntk": with_base}
    return [
        unchanged,
        *(_Maker(name, rules[name].label, grown, make) for name, make in makes.items()),
        _Maker("base", "larger base + training", grown, with_base),
    ]


def recommended(
    layers: tuple[LayerExtension, ...], trained: int, length: int
) -> tuple[str, tuple[str, ...]]:
    """The rule, and why in two sentences."""
    stretched = [layer for layer in layers if not layer.window]
    if not stretched:
        return "none", (
            "Every layer that rotates has a window, and distances stay within it at any length.",
        )
    unchanged = (layer.option("none") for layer in stretched)
    if not any(option.effect.unseen for option in unchanged if option):
        return "none", (
            (
                f"Within {trained:,} positions, every pair reaches all angles that it reaches "
                f"within {length:,}."
            ),
            "A rule would only change what the model learned.",
        )
    ranks = {}
    for name in dict.fromkeys(o.name for layer in stretched for o in layer.options):
        options = [option for layer in stretched if (option := layer.option(name))]
        everywhere = len(options) == len(stretched) and name not in {"base", "dynamic"}
        if everywhere and not any(option.effect.unseen for option in options):
            lost = sum(option.effect.lost for option in options)
            ranks[name] = lost, max(option.effect.change for option in options), options[0].label
    if not ranks:
        return "", (
            "No rule that a config can state keeps every pair at angles that training showed.",
        )
    best = min(ranks, key=lambda name: ranks[name][:2])
    lost, change, label = ranks[best]
    return best, (
        (
            f"With {label}, no pair reaches an angle that training did not show, and the step "
            f"between neighbours changes by over 1 % in {lost or 'none'} of the fast pairs."
        ),
        (
            "Of the rules that do so with the same frequencies at every length, it changes scores "
            f"least within {trained:,} positions, by up to {change:.2g} of the largest score."
        ),
    )
