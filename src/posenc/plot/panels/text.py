"""Numbers as people read them: a true minus sign, commas between thousands, labels of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from posenc._core.spec.answers import brief as written
from posenc._core.spec.spec import Value

MINUS = "\u2212"
LONGEST = 90  # characters of a spec
NEARLY = 1e-12  # what sums of float64 leave of a whole number
T = TypeVar("T")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Tick:
    """A label at a place of an axis, in data units."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Described:
    """What the data of every picture say of themselves."""

    title: str
    caption: tuple[str, ...]


def whole(n: float) -> str:
    """An integer with its thousands apart."""
    return f"{round(n):,}".replace("-", MINUS)


def number(x: float, digits: int = 4) -> str:
    """A number to some significant digits, in powers of ten where it is very large or small."""
    if not math.isfinite(x):
        return "not a number" if math.isnan(x) else "∞" if x > 0 else f"{MINUS}∞"
    size = abs(float(x))
    if size < 1e15 and abs(size - round(size)) <= NEARLY * size:
        return whole(x)
    if 1e-4 <= size < 1e15:
        after = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{size:,.{after}f}"
        text = text.rstrip("0").rstrip(".") if after else text
    else:
        mantissa, exponent = f"{size:.{max(digits - 1, 0)}e}".split("e")
        text = f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return (MINUS if x < 0 else "") + text


def signed(x: float, places: int = 4) -> str:
    """A number to some places after the point."""
    if not math.isfinite(x):
        return number(x)
    text = f"{x:,.{places}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text.replace("-", MINUS)


def plural(n: int, word: str, words: str = "") -> str:
    """`1 pair`, `2 pairs`."""
    return f"{whole(n)} {word if n == 1 else words or word + 's'}"


def brief(value: Value) -> str:
    """A spec as it is written, cut where it is long."""
    text = written(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def count(n: int, of: int) -> str:
    """`3 of 18`."""
    return f"{whole(n)} of {whole(of)}"


def present(*items: T | None) -> tuple[T, ...]:
    """The items that there are: None and empty texts are left out."""
    return tuple(item for item in items if item)


def ticks(low: float, high: float, most: int = 6) -> tuple[Tick, ...]:
    """Round numbers of a linear axis, at most about `most` of them."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return (Tick(low, number(low)),) if math.isfinite(low) else ()
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(f for f in (1, 2, 5, 10) if span / (step * f) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple(
        Tick(at, signed(at, places) if at else "0")
        for at in (n * step for n in range(first, last + 1))
    )


def log_ticks(low: float, high: float, most: int = 7, base: int = 10) -> tuple[Tick, ...]:
    """Round numbers of a logarithmic axis."""
    if not (0 < low < high and math.isfinite(high)):
        return ()
    first = math.ceil(math.log(low, base) - 1e-9)
    last = math.floor(math.log(high, base) + 1e-9)
    if last - first >= 2 or base != 10:
        chosen: Iterable[float] = (
            float(base) ** n
            for n in range(first, last + 1, max(1, math.ceil((last - first + 1) / most)))
        )
    else:
        chosen = (
            at
            for at in (f * 10.0**n for n in range(first - 1, last + 1) for f in (1.0, 2.0, 5.0))
            if low * (1 - 1e-9) <= at <= high * (1 + 1e-9)
        )
    return tuple(Tick(at, _power(at)) for at in chosen)


def named_ticks(names: np.ndarray, start: int, stop: int, most: int) -> tuple[Tick, ...]:
    """Ticks at round names, and at those after them, which stand elsewhere: sines and cosines."""
    round_names = [int(tick.at) for tick in ticks(0, len(names) - 1, most)]
    shown = [one for name in round_names for one in (name, name + 1) if one in names]
    places = [(int(np.flatnonzero(names == one)[0]), whole(one)) for one in shown]
    return tuple(Tick(at + 0.5, text) for at, text in sorted(places) if start <= at < stop)


def spread(low: float, high: float, share: float = 0.05) -> tuple[float, float]:
    """A domain a little wider than its values, never empty."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return (-1.0, 1.0)
    room = (high - low) * share or max(abs(high) * share, 1e-6)
    return low - room, high + room


def _power(at: float) -> str:
    if 1e-3 <= at < 1e7:
        return whole(at) if at >= 1 else number(at, 1)
    return number(at, 1).replace("1 × ", "")
