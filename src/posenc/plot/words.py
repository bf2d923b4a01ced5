"""Numbers as people read them in captions: thousands apart, a true minus sign, few digits."""

from __future__ import annotations

import math

from posenc._core.spec.brief import brief as written
from posenc._core.spec.spec import Value

LONGEST = 90


def whole(n: float) -> str:
    """An integer with its thousands apart."""
    return f"{round(n):,}".replace("-", "\N{MINUS SIGN}")


def number(x: float, digits: int = 4) -> str:
    """A number in about so many significant digits, thousands apart where it is large."""
    if math.isnan(x):
        return "no number"
    if math.isinf(x):
        return "infinity" if x > 0 else "\N{MINUS SIGN}infinity"
    if x == 0 or 1e-4 <= abs(x) < 10**digits:
        text = f"{x:,.{digits}g}"
    elif abs(x) >= 10**digits and abs(x) < 1e15:
        text = f"{x:,.0f}"
    else:
        text = f"{x:.{max(digits - 1, 1)}e}".replace("e-0", "e-").replace("e+0", "e+")
    return text.replace("-", "\N{MINUS SIGN}")


def plural(word: str) -> str:
    """The plural of the few words that are counted here."""
    return {"axis": "axes"}.get(word, f"{word}s")


def counted(n: float, word: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{whole(n)} {word if n == 1 else plural(word)}"


def brief(value: Value, longest: int = LONGEST) -> str:
    """A spec as it is written, cut where it is long."""
    text = written(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
