"""Stretch: what the rules that extend a context do to each pair, and what that costs."""

from __future__ import annotations

import numpy as np

from posenc.plot.panels.axes import cells, float32, logarithmic
from posenc.plot.panels.grammar import Chart, Mark, Series, TableOfText
from posenc.plot.panels.text import count, number, plural, thin, whole
from posenc.plot.pictures.wavelengths import PAIRS
from posenc.plot.views.stretch import RULES, Stretch


def panels(data: Stretch, front: str = "") -> tuple[Chart | TableOfText, ...]:
    """Wavelengths and stretch of each pair, with one rule in front, and the counts."""
    return _wavelengths(data, front), _stretches(data, front), _counts(data)


def _series(data: Stretch, what: str, front: str) -> tuple[Series, ...]:
    curves = ((rule, getattr(rule, what)) for rule in data.rules)
    return tuple(
        Series(
            rule.label,
            np.arange(len(y)) + 0.5,
            float32(np.where(np.isfinite(y), y, np.nan)),
            rule.style,
            front=rule.name == front,
        )
        for rule, y in curves
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
    low = min(float(finite.min(initial=6.0)), data.original_length) / 1.2
    high = max(float(finite.max(initial=10.0)), data.length) * 1.3
    trained = f"trained length {whole(data.original_length)}"
    return Chart(
        id="wavelengths",
        title="wavelength, positions (log)",
        x=cells("", 0, len(data.rules[0].stretch), key="j"),
        y=logarithmic("", low, high),
        series=_series(data, "wavelengths", front),
        marks=(
            *_slow_band(data),
            Mark("y", data.original_length, trained, style="solid"),
            Mark("y", data.length, f"new length {whole(data.length)}"),
        ),
        height=270,
        label="Wavelength of each pair under each rule",
    )


def _stretches(data: Stretch, front: str) -> Chart:
    finite = _finite(data, "stretch")
    most, least = float(finite.max(initial=1.0)), float(finite.min(initial=1.0))
    return Chart(
        id="stretch",
        title="stretch of each pair, × (log)",
        x=cells(PAIRS, 0, len(data.rules[0].stretch), key="j"),
        y=logarithmic("", min(least, 1.0) * 0.92, max(most, data.factor, 1.1) * 1.12),
        series=_series(data, "stretch", front),
        marks=_slow_band(data),
        height=190,
        label="Stretch of each pair under each rule",
    )


def _counts(data: Stretch) -> TableOfText:
    rows = tuple(
        (
            rule.label,
            count(rule.effect.unseen, data.slow),
            count(rule.effect.lost, data.fast),
            number(rule.effect.attention_factor, 5),
            number(rule.effect.arc, 2),
            number(rule.effect.change, 2),
        )
        for rule in data.rules
    )
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
        rows,
        caption="Slow: no full turn within the trained length. Fast: 32 turns or more. Lost: "
        "changed by over 1 %. New: the most that a slow pair meets for the first time. Short "
        "texts: the largest change of a score within the trained length, over the largest score. "
        + thin(" ".join(f"{RULES[k]}: {v}" for k, v in data.left_out.items())),
    )
