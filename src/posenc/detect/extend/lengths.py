"""Where training ended, and how far a context is to go."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.reading import Layer
from posenc.detect.extend.rules import Baseline
from posenc.scaling.ramps import YaRN


def trained_rotation(layer: Layer, trained: int | None, doubts: str = "") -> Baseline:
    """What a layer was trained with, by the lengths of its config, or as the caller says.

    `doubts` are about lengths of the config that are none.
    """
    spec: Any = layer.spec
    own = next((s for s in spec.scalings if s.stretches), None)
    original = getattr(own, "original_length", None)
    if trained is not None:
        if trained < 1:
            raise ArgumentError(mismatch("extend: trained", "a length", trained))
        kept = own is not None and (original is None or trained > original)
        return Baseline(spec.at(trained) if kept else _plain(spec), trained, kept)
    declared = layer.length
    if declared is None and original is None:
        todo = "Say it: trained=8192."
        raise DataError(mismatch("extend", "a trained length", f"none in the config{doubts}", todo))
    if own is None:
        return Baseline(spec, int(declared or 0))
    if original is not None and (declared is None or declared == original):
        return Baseline(_plain(spec), original)
    if original is not None and declared is not None and declared < original:
        # Files that raise the original length above the declared one state no single length.
        received = f"{declared} declared, {original} before the scaling"
        todo = "Say where training ended: trained=…."
        raise DataError(mismatch("extend", "lengths that agree", received, todo))
    return Baseline(spec.at(declared), int(declared or 0), True)


def _plain(spec: Any) -> Any:
    """The rotation without the rule that stretches it, and without its magnitude."""
    kept = tuple(s for s in spec.scalings if not s.stretches)
    if kept == spec.scalings:
        return spec
    return spec.replace(scaling=kept, magnitude=spec.magnitude.replace(attention_factor=None))


def stated_factor(layer: Layer, grown: float) -> str:
    """What becomes of an attention factor that a config states beside a YaRN, if it does."""
    spec: Any = layer.spec
    stated = spec.magnitude.attention_factor
    own = next((s for s in spec.scalings if isinstance(s, YaRN)), None)
    if stated is None or own is None:
        return ""
    # By YaRN's own rule, the factor of which this is the attention factor.
    meant = math.exp(min(10 * (stated - 1), 700))
    text = f"The config states an attention factor of {stated:.5g}, that of factor {meant:.4g}"
    if belongs(stated, own):
        return f"{text}, its own: under a larger factor its attention factor is written."
    larger = own.replace(factor=own.factor * grown)
    return (
        f"{text}, while its own factor is {own.factor:g}: it is kept under a larger one, where "
        f"{larger.factor:g} asks for {larger.attention_factor():.5g}. Measure both."
    )


def belongs(stated: float | None, own: Any) -> bool:
    """Whether an attention factor that is stated is the one that the scaling itself asks for."""
    asked = own.attention_factor() if isinstance(own, YaRN) else math.nan
    return stated is not None and math.isclose(stated, asked, rel_tol=1e-3)


def check_numbers(to: Any, factor: Any, trained: Any) -> None:
    """Raise `ArgumentError` where a length is no integer, or the factor no number."""
    for name, value, kind in (
        ("to", to, Integral),
        ("factor", factor, Real),
        ("trained", trained, Integral),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            expected = "an integer" if kind is Integral else "a number"
            raise ArgumentError(mismatch(f"extend: {name}", expected, repr(value)[:80]))


def new_length(trained: int, to: int | None, factor: float | None) -> int:
    """The length that is asked for, which is above the trained one."""
    if (to is None) == (factor is None):
        received = "neither" if to is None else "both"
        raise ArgumentError(mismatch("extend", "to or factor", received))
    if factor is not None:
        if not 1 <= factor <= 2**20:
            raise ArgumentError(mismatch("extend: factor", "a number from 1 to 2**20", factor))
        to = round(trained * factor)
    assert to is not None  # noqa: S101 - one of the two is given
    if not trained < to <= 2**31:
        todo = "Nothing has to be written for it." if to <= trained else ""
        expected = f"a length above the trained {trained}, up to 2**31"
        raise ArgumentError(mismatch("extend: to", expected, to, todo))
    return int(to)
