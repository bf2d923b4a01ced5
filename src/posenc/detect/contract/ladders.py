"""Frequencies that no field gives but code had; bases and widths solved from numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from posenc import functional
from posenc.detect.contract.fields import words
from posenc.detect.contract.seen import Seen, estimated, frequencies_of
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling import Llama3, YaRN

__all__ = ["ladders", "rebuilt"]


def ladders(spec: RoPE, seen: Seen) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Frequencies that no spec has, but code did."""
    ours = frequencies_of(spec, seen.length)
    for dtype, bits in (("bfloat16", 8), ("float16", 11)):
        mantissa, exponent = np.frexp(ours)
        rounded = np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)
        yield "dtype", "frequencies in float32", f"frequencies in {dtype}", rounded
    for scaling in spec.scalings:
        if isinstance(scaling, YaRN):
            yield from _swapped(spec, scaling)
        if isinstance(scaling, Llama3):
            yield from _by_wavelength(spec, scaling)


def rebuilt(spec: RotarySpec, seen: Seen) -> Iterator[tuple[str, str, RotarySpec]]:
    """Another base or width, worked out from the second pair, which most scalings leave alone."""
    if not isinstance(spec, RoPE) or seen.positions.ndim > 1 or spec.ladder.spacing != "geometric":
        return
    if isinstance(spec.base, tuple):
        return  # one for each axis
    theirs = estimated(seen)
    turning = np.flatnonzero((theirs > 0) & (np.arange(theirs.size) > 0) & (theirs < 1))
    if not turning.size:
        return
    j = int(turning[0])
    width = -2 * j * math.log(spec.base) / math.log(theirs[j])
    base = theirs[j] ** (-spec.dim / (2 * j))
    for scaling in dict.fromkeys((spec.scaling, ())):
        tail = "" if scaling == spec.scaling else ", without the scaling"
        if abs(width - round(width)) < 1e-3 and round(width) > 0:
            ladder = spec.ladder.replace(denominator=round(width) / 2)
            said = f"frequencies of a width of {round(width)}{tail}"
            yield "dim", said, spec.replace(ladder=ladder, scaling=scaling)
        for digits in (1, 2, 3, 4, 6, 9):
            rounded = float(f"{base:.{digits - 1}e}")
            if 1 < rounded < 1e15:
                yield "base", f"{words(rounded)}{tail}", spec.replace(base=rounded, scaling=scaling)


def _swapped(spec: RoPE, scaling: YaRN) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp between bounds that stand the wrong way round."""
    known, index = spec.base, np.arange(spec.pairs)
    if isinstance(known, tuple):
        return
    plain = known ** (-2 * index / spec.dim)

    def bound(turns: float) -> float:
        length = scaling.original_length / (2 * math.pi * turns)
        return spec.dim * math.log(length) / (2 * math.log(known))

    for whole in (True, False):
        low, high = bound(scaling.beta_slow), bound(scaling.beta_fast)
        if whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, spec.dim - 1)
        if low == high:
            continue
        t = np.clip((index - low) / (high - low), 0, 1)
        ours = f"{words(scaling.beta_fast)}, and beta_slow {words(scaling.beta_slow)}"
        yield "scaling.beta_fast", ours, "both swapped", plain * (1 - t + t / scaling.factor)


def _by_wavelength(spec: RoPE, scaling: Llama3) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """The ramp of Llama 3 linear in the wavelength, where it is linear in the turns."""
    plain = functional.frequencies(spec.replace(scaling=()))
    with np.errstate(divide="ignore"):
        waves = 2 * math.pi / plain / scaling.original_length
    long, short = 1 / scaling.low_freq_factor, 1 / scaling.high_freq_factor
    if long > short:
        t = np.clip((waves - short) / (long - short), 0, 1)
        told = ("a ramp in turns", "a ramp in wavelengths")
        # Code had it the wrong way round too, between its ends.
        for share in (t, np.where((t > 0) & (t < 1), 1 - t, t)):
            yield "scaling", *told, plain / (1 - share + share * scaling.factor)
            yield "scaling", *told, plain * (1 - share + share / scaling.factor)
