"""What differs, in words: one sentence for each thing, whoever finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

FEW = 4  # numbers that are listed
SENTENCES = {
    "base": "{}{}",
    "scaling": "{}, as in {}",
    "layer": "that of {}",
    "offset": "position p {} {}",
    "begun": "positions counted from the first one of the call",
    "constant": "position 0, wherever they differ",
    "rounding": "frequencies in {}",
    "held": "positions held in {}",
    "partial": "a partial rotation, of {} of {} channels",
    "whole": "{} channels that turn",
    "sine": "cosine and sine are exchanged",
    "widened": "its numbers were rounded to {} before they were stored",
    "backward": "pair {} turns backward",
    "several backward": "pairs {} turn backward",
    "exchanged": "pairs {} and {} are exchanged",
    "moved": "pairs {} turn as pairs {} do",
    "still": "pair {} does not turn",
    "faster": "pair {} turns {} % faster",
    "slower": "pair {} turns {} % slower",
    "times": "pair {} turns {} times as fast",
    "slope": "slope {} is {} % off",
}
# The same of slopes of heads.
SLOPES = {
    "rounding": "slopes in {}",
    "backward": "slope {} has the other sign",
    "several backward": "slopes {} have the other sign",
    "exchanged": "slopes {} and {} are exchanged",
    "moved": "slopes {} are those of heads {}",
}


def of_slopes(what: str, *values: Any) -> str:
    """The sentence for what differs in slopes."""
    return SLOPES[what].format(*values)


def say(what: str, *values: Any) -> str:
    """The sentence for what differs."""
    return SENTENCES[what].format(*values)


def offset(places: int) -> str:
    """Positions that are counted otherwise."""
    return say("offset", "+" if places > 0 else "-", abs(places))


def share(turning: int, width: int) -> str:
    """How many channels turn, and whether these are a part of a head."""
    return say("partial" if turning < width else "whole", turning, width)


def backward(pairs: Sequence[int], says: Callable[..., str] = say) -> str:
    """Pairs of the other direction."""
    return says("several backward" if len(pairs) > 1 else "backward", some(pairs))


def moved(pairs: Sequence[tuple[int, int]], says: Callable[..., str] = say) -> str:
    """Pairs that have each other's frequencies."""
    ours, theirs = zip(*pairs, strict=True)
    return says("exchanged", *ours) if len(ours) == 2 else says("moved", some(ours), some(theirs))


def some(pairs: Sequence[int]) -> str:
    """A few of many."""
    return ", ".join(map(str, pairs[:FEW])) + (f", … ({len(pairs)})" if len(pairs) > FEW else "")


def speed(pair: int, factor: float) -> str:
    """A pair of another frequency than the rule's."""
    if factor == 0 or not 0.5 <= factor < 2:
        return say("times" if factor else "still", pair, f"{factor:.4g}")
    return say("faster" if factor > 1 else "slower", pair, f"{100 * abs(factor - 1):.3g}")


def slope(head: int, factor: float) -> str:
    """A head of another slope than the rule's."""
    return say("slope", head, f"{100 * abs(factor - 1):.3g}")
