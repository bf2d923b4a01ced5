"""Stretch: what changes when the context gets longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError, suggest
from posenc.detect.extend.rules import FAST, RULES as EXTENDING, Baseline, Effect, effect
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import wavelengths
from posenc.plot.columns import Table
from posenc.plot.panels.grammar import (
    Chart,
    Mark,
    Matrix,
    Series,
    TableOfText,
    cells,
    float32,
    logarithmic,
)
from posenc.plot.panels.text import brief, count, number, plural, present, whole
from posenc.plot.rows import refuse, require
from posenc.plot.views import loss as measured
from posenc.plot.views.wavelengths import PAIRS

LARGEST_FACTOR = 2**20
USUAL_LENGTH, USUAL_FACTOR = 4096, 8.0

# The rules that are compared, by name; `given` is the scaling of the spec itself.
RULES: dict[str, str] = {name: rule.label for name, rule in EXTENDING.items()}
RULES["given"] = "as given"


# The number of its style in `palette`, wherever a rule is drawn; that of no rule steps back.
STYLES = ("yarn", "llama3", "ntk", "linear", "dynamic", "yarn_paper", "given", "none")


class Extent(NamedTuple):
    """The length that a model was trained on, and by how much it is to grow."""

    original_length: int
    factor: float


def extent(spec: Any, declared: int | None = None) -> Extent:
    """The trained length and the growth of a rotation, where nobody names others."""
    own = next((s for s in spec.scalings if s.stretches), None)
    trained = getattr(own, "original_length", None) or (declared if own is None else None)
    factor = getattr(own, "factor", None)
    return Extent(
        trained or USUAL_LENGTH,
        factor if isinstance(factor, float) and factor > 1 else USUAL_FACTOR,
    )


@dataclass(frozen=True)
class Rule:
    """What one rule does to the pairs."""

    name: str
    label: str
    wavelengths: np.ndarray
    stretch: np.ndarray
    effect: Effect

    @property
    def style(self) -> int:
        """Which style of `palette` its curves have."""
        return STYLES.index(self.name)


@dataclass(frozen=True)
class Stretch:
    """Rules that extend a context, side by side."""

    rules: tuple[Rule, ...]
    original_length: int
    length: int
    factor: float
    slow: int
    fast: int
    first_slow: int
    left_out: Mapping[str, str]
    title: str
    caption: tuple[str, ...]
    plain: RoPE
    loss: measured.LossView | None = None


def data(
    spec: Any,
    *,
    original_length: int | None = None,
    factor: float | None = None,
    rules: tuple[str, ...] | None = None,
    loss: bool = False,
) -> Stretch:
    """Wavelengths and stretch of each pair under the rules that extend a context.

    With `loss` it is drawn what small trained models have beyond their trained length, and the
    first of the rules is shown beside unchanged RoPE; `spec` is then the rotation of those models.
    """
    if not isinstance(spec, RoPE):
        refuse("stretch", spec, "a RoPE")
    if loss:
        return _measured(spec, original_length, factor, rules or (measured.USUAL,))
    usual = extent(spec)
    trained = usual.original_length if original_length is None else original_length
    grown = usual.factor if factor is None else factor
    fits, received = trained >= 1 and 1 <= grown <= LARGEST_FACTOR, f"{trained} and {grown}"
    require(fits, " stretch", "a length and a factor of at least 1", received)
    names = tuple(RULES) if rules is None else rules
    wrong = next((name for name in names if name not in RULES), None)
    near = "" if wrong is None else suggest(wrong, RULES)
    require(wrong is None, " stretch: rules", "rules", repr(wrong), near)
    plain, length = spec.replace(scaling=()), round(trained * grown)
    baseline, before = Baseline(plain, trained), wavelengths(plain)
    slow = before > trained
    drawn, left_out = [], {}
    for name in [name for name in names if name != "given" or spec.scalings]:
        try:
            own = spec.scalings if name == "given" else EXTENDING[name].make(grown, trained)
            drawn.append(_rule(name, spec.replace(scaling=own), baseline, before, length))
        except PosencError as error:
            left_out[name] = str(error)
    stretch = Stretch(
        tuple(drawn),
        trained,
        length,
        grown,
        int(slow.sum()),
        int(baseline.fast.sum()),
        int(slow.argmax()) if slow.any() else len(slow),
        left_out,
        brief(plain),
        (),
        plain,
    )
    return replace(stretch, caption=_caption(stretch))


def _measured(
    spec: RoPE, original_length: int | None, factor: float | None, rules: tuple[str, ...]
) -> Stretch:
    """The losses of the models that were trained, of which each has one rotation and one length."""
    caller, view = " stretch: loss", measured.data(rules[0])
    alone, received = (original_length, factor) == (None, None), f"{original_length} and {factor}"
    require(
        alone,
        caller,
        "no length and no factor",
        received,
        "Leave them out: the models that were trained have one length and one factor.",
    )
    losses = view.losses
    own = losses.spec.replace(pairing=spec.pairing)
    require(
        spec.replace(scaling=()) == own,
        caller,
        f"the rotation that the models were trained with, {brief(own)}",
        brief(spec),
        "Pass that one.",
    )
    return Stretch(
        (), losses.trained, losses.length, losses.length / losses.trained, view.slow, 0, 0, {},
        view.title, view.caption, own, view,
    )  # fmt: skip


def _rule(name: str, spec: RoPE, baseline: Baseline, before: np.ndarray, length: int) -> Rule:
    settled = spec.at(max(1, length))
    after = wavelengths(settled)
    with np.errstate(invalid="ignore"):
        stretch = np.where(np.isinf(before), 1.0, after / before)
    return Rule(
        name,
        (" and ".join(type(s).__name__ for s in spec.scalings) + ", as given")
        if name == "given"
        else RULES[name],
        after,
        stretch,
        effect(baseline, settled, length),
    )


def _caption(stretch: Stretch) -> tuple[str, ...]:
    factors = [r for r in stretch.rules if r.effect.attention_factor != 1]
    listed = "; ".join(f"{r.label} {number(r.effect.attention_factor)}" for r in factors)
    return present(
        f"Trained on {whole(stretch.original_length)} positions, stretched "
        f"×{number(stretch.factor)} to {whole(stretch.length)}. "
        f"{plural(stretch.slow, 'pair')} finish no turn in training; "
        f"{stretch.fast} finish {FAST:g} or more.",
        *(
            f"{words}: {'; '.join(f'{r.label} {getattr(r.effect, name)}' for r in stretch.rules)}."
            for words, name in (
                (f"Slow pairs, of {stretch.slow}, that meet unseen angles", "unseen"),
                (f"Fast pairs, of {stretch.fast}, that lose their step", "lost"),
            )
        ),
        f"Attention factor: {listed}." if factors else "",
        *(f"{RULES[name]} is left out: {why}" for name, why in stretch.left_out.items()),
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return (
        measured.rows(data.loss)
        if data.loss is not None
        else (
            ["rule", "pair", "wavelength", "stretch"],
            (
                [rule.label, pair, rule.wavelengths[pair], rule.stretch[pair]]
                for rule in data.rules
                for pair in range(len(rule.wavelengths))
            ),
        )
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: Stretch, front: str = "") -> tuple[Chart | Matrix | TableOfText, ...]:
    """Wavelengths and stretch of each pair, with one rule in front, and the counts; or losses."""
    return (
        measured.panels(data.loss)
        if data.loss is not None
        else (_wavelengths(data, front), _stretches(data, front), _counts(data))
    )


def _series(data: Stretch, what: str, front: str) -> tuple[Series, ...]:
    return tuple(
        Series(
            rule.label,
            np.arange(len(y)) + 0.5,
            float32(np.where(np.isfinite(y), y, np.nan)),
            rule.style,
            front=rule.name == front,
        )
        for rule, y in ((rule, getattr(rule, what)) for rule in data.rules)
    )


def _finite(data: Stretch, what: str) -> np.ndarray:
    everything = np.concatenate([getattr(rule, what) for rule in data.rules])
    return everything[np.isfinite(everything)]


def _slow_band(data: Stretch) -> tuple[Mark, ...]:
    if not data.slow:
        return ()
    text, end = plural(data.slow, "slow pair"), float(len(data.rules[0].stretch))
    return (Mark("x", float(data.first_slow), text, to=end, style="band"),)


def _wavelengths(data: Stretch, front: str) -> Chart:
    finite = _finite(data, "wavelengths")
    return Chart(
        id="wavelengths",
        title="wavelength, positions (log)",
        x=cells("", 0, len(data.rules[0].stretch), key="j"),
        y=logarithmic(
            "",
            min(float(finite.min(initial=6.0)), data.original_length) / 1.2,
            max(float(finite.max(initial=10.0)), data.length) * 4,
        ),
        series=_series(data, "wavelengths", front),
        marks=(
            *_slow_band(data),
            Mark(
                "y",
                data.original_length,
                f"trained length {whole(data.original_length)}",
                style="solid",
            ),
            Mark("y", data.length, f"new length {whole(data.length)}"),
        ),
        place="half",
        height=220,
        label="Wavelength of each pair under each rule",
    )


def _stretches(data: Stretch, front: str) -> Chart:
    finite = _finite(data, "stretch")
    least, most = float(finite.min(initial=1.0)), float(finite.max(initial=1.0))
    return Chart(
        id="stretch",
        title="stretch of each pair, × (log)",
        x=cells(PAIRS, 0, len(data.rules[0].stretch), key="j"),
        y=logarithmic("", min(least, 1.0) * 0.92, max(most, data.factor, 1.1) * 1.35, base=2),
        series=_series(data, "stretch", front),
        marks=_slow_band(data),
        place="half",
        height=220,
        label="Stretch of each pair under each rule",
    )


def _counts(data: Stretch) -> TableOfText:
    return TableOfText(
        "counts",
        "what each rule costs",
        (
            "rule",
            "slow pairs that meet unseen angles",
            "fast pairs that lose their step",
            "attention factor",
            "new share of a circle",
            "change in short texts",
        ),
        tuple(
            (
                rule.label,
                count(rule.effect.unseen, data.slow),
                count(rule.effect.lost, data.fast),
                number(rule.effect.attention_factor, 5),
                number(rule.effect.arc, 2),
                number(rule.effect.change, 2),
            )
            for rule in data.rules
        ),
        caption="Slow: no full turn within the trained length. Fast: 32 turns or more. Lost: "
        "changed by over 1 %. New: the most that a slow pair meets for the first time. Short "
        "texts: the largest change of a score within the trained length, over the largest score. "
        + " ".join(f"{RULES[k]}: {v}" for k, v in data.left_out.items()),
    )
